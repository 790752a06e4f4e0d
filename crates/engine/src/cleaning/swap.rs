//! Moving the content of a log in records of their own: to another log (Manylogs III-G: a full one near the head to a cold one), or to
//! where clients' records go (Gecko's *move to tail*).
//!
//! What is still needed of the log that the policy names is gathered in log order and written as
//! relocation records. Cleaning is put off, not done, where it goes to another log: nothing
//! goes home. The moved blocks keep their order against client writes because a relocation record
//! carries only chunks that are still the newest when it is built, and only one record is in flight.
//!
//! A snapshot follows, since the log's space is free only once no recovery scans it.

use super::gather::Gathering;
use crate::cleaner::{Goal, Move, Reading};
use crate::commit::{Moves, Packer, Target};
use crate::core::Core;
use crate::disk::dispatch::Purpose;
use crate::placement::{Need, Spot};
use crate::state::logs::Logs;
use crate::state::paged::Layers;
use nearhead_disk::{DiskError, Payload};
use nearhead_format::Entry;

#[derive(Debug)]
struct Moving {
    /// Where it goes; none to where clients' records go.
    cold: Option<u32>,
    /// The next record is to claim it.
    wants_claim: bool,
    content: Gathering,
}

/// State of swapping.
#[derive(Debug, Default)]
pub(crate) struct Swap {
    current: Option<Moving>,
    /// The newest snapshot when the last move ended: what it freed can be written after the next one.
    moved_at_snapshot: Option<u64>,
}

impl Swap {
    pub(crate) fn is_busy(&self) -> bool {
        self.current.is_some()
    }

    /// Where a log is being moved to, if one is.
    pub(crate) fn cold_log(&self) -> Option<u32> {
        self.current.as_ref().and_then(|current| current.cold)
    }

    /// Whether there is work that waits for no event.
    pub(crate) fn needs_turn(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.content.needs_turn())
    }
}

impl Moves for Swap {
    fn has_chunks(&self) -> bool {
        self.current.as_ref().is_some_and(|current| !current.content.chunks().is_empty())
    }

    /// The log that the next record is to claim, if one is to be.
    fn claim_wanted(&self) -> Option<u32> {
        self.current.as_ref().filter(|current| current.wants_claim).and_then(|moving| moving.cold)
    }

    /// The same, for the record that does.
    fn take_claim(&mut self) -> Option<u32> {
        let wanted = self.claim_wanted();
        if let Some(current) = self.current.as_mut() {
            current.wants_claim = false;
        }
        wanted
    }

    /// Chunks and sectors of the next relocation record.
    fn measure(&self, sectors_max: u64) -> (usize, u64) {
        self.current.as_ref().map_or((0, 0), |current| current.content.measure(sectors_max))
    }

    /// A place in the cold log, if it is claimed and has room.
    fn target(&self, logs: &Logs, need: Need) -> Target {
        let Some(current) = &self.current else { return Target::Nowhere };
        let Some(cold) = current.cold else { return Target::Tail };
        let block = logs.next_place(cold, need).filter(|_| logs.is_claimed(cold));
        block.map_or(Target::Nowhere, |block| {
            Target::At(Spot { log_index: cold, block, wanted_index: cold })
        })
    }

    /// Packs the next chunks that are still the newest; says what they were.
    fn take_chunks(
        &mut self,
        sectors_max: u64,
        layers: Layers<'_>,
        packer: &mut Packer,
    ) -> Vec<Entry> {
        let (count, _) = self.measure(sectors_max);
        let Some(current) = self.current.as_mut() else { return Vec::new() };
        let mut taken = Vec::with_capacity(count);
        for (entry, data) in current.content.take(count) {
            if layers.holds(&entry) {
                packer.chunk(entry.home_sector, entry.len_sectors, &data);
                taken.push(entry);
            }
        }
        taken
    }

    /// The cold log has no room after all, or no record has that claims it.
    fn give_up(&mut self) {
        if let Some(current) = self.current.as_mut() {
            current.wants_claim = false;
            current.content.give_up();
        }
    }
}

impl Swap {
    /// Whether a log could be moved as far as this knows: none is, and what the last move freed can be written.
    pub(crate) fn may_begin(&self, snapshot_number: u64) -> bool {
        self.current.is_none() && self.moved_at_snapshot != Some(snapshot_number)
    }

    /// The content of one log is to go to another, or to the others' tail, if that can be.
    pub(crate) fn begin(
        &mut self,
        core: &Core,
        (asked, reading): (Move, Reading),
        claims_logs: bool,
    ) {
        let (Move { from, to }, logs) = (asked, core.logs());
        let cold = match to {
            Goal::Log(cold) => Some(cold),
            Goal::Tail => None,
            Goal::Body => return,
        };
        let may_be_read = |to| logs.is_claimed(to) || claims_logs && to < logs.count();
        let is_sound = |to| from != to && may_be_read(to) && !logs.rests(to);
        if cold.is_some_and(|to| !is_sound(to)) || !logs.is_needed(from) {
            return;
        }
        let wants_claim = cold.is_some_and(|to| !logs.is_claimed(to));
        self.current = Some(Moving { cold, wants_claim, content: Gathering::of(from, reading) });
    }

    /// Moves it on; says whether it is at its end, where no record is under way.
    pub(crate) fn advance(
        &mut self,
        core: &mut Core,
        is_record_under_way: bool,
        snapshot_number: u64,
    ) -> bool {
        let Some(current) = self.current.as_mut() else { return false };
        current.content.advance(core, |io| Purpose::SwapRead { io });
        let ends = current.content.is_done() && !is_record_under_way;
        if ends {
            // What goes to the tail is taken from a log that nobody writes, and is free at once.
            let is_freed_later = current.cold.is_some();
            self.current = None;
            core.stats_mut().swaps += 1;
            self.moved_at_snapshot = is_freed_later.then_some(snapshot_number);
        }
        ends
    }

    /// A snapshot takes the place of the map that this was gathered of.
    pub(crate) fn recheck(&mut self, layers: Layers<'_>) {
        if let Some(current) = self.current.as_mut() {
            current.content.recheck(layers);
        }
    }

    pub(crate) fn on_read(&mut self, core: &mut Core, io: u32, result: Result<Payload, DiskError>) {
        if let Some(current) = self.current.as_mut() {
            current.content.on_read(core, io, result, "swap");
        }
    }
}
