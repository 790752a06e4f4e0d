//! Which writes are logged: up to what size, as the volume was made and as its drive is busy.
//!
//! What is larger than the volume's own threshold is logged only where its client said that durability alone is wanted.

use crate::disk::drives::Drives;
use crate::engine::Engine;
use crate::state::sectors::SECTOR;

/// A drive that takes so many commands is one that chooses among them.
const DRIVE_CHOOSES_AMONG: u32 = 32;
/// So many on the disk are many: of 1, 2, 4 and 16 none is better for the DTRS trace and figure 6b together (docs/performance.md).
const MANY_COMMANDS: u32 = 8;
/// Whether a drive that takes `depth` commands chooses among many that it has, and may be given more. Of one of which nothing is known one
/// cannot tell whether it chooses at all.
fn chooses_among_many(is_known: bool, depth: u32, on_disk: u32) -> bool {
    is_known && depth >= DRIVE_CHOOSES_AMONG && (MANY_COMMANDS..depth).contains(&on_disk)
}

impl Engine {
    /// Whether anything is ever logged on this volume.
    pub(super) fn logs_writes(&self) -> bool {
        self.core.logs().count() > 0 && self.core.setup().config.logged_write_bytes_max > 0
    }

    fn is_durability_only(&self, offset: u64, len: u64) -> bool {
        let sectors = offset / SECTOR as u64..(offset + len) / SECTOR as u64;
        !self.core.recorded().hints().is_empty()
            && self.core.recorded().hints().contains_range(sectors)
    }

    /// Whether a write of these bytes is logged.
    pub(super) fn is_logged(&self, offset: u64, len: u64) -> bool {
        let config = &self.core.setup().config;
        if !self.core.setup().has_homes() {
            return true;
        }
        self.logs_writes()
            && (len <= u64::from(self.logged_bytes_max())
                || (self.is_durability_only(offset, len)
                    && len * 2 <= config.stage_bytes_max as u64))
    }

    /// Whether a client may say that a write goes home: not where nothing has a home, nor where homes are bands that are written whole.
    pub(super) fn may_go_home(&self) -> bool {
        self.core.setup().has_homes() && self.core.setup().bands.is_none()
    }

    /// Largest write that is logged now.
    fn logged_bytes_max(&self) -> u32 {
        let (config, properties) = (&self.core.setup().config, &self.core.setup().properties);
        let queue = self.core.lanes().main();
        let is_known = queue.drives().is_some_and(Drives::is_trusted);
        let depth = u32::from(properties.queue_depth_max);
        let beside_many = if chooses_among_many(is_known, depth, queue.on_disk_count()) {
            config.logged_beside_many_bytes_max
        } else {
            u32::MAX
        };
        config.logged_write_bytes_max.min(beside_many)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_chooses_among_many_if_it_is_known_has_many_and_has_room_for_more() {
        assert!(chooses_among_many(true, 32, 8) && chooses_among_many(true, 128, 127));
        assert!(!chooses_among_many(false, 32, 12), "nobody knows it");
        assert!(!chooses_among_many(true, 31, 12), "it takes few");
        assert!(!chooses_among_many(true, 32, 7), "it has few");
        assert!(!chooses_among_many(true, 32, 32), "it is full, and others wait here");
    }
}
