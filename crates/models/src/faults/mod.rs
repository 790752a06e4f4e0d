//! A layer of faults over any disk, in virtual time.
//!
//! The disk below gives the facts a host may know and the time each command takes; the content is the
//! layer's own, behind a volatile cache that a power cut may empty in any way
//! ([`FaultDisk::power_cut`]). Above that a plan says which faults hit which commands. The same plan and
//! the same commands give the same faults; each kind draws from a stream of its own, so that switching
//! one off leaves the others as they were.
//!
//! What it must never do: tear a sector, or damage anything silently, outside the ranges that the
//! plan names for it; what the host was told is safe stays safe unless a silent fault was allowed.

mod cut;
mod effects;
mod kinds;
mod plan;
#[cfg(test)]
mod tests;

pub use kinds::{FaultCounts, FaultKind};
pub use plan::{FaultBudget, FaultPlan, NthFault};

use crate::crash::VolatileCache;
use crate::store::MemoryStore;
use effects::{Effect, phantom};
use nearhead_basics::SplitMix;
use nearhead_disk::check_command;
use nearhead_disk::{
    Command, CommandId, Completion, Disk, DiskError, DiskErrorKind, Nanos, Payload, Properties,
    Run, Submission, Ticket,
};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// With what every error begins that was made up here.
pub const MARK: &str = "injected fault";

/// A slow command takes so many times as long.
const SLOWDOWN: u64 = 1000;
/// Durable writes in verified ranges that bits may rot in.
const ROTTABLE_MAX: usize = 64;

/// What happens when a completion is handed out.
#[derive(Debug)]
enum Settles {
    Nothing,
    Write { serial: u64, offset: u64, len: u64 },
    Flush(Vec<u64>),
}

/// What the completion will say.
#[derive(Debug)]
enum Answer {
    Known(Result<Payload, DiskError>),
    /// A read of what will be there by then.
    ReadLater {
        offset: u64,
        len: u32,
    },
}

#[derive(Debug)]
struct Outstanding {
    ticket: Ticket,
    since: Nanos,
    slow: bool,
    answer: Answer,
    settles: Settles,
}

/// A disk with faults.
pub struct FaultDisk<D> {
    timing: D,
    properties: Properties,
    cache: VolatileCache,
    plan: FaultPlan,
    /// One stream for each kind, and one for what is no fault.
    streams: Vec<SplitMix>,
    choices: SplitMix,
    armed: bool,
    counts: FaultCounts,
    commands: u64,
    /// Commands since the plan was given.
    commands_of_plan: u64,
    silent_left: u64,
    sticky: Vec<Range<u64>>,
    full_left: u64,
    gone: bool,
    rottable: VecDeque<(u64, u64)>,
    next_id: u64,
    at_disk: BTreeMap<u64, Outstanding>,
    ready: BTreeMap<(Nanos, u64), Outstanding>,
    hung: Vec<Ticket>,
}

impl<D: Disk> FaultDisk<D> {
    /// Over `timing`, with the content `image`, all of it safe, and without faults yet.
    pub fn new(timing: D, image: MemoryStore) -> Self {
        let properties = timing.properties().clone();
        let cache = VolatileCache::new(properties.sector_bytes, image);
        let mut disk = Self {
            timing,
            properties,
            cache,
            plan: FaultPlan::none(0),
            streams: Vec::new(),
            choices: SplitMix::new(0),
            armed: false,
            counts: FaultCounts::default(),
            commands: 0,
            commands_of_plan: 0,
            silent_left: 0,
            sticky: Vec::new(),
            full_left: 0,
            gone: false,
            rottable: VecDeque::new(),
            next_id: 0,
            at_disk: BTreeMap::new(),
            ready: BTreeMap::new(),
            hung: Vec::new(),
        };
        disk.set_plan(FaultPlan::none(0));
        disk
    }

    /// From now on faults come as `plan` says; [`FaultDisk::arm`] switches them on.
    pub fn set_plan(&mut self, plan: FaultPlan) {
        let stream = |kind: u64| SplitMix::new(plan.seed ^ (kind + 1).wrapping_mul(0x9e37_79b9));
        self.streams = (0..kinds::KINDS as u64).map(stream).collect();
        self.choices = stream(u64::MAX - 1);
        self.silent_left = plan.silent_max;
        self.commands_of_plan = 0;
        self.plan = plan;
    }

    /// What may happen.
    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    /// Whether faults hit commands from now on. Switching them off mends what was broken for a time.
    pub fn arm(&mut self, armed: bool) {
        self.armed = armed;
        if !armed {
            self.sticky.clear();
            self.full_left = 0;
            self.gone = false;
        }
    }

    /// At most so many silent faults from now on.
    pub fn allow_silent(&mut self, count: u64) {
        self.silent_left = count;
    }

    /// What happened so far.
    pub fn counts(&self) -> &FaultCounts {
        &self.counts
    }

    /// Commands taken so far.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// Commands since the plan was given.
    pub fn commands_of_plan(&self) -> u64 {
        self.commands_of_plan
    }

    /// Commands that will never be answered.
    pub fn hung(&self) -> usize {
        self.hung.len()
    }

    /// The content if nothing is lost.
    pub fn image(&self) -> MemoryStore {
        self.cache.image_after(&|_, _| true)
    }

    /// The disk below.
    pub fn timing(&self) -> &D {
        &self.timing
    }

    /// The power goes: the plan's seed decides what is there afterwards. No command is ever answered.
    /// `timing` is the disk below after its restart.
    pub fn power_cut(&mut self, timing: D) {
        let sector_bytes = self.properties.sector_bytes;
        let mut random = SplitMix::new(self.choices.next_u64());
        let image =
            cut::outcome(&self.cache, sector_bytes, &self.plan, &mut random, &mut self.counts);
        self.cache.cut_to(image);
        self.restart(timing);
    }

    /// What a power cut now might leave, as `seed` decides. Nothing changes here: the disk goes on.
    pub fn image_after_cut(&self, seed: u64) -> MemoryStore {
        let (mut random, mut counts) = (SplitMix::new(seed), FaultCounts::default());
        let sector_bytes = self.properties.sector_bytes;
        cut::outcome(&self.cache, sector_bytes, &self.plan, &mut random, &mut counts)
    }

    /// The program that used the disk is gone, the power stays on: what it had submitted takes effect
    /// and stays in the cache, nobody is told.
    pub fn disown(&mut self, timing: D) {
        let done: Vec<u64> = self.cache.unflushed().iter().map(|write| write.serial).collect();
        for serial in done {
            self.cache.complete(serial);
        }
        self.restart(timing);
    }

    /// A disk of another size, or other facts, with the same content; nothing may be outstanding.
    pub fn replace_timing(&mut self, timing: D) {
        self.restart(timing);
        self.properties = self.timing.properties().clone();
    }

    fn restart(&mut self, timing: D) {
        self.timing = timing;
        self.abandon_commands();
    }

    fn abandon_commands(&mut self) {
        self.hung.drain(..).for_each(Ticket::abandon);
        let at_disk = std::mem::take(&mut self.at_disk).into_values();
        let ready = std::mem::take(&mut self.ready).into_values();
        at_disk.chain(ready).for_each(|outstanding| outstanding.ticket.abandon());
    }

    /// Whether one more of `kind` happens now.
    fn happens(&mut self, kind: FaultKind) -> bool {
        let one_in = self.plan.one_in[kind as usize];
        // Drawn also when none is allowed, so that what is allowed does not shift what follows.
        one_in > 0 && self.streams[kind as usize].below(u64::from(one_in)) == 0
    }

    fn note(&mut self, kind: FaultKind) {
        self.counts.note(kind);
    }

    fn finish(&mut self, outstanding: Outstanding) -> Completion {
        let Outstanding { ticket, answer, settles, .. } = outstanding;
        let result = match answer {
            Answer::Known(result) => result,
            Answer::ReadLater { offset, len } => self.cache.read(offset, len),
        };
        match settles {
            Settles::Nothing => {}
            Settles::Write { serial, offset, len } => {
                self.cache.complete(serial);
                if self.plan.damageable_at(offset, len).is_some() {
                    self.rottable.push_back((offset, len));
                    if self.rottable.len() > ROTTABLE_MAX {
                        self.rottable.pop_front();
                    }
                }
            }
            Settles::Flush(covered) => self.cache.flushed(&covered),
        }
        if self.armed && self.silent_left > 0 && self.happens(FaultKind::BitRot) {
            self.rot();
        }
        ticket.complete(result)
    }

    fn take_from_disk(&mut self, now: Nanos) {
        while let Some(done) = self.timing.poll(now) {
            let Some(mut outstanding) = self.at_disk.remove(&done.id.0) else { continue };
            if let Err(error) = done.result {
                outstanding.answer = Answer::Known(Err(error));
            }
            let took = now.since(outstanding.since).0;
            let slow = if outstanding.slow { took.saturating_mul(SLOWDOWN) } else { 0 };
            let jitter = self.choices.below(self.plan.jitter_ns_max);
            self.ready.insert((now + Nanos(slow + jitter), done.id.0), outstanding);
        }
    }
}

impl<D: Disk> Disk for FaultDisk<D> {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.timing)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.timing)
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn run_at(&self, offset: u64) -> Run {
        self.cache.run_at(offset)
    }

    /// The content is here: the disk below can lose none of it.
    fn lost_writes(&self) -> Option<&str> {
        None
    }

    fn start_over(&mut self) -> Result<(), DiskError> {
        Ok(())
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        let Submission { ticket, class, command } = submission;
        self.commands += 1;
        self.commands_of_plan += 1;
        let id = self.next_id;
        self.next_id += 1;
        let mut outstanding = Outstanding {
            ticket,
            since: now,
            slow: false,
            answer: Answer::Known(Ok(Payload::EMPTY)),
            settles: Settles::Nothing,
        };
        if let Err(error) = check_command(&self.properties, &command) {
            outstanding.answer = Answer::Known(Err(error));
            self.ready.insert((now, id), outstanding);
            return;
        }
        let timed = phantom(&command);
        match self.carry_out(command) {
            Effect::Done { answer, settles, slow } => {
                (outstanding.answer, outstanding.settles, outstanding.slow) =
                    (answer, settles, slow);
            }
            Effect::Hung => return self.hung.push(outstanding.ticket),
        }
        self.at_disk.insert(id, outstanding);
        let ticket = Ticket::new(CommandId(id));
        self.timing.submit(Submission { ticket, class, command: timed }, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.take_from_disk(now);
        let (at, _) = *self.ready.first_key_value()?.0;
        if at > now {
            return None;
        }
        let (_, outstanding) = self.ready.pop_first()?;
        Some(self.finish(outstanding))
    }

    fn wake_at(&self) -> Option<Nanos> {
        let ready = self.ready.first_key_value().map(|((at, _), _)| *at);
        [self.timing.wake_at(), ready].into_iter().flatten().min()
    }
}

impl<D> Drop for FaultDisk<D> {
    fn drop(&mut self) {
        self.hung.drain(..).for_each(Ticket::abandon);
        let at_disk = std::mem::take(&mut self.at_disk).into_values();
        let ready = std::mem::take(&mut self.ready).into_values();
        at_disk.chain(ready).for_each(|outstanding| outstanding.ticket.abandon());
    }
}

/// A failure that names itself.
fn injected(kind: DiskErrorKind, what: &str, command: &Command) -> DiskError {
    let place = match command {
        Command::Read { offset, .. }
        | Command::Write { offset, .. }
        | Command::WriteZeroes { offset, .. }
        | Command::Trim { offset, .. } => format!(" at byte {offset}"),
        Command::Flush => String::new(),
    };
    DiskError { kind, detail: format!("{MARK}: {what}{place}") }
}
