//! Log swapping: the content of one log goes to another (Manylogs III-G: a full one near the head to a cold one).
//!
//! What is still needed of the log that the policy names is read in log order and written as
//! relocation records into the other. Cleaning is put off, not done: nothing
//! goes home. The moved blocks keep their order against client writes because a relocation record
//! carries only chunks that are still the newest when it is built, and only one record is in flight.
//!
//! A snapshot follows, since the hot log's space is free only once no recovery scans it.

use crate::cleaner::Move;
use crate::commit::{Moves, Packer};
use crate::core::Core;
use crate::damage::DamageKind;
use crate::disk::dispatch::Purpose;
use crate::placement::{Need, Spot};
use crate::state::chunks::{LoggedCopy, content_of};
use crate::state::logs::Logs;
use crate::state::map::Map;
use nearhead_disk::{Class, Command, DiskError, Payload};
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

    /// Where a log is being moved to, if one is.
    pub(crate) fn cold_log(&self) -> Option<u32> {
        self.current.as_ref().map(|current| current.cold)
    }

    /// Whether there is work that waits for no event.
    pub(crate) fn needs_turn(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.scan.is_some())
    }
}

impl Moves for Swap {
    fn has_chunks(&self) -> bool {
        self.current.as_ref().is_some_and(|current| !current.chunks.is_empty())
    }

    /// The log that the next record is to claim, if one is to be.
    fn claim_wanted(&self) -> Option<u32> {
        self.current.as_ref().filter(|current| current.wants_claim).map(|current| current.cold)
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
    fn target(&self, logs: &Logs, need: Need) -> Option<Spot> {
        let cold = self.current.as_ref()?.cold;
        let block = logs.next_place(cold, need).filter(|_| logs.is_claimed(cold))?;
        Some(Spot { log_index: cold, block, wanted_index: cold })
    }

    /// Packs the next chunks that are still the newest; says what they were.
    fn take_chunks(&mut self, sectors_max: u64, map: &Map, packer: &mut Packer) -> Vec<Entry> {
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
    fn give_up(&mut self) {
        if let Some(current) = self.current.as_mut() {
            current.wants_claim = false;
            current.chunks.clear();
            current.entries.clear();
            current.scan = None;
        }
    }
}

impl Swap {
    /// Whether a log could be moved as far as this knows: none is, and what the last move freed can be written.
    pub(crate) fn may_begin(&self, snapshot_number: u64) -> bool {
        self.current.is_none() && self.moved_at_snapshot != Some(snapshot_number)
    }

    /// The content of one log is to go to another, if that can be.
    pub(crate) fn begin(&mut self, core: &Core, asked: Move, claims_logs: bool) {
        let (Move { from, to }, logs) = (asked, core.logs());
        let may_be_read = logs.is_claimed(to) || claims_logs && to < logs.count();
        if from == to || !may_be_read || logs.rests(to) || !logs.is_needed(from) {
            return;
        }
        let wants_claim = !logs.is_claimed(to);
        self.current = Some(Moving {
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

    /// Moves it on; says whether it is at its end, where no record is under way.
    pub(crate) fn advance(
        &mut self,
        core: &mut Core,
        is_record_under_way: bool,
        snapshot_number: u64,
    ) -> bool {
        self.collect_entries(core);
        self.read_hot_log(core);
        let finished = self.current.as_ref().is_some_and(|current| {
            current.scan.is_none()
                && current.entries.is_empty()
                && current.reading == 0
                && current.chunks.is_empty()
        });
        let ends = finished && !is_record_under_way;
        if ends {
            self.current = None;
            core.stats_mut().swaps += 1;
            self.moved_at_snapshot = Some(snapshot_number);
        }
        ends
    }

    fn collect_entries(&mut self, core: &Core) {
        let Some(current) = self.current.as_mut() else { return };
        let Some(cursor) = current.scan else { return };
        current.scan = None;
        for (looked_at, entry) in core.map().iter_from(cursor).enumerate() {
            if looked_at == SCAN_ENTRIES {
                current.scan = Some(entry.home_sector);
                break;
            }
            if let Place::Log { chunk_sector, .. } = entry.place
                && core.logs().log_of(chunk_sector) == current.hot
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

    fn read_hot_log(&mut self, core: &mut Core) {
        let Some(current) = self.current.as_mut() else { return };
        if current.scan.is_some() || current.reading > 0 || !current.chunks.is_empty() {
            return;
        }
        let mut commands = Vec::new();
        let mut window = 0;
        current.reads.clear();
        while window < WINDOW_BYTES_MAX && !current.entries.is_empty() {
            let (read, len) = next_read(&mut current.entries, core.piece_bytes());
            commands.push(Command::Read { offset: read.device_offset, len });
            current.reads.push(Some(read));
            window += u64::from(len);
        }
        current.reading = commands.len();
        for (io, command) in commands.into_iter().enumerate() {
            core.issue(Class::Background, Purpose::SwapRead { io: io as u32 }, command);
        }
    }

    pub(crate) fn on_read(&mut self, core: &mut Core, io: u32, result: Result<Payload, DiskError>) {
        let Some(current) = self.current.as_mut() else { return };
        current.reading -= 1;
        let Some(read) = current.reads.get_mut(io as usize).and_then(Option::take) else { return };
        let data = match result {
            Ok(data) => data,
            Err(error) => {
                let hot = current.hot;
                let told = format!("log {hot}: could not be read: {error}");
                return core.note(DamageKind::Log.told(told));
            }
        };
        for entry in read.entries {
            match content_of(&entry, &data, read.device_offset) {
                Ok(chunk) => current.chunks.push_back((entry, chunk)),
                // It stays where it is; a read of it will say what is wrong. What was overwritten meanwhile may be
                // used again, and is no damage.
                Err(problem) if core.map().holds(&entry) => {
                    core.note(DamageKind::Copy.told(format!("swap: {problem}")));
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
