//! Each verb of a script as its system call.
//!
//! No call is retried and no error is changed: what the kernel answers is what is compared.

use super::system_calls::{Arguments, Caller, in_words};
use crate::content;
use nearhead_disk::BufferMut;
use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, FileType, FlockOperation, IFlags, Mode, OFlags,
    RenameFlags, SeekFrom, Timespec, Timestamps, XattrFlags,
};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Most files that `list-creating` makes before it gives up.
const CREATED_MAX: u64 = 3000;
/// Largest value of an attribute that is read.
const VALUE_BYTES_MAX: usize = 64 << 10;

/// `O_NONBLOCK`: a pipe that an act opens must not wait for its other end.
const NONBLOCK: i32 = OFlags::NONBLOCK.bits() as i32;

/// Letters of flags, as `lsattr` prints them.
pub const FLAG_LETTERS: [(char, IFlags); 12] = [
    ('i', IFlags::IMMUTABLE),
    ('a', IFlags::APPEND),
    ('A', IFlags::NOATIME),
    ('S', IFlags::SYNC),
    ('D', IFlags::DIRSYNC),
    ('d', IFlags::NODUMP),
    ('T', IFlags::TOPDIR),
    ('j', IFlags::JOURNALING),
    ('c', IFlags::COMPRESSED),
    ('s', IFlags::SECURE_REMOVAL),
    ('u', IFlags::UNRM),
    ('t', IFlags::NOTAIL),
];

/// Bits of `open` by their words.
const OPEN_WORDS: [(&str, OFlags); 14] = [
    ("rdonly", OFlags::RDONLY),
    ("wronly", OFlags::WRONLY),
    ("rdwr", OFlags::RDWR),
    ("creat", OFlags::CREATE),
    ("excl", OFlags::EXCL),
    ("trunc", OFlags::TRUNC),
    ("append", OFlags::APPEND),
    ("tmpfile", OFlags::TMPFILE),
    ("sync", OFlags::SYNC),
    ("dsync", OFlags::DSYNC),
    ("noatime", OFlags::NOATIME),
    ("nofollow", OFlags::NOFOLLOW),
    ("directory", OFlags::DIRECTORY),
    ("nonblock", OFlags::NONBLOCK),
];

type Done = io::Result<String>;

/// Makes the call `verb`; what it returned, in words.
pub fn perform(caller: &mut Caller, verb: &str, with: &Arguments<'_>) -> Done {
    match verb {
        "open" => {
            // A pipe would wait for its other end.
            let flags = open_flags(with.word(2)) | OFlags::NONBLOCK;
            let opened = rustix::fs::open(caller.path(with.word(1)), flags, with.mode(3))?;
            caller.files.insert(with.number(0)?, opened.into());
            Ok(String::new())
        }
        "close" => {
            let closed = caller.files.remove(&with.number(0)?);
            Ok(if closed.is_some() { String::new() } else { "not open".to_owned() })
        }
        "read" | "pread" | "write" | "pwrite" | "ftruncate" | "fallocate" | "seek-data"
        | "seek-hole" | "seek-end" | "copy-range" | "sendfile" | "fsync" | "fdatasync"
        | "flock" | "lock" | "fstat" | "fchmod" | "fchown" | "futimes" | "fsetxattr" => {
            on_open_file(caller, verb, with)
        }
        "map-write" | "map-read" => mapped(&caller.path(with.word(0)), verb, with),
        "fill" | "cat" | "truncate" | "fsync-path" | "syncfs" | "list" | "list-creating"
        | "readlink" | "access" => on_content(&caller.path(with.word(0)), verb, with),
        "chmod" | "chown" | "utimes" | "setxattr" | "getxattr" | "removexattr" | "listxattr"
        | "setflags" => on_attributes(&caller.path(with.word(0)), verb, with),
        _ => on_names(caller, verb, with),
    }
}

fn open_flags(words: &str) -> OFlags {
    words.split(',').fold(OFlags::CLOEXEC, |flags, word| {
        flags | OPEN_WORDS.iter().find(|(own, _)| *own == word).map_or(OFlags::empty(), |row| row.1)
    })
}

/// A count of bytes and a sum over them.
fn summary(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("{} bytes, sum {:08x}", bytes.len(), hasher.finish() as u32)
}

fn on_open_file(caller: &Caller, verb: &str, with: &Arguments<'_>) -> Done {
    let file = caller.file(with, 0)?;
    let none = String::new;
    match verb {
        "read" | "pread" => {
            let at = if verb == "pread" { Some(with.number(1)?) } else { None };
            let len = with.number(1 + usize::from(at.is_some()))?;
            let mut buffer = BufferMut::zeroed(len as usize);
            let count = match at {
                Some(at) => rustix::io::pread(file, &mut buffer[..], at)?,
                None => rustix::io::read(file, &mut buffer[..])?,
            };
            Ok(summary(&buffer[..count]))
        }
        "write" => {
            let bytes = content::bytes(with.number(1)?, 0, with.number(2)?);
            Ok(rustix::io::write(file, &bytes)?.to_string())
        }
        "pwrite" => {
            let at = with.number(2)?;
            let bytes = content::bytes(with.number(1)?, at, with.number(3)?);
            Ok(rustix::io::pwrite(file, &bytes, at)?.to_string())
        }
        "ftruncate" => Ok(rustix::fs::ftruncate(file, with.number(1)?).map(|()| none())?),
        "fallocate" => {
            let mode = FallocateFlags::from_bits_retain(with.number(1)? as u32);
            let done = rustix::fs::fallocate(file, mode, with.number(2)?, with.number(3)?);
            Ok(done.map(|()| none())?)
        }
        "seek-data" => Ok(rustix::fs::seek(file, SeekFrom::Data(with.number(1)?))?.to_string()),
        "seek-hole" => Ok(rustix::fs::seek(file, SeekFrom::Hole(with.number(1)?))?.to_string()),
        "seek-end" => {
            let at = with.number(1)? as i64;
            Ok(rustix::fs::seek(file, SeekFrom::End(-at))?.to_string())
        }
        "copy-range" => {
            let (mut from, mut to) = (with.number(1)?, with.number(3)?);
            let (other, len) = (caller.file(with, 2)?, with.number(4)? as usize);
            let done =
                rustix::fs::copy_file_range(file, Some(&mut from), other, Some(&mut to), len)?;
            Ok(done.to_string())
        }
        "sendfile" => {
            let mut from = with.number(1)?;
            let other = caller.file(with, 2)?;
            let count = with.number(3)? as usize;
            Ok(rustix::fs::sendfile(other, file, Some(&mut from), count)?.to_string())
        }
        "fsync" => Ok(rustix::fs::fsync(file).map(|()| none())?),
        "fdatasync" => Ok(rustix::fs::fdatasync(file).map(|()| none())?),
        "flock" => Ok(rustix::fs::flock(file, lock_kind(with.word(1))).map(|()| none())?),
        "lock" => Ok(rustix::fs::fcntl_lock(file, lock_kind(with.word(1))).map(|()| none())?),
        "fstat" => {
            let found = rustix::fs::fstat(file)?;
            Ok(format!(
                "mode {:o}, {} links, {} bytes",
                found.st_mode, found.st_nlink, found.st_size
            ))
        }
        "fchmod" => Ok(rustix::fs::fchmod(file, with.mode(1)).map(|()| none())?),
        "fchown" => {
            let (user, group) = owner(with, 1)?;
            Ok(rustix::fs::fchown(file, user, group).map(|()| none())?)
        }
        "futimes" => Ok(rustix::fs::futimens(file, &timestamps(with, 1)?).map(|()| none())?),
        "fsetxattr" => {
            let value = with.word(2).as_bytes();
            let done = rustix::fs::fsetxattr(file, with.word(1), value, XattrFlags::empty());
            Ok(done.map(|()| none())?)
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn lock_kind(word: &str) -> FlockOperation {
    match word {
        "shared" => FlockOperation::NonBlockingLockShared,
        "exclusive" => FlockOperation::NonBlockingLockExclusive,
        _ => FlockOperation::NonBlockingUnlock,
    }
}

/// Reads or writes a shared mapping, and brings it to the file by `msync`.
///
/// By Python: a mapping is memory that Rust cannot vouch for.
fn mapped(path: &Path, verb: &str, with: &Arguments<'_>) -> Done {
    // Opened without waiting: a named pipe has no other end here.
    const PROGRAM: &str = "import mmap, os, sys\n\
        path, at, text = sys.argv[1], int(sys.argv[2]), sys.argv[3]\n\
        how = (os.O_RDWR if text else os.O_RDONLY) | os.O_NONBLOCK\n\
        with mmap.mmap(os.open(path, how), 0, prot=3 if text else 1) as memory:\n\
        \x20   if text:\n\
        \x20       data = bytes.fromhex(text)[:max(0, len(memory) - at)]\n\
        \x20       memory[at:at + len(data)] = data\n\
        \x20       memory.flush()\n\
        \x20       print(len(data))\n\
        \x20   else:\n\
        \x20       print(hash(memory[at:at + int(sys.argv[4])]) & 0xffffffff)\n";
    let (at, len, text) = if verb == "map-write" {
        let (at, len) = (with.number(2)?, with.number(3)?);
        let bytes = content::bytes(with.number(1)?, at, len);
        (at, len, hexadecimal(&bytes))
    } else {
        (with.number(1)?, with.number(2)?, String::new())
    };
    let numbers = [at.to_string(), len.to_string()];
    let words = ["-c", PROGRAM, path.to_str().unwrap_or_default(), &numbers[0], &text, &numbers[1]];
    let mut command = crate::tools::command("python3", &words);
    let output = command.env("PYTHONHASHSEED", "0").output()?;
    let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() {
        return Ok(printed);
    }
    let words = String::from_utf8_lossy(&output.stderr);
    let last = words.lines().last().unwrap_or_default();
    Ok(last.split(": '").next().unwrap_or_default().to_owned())
}

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn on_content(path: &Path, verb: &str, with: &Arguments<'_>) -> Done {
    let none = String::new;
    match verb {
        "fill" => {
            let bytes = content::bytes(with.number(1)?, 0, with.number(2)?);
            let mut options = File::options();
            let file = options.write(true).create(true).truncate(true);
            file.custom_flags(NONBLOCK).open(path)?.write_all(&bytes).map(|()| none())
        }
        "cat" => {
            let mut bytes = Vec::new();
            let mut options = File::options();
            options.read(true).custom_flags(NONBLOCK).open(path)?.read_to_end(&mut bytes)?;
            Ok(summary(&bytes))
        }
        "truncate" => {
            let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty())?;
            Ok(rustix::fs::ftruncate(file, with.number(1)?).map(|()| none())?)
        }
        "fsync-path" => {
            let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?;
            Ok(rustix::fs::fsync(file).map(|()| none())?)
        }
        "syncfs" => Ok(rustix::fs::syncfs(File::open(path)?).map(|()| none())?),
        "list" => {
            let mut names = Vec::new();
            for entry in std::fs::read_dir(path)? {
                let entry = entry?;
                let kind = FileType::from_raw_mode(kind_bits(entry.file_type()?));
                names.push(format!("{}={kind:?}", entry.file_name().to_string_lossy()));
            }
            names.sort();
            Ok(names.join(" "))
        }
        "list-creating" => list_creating(path, with.number(1)?),
        "readlink" => Ok(std::fs::read_link(path)?.to_string_lossy().into_owned()),
        "access" => {
            let access = Access::from_bits_retain(with.number(1)? as u32);
            Ok(rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS).map(|()| none())?)
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn kind_bits(kind: std::fs::FileType) -> u32 {
    use std::os::unix::fs::FileTypeExt;
    let found = [
        (kind.is_dir(), FileType::Directory),
        (kind.is_file(), FileType::RegularFile),
        (kind.is_symlink(), FileType::Symlink),
        (kind.is_fifo(), FileType::Fifo),
        (kind.is_socket(), FileType::Socket),
        (kind.is_char_device(), FileType::CharacterDevice),
    ];
    found.iter().find(|(is, _)| *is).map_or(0, |(_, kind)| kind.as_raw_mode())
}

/// Makes `count` files for each entry that a listing returns; whether the listing ends.
fn list_creating(path: &Path, count: u64) -> Done {
    let name = |number: u64| path.join(format!("made-while-listing-{number}"));
    let (mut made, mut error) = (0, None);
    for entry in std::fs::read_dir(path)? {
        entry?;
        for _ in 0..count {
            error = error.or(File::create(name(made)).err());
            made += 1;
        }
        if made > CREATED_MAX {
            break;
        }
    }
    (0..made).for_each(|number| drop(std::fs::remove_file(name(number))));
    Ok(match error {
        Some(error) => in_words(&error),
        None if made > CREATED_MAX => "goes on".to_owned(),
        None => "ends".to_owned(),
    })
}

fn owner(
    with: &Arguments<'_>,
    first: usize,
) -> io::Result<(Option<rustix::fs::Uid>, Option<rustix::fs::Gid>)> {
    let id = |index| {
        if with.word(index) == "-" {
            Ok(None)
        } else {
            with.number(index).map(|id| Some(id as u32))
        }
    };
    let (user, group) = (id(first)?, id(first + 1)?);
    Ok((user.map(rustix::fs::Uid::from_raw), group.map(rustix::fs::Gid::from_raw)))
}

fn timestamps(with: &Arguments<'_>, first: usize) -> io::Result<Timestamps> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
    let time = |word: &str| -> io::Result<Timespec> {
        match word {
            "now" => Ok(Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW as _ }),
            "omit" => Ok(Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT as _ }),
            _ => {
                let (seconds, fraction) = word.split_once('.').ok_or_else(wrong)?;
                let seconds = seconds.parse().map_err(|_| wrong())?;
                let fraction: u32 = fraction.parse().map_err(|_| wrong())?;
                Ok(Timespec { tv_sec: seconds, tv_nsec: i64::from(fraction) as _ })
            }
        }
    };
    let (access, modification) = (time(with.word(first))?, time(with.word(first + 1))?);
    Ok(Timestamps { last_access: access, last_modification: modification })
}

fn on_attributes(path: &Path, verb: &str, with: &Arguments<'_>) -> Done {
    let none = String::new;
    match verb {
        "chmod" => {
            Ok(rustix::fs::chmodat(CWD, path, with.mode(1), AtFlags::empty()).map(|()| none())?)
        }
        "chown" => {
            let (user, group) = owner(with, 1)?;
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            Ok(rustix::fs::chownat(CWD, path, user, group, flags).map(|()| none())?)
        }
        "utimes" => {
            let (times, flags) = (timestamps(with, 1)?, AtFlags::SYMLINK_NOFOLLOW);
            Ok(rustix::fs::utimensat(CWD, path, &times, flags).map(|()| none())?)
        }
        "setxattr" => {
            let flags = XattrFlags::from_bits_retain(with.number(3)? as u32);
            let value = value_of(with.word(2));
            Ok(rustix::fs::lsetxattr(path, with.word(1), &value, flags).map(|()| none())?)
        }
        "getxattr" => {
            let mut value = vec![0; VALUE_BYTES_MAX];
            let len = rustix::fs::lgetxattr(path, with.word(1), &mut value[..])?;
            Ok(summary(&value[..len]))
        }
        "removexattr" => Ok(rustix::fs::lremovexattr(path, with.word(1)).map(|()| none())?),
        "listxattr" => Ok(xattr_names(path)?.join(" ")),
        "setflags" => {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
            let file = rustix::fs::open(path, flags, Mode::empty())?;
            let kept = rustix::fs::ioctl_getflags(&file)? & IFlags::from_bits_retain(EXTENTS);
            let wanted = FLAG_LETTERS.iter().filter(|(letter, _)| with.word(1).contains(*letter));
            let wanted = wanted.fold(kept, |flags, (_, flag)| flags | *flag);
            Ok(rustix::fs::ioctl_setflags(&file, wanted).map(|()| none())?)
        }
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// `EXT4_EXTENTS_FL` (linux/fs.h: `FS_EXTENT_FL`).
pub const EXTENTS: u32 = 0x0008_0000;

/// The bytes of an attribute: `*N` is N bytes, `%HEX` is bytes in hexadecimal, other text is itself.
fn value_of(word: &str) -> Vec<u8> {
    if let Some(len) = word.strip_prefix('*').and_then(|text| text.parse().ok()) {
        return content::bytes(len, 0, len);
    }
    let Some(text) = word.strip_prefix('%') else { return word.as_bytes().to_vec() };
    let pairs = text.as_bytes().chunks(2).filter_map(|pair| std::str::from_utf8(pair).ok());
    pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
}

/// Sorted names of the attributes of the node at `path`.
pub fn xattr_names(path: &Path) -> io::Result<Vec<String>> {
    let mut list = vec![0; VALUE_BYTES_MAX];
    let len = rustix::fs::llistxattr(path, &mut list[..])?;
    let names = list[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut names: Vec<_> = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Value of one attribute of the node at `path`.
pub fn xattr_value(path: &Path, name: &str) -> io::Result<Vec<u8>> {
    let mut value = vec![0; VALUE_BYTES_MAX];
    let len = rustix::fs::lgetxattr(path, name, &mut value[..])?;
    value.truncate(len);
    Ok(value)
}

fn on_names(caller: &Caller, verb: &str, with: &Arguments<'_>) -> Done {
    let (first, second) = (caller.path(with.word(0)), caller.path(with.word(1)));
    let none = String::new;
    let done = match verb {
        "link-open" => {
            let own = format!("/proc/self/fd/{}", caller.file(with, 0)?.as_raw_fd());
            rustix::fs::linkat(CWD, own, CWD, &second, AtFlags::SYMLINK_FOLLOW)
        }
        "link" => rustix::fs::linkat(CWD, &first, CWD, &second, AtFlags::empty()),
        "symlink" => rustix::fs::symlinkat(with.word(0), CWD, &second),
        "unlink" => rustix::fs::unlinkat(CWD, &first, AtFlags::empty()),
        "rmdir" => rustix::fs::unlinkat(CWD, &first, AtFlags::REMOVEDIR),
        "mkdir" => rustix::fs::mkdirat(CWD, &first, with.mode(1)),
        "rename" => {
            let flags = match with.word(2) {
                "exchange" => RenameFlags::EXCHANGE,
                "noreplace" => RenameFlags::NOREPLACE,
                "whiteout" => RenameFlags::WHITEOUT,
                "both" => RenameFlags::EXCHANGE | RenameFlags::NOREPLACE,
                _ => RenameFlags::empty(),
            };
            rustix::fs::renameat_with(CWD, &first, CWD, &second, flags)
        }
        "mknod" => {
            let (kind, device) = match with.word(1) {
                "fifo" => (FileType::Fifo, 0),
                "socket" => (FileType::Socket, 0),
                "char" => (FileType::CharacterDevice, rustix::fs::makedev(1, 3)),
                _ => (FileType::RegularFile, 0),
            };
            rustix::fs::mknodat(CWD, &first, kind, with.mode(2), device)
        }
        _ => return Err(io::ErrorKind::Unsupported.into()),
    };
    Ok(done.map(|()| none())?)
}
