//! The file as a program sees it, over a service that tells what reached it. The programs are
//! processes of their own (`dd` and its like), as the crate's rule asks.

use crate::{Mounted, NAME, Options, unmount};
use nearhead_disk::{Buffer, BufferMut, Nanos, Payload};
use nearhead_service::{
    ErrorKind, Extent, Operation, Reply, Request, RequestError, Service, ServiceInfo, Wake,
};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SIZE_BYTES: u64 = 1 << 20;
/// How long the service takes for each request.
const DELAY: Nanos = Nanos::from_millis(3);

/// A disk in memory that is slow and keeps a record.
struct Recorder {
    bytes: Vec<u8>,
    due: VecDeque<(Nanos, Reply)>,
    ready: VecDeque<Reply>,
    told: Arc<Mutex<Vec<String>>>,
    stopping: bool,
}

impl Recorder {
    fn new(told: &Arc<Mutex<Vec<String>>>) -> Self {
        let (due, ready) = (VecDeque::new(), VecDeque::new());
        let bytes = vec![0; SIZE_BYTES as usize];
        Self { bytes, due, ready, told: Arc::clone(told), stopping: false }
    }

    fn carry_out(&mut self, operation: Operation) -> Result<Vec<Payload>, RequestError> {
        match operation {
            Operation::Read { offset, len } => {
                let range = offset as usize..offset as usize + len as usize;
                // In two parts, as a volume may answer.
                let (left, right) = self.bytes[range].split_at(len as usize / 2);
                let part = |bytes: &[u8]| -> Buffer { BufferMut::copy_of(bytes).freeze() };
                Ok(vec![Payload::Bytes(part(left)), Payload::Bytes(part(right))])
            }
            Operation::Write { offset, .. } if !offset.is_multiple_of(512) => {
                Err(RequestError::new(ErrorKind::Invalid, "no whole sectors"))
            }
            Operation::Write { offset, data: Payload::Bytes(data), .. } => {
                self.bytes[offset as usize..][..data.len()].copy_from_slice(&data);
                Ok(Vec::new())
            }
            Operation::WriteZeroes { offset, len, .. } => {
                self.bytes[offset as usize..(offset + len) as usize].fill(0);
                Ok(Vec::new())
            }
            _ => Ok(Vec::new()),
        }
    }
}

impl Service for Recorder {
    fn info(&self) -> ServiceInfo {
        ServiceInfo {
            description: "recorder".to_owned(),
            size_bytes: SIZE_BYTES,
            block_bytes_min: 512,
            block_bytes_preferred: 4096,
            request_bytes_max: 1 << 20,
            read_only: false,
            rotational: false,
            fast_zero: false,
        }
    }

    fn submit(&mut self, request: Request, now: Nanos) {
        let word = format!("{:?}", request.operation);
        let word = word.split([' ', '{']).next().unwrap_or_default().to_owned();
        self.told.lock().unwrap().push(word);
        let result = self.carry_out(request.operation);
        self.due.push_back((now + DELAY, Reply { id: request.id, result }));
    }

    fn drive(&mut self, now: Nanos) {
        while let Some((_, reply)) = self.due.pop_front_if(|(at, _)| *at <= now) {
            self.ready.push_back(reply);
        }
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.ready.pop_front()
    }

    fn wake(&self) -> Wake<'_> {
        Wake::precisely(self.due.front().map(|(at, _)| *at))
    }

    fn block_status(&self, _offset: u64, len: u64, _runs_max: usize) -> Vec<Extent> {
        vec![Extent::data(len)]
    }

    fn losses(&self) -> u64 {
        0
    }

    fn begin_shutdown(&mut self, _: Nanos) {
        self.told.lock().unwrap().push("Shutdown".to_owned());
        self.stopping = true;
    }

    fn is_shut_down(&self) -> bool {
        self.stopping && self.due.is_empty()
    }
}

struct Rig {
    folder: PathBuf,
    mounted: Option<Mounted>,
    told: Arc<Mutex<Vec<String>>>,
}

impl Rig {
    /// None where nothing can be mounted; says so.
    fn new(name: &str, volatile_cache: bool) -> Option<Self> {
        Self::with(name, Options { volatile_cache, timer_look: Nanos::from_micros(40) })
    }

    fn with(name: &str, options: Options) -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            println!("skipped: mounting needs root and /dev/fuse");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("nearhead-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let told = Arc::default();
        let mounted = Mounted::new(Recorder::new(&told), Instant::now(), &folder, options);
        Some(Self { folder, mounted: Some(mounted.unwrap()), told })
    }

    fn shell(&self, script: &str) -> (bool, String) {
        let script = script.replace("FILE", &self.folder.join(NAME).display().to_string());
        let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    fn ok(&self, script: &str) -> String {
        let (success, text) = self.shell(script);
        assert!(success, "{script}: {text}");
        text
    }

    fn told(&self, word: &str) -> usize {
        self.told.lock().unwrap().iter().filter(|it| *it == word).count()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let Some(mounted) = self.mounted.take() else { return };
        let ended = unmount(&self.folder);
        if !std::thread::panicking() {
            ended.unwrap();
            mounted.wait().unwrap();
            let told = self.told.lock().unwrap();
            assert_eq!(told.last().map(String::as_str), Some("Shutdown"), "it is made durable");
        }
        let _ = std::fs::remove_dir(&self.folder);
    }
}

#[test]
fn what_is_written_is_read_wherever_it_is_and_there_is_one_file_of_one_size() {
    let Some(rig) = Rig::new("one-file", true) else { return };
    rig.ok("printf 'near the head' | dd of=FILE bs=512 seek=3 conv=notrunc,sync status=none");
    let read = rig.ok("dd if=FILE bs=512 skip=3 count=1 status=none | tr -d '\\0'");
    assert_eq!(read, "near the head");
    let all = rig.ok("ls $(dirname FILE); stat -c %s FILE; cat FILE | wc -c");
    assert_eq!(all, format!("{NAME}\n{SIZE_BYTES}\n{SIZE_BYTES}\n"));
    rig.ok("fallocate --punch-hole --offset 1536 --length 512 FILE");
    assert_eq!(rig.ok("dd if=FILE bs=512 skip=3 count=1 status=none | tr -d '\\0'"), "");
    assert_eq!(rig.told("WriteZeroes"), 1);
}

#[test]
fn what_a_disk_cannot_do_is_refused_with_the_error_that_says_so() {
    let Some(rig) = Rig::new("one-file-refused", true) else { return };
    for (script, expected) in [
        ("truncate --size 5 FILE", "Operation not permitted"),
        ("printf x | dd of=FILE bs=1 seek=7 conv=notrunc status=none", "Invalid argument"),
        ("printf x | dd of=FILE bs=512 seek=2048 conv=notrunc,sync status=none", "No space left"),
        ("cat $(dirname FILE)/other", "No such file"),
        ("touch $(dirname FILE)/other", "not implemented"),
    ] {
        let (success, text) = rig.shell(script);
        assert!(!success && text.contains(expected), "{script}: {text}");
    }
}

#[test]
fn a_flush_reaches_a_disk_that_could_lose_something_and_no_other() {
    for (volatile_cache, flushes) in [(true, 3), (false, 0)] {
        let Some(rig) = Rig::new("one-file-flush", volatile_cache) else { return };
        for _ in 0..3 {
            rig.ok("printf x | dd of=FILE bs=512 conv=notrunc,sync,fsync status=none");
        }
        assert_eq!((rig.told("Flush"), rig.told("Write")), (flushes, 3));
    }
}

#[test]
fn a_reply_always_comes_and_is_never_early_however_long_the_clock_is_looked_at() {
    // Never, for part of the way and all the way: with an alarm for each reply, for some and for none.
    for timer_look in [Nanos::ZERO, Nanos(DELAY.0 / 2), Nanos(DELAY.0 * 2)] {
        let options = Options { volatile_cache: false, timer_look };
        let Some(rig) = Rig::with("one-file-time", options) else { return };
        let began = Instant::now();
        let write =
            "dd if=/dev/zero of=FILE bs=4096 count=50 oflag=direct conv=notrunc status=none";
        rig.ok(&format!("{write} & {write} & {write}; wait"));
        assert!(began.elapsed() >= Duration::from_nanos(50 * DELAY.0));
        assert_eq!(rig.told("Write"), 150);
    }
}

#[test]
fn a_folder_that_is_none_is_told_of() {
    let told = Arc::default();
    let options = Options { volatile_cache: false, timer_look: Nanos::ZERO };
    let missing = Path::new("/nearhead-no-such-folder");
    let problem = Mounted::new(Recorder::new(&told), Instant::now(), missing, options);
    let problem = problem.map(drop).unwrap_err();
    assert!(problem.contains("/nearhead-no-such-folder"), "{problem}");
}
