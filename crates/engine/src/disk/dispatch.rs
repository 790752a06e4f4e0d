//! Commands on their way to one disk: who asked, in which order they leave, what is outstanding.
//!
//! Keeps true: never more outstanding than the disk's queue takes, classes leave in the order the
//! admission policy allows, commands of one class in the order they were issued unless the policy
//! picks by the arm, bulk never passes a record that waits or is on the disk before it gave way for
//! as long as the policy asks, and every completion finds its purpose exactly once.

pub(crate) use super::purpose::Purpose;
use crate::admission::{Admission, Outstanding, Pace};
use crate::disk::drive::{Drive, Moved};
use crate::disk::drives::{Done, Drives};
use crate::disk::durable_clock::DurableClock;
use crate::disk::head::Head;
pub(crate) use crate::disk::in_flight::InFlight;
use crate::disk::in_flight::Sort;
use crate::disk::lanes::command_id;
use crate::disk::report::DiskWork;
use nearhead_basics::Slab;
use nearhead_disk::{
    Class, Command, Lane, Nanos, PartDone, Properties, Striping, Submission, Ticket, Tracks,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// The way to one disk.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    lane: Lane,
    in_flight: Slab<InFlight>,
    waiting: [VecDeque<(u32, Command)>; 4],
    outstanding: Outstanding,
    queue_depth_max: u32,
    /// Where the head is, as far as one can tell from what passes here.
    head: Head,
    /// How its addresses go round, if it is a striped array.
    striping: Option<Striping>,
    /// What is known of the drives, if anybody found out where their tracks are.
    drives: Option<Drives>,
    /// Since when a record waits until nothing is on the disk, if one does.
    held_since: Option<Nanos>,
    /// How long durable writes have had the disk.
    durable_clock: DurableClock,
    now: Nanos,
    leaving: VecDeque<Submission>,
}

/// Of the first so many that wait one is picked. Of 32 the CloudPhysics trace takes 178 ms instead of 168 at a depth of 32, and st3146855fc 37 ms instead of
/// 31 for DTRS: what belongs together is torn apart (docs/performance.md).
const PICKED_FROM_MAX: usize = 8;

const CLASSES: [Class; 4] = [Class::Durable, Class::Foreground, Class::Bulk, Class::Background];

/// How many arms a record leaves free but its own: where it lies on several members none.
fn arms_apart(properties: &Properties) -> u32 {
    let striping = properties.striping.filter(|striping| striping.whole_runs().is_some());
    striping.map_or(1, Striping::members)
}

impl Dispatcher {
    pub(crate) fn new(lane: Lane, properties: &Properties) -> Self {
        Self {
            lane,
            in_flight: Slab::new(),
            waiting: std::array::from_fn(|_| VecDeque::new()),
            outstanding: Outstanding { arms: arms_apart(properties), ..Outstanding::default() },
            queue_depth_max: u32::from(properties.queue_depth_max),
            head: Head::new(properties),
            striping: properties.striping,
            drives: None,
            held_since: None,
            durable_clock: DurableClock::default(),
            now: Nanos::ZERO,
            leaving: VecDeque::new(),
        }
    }

    /// What time it is for everything that follows.
    pub(crate) fn set_now(&mut self, now: Nanos) {
        self.now = now;
    }

    /// Device byte where the head will be for a command that leaves now, as far as a host can know.
    pub(crate) fn head_offset(&self) -> u64 {
        self.head.position(self.now)
    }

    /// The same, if there is a head that moves: for people.
    pub(crate) fn estimates_head(&self) -> Option<u64> {
        self.head.memory_answers_below().map(|_| self.head_offset())
    }

    /// Whether nothing is on the disk or on its way there.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// It was found out where the tracks of each drive are; `start` is the address of its first byte.
    pub(crate) fn know_tracks(&mut self, tracks: &[Arc<Tracks>], start: u64) {
        self.drives = Drives::of(tracks, self.striping).map(|drives| drives.from(start));
    }

    /// What a command does to the arm, by the device's own addresses.
    fn moved(&self, of: &InFlight) -> Moved {
        of.moved(self.drives.as_ref().map_or(0, Drives::start))
    }

    /// How many commands are on the disk.
    pub(crate) fn on_disk_count(&self) -> u32 {
        self.outstanding.commands_total()
    }

    /// What is known of the drives, if anything.
    pub(crate) fn drives(&self) -> Option<&Drives> {
        self.drives.as_ref()
    }

    /// The one drive behind it, while its predictions hold.
    fn followed(&self) -> Option<&Drive> {
        self.drives.as_ref()?.alone().filter(|drive| drive.is_trusted())
    }

    /// Whether a record waits until nothing is on the disk.
    pub(crate) fn hold_for_record(&mut self, admission: &dyn Admission, record_waits: bool) {
        let ends = self.outstanding.record_waits && !record_waits;
        self.outstanding.record_waits = record_waits;
        self.held_since = record_waits.then(|| self.held_since.unwrap_or(self.now));
        self.set_durable_clock();
        if ends {
            self.pump(admission);
        }
    }

    /// Whether any bulk is there or waits.
    pub(crate) fn has_bulk(&self) -> bool {
        let class = Class::Bulk as usize;
        self.outstanding.commands[class] > 0 || !self.waiting[class].is_empty()
    }

    /// When each command on the disk left, and what it is for.
    pub(crate) fn on_disk(&self) -> impl Iterator<Item = (Nanos, DiskWork)> + '_ {
        let left = self.in_flight.iter().filter(|command| command.has_left);
        left.map(|command| (command.left_at, command.work()))
    }

    /// Whether anything left that is not answered.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.outstanding.commands_total() > 0
    }

    /// How long `done` took, and whether it moved the arm, as far as one can tell.
    pub(crate) fn took(&self, done: &InFlight) -> (Nanos, bool) {
        let took = self.now.since(done.left_at);
        let from_memory = done.sort == Sort::Read && self.head.is_from_memory(took);
        (took, done.bytes > 0 && !from_memory)
    }

    /// Issues a command; it leaves when admitted.
    pub(crate) fn issue(
        &mut self,
        admission: &dyn Admission,
        class: Class,
        purpose: Purpose,
        command: Command,
    ) {
        let new = self.in_flight_of(purpose, class, &command);
        let bytes = new.bytes;
        let id = self.in_flight.insert(new);
        let passes = self.waiting[class as usize].is_empty()
            || self.in_flight.get(id).is_some_and(|of| self.is_remembered(admission, class, of));
        if passes && self.may_leave(admission, class, id) {
            self.leave(id, class, bytes, command);
        } else {
            self.waiting[class as usize].push_back((id, command));
        }
    }

    /// Issues commands of which all leave as soon as the first is admitted and the disk's queue has
    /// room. They count as one piece: a disk that has them works on them piece by piece anyway.
    pub(crate) fn issue_together(
        &mut self,
        admission: &dyn Admission,
        class: Class,
        purpose: Purpose,
        commands: Vec<Command>,
    ) {
        let mut bytes = u64::from(admission.piece_bytes());
        for command in commands {
            let new = self.in_flight_of(purpose, class, &command);
            let id = self.in_flight.insert(InFlight { bytes, follows: bytes == 0, ..new });
            self.waiting[class as usize].push_back((id, command));
            bytes = 0;
        }
        self.pump(admission);
    }

    /// Says how much background work matters now; what may go then goes.
    pub(crate) fn set_pace(&mut self, admission: &dyn Admission, pace: Pace) {
        if self.outstanding.pace != pace {
            self.outstanding.pace = pace;
            self.pump(admission);
        }
    }

    /// A command that is issued now.
    fn in_flight_of(&self, purpose: Purpose, class: Class, command: &Command) -> InFlight {
        let durable_time = self.durable_clock.total(self.now);
        InFlight { durable_time, ..InFlight::new(purpose, class, command, self.now) }
    }

    /// Brings the clock of durable writes up to date after a command left or completed, or a record began or ceased to wait.
    fn set_durable_clock(&mut self) {
        let on_disk = self.outstanding.commands[Class::Durable as usize] > 0;
        self.durable_clock.set(on_disk || self.outstanding.record_waits, self.now);
    }

    /// Whether small commands go in the arm's order, so that the next record finds the arm where it is expected. Without
    /// durable writes the drive's own order is better.
    fn keeps_arm_order(&self) -> bool {
        self.outstanding.record_waits || self.durable_clock.is_recent(self.now)
    }

    /// How long a command that waits has given way to durable writes. Time behind other commands of its class in a long queue
    /// does not count, nor does time before the record that waits now.
    fn gave_way(&self, of: &InFlight) -> Nanos {
        let held = self.held_since.map_or(Nanos::MAX, |since| self.now.since(since));
        let durable_time = self.durable_clock.total(self.now).since(of.durable_time);
        self.now.since(of.left_at).min(held).min(durable_time)
    }

    fn may_leave(&self, admission: &dyn Admission, class: Class, id: u32) -> bool {
        let Some(of) = self.in_flight.get(id) else { return false };
        let foreground = &self.waiting[Class::Foreground as usize];
        let first = foreground.front().and_then(|(id, _)| self.in_flight.get(*id));
        let outstanding = Outstanding {
            foreground_waiting: foreground.len() as u32,
            foreground_waited: first.map_or(Nanos::ZERO, |first| self.now.since(first.left_at)),
            issued_ago: self.now.since(of.left_at),
            is_drive_known: self.outstanding.is_drive_known && self.keeps_arm_order(),
            ..self.outstanding
        };
        outstanding.commands_total() < self.queue_depth_max
            && (of.follows
                || self.is_remembered(admission, class, of)
                || admission.admits(class, of.bytes, self.gave_way(of), &outstanding))
    }

    /// Whether the drive may answer a foreground read without its arm, so that the read delays no other command. A record that
    /// waits for an idle disk waits at most a revolution for such reads. Bulk is excluded: the drive remembers only the start of
    /// a stream that goes on, and the rest of it would pass every record.
    fn is_remembered(&self, admission: &dyn Admission, class: Class, of: &InFlight) -> bool {
        if class != Class::Foreground || !admission.memory_passes() {
            return false;
        }
        let waits_long = |drive: &Drive| {
            self.held_since.is_some_and(|since| self.now.since(since) >= drive.period())
        };
        self.followed()
            .is_some_and(|drive| drive.may_remember(&self.moved(of)) && !waits_long(drive))
    }

    fn leave(&mut self, id: u32, class: Class, bytes: u64, command: Command) {
        if let (Some(drives), Some(leaving)) = (&mut self.drives, self.in_flight.get(id)) {
            drives.leaves(leaving.moved(drives.start()), self.now);
        }
        self.outstanding.add(class, bytes);
        if class == Class::Durable {
            self.durable_clock.note_left(self.now);
        }
        self.set_durable_clock();
        if let Some(leaving) = self.in_flight.get_mut(id) {
            leaving.left_at = self.now;
            leaving.has_left = true;
        }
        if let Some(leaving) = self.in_flight.get(id).filter(|leaving| leaving.is_for_client()) {
            let writes = matches!(leaving.purpose, Purpose::InPlace { .. });
            self.head.left(id, leaving.end_offset, writes, self.now);
        }
        let ticket = Ticket::new(command_id(self.lane, id));
        self.leaving.push_back(Submission { ticket, class, command });
    }

    /// A command completed; says what it was for. `None` for an unknown id.
    ///
    /// `parts` says when each member of an array was done with it.
    pub(crate) fn complete(
        &mut self,
        admission: &dyn Admission,
        id: u32,
        parts: &[PartDone],
    ) -> Option<InFlight> {
        let done = self.in_flight.remove(id)?;
        self.outstanding.remove(done.class, done.bytes);
        self.set_durable_clock();
        if let Some(drives) = &mut self.drives {
            let told = Done::new(done.moved(drives.start()), done.left_at, parts)
                .telling(done.bytes > 0)
                .for_client(done.is_for_client())
                .remembered_below(self.head.memory_answers_below());
            drives.completed(&told, self.now);
            self.outstanding.is_drive_known = drives.is_trusted();
        }
        if done.is_for_client() {
            self.head.completed(id, done.end_offset, done.bytes, self.now);
        }
        self.pump(admission);
        Some(done)
    }

    fn pump(&mut self, admission: &dyn Admission) {
        for class in CLASSES {
            while let Some(next) = self.next_of(admission, class) {
                let id = self.waiting[class as usize].get(next).map(|(id, _)| *id);
                if !id.is_some_and(|id| self.may_leave(admission, class, id)) {
                    break;
                }
                if let Some((id, command)) = self.waiting[class as usize].remove(next) {
                    let bytes = self.in_flight.get(id).map_or(0, |of| of.bytes);
                    self.leave(id, class, bytes, command);
                }
            }
        }
    }

    /// Index of the waiting command that leaves next: the first, or where the arm's order is kept the one that a known drive can
    /// begin with soonest.
    fn next_of(&self, admission: &dyn Admission, class: Class) -> Option<usize> {
        let waiting = &self.waiting[class as usize];
        let by_arm = class == Class::Foreground && self.keeps_arm_order();
        let weighs = admission.waiting_weighs_one_in().filter(|_| by_arm);
        let (Some(one_in), Some(drive)) = (weighs, self.followed()) else {
            return (!waiting.is_empty()).then_some(0);
        };
        let commands = waiting.iter().take(PICKED_FROM_MAX).map(|(id, _)| self.in_flight.get(*id));
        let costs = commands.map(|of| of.map_or(i128::MIN, |of| self.cost_of(of, drive, one_in)));
        costs.enumerate().min_by_key(|(_, cost)| *cost).map(|(index, _)| index)
    }

    /// What it takes until a drive begins with it, less what its waiting weighs.
    fn cost_of(&self, of: &InFlight, drive: &Drive, one_in: u32) -> i128 {
        if of.follows || drive.may_remember(&self.moved(of)) {
            return i128::MIN;
        }
        let waited = self.now.since(of.left_at).0 / u64::from(one_in.max(1));
        i128::from(drive.positioning(&self.moved(of), self.now).0) - i128::from(waited)
    }

    pub(crate) fn poll(&mut self) -> Option<Submission> {
        self.leaving.pop_front()
    }

    /// Commands issued and not completed.
    pub(crate) fn len(&self) -> usize {
        self.in_flight.len()
    }
}

/// An engine that is dropped in the middle (a crash in a test, a fatal error) never sends what had
/// not left yet.
impl Drop for Dispatcher {
    fn drop(&mut self) {
        for submission in self.leaving.drain(..) {
            submission.ticket.abandon();
        }
    }
}

#[cfg(test)]
#[path = "dispatch_tests.rs"]
mod tests;
