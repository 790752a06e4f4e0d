//! Log swapping: a full log near the head moves to a cold place (Manylogs III-G).
//!
//! What is still needed of a log that is more than 80 % full is read in log order and written as
//! relocation records into the emptiest log far from it. Cleaning is put off, not done: nothing
//! goes home. The moved blocks keep their order against client writes because a relocation record
//! carries only chunks that are still the newest when it is built, and only one record is in flight.
//!
//! A snapshot follows, since the hot log's space is free only once no recovery scans it.

use crate::chunks::{LoggedCopy, content_of};
use crate::commit::Packer;
use crate::dispatch::Purpose;
use crate::engine::{Engine, Phase};
use crate::logs::{Logs, Ring};
use crate::map::Map;
use crate::placement::{Need, Spot};
use nearhead_disk::{Class, Command, DiskError, Nanos, Payload};
use nearhead_format::{Entry, Place};
use nearhead_planted::{Mistake, is_made};
use std::collections::VecDeque;

/// Entries of the map looked at in one step while collecting what a log holds.
const SCAN_ENTRIES: usize = 16 << 10;
/// A log this full is moved even while clients are busy, if its neighbours are full as well.
const URGENT_FILL_PCT: u32 = 95;
/// Logs on either side that count as near: a seek over four groups (400 MiB) costs about what a
/// seek over one does.
const NEIGHBOURS: u32 = 4;
/// Most bytes read ahead of the relocation records.
const WINDOW_BYTES_MAX: u64 = 2 << 20;

#[derive(Debug)]
struct Read {
    entries: Vec<Entry>,
    device_offset: u64,
}

#[derive(Debug)]
struct Move {
    hot: u32,
    cold: u32,
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
    current: Option<Move>,
    /// Logs not worth another try until the next snapshot.
    refused_at_snapshot: Option<u64>,
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
    pub(crate) fn needs_turn(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.scan.is_some())
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
            if map.holds(&entry) || is_made(Mistake::SwapOverNewer) {
                packer.chunk(entry.home_sector, entry.len_sectors, &data);
                taken.push(entry);
            }
        }
        taken
    }

    /// The cold log has no room after all.
    pub(crate) fn give_up(&mut self) {
        if let Some(current) = self.current.as_mut() {
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
        if finished && self.commit.in_flight.is_none() {
            self.swap.current = None;
            self.stats.swaps += 1;
            self.swap.refused_at_snapshot = Some(self.snapshotter.number);
            self.snapshotter.wish();
        }
    }

    /// The log that clients filled, if it is worth moving and could be moved now.
    fn movable_log(&self) -> Option<u32> {
        let above_pct = self.setup.config.cleaning.swap_above_pct?;
        let waits = self.swap.refused_at_snapshot == Some(self.snapshotter.number);
        let stopping = !matches!(self.phase, Phase::Serving);
        let busy = self.swap.is_busy() || self.checkpoint.is_busy() || self.snapshotter.is_busy();
        let hot = self.core.last_log;
        let ring = self.core.logs.get(hot).filter(|_| !(waits || stopping || busy))?;
        let worth = ring.fill_pct() >= u32::from(above_pct) && ring.live_sectors() > 0;
        (worth && !ring.quarantined).then_some(hot)
    }

    /// When a log is moved if no request comes before.
    pub(crate) fn swap_wake(&self) -> Option<Nanos> {
        self.movable_log()?;
        Some(self.schedule.idle_from() + self.setup.config.cleaning.swap_idle_after)
    }

    fn consider_swap(&mut self) {
        let Some(hot) = self.movable_log() else { return };
        let idle = self.schedule.idle_for(self.now) >= self.setup.config.cleaning.swap_idle_after;
        let fill_pct = self.core.logs.get(hot).map_or(0, Ring::fill_pct);
        let urgent = fill_pct >= URGENT_FILL_PCT && self.neighbourhood_is_full(hot);
        if !(idle || urgent) {
            return;
        }
        match self.coldest_log(hot) {
            Some(cold) => {
                self.swap.current = Some(Move {
                    hot,
                    cold,
                    scan: Some(0),
                    entries: VecDeque::new(),
                    reads: Vec::new(),
                    reading: 0,
                    chunks: VecDeque::new(),
                });
                if !self.core.logs.is_claimed(cold) {
                    self.commit.claims_wanted.push(cold);
                }
            }
            None => self.swap.refused_at_snapshot = Some(self.snapshotter.number),
        }
    }

    /// Whether the head would have to go far for the next log with room.
    fn neighbourhood_is_full(&self, index: u32) -> bool {
        let (first, last) = (index.saturating_sub(NEIGHBOURS), index.saturating_add(NEIGHBOURS));
        (first..=last.min(self.core.logs.count() - 1)).all(|near| self.core.logs.is_full(near))
    }

    /// The log with most room, of those the farthest from the head.
    fn coldest_log(&self, hot: u32) -> Option<u32> {
        let count = self.core.logs.count();
        // An untouched log is as cold as any; look from the far end so that the head's
        // neighbourhood keeps its own.
        let far = if hot < count / 2 { count - 1 } else { 0 };
        let untouched = (0..count.min(1024))
            .map(|step| if far == 0 { step } else { far - step })
            .find(|index| *index != hot && self.core.logs.get(*index).is_none());
        untouched.or_else(|| {
            self.core
                .logs
                .present()
                .filter(|(index, ring)| *index != hot && !ring.quarantined && ring.fill_pct() < 20)
                .min_by_key(|(index, ring)| (ring.fill_pct(), u32::MAX - index.abs_diff(hot)))
                .map(|(index, _)| index)
        })
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
