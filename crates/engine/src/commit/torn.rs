//! What a power cut left of records that nobody was promised, made to stay no records for good.
//!
//! The next record gets the sequence of the torn one, and may stand in another log. Later a record is written
//! where the torn one stands, and a power cut may tear that one so that the rest of the torn record is whole:
//! a lost sector of padding or payload, written anew with the same bytes. Then two sound records would have one
//! sequence, and nothing would say which of them was acknowledged. So before the first record after a recovery
//! the first sector of all remains is overwritten with zeros, durably. That one alone: if the power goes in the
//! middle of it the record is as torn as before. Zeros further on could be just what it lacks, and once whole it
//! would stand over what was written in place since, and acknowledged. If that sector is bad, no record gets their
//! sequence. Nor does a snapshot begin before that: it might let go of the log, so that the next recovery does not see them.

use super::Commit;
use crate::core::Core;
use crate::disk::dispatch::Purpose;
use crate::failure::Failure;
use nearhead_disk::{Class, Command, DiskError, Payload, SECTOR_BYTES};

/// Failures in a row until the sequence of the remains is passed over (`unused.rs`).
const FAILURES_MAX: u32 = 8;

/// Where recovery found remains that are not cleared yet.
#[derive(Debug, Default)]
pub(crate) struct TornRecords {
    /// Device bytes where they begin.
    offsets: Vec<u64>,
    /// The highest sequence that any of them says it has.
    sequence: u64,
    is_clearing: bool,
    failures: u32,
}

impl TornRecords {
    pub(crate) fn note(&mut self, offsets: impl IntoIterator<Item = u64>, sequence: u64) {
        self.offsets.extend(offsets);
        self.sequence = sequence;
    }

    pub(super) fn is_being_cleared(&self) -> bool {
        self.is_clearing
    }
}

impl Commit {
    /// Whether there are remains: what stands there is overwritten before the next record.
    pub(crate) fn has_remains(&self) -> bool {
        !self.torn.offsets.is_empty()
    }

    /// Whether a record must wait, because there are remains; begins to clear them.
    pub(crate) fn clears_torn_records(&mut self, core: &mut Core) -> bool {
        let Some(offset) = self.torn.offsets.last().copied() else { return false };
        if !std::mem::replace(&mut self.torn.is_clearing, true) {
            let parts = vec![Payload::Zeros(core.setup().properties.sector_bytes as usize)];
            let durable = core.flusher().is_needed();
            core.issue(Class::Durable, Purpose::Torn, Command::Write { offset, parts, durable });
        }
        true
    }

    /// The first sector of one of them is zeros, or cannot be written; says which sequence must not be used, if any.
    pub(crate) fn on_torn_cleared(
        &mut self,
        core: &mut Core,
        result: &Result<Payload, DiskError>,
    ) -> Option<u64> {
        let torn = &mut self.torn;
        torn.is_clearing = false;
        let offset = torn.offsets.last().copied().unwrap_or_default();
        // What stands on a link that is lost is not read before the log is begun anew, by a record that is newer.
        let is_lost = core.logs().is_lost(core.logs().log_of(offset / SECTOR_BYTES));
        let Some(error) = result.as_ref().err().filter(|_| !is_lost) else {
            torn.offsets.pop();
            torn.failures = 0;
            return None;
        };
        torn.failures += 1;
        if torn.failures < FAILURES_MAX {
            return None;
        }
        if torn.sequence == core.recorded().sequence_done() + 1 {
            // They stay what they are, below the sequence of any record to come.
            return Some(std::mem::take(torn).sequence);
        }
        core.fail(Failure::Remains { offset, error: error.to_string() });
        None
    }
}
