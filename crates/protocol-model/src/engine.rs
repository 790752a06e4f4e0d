//! What the engine does, one transition each, with the code's own condition named beside it.
//!
//! A transition returns `None` where the engine would not take it. Scheduling (when a snapshot is
//! due, which log is nearest) is left open: the model tries every order that the conditions allow, so
//! what holds here holds for every policy.

use crate::state::{
    Checkpoint, CheckpointStep, Datum, Entry, InFlight, LOGS, Memory, Record, SnapshotStep,
    SnapshotWork, Stale, State, Ticket, Waiting,
};
use crate::{Mistake, Protocol};

impl Memory {
    /// `Flusher::ticket`.
    pub(crate) fn ticket(&self) -> Ticket {
        match (self.dirty, self.flush) {
            (true, _) => Ticket::Next,
            (false, Some(_)) => Ticket::Current,
            (false, None) => Ticket::Done,
        }
    }

    /// `Stage`, and the blocks of the record in flight: `Engine::is_in_memory`.
    pub(crate) fn is_in_memory(&self, block: usize) -> bool {
        self.staged[block].is_some()
            || self
                .records
                .iter()
                .any(|flying| !flying.record.relocation && flying.record.writes[block].is_some())
    }

    fn checkpoint_touches(&self, block: usize) -> bool {
        self.checkpoint.is_some_and(|checkpoint| usize::from(checkpoint.block) == block)
    }

    pub(crate) fn holds(&self, block: u8, entry: Entry) -> bool {
        self.map[usize::from(block)] == Some(entry)
    }

    /// Whether the slot counts as live: `Ring::live_sectors`.
    pub(crate) fn is_live(&self, place: (u8, u8)) -> bool {
        let points = |entry: &Entry| entry.place == Some(place);
        self.map.iter().flatten().any(points) || self.stale.iter().any(|stale| points(&stale.entry))
    }

    /// What follows from any event at once: replies, and work that something newer made pointless.
    pub(crate) fn settle(&mut self, floor: &mut [u8]) {
        for (waiting, floor) in self.waiting.iter_mut().zip(floor) {
            let done =
                |waiting: &Waiting| waiting.ticket == Ticket::Done && waiting.invalid_target == 0;
            if let Some(answered) = waiting.take_if(|waiting| done(waiting)) {
                *floor = answered.version.max(*floor);
            }
        }
        if self.swap.is_some_and(|swap| !self.holds(swap.block, swap.entry)) {
            self.swap = None;
        }
        if self.checkpoint.is_some_and(|checkpoint| {
            checkpoint.step == CheckpointStep::Releasing
                && !self.holds(checkpoint.block, checkpoint.entry)
        }) {
            self.checkpoint = None;
        }
    }

    /// Moves tickets on when a flush is submitted or completes.
    fn redeem(&mut self, from: Ticket, to: Ticket) {
        let redeem = |ticket: &mut Ticket| {
            if *ticket == from {
                *ticket = to;
            }
        };
        self.stale.iter_mut().for_each(|stale| redeem(&mut stale.ticket));
        self.waiting.iter_mut().flatten().for_each(|waiting| redeem(&mut waiting.ticket));
        if let Some(Checkpoint { step: CheckpointStep::Flushing(ticket), .. }) =
            self.checkpoint.as_mut()
        {
            redeem(ticket);
        }
        if let Some(SnapshotWork { step: SnapshotStep::Flushing(ticket), .. }) =
            self.snapshot.as_mut()
        {
            redeem(ticket);
        }
    }

    /// The oldest `count` stale copies are settled: `Invalidations::commit`.
    pub(crate) fn commit_stale(&mut self, count: u8) {
        self.stale.drain(..usize::from(count));
        let pass = |target: &mut u8| *target = target.saturating_sub(count);
        pass(&mut self.snapshot_invalid_end);
        self.snapshot.iter_mut().for_each(|work| pass(&mut work.invalid_end));
        self.waiting.iter_mut().flatten().for_each(|waiting| pass(&mut waiting.invalid_target));
    }

    /// `Engine::displace`: home is the newest now, what the map said is stale.
    pub(crate) fn displace(&mut self, block: usize, ticket: Ticket, protocol: &Protocol) {
        let ticket =
            if protocol.makes(Mistake::InvalidateBeforeFlush) { Ticket::Done } else { ticket };
        let Some(entry) = self.map[block].take() else { return };
        if protocol.makes(Mistake::ForgetInvalidation) {
            return;
        }
        // `Invalidations::push`: one that needs no flush still comes after those that do.
        let before = self.stale.last().map_or(Ticket::Done, |stale| stale.ticket);
        let ticket = if protocol.makes(Mistake::InvalidateBeforeFlush) {
            ticket
        } else {
            ticket.max(before)
        };
        self.stale.push(Stale { block: block as u8, entry, ticket });
    }
}

impl Protocol {
    /// `Ring::place` and the write position: the slot of the next record of `log`, if it has room.
    pub(crate) fn place(&self, memory: &Memory, log: usize) -> Option<u8> {
        let ring = &memory.rings[log];
        let slots = self.bounds.slots;
        let in_log = memory.records.iter().rev().find(|flying| usize::from(flying.place.0) == log);
        let at = in_log.map_or(ring.position, |flying| flying.place.1 + 1);
        let slot = at % slots;
        let protected = |from: Option<u8>| {
            // Everything from the first protected record to the write position, going round.
            from.is_some_and(|from| {
                let len = (at + slots - from - 1) % slots + 1;
                (slot + slots - from) % slots < len
            })
        };
        let kept = [ring.protected_from, ring.next_protected_from].into_iter().any(protected);
        if kept && !self.makes(Mistake::ReuseProtectedSlot) {
            return None;
        }
        if memory.is_live((log as u8, slot)) && !self.makes(Mistake::ReuseLiveSlot) {
            return None;
        }
        let flying = memory.records.iter().any(|flying| flying.place == (log as u8, slot));
        (!flying).then_some(slot)
    }

    /// A client's small write, or zeroing: staged. `requests/small_write.rs`: not beside an in-place write.
    pub(crate) fn stage(&self, state: &mut State, block: usize, zero: bool) -> Option<()> {
        let memory = state.memory.as_mut().filter(|memory| !memory.recovering)?;
        if state.sent[block] == self.bounds.versions || memory.transferring[block].is_some() {
            return None;
        }
        state.sent[block] += 1;
        memory.staged[block] = Some(Datum { version: state.sent[block], zero });
        Some(())
    }

    /// A client's large write or trim goes home: `continue_in_place`.
    pub(crate) fn start_in_place(&self, state: &mut State, block: usize) -> Option<()> {
        let memory = state.memory.as_mut().filter(|memory| !memory.recovering)?;
        let busy = memory.transferring[block].is_some()
            || (memory.is_in_memory(block) && !self.makes(Mistake::InPlaceOverStaged))
            || (memory.checkpoint_touches(block) && !self.makes(Mistake::InPlaceUnderCheckpoint));
        if state.sent[block] == self.bounds.versions || busy {
            return None;
        }
        state.sent[block] += 1;
        memory.transferring[block] = Some(state.sent[block]);
        Some(())
    }

    /// No log has room: a staged block goes home after all (`home/spill.rs`).
    pub(crate) fn spill(&self, state: &mut State, block: usize) -> Option<()> {
        let memory = state.memory.as_mut()?;
        let room =
            (0..LOGS).any(|log| memory.rings[log].claimed && self.place(memory, log).is_some());
        let busy = room || memory.transferring[block].is_some() || memory.checkpoint_touches(block);
        let datum = memory.staged[block].filter(|_| !busy && memory.records.is_empty())?;
        memory.staged[block] = None;
        memory.transferring[block] = Some(datum.version);
        Some(())
    }

    /// `finish_in_place`: the transfer is complete, in the device's cache.
    pub(crate) fn finish_in_place(&self, state: &mut State, block: usize) -> Option<()> {
        let memory = state.memory.as_mut()?;
        let version = memory.transferring[block].take()?;
        state.disk.home[block].pending.push(version);
        memory.dirty = true;
        let ticket = memory.ticket();
        memory.displace(block, ticket, self);
        let invalid_target = memory.stale.len() as u8;
        memory.waiting[block] = Some(Waiting { version, ticket, invalid_target });
        Some(())
    }

    /// `Flusher::start`. Somebody's ticket waits for the next flush.
    pub(crate) fn start_flush(&self, state: &mut State) -> Option<()> {
        let memory = state.memory.as_mut()?;
        if memory.flush.is_some() || !(memory.dirty || memory.recovering) {
            return None;
        }
        memory.flush =
            Some(std::array::from_fn(|block| state.disk.home[block].pending.len() as u8));
        memory.dirty = false;
        memory.redeem(Ticket::Next, Ticket::Current);
        Some(())
    }

    /// `Flusher::complete`. For a recovery: what was read is also what a cut would leave.
    pub(crate) fn finish_flush(&self, state: &mut State) -> Option<()> {
        let memory = state.memory.as_mut()?;
        let covered = memory.flush.take()?;
        for (home, covered) in state.disk.home.iter_mut().zip(covered) {
            if let Some(newest) = home.pending.drain(..usize::from(covered)).next_back() {
                home.durable = newest;
            }
        }
        memory.redeem(Ticket::Current, Ticket::Done);
        if memory.recovering {
            self.serve(state);
        }
        Some(())
    }

    /// `choose_content`, `find_place`, `send_record`: everything that waits becomes a record in `log`.
    pub(crate) fn commit(
        &self,
        state: &mut State,
        log: usize,
        with_stage: bool,
        claim: bool,
    ) -> Option<()> {
        let memory = state.memory.as_mut().filter(|memory| !memory.recovering)?;
        if memory.records.len() >= usize::from(self.bounds.records_in_flight) {
            return None;
        }
        let unclaimed = !memory.rings[log].claimed && !self.makes(Mistake::UseBeforeClaim);
        let slot = self.place(memory, log).filter(|_| !unclaimed)?;
        let sequence = memory.sequence_done + memory.records.len() as u8 + 1;
        if sequence > self.bounds.records {
            return None;
        }
        let mut record = Record {
            sequence,
            writes: Default::default(),
            invalid: Default::default(),
            claims: Default::default(),
            relocation: false,
        };
        let carried: usize =
            memory.records.iter().map(|flying| usize::from(flying.invalidations)).sum();
        let ready = memory.stale[carried..].iter().take_while(|stale| stale.ticket == Ticket::Done);
        let mut invalidations = 0;
        for stale in ready {
            record.invalid[usize::from(stale.block)] = true;
            invalidations += 1;
        }
        // `unready_conflict`: an invalidation in a later record would kill the newer copy.
        let mut unready = memory.stale[carried + usize::from(invalidations)..].iter();
        let conflict = unready.any(|stale| memory.staged[usize::from(stale.block)].is_some())
            && !self.makes(Mistake::StagePastUnready);
        if with_stage {
            if conflict || memory.staged.iter().flatten().next().is_none() {
                return None;
            }
            record.writes = std::mem::take(&mut memory.staged);
        }
        let release = self.take_release(memory, &mut record);
        // Replayed, the moved chunk would come after the release of the very same block.
        let moves =
            !with_stage && (release.is_none() || self.makes(Mistake::RelocationBesideRelease));
        let relocated = if moves { self.take_chunk(memory, log, &mut record) } else { None };
        if claim {
            record.claims = std::array::from_fn(|other| {
                (!memory.rings[other].claimed).then_some(memory.rings[other].position)
            });
            if record.claims == [None; LOGS] {
                return None;
            }
        }
        if !with_stage && invalidations == 0 && release.is_none() && relocated.is_none() && !claim {
            return None;
        }
        if self.makes(Mistake::AcknowledgeEarly) {
            for (floor, datum) in state.floor.iter_mut().zip(record.writes) {
                *floor = datum.map_or(*floor, |datum| datum.version);
            }
        }
        let place = (log as u8, slot);
        let flying = InFlight { record, place, invalidations, release, relocated, landed: false };
        // Side by side are records of clients' writes alone.
        let mut all = memory.records.iter().chain(std::iter::once(&flying));
        let is_apart = memory.records.is_empty() || all.all(InFlight::is_of_writes);
        if !is_apart && !self.makes(Mistake::SettleBesideWrites) {
            return None;
        }
        memory.records.push(flying);
        Some(())
    }

    /// `Swap::take_chunks`: only what is still the newest, and only into the cold log.
    fn take_chunk(
        &self,
        memory: &mut Memory,
        log: usize,
        record: &mut Record,
    ) -> Option<(u8, Entry)> {
        let swap = memory.swap.filter(|swap| usize::from(swap.cold) == log)?;
        memory.swap = None;
        record.relocation = true;
        record.writes[usize::from(swap.block)] =
            Some(Datum { version: swap.entry.version, zero: false });
        Some((swap.block, swap.entry))
    }

    /// `Checkpoint::take_releases`: only what is still the newest.
    fn take_release(&self, memory: &mut Memory, record: &mut Record) -> Option<(u8, Entry)> {
        let checkpoint = memory.checkpoint.as_mut()?;
        if checkpoint.step != CheckpointStep::Releasing {
            return None;
        }
        let Checkpoint { block, entry, .. } = *checkpoint;
        checkpoint.step = CheckpointStep::Waiting;
        record.invalid[usize::from(block)] = true;
        Some((block, entry))
    }

    /// A record's transfer ended: it is on the medium (`record_part_is_done`).
    pub(crate) fn land(&self, state: &mut State, index: usize) -> Option<()> {
        let memory = state.memory.as_mut()?;
        let flying = memory.records.get_mut(index).filter(|flying| !flying.landed)?;
        flying.landed = true;
        let (log, slot) = flying.place;
        state.disk.slots[usize::from(log)][usize::from(slot)] = Some(flying.record);
        while memory.records.first().is_some_and(|flying| flying.landed) {
            let flying = memory.records.remove(0);
            for (floor, datum) in state.floor.iter_mut().zip(flying.record.writes) {
                // The reply: a moved chunk was acknowledged long ago.
                *floor = datum.map_or(*floor, |datum| datum.version.max(*floor));
            }
            self.apply(memory, &flying);
        }
        Some(())
    }

    /// `record_is_durable`.
    fn apply(&self, memory: &mut Memory, flying: &InFlight) {
        let record = &flying.record;
        let (log, slot) = flying.place;
        memory.sequence_done = record.sequence;
        if !record.relocation {
            memory.last_log = log;
        }
        self.advance_ring(memory, log, slot);
        for (ring, claim) in memory.rings.iter_mut().zip(record.claims) {
            // `adopt_claim`: from where the claim says, a snapshot may have let go of the ring.
            if let Some(position) = claim.filter(|_| !ring.claimed) {
                ring.claimed = true;
                let kept = self.makes(Mistake::ForgetClaimedPosition);
                ring.position = if kept { ring.position } else { position };
            }
        }
        memory.commit_stale(flying.invalidations);
        if let Some((block, entry)) = flying.release {
            // `apply_releases`: unless something newer took its place meanwhile.
            if memory.holds(block, entry) {
                memory.map[usize::from(block)] = None;
            }
            memory.checkpoint = None;
        }
        for (block, datum) in record.writes.iter().enumerate() {
            let Some(datum) = *datum else { continue };
            // `apply_relocation`: a moved chunk replaces exactly what it was a copy of.
            let replaces = flying.relocated.is_none_or(|(block, old)| memory.holds(block, old));
            if replaces || self.makes(Mistake::SwapOverNewer) {
                let place = (!datum.zero).then_some(flying.place);
                memory.map[block] = Some(Entry { place, version: datum.version });
            }
        }
    }

    /// `Ring::advance`.
    pub(crate) fn advance_ring(&self, memory: &mut Memory, log: u8, slot: u8) {
        let ring = &mut memory.rings[usize::from(log)];
        ring.protected_from.get_or_insert(slot);
        ring.next_protected_from.get_or_insert(slot);
        ring.position = (slot + 1) % self.bounds.slots;
    }
}
