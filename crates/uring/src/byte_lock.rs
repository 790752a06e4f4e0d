//! Byte-range locks that belong to an open file, as programs for virtual machines take them.
//!
//! `F_OFD_SETLK` and `F_OFD_GETLK` (`fcntl(2)`, "Open file description locks"): QEMU and `qemu-nbd`
//! lock single bytes of an image so, and see ours, which covers all bytes. A file system without such
//! locks is no error: `flock` keeps other Nearhead processes out all the same. Nothing waits here.
#![expect(unsafe_code, reason = "fcntl takes an untyped pointer")]

use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::io::Errno;

/// Somebody else's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The process, of locks that belong to one.
    pub(crate) pid: Option<u32>,
    /// A lock for reading of all bytes, which [`lock_all`] takes and programs for virtual machines do not.
    pub(crate) is_shared_by_us: bool,
}

/// Locks the whole file, for as long as it is open; `Some` if somebody else has a lock in it.
pub(crate) fn lock_all(file: impl AsFd, for_writing: bool) -> Option<Held> {
    let kind = if for_writing { libc::F_WRLCK } else { libc::F_RDLCK };
    match call(file.as_fd(), libc::F_OFD_SETLK, &mut whole(kind)) {
        Err(Errno::AGAIN | Errno::ACCESS) => {
            Some(holder(file).unwrap_or(Held { pid: None, is_shared_by_us: false }))
        }
        // Not known there: locked by `flock` alone.
        Ok(()) | Err(_) => None,
    }
}

/// Gives the lock of [`lock_all`] up.
pub(crate) fn unlock_all(file: impl AsFd) {
    // Closing the file unlocks as well.
    let _ = call(file.as_fd(), libc::F_OFD_SETLK, &mut whole(libc::F_UNLCK));
}

/// Who has a lock, of any kind, on any byte.
pub(crate) fn holder(file: impl AsFd) -> Option<Held> {
    let mut found = whole(libc::F_WRLCK);
    call(file.as_fd(), libc::F_OFD_GETLK, &mut found).ok()?;
    let is_held = found.l_type != libc::F_UNLCK as libc::c_short;
    is_held.then(|| Held {
        // -1 stands for a lock that belongs to an open file, 0 for a process outside this namespace.
        pid: u32::try_from(found.l_pid).ok().filter(|pid| *pid != 0),
        is_shared_by_us: found.l_type == libc::F_RDLCK as libc::c_short
            && (found.l_start, found.l_len) == (0, 0),
    })
}

fn whole(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

fn call(file: BorrowedFd<'_>, command: libc::c_int, lock: &mut libc::flock) -> Result<(), Errno> {
    // SAFETY: the descriptor is open for as long as it is borrowed, and both commands read and write
    // exactly one `flock`, which `lock` is, before the call returns.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(lock)) };
    if result == 0 {
        return Ok(());
    }
    let errno = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&errno).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, Mode, OFlags};

    #[test]
    fn only_a_lock_for_reading_of_all_bytes_is_taken_for_one_of_ours() {
        let ours = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        let path = format!("/proc/self/fd/{}", ours.as_raw_fd());
        let other = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
        assert_eq!(holder(&other), None);
        let lock = |kind, start, len| {
            let mut lock = libc::flock { l_start: start, l_len: len, ..whole(kind) };
            call(ours.as_fd(), libc::F_OFD_SETLK, &mut lock).unwrap();
            let held = holder(&other);
            unlock_all(&ours);
            held
        };
        for (kind, start, len, is_shared_by_us) in [
            (libc::F_RDLCK, 0, 0, true),
            (libc::F_RDLCK, 100, 1, false),
            (libc::F_RDLCK, 0, 1, false),
            (libc::F_RDLCK, 1, 0, false),
            (libc::F_WRLCK, 0, 0, false),
            (libc::F_WRLCK, 100, 1, false),
        ] {
            let held = Some(Held { pid: None, is_shared_by_us });
            assert_eq!(lock(kind, start, len), held, "{kind} of {len} bytes at {start}");
        }
        assert_eq!(holder(&other), None, "given up");
    }

    #[test]
    fn who_reads_shares_a_file_and_who_writes_has_it_alone() {
        let ours = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        let path = format!("/proc/self/fd/{}", ours.as_raw_fd());
        let other = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
        assert_eq!(lock_all(&ours, false), None);
        assert_eq!(lock_all(&other, false), None);
        assert_eq!(lock_all(&other, true), Some(Held { pid: None, is_shared_by_us: true }));
        unlock_all(&ours);
        assert_eq!(lock_all(&other, true), None);
        assert_eq!(lock_all(&ours, false), Some(Held { pid: None, is_shared_by_us: false }));
    }
}
