//! What the engine does, one transition each, with the code's own condition named beside it.
//!
//! A transition returns `None` where the engine would not take it. Scheduling (when a snapshot is
//! due, which log is nearest) is left open: the model tries every order that the conditions allow, so
//! what holds here holds for every policy.

use crate::state::{
    BLOCKS, Checkpoint, CheckpointStep, Content, Datum, Entry, InFlight, LOGS, Memory, Piece,
    Place, Record, SnapshotStep, SnapshotWork, Stale, State, Ticket, Waiting,
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
        let has = |flying: &InFlight| {
            let Record { writes, fragments, relocation, .. } = &flying.record;
            !relocation && (writes[block].is_some() || fragments[block].is_some())
        };
        self.is_staged(block) || self.records.iter().any(has)
    }

    pub(crate) fn is_staged(&self, block: usize) -> bool {
        self.staged[block].is_some() || self.staged_bytes[block].is_some()
    }

    /// `Fragments::touches`.
    pub(crate) fn has_bytes_over(&self, block: usize) -> bool {
        self.map[block].is_some_and(|entry| entry.over.is_some())
    }

    /// An in-place write holds it: `range_lock.rs`.
    pub(crate) fn is_locked(&self, block: usize) -> bool {
        self.transferring[block].is_some() || self.behind[block].is_some()
    }

    pub(crate) fn checkpoint_touches(&self, block: usize) -> bool {
        self.checkpoint.is_some_and(|checkpoint| usize::from(checkpoint.block) == block)
    }

    pub(crate) fn holds(&self, block: u8, entry: Entry) -> bool {
        self.map[usize::from(block)] == Some(entry)
    }

    /// The same whatever lies over it.
    pub(crate) fn holds_copy(&self, block: u8, entry: Entry) -> bool {
        self.map[usize::from(block)].is_some_and(|now| now.is_copy(&entry))
    }

    /// `Window::is_newest`: nothing took the place of what goes home, and nothing came over it since.
    fn is_newest(&self, block: u8, entry: Entry, protocol: &Protocol) -> bool {
        if protocol.makes(Mistake::ReleaseUnderFragment) {
            self.holds_copy(block, entry)
        } else {
            self.holds(block, entry)
        }
    }

    /// Whether the slot counts as live: `Ring::live_sectors`, and `Logs::add_piece` for what lies over a copy.
    pub(crate) fn is_live(&self, place: (u8, u8)) -> bool {
        let points = |entry: &Entry| {
            entry.place == Place::Log(place.0, place.1)
                || entry.over.is_some_and(|piece| piece.place == place)
        };
        self.map.iter().flatten().any(points) || self.stale.iter().any(|stale| points(&stale.entry))
    }

    /// What follows from any event at once: replies, and work that something newer made pointless.
    pub(crate) fn settle(&mut self, floor: &mut [Content], protocol: &Protocol) {
        for (waiting, floor) in self.waiting.iter_mut().zip(floor) {
            let done =
                |waiting: &Waiting| waiting.ticket == Ticket::Done && waiting.invalid_target == 0;
            if let Some(answered) = waiting.take_if(|waiting| done(waiting)) {
                *floor = answered.content.newest(*floor);
            }
        }
        if self.swap.is_some_and(|swap| !self.holds_copy(swap.block, swap.entry)) {
            self.swap = None;
        }
        if self.checkpoint.is_some_and(|checkpoint| {
            let is_newest = self.is_newest(checkpoint.block, checkpoint.entry, protocol);
            match checkpoint.step {
                CheckpointStep::Releasing => !is_newest,
                CheckpointStep::Settling(left) => left == 0,
                _ => false,
            }
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
        if let Some(Checkpoint { step: CheckpointStep::Settling(target), .. }) =
            self.checkpoint.as_mut()
        {
            pass(target);
        }
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

/// The reply to all that a record says. A moved chunk was acknowledged long ago.
fn answer(floor: &mut [Content], record: &Record) {
    for (block, floor) in floor.iter_mut().enumerate() {
        if let Some(datum) = record.writes[block] {
            *floor = floor.newest(datum.content);
        }
        *floor = floor.newest(floor.under(record.fragments[block]));
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
            fragments: Default::default(),
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
        let conflict = unready.any(|stale| memory.is_staged(usize::from(stale.block)))
            && !self.makes(Mistake::StagePastUnready);
        if with_stage {
            if conflict || !(0..BLOCKS).any(|block| memory.is_staged(block)) {
                return None;
            }
            record.writes = std::mem::take(&mut memory.staged);
            record.fragments = std::mem::take(&mut memory.staged_bytes);
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
            answer(&mut state.floor, &record);
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
            Some(Datum { content: swap.entry.content, zero: false });
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
            answer(&mut state.floor, &flying.record);
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
            if memory.is_newest(block, entry, self) {
                memory.map[usize::from(block)] = None;
            }
            memory.checkpoint = None;
        }
        for (block, datum) in record.writes.iter().enumerate() {
            let Some(datum) = *datum else { continue };
            // `apply_relocation`: a moved chunk replaces exactly what it was a copy of.
            let replaces =
                flying.relocated.is_none_or(|(block, old)| memory.holds_copy(block, old));
            if replaces || self.makes(Mistake::SwapOverNewer) {
                self.write_entry(memory, block, datum, flying.place, record.relocation);
            }
        }
        self.lay_over(memory, record, flying.place);
    }

    /// `apply_writes`: what is moved is what it was, and so is what lies over it.
    pub(crate) fn write_entry(
        &self,
        memory: &mut Memory,
        block: usize,
        datum: Datum,
        place: (u8, u8),
        is_moved: bool,
    ) {
        let stays = is_moved && !self.makes(Mistake::MoveDropsFragment);
        let over = memory.map[block].and_then(|entry| entry.over).filter(|_| stays);
        memory.map[block] = Some(Entry { over, ..Entry::of(datum, place) });
    }

    /// `Recorded::lay_over`: the fragments of a record.
    pub(crate) fn lay_over(&self, memory: &mut Memory, record: &Record, place: (u8, u8)) {
        for (entry, fragment) in memory.map.iter_mut().zip(record.fragments) {
            let Some(version) = fragment else { continue };
            entry.get_or_insert(Entry::AT_HOME).over = Some(Piece { version, place });
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
