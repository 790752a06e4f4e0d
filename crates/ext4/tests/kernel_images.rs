//! Images that the kernel's ext4 wrote: read as it shows them, changed, and clean for it again.

#![allow(clippy::unwrap_used, reason = "tests")]

mod driver;

use driver::{Disk, Driven, FEATURES, Scratch, has_tools, options, root_at, run};
use nearhead_ext4::{BLOCK_BYTES, FileKind, Place, ROOT, XattrSet};
use rustix::fs::XattrFlags;
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// A mount that goes when it is dropped.
struct Mount(PathBuf);

impl Mount {
    /// None, with a word, where images cannot be mounted.
    fn new(image: &Path, directory: PathBuf, how: &str) -> Option<Self> {
        std::fs::create_dir_all(&directory).unwrap();
        let (image, text) = (image.to_str().unwrap(), directory.to_str().unwrap());
        let (code, said) = run("mount", &["-t", "ext4", "-o", how, image, text]);
        if code != Some(0) {
            println!("skipped: cannot mount an image: {}", said.trim());
            return None;
        }
        Some(Self(directory))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        driver::unmount(self.0.to_str().unwrap());
    }
}

/// What the kernel shows of a file.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    ino: u32,
    mode: u32,
    owner: (u32, u32),
    links: u64,
    size: u64,
    blocks: u64,
    modified: (i64, i64),
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

fn shown(path: &Path) -> Shown {
    let found = std::fs::symlink_metadata(path).unwrap();
    let mut names = vec![0; 65_536];
    let len = rustix::fs::llistxattr(path, &mut names[..]).unwrap();
    let names = names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; 65_536];
        let len = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
        value.truncate(len);
        value
    };
    Shown {
        ino: found.ino() as u32,
        mode: found.mode(),
        owner: (found.uid(), found.gid()),
        links: found.nlink(),
        size: found.size(),
        blocks: found.blocks(),
        modified: (found.mtime(), found.mtime_nsec()),
        xattrs: names.map(|name| (name.to_vec(), value(name))).collect(),
    }
}

fn walk(directory: &Path, prefix: &str, found: &mut BTreeMap<String, Shown>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{prefix}{}", path.file_name().unwrap().to_string_lossy());
        found.insert(name.clone(), shown(&path));
        if path.is_dir() && !path.is_symlink() {
            walk(&path, &format!("{name}/"), found);
        }
    }
}

fn populate(top: &Path) {
    std::fs::create_dir_all(top.join("a/b/c")).unwrap();
    for nth in 0..500 {
        let name = format!("a/a file whose name fills blocks of the directory {nth}");
        std::fs::write(top.join(name), vec![b'x'; nth * 20]).unwrap();
    }
    let sparse = std::fs::File::create(top.join("sparse")).unwrap();
    for nth in 0..700 {
        sparse.write_all_at(&[7; 100], nth * 8192).unwrap();
    }
    symlink("short", top.join("short link")).unwrap();
    symlink("long/".repeat(60), top.join("long link")).unwrap();
    std::fs::hard_link(top.join("sparse"), top.join("a/b/c/again")).unwrap();
    std::os::unix::fs::chown(top.join("a/b"), Some(3_000_000_000), Some(70_000)).unwrap();
    // The kernel lets files with the same attributes share a block.
    for name in ["shared 1", "shared 2", "shared 3"] {
        let path = top.join(name);
        std::fs::write(&path, name).unwrap();
        let set = |name: &str, value: &[u8]| {
            rustix::fs::lsetxattr(&path, name, value, XattrFlags::empty()).unwrap();
        };
        set("user.large", &[9; 3000]);
        let acl = [
            &[2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255, 2, 0, 6, 0, 1, 2, 0, 0][..],
            &[4, 0, 4, 0, 255, 255, 255, 255, 16, 0, 6, 0, 255, 255, 255, 255],
            &[32, 0, 0, 0, 255, 255, 255, 255],
        ];
        set("system.posix_acl_access", &acl.concat());
    }
}

fn compare(driven: &mut Driven, path: &str, shown: &Shown) {
    let found = driven.at(path);
    assert_eq!(found.ino.0, shown.ino, "{path}");
    assert_eq!(u32::from(found.mode | found.kind.mode_bits()), shown.mode, "{path}");
    assert_eq!((found.uid, found.gid), shown.owner, "{path}");
    assert_eq!(
        (u64::from(found.links), found.size, found.blocks_512),
        (shown.links, shown.size, shown.blocks),
        "{path}"
    );
    let modified = (found.modified.seconds, i64::from(found.modified.nanoseconds));
    assert_eq!(modified, shown.modified, "{path}");
    let mut xattrs = BTreeMap::new();
    for name in driven.run(|fs| fs.list_xattrs(found.ino)).unwrap() {
        let value = driven.run(|fs| fs.get_xattr(found.ino, &name)).unwrap();
        xattrs.insert(name, value);
    }
    assert_eq!(xattrs, shown.xattrs, "{path}");
}

#[test]
fn what_the_kernel_wrote_is_read_changed_and_read_by_the_kernel_again() {
    if !has_tools() {
        return;
    }
    let scratch = Scratch::new("kernel");
    Disk::made(&scratch, 64, &["-O", FEATURES]);
    let image = scratch.path("made");
    let Some(mount) = Mount::new(&image, scratch.path("mount"), "loop") else { return };
    populate(&mount.0);
    // Blocks count once they have a place.
    run("sync", &["-f", mount.0.to_str().unwrap()]);
    let mut kernel = BTreeMap::new();
    walk(&mount.0, "", &mut kernel);
    let room = rustix::fs::statvfs(&mount.0).unwrap();
    drop(mount);
    let mut driven = Driven::mounted(Disk::read(&image), options());
    for (path, shown) in &kernel {
        compare(&mut driven, path, shown);
    }
    let statistics = driven.fs.statistics();
    assert_eq!((statistics.blocks, statistics.inodes), (room.f_blocks, room.f_files));
    let long = driven.at("long link").ino;
    assert_eq!(driven.run(|fs| fs.read_link(long)).unwrap(), "long/".repeat(60).as_bytes());
    let sparse = driven.at("sparse").ino;
    let runs = driven.run(|fs| fs.map(sparse, 0, 1400)).unwrap();
    let written: u64 =
        runs.iter().filter(|run| matches!(run.place, Place::Written(_))).map(|run| run.len).sum();
    assert_eq!(written, 700);
    // One of those that share a block of attributes changes, one goes; the third keeps what it has.
    let first = driven.at("shared 1").ino;
    driven
        .run(|fs| fs.set_xattr(first, b"user.large", &[8; 3000], XattrSet::Replace, &root_at(1)))
        .unwrap();
    driven.commit();
    driven.disk.check(&scratch, "one that shares changed");
    driven.run(|fs| fs.unlink(ROOT, b"shared 2", &root_at(1))).unwrap();
    driven.run(|fs| fs.punch(sparse, 10, 1000, &root_at(1))).unwrap();
    let directory = driven.at("a").ino;
    for nth in (0..500).step_by(3) {
        let name = format!("a file whose name fills blocks of the directory {nth}");
        driven.run(|fs| fs.unlink(directory, name.as_bytes(), &root_at(1))).unwrap();
    }
    driven.make(directory, "new", FileKind::Regular).unwrap();
    driven.commit();
    driven.disk.check(&scratch, "changed");
    let image = scratch.path("changed");
    driven.disk.save(&image);
    let Some(mount) = Mount::new(&image, scratch.path("again"), "loop,ro") else { return };
    let mut kernel = BTreeMap::new();
    walk(&mount.0, "", &mut kernel);
    for (path, shown) in &kernel {
        compare(&mut driven, path, shown);
    }
    assert_eq!(kernel["shared 1"].xattrs[b"user.large".as_slice()], [8; 3000]);
    assert_eq!(kernel["shared 3"].xattrs[b"user.large".as_slice()], [9; 3000]);
    assert!(!kernel.contains_key("shared 2"));
    let mut bytes = vec![1; BLOCK_BYTES];
    let file = std::fs::File::open(mount.0.join("sparse")).unwrap();
    file.read_exact_at(&mut bytes, 8192 * 100).unwrap();
    assert_eq!(bytes, [0; BLOCK_BYTES]);
    assert_eq!(
        std::fs::read_link(mount.0.join("long link")).unwrap().as_os_str().as_bytes().len(),
        300
    );
}
