//! Building the next record: what goes in, where it goes, and sending it off.

use super::packing::{Packer, padding};
use super::parts::Part;
use super::place::CLAIMS_AHEAD_MAX;
use super::record::Record;
use crate::disk::dispatch::Purpose;
use crate::engine::Engine;
use crate::placement::{Need, Spot};
use crate::requests::stage::{Front, Taken};
use crate::state::logs::NO_PREVIOUS;
use nearhead_disk::{Buffer, BufferMut, Class, Command, Payload};
use nearhead_format::Entry;
use nearhead_format::record::{
    FLAG_ATOMIC, FLAG_RELOCATION, RecordHeader, SectorRange, WRITES_MAX, header_bytes_for,
    record_bytes,
};

/// Most invalidations taken into one record that also carries data.
const INVALIDATIONS_WITH_DATA_MAX: usize = 1024;
/// Most ranges told in one record that snapshots alone took back: few, as the next record echoes them.
const UNTOLD_MAX: usize = 32;

/// What the next record carries.
#[derive(Debug, Default)]
struct Content {
    front: Front,
    invalidations: usize,
    invalid_ranges: Vec<SectorRange>,
    releases: Vec<Entry>,
    relocation: bool,
    /// It says what only snapshots said so far.
    tells: bool,
    /// The staged blocks would make the map larger than a snapshot can be.
    map_is_full: bool,
}

impl Engine {
    /// Largest payload of one record on this volume, in bytes: a quarter of a log at most.
    pub(crate) fn record_bytes_max(&self) -> u32 {
        let quarter = u32::try_from(self.setup.layout.log_bytes / 4).unwrap_or(u32::MAX);
        self.setup
            .config
            .record_bytes_max
            .min(quarter.saturating_sub(self.setup.config.log_reserve_bytes))
    }

    fn log_block(&self) -> usize {
        self.setup.layout.log_block_bytes as usize
    }

    /// Writes the next record if there is reason to and none is in flight.
    pub(crate) fn try_commit(&mut self) {
        if self.commit.in_flight.is_some() || self.failure.is_some() {
            return;
        }
        if self.continue_spill() || !self.journal_has_room() {
            return;
        }
        let wants_stage = self.spill.is_none()
            && !self.stage.is_empty()
            && self.commit.wants_stage(self.stage.front());
        let wants_other = self.invalidations.is_wanted()
            || self.checkpoint.has_releases()
            || self.swap.has_chunks()
            || self.commit.tell_wanted
            || self.swap.claim_wanted().is_some();
        if !wants_stage && !wants_other {
            return;
        }
        if self.passes_over_unused() || self.clears_torn_records() || self.restores_header() {
            return;
        }
        self.blanks.forget_spill();
        if wants_stage && !wants_other && self.sends_home_alone() {
            return;
        }
        let content = self.choose_content(wants_stage);
        let tells = content.tells && self.commit.tell_wanted;
        if content.is_empty() && !tells && self.swap.claim_wanted().is_none() {
            // Releases that were all overwritten need no record: the checkpoint goes on.
            return self.advance_checkpoint();
        }
        match self.find_place(content) {
            Ok((content, spot)) => self.send_record(content, spot),
            // Nobody needs it. What a swap wanted to move stays where it is.
            Err(content) if content.is_empty() && !self.a_claim_may_find_room() => {
                self.commit.tell_wanted = false;
                self.swap.give_up();
                self.advance_swap();
            }
            Err(content) => self.no_room(content),
        }
    }

    fn choose_content(&mut self, wants_stage: bool) -> Content {
        let mut content = Content::default();
        self.choose_invalidations(&mut content);
        content.releases = self.checkpoint.take_releases(&self.core.map);
        content.releases.iter().for_each(|entry| add_range(&mut content.invalid_ranges, entry));
        let all_ready = content.invalidations == self.invalidations.ready_len();
        if wants_stage && all_ready && !self.unready_conflict() {
            let sectors_max = u64::from(self.record_bytes_max()) / 512;
            content.front = self.stage.measure_front(WRITES_MAX, sectors_max);
            content.map_is_full = !self.map_has_room(content.front.chunks);
        } else if self.swap.has_chunks()
            && self.swap.claim_wanted().is_none()
            && all_ready
            && content.releases.is_empty()
        {
            // Not beside a release: a replay takes out of the map first and moves then, so that a
            // block in both would come back although it went home.
            content.relocation = true;
        }
        content
    }

    /// Whether a swap waits for its claim, and a snapshot frees room for the record that makes it.
    fn a_claim_may_find_room(&self) -> bool {
        self.swap.claim_wanted().is_some() && self.snapshots_free_space()
    }

    /// A staged block over an entry whose in-place write is not durable yet must wait for the flush:
    /// the invalidation would come in a later record and kill the newer copy.
    fn unready_conflict(&mut self) -> bool {
        if !self.invalidations.has_unready() {
            return false;
        }
        let stage = &self.stage;
        let conflict = self.invalidations.unready_touches(|block| stage.get(block).is_some());
        if conflict {
            self.lanes.main.flusher.demand(self.invalidations.flush_ticket());
        }
        conflict
    }

    fn choose_invalidations(&mut self, content: &mut Content) {
        for entry in self.invalidations.ready_entries().take(INVALIDATIONS_WITH_DATA_MAX) {
            content.invalidations += 1;
            add_range(&mut content.invalid_ranges, entry);
        }
        // Said once more for whoever has the logs alone; the map lacks these sectors already.
        for range in self.commit.untold.iter().take(UNTOLD_MAX) {
            let len_sectors = (range.end - range.start).min(u64::from(u32::MAX)) as u32;
            content.invalid_ranges.push(SectorRange { start_sector: range.start, len_sectors });
            content.tells = true;
        }
    }

    fn blocks_needed(&self, content: &Content) -> u32 {
        let (chunks, sectors) = if content.relocation {
            self.swap.measure(self.relocation_sectors_max())
        } else {
            (content.front.chunks, content.front.sectors)
        };
        let items = chunks
            + content.invalid_ranges.len()
            + CLAIMS_AHEAD_MAX as usize
            + usize::from(self.swap.claim_wanted().is_some())
            + 1
            + self.core.echo().len();
        let header = header_bytes_for(items, self.log_block());
        (record_bytes(header, sectors as u32, self.log_block()) / self.log_block()) as u32
    }

    /// Whether `chunks` more chunks leave the map small enough for a snapshot slot; each may add
    /// itself and the cut rest of an older one.
    fn map_has_room(&self, chunks: usize) -> bool {
        self.core.map.len() + 2 * chunks <= self.map_entries_max()
    }

    /// Largest relocation record: no durable write waits behind more than a bulk piece.
    fn relocation_sectors_max(&self) -> u64 {
        u64::from(self.admission.piece_bytes().min(self.record_bytes_max())) / 512
    }

    fn find_place(&mut self, mut content: Content) -> Result<(Content, Spot), Content> {
        let reserve = self.setup.config.log_reserve_bytes / self.setup.layout.log_block_bytes;
        loop {
            let carries_data = content.front.blocks > 0 || content.relocation;
            let blocks = self.blocks_needed(&content);
            let need = Need { blocks, reserve: if carries_data { reserve } else { 0 } };
            if content.relocation {
                if let Some(spot) = self.swap.target(&self.core.logs, need) {
                    return Ok((content, spot));
                }
                self.swap.give_up();
                content.relocation = false;
                if content.is_empty() {
                    return Err(content);
                }
                continue;
            }
            let spot = self.choose_spot(need);
            if let Some(spot) = spot.filter(|_| !(content.map_is_full && carries_data)) {
                return Ok((content, spot));
            }
            if content.front.blocks == 0 {
                return Err(content);
            }
            // Less at once may still find room: half, then half of that, at last one group; and
            // then what carries no data, which frees room for the rest.
            let front = content.front;
            let fewer = self.stage.measure_front(front.chunks / 2, front.sectors / 2);
            if fewer.blocks >= front.blocks || content.map_is_full {
                if content.invalidations == 0 && content.releases.is_empty() {
                    return Err(content);
                }
                content.front = Front::default();
                continue;
            }
            content.front = fewer;
        }
    }

    fn send_record(&mut self, content: Content, spot: Spot) {
        let mut packer = Packer::default();
        let mut flags = 0;
        let mut parts = Vec::new();
        if content.invalidations > 0 {
            parts.push(Part::TakenBack { count: content.invalidations });
        }
        if content.relocation {
            flags |= FLAG_RELOCATION;
            let sectors_max = self.relocation_sectors_max();
            let before = self.swap.take_chunks(sectors_max, &self.core.map, &mut packer);
            parts.push(Part::Moved { before });
        }
        if !content.releases.is_empty() {
            parts.push(Part::Released { entries: content.releases });
        }
        if content.front.blocks > 0 {
            if self.stage.front_is_group() {
                flags |= FLAG_ATOMIC;
            }
            self.taken = Taken::new(self.stage.take_front(content.front.blocks));
            packer.blocks(&self.taken.blocks);
            parts.push(Part::Staged { end: self.stage.front() });
            self.commit.note_taken();
            if !self.stage.is_empty() {
                self.commit.note_staged(self.now);
            }
        }
        let ring = self.core.logs.get_or_create(spot.log_index);
        let (generation, previous, oldest) = ring.map_or((0, NO_PREVIOUS, 0), |ring| {
            (ring.generation, ring.previous_position, ring.oldest_live_position())
        });
        let mut header = RecordHeader {
            flags,
            volume_id: self.setup.volume_id,
            sequence: self.core.sequence_done() + 1,
            log_index: spot.log_index,
            generation,
            position: 0,
            previous_position: previous,
            oldest_live_position: oldest,
            writes: packer.writes,
            invalidations: content.invalid_ranges,
            claims: Vec::new(),
            echo: self.core.echo().to_vec(),
        };
        self.add_claims(&mut header, spot);
        self.issue_record(Record::new(header, packer.parts, parts), spot);
    }

    fn add_claims(&mut self, header: &mut RecordHeader, spot: Spot) {
        let wanted = self.swap.take_claim();
        let ahead = spot.wanted_index..spot.wanted_index.saturating_add(self.claims_ahead());
        if spot.wanted_index != spot.log_index && !self.core.logs.is_claimed(spot.wanted_index) {
            self.stats.records_far += 1;
        }
        for index in wanted.into_iter().chain(ahead) {
            let known = self.core.logs.is_claimed(index)
                || header.claims.iter().any(|claim| claim.log_index == index);
            if index < self.core.logs.count() && !known && self.claims_logs() {
                header.claims.push(self.core.logs.claim_for(index));
            }
        }
    }

    /// Sends the record to its place; also used to send it again elsewhere.
    pub(super) fn issue_record(&mut self, mut record: Record, spot: Spot) {
        let log_block = self.log_block();
        let blocks = (record.header.record_bytes(log_block) / log_block) as u32;
        let (index, position) = (spot.log_index, spot.block);
        if !self.core.logs.accepts(index, position, Need { blocks, reserve: 0 }) {
            return self.fail(format!(
                "internal: no place for a record of {blocks} blocks at block {position} of log {index}"
            ));
        }
        self.note_record_leaves(spot);
        record.header.position = position;
        record.blocks = blocks;
        let header = self.encoded_header(&record);
        record.journal_at = self.journal_header(&header);
        record.pending += 1 + u8::from(record.journal_at.is_some());
        let Some(command) = self.record_command(&record, header) else {
            return self.fail(format!("internal: log {index} has no block {position}"));
        };
        self.stats.records += 1;
        let bytes = u64::from(blocks) * log_block as u64;
        self.stats.record_bytes += bytes;
        self.core.note_logged(bytes);
        self.commit.in_flight = Some(record);
        self.issue(Class::Durable, Purpose::Record, command);
    }

    pub(super) fn encoded_header(&self, record: &Record) -> Buffer {
        let mut header = BufferMut::zeroed(record.header.encoded_bytes(self.log_block()));
        record.header.encode_into(&mut header);
        header.freeze()
    }

    /// The write of the record where its header says that it stands.
    pub(super) fn record_command(&self, record: &Record, header: Buffer) -> Option<Command> {
        let RecordHeader { log_index, position, .. } = record.header;
        let offset = self.setup.layout.log_block_offset(log_index, position)?;
        let payload = nearhead_disk::total_len(&record.payload);
        let mut parts = Vec::with_capacity(record.payload.len() + 2);
        parts.push(Payload::Bytes(header));
        parts.extend(record.payload.iter().cloned());
        let padding = padding(payload, self.log_block());
        if padding > 0 {
            parts.push(Payload::Zeros(padding));
        }
        let durable = self.lanes.main.flusher.is_needed();
        Some(Command::Write { offset, parts, durable })
    }
}

impl Content {
    fn is_empty(&self) -> bool {
        self.front.blocks == 0
            && self.invalidations == 0
            && self.releases.is_empty()
            && !self.relocation
    }

    /// Whether it carries staged blocks.
    fn has_stage(&self) -> bool {
        self.front.blocks > 0
    }
}

/// Adds what `entry` covers, as one range with the last if it follows on.
fn add_range(ranges: &mut Vec<SectorRange>, entry: &Entry) {
    let (start_sector, len_sectors) = (entry.home_sector, u32::from(entry.len_sectors));
    match ranges.last_mut() {
        Some(last) if last.end_sector() == start_sector => last.len_sectors += len_sectors,
        _ => ranges.push(SectorRange { start_sector, len_sectors }),
    }
}

impl Engine {
    /// No log takes the record. Space that only waits for a snapshot is freed by one; what is
    /// truly full is checkpointed in the background while staged blocks go in place (law 6).
    fn no_room(&mut self, mut content: Content) {
        let releases = std::mem::take(&mut content.releases);
        self.demand_checkpoint_for_room(content.has_stage());
        if self.snapshotter.is_busy() {
            self.snapshotter.hurry();
            self.checkpoint.return_releases(releases);
            if self.snapshotter.is_short_of_space() {
                return self.wait_for_snapshots_space();
            }
            // One that fails time and again frees nothing, and it may be under way whenever a checkpoint that
            // copies nothing has just ended: then there is no other moment to go home or to give up.
            if content.has_stage() && self.snapshotter.lasting_problem().is_some() {
                self.go_without_log();
            }
            return;
        }
        let frees_room = self.core.bytes_since_snapshot() >= self.setup.layout.log_bytes / 2;
        if frees_room && !content.map_is_full {
            self.checkpoint.return_releases(releases);
            return self.demand_snapshot_for_room();
        }
        // Not even the reserve of a log is left for what has no data of its own. Snapshots of a map
        // that lacks it say the same as the record would.
        self.release_by_snapshot(&releases);
        if self.invalidations.is_wanted() || !content.has_stage() {
            self.demand_snapshot_for_room();
        }
        if content.has_stage() {
            self.go_without_log();
        }
    }

    pub(crate) fn demand_snapshot_for_room(&mut self) {
        self.demand_snapshot_or_fail("no log has room");
    }

    /// The snapshot that would help finds no space. Whoever came since it was tried last waits until it is tried again.
    pub(super) fn wait_for_snapshots_space(&mut self) {
        if let Some(error) = self.snapshotter.lack_of_space(self.schedule.idle_from()) {
            self.wait_for_space(&error);
        }
    }

    /// Nobody waits forever for a snapshot that a bad slot never takes; `why` there must be one.
    pub(crate) fn demand_snapshot_or_fail(&mut self, why: &str) {
        let Some(problem) = self.snapshotter.lasting_problem() else {
            return self.snapshotter.demand();
        };
        self.fail(format!("{why}, and the snapshot that would free some fails: {problem}"));
    }
}
