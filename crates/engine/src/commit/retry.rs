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

use super::Commit;
use super::complete::{Ended, RecordContext};
use super::journal::{journal_command, journal_has_place};
use super::record::Record;
use super::send::{encoded, record_command};
use crate::core::Core;
use crate::disk::dispatch::Purpose;
use crate::failure::Failure;
use crate::placement::{Need, Spot};
use crate::state::logs::{NO_PREVIOUS, Ring};
use nearhead_disk::{Class, DiskError, DiskErrorKind, Nanos};

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

impl Commit {
    /// The record, or its header's copy on the map device, could not be written.
    pub(super) fn part_failed(
        &mut self,
        core: &mut Core,
        context: RecordContext,
        is_journal: bool,
        error: &DiskError,
    ) -> Ended {
        let Some(mut record) = self.in_flight.take() else { return Ended::NotYet };
        record.attempts += 1;
        match error.kind {
            DiskErrorKind::OutOfSpace => {
                self.is_short_of_space = true;
                self.send_again(core, record, is_journal);
                core.wait_for_space(error);
            }
            DiskErrorKind::Io if is_journal && record.attempts <= ATTEMPTS_MAX => {
                self.send_again(core, record, is_journal);
            }
            _ if is_journal => core.fail(Failure::MapDevice { error: error.to_string() }),
            _ => return self.write_elsewhere(core, context, record, error),
        }
        Ended::NotYet
    }

    fn send_again(&mut self, core: &Core, record: Record, is_journal: bool) {
        let at = core.now() + pause(record.attempts.max(record.rounds));
        let none = Again { at, record: false, journal: false, anywhere: false };
        let again = self.again.get_or_insert(none);
        again.at = again.at.max(at);
        again.record |= !is_journal;
        again.journal |= is_journal;
        self.in_flight = Some(record);
    }

    /// Sends again what waits for that, when it is time.
    pub(crate) fn retry(&mut self, core: &mut Core) {
        let Some(again) = self.again.filter(|again| again.at <= core.now()) else { return };
        if core.has_failed() {
            return;
        }
        let Some(mut record) = self.in_flight.take() else { return };
        if again.anywhere {
            let other = self.another_spot(core, &record);
            core.logs_mut().end_rest(record.header.log_index);
            if let Some(spot) = other.or_else(|| spot_at_hand(core, &record)) {
                self.move_record(core, &mut record, spot.log_index);
                return self.issue_record(core, record, spot);
            }
        }
        self.again = None;
        let header = encoded(&record.header, core.logs().block_bytes());
        if again.record
            && let Some(command) = record_command(core, &record, header.clone())
        {
            core.issue(Class::Durable, Purpose::Record, command);
        }
        if again.journal
            && let Some(command) =
                record.journal_at.and_then(|at| journal_command(core, at, &header))
        {
            core.issue_on(core.setup().map.lane, Class::Durable, Purpose::Journal, command);
        }
        self.in_flight = Some(record);
    }

    /// When that is.
    pub(crate) fn retry_wake(&self) -> Option<Nanos> {
        self.again.map(|again| again.at)
    }

    /// The place did not take the record: another log gets it, or another place of the same log, or all of them once
    /// more.
    fn write_elsewhere(
        &mut self,
        core: &mut Core,
        context: RecordContext,
        mut record: Record,
        error: &DiskError,
    ) -> Ended {
        let (failed, position) = (record.header.log_index, record.header.position);
        if !record.failed_logs.contains(&failed) {
            record.failed_logs.push(failed);
        }
        self.failed_sequence = Some(record.header.sequence);
        let (is_place, now) = (error.kind == DiskErrorKind::Io, core.now());
        if is_place {
            core.logs_mut().note_bad(failed, position, record.blocks, now);
            if !record.failed_places.contains(&(failed, position)) {
                record.failed_places.push((failed, position));
            }
        }
        core.logs_mut().rest(failed, now);
        // A snapshot is to include what stands on a device that is closed before a recovery misses it.
        let is_closed = core.close_link_of(failed) && core.has_several_log_disks();
        let is_lost = core.logs().is_lost(failed);
        if let Some(spot) = self.another_spot(core, &record) {
            self.move_record(core, &mut record, spot.log_index);
            self.issue_record(core, record, spot);
            return if is_closed { Ended::NeedsSnapshot } else { Ended::NotYet };
        }
        // There is no other: the one at hand must do.
        if is_place && let Some(spot) = spot_at_hand(core, &record) {
            core.logs_mut().end_rest(failed);
            self.move_record(core, &mut record, failed);
            self.issue_record(core, record, spot);
            return Ended::NotYet;
        }
        record.rounds += 1;
        let gives_up = if is_lost {
            // A snapshot claims logs of another device: so long it is tried.
            let has_tried =
                context.snapshots_fail || context.snapshot_number > record.snapshot_then;
            record.rounds >= ROUNDS_MAX && has_tried
        } else {
            !is_place || record.rounds == ROUNDS_MAX
        };
        if gives_up {
            let (sequence, rounds) = (record.header.sequence, record.rounds);
            core.fail(Failure::Record {
                sequence,
                rounds,
                log_index: failed,
                block: position,
                error: error.to_string(),
            });
            return Ended::NotYet;
        }
        self.try_all_again(core, context, record)
    }

    /// Every place failed: all of them are tried once more after a pause, or the record is let go.
    fn try_all_again(
        &mut self,
        core: &mut Core,
        context: RecordContext,
        mut record: Record,
    ) -> Ended {
        let failed = record.header.log_index;
        if record.rounds == 1 {
            record.snapshot_then = context.snapshot_number;
        }
        // None begins while a record that moves blocks is on its way, and nobody waits for what that says.
        let works = record.moves() || context.snapshot_number > record.snapshot_then;
        if works && record.rounds >= ROUNDS_OF_PLACES {
            core.logs_mut().end_rest(failed);
            if self.may_let_go(&record, context.is_atomic) {
                return Ended::LetGo(record);
            }
        }
        core.logs_mut().forget_bad_places(failed);
        // All logs may be tried again, as far as they do not rest.
        record.failed_logs = vec![failed];
        let rounds = record.rounds;
        self.send_again(core, record, false);
        if let Some(again) = self.again.as_mut() {
            again.anywhere = true;
        }
        // It claims logs, if those that are claimed rest, and it frees what only records before it need.
        let is_lost = core.logs().is_lost(failed);
        if is_lost || rounds >= ROUNDS_MANY { Ended::NeedsSnapshot } else { Ended::NotYet }
    }

    /// A place in a log that has room for the record, and does not rest.
    fn another_spot(&mut self, core: &Core, record: &Record) -> Option<Spot> {
        if record.failed_logs.len() >= LOGS_TRIED_MAX || !journal_has_place(core) {
            return None;
        }
        self.placer.choose(core, Need { blocks: record.blocks, reserve: 0 })
    }

    fn move_record(&mut self, core: &Core, record: &mut Record, log_index: u32) {
        record.pending -= 1;
        if self.again.take().is_some_and(|again| again.journal) {
            // A copy of the header that it has no longer: the new one gets its own.
            record.pending -= 1;
        }
        let ring = core.logs().get(log_index);
        record.attempts = 0;
        record.header.log_index = log_index;
        record.header.previous_position = ring.map_or(NO_PREVIOUS, Ring::previous_position);
        record.header.oldest_live_position = ring.map_or(0, Ring::oldest_live_position);
    }

    /// Whether the record waits for space.
    pub(crate) fn is_short_of_space(&self) -> bool {
        self.is_short_of_space
    }
}

/// Another place in the log where the record failed last, though that rests.
fn spot_at_hand(core: &Core, record: &Record) -> Option<Spot> {
    let log_index = record.header.log_index;
    let logs = core.logs();
    let ring = logs.get(log_index).filter(|_| !logs.is_lost(log_index))?;
    let block = ring.place(Need { blocks: record.blocks, reserve: 0 })?;
    let spot = Spot { log_index, block, wanted_index: log_index };
    journal_has_place(core).then_some(spot)
}
