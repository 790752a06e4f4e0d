//! Arrays: several disks, of any kind, as one.
//!
//! [`Stripe`] (RAID-0) cuts the address space into chunks that go round the members; [`Mirror`]
//! keeps the same bytes on each. Both work over modelled and over real disks, in virtual and in
//! real time, and add no timing of their own: what they cost is what their members cost.
//!
//! What stays true:
//! - a command is answered once, when every part of it was answered by its member;
//! - a flush, and a durable write, are answered when every member concerned said the same;
//! - an error names the member that reported it;
//! - the smallest member decides how much of each is used, and nothing past that is touched.
//!
//! An array keeps nothing about itself on its members. So the order of the members and the chunk
//! must be given again at each use, and a mirror does not remember over a restart that a member
//! fell behind: such a member must be copied or left out (docs/operations.md).

mod members;
mod mirror;
mod spec;
mod stripe;
#[cfg(test)]
mod tests;

pub use mirror::{Mirror, ReadPolicy};
pub use spec::{ARRAY_PREFIXES, ArrayKind, ArraySpec};
pub use stripe::Stripe;

use crate::validate::check;
use nearhead_disk::{
    Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Payload, Properties, Ticket,
};
use std::collections::{BTreeMap, VecDeque};

/// Most members of an array.
pub const MEMBERS_MAX: usize = 32;

/// Largest transfer of an array: it must be put together in memory.
const TRANSFER_BYTES_MAX: u64 = 32 << 20;

/// A command of the array, of which parts are at members.
struct Running<T> {
    ticket: Ticket,
    /// Parts not answered yet.
    left: usize,
    parts: T,
}

/// What both kinds of array keep: who waits for what.
struct Desk<T> {
    running: BTreeMap<u64, Running<T>>,
    next_id: u64,
    done: VecDeque<Completion>,
    /// The last time anything was told to the array.
    time: Nanos,
    power_cuts: u64,
}

impl<T> Desk<T> {
    fn new() -> Self {
        Self {
            running: BTreeMap::new(),
            next_id: 0,
            done: VecDeque::new(),
            time: Nanos::ZERO,
            power_cuts: 0,
        }
    }

    /// The one gate: answers what the array cannot do, and gives back the ticket otherwise.
    fn admit(
        &mut self,
        properties: &Properties,
        ticket: Ticket,
        command: &Command,
    ) -> Option<Ticket> {
        let depth = usize::from(properties.queue_depth_max);
        let result = check(properties, command).and_then(|()| {
            if self.running.len() < depth {
                return Ok(());
            }
            let name = &properties.name;
            Err(DiskError {
                kind: DiskErrorKind::Invalid,
                detail: format!("{name}: more than {depth} commands outstanding: wait for some"),
            })
        });
        match result {
            Ok(()) => Some(ticket),
            Err(error) => {
                self.done.push_back(ticket.complete(Err(error)));
                None
            }
        }
    }

    fn begin(&mut self, ticket: Ticket, left: usize, parts: T) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.running.insert(id, Running { ticket, left, parts });
        id
    }

    fn finish(&mut self, id: u64, result: impl FnOnce(T) -> Result<Payload, DiskError>) {
        if let Some(Running { ticket, parts, .. }) = self.running.remove(&id) {
            self.done.push_back(ticket.complete(result(parts)));
        }
    }

    fn abandon(&mut self) {
        while let Some((_, running)) = self.running.pop_first() {
            running.ticket.abandon();
        }
        self.done.clear();
    }

    fn wake_at(&self, of_members: Option<Nanos>) -> Option<Nanos> {
        if self.done.is_empty() { of_members } else { Some(self.time) }
    }
}

impl<T> Drop for Desk<T> {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// What the members have in common: the facts of the array but for size and queue.
///
/// Fails if there are too few members or too many.
fn common_properties<D: Disk>(disks: &[D], name: String) -> Result<Properties, DiskError> {
    let found = disks.len();
    let (Some(first), 2..=MEMBERS_MAX) = (disks.first(), found) else {
        return Err(DiskError {
            kind: DiskErrorKind::Invalid,
            detail: format!("{name}: expected 2 to {MEMBERS_MAX} disks, found {found}"),
        });
    };
    let all = || disks.iter().map(Disk::properties);
    let first = first.properties();
    let turns_alike = all().all(|disk| disk.rotation_period == first.rotation_period);
    Ok(Properties {
        name,
        capacity_bytes: all().map(|disk| disk.capacity_bytes).min().unwrap_or(0),
        sector_bytes: all().map(|disk| disk.sector_bytes).max().unwrap_or(512),
        physical_sector_bytes: all().map(|disk| disk.physical_sector_bytes).max().unwrap_or(512),
        rotational: all().any(|disk| disk.rotational),
        rotation_period: first.rotation_period.filter(|_| turns_alike),
        volatile_cache: all().any(|disk| disk.volatile_cache),
        trim_reads_zero: all().all(|disk| disk.trim_reads_zero),
        fast_zero: all().all(|disk| disk.fast_zero),
        transfer_bytes_max: all().map(|disk| disk.transfer_bytes_max).min().unwrap_or(0),
        queue_depth_max: all().map(|disk| disk.queue_depth_max).min().unwrap_or(1),
    })
}

fn names<D: Disk>(disks: &[D]) -> String {
    disks.iter().map(|disk| disk.properties().name.as_str()).collect::<Vec<_>>().join(", ")
}

fn invalid(name: &str, problem: &str) -> DiskError {
    DiskError { kind: DiskErrorKind::Invalid, detail: format!("{name}: {problem}") }
}

/// A member's error, with the member's name in front.
fn named(error: &DiskError, index: usize, count: usize, name: &str) -> DiskError {
    let detail = format!("member {} of {count} ({name}): {}", index + 1, error.detail);
    DiskError { kind: error.kind, detail }
}
