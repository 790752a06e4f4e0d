//! Mistakes made on purpose, to see that the tests find them.
//!
//! A test that never failed proves nothing. Each mistake here is one that somebody could make; the code in
//! question asks [`is_made`], which is a constant `false` unless everything was built with `--cfg planted`.
//! Then one mistake at a time is chosen for the whole process: by [`choose`], or for programs that know
//! nothing of it, such as tests, by the environment (`NEARHEAD_PLANTED=flush-skipped`). `cargo xtask
//! planted` makes each of them and says what finds it, and how soon.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "`Mistake::what` says each")]
pub enum Mistake {
    FlushSkipped,
    RecordNotDurable,
    AckBeforeRecord,
    InvalidationTooEarly,
    InvalidationForgotten,
    InvalidationSettledByOneSnapshot,
    ClaimForgotten,
    SlotReusedEarly,
    LiveSpaceReused,
    InvalidationNotReplayed,
    CheckpointOverInPlace,
    CheckpointOfOverwritten,
    SwapOverNewer,
    RingOffByOne,
    FragmentLost,
    SnapshotHeaderTooEarly,
    SnapshotCopyMissing,
    ChainGapIgnored,
    TornRecordAccepted,
    RecoveryNotFlushed,
    RecordErrorIgnored,
    FlushErrorIgnored,
    ChecksumNotCompared,
    AtomicWriteSplit,
    OlderCopyRead,
    WrapTailReused,
    SnapshotReadErrorIgnored,
    TornRecordLeft,
}

impl Mistake {
    /// All of them.
    pub const ALL: [Self; 28] = [
        Self::FlushSkipped,
        Self::RecordNotDurable,
        Self::AckBeforeRecord,
        Self::InvalidationTooEarly,
        Self::InvalidationForgotten,
        Self::InvalidationSettledByOneSnapshot,
        Self::ClaimForgotten,
        Self::SlotReusedEarly,
        Self::LiveSpaceReused,
        Self::InvalidationNotReplayed,
        Self::CheckpointOverInPlace,
        Self::CheckpointOfOverwritten,
        Self::SwapOverNewer,
        Self::RingOffByOne,
        Self::FragmentLost,
        Self::SnapshotHeaderTooEarly,
        Self::SnapshotCopyMissing,
        Self::ChainGapIgnored,
        Self::TornRecordAccepted,
        Self::RecoveryNotFlushed,
        Self::RecordErrorIgnored,
        Self::FlushErrorIgnored,
        Self::ChecksumNotCompared,
        Self::AtomicWriteSplit,
        Self::OlderCopyRead,
        Self::WrapTailReused,
        Self::SnapshotReadErrorIgnored,
        Self::TornRecordLeft,
    ];

    /// What it is called on a command line.
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    /// What is done wrong.
    pub const fn what(self) -> &'static str {
        self.words().1
    }

    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::FlushSkipped => ("flush-skipped", "a flush is answered without a device flush"),
            Self::RecordNotDurable => ("record-not-durable", "records are written without FUA"),
            Self::AckBeforeRecord => ("ack-before-record", "FUA is answered before its record is"),
            Self::InvalidationTooEarly => (
                "invalidation-too-early",
                "older copies are taken back before the newer is durable",
            ),
            Self::InvalidationForgotten => {
                ("invalidation-forgotten", "in-place writes take nothing back")
            }
            Self::InvalidationSettledByOneSnapshot => (
                "invalidation-settled-by-one-snapshot",
                "one snapshot without an entry counts as its end, the other still has it",
            ),
            Self::ClaimForgotten => ("claim-forgotten", "records claim the log they are in"),
            Self::SlotReusedEarly => {
                ("slot-reused-early", "log space is used again that a recovery needs")
            }
            Self::LiveSpaceReused => {
                ("live-space-reused", "log space is used again that the map points to")
            }
            Self::InvalidationNotReplayed => {
                ("invalidation-not-replayed", "recovery replays writes, not what was taken back")
            }
            Self::CheckpointOverInPlace => {
                ("checkpoint-over-in-place", "in-place writes do not wait for a checkpoint")
            }
            Self::CheckpointOfOverwritten => {
                ("checkpoint-of-overwritten", "a checkpoint lets go of what was written meanwhile")
            }
            Self::SwapOverNewer => {
                ("swap-over-newer", "a swap replaces what was written meanwhile")
            }
            Self::RingOffByOne => ("ring-off-by-one", "a record ends one block early"),
            Self::FragmentLost => {
                ("fragment-lost", "what is left behind a newer piece of a block is dropped")
            }
            Self::SnapshotHeaderTooEarly => {
                ("snapshot-header-too-early", "a snapshot counts before its body is durable")
            }
            Self::SnapshotCopyMissing => {
                ("snapshot-copy-missing", "a snapshot counts without a copy of its header")
            }
            Self::ChainGapIgnored => {
                ("chain-gap-ignored", "recovery passes over records that are missing")
            }
            Self::TornRecordAccepted => {
                ("torn-record-accepted", "recovery takes a torn record for a whole one")
            }
            Self::RecoveryNotFlushed => {
                ("recovery-not-flushed", "what recovery read may still be lost")
            }
            Self::RecordErrorIgnored => {
                ("record-error-ignored", "a record that failed counts as written")
            }
            Self::FlushErrorIgnored => {
                ("flush-error-ignored", "a device flush that failed counts as done")
            }
            Self::ChecksumNotCompared => {
                ("checksum-not-compared", "reads return what the log holds, sound or not")
            }
            Self::AtomicWriteSplit => {
                ("atomic-write-split", "an atomic write may go into several records")
            }
            Self::OlderCopyRead => {
                ("older-copy-read", "reads prefer the block in flight to the newer staged one")
            }
            Self::WrapTailReused => (
                "wrap-tail-reused",
                "the end of a ring that a record did not fit into is used again",
            ),
            Self::SnapshotReadErrorIgnored => (
                "snapshot-read-error-ignored",
                "a volume opens from the older snapshot when the newer cannot be read",
            ),
            Self::TornRecordLeft => (
                "torn-record-left",
                "a torn record stays where it is, though its sequence is used again",
            ),
        }
    }

    /// The mistake with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mistake| mistake.name() == name)
    }
}

/// The environment's variable that names a mistake.
pub const VARIABLE: &str = "NEARHEAD_PLANTED";

/// Nobody chose yet, and the environment was not asked either.
#[cfg(planted)]
const UNASKED: u8 = u8::MAX;

#[cfg(planted)]
static CHOSEN: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(UNASKED);

/// The number of the chosen mistake, from 1 on; 0 for none.
#[cfg(planted)]
fn chosen() -> u8 {
    use std::sync::atomic::Ordering;
    let known = CHOSEN.load(Ordering::Relaxed);
    if known != UNASKED {
        return known;
    }
    let named = std::env::var(VARIABLE).ok().map(|name| {
        Mistake::by_name(&name).unwrap_or_else(|| panic!("{VARIABLE}: no mistake is called {name}"))
    });
    choose(named);
    CHOSEN.load(Ordering::Relaxed)
}

/// Makes this mistake from now on, or none. Without `--cfg planted` nothing changes.
pub fn choose(mistake: Option<Mistake>) {
    #[cfg(planted)]
    CHOSEN.store(
        mistake.map_or(0, |mistake| mistake as u8 + 1),
        std::sync::atomic::Ordering::Relaxed,
    );
    #[cfg(not(planted))]
    let _ = mistake;
}

/// Whether mistakes can be made at all: whether this is a build with `--cfg planted`.
pub const fn is_planted() -> bool {
    cfg!(planted)
}

/// Whether this mistake is to be made.
#[inline]
pub fn is_made(mistake: Mistake) -> bool {
    #[cfg(planted)]
    return chosen() == mistake as u8 + 1;
    #[cfg(not(planted))]
    {
        let _ = mistake;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mistake_is_made_unless_it_was_planted() {
        choose(Some(Mistake::FlushSkipped));
        assert_eq!(is_made(Mistake::FlushSkipped), is_planted());
        choose(None);
        for (number, mistake) in Mistake::ALL.into_iter().enumerate() {
            assert!(!is_made(mistake) && mistake as usize == number);
            assert_eq!(Mistake::by_name(mistake.name()), Some(mistake));
        }
    }
}
