//! Loop devices: the same bytes as those of the file or device they are attached to, under another
//! name, which no lock of the kernel's connects.
//!
//! What is attached is told by `/sys/block/loopN/loop` (`Documentation/ABI/testing/sysfs-block-loop`),
//! and compared by device and inode, so that neither links nor spellings matter. Where the path told
//! there does not lead to it (deleted, or nothing in this mount namespace) the device itself is asked. A loop
//! device that can be neither looked up nor asked is left out: nobody is refused on a guess. So is one on a file that a process of ours
//! shows: looking it up asks that process, which may be the one that looks.

use crate::identity::Identity;
use crate::ioctl;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A loop device with something attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    /// `loop3`.
    pub(crate) name: String,
    /// Its number.
    pub(crate) major_minor: (u32, u32),
    /// What is attached, as the kernel names it.
    pub(crate) path: PathBuf,
    /// What is attached.
    pub(crate) backing: Identity,
    /// Where in it the device begins, in bytes.
    pub(crate) offset: u64,
    /// Most bytes of it, if that is bounded.
    pub(crate) len_max: Option<u64>,
}

impl Loop {
    /// Its number as one.
    pub(crate) fn number(&self) -> u64 {
        rustix::fs::makedev(self.major_minor.0, self.major_minor.1)
    }

    /// Whether it is only a part of what is attached.
    pub(crate) fn is_part(&self) -> bool {
        self.offset != 0 || self.len_max.is_some()
    }

    /// Whether some byte of what is attached belongs to both.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        let end = |one: &Self| one.len_max.map_or(u64::MAX, |len| one.offset.saturating_add(len));
        self.backing == other.backing && self.offset < end(other) && other.offset < end(self)
    }
}

/// All loop devices with something attached that can be told.
pub(crate) fn attached() -> Vec<Loop> {
    let Ok(entries) = fs::read_dir("/sys/block") else { return Vec::new() };
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let ours = shown_folders_in(&table);
    let mut found: Vec<Loop> =
        entries.filter_map(Result::ok).filter_map(|entry| one_at(&entry.path(), &ours)).collect();
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found
}

/// What a loop device is attached to; `None` for anything else.
pub(crate) fn attached_to(device: &Path) -> Option<PathBuf> {
    let Identity::Device(number) = Identity::of_path(device)? else { return None };
    attached().into_iter().find(|found| found.number() == number).map(|found| found.path)
}

/// Folders at which a process of ours shows a disk as a file, by the text of `/proc/self/mounts`.
fn shown_folders_in(table: &str) -> Vec<PathBuf> {
    let fields = table.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields
        .filter(|fields| fields.first() == Some(&"nearhead") && fields.get(2) == Some(&"fuse.disk"))
        .filter_map(|fields| Some(crate::users::unescaped(fields.get(1)?).into()))
        .collect()
}

fn one_at(directory: &Path, ours: &[PathBuf]) -> Option<Loop> {
    let text = |name: &str| fs::read_to_string(directory.join(name)).ok();
    let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
    let told = fs::read(directory.join("loop/backing_file")).ok()?;
    let path = path_in(&told);
    if ours.iter().any(|folder| path.starts_with(folder)) {
        return None;
    }
    let name = directory.file_name()?.to_string_lossy().into_owned();
    let (major, minor) =
        text("dev")?.trim().split_once(':').map(|(a, b)| (a.parse(), b.parse()))?;
    let by_device = || asked(&Path::new("/dev").join(&name));
    let by_path = || Identity::of_path(&path);
    // Another file may have the whole name by now, mark and all.
    let backing = if is_taken_away(&path) {
        by_device().or_else(by_path)
    } else {
        by_path().or_else(by_device)
    }?;
    Some(Loop {
        name,
        major_minor: (major.ok()?, minor.ok()?),
        path,
        backing,
        offset: number("loop/offset").unwrap_or(0),
        len_max: number("loop/sizelimit").filter(|bytes| *bytes > 0),
    })
}

/// The path in what the kernel tells: any bytes, and one line end.
fn path_in(told: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(told.strip_suffix(b"\n").unwrap_or(told)))
}

/// Whether the kernel says that the name is gone (`d_path` of the Linux sources), or it ends as if it did.
fn is_taken_away(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b" (deleted)")
}

/// What the device itself says is attached.
fn asked(device: &Path) -> Option<Identity> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let device = rustix::fs::open(device, flags, Mode::empty()).ok()?;
    let told = ioctl::loop_status(&device).ok()?;
    Some(match told.device_attached {
        0 => Identity::File { device: told.file_system, inode: told.inode },
        device => Identity::Device(device),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::process::Command;

    /// A loop device on a file, detached when dropped.
    pub(crate) struct Attached(pub(crate) PathBuf);

    impl Attached {
        /// Attaches one, or says why this machine does not allow it.
        pub(crate) fn to(file: &Path) -> Option<Self> {
            Self::with(&[], file)
        }

        /// The same with more options.
        pub(crate) fn with(options: &[&str], file: &Path) -> Option<Self> {
            // Without the last one what is made of it would outlive it.
            let always = ["--find", "--show", "--partscan"];
            match Command::new("losetup").args(always).args(options).arg(file).output() {
                Ok(output) if output.status.success() => {
                    Some(Self(String::from_utf8(output.stdout).unwrap().trim().into()))
                }
                other => {
                    println!("skipped: losetup: {other:?}");
                    None
                }
            }
        }
    }

    impl Drop for Attached {
        fn drop(&mut self) {
            let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
        }
    }

    fn part(inode: u64, offset: u64, len_max: Option<u64>) -> Loop {
        Loop {
            name: "loop0".to_owned(),
            major_minor: (7, 0),
            path: PathBuf::from("a.img"),
            backing: Identity::File { device: 1, inode },
            offset,
            len_max,
        }
    }

    #[test]
    fn parts_of_one_file_overlap_only_where_they_share_bytes() {
        let whole = part(1, 0, None);
        let (first, second) = (part(1, 0, Some(4096)), part(1, 4096, None));
        assert!(whole.overlaps(&first) && second.overlaps(&whole));
        assert!(!first.overlaps(&second) && !second.overlaps(&first));
        assert!(!whole.overlaps(&part(2, 0, None)), "another file");
        assert!(first.is_part() && second.is_part() && !whole.is_part());
    }
}
