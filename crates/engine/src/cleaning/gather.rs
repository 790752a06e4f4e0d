//! Gathering what is still needed of a log, in log order, read and verified: the first half of every move.
//!
//! What does not verify stays where it is; a read of it says what is wrong. Memory is bounded: the next window is read once the last one
//! was taken.

use crate::cleaner::Reading;
use crate::core::Core;
use crate::damage::DamageKind;
use crate::disk::dispatch::Purpose;
use crate::state::chunks::{LoggedCopy, content_of};
use crate::state::paged::Layers;
use nearhead_disk::{Class, Command, DiskError, Payload, SECTOR_BYTES};
use nearhead_format::{Entry, Place};
use std::collections::VecDeque;

/// Entries of the map looked at in one step while collecting what a log holds.
const SCAN_ENTRIES: usize = 16 << 10;
/// Most bytes read ahead of whoever takes them.
const WINDOW_BYTES_MAX: u64 = 2 << 20;
/// The same of a chain, of whose logs half and more may be passed over; and one read, which nobody's write waits behind.
const CHAIN_WINDOW_BYTES_MAX: u64 = 4 << 20;
const CHAIN_READ_BYTES: u32 = 1 << 20;
/// As a bound of one read: that of the first chunk, and of no other.
const CHUNK_ALONE: u32 = 0;

#[derive(Debug)]
struct Read {
    entries: Vec<Entry>,
    device_offset: u64,
}

/// What is needed of one log.
#[derive(Debug)]
pub(super) struct Gathering {
    from: u32,
    reading: Reading,
    /// Next home sector to scan, or `None` once all entries of the log are collected.
    scan: Option<u64>,
    entries: VecDeque<Entry>,
    reads: Vec<Option<Read>>,
    under_way: usize,
    /// Read and verified.
    chunks: VecDeque<(Entry, Payload)>,
    /// The same, until it is enough to be taken.
    held: VecDeque<(Entry, Payload)>,
}

impl Gathering {
    /// Nothing of it is known yet.
    pub(super) fn of(from: u32, reading: Reading) -> Self {
        Self {
            from,
            reading,
            scan: Some(0),
            entries: VecDeque::new(),
            reads: Vec::new(),
            under_way: 0,
            chunks: VecDeque::new(),
            held: VecDeque::new(),
        }
    }

    /// Whether there is work that waits for no event.
    pub(super) fn needs_turn(&self) -> bool {
        self.scan.is_some()
    }

    /// Whether everything that is needed was taken.
    pub(super) fn is_done(&self) -> bool {
        self.scan.is_none()
            && self.entries.is_empty()
            && self.under_way == 0
            && self.chunks.is_empty()
            && self.held.is_empty()
    }

    /// Whether a read is under way.
    pub(super) fn is_reading(&self) -> bool {
        self.under_way > 0
    }

    /// What was read and verified.
    pub(super) fn chunks(&self) -> &VecDeque<(Entry, Payload)> {
        &self.chunks
    }

    /// How many of them, and how many sectors that are, fit so many sectors: one at least.
    pub(super) fn measure(&self, sectors_max: u64) -> (usize, u64) {
        let (mut count, mut sectors) = (0, 0);
        for (entry, _) in &self.chunks {
            if count > 0 && sectors + u64::from(entry.len_sectors) > sectors_max {
                break;
            }
            count += 1;
            sectors += u64::from(entry.len_sectors);
        }
        (count, sectors)
    }

    /// Takes the first so many.
    pub(super) fn take(&mut self, count: usize) -> impl Iterator<Item = (Entry, Payload)> + '_ {
        self.chunks.drain(..count.min(self.chunks.len()))
    }

    /// Nothing more is wanted of it.
    pub(super) fn give_up(&mut self) {
        self.chunks.clear();
        self.held.clear();
        self.entries.clear();
        self.scan = None;
    }

    /// A snapshot takes the place of the map that this was gathered of: what is newer elsewhere is dropped, as it cannot be told afterwards.
    pub(super) fn recheck(&mut self, layers: Layers<'_>) {
        self.entries.retain(|entry| layers.holds(entry));
        for read in self.reads.iter_mut().flatten() {
            read.entries.retain(|entry| layers.holds(entry));
        }
        self.chunks.retain(|(entry, _)| layers.holds(entry));
        self.held.retain(|(entry, _)| layers.holds(entry));
    }

    /// Goes on as far as it can; `purpose` names the reads by their numbers.
    pub(super) fn advance(&mut self, core: &mut Core, purpose: fn(u32) -> Purpose) {
        self.collect_entries(core);
        match self.reading {
            Reading::LongPieces => self.read_window(core, purpose),
            Reading::ChunkByChunk => self.read_chunk(core, purpose),
        }
    }

    fn collect_entries(&mut self, core: &mut Core) {
        let Some(cursor) = self.scan else { return };
        self.scan = None;
        // Nobody looks at all of a paged map but a snapshot, which says what it found.
        if let Some(offered) = core.recorded_mut().take_offer(self.from) {
            self.entries = offered.into();
            return self.order_entries();
        }
        let Some(from) = core.logs().sectors_of(self.from) else { return };
        for (looked_at, entry) in core.map().iter_from(cursor).enumerate() {
            if looked_at == SCAN_ENTRIES {
                self.scan = Some(entry.home_sector);
                break;
            }
            if let Place::Log { chunk_sector, .. } = entry.place
                && from.contains(&chunk_sector)
            {
                self.entries.push_back(entry);
            }
        }
        if self.scan.is_none() {
            self.order_entries();
        }
    }

    fn order_entries(&mut self) {
        let place = |entry: &Entry| match entry.place {
            Place::Log { chunk_sector, .. } => chunk_sector,
            Place::Zero | Place::Poisoned | Place::Home => 0,
        };
        self.entries.make_contiguous().sort_by_key(place);
    }

    fn read_window(&mut self, core: &mut Core, purpose: fn(u32) -> Purpose) {
        if self.scan.is_some() || self.under_way > 0 || !self.chunks.is_empty() {
            return;
        }
        let mut commands = Vec::new();
        let (window_max, read_bytes) = if core.setup().has_homes() {
            (WINDOW_BYTES_MAX, core.piece_bytes())
        } else {
            let transfer_max = core.setup().properties.transfer_bytes_max;
            (CHAIN_WINDOW_BYTES_MAX, CHAIN_READ_BYTES.min(transfer_max))
        };
        let mut window = 0;
        self.reads.clear();
        while window < window_max && !self.entries.is_empty() {
            let (read, len) = next_read(&mut self.entries, read_bytes);
            commands.push(Command::Read { offset: read.device_offset, len });
            self.reads.push(Some(read));
            window += u64::from(len);
        }
        self.under_way = commands.len();
        for (io, command) in (0..).zip(commands) {
            core.issue(Class::Background, purpose(io), command);
        }
    }

    /// Reads the next chunk by itself. What was read is handed out once it fills a window, or nothing is left: a record for each chunk would
    /// take as much room as it makes.
    fn read_chunk(&mut self, core: &mut Core, purpose: fn(u32) -> Purpose) {
        if self.scan.is_some() || self.under_way > 0 || !self.chunks.is_empty() {
            return;
        }
        let held: u64 = self.held.iter().map(|(entry, _)| entry.len_sectors as u64).sum();
        let is_full = held * SECTOR_BYTES >= WINDOW_BYTES_MAX;
        let next = (!is_full).then(|| next_read(&mut self.entries, CHUNK_ALONE));
        let Some((read, len)) = next.filter(|(read, _)| !read.entries.is_empty()) else {
            self.chunks.append(&mut self.held);
            return;
        };
        let command = Command::Read { offset: read.device_offset, len };
        self.reads.clear();
        self.reads.push(Some(read));
        self.under_way = 1;
        core.issue(Class::Background, purpose(0), command);
    }

    /// A read ended; `who` names whoever gathers, for people.
    pub(super) fn on_read(
        &mut self,
        core: &mut Core,
        io: u32,
        result: Result<Payload, DiskError>,
        who: &str,
    ) {
        self.under_way -= 1;
        let Some(read) = self.reads.get_mut(io as usize).and_then(Option::take) else { return };
        let data = match result {
            Ok(data) => data,
            Err(error) => {
                let from = self.from;
                let told = format!("log {from}: could not be read: {error}");
                return core.note(DamageKind::Log.told(told));
            }
        };
        for entry in read.entries {
            match content_of(&entry, &data, read.device_offset) {
                Ok(chunk) => match self.reading {
                    Reading::LongPieces => self.chunks.push_back((entry, chunk)),
                    Reading::ChunkByChunk => self.held.push_back((entry, chunk)),
                },
                // It stays where it is; a read of it will say what is wrong. What was overwritten meanwhile may be
                // used again, and is no damage.
                Err(problem) if core.layers().holds(&entry) => {
                    core.note(DamageKind::Copy.told(format!("{who}: {problem}")));
                }
                Err(_) => {}
            }
        }
    }
}

/// Takes the entries of one transfer: neighbouring chunks up to `bytes_max`.
fn next_read(entries: &mut VecDeque<Entry>, bytes_max: u32) -> (Read, u32) {
    let mut read = Read { entries: Vec::new(), device_offset: 0 };
    let mut len: u64 = 0;
    while let Some(entry) = entries.front() {
        let Some(copy) = LoggedCopy::of(entry) else {
            entries.pop_front();
            continue;
        };
        let (start, bytes) = (copy.device_offset, u64::from(copy.bytes));
        if read.entries.is_empty() {
            read.device_offset = start;
        }
        let reach = start - read.device_offset + bytes;
        if !read.entries.is_empty() && reach > u64::from(bytes_max) {
            break;
        }
        len = len.max(reach);
        read.entries.extend(entries.pop_front());
    }
    (read, len as u32)
}
