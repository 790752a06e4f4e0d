//! Structures at the borders of what makes one: each field that has a say, alone.

use crate::probe::{Contents, probe};

const DEVICE_BYTES: usize = 4 << 20;

fn names(pieces: &[(usize, &[u8])]) -> Vec<&'static str> {
    names_on(DEVICE_BYTES, pieces)
}

fn names_on(bytes: usize, pieces: &[(usize, &[u8])]) -> Vec<&'static str> {
    let mut image = vec![0; bytes];
    for (offset, piece) in pieces {
        image[*offset..offset + piece.len()].copy_from_slice(piece);
    }
    // Both ends overlap: whatever is there is seen.
    match probe(bytes as u64, &image, &image) {
        Contents::Known(findings) => findings.into_iter().map(|finding| finding.what).collect(),
        Contents::Empty | Contents::Unknown { .. } => Vec::new(),
    }
}

/// An ext superblock: blocks, size of one as a power, and the three words of features.
fn ext_names([blocks, log_block_kib, compat, incompat, ro_compat]: [u32; 5]) -> Vec<&'static str> {
    let words = [blocks, log_block_kib, compat, incompat, ro_compat].map(u32::to_le_bytes);
    names(&[
        (1080, &[0x53, 0xef]),
        (1028, &words[0]),
        (1048, &words[1]),
        (1116, &words[2]),
        (1120, &words[3]),
        (1124, &words[4]),
    ])
}

#[test]
fn an_ext_file_system_has_blocks_of_at_most_64_kib() {
    for (blocks, log_block_kib, is_one) in
        [(1, 0, true), (9, 6, true), (9, 7, false), (0, 0, false)]
    {
        let expected = if is_one { &["ext2 file system"][..] } else { &[] };
        assert_eq!(
            ext_names([blocks, log_block_kib, 0, 0, 0]),
            expected,
            "{blocks}, {log_block_kib}"
        );
    }
}

#[test]
fn which_ext_it_is_each_bit_of_its_features_says_alone() {
    for bit in 0..32 {
        let compat = if bit == 2 { "ext3 file system" } else { "ext2 file system" };
        assert_eq!(ext_names([9, 0, 1 << bit, 0, 0]), [compat], "compatible bit {bit}");
        let incompat = match bit {
            3 => "journal of an ext4 file system",
            0..=4 => "ext2 file system",
            _ => "ext4 file system",
        };
        assert_eq!(ext_names([9, 0, 0, 1 << bit, 0]), [incompat], "incompatible bit {bit}");
        let read_only = if bit < 3 { "ext2 file system" } else { "ext4 file system" };
        assert_eq!(ext_names([9, 0, 0, 0, 1 << bit]), [read_only], "read-only bit {bit}");
    }
    // A younger one has all that an older one has.
    assert_eq!(ext_names([9, 0, 0x3c, 0x242, 0x7b]), ["ext4 file system"]);
    assert_eq!(ext_names([9, 0, 0x3c, 0x24a, 0x7b]), ["journal of an ext4 file system"]);
}

#[test]
fn nilfs_needs_its_revision_and_its_magic() {
    assert_eq!(names(&[(1024, &[2, 0, 0, 0, 0, 0, 0x34, 0x34])]), ["NILFS2 file system"]);
    assert!(names(&[(1024, &[3, 0, 0, 0, 0, 0, 0x34, 0x34])]).is_empty());
    assert!(names(&[(1024, &[2, 0, 0, 0, 0, 0, 0x34, 0x35])]).is_empty());
}

#[test]
fn a_raid_superblock_of_version_1_needs_its_version_and_its_place() {
    let one: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0];
    let zero: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9, 0, 0, 0, 0];
    // Aligned to 4 KiB, at least 8 KiB before the end.
    for extra in [0, 512, 4095, 4096, 5000] {
        let bytes = DEVICE_BYTES + extra;
        let at = (bytes - 8192) / 4096 * 4096;
        assert_eq!(names_on(bytes, &[(at, one)]), ["Linux RAID 1.0 member"], "{extra} more");
        assert!(names_on(bytes, &[(at, zero)]).is_empty(), "{extra} more");
        assert!(names_on(bytes, &[(at - 4096, one)]).is_empty(), "{extra} more");
    }
    for (at, name) in [(0, "Linux RAID 1.1 member"), (4096, "Linux RAID 1.2 member")] {
        assert_eq!(names(&[(at, one)]), [name]);
        assert!(names(&[(at, zero)]).is_empty());
    }
}

#[test]
fn what_its_owner_called_it_is_told_with_a_raid_member_and_a_file_system() {
    let one: &[u8] = &[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0];
    let label = |pieces: &[(usize, &[u8])]| {
        let mut image = vec![0; DEVICE_BYTES];
        for (offset, piece) in pieces {
            image[*offset..offset + piece.len()].copy_from_slice(piece);
        }
        let Contents::Known(findings) = probe(DEVICE_BYTES as u64, &image, &image) else {
            panic!("{pieces:?}: nothing is known");
        };
        assert_eq!(findings.len(), 1);
        findings[0].label.clone()
    };
    for at in [0, 4096, DEVICE_BYTES - 8192] {
        assert_eq!(label(&[(at, one), (at + 32, b"host:0")]).as_deref(), Some("host:0"), "at {at}");
        assert_eq!(label(&[(at, one)]), None, "at {at}");
        let long = [b'x'; 40];
        assert_eq!(label(&[(at, one), (at + 32, &long)]), Some("x".repeat(32)), "at {at}");
    }
    let ext: [(usize, &[u8]); 2] = [(1080, &[0x53, 0xef]), (1028, &[1])];
    assert_eq!(label(&[ext[0], ext[1], (1144, b"home")]).as_deref(), Some("home"));
    let boot: (usize, &[u8]) = (510, &[0x55, 0xaa]);
    let fat = label(&[boot, (54, b"FAT16   "), (43, b"STICK      ")]);
    let fat_32 = label(&[boot, (82, b"FAT32   "), (71, b"STICK      ")]);
    assert_eq!([fat.as_deref(), fat_32.as_deref()], [Some("STICK"); 2]);
}

#[test]
fn uberblocks_of_zfs_are_found_all_over_the_rings_and_nowhere_else() {
    const K: usize = 1024;
    let magic = 0x00ba_b10c_u64.to_le_bytes();
    for bytes in [DEVICE_BYTES, DEVICE_BYTES + 200 * K] {
        let last = bytes / (256 * K) * 256 * K - 256 * K;
        for label in [0, last] {
            for (at, is_in_ring) in
                [(127 * K, false), (128 * K, true), (200 * K, true), (255 * K, true)]
            {
                let found = names_on(bytes, &[(label + at, &magic)]);
                let expected = if is_in_ring { &["ZFS pool member"][..] } else { &[] };
                assert_eq!(found, expected, "{bytes} bytes, {at} of the label at {label}");
            }
        }
        assert!(names_on(bytes, &[(256 * K, &magic)]).is_empty(), "behind the first ring");
        assert!(names_on(bytes, &[(128 * K + 512, &magic)]).is_empty(), "between two uberblocks");
    }
}

/// A boot sector with these four entries: status, type and sectors of each.
fn table_names(entries: [(u8, u8, u8); 4]) -> Vec<&'static str> {
    let mut sector = [0; 512];
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    for (number, (status, kind, sectors)) in entries.into_iter().enumerate() {
        let at = 446 + 16 * number;
        (sector[at], sector[at + 4], sector[at + 12]) = (status, kind, sectors);
    }
    names(&[(0, &sector)])
}

#[test]
fn a_partition_table_has_an_entry_in_use_and_no_status_but_two() {
    const UNUSED: (u8, u8, u8) = (0, 0, 0);
    const LINUX: (u8, u8, u8) = (0x80, 0x83, 9);
    const PROTECTIVE: (u8, u8, u8) = (0, 0xee, 9);
    let (mbr, of_gpt) = (["MBR partition table"], ["protective partition table (of a GPT)"]);
    for number in 0..4 {
        let alone = |entry| {
            let mut entries = [UNUSED; 4];
            entries[number] = entry;
            table_names(entries)
        };
        assert_eq!(alone(LINUX), mbr, "entry {number}");
        assert_eq!(alone((0, 0x83, 9)), mbr, "entry {number} that is not active");
        assert_eq!(alone(PROTECTIVE), of_gpt, "entry {number}");
        assert!(alone((0x80, 0x83, 0)).is_empty(), "entry {number} without sectors");
        assert!(alone((0x80, 0, 9)).is_empty(), "entry {number} without a type");
        let mut entries = [LINUX; 4];
        entries[number].0 = 0x7f;
        assert!(table_names(entries).is_empty(), "a status that no entry has, in {number}");
        let mut entries = [PROTECTIVE; 4];
        entries[number].1 = 0x83;
        assert_eq!(table_names(entries), mbr, "not all are protective, for {number} is not");
    }
    assert!(table_names([UNUSED; 4]).is_empty());
    assert_eq!(table_names([PROTECTIVE; 4]), of_gpt);
}

#[test]
fn our_last_superblock_is_found_in_any_of_the_last_16_sectors() {
    for extra in [0, 512, 700] {
        let bytes = (1 << 20) + extra;
        let whole = bytes / 512 * 512;
        for sectors in 1..=18 {
            let found = names_on(bytes, &[(whole - 512 * sectors, b"NEARHEAD")]);
            let expected = if sectors <= 16 { &["Nearhead volume"][..] } else { &[] };
            assert_eq!(found, expected, "{sectors} sectors before the end of {bytes} bytes");
        }
    }
}
