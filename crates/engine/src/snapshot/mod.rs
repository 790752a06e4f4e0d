//! Snapshots of the map, into two slots in turn.
//!
//! A snapshot is *fuzzy*: the body is streamed piece by piece while requests go on, and recovery
//! replays every record written since it **began** on top of it. That is right because a record says
//! everything about the sectors it names: whatever newer state the body caught early, the replay
//! arrives at the same end. Three things hold the rest together:
//!
//! Of a paged map the body is a *merge* of what had changed over the pages of the base, and so exactly the map of the beginning
//! (`merge.rs`).
//!
//! - positions of logs and the claims are those of the beginning;
//! - after the last piece every device is flushed: that of the map, so that the body is durable before the header makes
//!   it count, and the volume's own, so that in-place writes are whose older logged copies the body no longer mentions.
//!   Where that is one device it is one flush; where there are two, neither covers what the other has;
//! - until the header and its copy at the end of the slot are durable, space that only the older
//!   snapshot protects stays protected. The copy comes second, so that one that is newer than all
//!   headers tells of a header that was durable and is no more.

mod body;
mod claims;
mod due;
mod lone;
mod merge;
mod settled;
mod transfer;

pub(crate) use lone::LoneHeader;

use crate::activity::Activity;
use crate::commit::InvalidationCount;
use crate::commit::{Commit, Record};
use crate::core::Core;
use crate::disk::dispatch::Purpose;
use crate::disk::lanes::Tickets;
use crate::state::paged::Merge;
use crate::stats::SnapshotLag;
use body::what_follows_the_map;
use claims::{claims_to_add, claims_to_keep, may_be_claimed_at_rest};
use nearhead_disk::{Buffer, BufferMut, Class, DiskError, Nanos, Payload};
use nearhead_format::snapshot::{BodyItem, BodyWriter, FLAG_CLEAN_SHUTDOWN, SnapshotHeader};
use std::collections::VecDeque;
use transfer::Transfers;

/// Attempts in a row that may fail before those who wait for a snapshot are told.
const FAILURES_MAX: u32 = 3;

/// After one that failed the next waits so long, unless somebody waits for it.
const REST_AFTER_FAILURE: Nanos = Nanos::from_secs(1);

/// What a snapshot depends on of those who are not handed to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotContext {
    /// Where a log is being moved to, if one is.
    cold_log: Option<u32>,
    /// For how long nobody has asked anything.
    idle_for: Nanos,
}

impl SnapshotContext {
    pub(crate) fn new(cold_log: Option<u32>, idle_for: Nanos) -> Self {
        Self { cold_log, idle_for }
    }
}

/// A snapshot being written.
#[derive(Debug)]
struct InProgress {
    record_sequence: u64,
    /// Home sector from which the map is still to be streamed.
    cursor: u64,
    /// What is streamed instead, where the map is paged.
    merge: Option<Box<Merge>>,
    /// Log states, claims and hints, which follow the map.
    rest: VecDeque<BodyItem>,
    writer: BodyWriter,
    offset: u64,
    /// All of the body is on its way, or written.
    is_handed_out: bool,
    /// Invalidations queued when it began: the body does not mention what they take back.
    invalid_end: InvalidationCount,
    flush_tickets: Option<Tickets>,
    /// The header, once it is on its way: what its copy will be.
    copy: Option<Buffer>,
    transfers: Transfers,
    clean: bool,
    /// Bulk, so that it comes to its end beside any other load; before that if somebody waits for the
    /// room it frees.
    class: Class,
    /// Logs claimed by the snapshot itself, once it is committed.
    claims_new: Vec<u32>,
}

/// State of snapshots.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent wishes and facts, not a state")]
pub(crate) struct Snapshotter {
    in_progress: Option<Box<InProgress>>,
    /// Number of the newest committed snapshot.
    number: u64,
    demanded: bool,
    wished: bool,
    last_at: Nanos,
    /// Record sequence the newest committed snapshot includes.
    sequence: u64,
    /// Invalidations queued when the newest committed snapshot began.
    invalid_end: InvalidationCount,
    clean_on_disk: bool,
    /// The newest committed snapshot has one sound header so far.
    lone: Option<LoneHeader>,
    hints_changed: bool,
    /// Attempts that failed since the last one that did not.
    failures: u32,
    last_problem: String,
}

impl Snapshotter {
    /// Number of the newest committed snapshot.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Somebody needs a snapshot soon.
    pub(crate) fn demand(&mut self) {
        self.demanded = true;
    }

    /// The part of the one being written that is under way, for tests.
    pub(crate) fn activity(&self) -> Option<Activity> {
        let work = self.in_progress.as_ref()?;
        Some(match (&work.flush_tickets, &work.copy, work.transfers.is_empty()) {
            (None, ..) => Activity::SnapshotBody,
            (Some(_), Some(_), _) => Activity::SnapshotHeader,
            (Some(_), None, true) => Activity::SnapshotFlush,
            (Some(_), None, false) => Activity::SnapshotCopy,
        })
    }

    /// Whether the last attempt failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// How far the newest snapshot is behind the records, if it is.
    pub(crate) fn lag(&self, core: &Core) -> Option<SnapshotLag> {
        let bytes = core.recorded().bytes_since_snapshot();
        (bytes > 0).then_some(SnapshotLag { since: self.last_at, bytes })
    }

    pub(crate) fn is_demanded(&self) -> bool {
        self.demanded
    }

    /// A snapshot would free log space, but not so urgently that its cost does not matter.
    pub(crate) fn wish(&mut self) {
        self.wished = true;
    }

    /// What keeps snapshots from being written, if several attempts in a row failed. The slot cannot
    /// be left out: the other one holds the only sound snapshot.
    pub(crate) fn lasting_problem(&self) -> Option<&str> {
        (self.failures >= FAILURES_MAX).then_some(self.last_problem.as_str())
    }

    /// When one may be tried again that nobody waits for, if the last one failed.
    fn rests_until(&self) -> Option<Nanos> {
        (self.failures > 0).then_some(self.last_at + REST_AFTER_FAILURE)
    }

    /// Number of the first snapshot that has not begun yet.
    pub(crate) fn next_to_begin(&self) -> u64 {
        self.number + 1 + u64::from(self.in_progress.is_some())
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.in_progress.is_some() || self.demanded
    }

    /// Why the one under way does not go on, if there was no space for it at `since` or later. What was found before
    /// says nothing to those who came then: there may be space by now.
    pub(crate) fn lack_of_space(&self, since: Nanos) -> Option<DiskError> {
        self.in_progress.as_ref()?.transfers.lack_of_space(since).cloned()
    }

    pub(crate) fn is_short_of_space(&self) -> bool {
        self.in_progress.as_ref().is_some_and(|work| work.transfers.lack_space())
    }

    /// Clients wait for the one being written: its next pieces go first.
    pub(crate) fn hurry(&mut self) {
        if let Some(work) = self.in_progress.as_mut() {
            work.class = Class::Foreground;
        }
    }

    pub(crate) fn note_hints_changed(&mut self) {
        self.hints_changed = true;
    }

    /// What recovery found.
    pub(crate) fn recovered(&mut self, number: u64, sequence: u64, clean: bool) {
        self.number = number;
        self.sequence = sequence;
        self.clean_on_disk = clean;
    }
}

/// Claims that are on their way now: the snapshot's own, and those of a record.
fn promise(core: &mut Core, commit: &Commit, claims_new: &[u32]) {
    let logs = core.logs_mut();
    logs.forget_promises();
    if let Some(record) = commit.in_flight() {
        logs.promise(record.header().log_index);
        for claim in &record.header().claims {
            logs.promise(claim.log_index);
        }
    }
    for index in claims_new {
        logs.promise(*index);
    }
}

impl Snapshotter {
    /// Whether one is due, and none is being written.
    pub(crate) fn would_begin(&self, core: &Core, context: SnapshotContext) -> bool {
        let may_begin = self.in_progress.is_none() && !core.is_read_only() && !core.has_failed();
        may_begin && self.is_due(core, context)
    }

    /// Moves the snapshot on, or begins one that is due.
    pub(crate) fn advance(&mut self, core: &mut Core, commit: &Commit, context: SnapshotContext) {
        if core.is_read_only() || core.has_failed() {
            return;
        }
        if self.in_progress.is_some() {
            self.go_on(core);
        } else if self.is_due(core, context)
            && !moves_a_chunk(commit)
            && !self.restores_header(core)
        {
            self.begin(core, commit, context, false);
        }
    }

    /// For shutdown: true once a snapshot of exactly the present state is on disk.
    pub(crate) fn advance_final(
        &mut self,
        core: &mut Core,
        commit: &Commit,
        context: SnapshotContext,
    ) -> bool {
        if core.is_read_only() {
            return true;
        }
        if self.in_progress.is_some() {
            self.go_on(core);
            return false;
        }
        if self.restores_header(core) {
            return false;
        }
        let current = self.clean_on_disk
            && self.sequence == core.recorded().sequence_done()
            && commit.invalidations().is_empty()
            && !self.hints_changed;
        if !current {
            self.begin(core, commit, context, true);
            return false;
        }
        // Plain in-place writes since then change no map, but a stop makes them durable as well. The snapshot is, on
        // whatever device: its header is.
        let flusher = core.flusher_mut();
        let ticket = flusher.want();
        flusher.is_done(ticket)
    }

    fn begin(&mut self, core: &mut Core, commit: &Commit, context: SnapshotContext, clean: bool) {
        let mut keep = claims_to_keep(core, commit, context);
        let mut claims_new = claims_to_add(core, commit, &keep);
        if clean {
            keep.retain(|log| may_be_claimed_at_rest(core, *log));
            claims_new.retain(|log| may_be_claimed_at_rest(core, *log));
        }
        let rest = what_follows_the_map(core, &keep, &claims_new);
        core.logs_mut().snapshot_begins(&keep);
        promise(core, commit, &claims_new);
        if let Some(record) = commit.in_flight() {
            for (log_index, position) in record.failed_places() {
                core.logs_mut().note_twin(*log_index, *position, record.blocks());
            }
        }
        if let Some(journal) = core.journal_mut() {
            // The entry of a record in flight stands before the position already: it is newer than
            // the snapshot and stays protected.
            let from = commit.journal_from();
            journal.ring_mut().snapshot_begins_at(from);
        }
        // A record on its way is newer than the snapshot, and what it protects only the next one frees.
        let log_block = core.logs().block_bytes() as u64;
        let on_its_way = commit.in_flight().map_or(0, Record::blocks);
        core.recorded_mut().snapshot_begins(u64::from(on_its_way) * log_block);
        let slot = ((self.number + 1) % 2) as usize;
        let waited_for = std::mem::take(&mut self.demanded);
        self.wished = false;
        self.hints_changed = false;
        self.last_at = core.now();
        self.in_progress = Some(Box::new(InProgress {
            record_sequence: core.recorded().sequence_done(),
            cursor: 0,
            merge: core.recorded_mut().freeze(commit.invalidations().is_empty()),
            rest,
            writer: BodyWriter::new(),
            offset: core.setup().map.slots.body_offset(slot),
            is_handed_out: false,
            invalid_end: commit.invalidations().end(),
            flush_tickets: None,
            copy: None,
            transfers: Transfers::default(),
            clean,
            class: if waited_for { Class::Foreground } else { Class::Bulk },
            claims_new,
        }));
        self.go_on(core);
    }

    fn go_on(&mut self, core: &mut Core) {
        let Some(mut work) = self.in_progress.take() else { return };
        work.send_again(core);
        while work.transfers.have_room() && work.send_next_piece(core) {}
        if work.is_handed_out && work.transfers.is_empty() {
            // Waits for both: the body, on the map's device, and what went home, on the volume's own.
            let tickets = work.flush_tickets.get_or_insert_with(|| core.lanes_mut().want_all());
            if core.lanes().are_done(tickets) {
                self.write_header(core, &mut work);
            }
        }
        self.in_progress = Some(work);
    }

    fn write_header(&mut self, core: &mut Core, work: &mut InProgress) {
        let Some(body) = work.writer.summary() else { return };
        let header = SnapshotHeader {
            volume_id: core.setup().volume_id,
            snapshot_number: self.number + 1,
            record_sequence: work.record_sequence,
            flags: SnapshotHeader::flags_of(&core.setup().layout)
                | if work.clean { FLAG_CLEAN_SHUTDOWN } else { 0 },
            body,
        };
        let bytes = BufferMut::copy_of(&header.encode()).freeze();
        work.copy = Some(bytes.clone());
        let offset = core.setup().map.slots.header_offset(header.slot() as usize);
        work.write_durably(core, Purpose::SnapshotHeader, offset, bytes);
    }

    /// A piece of the body is written, or could not be.
    pub(crate) fn on_body(
        &mut self,
        core: &mut Core,
        commit: &Commit,
        offset: u64,
        result: Result<Payload, DiskError>,
    ) {
        if self.goes_on(core, commit, Purpose::SnapshotBody { offset }, result) {
            let lane = core.setup().map.lane;
            core.lanes_mut().flusher_mut(lane).note_volatile_write();
        }
    }

    /// The same of the header.
    pub(crate) fn on_header(
        &mut self,
        core: &mut Core,
        commit: &mut Commit,
        result: Result<Payload, DiskError>,
    ) {
        if !self.goes_on(core, commit, Purpose::SnapshotHeader, result) {
            return;
        }
        let Some(mut work) = self.in_progress.take() else { return };
        if let Some(copy) = work.copy.take() {
            let slot = (self.number + 1) % 2;
            let offset = core.setup().map.slots.copy_offset(slot as usize);
            work.write_durably(core, Purpose::SnapshotCopy, offset, copy);
        }
        self.in_progress = Some(work);
    }

    /// The same of its copy.
    pub(crate) fn on_copy(
        &mut self,
        core: &mut Core,
        commit: &mut Commit,
        result: Result<Payload, DiskError>,
    ) {
        if self.goes_on(core, commit, Purpose::SnapshotCopy, result) {
            self.is_safe(core, commit);
        }
    }
}

/// Whether a relocation record is on its way. Replayed on top of a snapshot that began now it would
/// bring back what an in-place write took out of the map meanwhile.
fn moves_a_chunk(commit: &Commit) -> bool {
    commit.in_flight().is_some_and(Record::moves)
}

#[cfg(test)]
mod tests;
