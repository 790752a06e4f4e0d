//! The words of FUSE that a file system of one file needs, as bytes (`linux/fuse.h`, protocol 7.31 and later).
//!
//! A [`Question`] is read from what the kernel sent, an answer is written for it. All numbers are the machine's own byte order. Nothing
//! here panics on any bytes: what is too short or unknown is a [`Question::Unknown`], to which the answer is that there is no such thing.
//! It must never keep anything: who asks for the same twice gets the same answer, which is what lets another process go on in the middle.

use std::ops::Range;

/// Length of what stands in front of every question, in bytes.
const HEADER_BYTES: usize = 40;
/// What stands in front of the bytes of a write, with the header.
pub(super) const WRITE_HEADER_BYTES: usize = HEADER_BYTES + 40;
/// What stands in front of every answer.
const ANSWER_BYTES: usize = 16;
/// Major version of the protocol.
const MAJOR: u32 = 7;
/// The minor version whose structures are used here: that of Linux 5.4.
const MINOR: u32 = 31;
/// The kernel's word for "send again what is not answered yet" (Linux 6.9).
const NOTIFY_RESEND: i32 = 7;

/// Flags of the first exchange.
mod flag {
    pub(super) const ASYNC_READ: u64 = 1 << 0;
    pub(super) const BIG_WRITES: u64 = 1 << 5;
    pub(super) const ASYNC_DIO: u64 = 1 << 15;
    pub(super) const MAX_PAGES: u64 = 1 << 22;
    pub(super) const MORE_FLAGS: u64 = 1 << 30;
    pub(super) const HAS_RESEND: u64 = 1 << 39;
}

/// The file and the folder that it is in.
pub(super) const FOLDER: u64 = 1;
pub(super) const FILE: u64 = 2;
/// How the file is opened: every request reaches its server as it was made (1), several writes at a time (64), and nothing is asked when
/// somebody closes it (32).
const OPEN_FLAGS: u32 = 1 | 64 | 32;
/// Answers about names and attributes are good for so long, in seconds: nothing ever changes.
const VALID_S: u64 = 86_400;

/// One question, by what it needs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// The first one; whether the kernel can send again what was not answered.
    Init {
        minor: u32,
        readahead_max: u32,
        flags: u64,
    },
    /// What is called so in the folder; the name's place in the bytes.
    Lookup {
        parent: u64,
        name: Range<usize>,
    },
    Attributes {
        node: u64,
    },
    /// The length that the file is to have, if it is one.
    SetAttributes {
        node: u64,
        size: Option<u64>,
    },
    Open {
        node: u64,
    },
    OpenFolder,
    Read {
        offset: u64,
        len: u32,
    },
    /// The bytes lie behind [`WRITE_HEADER_BYTES`].
    Write {
        offset: u64,
        len: u32,
    },
    Sync,
    Allocate {
        offset: u64,
        len: u64,
        mode: u32,
    },
    Statistics,
    ReadFolder {
        offset: u64,
    },
    /// To be answered with success and nothing else.
    Close,
    /// Not to be answered.
    Forget,
    Unknown,
}

/// A question and the number under which it is answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) unique: u64,
    pub(super) question: Question,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Reads a question; of a write only what stands in front of its bytes is needed. None if there is no header.
pub(super) fn asked(bytes: &[u8]) -> Option<Asked> {
    let (opcode, unique, node) = (u32_at(bytes, 4)?, u64_at(bytes, 8)?, u64_at(bytes, 16)?);
    let question = question(bytes, opcode, node).unwrap_or(Question::Unknown);
    Some(Asked { unique, question })
}

fn question(bytes: &[u8], opcode: u32, node: u64) -> Option<Question> {
    let (at, at_u64) = (HEADER_BYTES, |offset| u64_at(bytes, HEADER_BYTES + offset));
    Some(match opcode {
        1 => {
            let len = bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
            Question::Lookup { parent: node, name: at..at + len }
        }
        2 | 42 => Question::Forget,
        3 => Question::Attributes { node },
        4 => {
            let has_size = u32_at(bytes, at)? & 1 << 3 != 0;
            let size = at_u64(16)?;
            Question::SetAttributes { node, size: has_size.then_some(size) }
        }
        14 => Question::Open { node },
        15 => Question::Read { offset: at_u64(8)?, len: u32_at(bytes, at + 16)? },
        16 => Question::Write { offset: at_u64(8)?, len: u32_at(bytes, at + 16)? },
        17 => Question::Statistics,
        20 => Question::Sync,
        18 | 25 | 29 | 30 | 38 => Question::Close,
        26 => {
            let (minor, readahead_max) = (u32_at(bytes, at + 4)?, u32_at(bytes, at + 8)?);
            let flags = u64::from(u32_at(bytes, at + 12)?);
            let more = u64::from(u32_at(bytes, at + 16).unwrap_or(0));
            let more = if flags & flag::MORE_FLAGS == 0 { 0 } else { more };
            Question::Init { minor, readahead_max, flags: flags | more << 32 }
        }
        27 => Question::OpenFolder,
        28 => Question::ReadFolder { offset: at_u64(8)? },
        43 => Question::Allocate {
            offset: at_u64(8)?,
            len: at_u64(16)?,
            mode: u32_at(bytes, at + 24)?,
        },
        _ => return None,
    })
}

/// What is told of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) size_bytes: u64,
    pub(super) block_bytes: u32,
    pub(super) read_only: bool,
    pub(super) owner: (u32, u32),
}

/// An answer's bytes, in the order in which its fields stand.
#[derive(Default)]
struct Answer(Vec<u8>);

impl Answer {
    fn u16s(mut self, values: &[u16]) -> Self {
        self.0.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
        self
    }

    fn u32s(mut self, values: &[u32]) -> Self {
        self.0.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
        self
    }

    fn u64s(mut self, values: &[u64]) -> Self {
        self.0.extend(values.iter().flat_map(|value| value.to_ne_bytes()));
        self
    }

    /// `fuse_attr`, 88 bytes.
    fn attributes(self, node: u64, facts: &Facts) -> Self {
        let is_file = node == FILE;
        let size = if is_file { facts.size_bytes } else { 0 };
        let mode = match (is_file, facts.read_only) {
            (true, true) => 0o100_400,
            (true, false) => 0o100_600,
            (false, _) => 0o040_500,
        };
        let (user, group) = facts.owner;
        self.u64s(&[node, size, size / 512, 0, 0, 0]).u32s(&[
            0,
            0,
            0,
            mode,
            1,
            user,
            group,
            0,
            facts.block_bytes,
            0,
        ])
    }
}

/// What stands in front of an answer with `len` bytes; `error` is 0 or a negative number of Linux.
pub(super) fn front(unique: u64, error: i32, len: usize) -> Vec<u8> {
    Answer::default().u32s(&[(ANSWER_BYTES + len) as u32, error as u32]).u64s(&[unique]).0
}

/// Asks the kernel to send again what it got no answer to.
pub(super) fn resend() -> Vec<u8> {
    front(0, NOTIFY_RESEND, 0)
}

/// Whether a kernel that sent these flags knows [`resend`].
pub(super) fn can_resend(flags: u64) -> bool {
    flags & flag::HAS_RESEND != 0
}

/// Whether the kernel that sent these flags has what direct I/O of a file needs: several requests at a time, of more than one page.
pub(super) fn is_new_enough(minor: u32, flags: u64) -> bool {
    minor >= MINOR && flags & flag::ASYNC_DIO != 0 && flags & flag::MAX_PAGES != 0
}

/// The answer to the first question (`fuse_init_out`, 64 bytes): requests of up to `bytes_max`, and `requests_max` under way.
pub(super) fn init(readahead_max: u32, flags: u64, bytes_max: u32, requests_max: u16) -> Vec<u8> {
    use flag::{ASYNC_DIO, ASYNC_READ, BIG_WRITES, HAS_RESEND, MAX_PAGES, MORE_FLAGS};
    let flags = flags & (ASYNC_READ | BIG_WRITES | ASYNC_DIO | MAX_PAGES | MORE_FLAGS | HAS_RESEND);
    Answer::default()
        .u32s(&[MAJOR, MINOR, readahead_max, flags as u32])
        .u16s(&[requests_max, requests_max])
        .u32s(&[bytes_max, 1])
        .u16s(&[(bytes_max / 4096) as u16, 0])
        .u32s(&[(flags >> 32) as u32, 0])
        .u16s(&[0; 12])
        .0
}

/// What a name means (`fuse_entry_out`).
pub(super) fn entry(facts: &Facts) -> Vec<u8> {
    let answer = Answer::default().u64s(&[FILE, 0, VALID_S, VALID_S]).u32s(&[0, 0]);
    answer.attributes(FILE, facts).0
}

/// Attributes (`fuse_attr_out`).
pub(super) fn attributes(node: u64, facts: &Facts) -> Vec<u8> {
    Answer::default().u64s(&[VALID_S]).u32s(&[0, 0]).attributes(node, facts).0
}

/// A file or folder was opened (`fuse_open_out`).
pub(super) fn opened(is_file: bool) -> Vec<u8> {
    Answer::default().u64s(&[0]).u32s(&[if is_file { OPEN_FLAGS } else { 0 }, 0]).0
}

/// So many bytes were written (`fuse_write_out`).
pub(super) fn written(len: u32) -> Vec<u8> {
    Answer::default().u32s(&[len, 0]).0
}

/// How much room there is (`fuse_kstatfs`): none. The size of a block is what a loop device takes for the grain of a discard.
pub(super) fn statistics(facts: &Facts) -> Vec<u8> {
    let blocks = facts.size_bytes / u64::from(facts.block_bytes.max(1));
    let answer = Answer::default().u64s(&[blocks, 0, 0, 1, 0]);
    answer.u32s(&[facts.block_bytes, 255, facts.block_bytes]).u32s(&[0; 7]).0
}

/// The folder's entries from number `offset` on (`fuse_dirent`).
pub(super) fn entries(offset: u64, name: &str) -> Vec<u8> {
    let mut answer = Answer::default();
    let all = [(FOLDER, ".", 4), (FOLDER, "..", 4), (FILE, name, 8)];
    for (number, (node, name, kind)) in (1_u64..).zip(all).skip(offset.min(3) as usize) {
        answer = answer.u64s(&[node, number]).u32s(&[name.len() as u32, kind]);
        answer.0.extend_from_slice(name.as_bytes());
        answer.0.resize(answer.0.len().next_multiple_of(8), 0);
    }
    answer.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A question as the kernel sends it.
    fn sent(opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = Answer::default().u32s(&[(HEADER_BYTES + body.len()) as u32, opcode]);
        bytes = bytes.u64s(&[7, node]).u32s(&[0; 4]);
        bytes.0.extend_from_slice(body);
        bytes.0
    }

    #[test]
    fn answers_are_as_long_as_the_kernel_expects() {
        let facts =
            Facts { size_bytes: 1 << 30, block_bytes: 4096, read_only: false, owner: (0, 0) };
        for (len, expected) in [
            (init(0, u64::MAX, 1 << 20, 128).len(), 64),
            (entry(&facts).len(), 128),
            (attributes(FILE, &facts).len(), 104),
            (opened(true).len(), 16),
            (written(5).len(), 8),
            (statistics(&facts).len(), 80),
            (entries(0, "disk").len(), 3 * 32),
            (entries(3, "disk").len(), 0),
            (resend().len(), ANSWER_BYTES),
        ] {
            assert_eq!(len, expected);
        }
    }

    #[test]
    fn a_question_that_is_cut_short_anywhere_is_unknown_and_never_another_one() {
        let body = Answer::default().u64s(&[1, 4096, 8192]).u32s(&[3, 0]).u64s(&[0]).0;
        for opcode in 0..60 {
            let whole = sent(opcode, FILE, &body);
            let meant = asked(&whole).unwrap();
            assert_eq!(meant.unique, 7);
            for len in 0..whole.len() {
                let Some(found) = asked(&whole[..len]) else { continue };
                let is_cut = found.question == Question::Unknown;
                let same = found.question == meant.question;
                // A name ends at its first zero, and the further flags were added later.
                assert!(is_cut || same || matches!(opcode, 1 | 26), "{opcode}: {found:?}");
            }
        }
    }

    #[test]
    fn what_matters_of_a_request_is_read_from_its_place() {
        let body = Answer::default().u64s(&[1, 4096]).u32s(&[512, 0]).u64s(&[9]).u32s(&[0, 0]).0;
        let question = |opcode| asked(&sent(opcode, FILE, &body)).unwrap().question;
        assert_eq!(question(15), Question::Read { offset: 4096, len: 512 });
        assert_eq!(question(16), Question::Write { offset: 4096, len: 512 });
        let name = sent(1, FOLDER, b"disk\0");
        let Question::Lookup { parent: FOLDER, name: place } = asked(&name).unwrap().question
        else {
            panic!("no name")
        };
        assert_eq!(&name[place], b"disk");
    }
}
