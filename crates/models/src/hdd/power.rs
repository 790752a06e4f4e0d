//! Cutting the power, and switching off properly.
//!
//! A cut may leave each physical sector of everything that was not safe yet (the write cache, and
//! every write that was accepted but not completed) either old or new, whatever order they came
//! in. What was safe stays.

use super::{FinishAction, HddModel, Job, MediaOperation, Work};
use crate::tear::{SectorSizes, tear};
use nearhead_basics::SplitMix;
use nearhead_disk::{DiskError, Nanos, Payload};

impl HddModel {
    /// Cuts the power at `now`: what the write cache held and what was under way survives sector
    /// by sector as `random` decides; no command outstanding is ever answered. Afterwards the
    /// same object is the disk after its restart, with the surviving content and empty caches.
    ///
    /// Errors come from the store, which then may lack bytes that `random` let survive.
    pub fn power_cut(&mut self, now: Nanos, random: &mut SplitMix) -> Result<(), DiskError> {
        self.advance(now);
        self.done.clear();
        let mut result = Ok(());
        for (lbn, payload) in self.unsafe_writes() {
            result = result.and(self.tear(lbn, &payload, random));
        }
        self.abandon_commands();
        self.segments.clear();
        self.written.clear();
        self.reserved_bytes = 0;
        self.destage_error = None;
        self.stats.power_cuts += 1;
        result
    }

    /// Writes what the cache holds to the store, as a drive does before it is switched off. Takes
    /// no model time.
    pub fn write_back(&mut self) -> Result<(), DiskError> {
        if let Work::Busy { job: Job::Destage(_), .. } = self.work {
            // It would put older bytes over those written here.
            self.work = Work::Idle;
        }
        for extent in self.dirty.drain() {
            let offset = extent.lbn * self.sector_bytes();
            self.store.write_payload(offset, &extent.payload)?;
        }
        self.after_cache_shrank();
        Ok(())
    }

    /// Everything that may or may not survive, older before newer.
    fn unsafe_writes(&mut self) -> Vec<(u64, Payload)> {
        let mut writes = Vec::new();
        let mut under_way = Vec::new();
        match std::mem::replace(&mut self.work, Work::Idle) {
            Work::Busy { job: Job::Destage(run), .. } => {
                writes.extend(run.into_iter().map(|extent| (extent.lbn, extent.payload)));
            }
            Work::Busy { job: Job::Write(pending) | Job::Read { pending, .. }, .. } => {
                under_way.push(pending);
            }
            Work::Idle | Work::Stream(_) => {}
        }
        let held = self.dirty.drain().into_iter();
        writes.extend(held.map(|extent| (extent.lbn, extent.payload)));
        let sector = self.sector_bytes();
        let mut add = |lbn: u64, parts: &[Payload]| {
            let mut at = lbn;
            for part in parts {
                writes.push((at, part.clone()));
                at += part.len() as u64 / sector;
            }
        };
        for finish in &self.finishing {
            if let FinishAction::CachedWrite { lbn, parts } = &finish.0.action {
                add(*lbn, parts);
            }
        }
        for waiting in &self.waiting_writes {
            add(waiting.lbn, &waiting.parts);
        }
        under_way.append(&mut self.queue);
        under_way.sort_by_key(|pending| pending.sequence);
        for pending in under_way {
            let len = (pending.sectors * sector) as usize;
            match &pending.operation {
                MediaOperation::Write { parts } => add(pending.lbn, parts),
                MediaOperation::Zero => add(pending.lbn, &[Payload::Zeros(len)]),
                MediaOperation::Read => {}
            }
            pending.ticket.abandon();
        }
        writes
    }

    /// Lets `random` decide which physical sectors of a write reach the medium.
    fn tear(
        &mut self,
        lbn: u64,
        payload: &Payload,
        random: &mut SplitMix,
    ) -> Result<(), DiskError> {
        let physical = u64::from(self.properties.physical_sector_bytes);
        let sizes = SectorSizes { logical: self.sector_bytes(), physical };
        tear(&mut *self.store, sizes, lbn, payload, random)
    }

    /// Forgets every command without an answer.
    pub(super) fn abandon_commands(&mut self) {
        match std::mem::replace(&mut self.work, Work::Idle) {
            Work::Busy { job: Job::Read { pending, .. } | Job::Write(pending), .. } => {
                pending.ticket.abandon();
            }
            Work::Busy { job: Job::Destage(_), .. } | Work::Idle | Work::Stream(_) => {}
        }
        self.queue.drain(..).for_each(|pending| pending.ticket.abandon());
        self.finishing.drain().for_each(|finish| finish.0.ticket.abandon());
        self.waiting_writes.drain(..).for_each(|waiting| waiting.ticket.abandon());
        self.waiting_flushes.drain(..).for_each(|waiting| waiting.ticket.abandon());
        self.outstanding = 0;
    }
}
