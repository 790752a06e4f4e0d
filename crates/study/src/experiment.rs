//! An experiment: a disk, what runs on it, workloads, for how long; and its run.
//!
//! It keeps true that a run depends on nothing but the experiment, and that it can be stopped at any time by whoever started it.

use crate::dataless::{Answers, create_options, volume_with};
use crate::disks::{Disks, Made, Modelled, OnDisk};
use crate::load::Load;
use crate::meter::{Meter, Visits};
use crate::outcome::{DiskTimes, Outcome, VolumeOutcome};
use crate::recorder::{Recorded, Recorder};
use crate::running::Running;
use nearhead_disk::{Disk, Nanos};
use nearhead_engine::{Policies, Status};
use nearhead_models::{MODEL_PREFIX, Report};
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::measured::{Span, measure};
use nearhead_sim::replay::{Durability, Makeup};
use nearhead_sim::trace::AddressOptions;
use nearhead_sim::virtual_time::{Ended, Stuck};
use nearhead_sim::workload::Workload;
use nearhead_volume::create::CreateOptions;
use nearhead_volume::{BareDisk, NamedPreset, Volume};
use serde::Deserialize;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Workloads beside each other.
const LOADS_MAX: usize = 64;
/// Longest virtual time after the measurement for what is outstanding to be replied to.
const DRAIN_LIMIT: Nanos = Nanos::from_secs(3600);
/// Longest run, in seconds: as a [`Nanos`] of it and a warm-up is far from its end.
const SECONDS_MAX: u64 = 1 << 32;

/// Why there is no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StudyError {
    /// What is to be told to people.
    Failed(String),
    /// Whoever started it stopped it.
    Stopped,
}

impl StudyError {
    pub(crate) fn told(error: impl fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<String> for StudyError {
    fn from(problem: String) -> Self {
        Self::Failed(problem)
    }
}

impl fmt::Display for StudyError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(problem) => formatter.write_str(problem),
            Self::Stopped => formatter.write_str("the experiment was stopped"),
        }
    }
}

impl std::error::Error for StudyError {}

/// What may differ from what a preset says; `None` as it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeChoices {
    /// Writes up to this many bytes are logged.
    pub logged_write_bytes_max: Option<u32>,
    /// Size of a group.
    pub group_bytes: Option<u64>,
    /// Size of each log.
    pub log_bytes: Option<u64>,
    /// Whether records bring bytes smaller than a sector.
    pub fragments: Option<bool>,
}

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// On which disk.
    pub disk: Disks,
    /// The volume on it; `None` is the plain disk.
    pub preset: Option<NamedPreset>,
    /// How that departs from its preset.
    pub choices: VolumeChoices,
    /// Policies instead of its preset's.
    pub policies: Option<Arc<dyn Policies>>,
    /// When writes are answered; `None`: early if a trace asks for flushes or FUA, or durable points are made by flushes, else when durable.
    pub answers: Option<Answers>,
    /// Who works on it.
    pub loads: Vec<Load>,
    /// What is measured; `None`: everything, until all workloads are done.
    pub span: Option<Span>,
    /// Whether every request and every transfer is written down.
    pub record: bool,
}

impl Experiment {
    /// Runs it, for as long as `goes_on` and its policies say so.
    ///
    /// # Errors
    /// What cannot be meant, or run; [`StudyError::Stopped`] if it was stopped.
    pub fn run(&self, goes_on: &mut dyn FnMut() -> bool) -> Result<Outcome, StudyError> {
        self.check()?;
        let (makeups, answers) = self.made_up()?;
        let mut disk = self.disk.clone();
        // Where a reply means durable nothing volatile is in between, as in the papers; where flushes decide there is something to flush.
        disk.set_write_cache(answers == Answers::OnFlush);
        let run = Run { experiment: self, answers, makeups, goes_on };
        disk.with(self.preset.as_ref(), run).map_err(StudyError::Failed)?
    }

    /// What is in its traces, and when writes are answered.
    pub(crate) fn made_up(&self) -> Result<(Vec<Option<Makeup>>, Answers), StudyError> {
        let makeups: Result<Vec<_>, _> = self.loads.iter().map(makeup_of).collect();
        let makeups = makeups?;
        let answers = self.answers.unwrap_or_else(|| suggested(&self.loads, &makeups));
        Ok((makeups, answers))
    }

    /// What is created for it.
    pub(crate) fn create_options(&self, preset: NamedPreset, answers: Answers) -> CreateOptions {
        let (choices, plain) = (&self.choices, create_options(preset, answers));
        CreateOptions {
            logged_write_bytes_max: choices
                .logged_write_bytes_max
                .unwrap_or(plain.logged_write_bytes_max),
            group_bytes: choices.group_bytes,
            log_bytes: choices.log_bytes,
            fragments: choices.fragments.unwrap_or(plain.fragments),
            ..plain
        }
    }

    pub(crate) fn check(&self) -> Result<(), StudyError> {
        let refuse = |problem: String| Err(StudyError::Failed(format!("experiment: {problem}")));
        if self.loads.is_empty() || self.loads.len() > LOADS_MAX {
            let found = self.loads.len();
            return refuse(format!("expected 1 to {LOADS_MAX} workloads, found {found}"));
        }
        if self.preset.is_none() && self.choices != VolumeChoices::default() {
            return refuse(
                "expected no configuration of a volume on the plain disk; name a preset".to_owned(),
            );
        }
        if self.preset.is_none() && self.policies.is_some() {
            return refuse(
                "expected no policies on the plain disk; name the preset whose other policies are to stay"
                    .to_owned(),
            );
        }
        match self.span {
            None => match self.loads.iter().find(|load| !load.ends()) {
                Some(endless) => refuse(format!(
                    "expected a duration, as the workload {} has no end of its own, found none",
                    endless.kind()
                )),
                None => Ok(()),
            },
            Some(span) if (span.warm_up + span.duration).0 / 1_000_000_000 > SECONDS_MAX => {
                refuse(format!("expected at most {SECONDS_MAX} s of virtual time"))
            }
            Some(_) => Ok(()),
        }
    }
}

/// What is in a trace; of nothing else.
fn makeup_of(load: &Load) -> Result<Option<Makeup>, StudyError> {
    let Load::Replay(load) = load else { return Ok(None) };
    // As it is in the trace: no disk is known yet that it is to fit.
    let as_traced = nearhead_sim::trace::TraceOptions {
        address: AddressOptions::default(),
        ..load.options.clone()
    };
    let makeup = load.requests.read(as_traced).and_then(|mut trace| Makeup::of(&mut trace));
    makeup.map(Some).map_err(StudyError::told)
}

fn suggested(loads: &[Load], makeups: &[Option<Makeup>]) -> Answers {
    let asks = |(load, makeup): (&Load, &Option<Makeup>)| match load {
        Load::Points(points) => !points.fua,
        Load::Replay(_) => {
            makeup.as_ref().is_some_and(|makeup| makeup.durability == Durability::Asked)
        }
        Load::Bulk(_) | Load::Random(_) => false,
    };
    if loads.iter().zip(makeups).any(asks) { Answers::OnFlush } else { Answers::Durable }
}

/// A run, on a disk that is made for it.
struct Run<'a> {
    experiment: &'a Experiment,
    answers: Answers,
    makeups: Vec<Option<Makeup>>,
    goes_on: &'a mut dyn FnMut() -> bool,
}

impl OnDisk for Run<'_> {
    type Outcome = Result<Outcome, StudyError>;

    fn run<D: Modelled>(self, disks: Made<D>) -> Result<Self::Outcome, String> {
        let disks = disks.map(|disk| Meter::new(disk, self.experiment.record));
        let Some(preset) = self.experiment.preset else {
            return Ok(self.play(&mut BareDisk::new(disks.only()?)));
        };
        let options = self.experiment.create_options(preset, self.answers);
        let policies = self.experiment.policies.as_deref();
        Ok(self.play(&mut volume_with(disks, &options, |config| {
            if let Some(policies) = policies {
                policies.configure(config);
            }
        })?))
    }
}

impl Run<'_> {
    fn play<S: Studied>(self, service: &mut S) -> Result<Outcome, StudyError> {
        let info = service.info();
        let durable_writes = self.answers == Answers::Durable;
        let wall = Instant::now();
        let loads = self.experiment.loads.iter().zip(&self.makeups);
        let running: Result<Vec<_>, _> = loads
            .map(|(load, makeup)| Running::start(load, &info, durable_writes, makeup.as_ref()))
            .collect();
        let mut running = running?;
        let book = RefCell::new(Recorded::default());
        let mut time = VirtualTime::default();
        let ended = if self.experiment.record {
            let mut recorders = recorders(&mut running, &book);
            let mut workloads = each(&mut recorders);
            self.experiment.work(service, &mut time, &mut workloads, self.goes_on)
        } else {
            let mut workloads: Vec<_> = running.iter_mut().map(Running::workload).collect();
            self.experiment.work(service, &mut time, &mut workloads, self.goes_on)
        };
        let wall_s = wall.elapsed().as_secs_f64();
        if let Some(error) = running.iter_mut().find_map(Running::take_error) {
            return Err(error);
        }
        let now = time.now();
        let loads = self.experiment.loads.iter().zip(&running);
        let loads = loads.map(|(load, running)| running.outcome(load.kind(), now)).collect();
        let at_end = service.end(now);
        let digest = time.digest();
        let replies = time.replies();
        let mut workloads: Vec<_> = running.iter_mut().map(Running::workload).collect();
        let drained = time.drain(service, &mut workloads, DRAIN_LIMIT);
        if ended.map_err(StudyError::told)? == Ended::Stopped {
            return Err(StudyError::Stopped);
        }
        drained.map_err(StudyError::told)?;
        let span = self.experiment.span;
        Ok(Outcome {
            disk: at_end.disk,
            size_bytes: info.size_bytes,
            every_reply_is_durable: durable_writes,
            digest,
            replies,
            simulated_s: now.as_secs_f64(),
            measured_s: span.map_or(now, |span| span.duration).as_secs_f64(),
            wall_s,
            loads,
            volume: self.experiment.preset.zip(at_end.volume).map(volume_outcome),
            times: DiskTimes::of(&at_end.report, at_end.response.0),
            report: at_end.report,
            commands: at_end.commands,
            recorded: self.experiment.record.then(|| book.into_inner()),
            visits: at_end.visits,
        })
    }
}

impl Experiment {
    pub(crate) fn work<S: Service>(
        &self,
        service: &mut S,
        time: &mut VirtualTime,
        workloads: &mut [&mut dyn Workload],
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Result<Ended, Stuck> {
        let policies = self.policies.as_deref();
        let goes_on = &mut || policies.is_none_or(Policies::go_on) && goes_on();
        match self.span {
            None => time.run_while(service, workloads, Nanos::MAX, goes_on),
            Some(span) => measure(service, time, workloads, span, goes_on),
        }
    }
}

fn recorders<'a>(running: &'a mut [Running], book: &'a RefCell<Recorded>) -> Vec<Recorder<'a>> {
    // Their number has a bound below that of a column's values.
    let numbered = running.iter_mut().zip(0..);
    numbered.map(|(running, load)| Recorder::new(load, running.workload(), book)).collect()
}

fn each<'a, 'b>(recorders: &'a mut [Recorder<'b>]) -> Vec<&'a mut (dyn Workload + 'a)> {
    recorders.iter_mut().map(|recorder| recorder as &mut dyn Workload).collect()
}

/// What a service tells at the end of an experiment, before what is outstanding is waited for.
struct AtEnd {
    disk: String,
    report: Report,
    commands: u64,
    response: Nanos,
    visits: Option<Visits>,
    /// Of a volume, and the size up to which it logs.
    volume: Option<(Status, u32)>,
}

impl AtEnd {
    fn of<D: Modelled>(disk: &mut Meter<D>, volume: Option<(Status, u32)>, now: Nanos) -> Self {
        let name = &disk.properties().name;
        Self {
            disk: name.strip_prefix(MODEL_PREFIX).unwrap_or(name).to_owned(),
            report: disk.report(),
            commands: disk.commands(),
            response: disk.response(now),
            visits: disk.take_visits(),
            volume,
        }
    }

    /// The same of all of a volume's devices, if there are others.
    fn with(mut self, others: Vec<Self>) -> Self {
        if others.is_empty() {
            return self;
        }
        let mut members = vec![self.report];
        let mut visits: Vec<_> = self.visits.into_iter().collect();
        for other in others {
            self.disk = format!("{}, {}", self.disk, other.disk);
            self.commands += other.commands;
            self.response += other.response;
            members.push(other.report);
            visits.extend(other.visits);
        }
        self.report = Report::Array { members, power_cuts: 0 };
        self.visits = (!visits.is_empty()).then(|| Visits::together(&visits));
        self
    }
}

/// A service that an experiment runs on.
trait Studied: Service {
    fn end(&mut self, now: Nanos) -> AtEnd;
}

impl<D: Modelled> Studied for BareDisk<Meter<D>> {
    fn end(&mut self, now: Nanos) -> AtEnd {
        AtEnd::of(self.disk_mut(), None, now)
    }
}

impl<D: Modelled> Studied for Volume<Meter<D>> {
    fn end(&mut self, now: Nanos) -> AtEnd {
        let told = (self.status(), self.superblock().logged_write_bytes_max);
        let own = AtEnd::of(self.disk_mut(), Some(told), now);
        let others = self.lanes_mut().data_mut().iter_mut();
        own.with(others.map(|disk| AtEnd::of(disk, None, now)).collect())
    }
}

fn volume_outcome((preset, (status, logged)): (NamedPreset, (Status, u32))) -> VolumeOutcome {
    VolumeOutcome {
        preset: preset.name,
        logged_write_bytes_max: logged,
        counters: status.stats.counters().map(|counter| (counter.name, counter.value)).collect(),
        log_fill_pct: status.log_fill_pct,
        logs: status.logs,
        logs_claimed: status.logs_claimed,
        map_entries: status.map_entries,
        map_bytes: status.map_bytes,
    }
}
