//! Who is kept out, and who is told to have a file. The other process is this very test program.

use super::*;
use crate::loops::tests::Attached;
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const LOCKS: &str = "1: POSIX  ADVISORY  WRITE 41 fe:00:77 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 708 fe:00:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 9 fe:00:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 0 fe:00:78 0 EOF\n\
                     4: OFDLCK ADVISORY  WRITE -1 fe:00:79 0 EOF\n";

#[test]
fn the_owner_of_a_lock_is_found_by_device_and_inode() {
    assert_eq!(owner_in(LOCKS, 0xfe, 0, 77), Some(708));
    assert_eq!(owner_in(LOCKS, 0xfd, 0, 77), None);
    assert_eq!(owner_in(LOCKS, 0xfe, 0, 7), None);
}

#[test]
fn who_waits_for_a_lock_does_not_have_it() {
    assert_eq!(owner_in("2: -> FLOCK  ADVISORY  WRITE 9 fe:00:77 0 EOF", 0xfe, 0, 77), None);
}

#[test]
fn a_dead_or_unnamed_owner_is_nobody() {
    assert_eq!(owner_in(LOCKS, 0xfe, 0, 78), None);
    assert_eq!(owner_in(LOCKS, 0xfe, 0, 79), None);
}

#[test]
fn a_line_that_does_not_parse_is_passed_over() {
    assert_eq!(
        owner_in("nonsense\n\n5:\n1: FLOCK ADVISORY WRITE x fe:00:1 0 EOF", 0xfe, 0, 1),
        None
    );
}

/// A file of one test, removed afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let name = format!("nearhead-exclusive-{}-{test}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, [0; 512]).unwrap();
        Self(path)
    }

    fn open(&self) -> OwnedFd {
        rustix::fs::open(&self.0, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap()
    }

    fn lock(&self, file: &OwnedFd) -> Result<(), OpenError> {
        lock_file(file, &self.0.display().to_string(), true)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Another process with a lock on a file, until it is dropped.
struct Holder(Child);

impl Holder {
    fn start(kind: &str, path: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "exclusive::tests::hold_a_lock_for_another_test", "--nocapture"])
            .env("NEARHEAD_HOLD_LOCK", kind)
            .env("NEARHEAD_HOLD", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_held = told.any(|line| line.is_ok_and(|line| line.contains("held")));
        assert!(is_held, "no lock: {kind}");
        // What its harness reports in the end is of no interest.
        std::thread::spawn(move || told.for_each(drop));
        Self(child)
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // Told by the end of its input, it ends.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Not a test of its own: the other process of the tests below.
#[test]
fn hold_a_lock_for_another_test() {
    let Some(path) = std::env::var_os("NEARHEAD_HOLD") else { return };
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(PathBuf::from(path), flags, Mode::empty()).unwrap();
    let whole = FlockOperation::NonBlockingLockExclusive;
    match std::env::var("NEARHEAD_HOLD_LOCK").unwrap().as_str() {
        "of the file" => rustix::fs::flock(&file, whole).unwrap(),
        "of bytes, by the process" => rustix::fs::fcntl_lock(&file, whole).unwrap(),
        _ => assert_eq!(byte_lock::lock_all(&file, true), None),
    }
    println!("held");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn whoever_has_a_lock_of_any_kind_is_named_until_it_lets_go() {
    for kind in ["of the file", "of bytes, by the process", "of bytes, by the open file"] {
        let scratch = Scratch::new("named");
        let holder = Holder::start(kind, &scratch.0);
        let pid = format!("process {}", holder.0.id());
        let asked = crate::refuse_used_file(&scratch.0);
        for refused in [asked, scratch.lock(&scratch.open())] {
            let error = refused.expect_err(kind);
            assert_eq!(error.kind, OpenErrorKind::InUse, "{kind}: {error}");
            assert!(error.detail.contains(&pid), "{kind}: expected {pid} to be named: {error}");
        }
        drop(holder);
        crate::refuse_used_file(&scratch.0).unwrap();
    }
}

/// A lock of bytes says nothing to the loop device's own users.
#[test]
fn whoever_has_bytes_of_a_file_keeps_those_out_who_get_it_or_a_part_of_it_by_a_loop_device() {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    for kind in ["of bytes, by the process", "of bytes, by the open file"] {
        let scratch = Scratch::new("beneath");
        fs::write(&scratch.0, vec![0; 1 << 20]).unwrap();
        for part in [&[][..], &["--sizelimit", "524288"]] {
            let Some(device) = Attached::with(part, &scratch.0) else { return };
            let holder = Holder::start(kind, &scratch.0);
            let pid = format!("process {}", holder.0.id());
            let error = open_device(&device.0, flags).expect_err(kind);
            assert_eq!(error.kind, OpenErrorKind::InUse, "{kind}: {error}");
            assert!(error.detail.contains(&pid), "{kind}: expected {pid} to be named: {error}");
            drop(holder);
            open_device(&device.0, flags).unwrap();
        }
    }
}

#[test]
fn whoever_asks_whether_a_file_is_locked_keeps_nobody_out() {
    let scratch = Scratch::new("asked");
    crate::refuse_used_file(&scratch.0).unwrap();
    scratch.lock(&scratch.open()).unwrap();
    crate::refuse_used_file(&scratch.0).unwrap();
    refuse_locked(Path::new("/nowhere/at/all.img")).unwrap();
}

/// Opened as a file it would wait for whoever opens its other end.
#[test]
fn nobody_waits_for_the_other_end_of_a_pipe_that_took_the_place_of_a_file() {
    let scratch = Scratch::new("pipe");
    fs::remove_file(&scratch.0).unwrap();
    let (kind, mode) = (rustix::fs::FileType::Fifo, Mode::RUSR | Mode::WUSR);
    rustix::fs::mknodat(rustix::fs::CWD, &scratch.0, kind, mode, 0).unwrap();
    refuse_locked(&scratch.0).unwrap();
}

/// The kernel drops the last reference of a ring some time after its owner did.
#[test]
fn a_file_that_was_let_go_is_free_although_a_descriptor_of_it_is_still_open() {
    let scratch = Scratch::new("let-go");
    let (first, second) = (scratch.open(), scratch.open());
    scratch.lock(&first).unwrap();
    assert_eq!(scratch.lock(&second).unwrap_err().kind, OpenErrorKind::InUse);
    unlock_file(&first);
    scratch.lock(&second).unwrap();
}

/// Outcomes of attempts, one after the other.
fn attempts(outcomes: &[Result<u32, Errno>]) -> impl Fn() -> Result<u32, Errno> {
    let outcomes = RefCell::new(outcomes.iter().copied());
    move || outcomes.borrow_mut().next().expect("no attempt after one that settles it")
}

#[test]
fn an_attempt_that_was_interrupted_or_came_too_early_is_made_again() {
    let outcomes = [Err(Errno::INTR), Err(Errno::BUSY), Err(Errno::INTR), Err(Errno::BUSY), Ok(7)];
    let made = retry_while_owner_leaves(attempts(&outcomes), Errno::BUSY, || None);
    assert_eq!(made.ok(), Some(7));
}

#[test]
fn an_error_that_is_nobodys_doing_is_told_at_once() {
    let nobody = || panic!("nobody is to be asked for");
    let failed = retry_while_owner_leaves(attempts(&[Err(Errno::IO)]), Errno::BUSY, nobody);
    assert!(matches!(failed, Err(Failure::Other(Errno::IO))));
}

#[test]
fn a_user_that_stays_is_named() {
    let user = || User::process(std::process::id());
    let failed = retry_while_owner_leaves(|| Err::<(), _>(Errno::BUSY), Errno::BUSY, user);
    assert!(matches!(failed, Err(Failure::InUse(found)) if found == user()));
}
