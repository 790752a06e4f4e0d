//! The file that keeps what was answered and is not durable yet: entries in the order of their answers, from a start that moves on.
//!
//! It lies where memory outlives a process (a tmpfs, or any file system: its page cache does). A process that is killed leaves a whole
//! number of entries and perhaps the beginning of one, whose answer was not given then; a machine that stops takes the file, and with it
//! nothing that a disk with a write cache promised to keep.
//!
//! ```text
//!  0        8        16           16      20      24       32       40       48
//!  | mark   | start  |  entries:  | mark  | kind  | offset | length | 0      | bytes of a write ...
//! ```
//!
//! Numbers are little-endian; `start` is where the first entry begins that counts (a byte of the file; past its end: all was forgotten), kind 1
//! is a write, 2 zeros without bytes. It must never be read as more than it is: lengths are checked against the file before memory is taken.

use nearhead_disk::{BufferMut, Payload};
use nearhead_service::Operation;
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The name and the version of what follows.
const FILE_MARK: u64 = u64::from_le_bytes(*b"NHkept01");
const ENTRY_MARK: u32 = u32::from_le_bytes(*b"entr");
const HEAD_BYTES: u64 = 16;
const ENTRY_BYTES: u64 = 32;
const WRITE: u32 = 1;
const ZEROS: u32 = 2;
/// More than any request carries.
const ENTRY_DATA_BYTES_MAX: u64 = 64 << 20;

/// The file.
#[derive(Debug)]
pub(crate) struct KeptFile {
    /// For what stands at a place.
    file: File,
    /// Each write goes to the end.
    end_of: File,
    start: u64,
    end: u64,
    /// Bytes of entries that there were before the file was last emptied: a cut means the same entries also afterwards.
    before: u64,
}

/// A place between two entries, counted from the first one that this process kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut(u64);

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl KeptFile {
    /// Opens the file at `path`, an empty one if there is none.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path)?;
        let end_of = OpenOptions::new().append(true).open(path)?;
        let end = file.metadata()?.len();
        let mut kept = Self { file, end_of, start: HEAD_BYTES, end, before: 0 };
        if end < HEAD_BYTES {
            kept.clear()?;
            return Ok(kept);
        }
        let (mark, start) = (kept.u64_at(0)?, kept.u64_at(8)?);
        if mark != FILE_MARK || start < HEAD_BYTES {
            return Err(invalid(format!(
                "expected the mark {FILE_MARK:016x} and a start from {HEAD_BYTES} on, found {mark:016x} and {start}"
            )));
        }
        kept.start = start;
        if start > end {
            kept.clear()?;
        }
        Ok(kept)
    }

    fn u64_at(&self, at: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        // The end first: a start past it forgets everything, a start before old entries would bring them back.
        ftruncate(&self.file, HEAD_BYTES)?;
        self.before += self.end.saturating_sub(HEAD_BYTES);
        (self.start, self.end) = (HEAD_BYTES, HEAD_BYTES);
        let mut head = FILE_MARK.to_le_bytes().to_vec();
        head.extend_from_slice(&HEAD_BYTES.to_le_bytes());
        self.file.write_all_at(&head, 0)
    }

    /// Bytes that count, with what stands in front of them.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.end - self.start
    }

    /// Where the next entry will begin: all before it can be forgotten together.
    pub(crate) fn cut(&self) -> Cut {
        Cut(self.before + self.end)
    }

    /// Forgets what lies before `cut`.
    pub(crate) fn forget_before(&mut self, Cut(cut): Cut) -> io::Result<()> {
        // Where it is in the file now; before its beginning if that was emptied since.
        let Some(cut) = cut.checked_sub(self.before).filter(|cut| *cut > self.start) else {
            return Ok(());
        };
        if cut >= self.end {
            return self.clear();
        }
        self.file.write_all_at(&cut.to_le_bytes(), 8)?;
        self.start = cut;
        // The memory comes back where the file system can do that, and with the next clear everywhere.
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(&self.file, hole, HEAD_BYTES, cut - HEAD_BYTES);
        Ok(())
    }

    /// Keeps a write.
    pub(crate) fn keep_write(&mut self, offset: u64, data: &Payload) -> io::Result<()> {
        let len = data.len() as u64;
        match data {
            Payload::Bytes(bytes) => self.append(&head_of(WRITE, offset, len), bytes),
            Payload::Zeros(_) | Payload::Phantom(_) => {
                self.append(&head_of(ZEROS, offset, len), &[])
            }
        }
    }

    /// Keeps that bytes are zeros.
    pub(crate) fn keep_zeros(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.append(&head_of(ZEROS, offset, len), &[])
    }

    fn append(&mut self, head: &[u8], data: &[u8]) -> io::Result<()> {
        let wanted = head.len() + data.len();
        let done = write_whole(&mut self.end_of, head, data);
        if done.is_err() {
            // Half an entry must not stand in front of a whole one.
            ftruncate(&self.file, self.end)?;
        } else {
            self.end += wanted as u64;
        }
        done
    }

    /// The entry that begins at `at`, and where the next one does; none behind the last whole one.
    pub(crate) fn entry_at(&self, at: u64) -> io::Result<Option<(Operation, u64)>> {
        if self.end.saturating_sub(at) < ENTRY_BYTES {
            return Ok(None);
        }
        let (marks, offset, len) = (self.u64_at(at)?, self.u64_at(at + 8)?, self.u64_at(at + 16)?);
        let (mark, kind) = (marks as u32, (marks >> 32) as u32);
        let is_write = kind == WRITE;
        if mark != ENTRY_MARK
            || !(is_write || kind == ZEROS)
            || (is_write && len > ENTRY_DATA_BYTES_MAX)
        {
            return Err(invalid(format!(
                "expected an entry at byte {at}, found mark {mark:08x}, kind {kind}, length {len}"
            )));
        }
        let data_at = at + ENTRY_BYTES;
        if !is_write {
            // The entry does not say whether the range was to stay allocated: zeros take no space then.
            let (fua, fast_only, may_unmap) = (false, false, true);
            let zeros = Operation::WriteZeroes { offset, len, fua, fast_only, may_unmap };
            return Ok(Some((zeros, data_at)));
        }
        if self.end - data_at < len {
            return Ok(None);
        }
        let mut bytes = BufferMut::zeroed(len as usize);
        self.file.read_exact_at(&mut bytes, data_at)?;
        let data = Payload::Bytes(bytes.freeze());
        Ok(Some((Operation::Write { offset, data, fua: false }, data_at + len)))
    }

    /// Where the first entry begins.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }
}

fn head_of(kind: u32, offset: u64, len: u64) -> [u8; ENTRY_BYTES as usize] {
    let mut head = [0; ENTRY_BYTES as usize];
    head[0..4].copy_from_slice(&ENTRY_MARK.to_le_bytes());
    head[4..8].copy_from_slice(&kind.to_le_bytes());
    head[8..16].copy_from_slice(&offset.to_le_bytes());
    head[16..24].copy_from_slice(&len.to_le_bytes());
    head
}

fn write_whole(file: &mut File, head: &[u8], data: &[u8]) -> io::Result<()> {
    let total = head.len() + data.len();
    let mut done = 0;
    while done < total {
        let head = head.get(done..).unwrap_or_default();
        let data = data.get(done.saturating_sub(total - data.len())..).unwrap_or_default();
        match file.write_vectored(&[IoSlice::new(head), IoSlice::new(data)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(len) => done += len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("nearhead-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    fn offsets(kept: &KeptFile) -> Vec<(u64, u64)> {
        let (mut at, mut found) = (kept.start(), Vec::new());
        while let Some((operation, next)) = kept.entry_at(at).unwrap() {
            found.push(match operation {
                Operation::Write { offset, data, .. } => (offset, data.len() as u64),
                Operation::WriteZeroes { offset, len, .. } => (offset, len),
                other => panic!("{other:?}"),
            });
            at = next;
        }
        found
    }

    fn bytes(len: usize) -> Payload {
        Payload::Bytes(BufferMut::copy_of(&vec![7; len]).freeze())
    }

    #[test]
    fn entries_are_found_again_in_order_and_half_a_one_is_none() {
        let path = scratch("kept-order");
        let mut kept = KeptFile::open(&path).unwrap();
        kept.keep_write(4096, &bytes(512)).unwrap();
        kept.keep_zeros(1 << 40, 1 << 41).unwrap();
        kept.keep_write(0, &bytes(8192)).unwrap();
        let whole = kept.end;
        drop(kept);
        let expected = [(4096, 512), (1 << 40, 1 << 41), (0, 8192)];
        for missing in [0, 1, 8192, 8193, 8192 + ENTRY_BYTES] {
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            file.set_len(whole - missing).unwrap();
            let left = if missing == 0 { 3 } else { 2 };
            assert_eq!(offsets(&KeptFile::open(&path).unwrap()), expected[..left], "{missing}");
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_was_forgotten_is_not_found_again() {
        let path = scratch("kept-forgotten");
        let mut kept = KeptFile::open(&path).unwrap();
        kept.keep_write(0, &bytes(512)).unwrap();
        let cut = kept.cut();
        kept.keep_write(512, &bytes(512)).unwrap();
        kept.forget_before(cut).unwrap();
        assert_eq!(offsets(&KeptFile::open(&path).unwrap()), [(512, 512)]);
        kept.forget_before(kept.cut()).unwrap();
        assert_eq!(kept.len_bytes(), 0);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), HEAD_BYTES, "its memory is free");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_was_kept_after_a_cut_is_not_forgotten_with_it_also_if_all_before_it_was() {
        let path = scratch("kept-cuts");
        let mut kept = KeptFile::open(&path).unwrap();
        kept.keep_write(0, &bytes(8192)).unwrap();
        // Two flushes under way at once, and a write that was answered between their answers.
        let (first, second) = (kept.cut(), kept.cut());
        kept.forget_before(first).unwrap();
        kept.keep_write(512, &bytes(512)).unwrap();
        kept.forget_before(second).unwrap();
        assert_eq!(offsets(&KeptFile::open(&path).unwrap()), [(512, 512)]);
        kept.forget_before(kept.cut()).unwrap();
        assert_eq!(offsets(&KeptFile::open(&path).unwrap()), []);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_bytes_are_as_documented() {
        let path = scratch("kept-golden");
        let mut kept = KeptFile::open(&path).unwrap();
        kept.keep_write(0x0102_0304, &bytes(2)).unwrap();
        let mut expected = b"NHkept01\x10\0\0\0\0\0\0\0entr\x01\0\0\0".to_vec();
        expected.extend_from_slice(b"\x04\x03\x02\x01\0\0\0\0\x02\0\0\0\0\0\0\0");
        expected.extend_from_slice(b"\0\0\0\0\0\0\0\0\x07\x07");
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_file_of_anything_else_is_an_error() {
        let path = scratch("kept-other");
        std::fs::write(&path, [1; 100]).unwrap();
        assert!(KeptFile::open(&path).is_err());
        let mut text = b"NHkept01\x10\0\0\0\0\0\0\0".to_vec();
        text.resize(200, 0xff);
        std::fs::write(&path, text).unwrap();
        let kept = KeptFile::open(&path).unwrap();
        assert!(kept.entry_at(kept.start()).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
