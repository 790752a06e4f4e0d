//! Changes on their way to the cells: writes, zeroes and trims.
//!
//! A change begins when its bytes have come over the interface and no older change of the same
//! pages is left, so that content is always replaced in order of arrival. Writes in a protected cache
//! do not wait for each other: there a page that is written again is another entry of the memory, programmed where
//! its plane has room, and what keeps the order is that changes retire in it. (Else a log that writes
//! its last block again with each record would be answered at the pace of programming, as no such disk does.)
//! Zeroed and trimmed pages are not programmed: the map forgets them.

use super::tasks::{Owner, Task};
use super::{Event, FlashModel, Kind};
use crate::pending::Pending;
use nearhead_disk::{DiskError, Nanos, Payload, Ticket};
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangeKind {
    Write,
    Zero,
    Trim,
}

/// A change that is not in the cells.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not a state")]
#[derive(Debug)]
pub(super) struct Change {
    kind: ChangeKind,
    /// Sectors.
    pub(super) range: Range<u64>,
    /// Bytes of a write.
    pub(super) parts: Vec<Payload>,
    /// The command that waits for it; none if that was, or will be, answered before.
    command: Option<u64>,
    /// Whether the host may take it for done before it is.
    pub(super) volatile: bool,
    /// For a place in a protected cache, before anything is done with it.
    waits_for_room: bool,
    arrived: bool,
    begun: bool,
    /// Pages under way.
    left: usize,
    /// Everything is programmed; an older change of the same pages is not.
    done: bool,
}

impl Pending for Change {
    fn range(&self) -> &Range<u64> {
        &self.range
    }

    fn parts(&self) -> &[Payload] {
        &self.parts
    }

    fn is_volatile(&self) -> bool {
        self.volatile
    }
}

impl FlashModel {
    pub(super) fn submit_change(
        &mut self,
        ticket: Ticket,
        kind: ChangeKind,
        range: Range<u64>,
        parts: Vec<Payload>,
        durable: bool,
    ) {
        let bytes = (range.end - range.start) * self.sector_bytes();
        let command = match kind {
            ChangeKind::Write | ChangeKind::Zero => Kind::Write { bytes },
            ChangeKind::Trim => Kind::Trim,
        };
        let command = self.desk.book(ticket, 1, command);
        let sent = if kind == ChangeKind::Write { bytes } else { 0 };
        let arrives_at = self.use_link(sent);
        let fits = self.volatile_bytes + bytes <= self.profile.flash.dirty_bytes_max;
        let volatile =
            kind == ChangeKind::Write && self.properties.volatile_cache && !durable && fits;
        if volatile {
            self.volatile_bytes += bytes;
            self.at(arrives_at + Nanos(self.times.cached), Event::Finish(command));
        }
        let waits_for_room = kind == ChangeKind::Write && self.protected_cache;
        let command = (!volatile).then_some(command);
        let change = Change {
            kind,
            range,
            parts,
            command,
            volatile,
            waits_for_room,
            arrived: false,
            begun: false,
            left: 0,
            done: false,
        };
        let id = self.desk.number();
        self.changes.insert(id, change);
        if waits_for_room {
            self.waiting_for_room.push_back(id);
        }
        self.at(arrives_at, Event::Arrived(id));
    }

    /// Takes writes into a protected cache, in order of arrival, and answers them: those for which
    /// there is room. One that is larger than all of it goes in when it is empty.
    fn fill_cache(&mut self) {
        while let Some(id) = self.waiting_for_room.front().copied() {
            let sector = self.sector_bytes();
            let Some(change) = self.changes.get_mut(&id) else {
                self.waiting_for_room.pop_front();
                continue;
            };
            let bytes = (change.range.end - change.range.start) * sector;
            let fits = self.volatile_bytes + bytes <= self.profile.flash.dirty_bytes_max
                || self.volatile_bytes == 0;
            if !change.arrived || !fits {
                return;
            }
            (change.waits_for_room, change.volatile) = (false, true);
            let command = change.command.take();
            self.volatile_bytes += bytes;
            self.waiting_for_room.pop_front();
            if let Some(command) = command {
                self.at(self.time + Nanos(self.times.cached), Event::Finish(command));
            }
        }
    }

    pub(super) fn submit_flush(&mut self, ticket: Ticket) {
        let id = self.desk.book(ticket, 0, Kind::Flush);
        // What a protected cache holds is durable already.
        if self.protected_cache || !self.flushes.begin(id, &self.changes) {
            self.at(self.time + Nanos(self.times.cached), Event::Finish(id));
        }
    }

    pub(super) fn arrived(&mut self, id: u64) {
        if let Some(change) = self.changes.get_mut(&id) {
            change.arrived = true;
        }
        self.fill_cache();
        self.begin_changes();
    }

    /// Begins every change that no older one stands in the way of.
    fn begin_changes(&mut self) {
        let ready = |(_, change): &(&u64, &Change)| {
            change.arrived && !change.begun && !change.waits_for_room
        };
        let ready: Vec<u64> = self.changes.iter().filter(ready).map(|(id, _)| *id).collect();
        for id in ready {
            // Another one that ended at once may have begun this one already.
            let Some(change) = self.changes.get(&id).filter(|change| !change.begun) else {
                continue;
            };
            let side_by_side = |older: &Change| {
                self.protected_cache && [older.kind, change.kind] == [ChangeKind::Write; 2]
            };
            if !self.has_older(id, change, |older| !side_by_side(older)) {
                let pages = self.pages_of(&change.range);
                self.begin_change(id, pages);
            }
        }
    }

    /// Whether an older change of the same pages is left, of those that `counts`.
    fn has_older(&self, id: u64, change: &Change, counts: impl Fn(&Change) -> bool) -> bool {
        let pages = self.pages_of(&change.range);
        self.changes.range(..id).any(|(_, older)| {
            let others = self.pages_of(&older.range);
            others.start < pages.end && pages.start < others.end && counts(older)
        })
    }

    fn begin_change(&mut self, id: u64, pages: Range<u64>) {
        let per_page = self.page_sectors();
        let Some(change) = self.changes.get_mut(&id) else { return };
        change.begun = true;
        let (kind, range) = (change.kind, change.range.clone());
        let whole = range.start.div_ceil(per_page)..range.end / per_page;
        let is_whole = |page: u64| whole.contains(&page);
        let programmed: Vec<u64> = match kind {
            ChangeKind::Write => pages.collect(),
            // What lies in part of a page must be read and programmed with zeros.
            ChangeKind::Zero => {
                let ends = [pages.start, pages.end - 1];
                let count = if ends[0] == ends[1] { 1 } else { 2 };
                ends[..count].iter().copied().filter(|page| !is_whole(*page)).collect()
            }
            ChangeKind::Trim => Vec::new(),
        };
        change.left = programmed.len() + 1;
        if kind != ChangeKind::Write && !whole.is_empty() {
            self.forget_pages(whole.clone());
        }
        for page in programmed {
            let partial = !is_whole(page);
            self.begin_task(Task { owner: Owner::Change { change: id }, page, partial });
        }
        self.part_of_change_done(id);
    }

    pub(super) fn part_of_change_done(&mut self, id: u64) {
        let Some(change) = self.changes.get_mut(&id) else { return };
        change.left -= 1;
        change.done = change.left == 0;
        if !change.done {
            return;
        }
        // It may have been what newer ones waited for.
        let done = self.changes.range(id..).filter(|(_, change)| change.done);
        for id in done.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.retire(id);
        }
        self.fill_cache();
        self.begin_changes();
        self.finish_flushes();
    }

    /// Takes a change that is done out of the disk's memory, unless older bytes would be put over it later.
    fn retire(&mut self, id: u64) {
        let Some(change) = self.changes.get(&id) else { return };
        if self.has_older(id, change, |_| true) {
            return;
        }
        let Some(change) = self.changes.remove(&id) else { return };
        let error = self.put(&change).err();
        if change.volatile {
            self.volatile_bytes -= (change.range.end - change.range.start) * self.sector_bytes();
            self.lost = error.or(self.lost.take());
        } else if let Some(command) = change.command {
            self.part_of_command_done(command, error);
        }
    }

    /// The bytes of a change are in the cells.
    fn put(&mut self, change: &Change) -> Result<(), DiskError> {
        let mut at = change.range.start * self.sector_bytes();
        if change.kind != ChangeKind::Write {
            let len = (change.range.end - change.range.start) * self.sector_bytes();
            return self.store.zero(at, len);
        }
        for part in &change.parts {
            self.store.write_payload(at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn finish_flushes(&mut self) {
        for id in self.flushes.take_ready(&self.changes) {
            self.at(self.time + Nanos(self.times.cached), Event::Finish(id));
        }
    }

    /// Brings what a protected cache holds to the cells, in order of arrival, as its capacitors do.
    pub(super) fn save_protected(&mut self) -> Result<(), DiskError> {
        if !self.protected_cache {
            return Ok(());
        }
        let held: Vec<u64> =
            self.changes.iter().filter(|(_, it)| it.volatile).map(|(id, _)| *id).collect();
        let held: Vec<Change> = held.iter().filter_map(|id| self.changes.remove(id)).collect();
        held.iter().try_for_each(|change| self.put(change))
    }

    /// What a power cut may leave of the changes under way, in order of arrival.
    pub(super) fn take_unsafe(&mut self) -> Vec<(u64, Vec<Payload>)> {
        let sector = self.sector_bytes();
        let bytes = |change: &Change| ((change.range.end - change.range.start) * sector) as usize;
        let changes = std::mem::take(&mut self.changes).into_values();
        let unsafe_parts = changes.map(|change| {
            let zeros = || vec![Payload::Zeros(bytes(&change))];
            let writes = change.kind == ChangeKind::Write;
            (change.range.start, if writes { change.parts } else { zeros() })
        });
        unsafe_parts.collect()
    }
}
