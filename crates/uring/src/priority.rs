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

    #[test]
    fn another_thread_is_given_a_priority_by_its_number() {
        let (number_to, number) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let before = thread_priority().unwrap();
        let other = std::thread::spawn(move || {
            number_to.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            // Until the other end is gone.
            let _ = ended.recv();
            thread_priority().unwrap()
        });
        let number = number.recv().unwrap();
        set_priority_of(number, IoPriority::BEST_EFFORT_LAST).unwrap();
        assert_eq!(priority_of(number).unwrap(), IoPriority::BEST_EFFORT_LAST);
        drop(end);
        assert_eq!(other.join().unwrap(), IoPriority::BEST_EFFORT_LAST);
        assert_eq!(thread_priority().unwrap(), before, "nobody else's");
    }

    /// The kernel would take 0 for whoever asks.
    #[test]
    fn what_is_no_number_of_a_thread_is_refused() {
        let last = IoPriority::BEST_EFFORT_LAST;
        let before = thread_priority().unwrap();
        for number in [0, u32::MAX] {
            let refused = set_priority_of(number, last).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::InvalidInput, "{number}");
            assert_eq!(priority_of(number).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(thread_priority().unwrap(), before);
    }

    /// `IOPRIO_PRIO_VALUE` of `linux/ioprio.h`: the class in the bits from 13 on, the level below.
    #[test]
    fn a_priority_is_packed_as_the_kernel_takes_it() {
        for (priority, bits, is_real_time) in [
            (IoPriority::REAL_TIME, 0x2000, true),
            (IoPriority::BEST_EFFORT_FIRST, 0x4000, false),
            (IoPriority::BEST_EFFORT_LAST, 0x4007, false),
        ] {
            assert_eq!((priority.bits(), priority.is_real_time()), (bits, is_real_time));
        }
    }
}
