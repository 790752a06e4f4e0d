//! Where a record goes: which log takes the next one, and which block of it.
//!
//! A policy is told what a host can know ([`Seen`], [`View`]): the engine's own commands and when they completed, where
//! the head should be by that, and what the logs have room for. It never sees where the head really is. It answers with a
//! [`Spot`], and the engine keeps the laws whatever the answer: a spot in a log that recovery would not read, over
//! something that is needed, or further on than a recovery looks is not taken ([`View::is_legal`]).
//!
//! A policy may leave blocks out before a record. Such a gap is legal: the record names the one before the gap. The
//! blocks stay unused until a snapshot has passed them, as the record does.

mod chain_tail;
mod gap;
mod near_head;
mod one_area;
mod passing;
mod rotation;
mod single_log;
mod track_arm;
mod track_by_track;
mod under_head;

pub use crate::disk::drive::Drive;
pub use crate::disk::drives::Drives;
pub use crate::state::logs::Need;
pub use chain_tail::ChainTail;
pub use near_head::NearHead;
pub use one_area::OneArea;
pub use single_log::SingleLog;
pub use track_by_track::TrackByTrack;
pub use under_head::UnderHead;

use crate::state::logs::{GAP_BYTES_MAX, Logs};
use nearhead_disk::Nanos;
use std::fmt::Debug;

/// Logs that stay claimed across a snapshot, if a policy says nothing else.
const CLAIMS_KEPT: usize = 8;

/// Where a record goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The log.
    pub log_index: u32,
    /// The block of it where the record begins.
    pub block: u32,
    /// The log that would have been best; if another, the record claims it for the next one.
    pub wanted_index: u32,
}

/// What a policy decides by.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The logs: what has room, what is claimed.
    pub logs: &'a Logs,
    /// Device byte where the head will be for a command that leaves now, as far as one can know.
    pub head_offset: u64,
    /// The time.
    pub now: Nanos,
    /// Nothing is on the disk or on its way there.
    pub is_idle: bool,
    /// Commands on the disk.
    pub on_disk: u32,
    /// What is known of the drives, if anybody found out where their tracks are.
    pub drives: Option<&'a Drives>,
    /// The disks that have logs, if there are several: all that is said of one here is said of the volume's own.
    pub disks: Option<&'a dyn LogDisks>,
}

/// What is known of the disk that has a log.
#[derive(Clone, Copy, Debug)]
pub struct LogDisk<'a> {
    /// Device byte where its head will be for a command that leaves now, as far as one can know.
    pub head_offset: u64,
    /// Nothing is on it or on its way there.
    pub is_idle: bool,
    /// Commands on it.
    pub on_disk: u32,
    /// What is known of the drives.
    pub drives: Option<&'a Drives>,
}

/// Several disks that have logs.
pub trait LogDisks: Debug {
    /// The one that has the byte of a log at this address.
    fn disk_at(&self, address: u64) -> LogDisk<'_>;
}

impl View<'_> {
    /// The same of the disk that has this log.
    #[must_use]
    pub fn of_log(&self, log_index: u32) -> Self {
        let Some((disks, address)) = self.disks.zip(self.logs.block_offset(log_index, 0)) else {
            return *self;
        };
        let LogDisk { head_offset, is_idle, on_disk, drives } = disks.disk_at(address);
        View { head_offset, is_idle, on_disk, drives, ..*self }
    }

    /// Whether a record may go there.
    pub fn is_legal(&self, spot: Spot, need: Need) -> bool {
        self.logs.is_claimed(spot.log_index) && self.logs.accepts(spot.log_index, spot.block, need)
    }
}

/// What a policy is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A record leaves for this spot.
    RecordLeaves {
        /// Where it goes.
        spot: Spot,
    },
    /// A command completed.
    Completed(Completed),
}

/// Where an arm is to be while nothing is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reposition {
    /// Not before.
    pub at: Nanos,
    /// The device byte that is read so that it goes there.
    pub offset: u64,
}

/// A command that completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// The log and the block behind the record, if it is one.
    pub record_end: Option<(u32, u32)>,
    /// First device byte of the transfer.
    pub offset: u64,
    /// Its length; 0 of what transfers nothing.
    pub bytes: u64,
    /// From leaving to completion.
    pub took: Nanos,
    /// Whether it moved the arm, as far as one can tell.
    pub has_moved: bool,
    /// Whether it did what was asked.
    pub is_ok: bool,
}

/// The policy question *where does it go?*
pub trait Placement: Debug + Send {
    /// Something happened, in the order in which it did.
    fn seen(&mut self, _seen: &Seen, _view: &View<'_>) {}

    /// Whether it would rather be asked once nothing is on the disk: nothing else is sent there until then.
    fn waits(&self, _view: &View<'_>) -> bool {
        false
    }

    /// Where a record goes now, if anywhere. It is asked again if the answer is not taken, or if the place fails.
    fn choose(&mut self, need: Need, view: &View<'_>) -> Option<Spot>;

    /// Where an arm is to be taken while nothing is on its disk and no record waits, if anywhere: a block is read there. Of a disk that
    /// clients read or write in place nobody should move the arm away from them. Of several the one that is due first.
    fn repositions(&self, _view: &View<'_>) -> Option<Reposition> {
        None
    }

    /// The arm of the disk that has this byte was, or could not be.
    fn repositioned(&mut self, _offset: u64, _view: &View<'_>) {}

    /// How many logs, from the wanted one on, each record claims: 0 of a policy that never goes to another log.
    fn claims_ahead(&self) -> u32;

    /// How many logs around the newest record stay claimed when a snapshot begins: a recovery from there reads each of them.
    fn claims_kept(&self) -> usize {
        CLAIMS_KEPT
    }

    /// The logs in which it goes on, beside that of the newest record, where it uses several at once: those stay claimed, too.
    fn goes_on_in(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Bytes that it may leave out between two records of a log, beyond places that failed. Recovery asks where it cannot read
    /// behind the last record, as the next one may be there. 0: each record follows the one before it, or begins where the
    /// first one can. `knows_tracks`: whether the tracks of a drive are known.
    fn leaves_out_bytes_max(&self, _knows_tracks: bool) -> u64 {
        GAP_BYTES_MAX
    }

    /// Another one of its kind: a configuration is copied, an engine keeps its own.
    fn boxed(&self) -> Box<dyn Placement>;
}

impl Clone for Box<dyn Placement> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}
