//! The ways to make a block device of a volume, one file each, and which one is taken.
//!
//! A way has a [`Device`] for as long as the process that supervises lives: it gives each worker what it serves, and makes the block device
//! once the first one is ready. What takes a device away again is the way's own and needs no [`Device`], so that `detach` can do it also
//! where whoever supervised is gone.

use super::loop_device::LoopDevice;
use super::place::{Facts, Place};
use clap::ValueEnum;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The ways by name.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A file shown by FUSE, and a loop device on it
    Loop,
}

/// How the block device is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Its smallest block, in bytes.
    pub(super) block_bytes: u32,
    /// Whether nothing can be written.
    pub(super) read_only: bool,
}

/// A way to make a block device.
pub(super) trait Backend: Sync {
    /// As [`By`] has it.
    fn name(&self) -> &'static str;

    /// Why this machine cannot do it, if it cannot.
    fn missing(&self) -> Option<String>;

    /// Begins: there is nothing to be seen yet.
    fn begin(&self, place: &Place) -> Result<Box<dyn Device>, String>;

    /// Whether the block device is still the one that was made here: its number may be somebody else's by now.
    fn is_there(&self, place: &Place, facts: &Facts) -> bool;

    /// Takes the block device away, which nobody uses; then the worker ends by itself.
    fn take_away(&self, place: &Place, facts: &Facts) -> Result<(), String>;

    /// Takes away what can be taken away of it at once, and ends all requests with errors, also those of who uses it: no worker will answer
    /// them. `device` if one was made.
    fn give_up(&self, place: &Place, device: Option<&Path>) -> Result<(), String>;
}

/// A device in the making, and then a device.
pub(super) trait Device: Send + Sync {
    /// The standard input of a worker: what it serves.
    fn for_worker(&self) -> Result<OwnedFd, String>;

    /// Whether another worker can go on where one was killed.
    fn outlives_a_kill(&self) -> bool;

    /// Makes the block device; a worker answers already.
    fn make(&self, place: &Place, shape: Shape) -> Result<PathBuf, String>;

    /// Whether it was taken away: nobody asks anything any more.
    fn has_ended(&self) -> bool;
}

/// Best first.
const ALL: [&dyn Backend; 1] = [&LoopDevice];

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
