//! Logs on all devices of a chain: which are free, which are held, and which comes next.
//!
//! A log is *free* while nothing of it is needed, by the map or by a recovery: then it may be begun anew at its start. It is *held* while
//! copies are written to it that no record names yet, and *stuck* if not all that is needed of it could be copied elsewhere.

use super::{Logs, Ring};
use nearhead_format::Layout;
use std::ops::Range;

/// Free logs of each device that clients' records do not begin, at least: two for what cleaning copies, as the content of one log may go to
/// two, and one for records without data. A device has more logs to spare (`nearhead_format`'s layout of a chain).
const KEPT_LOGS_MIN: u32 = 3;
/// Of so many logs of a device one is kept. What cleaning copies between two snapshots finds room in those, and a snapshot of terabytes takes
/// minutes: with three logs it would be cleaned at the pace of snapshots.
const LOGS_OF_ONE_KEPT: u32 = 32;
/// With one more than cleaning needs at least a device is short of logs.
const FREE_SHORT: u32 = KEPT_LOGS_MIN + 1;

/// How many free logs each device is to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spared {
    /// As many as clients' records must leave: [`Logs::kept_in`].
    Kept,
    /// So many.
    Logs(u32),
}

impl Spared {
    fn of(self, device: &Range<u32>) -> u32 {
        match self {
            Self::Kept => Logs::kept_in(device),
            Self::Logs(count) => count,
        }
    }

    /// What records without data leave, most first: they make room, and take of what is kept if they must.
    pub(crate) fn most_first() -> impl Iterator<Item = Self> {
        std::iter::once(Self::Kept).chain((0..KEPT_LOGS_MIN).rev().map(Self::Logs))
    }
}

/// Where a device has its logs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The first of them.
    pub(super) first: u32,
    /// The address where it begins.
    pub(super) start: u64,
    /// How many of them may be begun anew, kept as that changes: it is asked for each request.
    pub(super) free: u32,
}

/// Those of all devices that have logs; none if there is one alone.
pub(super) fn runs(layout: &Layout) -> Vec<Run> {
    if !layout.logs_are_on_several() {
        return Vec::new();
    }
    let devices = layout.logs_by_device().filter(|logs| !logs.is_empty());
    let run = |logs: Range<u32>| {
        let free = logs.end - logs.start;
        Some(Run { first: logs.start, start: layout.log_offset(logs.start)?, free })
    };
    devices.filter_map(run).collect()
}

/// What a log of a chain is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It may be begun anew.
    Free,
    /// Nothing of it is needed, and a snapshot makes it free.
    Spent,
    /// Something of it is needed, or it is claimed.
    Used,
}

/// Which logs will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Any that is free.
    Free,
    /// One that a recovery is certain to read, so that a record may go there.
    Claimed,
}

/// Whether nothing of a log is needed any more, and only a snapshot makes it free.
fn is_spent(ring: &Ring) -> bool {
    ring.is_unused() && !ring.is_new() && !ring.claimed
}

impl Logs {
    /// Whether what is not in a log is nowhere.
    pub(crate) fn has_no_homes(&self) -> bool {
        self.layout.is_chain()
    }

    /// The logs of each device that has any, by their numbers.
    pub fn by_device(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.layout.logs_by_device()
    }

    /// Something stands in the log at this device sector that no record brought there.
    pub(crate) fn close(&mut self, chunk_sector: u64) {
        let index = self.log_of(chunk_sector);
        // One that is held goes on behind its copies, and is begun anew once it is let go.
        if let Some(ring) = self.get_or_create(index).filter(|ring| !ring.is_held) {
            ring.begin_anew();
            self.measure(index);
        }
    }

    /// The log keeps what it holds, and takes no record, until it is let go: something is written there that no record names yet.
    pub(crate) fn hold(&mut self, index: u32, is_held: bool) {
        if let Some(ring) = self.get_or_create(index) {
            ring.is_held = is_held;
            ring.begin_anew();
            self.measure(index);
            if is_held {
                self.held.insert(index);
            } else {
                self.held.remove(&index);
            }
        }
    }

    /// Not all that is needed of the log could be copied elsewhere: it is let alone until the next snapshot.
    pub(crate) fn note_stuck(&mut self, index: u32) {
        if let Some(ring) = self.get_or_create(index) {
            ring.is_stuck = true;
        }
    }

    /// Whether that is so.
    pub fn is_stuck(&self, index: u32) -> bool {
        self.is_lost(index) || self.get(index).is_some_and(|ring| ring.is_stuck)
    }

    /// Ends the rest of a log that took no record and of which nothing is needed, for whoever finds no room without: of several that whose
    /// rest would end first. Says whether there is one; a snapshot makes it free.
    pub(crate) fn try_one_that_rests(&mut self) -> bool {
        let would_be_spent = |index: &u32| {
            let ring = self.get(*index).filter(|_| !self.is_lost(*index));
            ring.is_some_and(|ring| ring.rests_empty() && !ring.claimed)
        };
        let resting = self.resting.iter().filter(|(log, _)| would_be_spent(log));
        let first = resting.min_by_key(|(_, until)| *until).map(|(log, _)| *log);
        let with_bad_places = || self.with_bad_places.iter().copied().find(would_be_spent);
        let Some(index) = first.or_else(with_bad_places) else { return false };
        self.forget_bad_places(index);
        self.end_rest(index);
        true
    }

    /// Whether it is held.
    pub fn is_held(&self, index: u32) -> bool {
        self.get(index).is_some_and(|ring| ring.is_held)
    }

    /// Sectors of a log that are still needed.
    pub fn live_sectors_of(&self, index: u32) -> u32 {
        self.get(index).map_or(0, Ring::live_sectors)
    }

    /// Whether a log may be begun anew.
    pub fn is_free(&self, index: u32) -> bool {
        !self.is_lost(index) && self.get(index).is_none_or(Ring::is_new)
    }

    /// So many free logs of a device clients' records do not begin.
    pub(crate) fn kept_in(device: &Range<u32>) -> u32 {
        KEPT_LOGS_MIN.max((device.end - device.start) / LOGS_OF_ONE_KEPT)
    }

    /// Bytes in free logs of all devices that clients' records may begin, and of all logs.
    pub(crate) fn room_of_chain(&self) -> (u64, u64) {
        let logs: u32 = self.by_device().map(|device| self.left_in(&device)).sum();
        let log_bytes = u64::from(self.blocks()) * self.block_bytes() as u64;
        (u64::from(logs) * log_bytes, u64::from(self.count()) * log_bytes)
    }

    /// How many logs of a device clients' records may begin.
    fn left_in(&self, device: &Range<u32>) -> u32 {
        self.free_in(device).saturating_sub(Self::kept_in(device))
    }

    /// How many logs of a device may.
    pub fn free_in(&self, device: &Range<u32>) -> u32 {
        let run = self.runs.iter().find(|run| run.first == device.start);
        run.map_or(0, |run| run.free)
    }

    /// The same of all devices.
    fn free_in_all(&self) -> u32 {
        self.runs.iter().map(|run| run.free).sum()
    }

    fn use_of(&self, index: u32) -> Use {
        match self.get(index) {
            _ if self.is_free(index) => Use::Free,
            Some(ring) if is_spent(ring) => Use::Spent,
            _ => Use::Used,
        }
    }

    /// Whether nothing of a log is needed, and a snapshot makes it free.
    pub(crate) fn is_spent(&self, index: u32) -> bool {
        self.use_of(index) == Use::Spent
    }

    /// Takes note of what a log is good for now: it is asked for each request, and there may be hundreds of thousands.
    pub(super) fn note_use(&mut self, index: u32) {
        let now = self.use_of(index);
        let Some(known) = self.uses.get_mut(index as usize) else { return };
        let before = std::mem::replace(known, now);
        if before == now {
            return;
        }
        self.spent = self.spent + u32::from(now == Use::Spent) - u32::from(before == Use::Spent);
        if let Some(run) = self.runs.iter_mut().rev().find(|run| run.first <= index) {
            run.free = run.free + u32::from(now == Use::Free) - u32::from(before == Use::Free);
        }
    }

    /// Compares what is kept of the uses of logs with what they say.
    pub(super) fn check_uses(&self) -> Result<(), String> {
        if !self.has_no_homes() {
            return Ok(());
        }
        for device in self.by_device().filter(|device| !device.is_empty()) {
            let free = device.clone().filter(|index| self.is_free(*index)).count() as u32;
            let kept = self.free_in(&device);
            if free != kept {
                return Err(format!("logs {device:?}: expected {free} free, counted {kept}"));
            }
        }
        let all = || 0..self.count();
        let spent = all().filter(|index| self.use_of(*index) == Use::Spent).count() as u32;
        let held: Vec<u32> = all().filter(|index| self.is_held(*index)).collect();
        if (spent, &held) != (self.spent, &self.held.iter().copied().collect()) {
            return Err(format!(
                "expected {spent} logs that a snapshot makes free and {held:?} that take copies, counted {} and {:?}",
                self.spent, self.held
            ));
        }
        Ok(())
    }

    /// The first of these that copies may go to: no record is to go there.
    fn first_for_copies(&self, mut range: Range<u32>) -> Option<u32> {
        range.find(|index| self.is_for_copies(*index))
    }

    /// Blocks that copies find on a device: behind those that a log takes already, and in free logs that no record is to go to. The last free
    /// log of all is for the records that name them.
    pub(crate) fn blocks_for_copies(&self, device: Range<u32>) -> u64 {
        let capacity = self.blocks();
        let held = self.held.range(device.clone()).filter_map(|index| self.get(*index));
        let open = held.map(|ring| capacity - ring.position).max();
        // Of the free ones those to which a record is to go; where no log needs a claim the set of those that have one is empty.
        let claimed = self.claimed.range(device.clone());
        let promised = self.promised.range(device.clone());
        let promised = promised.filter(|index| !self.claimed.contains(index));
        let for_records = claimed.chain(promised).filter(|index| self.is_free(**index)).count();
        let free = self.free_in(&device).saturating_sub(for_records as u32);
        let free = free.min(self.free_in_all().saturating_sub(1));
        u64::from(open.unwrap_or(0)) + u64::from(free) * u64::from(capacity)
    }

    /// Blocks that what is moved to the tail finds in free logs, but for the last one.
    pub(crate) fn blocks_for_moves(&self) -> u64 {
        u64::from(self.free_in_all().saturating_sub(1)) * u64::from(self.blocks())
    }

    fn is_for_copies(&self, index: u32) -> bool {
        // Where no log needs a claim the set of those that have one is empty.
        let is_for_records = self.claimed.contains(&index) || self.promised.contains(&index);
        self.is_free(index) && !is_for_records
    }

    /// A free log that takes copies from now on, if the device has one that no record is to go to. The last free log of all is for the
    /// records that name them.
    pub(crate) fn begin_copies(&mut self, device: Range<u32>) -> Option<u32> {
        let found = self.first_for_copies(device).filter(|_| self.free_in_all() > 1)?;
        self.hold(found, true);
        Some(found)
    }

    /// The block of a held log behind the copies that stand in it.
    pub(crate) fn copies_end(&self, index: u32) -> u32 {
        self.get(index).map_or(0, |ring| ring.position)
    }

    /// Copies stand in a held log up to this block.
    pub(crate) fn note_copied(&mut self, index: u32, end: u32) {
        if let Some(ring) = self.get_or_create(index).filter(|ring| ring.is_held) {
            ring.position = end;
        }
    }

    /// A claim of the log is on its way, or a record.
    pub(crate) fn promise(&mut self, index: u32) {
        if self.has_no_homes() {
            self.promised.insert(index);
        }
    }

    /// No claim is on its way but those that are promised anew.
    pub(crate) fn forget_promises(&mut self) {
        self.promised.clear();
    }

    fn first_wanted(&self, mut range: Range<u32>, wanted: Wanted) -> Option<u32> {
        match wanted {
            Wanted::Free => range.find(|index| self.is_free(*index)),
            Wanted::Claimed if self.claim_all => range.find(|index| self.is_free(*index)),
            Wanted::Claimed => {
                self.claimed.range(range).copied().find(|index| self.is_free(*index))
            }
        }
    }

    /// The log that takes records once this one does not: of its device if that has more free ones than are to be spared, else of the next
    /// one that has, going round.
    pub(crate) fn next_in_chain(&self, log: u32, spared: Spared, wanted: Wanted) -> Option<u32> {
        let devices: Vec<Range<u32>> = self.by_device().collect();
        let here = devices.iter().position(|device| device.contains(&log)).unwrap_or(0);
        let in_turn = (0..devices.len()).map(|step| &devices[(here + step) % devices.len()]);
        let has_more = |device: &&Range<u32>| self.free_in(device) > spared.of(device);
        in_turn.filter(has_more).find_map(|device| {
            let behind = if device.contains(&log) { log + 1 } else { device.start };
            let found = self.first_wanted(behind..device.end, wanted);
            found.or_else(|| self.first_wanted(device.start..behind, wanted))
        })
    }

    /// The device, by its number, that records go on to once that of this log has no more logs to spare, and how many of these are left.
    pub(crate) fn next_device(&self, log: u32) -> Option<(usize, u32)> {
        let devices: Vec<Range<u32>> = self.by_device().collect();
        let here = devices.iter().position(|device| device.contains(&log))?;
        let mut others = (1..devices.len()).map(|step| (here + step) % devices.len());
        let next = others.find(|device| self.left_in(&devices[*device]) > 0)?;
        Some((next, self.left_in(&devices[here])))
    }

    /// Whether the device of a log has as many free ones as clients' records must leave.
    pub(crate) fn has_kept(&self, log: u32) -> bool {
        let device = self.by_device().find(|device| device.contains(&log));
        device.is_some_and(|device| self.free_in(&device) >= Self::kept_in(&device))
    }

    /// Whether clients' records could begin a log if only it were claimed: a snapshot claims it.
    pub(crate) fn needs_claim(&self, log: u32) -> bool {
        let next = |wanted| self.next_in_chain(log, Spared::Kept, wanted);
        next(Wanted::Free).is_some() && next(Wanted::Claimed).is_none()
    }

    /// Whether there are logs of which nothing is needed any more, and which only a snapshot makes free.
    pub(crate) fn snapshot_frees_any(&self) -> bool {
        if self.has_no_homes() {
            return self.spent > 0;
        }
        self.present().any(|(_, ring)| is_spent(ring))
    }

    /// Whether a device has hardly more free logs than cleaning and records without data need.
    pub(crate) fn is_short_of_logs(&self) -> bool {
        self.runs.iter().any(|run| run.free <= FREE_SHORT)
    }

    /// Those of the logs that hold something, protect something or are claimed that are in this range.
    pub fn touched_in(&self, range: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        self.present.range(range).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::Nanos;
    use nearhead_format::layout::{DataParts, LayoutKind, LayoutOptions};
    use nearhead_format::{Entry, Place};

    const MIB: u64 = 1 << 20;

    /// Three devices of 64, 16 and 16 logs or so.
    fn chain() -> Logs {
        let options = LayoutOptions {
            log_bytes: Some(MIB),
            data_parts: DataParts::of(&[16 * MIB; 2]).unwrap(),
            ..LayoutOptions::new(LayoutKind::Chain)
        };
        Logs::new(&Layout::plan(64 * MIB, &options).unwrap(), false)
    }

    fn fill(logs: &mut Logs, range: Range<u32>) {
        for log in range {
            let blocks = logs.blocks();
            logs.advance(log, 0, blocks);
        }
    }

    #[test]
    fn records_stay_on_a_device_until_it_has_no_more_to_spare_and_go_on_to_the_next_one_and_round()
    {
        let mut logs = chain();
        let devices: Vec<_> = logs.by_device().collect();
        let next = |logs: &Logs, from| logs.next_in_chain(from, Spared::Kept, Wanted::Free);
        assert_eq!(next(&logs, 0), Some(1));
        let end = devices[0].end;
        fill(&mut logs, 0..end - KEPT_LOGS_MIN);
        assert_eq!(next(&logs, end - KEPT_LOGS_MIN - 1), Some(devices[1].start), "three are kept");
        let for_others = logs.next_in_chain(0, Spared::Logs(0), Wanted::Free);
        assert_eq!(for_others, Some(end - KEPT_LOGS_MIN), "for others");
        fill(&mut logs, devices[1].start..devices[2].end - KEPT_LOGS_MIN);
        assert_eq!(next(&logs, devices[2].start), None, "{devices:?}");
        assert!(!logs.needs_claim(0));
    }

    #[test]
    fn the_device_that_takes_records_next_is_known_before_the_one_that_does_has_no_more_to_spare() {
        let mut logs = chain();
        let devices: Vec<_> = logs.by_device().collect();
        let spared = |device: &Range<u32>| device.end - device.start - KEPT_LOGS_MIN;
        assert_eq!(logs.next_device(0), Some((1, spared(&devices[0]))));
        fill(&mut logs, 0..devices[0].end - KEPT_LOGS_MIN);
        assert_eq!(logs.next_device(0), Some((1, 0)), "it goes on now");
        fill(&mut logs, devices[1].start..devices[1].end - KEPT_LOGS_MIN);
        assert_eq!(logs.next_device(0), Some((2, 0)), "one without room is passed over");
        assert_eq!(logs.next_device(devices[2].start), None, "and so are all others");
    }

    #[test]
    fn a_log_is_begun_anew_only_where_no_recovery_begins_elsewhere_in_it() {
        let mut logs = chain();
        logs.note_claimed(5);
        logs.advance(5, 0, 10);
        logs.snapshot_begins(&[]);
        assert!(!logs.is_free(5), "the older snapshot protects it");
        logs.snapshot_committed();
        assert!(logs.is_free(5) && !logs.is_touched(5));
        logs.note_claimed(6);
        logs.advance(6, 0, 10);
        logs.snapshot_begins(&[6]);
        logs.snapshot_committed();
        assert!(!logs.is_free(6), "it is claimed from block 10 on");
        logs.snapshot_begins(&[]);
        assert!(!logs.is_free(6), "as the newest snapshot has it");
        logs.snapshot_committed();
        assert_eq!(logs.claim_for(6).position, 0);
        assert!(logs.is_free(6));
    }

    #[test]
    fn a_log_that_rests_is_tried_again_only_if_nothing_of_it_is_needed() {
        let mut logs = chain();
        logs.advance(3, 0, 10);
        let first_sector = logs.block_offset(3, 0).unwrap() / 512;
        logs.add_live(first_sector, 8, 8);
        logs.snapshot_begins(&[]);
        logs.snapshot_committed();
        for log in [3, 4] {
            logs.note_bad(log, 10, 1, Nanos::ZERO);
            logs.rest(log, Nanos::ZERO);
        }
        assert!(!logs.is_free(4), "it rests");
        assert!(logs.try_one_that_rests());
        assert!(logs.is_free(4) && !logs.is_free(3));
        assert!(!logs.try_one_that_rests(), "the other one holds something");
        assert_eq!(logs.check_uses(), Ok(()));
        let place = Place::Log { chunk_sector: first_sector, chunk_len: 8, offset: 0 };
        logs.drop_live(&Entry { home_sector: 0, len_sectors: 8, place, crc: 0 });
        assert!(logs.try_one_that_rests() && logs.is_free(3));
    }

    #[test]
    fn copies_go_where_no_record_will_and_a_log_that_takes_some_keeps_them_until_it_is_let_go() {
        let mut logs = chain();
        let device = logs.by_device().next().unwrap();
        logs.note_claimed(0);
        logs.promise(1);
        assert_eq!(logs.first_for_copies(device.clone()), Some(2));
        logs.hold(2, true);
        logs.note_copied(2, 100);
        assert!(
            !logs.is_free(2)
                && !logs.has_room(2, crate::state::logs::Need { blocks: 1, reserve: 0 })
        );
        logs.snapshot_begins(&[]);
        logs.snapshot_committed();
        assert!(!logs.is_free(2), "a snapshot makes no difference");
        let capacity = u64::from(logs.blocks());
        // All but the one that takes them and the one that a claim is on its way for.
        let free = u64::from(device.end - device.start) - 2;
        assert_eq!(logs.blocks_for_copies(device), free * capacity + capacity - 100);
        logs.hold(2, false);
        assert!(logs.is_free(2), "nothing points there");
    }
}
