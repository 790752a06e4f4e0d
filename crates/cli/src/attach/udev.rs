//! Facts about attached volumes for udev, which makes their links and notifies systemd: for each device of the kernel's, by
//! the name that it has there, how the volume is called.
//!
//! ```text
//! /run/nearhead/devices/loop3  ->  NAME
//! ```
//!
//! The rule in contrib/udev reads it, whatever way the device was made. The kernel notifies udev of a device before its name is known, and of one
//! that stays (`nbd`, `loop`) before it is free again; so udev is triggered once more. Without udev nothing of it has any effect.

use std::ffi::OsStr;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// Where the rule looks.
const DEVICES: &str = "/run/nearhead/devices";

/// The block device is that of the volume called `name`.
pub(super) fn note(device: &Path, name: &str) -> Result<(), String> {
    let Some(kernel_name) = device.file_name() else { return Ok(()) };
    let path = entry(kernel_name);
    let failed = |error: std::io::Error| {
        format!(
            "attach: expected to make the link {}, found {error}; a line in fstab waits in vain for the device until it is attached again, mounting it by hand works",
            path.display()
        )
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o755).create(DEVICES).map_err(failed)?;
    // The link of one whose supervisor was killed.
    let _ = std::fs::remove_file(&path);
    symlink(name, &path).map_err(failed)?;
    look_again(kernel_name);
    Ok(())
}

/// Removes the name of a block device, if it was that of the volume called `name`.
pub(super) fn forget(device: &Path, name: &str) {
    let Some(kernel_name) = device.file_name() else { return };
    let path = entry(kernel_name);
    if std::fs::read_link(&path).is_ok_and(|known| known == Path::new(name)) {
        let _ = std::fs::remove_file(&path);
        look_again(kernel_name);
    }
}

fn entry(kernel_name: &OsStr) -> PathBuf {
    Path::new(DEVICES).join(kernel_name)
}

/// A device that is gone needs no scan, and a machine without udev has no program to scan it.
fn look_again(kernel_name: &OsStr) {
    let _ =
        std::fs::write(Path::new("/sys/class/block").join(kernel_name).join("uevent"), "change");
}
