//! The file that keeps writes that are not durable yet: entries in the order of their submission, from a start that moves on.
//!
//! It is stored where memory outlives a process (a tmpfs, or any file system: its page cache does). A process that is killed leaves a whole
//! number of entries and perhaps the beginning of one, whose write was not answered; a machine that stops takes the file, and with it
//! nothing that a disk with a write cache promised to keep.
//!
//! ```text
//!  0        8        16       24          40           48       56      64
//!  | mark   | start  | mark   | volume id | generation | begun  | zeros | entries ...
//!
//!  an entry:  0      4      8        16       24      32
//!             | mark | kind | offset | length | bare  | bytes of a write ...
//! ```
//!
//! Numbers are little-endian. `start` is where the first entry begins that counts (a byte of the file; past its end: all was forgotten).
//! `bare` is 0 if bytes follow and 1 if none do. Kind 1 is a write, 2 zeros without bytes, 3 a request that failed and counts for nothing, 4 a trim. The second mark, the volume and its
//! generation say for which volume the entries are kept ([`KeptFor`]); `begun` counts openings that may have raised the generation since. An
//! older program has its entries from byte 16 on, and none of these fields. Lengths are checked against the file before memory is taken.

use crate::owner::{OWNER_BYTES, OWNER_MARK, Owner};
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
const HEAD_BYTES: u64 = 64;
/// Smallest start: that of a file of an older program.
const START_MIN: u64 = 16;
const OWNER_AT: u64 = 16;
const KIND_AT: u64 = 4;
const ENTRY_BYTES: u64 = 32;
const WRITE: u32 = 1;
const ZEROS: u32 = 2;
const NOTHING: u32 = 3;
const TRIM: u32 = 4;
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
    owner: Option<Owner>,
}

/// A place between two entries, counted from the first one that this process kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
        let mut kept = Self::of(file, end_of)?;
        if kept.start >= kept.end {
            kept.clear()?;
        }
        Ok(kept)
    }

    /// Opens the file at `path` to look at it, while another process may have it.
    pub(crate) fn look(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let same = file.try_clone()?;
        Self::of(file, same)
    }

    fn of(file: File, end_of: File) -> io::Result<Self> {
        let end = file.metadata()?.len();
        let mut kept = Self { file, end_of, start: HEAD_BYTES, end, before: 0, owner: None };
        if end < START_MIN {
            // Nothing counts in it.
            return Ok(kept);
        }
        let (mark, start) = (kept.u64_at(0)?, kept.u64_at(8)?);
        if mark != FILE_MARK || start < START_MIN {
            return Err(invalid(format!(
                "expected the mark {FILE_MARK:016x} and a start from {START_MIN} on, found {mark:016x} and {start}"
            )));
        }
        kept.start = start;
        if start >= HEAD_BYTES && end >= HEAD_BYTES && kept.u64_at(OWNER_AT)? == OWNER_MARK {
            let mut bytes = [0; OWNER_BYTES];
            kept.file.read_exact_at(&mut bytes, OWNER_AT)?;
            kept.owner = Some(Owner::read(&bytes));
        }
        Ok(kept)
    }

    /// The volume of the entries; none if an older program wrote them.
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// Says for which volume the entries are kept from now on, and how many openings of it were begun.
    pub(crate) fn set_owner(&mut self, owner: Owner) -> io::Result<()> {
        // Entries of an older program may begin before the place of the fields.
        if self.start >= HEAD_BYTES {
            self.file.write_all_at(&owner.bytes(), OWNER_AT)?;
        }
        self.owner = Some(owner);
        Ok(())
    }

    fn u64_at(&self, at: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Forgets everything but the volume.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        // A start past the end forgets everything, whatever of the rest is still done.
        self.file.write_all_at(&u64::MAX.to_le_bytes(), 8)?;
        if let Err(error) = ftruncate(&self.file, HEAD_BYTES) {
            // What is appended from here on counts again.
            self.file.write_all_at(&self.start.to_le_bytes(), 8)?;
            return Err(error.into());
        }
        let mut head = FILE_MARK.to_le_bytes().to_vec();
        head.extend_from_slice(&HEAD_BYTES.to_le_bytes());
        head.extend(self.owner.iter().flat_map(Owner::bytes));
        self.file.write_all_at(&head, 0)?;
        self.before += self.end.saturating_sub(HEAD_BYTES);
        (self.start, self.end) = (HEAD_BYTES, HEAD_BYTES);
        Ok(())
    }

    /// Bytes that count, with what stands in front of them.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Where the next entry will begin: all before it can be forgotten together.
    pub(crate) fn cut(&self) -> Cut {
        Cut(self.before + self.end)
    }

    /// Bytes that [`Self::forget_before`] would forget.
    pub(crate) fn bytes_before(&self, Cut(cut): Cut) -> u64 {
        cut.saturating_sub(self.before).min(self.end).saturating_sub(self.start)
    }

    /// Takes back the newest entries, from `cut` on.
    pub(crate) fn take_back(&mut self, Cut(cut): Cut) -> io::Result<()> {
        let end = cut.saturating_sub(self.before);
        if (self.start..self.end).contains(&end) {
            ftruncate(&self.file, end)?;
            self.end = end;
        }
        Ok(())
    }

    /// Makes the entries of one request, which begin at `cut`, count for nothing: the request failed.
    pub(crate) fn cancel(&self, Cut(cut): Cut, entries: usize) -> io::Result<()> {
        let mut at = cut.saturating_sub(self.before);
        for _ in 0..entries {
            let Some(head) = self.head_at(at)? else { return Ok(()) };
            self.file.write_all_at(&NOTHING.to_le_bytes(), at + KIND_AT)?;
            at = head.end;
        }
        Ok(())
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

    /// Keeps that bytes are not needed.
    pub(crate) fn keep_trim(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.append(&head_of(TRIM, offset, len), &[])
    }

    /// The head of the entry at `at`; none behind the last whole entry.
    pub(crate) fn head_at(&self, at: u64) -> io::Result<Option<Head>> {
        if self.end.saturating_sub(at) < ENTRY_BYTES {
            return Ok(None);
        }
        let (marks, offset, len) = (self.u64_at(at)?, self.u64_at(at + 8)?, self.u64_at(at + 16)?);
        let (mark, kind) = (marks as u32, (marks >> 32) as u32);
        // What failed may have bytes: whether it does, its length field says no more than that of a write.
        let has_bytes = kind == WRITE || (kind == NOTHING && self.u64_at(at + 24)? == 0);
        let is_known = matches!(kind, WRITE | ZEROS | NOTHING | TRIM);
        if mark != ENTRY_MARK || !is_known || (has_bytes && len > ENTRY_DATA_BYTES_MAX) {
            return Err(invalid(format!(
                "expected an entry at byte {at}, found mark {mark:08x}, kind {kind}, length {len}"
            )));
        }
        let data_at = at + ENTRY_BYTES;
        let bytes = if has_bytes { len } else { 0 };
        if self.end - data_at < bytes {
            return Ok(None);
        }
        Ok(Some(Head { kind, offset, len, data_at, end: data_at + bytes }))
    }

    /// The first request of the entries from `at` on that counts, and where the next entry begins; none behind the last whole one.
    pub(crate) fn entry_at(&self, mut at: u64) -> io::Result<Option<(Operation, u64)>> {
        loop {
            let Some(Head { kind, offset, len, data_at, end }) = self.head_at(at)? else {
                return Ok(None);
            };
            let operation = match kind {
                NOTHING => {
                    at = end;
                    continue;
                }
                // The entry does not say whether the range was to stay allocated: zeros take no space then.
                ZEROS => {
                    let (fua, fast_only, may_unmap) = (false, false, true);
                    Operation::WriteZeroes { offset, len, fua, fast_only, may_unmap }
                }
                TRIM => Operation::Trim { offset, len, fua: false },
                _ => {
                    let mut bytes = BufferMut::zeroed(len as usize);
                    self.file.read_exact_at(&mut bytes, data_at)?;
                    Operation::Write { offset, data: Payload::Bytes(bytes.freeze()), fua: false }
                }
            };
            return Ok(Some((operation, end)));
        }
    }

    /// Where the first entry begins.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }
}

/// What precedes the bytes of an entry.
pub(crate) struct Head {
    kind: u32,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    data_at: u64,
    pub(crate) end: u64,
}

impl Head {
    /// Whether the request counts.
    pub(crate) fn counts(&self) -> bool {
        self.kind != NOTHING
    }
}

fn head_of(kind: u32, offset: u64, len: u64) -> [u8; ENTRY_BYTES as usize] {
    let mut head = [0; ENTRY_BYTES as usize];
    head[0..4].copy_from_slice(&ENTRY_MARK.to_le_bytes());
    head[4..8].copy_from_slice(&kind.to_le_bytes());
    head[8..16].copy_from_slice(&offset.to_le_bytes());
    head[16..24].copy_from_slice(&len.to_le_bytes());
    // Tells later, of a request that failed, that no bytes follow.
    let has_none = u64::from(kind != WRITE);
    head[24..32].copy_from_slice(&has_none.to_le_bytes());
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
    use crate::KeptFor;

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
        let of = KeptFor { volume_id: [9; 16], generation: 5 };
        kept.set_owner(Owner { of, begun: 2 }).unwrap();
        let mut expected = b"NHkept01\x40\0\0\0\0\0\0\0NHfor001".to_vec();
        expected.extend_from_slice(&[9; 16]);
        expected.extend_from_slice(b"\x05\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        expected.extend_from_slice(b"entr\x01\0\0\0");
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

    #[test]
    fn entries_of_an_older_program_are_found() {
        let path = scratch("kept-older");
        let mut older = b"NHkept01\x10\0\0\0\0\0\0\0".to_vec();
        older.extend_from_slice(&head_of(WRITE, 1024, 512));
        older.extend_from_slice(&[3; 512]);
        older.extend_from_slice(&[&head_of(ZEROS, 0, 512)[..24], &[0; 8]].concat());
        std::fs::write(&path, older).unwrap();
        let mut kept = KeptFile::open(&path).unwrap();
        assert!(kept.owner().is_none());
        assert_eq!(offsets(&kept), [(1024, 512), (0, 512)]);
        let of = KeptFor { volume_id: [1; 16], generation: 1 };
        kept.set_owner(Owner { of, begun: 0 }).unwrap();
        kept.keep_write(4096, &bytes(512)).unwrap();
        assert_eq!(offsets(&KeptFile::open(&path).unwrap()).len(), 3);
        kept.clear().unwrap();
        assert_eq!(KeptFile::open(&path).unwrap().owner().unwrap().of, of);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_cancelled_request_counts_for_nothing() {
        let path = scratch("kept-cancel");
        let mut kept = KeptFile::open(&path).unwrap();
        let first = kept.cut();
        kept.keep_write(0, &bytes(512)).unwrap();
        kept.keep_write(512, &bytes(512)).unwrap();
        let zeros = kept.cut();
        kept.keep_zeros(1 << 20, 1 << 40).unwrap();
        kept.keep_trim(4096, 1 << 40).unwrap();
        kept.cancel(first, 2).unwrap();
        kept.cancel(zeros, 1).unwrap();
        let kept = KeptFile::open(&path).unwrap();
        let (operation, _) = kept.entry_at(kept.start()).unwrap().unwrap();
        assert!(matches!(operation, Operation::Trim { offset: 4096, .. }), "{operation:?}");
        std::fs::remove_file(path).unwrap();
    }
}
