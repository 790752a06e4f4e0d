//! What the durable records say, all together: the map, the logs, and what the next record has to name.
//!
//! One function applies a record, whether it was written just now or was found by a recovery ([`Recorded::apply`]). So what a
//! recovery makes of a record is what the engine made of it before.

pub mod chunks;
pub(crate) mod echo;
pub(crate) mod findings;
pub(crate) mod fragments;
pub(crate) mod journal;
pub mod logs;
pub mod map;
pub(crate) mod map_bounds;
mod over;
pub(crate) mod paged;
pub(crate) mod remembered;
pub(crate) mod sectors;

use crate::state::chunks::LoggedCopy;
use crate::state::echo::echo_of;
use crate::state::fragments::{Fragments, Needed, needed_for};
use crate::state::journal::{JournalPlace, MapJournal};
use crate::state::logs::Logs;
use crate::state::map::Map;
use crate::state::over::count;
use crate::state::paged::{Layers, Merge, Page, Paged};
use crate::state::sectors::{BLOCK_SECTORS, blocks_of};
use nearhead_disk::{Payload, RangeSet, SECTOR_BYTES};
use nearhead_format::record::{FLAG_RELOCATION, Fragment, RecordHeader, SectorRange, WriteItem};
use nearhead_format::{Entry, Layout, Place};

/// One of the copies that a record is about, by its number among those of its sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyNumber {
    /// A chunk that it brings.
    Chunk(usize),
    /// One that was made before, of which it says that it counts.
    Move(usize),
}

/// What becomes of one copy of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The map points to it.
    Counts,
    /// It does not hold what was written: its sectors read as errors.
    Damaged,
    /// A moved copy of what is no longer the newest: the map keeps what it has.
    Superseded,
}

/// The state of a volume, as far as its records have it.
pub(crate) struct Recorded {
    /// All of it; where it is paged what changed since the snapshot under way began.
    map: Map,
    /// The rest of a paged map.
    paged: Option<Box<Paged>>,
    /// What lies over what the map says.
    fragments: Fragments,
    logs: Logs,
    /// The map's own journal, if there is a map device.
    journal: Option<MapJournal>,
    /// Home sectors hinted durability-only.
    hints: RangeSet,
    /// Sequence of the newest durable record.
    sequence_done: u64,
    /// The log of the newest record that moves nothing: a log that was just filled by a swap is not
    /// where clients write, and must not be swapped in turn.
    last_log: u32,
    /// What the next record echoes: the home ranges that the newest one changed.
    echo: Vec<SectorRange>,
    /// Record bytes since the last snapshot began.
    bytes_since_snapshot: u64,
}

impl Recorded {
    /// Of a volume on which nothing was written yet.
    pub(crate) fn new(layout: &Layout, journal: Option<JournalPlace>) -> Self {
        Self::with_map(Map::new(), layout, journal)
    }

    /// With the map of a snapshot; the logs are as if nothing else were in them.
    pub(crate) fn with_map(map: Map, layout: &Layout, journal: Option<JournalPlace>) -> Self {
        let mut logs = Logs::new(layout, journal.is_some());
        for entry in &map {
            logs.add_entry(&entry);
        }
        Self::with(map, None, logs, journal)
    }

    /// The same with pages, of which `logs` has counted every entry.
    pub(crate) fn with_pages(paged: Paged, mut logs: Logs, journal: Option<JournalPlace>) -> Self {
        logs.offer(std::iter::empty());
        Self::with(Map::new(), Some(Box::new(paged)), logs, journal)
    }

    fn with(
        map: Map,
        paged: Option<Box<Paged>>,
        logs: Logs,
        journal: Option<JournalPlace>,
    ) -> Self {
        Self {
            map,
            paged,
            fragments: Fragments::default(),
            logs,
            journal: journal.and_then(MapJournal::at),
            hints: RangeSet::new(),
            sequence_done: 0,
            last_log: 0,
            echo: Vec::new(),
            bytes_since_snapshot: 0,
        }
    }

    /// What stands where, if the map is not paged; else what changed since the snapshot under way began.
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// What stands where.
    pub(crate) fn layers(&self) -> Layers<'_> {
        Layers::new(&self.map, self.paged.as_deref())
    }

    /// The bytes that lie over what the map says.
    pub(crate) fn fragments(&self) -> &Fragments {
        &self.fragments
    }

    pub(crate) fn logs(&self) -> &Logs {
        &self.logs
    }

    pub(crate) fn logs_mut(&mut self) -> &mut Logs {
        &mut self.logs
    }

    /// The map's own journal, if there is a map device.
    pub(crate) fn journal(&self) -> Option<&MapJournal> {
        self.journal.as_ref()
    }

    pub(crate) fn journal_mut(&mut self) -> Option<&mut MapJournal> {
        self.journal.as_mut()
    }

    /// Sequence of the newest durable record.
    pub(crate) fn sequence_done(&self) -> u64 {
        self.sequence_done
    }

    /// The log of the newest record that moves nothing.
    pub(crate) fn last_log(&self) -> u32 {
        self.last_log
    }

    /// What the next record echoes.
    pub(crate) fn echo(&self) -> &[SectorRange] {
        &self.echo
    }

    /// Home sectors hinted durability-only.
    pub(crate) fn hints(&self) -> &RangeSet {
        &self.hints
    }

    pub(crate) fn hints_mut(&mut self) -> &mut RangeSet {
        &mut self.hints
    }

    /// Record bytes since the last snapshot began.
    pub(crate) fn bytes_since_snapshot(&self) -> u64 {
        self.bytes_since_snapshot
    }

    /// Record bytes leave for a log.
    pub(crate) fn note_logged(&mut self, bytes: u64) {
        self.bytes_since_snapshot += bytes;
    }

    /// A snapshot begins while so many bytes of a record are on their way, which is newer.
    pub(crate) fn snapshot_begins(&mut self, bytes_on_their_way: u64) {
        self.bytes_since_snapshot = bytes_on_their_way;
    }

    /// That snapshot failed: the next one has something to say again.
    pub(crate) fn snapshot_failed(&mut self) {
        self.bytes_since_snapshot = self.bytes_since_snapshot.max(1);
    }

    /// All records up to this one are part of what is here already.
    pub(crate) fn begin_after(&mut self, sequence: u64) {
        self.sequence_done = sequence;
    }

    /// No record up to this one is there, and nothing says what they wrote: the next one echoes nothing.
    pub(crate) fn pass_over(&mut self, sequence: u64) {
        self.sequence_done = sequence;
        self.echo.clear();
    }

    /// Records up to `last` are gone, and this is what they wrote: it reads as errors.
    pub(crate) fn lose(&mut self, last: u64, ranges: &[SectorRange]) {
        for range in ranges {
            self.fill(range.start_sector, u64::from(range.len_sectors), Place::Poisoned);
        }
        self.sequence_done = last;
        self.echo = ranges.to_vec();
    }

    /// A record is durable, and now the newest. What it takes back leaves the map first, then comes what it writes:
    /// `fate` says what becomes of each copy, by its number.
    pub(crate) fn apply(
        &mut self,
        header: &RecordHeader,
        blocks: u32,
        fate: impl Fn(CopyNumber) -> Fate,
    ) {
        self.sequence_done = header.sequence;
        // In a chain what is moved goes where clients write.
        if header.flags & FLAG_RELOCATION == 0 || self.logs.has_no_homes() {
            self.last_log = header.log_index;
        }
        self.logs.advance(header.log_index, header.position, blocks);
        for claim in &header.claims {
            // From where the claim says: a snapshot may have let go of an unused ring meanwhile.
            self.logs.adopt_claim(*claim);
        }
        for range in &header.invalidations {
            self.remove(range.start_sector, u64::from(range.len_sectors));
        }
        // Before what is written: what was moved is older.
        self.apply_moves(header, &fate);
        self.apply_writes(header, &fate);
        let record_sector = self.record_sector(header);
        for Fragment { home_sector, offset, bytes } in &header.fragments {
            let home_byte = home_sector * SECTOR_BYTES + u64::from(*offset);
            let first = home_sector / BLOCK_SECTORS * BLOCK_SECTORS;
            self.lay_over(home_byte, bytes, record_sector, first..first + BLOCK_SECTORS);
        }
        self.echo = echo_of(header);
    }

    /// Device sector where a record begins that stands where its header says.
    fn record_sector(&self, header: &RecordHeader) -> u64 {
        let start = self.logs.block_offset(header.log_index, header.position).unwrap_or(0);
        start / SECTOR_BYTES
    }

    fn apply_writes(&mut self, header: &RecordHeader, fate: &impl Fn(CopyNumber) -> Fate) {
        let homes = header.writes.iter().map(|item| item.range().start_sector);
        self.map.warm(homes);
        // What is moved is what it was, and so is what lies over it.
        let is_moved = header.flags & FLAG_RELOCATION != 0;
        let mut chunk = 0;
        for (sector, item) in placed(self.payload_sector(header), &header.writes) {
            match *item {
                WriteItem::Chunk { home_sector, len_sectors, crc } => {
                    let place =
                        Place::Log { chunk_sector: sector, chunk_len: len_sectors, offset: 0 };
                    match fate(CopyNumber::Chunk(chunk)) {
                        Fate::Counts => {
                            if !is_moved {
                                self.drop_fragments(home_sector, u64::from(len_sectors));
                            }
                            self.logs.add_live(sector, len_sectors, u32::from(len_sectors));
                            self.insert(Entry { home_sector, len_sectors, place, crc });
                        }
                        Fate::Damaged => {
                            let place = Place::Poisoned;
                            self.drop_fragments(home_sector, u64::from(len_sectors));
                            self.insert(Entry { home_sector, len_sectors, place, crc: 0 });
                        }
                        Fate::Superseded => {}
                    }
                    chunk += 1;
                }
                WriteItem::Zeros { home_sector, run_sectors } if self.logs.has_no_homes() => {
                    self.remove(home_sector, u64::from(run_sectors));
                }
                WriteItem::Zeros { home_sector, run_sectors } => {
                    self.fill(home_sector, u64::from(run_sectors), Place::Zero);
                }
            }
        }
    }

    /// Copies that were made before count from now on.
    fn apply_moves(&mut self, header: &RecordHeader, fate: &impl Fn(CopyNumber) -> Fate) {
        for (number, entry) in header.moves.iter().enumerate() {
            let Place::Log { chunk_sector, chunk_len, .. } = entry.place else { continue };
            self.logs.close(chunk_sector);
            if fate(CopyNumber::Move(number)) == Fate::Counts {
                self.logs.add_live(chunk_sector, chunk_len, u32::from(entry.len_sectors));
                self.insert(*entry);
            }
        }
    }

    /// The chunks of a record that stands where its header says, in their order.
    pub(crate) fn copies_of(&self, header: &RecordHeader) -> impl Iterator<Item = LoggedCopy> {
        placed(self.payload_sector(header), &header.writes).filter_map(|(sector, item)| {
            let WriteItem::Chunk { home_sector, len_sectors, crc } = *item else { return None };
            let bytes = u32::from(len_sectors) * SECTOR_BYTES as u32;
            Some(LoggedCopy { device_offset: sector * SECTOR_BYTES, bytes, home_sector, crc })
        })
    }

    /// The same with their bytes out of what the record carries.
    pub(crate) fn chunks_of(
        &self,
        header: &RecordHeader,
        payload: &[Payload],
    ) -> Vec<(LoggedCopy, Payload)> {
        let mut parts = payload.iter();
        let (mut part, mut at) = (parts.next(), 0);
        let chunk = |copy: LoggedCopy| {
            // No chunk lies in two parts of a transfer.
            while part.is_some_and(|part| at >= part.len()) {
                (part, at) = (parts.next(), 0);
            }
            let end = at + copy.bytes as usize;
            let data = part.filter(|part| end <= part.len())?.slice(at..end);
            at = end;
            Some((copy, data))
        };
        self.copies_of(header).map_while(chunk).collect()
    }

    /// Device sector of the first payload byte.
    fn payload_sector(&self, header: &RecordHeader) -> u64 {
        let header_bytes = header.encoded_bytes(self.logs.block_bytes()) as u64;
        self.record_sector(header) + header_bytes / SECTOR_BYTES
    }

    /// The map has `place` for all of these sectors.
    pub(crate) fn fill(&mut self, start: u64, sectors: u64, place: Place) {
        self.drop_fragments(start, sectors);
        for (block, first, len_sectors) in blocks_of(start, sectors) {
            let home_sector = block * BLOCK_SECTORS + u64::from(first);
            self.insert(Entry { home_sector, len_sectors, place, crc: 0 });
        }
    }

    /// The map has this entry, and lets go of what it covers.
    pub(crate) fn insert(&mut self, entry: Entry) {
        let logs = &mut self.logs;
        self.map.insert(entry, &mut |lost| logs.drop_live(&lost));
        if let Some(paged) = &mut self.paged {
            paged.note_inserted(&entry);
        }
    }

    /// What the map said of these sectors is stale, and counts until a record says so: what it was, as far as it is here, and whether there
    /// may be more in the layers below.
    pub(crate) fn displace(&mut self, start: u64, sectors: u64) -> (Vec<Entry>, bool) {
        let mut displaced = Vec::new();
        let logs = &mut self.logs;
        self.fragments.drop_sectors(start, sectors, &mut |needed| match needed {
            Needed::More { .. } => count(logs, needed),
            // Until a record says so, the one that brought it is needed, as that of any other copy is.
            Needed::Less { record_sector } => {
                logs.forget_piece(record_sector);
                displaced.push(needed_for(start, record_sector));
            }
        });
        self.map.remove(start, sectors, &mut |entry| displaced.push(entry));
        let range = start..start.saturating_add(sectors);
        let hides_more = self.paged.as_mut().is_some_and(|paged| {
            let hides_more = paged.may_have(range.clone());
            if hides_more {
                paged.note_removed(range);
            }
            hides_more
        });
        (displaced, hides_more)
    }

    /// The map has nothing for these sectors.
    pub(crate) fn remove(&mut self, start: u64, sectors: u64) {
        self.drop_fragments(start, sectors);
        let logs = &mut self.logs;
        self.map.remove(start, sectors, &mut |lost| logs.drop_live(&lost));
        if let Some(paged) = &mut self.paged {
            paged.note_removed(start..start.saturating_add(sectors));
        }
    }
}

/// A paged map.
impl Recorded {
    /// A snapshot begins: the merge that it is; none of a map that is not paged. `is_told`: records say all that was removed so far.
    pub(crate) fn freeze(&mut self, is_told: bool) -> Option<Box<Merge>> {
        let Self { map, paged, logs, last_log, .. } = self;
        paged.as_mut().map(|paged| Box::new(paged.freeze(map, logs, (*last_log, is_told))))
    }

    /// The merge goes on until so many entries are ready, or all: true then. Else pages are to be read.
    pub(crate) fn produce(&self, merge: &mut Merge, count: usize) -> bool {
        self.paged.as_ref().is_none_or(|paged| paged.produce(merge, count, &self.logs))
    }

    /// The snapshot is durable: what its merge found hidden is let go.
    pub(crate) fn let_go(&mut self, merge: &mut Merge) {
        if let Some(paged) = &mut self.paged {
            paged.let_go(merge, &mut self.logs);
        }
    }

    /// It is snapshot `number`, and its body, which begins at this device byte, is the base.
    pub(crate) fn rebase(&mut self, merge: Merge, number: u64, offset: u64) {
        if let Some(paged) = &mut self.paged {
            paged.rebase(merge, (number, offset), &mut self.logs);
        }
    }

    /// A page of the base was read and verified.
    pub(crate) fn keep_page(&mut self, page: Page) {
        if let Some(paged) = &mut self.paged {
            paged.keep(page);
        }
    }

    /// What is needed of a log, as far as it was offered to be cleaned and is still the newest; none if the map is not paged.
    pub(crate) fn take_offer(&mut self, log: u32) -> Option<Vec<Entry>> {
        let mut entries = self.paged.as_mut()?.take_offer(log);
        self.logs.note_taken(log);
        let layers = self.layers();
        entries.retain(|entry| layers.holds(entry));
        Some(entries)
    }
}

/// The items of a record, each with the device sector where its payload begins, if it has any: chunk behind chunk from `first` on.
fn placed(first: u64, writes: &[WriteItem]) -> impl Iterator<Item = (u64, &WriteItem)> {
    let mut next = first;
    writes.iter().map(move |item| {
        let sector = next;
        if let WriteItem::Chunk { len_sectors, .. } = item {
            next += u64::from(*len_sectors);
        }
        (sector, item)
    })
}
