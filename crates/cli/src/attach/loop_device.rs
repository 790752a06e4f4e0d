//! A volume as a file shown by FUSE, and a loop device on it: what every kernel has.
//!
//! The connection to the kernel is made here and handed to each worker, so the file outlives them. The loop device reads and writes past the
//! page cache of the file; its flushes are syncs of the file, its discards and zeroings holes in it. `losetup` makes and ends it.

use super::backend::{Backend, Device, HandedOver, Shape, missing_file, missing_root};
use super::detach::{LOOK_AGAIN, LOOKS};
use super::place::{Facts, Place};
use super::resize::size_of;
use nearhead_one_file::{Connection, Joined, NAME};
use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The way.
pub(super) struct LoopDevice;

struct Shown {
    joined: Joined,
}

impl Backend for LoopDevice {
    fn name(&self) -> &'static str {
        "loop"
    }

    fn missing(&self) -> Option<String> {
        missing_root()
            .or_else(|| missing_file("/dev/fuse", "fuse"))
            .or_else(|| missing_file("/dev/loop-control", "loop"))
    }

    fn begin(&self, place: &Place) -> Result<Box<dyn Device>, String> {
        let joined = Connection::mount(&place.shown())?;
        Ok(Box::new(Shown { joined }))
    }

    fn adopt(
        &self,
        place: &Place,
        facts: &Facts,
        workers: Option<OwnedFd>,
    ) -> Result<Box<dyn Device>, String> {
        let Some(workers) = workers else {
            return Err(format!(
                "attach {}: expected a worker that has its connection to the kernel, found none: it ended with it",
                place.name
            ));
        };
        let connection = Connection::inherited(workers);
        Ok(Box::new(Shown { joined: Joined { connection, can_resend: facts.outlives_a_kill } }))
    }

    fn is_there(&self, place: &Place, facts: &Facts) -> bool {
        is_on(&facts.device, place)
    }

    fn take_away(&self, place: &Place, facts: &Facts) -> Result<(), String> {
        if is_on(&facts.device, place) {
            let device = facts.device.display().to_string();
            losetup(&["--detach", &device])?;
            // A process that scans devices keeps it open for a moment; it goes when the last one closes it.
            let has_gone = (0..LOOKS).any(|_| {
                !is_on(&facts.device, place) || {
                    std::thread::sleep(LOOK_AGAIN);
                    false
                }
            });
            if !has_gone {
                return Err(format!(
                    "losetup --detach {device}: expected that it goes, found it open in another process; it goes when that closes it"
                ));
            }
        }
        let folder = place.shown();
        match nearhead_one_file::unmount(&folder) {
            Ok(()) => Ok(()),
            // Not mounted any more, or not even there: its supervisor has seen that it ended.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => {
                Ok(())
            }
            Err(error) => Err(format!("umount {}: {error}", folder.display())),
        }
    }

    fn give_up(&self, place: &Place, device: Option<&Path>) -> Result<(), String> {
        let folder = place.shown();
        // With "force" the kernel ends the connection, pending requests get an error, and no process waits for the rest of this.
        let _ = rustix::mount::unmount(&folder, UnmountFlags::FORCE);
        if let Some(device) = device.filter(|device| is_on(device, place)) {
            // If a process has it open it goes when that closes it.
            let _ = losetup(&["--detach", &device.display().to_string()]);
        }
        match rustix::mount::unmount(&folder, UnmountFlags::DETACH) {
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
            Err(errno) => Err(format!("umount {}: {errno}", folder.display())),
        }
    }
}

impl Device for Shown {
    fn for_worker(&self) -> Result<(OwnedFd, HandedOver), String> {
        let failed = |error: std::io::Error| format!("attach: out of descriptors: {error}");
        let descriptor = self.joined.connection.descriptor().map_err(failed)?;
        Ok((descriptor, HandedOver::File))
    }

    fn outlives_a_kill(&self) -> bool {
        self.joined.can_resend
    }

    fn make(&self, place: &Place, shape: Shape, _worker: u32) -> Result<PathBuf, String> {
        let file = place.shown().join(NAME).display().to_string();
        let block = shape.block_bytes.to_string();
        let mut args = vec!["--find", "--show", "--direct-io=on", "--sector-size", &block];
        if shape.read_only {
            args.push("--read-only");
        }
        args.push(&file);
        let device = PathBuf::from(losetup(&args)?);
        if sysfs(&device, "loop/dio").as_deref() != Some("1") {
            let name = device.display().to_string();
            let _ = losetup(&["--detach", &name]);
            return Err(format!(
                "attach: expected a loop device that reads and writes past the page cache, found that {name} does not"
            ));
        }
        Ok(device)
    }

    fn go_on(&self, _worker: u32) -> Result<(), String> {
        // The worker that reads from the connection gets the requests.
        Ok(())
    }

    fn resize(&self, place: &Place, device: &Path, size_bytes: u64) -> Result<(), String> {
        let file = place.shown().join(NAME);
        let failed = |found: &dyn std::fmt::Display| {
            format!(
                "resize {}: expected a file of {size_bytes} bytes, found {found}",
                file.display()
            )
        };
        // The kernel asks the worker, and uses its answer from then on.
        let (ask, size) = (AtFlags::STATX_FORCE_SYNC, StatxFlags::SIZE);
        let found = rustix::fs::statx(rustix::fs::CWD, &file, ask, size);
        let found = found.map_err(|error| failed(&error))?.stx_size;
        if found != size_bytes {
            return Err(failed(&found));
        }
        let name = device.display().to_string();
        losetup(&["--set-capacity", &name])?;
        match size_of(device) {
            Some(found) if found == size_bytes / 512 * 512 => Ok(()),
            found => Err(format!("resize {name}: expected {size_bytes} bytes, found {found:?}")),
        }
    }

    fn has_ended(&self) -> bool {
        self.joined.connection.has_ended()
    }
}

fn losetup(args: &[&str]) -> Result<String, String> {
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("losetup")
        .args(args)
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|error| {
        format!("attach: expected the program losetup (package mount), found none: {error}")
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(format!("losetup {}: {}", args.join(" "), words.trim()))
}

/// Whether the loop device is on the file of `place`.
fn is_on(device: &Path, place: &Place) -> bool {
    let file = place.shown().join(NAME);
    sysfs(device, "loop/backing_file").is_some_and(|found| Path::new(&found) == file)
}

pub(super) fn sysfs(device: &Path, what: &str) -> Option<String> {
    let name = device.file_name()?;
    let text = std::fs::read_to_string(Path::new("/sys/block").join(name).join(what)).ok()?;
    Some(text.trim().to_owned())
}
