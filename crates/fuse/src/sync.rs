//! The locks that threads share here, named in one place so that a test can build [`crate::turns`] over locks whose every interleaving
//! it tries.

pub(crate) use std::sync::{Mutex, MutexGuard, TryLockError};
