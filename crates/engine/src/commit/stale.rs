//! What in-place writes made stale: queued here, and said by the records to come.

use super::Commit;
use super::InvalidationCount;
use super::invalidation::Invalidations;
use crate::core::Core;
use crate::disk::flusher::FlushTicket;

impl Commit {
    /// Logged copies that are stale, and not known to be in what a recovery reads.
    pub(crate) fn invalidations(&self) -> &Invalidations {
        &self.invalidations
    }

    pub(crate) fn invalidations_mut(&mut self) -> &mut Invalidations {
        &mut self.invalidations
    }

    /// Moves on those whose flush is done. What was written in place is on the volume's own disk.
    pub(crate) fn settle_invalidations(&mut self, core: &Core) {
        let flusher = core.flusher();
        self.invalidations.settle(|ticket| flusher.is_done(ticket));
    }

    /// Home now holds the newest copy of these sectors: what the map said is stale.
    pub(crate) fn displace(&mut self, core: &mut Core, start: u64, sectors: u64, volatile: bool) {
        if !core.map().overlaps(start, sectors) {
            return;
        }
        let mut displaced = Vec::new();
        core.map_mut().remove(start, sectors, &mut |entry| displaced.push(entry));
        core.stats_mut().invalidated_entries += displaced.len() as u64;
        let ticket = if volatile { core.flusher().ticket() } else { FlushTicket::NONE };
        self.invalidations.push(displaced.into_iter(), ticket);
    }

    /// Asks for every invalidation queued so far to be made durable.
    pub(crate) fn want_invalidations(&mut self, core: &mut Core) -> InvalidationCount {
        if self.invalidations.is_empty() {
            return InvalidationCount::NONE;
        }
        core.flusher_mut().demand(self.invalidations.flush_ticket());
        self.invalidations.want_all()
    }
}
