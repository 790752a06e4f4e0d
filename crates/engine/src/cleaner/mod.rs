//! How logs are emptied, as a policy: what is cleaned of the engine's own accord, and when.
//!
//! A policy asks for jobs, and the movers carry them out: a pass that takes logged blocks home
//! (`cleaning/checkpoint.rs`), or the content of one log to another (`cleaning/swap.rs`). What is needed, because a log must have room, the map
//! is nearly full or somebody commands it, is done without asking: no law depends on a policy's answers.

mod compact_in_body;
mod home_and_swap;
mod move_to_tail;
mod victim;
mod write_behind;

pub use compact_in_body::CompactInBody;
pub use home_and_swap::HomeAndSwap;
pub use move_to_tail::MoveToTail;
pub use write_behind::WriteBehind;

use crate::state::logs::Logs;
use nearhead_disk::Nanos;
use std::fmt::Debug;

/// What the owner asks of the policy that empties the logs ([`Cleaner`]), and bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleaning {
    /// Checkpoint this often.
    pub period: Option<Nanos>,
    /// Checkpoint once no client has asked anything for so long; stops when one does.
    pub idle_after: Option<Nanos>,
    /// Checkpoint in this part of the day: seconds of the day, start and end (may pass midnight).
    pub window: Option<(u32, u32)>,
    /// Those three begin only while a permit is held ([`crate::Engine::set_checkpoint_permit`]), so that volumes
    /// that are replicas of each other take turns. What is needed never waits for one.
    pub coordinated: bool,
    /// Checkpoint when this share of all log space is in use, 1 to 100.
    pub watermark_pct: Option<u8>,
    /// Home bytes written while writes in place to them have to wait.
    pub batch_bytes: u32,
    /// Logged bytes read at once, in log order, before they go home batch by batch: memory for less
    /// movement of a head.
    pub window_bytes: u32,
    /// Logged bytes that stay in memory, so that taking them home needs no read of a log; 0 none.
    pub memory_bytes: u64,
    /// What went home is let go by the next record that somebody waits for, if one comes within so long; then by one of its own. Not where
    /// somebody waits for the end of a pass, or half of the logs is in use.
    pub releases_wait: Nanos,
    /// Move a full log's content to a cold log when it is this full, 1 to 100 (Manylogs III-G: 80).
    pub swap_above_pct: Option<u8>,
    /// Swap only after this long without a request, unless the log is nearly full.
    pub swap_idle_after: Nanos,
}

#[cfg(test)]
impl Cleaning {
    /// No time, no watermark and no swap.
    pub(crate) fn as_if_nothing_was_asked() -> Self {
        Self {
            period: None,
            idle_after: None,
            window: None,
            coordinated: false,
            watermark_pct: None,
            batch_bytes: 1 << 20,
            window_bytes: 1 << 20,
            memory_bytes: 1 << 20,
            releases_wait: Nanos::ZERO,
            swap_above_pct: None,
            swap_idle_after: Nanos::ZERO,
        }
    }
}

/// Why blocks go home: who waits for it, and what it waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Why {
    /// Nobody is there. It ends when a request comes, and waits for a permit where passes are coordinated.
    Idle,
    /// There may soon be too little room: at the pace of what can wait, but without a permit.
    Room,
    /// Its time has come. It waits for a permit where passes are coordinated.
    Time,
    /// It is needed now.
    #[default]
    Need,
}

impl Why {
    /// Nobody waits for its end.
    pub(crate) fn is_polite(self) -> bool {
        matches!(self, Self::Idle | Self::Room)
    }

    /// It could as well be made later.
    pub(crate) fn can_wait(self) -> bool {
        matches!(self, Self::Idle | Self::Time)
    }
}

/// What becomes of small writes while no log has room for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// They go to their homes after all, sorted and merged (Manylogs' last resort).
    #[default]
    InPlace,
    /// They wait at the pace of cleaning. They are refused only when everything was tried and nothing can make room.
    Wait,
}

/// Where the content of a log goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// To this log, in records of its own.
    Log(u32),
    /// Where clients' records go, in records between theirs (Gecko's *move to tail*).
    Tail,
    /// To another log of its device, beside all records (Gecko's *compact in body*). Only where logs are on all devices.
    Body,
}

/// The content of a log that goes elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The log that is emptied.
    pub from: u32,
    /// Where it goes.
    pub to: Goal,
}

/// How what is needed of a log is read before it goes elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// In long pieces, over what is not needed between, several at a time: most of what an arm does then is to transfer.
    #[default]
    LongPieces,
    /// Each needed chunk by itself, the next one once the last one is there (Gecko, section 4: one entry of the log after the other).
    ChunkByChunk,
}

/// What a policy decides by.
#[derive(Clone, Copy, Debug)]
pub struct CleaningView<'a> {
    /// What the owner asked for.
    pub asked: &'a Cleaning,
    /// The logs: what they hold and what has room.
    pub logs: &'a Logs,
    /// The log of the newest record that moved nothing.
    pub last_log: u32,
    /// The time.
    pub now: Nanos,
    /// Seconds since midnight at `Nanos::ZERO`.
    pub second_of_day_at_zero: u32,
    /// When a client asked for anything the last time.
    pub last_request_at: Nanos,
    /// No request is under way.
    pub is_quiet: bool,
    /// When the last pass home ended.
    pub last_pass_ended_at: Nanos,
    /// Number of the newest snapshot: what a move freed can be written after the next one.
    pub snapshot_number: u64,
    /// A pass that is due waits for a permit.
    pub awaits_permit: bool,
    /// How much of the room that a snapshot has for fragments they take, 0 to 100: beyond that all is logged in whole sectors.
    pub fragment_fill_pct: u32,
}

impl CleaningView<'_> {
    /// For how long nobody has asked anything.
    pub fn idle_for(&self) -> Nanos {
        self.now.since(self.last_request_at)
    }
}

/// The policy question *how is it emptied?*
pub trait Cleaner: Debug + Send {
    /// Whether a pass that takes logged blocks home is due, and why. Asked again and again until it may begin: one that
    /// waits for a permit may have to wait.
    fn home(&mut self, _view: &CleaningView<'_>) -> Option<Why> {
        None
    }

    /// A pass begins that nobody commanded: one that was asked for, or one that a nearly full map needs.
    fn home_begins(&mut self, _view: &CleaningView<'_>) {}

    /// That pass lost its permit before its end.
    fn home_was_cut_short(&mut self) {}

    /// When [`Cleaner::home`] should be asked if nothing happens before.
    fn home_wake(&self, _view: &CleaningView<'_>) -> Option<Nanos> {
        None
    }

    /// A log whose content is to go to another now.
    fn relocate(&mut self, _view: &CleaningView<'_>) -> Option<Move> {
        None
    }

    /// Whether there is so little room that logs are emptied though somebody is there. While none can be, a snapshot is worth its price: it
    /// frees what was emptied before.
    fn is_pressed(&self, _view: &CleaningView<'_>) -> bool {
        false
    }

    /// How what such a log holds is read.
    fn reading(&self) -> Reading {
        Reading::LongPieces
    }

    /// When [`Cleaner::relocate`] should be asked if nothing happens before.
    fn relocate_wake(&self, _view: &CleaningView<'_>) -> Option<Nanos> {
        None
    }

    /// What becomes of small writes while no log has room. Atomic ones always wait.
    fn when_full(&self) -> WhenFull {
        WhenFull::InPlace
    }

    /// Another one of its kind: a configuration is copied, an engine keeps its own.
    fn boxed(&self) -> Box<dyn Cleaner>;
}

/// `as_needed`: nothing of its own accord; logs are emptied when they must be.
#[derive(Clone, Copy, Debug, Default)]
pub struct AsNeeded;

impl Cleaner for AsNeeded {
    fn boxed(&self) -> Box<dyn Cleaner> {
        Box::new(*self)
    }
}

impl Clone for Box<dyn Cleaner> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}
