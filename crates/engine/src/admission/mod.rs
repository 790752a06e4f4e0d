//! Who goes first: the order in which commands are handed to the disk.
//!
//! Every policy keeps the disk's queue bound. Commands of one class leave in the order they came, but where a policy says otherwise.

mod durable_first;
mod fifo;
mod soonest_first;
mod with_share;
mod with_target;

pub use durable_first::DurableFirst;
pub use fifo::Fifo;
pub use soonest_first::SoonestFirst;
pub use with_share::WithShare;
pub use with_target::{TargetStatus, WithTarget};

use nearhead_disk::{Class, Nanos};
use std::fmt::Debug;

/// What is on the disk now, as the policy sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outstanding {
    /// Commands of each class, in the order of [`Class`].
    pub commands: [u32; 4],
    /// Bytes of each class.
    pub bytes: [u64; 4],
    /// How much background work matters now.
    pub pace: Pace,
    /// It is known where the tracks of all drives are, what follows from it holds, and a durable command is there or left within
    /// the last second: without one nothing is gained by another order than the drive's own.
    pub is_drive_known: bool,
    /// A record waits until nothing is on the disk.
    pub record_waits: bool,
    /// How many arms there are of which a durable write keeps only one busy: members of an array with logs on one each; 0 counts as one.
    pub arms: u32,
    /// Bytes that left since a durable command did that is still there, other such commands left out.
    pub beside_durable_bytes: u64,
    /// Foreground commands that wait here.
    pub foreground_waiting: u32,
    /// How long the one that came first of them has waited.
    pub foreground_waited: Nanos,
    /// Time since the command that asks was issued, whatever it waited for.
    pub issued_ago: Nanos,
}

/// How much background work (checkpoint and swap) matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// It can wait: nobody asked for it, and there is room in the logs.
    Polite,
    /// Somebody asked for it, or its time has come.
    #[default]
    Steady,
    /// Nobody has asked the engine for anything for a while: the disk may choose among several.
    Alone,
    /// Clients wait for it or soon will: the logs are nearly full.
    Urgent,
}

impl Outstanding {
    /// Commands of every class together.
    pub fn commands_total(&self) -> u32 {
        self.commands.iter().sum()
    }

    pub(crate) fn add(&mut self, class: Class, bytes: u64) {
        self.commands[class as usize] += 1;
        self.bytes[class as usize] += bytes;
        let is_beside_durable = self.durable_commands() > 0 && class != Class::Durable;
        self.beside_durable_bytes += if is_beside_durable { bytes } else { 0 };
    }

    pub(crate) fn remove(&mut self, class: Class, bytes: u64) {
        self.commands[class as usize] -= 1;
        self.bytes[class as usize] -= bytes;
        if self.durable_commands() == 0 {
            self.beside_durable_bytes = 0;
        }
    }

    fn durable_commands(&self) -> u32 {
        self.commands[Class::Durable as usize]
    }
}

/// The policy question *who goes first?* (WAL contention, section on priority).
pub trait Admission: Debug + Send {
    /// Whether a command of `class` with `bytes` of data may go to the disk now. `waited` is how long it has given way to durable
    /// writes: the time since it was issued in which a durable command was on the disk or a record waited. Asked again after each
    /// completion: a command that may not go although the disk is idle would wait forever.
    fn admits(&self, class: Class, bytes: u64, waited: Nanos, outstanding: &Outstanding) -> bool;

    /// Whether of the foreground commands that wait the one leaves first that a known drive can begin with soonest; so many times what
    /// it would take less outweighs what another waited longer. `None`: they leave in the order they came.
    fn waiting_weighs_one_in(&self) -> Option<u32> {
        None
    }

    /// Whether reads that a known drive may answer from its memory leave at once, also before a record that waits for the arm (for no
    /// longer than a revolution).
    fn memory_passes(&self) -> bool {
        self.waiting_weighs_one_in().is_some()
    }

    /// Writes became durable in one record, of which the first was waited for so long.
    fn durable_took(&mut self, _took: Nanos) {}

    /// How long the next record of clients' writes waits after one that cost bulk so much, while there is bulk.
    fn rest_after(&self, _cost: Nanos) -> Nanos {
        Nanos::ZERO
    }

    /// How much of the disk's time bulk keeps while there is any, in percent, if it has a share.
    fn bulk_share_pct(&self) -> Option<u8> {
        None
    }

    /// The target that it keeps, if it has one.
    fn target(&self) -> Option<TargetStatus> {
        None
    }

    /// Largest piece into which bulk transfers are cut, in bytes.
    fn piece_bytes(&self) -> u32;

    /// Another one of its kind: a configuration is copied, an engine keeps its own.
    fn boxed(&self) -> Box<dyn Admission>;
}

impl Clone for Box<dyn Admission> {
    fn clone(&self) -> Self {
        self.boxed()
    }
}
