//! The real file system (`nearhead-fs`) over a volume on a disk model, in virtual time, and who uses it in figures.
//!
//! A [`Bench`] is a mounted file system with its users: threads ([`Script`]) that call it as programs call a kernel, one call at a time,
//! and wait for the answer or for a moment. What they find on it is an [`Image`], made in memory before the clock starts. The same scripts,
//! image, mode and volume give the same answers at the same instants: [`Bench::digest`] says so.

mod appenders;
mod bench;
mod bulk;
mod filebench;
mod ground;
mod image;
mod log_replay;
mod postmark;
mod small_files;
mod stores;

pub(crate) use appenders::{AppendOptions, bytes_of, prepare_files, start_appenders};
pub(crate) use bench::{Act, Bench, Script};
pub(crate) use bulk::{BulkFile, BulkFileOptions};
pub(crate) use filebench::{FileSet, Personality};
pub(crate) use ground::{FileMethod, Ground, mounted, mounted_again, mounted_at, with_one_journal};
pub(crate) use image::Image;
pub(crate) use log_replay::{Flushes, LogCall, LogTrace, prepare_logs, start_replay};
pub(crate) use postmark::{Postmark, PostmarkOptions};
pub(crate) use small_files::{Durable, SmallFiles, SmallFilesOptions};
pub(crate) use stores::{StoreOptions, prepare_log, start_store};

#[cfg(test)]
mod tests;

use nearhead_disk::{Buffer, BufferMut};
use nearhead_sim::workload::Tally;
use std::cell::RefCell;
use std::rc::Rc;

/// What a script counts and whoever started it reads.
pub(crate) type Counted = Rc<RefCell<Tally>>;

/// So many bytes that are not zeros; whoever writes more than once slices one of them, so that memory holds it once.
pub(crate) fn filler(len: usize) -> Buffer {
    let mut buffer = BufferMut::zeroed(len);
    buffer.fill(0xA5);
    buffer.freeze()
}
