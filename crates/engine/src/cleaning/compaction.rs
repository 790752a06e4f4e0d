//! Compacting a log within its own device: what is still needed of it is copied behind what else was copied there, and nothing of it
//! touches the device that takes the clients' records (Gecko's *compact in body*).
//!
//! Copies are written beside the order of records, so that no record waits for them: each window under a header that says what stands
//! behind it ([`FLAG_BODY`]), for whoever reads the log alone. They count once a later record says so (its `moves`), of those that are
//! still the newest then; until that is durable the log keeps what it has, and the one that takes the copies is held. A cut before it
//! leaves copies that nobody knows.
//!
//! Each device has one log that takes copies, and goes on with it until it is full; after a recovery with a new one.

use super::gather::Gathering;
use crate::cleaner::{Goal, Move, Reading};
use crate::commit::{Copied, Copies, encoded, padding};
use crate::core::Core;
use crate::disk::dispatch::Purpose;
use crate::state::paged::Layers;
use crate::state::sectors::SECTOR;
use nearhead_disk::{Class, Command, DiskError, Nanos, Payload};
use nearhead_format::crc::chunk_crc;
use nearhead_format::record::{
    FLAG_BODY, NO_POSITION, RecordHeader, WRITES_MAX, WriteItem, header_bytes_for,
};
use nearhead_format::{Entry, Place};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Copies that no record names yet: with more nothing more is copied.
const UNNAMED_MAX: usize = 8192;
/// So long they wait for a client's record; then they get one of their own.
const UNNAMED_FOR: Nanos = Nanos::from_millis(250);

/// A window on its way.
#[derive(Debug)]
struct Writing {
    log_index: u32,
    copies: Vec<Copied>,
}

#[derive(Debug)]
struct Compacting {
    from: u32,
    /// The logs of its device.
    device: Range<u32>,
    content: Gathering,
    writing: Option<Writing>,
    /// Something was copied.
    has_copied: bool,
}

/// State of compaction.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    current: Option<Compacting>,
    /// Which log of a device takes copies, by the first one of the device.
    open: BTreeMap<u32, u32>,
    /// Logs that are held.
    held: Vec<u32>,
    /// Durable, and named by no record yet, and since when.
    unnamed: VecDeque<Copied>,
    unnamed_since: Option<Nanos>,
    /// The record on its way names some.
    is_naming: bool,
}

impl Copies for Compaction {
    fn are_due(&self, now: Nanos) -> bool {
        let waits = self.unnamed_since.is_some_and(|since| now.since(since) >= UNNAMED_FOR);
        !self.unnamed.is_empty() && (waits || !self.is_copying() || self.is_full())
    }

    fn len(&self) -> usize {
        self.unnamed.len()
    }

    fn take(&mut self, count_max: usize, layers: Layers<'_>) -> Vec<Copied> {
        let count = count_max.min(self.unnamed.len());
        let taken: Vec<Copied> =
            self.unnamed.drain(..count).filter(|copied| layers.holds(copied.before())).collect();
        self.unnamed_since = self.unnamed_since.filter(|_| !self.unnamed.is_empty());
        self.is_naming |= !taken.is_empty();
        taken
    }
}

impl Compaction {
    pub(crate) fn is_busy(&self) -> bool {
        self.current.is_some() || !self.unnamed.is_empty() || self.is_naming
    }

    /// Whether a log is still held that takes no more copies: also if all that waited to be named was written over, and nothing names it.
    pub(crate) fn holds_any(&self) -> bool {
        self.held.len() > self.open.len()
    }

    /// Whether there is work that waits for no event.
    pub(crate) fn needs_turn(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.content.needs_turn())
    }

    /// When copies are named at the latest.
    pub(crate) fn wake(&self) -> Option<Nanos> {
        self.unnamed_since.map(|since| since + UNNAMED_FOR)
    }

    /// Whether a log is being compacted.
    pub(crate) fn is_copying(&self) -> bool {
        self.current.is_some()
    }

    fn is_full(&self) -> bool {
        self.unnamed.len() >= UNNAMED_MAX
    }

    /// Whether a log could be compacted: what was copied before is named, so that nothing is copied twice.
    pub(crate) fn may_begin(&self) -> bool {
        !self.is_busy()
    }

    /// A log is to be compacted, if that is what is asked for.
    pub(crate) fn begin(&mut self, core: &Core, (asked, reading): (Move, Reading)) {
        let logs = core.logs();
        if asked.to != Goal::Body || !logs.is_needed(asked.from) || logs.is_held(asked.from) {
            return;
        }
        let Some(device) = logs.by_device().find(|device| device.contains(&asked.from)) else {
            return;
        };
        self.current = Some(Compacting {
            from: asked.from,
            device,
            content: Gathering::of(asked.from, reading),
            writing: None,
            has_copied: false,
        });
    }

    /// A snapshot takes the place of the map that this was gathered of.
    pub(crate) fn recheck(&mut self, layers: Layers<'_>) {
        self.unnamed.retain(|copied| layers.holds(copied.before()));
        self.unnamed_since = self.unnamed_since.filter(|_| !self.unnamed.is_empty());
        let Some(current) = self.current.as_mut() else { return };
        current.content.recheck(layers);
        if let Some(writing) = &mut current.writing {
            writing.copies.retain(|copied| layers.holds(copied.before()));
        }
    }

    /// Moves it on; says whether a log was done of which something was copied, or let go of which nothing is needed: a snapshot frees those.
    pub(crate) fn advance(&mut self, core: &mut Core) -> bool {
        let is_full = self.is_full();
        let Some(current) = self.current.as_mut() else {
            return self.let_go(core);
        };
        if !is_full {
            current.content.advance(core, |io| Purpose::CompactionRead { io });
        }
        let waits_for_disk = current.writing.is_some() || current.content.is_reading();
        if !waits_for_disk && !current.content.chunks().is_empty() && !is_full {
            self.write(core);
        }
        let is_done = self
            .current
            .as_ref()
            .is_some_and(|current| current.content.is_done() && current.writing.is_none());
        let done = self.current.take_if(|_| is_done);
        let has_copied = done.is_some_and(|done| done.has_copied);
        core.stats_mut().compactions += u64::from(has_copied);
        has_copied
    }

    /// No record finds room to name what was copied: it is forgotten, and its logs are free.
    pub(crate) fn forget(&mut self, core: &mut Core) {
        self.stop();
        self.unnamed.clear();
        self.unnamed_since = None;
        self.open.clear();
        self.let_go(core);
    }

    /// Whether copies wait for a record.
    pub(crate) fn has_unnamed(&self) -> bool {
        !self.unnamed.is_empty()
    }

    /// Nothing more is copied; what was copied already is named still.
    pub(crate) fn stop(&mut self) {
        self.open.clear();
        if let Some(current) = self.current.as_mut() {
            current.content.give_up();
        }
    }

    /// The record that named some of them is durable; says whether a log was let go of which nothing is needed any more.
    pub(crate) fn note_named(&mut self, core: &mut Core) -> bool {
        self.is_naming = false;
        self.let_go(core)
    }

    /// It will never be; but it may stand somewhere all the same, and what it names stays as it is: those logs are held until the volume is
    /// opened again.
    pub(crate) fn note_let_go(&mut self) {
        self.is_naming = false;
        self.held.clear();
        self.open.clear();
    }

    /// Logs that took copies, all of which are named, are as any others; says whether nothing is needed of one.
    fn let_go(&mut self, core: &mut Core) -> bool {
        if self.held.is_empty() || self.is_naming {
            return false;
        }
        let logs = core.logs_mut();
        let place_of = |copied: &Copied| match copied.after().place {
            Place::Log { chunk_sector, .. } => Some(logs.log_of(chunk_sector)),
            Place::Zero | Place::Poisoned | Place::Home => None,
        };
        let mut in_use: BTreeSet<u32> = self.unnamed.iter().filter_map(place_of).collect();
        in_use.extend(self.open.values());
        let writing = self.current.as_ref().and_then(|current| current.writing.as_ref());
        in_use.extend(writing.map(|writing| writing.log_index));
        let mut frees_any = false;
        self.held.retain(|log| {
            let stays = in_use.contains(log);
            if !stays {
                logs.hold(*log, false);
                frees_any |= logs.is_spent(*log);
            }
            stays
        });
        frees_any
    }

    /// Writes the next window.
    fn write(&mut self, core: &mut Core) {
        let log_block = core.logs().block_bytes();
        let sectors_max = u64::from(core.record_bytes_max()) / SECTOR as u64;
        let Some(current) = self.current.as_mut() else { return };
        let (count, sectors) = current.content.measure(sectors_max);
        let count = count.min(WRITES_MAX);
        let blocks = (header_bytes_for(count, 0, log_block)
            + (sectors as usize * SECTOR).next_multiple_of(log_block))
            / log_block;
        let device = current.device.clone();
        let Some(log) = place(&mut self.open, &mut self.held, core, device, blocks as u32) else {
            // No log of the device is free: what is left stays where it is.
            let from = current.from;
            current.content.give_up();
            return core.logs_mut().note_stuck(from);
        };
        let chunks: Vec<_> =
            current.content.take(count).filter(|(entry, _)| core.layers().holds(entry)).collect();
        if chunks.is_empty() {
            return;
        }
        let Some((command, copies, end)) = window(core, log, chunks) else { return };
        core.logs_mut().note_copied(log, end);
        let sectors: u64 = copies.iter().map(|copy| u64::from(copy.after().len_sectors)).sum();
        core.stats_mut().compacted_bytes += sectors * SECTOR as u64;
        current.writing = Some(Writing { log_index: log, copies });
        core.issue(Class::Background, Purpose::CompactionWrite, command);
    }

    pub(crate) fn on_read(&mut self, core: &mut Core, io: u32, result: Result<Payload, DiskError>) {
        let Some(current) = self.current.as_mut() else { return };
        if result.is_err() {
            core.logs_mut().note_stuck(current.from);
        }
        current.content.on_read(core, io, result, "compaction");
    }

    /// A window is durable, or could not be written: then another log takes copies, and this one rests.
    pub(crate) fn on_write(&mut self, core: &mut Core, result: &Result<Payload, DiskError>) {
        let Some(current) = self.current.as_mut() else { return };
        let Some(Writing { log_index, copies }) = current.writing.take() else { return };
        if result.is_ok() {
            current.has_copied = true;
            self.unnamed.extend(copies);
            if !self.unnamed.is_empty() {
                self.unnamed_since.get_or_insert(core.now());
            }
            return;
        }
        let now = core.now();
        core.logs_mut().rest(log_index, now);
        core.close_link_of(log_index);
        self.open.remove(&current.device.start);
        core.logs_mut().note_stuck(current.from);
        current.content.give_up();
    }
}

/// The log of a device that takes so many more blocks of copies: the one that took the last ones, or another of the device.
fn place(
    open: &mut BTreeMap<u32, u32>,
    held: &mut Vec<u32>,
    core: &mut Core,
    device: Range<u32>,
    blocks: u32,
) -> Option<u32> {
    let logs = core.logs_mut();
    let has_room = |log: &u32| logs.copies_end(*log) + blocks <= logs.blocks();
    if let Some(here) = open.get(&device.start).copied().filter(has_room) {
        return Some(here);
    }
    open.remove(&device.start);
    let first = device.start;
    let new = logs.begin_copies(device)?;
    held.push(new);
    open.insert(first, new);
    Some(new)
}

/// That of the copy: of a whole chunk what it was.
fn checksum(before: &Entry, data: &Payload) -> u32 {
    match (before.place, data) {
        (Place::Log { chunk_len, .. }, _) if chunk_len == before.len_sectors => before.crc,
        (_, Payload::Bytes(bytes)) => chunk_crc(before.home_sector, bytes),
        (_, Payload::Zeros(len)) => chunk_crc(before.home_sector, &vec![0; *len]),
        (_, Payload::Phantom(_)) => 0,
    }
}

/// The command that writes these chunks behind the copies of a log under a header, and what they are copies of; and the block behind them.
fn window(
    core: &Core,
    log_index: u32,
    chunks: Vec<(Entry, Payload)>,
) -> Option<(Command, Vec<Copied>, u32)> {
    let (logs, log_block) = (core.logs(), core.logs().block_bytes());
    let position = logs.copies_end(log_index);
    let offset = logs.block_offset(log_index, position)?;
    let header_bytes = header_bytes_for(chunks.len(), 0, log_block);
    let mut sector = (offset + header_bytes as u64) / SECTOR as u64;
    let (mut writes, mut copies) = (Vec::new(), Vec::new());
    let mut parts = Vec::with_capacity(chunks.len() + 2);
    for (before, data) in chunks {
        let (home_sector, len_sectors) = (before.home_sector, before.len_sectors);
        let crc = checksum(&before, &data);
        writes.push(WriteItem::Chunk { home_sector, len_sectors, crc });
        let place = Place::Log { chunk_sector: sector, chunk_len: len_sectors, offset: 0 };
        copies.push(Copied::new(before, Entry { home_sector, len_sectors, place, crc }));
        sector += u64::from(len_sectors);
        parts.push(data);
    }
    let padding = padding(nearhead_disk::total_len(&parts), log_block);
    if padding > 0 {
        parts.push(Payload::Zeros(padding));
    }
    let header = RecordHeader {
        flags: FLAG_BODY,
        volume_id: core.setup().volume_id,
        log_index,
        position,
        previous_position: NO_POSITION,
        writes,
        ..RecordHeader::default()
    };
    parts.insert(0, Payload::Bytes(encoded(&header, log_block)));
    let blocks = nearhead_disk::total_len(&parts) / log_block;
    let durable = core.flusher().is_needed();
    Some((Command::Write { offset, parts, durable }, copies, position + blocks as u32))
}
