//! Mounts by the kernel's own list (`proc_pid_mountinfo(5)`): a question about a path would reach the daemon of its file system.
//!
//! The third field is the device's `major:minor`, the fifth the mount point. File systems over several devices (btrfs) have numbers of
//! their own; for those the source, second after a lone `-`, tells one of them.

use crate::identity::Identity;
use crate::users::unescaped;
use rustix::fs::{major, makedev, minor};
use std::fs;
use std::path::{Path, PathBuf};

/// The kernel's list as text; empty if it cannot be read.
pub(crate) fn list() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
}

/// Mount points of the device with this number in the text of the list, the first one first.
pub(crate) fn points_in(list: &str, number: u64) -> impl Iterator<Item = String> + '_ {
    let device = format!("{}:{}", major(number), minor(number));
    list.lines().filter_map(move |line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let point = unescaped(fields.get(4)?);
        let source =
            fields.iter().position(|field| *field == "-").and_then(|at| fields.get(at + 2));
        let is_source = || {
            let source = source.filter(|source| source.starts_with('/'))?;
            let found = Identity::of_path(&PathBuf::from(unescaped(source)))?;
            (found == Identity::Device(number)).then_some(())
        };
        (*fields.get(2)? == device || is_source().is_some()).then_some(point)
    })
}

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its source: a device, or the name that a file system without one gives.
    pub source: String,
    /// Kind of its file system, for example `ext4` or `fuse.nearhead`.
    pub kind: String,
    /// Number of its device, as `stat` of its files has it.
    pub device: u64,
}

/// The mount at just this folder, the uppermost of several, by the text of the list.
pub(crate) fn at(list: &str, folder: &Path) -> Option<Mount> {
    list.lines().rev().find_map(|line| {
        let (place, of) = line.split_once(" - ")?;
        let fields: Vec<&str> = place.split(' ').collect();
        let point = unescaped(fields.get(4)?);
        let (major, minor) = fields.get(2)?.split_once(':')?;
        let device = makedev(major.parse().ok()?, minor.parse().ok()?);
        let mut of = of.split(' ');
        let (kind, source) = (of.next()?.to_owned(), unescaped(of.next()?));
        (Path::new(&point) == folder).then_some(Mount { source, kind, device })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, MetadataExt};

    fn first(list: &str, number: u64) -> Option<String> {
        points_in(list, number).next()
    }

    #[test]
    fn a_file_system_over_several_devices_is_found_by_the_one_that_is_told() {
        let nodes = fs::read_dir("/dev").into_iter().flatten().filter_map(Result::ok);
        let mut devices = nodes.filter_map(|node| {
            let found = fs::metadata(node.path()).ok()?;
            found.file_type().is_block_device().then(|| (node.path(), found.rdev()))
        });
        let Some((path, number)) = devices.next() else {
            return println!("skipped: no block device has a node here");
        };
        let list = format!(
            "36 35 0:31 / / rw shared:1 - ext4 /dev/no-such-device rw\n\
             40 36 0:45 / /mnt/several rw,noatime shared:7 master:2 - btrfs {} rw\n\
             41 36 0:46 / /mnt/memory rw - tmpfs tmpfs rw\n",
            path.display()
        );
        assert_eq!(first(&list, number).as_deref(), Some("/mnt/several"));
        assert_eq!(first(&list, rustix::fs::makedev(4095, 7)), None);
    }

    #[test]
    fn mount_points_are_found_by_device_number_and_by_themselves_with_odd_names_whole() {
        let list = "36 35 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                    40 36 7:3 / /mnt/my\\040disk rw - ext4 /dev/loop3 rw\n\
                    41 36 7:3 / /mnt/again rw - ext4 /dev/loop3 rw\n";
        let points =
            |minor| -> Vec<String> { points_in(list, rustix::fs::makedev(7, minor)).collect() };
        assert_eq!(points(3), ["/mnt/my disk", "/mnt/again"]);
        assert!(points(33).is_empty());
        let mount = at(list, Path::new("/mnt/my disk")).unwrap();
        assert_eq!((mount.source.as_str(), mount.kind.as_str()), ("/dev/loop3", "ext4"));
        assert_eq!(mount.device, makedev(7, 3));
        assert_eq!(at(list, Path::new("/mnt")), None);
    }
}
