//! The state of the model: what is on the disk, what is in memory, and what clients were told.
//!
//! Everything is as small as the laws allow: a block's content is the number of the write that made
//! it, a record fills one slot of a log, and what a crash wipes out is one struct ([`Memory`]).
//! Nothing here decides anything.

/// Home blocks.
pub const BLOCKS: usize = 2;
/// Logs.
pub const LOGS: usize = 2;
/// Most slots of a log; [`crate::Bounds::slots`] says how many are used.
pub const SLOTS: usize = 3;

/// What a block holds: numbers of writes, from 1 for each block. A write of all of it makes both, a
/// fragment some bytes alone. So the bytes are never older than the rest, or something came over what
/// is newer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Content {
    /// Which made all but the bytes.
    pub rest: u8,
    /// Which made the bytes that fragments bring.
    pub bytes: u8,
}

impl Content {
    /// After a write of all of it.
    pub fn whole(version: u8) -> Self {
        Self { rest: version, bytes: version }
    }

    /// With a fragment over it, if there is one.
    #[must_use]
    pub fn under(self, bytes: Option<u8>) -> Self {
        Self { bytes: bytes.unwrap_or(self.bytes), ..self }
    }

    /// The newer of each.
    #[must_use]
    pub fn newest(self, other: Self) -> Self {
        Self { rest: self.rest.max(other.rest), bytes: self.bytes.max(other.bytes) }
    }
}

/// What a record says about one block: its content, and whether it has a payload (zeroes have none,
/// so that no map entry points into the log for them).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Datum {
    /// What it holds.
    pub content: Content,
    /// Said by the record alone.
    pub zero: bool,
}

/// Where what an entry speaks of is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Log and slot.
    Log(u8, u8),
    /// Nowhere: the block is zero.
    Zero,
    /// At home, below a fragment.
    Home,
}

/// Bytes that a record brought by themselves (`state/fragments.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// Number of the write.
    pub version: u8,
    /// The record's log and slot, which counts as live.
    pub place: (u8, u8),
}

/// Where the newest copy of a block is; no entry means at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Of all but what lies over it.
    pub place: Place,
    /// Stands for the checksum; of nothing at home.
    pub content: Content,
    /// What lies over it.
    pub over: Option<Piece>,
}

impl Entry {
    /// A block of which nothing was known gets bytes over it.
    pub const AT_HOME: Self =
        Self { place: Place::Home, content: Content { rest: 0, bytes: 0 }, over: None };

    /// As a record's datum makes it.
    pub fn of(datum: Datum, (log, slot): (u8, u8)) -> Self {
        let place = if datum.zero { Place::Zero } else { Place::Log(log, slot) };
        Self { place, content: datum.content, over: None }
    }

    /// Whether both are the same copy, whatever lies over it.
    pub fn is_copy(&self, other: &Self) -> bool {
        (self.place, self.content) == (other.place, other.content)
    }
}

/// The map: one entry for each block that is not at home.
pub type Map = [Option<Entry>; BLOCKS];

/// One record in a slot (`format::record::RecordHeader`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Its number, without gaps over all logs.
    pub sequence: u8,
    /// What it writes.
    pub writes: [Option<Datum>; BLOCKS],
    /// Bytes that it brings over what the map says, after its writes.
    pub fragments: [Option<u8>; BLOCKS],
    /// Blocks it takes out of the map, before its writes.
    pub invalid: [bool; BLOCKS],
    /// Logs it claims, each with the slot from which it will be scanned.
    pub claims: [Option<u8>; LOGS],
    /// It moves chunks and writes nothing new.
    pub relocation: bool,
}

/// A home block: what is on the medium, and what is in the cache over it, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Home {
    /// On the medium.
    pub durable: Content,
    /// Completed and not flushed.
    pub pending: Vec<Content>,
}

impl Home {
    /// What a read returns.
    pub fn newest(&self) -> Content {
        self.pending.last().copied().unwrap_or(self.durable)
    }
}

/// A sound snapshot in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// The higher one counts.
    pub number: u8,
    /// Records up to here are in it.
    pub sequence: u8,
    /// The map, streamed while writes went on.
    pub map: Map,
    /// What lay over it when it began.
    pub cells: [Option<Piece>; BLOCKS],
    /// Where each log stood when it began.
    pub positions: [u8; LOGS],
    /// Logs that recovery scans.
    pub claims: [bool; LOGS],
}

/// The disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DiskState {
    /// Records, by log and slot; nothing where none is sound.
    pub slots: [[Option<Record>; SLOTS]; LOGS],
    /// Home blocks.
    pub home: [Home; BLOCKS],
    /// The two snapshot slots; nothing where none is sound.
    pub snapshots: [Option<Snapshot>; 2],
}

/// When a flush ticket is redeemed (`disk/flusher.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ticket {
    /// Already.
    Done,
    /// With the flush under way.
    Current,
    /// With one not submitted yet.
    Next,
}

/// A stale logged copy whose invalidation is not durable (`commit/invalidation.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stale {
    /// Which block.
    pub block: u8,
    /// What the map said: its slot counts as live.
    pub entry: Entry,
    /// It may go into a record once this is redeemed.
    pub ticket: Ticket,
}

/// A record on its way (`RecordInFlight`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InFlight {
    /// What is written.
    pub record: Record,
    /// Its log and slot.
    pub place: (u8, u8),
    /// Queued invalidations it carries.
    pub invalidations: u8,
    /// What a checkpoint lets go with it.
    pub release: Option<(u8, Entry)>,
    /// What a relocated chunk was a copy of.
    pub relocated: Option<(u8, Entry)>,
    /// It has reached the disk and waits for those before it.
    pub landed: bool,
}

impl InFlight {
    /// Whether it says nothing but what clients wrote.
    pub fn is_of_writes(&self) -> bool {
        let claims = self.record.claims.iter().any(Option::is_some);
        let settles = self.invalidations > 0 || self.release.is_some();
        !claims && !settles && self.relocated.is_none() && !self.record.relocation
    }
}

/// One log (`state/logs/ring.rs`); its live slots follow from the map and the queue of stale copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ring {
    /// The next record goes here, or to slot 0 at the end.
    pub position: u8,
    /// First record since the last committed snapshot.
    pub protected_from: Option<u8>,
    /// First record since the snapshot being written began.
    pub next_protected_from: Option<u8>,
    /// A durable claim exists.
    pub claimed: bool,
}

/// How far a snapshot is (`snapshot/mod.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SnapshotStep {
    /// Next block of the map to stream.
    Body(u8),
    /// All is streamed; the header waits for this flush.
    Flushing(Ticket),
    /// The header is on its way.
    Header,
}

/// A snapshot being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SnapshotWork {
    /// What will be in the slot.
    pub image: Snapshot,
    /// Logs claimed by the snapshot itself.
    pub claims_new: [bool; LOGS],
    /// Stale copies queued when it began, from the front of the queue.
    pub invalid_end: u8,
    /// How far it is.
    pub step: SnapshotStep,
}

/// How far a checkpoint of one block is (`cleaning/checkpoint.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckpointStep {
    /// The home write is on its way.
    Writing,
    /// It is complete and waits for this flush.
    Flushing(Ticket),
    /// It is durable; a record is to say so.
    Releasing,
    /// That record is on its way.
    Waiting,
    /// Snapshots say it instead: so many stale copies, from the front of the queue, must be settled first.
    Settling(u8),
}

/// A checkpoint of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Checkpoint {
    /// Which block.
    pub block: u8,
    /// The logged copy, with what lay over it.
    pub entry: Entry,
    /// What goes home.
    pub content: Content,
    /// How far it is.
    pub step: CheckpointStep,
}

/// A chunk read for a swap, not in a record yet (`cleaning/swap.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Swap {
    /// Which block.
    pub block: u8,
    /// The copy in the hot log.
    pub entry: Entry,
    /// Where it goes.
    pub cold: u8,
}

/// A durable in-place write that waits for its reply (`Barrier`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// What it wrote.
    pub content: Content,
    /// Its bytes are durable then.
    pub ticket: Ticket,
    /// Stale copies, from the front of the queue, that must be settled first.
    pub invalid_target: u8,
}

/// What a crash wipes out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    /// Recovery has read everything and waits for its flush; no request is served.
    pub recovering: bool,
    /// Where the newest copies are.
    pub map: Map,
    /// Small writes not in a record yet.
    pub staged: [Option<Datum>; BLOCKS],
    /// Bytes not in a record yet, of blocks that are not staged.
    pub staged_bytes: [Option<u8>; BLOCKS],
    /// In-place writes that are logged first, by their numbers: bytes lie over what is at home.
    pub behind: [Option<u8>; BLOCKS],
    /// Records on their way, in order.
    pub records: Vec<InFlight>,
    /// Stale copies, in the order of their writes.
    pub stale: Vec<Stale>,
    /// Stale copies queued when the newest committed snapshot began, from the front.
    pub snapshot_invalid_end: u8,
    /// The logs.
    pub rings: [Ring; LOGS],
    /// Newest durable record.
    pub sequence_done: u8,
    /// Log of the newest record that moved nothing.
    pub last_log: u8,
    /// Number of the newest committed snapshot.
    pub snapshot_number: u8,
    /// A snapshot being written.
    pub snapshot: Option<SnapshotWork>,
    /// A checkpoint under way.
    pub checkpoint: Option<Checkpoint>,
    /// A swap under way.
    pub swap: Option<Swap>,
    /// In-place writes on their way.
    pub transferring: [Option<Content>; BLOCKS],
    /// In-place writes that wait for their reply.
    pub waiting: [Option<Waiting>; BLOCKS],
    /// How many pending writes of each block the flush on the device covers.
    pub flush: Option<[u8; BLOCKS]>,
    /// Something completed since the last flush was submitted.
    pub dirty: bool,
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// Recovery returned something older than what was acknowledged or read before.
    Older,
    /// Recovery returned what the recovery before it did not.
    Risen,
    /// Recovery refused although nothing but a crash happened.
    Refused,
    /// A map entry pointed to a slot that holds something else.
    Overwritten,
    /// Bytes over something newer.
    Mixed,
}

/// The model's whole state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The disk.
    pub disk: DiskState,
    /// The engine, if it runs.
    pub memory: Option<Memory>,
    /// Newest write of each block that a client may rely on.
    pub floor: [Content; BLOCKS],
    /// Newest write of each block sent.
    pub sent: [u8; BLOCKS],
    /// Newest write of each block sent before the last recovery.
    pub sent_before: [u8; BLOCKS],
    /// Crashes so far.
    pub crashes: u8,
    /// A snapshot slot rotted.
    pub rotten: bool,
    /// Recovery refused, as it may after rot.
    pub refused: bool,
    /// What went wrong, if anything did.
    pub wrong: Option<Wrong>,
}
