//! A record that could not be written: elsewhere, or here once more, a little later.
//!
//! The record keeps its sequence and its content, so that copies of it may be found in two places without harm.
//! Another log takes it if one has room; the one that failed rests, longer after every failure in a row. Where
//! there is no other log it goes behind the place that failed, in the same log: far enough, as what is torn there may
//! have the record's sequence and length, and a recovery that passes over it must come upon the record behind it. What the
//! log leaves out is remembered (`state/logs/bad_places.rs`). Only where no place of any log takes it are all of them tried
//! again, with pauses. When that fails time and again, and the disk takes other writes, its parts go another way
//! (`unused.rs`); if it takes none the volume accepts no change any more.
//!
//! Want of space under a sparse image is no failure of a log: the record stays as it is until there is some.
//! Those who wait for it wait so long as the configuration says, and are told then; the volume lives on, for twelve times
//! as long. Then it accepts no change any more, so that nothing waits for ever.

use super::record::Record;
use crate::disk::dispatch::Purpose;
use crate::engine::{Engine, Phase};
use crate::placement::{Need, Spot};
use crate::requests::told;
use crate::state::journal::MapJournal;
use crate::state::logs::{NO_PREVIOUS, Ring};
use nearhead_disk::{Class, DiskError, DiskErrorKind, Nanos};
use nearhead_service::{ErrorKind, RequestError};

/// Logs tried before the place itself is.
const LOGS_TRIED_MAX: usize = 8;
/// Attempts at one place of the map's journal.
const ATTEMPTS_MAX: u32 = 5;
/// How often all places are tried before a snapshot is asked for.
const ROUNDS_MANY: u32 = 2;
/// How often they are tried before the record is let go, if a snapshot was written meanwhile: the disk works.
const ROUNDS_OF_PLACES: u32 = 5;
/// How often they are tried before the volume gives up.
const ROUNDS_MAX: u32 = 20;
/// A shortage lasts so many times as long as a request waits at most; then whoever waits for anything else is told, too.
const SHORTAGE_WAITS_MAX: u64 = 12;
/// The first pause between two attempts; it doubles.
const PAUSE_FIRST: Nanos = Nanos::from_millis(10);
/// The longest pause, and so the time until space that was freed is noticed.
const PAUSE_MAX: Nanos = Nanos::from_secs(1);

/// What of the record in flight is sent again, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again {
    at: Nanos,
    record: bool,
    journal: bool,
    /// The record, wherever there is a place for it now.
    anywhere: bool,
}

/// The pause before an attempt that follows so many that failed.
pub(crate) fn pause(attempts: u32) -> Nanos {
    Nanos(PAUSE_FIRST.0 << attempts.min(16)).min(PAUSE_MAX)
}

impl Engine {
    /// The record, or its header's copy on the map device, could not be written.
    pub(super) fn record_part_failed(&mut self, is_journal: bool, error: &DiskError) {
        let Some(mut record) = self.commit.in_flight.take() else { return };
        record.attempts += 1;
        match error.kind {
            DiskErrorKind::OutOfSpace => {
                self.commit.is_short_of_space = true;
                self.send_again(record, is_journal);
                self.wait_for_space(error);
            }
            DiskErrorKind::Io if is_journal && record.attempts <= ATTEMPTS_MAX => {
                self.send_again(record, is_journal);
            }
            _ if is_journal => self.fail(format!("the map device failed: {error}")),
            _ => self.write_elsewhere(record, error),
        }
    }

    fn send_again(&mut self, record: Record, is_journal: bool) {
        let at = self.now + pause(record.attempts.max(record.rounds));
        let none = Again { at, record: false, journal: false, anywhere: false };
        let again = self.commit.again.get_or_insert(none);
        again.at = again.at.max(at);
        again.record |= !is_journal;
        again.journal |= is_journal;
        self.commit.in_flight = Some(record);
    }

    /// Sends again what waits for that, when it is time.
    pub(crate) fn retry_record(&mut self) {
        if self.failure.is_some() || self.commit.again.is_none_or(|again| again.at > self.now) {
            return;
        }
        let Some(again) = self.commit.again else { return };
        let Some(mut record) = self.commit.in_flight.take() else { return };
        if again.anywhere {
            let other = self.another_spot(&record);
            self.core.logs.end_rest(record.header.log_index);
            if let Some(spot) = other.or_else(|| self.spot_at_hand(&record)) {
                self.move_record(&mut record, spot.log_index);
                return self.issue_record(record, spot);
            }
        }
        self.commit.again = None;
        let header = self.encoded_header(&record);
        if again.record
            && let Some(command) = self.record_command(&record, header.clone())
        {
            self.issue(Class::Durable, Purpose::Record, command);
        }
        if again.journal
            && let Some(command) =
                record.journal_at.and_then(|at| self.journal_command(at, &header))
        {
            self.issue_on(self.setup.map.lane, Class::Durable, Purpose::Journal, command);
        }
        self.commit.in_flight = Some(record);
    }

    /// When that is.
    pub(crate) fn retry_wake(&self) -> Option<Nanos> {
        self.commit.again.map(|again| again.at)
    }

    /// The place did not take the record: another log gets it, or another place of the same log, or all of them once
    /// more.
    fn write_elsewhere(&mut self, mut record: Record, error: &DiskError) {
        let (failed, position) = (record.header.log_index, record.header.position);
        if !record.failed_logs.contains(&failed) {
            record.failed_logs.push(failed);
        }
        self.commit.failed_sequence = Some(record.header.sequence);
        let is_place = error.kind == DiskErrorKind::Io;
        if is_place {
            self.core.logs.note_bad(failed, position, record.blocks, self.now);
        }
        self.core.logs.rest(failed, self.now);
        if let Some(spot) = self.another_spot(&record) {
            self.move_record(&mut record, spot.log_index);
            return self.issue_record(record, spot);
        }
        // There is no other: the one at hand must do.
        if is_place && let Some(spot) = self.spot_at_hand(&record) {
            self.core.logs.end_rest(failed);
            self.move_record(&mut record, failed);
            return self.issue_record(record, spot);
        }
        record.rounds += 1;
        if !is_place || record.rounds == ROUNDS_MAX {
            let (sequence, rounds) = (record.header.sequence, record.rounds);
            return self.fail(format!(
                "record {sequence} could not be written to any place of the logs that have room for it, in {rounds} \
                 rounds; the last one was log {failed} at log block {position}: {error}"
            ));
        }
        if record.rounds == 1 {
            record.snapshot_then = self.snapshotter.number();
        }
        let works = self.snapshotter.number() > record.snapshot_then;
        if works && record.rounds >= ROUNDS_OF_PLACES {
            self.core.logs.end_rest(failed);
            let Some(kept) = self.lets_go_of(record) else { return };
            record = kept;
        }
        self.core.logs.forget_bad_places(failed);
        // All logs may be tried again, as far as they do not rest.
        record.failed_logs = vec![failed];
        if record.rounds >= ROUNDS_MANY {
            // It claims logs, if those that are claimed rest, and it frees what only records before it need.
            self.snapshotter.demand();
        }
        self.send_again(record, false);
        if let Some(again) = self.commit.again.as_mut() {
            again.anywhere = true;
        }
    }

    /// A place in a log that has room for the record, and does not rest.
    fn another_spot(&mut self, record: &Record) -> Option<Spot> {
        if record.failed_logs.len() >= LOGS_TRIED_MAX || !self.journal_has_place() {
            return None;
        }
        self.choose_spot(Need { blocks: record.blocks, reserve: 0 })
    }

    /// Another place in the log where the record failed last, though that rests.
    fn spot_at_hand(&self, record: &Record) -> Option<Spot> {
        let log_index = record.header.log_index;
        let block =
            self.core.logs.get(log_index)?.place(Need { blocks: record.blocks, reserve: 0 })?;
        let spot = Spot { log_index, block, wanted_index: log_index };
        self.journal_has_place().then_some(spot)
    }

    /// Wherever else the record goes, its header is copied to the journal once more.
    fn journal_has_place(&self) -> bool {
        self.core.journal.as_ref().is_none_or(MapJournal::has_room)
    }

    fn move_record(&mut self, record: &mut Record, log_index: u32) {
        record.pending -= 1;
        if self.commit.again.take().is_some_and(|again| again.journal) {
            // A copy of the header that it has no longer: the new one gets its own.
            record.pending -= 1;
        }
        let ring = self.core.logs.get(log_index);
        record.attempts = 0;
        record.header.log_index = log_index;
        record.header.generation = ring.map_or(0, |ring| ring.generation);
        record.header.previous_position = ring.map_or(NO_PREVIOUS, |ring| ring.previous_position);
        record.header.oldest_live_position = ring.map_or(0, Ring::oldest_live_position);
    }

    /// Something that must be written finds no space. Who waits is told after a while; a stop gives up.
    pub(crate) fn wait_for_space(&mut self, error: &DiskError) {
        let wait_max = self.setup.config.no_space_wait_max;
        let since = self.watch.note_no_space(self.now, wait_max);
        if self.now.since(since) < wait_max {
            return;
        }
        if matches!(self.phase, Phase::Draining) {
            return self
                .fail(format!("stopping without space for what is not durable yet: {error}"));
        }
        if self.now.since(since) >= Nanos(wait_max.0.saturating_mul(SHORTAGE_WAITS_MAX)) {
            return self.fail(format!("no space for far too long: {error}"));
        }
        let refused = told(error);
        let detail = format!("no space for {} s: {}", wait_max.0 / 1_000_000_000, refused.detail);
        self.refuse_who_waits_for_a_record(&RequestError::new(ErrorKind::NoSpace, detail));
    }

    /// Something was written for which there was no space.
    pub(crate) fn note_space(&mut self) {
        if !self.commit.is_short_of_space && !self.snapshotter.is_short_of_space() {
            self.watch.note_space(self.now);
        }
    }
}
