//! What runs by itself: checkpoints, swaps and snapshots, one step each, with the code's own conditions.
//!
//! A checkpoint takes one block at a time, a swap one chunk; a snapshot streams the map block by block
//! while everything else goes on. When each of them begins is left open.

use crate::state::{
    BLOCKS, Checkpoint, CheckpointStep, Entry, LOGS, Memory, Piece, Place, Snapshot, SnapshotStep,
    SnapshotWork, State, Swap, Ticket,
};
use crate::{Mistake, Protocol};

impl Protocol {
    /// A block goes home: `take_batch`, `write_batch`. Its chunk was read and verified before.
    pub(crate) fn start_checkpoint(&self, state: &mut State, block: usize) -> Option<()> {
        let memory = state.memory.as_mut().filter(|memory| !memory.recovering)?;
        let busy = memory.checkpoint.is_some() || memory.transferring[block].is_some();
        let entry = memory.map[block].filter(|_| !busy)?;
        let below = match entry.place {
            Place::Home => state.disk.home[block].newest(),
            Place::Log(..) | Place::Zero => entry.content,
        };
        let content = below.under(entry.over.map(|piece| piece.version));
        let step = CheckpointStep::Writing;
        memory.checkpoint = Some(Checkpoint { block: block as u8, entry, content, step });
        Some(())
    }

    /// `on_checkpoint_write`, then `release_batch` once its flush is done.
    pub(crate) fn continue_checkpoint(&self, state: &mut State) -> Option<()> {
        let memory = state.memory.as_mut()?;
        let mut checkpoint = memory.checkpoint?;
        checkpoint.step = match checkpoint.step {
            CheckpointStep::Writing => {
                let home = &mut state.disk.home[usize::from(checkpoint.block)];
                home.pending.push(checkpoint.content);
                memory.dirty = true;
                let early = self.makes(Mistake::ReleaseBeforeFlush);
                CheckpointStep::Flushing(if early { Ticket::Done } else { memory.ticket() })
            }
            CheckpointStep::Flushing(Ticket::Done) => CheckpointStep::Releasing,
            _ => return None,
        };
        memory.checkpoint = Some(checkpoint);
        Some(())
    }

    /// `release_by_snapshot`: no log takes the record, so two snapshots say it. Only what is still the newest gets there.
    pub(crate) fn release_by_snapshot(&self, state: &mut State) -> Option<()> {
        let memory = state.memory.as_mut()?;
        let checkpoint = memory.checkpoint?;
        let room =
            (0..LOGS).any(|log| memory.rings[log].claimed && self.place(memory, log).is_some());
        if checkpoint.step != CheckpointStep::Releasing || room || !memory.records.is_empty() {
            return None;
        }
        // The home was flushed already.
        memory.displace(usize::from(checkpoint.block), Ticket::Done, self);
        // Until then nothing goes to that home: bytes over it may come back.
        let step = CheckpointStep::Settling(memory.stale.len() as u8);
        let ends = self.makes(Mistake::EndBeforeSettled);
        memory.checkpoint = (!ends).then_some(Checkpoint { step, ..checkpoint });
        Some(())
    }

    /// `consider_swap` and the read of the hot log, one chunk of it.
    pub(crate) fn start_swap(&self, state: &mut State, block: usize) -> Option<()> {
        let memory = state.memory.as_mut().filter(|memory| !memory.recovering)?;
        let busy =
            memory.swap.is_some() || memory.checkpoint.is_some() || memory.snapshot.is_some();
        let entry = memory.map[block].filter(|_| !busy)?;
        let Place::Log(hot, _) = entry.place else { return None };
        if hot != memory.last_log {
            return None;
        }
        memory.swap = Some(Swap { block: block as u8, entry, cold: 1 - hot });
        Some(())
    }

    /// `begin_snapshot`.
    pub(crate) fn begin_snapshot(&self, state: &mut State) -> Option<()> {
        let memory = state.memory.as_mut().filter(|memory| !memory.recovering)?;
        // `moves_a_chunk`.
        let moves = memory.records.iter().any(|flying| flying.record.relocation)
            && !self.makes(Mistake::SnapshotBesideRelocation);
        if memory.snapshot.is_some() || moves || memory.snapshot_number == self.bounds.snapshots {
            return None;
        }
        let (keep, claims_new) = self.snapshot_claims(memory);
        let positions = memory.rings.map(|ring| ring.position);
        for (log, ring) in memory.rings.iter_mut().enumerate() {
            ring.claimed = keep[log];
            ring.next_protected_from = None;
            if self.makes(Mistake::FreeBeforeSnapshotIsDurable) {
                ring.protected_from = None;
            }
        }
        let image = Snapshot {
            number: memory.snapshot_number + 1,
            sequence: memory.sequence_done,
            map: Default::default(),
            cells: self.cells(memory),
            positions,
            claims: std::array::from_fn(|log| keep[log] || claims_new[log]),
        };
        let step = SnapshotStep::Body(0);
        let invalid_end = memory.stale.len() as u8;
        memory.snapshot = Some(SnapshotWork { image, claims_new, invalid_end, step });
        Some(())
    }

    /// `what_follows_the_map`: what lies over it now.
    fn cells(&self, memory: &Memory) -> [Option<Piece>; BLOCKS] {
        let has_them = !self.makes(Mistake::SnapshotWithoutFragments);
        memory.map.map(|entry| entry.filter(|_| has_them).and_then(|entry| entry.over))
    }

    /// `claims_to_keep` with room for one more than is needed, and `claims_to_add`.
    fn snapshot_claims(&self, memory: &Memory) -> ([bool; LOGS], [bool; LOGS]) {
        let needed = |log: usize| {
            memory.records.iter().any(|flying| usize::from(flying.place.0) == log)
                || memory.swap.is_some_and(|swap| usize::from(swap.cold) == log)
        };
        let mut claimed: Vec<usize> = (0..LOGS).filter(|log| memory.rings[*log].claimed).collect();
        claimed.sort_by_key(|log| (!needed(*log), log.abs_diff(usize::from(memory.last_log))));
        let mut keep = [false; LOGS];
        for (count, log) in claimed.into_iter().enumerate() {
            keep[log] = count == 0 || needed(log);
        }
        let room = |log: usize| self.place(memory, log).is_some();
        if (0..LOGS).any(|log| keep[log] && room(log)) {
            return (keep, [false; LOGS]);
        }
        (keep, std::array::from_fn(|log| !memory.rings[log].claimed && room(log)))
    }

    /// `snapshot_step`: the next piece of the body, then the flush, then the header.
    pub(crate) fn continue_snapshot(&self, state: &mut State) -> Option<()> {
        let memory = state.memory.as_mut()?;
        let mut work = memory.snapshot?;
        work.step = match work.step {
            SnapshotStep::Body(block) => {
                let now = memory.map[usize::from(block)];
                work.image.map[usize::from(block)] = now.map(|entry| Entry { over: None, ..entry });
                // The first piece destroys what the slot held.
                if usize::from(block) + 1 < work.image.map.len() {
                    SnapshotStep::Body(block + 1)
                } else {
                    memory.dirty = true;
                    SnapshotStep::Flushing(memory.ticket())
                }
            }
            SnapshotStep::Flushing(ticket)
                if ticket == Ticket::Done || self.makes(Mistake::SnapshotHeaderEarly) =>
            {
                state.disk.snapshots[usize::from(work.image.number % 2)] = None;
                SnapshotStep::Header
            }
            SnapshotStep::Flushing(_) => return None,
            SnapshotStep::Header => {
                let slot = usize::from(work.image.number % 2);
                state.disk.snapshots[slot] = Some(work.image);
                self.commit_snapshot(memory, &work);
                return Some(());
            }
        };
        memory.snapshot = Some(work);
        Some(())
    }

    /// `on_snapshot_header`.
    fn commit_snapshot(&self, memory: &mut Memory, work: &SnapshotWork) {
        memory.snapshot = None;
        memory.snapshot_number = work.image.number;
        let live: [bool; LOGS] = std::array::from_fn(|log| {
            (0..self.bounds.slots).any(|slot| memory.is_live((log as u8, slot)))
        });
        for (log, ring) in memory.rings.iter_mut().enumerate() {
            ring.claimed |= work.claims_new[log];
            ring.protected_from = ring.next_protected_from;
            // `Logs::snapshot_committed`: an unused ring leaves memory and begins anew.
            if !ring.claimed && ring.protected_from.is_none() && !live[log] {
                ring.position = 0;
            }
        }
        // In neither slot: what was taken back before the snapshot before this one began.
        let in_neither = std::mem::replace(&mut memory.snapshot_invalid_end, work.invalid_end);
        let one = self.makes(Mistake::SettleByOneSnapshot);
        let settled = if one { work.invalid_end } else { in_neither };
        if memory.records.iter().all(|flying| flying.invalidations == 0) {
            memory.commit_stale(settled);
        }
    }
}
