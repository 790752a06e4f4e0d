//! Attached volumes for other commands: which there are; and one that has grown, whose block device gets the new size.

use super::desk;
use super::place::{Facts, Place};
use std::path::{Path, PathBuf};

/// An attached volume.
pub struct AttachedVolume {
    place: Place,
    facts: Facts,
}

/// The one that `text` means by its name, its link, its device or its target, if one does.
pub fn attached(text: &str) -> Option<AttachedVolume> {
    let (place, facts) = Place::find(text).ok()?;
    Some(AttachedVolume { place, facts })
}

/// All that there are.
pub fn all_attached() -> Vec<AttachedVolume> {
    let known = |place: Place| Some(AttachedVolume { facts: place.facts().ok()?, place });
    Place::all().into_iter().filter_map(known).collect()
}

impl AttachedVolume {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.place.name
    }

    /// Its target, as the command that attached it named it.
    pub fn target(&self) -> &str {
        &self.facts.target
    }

    /// The names of its device: the link, and the one that the kernel gave it.
    pub fn devices(&self) -> [PathBuf; 2] {
        [self.place.link(), self.facts.device.clone()]
    }

    /// The control socket of its worker.
    pub fn control(&self) -> Option<PathBuf> {
        self.facts.control.clone()
    }

    /// Whether its device has fewer bytes than the volume.
    pub fn is_smaller_than(&self, size_bytes: u64) -> bool {
        size_of(&self.facts.device).is_some_and(|bytes| bytes < size_bytes / 512 * 512)
    }

    /// Has its supervisor resize the block device; the device's link.
    ///
    /// # Errors
    /// The kernel cannot do it for a device that is used.
    pub fn resize(&self, size_bytes: u64) -> Result<PathBuf, String> {
        desk::ask_to_resize(&self.place, size_bytes)?;
        Ok(self.place.link())
    }
}

/// The size that the kernel has of a block device, in bytes.
pub(super) fn size_of(device: &Path) -> Option<u64> {
    let sectors = super::loop_device::sysfs(device, "size")?;
    sectors.parse::<u64>().ok().map(|sectors| sectors * 512)
}
