//! A disk that loses what was not flushed: one file behind FUSE, of another process.
//!
//! What is written to it, or zeroed, can be read at once, but stays in a cache until an fsync asks for
//! it; only then it goes to the medium, a plain file of the test's. A durable write that is nothing but a
//! flag (`RWF_DSYNC`, `O_DSYNC`) means nothing to it, as to a file system that does not know it. So
//! what a power cut would leave at any moment is the medium as it is, and nobody need cut anything.
//!
//! The process is the test program itself, started again: who waits in the kernel for a file of his own
//! process can be ended by nobody.

use super::Scratch;
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite,
    Request, Session, SessionACL, WriteFlags,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

const FILE: INodeNo = INodeNo(2);
const NAME: &str = "disk";
const SECTOR: usize = 512;
const VALID: Duration = Duration::from_secs(86_400);
/// Tells the program that it is to serve: folder and medium, one a line.
const VARIABLE: &str = "NEARHEAD_LOSING_DISK";

/// A mounted disk; dropping it unmounts it and ends its process.
pub(crate) struct LosingDisk {
    folder: PathBuf,
    medium: PathBuf,
    child: Child,
}

impl LosingDisk {
    /// A disk of `bytes` zeros in `scratch`; none where nothing can be mounted, which is said. The test
    /// program must have a test called `server` that calls [`serve_if_asked`].
    pub(crate) fn start(scratch: &Scratch, bytes: u64, server: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            println!("skipped: a disk that loses what was not flushed needs root and /dev/fuse");
            return None;
        }
        let (folder, medium) = (scratch.path("losing"), scratch.path("medium.img"));
        std::fs::create_dir(&folder).unwrap();
        File::create_new(&medium).unwrap().set_len(bytes).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", server, "--nocapture"])
            .env(VARIABLE, format!("{}\n{}", folder.display(), medium.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_served = told.any(|line| line.is_ok_and(|line| line.contains("served")));
        // It has nothing more to say that anybody must hear.
        std::thread::spawn(move || told.for_each(drop));
        let disk = Self { folder, medium, child };
        if !is_served {
            println!("skipped: no file system in user space can be mounted here");
            return None;
        }
        Some(disk)
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// From now on the next sync fails, and what it was to make durable is gone; syncs after it succeed. It is how a
    /// file system tells of pages that it could not write: once.
    pub(crate) fn fail_next_sync(&self) {
        File::create_new(failing(&self.medium)).unwrap();
    }

    /// Whether a sync failed since.
    pub(crate) fn has_failed(&self) -> bool {
        !failing(&self.medium).exists()
    }

    /// The sector that is written next with these bytes at its beginning is bad from then on: neither that write nor a
    /// later one of it succeeds, whatever it brings.
    pub(crate) fn spoil_where(&self, beginning: &[u8]) {
        let order = spoiling(&self.medium);
        std::fs::write(order.with_extension("new"), beginning).unwrap();
        std::fs::rename(order.with_extension("new"), order).unwrap();
    }

    /// Whether such a sector was written.
    pub(crate) fn is_spoilt(&self) -> bool {
        !spoiling(&self.medium).exists()
    }

    /// What a power cut now would leave.
    pub(crate) fn medium(&self) -> &Path {
        &self.medium
    }
}

impl Drop for LosingDisk {
    fn drop(&mut self) {
        // Told by the end of its input, it unmounts.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Its existence is the order to fail the next sync.
fn failing(medium: &Path) -> PathBuf {
    medium.with_extension("fails")
}

/// Holds how the sector begins that is to be bad.
fn spoiling(medium: &Path) -> PathBuf {
    medium.with_extension("spoils")
}

/// Serves a disk if this process was started for that, until its standard input ends.
pub(crate) fn serve_if_asked() {
    let Ok(asked) = std::env::var(VARIABLE) else { return };
    let (folder, medium) = asked.split_once('\n').unwrap();
    let (failing, spoiling) = (failing(Path::new(medium)), spoiling(Path::new(medium)));
    let medium = File::options().read(true).write(true).open(medium).unwrap();
    let files = Files {
        size_bytes: medium.metadata().unwrap().len(),
        core: Mutex::new(Core { medium, cache: BTreeMap::new(), bad: BTreeSet::new() }),
        failing,
        spoiling,
    };
    let mut config = Config::default();
    config.acl = SessionACL::Owner;
    let Ok(session) = Session::new(files, Path::new(folder), &config) else { return };
    println!("served");
    let folder = folder.to_owned();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = Command::new("umount").args(["--lazy", &folder]).status();
        std::process::exit(0);
    });
    session.run().unwrap();
}

struct Core {
    medium: File,
    /// What a power cut loses, by sector.
    cache: BTreeMap<u64, [u8; SECTOR]>,
    /// Sectors that cannot be written.
    bad: BTreeSet<u64>,
}

struct Files {
    size_bytes: u64,
    core: Mutex<Core>,
    failing: PathBuf,
    spoiling: PathBuf,
}

impl Core {
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        assert!(offset.is_multiple_of(SECTOR as u64) && bytes.len().is_multiple_of(SECTOR));
        for (number, sector) in bytes.chunks_exact(SECTOR).enumerate() {
            self.cache.insert(offset / SECTOR as u64 + number as u64, sector.try_into().unwrap());
        }
    }

    /// Whether a write of `bytes` there fails; nothing of it is written then.
    fn is_refused(&mut self, offset: u64, bytes: &[u8], spoiling: &Path) -> bool {
        let sectors = (offset / SECTOR as u64..).zip(bytes.chunks(SECTOR));
        if let Ok(beginning) = std::fs::read(spoiling) {
            let spoilt = sectors.clone().find(|(_, sector)| sector.starts_with(&beginning));
            if let Some((sector, _)) = spoilt {
                self.bad.insert(sector);
                std::fs::remove_file(spoiling).unwrap();
            }
        }
        sectors.map(|(sector, _)| sector).any(|sector| self.bad.contains(&sector))
    }

    fn get(&self, offset: u64, len: usize) -> Vec<u8> {
        let sectors = offset / SECTOR as u64..(offset + len as u64).div_ceil(SECTOR as u64);
        let begin = sectors.start * SECTOR as u64;
        let mut bytes = vec![0; (sectors.end - sectors.start) as usize * SECTOR];
        self.medium.read_exact_at(&mut bytes, begin).unwrap();
        for (sector, kept) in self.cache.range(sectors.clone()) {
            let at = (sector - sectors.start) as usize * SECTOR;
            bytes[at..at + SECTOR].copy_from_slice(kept);
        }
        let skip = (offset - begin) as usize;
        bytes[skip..skip + len].to_vec()
    }

    fn flush(&mut self) {
        for (sector, bytes) in std::mem::take(&mut self.cache) {
            self.medium.write_all_at(&bytes, sector * SECTOR as u64).unwrap();
        }
    }
}

impl Files {
    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let (kind, perm, size) = if inode == FILE {
            (FileType::RegularFile, 0o600, self.size_bytes)
        } else {
            (FileType::Directory, 0o700, 0)
        };
        FileAttr {
            ino: inode,
            size,
            blocks: size / SECTOR as u64,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == NAME {
            reply.entry(&VALID, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&VALID, &self.attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let len = u64::from(size).min(self.size_bytes.saturating_sub(offset)) as usize;
        reply.data(&self.core.lock().unwrap().get(offset, len));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut core = self.core.lock().unwrap();
        if core.is_refused(offset, data, &self.spoiling) {
            return reply.error(Errno::EIO);
        }
        core.put(offset, data);
        reply.written(data.len() as u32);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let mut core = self.core.lock().unwrap();
        if std::fs::remove_file(&self.failing).is_ok() {
            core.cache.clear();
            return reply.error(Errno::EIO);
        }
        core.flush();
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        use rustix::fs::FallocateFlags as Flags;
        let zeros = Flags::from_bits_retain(mode as u32);
        if !zeros.intersects(Flags::PUNCH_HOLE | Flags::ZERO_RANGE) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        // Beyond its end there is nothing to zero: who asks wants to know whether it can be done.
        let len = len.min(self.size_bytes.saturating_sub(offset));
        self.core.lock().unwrap().put(offset, &vec![0; len as usize]);
        reply.ok();
    }
}
