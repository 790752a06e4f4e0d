//! I/O priority of the calling thread.
//!
//! Linux keeps it for each *thread* (`ioprio_set(2)`; measured on Linux 6.18, other than the paper on
//! WAL contention found), and the scheduler sees it on what the thread itself submits: direct I/O and
//! synchronous writes, not what is written back from the page cache. Only BFQ tells the levels of
//! best effort apart; mq-deadline looks at the class; `none` and kyber at neither.
#![expect(unsafe_code, reason = "no safe wrapper of these system calls exists")]

use std::io;

/// `IOPRIO_WHO_PROCESS`, which despite its name means one thread.
const ONE_THREAD: libc::c_int = 1;
/// As who: the calling thread.
const SELF: libc::c_int = 0;
const CLASS_SHIFT: u16 = 13;

/// A class and a level, as `ioprio_set(2)` packs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoPriority(u16);

impl IoPriority {
    /// Before everything else; needs `CAP_SYS_NICE` or `CAP_SYS_ADMIN`.
    pub const REAL_TIME: Self = Self(1 << CLASS_SHIFT);
    /// The first of the usual class; needs no privilege.
    pub const BEST_EFFORT_FIRST: Self = Self(2 << CLASS_SHIFT);
    /// The last of the usual class.
    pub const BEST_EFFORT_LAST: Self = Self(2 << CLASS_SHIFT | 7);

    /// Whether it is of the real-time class.
    pub fn is_real_time(self) -> bool {
        self.0 >> CLASS_SHIFT == 1
    }

    /// The number the kernel takes, also in `sqe->ioprio`.
    pub fn bits(self) -> u16 {
        self.0
    }
}

/// Gives the calling thread this priority.
///
/// # Errors
/// `EPERM` for the real-time class without the privilege.
pub fn set_thread_priority(priority: IoPriority) -> io::Result<()> {
    set_priority(SELF, priority)
}

/// Gives this priority to the thread with this number, of any process of the same user.
///
/// # Errors
/// `EPERM` without the privilege, `ESRCH` if there is no such thread.
pub fn set_priority_of(thread: u32, priority: IoPriority) -> io::Result<()> {
    // 0 would be the calling thread.
    let thread = libc::c_int::try_from(thread).ok().filter(|thread| *thread > 0);
    set_priority(thread.ok_or(io::ErrorKind::InvalidInput)?, priority)
}

fn set_priority(thread: libc::c_int, priority: IoPriority) -> io::Result<()> {
    // SAFETY: the call takes three integers and touches no memory of ours.
    let result = unsafe {
        libc::syscall(libc::SYS_ioprio_set, ONE_THREAD, thread, libc::c_int::from(priority.0))
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The priority of the calling thread.
pub fn thread_priority() -> io::Result<IoPriority> {
    priority(SELF)
}

/// The priority of the thread with this number.
pub fn priority_of(thread: u32) -> io::Result<IoPriority> {
    let thread = libc::c_int::try_from(thread).ok().filter(|thread| *thread > 0);
    priority(thread.ok_or(io::ErrorKind::InvalidInput)?)
}

fn priority(thread: libc::c_int) -> io::Result<IoPriority> {
    // SAFETY: the call takes two integers and touches no memory of ours.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_get, ONE_THREAD, thread) };
    u16::try_from(result).map(IoPriority).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_priority_is_its_own() {
        let before = thread_priority().unwrap();
        let inside = std::thread::spawn(|| {
            set_thread_priority(IoPriority::BEST_EFFORT_LAST).unwrap();
            thread_priority().unwrap()
        });
        assert_eq!(inside.join().unwrap(), IoPriority::BEST_EFFORT_LAST);
        assert_eq!(thread_priority().unwrap(), before);
    }
}
