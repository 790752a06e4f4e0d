//! What an engine is doing at one moment: for tests, which look for company that rarely comes together.
//!
//! Each activity is one bit, so that a test can ask at every command which of them are under way at once, and
//! cut the power exactly there. It only looks: nothing in the engine may ask for it, and no policy may depend on
//! it. What excludes each other by design is said here too, so that a report names only what could be seen.

use nearhead_disk::{Lane, RangeSet};
use std::collections::BTreeMap;

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
