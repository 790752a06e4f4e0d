//! Volumes that are replicas of each other: every write goes to all of them, and is answered when a quorum has it.
//!
//! Each replica is a volume on a modelled disk of its own, with the engine as it is; all run in one virtual time. What they have in common is what
//! clients ask for. They differ in where their platters stand, in when they write down their maps, and in when their checkpoints begin. With permits a checkpoint that can wait
//! begins only with one, as `nearhead serve` takes them from ZooKeeper; here they are given in the order in which they were wished for, at once.

mod replica;
mod set;

use crate::dataless::Answers;
use crate::experiment::{Experiment, StudyError};
use crate::outcome::LoadOutcome;
use crate::running::Running;
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::virtual_time::Ended;
use replica::Build;
pub use set::Counted;
use set::Set;
use std::time::Instant;

/// Replicas of a set, at most.
const REPLICAS_MAX: u32 = 15;
/// Seconds of a day.
const DAY_S: u32 = 86_400;
/// Longest virtual time after the measurement for what is outstanding to be replied to.
const DRAIN_LIMIT: Nanos = Nanos::from_secs(3600);
/// Platters stand anywhere: more than a turn of the slowest drive.
const PHASE_MAX: Nanos = Nanos::from_secs(1);
/// Replicas that are started at one time would write down their maps at one time ever after; those of a fleet were started at any.
const SNAPSHOTS_LATER_MAX: Nanos = Nanos::from_secs(60);

/// When checkpoints that can wait begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// So long after the last one.
    Period(Nanos),
    /// Once in this part of each day: from and to, in seconds since midnight.
    Window(u32, u32),
}

/// How the replicas of a set make checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoints {
    /// When.
    pub begins: Begins,
    /// Each replica's window begins up to so much later, or its period is up to so much longer, by chance.
    pub spread: Nanos,
    /// Checkpoints that can wait and run at once; `None`: nobody asks.
    pub permits: Option<u32>,
}

/// A set of replicas, and what is asked of them.
#[derive(Clone, Debug)]
pub struct Replicas {
    /// What each of them is, and who works on all; it must say how long, and have a preset.
    pub experiment: Experiment,
    /// How many; a quorum is more than half of them.
    pub count: u32,
    /// When blocks go home.
    pub checkpoints: Checkpoints,
    /// Seconds since midnight when it begins.
    pub second_of_day: u32,
    /// Of what is by chance.
    pub seed: u64,
}

/// What it came to.
#[derive(Clone, Debug)]
pub struct QuorumOutcome {
    /// A hash of every reply and its instant.
    pub digest: u64,
    /// Replies.
    pub replies: u64,
    /// Virtual time that was counted.
    pub measured_s: f64,
    /// Real time that it took.
    pub wall_s: f64,
    /// Each workload, as a quorum served it.
    pub loads: Vec<LoadOutcome>,
    /// What the replicas did.
    pub counted: Counted,
}

impl Replicas {
    /// Runs it, for as long as `goes_on` and its policies say so; these are asked for anew by each replica.
    ///
    /// # Errors
    /// What cannot be meant, or run; [`StudyError::Stopped`] if it was stopped.
    pub fn run(&self, goes_on: &mut dyn FnMut() -> bool) -> Result<QuorumOutcome, StudyError> {
        self.check()?;
        let experiment = &self.experiment;
        let (makeups, answers) = experiment.made_up()?;
        let mut set = self.set(answers)?;
        let info = set.info();
        let wall = Instant::now();
        let durable_writes = answers == Answers::Durable;
        let started = experiment.loads.iter().zip(&makeups);
        let started: Result<Vec<_>, _> = started
            .map(|(load, makeup)| Running::start(load, &info, durable_writes, makeup.as_ref()))
            .collect();
        let mut running = started?;
        let mut time = VirtualTime::default();
        let mut workloads: Vec<_> = running.iter_mut().map(Running::workload).collect();
        let ended = experiment.work(&mut set, &mut time, &mut workloads, goes_on);
        if let Some(error) = running.iter_mut().find_map(Running::take_error) {
            return Err(error);
        }
        let now = time.now();
        let loads = experiment.loads.iter().zip(&running);
        let loads = loads.map(|(load, running)| running.outcome(load.kind(), now)).collect();
        let counted = set.counted(now);
        let (digest, replies) = (time.digest(), time.replies());
        let mut workloads: Vec<_> = running.iter_mut().map(Running::workload).collect();
        let drained = time.drain(&mut set, &mut workloads, DRAIN_LIMIT);
        if ended.map_err(StudyError::told)? == Ended::Stopped {
            return Err(StudyError::Stopped);
        }
        drained.map_err(StudyError::told)?;
        let measured_s = experiment.span.map_or(now, |span| span.duration).as_secs_f64();
        let wall_s = wall.elapsed().as_secs_f64();
        Ok(QuorumOutcome { digest, replies, measured_s, wall_s, loads, counted })
    }

    fn check(&self) -> Result<(), StudyError> {
        self.experiment.check()?;
        let refuse = |problem: String| Err(StudyError::Failed(format!("replicas: {problem}")));
        if self.count == 0 || self.count > REPLICAS_MAX {
            return refuse(format!("expected 1 to {REPLICAS_MAX} in a set, found {}", self.count));
        }
        if self.experiment.preset.is_none() {
            return refuse("expected a preset, as a plain disk has no checkpoints".to_owned());
        }
        let Checkpoints { begins, spread, permits } = self.checkpoints;
        if permits == Some(0) {
            return refuse("expected at least one permit, found 0".to_owned());
        }
        let longest = Nanos::from_secs(DAY_S.into());
        match begins {
            Begins::Period(period) if period == Nanos::ZERO || period > longest => {
                refuse(format!("expected a period above 0 s, up to {DAY_S} s, found {period}"))
            }
            Begins::Window(start, end) if start >= DAY_S || end >= DAY_S || start == end => {
                refuse(format!(
                    "expected a window between two seconds of a day of {DAY_S}, found {start} to {end}"
                ))
            }
            _ if spread > longest => {
                refuse(format!("expected a spread of up to {DAY_S} s, found {spread}"))
            }
            _ if self.second_of_day >= DAY_S => refuse(format!(
                "expected it to begin at a second of a day of {DAY_S}, found {}",
                self.second_of_day
            )),
            _ => Ok(()),
        }
    }

    /// The replicas, right after they were created.
    fn set(&self, answers: Answers) -> Result<Set, StudyError> {
        let experiment = &self.experiment;
        let Some(preset) = experiment.preset else { return Err(StudyError::Stopped) };
        let mut disk = experiment.disk.clone();
        disk.set_write_cache(answers == Answers::OnFlush);
        let mut random = SplitMix::new(self.seed);
        let mut replicas = Vec::new();
        for _ in 0..self.count {
            let phase = Nanos(random.below(PHASE_MAX.0));
            let later = Nanos(random.below(self.checkpoints.spread.0.saturating_add(1)));
            let snapshots_later = Nanos(random.below(SNAPSHOTS_LATER_MAX.0));
            let build = Build {
                policies: experiment.policies.as_deref(),
                options: experiment.create_options(preset, answers),
                checkpoints: self.checkpoints,
                later,
                snapshots_later,
                second_of_day: self.second_of_day,
            };
            let volume = disk.with(Some(&preset), build).map_err(StudyError::Failed)?;
            replicas.push((volume, phase));
        }
        let counted_from = experiment.span.map_or(Nanos::ZERO, |span| span.warm_up);
        Ok(Set::new(replicas, self.checkpoints.permits, counted_from))
    }
}
