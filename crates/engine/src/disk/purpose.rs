//! What a command is for: how its completion finds whoever issued it.

/// What a command is for; decides who handles its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// One transfer of a client's read: request slot and transfer number.
    Read { slot: u32, io: u32 },
    /// One transfer of a client's in-place write.
    InPlace { slot: u32 },
    /// The record in flight.
    Record,
    /// The copy of its header on the map device.
    Journal,
    /// Zeros over what is left of a record that a power cut tore.
    Torn,
    /// A device flush.
    Flush,
    /// In-place write of staged blocks because no log has room.
    Spill,
    /// Reading logged chunks for a checkpoint.
    CheckpointRead { io: u32 },
    /// Writing them home.
    CheckpointWrite,
    /// Reading a hot log.
    SwapRead { io: u32 },
    /// Reading a log that is compacted.
    CompactionRead { io: u32 },
    /// Writing copies of it.
    CompactionWrite,
    /// A piece of a snapshot's body, which goes to this byte of its device.
    SnapshotBody { offset: u64 },
    /// Pages of the older one, to be merged.
    SnapshotRead,
    /// One of its pages, for clients' reads: its number, and that of the snapshot.
    MapPage { page: u32, number: u64 },
    /// A snapshot's header.
    SnapshotHeader,
    /// The copy of a snapshot's header.
    SnapshotCopy,
    /// The header of the newest snapshot, where the other one of its two is missing.
    LoneHeader,
    /// A block of the blank map, or its header.
    Blanks,
    /// A read of recovery.
    Recovery,
    /// A read that takes the arm where the next record goes.
    Reposition,
    /// A copy for the read cache, to a slot of its device.
    CacheWrite { slot: u32 },
}
