//! The folder of a mount: which ones are refused, and what is mounted there.
//!
//! Files below a folder disappear for as long as something is mounted on it, so a folder with files is refused, and so are those that
//! the system needs. `-o nonempty` allows both. The folder of a mount without a daemon cannot be looked at; it is recognized by the
//! kernel's table of mounts, and the message names the command that helps.

use nearhead_uring::{Mount, mount_at};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

/// Folders that a running system needs, whatever is in them (hier(7)).
const SYSTEM: [&str; 15] = [
    "/", "/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/proc", "/root", "/run",
    "/sbin", "/sys", "/usr", "/var",
];

/// Whether the daemon of what is mounted at `folder` has ended. The kernel answers questions about attributes from its cache, but asks the
/// daemon for free space.
pub(super) fn is_dead(folder: &Path) -> bool {
    rustix::fs::statfs(folder).is_err_and(|errno| errno == Errno::NOTCONN)
}

/// `folder` without links and dots; that of a dead mount is found by its parent.
pub(super) fn canonical(folder: &Path) -> io::Result<PathBuf> {
    match folder.canonicalize() {
        Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
            let folder = std::path::absolute(folder)?;
            let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
                return Err(error);
            };
            Ok(parent.canonicalize()?.join(name))
        }
        other => other,
    }
}

/// The mount at `folder` itself.
pub(super) fn mounted(folder: &Path) -> io::Result<Option<Mount>> {
    Ok(mount_at(&canonical(folder)?))
}

/// Whether the kind of a file system is that of `nearhead mount`.
pub(super) fn is_ours(mount: &Mount) -> bool {
    mount.kind.ends_with(".nearhead")
}

/// Refuses a folder at which nothing is to be mounted.
pub(super) fn refuse(folder: &Path, allows_nonempty: bool) -> Result<(), String> {
    let place = folder.display();
    let failed = |error: io::Error| format!("mount {place}: {error}");
    if is_dead(folder) {
        return Err(format!(
            "mount {place}: the daemon of what is mounted there has ended; `nearhead umount {place}` first"
        ));
    }
    if !folder.is_dir() {
        return Err(format!("mount: expected an empty folder, found no folder at {place}"));
    }
    if let Some(Mount { source, .. }) = mounted(folder).map_err(failed)? {
        return Err(format!("mount: {source} is mounted at {place} already"));
    }
    if allows_nonempty {
        return Ok(());
    }
    let path = folder.canonicalize().map_err(failed)?;
    if SYSTEM.iter().any(|system| path == Path::new(system)) {
        return Err(format!(
            "mount: expected a folder of your own, found {place}, which the system needs; `-o nonempty` mounts there"
        ));
    }
    let first = std::fs::read_dir(folder).map_err(failed)?.next();
    match first.transpose().map_err(failed)? {
        None => Ok(()),
        Some(entry) => Err(format!(
            "mount: expected an empty folder, found {} in {place}; `-o nonempty` hides its files until it is unmounted",
            entry.file_name().display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_files_and_a_system_folder_are_refused() {
        let folder = std::env::temp_dir().join(format!("nearhead-folder-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert_eq!(refuse(&folder, false), Ok(()));
        std::fs::write(folder.join("file"), "content").unwrap();
        assert!(refuse(&folder, false).unwrap_err().contains("found file in"));
        assert_eq!(refuse(&folder, true), Ok(()));
        assert!(refuse(&folder.join("file"), true).unwrap_err().contains("found no folder"));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(refuse(Path::new("/etc"), false).unwrap_err().contains("which the system needs"));
        assert!(refuse(Path::new("/usr/../etc/"), false).is_err());
    }
}
