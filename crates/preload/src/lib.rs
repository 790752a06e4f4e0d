//! `libnearhead_preload.so`: what `nearhead run` puts in front of the C library of a program.
//!
//! Files that match the `--wal` patterns are written through a durable stream, files that match the
//! `--bulk` patterns in paced pieces, files that are opened with `O_DUR` are marked durability-only on Nearhead's own file system. Everything else passes: one load and a branch for each call. What it
//! keeps true: a program reads what it wrote, and what it synced survives; whatever cannot be routed
//! (a write into the middle, a mapping, a stdio stream over the descriptor) is first written home and
//! then left to the kernel, with one line about it. It must never fail a call that would have worked
//! without it, but for an error of the disk.
//!
//! ```text
//!  hooks_open  hooks_data  hooks_other  hooks_process   the functions that stand in for those of libc
//!  table       which descriptors are whose
//!  routed      a log file: untouched, then a stream, then perhaps the kernel's again
//!  durability  files that are opened with `O_DUR`
//!  bulk        a bulk file: paced by the latency of the streams
//!  settings                               what `nearhead run` said
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
