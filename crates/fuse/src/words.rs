//! Attributes, times and node numbers of the file system in the kernel's structures, and back.

use crate::protocol::wire::{Attr, AttrOut, EntryOut, Statx, StatxOut, StatxTime};
use nearhead_ext4::{
    APPEND_FLAG, Attributes, BLOCK_BYTES, IMMUTABLE_FLAG, Ino, NODUMP_FLAG, ROOT, Timestamp,
};
use std::time::{SystemTime, UNIX_EPOCH};

/// The kernel's root is 1, ext4's 2.
const KERNEL_ROOT: u64 = 1;
/// Time for which the kernel may use names and attributes without asking, in seconds: no other program changes them.
const VALID_S: u64 = 3600;
/// Nanoseconds of a second.
const SECOND_NS: u32 = 1_000_000_000;

pub(crate) fn ino(node: u64) -> Ino {
    if node == KERNEL_ROOT { ROOT } else { Ino(u32::try_from(node).unwrap_or(0)) }
}

pub(crate) fn node(ino: Ino) -> u64 {
    if ino == ROOT { KERNEL_ROOT } else { u64::from(ino.0) }
}

/// The wall clock.
pub(crate) fn now() -> Timestamp {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => {
            Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
        }
        Err(_) => Timestamp::default(),
    }
}

/// A time of the kernel, which may be before 1970. None if its fraction is a second or more.
pub(crate) fn timestamp(seconds: i64, nanoseconds: u32) -> Option<Timestamp> {
    (nanoseconds < SECOND_NS).then_some(Timestamp { seconds, nanoseconds })
}

pub(crate) fn mode(of: &Attributes) -> u32 {
    u32::from(of.kind.mode_bits() | of.mode)
}

fn attr(of: &Attributes) -> Attr {
    Attr {
        ino: node(of.ino),
        size: of.size,
        blocks: of.blocks_512,
        // The kernel takes them for signed numbers.
        atime: of.accessed.seconds as u64,
        mtime: of.modified.seconds as u64,
        ctime: of.changed.seconds as u64,
        atimensec: of.accessed.nanoseconds,
        mtimensec: of.modified.nanoseconds,
        ctimensec: of.changed.nanoseconds,
        mode: mode(of),
        nlink: of.links,
        uid: of.uid,
        gid: of.gid,
        rdev: of.device,
        blksize: BLOCK_BYTES as u32,
        // Of submounts and direct access to memory.
        flags: 0,
    }
}

pub(crate) fn attributes(of: &Attributes) -> AttrOut {
    AttrOut { attr_valid: VALID_S, attr_valid_nsec: 0, padding: 0, attr: attr(of) }
}

pub(crate) fn entry(of: &Attributes) -> EntryOut {
    EntryOut {
        nodeid: node(of.ino),
        generation: u64::from(of.generation),
        entry_valid: VALID_S,
        attr_valid: VALID_S,
        entry_valid_nsec: 0,
        attr_valid_nsec: 0,
        attr: attr(of),
    }
}

/// Fields that an answer to `statx(2)` has: `STATX_BASIC_STATS` and `STATX_BTIME` (statx(2)).
const STATX_FIELDS: u32 = 0xFFF;
/// Attributes that an answer to `statx(2)` knows, by the flags of an inode: `STATX_ATTR_IMMUTABLE`, `_APPEND` and `_NODUMP`.
const STATX_ATTRIBUTES: [(u64, u32); 3] =
    [(0x10, IMMUTABLE_FLAG), (0x20, APPEND_FLAG), (0x40, NODUMP_FLAG)];

/// Attributes with the time of birth and the flags of the inode.
pub(crate) fn statx(of: &Attributes) -> StatxOut {
    let time = |time: Timestamp| StatxTime {
        seconds: time.seconds,
        nanoseconds: time.nanoseconds,
        reserved: 0,
    };
    let set = STATX_ATTRIBUTES.iter().filter(|(_, flag)| of.flags & flag != 0);
    let stat = Statx {
        mask: STATX_FIELDS,
        blksize: BLOCK_BYTES as u32,
        attributes: set.fold(0, |all, (bit, _)| all | bit),
        nlink: of.links,
        uid: of.uid,
        gid: of.gid,
        mode: mode(of) as u16,
        ino: node(of.ino),
        size: of.size,
        blocks: of.blocks_512,
        attributes_mask: STATX_ATTRIBUTES.iter().fold(0, |all, (bit, _)| all | bit),
        atime: time(of.accessed),
        btime: time(of.created),
        ctime: time(of.changed),
        mtime: time(of.modified),
        // As `new_decode_dev` of Linux takes a device's number apart.
        rdev_major: of.device >> 8 & 0xFFF,
        rdev_minor: of.device & 0xFF | of.device >> 12 & 0xF_FF00,
        ..Statx::default()
    };
    StatxOut { attr_valid: VALID_S, stat, ..StatxOut::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_keep_their_fractions() {
        let time = timestamp(-1, 999_999_999).unwrap();
        assert_eq!(time, Timestamp { seconds: -1, nanoseconds: 999_999_999 });
        assert_eq!(timestamp(0, 1_000_000_000), None);
    }
}
