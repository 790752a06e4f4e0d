//! Copies at each place that a format has for them, on sparse devices of every size, and none elsewhere.

use super::super::{Contents, probe_device};
use super::*;

/// A device of zeros but for `pieces`.
fn names(device_bytes: u64, pieces: &[(u64, Vec<u8>)]) -> Vec<&'static str> {
    let read = |offset: u64, len: usize| {
        assert!(offset + len as u64 <= device_bytes, "{len} at {offset} of {device_bytes}");
        assert!(
            offset.is_multiple_of(4096) || !device_bytes.is_multiple_of(4096),
            "unaligned: {offset}"
        );
        let mut bytes = vec![0; len];
        let end = offset + len as u64;
        let is_here =
            |(at, piece): &&(u64, Vec<u8>)| *at < end && *at + piece.len() as u64 > offset;
        for (at, piece) in pieces.iter().filter(is_here) {
            for (position, byte) in (*at..).zip(piece) {
                if (offset..end).contains(&position) {
                    bytes[(position - offset) as usize] = *byte;
                }
            }
        }
        Ok::<_, ()>(bytes)
    };
    match probe_device(device_bytes, read).unwrap() {
        Contents::Known(findings) => findings.into_iter().map(|finding| finding.what).collect(),
        _ => Vec::new(),
    }
}

/// An ext superblock for group `group`.
fn ext_copy(log: u32, first: u32, of_group: u32, group: u16) -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    let mut set = |at: usize, word: &[u8]| bytes[at..at + word.len()].copy_from_slice(word);
    set(0x04, &1_000_000_u32.to_le_bytes());
    set(0x14, &first.to_le_bytes());
    set(0x18, &(log - 10).to_le_bytes());
    set(0x20, &of_group.to_le_bytes());
    set(0x38, &[0x53, 0xef]);
    set(0x5a, &group.to_le_bytes());
    set(0x60, &0x242_u32.to_le_bytes());
    bytes
}

#[test]
fn an_ext_copy_is_found_in_its_group_and_nowhere_else() {
    const COPY: &str = "ext4 file system (copy of its superblock)";
    for (log, first) in [(10, 1), (11, 0), (12, 0), (16, 0)] {
        let (block, of_group) = (1_u64 << log, 8_u32 << log);
        let device = 12 * block * u64::from(of_group) + 4096;
        for group in [1, 3, 12] {
            let at = (u64::from(first) + group * u64::from(of_group)) * block;
            if at + 1024 > device {
                continue;
            }
            let copy = ext_copy(log, first, of_group, group as u16);
            let last = (device - u64::from(first) * block) / (block * u64::from(of_group));
            if group <= 3 || group == last {
                assert_eq!(names(device, &[(at, copy.clone())]), [COPY], "{log} {group}");
            }
            let image = ext_copy(log, first, of_group, group as u16 + 1);
            assert!(names(device, &[(at, image)]).is_empty(), "one of an image in a file");
        }
    }
}

#[test]
fn copies_of_superblocks_are_found_where_formats_keep_them() {
    const TIB: u64 = 1 << 40;
    let btrfs = |at: u64| (at + 48, [&at.to_le_bytes()[..], &[0; 8], b"_BHRfS_M"].concat());
    let mirror = "btrfs file system (mirror of its superblock)";
    assert_eq!(names(128 * MIB, &[btrfs(64 * MIB)]), [mirror]);
    assert_eq!(names(TIB, &[btrfs(256 * GIB)]), [mirror]);
    let elsewhere = (64 * MIB + 48, btrfs(256 * GIB).1);
    assert!(names(128 * MIB, &[elsewhere]).is_empty());
    for at in LUKS2_SECOND {
        let header = (at, b"SKUL\xba\xbe".to_vec());
        let place = (at + 256, at.to_be_bytes().to_vec());
        let expected = ["LUKS2 encrypted volume (second header)"];
        assert_eq!(names(GIB, &[header.clone(), place]), expected, "{at}");
        assert!(names(GIB, &[header]).is_empty() || at < 512 * KIB, "{at}");
    }
    for device_bytes in [GIB, GIB + 12 * KIB, 3 * TIB] {
        for (what, magic, at) in fixed(device_bytes) {
            let found = names(device_bytes, &[(at, magic.to_vec())]);
            assert_eq!(found, [what], "{at} of {device_bytes}");
        }
        for label in [256 * KIB, device_bytes / (256 * KIB) * 256 * KIB - 512 * KIB] {
            let ring = (label + 130 * KIB, 0x00ba_b10c_u64.to_le_bytes().to_vec());
            assert_eq!(names(device_bytes, &[ring]), ["ZFS pool member"], "{label}");
        }
    }
}

#[test]
fn xfs_is_found_by_the_group_in_the_middle() {
    let sb = |group_blocks: u32, groups: u32| {
        let mut bytes = vec![0; 512];
        bytes[..4].copy_from_slice(b"XFSB");
        bytes[4..8].copy_from_slice(&4096_u32.to_be_bytes());
        bytes[84..88].copy_from_slice(&group_blocks.to_be_bytes());
        bytes[88..92].copy_from_slice(&groups.to_be_bytes());
        bytes
    };
    for device_bytes in [300 * MIB, GIB + 4 * KIB, 10 * GIB + 20 * KIB, 1 << 41, 20 << 40] {
        for groups in [2, 3, 4, 5, 6, 8, 12, 14, 16, 32, 96, 128] {
            let blocks = device_bytes / 4096;
            let of_group = blocks.div_ceil(groups).min((1 << 28) - 1);
            let count = blocks.div_ceil(of_group);
            let all = (1..count).map(|group| group * of_group * 4096);
            let copies: Vec<_> = all.map(|at| (at, sb(of_group as u32, count as u32))).collect();
            let expected = ["XFS file system (secondary superblock)"];
            assert_eq!(names(device_bytes, &copies), expected, "{groups} of {device_bytes}");
            let moved: Vec<_> = copies.into_iter().map(|(at, sb)| (at + 4096, sb)).collect();
            assert!(names(device_bytes, &moved).is_empty(), "one of an image in a file");
        }
    }
}

#[test]
fn few_places_of_any_device_are_read_and_all_in_it() {
    for bytes in [0, 1, 4096, 65_536, MIB + 512, 64 * MIB, 300 * GIB, 1 << 45, u64::MAX / 2] {
        let places = places(bytes);
        assert!(places.len() <= 50, "{}", places.len());
        assert!(places.iter().map(|(_, len)| len).sum::<usize>() <= 2 << 20);
        assert!(places.iter().all(|(offset, len)| offset + *len as u64 <= bytes));
        assert_eq!(names(bytes, &[]), [""; 0]);
    }
}
