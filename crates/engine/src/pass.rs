//! What people are told of a pass home: why it began, when, and what it took home. It knows nobody, and decides nothing.

use nearhead_disk::Nanos;

/// Why a pass home began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassReason {
    /// Nobody asked for anything.
    Idle,
    /// There may soon be too little room in the logs.
    Filling,
    /// Its time had come.
    Time,
    /// Somebody waits for room in a log.
    NoRoom,
    /// The map is nearly full.
    MapFull,
    /// The owner asked for it.
    Command,
}

impl PassReason {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Idle, Self::Filling, Self::Time, Self::NoRoom, Self::MapFull, Self::Command];

    /// One word for reports and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Filling => "filling",
            Self::Time => "time",
            Self::NoRoom => "no-room",
            Self::MapFull => "map-full",
            Self::Command => "command",
        }
    }

    /// For people.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Idle => "nobody asks for anything",
            Self::Filling => "the logs fill",
            Self::Time => "its time has come",
            Self::NoRoom => "somebody waits for room in a log",
            Self::MapFull => "the map is nearly full",
            Self::Command => "it was asked for",
        }
    }
}

/// A pass home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The first one since the volume was opened is 1.
    pub number: u64,
    /// Why it began.
    pub reason: PassReason,
    /// When it began.
    pub begun_at: Nanos,
    /// When it ended, if it did.
    pub ended_at: Option<Nanos>,
    /// Bytes that it took home so far.
    pub copied_bytes: u64,
}
