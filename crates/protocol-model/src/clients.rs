//! What clients ask for, one transition each, with the code's own condition named beside it: small writes, bytes of less than a block,
//! writes in place, and staged blocks that go home for want of room.
//!
//! Bytes that a record brought are never under what goes home: a block that has any is logged as a whole first, or waits.

use crate::recovery::read;
use crate::state::{Content, Datum, LOGS, Memory, Place, State, Waiting};
use crate::{Mistake, Protocol};

impl Memory {
    /// Whether an in-place write is to be logged first: `continue_in_place`.
    fn is_to_be_logged(&self, block: usize, protocol: &Protocol) -> bool {
        let place = self.map[block].filter(|entry| entry.over.is_some()).map(|entry| entry.place);
        place.is_some_and(|place| {
            let by = match place {
                Place::Home => Mistake::InPlaceUnderFragment,
                Place::Log(..) | Place::Zero => Mistake::InPlaceUnderFragmentOfLog,
            };
            !protocol.makes(by)
        })
    }
}

impl Protocol {
    /// A client's small write, or zeroing: staged. `requests/small_write.rs`: not beside an in-place write.
    pub(crate) fn stage(&self, state: &mut State, block: usize, zero: bool) -> Option<()> {
        let memory = state.memory.as_mut().filter(|memory| !memory.recovering)?;
        if state.sent[block] == self.bounds.versions || memory.is_locked(block) {
            return None;
        }
        state.sent[block] += 1;
        let content = Content::whole(state.sent[block]);
        (memory.staged[block], memory.staged_bytes[block]) = (Some(Datum { content, zero }), None);
        Some(())
    }

    /// A client's few bytes, with the rest of the block as a read gives it. `StagedBlock::put`: over what is staged already they are
    /// logged with all of it.
    pub(crate) fn stage_bytes(&self, state: &mut State, block: usize) -> Option<()> {
        let now = read(state, block)?;
        let memory = state.memory.as_mut().filter(|memory| !memory.recovering)?;
        if state.sent[block] == self.bounds.versions || memory.is_locked(block) {
            return None;
        }
        state.sent[block] += 1;
        let bytes = Some(state.sent[block]);
        if memory.is_staged(block) {
            let content = now.under(bytes);
            memory.staged[block] = Some(Datum { content, zero: false });
            memory.staged_bytes[block] = None;
        } else {
            memory.staged_bytes[block] = bytes;
        }
        Some(())
    }

    /// A client's large write or trim goes home: `continue_in_place`.
    pub(crate) fn start_in_place(&self, state: &mut State, block: usize) -> Option<()> {
        let memory = state.memory.as_mut().filter(|memory| !memory.recovering)?;
        let busy = memory.is_locked(block)
            || (memory.is_in_memory(block) && !self.makes(Mistake::InPlaceOverStaged))
            || (memory.checkpoint_touches(block) && !self.makes(Mistake::InPlaceUnderCheckpoint));
        if state.sent[block] == self.bounds.versions || busy {
            return None;
        }
        state.sent[block] += 1;
        let content = Content::whole(state.sent[block]);
        if memory.is_to_be_logged(block, self) {
            memory.staged[block] = Some(Datum { content, zero: false });
            memory.behind[block] = Some(state.sent[block]);
        } else {
            memory.transferring[block] = Some(content);
        }
        Some(())
    }

    /// What was logged because of bytes over its home goes there: `retry_blocked`.
    pub(crate) fn go_on_in_place(&self, state: &mut State, block: usize) -> Option<()> {
        let memory = state.memory.as_mut()?;
        let busy = memory.transferring[block].is_some()
            || memory.is_in_memory(block)
            || memory.has_bytes_over(block)
            || memory.checkpoint_touches(block);
        let version = memory.behind[block].filter(|_| !busy)?;
        memory.behind[block] = None;
        memory.transferring[block] = Some(Content::whole(version));
        Some(())
    }

    /// No log has room: a staged block goes home after all (`home/spill.rs`).
    pub(crate) fn spill(&self, state: &mut State, block: usize) -> Option<()> {
        let memory = state.memory.as_mut()?;
        let room =
            (0..LOGS).any(|log| memory.rings[log].claimed && self.place(memory, log).is_some());
        // `blocks_to_spill`: those bytes would come over what is newer.
        let stays = memory.has_bytes_over(block) && !self.makes(Mistake::SpillUnderFragment);
        let busy = room
            || stays
            || memory.transferring[block].is_some()
            || memory.checkpoint_touches(block);
        let datum = memory.staged[block].filter(|_| !busy && memory.records.is_empty())?;
        memory.staged[block] = None;
        memory.transferring[block] = Some(datum.content);
        Some(())
    }

    /// `finish_in_place`: the transfer is complete, in the device's cache.
    pub(crate) fn finish_in_place(&self, state: &mut State, block: usize) -> Option<()> {
        let memory = state.memory.as_mut()?;
        let content = memory.transferring[block].take()?;
        state.disk.home[block].pending.push(content);
        memory.dirty = true;
        let ticket = memory.ticket();
        memory.displace(block, ticket, self);
        let invalid_target = memory.stale.len() as u8;
        memory.waiting[block] = Some(Waiting { content, ticket, invalid_target });
        Some(())
    }
}
