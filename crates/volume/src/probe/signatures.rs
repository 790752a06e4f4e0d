//! Formats that a magic of at least four bytes at a fixed place gives away.
//!
//! Places are facts of each format; the comment before a group names the definition they are from
//! (Linux paths are those of its source tree).

use super::{Device, Finding};
use nearhead_format::data_device::DATA_DEVICE_MAGIC;
use nearhead_format::map_device::MAP_DEVICE_MAGIC;
use nearhead_format::superblock::SUPERBLOCK_MAGIC;

/// Where a magic stands.
#[derive(Clone, Copy)]
enum Place {
    /// That many bytes after the start.
    Start(u64),
    /// That many bytes before the end.
    End(u64),
}

use Place::{End, Start};

struct Signature {
    what: &'static str,
    place: Place,
    magic: &'static [u8],
    /// Offset from the start of the device and length of a label.
    label: Option<(u64, usize)>,
}

const fn magic(what: &'static str, place: Place, magic: &'static [u8]) -> Signature {
    Signature { what, place, magic, label: None }
}

const fn labelled(
    what: &'static str,
    offset: u64,
    magic: &'static [u8],
    label: (u64, usize),
) -> Signature {
    Signature { what, place: Start(offset), magic, label: Some(label) }
}

const KIB: u64 = 1024;
const SWAP: &str = "Linux swap space";
const HIBERNATED: &str = "hibernated system image";
const LVM: &str = "LVM physical volume";
const REISERFS: &str = "ReiserFS file system";
const OCFS2: &str = "OCFS2 file system";
const UDF: &str = "UDF file system";
const LUKS2_COPY: &str = "LUKS2 encrypted volume (second header)";

const SIGNATURES: &[Signature] = &[
    // fs/xfs/libxfs/xfs_format.h: sb_magicnum at 0, sb_fname at 108.
    labelled("XFS file system", 0, b"XFSB", (108, 12)),
    // fs/btrfs/accessors.h and ctree.h: superblock at 64 KiB, magic at 64 in it, label at 299.
    labelled("btrfs file system", 64 * KIB + 64, b"_BHRfS_M", (64 * KIB + 299, 256)),
    // include/uapi/linux/magic.h and fs/f2fs: superblock at 1 KiB.
    magic("F2FS file system", Start(KIB), &[0x10, 0x20, 0xf5, 0xf2]),
    // Its second copy, one block of 4 KiB later.
    magic("F2FS file system", Start(5 * KIB), &[0x10, 0x20, 0xf5, 0xf2]),
    // include/uapi/linux/magic.h and fs/erofs: superblock at 1 KiB.
    magic("EROFS file system", Start(KIB), &[0xe2, 0xe1, 0xf5, 0xe0]),
    // fs/jfs/jfs_superblock.h: superblock at 32 KiB.
    magic("JFS file system", Start(32 * KIB), b"JFS1"),
    // fs/reiserfs/reiserfs.h: superblock at 64 KiB, magic at 52 in it.
    magic(REISERFS, Start(64 * KIB + 52), b"ReIsErFs"),
    magic(REISERFS, Start(64 * KIB + 52), b"ReIsEr2Fs"),
    magic(REISERFS, Start(64 * KIB + 52), b"ReIsEr3Fs"),
    // include/uapi/linux/gfs2_ondisk.h: superblock at 64 KiB, magic then type 1, big-endian.
    magic("GFS2 file system", Start(64 * KIB), &[0x01, 0x16, 0x19, 0x70, 0, 0, 0, 1]),
    // fs/ocfs2/ocfs2_fs.h: superblock in block 2, of 512 bytes to 4 KiB.
    magic(OCFS2, Start(KIB), b"OCFSV2"),
    magic(OCFS2, Start(2 * KIB), b"OCFSV2"),
    magic(OCFS2, Start(4 * KIB), b"OCFSV2"),
    magic(OCFS2, Start(8 * KIB), b"OCFSV2"),
    // fs/ufs/ufs_fs.h: UFS2 superblock at 64 KiB, fs_magic at 1372 in it.
    magic("UFS2 file system", Start(64 * KIB + 1372), &[0x19, 0x01, 0x54, 0x19]),
    // Apple File System Reference, nx_superblock_t: nx_magic at 32.
    magic("APFS container", Start(32), b"NXSB"),
    // Apple Technical Note TN1150: volume header at 1 KiB, signature then version 4 or 5.
    magic("HFS+ file system", Start(KIB), &[b'H', b'+', 0, 4]),
    magic("HFSX file system", Start(KIB), &[b'H', b'X', 0, 5]),
    // Microsoft, NTFS and exFAT boot sectors: file system name at 3.
    magic("NTFS file system", Start(3), b"NTFS    "),
    magic("exFAT file system", Start(3), b"EXFAT   "),
    magic("BitLocker encrypted volume", Start(3), b"-FVE-FS-"),
    // ECMA-119 8.1: volume descriptors from 32 KiB on, identifier at 1, volume name at 40.
    labelled("ISO 9660 file system", 32 * KIB + 1, b"CD001", (32 * KIB + 40, 32)),
    // ECMA-167 2/9: the volume recognition sequence in 2 KiB steps from 32 KiB on.
    magic(UDF, Start(32 * KIB + 1), b"NSR0"),
    magic(UDF, Start(34 * KIB + 1), b"NSR0"),
    magic(UDF, Start(36 * KIB + 1), b"NSR0"),
    magic(UDF, Start(38 * KIB + 1), b"NSR0"),
    // fs/squashfs/squashfs_fs.h: SQUASHFS_MAGIC at 0, and its big-endian forebear.
    magic("squashfs file system", Start(0), b"hsqs"),
    magic("squashfs file system", Start(0), b"sqsh"),
    // include/uapi/linux/cramfs_fs.h.
    magic("cramfs file system", Start(0), &[0x45, 0x3d, 0xcd, 0x28]),
    // include/linux/swap.h: the last 10 bytes of the first page, of 4 to 64 KiB.
    magic(SWAP, Start(4 * KIB - 10), b"SWAPSPACE2"),
    magic(SWAP, Start(8 * KIB - 10), b"SWAPSPACE2"),
    magic(SWAP, Start(16 * KIB - 10), b"SWAPSPACE2"),
    magic(SWAP, Start(32 * KIB - 10), b"SWAPSPACE2"),
    magic(SWAP, Start(64 * KIB - 10), b"SWAPSPACE2"),
    magic(SWAP, Start(4 * KIB - 10), b"SWAP-SPACE"),
    // kernel/power/swap.c (HIBERNATE_SIG) and uswsusp: in place of the swap signature.
    magic(HIBERNATED, Start(4 * KIB - 10), b"S1SUSPEND"),
    magic(HIBERNATED, Start(4 * KIB - 10), b"S2SUSPEND"),
    magic(HIBERNATED, Start(4 * KIB - 10), b"ULSUSPEND"),
    // LUKS On-Disk Format Specification: magic and version; LUKS2 4.1: label at 24, and the
    // magic of the second header, whose place depends on the size of the first.
    magic("LUKS1 encrypted volume", Start(0), b"LUKS\xba\xbe\x00\x01"),
    labelled("LUKS2 encrypted volume", 0, b"LUKS\xba\xbe\x00\x02", (24, 48)),
    magic(LUKS2_COPY, Start(16 * KIB), b"SKUL\xba\xbe"),
    magic(LUKS2_COPY, Start(32 * KIB), b"SKUL\xba\xbe"),
    magic(LUKS2_COPY, Start(64 * KIB), b"SKUL\xba\xbe"),
    magic(LUKS2_COPY, Start(128 * KIB), b"SKUL\xba\xbe"),
    // LVM2 lib/format_text/layout.h and lib/label/label.h: a label in one of the first 4 sectors.
    magic(LVM, Start(0), b"LABELONE"),
    magic(LVM, Start(512), b"LABELONE"),
    magic(LVM, Start(1024), b"LABELONE"),
    magic(LVM, Start(1536), b"LABELONE"),
    // drivers/md/bcache/bcache_ondisk.h: superblock at 4 KiB, magic at 24 in it; bcachefs keeps
    // its own magic there (fs/bcachefs/bcachefs_format.h).
    magic(
        "bcache device",
        Start(4 * KIB + 24),
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
    ),
    magic(
        "bcachefs file system",
        Start(4 * KIB + 24),
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
    ),
    // UEFI specification 5.3.2: the header in the second block, its copy in the last.
    magic("GPT partition table", Start(512), b"EFI PART"),
    magic("GPT partition table", Start(4096), b"EFI PART"),
    magic("GPT partition table (copy)", End(512), b"EFI PART"),
    magic("GPT partition table (copy)", End(4096), b"EFI PART"),
    // mdadm platform-intel and super-ddf: metadata in the last two sectors.
    magic("Intel RAID member", End(1024), b"Intel Raid ISM Cfg Sig. "),
    magic("DDF RAID member", End(512), &[0xde, 0x11, 0xde, 0x11]),
    // drivers/md/dm-integrity.c, dm-verity of cryptsetup, VDO, Stratis design 1.2.
    magic("dm-integrity volume", Start(0), b"integrt\0"),
    magic("dm-verity hash tree", Start(0), b"verity\0\0"),
    magic("VDO volume", Start(0), b"dmvdo001"),
    magic("Stratis pool member", Start(516), b"!Stra0tis\x86\xff\x02^\x41rh"),
    // Ceph src/os/bluestore: the label begins with this text.
    magic("Ceph BlueStore device", Start(0), b"bluestore block device"),
    // Disk images of virtual machines, mistaken for raw ones: each format's own specification.
    magic("qcow2 disk image", Start(0), b"QFI\xfb"),
    magic("VHDX disk image", Start(0), b"vhdxfile"),
    magic("VHD disk image", End(512), b"conectix"),
    magic("VMDK disk image", Start(0), b"KDMV"),
    magic("VDI disk image", Start(64), &[0x7f, 0x10, 0xda, 0xbe]),
    // Our own first two superblock copies (docs/format.md).
    magic("Nearhead volume", Start(0), &SUPERBLOCK_MAGIC),
    magic("Nearhead volume", Start(64 * KIB), &SUPERBLOCK_MAGIC),
    // Devices beside it: their headers, which stand at the start (docs/format.md).
    magic("data device of a Nearhead volume", Start(0), &DATA_DEVICE_MAGIC),
    magic("map device of a Nearhead volume", Start(0), &MAP_DEVICE_MAGIC),
    magic("read cache of a Nearhead volume", Start(0), &crate::cache_device::MAGIC),
];

/// Adds every signature that is there.
pub(super) fn find(device: &Device<'_>, findings: &mut Vec<Finding>) {
    for signature in SIGNATURES {
        let offset = match signature.place {
            Start(offset) => Some(offset),
            End(before_end) => device.bytes.checked_sub(before_end),
        };
        let Some(offset) = offset else { continue };
        if device.has(offset, signature.magic) {
            let label = signature.label.and_then(|(at, len)| device.label(at, len));
            findings.push(Finding { what: signature.what, label, offset });
        }
    }
}
