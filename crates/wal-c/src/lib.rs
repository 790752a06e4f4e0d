//! `libnearhead_wal`: streams and logs for C, declared in `include/nearhead_wal.h`.
//!
//! Thin: every function checks its pointers, calls the library, and turns its outcome into a code
//! and a message. No panic crosses into C, no handle can be used by two threads at once (streams wait
//! for each other, logs are made for threads), and nothing is ever freed but by the two `close`.
#![expect(unsafe_code, reason = "C hands over pointers, and calls by unmangled names")]
#![expect(unreachable_pub, reason = "C reaches them by their names")]

mod log;
mod outcome;
mod stream;
