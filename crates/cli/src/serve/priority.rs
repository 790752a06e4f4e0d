//! How much of the processors the serving thread may have: a nice value of -10 where that is allowed.
//!
//! Who serves a disk works whenever somebody waits for it. On a processor that somebody else uses all of, a
//! thread may have half, and each time it has had more it waits. A server of many threads escapes that: each of
//! its threads has slept for long when its turn comes. The engine has one thread on purpose, which computes a
//! third of the time of a client that never pauses, so it says that it counts for more, as daemons that disks
//! depend on do. It needs a privilege (`CAP_SYS_NICE`, or `RLIMIT_NICE`); without it nothing is changed and
//! nothing is said, since the volume is served all the same. A value that whoever started it chose (`nice -n 5`)
//! is never changed but by `--nice`.

use rustix::process::{getpriority_process, setpriority_process};

/// Nine times the weight of a thread at 0 (`sched(7)`: 1.25 times a step).
const NICE: i32 = -10;

/// Applies `wish`, or [`NICE`] to a thread that nobody gave another value than the usual one. Threads started from
/// here on have it as well.
///
/// # Errors
/// A wish that the kernel refuses.
pub fn take(wish: Option<i32>) -> Result<(), String> {
    if let Some(nice) = wish {
        return setpriority_process(None, nice).map_err(|error| refused(nice, &error));
    }
    if getpriority_process(None) == Ok(0) {
        let _ = setpriority_process(None, NICE);
    }
    Ok(())
}

fn refused(nice: i32, error: &dyn std::fmt::Display) -> String {
    format!(
        "--nice {nice}: {error}; below 0 (or the present value) takes root, CAP_SYS_NICE or a limit that \
         allows it (RLIMIT_NICE; under systemd: Nice=); leave it out to be served as it is"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each in a thread of its own: on Linux the value is a thread's.
    fn in_thread(body: impl FnOnce() + Send + 'static) {
        std::thread::spawn(body).join().unwrap();
    }

    #[test]
    fn what_whoever_started_it_chose_is_left_as_it_is() {
        in_thread(|| {
            setpriority_process(None, 7).unwrap();
            take(None).unwrap();
            assert_eq!(getpriority_process(None), Ok(7));
        });
    }

    #[test]
    fn a_wish_counts_whatever_was_there() {
        in_thread(|| {
            setpriority_process(None, 7).unwrap();
            take(Some(9)).unwrap();
            assert_eq!(getpriority_process(None), Ok(9));
        });
    }

    #[test]
    fn without_a_wish_it_is_as_far_up_as_allowed_and_never_down() {
        in_thread(|| {
            if getpriority_process(None) != Ok(0) {
                return println!("skipped: the tests run with a nice value of their own");
            }
            let allowed = std::thread::spawn(|| setpriority_process(None, NICE).is_ok()).join();
            take(None).unwrap();
            let expected = if allowed.unwrap() { NICE } else { 0 };
            assert_eq!(getpriority_process(None), Ok(expected));
        });
    }
}
