//! The mode `process`: a log or stream whose writes go through a helper that is killed, hangs, or
//! outlives the program. Whatever was acknowledged is read back; nothing lands late. Everything here
//! is tried over the socket and over the ring.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

use nearhead_basics::SplitMix;
use nearhead_uring::{Access, DurableFile};
use nearhead_wal::process::{HelperOptions, OnDeath, ProcessWriter, Transport};
use nearhead_wal::storage::Directory;
use nearhead_wal::writer::{DurableWriter, Mode};
use nearhead_wal::{
    At, Geometry, LogOptions, Lsn, OpenOptions, Stream, StreamOptions, Tail, WalErrorKind, read_log,
};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Set for the process of a test that is to be killed: the directory of its log.
const CHILD_VARIABLE: &str = "NEARHEAD_TEST_CHILD";
/// And whether its helper is told through a ring.
const RING_VARIABLE: &str = "NEARHEAD_TEST_RING";

fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("process-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    path
}

fn helper(on_death: OnDeath, transport: Transport) -> HelperOptions {
    HelperOptions {
        program: env!("CARGO_BIN_EXE_nearhead-wal-helper").into(),
        arguments: Vec::new(),
        on_death,
        deadline: None,
        transport,
    }
}

fn options() -> OpenOptions {
    let geometry = Geometry { segment_bytes: 256 << 10, block_bytes: 4096, tail: Tail::Rewritten };
    let log = LogOptions { geometry, record_bytes_max: 60_000, ..LogOptions::default() };
    OpenOptions { log, mode: Mode::Process, direct: true, create: true }
}

fn record(lsn: u64) -> Vec<u8> {
    vec![lsn as u8; (lsn * 37 % 5000) as usize]
}

/// How many records a log has; each is what it should be.
fn count(path: &Path) -> u64 {
    let mut count = 0;
    read_log(path, |lsn, bytes| {
        count += 1;
        assert_eq!((lsn.0, bytes), (count, &record(count)[..]));
    })
    .unwrap();
    count
}

fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    assert!(status.success(), "kill {name} {pid}");
}

/// The helper of the program at `pid` that has files below `path` open.
fn helper_of(pid: u32, path: &Path) -> u32 {
    let mut children = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        // Threads of other tests come and go; one that is gone has no helper.
        let listed = task.and_then(|task| std::fs::read_to_string(task.path().join("children")));
        let Ok(listed) = listed else { continue };
        children.extend(listed.split_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
    }
    // A child of another test that is yet to become what it will be has everything open that its parent has.
    let command_line = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).ok();
    let parent = command_line(pid);
    children.retain(|child| command_line(*child) != parent);
    children.retain(|pid| {
        let Ok(mut open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        open.any(|fd| {
            let target = fd.and_then(|fd| std::fs::read_link(fd.path()));
            target.is_ok_and(|target| target.starts_with(path))
        })
    });
    assert_eq!(children.len(), 1, "{children:?}");
    children[0]
}

#[test]
fn a_log_written_by_a_helper_is_like_any_other() {
    log_is_like_any_other(Transport::Socket);
}

#[test]
fn a_log_written_by_a_helper_is_like_any_other_with_a_ring() {
    log_is_like_any_other(Transport::Ring);
}

fn log_is_like_any_other(transport: Transport) {
    let path = directory(&format!("log-{transport:?}"));
    for life in 0..3 {
        let opened =
            options().open_through(&path, &helper(OnDeath::Fail, transport), |_, _| {}).unwrap();
        let line = opened.choice.to_string();
        let way = if transport == Transport::Ring { "a ring in shared" } else { "a socket" };
        assert!(line.contains("a helper process") && line.contains(way), "{line}");
        let start = opened.recovered.next_lsn.0;
        assert_eq!(start, life * 120 + 1);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| opened.log.append_durable(&[]));
            }
        });
        drop(opened);
        let opened =
            options().open_through(&path, &helper(OnDeath::Fail, transport), |_, _| {}).unwrap();
        opened.log.truncate_prefix(Lsn(1)).unwrap();
        for lsn in start + 2..start + 120 {
            opened.log.append(&record(lsn)).unwrap();
        }
        opened.log.close().unwrap();
    }
    let mut total = 0;
    read_log(&path, |_, _| total += 1).unwrap();
    assert_eq!(total, 360);
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn a_stream_goes_on_when_its_helper_is_killed_again_and_again() {
    stream_goes_on(Transport::Socket);
}

#[test]
fn a_stream_goes_on_when_its_helper_is_killed_again_and_again_with_a_ring() {
    stream_goes_on(Transport::Ring);
}

fn stream_goes_on(transport: Transport) {
    let path = directory(&format!("stream-{transport:?}"));
    std::fs::create_dir(&path).unwrap();
    let writer = Arc::new(ProcessWriter::start(helper(OnDeath::Restart(1000), transport)).unwrap());
    let storage: Arc<Directory> = Arc::new(Directory::open(&path, true, writer.clone()).unwrap());
    let options = StreamOptions { ahead_bytes: 256 << 10, ..StreamOptions::default() };
    let mut stream = Stream::open(storage.clone(), "log", At::New, &options, None).unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let killer = {
        let (writer, is_done) = (Arc::clone(&writer), Arc::clone(&is_done));
        std::thread::spawn(move || {
            let mut random = SplitMix::new(1);
            let mut kills = 0;
            while !is_done.load(Ordering::Relaxed) {
                for _ in 0..random.below(20_000) {
                    std::hint::spin_loop();
                }
                if let Some(pid) = writer.helper_pid() {
                    // It may have been replaced just now.
                    let _ = Command::new("kill").args(["-9", &pid.to_string()]).output();
                    kills += 1;
                }
            }
            kills
        })
    };
    let mut random = SplitMix::new(2);
    let mut all = Vec::new();
    for _ in 0..150 {
        let byte = (random.next_u64() as u8).max(1);
        let more = vec![byte; random.below(200_000) as usize];
        stream.write(&more).unwrap();
        all.extend(more);
        assert_eq!(stream.sync().unwrap(), all.len() as u64);
        assert!(std::fs::read(path.join("log")).unwrap()[..all.len()] == all);
    }
    is_done.store(true, Ordering::Relaxed);
    let kills = killer.join().unwrap();
    assert!(writer.restarts_left() < 1000, "none of {kills} kills was noticed");
    stream.close().unwrap();
    assert!(std::fs::read(path.join("log")).unwrap() == all);
    // The helper let go of it, though it runs on.
    let again = Stream::open(storage, "log", At::End, &options, None).unwrap();
    assert_eq!(again.close().unwrap(), all.len() as u64);
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn a_log_that_may_have_no_other_helper_fails_loudly_and_loses_nothing() {
    log_fails_loudly(Transport::Socket);
}

#[test]
fn a_log_that_may_have_no_other_helper_fails_loudly_and_loses_nothing_with_a_ring() {
    log_fails_loudly(Transport::Ring);
}

fn log_fails_loudly(transport: Transport) {
    let path = directory(&format!("fail-{transport:?}"));
    let opened =
        options().open_through(&path, &helper(OnDeath::Fail, transport), |_, _| {}).unwrap();
    for lsn in 1..=20 {
        opened.log.append_durable(&record(lsn)).unwrap();
    }
    signal(helper_of(std::process::id(), &path), "-9");
    let error = opened.log.append_durable(&record(21)).unwrap_err();
    assert_eq!(error.kind, WalErrorKind::Stopped, "{error}");
    for word in ["helper process", "signal: 9", "open the log again"] {
        assert!(error.detail.contains(word), "{error}");
    }
    assert_eq!(opened.log.append_durable(b"x").unwrap_err().kind, WalErrorKind::Stopped);
    drop(opened);
    let opened =
        options().open_through(&path, &helper(OnDeath::Fail, transport), |_, _| {}).unwrap();
    assert!(opened.recovered.next_lsn >= Lsn(21));
    drop(opened);
    assert!(count(&path) >= 20);
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn a_helper_that_hangs_is_ended_before_another_one_writes() {
    hanging_helper_is_ended(Transport::Socket);
}

#[test]
fn a_helper_that_hangs_is_ended_before_another_one_writes_with_a_ring() {
    hanging_helper_is_ended(Transport::Ring);
}

fn hanging_helper_is_ended(transport: Transport) {
    let path = directory(&format!("hang-{transport:?}"));
    std::fs::create_dir(&path).unwrap();
    for (on_death, goes_on) in [(OnDeath::Restart(1), true), (OnDeath::Fail, false)] {
        let deadline = Some(Duration::from_millis(300));
        let options = HelperOptions { deadline, ..helper(on_death, transport) };
        let writer = ProcessWriter::start(options).unwrap();
        let name = path.join(format!("file-{goes_on}"));
        let file = DurableFile::open(&name, Access::Create, false).unwrap();
        writer.write_durable(&file, b"before", 0).unwrap();
        let hung = writer.helper_pid().unwrap();
        signal(hung, "-STOP");
        let outcome = writer.write_durable(&file, b"after!", 6);
        assert!(!Path::new(&format!("/proc/{hung}")).exists(), "it is gone, and reaped");
        if goes_on {
            outcome.unwrap();
            assert_eq!(std::fs::read(&name).unwrap(), b"beforeafter!");
        } else {
            let error = outcome.unwrap_err().to_string();
            assert!(error.contains("deadline"), "{error}");
            assert!(writer.write_durable(&file, b"x", 0).is_err(), "nothing is tried again");
        }
    }
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn a_helper_that_cannot_be_started_is_told_by_its_name() {
    missing_helper_is_told(Transport::Socket);
}

#[test]
fn a_helper_that_cannot_be_started_is_told_by_its_name_with_a_ring() {
    missing_helper_is_told(Transport::Ring);
}

fn missing_helper_is_told(transport: Transport) {
    let path = directory(&format!("missing-{transport:?}"));
    let missing =
        HelperOptions { program: "/nowhere/helper".into(), ..helper(OnDeath::Fail, transport) };
    let error = options().open_through(&path, &missing, |_, _| {}).map(drop).unwrap_err();
    assert_eq!(error.kind, WalErrorKind::NotFound);
    assert!(error.detail.contains("/nowhere/helper"), "{error}");
    let wrong = HelperOptions { program: "/bin/true".into(), ..helper(OnDeath::Fail, transport) };
    let error = options().open_through(&path, &wrong, |_, _| {}).map(drop).unwrap_err();
    assert!(error.detail.contains("ended: exit status: 0"), "{error}");
    std::fs::remove_dir_all(&path).unwrap();
}

/// Not a test by itself: the program that the next one kills.
#[test]
fn a_program_that_is_killed() {
    let Some(path) = std::env::var_os(CHILD_VARIABLE) else { return };
    let is_ring = std::env::var_os(RING_VARIABLE).is_some();
    let transport = if is_ring { Transport::Ring } else { Transport::Socket };
    let opened = options()
        .open_through(Path::new(&path), &helper(OnDeath::Restart(1), transport), |_, _| {})
        .unwrap();
    for lsn in opened.recovered.next_lsn.0.. {
        opened.log.append_durable(&record(lsn)).unwrap();
        // One write for the line: a macro makes two, and the kill may come between them.
        std::io::stderr().write_all(format!("acknowledged {lsn}\n").as_bytes()).unwrap();
    }
}

#[test]
fn a_killed_program_leaves_a_helper_that_keeps_others_out_while_it_writes() {
    orphan_keeps_others_out(Transport::Socket);
}

#[test]
fn a_killed_program_leaves_a_helper_that_keeps_others_out_while_it_writes_with_a_ring() {
    orphan_keeps_others_out(Transport::Ring);
}

fn orphan_keeps_others_out(transport: Transport) {
    let path = directory(&format!("orphan-{transport:?}"));
    let mut acknowledged = 0;
    for seed in 0..6 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        if transport == Transport::Ring {
            command.env(RING_VARIABLE, "1");
        }
        let mut child = command
            .args(["--exact", "a_program_that_is_killed", "--nocapture"])
            .env(CHILD_VARIABLE, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let most = 5 + SplitMix::new(seed).below(60);
        let mut stopped = None;
        for _ in 0..most {
            let line = lines.next().unwrap().unwrap();
            if let Some(lsn) = line.strip_prefix("acknowledged ") {
                acknowledged = lsn.parse().unwrap();
            }
        }
        if seed == 0 {
            // As long as the helper may write, nobody else gets in.
            let helper = helper_of(child.id(), &path);
            signal(helper, "-STOP");
            stopped = Some(helper);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        if let Some(helper) = stopped {
            let caller = OpenOptions { mode: Mode::Caller, ..options() };
            let error = caller.open(&path, |_, _| {}).map(drop).unwrap_err();
            assert_eq!(error.kind, WalErrorKind::InUse, "{error}");
            signal(helper, "-CONT");
        }
        for line in lines.map_while(Result::ok) {
            if let Some(lsn) = line.strip_prefix("acknowledged ") {
                acknowledged = lsn.parse().unwrap();
            }
        }
        let caller = OpenOptions { mode: Mode::Caller, ..options() };
        let mut found = 0;
        let opened = caller
            .open(&path, |lsn, bytes| {
                found += 1;
                assert_eq!((lsn.0, bytes), (found, &record(found)[..]), "seed {seed}");
            })
            .unwrap();
        assert!(found >= acknowledged, "seed {seed}: {acknowledged} acknowledged, {found} found");
        drop(opened);
    }
    assert!(acknowledged > 30);
    assert!(count(&path) >= acknowledged);
    std::fs::remove_dir_all(&path).unwrap();
}
