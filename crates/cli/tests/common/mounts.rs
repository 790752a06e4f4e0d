//! Mounted file systems, for the tests that use them.

use super::{Daemon, Scratch, run, run_ok, tool, tools};
use std::path::{Path, PathBuf};

/// Whether a file system can be mounted here; says why not.
pub fn can_mount() -> bool {
    if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        println!("skipped: mounting needs root and /dev/fuse");
        return false;
    }
    tools(&["mkfs.ext4", "e2fsck"])
}

/// A volume with an empty file system on it, and a folder.
pub fn volume(scratch: &Scratch, size: &str) -> (String, PathBuf) {
    let image = scratch.text("volume.img");
    run_ok(scratch, &["create", &image, "--size", size, "--preset", "mlb", "--fragments", "yes"]);
    run_ok(scratch, &["mkfs", &image]);
    let folder = scratch.path("folder");
    std::fs::create_dir(&folder).unwrap();
    (image, folder)
}

/// A mounted file system; nothing of it is left behind, however a test ends.
pub struct Mounted {
    daemon: Option<Daemon>,
    folder: PathBuf,
}

impl Mounted {
    pub fn daemon(&self) -> &Daemon {
        self.daemon.as_ref().unwrap()
    }

    pub fn into_daemon(mut self) -> Daemon {
        self.daemon.take().unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.daemon.take().is_some() {
            tool("umount", &["-l", self.folder.to_str().unwrap()]);
        }
    }
}

pub fn mount(scratch: &Scratch, image: &str, folder: &Path, more: &[&str]) -> Mounted {
    let mut args = vec!["mount", image, folder.to_str().unwrap()];
    args.extend_from_slice(more);
    Mounted { daemon: Some(Daemon::spawn(scratch, &args)), folder: folder.to_owned() }
}

pub fn unmount(scratch: &Scratch, folder: &Path, mounted: Mounted) {
    // A child of another test holds a copy of each descriptor until it is another program.
    let is_busy = || {
        let output = run(scratch, &["umount", folder.to_str().unwrap()]);
        let is_busy = String::from_utf8_lossy(&output.stderr).contains("busy");
        assert!(is_busy || output.status.success(), "{output:?}");
        is_busy
    };
    assert!((0..100).any(|_| !is_busy()), "{} stays in use", folder.display());
    let (status, _, problems) = mounted.into_daemon().wait();
    assert!(status.success() && problems.is_empty(), "{status}: {problems}");
}

pub fn assert_clean(scratch: &Scratch, image: &str) {
    let output = run(scratch, &["fsck", image]);
    assert!(output.status.success(), "fsck: {output:?}");
}
