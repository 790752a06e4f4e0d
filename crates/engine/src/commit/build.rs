//! Building the next record: what goes in, where it goes, and sending it off.

use super::Commit;
use super::content::{Content, Sources, memory_has_room};
use super::packer::Packer;
use super::parts::{Copies, Moves, Part, Releases, Target};
use super::place::CLAIMS_AHEAD_MAX;
use super::record::Record;
use crate::core::Core;
use crate::placement::{Need, Spot};
use crate::stage::{Forms, Front, Stage};
use crate::state::logs::NO_PREVIOUS;
use nearhead_disk::Nanos;
use nearhead_format::record::{
    FLAG_ATOMIC, FLAG_RELOCATION, RecordHeader, header_bytes_for, record_bytes,
};

/// Why a record should be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    stage: bool,
    other: bool,
}

impl Wants {
    pub(crate) fn any(self) -> bool {
        self.stage || self.other
    }

    /// Only what is staged.
    pub(crate) fn stage_alone(self) -> bool {
        self.stage && !self.other
    }
}

/// What became of the wish for a record.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// It is on its way.
    Sent,
    /// All that it was to let go was overwritten meanwhile: it needs no record.
    NothingToSay,
    /// No log takes it.
    NoRoom(Content),
}

impl Commit {
    /// Whether there is reason to write one, where `takes_stage` says whether staged blocks may go into it.
    pub(crate) fn wants(
        &self,
        stage: &Stage,
        takes_stage: bool,
        (releases, now): (&dyn Releases, Nanos),
        (moves, copies): (&dyn Moves, &dyn Copies),
    ) -> Wants {
        let wants_stage = takes_stage && !stage.is_empty() && self.wants_stage(stage.front());
        let wants_other = self.invalidations.is_wanted()
            || releases.are_releases_due(now)
            || moves.has_chunks()
            || copies.are_due(now)
            || self.tell_wanted
            || moves.claim_wanted().is_some();
        Wants { stage: wants_stage, other: wants_other }
    }

    /// Writes the next record. None is in flight.
    pub(crate) fn send_next(&mut self, wants: Wants, mut from: Sources<'_>) -> Attempt {
        let content = self.choose_content(wants.stage, &mut from);
        let tells = content.tells && self.tell_wanted;
        if content.is_empty() && !tells && from.moves.claim_wanted().is_none() {
            return Attempt::NothingToSay;
        }
        match self.find_place(content, &mut from) {
            Ok((content, spot)) => {
                self.send_record(content, spot, from);
                Attempt::Sent
            }
            Err(content) => Attempt::NoRoom(*content),
        }
    }

    fn find_place(
        &mut self,
        mut content: Content,
        from: &mut Sources<'_>,
    ) -> Result<(Content, Spot), Box<Content>> {
        let reserve =
            from.core.setup().config.log_reserve_bytes / from.core.setup().layout.log_block_bytes;
        loop {
            let carries_data = content.has_stage() || content.relocation;
            let blocks = blocks_needed(&content, from);
            let need = Need { blocks, reserve: if carries_data { reserve } else { 0 } };
            if content.relocation {
                // What is moved makes room: it may have what is kept for that.
                let unreserved = Need { reserve: 0, ..need };
                let spot = match from.moves.target(from.core.logs(), need) {
                    Target::At(spot) => Some(spot),
                    Target::Tail => self.placer.choose(from.core, unreserved),
                    Target::Nowhere => None,
                };
                if let Some(spot) = spot {
                    return Ok((content, spot));
                }
                from.moves.give_up();
                content.relocation = false;
                if content.is_empty() {
                    return Err(Box::new(content));
                }
                continue;
            }
            let spot = self.placer.choose(from.core, need);
            if let Some(spot) = spot.filter(|_| !(content.map_is_full && carries_data)) {
                return Ok((content, spot));
            }
            if !content.has_stage() {
                return Err(Box::new(content));
            }
            // Less at once may still find room: half, then half of that, at last one group; and
            // then what carries no data, which frees room for the rest.
            let front = content.front;
            let fewer = {
                let forms = Forms::new(content.fragment_room, &self.untold);
                from.stage.measure_front(front.chunks() / 2, front.sectors() / 2, forms)
            };
            if fewer.blocks() >= front.blocks() || content.map_is_full {
                if moves_to_tail(from) && content.releases.is_empty() && memory_has_room(from.core)
                {
                    // What is moved makes the room that clients wait for.
                    content.front = Front::default();
                    content.relocation = true;
                    continue;
                }
                if content.invalidations == 0 && content.releases.is_empty() && content.copies == 0
                {
                    return Err(Box::new(content));
                }
                content.front = Front::default();
                continue;
            }
            content.front = fewer;
        }
    }

    fn send_record(&mut self, content: Content, spot: Spot, from: Sources<'_>) {
        let Sources { core, stage, moves, copies, .. } = from;
        let mut packer = Packer::default();
        let mut flags = 0;
        let mut parts = Vec::new();
        if content.invalidations > 0 {
            parts.push(Part::TakenBack { count: content.invalidations });
        }
        if content.relocation {
            flags |= FLAG_RELOCATION;
            let sectors_max = relocation_sectors_max(core, moves);
            let before = moves.take_chunks(sectors_max, core.layers(), &mut packer);
            parts.push(Part::Moved { before });
        }
        if !content.releases.is_empty() {
            parts.push(Part::Released { entries: content.releases });
        }
        let named = copies.take(content.copies, core.layers());
        if !named.is_empty() {
            let before = named.iter().map(|copied| *copied.before()).collect();
            parts.push(Part::Named { before });
        }
        self.moved_last = Some(content.relocation);
        let mut wanted_since = None;
        if content.front.blocks() > 0 {
            if stage.front_is_group() {
                flags |= FLAG_ATOMIC;
            }
            let forms = Forms::new(content.fragment_room, &self.untold);
            packer.blocks(stage.send_front(content.front.blocks()), forms);
            parts.push(Part::Staged { end: stage.front() });
            wanted_since = self.note_stage_taken(stage, core.now());
        }
        let ring = core.logs_mut().get_or_create(spot.log_index);
        let (previous, oldest) = ring.map_or((NO_PREVIOUS, 0), |ring| {
            (ring.previous_position(), ring.oldest_live_position())
        });
        let (writes, fragments, payload) = packer.finish();
        let mut header = RecordHeader {
            flags,
            volume_id: core.setup().volume_id,
            sequence: core.recorded().sequence_done() + 1,
            log_index: spot.log_index,
            position: 0,
            previous_position: previous,
            oldest_live_position: oldest,
            writes,
            invalidations: content.invalid_ranges,
            claims: Vec::new(),
            echo: core.recorded().echo().to_vec(),
            moves: named.iter().map(|copied| *copied.after()).collect(),
            fragments,
        };
        self.add_claims(core, &mut header, spot, moves.take_claim());
        let record = Record { wanted_since, ..Record::new(header, payload, parts) };
        self.issue_record(core, record, spot);
    }

    fn add_claims(
        &mut self,
        core: &mut Core,
        header: &mut RecordHeader,
        spot: Spot,
        wanted: Option<u32>,
    ) {
        let claims_ahead = self.placer.claims_ahead();
        let ahead = spot.wanted_index..spot.wanted_index.saturating_add(claims_ahead);
        if spot.wanted_index != spot.log_index && !core.logs().is_claimed(spot.wanted_index) {
            core.stats_mut().records_far += 1;
        }
        for index in wanted.into_iter().chain(ahead) {
            let known = core.logs().is_claimed(index)
                || header.claims.iter().any(|claim| claim.log_index == index);
            if index < core.logs().count() && !known && claims_ahead > 0 {
                header.claims.push(core.logs().claim_for(index));
                core.logs_mut().promise(index);
            }
        }
    }
}

/// Whether something waits to be moved to where clients' records go.
pub(super) fn moves_to_tail(from: &Sources<'_>) -> bool {
    let need = Need { blocks: 1, reserve: 0 };
    from.moves.has_chunks() && from.moves.target(from.core.logs(), need) == Target::Tail
}

/// Largest relocation record: no durable write waits behind more than a bulk piece.
/// Among clients' records they are as large as those.
fn relocation_sectors_max(core: &Core, moves: &dyn Moves) -> u64 {
    let is_tail = moves.target(core.logs(), Need { blocks: 1, reserve: 0 }) == Target::Tail;
    let most = core.record_bytes_max();
    u64::from(if is_tail { most } else { core.piece_bytes().min(most) }) / 512
}

/// Log blocks of a record with this content: no record is longer.
fn blocks_needed(content: &Content, from: &Sources<'_>) -> u32 {
    let (chunks, sectors) = if content.relocation {
        from.moves.measure(relocation_sectors_max(from.core, from.moves))
    } else {
        (content.front.chunks(), content.front.sectors())
    };
    let (fragments, fragment_bytes) = (content.front.fragments(), content.front.fragment_bytes());
    let items = chunks
        + fragments
        + content.invalid_ranges.len()
        + CLAIMS_AHEAD_MAX as usize
        + usize::from(from.moves.claim_wanted().is_some())
        + 1
        + 2 * content.copies
        + from.core.recorded().echo().len();
    let log_block = from.core.logs().block_bytes();
    let header = header_bytes_for(items, fragment_bytes, log_block);
    (record_bytes(header, sectors as u32, log_block) / log_block) as u32
}
