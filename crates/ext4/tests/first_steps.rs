//! Each operation once, on images of every supported make, with e2fsck and debugfs as judges.

#![allow(clippy::unwrap_used, reason = "tests")]

mod driver;

use driver::{Disk, Driven, FEATURES, Scratch, has_tools, options, root_at, run};
use nearhead_ext4::{
    AttributeChange, Errno, Ext4, FileKind, IMMUTABLE_FLAG, ROOT, Removed, Rename, XattrSet, blank,
    sample,
};

const KINDS: [FileKind; 7] = [
    FileKind::Regular,
    FileKind::Directory,
    FileKind::Symlink,
    FileKind::Fifo,
    FileKind::Socket,
    FileKind::CharDevice,
    FileKind::BlockDevice,
];

/// Makes of file systems.
const MAKES: &[(&str, &[&str])] = &[
    ("usual", &["-O", "^has_journal,^dir_index,^resize_inode"]),
    ("small groups", &["-O", FEATURES, "-g", "1024"]),
    ("32 bits", &["-O", "^has_journal,^dir_index,^resize_inode,^64bit", "-g", "2048"]),
    ("no checksums", &["-O", "^has_journal,^dir_index,^resize_inode,^metadata_csum", "-g", "2048"]),
    (
        "old checksums",
        &["-O", "^has_journal,^dir_index,^resize_inode,^metadata_csum,uninit_bg", "-g", "2048"],
    ),
    (
        "seed of checksums",
        &["-O", "^has_journal,^dir_index,^resize_inode,metadata_csum_seed", "-g", "2048"],
    ),
    ("no flexible groups", &["-O", "^has_journal,^dir_index,^resize_inode,^flex_bg", "-g", "2048"]),
    (
        "few features",
        &[
            "-O",
            "^has_journal,^dir_index,^resize_inode,^sparse_super,^dir_nlink,^extra_isize,^flex_bg",
            "-g",
            "2048",
        ],
    ),
    ("lazy tables", &["-O", FEATURES, "-g", "2048", "-E", "lazy_itable_init=1,nodiscard"]),
];

#[test]
fn debugfs_shows_the_bytes_the_links_and_the_attributes_that_were_written() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("debugfs");
    let mut driven = Driven::mounted(Disk::made(&scratch, 64, &["-O", FEATURES]), options());
    let file = driven.make(ROOT, "file", FileKind::Regular).unwrap().ino;
    driven.write(file, 0, 3, b'a').unwrap();
    driven.write(file, 5, 2, b'b').unwrap();
    driven.run(|fs| fs.link(file, ROOT, b"again", &root_at(1))).unwrap();
    let set = |fs: &mut Ext4| fs.set_xattr(file, b"user.k", b"value", XattrSet::Any, &root_at(1));
    driven.run(set).unwrap();
    driven.commit();
    let path = scratch.path("image");
    driven.disk.save(&path);
    let debugfs = |request: &str| {
        let (code, said) = run("debugfs", &["-R", request, path.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{said}");
        said
    };
    let said = debugfs("stat /again");
    for words in [
        &format!("Inode: {}", file.0),
        "Links: 2",
        "Size: 28672",
        "Blockcount: 40",
        "Mode:  0755",
        "user.k (5) = \"value\"",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let dumped = scratch.path("dumped");
    debugfs(&format!("dump /file {}", dumped.display()));
    let expected = [vec![b'a'; 3 * 4096], vec![0; 2 * 4096], vec![b'b'; 2 * 4096]].concat();
    assert_eq!(std::fs::read(dumped).unwrap(), expected);
}

#[test]
fn an_image_made_without_mkfs_is_clean_and_serves() {
    if !has_tools() {
        return;
    }
    for blocks in [64, 1000, 32_768] {
        let scratch = Scratch::new("sample");
        let made = sample::image(blocks, [9; 16], driver::at(0)).unwrap();
        let disk =
            Disk { blocks: made.into_iter().collect(), len: blocks.into(), ..Disk::default() };
        disk.check(&scratch, "as made");
        let mut driven = Driven::mounted(disk, options());
        let directory = driven.make(ROOT, "directory", FileKind::Directory).unwrap().ino;
        let file = driven.make(directory, "file", FileKind::Regular).unwrap().ino;
        driven.write(file, 0, 20, 1).unwrap();
        driven.commit();
        driven.disk.check(&scratch, "used");
    }
    assert!(sample::image(63, [9; 16], driver::at(0)).is_err());
}

#[test]
fn every_operation_leaves_an_image_that_e2fsck_finds_clean() {
    if !has_tools() {
        return;
    }
    for (name, arguments) in MAKES {
        let scratch = Scratch::new("steps");
        let disk = Disk::made(&scratch, 64, arguments);
        let mut driven = Driven::mounted(disk, options());
        driven.commit();
        driven.disk.check(&scratch, &format!("{name}: mounted"));
        for kind in KINDS {
            let made = driven.make(ROOT, &format!("{kind:?}"), kind).unwrap();
            assert_eq!(driven.at(&format!("{kind:?}")), made);
        }
        driven.commit();
        driven.disk.check(&scratch, &format!("{name}: made"));
        let file = driven.at("Regular").ino;
        driven.write(file, 0, 10, 1).unwrap();
        driven.write(file, 20, 3, 2).unwrap();
        driven.commit();
        driven.disk.check(&scratch, &format!("{name}: written"));
        let directory = driven.at("Directory").ino;
        driven
            .run(|fs| {
                fs.rename(ROOT, b"Regular", directory, b"moved", Rename::Replace, &root_at(3))
            })
            .unwrap();
        driven.run(|fs| fs.link(file, ROOT, b"again", &root_at(3))).unwrap();
        driven.commit();
        driven.disk.check(&scratch, &format!("{name}: renamed"));
        let value = vec![7; 2000];
        driven
            .run(|fs| fs.set_xattr(file, b"user.name", &value, XattrSet::Any, &root_at(4)))
            .unwrap();
        driven
            .run(|fs| fs.set_xattr(file, b"user.short", b"v", XattrSet::Create, &root_at(4)))
            .unwrap();
        driven.commit();
        driven.disk.check(&scratch, &format!("{name}: attributes"));
        assert_eq!(driven.run(|fs| fs.get_xattr(file, b"user.name")).unwrap(), value);
        driven.run(|fs| fs.reserve(file, 30, 5, false, &root_at(5))).unwrap();
        driven.run(|fs| fs.punch(file, 2, 3, &root_at(5))).unwrap();
        driven.run(|fs| fs.make_unwritten(file, 6, 16, &root_at(5))).unwrap();
        driven.commit();
        driven.disk.check(&scratch, &format!("{name}: punched"));
        driven.run(|fs| fs.truncate(file, 4096 * 7 + 5, &root_at(6))).unwrap();
        driven.commit();
        driven.disk.check(&scratch, &format!("{name}: truncated"));
        driven.run(|fs| fs.unlink(ROOT, b"again", &root_at(7))).unwrap();
        let removed = driven.run(|fs| fs.unlink(directory, b"moved", &root_at(7))).unwrap();
        assert_eq!(removed, Removed { ino: file, is_gone: true });
        driven.run(|fs| fs.remove_directory(ROOT, b"Directory", &root_at(7))).unwrap();
        driven.commit();
        driven.disk.check(&scratch, &format!("{name}: removed"));
    }
}

#[test]
fn a_blank_of_many_groups_is_clean_and_stays_so_with_files_all_over_it() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("blank");
    for (groups, inodes) in [(1, 16), (2, 8192), (130, 1024)] {
        let made = blank::image(groups, inodes, [9; 16], driver::at(0)).unwrap();
        assert!(made.keys().all(|block| *block < u64::from(groups) * blank::GROUP_BLOCKS));
        let len = u64::from(groups) * blank::GROUP_BLOCKS;
        let disk = Disk { blocks: made.into_iter().collect(), len, ..Disk::default() };
        disk.check(&scratch, &format!("a blank of {groups} groups"));
        let mut driven = Driven::mounted(disk, options());
        let spread: std::collections::BTreeSet<u32> = (0..4)
            .map(|nth| {
                let folder = driven.make(ROOT, &format!("folder{nth}"), FileKind::Directory);
                let folder = folder.unwrap().ino;
                if inodes > 16 {
                    let file = driven.make(folder, "file", FileKind::Regular).unwrap().ino;
                    driven.write(file, 0, 100, b'a').unwrap();
                }
                (folder.0 - 1) / inodes
            })
            .collect();
        driven.commit();
        driven.disk.check(&scratch, &format!("{groups} groups with files"));
        assert!(spread.len() >= 2 || groups < 3, "{spread:?}");
    }
    assert!(blank::image(0, 1024, [9; 16], driver::at(0)).is_err());
    assert!(blank::image(2, 15, [9; 16], driver::at(0)).is_err());
    assert!(blank::image(200_000, 1024, [9; 16], driver::at(0)).is_err());
}

#[test]
fn immutable_is_refused_before_kind_and_emptiness() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("immutable");
    let mut driven = Driven::mounted(Disk::made(&scratch, 16, &["-O", FEATURES]), options());
    let folder = driven.make(ROOT, "folder", FileKind::Directory).unwrap().ino;
    driven.make(folder, "inside", FileKind::Regular).unwrap();
    let file = driven.make(ROOT, "file", FileKind::Regular).unwrap().ino;
    driven.make(ROOT, "other", FileKind::Directory).unwrap();
    for ino in [folder, file] {
        let flags = Some(IMMUTABLE_FLAG);
        let change = AttributeChange { flags, ..AttributeChange::default() };
        driven.run(|fs| fs.set_attributes(ino, &change, &root_at(1))).unwrap();
    }
    let root = root_at(2);
    let by = |how, name: &'static [u8], new: &'static [u8]| {
        move |fs: &mut Ext4| fs.rename(ROOT, name, ROOT, new, how, &root).map(drop)
    };
    let found = [
        driven.run(|fs| fs.remove_directory(ROOT, b"folder", &root).map(drop)),
        driven.run(|fs| fs.unlink(ROOT, b"folder", &root).map(drop)),
        driven.run(|fs| fs.remove_directory(ROOT, b"file", &root).map(drop)),
        driven.run(by(Rename::Replace, b"other", b"folder")),
        driven.run(by(Rename::Replace, b"other", b"file")),
        driven.run(by(Rename::Exchange, b"other", b"folder")),
    ];
    let found = found.map(|done| done.map_err(|error| error.errno));
    assert_eq!(found, [Err(Errno::NotPermitted); 6]);
}
