//! `libnearhead_preload.so`: what `nearhead run` puts in front of the C library of a program.
//!
//! Files that match the `--wal` patterns are logs. The kernel writes them as without the library, and
//! their syncs get a priority; with `--ahead` they are written through a durable stream with zeros ahead.
//! Files that match the `--bulk` patterns are written in paced pieces. Files that are opened with `O_DUR`
//! are marked durability-only on Nearhead's own file system. Everything else passes: one load and a
//! branch for each call.
//!
//! Invariants: a program reads what it wrote, and what it synced survives. A file with zeros ahead that
//! cannot be routed (a write into the middle, a mapping, a stdio stream over the descriptor) is first
//! written whole and then left to the kernel, with one line about it. No call fails that would have
//! succeeded without the library, but for an error of the disk.
//!
//! ```text
//!  hooks_open  hooks_data  hooks_other  hooks_process   the functions that stand in for those of libc
//!  synced      a log file of exact size: the kernel's, its syncs with priority
//!  table       which descriptors belong to which other file
//!  routed      a log file with zeros ahead: untouched, then a stream, then perhaps the kernel's again
//!  guard       the connection to the guardian, and cuts of zeros left by a power cut
//!  durability  files that are opened with `O_DUR`
//!  bulk        a bulk file: paced by the latency of syncs
//!  settings                               the variables that `nearhead run` sets
//!  raw         the system calls themselves
//! ```
#![expect(unsafe_code, reason = "it stands in for functions of the C library")]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod bulk;
mod durability;
mod guard;
mod hooks_data;
mod hooks_open;
mod hooks_other;
mod hooks_process;
mod raw;
mod routed;
mod settings;
mod synced;
mod table;
