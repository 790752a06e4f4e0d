//! Requests of `ioctl(2)` that files and directories take, by their numbers in Linux and our own, and the bytes of their answers.
//!
//! The kernel checks who may change flags, and which; what it does not know, our own, the file system checks.

use nearhead_ext4::{APPEND_FLAG, IMMUTABLE_FLAG, Ino, NOATIME_FLAG, NODUMP_FLAG, SYNC_FLAG};
use nearhead_fs::{Answer, DURABILITY_ONLY_FLAG, FsOperation};
use rustix::io::Errno;

/// Bit of a number: the program gives bytes; gets bytes (ioctl.h).
const GIVES: u32 = 1 << 30;
const GETS: u32 = 1 << 31;

const fn number(direction: u32, bytes: u32, kind: u8, number: u32) -> u32 {
    direction | bytes << 16 | (kind as u32) << 8 | number
}

// linux/fs.h. Those of flags name the size of a long and move 32 bits; the second is that of 32-bit programs.
const GET_FLAGS: [u32; 2] = [number(GETS, 8, b'f', 1), number(GETS, 4, b'f', 1)];
const SET_FLAGS: [u32; 2] = [number(GIVES, 8, b'f', 2), number(GIVES, 4, b'f', 2)];
const GET_VERSION: [u32; 2] = [number(GETS, 8, b'v', 1), number(GETS, 4, b'v', 1)];
const GET_EXTENDED: u32 = number(GETS, 28, b'X', 31);
const SET_EXTENDED: u32 = number(GIVES, 28, b'X', 32);
/// `struct fstrim_range { u64 start, len, minlen; }`.
const TRIM: u32 = number(GIVES | GETS, 24, b'X', 121);
/// Our own: `struct { uint32_t is_durability_only; uint32_t zero; }`.
const GET_DURABILITY: u32 = number(GETS, 8, b'N', 0xD1);
const SET_DURABILITY: u32 = number(GIVES, 8, b'N', 0xD0);

/// Flags of `struct fsxattr`, and ours: sync, immutable, append, noatime, nodump.
const EXTENDED: [(u32, u32); 5] = [
    (0x20, SYNC_FLAG),
    (0x08, IMMUTABLE_FLAG),
    (0x10, APPEND_FLAG),
    (0x40, NOATIME_FLAG),
    (0x80, NODUMP_FLAG),
];

/// What is told in the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Nothing,
    Flags,
    Version,
    Extended,
    Durability,
    Trimmed,
}

/// What is asked for by `command` and these bytes.
pub(crate) fn asked(ino: Ino, command: u32, bytes: &[u8]) -> Result<(FsOperation, Told), Errno> {
    let flags = FsOperation::Flags { ino };
    match command {
        command if GET_FLAGS.contains(&command) => Ok((flags, Told::Flags)),
        command if GET_VERSION.contains(&command) => Ok((flags, Told::Version)),
        GET_EXTENDED => Ok((flags, Told::Extended)),
        GET_DURABILITY => Ok((flags, Told::Durability)),
        command if SET_FLAGS.contains(&command) => {
            let flags = word(bytes, 0)?;
            Ok((FsOperation::SetFlags { ino, flags, mask: !0 }, Told::Nothing))
        }
        SET_EXTENDED => {
            let told = word(bytes, 0)?;
            let known = EXTENDED.iter().fold(0, |all, (bit, _)| all | bit);
            // Neither sizes of extents nor projects.
            if told & !known != 0 || bytes[4..].iter().any(|byte| *byte != 0) {
                return Err(Errno::OPNOTSUPP);
            }
            let set = EXTENDED.iter().filter(|(bit, _)| told & bit != 0);
            let flags = set.fold(0, |all, (_, flag)| all | flag);
            let mask = EXTENDED.iter().fold(0, |all, (_, flag)| all | flag);
            Ok((FsOperation::SetFlags { ino, flags, mask }, Told::Nothing))
        }
        SET_DURABILITY => {
            let flags = match (word(bytes, 0)?, word(bytes, 4)?) {
                (0, 0) => 0,
                (1, 0) => DURABILITY_ONLY_FLAG,
                _ => return Err(Errno::INVAL),
            };
            let mask = DURABILITY_ONLY_FLAG;
            Ok((FsOperation::SetFlags { ino, flags, mask }, Told::Nothing))
        }
        TRIM => {
            let (offset, len) = (long(bytes, 0)?, long(bytes, 8)?);
            let run_bytes_min = long(bytes, 16)?;
            Ok((FsOperation::Trim { offset, len, run_bytes_min }, Told::Trimmed))
        }
        _ => Err(Errno::NOTTY),
    }
}

fn word(bytes: &[u8], at: usize) -> Result<u32, Errno> {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map(u32::from_ne_bytes).ok_or(Errno::INVAL)
}

fn long(bytes: &[u8], at: usize) -> Result<u64, Errno> {
    let long = bytes.get(at..at + 8).and_then(|long| long.try_into().ok());
    long.map(u64::from_ne_bytes).ok_or(Errno::INVAL)
}

/// The bytes of an answer.
pub(crate) fn told(told: Told, answer: &Answer) -> Vec<u8> {
    if let Answer::Trimmed(bytes) = answer {
        return [0, *bytes, 0].into_iter().flat_map(u64::to_ne_bytes).collect();
    }
    let Answer::Flags { flags, generation } = answer else { return Vec::new() };
    let words = match told {
        Told::Nothing | Told::Trimmed => vec![],
        Told::Flags => vec![*flags],
        Told::Version => vec![*generation],
        Told::Extended => {
            let set = EXTENDED.iter().filter(|(_, flag)| flags & flag != 0);
            let mut words = vec![0; 7];
            words[0] = set.fold(0, |all, (bit, _)| all | bit);
            words
        }
        Told::Durability => vec![u32::from(flags & DURABILITY_ONLY_FLAG != 0), 0],
    };
    words.into_iter().flat_map(u32::to_ne_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_linux_and_the_documented_one() {
        assert_eq!((GET_FLAGS[0], SET_FLAGS[0]), (0x8008_6601, 0x4008_6602));
        assert_eq!((GET_EXTENDED, SET_EXTENDED), (0x801C_581F, 0x401C_5820));
        assert_eq!(TRIM, 0xC018_5879);
        assert_eq!((SET_DURABILITY, GET_DURABILITY), (0x4008_4ED0, 0x8008_4ED1));
    }

    #[test]
    fn flags_go_through_the_extended_ones_and_back() {
        let flags = IMMUTABLE_FLAG | NOATIME_FLAG;
        let bytes = told(Told::Extended, &Answer::Flags { flags, generation: 7 });
        assert_eq!(bytes.len(), 28);
        let (asked, _) = asked(Ino(12), SET_EXTENDED, &bytes).unwrap();
        assert!(matches!(asked, FsOperation::SetFlags { flags: found, .. } if found == flags));
    }

    #[test]
    fn what_is_short_or_means_nothing_here_is_refused() {
        for (command, bytes) in
            [(SET_FLAGS[0], &[][..]), (SET_DURABILITY, &[2, 0, 0, 0, 0, 0, 0, 0])]
        {
            assert_eq!(asked(Ino(12), command, bytes).unwrap_err(), Errno::INVAL);
        }
        let mut project = [0; 28];
        project[12] = 1;
        assert_eq!(asked(Ino(12), SET_EXTENDED, &project).unwrap_err(), Errno::OPNOTSUPP);
        assert_eq!(asked(Ino(12), SET_EXTENDED, &project[..3]).unwrap_err(), Errno::INVAL);
        assert_eq!(asked(Ino(12), 0x5401, &[]).unwrap_err(), Errno::NOTTY);
    }
}
