//! Where a container forbids `io_uring`, threads take over by themselves and say so.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by panicking")]
#![expect(unsafe_code, reason = "a seccomp filter stands in for the container")]

mod support;

use nearhead_uring::{Engine, OpenErrorKind, OpenOptions};
use support::*;

/// Makes `io_uring_setup` fail with `EPERM` for this thread alone, as container runtimes do.
fn forbid_io_uring() -> Result<(), std::io::Error> {
    let statement = |code: u32, k| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let number = libc::SYS_io_uring_setup as u32;
    let denied = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut program = [
        // Offset 0 of struct seccomp_data is the number of the system call.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        libc::sock_filter {
            jf: 1,
            ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number)
        },
        statement(libc::BPF_RET | libc::BPF_K, denied),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: both calls only read their arguments; the filter outlives the second.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) == 0
    };
    if done { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn without_io_uring_threads_take_over_and_say_so() {
    let scratch = Scratch::new("fallback");
    let path = scratch.image("disk.img", 4 * MIB);
    // The filter stays with its thread, so it gets one of its own.
    let filtered = std::thread::spawn(move || {
        if let Err(error) = forbid_io_uring() {
            println!("skipped: no seccomp filter can be set here: {error}");
            return;
        }
        let insisting = OpenOptions { engine: Engine::Uring, ..OpenOptions::default() };
        let error = nearhead_uring::open(&path, &insisting).err().unwrap();
        assert_eq!(error.kind, OpenErrorKind::NoUring, "{error}");
        assert!(error.detail.contains("use threads"), "says what to do: {error}");

        let mut disk = nearhead_uring::open(&path, &OpenOptions::default()).unwrap();
        assert_eq!(disk.engine(), Engine::Threads);
        let notes = disk.notes().join("\n");
        assert!(notes.contains("io_uring is not available"), "notes: {notes}");
        let bytes = pattern(65536, 1);
        write(&mut disk, 4096, &bytes, true);
        assert!(read(&mut disk, 4096, 65536) == bytes);
    });
    filtered.join().unwrap();
}
