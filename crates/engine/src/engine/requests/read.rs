//! Reads: the newest copy of every sector, wherever it is.
//!
//! Newest first: staged blocks, blocks of the record in flight, the map, home. Logged chunks are
//! verified by their checksum before a byte of them is returned (law 5), also where they are still in memory and no log is read. After a mismatch the read begins
//! anew. If the map points elsewhere by then, the log space was given up and used again between the look-up
//! and the read, as often as that may happen: nothing is wrong. If it still points there, and a few looks
//! find the same, the copy is damaged, and the read fails with EIO and names the place.
//!
//! Bytes that records brought by themselves lie over what the map says (`patches.rs`).
//!
//! Where the map is paged a read may need pages of it first: it waits for them and is planned anew (`pages.rs`).
//!
//! On a chain a copy may be in the read cache (`cached.rs`). What is wrong with one there is nobody's error: the read begins anew
//! without the cache.

mod cached;
mod pages;
mod patches;

use super::{Active, Body};
use crate::disk::dispatch::Purpose;
use crate::engine::Engine;
use crate::stage::StagedBlock;
use crate::state::chunks::{LoggedCopy, Unsound};
use crate::state::map::Segment;
use crate::state::paged::{Missing, Page};
use crate::state::sectors::{BLOCK_SECTORS, SECTOR};
use cached::CacheHits;
use nearhead_disk::{Class, Command, DiskError, Lane, Payload};
use nearhead_format::{Entry, Place};
use nearhead_service::{ErrorKind, RequestError, RequestId};
use pages::Pages;
use patches::Patches;
use std::ptr;

/// Home runs closer than this are read in one go; the logged sectors between are replaced.
const GAP_BYTES_MAX: u64 = 64 << 10;
/// Looks at a copy that the map still points to before a mismatch counts as damage.
const ATTEMPTS_MAX: u8 = 3;

#[derive(Debug)]
struct Transfer {
    device_offset: u64,
    len: u32,
    copies: Vec<LoggedCopy>,
    /// The byte of the read cache's device where its one copy is read instead, as a whole slot.
    cached_at: Option<u64>,
    data: Option<Payload>,
}

#[derive(Debug)]
enum Source {
    Ready(Payload),
    Transfer { io: u32, start: u32 },
}

/// Progress of one read.
#[derive(Debug)]
pub(super) struct ReadState {
    offset: u64,
    len: u32,
    parts: Vec<(Source, u32)>,
    transfers: Vec<Transfer>,
    remaining: u32,
    error: Option<RequestError>,
    /// Mismatches of copies that the map still pointed to.
    attempts: u8,
    /// It may wait for others. Not if it began anew: it is to end before the log goes round once more.
    is_bulk: bool,
    /// It asks the read cache; not if it began anew.
    asks_cache: bool,
    /// What it found there.
    hits: CacheHits,
    /// Pages of the map that it has, or waits for.
    pages: Pages,
    /// Bytes over what it reads.
    patches: Patches,
}

/// How a read begins.
#[derive(Clone, Debug)]
struct Begun {
    attempts: u8,
    is_bulk: bool,
    asks_cache: bool,
    /// Pages of the map that it has already.
    pages: Vec<Page>,
}

/// Puts a plan together from segments in order.
struct Planner<'a> {
    engine: &'a Engine,
    state: ReadState,
    /// Last home transfer and the client byte after it.
    home: Option<(u32, u64)>,
    /// Pages of the map without which this is no plan.
    missing: Missing,
}

impl Planner<'_> {
    fn ready(&mut self, payload: Payload) {
        let len = payload.len() as u32;
        self.state.parts.push((Source::Ready(payload), len));
    }

    fn home(&mut self, sector: u64, sectors: u64) {
        let (mut offset, mut len) = (sector * SECTOR as u64, sectors * SECTOR as u64);
        if !self.engine.core.setup().has_homes() {
            return self.ready(Payload::Zeros(len as usize));
        }
        let piece_max = u64::from(self.engine.core.piece_bytes());
        while len > 0 {
            let Some(home) = self.engine.core.setup().layout.home(offset) else {
                self.state.error = Some(RequestError::new(ErrorKind::Invalid, "read past the end"));
                return;
            };
            let take = len.min(home.len);
            let taken = self.append_home(offset, home.device_offset, take, piece_max);
            offset += taken;
            len -= taken;
        }
    }

    /// Extends the last home transfer over a small gap, or starts a new one; says how far it got.
    fn append_home(&mut self, client: u64, device: u64, len: u64, piece_max: u64) -> u64 {
        if let Some((io, end)) = self.home {
            let transfer = &mut self.state.transfers[io as usize];
            let gap = client - end;
            let expected = transfer.device_offset + u64::from(transfer.len) + gap;
            let room = piece_max.saturating_sub(u64::from(transfer.len) + gap);
            if gap <= GAP_BYTES_MAX && device == expected && room > 0 {
                let take = len.min(room);
                let start = transfer.len + gap as u32;
                transfer.len = start + take as u32;
                self.home = Some((io, client + take));
                self.state.parts.push((Source::Transfer { io, start }, take as u32));
                return take;
            }
        }
        let take = len.min(piece_max);
        let io = self.state.transfers.len() as u32;
        self.state.transfers.push(Transfer {
            device_offset: device,
            len: take as u32,
            copies: Vec::new(),
            cached_at: None,
            data: None,
        });
        self.home = Some((io, client + take));
        self.state.parts.push((Source::Transfer { io, start: 0 }, take as u32));
        take
    }

    fn logged(&mut self, entry: &Entry, copy: LoggedCopy, offset: u8) {
        if let Some(kept) = self.in_memory(&copy) {
            let from = usize::from(offset) * SECTOR;
            return self.ready(kept.slice(from..from + usize::from(entry.len_sectors) * SECTOR));
        }
        if self.state.asks_cache && self.cached(entry, copy, offset) {
            return;
        }
        // Neighbouring chunks of one write stand next to each other in the log: one transfer.
        let last = self.state.transfers.len().checked_sub(1);
        let joined = last.filter(|last| {
            let transfer = &self.state.transfers[*last];
            !transfer.copies.is_empty()
                && transfer.cached_at.is_none()
                && transfer.device_offset + u64::from(transfer.len) == copy.device_offset
                && transfer.len + copy.bytes <= self.engine.core.piece_bytes()
        });
        let io = joined.unwrap_or_else(|| {
            self.state.transfers.push(Transfer {
                device_offset: copy.device_offset,
                len: 0,
                copies: Vec::new(),
                cached_at: None,
                data: None,
            });
            self.state.transfers.len() - 1
        });
        let transfer = &mut self.state.transfers[io];
        let from = transfer.len + u32::from(offset) * SECTOR as u32;
        transfer.len += copy.bytes;
        transfer.copies.push(copy);
        let len = u32::from(entry.len_sectors) * SECTOR as u32;
        self.state.parts.push((Source::Transfer { io: io as u32, start: from }, len));
    }

    /// The copy as it still is in memory, verified like one from a log: so that no arm need go there.
    fn in_memory(&self, copy: &LoggedCopy) -> Option<Payload> {
        let kept = self.engine.core.remembered().get(copy)?;
        copy.take(kept, copy.device_offset).ok()
    }

    fn mapped_or_home(&mut self, start: u64, sectors: u64) {
        let (engine, held) = (self.engine, std::mem::take(&mut self.state.pages.held));
        let layers = engine.core.layers();
        let missing = layers.lookup(start, sectors, &held, &mut |segment| match segment {
            Segment::Home { start_sector, len_sectors } => self.home(start_sector, len_sectors),
            Segment::Mapped(entry) => self.mapped(&entry),
        });
        self.state.pages.held = held;
        self.missing.extend(missing);
    }

    fn mapped(&mut self, entry: &Entry) {
        self.state.patches.note(self.engine.core.recorded().fragments(), entry);
        match entry.place {
            Place::Home => self.home(entry.home_sector, u64::from(entry.len_sectors)),
            Place::Zero => self.ready(Payload::Zeros(usize::from(entry.len_sectors) * SECTOR)),
            Place::Log { offset, .. } => {
                if let Some(copy) = LoggedCopy::of(entry) {
                    self.logged(entry, copy, offset);
                }
            }
            Place::Poisoned => {
                self.state.error.get_or_insert_with(|| poisoned(entry.home_sector));
            }
        }
    }

    fn run(&mut self, start: u64, sectors: u64) {
        let engine = self.engine;
        if engine.stage.is_empty() && engine.stage.taken().is_empty() {
            return self.mapped_or_home(start, sectors);
        }
        let (end, mut from, mut at) = (start + sectors, start, start);
        while at < end {
            let block = at / BLOCK_SECTORS;
            let stop = end.min((block + 1) * BLOCK_SECTORS);
            if engine.stage.get(block).is_some() || engine.stage.taken().get(block).is_some() {
                if from < at {
                    self.mapped_or_home(from, at - from);
                }
                self.block(block, at, stop);
                from = stop;
            }
            at = stop;
        }
        if from < end {
            self.mapped_or_home(from, end - from);
        }
    }

    /// One block of which something is in memory: for every sector the newest copy.
    fn block(&mut self, block: u64, start: u64, end: u64) {
        let engine = self.engine;
        let layers = [engine.stage.get(block), engine.stage.taken().get(block)];
        let newest = |sector: u8| {
            let staged = layers.into_iter().flatten();
            staged.flat_map(StagedBlock::pieces).find(|piece| piece.holds(sector))
        };
        let mut at = (start % BLOCK_SECTORS) as u8;
        let stop = at + (end - start) as u8;
        while at < stop {
            let piece = newest(at);
            let mut run_end = at + 1;
            while run_end < stop && newest(run_end).map(ptr::from_ref) == piece.map(ptr::from_ref) {
                run_end += 1;
            }
            match piece.and_then(|piece| piece.cut(at, run_end)) {
                Some(own) => self.ready(own.data().clone()),
                None => self
                    .mapped_or_home(block * BLOCK_SECTORS + u64::from(at), u64::from(run_end - at)),
            }
            at = run_end;
        }
    }
}

fn poisoned(sector: u64) -> RequestError {
    RequestError::new(
        ErrorKind::Io,
        format!(
            "read at sector {sector}: its newest copy was lost to damage and an older one must not \
             be served; write the sector again, or see `nearhead check`"
        ),
    )
}

impl Engine {
    pub(super) fn start_read(&mut self, id: RequestId, offset: u64, len: u32) {
        let is_bulk = self.requests.streams.is_bulk(offset, u64::from(len));
        let asks_cache = self.read_cache.is_on();
        let begun = Begun { attempts: 0, is_bulk, asks_cache, pages: Vec::new() };
        let state = self.plan_read(offset, len, begun);
        let slot = self.requests.active.insert(Active { id, body: Body::Read(state) });
        self.launch_read(slot);
    }

    fn plan_read(&self, offset: u64, len: u32, begun: Begun) -> ReadState {
        let Begun { attempts, is_bulk, asks_cache, pages } = begun;
        let state = ReadState {
            offset,
            len,
            parts: Vec::new(),
            transfers: Vec::new(),
            remaining: 0,
            error: None,
            attempts,
            is_bulk,
            asks_cache,
            hits: CacheHits::default(),
            pages: Pages::with(pages),
            patches: Patches::default(),
        };
        let mut planner = Planner { engine: self, state, home: None, missing: Missing::new() };
        planner.run(offset / SECTOR as u64, u64::from(len) / SECTOR as u64);
        let Planner { mut state, missing, .. } = planner;
        if !missing.is_empty() {
            state.waits_for(missing);
        }
        state
    }

    fn launch_read(&mut self, slot: u32) {
        let Some(Active { body: Body::Read(state), .. }) = self.requests.active.get_mut(slot)
        else {
            return;
        };
        if state.pages.are_missing() {
            return self.fetch_pages(slot);
        }
        if state.error.is_some() || state.transfers.is_empty() {
            return self.finish_read(slot);
        }
        state.remaining = state.transfers.len() as u32;
        let class = if state.is_bulk { Class::Bulk } else { Class::Foreground };
        let commands: Vec<(Lane, Command)> =
            state.transfers.iter().map(Transfer::command).collect();
        for (io, (lane, command)) in commands.into_iter().enumerate() {
            self.core.issue_on(lane, class, Purpose::Read { slot, io: io as u32 }, command);
        }
    }

    pub(crate) fn on_read(&mut self, slot: u32, io: u32, result: Result<Payload, DiskError>) {
        let Some(Active { body: Body::Read(state), .. }) = self.requests.active.get_mut(slot)
        else {
            return;
        };
        state.remaining -= 1;
        let transfer = &mut state.transfers[io as usize];
        match result {
            // Looked at again from the disk.
            Err(_) if transfer.cached_at.is_some() => {}
            Ok(payload) if payload.len() == transfer.len as usize => transfer.data = Some(payload),
            Ok(payload) => {
                let detail = format!(
                    "the disk returned {} bytes at {}, expected {}",
                    payload.len(),
                    transfer.device_offset,
                    transfer.len
                );
                state.error.get_or_insert(RequestError::new(ErrorKind::Io, detail));
            }
            Err(error) => {
                state.error.get_or_insert(RequestError::new(ErrorKind::Io, error.detail));
            }
        }
        if state.remaining == 0 {
            self.finish_read(slot);
        }
    }

    fn finish_read(&mut self, slot: u32) {
        let Some(Active { body: Body::Read(state), .. }) = self.requests.active.get_mut(slot)
        else {
            return;
        };
        if let Some(error) = state.error.take() {
            self.core.stats_mut().unreadable += 1;
            return self.finish_slot(slot, Err(error));
        }
        if state.cached_unsound().next().is_some() {
            return self.read_without_cache(slot);
        }
        let unsound = state.transfers.iter().find_map(Transfer::unsound);
        if let Some((copy, problem)) = unsound {
            let (offset, len) = (state.offset, state.len);
            // What nobody can say any more is looked up anew.
            let is_in = self.core.layers().has_copy(&copy, &state.pages.held);
            let attempts = state.attempts + u8::from(is_in != Some(false));
            self.core.stats_mut().checksum_retries += 1;
            if attempts >= ATTEMPTS_MAX {
                self.core.stats_mut().unreadable += 1;
                let told = copy.told(problem);
                let detail = format!("{told}; the copy is damaged, see `nearhead check`");
                return self.finish_slot(slot, Err(RequestError::new(ErrorKind::Io, detail)));
            }
            let pages = state.pages.take();
            let begun = Begun { attempts, is_bulk: false, asks_cache: false, pages };
            return self.read_again(slot, (offset, len), begun);
        }
        if !state.patches.hold(self.core.recorded().fragments()) {
            let (offset, len) = (state.offset, state.len);
            let (attempts, pages) = (state.attempts, state.pages.take());
            let begun = Begun { attempts, is_bulk: false, asks_cache: false, pages };
            return self.read_again(slot, (offset, len), begun);
        }
        self.core.stats_mut().read_bytes += u64::from(state.len);
        let parts = state.collect();
        self.note_cached(slot);
        self.finish_slot(slot, Ok(parts));
    }

    fn read_again(&mut self, slot: u32, (offset, len): (u64, u32), begun: Begun) {
        let again = self.plan_read(offset, len, begun);
        if let Some(active) = self.requests.active.get_mut(slot) {
            active.body = Body::Read(again);
        }
        self.launch_read(slot);
    }
}

impl ReadState {
    fn collect(&mut self) -> Vec<Payload> {
        let transfers = &self.transfers;
        let parts = self
            .parts
            .drain(..)
            .map(|(source, len)| match source {
                Source::Ready(payload) => payload,
                Source::Transfer { io, start } => {
                    let data = transfers[io as usize].data.as_ref().unwrap_or(&Payload::EMPTY);
                    if start == 0 && data.len() == len as usize {
                        data.clone()
                    } else {
                        data.slice(start as usize..(start + len) as usize)
                    }
                }
            })
            .collect();
        self.patches.over(parts, self.offset)
    }
}

impl Transfer {
    /// What it asks, and of whom.
    fn command(&self) -> (Lane, Command) {
        let (lane, offset) = match self.cached_at {
            Some(offset) => (Lane::CACHE, offset),
            None => (Lane::MAIN, self.device_offset),
        };
        (lane, Command::Read { offset, len: self.len })
    }

    /// The first logged copy of those it read that is not sound.
    fn unsound(&self) -> Option<(LoggedCopy, Unsound)> {
        let data = self.data.as_ref().unwrap_or(&Payload::EMPTY);
        let problem = |copy: &LoggedCopy| copy.take(data, self.device_offset).err();
        self.copies.iter().find_map(|copy| Some((*copy, problem(copy)?)))
    }
}
