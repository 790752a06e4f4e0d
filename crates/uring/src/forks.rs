//! Detects that a handle was inherited by `fork`.
//!
//! A child of `fork` gets a copy of the memory but none of the threads, and shares the open files
//! and their locks. A handle with threads, locks or a helper process must not do anything there:
//! joining a thread that does not exist hangs or aborts, and a write would land in the parent's file.
//! The check is one load, since durable appends make it: a counter that the C library's hook for
//! children (`pthread_atfork(3)`) increments.
#![expect(unsafe_code, reason = "no safe wrapper of pthread_atfork exists")]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// Forks between the process that first asked and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);
static HOOK: Once = Once::new();

unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The process that opened a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opener(u32);

impl Opener {
    /// This process. A child of `fork` made from now on is another one.
    pub fn this_process() -> Self {
        // SAFETY: the function stays as long as this library, whose end removes the hook. Without
        // memory for the hook children go undetected, as in any program without it.
        HOOK.call_once(|| unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        });
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether the handle was opened here rather than by a parent.
    pub fn is_this_process(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}

impl Default for Opener {
    fn default() -> Self {
        Self::this_process()
    }
}
