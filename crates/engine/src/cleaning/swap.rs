//! Log swapping: the content of one log goes to another (Manylogs III-G: a full one near the head to a cold one).
//!
//! What is still needed of the log that the policy names is read in log order and written as
//! relocation records into the other. Cleaning is put off, not done: nothing
//! goes home. The moved blocks keep their order against client writes because a relocation record
//! carries only chunks that are still the newest when it is built, and only one record is in flight.
//!
//! A snapshot follows, since the hot log's space is free only once no recovery scans it.

use super::policy::Move;
use crate::commit::Packer;
use crate::disk::dispatch::Purpose;
use crate::engine::{Engine, Phase};
use crate::placement::{Need, Spot};
use crate::state::chunks::{LoggedCopy, content_of};
use crate::state::logs::Logs;
use crate::state::map::Map;
use nearhead_disk::{Class, Command, DiskError, Nanos, Payload};
use nearhead_format::{Entry, Place};
use std::collections::VecDeque;

/// Entries of the map looked at in one step while collecting what a log holds.
const SCAN_ENTRIES: usize = 16 << 10;
/// Most bytes read ahead of the relocation records.
const WINDOW_BYTES_MAX: u64 = 2 << 20;

#[derive(Debug)]
struct Read {
    entries: Vec<Entry>,
    device_offset: u64,
}

#[derive(Debug)]
struct Moving {
    hot: u32,
    cold: u32,
    /// The next record is to claim it.
    wants_claim: bool,
    /// Next home sector to scan, or `None` once all entries of the log are collected.
    scan: Option<u64>,
    entries: VecDeque<Entry>,
    reads: Vec<Option<Read>>,
    reading: usize,
    /// Read and verified, waiting for a record.
    chunks: VecDeque<(Entry, Payload)>,
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

    pub(crate) fn has_chunks(&self) -> bool {
        self.current.as_ref().is_some_and(|current| !current.chunks.is_empty())
    }

    /// Where a log is being moved to, if one is.
    pub(crate) fn cold_log(&self) -> Option<u32> {
        self.current.as_ref().map(|current| current.cold)
    }

    /// Whether there is work that waits for no event.
    pub(super) fn needs_turn(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.scan.is_some())
    }

    /// The log that the next record is to claim, if one is to be.
    pub(crate) fn claim_wanted(&self) -> Option<u32> {
        self.current.as_ref().filter(|current| current.wants_claim).map(|current| current.cold)
    }

    /// The same, for the record that does.
    pub(crate) fn take_claim(&mut self) -> Option<u32> {
        let wanted = self.claim_wanted();
        if let Some(current) = self.current.as_mut() {
            current.wants_claim = false;
        }
        wanted
    }

    /// Chunks and sectors of the next relocation record.
    pub(crate) fn measure(&self, sectors_max: u64) -> (usize, u64) {
        let Some(current) = &self.current else { return (0, 0) };
        let (mut count, mut sectors) = (0, 0);
        for (entry, _) in &current.chunks {
            if count > 0 && sectors + u64::from(entry.len_sectors) > sectors_max {
                break;
            }
            count += 1;
            sectors += u64::from(entry.len_sectors);
        }
        (count, sectors)
    }

    /// A place in the cold log, if it is claimed and has room.
    pub(crate) fn target(&self, logs: &Logs, need: Need) -> Option<Spot> {
        let cold = self.current.as_ref()?.cold;
        let block = logs.next_place(cold, need).filter(|_| logs.is_claimed(cold))?;
        Some(Spot { log_index: cold, block, wanted_index: cold })
    }

    /// Packs the next chunks that are still the newest; says what they were.
    pub(crate) fn take_chunks(
        &mut self,
        sectors_max: u64,
        map: &Map,
        packer: &mut Packer,
    ) -> Vec<Entry> {
        let (count, _) = self.measure(sectors_max);
        let Some(current) = self.current.as_mut() else { return Vec::new() };
        let mut taken = Vec::with_capacity(count);
        for (entry, data) in current.chunks.drain(..count) {
            if map.holds(&entry) {
                packer.chunk(entry.home_sector, entry.len_sectors, &data);
                taken.push(entry);
            }
        }
        taken
    }

    /// The cold log has no room after all, or no record has that claims it.
    pub(crate) fn give_up(&mut self) {
        if let Some(current) = self.current.as_mut() {
            current.wants_claim = false;
            current.chunks.clear();
            current.entries.clear();
            current.scan = None;
        }
    }
}

impl Engine {
    pub(crate) fn advance_swap(&mut self) {
        if self.swap.current.is_none() {
            self.consider_swap();
        }
        self.collect_entries();
        self.read_hot_log();
        let finished = self.swap.current.as_ref().is_some_and(|current| {
            current.scan.is_none()
                && current.entries.is_empty()
                && current.reading == 0
                && current.chunks.is_empty()
        });
        if finished && self.commit.in_flight().is_none() {
            self.swap.current = None;
            self.stats.swaps += 1;
            self.swap.moved_at_snapshot = Some(self.snapshotter.number());
            self.snapshotter.wish();
        }
    }

    /// Whether a log could be moved now.
    fn may_move(&self) -> bool {
        let waits = self.swap.moved_at_snapshot == Some(self.snapshotter.number());
        let stopping = !matches!(self.phase, Phase::Serving);
        let busy = self.swap.is_busy() || self.checkpoint.is_busy() || self.snapshotter.is_busy();
        !(waits || stopping || busy)
    }

    /// When a log is moved if no request comes before.
    pub(super) fn swap_wake(&self) -> Option<Nanos> {
        self.cleaner.relocate_wake(&self.cleaning_view()).filter(|_| self.may_move())
    }

    fn consider_swap(&mut self) {
        if !self.may_move() {
            return;
        }
        let (cleaner, view) = self.cleaner();
        let asked = cleaner.relocate(&view);
        let Some(Move { from, to }) = asked else { return };
        let logs = &self.core.logs;
        let may_be_read = logs.is_claimed(to) || self.claims_logs() && to < logs.count();
        if from == to || !may_be_read || logs.rests(to) || !logs.is_needed(from) {
            return;
        }
        let wants_claim = !logs.is_claimed(to);
        self.swap.current = Some(Moving {
            hot: from,
            cold: to,
            wants_claim,
            scan: Some(0),
            entries: VecDeque::new(),
            reads: Vec::new(),
            reading: 0,
            chunks: VecDeque::new(),
        });
    }

    fn collect_entries(&mut self) {
        let Some(current) = self.swap.current.as_mut() else { return };
        let Some(cursor) = current.scan else { return };
        current.scan = None;
        for (looked_at, entry) in self.core.map.iter_from(cursor).enumerate() {
            if looked_at == SCAN_ENTRIES {
                current.scan = Some(entry.home_sector);
                break;
            }
            if let Place::Log { chunk_sector, .. } = entry.place
                && self.core.logs.log_of(chunk_sector) == current.hot
            {
                current.entries.push_back(entry);
            }
        }
        if current.scan.is_none() {
            let place = |entry: &Entry| match entry.place {
                Place::Log { chunk_sector, .. } => chunk_sector,
                Place::Zero | Place::Poisoned => 0,
            };
            current.entries.make_contiguous().sort_by_key(place);
        }
    }

    fn read_hot_log(&mut self) {
        let Some(current) = self.swap.current.as_mut() else { return };
        if current.scan.is_some() || current.reading > 0 || !current.chunks.is_empty() {
            return;
        }
        let mut commands = Vec::new();
        let mut window = 0;
        current.reads.clear();
        while window < WINDOW_BYTES_MAX && !current.entries.is_empty() {
            let (read, len) = next_read(&mut current.entries, self.admission.piece_bytes());
            commands.push(Command::Read { offset: read.device_offset, len });
            current.reads.push(Some(read));
            window += u64::from(len);
        }
        current.reading = commands.len();
        for (io, command) in commands.into_iter().enumerate() {
            self.issue(Class::Background, Purpose::SwapRead { io: io as u32 }, command);
        }
    }

    pub(crate) fn on_swap_read(&mut self, io: u32, result: Result<Payload, DiskError>) {
        let Some(current) = self.swap.current.as_mut() else { return };
        current.reading -= 1;
        let Some(read) = current.reads.get_mut(io as usize).and_then(Option::take) else { return };
        let data = match result {
            Ok(data) => data,
            Err(error) => {
                let hot = current.hot;
                return self.recovered.note(format!("log {hot}: could not be read: {error}"));
            }
        };
        for entry in read.entries {
            match content_of(&entry, &data, read.device_offset) {
                Ok(chunk) => current.chunks.push_back((entry, chunk)),
                // It stays where it is; a read of it will say what is wrong. What was overwritten meanwhile may be
                // used again, and is no damage.
                Err(problem) if self.core.map.holds(&entry) => {
                    self.recovered.note(format!("swap: {problem}"));
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
