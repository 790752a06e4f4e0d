//! Signals of the program that a library's threads must leave to the program's own.
#![expect(unsafe_code, reason = "no safe wrapper of pthread_sigmask exists")]

use std::mem::MaybeUninit;

/// Blocks every signal in the calling thread: a handler of the program runs in a thread of the program.
///
/// For threads that a library starts in a program it knows nothing of. Signals of the thread's own
/// faults (`SIGSEGV`) still end the process.
pub fn block_signals() {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` fills the set in, and the other call only reads it.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_go_to_other_threads() {
        let status = std::thread::spawn(|| {
            block_signals();
            std::fs::read_to_string("/proc/thread-self/status").unwrap()
        });
        let status = status.join().unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
        let terminate = 1 << (libc::SIGTERM - 1);
        assert_eq!(blocked & terminate, terminate);
    }
}
