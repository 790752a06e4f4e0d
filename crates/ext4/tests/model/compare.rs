//! Whether a file system is what the model says: through our own operations, and through the kernel's.

use super::{Block, Model};
use crate::driver::{Disk, Driven, Scratch, run};
use nearhead_ext4::{Attributes, BLOCK_BYTES, FileKind, Ino, Place, ROOT};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Compares every inode by our own operations.
pub(crate) fn compare(model: &Model, driven: &mut Driven) {
    for (ino, node) in &model.nodes {
        let found = driven.run(|fs| fs.attributes(*ino)).unwrap();
        assert_eq!(found.kind, node.kind, "{ino:?}");
        assert_eq!(
            (found.links, found.mode, found.uid, found.gid),
            (node.links, node.mode, node.uid, node.gid),
            "{ino:?}"
        );
        assert_eq!(found.modified, node.modified, "{ino:?}");
        if node.kind != FileKind::Directory {
            assert_eq!(found.size, node.size, "{ino:?}");
        }
        match node.kind {
            FileKind::Directory => compare_names(model, *ino, driven),
            FileKind::Regular => compare_blocks(model, &found, driven),
            FileKind::Symlink => {
                assert_eq!(driven.run(|fs| fs.read_link(*ino)).unwrap(), node.target, "{ino:?}");
            }
            FileKind::CharDevice | FileKind::BlockDevice => {
                assert_eq!(found.device, node.device, "{ino:?}");
            }
            FileKind::Fifo | FileKind::Socket => {}
        }
        let mut xattrs = BTreeMap::new();
        for name in driven.run(|fs| fs.list_xattrs(*ino)).unwrap() {
            let value = driven.run(|fs| fs.get_xattr(*ino, &name)).unwrap();
            xattrs.insert(name, value);
        }
        assert_eq!(xattrs, node.xattrs, "{ino:?}");
    }
}

fn compare_names(model: &Model, ino: Ino, driven: &mut Driven) {
    let node = &model.nodes[&ino];
    let mut listed = BTreeMap::new();
    let mut after = 0;
    loop {
        let entries = driven.run(|fs| fs.read_directory(ino, after, 7)).unwrap();
        let Some(last) = entries.last() else { break };
        after = last.cookie;
        for entry in entries {
            if node.links > 0 && entry.name == b"." {
                assert_eq!(entry.ino, ino);
            } else if entry.name == b".." {
                assert_eq!(entry.ino, node.parent, "{ino:?}");
            } else if !(ino == ROOT && entry.name == b"lost+found") {
                if let Some(known) = model.nodes.get(&entry.ino) {
                    assert_eq!(known.kind, entry.kind);
                }
                let twice = listed.insert(entry.name, entry.ino);
                assert_eq!(twice, None, "a name is listed twice");
            }
        }
    }
    assert_eq!(listed, node.names, "{ino:?}");
    for (name, target) in &node.names {
        assert_eq!(driven.run(|fs| fs.lookup(ino, name)).unwrap().ino, *target);
    }
}

fn compare_blocks(model: &Model, found: &Attributes, driven: &mut Driven) {
    let ino = found.ino;
    let node = &model.nodes[&ino];
    let end = node.blocks.last_key_value().map_or(0, |(last, _)| last + 2);
    let runs = driven.run(|fs| fs.map(ino, 0, end)).unwrap();
    let mut next = 0;
    for run in runs {
        assert_eq!(run.logical, next, "{ino:?}");
        next += run.len;
        for nth in 0..run.len {
            let known = node.blocks.get(&(run.logical + nth)).copied();
            match run.place {
                Place::Hole => assert_eq!(known, None, "{ino:?}"),
                Place::Unwritten(_) => assert_eq!(known, Some(Block::Unwritten), "{ino:?}"),
                Place::Written(physical) => {
                    let byte = driven.disk.block(physical + nth)[17];
                    assert_eq!(known, Some(Block::Written(byte)), "{ino:?}");
                }
            }
        }
    }
    assert_eq!(next, end);
    assert!(found.blocks_512 >= node.blocks.len() as u64 * 8);
}

/// Whether the kernel can mount images here; says why not.
pub(crate) fn has_kernel(scratch: &Scratch) -> bool {
    let supports = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !supports.contains("ext4") {
        println!("skipped: the kernel has no ext4");
        return false;
    }
    let path = scratch.path("probe");
    std::fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
    let path = path.to_str().unwrap();
    let directory = scratch.path("probed");
    std::fs::create_dir_all(&directory).unwrap();
    let directory = directory.to_str().unwrap();
    run("mkfs.ext4", &["-q", "-F", path]);
    let (code, said) = run("mount", &["-o", "ro,loop", path, directory]);
    if code != Some(0) {
        println!("skipped: cannot mount an image: {}", said.trim());
        return false;
    }
    crate::driver::unmount(directory);
    true
}

static MOUNTS: AtomicU64 = AtomicU64::new(0);

/// A mount that goes when it is dropped.
struct Mount(String);

impl Drop for Mount {
    fn drop(&mut self) {
        crate::driver::unmount(&self.0);
    }
}

/// Compares every file as the kernel's ext4 shows it.
pub(crate) fn compare_kernel(model: &Model, disk: &Disk, scratch: &Scratch) {
    // A loop device may outlive its mount by a moment, so no image is mounted twice.
    let nth = MOUNTS.fetch_add(1, Ordering::Relaxed);
    let image = scratch.path(&format!("mounted-{nth}"));
    disk.save(&image);
    let directory = scratch.path(&format!("mount-{nth}"));
    std::fs::create_dir_all(&directory).unwrap();
    let text = directory.to_str().unwrap().to_owned();
    let (code, said) = run("mount", &["-o", "ro,loop", image.to_str().unwrap(), &text]);
    assert_eq!(code, Some(0), "{said}");
    let mount = Mount(text);
    compare_tree(model, ROOT, &directory);
    drop(mount);
    std::fs::remove_file(image).unwrap();
}

fn compare_tree(model: &Model, ino: Ino, path: &Path) {
    let node = &model.nodes[&ino];
    let found = std::fs::symlink_metadata(path).unwrap();
    assert_eq!(found.ino(), u64::from(ino.0));
    assert_eq!(found.mode() & 0o7777, u32::from(node.mode), "{}", path.display());
    assert_eq!((found.uid(), found.gid()), (node.uid, node.gid), "{}", path.display());
    assert_eq!(found.nlink(), u64::from(node.links), "{}", path.display());
    assert_eq!(
        (found.mtime(), found.mtime_nsec()),
        (node.modified.seconds, i64::from(node.modified.nanoseconds)),
        "{}",
        path.display()
    );
    let kind = found.file_type();
    match node.kind {
        FileKind::Directory => {
            let mut names = BTreeMap::new();
            for entry in std::fs::read_dir(path).unwrap() {
                let entry = entry.unwrap();
                let name = entry.file_name().as_bytes().to_vec();
                if ino != ROOT || name != b"lost+found" {
                    names.insert(name, Ino(entry.metadata().unwrap().ino() as u32));
                }
            }
            assert_eq!(names, node.names, "{}", path.display());
            for (name, child) in &node.names {
                compare_tree(model, *child, &path.join(std::ffi::OsStr::from_bytes(name)));
            }
        }
        FileKind::Regular => compare_bytes(model, ino, path),
        FileKind::Symlink => {
            let target = std::fs::read_link(path).unwrap();
            assert_eq!(target.as_os_str().as_bytes(), node.target, "{}", path.display());
        }
        FileKind::CharDevice | FileKind::BlockDevice => {
            let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
            let device = minor & 0xFF | major << 8 | (minor & !0xFF) << 12;
            assert_eq!(device, node.device, "{}", path.display());
            assert!(kind.is_char_device() || kind.is_block_device());
        }
        FileKind::Fifo => assert!(kind.is_fifo()),
        FileKind::Socket => assert!(kind.is_socket()),
    }
    compare_xattrs(model, ino, path);
}

fn compare_bytes(model: &Model, ino: Ino, path: &Path) {
    let node = &model.nodes[&ino];
    let file = std::fs::File::open(path).unwrap();
    assert_eq!(file.metadata().unwrap().len(), node.size, "{}", path.display());
    for block in 0..node.size.div_ceil(BLOCK) {
        let expected = match node.blocks.get(&block) {
            Some(Block::Written(byte)) => *byte,
            _ => 0,
        };
        let len = (node.size - block * BLOCK).min(BLOCK) as usize;
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, block * BLOCK).unwrap();
        assert!(bytes.iter().all(|byte| *byte == expected), "{}: block {block}", path.display());
    }
}

fn compare_xattrs(model: &Model, ino: Ino, path: &Path) {
    let node = &model.nodes[&ino];
    let mut names = vec![0; 65_536];
    let len = rustix::fs::llistxattr(path, &mut names[..]).unwrap();
    let mut found = BTreeMap::new();
    for name in names[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 65_536];
        let len = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
        value.truncate(len);
        found.insert(name.to_vec(), value);
    }
    assert_eq!(found, node.xattrs, "{}", path.display());
}
