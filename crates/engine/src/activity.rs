//! What an engine is doing at one moment: for tests, which look for company that rarely comes together.
//!
//! Each activity is one bit, so that a test can ask at every command which of them are under way at once, and
//! cut the power exactly there. It only looks: nothing in the engine may ask for it, and no policy may depend on
//! it. What excludes each other by design is said here too, so that a report names only what could be seen.

use crate::engine::{Engine, Phase};
use nearhead_disk::{Lane, RangeSet, SECTOR_BYTES};
use nearhead_format::Place;
use std::collections::BTreeMap;
use std::ops::Range;

/// Makes the enumeration and its names from one list.
macro_rules! activities {
    ($($variant:ident $name:literal,)*) => {
        /// Something an engine may be doing.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "`Activity::name` says each")]
        pub enum Activity {
            $($variant,)*
        }

        impl Activity {
            /// Every one, in the order of their bits.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// What it is called in reports and on command lines.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

activities! {
    RecordOfWrites "record-of-writes",
    RecordThatTakesBack "record-that-takes-back",
    RecordThatReleases "record-that-releases",
    RecordThatMoves "record-that-moves",
    RecordThatClaims "record-that-claims",
    RecordElsewhere "record-elsewhere",
    JournalEntry "journal-entry",
    CheckpointRead "checkpoint-read",
    CheckpointWrite "checkpoint-write",
    CheckpointFlush "checkpoint-flush",
    CheckpointRelease "checkpoint-release",
    CheckpointSettle "checkpoint-settle",
    SwapRead "swap-read",
    SwapChunks "swap-chunks",
    SnapshotBody "snapshot-body",
    SnapshotFlush "snapshot-flush",
    SnapshotHeader "snapshot-header",
    SnapshotCopy "snapshot-copy",
    SnapshotFailed "snapshot-failed",
    TakenBackUnflushed "taken-back-unflushed",
    TakenBackReady "taken-back-ready",
    Flush "flush",
    SpillWrite "spill-write",
    SpillSettle "spill-settle",
    TornClear "torn-clear",
    InPlaceWrite "in-place-write",
    BlockedInPlace "blocked-in-place",
    StageFull "stage-full",
    Barrier "barrier",
    Quarantine "quarantine",
    Stop "stop",
    Recovery "recovery",
}

/// Which are under way at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Activities(pub u64);

impl Activities {
    pub(crate) fn note(&mut self, activity: Activity, is_under_way: bool) {
        self.0 |= u64::from(is_under_way) << activity as u8;
    }

    /// Whether this one is among them.
    pub fn has(self, activity: Activity) -> bool {
        self.0 >> activity as u8 & 1 == 1
    }

    /// Whether all of `others` are among them.
    pub fn has_all(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Those two.
    pub fn pair(one: Activity, other: Activity) -> Self {
        Self(1 << one as u8 | 1 << other as u8)
    }

    /// One after the other.
    pub fn iter(self) -> impl Iterator<Item = Activity> {
        Activity::ALL.iter().copied().filter(move |activity| self.has(*activity))
    }
}

impl Activity {
    /// The one with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|activity| activity.name() == name)
    }

    /// Steps of one thing, of which one at most is under way.
    fn thing(self) -> Option<u8> {
        match self {
            Self::CheckpointRead
            | Self::CheckpointWrite
            | Self::CheckpointFlush
            | Self::CheckpointRelease
            | Self::CheckpointSettle => Some(0),
            Self::SnapshotBody
            | Self::SnapshotFlush
            | Self::SnapshotHeader
            | Self::SnapshotCopy => Some(1),
            Self::SpillWrite | Self::SpillSettle => Some(2),
            _ => None,
        }
    }

    fn is_of_a_record(self) -> bool {
        self <= Self::RecordElsewhere
    }

    /// Whether the two can never be under way at once.
    pub fn excludes(self, other: Self) -> bool {
        let is_pair = |one, two| (self, other) == (one, two) || (self, other) == (two, one);
        let same_thing = self.thing().is_some() && self.thing() == other.thing();
        let alone = |one: Self| matches!(one, Self::Recovery);
        let no_record = |one: Self| matches!(one, Self::TornClear);
        let torn =
            no_record(self) && other.is_of_a_record() || no_record(other) && self.is_of_a_record();
        same_thing
            || torn
            || alone(self)
            || alone(other)
            || is_pair(Self::RecordOfWrites, Self::RecordThatMoves)
            || is_pair(Self::RecordThatReleases, Self::RecordThatMoves)
            // Remains are cleared before the first record, and an entry is part of one.
            || is_pair(Self::TornClear, Self::JournalEntry)
            // What is staged has left the stage for its record or for its home.
            || is_pair(Self::RecordOfWrites, Self::SpillWrite)
            || is_pair(Self::RecordOfWrites, Self::SpillSettle)
    }
}

/// Bytes of each of a volume's devices.
pub type Space = BTreeMap<Lane, RangeSet>;

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
            now.note(Activity::JournalEntry, self.core.journal.is_some());
        }
        let steps = [self.checkpoint.activity(), self.snapshotter.activity()];
        steps.into_iter().flatten().for_each(|step| now.note(step, true));
        // The same write, of an older snapshot's header.
        if self.is_restoring_header() {
            now.note(Activity::SnapshotCopy, true);
        }
        now.note(Activity::SnapshotFailed, self.snapshotter.has_failed());
        let swaps = self.swap.is_busy();
        now.note(Activity::SwapChunks, self.swap.has_chunks());
        now.note(Activity::SwapRead, swaps && !self.swap.has_chunks());
        now.note(Activity::TakenBackUnflushed, self.invalidations.has_unready());
        now.note(Activity::TakenBackReady, self.invalidations.ready_len() > 0);
        now.note(Activity::Flush, self.lanes.is_flushing());
        let spill = self.spill.as_ref().map(crate::home::spill::Spill::is_written);
        now.note(Activity::SpillWrite, spill == Some(false));
        now.note(Activity::SpillSettle, spill == Some(true));
        now.note(Activity::TornClear, self.commit.is_clearing_torn());
        self.requests.note_activities(&mut now);
        now.note(Activity::Quarantine, self.core.logs.present().any(|(_, ring)| ring.quarantined));
        now
    }

    /// Number of the newest committed snapshot.
    pub fn snapshot_number(&self) -> u64 {
        self.snapshotter.number()
    }

    /// Bytes of logs and journal that the next records may overwrite, but for those of the record on its way, and of logs
    /// that may hold the last record once more.
    pub fn open_space(&self) -> Space {
        let mut open = RangeSet::new();
        for index in 0..self.core.logs.count() {
            let whole = self.log_bytes(index, 0, self.setup.layout.log_blocks());
            let Some(ring) = self.core.logs.get(index) else {
                open.insert(whole);
                continue;
            };
            // A record that failed here may be whole all the same. It stands elsewhere, too, so that nothing needs
            // this copy, but a recovery counts it as used.
            let is_newest = self.commit.failed_sequence() >= Some(self.core.sequence_done());
            let may_hold_twin = ring.failures > 0 || is_newest;
            let free = if may_hold_twin { 0 } else { ring.free_run_blocks() };
            for (start, end) in ring.run(ring.position, free) {
                open.insert(self.log_bytes(index, start, end));
            }
        }
        if let Some(record) = self.commit.in_flight() {
            // What it leaves out before it, or at the end of its log, is protected as well.
            let (index, start) = (record.header().log_index, record.header().position);
            let capacity = self.setup.layout.log_blocks();
            let position = self.core.logs.get(index).map_or(0, |ring| ring.position);
            let end = position + (start + capacity - position) % capacity + record.blocks();
            open.remove(self.log_bytes(index, position, end.min(capacity)));
            open.remove(self.log_bytes(index, 0, end.saturating_sub(capacity)));
        }
        let mut space = Space::from([(Lane::MAIN, open)]);
        if let Some(journal) = &self.core.journal {
            let (ring, of_map) = (&journal.ring, space.entry(self.setup.map.lane).or_default());
            for (start, end) in ring.run(ring.position, ring.free_run_blocks()) {
                of_map.insert(journal.bytes_of(start, end));
            }
        }
        space
    }

    /// Bytes of logs and journal that a recovery from here on would need: what the map points to, and records since the
    /// newest snapshot.
    pub fn needed_space(&self) -> Space {
        let mut needed = RangeSet::new();
        for entry in &self.core.map {
            if let Place::Log { chunk_sector, chunk_len, .. } = entry.place {
                let end = chunk_sector + u64::from(chunk_len);
                needed.insert(chunk_sector * SECTOR_BYTES..end * SECTOR_BYTES);
            }
        }
        // With a journal nobody looks for records in the logs.
        let scanned = self.core.logs.present().filter(|_| self.core.journal.is_none());
        for (index, ring) in scanned {
            for (start, end) in ring.protected() {
                needed.insert(self.log_bytes(index, start, end));
            }
        }
        let mut space = Space::from([(Lane::MAIN, needed)]);
        if let Some(journal) = &self.core.journal {
            let of_map = space.entry(self.setup.map.lane).or_default();
            for (start, end) in journal.ring.protected() {
                of_map.insert(journal.bytes_of(start, end));
            }
        }
        space
    }

    /// Home sectors that the map speaks of.
    pub fn mapped_homes(&self) -> RangeSet {
        let mut homes = RangeSet::new();
        for entry in &self.core.map {
            homes.insert(entry.home_sector..entry.end_sector());
        }
        homes
    }

    /// Home sectors of which a recovery from here on may find a logged copy: a copy of any other would be one that
    /// nobody takes back when the sector is written in place.
    pub fn known_homes(&self) -> RangeSet {
        let mut homes = self.mapped_homes();
        for entry in self.invalidations.entries() {
            homes.insert(entry.home_sector..entry.end_sector());
        }
        // One that was let go comes before all that is written from now on.
        let in_flight =
            self.commit.in_flight().into_iter().flat_map(|record| &record.header().writes);
        for item in in_flight.chain(self.commit.let_go()) {
            let range = item.range();
            homes.insert(range.start_sector..range.end_sector());
        }
        homes
    }

    fn log_bytes(&self, index: u32, start: u32, end: u32) -> Range<u64> {
        let layout = &self.setup.layout;
        let (log, block) = (layout.log_offset(index).unwrap_or(0), layout.log_block_bytes);
        let at = |position: u32| log + u64::from(position) * u64::from(block);
        at(start)..at(end)
    }

    /// Home sectors hinted durability-only.
    pub fn hints(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.core.hints().iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_activity_has_a_bit_and_a_name_of_its_own() {
        let mut all = Activities::default();
        for activity in Activity::ALL {
            assert!(!all.has(*activity));
            all.note(*activity, true);
            assert_eq!(Activity::by_name(activity.name()), Some(*activity));
        }
        assert_eq!(all.iter().collect::<Vec<_>>(), Activity::ALL);
        assert_eq!(all.0.count_ones() as usize, Activity::ALL.len());
    }

    #[test]
    fn exclusion_is_mutual_and_nothing_is_named_that_cannot_be() {
        for one in Activity::ALL {
            for other in Activity::ALL {
                assert_eq!(one.excludes(*other), other.excludes(*one), "{one:?} {other:?}");
            }
        }
        assert!(Activity::SnapshotBody.excludes(Activity::SnapshotCopy));
        assert!(!Activity::SnapshotBody.excludes(Activity::RecordThatMoves));
    }
}
