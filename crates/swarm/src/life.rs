//! The life of one volume: its disk, its client, its fate, and the oracle that watches.
//!
//! Steps are carried out one after the other in virtual time; every request sent must be answered once,
//! every read must return what the oracle allows, and every restart must leave what it allows. Errors are
//! excused only by a fault that happened since the last start, wrong bytes by nothing.

use crate::company::Company;
use crate::ghost::Ghosts;
use crate::hints::Hints;
use crate::oracle::{Oracle, Read};
use crate::rig::{Array, Rig};
use crate::scenario::{Arrangement, Scenario};
use crate::steps::{Place, Step, WINDOW_SECTORS, WINDOWS};
use crate::tally::Tally;
use nearhead_basics::SplitMix;
use nearhead_disk::{Disk, DiskError, Nanos};
use nearhead_engine::{Activity, Occupancy};
use nearhead_format::Layout;
use nearhead_models::faults::{FaultBudget, FaultKind};
use nearhead_service::Service;
use nearhead_volume::{CreateOptions, Lanes, Volume, create_to_grow, whole_logs};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

/// Events within which everything asked for is answered, in any state of any disk.
const EVENTS_MAX: u64 = 200_000;
/// Steps between two looks at everything that is counted.
const STEPS_PER_COUNT: usize = 16;

/// Which law was broken, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The step during which it showed; the number of steps if at the end.
    pub step: usize,
    /// What was expected and what was found.
    pub what: String,
}

/// What a request waits for.
pub(crate) enum Waiting {
    Read(Read),
    /// A change or a flush.
    Change,
    /// A zeroing that may be refused because it would be slow.
    FastZeroes,
    Hint,
    /// It must be refused, for this reason.
    Refusal(String),
    /// It is sent to a volume that is stopping.
    TooLate,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts about a life, not a state")]
pub(crate) struct Life<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) disk: Rig,
    pub(crate) volume: Option<Volume<Box<dyn Disk>>>,
    pub(crate) now: Nanos,
    pub(crate) oracle: Oracle,
    pub(crate) choices: SplitMix,
    pub(crate) waiting: BTreeMap<u64, Waiting>,
    pub(crate) next_id: u64,
    pub(crate) tally: Tally,
    pub(crate) hints: Hints,
    pub(crate) ghosts: Ghosts,
    pub(crate) company: Rc<RefCell<Company>>,
    /// First client sector of each window.
    pub(crate) bases: [u64; WINDOWS as usize],
    /// The newest committed snapshot when the volume last ended, and whether that was an orderly stop.
    pub(crate) number_at_end: u64,
    pub(crate) stopped_clean: bool,
    /// Faults before the last start.
    pub(crate) faults_at_start: u64,
    /// Something was damaged silently, or could not be read at an opening that reported it.
    pub(crate) damaged: bool,
    /// And it cannot be taken for the end of what was written.
    pub(crate) buried: bool,
    /// The damage was found in a way that ends the life: the volume refuses to open.
    pub(crate) over: bool,
    pub(crate) has_grown: bool,
    /// What an orderly stop left in use.
    pub(crate) left: Option<Occupancy>,
}

/// Lives a life to its end.
pub fn run(scenario: &Scenario) -> Result<Tally, Failure> {
    run_observed(scenario).0
}

/// The same, and what was under way at once in it.
pub fn run_observed(scenario: &Scenario) -> (Result<Tally, Failure>, Company) {
    let company = Rc::new(RefCell::new(Company::default()));
    let result = run_into(scenario, &company);
    let company = company.take();
    (result, company)
}

fn run_into(scenario: &Scenario, company: &Rc<RefCell<Company>>) -> Result<Tally, Failure> {
    let step = std::cell::Cell::new(0);
    let lived = catch_unwind(AssertUnwindSafe(|| live(scenario, &step, company)));
    let lived = lived.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    });
    lived.map_err(|what| Failure { step: step.get(), what })
}

fn live(
    scenario: &Scenario,
    at: &std::cell::Cell<usize>,
    company: &Rc<RefCell<Company>>,
) -> Result<Tally, String> {
    let mut life = Life::new(scenario)?;
    life.company = Rc::clone(company);
    for (number, step) in scenario.steps.iter().enumerate() {
        at.set(number);
        life.apply(step)?;
        if life.over {
            return Ok(life.finished());
        }
        if number % STEPS_PER_COUNT == 0 {
            life.check_counts()?;
        }
    }
    at.set(scenario.steps.len());
    life.make_progress()?;
    Ok(life.finished())
}

/// What the volume is to be made on; of a stripe one in which logs lie on one member each, every other time.
fn new_disk(
    rig: &mut Rig,
    scenario: &Scenario,
    options: &CreateOptions,
) -> Result<(Lanes<Box<dyn Disk>>, Nanos), DiskError> {
    let (plain, now) = rig.assemble(Array::New { whole_runs: None }, Nanos::ZERO)?;
    let properties = plain.main().properties();
    let runs = whole_logs(properties, options, Some(scenario.grown_bytes));
    match runs.filter(|_| scenario.has_whole_logs()) {
        None => Ok((plain, now)),
        Some(runs) => {
            drop(plain);
            rig.assemble(Array::New { whole_runs: Some(runs) }, now)
        }
    }
}

impl<'a> Life<'a> {
    pub(crate) fn new(scenario: &'a Scenario) -> Result<Self, String> {
        let mut disk = Rig::new(scenario);
        let options = scenario.create_options();
        let (mut whole, now) =
            new_disk(&mut disk, scenario, &options).map_err(|error| error.to_string())?;
        let mut io = whole.in_virtual_time(now).knowing(scenario.presets);
        let superblock =
            create_to_grow(&mut io, &options, scenario.grown_bytes, Some(scenario.region_bytes()))
                .map_err(|error| error.to_string())?;
        let now = io.now();
        drop(whole);
        let mut choices = SplitMix::new(scenario.seed ^ 0x6c69_6665);
        let bases = bases(&superblock.layout, &mut choices);
        let mut life = Self {
            scenario,
            disk,
            volume: None,
            now,
            oracle: Oracle::default(),
            choices,
            waiting: BTreeMap::new(),
            next_id: 1,
            tally: Tally::default(),
            hints: Hints::default(),
            ghosts: Ghosts::new(scenario),
            company: Rc::default(),
            bases,
            number_at_end: 0,
            stopped_clean: false,
            faults_at_start: 0,
            damaged: false,
            buried: false,
            over: false,
            // The label of an array's member is where a smaller disk ended.
            has_grown: scenario.arrangement != Arrangement::One,
            left: None,
        };
        life.plan_faults(&superblock.layout);
        life.open()?;
        life.arm();
        Ok(life)
    }

    /// Gives the disk its faults, with the places where they may be silent.
    fn plan_faults(&mut self, layout: &Layout) {
        let mut plan = self.scenario.faults.clone();
        plan.verified = Scenario::verified(layout);
        // With many logs some damage looks like the end of what was written (see SAFETY.md): there only
        // snapshots are damaged behind the volume's back.
        let layout_kind = self.scenario.preset.layout;
        let one_log = layout_kind.has_logs() && !layout_kind.has_many_logs();
        plan.damageable = if one_log { plan.verified.clone() } else { Scenario::slots(layout) };
        self.disk.set_plan(&plan, layout);
    }

    /// Faults hit from now on.
    pub(crate) fn arm(&mut self) {
        let silent = self.scenario.budget == FaultBudget::Detect && !self.is_damaged();
        self.disk.arm(true, u64::from(silent));
    }

    pub(crate) fn disarm(&mut self) {
        self.disk.arm(false, 0);
    }

    /// Whether anything was damaged silently, or was reported as unreadable by an opening.
    pub(crate) fn is_damaged(&mut self) -> bool {
        let counts = self.disk.counts();
        let silent = |kind: &FaultKind| kind.is_silent() && counts.of(*kind) > 0;
        self.damaged |= FaultKind::ALL.iter().any(silent);
        self.damaged
    }

    /// Whether an error may be the disk's.
    pub(crate) fn is_excused(&mut self) -> bool {
        let excuses = self.disk.counts().of_commands() > self.faults_at_start;
        self.is_damaged() || excuses && !self.disk.hides_faults()
    }

    pub(crate) fn volume(&mut self) -> Result<&mut Volume<Box<dyn Disk>>, String> {
        self.volume.as_mut().ok_or_else(|| "the simulator lost its volume".to_owned())
    }

    fn finished(mut self) -> Tally {
        self.note_volume();
        self.tally.lives = 1;
        self.tally.arrays = u64::from(self.scenario.arrangement != Arrangement::One);
        self.tally.chains = u64::from(self.scenario.preset.layout.is_chain());
        self.tally.map_devices = u64::from(self.scenario.map_device_bytes.is_some());
        self.tally.faults = self.disk.counts();
        self.tally.commands = self.disk.commands();
        self.tally.absences = self.disk.absent;
        self.tally.ghosts = self.ghosts.done();
        let (now, commands) = (self.now.0, self.tally.commands);
        self.tally.mix(now);
        self.tally.mix(commands);
        self.tally
    }

    /// Adds what the volume did up to now, before it is gone.
    pub(crate) fn note_volume(&mut self) {
        let Some(volume) = &self.volume else { return };
        let stats = volume.status().stats;
        self.tally.records += stats.records;
        self.tally.swaps += stats.swaps;
        self.tally.compactions += stats.compactions;
        self.tally.snapshots += stats.snapshots;
        self.tally.spills += stats.spills;
        self.tally.invalidated += stats.invalidated_entries;
        self.tally.checkpointed_bytes += stats.checkpointed_bytes;
        self.tally.remembered_bytes += stats.remembered_bytes;
        for value in [stats.records, stats.record_bytes, stats.requests, stats.checkpointed_bytes] {
            self.tally.mix(value);
        }
    }

    fn apply(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Write { place, fua } => self.write(place, fua),
            Step::Zeroes { place, fua, fast_only } => self.zeroes(place, fua, fast_only),
            Step::Trim { place, fua } => self.trim(place, fua),
            Step::Atomic { place, other } => self.atomic(place, other),
            Step::Read { place } => self.read(place).map(drop),
            Step::Flush => self.flush(),
            Step::Hint { place, on } => self.hint(place, on),
            Step::Hostile { salt } => self.hostile(salt),
            Step::Checkpoint { everything } => {
                let now = self.now;
                self.volume()?.start_checkpoint(everything, now);
                Ok(())
            }
            Step::Snapshot => {
                let now = self.now;
                self.volume()?.start_snapshot(now);
                Ok(())
            }
            Step::Turn { micros } => self.turn(Nanos::from_micros(micros)),
            Step::Idle { millis } => self.idle(Nanos::from_millis(millis)),
            Step::Settle => self.settle().map(drop),
            Step::Drain => self.drain().map(drop),
            Step::Cut { again } => self.cut(again),
            Step::CutAtAck { place, fua } => self.cut_at_ack(place, fua),
            Step::Kill { again } => self.kill(again),
            Step::Restart => self.stop_and_start(),
            Step::Grow => self.grow(),
            Step::Damage { salt } => self.damage(salt),
        }
    }

    /// A place on the volume's blocks: first client sector and count.
    pub(crate) fn sectors(&self, place: Place) -> (u64, u64) {
        let unit = self.scenario.block_bytes() / crate::content::SECTOR;
        let start = place.start / unit * unit;
        let count = place.count.next_multiple_of(unit).min(WINDOW_SECTORS - start);
        (self.bases[place.window as usize] + start, count)
    }

    pub(crate) fn drive(&mut self) -> Result<(), String> {
        let now = self.now;
        self.volume()?.drive(now);
        self.take_replies()?;
        self.observe()
    }

    /// Jumps to the next event, at most to `until`; says whether there was one.
    pub(crate) fn jump(&mut self, until: Nanos) -> Result<bool, String> {
        self.drive()?;
        let Some(wake) = self.volume()?.wake_at().filter(|wake| *wake <= until) else {
            return Ok(false);
        };
        self.now = wake.max(self.now);
        self.drive()?;
        Ok(true)
    }

    fn turn(&mut self, span: Nanos) -> Result<(), String> {
        self.drive()?;
        if let Some(wake) = self.volume()?.wake_at() {
            self.now = (self.now + span).min(wake.max(self.now));
            self.drive()?;
        }
        Ok(())
    }

    pub(crate) fn idle(&mut self, span: Nanos) -> Result<(), String> {
        let until = self.now + span;
        for _ in 0..EVENTS_MAX {
            if !self.jump(until)? {
                self.now = until;
                return self.drive();
            }
        }
        let status = self.volume()?.status();
        Err(format!("an idle volume works for ever: {status:?}"))
    }

    /// Waits until `done`; false if a command that hangs keeps it from coming.
    pub(crate) fn wait_for(
        &mut self,
        what: &str,
        mut done: impl FnMut(&mut Self) -> Result<bool, String>,
    ) -> Result<bool, String> {
        for _ in 0..EVENTS_MAX {
            self.drive()?;
            if done(self)? {
                return Ok(true);
            }
            if !self.jump(Nanos::MAX)? {
                if done(self)? {
                    return Ok(true);
                }
                if self.disk.hung() > 0 {
                    return Ok(false);
                }
                let (waiting, status) = (self.names_waiting(), self.volume()?.status());
                return Err(format!(
                    "{what}: nothing will happen, {waiting} wait; status {status:?}"
                ));
            }
            if self.disk.hung() > 0 && !self.is_busy() {
                return Ok(false);
            }
        }
        // The others of several devices may have something to do for ever.
        if self.disk.hung() > 0 {
            return Ok(false);
        }
        let (waiting, status) = (self.names_waiting(), self.volume()?.status());
        let under_way = self.volume()?.engine().activities();
        let under_way: Vec<&str> = under_way.iter().map(Activity::name).collect();
        Err(format!(
            "{what}: not within {EVENTS_MAX} events, {waiting} wait; under way: {under_way:?}; status {status:?}"
        ))
    }

    /// Whether the disk has something else to answer than what hangs.
    pub(crate) fn is_busy(&self) -> bool {
        self.disk.wake_at().is_some()
    }

    fn names_waiting(&self) -> String {
        let ids: Vec<u64> = self.waiting.keys().copied().take(8).collect();
        format!("{} requests ({ids:?} ...)", self.waiting.len())
    }

    /// Waits until everything asked for is answered; false if a command hangs.
    pub(crate) fn settle(&mut self) -> Result<bool, String> {
        self.wait_for("requests", |life| Ok(life.waiting.is_empty()))
    }
}

/// Where the windows are: far apart, the last one at the very end.
fn bases(layout: &Layout, random: &mut SplitMix) -> [u64; WINDOWS as usize] {
    let sectors = layout.client_bytes() / crate::content::SECTOR;
    let apart = sectors / WINDOWS / 8 * 8;
    std::array::from_fn(|window| {
        if window as u64 == WINDOWS - 1 {
            return (sectors - WINDOW_SECTORS) / 8 * 8;
        }
        let room = apart - WINDOW_SECTORS;
        window as u64 * apart + random.below(room / 8) * 8
    })
}
