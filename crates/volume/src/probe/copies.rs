//! Copies that formats keep of their superblocks and headers, away from the start of the device: what is left where only the start was
//! overwritten.
//!
//! [`places`] says where to read, [`find`] what is there. A copy counts only if it says of itself that it belongs where it was found, or is
//! at the one place that its format has for it: an image of a file system inside a file is none. The comment before a place names the
//! definition it is from (Linux paths are those of its source tree). At most 50 places and 2 MiB are read, in order of offset.

use super::{Device, Finding, structures};

const KIB: u64 = 1024;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Windows begin and end at multiples of this, or at the end of the device.
const UNIT: u64 = 4 * KIB;

/// `fs/btrfs/disk-io.h`: `btrfs_sb_offset`, 16 KiB shifted by 12 bits per mirror.
const BTRFS_MIRRORS: [u64; 2] = [64 * MIB, 256 * GIB];
/// LUKS2 On-Disk Format Specification 2.1: sizes of the first header, behind which the second one is; smaller ones are in
/// [`super::signatures`].
const LUKS2_SECOND: [u64; 5] = [256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB];
/// xfsprogs `libxfs/topology.c`, `calc_default_ag_geometry`: 4 to 32 groups of one size, or as many as there are processors. Groups begin
/// at these parts of the device for all counts with a divisor of 2, 3, 5 or 7.
const XFS_PARTS: [u64; 4] = [2, 3, 5, 7];
/// Farthest that such a group begins behind its part: a group is rounded up to a whole block of 4 KiB, and there are up to 128.
const XFS_ROUNDING_BYTES: u64 = 256 * KIB;
/// `fs/xfs/libxfs/xfs_fs.h`, `XFS_MAX_AG_BYTES`: the first group of a device of 4 TiB and more ends one block before this.
const XFS_GROUP_BYTES_MAX: u64 = 1 << 40;
/// Block sizes of ext file systems as powers of 2 (`fs/ext4/ext4.h`, `EXT4_MIN_BLOCK_LOG_SIZE` and `EXT4_MAX_BLOCK_LOG_SIZE`).
const EXT_BLOCK_LOGS: std::ops::RangeInclusive<u32> = 10..=16;

/// Windows of a device of `device_bytes` in which copies may be, in order: first byte and length.
pub(super) fn places(device_bytes: u64) -> Vec<(u64, usize)> {
    let mut places = Vec::new();
    let mut add = |offset: u64, len: u64| {
        let (start, end) = (offset / UNIT * UNIT, (offset + len).next_multiple_of(UNIT));
        let end = end.min(device_bytes);
        if offset + len <= device_bytes {
            places.push((start, (end - start) as usize));
        }
    };
    // Within the first 64 KiB, and at the end.
    add(0, 64 * KIB);
    add(device_bytes.saturating_sub(UNIT) / UNIT * UNIT, UNIT);
    add(device_bytes.saturating_sub(UNIT), UNIT);
    // The labels of ZFS that are not at either end.
    for label in zfs_labels(device_bytes) {
        add(label + structures::ZFS_RING, structures::ZFS_LABEL_BYTES - structures::ZFS_RING);
    }
    for offset in LUKS2_SECOND.into_iter().chain(BTRFS_MIRRORS) {
        add(offset, UNIT);
    }
    for offset in ext_places(device_bytes) {
        add(offset, KIB);
    }
    for part in XFS_PARTS {
        let from = device_bytes / part;
        add(from, XFS_ROUNDING_BYTES.min(device_bytes - from));
    }
    add(XFS_GROUP_BYTES_MAX - 64 * KIB, 64 * KIB);
    places.sort_unstable();
    places.dedup();
    places
}

/// Adds every copy that is in the windows of `device`.
pub(super) fn find(device: &Device<'_>, findings: &mut Vec<Finding>) {
    let mut add = |what, label, offset| findings.push(Finding { what, label, offset });
    for offset in BTRFS_MIRRORS {
        // fs/btrfs/accessors.h: its own place at 48, magic at 64, label at 299.
        let is_one =
            device.has(offset + 64, b"_BHRfS_M") && device.has(offset + 48, &offset.to_le_bytes());
        if is_one {
            add(
                "btrfs file system (mirror of its superblock)",
                device.label(offset + 299, 256),
                offset,
            );
        }
    }
    for offset in LUKS2_SECOND {
        // LUKS2 On-Disk Format Specification 2.1: magic at 0, its own place at 256, big-endian.
        if device.has(offset, b"SKUL\xba\xbe") && device.has(offset + 256, &offset.to_be_bytes()) {
            add("LUKS2 encrypted volume (second header)", device.label(offset + 24, 48), offset);
        }
    }
    // One says it all.
    let mut groups = ext_places(device.bytes).into_iter();
    if let Some((offset, (what, label))) =
        groups.find_map(|offset| Some((offset, ext(device, offset)?)))
    {
        add(what, label, offset);
    }
    for (what, magic, offset) in fixed(device.bytes) {
        if device.has(offset, magic) {
            add(what, None, offset);
        }
    }
    if let Some(offset) =
        zfs_labels(device.bytes).find_map(|label| structures::uberblock(device, label))
    {
        add("ZFS pool member", None, offset);
    }
    if let Some(offset) = xfs(device) {
        add("XFS file system (secondary superblock)", device.label(offset + 108, 12), offset);
    }
}

/// Magics at places of which each format has one: name, magic, place.
fn fixed(device_bytes: u64) -> Vec<(&'static str, &'static [u8], u64)> {
    const NTFS: &str = "NTFS file system (copy of its boot sector)";
    const EXFAT: &str = "exFAT file system (copy of its boot sector)";
    const HFS: &str = "HFS+ file system (alternate volume header)";
    let end = |before: u64| device_bytes.checked_sub(before);
    let all: [(_, &[u8], _); 9] = [
        // fs/jfs/jfs_filsys.h: SUPER2_OFF.
        ("JFS file system (secondary superblock)", b"JFS1", Some(60 * KIB)),
        // Microsoft FAT specification, BPB_BkBootSec: sector 6; the name of the file system at 82.
        ("FAT32 file system (copy of its boot sector)", b"FAT32   ", Some(6 * 512 + 82)),
        // exFAT specification 3: the backup boot region begins with sector 12.
        (EXFAT, b"EXFAT   ", Some(12 * 512 + 3)),
        (EXFAT, b"EXFAT   ", Some(12 * 4096 + 3)),
        // ntfs-3g libntfs-3g/bootsect.c: the last sector of the device.
        (NTFS, b"NTFS    ", end(512 - 3)),
        (NTFS, b"NTFS    ", end(4096 - 3)),
        // Apple Technical Note TN1150: the alternate volume header is 1 KiB before the end.
        (HFS, &[b'H', b'+', 0, 4], end(KIB)),
        (HFS, &[b'H', b'X', 0, 5], end(KIB)),
        // include/uapi/linux/nilfs2_ondisk.h: NILFS_SB2_OFFSET_BYTES; revision 2, magic at 6.
        (
            "NILFS2 file system (second superblock)",
            &[2, 0, 0, 0, 0, 0, 0x34, 0x34],
            end(UNIT).map(|offset| offset / UNIT * UNIT),
        ),
    ];
    all.into_iter().filter_map(|(what, magic, offset)| Some((what, magic, offset?))).collect()
}

/// The second and third label of ZFS (On-Disk Specification 1.2.1).
fn zfs_labels(device_bytes: u64) -> impl Iterator<Item = u64> {
    let label = structures::ZFS_LABEL_BYTES;
    let end = device_bytes / label * label;
    let third = end.checked_sub(2 * label).filter(|third| *third > label);
    std::iter::once(label).chain(third)
}

/// Where ext file systems over the whole device may have copies of the superblock (`fs/ext4/balloc.c`, `ext4_bg_has_super`): in groups 1
/// and 3, and with two copies in the last group.
fn ext_places(device_bytes: u64) -> Vec<u64> {
    let mut places = Vec::new();
    for log in EXT_BLOCK_LOGS {
        let block = 1_u64 << log;
        // A group has as many blocks as its bitmap, which is a block, has bits; only blocks of 1 KiB leave out the first.
        let (group, first) = (8 * block * block, if log == 10 { block } else { 0 });
        let last = device_bytes.saturating_sub(first + 1) / group;
        let groups = [1, 3, last].into_iter().filter(|number| (1..=last).contains(number));
        places.extend(groups.map(|number| first + number * group));
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// The ext file system whose superblock has a copy at `offset`, and its label.
fn ext(device: &Device<'_>, offset: u64) -> Option<(&'static str, Option<String>)> {
    let found = structures::ext(device, offset)?;
    let (block, first) =
        (KIB << device.u32_le(offset + 0x18)?, u64::from(device.u32_le(offset + 0x14)?));
    let (blocks_of_group, group) =
        (u64::from(device.u32_le(offset + 0x20)?), u64::from(device.u16_le(offset + 0x5a)?));
    let belongs = group.checked_mul(blocks_of_group)?.checked_add(first)?.checked_mul(block)?;
    let what = match found.what {
        "ext2 file system" => "ext2 file system (copy of its superblock)",
        "ext3 file system" => "ext3 file system (copy of its superblock)",
        _ => "ext4 file system (copy of its superblock)",
    };
    (group > 0 && belongs == offset).then_some((what, found.label))
}

/// The first secondary superblock of an XFS file system: `fs/xfs/libxfs/xfs_format.h`, `struct xfs_dsb`, big-endian.
fn xfs(device: &Device<'_>) -> Option<u64> {
    let number = |offset: u64| {
        device.at(offset, 4)?.try_into().ok().map(|bytes| u64::from(u32::from_be_bytes(bytes)))
    };
    let is_one = |offset: &u64| {
        if !device.has(*offset, b"XFSB") {
            return None;
        }
        let (block, group) = (number(offset + 4)?, number(offset + 84)?);
        let (group_bytes, groups) = (block.checked_mul(group)?, number(offset + 88)?);
        let number = offset.checked_div(group_bytes)?;
        (offset.is_multiple_of(group_bytes) && (1..groups).contains(&number)).then_some(())
    };
    device.sectors().find(|offset| is_one(offset).is_some())
}

#[cfg(test)]
mod tests;
