//! What the next record carries: chosen from what waits, and made less where no log has room for all of it.

use super::Commit;
use super::build::moves_to_tail;
use super::parts::{Copies, Moves, Releases};
use crate::core::Core;
use crate::packing::Waiting;
use crate::stage::{Forms, FragmentRoom, Front, Stage};
use nearhead_format::Entry;
use nearhead_format::record::{MOVES_MAX, SectorRange, WRITES_MAX};
use std::ops::Range;

/// Most invalidations taken into one record that also carries data.
const INVALIDATIONS_WITH_DATA_MAX: usize = 1024;
/// Most ranges told in one record that snapshots alone took back: few, as the next record echoes them.
const UNTOLD_MAX: usize = 32;

/// Where what a record carries comes from.
pub(crate) struct Sources<'a> {
    pub(super) core: &'a mut Core,
    pub(super) stage: &'a mut Stage,
    pub(super) releases: &'a mut dyn Releases,
    pub(super) moves: &'a mut dyn Moves,
    pub(super) copies: &'a mut dyn Copies,
}

impl<'a> Sources<'a> {
    pub(crate) fn new(
        core: &'a mut Core,
        stage: &'a mut Stage,
        releases: &'a mut dyn Releases,
        (moves, copies): (&'a mut dyn Moves, &'a mut dyn Copies),
    ) -> Self {
        Self { core, stage, releases, moves, copies }
    }
}

/// What the next record carries.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(super) front: Front,
    /// Fragments that it has room for.
    pub(super) fragment_room: FragmentRoom,
    pub(super) invalidations: usize,
    pub(super) invalid_ranges: Vec<SectorRange>,
    pub(super) releases: Vec<Entry>,
    pub(super) relocation: bool,
    /// How many copies that were made before it may name.
    pub(super) copies: usize,
    /// It says what only snapshots said so far.
    pub(super) tells: bool,
    /// The staged blocks would make the map larger than a snapshot can be.
    pub(super) map_is_full: bool,
}

impl Content {
    /// Whether it carries nothing that anybody waits for.
    pub(crate) fn is_empty(&self) -> bool {
        self.front.blocks() == 0
            && self.invalidations == 0
            && self.releases.is_empty()
            && !self.relocation
            && self.copies == 0
    }

    /// Whether it carries staged blocks.
    pub(crate) fn has_stage(&self) -> bool {
        self.front.blocks() > 0
    }

    /// Whether the staged blocks would make the map larger than a snapshot can be.
    pub(crate) fn map_is_full(&self) -> bool {
        self.map_is_full
    }

    /// What of a checkpoint it was to let go.
    pub(crate) fn take_releases(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.releases)
    }
}

impl Commit {
    pub(super) fn choose_content(&mut self, wants_stage: bool, from: &mut Sources<'_>) -> Content {
        let mut content = Content::default();
        self.choose_invalidations(&mut content);
        content.releases = from.releases.take_releases(from.core.recorded());
        for entry in &content.releases {
            add_range(&mut content.invalid_ranges, entry.home_sector..entry.end_sector());
        }
        if memory_has_room(from.core) {
            content.copies = from.copies.len().min(MOVES_MAX);
        }
        let all_ready = content.invalidations == self.invalidations.ready_len();
        let moves_have_their_turn = self.moves_have_their_turn(from);
        let may_move = memory_has_room(from.core);
        if moves_have_their_turn && may_move && all_ready && content.releases.is_empty() {
            content.relocation = true;
        } else if wants_stage && all_ready && !self.unready_conflict(from) {
            content.fragment_room = fragment_room(from.core);
            content.front = self.choose_front(content.fragment_room, from);
            content.map_is_full = !map_has_room(from.core, &content.front);
        } else if from.moves.has_chunks()
            && may_move
            && from.moves.claim_wanted().is_none()
            && all_ready
            && content.releases.is_empty()
        {
            // Not beside a release: what a record takes back leaves the map first, then comes what it moves, so that a
            // block in both would be logged again although it went home. Nothing is lost by that, but time and room.
            content.relocation = true;
        }
        content
    }

    /// Whether what is moved to where clients write goes before them: one record of theirs, one of those, as both live on the same room.
    fn moves_have_their_turn(&self, from: &Sources<'_>) -> bool {
        self.moved_last == Some(false) && moves_to_tail(from)
    }

    /// What of the stage goes in: as much as the policy says of what one record can hold.
    fn choose_front(&mut self, room: FragmentRoom, from: &Sources<'_>) -> Front {
        let sectors_max = u64::from(from.core.record_bytes_max()) / 512;
        let forms = Forms::new(room, &self.untold);
        let all = from.stage.measure_front(WRITES_MAX, sectors_max, forms);
        let waiting = Waiting { pieces: all.chunks(), sectors: all.sectors() };
        let amount = self.packing.amount(waiting);
        if amount.pieces_max >= waiting.pieces && amount.sectors_max >= waiting.sectors {
            return all;
        }
        let (pieces, sectors) = (amount.pieces_max.min(all.chunks()), amount.sectors_max);
        from.stage.measure_front(pieces, sectors.min(all.sectors()), forms)
    }

    /// A staged block over an entry whose in-place write is not durable yet must wait for the flush:
    /// the invalidation would come in a later record and kill the newer copy.
    fn unready_conflict(&mut self, from: &mut Sources<'_>) -> bool {
        if !self.invalidations.has_unready() {
            return false;
        }
        let stage = &from.stage;
        let conflict = self.invalidations.unready_touches(|block| stage.get(block).is_some());
        if conflict {
            from.core.flusher_mut().demand(self.invalidations.flush_ticket());
        }
        conflict
    }

    fn choose_invalidations(&mut self, content: &mut Content) {
        for stale in self.invalidations.ready_entries().take(INVALIDATIONS_WITH_DATA_MAX) {
            content.invalidations += 1;
            add_range(&mut content.invalid_ranges, stale.sectors());
        }
        // Said once more for whoever has the logs alone; the map lacks these sectors already.
        for range in self.untold.iter().take(UNTOLD_MAX) {
            let len_sectors = (range.end - range.start).min(u64::from(u32::MAX)) as u32;
            content.invalid_ranges.push(SectorRange { start_sector: range.start, len_sectors });
            content.tells = true;
        }
    }
}

/// Entries that the block of a fragment may get: one for each run of sectors of which the map says nothing.
const ENTRIES_OF_FRAGMENT_MAX: usize = 4;

/// Whether what is staged leaves the map small enough for a snapshot slot; each chunk may add
/// itself and the cut rest of an older one.
fn map_has_room(core: &Core, front: &Front) -> bool {
    let more = 2 * front.chunks() + ENTRIES_OF_FRAGMENT_MAX * front.fragments();
    core.layers().len_max() + more <= core.map_entries_max() && memory_has_room(core)
}

/// What the next record may hold of fragments: as much as a snapshot still has room for.
fn fragment_room(core: &Core) -> FragmentRoom {
    let room_bytes = core.setup().layout.fragment_room_bytes();
    if room_bytes == 0 {
        return FragmentRoom::NONE;
    }
    FragmentRoom::of_record(core.recorded().fragments().cells_left(room_bytes))
}

/// Whether what changed since the last snapshot of a paged map may become more.
pub(crate) fn memory_has_room(core: &Core) -> bool {
    let layers = core.layers();
    layers.paged().is_none_or(|paged| paged.has_room(layers.newest_bytes()))
}

/// Adds these sectors, as one range with the last if they follow on.
fn add_range(ranges: &mut Vec<SectorRange>, sectors: Range<u64>) {
    let start_sector = sectors.start;
    let len_sectors = (sectors.end - sectors.start) as u32;
    match ranges.last_mut() {
        Some(last)
            if last.end_sector() == start_sector
                && last.len_sectors.checked_add(len_sectors).is_some() =>
        {
            last.len_sectors += len_sectors;
        }
        _ => ranges.push(SectorRange { start_sector, len_sectors }),
    }
}
