//! What the tests drive the file system with: a disk in memory that takes changes as one, and the tools of e2fsprogs.
//!
//! Every operation is repeated until it has the blocks that it wants; that it changes nothing before is asserted each time.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses a part of it; a failing unwrap is the test failing"
)]

use nearhead_ext4::{
    Attributes, BLOCK_BYTES, BlockBytes, Caller, Changes, Error, Ext4, FileKind, Ino, NewNode,
    Options, Outcome, ROOT, Stop, Timestamp,
};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// The features that the file system is made for.
pub(crate) const FEATURES: &str = "^has_journal,^dir_index,^resize_inode";

/// A moment that e2fsck does not take for the future.
pub(crate) fn at(nth: u64) -> Timestamp {
    Timestamp { seconds: 1_700_000_000 + (nth / 1000) as i64, nanoseconds: (nth % 1000) as u32 }
}

pub(crate) fn root_at(nth: u64) -> Caller {
    Caller { uid: 0, gid: 0, now: at(nth) }
}

/// A directory that goes when the test ends.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("nearhead-ext4-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Runs a program; gives whether it went well and all that it said.
pub(crate) fn run(program: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(program).args(arguments).env("PATH", path_variable()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// Takes a mount away; at once from the tree if somebody looks at it just now.
pub(crate) fn unmount(directory: &str) {
    if run("umount", &[directory]).0 != Some(0) {
        run("umount", &["--lazy", directory]);
    }
}

fn path_variable() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{path}:/usr/sbin:/sbin")
}

/// Whether the tools are there; says why not.
pub(crate) fn has_tools() -> bool {
    let has = ["mkfs.ext4", "e2fsck", "debugfs"]
        .iter()
        .all(|tool| Command::new(tool).arg("-V").env("PATH", path_variable()).output().is_ok());
    if !has {
        println!("skipped: e2fsprogs (mkfs.ext4, e2fsck, debugfs) is not installed");
    }
    has
}

/// A disk in memory; blocks of zeros are not kept.
#[derive(Clone, Default)]
pub(crate) struct Disk {
    pub(crate) blocks: HashMap<u64, BlockBytes>,
    pub(crate) len: u64,
    /// Blocks that were last written as data of files.
    pub(crate) data: HashSet<u64>,
    /// Blocks that somebody asked for, if that is noted.
    pub(crate) wanted: RefCell<BTreeSet<u64>>,
}

impl Disk {
    /// As mkfs.ext4 makes it.
    pub(crate) fn made(scratch: &Scratch, mebibytes: u64, arguments: &[&str]) -> Self {
        let path = scratch.path("made");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(mebibytes << 20).unwrap();
        let path = path.to_str().unwrap();
        let all = [&["-q", "-F", "-b", "4096"], arguments, &[path]].concat();
        let (code, said) = run("mkfs.ext4", &all);
        assert_eq!(code, Some(0), "mkfs.ext4 {all:?}: {said}");
        Self::read(Path::new(path))
    }

    pub(crate) fn read(path: &Path) -> Self {
        let mut file = std::fs::File::open(path).unwrap();
        let len = file.metadata().unwrap().len() / BLOCK_BYTES as u64;
        let mut blocks = HashMap::new();
        let mut buffer = vec![0; 1 << 20];
        let mut at = 0;
        loop {
            let got = file.read(&mut buffer).unwrap();
            if got == 0 {
                return Self { blocks, len, ..Self::default() };
            }
            for chunk in buffer[..got].chunks_exact(BLOCK_BYTES) {
                if chunk.iter().any(|byte| *byte != 0) {
                    blocks.insert(at, Arc::new(chunk.try_into().unwrap()));
                }
                at += 1;
            }
        }
    }

    pub(crate) fn block(&self, block: u64) -> BlockBytes {
        assert!(block < self.len, "block {block} is behind the end {}", self.len);
        self.blocks.get(&block).cloned().unwrap_or_else(|| Arc::new([0; BLOCK_BYTES]))
    }

    pub(crate) fn write(&mut self, block: u64, bytes: BlockBytes) {
        assert!(block < self.len, "block {block} is behind the end {}", self.len);
        self.blocks.insert(block, bytes);
        self.data.remove(&block);
    }

    pub(crate) fn write_data(&mut self, block: u64, bytes: BlockBytes) {
        self.write(block, bytes);
        self.data.insert(block);
    }

    pub(crate) fn save(&self, path: &Path) {
        self.save_those(path, |_| true);
    }

    fn save_those(&self, path: &Path, is_saved: impl Fn(u64) -> bool) {
        let mut file = std::fs::File::create(path).unwrap();
        file.set_len(self.len * BLOCK_BYTES as u64).unwrap();
        let mut numbers: Vec<&u64> = self.blocks.keys().collect();
        numbers.sort_unstable();
        for block in numbers.into_iter().filter(|block| is_saved(**block)) {
            file.seek(SeekFrom::Start(block * BLOCK_BYTES as u64)).unwrap();
            file.write_all(&*self.blocks[block]).unwrap();
        }
    }

    /// Panics with what e2fsck says if it finds anything.
    pub(crate) fn check(&self, scratch: &Scratch, what: &str) {
        let path = scratch.path("checked");
        // It looks at metadata alone.
        self.save_those(&path, |block| !self.data.contains(&block));
        let (code, said) = run("e2fsck", &["-fn", path.to_str().unwrap()]);
        assert_eq!(code, Some(0), "{what}: {said}");
    }
}

/// A file system on a disk.
pub(crate) struct Driven {
    pub(crate) fs: Ext4,
    pub(crate) disk: Disk,
    /// Blocks that were read.
    pub(crate) reads: u64,
}

impl Driven {
    pub(crate) fn mounted(disk: Disk, options: Options) -> Self {
        let mut driven = Self::opened(disk, options);
        driven.run(|fs| fs.mount(at(0))).unwrap();
        driven
    }

    pub(crate) fn opened(disk: Disk, options: Options) -> Self {
        let fs = Ext4::open(&*disk.block(0), disk.len * BLOCK_BYTES as u64, options).unwrap();
        Self { fs, disk, reads: 0 }
    }

    /// Repeats an operation until it has what it wants.
    pub(crate) fn run<T>(
        &mut self,
        mut operation: impl FnMut(&mut Ext4) -> Outcome<T>,
    ) -> Result<T, Error> {
        let before = (self.fs.is_changed(), self.fs.changes_len(), self.fs.statistics());
        for _ in 0..1_000_000 {
            match operation(&mut self.fs) {
                Ok(answer) => return Ok(answer),
                Err(stop) => {
                    let after = (self.fs.is_changed(), self.fs.changes_len(), self.fs.statistics());
                    assert_eq!(before, after, "an operation that stopped changed something");
                    match stop {
                        Stop::Wants(blocks) => self.give(&blocks),
                        Stop::Fails(error) => return Err(error),
                    }
                }
            }
        }
        panic!("an operation never has all that it wants");
    }

    fn give(&mut self, blocks: &[u64]) {
        assert!(!blocks.is_empty(), "an operation wants nothing and does not go on");
        for block in blocks {
            self.fs.give(*block, self.disk.block(*block));
            self.reads += 1;
        }
    }

    pub(crate) fn commit(&mut self) -> Changes {
        let changes = self.fs.take_changes();
        for (block, before) in &changes.before {
            assert!(*before == self.disk.block(*block), "block {block} was something else before");
        }
        for (block, bytes) in &changes.blocks {
            self.disk.write(*block, bytes.clone());
        }
        self.fs.settle(changes.id);
        changes
    }

    /// The inode at the end of a path of names.
    pub(crate) fn at(&mut self, path: &str) -> Attributes {
        let mut found = self.run(|fs| fs.attributes(ROOT)).unwrap();
        for name in path.split('/').filter(|name| !name.is_empty()) {
            found = self.run(|fs| fs.lookup(found.ino, name.as_bytes())).unwrap();
        }
        found
    }

    pub(crate) fn make(
        &mut self,
        parent: Ino,
        name: &str,
        kind: FileKind,
    ) -> Result<Attributes, Error> {
        let target = (kind == FileKind::Symlink).then(|| b"somewhere".to_vec());
        let new = NewNode { kind, mode: 0o755, umask: 0, device: 0x0123_4567, target };
        self.run(|fs| fs.make(parent, name.as_bytes(), &new, &root_at(1)))
    }

    /// Gives blocks to a file, writes `byte` into them and lets it grow over them.
    pub(crate) fn write(
        &mut self,
        ino: Ino,
        first: u64,
        count: u64,
        byte: u8,
    ) -> Result<(), Error> {
        let runs = self.run(|fs| fs.allocate(ino, first, count, &root_at(2)))?;
        let mut next = first;
        for run in runs {
            assert_eq!(run.logical, next);
            next += run.len;
            for block in run.physical..run.physical + run.len {
                self.disk.write_data(block, Arc::new([byte; BLOCK_BYTES]));
            }
        }
        assert_eq!(next, first + count);
        self.run(|fs| fs.grow(ino, (first + count) * BLOCK_BYTES as u64, &root_at(2)))
    }
}

pub(crate) fn options() -> Options {
    Options { read_only: false, cache_blocks_max: 1024, seed: 1 }
}
