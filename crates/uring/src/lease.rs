//! A write lease: the proof that nothing else has a file open.
//!
//! `F_SETLEASE` with `F_WRLCK` (`fcntl(2)`, "Leases") succeeds only while the calling descriptor is the
//! only one that is open, in any process. From then on another opening waits in the kernel until the
//! lease is given up, which closing the descriptor does. A descriptor with `O_PATH` does not count.
#![expect(unsafe_code, reason = "fcntl takes an untyped argument")]

use rustix::fd::{AsFd, AsRawFd};
use std::io;

/// Which signal an opening that waits raises (`linux/fcntl.h`); missing from `libc`.
const F_SETSIG: libc::c_int = 10;

/// Result of [`take_lease`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// No other descriptor of the file is open, and none can be opened before this one is closed.
    Taken,
    /// Another descriptor is open.
    OpenElsewhere,
}

/// Takes the lease of an open file.
///
/// # Errors
/// `EINVAL` where the file system has no leases; `EACCES` for another user's file, without `CAP_LEASE`.
pub fn take_lease(file: impl AsFd) -> io::Result<Lease> {
    let fd = file.as_fd().as_raw_fd();
    // An opening that waits raises a signal, SIGIO by default, which ends a process. This one is ignored.
    // SAFETY: the descriptor is open for as long as it is borrowed; both commands take a number.
    let outcome = unsafe {
        if libc::fcntl(fd, F_SETSIG, libc::SIGURG) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK)
    };
    if outcome == 0 {
        return Ok(Lease::Taken);
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EAGAIN) { Ok(Lease::OpenElsewhere) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};

    #[test]
    fn a_lease_is_refused_while_anything_else_has_the_file() {
        let path = std::env::temp_dir().join(format!("nearhead-lease-{}", std::process::id()));
        std::fs::write(&path, b"bytes").unwrap();
        let open = || OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let first = open();
        let writer = open();
        assert_eq!(take_lease(&first).unwrap(), Lease::OpenElsewhere);
        drop(writer);
        let reader = File::open(&path).unwrap();
        assert_eq!(take_lease(&first).unwrap(), Lease::OpenElsewhere);
        drop(reader);
        assert_eq!(take_lease(&first).unwrap(), Lease::Taken);
        // Another opening waits for the end of the lease.
        let waiting = std::thread::spawn({
            let path = path.clone();
            move || File::open(path).unwrap()
        });
        drop(first);
        waiting.join().unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
