//! One operation on one side, by the system calls and tools that real programs use.
//!
//! Never retries and never hides an error: the errno and the count are what is compared.

use crate::act::{Part, Way, What};
use crate::content;
use crate::side::Open;
use nearhead_disk::BufferMut;
use rustix::fs::FallocateFlags;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Errno of a device that fails.
pub const EIO: i32 = 5;
/// Errno of an operation that a device does not have.
pub const EOPNOTSUPP: i32 = 95;

/// Result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes done, or errno.
    pub result: Result<u64, i32>,
    /// Bytes that a read returned.
    pub bytes: Vec<u8>,
}

impl Outcome {
    fn of(result: std::io::Result<u64>) -> Self {
        let result = result.map_err(|error| error.raw_os_error().unwrap_or(-1));
        Self { result, bytes: Vec::new() }
    }

    /// Words for a message.
    pub fn describe(&self) -> String {
        match self.result {
            Ok(count) => format!("{count} bytes"),
            Err(errno) => std::io::Error::from_raw_os_error(errno).to_string(),
        }
    }
}

/// Carries out `part` on the open device, which is at `path`.
pub fn carry_out(part: &Part, open: &Open, path: &Path) -> Outcome {
    let Part { what, at, len } = *part;
    match what {
        What::Write(way, number) => {
            let mut buffer = BufferMut::zeroed(len as usize);
            buffer.copy_from_slice(&content::bytes(number, at, len));
            let written = file_of(open, way).write_at(&buffer, at).map(|count| count as u64);
            // What only the page cache has is lost with a device that dies, so that nothing could be compared afterwards.
            let synced = |count| match way {
                Way::Direct => Ok(count),
                Way::Buffered => open.buffered.sync_data().map(|()| count),
            };
            Outcome::of(written.and_then(synced))
        }
        What::Read(way) => {
            let mut buffer = BufferMut::zeroed(len as usize);
            let read = file_of(open, way).read_at(&mut buffer, at);
            let mut outcome = Outcome::of(read.map(|count| count as u64));
            outcome.bytes = buffer[..outcome.result.unwrap_or(0) as usize].to_vec();
            outcome
        }
        What::Punch => {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let done = rustix::fs::fallocate(&open.buffered, flags, at, len);
            Outcome::of(done.map(|()| len).map_err(Into::into))
        }
        What::Zero => by_tool(path, &["--zeroout"], at, len),
        What::Discard => by_tool(path, &[], at, len),
        What::Flush => Outcome::of(open.buffered.sync_all().map(|()| 0)),
    }
}

fn file_of(open: &Open, way: Way) -> &File {
    match way {
        Way::Direct => &open.direct,
        Way::Buffered => &open.buffered,
    }
}

/// `blkdiscard`: its ioctls have no safe wrapper. Its errno is known from its words alone.
fn by_tool(device: &Path, words: &[&str], at: u64, len: u64) -> Outcome {
    let range = [format!("--offset={at}"), format!("--length={len}")];
    let words = words.iter().copied().chain(range.iter().map(String::as_str));
    let args: Vec<_> = words.map(std::ffi::OsStr::new).chain([device.as_os_str()]).collect();
    let done = crate::tools::ok("blkdiscard", &args).map(|_| len).map_err(|words| {
        let errno = if words.contains("not supported") { EOPNOTSUPP } else { EIO };
        std::io::Error::from_raw_os_error(errno)
    });
    Outcome::of(done)
}

/// Reads `len` bytes at `at` past the page cache; `at` and `len` are whole blocks.
pub fn read_direct(open: &Open, at: u64, len: u64) -> Result<Vec<u8>, i32> {
    let part = Part { what: What::Read(Way::Direct), at, len };
    let outcome = carry_out(&part, open, Path::new(""));
    match outcome.result {
        Ok(count) if count == len => Ok(outcome.bytes),
        Ok(_) => Err(EIO),
        Err(errno) => Err(errno),
    }
}
