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
    StripeFlushedInPart,
    MirrorFlushedInPart,
    MirrorMemberKept,
    MirrorUseUnmarked,
    MirrorShowsOne,
    MirrorPieceOverNewer,
    MirrorPieceUnflushed,
    MirrorTornInRepair,
    DurableWritesAssumed,
    DurableFlagDropped,
    WriteCacheInverted,
    DurableFileNotDurable,
    DeviceFlushNotSent,
}

/// Each mistake, what it is called on a command line, and what is done wrong; in the order of [`Mistake`].
const MISTAKES: [(Mistake, &str, &str); 41] = [
    (Mistake::FlushSkipped, "flush-skipped", "a flush is answered without a device flush"),
    (Mistake::RecordNotDurable, "record-not-durable", "records are written without FUA"),
    (Mistake::AckBeforeRecord, "ack-before-record", "FUA is answered before its record is"),
    (
        Mistake::InvalidationTooEarly,
        "invalidation-too-early",
        "older copies are taken back before the newer is durable",
    ),
    (Mistake::InvalidationForgotten, "invalidation-forgotten", "in-place writes take nothing back"),
    (
        Mistake::InvalidationSettledByOneSnapshot,
        "invalidation-settled-by-one-snapshot",
        "one snapshot without an entry counts as its end, the other still has it",
    ),
    (Mistake::ClaimForgotten, "claim-forgotten", "records claim the log they are in"),
    (
        Mistake::SlotReusedEarly,
        "slot-reused-early",
        "log space is used again that a recovery needs",
    ),
    (
        Mistake::LiveSpaceReused,
        "live-space-reused",
        "log space is used again that the map points to",
    ),
    (
        Mistake::InvalidationNotReplayed,
        "invalidation-not-replayed",
        "recovery replays writes, not what was taken back",
    ),
    (
        Mistake::CheckpointOverInPlace,
        "checkpoint-over-in-place",
        "in-place writes do not wait for a checkpoint",
    ),
    (
        Mistake::CheckpointOfOverwritten,
        "checkpoint-of-overwritten",
        "a checkpoint lets go of what was written meanwhile",
    ),
    (Mistake::SwapOverNewer, "swap-over-newer", "a swap replaces what was written meanwhile"),
    (Mistake::RingOffByOne, "ring-off-by-one", "a record ends one block early"),
    (
        Mistake::FragmentLost,
        "fragment-lost",
        "what is left behind a newer piece of a block is dropped",
    ),
    (
        Mistake::SnapshotHeaderTooEarly,
        "snapshot-header-too-early",
        "a snapshot counts before its body is durable",
    ),
    (
        Mistake::SnapshotCopyMissing,
        "snapshot-copy-missing",
        "a snapshot counts without a copy of its header",
    ),
    (
        Mistake::ChainGapIgnored,
        "chain-gap-ignored",
        "recovery passes over records that are missing",
    ),
    (
        Mistake::TornRecordAccepted,
        "torn-record-accepted",
        "recovery takes a torn record for a whole one",
    ),
    (Mistake::RecoveryNotFlushed, "recovery-not-flushed", "what recovery read may still be lost"),
    (Mistake::RecordErrorIgnored, "record-error-ignored", "a record that failed counts as written"),
    (
        Mistake::FlushErrorIgnored,
        "flush-error-ignored",
        "a device flush that failed counts as done",
    ),
    (
        Mistake::ChecksumNotCompared,
        "checksum-not-compared",
        "reads return what the log holds, sound or not",
    ),
    (
        Mistake::AtomicWriteSplit,
        "atomic-write-split",
        "an atomic write may go into several records",
    ),
    (
        Mistake::OlderCopyRead,
        "older-copy-read",
        "reads prefer the block in flight to the newer staged one",
    ),
    (
        Mistake::WrapTailReused,
        "wrap-tail-reused",
        "the end of a ring that a record did not fit into is used again",
    ),
    (
        Mistake::SnapshotReadErrorIgnored,
        "snapshot-read-error-ignored",
        "a volume opens from the older snapshot when the newer cannot be read",
    ),
    (
        Mistake::TornRecordLeft,
        "torn-record-left",
        "a torn record stays where it is, though its sequence is used again",
    ),
    (
        Mistake::StripeFlushedInPart,
        "stripe-flushed-in-part",
        "a flush of a stripe reaches its first member only",
    ),
    (
        Mistake::MirrorFlushedInPart,
        "mirror-flushed-in-part",
        "a flush of a mirror reaches its first member only",
    ),
    (
        Mistake::MirrorMemberKept,
        "mirror-member-kept",
        "a member of a mirror that missed a write is read from as before",
    ),
    (
        Mistake::MirrorUseUnmarked,
        "mirror-use-unmarked",
        "a mirror is written to before its labels say so",
    ),
    (
        Mistake::MirrorShowsOne,
        "mirror-shows-one",
        "where members of a mirror may differ a read shows what one of them holds",
    ),
    (
        Mistake::MirrorPieceOverNewer,
        "mirror-piece-over-newer",
        "a change does not wait for the piece that is copied to the same place",
    ),
    (
        Mistake::MirrorPieceUnflushed,
        "mirror-piece-unflushed",
        "a member that was copied to counts before that is flushed",
    ),
    (
        Mistake::MirrorTornInRepair,
        "mirror-torn-in-repair",
        "the member to go by is written over while its label says that it is",
    ),
    (
        Mistake::DurableWritesAssumed,
        "durable-writes-assumed",
        "every file system is taken to honour the flag of a durable write",
    ),
    (
        Mistake::DurableFlagDropped,
        "durable-flag-dropped",
        "a durable write reaches the kernel without its flag",
    ),
    (
        Mistake::WriteCacheInverted,
        "write-cache-inverted",
        "the attribute of a device's write cache is read the wrong way round",
    ),
    (
        Mistake::DurableFileNotDurable,
        "durable-file-not-durable",
        "a log's file is written without the flag of a durable write",
    ),
    (
        Mistake::DeviceFlushNotSent,
        "device-flush-not-sent",
        "a flush of a real disk is answered without a system call",
    ),
];

impl Mistake {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        MISTAKES.into_iter().map(|(mistake, ..)| mistake)
    }

    /// What it is called on a command line.
    pub const fn name(self) -> &'static str {
        MISTAKES[self as usize].1
    }

    /// What is done wrong.
    pub const fn what(self) -> &'static str {
        MISTAKES[self as usize].2
    }

    /// The mistake with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().find(|mistake| mistake.name() == name)
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
        for (number, mistake) in Mistake::all().enumerate() {
            assert!(!is_made(mistake) && mistake as usize == number);
            assert_eq!(Mistake::by_name(mistake.name()), Some(mistake));
        }
    }

    #[test]
    fn every_mistake_says_in_its_own_words_what_is_done_wrong() {
        let words: std::collections::BTreeSet<_> = Mistake::all().map(Mistake::what).collect();
        assert_eq!(words.len(), Mistake::all().count());
        assert!(words.iter().all(|what| what.split_whitespace().count() >= 4), "{words:?}");
    }
}
