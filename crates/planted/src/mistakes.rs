//! Every mistake: what it is called in code and on a command line, and what is done wrong.
//!
//! One line each, so that another one costs a line. The order is that of the table in docs/planted.md; a
//! name is never used again for something else.

/// Makes the enumeration and its table from one list.
macro_rules! mistakes {
    ($($variant:ident $name:literal $what:literal,)*) => {
        /// A mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "`Mistake::what` says each")]
        pub enum Mistake {
            $($variant,)*
        }

        /// Each of them with its name and what is done wrong, in the order of [`Mistake`].
        pub(crate) const MISTAKES: &[(Mistake, &str, &str)] =
            &[$((Mistake::$variant, $name, $what),)*];
    };
}

mistakes! {
    FlushSkipped "flush-skipped" "a flush is answered without a device flush",
    RecordNotDurable "record-not-durable" "records are written without FUA",
    AckBeforeRecord "ack-before-record" "FUA is answered before its record is",
    InvalidationTooEarly "invalidation-too-early" "older copies are taken back before the newer is durable",
    InvalidationForgotten "invalidation-forgotten" "in-place writes take nothing back",
    InvalidationSettledByOneSnapshot "invalidation-settled-by-one-snapshot" "one snapshot without an entry counts as its end, the other still has it",
    ClaimForgotten "claim-forgotten" "records claim the log they are in",
    SlotReusedEarly "slot-reused-early" "log space is used again that a recovery needs",
    LiveSpaceReused "live-space-reused" "log space is used again that the map points to",
    InvalidationNotReplayed "invalidation-not-replayed" "recovery replays writes, not what was taken back",
    CheckpointOverInPlace "checkpoint-over-in-place" "in-place writes do not wait for a checkpoint",
    CheckpointOfOverwritten "checkpoint-of-overwritten" "a checkpoint lets go of what was written meanwhile",
    SwapOverNewer "swap-over-newer" "a swap replaces what was written meanwhile",
    RingOffByOne "ring-off-by-one" "a record ends one block early",
    FragmentLost "fragment-lost" "what is left behind a newer piece of a block is dropped",
    SnapshotHeaderTooEarly "snapshot-header-too-early" "a snapshot counts before its body is durable",
    SnapshotCopyMissing "snapshot-copy-missing" "a snapshot counts without a copy of its header",
    LoneHeaderLeft "lone-header-left" "a recovered snapshot with one sound header is left so while log space is used again",
    ChainGapIgnored "chain-gap-ignored" "recovery passes over records that are missing",
    TornRecordAccepted "torn-record-accepted" "recovery takes a torn record for a whole one",
    RecoveryNotFlushed "recovery-not-flushed" "what recovery read may still be lost",
    RecordErrorIgnored "record-error-ignored" "a record that failed counts as written",
    FlushErrorIgnored "flush-error-ignored" "a device flush that failed counts as done",
    ChecksumNotCompared "checksum-not-compared" "reads return what the log holds, sound or not",
    ChecksumNotComparedInCleaning "checksum-not-compared-in-cleaning" "cleaning takes what the log holds, sound or not",
    AloneThoughAtomic "alone-though-atomic" "an atomic write of one block goes home, where it can be torn",
    AloneThoughBlank "alone-though-blank" "what waits alone goes to a home that is promised to be blank",
    AloneFailedAnswered "alone-failed-answered" "who waits for what went home alone is answered though home failed and no log has it",
    AtomicWriteSplit "atomic-write-split" "an atomic write may go into several records",
    OlderCopyRead "older-copy-read" "reads prefer the block in flight to the newer staged one",
    WrapTailReused "wrap-tail-reused" "the end of a ring that a record did not fit into is used again",
    SnapshotReadErrorIgnored "snapshot-read-error-ignored" "a volume opens from the older snapshot when the newer cannot be read",
    TornRecordLeft "torn-record-left" "a torn record stays where it is, though its sequence is used again",
    PromiseNotTakenBack "promise-not-taken-back" "a region is written before the blank map says that it is not blank",
    PromiseTooEarly "promise-too-early" "a region is called blank before its zeros are durable",
    StripeFlushedInPart "stripe-flushed-in-part" "a flush of a stripe reaches its first member only",
    MirrorFlushedInPart "mirror-flushed-in-part" "a flush of a mirror reaches its first member only",
    MirrorMemberKept "mirror-member-kept" "a member of a mirror that missed a write is read from as before",
    MirrorUseUnmarked "mirror-use-unmarked" "a mirror is written to before its labels say so",
    MirrorShowsOne "mirror-shows-one" "where members of a mirror may differ a read shows what one of them holds",
    MirrorPieceOverNewer "mirror-piece-over-newer" "a change does not wait for the piece that is copied to the same place",
    MirrorPieceUnflushed "mirror-piece-unflushed" "a member that was copied to counts before that is flushed",
    MirrorTornInRepair "mirror-torn-in-repair" "the member to go by is written over while its label says that it is",
    RelocationBesideRelease "relocation-beside-release" "one record moves blocks and lets blocks go",
    SnapshotBesideRelocation "snapshot-beside-relocation" "a snapshot begins while a record that moves blocks is on its way",
    SwapTargetUnclaimed "swap-target-unclaimed" "a snapshot drops the claim of the log that blocks are moved to",
    LogInFlightUnclaimed "log-in-flight-unclaimed" "a snapshot drops the claim of the log that a record is on its way to",
    SnapshotAheadOfRecord "snapshot-ahead-of-record" "a snapshot says that it holds the record that is on its way",
    JournalInFlightUnprotected "journal-in-flight-unprotected" "a snapshot frees the journal entry of the record on its way",
    JournalBeginsAtZero "journal-begins-at-zero" "a start takes the first block of the journal for its oldest entry",
    RecordDurableInOnePlace "record-durable-in-one-place" "a record counts once the log or the journal has it",
    SpaceOpenedAtBegin "space-opened-at-begin" "log space is free once a snapshot begins",
    SpaceOpenedByFailure "space-opened-by-failure" "a snapshot that failed frees what one that holds would",
    StaleCopySpaceOpened "stale-copy-space-opened" "log space is free before its copy is taken back durably",
    TornClearedInPart "torn-cleared-in-part" "only one of several torn records is overwritten",
    TornClearedVolatile "torn-cleared-volatile" "a torn record is overwritten in the cache of the disk only",
    TornClearedOverLive "torn-cleared-over-live" "what looks torn is overwritten although the map points there",
    TornClearedOverNewest "torn-cleared-over-newest" "the newest sound record is overwritten as if it were torn",
    EchoWithoutInvalidations "echo-without-invalidations" "a record does not echo what the one before took back",
    EchoForgottenByReplay "echo-forgotten-by-replay" "the first record after a start echoes nothing",
    InvalidationsCountedTwice "invalidations-counted-twice" "what a record on its way takes back a snapshot counts too",
    InvalidationsNotWrittenElsewhere "invalidations-not-written-elsewhere" "a record that is written elsewhere takes nothing back",
    UnreadyConflictIgnored "unready-conflict-ignored" "a block is logged before what it replaced at home is taken back",
    SpillBesideCheckpoint "spill-beside-checkpoint" "blocks go home without a log while a checkpoint writes there",
    CheckpointUnflushed "checkpoint-unflushed" "logged copies are let go before their homes are flushed",
    CheckpointOverTransfer "checkpoint-over-transfer" "a checkpoint copies home what a client is writing there",
    HintsNotInSnapshot "hints-not-in-snapshot" "a snapshot leaves the hints out",
    HintsNotRestored "hints-not-restored" "a start does not take the hints over",
    HintsChangeUnnoticed "hints-change-unnoticed" "a stop takes no snapshot for hints alone",
    HintsForgottenByForget "hints-forgotten-by-forget" "giving up a log gives up the hints as well",
    SuperblockOrderWrong "superblock-order-wrong" "the sound superblock copies are rewritten before the damaged ones",
    SuperblocksUnflushed "superblocks-unflushed" "nothing is flushed between the superblock copies",
    GrowZeroesFirst "grow-zeroes-first" "growing clears the old last copy before the new ones are there",
    CreateSuperblockFirst "create-superblock-first" "a new volume has its superblock before its snapshots",
    ForgetUnflushed "forget-unflushed" "giving up a log writes the header before its body is flushed",
    ForgetOverNewest "forget-over-newest" "giving up a log overwrites the only snapshot",
    OfflineHeaderUnflushed "offline-header-unflushed" "the last header an offline command writes is not flushed",
    HeaderChecksumOfOneBlock "header-checksum-of-one-block" "the checksum of a record header covers its first block",
    BodyChecksumOfFirstPiece "body-checksum-of-first-piece" "the checksum of a snapshot covers its first block",
    ChunkChecksumOfOneSector "chunk-checksum-of-one-sector" "the checksum of a chunk covers its first sector",
    ChunkChecksumNoAddress "chunk-checksum-no-address" "the checksum of a chunk says nothing of its home",
    SealOfHalf "seal-of-half" "the checksum of a superblock covers the first half",
    DurableWritesAssumed "durable-writes-assumed" "every file system is taken to honour the flag of a durable write",
    DurableFlagDropped "durable-flag-dropped" "a durable write reaches the kernel without its flag",
    WriteCacheInverted "write-cache-inverted" "the attribute of a device's write cache is read the wrong way round",
    DurableFileNotDurable "durable-file-not-durable" "a log's file is written without the flag of a durable write",
    DeviceFlushNotSent "device-flush-not-sent" "a flush of a real disk is answered without a system call",
    WriteFuaDropped "write-fua-dropped" "an NBD write reaches the service without FUA",
    TrimFuaDropped "trim-fua-dropped" "an NBD trim reaches the service without FUA",
    ZeroesFuaDropped "zeroes-fua-dropped" "an NBD write-zeroes reaches the service without FUA",
    SectorFuaDropped "sector-fua-dropped" "sectors that an NBD request covers in part are written without FUA",
    SectorNotHeld "sector-not-held" "others change a sector between its read and its write",
    ReplyToSuccessor "reply-to-successor" "replies to a client that left go to the next one at its place",
    BareFlushEarly "bare-flush-early" "a bare disk's flush is answered before the disk answered it",
    BareFlushCoversLater "bare-flush-covers-later" "a bare disk's flush counts for writes that ended after it was sent",
}
