//! What is mounted where, by the kernel's own list (`proc_pid_mountinfo(5)`): asking a path would ask whoever serves it.

use rustix::fs::{major, minor};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// One mount.
struct Mount {
    /// `7:3`.
    device: String,
    point: PathBuf,
    source: PathBuf,
}

fn all() -> Vec<Mount> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    table.lines().filter_map(mount_in).collect()
}

fn mount_in(line: &str) -> Option<Mount> {
    let fields: Vec<&str> = line.split(' ').collect();
    let dash = fields.iter().position(|field| *field == "-")?;
    Some(Mount {
        device: (*fields.get(2)?).to_owned(),
        point: path(fields.get(4)?),
        source: path(fields.get(dash + 2)?),
    })
}

fn path(text: &str) -> PathBuf {
    OsString::from_vec(nearhead_fuse::unescaped(text)).into()
}

/// Whether something is mounted at `folder`.
pub(super) fn is_mounted(folder: &Path) -> bool {
    all().iter().any(|mount| mount.point == folder)
}

/// Where file systems of `device` are mounted, the last one first.
pub(super) fn points_of(device: &Path) -> Vec<PathBuf> {
    let Ok(found) = std::fs::metadata(device) else { return Vec::new() };
    let number = format!("{}:{}", major(found.rdev()), minor(found.rdev()));
    let mut points: Vec<PathBuf> = all()
        .into_iter()
        .filter(|mount| mount.device == number || mount.source == device)
        .map(|mount| mount.point)
        .collect();
    points.reverse();
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_by_its_fields_and_odd_names_are_whole() {
        let line =
            "36 35 7:3 / /mnt/a\\040b rw,noatime master:1 - ext4 /dev/loop3 rw,errors=continue";
        let mount = mount_in(line).unwrap();
        assert_eq!((mount.device.as_str(), mount.point.as_path()), ("7:3", Path::new("/mnt/a b")));
        assert_eq!(mount.source, Path::new("/dev/loop3"));
        assert!(mount_in("1 2 3").is_none());
    }
}
