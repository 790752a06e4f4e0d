//! An inode in its 256 bytes: fields that are split over the old and the new part of it, times, device numbers, checksum.
//!
//! ```text
//!  0    2    4        8      12     16     20     24   26   28      32     36     40              100
//!  |mode|uid |size lo |atime |ctime |mtime |dtime |gid |lnks|blks lo|flags |vers. | extents, link |
//!  100     104     108     112    116    118    120  122  124    128       132         136 ..       160       256
//!  |generat|xattr  |size hi|      |blk hi|xat hi|uid |gid |sum lo|extra sum| ctime+ .. crtime+ ..  | xattrs   |
//! ```
//!
//! The checksum guards against rot and, by number and generation in it, against an inode in a wrong place. Bytes that
//! nothing here knows stay as they are.

use crate::checksum::{Sums, crc32c, inode_seed};
use crate::geometry::{Geometry, INODE_BYTES};
use crate::types::{Attributes, FileKind, Ino, Timestamp};
use nearhead_basics::little_endian::{put, u16_at, u32_at};

/// Writes to a file, or to the names of a directory, are durable when they are answered (`chattr +S`).
pub const SYNC_FLAG: u32 = 0x8;
/// Nothing of it changes (`chattr +i`).
pub const IMMUTABLE_FLAG: u32 = 0x10;
/// It only grows (`chattr +a`).
pub const APPEND_FLAG: u32 = 0x20;
/// A backup leaves it out.
pub const NODUMP_FLAG: u32 = 0x40;
/// Reading does not change its time of access (`chattr +A`).
pub const NOATIME_FLAG: u32 = 0x80;
/// Changes of the names of a directory are durable when they are answered (`chattr +D`).
pub const DIRSYNC_FLAG: u32 = 0x1_0000;
pub(crate) const INDEX_FLAG: u32 = 0x1000;
pub(crate) const TOPDIR_FLAG: u32 = 0x2_0000;
pub(crate) const HUGE_FLAG: u32 = 0x4_0000;
pub(crate) const EXTENTS_FLAG: u32 = 0x8_0000;
/// What users may set: sync, immutable, append, nodump, noatime, dirsync, topdir.
pub const USER_FLAGS: u32 = SYNC_FLAG
    | IMMUTABLE_FLAG
    | APPEND_FLAG
    | NODUMP_FLAG
    | NOATIME_FLAG
    | DIRSYNC_FLAG
    | TOPDIR_FLAG;
/// What users see: the above, extents and huge file among them.
const VISIBLE_FLAGS: u32 = USER_FLAGS | HUGE_FLAG | EXTENTS_FLAG | INDEX_FLAG;
/// What a new inode takes from its directory: sync, nodump, noatime, dirsync.
const INHERITED_FLAGS: u32 = SYNC_FLAG | 0x40 | 0x80 | 0x1_0000;
/// Any other flag on an inode means bytes that nothing here understands: compressed, encrypted, verity, attributes in
/// inodes, inline data, casefold.
const UNKNOWN_FLAGS: u32 = 0x200 | 0x800 | 0x10_0000 | 0x20_0000 | 0x1000_0000 | 0x4000_0000;

pub(crate) const MODE: usize = 0x00;
const UID: usize = 0x02;
const SIZE: usize = 0x04;
const ACCESSED: usize = 0x08;
const CHANGED: usize = 0x0C;
const MODIFIED: usize = 0x10;
const DELETED: usize = 0x14;
const GID: usize = 0x18;
const LINKS: usize = 0x1A;
const BLOCKS: usize = 0x1C;
const FLAGS: usize = 0x20;
/// Extents, the target of a short symbolic link, or a device.
pub(crate) const CONTENT: usize = 0x28;
pub(crate) const CONTENT_BYTES: usize = 60;
const GENERATION: usize = 0x64;
const XATTRS: usize = 0x68;
const SIZE_HIGH: usize = 0x6C;
const BLOCKS_HIGH: usize = 0x74;
const XATTRS_HIGH: usize = 0x76;
const UID_HIGH: usize = 0x78;
const GID_HIGH: usize = 0x7A;
const CHECKSUM_LOW: usize = 0x7C;
const EXTRA_SIZE: usize = 0x80;
const CHECKSUM_HIGH: usize = 0x82;
const CHANGED_EXTRA: usize = 0x84;
const MODIFIED_EXTRA: usize = 0x88;
const ACCESSED_EXTRA: usize = 0x8C;
const CREATED: usize = 0x90;
const CREATED_EXTRA: usize = 0x94;

/// Where the old part of an inode ends.
pub(crate) const OLD_BYTES: usize = 128;

/// An inode and its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inode {
    pub(crate) ino: Ino,
    pub(crate) raw: [u8; INODE_BYTES],
    /// It has no name and no place on disk any more, and lives while it is held.
    pub(crate) is_in_memory: bool,
}

/// Which of the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    Accessed,
    Modified,
    Changed,
    Created,
}

impl Time {
    fn places(self) -> (usize, usize) {
        match self {
            Self::Accessed => (ACCESSED, ACCESSED_EXTRA),
            Self::Modified => (MODIFIED, MODIFIED_EXTRA),
            Self::Changed => (CHANGED, CHANGED_EXTRA),
            Self::Created => (CREATED, CREATED_EXTRA),
        }
    }
}

impl Inode {
    /// A new one, all zero but for what every inode has.
    pub(crate) fn new(ino: Ino, generation: u32, extra_isize: u16) -> Self {
        let mut inode = Self { ino, raw: [0; INODE_BYTES], is_in_memory: false };
        put(&mut inode.raw, GENERATION, &generation.to_le_bytes());
        put(&mut inode.raw, EXTRA_SIZE, &extra_isize.to_le_bytes());
        inode
    }

    pub(crate) fn u16(&self, at: usize) -> u16 {
        u16_at(&self.raw, at)
    }

    pub(crate) fn u32(&self, at: usize) -> u32 {
        u32_at(&self.raw, at)
    }

    fn set_u16(&mut self, at: usize, value: u16) {
        put(&mut self.raw, at, &value.to_le_bytes());
    }

    fn set_u32(&mut self, at: usize, value: u32) {
        put(&mut self.raw, at, &value.to_le_bytes());
    }

    pub(crate) fn mode(&self) -> u16 {
        self.u16(MODE)
    }

    pub(crate) fn set_mode(&mut self, mode: u16) {
        self.set_u16(MODE, mode);
    }

    /// Sets the 12 bits of permissions.
    pub(crate) fn set_permissions(&mut self, mode: u16) {
        self.set_mode(self.mode() & 0xF000 | mode & 0xFFF);
    }

    /// The mode without what lets a program run as somebody else: setuid, and setgid where a group may execute. Those of a directory
    /// mean something else, and stay.
    pub(crate) fn mode_without_privileges(&self) -> u16 {
        let mode = self.mode();
        let setgid = if mode & 0o010 == 0 { 0 } else { 0o2000 };
        if self.is_directory() { mode } else { mode & !(0o4000 | setgid) }
    }

    pub(crate) fn kind(&self) -> Option<FileKind> {
        FileKind::from_mode(self.mode())
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind() == Some(FileKind::Directory)
    }

    pub(crate) fn uid(&self) -> u32 {
        u32::from(self.u16(UID)) | u32::from(self.u16(UID_HIGH)) << 16
    }

    pub(crate) fn gid(&self) -> u32 {
        u32::from(self.u16(GID)) | u32::from(self.u16(GID_HIGH)) << 16
    }

    pub(crate) fn set_uid(&mut self, uid: u32) {
        self.set_u16(UID, uid as u16);
        self.set_u16(UID_HIGH, (uid >> 16) as u16);
    }

    pub(crate) fn set_gid(&mut self, gid: u32) {
        self.set_u16(GID, gid as u16);
        self.set_u16(GID_HIGH, (gid >> 16) as u16);
    }

    pub(crate) fn size(&self) -> u64 {
        u64::from(self.u32(SIZE)) | u64::from(self.u32(SIZE_HIGH)) << 32
    }

    pub(crate) fn set_size(&mut self, size: u64) {
        self.set_u32(SIZE, size as u32);
        self.set_u32(SIZE_HIGH, (size >> 32) as u32);
    }

    pub(crate) fn links(&self) -> u32 {
        u32::from(self.u16(LINKS))
    }

    pub(crate) fn set_links(&mut self, links: u32) {
        self.set_u16(LINKS, links as u16);
    }

    pub(crate) fn flags(&self) -> u32 {
        self.u32(FLAGS)
    }

    pub(crate) fn set_flags(&mut self, flags: u32) {
        self.set_u32(FLAGS, flags);
    }

    pub(crate) fn has_flag(&self, flag: u32) -> bool {
        self.flags() & flag != 0
    }

    /// Flags that nothing here understands.
    pub(crate) fn unknown_flags(&self) -> u32 {
        self.flags() & UNKNOWN_FLAGS
    }

    pub(crate) fn generation(&self) -> u32 {
        self.u32(GENERATION)
    }

    pub(crate) fn set_deleted(&mut self, seconds: u32) {
        self.set_u32(DELETED, seconds);
    }

    /// The block of extended attributes, 0 if there is none.
    pub(crate) fn xattr_block(&self) -> u64 {
        u64::from(self.u32(XATTRS)) | u64::from(self.u16(XATTRS_HIGH)) << 32
    }

    pub(crate) fn set_xattr_block(&mut self, block: u64) {
        self.set_u32(XATTRS, block as u32);
        self.set_u16(XATTRS_HIGH, (block >> 32) as u16);
    }

    /// What it occupies in units of 512 bytes.
    pub(crate) fn blocks_512(&self) -> u64 {
        let stored = u64::from(self.u32(BLOCKS)) | u64::from(self.u16(BLOCKS_HIGH)) << 32;
        if self.has_flag(HUGE_FLAG) { stored * 8 } else { stored }
    }

    pub(crate) fn add_blocks(&mut self, blocks: i64) {
        let sectors = self.blocks_512().saturating_add_signed(blocks.saturating_mul(8));
        let (stored, flag) =
            if sectors < 1 << 48 { (sectors, 0) } else { (sectors / 8, HUGE_FLAG) };
        self.set_u32(BLOCKS, stored as u32);
        self.set_u16(BLOCKS_HIGH, (stored >> 32) as u16);
        self.set_flags(self.flags() & !HUGE_FLAG | flag);
    }

    fn has_extra(&self, end: usize) -> bool {
        OLD_BYTES + usize::from(self.u16(EXTRA_SIZE)) >= end
    }

    /// Where the space for extended attributes starts, if there is any.
    pub(crate) fn xattrs_at(&self) -> Option<usize> {
        let at = OLD_BYTES + usize::from(self.u16(EXTRA_SIZE));
        (self.u16(EXTRA_SIZE) > 0 && at + 4 <= INODE_BYTES && at.is_multiple_of(4)).then_some(at)
    }

    pub(crate) fn time(&self, which: Time) -> Timestamp {
        let (at, extra_at) = which.places();
        if which == Time::Created && !self.has_extra(CREATED + 4) {
            return Timestamp::default();
        }
        let extra = if self.has_extra(extra_at + 4) { self.u32(extra_at) } else { 0 };
        let seconds = i64::from(self.u32(at) as i32) + (i64::from(extra & 3) << 32);
        Timestamp { seconds, nanoseconds: (extra >> 2).min(999_999_999) }
    }

    /// Times that cannot be stored become the nearest that can. The first and the last second have no fraction, as Linux has it
    /// (`timestamp_truncate`).
    pub(crate) fn set_time(&mut self, which: Time, time: Timestamp) {
        let (at, extra_at) = which.places();
        let has_extra = self.has_extra(extra_at + 4);
        let first = i64::from(i32::MIN);
        let last = i64::from(i32::MAX) + if has_extra { 3 << 32 } else { 0 };
        let seconds = time.seconds.clamp(first, last);
        if has_extra {
            let is_limit = seconds == first || seconds == last;
            let nanoseconds = if is_limit { 0 } else { time.nanoseconds.min(999_999_999) };
            let epoch = (seconds - i64::from(seconds as i32)) >> 32;
            self.set_u32(at, seconds as u32);
            self.set_u32(extra_at, epoch as u32 & 3 | nanoseconds << 2);
        } else if which != Time::Created {
            self.set_u32(at, seconds as u32);
        }
    }

    /// Times of change of contents and metadata.
    pub(crate) fn times(&self) -> (Timestamp, Timestamp) {
        (self.time(Time::Modified), self.time(Time::Changed))
    }

    /// Sets what [`Inode::times`] gave.
    pub(crate) fn set_times(&mut self, (modified, changed): (Timestamp, Timestamp)) {
        self.set_time(Time::Modified, modified);
        self.set_time(Time::Changed, changed);
    }

    /// Contents and metadata are of now.
    pub(crate) fn touch(&mut self, now: Timestamp) {
        self.set_time(Time::Modified, now);
        self.set_time(Time::Changed, now);
    }

    /// Of a device node, as Linux encodes it in 32 bits.
    pub(crate) fn device(&self) -> u32 {
        let old = self.u32(CONTENT);
        // The old encoding has 8 bits for each number; the new one is Linux's own.
        if old != 0 { old & 0xFFFF } else { self.u32(CONTENT + 4) }
    }

    pub(crate) fn set_device(&mut self, device: u32) {
        let at = if device < 0x1_0000 { CONTENT } else { CONTENT + 4 };
        self.set_u32(at, device);
    }

    pub(crate) fn content(&self) -> &[u8] {
        &self.raw[CONTENT..CONTENT + CONTENT_BYTES]
    }

    pub(crate) fn content_mut(&mut self) -> &mut [u8] {
        &mut self.raw[CONTENT..CONTENT + CONTENT_BYTES]
    }

    /// A symbolic link whose target is in the inode itself.
    pub(crate) fn is_short_link(&self) -> bool {
        self.kind() == Some(FileKind::Symlink) && !self.has_flag(EXTENTS_FLAG)
    }

    /// The attributes, if the mode names a kind.
    pub(crate) fn attributes(&self) -> Option<Attributes> {
        let kind = self.kind()?;
        let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
        Some(Attributes {
            ino: self.ino,
            generation: self.generation(),
            kind,
            mode: self.mode() & 0xFFF,
            links: self.links(),
            uid: self.uid(),
            gid: self.gid(),
            size: self.size(),
            blocks_512: self.blocks_512(),
            accessed: self.time(Time::Accessed),
            modified: self.time(Time::Modified),
            changed: self.time(Time::Changed),
            created: self.time(Time::Created),
            device: if is_device { self.device() } else { 0 },
            flags: self.flags() & VISIBLE_FLAGS,
        })
    }

    /// The checksum of its bytes, the field left out.
    pub(crate) fn checksum(&self, geometry: &Geometry) -> u32 {
        let mut raw = self.raw;
        put(&mut raw, CHECKSUM_LOW, &[0, 0]);
        if self.has_extra(CHECKSUM_HIGH + 2) {
            put(&mut raw, CHECKSUM_HIGH, &[0, 0]);
        }
        crc32c(inode_seed(geometry.seed, self.ino.0, self.generation()), &raw)
    }

    /// As it is stored, and how much of the checksum it has room for.
    pub(crate) fn stored_checksum(&self) -> (u32, u32) {
        let low = u32::from(self.u16(CHECKSUM_LOW));
        if self.has_extra(CHECKSUM_HIGH + 2) {
            (low | u32::from(self.u16(CHECKSUM_HIGH)) << 16, !0)
        } else {
            (low, 0xFFFF)
        }
    }

    /// Writes its checksum, if the image has them.
    pub(crate) fn seal(&mut self, geometry: &Geometry) {
        if geometry.sums != Sums::All {
            return;
        }
        let sum = self.checksum(geometry);
        self.set_u16(CHECKSUM_LOW, sum as u16);
        if self.has_extra(CHECKSUM_HIGH + 2) {
            self.set_u16(CHECKSUM_HIGH, (sum >> 16) as u16);
        }
    }
}

/// Flags that a new inode takes from its directory.
pub(crate) fn inherited_flags(directory: u32, kind: FileKind) -> u32 {
    match kind {
        FileKind::Directory => directory & INHERITED_FLAGS,
        FileKind::Regular => directory & INHERITED_FLAGS & !0x1_0000,
        _ => directory & 0xC0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode() -> Inode {
        Inode::new(Ino(12), 7, 32)
    }

    #[test]
    fn times_from_1901_to_2446_are_stored_and_others_become_the_nearest() {
        let mut inode = inode();
        let stored = |inode: &mut Inode, seconds| {
            inode.set_time(Time::Created, Timestamp { seconds, nanoseconds: 999_999_999 });
            inode.time(Time::Created)
        };
        let (first, last) = (-0x8000_0000, 0x3_7FFF_FFFF);
        let inside =
            [first + 1, -1, 0, 1, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 1 << 32, last - 1];
        for seconds in inside {
            let expected = Timestamp { seconds, nanoseconds: 999_999_999 };
            assert_eq!(stored(&mut inode, seconds), expected);
        }
        for (seconds, nearest) in
            [(i64::MIN, first), (first, first), (last, last), (i64::MAX, last)]
        {
            let expected = Timestamp { seconds: nearest, nanoseconds: 0 };
            assert_eq!(stored(&mut inode, seconds), expected);
        }
    }

    #[test]
    fn a_moment_after_2038_is_stored_in_these_bytes() {
        let mut inode = inode();
        inode.set_time(Time::Modified, Timestamp { seconds: 0x8000_0000, nanoseconds: 1 });
        assert_eq!(inode.raw[0x10..0x14], [0, 0, 0, 0x80]);
        assert_eq!(inode.raw[0x88..0x8C], [0b101, 0, 0, 0]);
    }

    #[test]
    fn wide_owners_sizes_blocks_and_devices_come_back() {
        let mut inode = inode();
        inode.set_mode(0x8000 | 0o4755);
        inode.set_uid(0xFFFE_1234);
        inode.set_gid(0x0001_0000);
        inode.set_size(0x1234_5678_9ABC);
        inode.add_blocks(1 << 35);
        assert_eq!((inode.uid(), inode.gid()), (0xFFFE_1234, 0x0001_0000));
        assert_eq!((inode.size(), inode.blocks_512()), (0x1234_5678_9ABC, 1 << 38));
        inode.add_blocks(1 << 46);
        assert_eq!((inode.blocks_512(), inode.has_flag(HUGE_FLAG)), ((1 << 38) + (1 << 49), true));
        for device in [0x0501, 0x0010_0501, 0xFFFF_FFFF, 0] {
            let mut node = self::inode();
            node.set_device(device);
            assert_eq!(node.device(), device);
        }
        assert_eq!(inode.attributes().unwrap().mode, 0o4755);
    }
}
