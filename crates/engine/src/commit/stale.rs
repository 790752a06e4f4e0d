//! What in-place writes made stale: queued here, and said by the records to come.

use super::Commit;
use super::InvalidationCount;
use super::invalidation::{Invalidations, Stale};
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
        let (displaced, hides_more) = core.recorded_mut().displace(start, sectors);
        if displaced.is_empty() && !hides_more {
            return;
        }
        core.stats_mut().invalidated_entries += displaced.len() as u64;
        let ticket = if volatile { core.flusher().ticket() } else { FlushTicket::NONE };
        // The sectors last: so that nobody commits them before what is counted of them.
        let below = hides_more.then(|| Stale::Sectors(start..start + sectors));
        self.invalidations.push(displaced.into_iter().map(Stale::Copy).chain(below), ticket);
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
