//! Where a write goes: in place, to the persistent cache, or into a band that is rewritten.
//!
//! A write is cut into pieces that lie in one band, or in one run of a non-shingled surface. A
//! piece that overlaps an older one still under way is held until that one is on the medium, so
//! that content is always replaced in order of arrival. Held and waiting pieces are bounded by the
//! queue and, where writes are answered early, by the memory of the drive.

use super::{Kind, OutOfOrder, Purpose, SmrModel, total_sectors};
use crate::pending::Pending;
use nearhead_disk::{Class, Command, DiskError, DiskErrorKind, Payload, Ticket};
use std::collections::VecDeque;
use std::ops::Range;

/// Sectors of a zeroing that are begun at once.
const ZEROED_SECTORS_MAX: u64 = 1 << 19;

/// Appends that are with the drive at once: the next one is there before the disk has turned past.
const APPENDS_MAX: usize = 2;

/// How a piece gets to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Waits for an older one in the same place.
    Held,
    /// By commands of its own; so many are under way.
    Direct { left: usize },
    /// Waits for the next append.
    Append,
    /// In an append.
    Appending,
    /// Waits for its band to be rewritten.
    Rewrite,
    /// In the band being rewritten.
    Rewriting,
}

/// A part of a write that is not on the medium.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) host: Range<u64>,
    pub(super) parts: Vec<Payload>,
    pub(super) route: Route,
    /// The command that waits for it; none if that was, or will be, answered before.
    pub(super) command: Option<u64>,
    /// That of the write.
    pub(super) class: Class,
    /// Whether the host may take it for done before it is.
    pub(super) volatile: bool,
}

/// An append to the persistent cache. Appends end in the order in which they began.
#[derive(Debug)]
pub(super) struct Append {
    id: u64,
    pieces: Vec<u64>,
    /// Commands of the drive that it waits for.
    left: usize,
}

impl Pending for Piece {
    fn range(&self) -> &Range<u64> {
        &self.host
    }

    fn parts(&self) -> &[Payload] {
        &self.parts
    }

    fn is_volatile(&self) -> bool {
        self.volatile
    }
}

impl SmrModel {
    pub(super) fn submit_write(
        &mut self,
        ticket: Ticket,
        class: Class,
        (offset, parts): (u64, Vec<Payload>),
        durable: bool,
    ) {
        let start = offset / self.sector_bytes();
        let sectors = total_sectors(&parts, self.sector_bytes());
        let bytes = sectors * self.sector_bytes();
        let id = self.desk.book(ticket, 0, Kind::Write { bytes, class, rest: 0..0 });
        let fits = self.volatile_bytes + bytes <= self.profile.drive.cache.dirty_bytes_max;
        let early = self.properties.volatile_cache && !durable && fits;
        if early {
            self.volatile_bytes += bytes;
            self.finish_at(self.time + self.cached_overhead(), id);
        }
        self.add_pieces(start, parts, class, (!early).then_some(id));
    }

    pub(super) fn submit_zeroes(&mut self, ticket: Ticket, class: Class, range: Range<u64>) {
        let bytes = (range.end - range.start) * self.sector_bytes();
        let id = self.desk.book(ticket, 0, Kind::Write { bytes, class, rest: range });
        self.zero_on(id);
    }

    /// Begins the next part of a zeroing; whether there was one.
    pub(super) fn zero_on(&mut self, id: u64) -> bool {
        let kind = self.desk.get_mut(id).map(|command| &mut command.kind);
        let Some(Kind::Write { rest, class, .. }) = kind else { return false };
        let class = *class;
        let start = rest.start;
        if start == rest.end {
            return false;
        }
        let stop = start + ZEROED_SECTORS_MAX;
        // Up to the end of a band: one that is zeroed as a whole need not be read.
        let stop = self.layout.band_of(stop.min(rest.end - 1)).map_or(stop, |band| band.end);
        let sectors = stop.min(rest.end) - start;
        rest.start += sectors;
        let bytes = (sectors * self.sector_bytes()) as usize;
        self.add_pieces(start, vec![Payload::Zeros(bytes)], class, Some(id));
        true
    }

    fn add_pieces(&mut self, start: u64, parts: Vec<Payload>, class: Class, command: Option<u64>) {
        let sector = self.sector_bytes();
        let end = start + total_sectors(&parts, sector);
        let mut rest: VecDeque<Payload> = parts.into();
        let mut at = start;
        let mut count = 0;
        while at < end {
            let stop = self.piece_end(at, end);
            let parts = take_bytes(&mut rest, ((stop - at) * sector) as usize);
            let volatile = command.is_none();
            let (host, route) = (at..stop, Route::Held);
            let piece = Piece { host, parts, route, command, class, volatile };
            let id = self.desk.number();
            self.pieces.insert(id, piece);
            count += 1;
            at = stop;
        }
        if let Some(command) = command.and_then(|id| self.desk.get_mut(id)) {
            command.left += count;
        }
        self.release_held();
    }

    /// Where the piece that begins at `at` ends: with its band, or with what an append takes.
    fn piece_end(&self, at: u64, end: u64) -> u64 {
        let uniform = self.layout.uniform_end(at).min(end);
        let whole_band = self.layout.band_of(at).is_some_and(|band| band == (at..uniform));
        if whole_band || !self.is_drive_managed() {
            return uniform;
        }
        uniform.min(at + u64::from(self.profile.shingled.append_bytes_max) / self.sector_bytes())
    }

    /// Up to where a band was written.
    fn written(&self, band: &Range<u64>) -> u64 {
        let at_start = if self.profile.shingled.bands_in_use { band.end } else { band.start };
        self.written.get(&band.start).copied().unwrap_or(at_start)
    }

    pub(super) fn set_written(&mut self, band: &Range<u64>, end: u64) {
        self.written.insert(band.start, end);
    }

    pub(super) fn written_part(&self, band: &Range<u64>) -> Range<u64> {
        band.start..self.written(band)
    }

    /// Whether a band can take a piece at once: it lies behind all that was written, or is all of it.
    fn is_in_order(&self, piece: &Range<u64>) -> bool {
        match self.layout.band_of(piece.start) {
            None => true,
            Some(band) => piece.start >= self.written(&band) || *piece == band,
        }
    }

    /// Why a host-managed disk refuses a write.
    pub(super) fn out_of_order(&self, command: &Command) -> Option<DiskError> {
        if self.profile.shingled.out_of_order == OutOfOrder::Rewrite {
            return None;
        }
        let (offset, len) = match command {
            Command::Write { offset, parts, .. } => {
                (*offset, nearhead_disk::total_len(parts) as u64)
            }
            Command::WriteZeroes { offset, len, .. } => (*offset, *len),
            _ => return None,
        };
        let range = self.sectors(offset, len);
        let mut at = range.start;
        while at < range.end {
            let end = self.piece_end(at, range.end);
            if !self.is_in_order(&(at..end)) {
                let band = self.layout.band_of(at)?;
                let (sector, name) = (self.sector_bytes(), &self.properties.name);
                return Some(DiskError {
                    kind: DiskErrorKind::Io,
                    detail: format!(
                        "{name}: write at byte {}: expected one from byte {} on, where this band \
                         was written up to; trim the whole band, bytes {} to {}, to begin anew",
                        at * sector,
                        self.written(&band) * sector,
                        band.start * sector,
                        band.end * sector
                    ),
                });
            }
            at = end;
        }
        None
    }

    /// Sends off held pieces that no older piece stands in the way of.
    pub(super) fn release_held(&mut self) {
        let held = |(_, piece): &(&u64, &Piece)| piece.route == Route::Held;
        let held: Vec<u64> = self.pieces.iter().filter(held).map(|(id, _)| *id).collect();
        for id in held {
            let Some(host) = self.pieces.get(&id).map(|piece| piece.host.clone()) else { continue };
            let in_the_way = |(_, older): (&u64, &Piece)| {
                older.host.start < host.end && host.start < older.host.end
            };
            if !self.pieces.range(..id).any(in_the_way) {
                self.send_off(id, host);
            }
        }
    }

    fn send_off(&mut self, id: u64, host: Range<u64>) {
        let route = if self.is_in_order(&host) {
            if let Some(band) = self.layout.band_of(host.start) {
                let end = if host == band { band.end } else { host.end };
                self.set_written(&band, end.max(self.written(&band)).min(band.end));
            }
            self.cache.remove(host.clone(), u64::MAX);
            self.stats.direct_bytes += (host.end - host.start) * self.sector_bytes();
            let places: Vec<_> = self.layout.places(host).collect();
            let class = self.class_of([id]);
            let mut left = 0;
            for place in places {
                let range = place.drive..place.drive + place.sectors;
                left += self.write_parts(range, class, Purpose::Direct { piece: id });
            }
            Route::Direct { left }
        } else if self.is_drive_managed() {
            Route::Append
        } else {
            Route::Rewrite
        };
        if let Some(piece) = self.pieces.get_mut(&id) {
            piece.route = route;
        }
    }

    /// Begins appends while pieces wait for one and the log has room.
    pub(super) fn append(&mut self) {
        while self.appends.len() < APPENDS_MAX {
            let mut batch = self.next_batch();
            if batch.is_empty() {
                return;
            }
            let header = u64::from(self.profile.shingled.append_header_bytes) / self.sector_bytes();
            let physical = u64::from(self.properties.physical_sector_bytes) / self.sector_bytes();
            let content = |batch: &[(u64, Range<u64>)]| -> u64 {
                batch.iter().map(|(_, host)| host.end - host.start).sum()
            };
            let length = |batch: &[_]| (header + content(batch)).next_multiple_of(physical);
            let mut room = self.cache.reserve(length(&batch));
            if room.is_none() {
                batch.truncate(1);
                room = self.cache.reserve(length(&batch));
            }
            let Some(position) = room else {
                self.stats.stalls += u64::from(!self.starved);
                self.starved = true;
                return;
            };
            self.starved = false;
            let id = self.desk.number();
            if header > 0 {
                self.cache.note(header, None);
            }
            let (sectors, padding) = (length(&batch), length(&batch) - header - content(&batch));
            for (piece, host) in &batch {
                let position = self.cache.note(host.end - host.start, Some(host.start));
                self.cache.insert(host.clone(), position, id);
                if let Some(piece) = self.pieces.get_mut(piece) {
                    piece.route = Route::Appending;
                }
            }
            if padding > 0 {
                self.cache.note(padding, None);
            }
            let pieces: Vec<u64> = batch.into_iter().map(|(piece, _)| piece).collect();
            let class = self.class_of(pieces.iter().copied());
            self.stats.appends += 1;
            self.stats.append_bytes += sectors * self.sector_bytes();
            let start = self.layout.cache.start + position;
            let left = self.write_parts(start..start + sectors, class, Purpose::Append { id });
            self.appends.push_back(Append { id, pieces, left });
        }
    }

    /// The most urgent class of these pieces.
    fn class_of(&self, pieces: impl IntoIterator<Item = u64>) -> Class {
        let classes = pieces.into_iter().filter_map(|id| self.pieces.get(&id));
        classes.map(|piece| piece.class).min().unwrap_or(Class::Foreground)
    }

    fn next_batch(&self) -> Vec<(u64, Range<u64>)> {
        let most = u64::from(self.profile.shingled.append_bytes_max) / self.sector_bytes();
        let mut batch = Vec::new();
        let mut sectors = 0;
        for (id, piece) in self.pieces.iter().filter(|(_, piece)| piece.route == Route::Append) {
            sectors += piece.host.end - piece.host.start;
            if sectors > most && !batch.is_empty() {
                break;
            }
            batch.push((*id, piece.host.clone()));
        }
        batch
    }

    /// An append is on the medium; it counts once all before it are.
    pub(super) fn append_done(&mut self, id: u64) {
        if let Some(append) = self.appends.iter_mut().find(|append| append.id == id) {
            append.left -= 1;
        }
        while self.appends.front().is_some_and(|append| append.left == 0) {
            for piece in self.appends.pop_front().map(|append| append.pieces).unwrap_or_default() {
                self.piece_done(piece);
            }
        }
    }

    pub(super) fn direct_done(&mut self, id: u64) {
        let Some(Piece { route: Route::Direct { left }, .. }) = self.pieces.get_mut(&id) else {
            return;
        };
        *left -= 1;
        if *left == 0 {
            self.piece_done(id);
        }
    }

    /// A piece is on the medium: its bytes count, and who waits for it may be answered.
    pub(super) fn piece_done(&mut self, id: u64) {
        let Some(piece) = self.pieces.remove(&id) else { return };
        let mut result = Ok(());
        let mut at = piece.host.start * self.sector_bytes();
        for part in &piece.parts {
            result = result.and_then(|()| self.store.write_payload(at, part));
            at += part.len() as u64;
        }
        if piece.volatile {
            self.volatile_bytes -= (piece.host.end - piece.host.start) * self.sector_bytes();
            self.lost = result.err().or(self.lost.take());
        } else if let Some(id) = piece.command {
            self.part_of_command_done(id, result.err());
        }
        self.release_held();
        self.finish_flushes();
    }

    /// Answers flushes that wait for nothing any more.
    pub(super) fn finish_flushes(&mut self) {
        for id in self.flushes.take_ready(&self.pieces) {
            self.finish_at(self.time + self.cached_overhead(), id);
        }
    }

    /// What a trim allows: whole bands are empty again, and what the cache holds is forgotten.
    pub(super) fn trim(&mut self, range: Range<u64>) {
        self.cache.remove(range.clone(), u64::MAX);
        let mut at = range.start;
        while at < range.end {
            let end = self.layout.uniform_end(at);
            if let Some(band) =
                self.layout.band_of(at).filter(|band| band.start == at && band.end <= range.end)
            {
                self.set_written(&band, band.start);
                if self.zones.is_some() {
                    // What a host gives up is gone: it must not rely on finding it.
                    let (offset, len) = (band.start, band.end - band.start);
                    let sector = self.sector_bytes();
                    let _ = self.store.zero(offset * sector, len * sector);
                }
            }
            at = end;
        }
    }
}

/// Takes the first `wanted` bytes off `rest`.
fn take_bytes(rest: &mut VecDeque<Payload>, mut wanted: usize) -> Vec<Payload> {
    let mut taken = Vec::new();
    while wanted > 0 {
        let Some(part) = rest.pop_front() else { break };
        if part.len() > wanted {
            rest.push_front(part.slice(wanted..part.len()));
            taken.push(part.slice(0..wanted));
            break;
        }
        wanted -= part.len();
        taken.push(part);
    }
    taken
}
