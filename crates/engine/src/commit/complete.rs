//! A record's transfer ended: the map learns of it, or it is written elsewhere.

use super::Commit;
use super::journal::journal_offset;
use super::parts::Part;
use super::record::Record;
use crate::core::Core;
use crate::state::{CopyNumber, Fate};
use nearhead_disk::{DiskError, Payload};
use nearhead_format::Entry;

/// What follows from the end of a transfer.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The record is on its way, here or elsewhere.
    NotYet,
    /// It waits to be sent again, and a snapshot would help.
    NeedsSnapshot,
    /// It is durable, and the map says so; whoever a part belongs to is to be told.
    Durable(Record),
    /// No place takes it, and none will: its parts go back to where they came from.
    LetGo(Record),
}

/// What a record's end depends on beside what is the commit's own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordContext {
    /// Number of the newest snapshot.
    pub(super) snapshot_number: u64,
    /// The one being written finds no space.
    pub(super) snapshot_is_short: bool,
    /// Time and again none can be written.
    pub(super) snapshots_fail: bool,
    /// The record carries what is atomic, and so can go nowhere else.
    pub(super) is_atomic: bool,
}

impl RecordContext {
    /// The newest snapshot is this one, and no part of the record is atomic; snapshots can be written.
    pub(crate) fn new(snapshot_number: u64) -> Self {
        Self { snapshot_number, snapshot_is_short: false, snapshots_fail: false, is_atomic: false }
    }

    /// Whether the snapshot being written finds no space, and whether none can be written time and again.
    pub(crate) fn with_snapshots(self, snapshot_is_short: bool, snapshots_fail: bool) -> Self {
        Self { snapshot_is_short, snapshots_fail, ..self }
    }

    /// Whether the record carries what is atomic.
    pub(crate) fn with_atomic(self, is_atomic: bool) -> Self {
        Self { is_atomic, ..self }
    }
}

impl Commit {
    /// The transfer of the record ended.
    pub(crate) fn on_record(
        &mut self,
        core: &mut Core,
        context: RecordContext,
        result: Result<Payload, DiskError>,
    ) -> Ended {
        match result {
            Ok(_) => self.part_is_done(core, context),
            Err(error) => self.part_failed(core, context, false, &error),
        }
    }

    /// That of its header's copy did.
    pub(crate) fn on_journal(
        &mut self,
        core: &mut Core,
        context: RecordContext,
        extent: Option<(u64, u64)>,
        result: Result<Payload, DiskError>,
    ) -> Ended {
        let at = self.in_flight.as_ref().and_then(|record| record.journal_at);
        let place = at.and_then(|position| journal_offset(core, position));
        match result {
            Ok(_) => self.part_is_done(core, context),
            // Of a header that the record no longer has, since it went to another log: nobody needs it. To send
            // the present one in its stead would be one copy for two that are waited for.
            Err(_) if extent.map(|(offset, _)| offset) != place => self.part_is_done(core, context),
            Err(error) => self.part_failed(core, context, true, &error),
        }
    }

    /// One transfer of the record in flight is durable; with the last one the record is.
    fn part_is_done(&mut self, core: &mut Core, context: RecordContext) -> Ended {
        let Some(mut record) = self.in_flight.take() else { return Ended::NotYet };
        record.pending -= 1;
        if record.pending > 0 {
            self.in_flight = Some(record);
            return Ended::NotYet;
        }
        self.note_durable(core, context, &record);
        Ended::Durable(record)
    }

    fn note_durable(&mut self, core: &mut Core, context: RecordContext, record: &Record) {
        self.journal_from = None;
        self.rests.end(core.lanes().has_bulk_beside_logs(), core.admission());
        if let Some(since) = record.wanted_since {
            core.durable_took(core.now().since(since));
        }
        if std::mem::take(&mut self.is_short_of_space) && !context.snapshot_is_short {
            core.note_space();
        }
        core.logs_mut().note_well(record.header.log_index);
        let (moved, named) = (fates(core, record.moved()), fates(core, record.named()));
        let fate = |copy| {
            let fate = match copy {
                CopyNumber::Chunk(number) => moved.get(number),
                CopyNumber::Move(number) => named.get(number),
            };
            fate.copied().unwrap_or(Fate::Counts)
        };
        core.recorded_mut().apply(&record.header, record.blocks, fate);
        core.remember(&record.header, &record.payload);
        let fragments = &record.header.fragments;
        core.stats_mut().fragments += fragments.len() as u64;
        let bytes = fragments.iter().map(|fragment| fragment.bytes.len() as u64);
        core.stats_mut().fragment_bytes += bytes.sum::<u64>();
        self.note_told(&record.header);
        for part in &record.parts {
            match part {
                Part::TakenBack { count } => {
                    for stale in self.invalidations.commit(*count) {
                        stale.copy().inspect(|entry| core.logs_mut().drop_live(entry));
                    }
                }
                Part::Staged { end } => self.note_committed(*end),
                Part::Moved { .. } | Part::Named { .. } | Part::Released { .. } => {}
            }
        }
    }
}

/// What becomes of each chunk of a record that moved these.
fn fates(core: &Core, moved: &[Entry]) -> Vec<Fate> {
    // What of a move was overwritten or cut since: both copies hold the same bytes, and the map keeps the older.
    let holds = |old| core.layers().holds(old);
    let fate = |old| if holds(old) { Fate::Counts } else { Fate::Superseded };
    moved.iter().map(fate).collect()
}
