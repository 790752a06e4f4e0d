//! Attributes and content of the nodes of a mounted file system, as another process sees them.
//!
//! Attributes are read without a change of any time. Content and directories are read with
//! `O_NOATIME`; where a file system moves the time of access nevertheless, the caller takes new
//! attributes afterwards.

use super::perform::{xattr_names, xattr_value};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, SeekFrom, StatxFlags, StatxTimestamp};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A time in seconds and nanoseconds.
pub type Time = (i64, u32);

/// Names of the times of [`Node::times`].
pub const TIMES: [&str; 4] = ["atime", "mtime", "ctime", "btime"];

/// Attributes of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Number of the inode; differs between sides.
    pub ino: u64,
    /// Type and permissions.
    pub mode: u16,
    /// Names.
    pub links: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Bytes.
    pub size: u64,
    /// Units of 512 bytes.
    pub blocks: u64,
    /// Device number of a device node.
    pub device: (u32, u32),
    /// Preferred size of I/O.
    pub io_bytes: u32,
    /// Access, modification, change and birth; None if the file system does not report it.
    pub times: [Option<Time>; 4],
    /// Flags of `FS_IOC_GETFLAGS`, for files and directories.
    pub flags: Option<u32>,
    /// Extended attributes.
    pub xattrs: BTreeMap<String, Vec<u8>>,
}

impl Node {
    /// Type bits of the mode.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(u32::from(self.mode))
    }
}

/// Result of looking up a path: a node or an error.
pub type Found = Result<Node, i32>;

/// Attributes of every path of `paths` below `root`.
pub fn attributes(root: &Path, paths: &BTreeSet<String>) -> BTreeMap<String, Found> {
    paths.iter().map(|path| (path.clone(), node(&join(root, path)))).collect()
}

/// The path below `root`; `.` is the root.
pub fn join(root: &Path, path: &str) -> std::path::PathBuf {
    if path == "." { root.to_owned() } else { root.join(path) }
}

fn node(path: &Path) -> Found {
    node_at(path).map_err(Errno::raw_os_error)
}

fn node_at(path: &Path) -> Result<Node, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let found = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
    let has = StatxFlags::from_bits_retain(found.stx_mask);
    let time =
        |flag, time: StatxTimestamp| has.contains(flag).then_some((time.tv_sec, time.tv_nsec));
    let kind = FileType::from_raw_mode(u32::from(found.stx_mode));
    let has_flags = matches!(kind, FileType::RegularFile | FileType::Directory);
    let mut xattrs = BTreeMap::new();
    for name in xattr_names(path).unwrap_or_default() {
        let value = xattr_value(path, &name).unwrap_or_default();
        xattrs.insert(name, value);
    }
    Ok(Node {
        ino: found.stx_ino,
        mode: found.stx_mode,
        links: found.stx_nlink,
        owner: (found.stx_uid, found.stx_gid),
        size: found.stx_size,
        blocks: found.stx_blocks,
        device: (found.stx_rdev_major, found.stx_rdev_minor),
        io_bytes: found.stx_blksize,
        times: [
            time(StatxFlags::ATIME, found.stx_atime),
            time(StatxFlags::MTIME, found.stx_mtime),
            time(StatxFlags::CTIME, found.stx_ctime),
            time(StatxFlags::BTIME, found.stx_btime),
        ],
        flags: if has_flags { flags(path) } else { None },
        xattrs,
    })
}

fn flags(path: &Path) -> Option<u32> {
    let open = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOATIME | OFlags::NOFOLLOW;
    let file = rustix::fs::open(path, open, Mode::empty()).ok()?;
    rustix::fs::ioctl_getflags(file).ok().map(|flags| flags.bits())
}

/// Content of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes of a file, and the ranges that have data.
    File(Vec<u8>, Vec<(u64, u64)>),
    /// Target of a symbolic link.
    Link(String),
    /// Sorted names of a directory.
    Names(Vec<String>),
    /// A node without content.
    Other,
    /// The content cannot be read: errno.
    Unreadable(i32),
}

/// Contents of every node below `root`, by path.
pub fn contents(root: &Path) -> BTreeMap<String, Content> {
    let mut all = BTreeMap::new();
    let mut waiting = vec![".".to_owned()];
    while let Some(path) = waiting.pop() {
        let found = content(&join(root, &path));
        if let Content::Names(names) = &found {
            let prefix = if path == "." { String::new() } else { format!("{path}/") };
            waiting.extend(names.iter().map(|name| format!("{prefix}{name}")));
        }
        all.insert(path, found);
    }
    all
}

/// Content of the node at `path`.
pub fn content(path: &Path) -> Content {
    content_at(path).unwrap_or_else(|error| Content::Unreadable(error.raw_os_error().unwrap_or(-1)))
}

fn content_at(path: &Path) -> std::io::Result<Content> {
    let kind = std::fs::symlink_metadata(path)?.file_type();
    if kind.is_symlink() {
        return Ok(Content::Link(std::fs::read_link(path)?.to_string_lossy().into_owned()));
    }
    if kind.is_dir() {
        let open = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOATIME;
        let folder = rustix::fs::open(path, open, Mode::empty())?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        return Ok(Content::Names(names));
    }
    if !kind.is_file() {
        return Ok(Content::Other);
    }
    let open = OFlags::RDONLY | OFlags::NOATIME;
    let mut file = File::from(rustix::fs::open(path, open, Mode::empty())?);
    let mut bytes = Vec::new();
    let data = data_ranges(&file)?;
    file.read_to_end(&mut bytes)?;
    Ok(Content::File(bytes, data))
}

/// Ranges of `file` that `SEEK_DATA` and `SEEK_HOLE` report as data.
fn data_ranges(file: &File) -> std::io::Result<Vec<(u64, u64)>> {
    let mut ranges = Vec::new();
    let mut at = 0;
    loop {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(file, SeekFrom::Hole(start))?;
        ranges.push((start, end));
        if end <= start {
            break;
        }
        at = end;
    }
    rustix::fs::seek(file, SeekFrom::Start(0))?;
    Ok(ranges)
}
