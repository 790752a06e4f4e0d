//! Pages of the map that came, and snapshots that take the place of the pages that were.

use super::Engine;
use nearhead_disk::{DiskError, Payload};

impl Engine {
    pub(super) fn on_map_page(
        &mut self,
        page: u32,
        number: u64,
        result: Result<Payload, DiskError>,
    ) {
        let Some(fetched) = self.map_pages.on_read(&mut self.core, (page, number), result) else {
            return;
        };
        let (slots, found) = fetched.into_parts();
        for slot in slots {
            self.on_page_for_read(slot, page, &found);
        }
    }

    /// The snapshot's last transfer ended. If it is durable, what was gathered of the map it replaces is compared with what changed up to now,
    /// which is part of it from then on; and reads that wait for pages of the older one look for others.
    pub(super) fn on_snapshot_copy(&mut self, result: Result<Payload, DiskError>) {
        let era = self.core.layers().era();
        if era.is_some() && result.is_ok() {
            self.swap.recheck(self.core.layers());
            self.compaction.recheck(self.core.layers());
        }
        let Self { core, commit, snapshotter, .. } = self;
        snapshotter.on_copy(core, commit, result);
        if self.core.layers().era() != era {
            for slot in self.map_pages.begin_anew() {
                self.read_with_new_pages(slot);
            }
        }
    }
}
