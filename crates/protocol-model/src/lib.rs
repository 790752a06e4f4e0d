//! A model of the engine's durable protocol, for a model checker that tries every order of events and
//! every crash: records and claims, in-place writes and their invalidations, checkpoints, swaps,
//! snapshots in two slots, reuse of log space, recovery.
//!
//! It is held to laws 1, 2 and 4 of SAFETY.md, to "no live slot is overwritten", and to "whoever waits
//! can be answered". It must never be kinder than the engine: each transition names the function whose
//! conditions it repeats (`engine.rs`, `clients.rs`, `cleaning.rs`, `recovery.rs`), and where the engine decides by policy or clock the
//! model leaves the choice open. [`Mistake`] takes conditions out, to prove that each one is needed and
//! that the model can fail.
//!
//! Of the bytes that fragments bring there is one run for each block, and its writes are told apart from those of the rest.
//!
//! Left out: contents and their damage (tears within a record, echoes, poison), errors of the disk,
//! the map device, more than one block in a checkpoint batch, the stage's bounds.

#![cfg_attr(test, allow(clippy::unwrap_used))]
#![expect(
    clippy::unused_self,
    reason = "every transition is called alike, whether it may be mistaken or not"
)]

mod checking;
mod cleaning;
mod clients;
mod engine;
mod recovery;
pub mod state;

pub use checking::{Action, Explored, explore, shortest_counterexample};
pub use recovery::{Fate, Outcome};

/// A condition of the engine that is left out on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mistake {
    /// An in-place write over a logged block queues no invalidation.
    ForgetInvalidation,
    /// An invalidation goes into a record before the in-place bytes are flushed.
    InvalidateBeforeFlush,
    /// A staged block is recorded although an older invalidation of it is still to come.
    StagePastUnready,
    /// An in-place write starts although an older write of the block is still in memory.
    InPlaceOverStaged,
    /// An in-place write starts while a checkpoint writes to the same home.
    InPlaceUnderCheckpoint,
    /// A checkpoint's release is recorded before its home write is flushed.
    ReleaseBeforeFlush,
    /// A slot is used again although the map points to it.
    ReuseLiveSlot,
    /// A slot is used again although a recovery must scan it.
    ReuseProtectedSlot,
    /// Space is given up when a snapshot begins instead of when it is durable.
    FreeBeforeSnapshotIsDurable,
    /// A log is written before its claim is durable.
    UseBeforeClaim,
    /// A claim that became durable after a snapshot let go of the ring begins it at its start.
    ForgetClaimedPosition,
    /// A write is acknowledged when its record is sent.
    AcknowledgeEarly,
    /// A relocated chunk replaces whatever the map says.
    SwapOverNewer,
    /// One record carries a relocation and a checkpoint's releases.
    RelocationBesideRelease,
    /// A snapshot begins while a relocation record is on its way.
    SnapshotBesideRelocation,
    /// The header of a snapshot is written before the flush behind its body.
    SnapshotHeaderEarly,
    /// An invalidation counts as settled once one snapshot lacks the stale copy.
    SettleByOneSnapshot,
    /// Requests are served before what a recovery read is flushed.
    RecoveryNotFlushed,
    /// Of several records in flight one says more than what clients wrote.
    SettleBesideWrites,
    /// Of several records in flight one that a recovery left out, behind a gap, stays where it is.
    KeepBehindGap,
    /// An in-place write goes home, though bytes lie over what is there, before a record has it.
    InPlaceUnderFragment,
    /// The same where they lie over a copy in a log, so that home is nothing to them.
    InPlaceUnderFragmentOfLog,
    /// For want of room a staged block goes home though bytes lie over what is there.
    SpillUnderFragment,
    /// A checkpoint lets go of bytes that came while it wrote their block home.
    ReleaseUnderFragment,
    /// A checkpoint of which snapshots say that its copies count no more ends before they do.
    EndBeforeSettled,
    /// A moved chunk drops what lies over it.
    MoveDropsFragment,
    /// A snapshot leaves out what lies over the map.
    SnapshotWithoutFragments,
}

impl Mistake {
    /// All of them.
    pub const ALL: [Self; 27] = [
        Self::ForgetInvalidation,
        Self::InvalidateBeforeFlush,
        Self::StagePastUnready,
        Self::InPlaceOverStaged,
        Self::InPlaceUnderCheckpoint,
        Self::ReleaseBeforeFlush,
        Self::ReuseLiveSlot,
        Self::ReuseProtectedSlot,
        Self::FreeBeforeSnapshotIsDurable,
        Self::UseBeforeClaim,
        Self::ForgetClaimedPosition,
        Self::AcknowledgeEarly,
        Self::SwapOverNewer,
        Self::RelocationBesideRelease,
        Self::SnapshotBesideRelocation,
        Self::SnapshotHeaderEarly,
        Self::SettleByOneSnapshot,
        Self::RecoveryNotFlushed,
        Self::SettleBesideWrites,
        Self::KeepBehindGap,
        Self::InPlaceUnderFragment,
        Self::InPlaceUnderFragmentOfLog,
        Self::SpillUnderFragment,
        Self::ReleaseUnderFragment,
        Self::EndBeforeSettled,
        Self::MoveDropsFragment,
        Self::SnapshotWithoutFragments,
    ];
}

/// How large the model is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Home blocks that clients write to, up to [`state::BLOCKS`].
    pub blocks: u8,
    /// Writes of each block.
    pub versions: u8,
    /// Slots of each log, up to [`state::SLOTS`].
    pub slots: u8,
    /// Records, over all logs.
    pub records: u8,
    /// Snapshots after the one of creation.
    pub snapshots: u8,
    /// Power cuts and kills.
    pub crashes: u8,
    /// Records on their way at once.
    pub records_in_flight: u8,
    /// Whether the newest snapshot may rot, once, at a power cut.
    pub rot: bool,
    /// Whether clients bring bytes of blocks as well.
    pub fragments: bool,
    /// Whether anything goes home or to another log by itself.
    pub cleaning: bool,
}

impl Bounds {
    /// One block, long histories.
    pub const DEEP: Self = Self {
        blocks: 1,
        versions: 2,
        slots: 2,
        records: 5,
        snapshots: 2,
        crashes: 2,
        records_in_flight: 1,
        rot: false,
        fragments: false,
        cleaning: true,
    };
    /// Two blocks and a snapshot that may rot.
    pub const WIDE: Self = Self { blocks: 2, slots: 3, rot: true, ..Self::DEEP };
    /// One block, some bytes of which are written beside all of it.
    pub const FRAGMENTS: Self =
        Self { versions: 3, records: 4, snapshots: 1, crashes: 1, fragments: true, ..Self::DEEP };
    /// Two records in flight, answered in order: what the engine does not do (docs/decisions.md), and what it would have to keep to.
    pub const SIDE_BY_SIDE: Self =
        Self { records: 4, snapshots: 0, records_in_flight: 2, ..Self::DEEP };
}

impl Mistake {
    /// Bounds within which it breaks a law soon.
    pub fn bounds(self) -> Bounds {
        let small = Bounds { records: 3, snapshots: 0, crashes: 1, ..Bounds::DEEP };
        match self {
            Self::StagePastUnready => Bounds { versions: 3, ..small },
            Self::InPlaceUnderFragmentOfLog | Self::SnapshotWithoutFragments => {
                Bounds { records: 2, cleaning: false, ..Bounds::FRAGMENTS }
            }
            Self::InPlaceUnderFragment
            | Self::SpillUnderFragment
            | Self::ReleaseUnderFragment
            | Self::EndBeforeSettled
            | Self::MoveDropsFragment => Bounds { snapshots: 0, ..Bounds::FRAGMENTS },
            Self::SettleBesideWrites | Self::KeepBehindGap => Bounds::SIDE_BY_SIDE,
            Self::RecoveryNotFlushed => Bounds { records: 1, crashes: 2, ..small },
            Self::SnapshotHeaderEarly => Bounds { records: 1, snapshots: 1, ..small },
            Self::ReuseLiveSlot | Self::FreeBeforeSnapshotIsDurable => {
                Bounds { snapshots: 1, ..small }
            }
            Self::SwapOverNewer => Bounds { records: 4, ..small },
            Self::ForgetClaimedPosition => {
                Bounds { versions: 1, records: 5, snapshots: 1, ..small }
            }
            Self::SettleByOneSnapshot => Bounds { records: 1, snapshots: 2, rot: true, ..small },
            Self::SnapshotBesideRelocation => {
                Bounds { records: 2, snapshots: 2, rot: true, ..small }
            }
            _ => small,
        }
    }
}

/// The protocol, with or without a mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Protocol {
    /// How large.
    pub bounds: Bounds,
    /// What is left out of the engine.
    pub mistake: Option<Mistake>,
}

impl Protocol {
    pub(crate) fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }
}
