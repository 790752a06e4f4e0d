//! What a snapshot and the records behind it say together: the map, the logs and the journal as they were, and where
//! the next record goes on.
//!
//! Every recovery goes through here, one record at a time and in their order, also a rebuild. Nothing is read and
//! nothing written.

use super::chain::Link;
use super::scan::Found;
use crate::config::JournalPlace;
use crate::journal::MapJournal;
use crate::logs::Logs;
use crate::map::Map;
use crate::range_set::RangeSet;
use crate::sectors::{BLOCK_SECTORS, blocks_of};
use nearhead_format::record::{FLAG_RELOCATION, SectorRange, WriteItem};
use nearhead_format::snapshot::HintRange;
use nearhead_format::{Entry, Layout, Place};
use nearhead_planted::{Mistake, is_made};

/// The state of a volume, as far as snapshot and records have it.
pub(crate) struct Replay {
    pub(crate) map: Map,
    pub(crate) logs: Logs,
    pub(crate) journal: Option<MapJournal>,
    /// Home sectors hinted durability-only.
    pub(crate) hints: RangeSet,
    /// Sequence of the newest record.
    pub(crate) sequence_done: u64,
    /// The log of the newest one that moves nothing.
    pub(crate) last_log: u32,
    /// What the next record echoes.
    pub(crate) echo: Vec<SectorRange>,
    /// Bytes of the records that no snapshot includes.
    pub(crate) bytes_since_snapshot: u64,
    log_block_bytes: u64,
}

impl Replay {
    /// Begins with the map of a snapshot that includes all records up to `sequence`.
    pub(super) fn begin(
        layout: &Layout,
        journal: Option<JournalPlace>,
        map: Map,
        hints: Vec<HintRange>,
        sequence: u64,
    ) -> Self {
        let mut replay = Self {
            map,
            logs: Logs::new(layout, journal.is_some()),
            journal: journal.and_then(MapJournal::at),
            hints: RangeSet::new(),
            sequence_done: sequence,
            last_log: 0,
            echo: Vec::new(),
            bytes_since_snapshot: 0,
            log_block_bytes: u64::from(layout.log_block_bytes),
        };
        for hint in hints {
            replay.hints.insert(hint.start_sector..hint.start_sector + hint.len_sectors);
        }
        replay
    }

    /// Applies one step; live sectors are counted at the end.
    pub(super) fn apply(&mut self, link: &Link) {
        match link {
            Link::Lost { last, ranges } => {
                self.sequence_done = *last;
                for range in ranges {
                    let sectors = u64::from(range.len_sectors);
                    self.fill(range.start_sector, sectors, Place::Poisoned);
                }
                self.echo.clone_from(ranges);
            }
            Link::Unknown { last } => {
                self.sequence_done = *last;
                self.echo.clear();
            }
            Link::Record(found) => {
                self.sequence_done = found.header.sequence;
                self.apply_record(found);
            }
        }
    }

    fn apply_record(&mut self, found: &Found) {
        let header = &found.header;
        for claim in &header.claims {
            self.logs.adopt_claim(*claim);
        }
        let mut ranges = header.invalidations.clone();
        let replayed = !is_made(Mistake::InvalidationNotReplayed);
        for range in header.invalidations.iter().filter(|_| replayed) {
            self.map.remove(range.start_sector, u64::from(range.len_sectors), &mut |_| {});
        }
        ranges.extend(header.writes.iter().map(WriteItem::range));
        self.apply_writes(found);
        self.logs.advance(header.log_index, header.position, found.blocks);
        if let (Some(journal), Some((position, blocks))) = (self.journal.as_mut(), found.journal) {
            journal.replay(position, blocks);
        }
        if header.flags & FLAG_RELOCATION == 0 {
            self.last_log = header.log_index;
        }
        self.bytes_since_snapshot += u64::from(found.blocks) * self.log_block_bytes;
        if is_made(Mistake::EchoForgottenByReplay) {
            ranges.clear();
        }
        self.echo = crate::commit::echo_of(ranges);
    }

    fn apply_writes(&mut self, found: &Found) {
        let (mut sector, mut sound) = (found.payload_sector, found.chunks_sound.iter());
        for item in &found.header.writes {
            match *item {
                WriteItem::Chunk { home_sector, len_sectors, crc } => {
                    let place = if sound.next().copied().unwrap_or(false) {
                        Place::Log { chunk_sector: sector, chunk_len: len_sectors, offset: 0 }
                    } else {
                        Place::Poisoned
                    };
                    let crc = if place == Place::Poisoned { 0 } else { crc };
                    self.map.insert(Entry { home_sector, len_sectors, place, crc }, &mut |_| {});
                    sector += u64::from(len_sectors);
                }
                WriteItem::Zeros { home_sector, run_sectors } => {
                    self.fill(home_sector, u64::from(run_sectors), Place::Zero);
                }
            }
        }
    }

    fn fill(&mut self, start: u64, sectors: u64, place: Place) {
        for (block, first, len_sectors) in blocks_of(start, sectors) {
            let home_sector = block * BLOCK_SECTORS + u64::from(first);
            self.map.insert(Entry { home_sector, len_sectors, place, crc: 0 }, &mut |_| {});
        }
    }

    /// All steps are applied: counts what each log holds that the map points to.
    pub(super) fn count_live(&mut self) {
        for entry in &self.map {
            if let Place::Log { chunk_sector, .. } = entry.place {
                self.logs.add_live(chunk_sector, u32::from(entry.len_sectors));
            }
        }
        // Positions came from the snapshot, without a record that would have been measured.
        self.logs.measure_all();
    }
}
