//! The snapshot of a paged map: pages of the older one are read, and what changed is merged over them into the other slot.
//!
//! A page that cannot be read, or is not what was written, is read again a few times; then the snapshot has failed, and no later one can do
//! better before the map is made anew from the records (`nearhead repair`). Nothing is guessed, and the older snapshot stands.

use super::body::PIECE_BYTES;
use super::{InProgress, Snapshotter};
use crate::commit::Commit;
use crate::core::Core;
use crate::disk::dispatch::Purpose;
use nearhead_disk::{Command, DiskError, DiskErrorKind, Payload};
use nearhead_format::ENTRY_BYTES;

/// Entries that a piece takes, and the one that is divided at its end.
const PIECE_ENTRIES: usize = PIECE_BYTES / ENTRY_BYTES + 2;

impl InProgress {
    /// Whether pages of the base must be read before the next piece can be written; begins to.
    pub(super) fn needs_pages(&mut self, core: &mut Core) -> bool {
        let Some(merge) = self.merge.as_mut() else { return false };
        if self.transfers.have(Purpose::SnapshotRead) {
            return true;
        }
        if core.recorded().produce(merge, PIECE_ENTRIES) {
            return false;
        }
        let transfer_max = core.setup().properties.transfer_bytes_max;
        let Some(paged) = core.layers().paged() else { return false };
        let (offset, len) = paged.wanted(merge, transfer_max);
        core.stats_mut().map_read_bytes += u64::from(len);
        self.send(core, Purpose::SnapshotRead, Command::Read { offset, len });
        true
    }
}

impl Snapshotter {
    /// Whether what changes of a paged map is ahead of the merge under way, which goes on.
    pub(crate) fn is_behind(&self, core: &Core) -> bool {
        let goes_on = !self.has_failed() && !self.is_short_of_space();
        let merge =
            self.in_progress.as_ref().filter(|_| goes_on).and_then(|work| work.merge.as_ref());
        let layers = core.layers();
        merge
            .zip(layers.paged())
            .is_some_and(|(merge, paged)| paged.is_ahead_of(merge, layers.newest_bytes()))
    }

    /// Pages of the base are read, or could not be.
    pub(crate) fn on_pages(
        &mut self,
        core: &mut Core,
        commit: &Commit,
        result: Result<Payload, DiskError>,
    ) {
        let taken = result.and_then(|data| {
            let merge = self.in_progress.as_mut().and_then(|work| work.merge.as_mut());
            let found = merge.zip(core.layers().paged());
            let Some((merge, paged)) = found else { return Ok(Payload::EMPTY) };
            let taken = paged.take_pages(merge, &data).map(|()| Payload::EMPTY);
            taken.map_err(|detail| DiskError { kind: DiskErrorKind::Io, detail })
        });
        self.goes_on(core, commit, Purpose::SnapshotRead, taken);
    }
}
