//! Formats that take more than one look: short magics, places that depend on the device's size,
//! either byte order.

use super::{Device, Finding};
use nearhead_format::superblock::SUPERBLOCK_MAGIC;

const KIB: u64 = 1024;

/// Adds every structure that is there.
pub(super) fn find(device: &Device<'_>, findings: &mut Vec<Finding>) {
    let found = [ext(device, KIB), nilfs(device), raid_0_90(device), zfs(device)];
    findings.extend(found.into_iter().flatten());
    findings.extend(raid_1(device));
    findings.extend(boot_sector(device));
    findings.extend(nearhead_at_the_end(device));
    findings.extend(array_member(device));
}

/// ext2, ext3 and ext4: `fs/ext4/ext4.h`, `struct ext4_super_block` at `start`, which is 1 KiB but for copies.
pub(super) fn ext(device: &Device<'_>, start: u64) -> Option<Finding> {
    // Feature words and their bits that only the younger file systems have.
    const COMPAT_HAS_JOURNAL: u32 = 0x4;
    const INCOMPAT_JOURNAL_DEVICE: u32 = 0x8;
    // Everything but compression, directory file types, recovery, journal device and meta_bg.
    const INCOMPAT_EXT4: u32 = !0x1f;
    // Everything but sparse superblocks, large files and B-tree directories.
    const RO_COMPAT_EXT4: u32 = !0x7;

    if device.u16_le(start + 0x38)? != 0xef53 {
        return None;
    }
    let (blocks, log_block_kib) = (device.u32_le(start + 0x4)?, device.u32_le(start + 0x18)?);
    // Two bytes of magic are few: a block is at most 64 KiB, and there is at least one.
    if log_block_kib > 6 || blocks == 0 {
        return None;
    }
    let compat = device.u32_le(start + 0x5c)?;
    let incompat = device.u32_le(start + 0x60)?;
    let ro_compat = device.u32_le(start + 0x64)?;
    let what = if incompat & INCOMPAT_JOURNAL_DEVICE != 0 {
        "journal of an ext4 file system"
    } else if incompat & INCOMPAT_EXT4 != 0 || ro_compat & RO_COMPAT_EXT4 != 0 {
        "ext4 file system"
    } else if compat & COMPAT_HAS_JOURNAL != 0 {
        "ext3 file system"
    } else {
        "ext2 file system"
    };
    Some(Finding { what, label: device.label(start + 0x78, 16), offset: start })
}

/// `include/uapi/linux/nilfs2_ondisk.h`: superblock at 1 KiB, revision 2 before the magic at 6.
fn nilfs(device: &Device<'_>) -> Option<Finding> {
    let found = device.u32_le(KIB)? == 2 && device.u16_le(KIB + 6)? == 0x3434;
    found.then_some(Finding { what: "NILFS2 file system", label: None, offset: KIB })
}

/// The magic of Linux software RAID, `include/uapi/linux/raid/md_p.h`.
const MD_MAGIC: u32 = 0xa92b_4efc;

/// Version 0.90: the last 64 KiB-aligned 64 KiB, in the byte order of the machine that wrote it.
fn raid_0_90(device: &Device<'_>) -> Option<Finding> {
    let offset = (device.bytes & !(64 * KIB - 1)).checked_sub(64 * KIB)?;
    let found =
        device.has(offset, &MD_MAGIC.to_le_bytes()) || device.has(offset, &MD_MAGIC.to_be_bytes());
    found.then_some(Finding { what: "Linux RAID 0.90 member", label: None, offset })
}

/// Versions 1.0 (8 to 12 KiB before the end), 1.1 (at the start) and 1.2 (4 KiB after it), always
/// little-endian; `set_name` at 32.
fn raid_1(device: &Device<'_>) -> Vec<Finding> {
    let near_end = device.bytes.checked_sub(8 * KIB).map(|offset| offset & !(4 * KIB - 1));
    [
        (near_end, "Linux RAID 1.0 member"),
        (Some(0), "Linux RAID 1.1 member"),
        (Some(4 * KIB), "Linux RAID 1.2 member"),
    ]
    .into_iter()
    .filter_map(|(offset, what)| {
        let offset = offset?;
        let found = device.u32_le(offset)? == MD_MAGIC && device.u32_le(offset + 4)? == 1;
        found.then(|| Finding { what, label: device.label(offset + 32, 32), offset })
    })
    .collect()
}

/// A ZFS label is 256 KiB: two at the start, two at the end of the device's 256 KiB-aligned part;
/// its second half is a ring of uberblocks, one each 1 to 8 KiB, in either byte order (ZFS On-Disk
/// Specification 1.3).
fn zfs(device: &Device<'_>) -> Option<Finding> {
    let last = (device.bytes & !(ZFS_LABEL_BYTES - 1)).checked_sub(ZFS_LABEL_BYTES)?;
    let offset = [0, last].into_iter().find_map(|label| uberblock(device, label))?;
    Some(Finding { what: "ZFS pool member", label: None, offset })
}

pub(super) const ZFS_LABEL_BYTES: u64 = 256 * KIB;
/// Where the ring of uberblocks begins in a label.
pub(super) const ZFS_RING: u64 = 128 * KIB;

/// The first uberblock in the ZFS label that begins at `label`.
pub(super) fn uberblock(device: &Device<'_>, label: u64) -> Option<u64> {
    const UBERBLOCK_MAGIC: u64 = 0x00ba_b10c;
    let mut ring = (label + ZFS_RING..label + ZFS_LABEL_BYTES).step_by(KIB as usize);
    ring.find(|offset| {
        device.has(*offset, &UBERBLOCK_MAGIC.to_le_bytes())
            || device.has(*offset, &UBERBLOCK_MAGIC.to_be_bytes())
    })
}

/// What ends with 55 AA: a FAT boot sector (Microsoft FAT specification 3.1 to 3.3), or a partition
/// table (UEFI specification 5.2.1: four entries of 16 bytes from 446 on: status, type at 4, size
/// in sectors at 12).
fn boot_sector(device: &Device<'_>) -> Option<Finding> {
    const PROTECTIVE: u8 = 0xee;
    if !device.has(510, &[0x55, 0xaa]) {
        return None;
    }
    if device.has(54, b"FAT1") || device.has(54, b"FAT     ") {
        return Some(Finding { what: "FAT file system", label: device.label(43, 11), offset: 0 });
    }
    if device.has(82, b"FAT32   ") {
        return Some(Finding { what: "FAT32 file system", label: device.label(71, 11), offset: 0 });
    }
    let entries: Vec<&[u8]> = device.at(446, 64)?.chunks(16).collect();
    let plausible = entries.iter().all(|entry| matches!(entry[0], 0 | 0x80));
    let mut used = entries.iter().filter(|entry| entry[4] != 0 && entry[12..16] != [0; 4]);
    if !plausible || used.clone().next().is_none() {
        return None;
    }
    let protective = used.all(|entry| entry[4] == PROTECTIVE);
    let what =
        if protective { "protective partition table (of a GPT)" } else { "MBR partition table" };
    Some(Finding { what, label: None, offset: 446 })
}

/// Our last superblock copy is in the last whole 4 KiB, which begin up to 8 KiB before the end. Any
/// sector there will do: the device may have been cut or grown by a few since.
fn nearhead_at_the_end(device: &Device<'_>) -> Option<Finding> {
    let whole_sectors = device.bytes & !511;
    (1..=16)
        .filter_map(|sectors| whole_sectors.checked_sub(512 * sectors))
        .find(|offset| device.has(*offset, &SUPERBLOCK_MAGIC))
        .map(|offset| Finding { what: "Nearhead volume", label: None, offset })
}

/// The label of a member of an array of ours: two slots of 4 KiB in the last whole 4 KiB blocks, which begin up to 12 KiB before the
/// end (docs/format.md).
fn array_member(device: &Device<'_>) -> Option<Finding> {
    const MEMBER_MAGIC: &[u8; 8] = b"NHMEMBER";
    let end = device.bytes & !(4 * KIB - 1);
    [8 * KIB, 4 * KIB]
        .into_iter()
        .filter_map(|before_end| end.checked_sub(before_end))
        .find(|offset| device.has(*offset, MEMBER_MAGIC))
        .map(|offset| Finding { what: "member of a Nearhead array", label: None, offset })
}

#[cfg(test)]
mod tests;
