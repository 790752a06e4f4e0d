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
//! - the smallest member decides how much of each is used, and nothing past that is touched;
//! - a run is called blank only if every member that holds a part of it says so, and of a mirror only while
//!   no member is missing, behind or in doubt.
//!
//! An array that was made with labels ([`label`]) knows its members: [`open`] refuses any other disk,
//! another order or chunk, and a mirror copies to a member that was away. Without labels the order of
//! the members and the chunk must be given again at each use, and a mirror does not remember over a
//! restart that a member fell behind.

mod alike;
#[cfg(test)]
mod alike_tests;
#[cfg(test)]
mod blank_tests;
mod copying;
#[cfg(test)]
mod copying_tests;
#[cfg(test)]
mod facts_tests;
mod gate;
#[cfg(test)]
mod gate_tests;
mod keeper;
mod label;
#[cfg(test)]
mod label_rig;
mod label_rounds;
#[cfg(test)]
mod label_tests;
mod leaving;
#[cfg(test)]
mod leaving_tests;
#[cfg(test)]
mod marking_tests;
mod members;
#[cfg(test)]
mod members_tests;
mod mirror;
mod missed;
#[cfg(test)]
mod missed_lives_tests;
#[cfg(test)]
mod missed_tests;
mod noted;
mod open;
#[cfg(test)]
mod open_tests;
mod parts;
mod plan;
#[cfg(test)]
mod plan_tests;
mod regions;
mod replacement;
mod replacing;
#[cfg(test)]
mod replacing_tests;
mod rest;
#[cfg(test)]
mod rest_tests;
mod rested;
#[cfg(test)]
mod script_rig;
mod sides;
#[cfg(test)]
mod sides_tests;
mod spec;
mod stripe;
mod succession;
#[cfg(test)]
mod tests;
mod trouble;

pub use label::{LABEL_BYTES, Label};
pub use mirror::{Mirror, ReadPolicy};
pub use noted::MemberLabel;
pub use open::{MISSING, Purpose, RunOne, label_of, open, open_to_send, remove_label};
pub use replacement::{Replacement, mirror_members};
pub use replacing::label_successor;
pub use spec::{
    ARRAY_PREFIXES, ArrayKind, ArraySpec, Take, as_member, model_from_text, split_members,
};
pub use stripe::Stripe;

use members::Members;
use nearhead_basics::SplitMix;
use nearhead_disk::{
    Class, Command, Completion, Desk, Disk, DiskError, DiskErrorKind, Nanos, Properties, Resilver,
    Side, Submission, Ticket, Zones,
};
use nearhead_models::{Model, Report};
use std::os::fd::BorrowedFd;

/// Most members of an array.
pub const MEMBERS_MAX: usize = 32;

/// Largest transfer of an array: it must be put together in memory.
const TRANSFER_BYTES_MAX: u64 = 32 << 20;

/// What all arrays have: members, and the commands of which parts are at members.
pub struct Core<D, P> {
    members: Members<D>,
    properties: Properties,
    desk: Desk<P>,
    /// When the array was last told anything.
    now: Nanos,
    power_cuts: u64,
}

/// What kind of array it is: who gets which part of a command, and what the answers mean.
pub trait Arrangement {
    /// What a command waits for.
    type Parts;

    /// Gives the parts of an admitted command to the members.
    fn submit<D: Disk>(
        &mut self,
        core: &mut Core<D, Self::Parts>,
        ticket: Ticket,
        class: Class,
        command: Command,
    );

    /// Takes a member's answer to a part.
    fn settle<D: Disk>(&mut self, core: &mut Core<D, Self::Parts>, member: usize, done: Completion);

    /// Goes on with what the array does by itself.
    fn advance<D: Disk>(&mut self, _core: &mut Core<D, Self::Parts>) {}

    /// When it next does something by itself.
    fn next_event(&self) -> Option<Nanos> {
        None
    }

    /// What [`Disk::leave`] asks for.
    fn leave<D: Disk>(&mut self, _core: &mut Core<D, Self::Parts>) {}

    /// See [`Disk::has_left`].
    fn has_left(&self) -> bool {
        true
    }

    /// See [`Disk::let_rest`]; members were told.
    fn let_rest<D: Disk>(&mut self, _core: &mut Core<D, Self::Parts>, _after: Option<Nanos>) {}

    /// See [`Disk::expect_writes`]; members were told.
    fn expect_writes<D: Disk>(&mut self, _core: &mut Core<D, Self::Parts>) {}

    /// See [`Disk::sides`].
    fn sides<D: Disk>(&self, core: &Core<D, Self::Parts>, now: Nanos) -> Vec<Side> {
        core.members.disks().flat_map(|disk| disk.sides(now)).collect()
    }

    /// See [`Disk::resilvers`].
    fn resilvers<D: Disk>(&self, core: &Core<D, Self::Parts>) -> Vec<Resilver> {
        core.members.disks().flat_map(Disk::resilvers).collect()
    }

    /// See [`Disk::release_replaced`].
    fn release_replaced<D: Disk>(&mut self, core: &mut Core<D, Self::Parts>) -> bool {
        core.members.disks_mut().fold(true, |are_all, disk| disk.release_replaced() & are_all)
    }

    /// Forgets what was under way: the members lost their power.
    fn forget(&mut self) {}

    /// What the members together know of the bytes from `offset` on; as [`Disk::run_at`].
    fn run_at<D: Disk>(&self, core: &Core<D, Self::Parts>, offset: u64) -> nearhead_disk::Run;

    /// What people should know about the array itself.
    fn trouble<D: Disk>(&self, core: &Core<D, Self::Parts>) -> Option<String>;
}

/// Several disks as one, arranged as `A` says.
pub struct Array<D, A: Arrangement> {
    core: Core<D, A::Parts>,
    arrangement: A,
}

impl<D: Disk, A: Arrangement> Array<D, A> {
    fn arranged(disks: Vec<D>, properties: Properties, arrangement: A) -> Result<Self, DiskError> {
        let members = Members::new(disks)?;
        let (desk, now) = (Desk::new(), Nanos::ZERO);
        Ok(Self { core: Core { members, properties, desk, now, power_cuts: 0 }, arrangement })
    }

    /// The disk number `index`.
    pub fn member(&self, index: usize) -> &D {
        self.core.members.disk(index)
    }

    /// Gives the disks back; commands outstanding are forgotten.
    pub fn into_disks(self) -> Vec<D> {
        self.core.members.into_disks()
    }
}

impl<D: Disk, P> Core<D, P> {
    /// A member's error, with the member's name in front.
    fn name_error(&self, index: usize, error: &DiskError) -> DiskError {
        let (name, count) = (&self.members.disk(index).properties().name, self.members.len());
        let detail = format!("member {} of {count} ({name}): {}", index + 1, error.detail);
        DiskError { kind: error.kind, detail }
    }
}

#[warn(clippy::missing_trait_methods)]
impl<D: Disk, A: Arrangement> Disk for Array<D, A> {
    /// There are several, and what each method says of all of them is said here.
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.core.properties
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        let core = &mut self.core;
        core.now = now;
        let Submission { ticket, class, command } = submission;
        if let Some(ticket) = core.desk.admit(&core.properties, ticket, &command) {
            self.arrangement.submit(core, ticket, class, command);
        }
    }

    fn kick(&mut self) {
        self.core.members.kick();
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        let core = &mut self.core;
        core.now = now;
        self.arrangement.advance(core);
        while !core.desk.has_answers() {
            let (member, done) = core.members.poll(core.now)?;
            self.arrangement.settle(core, member, done);
            self.arrangement.advance(core);
        }
        core.desk.fetch()
    }

    fn wake_at(&self) -> Option<Nanos> {
        let next = [self.core.members.wake_at(), self.arrangement.next_event()];
        self.core.desk.wake_at(self.core.now, next.into_iter().flatten().min())
    }

    fn leave(&mut self) {
        self.arrangement.leave(&mut self.core);
    }

    fn has_left(&self) -> bool {
        self.arrangement.has_left() && self.core.members.disks().all(Disk::has_left)
    }

    fn let_rest(&mut self, after: Option<Nanos>) {
        self.core.members.disks_mut().for_each(|disk| disk.let_rest(after));
        self.arrangement.let_rest(&mut self.core, after);
    }

    fn expect_writes(&mut self, now: Nanos) {
        self.core.now = now;
        self.core.members.disks_mut().for_each(|disk| disk.expect_writes(now));
        self.arrangement.expect_writes(&mut self.core);
    }

    fn sides(&self, now: Nanos) -> Vec<Side> {
        self.arrangement.sides(&self.core, now)
    }

    fn resilvers(&self) -> Vec<Resilver> {
        self.arrangement.resilvers(&self.core)
    }

    fn release(&mut self) {
        self.core.members.disks_mut().for_each(Disk::release);
    }

    fn release_replaced(&mut self) -> bool {
        self.arrangement.release_replaced(&mut self.core)
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.core.members.wake_fd()
    }

    fn run_at(&self, offset: u64) -> nearhead_disk::Run {
        if offset >= self.core.properties.capacity_bytes {
            return nearhead_disk::Run::UNKNOWN;
        }
        self.arrangement.run_at(&self.core, offset)
    }

    /// An array with no member does not open.
    fn is_absent(&self) -> bool {
        false
    }

    fn trouble(&self) -> Option<String> {
        let of_members = || self.core.members.disks().find_map(Disk::trouble);
        self.arrangement.trouble(&self.core).or_else(of_members)
    }

    /// Bands of members make none of the array.
    fn zones(&self) -> Option<&Zones> {
        None
    }

    /// A member that lost writes fails changes, and a mirror goes on without it: members do not start over one by one.
    fn lost_writes(&self) -> Option<&str> {
        None
    }

    fn start_over(&mut self) -> Result<(), DiskError> {
        Ok(())
    }
}

impl<M: Model, A: Arrangement + Send> Model for Array<M, A>
where
    A::Parts: Send,
{
    fn power_cut(&mut self, now: Nanos, random: &mut SplitMix) -> Result<(), DiskError> {
        let core = &mut self.core;
        let cuts: Vec<_> =
            core.members.disks_mut().map(|disk| disk.power_cut(now, random)).collect();
        core.members.forget_commands();
        core.desk.abandon();
        self.arrangement.forget();
        core.power_cuts += 1;
        cuts.into_iter().collect()
    }

    fn report(&self) -> Report {
        let members = self.core.members.disks().map(Model::report).collect();
        Report::Array { members, power_cuts: self.core.power_cuts }
    }

    fn reset_report(&mut self) {
        self.core.power_cuts = 0;
        self.core.members.disks_mut().for_each(Model::reset_report);
    }
}

/// What the members have in common: the facts of the array but for size and queue.
///
/// Fails if there are fewer members than `least`, or too many.
fn common_properties<D: Disk>(
    disks: &[D],
    least: usize,
    name: String,
) -> Result<Properties, DiskError> {
    let found = disks.len();
    let first = disks.first().filter(|_| (least..=MEMBERS_MAX).contains(&found));
    let Some(first) = first else {
        let problem = format!("expected {least} to {MEMBERS_MAX} disks, found {found}");
        return Err(invalid(&name, &problem));
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
        width: 1,
        striping: None,
    })
}

fn names<D: Disk>(disks: &[D]) -> String {
    disks.iter().map(|disk| disk.properties().name.as_str()).collect::<Vec<_>>().join(", ")
}

fn invalid(name: &str, problem: &str) -> DiskError {
    DiskError { kind: DiskErrorKind::Invalid, detail: format!("{name}: {problem}") }
}
