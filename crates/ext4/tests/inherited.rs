//! What new inodes take from their directories, and what attributes and access lists do to each other.

#![allow(clippy::unwrap_used, reason = "tests")]

mod driver;

use driver::{Disk, Driven, FEATURES, Scratch, at, has_tools, options, root_at};
use nearhead_ext4::{
    AttributeChange, Attributes, Caller, Errno, FileKind, Ino, NewNode, ROOT, Rename, Timestamp,
    XattrSet,
};

const ACCESS: &[u8] = b"system.posix_acl_access";
const DEFAULT: &[u8] = b"system.posix_acl_default";
const NONE: u32 = u32::MAX;

fn acl(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0];
    for (tag, permissions, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn fresh(scratch: &Scratch) -> Driven {
    Driven::mounted(Disk::made(scratch, 16, &["-O", FEATURES]), options())
}

fn make(driven: &mut Driven, parent: Ino, name: &str, kind: FileKind, mode: u16) -> Attributes {
    let new = NewNode { kind, mode, umask: 0o027, device: 0, target: None };
    let caller = Caller { uid: 500, gid: 600, now: at(3) };
    driven.run(|fs| fs.make(parent, name.as_bytes(), &new, &caller)).unwrap()
}

fn set(driven: &mut Driven, ino: Ino, name: &[u8], value: &[u8]) -> Result<(), Errno> {
    let set = driven.run(|fs| fs.set_xattr(ino, name, value, XattrSet::Any, &root_at(2)));
    set.map_err(|error| error.errno)
}

#[test]
fn a_setgid_directory_gives_its_group_and_directories_pass_it_on() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("setgid");
    let mut driven = fresh(&scratch);
    let directory = make(&mut driven, ROOT, "shared", FileKind::Directory, 0o777).ino;
    assert_eq!(driven.at("shared").gid, 600);
    let change = AttributeChange {
        mode: Some(0o2775),
        gid: Some(70_000),
        flags: Some(0x80),
        ..AttributeChange::default()
    };
    driven.run(|fs| fs.set_attributes(directory, &change, &root_at(2))).unwrap();
    let file = make(&mut driven, directory, "file", FileKind::Regular, 0o6777);
    assert_eq!((file.uid, file.gid, file.mode), (500, 70_000, 0o6750));
    assert_eq!(file.flags & 0x80, 0x80, "noatime is inherited");
    let below = make(&mut driven, directory, "below", FileKind::Directory, 0o755);
    assert_eq!((below.gid, below.mode), (70_000, 0o2750));
    assert_eq!(below.created, at(3));
    driven.commit();
    driven.disk.check(&scratch, "setgid");
}

#[test]
fn a_default_access_list_replaces_the_umask_and_is_passed_on() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("acl");
    let mut driven = fresh(&scratch);
    let directory = make(&mut driven, ROOT, "d", FileKind::Directory, 0o777).ino;
    let list = acl(&[(1, 7, NONE), (2, 6, 1000), (4, 5, NONE), (0x10, 7, NONE), (0x20, 5, NONE)]);
    set(&mut driven, directory, DEFAULT, &list).unwrap();
    let file = make(&mut driven, directory, "file", FileKind::Regular, 0o664);
    assert_eq!(file.mode, 0o664);
    let access = acl(&[(1, 6, NONE), (2, 6, 1000), (4, 5, NONE), (0x10, 6, NONE), (0x20, 4, NONE)]);
    assert_eq!(driven.run(|fs| fs.get_xattr(file.ino, ACCESS)).unwrap(), access);
    let below = make(&mut driven, directory, "below", FileKind::Directory, 0o777).ino;
    assert_eq!(driven.run(|fs| fs.get_xattr(below, DEFAULT)).unwrap(), list);
    assert_eq!(driven.run(|fs| fs.list_xattrs(below)).unwrap(), [ACCESS, DEFAULT]);
    // The mode is a part of the list, both ways.
    let change = AttributeChange { mode: Some(0o640), ..AttributeChange::default() };
    driven.run(|fs| fs.set_attributes(file.ino, &change, &root_at(4))).unwrap();
    let access = acl(&[(1, 6, NONE), (2, 6, 1000), (4, 5, NONE), (0x10, 4, NONE), (0x20, 0, NONE)]);
    assert_eq!(driven.run(|fs| fs.get_xattr(file.ino, ACCESS)).unwrap(), access);
    let plain = acl(&[(1, 7, NONE), (4, 1, NONE), (0x20, 0, NONE)]);
    set(&mut driven, file.ino, ACCESS, &plain).unwrap();
    assert_eq!(driven.at("d/file").mode, 0o710);
    let error = driven.run(|fs| fs.get_xattr(file.ino, ACCESS)).unwrap_err();
    assert_eq!(error.errno, Errno::NoData, "it says no more than the mode");
    assert_eq!(set(&mut driven, file.ino, DEFAULT, &list), Err(Errno::NotPermitted));
    assert_eq!(set(&mut driven, file.ino, ACCESS, &list[..20]), Err(Errno::Invalid));
    driven.commit();
    driven.disk.check(&scratch, "access lists");
}

#[test]
fn attributes_move_between_inode_and_block_as_they_grow_and_shrink() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("xattrs");
    let mut driven = fresh(&scratch);
    let file = make(&mut driven, ROOT, "file", FileKind::Regular, 0o644).ino;
    let blocks = |driven: &mut Driven| driven.at("file").blocks_512 / 8;
    set(&mut driven, file, b"user.small", b"1").unwrap();
    assert_eq!(blocks(&mut driven), 0);
    set(&mut driven, file, b"user.large", &[1; 3000]).unwrap();
    assert_eq!(blocks(&mut driven), 1);
    driven.commit();
    driven.disk.check(&scratch, "large");
    assert_eq!(set(&mut driven, file, b"user.huge", &[2; 5000]), Err(Errno::NoSpace));
    assert_eq!(set(&mut driven, file, b"unknown.name", b""), Err(Errno::NotSupported));
    assert_eq!(
        set(&mut driven, file, &[b"user.", &[b'n'; 256][..]].concat(), b""),
        Err(Errno::Range)
    );
    set(&mut driven, file, b"user.large", &[]).unwrap();
    assert_eq!(blocks(&mut driven), 0);
    assert_eq!(driven.run(|fs| fs.get_xattr(file, b"user.large")).unwrap(), []);
    driven.run(|fs| fs.remove_xattr(file, b"user.large", &root_at(3))).unwrap();
    let again = driven.run(|fs| fs.remove_xattr(file, b"user.large", &root_at(3))).unwrap_err();
    assert_eq!(again.errno, Errno::NoData);
    driven.commit();
    driven.disk.check(&scratch, "small");
}

#[test]
fn flags_of_inodes_forbid_what_they_say() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("flags");
    let mut driven = fresh(&scratch);
    let file = make(&mut driven, ROOT, "file", FileKind::Regular, 0o644).ino;
    let set_flags = |driven: &mut Driven, flags| {
        let change = AttributeChange { flags: Some(flags), ..AttributeChange::default() };
        driven.run(|fs| fs.set_attributes(file, &change, &root_at(2))).unwrap()
    };
    let append = 0x20;
    assert_eq!(set_flags(&mut driven, append | 0x1000_0000).flags, 0x8_0000 | append);
    let errno = |result: Result<(), nearhead_ext4::Error>| result.map_err(|error| error.errno);
    let forbidden = Err(Errno::NotPermitted);
    driven.write(file, 0, 1, 1).unwrap();
    assert_eq!(errno(driven.run(|fs| fs.truncate(file, 0, &root_at(2))).map(drop)), forbidden);
    assert_eq!(errno(driven.run(|fs| fs.unlink(ROOT, b"file", &root_at(2))).map(drop)), forbidden);
    set_flags(&mut driven, 0x10);
    // What was written before that still goes to its place: flags are checked where requests are accepted, not where they are carried out.
    assert_eq!(errno(driven.write(file, 1, 1, 1)), Ok(()));
    let moved = driven.run(|fs| fs.rename(ROOT, b"file", ROOT, b"x", Rename::Replace, &root_at(2)));
    assert_eq!(errno(moved.map(drop)), forbidden);
    set_flags(&mut driven, 0);
    driven.run(|fs| fs.unlink(ROOT, b"file", &root_at(2))).unwrap();
    driven.commit();
    driven.disk.check(&scratch, "flags");
}

#[test]
fn times_after_2038_and_before_1970_are_kept() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("times");
    let mut driven = fresh(&scratch);
    let file = make(&mut driven, ROOT, "file", FileKind::Regular, 0o644).ino;
    let late = Timestamp { seconds: 15_000_000_000, nanoseconds: 999_999_999 };
    let early = Timestamp { seconds: -1_000_000_000, nanoseconds: 1 };
    let change = AttributeChange {
        accessed: Some(late),
        modified: Some(early),
        ..AttributeChange::default()
    };
    driven.run(|fs| fs.set_attributes(file, &change, &root_at(9))).unwrap();
    let found = driven.at("file");
    assert_eq!((found.accessed, found.modified, found.changed), (late, early, at(9)));
    driven.commit();
    driven.disk.check(&scratch, "times");
}
