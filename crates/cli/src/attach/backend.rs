//! The ways to make a block device of a volume, one file each, and which one is taken.
//!
//! A way has a [`Device`] for as long as the process that supervises lives: it gives each worker what it serves, and makes the block device
//! once the first one is ready. What takes a device away again is the way's own and needs no [`Device`], so that `detach` can do it also
//! where the supervisor is gone.

use super::loop_device::LoopDevice;
use super::nbd_device::NbdDevice;
use super::place::{Facts, Place};
use super::ublk_device::UblkDevice;
use clap::ValueEnum;
use serde::Deserialize;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The ways by name.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The kernel's driver for block devices of programs (ublk, Linux 6.0)
    Ublk,
    /// The kernel's client of NBD, over a socket of our own
    Nbd,
    /// A file shown by FUSE, and a loop device on it
    Loop,
}

/// Facts about the volume that a worker reports, in the line of `serve --json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct VolumeFacts {
    /// Its id, in hexadecimal digits.
    pub(super) volume_id: String,
    /// Its size.
    pub(super) size_bytes: u64,
    /// Whether it lies on a mechanical disk.
    pub(super) rotational: bool,
    /// Whether large ranges become zeros without being written.
    pub(super) fast_zero: bool,
}

/// How the block device is to be.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Its smallest block, in bytes.
    pub(super) block_bytes: u32,
    /// Whether nothing can be written.
    pub(super) read_only: bool,
    /// Facts about the volume, as the worker reports them.
    pub(super) volume: VolumeFacts,
}

/// Kinds of standard input of a worker.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandedOver {
    /// The connection behind a folder.
    #[default]
    File,
    /// A device of the ublk driver.
    Ublk,
    /// One end of a socket whose other end the kernel has.
    Nbd,
}

/// A way to make a block device.
pub(super) trait Backend: Sync {
    /// As [`By`] has it.
    fn name(&self) -> &'static str;

    /// Why this machine cannot do it, if it cannot.
    fn missing(&self) -> Option<String>;

    /// Begins: there is nothing to be seen yet.
    fn begin(&self, place: &Place) -> Result<Box<dyn Device>, String>;

    /// Goes on with the device in `facts`, which a process before this one made. `workers` is the worker's standard input, if one lives.
    fn adopt(
        &self,
        place: &Place,
        facts: &Facts,
        workers: Option<OwnedFd>,
    ) -> Result<Box<dyn Device>, String>;

    /// Whether the block device is still the one that was made here: its number may belong to another one by now.
    fn is_there(&self, place: &Place, facts: &Facts) -> bool;

    /// Takes away the block device, which has no user; the worker ends after that.
    fn take_away(&self, place: &Place, facts: &Facts) -> Result<(), String>;

    /// Takes away what can be taken away of it at once, and ends all requests with errors, also those of who uses it: no worker will answer
    /// them. `device` if one was made.
    fn give_up(&self, place: &Place, device: Option<&Path>) -> Result<(), String>;
}

/// A device in the making, and then a device.
pub(super) trait Device: Send + Sync {
    /// The standard input of a worker: what it serves, and what that is. Also when the device was taken away: then it sees just that.
    fn for_worker(&self) -> Result<(OwnedFd, HandedOver), String>;

    /// Whether another worker can go on where one was killed.
    fn outlives_a_kill(&self) -> bool;

    /// Makes the block device; the process `worker` is ready to serve it.
    fn make(&self, place: &Place, shape: Shape, worker: u32) -> Result<PathBuf, String>;

    /// Lets it go on with the process `worker`, which is ready to serve it where another one was before.
    fn go_on(&self, worker: u32) -> Result<(), String>;

    /// Gives the block device `device`, which is used, the size that the volume has by now.
    fn resize(&self, place: &Place, device: &Path, size_bytes: u64) -> Result<(), String>;

    /// Whether it was taken away: no request comes any more.
    fn has_ended(&self) -> bool;
}

/// Best first.
const ALL: [&dyn Backend; 3] = [&UblkDevice, &NbdDevice, &LoopDevice];

/// The way that `by` names, or the best one that this machine has.
pub(super) fn chosen(by: Option<By>) -> Result<&'static dyn Backend, String> {
    if let Some(by) = by {
        let backend = named(by.to_possible_value().as_ref().map_or("", |value| value.get_name()))?;
        return match backend.missing() {
            None => Ok(backend),
            Some(why) => Err(format!("attach --by {}: {why}", backend.name())),
        };
    }
    let found = ALL.into_iter().find(|backend| backend.missing().is_none());
    found.ok_or_else(|| {
        let why = |backend: &&dyn Backend| {
            format!("{}: {}", backend.name(), backend.missing().unwrap_or_default())
        };
        let all: Vec<String> = ALL.iter().map(why).collect();
        format!(
            "attach: expected a way to make a block device, found none here: {}",
            all.join("; ")
        )
    })
}

/// The way called so.
pub(super) fn named(name: &str) -> Result<&'static dyn Backend, String> {
    let found = ALL.into_iter().find(|backend| backend.name() == name);
    found.ok_or_else(|| format!("attach: expected a way that this program knows, found {name:?}"))
}

/// Sees to it that `file`, which a module of the kernel makes, is there; else why not.
pub(super) fn missing_file(file: &str, module: &str) -> Option<String> {
    let is_there = || Path::new(file).exists();
    if !is_there() {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut load = Command::new("modprobe");
        load.args(["--quiet", module]).env("PATH", format!("{path}:/usr/sbin:/sbin"));
        // Whether it is there is what counts.
        let _ = load.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
    (!is_there()).then(|| {
        format!(
            "expected {file}, found none; load the module (modprobe {module}), or give the container that device"
        )
    })
}

/// Why a process without root's privileges cannot do it.
pub(super) fn missing_root() -> Option<String> {
    let is_root = rustix::process::geteuid().is_root();
    (!is_root).then(|| "expected root, found another user".to_owned())
}

/// For a worker that has only to make durable what was answered: the device was taken away.
pub(super) fn nothing_more() -> Result<(OwnedFd, HandedOver), String> {
    let ended = nearhead_nbd::kernel::ended_connection();
    let ended = ended.map_err(|error| format!("attach: out of descriptors: {error}"))?;
    Ok((ended, HandedOver::Nbd))
}
