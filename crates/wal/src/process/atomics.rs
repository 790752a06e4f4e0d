//! The atomics of the ring in shared memory, named in one place so that a test can build `ring.rs`
//! over atomics whose every interleaving it tries.

pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
