//! The kernel's words for what the file system says: attributes, times, kinds.

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use nearhead_ext4::{Attributes, BLOCK_BYTES, FileKind, Ino, ROOT, Timestamp};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The kernel's root is 1, ext4's 2.
const KERNEL_ROOT: u64 = 1;

pub(crate) fn ino(inode: INodeNo) -> Ino {
    if inode.0 == KERNEL_ROOT { ROOT } else { Ino(u32::try_from(inode.0).unwrap_or(0)) }
}

pub(crate) fn inode(ino: Ino) -> INodeNo {
    if ino == ROOT { INodeNo(KERNEL_ROOT) } else { INodeNo(u64::from(ino.0)) }
}

pub(crate) fn timestamp(time: SystemTime, epoch: SystemTime) -> Timestamp {
    match time.duration_since(epoch) {
        Ok(since) => {
            Timestamp { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
        }
        Err(before) => {
            let before = before.duration();
            let is_whole = before.subsec_nanos() == 0;
            Timestamp {
                seconds: -(before.as_secs() as i64) - i64::from(!is_whole),
                nanoseconds: if is_whole { 0 } else { 1_000_000_000 - before.subsec_nanos() },
            }
        }
    }
}

pub(crate) fn time_or_now(time: TimeOrNow, now: Timestamp) -> Timestamp {
    match time {
        TimeOrNow::SpecificTime(time) => timestamp(time, UNIX_EPOCH),
        TimeOrNow::Now => now,
    }
}

fn system_time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let second = if time.seconds >= 0 { UNIX_EPOCH + whole } else { UNIX_EPOCH - whole };
    second + Duration::from_nanos(u64::from(time.nanoseconds))
}

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

pub(crate) fn attributes(of: &Attributes) -> FileAttr {
    FileAttr {
        ino: inode(of.ino),
        size: of.size,
        blocks: of.blocks_512,
        atime: system_time(of.accessed),
        mtime: system_time(of.modified),
        ctime: system_time(of.changed),
        crtime: system_time(of.created),
        kind: file_type(of.kind),
        perm: of.mode,
        nlink: of.links,
        uid: of.uid,
        gid: of.gid,
        rdev: of.device,
        blksize: BLOCK_BYTES as u32,
        flags: of.flags,
    }
}

/// A path as the kernel's table of mounts writes it, with its octal escapes undone.
pub fn unescaped(text: &str) -> Vec<u8> {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if bytes[at] == b'\\' => {
                out.push(byte);
                at += 4;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_keep_their_fractions() {
        for (seconds, nanoseconds) in [(-1, 999_999_999), (-1, 0), (0, 1), (-2_000_000_000, 5)] {
            let time = Timestamp { seconds, nanoseconds };
            assert_eq!(timestamp(system_time(time), UNIX_EPOCH), time);
        }
    }

    #[test]
    fn a_folder_with_a_space_is_found_in_the_table_of_mounts() {
        assert_eq!(unescaped(r"/mnt/a\040b\134c"), b"/mnt/a b\\c");
    }
}
