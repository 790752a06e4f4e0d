//! A thread that is on the processor again soon after it is woken, also where others compute.
//!
//! Whoever answers others sleeps most of the time and computes for microseconds. On a machine where every
//! processor has somebody who computes, such a thread still waits after each wake-up until a slice of theirs ends:
//! milliseconds, for a request that takes a tenth of one. Since Linux 6.12 a thread may ask for shorter slices
//! (`sched_runtime` of `sched_setattr(2)`, under the usual policy): it gets no more of the processor, only sooner and
//! in smaller parts. It takes no privilege, and those that the thread starts have it as well. Older kernels take
//! the wish and ignore it.
#![expect(unsafe_code, reason = "no safe wrapper of these system calls exists")]

use std::io;

/// The shortest that the kernel grants.
const SLICE_NS: u64 = 100_000;

/// Asks for short slices for the calling thread and those that it starts from here on. A thread that was given another
/// policy than the usual one keeps that as it is. Whether the kernel grants them.
///
/// # Errors
/// Those of the system calls: `EPERM` or `ENOSYS` where a filter forbids them.
pub fn ask_for_short_slices() -> io::Result<bool> {
    let mut attributes = attributes()?;
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(false);
    }
    attributes.sched_runtime = SLICE_NS;
    // SAFETY: the kernel reads `size` bytes of a structure that is as long, and keeps no address of it.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, SELF, &raw const attributes, 0) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(slice_ns()? == SLICE_NS)
}

/// As which thread: the calling one.
const SELF: libc::c_int = 0;

/// The slice of the calling thread in nanoseconds, as the kernel tells it; 0 before Linux 6.12.
fn slice_ns() -> io::Result<u64> {
    attributes().map(|attributes| attributes.sched_runtime)
}

fn attributes() -> io::Result<libc::sched_attr> {
    // SAFETY: all of it are integers, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let bytes = size_of::<libc::sched_attr>() as u32;
    // SAFETY: the kernel writes at most `bytes`, which is how long the structure is.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_getattr, SELF, &raw mut attributes, bytes, 0_u32) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // What the kernel knows beyond these fields is left as it is.
    attributes.size = bytes;
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_the_threads_own_and_of_those_it_starts() {
        let inside = std::thread::spawn(|| {
            let before = attributes();
            let granted = ask_for_short_slices();
            let after = attributes();
            let nice = |found: &io::Result<libc::sched_attr>| {
                found.as_ref().ok().map(|found| found.sched_nice)
            };
            assert_eq!(nice(&before), nice(&after), "it gets no more of the processor");
            let started = std::thread::spawn(attributes).join().unwrap();
            (before, granted, after, started)
        });
        let slice = |found: io::Result<libc::sched_attr>| found.unwrap().sched_runtime;
        match inside.join().unwrap() {
            (Err(error), ..) | (_, Err(error), ..) => {
                let is_forbidden = [Some(libc::EPERM), Some(libc::ENOSYS)];
                assert!(is_forbidden.contains(&error.raw_os_error()), "{error}");
                println!("skipped: it may not be asked for here: {error}");
            }
            (Ok(before), ..) if before.sched_runtime == 0 => {
                println!("skipped: this kernel knows no slices (before Linux 6.12)");
            }
            (_, Ok(granted), after, started) => {
                assert_eq!((granted, slice(after), slice(started)), (true, SLICE_NS, SLICE_NS));
            }
        }
        assert_ne!(slice_ns().ok(), Some(SLICE_NS), "the test's own thread asked for nothing");
    }
}
