//! Synthetic signatures at their places, images made by the real tools, and hostile bytes.

use super::*;
use std::process::Command;

const DEVICE_BYTES: usize = 4 << 20;

fn probe_image(image: &[u8]) -> Contents {
    let head = &image[..image.len().min(HEAD_BYTES)];
    let tail = &image[image.len() - image.len().min(TAIL_BYTES)..];
    probe(image.len() as u64, head, tail)
}

fn names(contents: &Contents) -> Vec<&'static str> {
    match contents {
        Contents::Known(findings) => findings.iter().map(|finding| finding.what).collect(),
        _ => Vec::new(),
    }
}

fn image_with(pieces: &[(usize, &[u8])]) -> Vec<u8> {
    let mut image = vec![0; DEVICE_BYTES];
    for (offset, bytes) in pieces {
        image[*offset..offset + bytes.len()].copy_from_slice(bytes);
    }
    image
}

#[test]
fn a_device_of_zeros_is_empty() {
    for bytes in [0, 1, 511, 512, 4096, 300_000, DEVICE_BYTES] {
        assert_eq!(probe_image(&vec![0; bytes]), Contents::Empty, "{bytes} bytes");
    }
}

#[test]
fn one_nonzero_byte_at_either_end_is_data() {
    for offset in [0, 1, 4096, HEAD_BYTES - 1, DEVICE_BYTES - TAIL_BYTES, DEVICE_BYTES - 1] {
        let contents = probe_image(&image_with(&[(offset, &[1])]));
        assert_eq!(contents, Contents::Unknown { offset: offset as u64 });
        assert!(!contents.is_empty());
        assert!(contents.to_string().contains(&offset.to_string()), "{contents}");
    }
}

#[test]
fn the_last_zfs_label_is_found_wherever_a_device_ends() {
    const K: usize = 1024;
    for beyond in [0, 4 * K, 192 * K, 252 * K] {
        let bytes = DEVICE_BYTES + beyond;
        let mut image = vec![0; bytes];
        let ring = DEVICE_BYTES - 128 * K;
        image[ring..ring + 8].copy_from_slice(&0x00ba_b10c_u64.to_le_bytes());
        let contents = probe_image(&image);
        assert_eq!(names(&contents), ["ZFS pool member"], "{beyond} bytes behind the label");
    }
}

#[test]
fn an_end_that_cannot_be_read_is_an_error_and_never_empty() {
    for failing in [0, (DEVICE_BYTES - TAIL_BYTES) as u64] {
        let read = |offset, len| if offset == failing { Err(offset) } else { Ok(vec![0; len]) };
        assert_eq!(probe_device(DEVICE_BYTES as u64, read), Err(failing));
    }
    let read = |_, len| Ok::<_, ()>(vec![0; len]);
    assert_eq!(probe_device(0, read), Ok(Contents::Empty));
    assert_eq!(probe_device(4096, read), Ok(Contents::Empty));
}

/// A name and the pieces of an image that deserve it: `(offset, bytes)`.
type Case<'a> = (&'static str, &'a [(usize, &'a [u8])]);

#[test]
fn every_format_is_known_by_its_magic() {
    const K: usize = 1024;
    let end = DEVICE_BYTES;
    let partition = [0x80, 0, 0, 0, 0x83, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0];
    let protective = [0, 0, 0, 0, 0xee, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0];
    let boot: (usize, &[u8]) = (510, &[0x55, 0xaa]);
    let md: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0];
    let cases: &[Case<'_>] = &[
        ("XFS file system", &[(0, b"XFSB")]),
        ("btrfs file system", &[(65600, b"_BHRfS_M")]),
        ("F2FS file system", &[(1024, &0xf2f5_2010_u32.to_le_bytes())]),
        ("EROFS file system", &[(1024, &0xe0f5_e1e2_u32.to_le_bytes())]),
        ("JFS file system", &[(32768, b"JFS1")]),
        ("ReiserFS file system", &[(65588, b"ReIsEr2Fs")]),
        ("GFS2 file system", &[(65536, &0x0116_1970_u32.to_be_bytes()), (65543, &[1])]),
        ("OCFS2 file system", &[(8192, b"OCFSV2")]),
        ("UFS2 file system", &[(65536 + 1372, &0x1954_0119_u32.to_le_bytes())]),
        ("NILFS2 file system", &[(1024, &[2, 0, 0, 0, 0, 0, 0x34, 0x34])]),
        ("APFS container", &[(32, b"NXSB")]),
        ("HFS+ file system", &[(1024, b"H+\0\x04")]),
        ("NTFS file system", &[(3, b"NTFS    "), boot]),
        ("exFAT file system", &[(3, b"EXFAT   "), boot]),
        ("BitLocker encrypted volume", &[(3, b"-FVE-FS-"), boot]),
        ("FAT file system", &[(54, b"FAT16   "), boot]),
        ("FAT32 file system", &[(82, b"FAT32   "), boot]),
        ("ISO 9660 file system", &[(32769, b"CD001")]),
        ("UDF file system", &[(34 * K + 1, b"NSR03")]),
        ("squashfs file system", &[(0, b"hsqs")]),
        ("cramfs file system", &[(0, &0x28cd_3d45_u32.to_le_bytes())]),
        ("Linux swap space", &[(4086, b"SWAPSPACE2")]),
        ("Linux swap space", &[(65526, b"SWAPSPACE2")]),
        ("hibernated system image", &[(4086, b"S1SUSPEND")]),
        ("LUKS1 encrypted volume", &[(0, b"LUKS\xba\xbe\0\x01")]),
        ("LUKS2 encrypted volume", &[(0, b"LUKS\xba\xbe\0\x02")]),
        ("LUKS2 encrypted volume (second header)", &[(16384, b"SKUL\xba\xbe")]),
        ("LVM physical volume", &[(512, b"LABELONE")]),
        ("Linux RAID 0.90 member", &[(end - 64 * K, &md[..4])]),
        ("Linux RAID 0.90 member", &[(end - 64 * K, &[0xa9, 0x2b, 0x4e, 0xfc])]),
        ("Linux RAID 1.0 member", &[(end - 8 * K, md)]),
        ("Linux RAID 1.1 member", &[(0, md)]),
        ("Linux RAID 1.2 member", &[(4096, md)]),
        ("Intel RAID member", &[(end - 1024, b"Intel Raid ISM Cfg Sig. ")]),
        ("DDF RAID member", &[(end - 512, &[0xde, 0x11, 0xde, 0x11])]),
        ("ZFS pool member", &[(130 * K, &0x00ba_b10c_u64.to_le_bytes())]),
        ("ZFS pool member", &[(end - 128 * K, &0x00ba_b10c_u64.to_be_bytes())]),
        ("GPT partition table", &[(512, b"EFI PART")]),
        ("GPT partition table", &[(4096, b"EFI PART")]),
        ("GPT partition table (copy)", &[(end - 512, b"EFI PART")]),
        ("MBR partition table", &[(446, &partition), boot]),
        ("protective partition table (of a GPT)", &[(446, &protective), boot]),
        (
            "bcache device",
            &[(4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81")],
        ),
        ("dm-integrity volume", &[(0, b"integrt\0")]),
        ("VDO volume", &[(0, b"dmvdo001")]),
        ("Stratis pool member", &[(516, b"!Stra0tis\x86\xff\x02^\x41rh")]),
        ("Ceph BlueStore device", &[(0, b"bluestore block device\n")]),
        ("qcow2 disk image", &[(0, b"QFI\xfb")]),
        ("VHD disk image", &[(end - 512, b"conectix")]),
        ("Nearhead volume", &[(0, b"NEARHEAD")]),
        ("Nearhead volume", &[(65536, b"NEARHEAD")]),
        ("Nearhead volume", &[(end - 4096, b"NEARHEAD")]),
        ("Nearhead volume", &[(end - 512, b"NEARHEAD")]),
        ("F2FS file system", &[(5 * K, &0xf2f5_2010_u32.to_le_bytes())]),
        ("Linux swap space", &[(32 * K - 10, b"SWAPSPACE2")]),
        ("data device of a Nearhead volume", &[(0, b"NHDATDEV")]),
        ("map device of a Nearhead volume", &[(0, b"NHMAPDEV")]),
        ("read cache of a Nearhead volume", &[(0, b"Nearhead read cache, v.1")]),
        ("member of a Nearhead array", &[(end - 8 * K, b"NHMEMBER")]),
        ("member of a Nearhead array", &[(end - 4 * K, b"NHMEMBER")]),
    ];
    for (expected, pieces) in cases {
        let image = image_with(pieces);
        let contents = probe_image(&image);
        assert_eq!(names(&contents), [*expected], "{pieces:?}");
        let mut damaged = image;
        damaged[pieces[0].0] ^= 0xff;
        assert!(
            !names(&probe_image(&damaged)).contains(expected),
            "a wrong first byte: {expected}"
        );
        assert!(!probe_image(&damaged).is_empty(), "{expected}");
    }
}

#[test]
fn everything_that_is_there_is_named_in_order_with_its_place() {
    let contents =
        probe_image(&image_with(&[(0, b"XFSB"), (108, b"backup"), (65600, b"_BHRfS_M")]));
    assert_eq!(
        contents.to_string(),
        "XFS file system \"backup\" (at byte 0), btrfs file system (at byte 65600)"
    );
}

#[test]
fn a_raid_0_90_superblock_is_found_on_a_device_of_any_size() {
    for bytes in [128 << 10, (1 << 20) + 512, (2 << 20) - 512, (3 << 20) + 65024] {
        let mut image = vec![0; bytes];
        let offset = (bytes & !0xffff) - 0x10000;
        image[offset..offset + 4].copy_from_slice(&MD_LITTLE_ENDIAN);
        assert_eq!(names(&probe_image(&image)), ["Linux RAID 0.90 member"], "{bytes} bytes");
    }
}

const MD_LITTLE_ENDIAN: [u8; 4] = [0xfc, 0x4e, 0x2b, 0xa9];

#[test]
fn our_own_superblock_is_found_on_a_device_of_any_size() {
    for extra in [0, 512, 1024, 3584, 4095] {
        let mut image = vec![0; (1 << 20) + extra];
        let offset = nearhead_format::layout::superblock_offsets(image.len() as u64)[2] as usize;
        image[offset..offset + 8].copy_from_slice(b"NEARHEAD");
        assert_eq!(names(&probe_image(&image)), ["Nearhead volume"], "{extra} extra bytes");
    }
}

#[test]
fn a_two_byte_magic_alone_does_not_make_a_file_system() {
    let ext_without_blocks = image_with(&[(1080, &[0x53, 0xef])]);
    assert_eq!(probe_image(&ext_without_blocks), Contents::Unknown { offset: 1080 });
    let boot_code_without_partitions = image_with(&[(0, &[0xeb]), (510, &[0x55, 0xaa])]);
    assert_eq!(probe_image(&boot_code_without_partitions), Contents::Unknown { offset: 0 });
}

#[test]
fn no_bytes_of_any_length_make_it_fail() {
    // Constant fillings hit every comparison's edge, short slices every bound.
    for fill in [0x00, 0x01, 0x53, 0x80, 0xff] {
        for len in [0, 1, 7, 8, 511, 512, 513, 1080, 4096, 65_536, 65_601, 262_144] {
            let bytes = vec![fill; len];
            for device_bytes in [0, 1, len as u64, len as u64 + 1, 1 << 20, u64::MAX] {
                let contents = probe(device_bytes, &bytes, &bytes);
                let nothing_seen = len == 0 || device_bytes == 0 || fill == 0;
                assert_eq!(contents.is_empty(), nothing_seen, "{fill} {len} {device_bytes}");
            }
        }
    }
}

/// An image made by a real tool, or `None` with the reason printed.
fn made_by(tool: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let directory = std::env::temp_dir();
    let unique = format!("nearhead-probe-{}-{tool}-{}", std::process::id(), arguments.join(""));
    let path = directory.join(unique.replace('/', "_"));
    // mkfs.xfs takes nothing below 300 MiB, and mkfs.btrfs nothing below 109.
    let bytes = if ["mkfs.xfs", "mkfs.btrfs"].contains(&tool) { 320 << 20 } else { 32 << 20 };
    std::fs::File::create(&path).and_then(|image| image.set_len(bytes)).unwrap();
    let sbin = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", "tool=$1; shift; exec \"$tool\" \"$@\"", "sh", tool])
        .args(arguments)
        .arg(&path)
        .env("PATH", sbin)
        .output()
        .unwrap();
    let image = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    if output.status.success() {
        return Some(image);
    }
    println!("skipped: {tool}: {}", String::from_utf8_lossy(&output.stderr).trim());
    None
}

#[test]
fn what_the_real_tools_make_is_recognised() {
    let cases: [(&str, &[&str], &str); 11] = [
        ("mkfs.ext2", &["-q", "-F", "-L", "near"], "ext2 file system"),
        ("mkfs.ext3", &["-q", "-F", "-L", "near"], "ext3 file system"),
        ("mkfs.ext4", &["-q", "-F", "-L", "near"], "ext4 file system"),
        ("mkfs.ext4", &["-q", "-F", "-O", "journal_dev"], "journal of an ext4 file system"),
        ("mkswap", &["-q"], "Linux swap space"),
        ("mkfs.vfat", &["-n", "NEAR"], "FAT file system"),
        ("mkfs.xfs", &["-q", "-f", "-L", "near"], "XFS file system"),
        ("mkfs.btrfs", &["-q", "-f"], "btrfs file system"),
        ("mkfs.ntfs", &["-q", "-F"], "NTFS file system"),
        ("mkfs.exfat", &[], "exFAT file system"),
        ("mkfs.f2fs", &["-q"], "F2FS file system"),
    ];
    for (tool, arguments, expected) in cases {
        let Some(image) = made_by(tool, arguments) else { continue };
        let contents = probe_image(&image);
        assert_eq!(names(&contents), [expected], "{tool} {arguments:?}: {contents}");
        if arguments.contains(&"near") {
            assert!(contents.to_string().contains("\"near\""), "{tool}: {contents}");
        }
    }
}
