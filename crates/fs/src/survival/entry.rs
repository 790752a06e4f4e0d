//! Entries of the log, and their bytes.
//!
//! ```text
//!  entry:  0      1        8        16        24
//!          | kind | number |  first |  length | `length` bytes ...
//!          | 1    | 7      |  8     |  8      |
//! ```
//!
//! `number` is a node or a block, `first` a page, a block's kind or nothing. A batch is entries one after the other: the log appends it
//! whole or not at all, so entries have no checksum. Reading checks every length; an entry of an unknown kind is an error, as another version
//! of the program wrote it.

use crate::error::FsError;
use crate::request::Answer;
use nearhead_basics::little_endian::u64_at;
use nearhead_disk::{Buffer, BufferMut};
use nearhead_ext4::{BlockBytes, Ino, KindCode, Times, Timestamp};
use std::sync::Arc;

/// Bytes of an entry before its contents.
const HEAD_BYTES: usize = 24;
/// Encoded facts: flags, references, size, four times of 13 bytes.
const FACTS_BYTES: usize = 1 + 8 + 9 + 4 * 13;

/// Kinds of entries, as the log has them.
mod kind {
    pub(super) const BLOCK: u8 = 1;
    pub(super) const DATA: u8 = 2;
    pub(super) const RECORD_MADE: u8 = 3;
    pub(super) const RECORD_DURABLE: u8 = 4;
    pub(super) const PAGES: u8 = 5;
    pub(super) const PAGES_GONE: u8 = 6;
    pub(super) const FILE: u8 = 7;
    pub(super) const ORPHAN: u8 = 8;
    pub(super) const ORPHAN_GONE: u8 = 9;
    pub(super) const ANSWER: u8 = 10;
}

/// Facts about a node that its metadata lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileFacts {
    pub(crate) references: u64,
    pub(crate) size: Option<u64>,
    pub(crate) times: Times,
    pub(crate) accessed: Option<Timestamp>,
    pub(crate) is_gone: bool,
    pub(crate) is_nameless: bool,
    pub(crate) has_error: bool,
}

/// An answer that a client may not have got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptAnswer {
    Nothing,
    /// The node; its attributes are read again.
    Node(Ino),
    Written(u32),
    Trimmed(u64),
    Failed(i32),
}

/// One entry.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A block of metadata that the next record brings.
    Block {
        block: u64,
        kind: KindCode,
        bytes: BlockBytes,
    },
    /// A block of a file that the next record brings.
    Data {
        block: u64,
        bytes: Buffer,
    },
    /// The record with all blocks before this entry is made, or durable.
    RecordMade,
    RecordDurable,
    /// Dirty pages of a file from this one on.
    Pages {
        ino: Ino,
        first: u64,
        bytes: Vec<Buffer>,
    },
    /// Pages of a file that are durable or cut away.
    PagesGone {
        ino: Ino,
        first: u64,
        count: u64,
    },
    File {
        ino: Ino,
        facts: FileFacts,
    },
    /// An inode that lives in memory.
    Orphan {
        ino: Ino,
        encoded: Vec<u8>,
    },
    OrphanGone {
        ino: Ino,
    },
    Answer {
        request: u64,
        answer: KeptAnswer,
    },
}

/// Bytes of a batch that follow one another, without a copy of those that are in memory already.
#[derive(Debug)]
enum Part {
    /// Heads and short contents.
    Small(Vec<u8>),
    Bytes(Buffer),
    Block(BlockBytes),
}

/// Entries that are appended together.
#[derive(Debug, Default)]
pub struct Batch {
    parts: Vec<Part>,
    len: u64,
}

impl Batch {
    /// A batch of this many kept answers, for tests of a log.
    pub fn of_answers(count: u64) -> Self {
        let mut batch = Self::default();
        for request in 0..count {
            batch.push(Entry::Answer { request, answer: KeptAnswer::Nothing });
        }
        batch
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Length in bytes.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Bytes of all entries, in order.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().map(|part| match part {
            Part::Small(bytes) => &bytes[..],
            Part::Bytes(bytes) => &bytes[..],
            Part::Block(bytes) => &bytes[..],
        })
    }

    pub(crate) fn push(&mut self, entry: Entry) {
        match entry {
            Entry::Block { block, kind: [code, one, other], bytes } => {
                let first = u64::from(code) << 56 | u64::from(one);
                self.head(kind::BLOCK, block, first, 4 + bytes.len() as u64);
                self.small(&other.to_le_bytes());
                self.len += bytes.len() as u64;
                self.parts.push(Part::Block(bytes));
            }
            Entry::Data { block, bytes } => {
                self.head(kind::DATA, block, 0, bytes.len() as u64);
                self.large(bytes);
            }
            Entry::RecordMade => self.head(kind::RECORD_MADE, 0, 0, 0),
            Entry::RecordDurable => self.head(kind::RECORD_DURABLE, 0, 0, 0),
            Entry::Pages { ino, first, bytes } => {
                let len = bytes.iter().map(|part| part.len() as u64).sum();
                self.head(kind::PAGES, ino.0.into(), first, len);
                for part in bytes {
                    self.large(part);
                }
            }
            Entry::PagesGone { ino, first, count } => {
                self.head(kind::PAGES_GONE, ino.0.into(), first, 8);
                self.small(&count.to_le_bytes());
            }
            Entry::File { ino, facts } => {
                self.head(kind::FILE, ino.0.into(), 0, FACTS_BYTES as u64);
                self.small(&facts.encoded());
            }
            Entry::Orphan { ino, encoded } => {
                self.head(kind::ORPHAN, ino.0.into(), 0, encoded.len() as u64);
                self.small(&encoded);
            }
            Entry::OrphanGone { ino } => self.head(kind::ORPHAN_GONE, ino.0.into(), 0, 0),
            Entry::Answer { request, answer } => {
                let (code, value) = answer.encoded();
                self.head(kind::ANSWER, code, request, 8);
                self.small(&value.to_le_bytes());
            }
        }
    }

    fn head(&mut self, kind: u8, number: u64, first: u64, len: u64) {
        self.small(&(u64::from(kind) | number << 8).to_le_bytes());
        self.small(&first.to_le_bytes());
        self.small(&len.to_le_bytes());
    }

    fn small(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        if let Some(Part::Small(last)) = self.parts.last_mut() {
            return last.extend_from_slice(bytes);
        }
        self.parts.push(Part::Small(bytes.to_vec()));
    }

    fn large(&mut self, bytes: Buffer) {
        self.len += bytes.len() as u64;
        match self.parts.last_mut() {
            Some(Part::Bytes(last)) if last.is_followed_by(&bytes) => {
                *last = last.joined_with(&bytes);
            }
            _ => self.parts.push(Part::Bytes(bytes)),
        }
    }
}

/// Reads the next entry, and shortens `from` by it; none at the end.
pub(crate) fn next(from: &mut &[u8]) -> Result<Option<Entry>, FsError> {
    if from.is_empty() {
        return Ok(None);
    }
    let damaged = || {
        let detail = "survival log: expected entries of this version of the program, found others";
        FsError::new(crate::error::EIO, detail)
    };
    let (head, rest) = from.split_at_checked(HEAD_BYTES).ok_or_else(damaged)?;
    let (first_word, first, len) = (u64_at(head, 0), u64_at(head, 8), u64_at(head, 16));
    let len = usize::try_from(len).map_err(|_| damaged())?;
    let (contents, rest) = rest.split_at_checked(len).ok_or_else(damaged)?;
    *from = rest;
    entry_of(first_word as u8, first_word >> 8, first, contents).map(Some).ok_or_else(damaged)
}

fn entry_of(kind: u8, number: u64, first: u64, contents: &[u8]) -> Option<Entry> {
    let node = || u32::try_from(number).ok().map(Ino);
    let copied = |bytes: &[u8]| BufferMut::copy_of(bytes).freeze();
    Some(match kind {
        kind::BLOCK => {
            let (other, bytes) = contents.split_at_checked(4)?;
            let other = u32::from_le_bytes(other.try_into().ok()?);
            let bytes: BlockBytes = Arc::new(bytes.try_into().ok()?);
            Entry::Block { block: number, kind: [(first >> 56) as u32, first as u32, other], bytes }
        }
        kind::DATA => Entry::Data { block: number, bytes: copied(contents) },
        kind::RECORD_MADE => Entry::RecordMade,
        kind::RECORD_DURABLE => Entry::RecordDurable,
        kind::PAGES => Entry::Pages { ino: node()?, first, bytes: vec![copied(contents)] },
        kind::PAGES_GONE => {
            let count = u64::from_le_bytes(contents.try_into().ok()?);
            Entry::PagesGone { ino: node()?, first, count }
        }
        kind::FILE => Entry::File { ino: node()?, facts: FileFacts::decoded(contents)? },
        kind::ORPHAN => Entry::Orphan { ino: node()?, encoded: contents.to_vec() },
        kind::ORPHAN_GONE => Entry::OrphanGone { ino: node()? },
        kind::ANSWER => {
            let value = u64::from_le_bytes(contents.try_into().ok()?);
            Entry::Answer { request: first, answer: KeptAnswer::decoded(number, value)? }
        }
        _ => return None,
    })
}

impl FileFacts {
    fn encoded(&self) -> [u8; FACTS_BYTES] {
        let mut bytes = [0; FACTS_BYTES];
        bytes[0] = u8::from(self.is_gone)
            | u8::from(self.is_nameless) << 1
            | u8::from(self.has_error) << 2;
        bytes[1..9].copy_from_slice(&self.references.to_le_bytes());
        bytes[9] = u8::from(self.size.is_some());
        bytes[10..18].copy_from_slice(&self.size.unwrap_or_default().to_le_bytes());
        let times = [self.times.accessed, self.times.modified, self.times.changed, self.accessed];
        for (to, time) in bytes[18..].chunks_exact_mut(13).zip(times) {
            let at = time.unwrap_or_default();
            to[0] = u8::from(time.is_some());
            to[1..9].copy_from_slice(&at.seconds.to_le_bytes());
            to[9..13].copy_from_slice(&at.nanoseconds.to_le_bytes());
        }
        bytes
    }

    fn decoded(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; FACTS_BYTES] = bytes.try_into().ok()?;
        let time = |nth: usize| {
            let from = &bytes[18 + nth * 13..];
            let nanoseconds = u32::from_le_bytes(from[9..13].try_into().ok()?);
            let seconds = u64_at(from, 1).cast_signed();
            (from[0] == 1).then_some(Timestamp { seconds, nanoseconds })
        };
        let times = Times { accessed: time(0), modified: time(1), changed: time(2) };
        Some(Self {
            references: u64_at(bytes, 1),
            size: (bytes[9] == 1).then(|| u64_at(bytes, 10)),
            times,
            accessed: time(3),
            is_gone: bytes[0] & 1 != 0,
            is_nameless: bytes[0] & 2 != 0,
            has_error: bytes[0] & 4 != 0,
        })
    }
}

impl KeptAnswer {
    /// The part of a result that another process needs; none for one that may be found again.
    pub(crate) fn of(result: &Result<Answer, FsError>) -> Option<Self> {
        Some(match result {
            Ok(Answer::Nothing) => Self::Nothing,
            Ok(Answer::Node(attributes)) => Self::Node(attributes.ino),
            Ok(Answer::Written(len)) => Self::Written(*len),
            Ok(Answer::Trimmed(bytes)) => Self::Trimmed(*bytes),
            Ok(_) => return None,
            Err(error) => Self::Failed(error.errno),
        })
    }

    fn encoded(self) -> (u64, u64) {
        match self {
            Self::Nothing => (0, 0),
            Self::Node(ino) => (1, ino.0.into()),
            Self::Written(len) => (2, len.into()),
            Self::Trimmed(bytes) => (3, bytes),
            Self::Failed(errno) => (4, u64::from(errno.cast_unsigned())),
        }
    }

    fn decoded(code: u64, value: u64) -> Option<Self> {
        Some(match code {
            0 => Self::Nothing,
            1 => Self::Node(Ino(value as u32)),
            2 => Self::Written(value as u32),
            3 => Self::Trimmed(value),
            4 => Self::Failed((value as u32).cast_signed()),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(batch: &Batch) -> Vec<u8> {
        batch.parts().collect::<Vec<_>>().concat()
    }

    fn buffer(byte: u8, len: usize) -> Buffer {
        BufferMut::copy_of(&vec![byte; len]).freeze()
    }

    fn entries() -> Vec<Entry> {
        let at = |seconds| Some(Timestamp { seconds, nanoseconds: 5 });
        let times = Times { accessed: None, modified: at(-7), changed: at(1 << 33) };
        let facts = FileFacts {
            references: 3,
            size: Some(1 << 40),
            times,
            accessed: at(9),
            is_gone: true,
            is_nameless: false,
            has_error: true,
        };
        vec![
            Entry::Block { block: 1 << 40, kind: [5, 12, u32::MAX], bytes: Arc::new([3; 4096]) },
            Entry::Data { block: 77, bytes: buffer(4, 4096) },
            Entry::RecordMade,
            Entry::Pages { ino: Ino(12), first: 9, bytes: vec![buffer(1, 4096), buffer(2, 4096)] },
            Entry::PagesGone { ino: Ino(12), first: 10, count: u64::MAX },
            Entry::RecordDurable,
            Entry::File { ino: Ino(13), facts },
            Entry::Orphan { ino: Ino(14), encoded: vec![1, 2, 3] },
            Entry::OrphanGone { ino: Ino(14) },
            Entry::Answer { request: 1 << 62, answer: KeptAnswer::Failed(-17) },
        ]
    }

    #[test]
    fn entries_are_read_as_they_were_pushed() {
        let mut batch = Batch::default();
        for entry in entries() {
            batch.push(entry);
        }
        let bytes = bytes_of(&batch);
        assert_eq!(bytes.len() as u64, batch.bytes());
        let (mut from, mut again) = (&bytes[..], Batch::default());
        let mut count = 0;
        while let Some(entry) = next(&mut from).unwrap() {
            count += 1;
            again.push(entry);
        }
        assert_eq!((count, bytes_of(&again)), (entries().len(), bytes));
    }

    #[test]
    fn a_cut_or_unknown_entry_is_an_error() {
        for entry in entries() {
            let mut batch = Batch::default();
            batch.push(entry);
            let bytes = bytes_of(&batch);
            for len in 1..bytes.len() {
                assert!(next(&mut &bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
            }
        }
        let unknown = [&[99_u8][..], &[0; 23]].concat();
        assert!(next(&mut &unknown[..]).is_err());
    }
}
