//! The snapshot of a paged map: pages of the older one are read, and what changed is merged over them into the other slot.
//!
//! A page that cannot be read, or is not what was written, is read again a few times; then the snapshot has failed, and no later one can do
//! better before the map is made anew from the records (`nearhead repair`). Nothing is guessed, and the older snapshot stands.

use super::{InProgress, PIECE_BYTES, Snapshotter};
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
        if core.recorded().produce(merge, PIECE_ENTRIES) {
            return false;
        }
        let transfer_max = core.setup().properties.transfer_bytes_max;
        let Some(paged) = core.layers().paged() else { return false };
        let (offset, len) = paged.wanted(merge, transfer_max);
        core.stats_mut().map_read_bytes += u64::from(len);
        self.in_flight = true;
        self.send(core, Purpose::SnapshotRead, Command::Read { offset, len });
        true
    }
}

impl Snapshotter {
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
        if self.goes_on(core, commit, taken)
            && let Some(work) = self.in_progress.as_mut()
        {
            work.in_flight = false;
        }
    }
}
