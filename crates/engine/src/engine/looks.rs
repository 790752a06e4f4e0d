//! How a volume is looked at from outside: its status, what it is doing, which space is whose. Nothing here changes anything.

use super::{Engine, Phase};
use crate::activity::{Activities, Activity, Space};
use crate::commit::{Moves, Record, Stale};
use crate::disk::drives::Drives;
use crate::failure::Failure;
use crate::pass::Pass;
use crate::state::logs::{Occupancy, Ring};
use crate::state::map::Map;
use crate::stats::{
    self, LinkRole, LinkStatus, LogDiskState, LogDiskStatus, LogFill, PagedMap, Status, TailMove,
};
use nearhead_disk::{Lane, RangeSet, SECTOR_BYTES};
use nearhead_format::Place;
use std::ops::Range;

impl Engine {
    /// Bytes of the volume's smallest unit.
    pub fn block_bytes(&self) -> u64 {
        u64::from(self.core.setup().layout.sector_bytes)
    }

    /// Room for one snapshot of the map, in bytes.
    pub fn map_slot_bytes(&self) -> u64 {
        self.core.setup().map.slots.bytes
    }

    /// Bytes clients can address.
    pub fn size_bytes(&self) -> u64 {
        self.core.setup().layout.client_bytes()
    }

    /// Whether every change is refused.
    pub fn is_read_only(&self) -> bool {
        self.core.is_read_only()
    }

    /// The map, for those who look at a volume from outside. Of one that is paged only what changed since the last snapshot began: whoever
    /// wants all of it configures memory for all of it.
    pub fn map(&self) -> &Map {
        self.core.map()
    }

    /// Whether the map is too large for a snapshot slot, with `more` entries cut in two each.
    pub fn map_outgrows_slot(&self, more: usize) -> bool {
        self.core.layers().len_max() + 2 * more > self.core.map_entries_max()
    }

    /// Why the engine accepts no change any more, if so.
    pub fn failure(&self) -> Option<&Failure> {
        self.core.failure()
    }

    /// The pass home that runs, and the last one that ended.
    pub fn passes(&self) -> (Option<Pass>, Option<Pass>) {
        let (running, last) = self.schedule.passes(&self.core);
        (running.filter(|_| !self.core.has_failed()), last)
    }

    /// The state for people and metrics.
    pub fn status(&self) -> Status {
        let phase = match self.phase {
            Phase::Recovering(_) => stats::Phase::Recovering,
            _ if self.core.has_failed() => stats::Phase::Failed,
            Phase::Serving => stats::Phase::Serving,
            Phase::Draining => stats::Phase::Draining,
            Phase::Stopped => stats::Phase::Stopped,
        };
        let findings = self.core.findings();
        let (pass, last_pass) = self.passes();
        Status {
            phase,
            failure: self.core.failure().cloned(),
            map_entries: self.core.layers().len_max() as u64,
            map_bytes: self.core.layers().newest_bytes() as u64,
            paged_map: self.paged_map(),
            staged_bytes: self.stage.bytes() as u64,
            logs: self.core.logs().count(),
            logs_claimed: self.core.logs().claimed_len() as u32,
            log_fill_pct: self.core.logs().fill_pct(),
            fragment_fill_pct: self.core.fragment_fill_pct(),
            record_sequence: self.core.recorded().sequence_done(),
            snapshot_number: self.snapshotter.number(),
            snapshot_lag: self.snapshotter.lag(&self.core),
            pass,
            last_pass,
            head_offset: self.core.lanes().main().estimates_head(),
            checkpointing: self.is_checkpointing(),
            wants_checkpoint_permit: self.wants_checkpoint_permit(),
            disk_errors: self.core.watch().counts(),
            last_disk_error: self.core.watch().last().cloned(),
            homes_failed: self.home.failed().len() as u64,
            stall: self.core.watch().stall(),
            stalls: self.core.watch().stalls(),
            shortage: self.core.watch().shortage(),
            target: self.core.target(),
            bulk_share_pct: self.core.admission().bulk_share_pct(),
            links: self.links(),
            log_disks: self.log_disks(),
            read_cache: self.read_cache.status(),
            drive: self.core.lanes().main().drives().map(Drives::status),
            blank_bytes: self.blanks.bytes(self.size_bytes()),
            damage: findings.damage().to_vec(),
            recovery_read_bytes: findings.read_bytes(),
            recovery_records: findings.records(),
            recovery_logs: findings.logs(),
            stats: *self.core.stats(),
        }
    }
}

/// For tests.
impl Engine {
    /// What is under way now.
    pub fn activities(&self) -> Activities {
        let mut now = Activities::default();
        now.note(Activity::Recovery, matches!(self.phase, Phase::Recovering(_)));
        now.note(Activity::Stop, matches!(self.phase, Phase::Draining));
        if let Some(record) = self.commit.in_flight() {
            now.note(Activity::RecordOfWrites, record.has_staged());
            now.note(Activity::RecordThatTakesBack, record.taken_back() > 0);
            now.note(Activity::RecordThatReleases, record.releases());
            now.note(Activity::RecordThatMoves, record.moves());
            now.note(Activity::RecordThatClaims, !record.header().claims.is_empty());
            now.note(Activity::RecordElsewhere, record.is_elsewhere());
            now.note(Activity::JournalEntry, self.core.journal().is_some());
        }
        let steps = [self.checkpoint.activity(), self.snapshotter.activity()];
        steps.into_iter().flatten().for_each(|step| now.note(step, true));
        // The same write, of an older snapshot's header.
        if self.snapshotter.is_restoring_header() {
            now.note(Activity::SnapshotCopy, true);
        }
        now.note(Activity::SnapshotFailed, self.snapshotter.has_failed());
        let swaps = self.swap.is_busy();
        now.note(Activity::SwapChunks, self.swap.has_chunks());
        now.note(Activity::SwapRead, swaps && !self.swap.has_chunks());
        now.note(Activity::TakenBackUnflushed, self.commit.invalidations().has_unready());
        now.note(Activity::TakenBackReady, self.commit.invalidations().ready_len() > 0);
        now.note(Activity::Flush, self.core.lanes().is_flushing());
        let spill = self.home.is_written();
        now.note(Activity::SpillWrite, spill == Some(false));
        now.note(Activity::SpillSettle, spill == Some(true));
        now.note(Activity::TornClear, self.commit.is_clearing_torn());
        self.requests.note_activities(&mut now);
        now.note(
            Activity::Quarantine,
            self.core.logs().present().any(|(_, ring)| ring.is_quarantined()),
        );
        now
    }

    fn paged_map(&self) -> Option<PagedMap> {
        let paged = self.core.layers().paged()?;
        Some(PagedMap {
            entries: paged.base().entries(),
            frozen_bytes: paged.frozen_bytes() as u64,
            index_bytes: paged.base().index_bytes(),
            cached_bytes: paged.cached_bytes(),
            memory_bytes_max: paged.bytes_max(),
        })
    }

    fn links(&self) -> Vec<LinkStatus> {
        let (logs, newest) = (self.core.logs(), self.core.recorded().last_log());
        // Before the first record it is where that one may go.
        let may_go = || logs.claimed().next().unwrap_or(newest);
        let tail = if logs.is_claimed(newest) { newest } else { may_go() };
        if !logs.has_no_homes() {
            return Vec::new();
        }
        let role = |position: Option<u8>, device: &Range<u32>| {
            let is_lost = logs.is_lost(device.start);
            let lane = position.map(Lane::data);
            match lane {
                Some(lane) if self.core.is_given_up(lane) => LinkRole::Lost,
                _ if is_lost => LinkRole::Closed,
                _ if device.contains(&tail) => LinkRole::Tail,
                _ => LinkRole::Body,
            }
        };
        let of_device = |(number, device): (u8, Range<u32>)| {
            let needed = logs.touched_in(device.clone()).map(|log| logs.live_sectors_of(log));
            LinkStatus {
                logs: device.end - device.start,
                logs_free: logs.free_in(&device),
                needed_bytes: needed.map(u64::from).sum::<u64>() * SECTOR_BYTES,
                role: role(number.checked_sub(1), &device),
            }
        };
        (0..).zip(logs.by_device()).map(of_device).collect()
    }

    fn log_disks(&self) -> Vec<LogDiskStatus> {
        let logs = self.core.logs();
        if !self.core.has_several_log_disks() {
            return Vec::new();
        }
        let (in_use, with_homes) =
            (self.commit.goes_on_in(), self.core.setup().layout.data_parts.with_homes() as u8);
        let of_device = |(number, device): (u8, Range<u32>)| {
            let position = number.checked_sub(1).map(|number| with_homes + number);
            let lane = position.map_or(Lane::MAIN, Lane::data);
            let needed = logs.touched_in(device.clone()).map(|log| logs.live_sectors_of(log));
            let state = match logs.is_lost(device.start) {
                true if self.core.is_given_up(lane) => LogDiskState::Lost,
                true => LogDiskState::Closed,
                false => LogDiskState::TakesRecords,
            };
            LogDiskStatus {
                lane,
                logs: device.end - device.start,
                log_in_use: in_use.iter().copied().find(|log| device.contains(log)),
                needed_bytes: needed.map(u64::from).sum::<u64>() * SECTOR_BYTES,
                state,
                drive: self.core.lanes().queue(lane).drives().map(Drives::status),
            }
        };
        (0..).zip(logs.by_device()).map(of_device).collect()
    }

    /// Which device of a chain takes records next, and after how much; none of anything else, or if no other one has room.
    pub fn tail_moves(&self) -> Option<TailMove> {
        let logs = self.core.logs();
        if !logs.has_no_homes() {
            return None;
        }
        let tail = self.core.recorded().last_log();
        let (to, left_logs) = logs.next_device(tail)?;
        let to = to
            .checked_sub(1)
            .map_or(Some(Lane::MAIN), |other| other.try_into().ok().map(Lane::data))?;
        let log_bytes = u64::from(logs.blocks()) * logs.block_bytes() as u64;
        Some(TailMove { to, left_bytes: u64::from(left_logs) * log_bytes })
    }

    /// What each log holds that holds anything, in the order of their numbers.
    pub fn log_fills(&self) -> impl Iterator<Item = LogFill> + '_ {
        let logs = self.core.logs();
        logs.touched().map(|log| LogFill {
            log,
            fill_pct: logs.fill_pct_of(log),
            needed_bytes: u64::from(logs.live_sectors_of(log)) * SECTOR_BYTES,
        })
    }

    /// The log that lies nearest to a device byte of the volume's own disk.
    pub fn log_nearest(&self, device_offset: u64) -> Option<u32> {
        self.core.logs().near(device_offset).next()
    }

    /// How many logs there are.
    pub fn log_count(&self) -> u32 {
        self.core.logs().count()
    }

    /// The log of the newest record that moves nothing.
    pub fn newest_log(&self) -> u32 {
        self.core.recorded().last_log()
    }

    /// Number of the newest committed snapshot.
    pub fn snapshot_number(&self) -> u64 {
        self.snapshotter.number()
    }

    /// Bytes of logs and journal that the next records may overwrite, but for those of the record on its way, and of logs
    /// that may hold the last record once more.
    pub fn open_space(&self) -> Space {
        let mut open = RangeSet::new();
        for index in 0..self.core.logs().count() {
            let whole = self.log_bytes(index, 0, self.core.setup().layout.log_blocks());
            let Some(ring) = self.core.logs().get(index) else {
                open.insert(whole);
                continue;
            };
            // A record that failed here may be whole all the same. It stands elsewhere, too, so that nothing needs
            // this copy, but a recovery counts it as used.
            let is_newest =
                self.commit.failed_sequence() >= Some(self.core.recorded().sequence_done());
            let may_hold_twin = ring.failures() > 0 || is_newest;
            for (start, end) in if may_hold_twin { Vec::new() } else { ring.free() } {
                open.insert(self.log_bytes(index, start, end));
            }
        }
        if let Some(record) = self.commit.in_flight() {
            // What it leaves out before it, or at the end of its log, is protected as well.
            let (index, start) = (record.header().log_index, record.header().position);
            let capacity = self.core.setup().layout.log_blocks();
            let position = self.core.logs().get(index).map_or(0, Ring::position);
            let end = position + (start + capacity - position) % capacity + record.blocks();
            open.remove(self.log_bytes(index, position, end.min(capacity)));
            open.remove(self.log_bytes(index, 0, end.saturating_sub(capacity)));
        }
        let mut space = Space::from([(Lane::MAIN, open)]);
        if let Some(journal) = self.core.journal() {
            let (ring, of_map) =
                (journal.ring(), space.entry(self.core.setup().map.lane).or_default());
            for (start, end) in ring.free() {
                of_map.insert(journal.bytes_of(start, end));
            }
        }
        space
    }

    /// Bytes of logs and journal that a recovery from here on would need: what the map points to, and records since the
    /// newest snapshot.
    pub fn needed_space(&self) -> Space {
        let mut needed = RangeSet::new();
        for entry in self.core.layers().all_entries().into_iter().flatten() {
            if let Place::Log { chunk_sector, chunk_len, .. } = entry.place {
                let end = chunk_sector + u64::from(chunk_len);
                needed.insert(chunk_sector * SECTOR_BYTES..end * SECTOR_BYTES);
            }
        }
        // With a journal nobody looks for records in the logs.
        let scanned = self.core.logs().present().filter(|_| self.core.journal().is_none());
        for (index, ring) in scanned {
            for (start, end) in ring.protected() {
                needed.insert(self.log_bytes(index, start, end));
            }
        }
        let mut space = Space::from([(Lane::MAIN, needed)]);
        if let Some(journal) = self.core.journal() {
            let of_map = space.entry(self.core.setup().map.lane).or_default();
            for (start, end) in journal.ring().protected() {
                of_map.insert(journal.bytes_of(start, end));
            }
        }
        space
    }

    /// Bytes that lie over what the map says of these sectors, in order: the client's byte where each run begins.
    pub fn bytes_over(&self, sectors: Range<u64>) -> Vec<(u64, Vec<u8>)> {
        self.core.recorded().fragments().runs(sectors)
    }

    /// Home sectors of which something is in a log: what the map says is elsewhere than at home, or has bytes over it.
    pub fn mapped_homes(&self) -> RangeSet {
        // What lies below a removal is found by nobody.
        self.core.layers().mapped_in_pages().unwrap_or_else(|| self.homes_of_entries())
    }

    /// The same, and what older layers of a paged map have.
    fn homes_of_entries(&self) -> RangeSet {
        let mut homes = RangeSet::new();
        for entry in self.core.layers().all_entries().into_iter().flatten() {
            let sectors = entry.home_sector..entry.end_sector();
            if entry.place == Place::Home {
                for run in self.core.recorded().fragments().touched(sectors) {
                    homes.insert(run);
                }
            } else {
                homes.insert(sectors);
            }
        }
        homes
    }

    /// Home sectors of which a recovery from here on may find a logged copy: a copy of any other would be one that
    /// nobody takes back when the sector is written in place.
    pub fn known_homes(&self) -> RangeSet {
        let mut homes = self.homes_of_entries();
        for stale in self.commit.invalidations().entries() {
            homes.insert(stale.sectors());
        }
        // One that was let go comes before all that is written from now on.
        let in_flight = self.commit.in_flight().into_iter().flat_map(Record::written);
        for range in in_flight.chain(self.commit.let_go().iter().copied()) {
            homes.insert(range.start_sector..range.end_sector());
        }
        homes
    }

    fn log_bytes(&self, index: u32, start: u32, end: u32) -> Range<u64> {
        let layout = &self.core.setup().layout;
        let (log, block) = (layout.log_offset(index).unwrap_or(0), layout.log_block_bytes);
        let at = |position: u32| log + u64::from(position) * u64::from(block);
        at(start)..at(end)
    }

    /// Home sectors hinted durability-only.
    pub fn hints(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.core.recorded().hints().iter()
    }

    /// Counts anew what is needed of every log; says where the counts that are kept differ. For tests: it looks at
    /// the whole map.
    pub fn check_counts(&self) -> Result<(), String> {
        if !self.is_open() {
            return Ok(());
        }
        let stale = self.commit.invalidations().entries().filter_map(Stale::copy).copied();
        // Of a paged map only where the configuration says that it is kept.
        let Some(entries) = self.core.layers().all_entries() else { return Ok(()) };
        let pieces = self.core.recorded().fragments().needed();
        self.core.logs().check(entries.chain(stale).chain(pieces))
    }

    /// What is in use now.
    pub fn occupancy(&self) -> Occupancy {
        let (logs, journal) = (self.core.logs(), self.core.journal());
        Occupancy {
            logs: logs.counts(),
            logs_claimed: logs.claimed().collect(),
            log_fill_pct: logs.fill_pct(),
            journal_blocks: journal.map_or(0, |journal| journal.ring().used_blocks()),
            map_entries: self.core.layers().len_max(),
            record_sequence: self.core.recorded().sequence_done(),
            snapshot_number: self.snapshotter.number(),
        }
    }
}
