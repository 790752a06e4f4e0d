//! Replacing a member of a mirror while the volume is served: the volume is stopped in order, opened again with the new disk behind the
//! members, and served on while the mirror copies; once the new disk has everything, the mirror releases the old one.
//!
//! Clients wait once, for as long as an orderly stop and a start take, and get no error. What stays true:
//! - what cannot be done is refused before anything is stopped, where that can be known; else the volume goes on as it was;
//! - the supervisor of an attached volume names the new disk to later workers before the volume writes to it, so a worker that is killed at
//!   any moment is followed by one that goes on with the replacement;
//! - the volume file, if there is one that names the same members, names the new disk from then on as well.

mod command;

use super::devices::Devices;
use super::served::Opened;
use super::target_keeper::TargetKeeper;
use crate::replace::{ReplaceReport, ReplaceRequest, Replaced};
use crate::report::ReplacingReport;
use crate::target::{DeviceNames, Target, check_successor, label_successor};
use nearhead_arrays::{Replacement, mirror_members};
use nearhead_disk::{AbsentDisk, Nanos};
use nearhead_output::{blame, note};
use nearhead_settings::DiskArgs;

/// Progress of a replacement.
enum Phase {
    /// None is under way: outcome of the last one, if there was one.
    Ended(Option<Result<Box<ReplaceReport>, String>>),
    /// The volume is stopping, to be opened with the new disk.
    Stopping,
    /// The volume is opening. An error is the reason for doing that without the new disk.
    Opening(Result<(), String>),
    /// The mirror copies.
    Copying,
}

/// Replaces members of mirrors of one volume, one at a time.
pub(super) struct Replacer {
    devices: Devices,
    keeper: TargetKeeper,
    /// The last one that was begun, of which device of all.
    replacement: Option<(usize, Replacement)>,
    phase: Phase,
}

impl Replacer {
    /// Goes on with a replacement that the target names.
    pub(super) fn new(devices: Devices) -> Self {
        let names = devices.names();
        let mut all = names.all().enumerate().filter(|_| !devices.args().read_only);
        let replacement = all.find_map(|(position, text)| Some((position, Replacement::of(text)?)));
        let phase = if replacement.is_some() { Phase::Copying } else { Phase::Ended(None) };
        let keeper = TargetKeeper::new(None, devices.args().config.clone());
        Self { devices, keeper, replacement, phase }
    }

    /// The settings of a start with the devices as they are named now.
    pub(super) fn disk_args(&self) -> DiskArgs {
        self.devices.names().disk_args(&self.devices.args().disk)
    }

    /// Keeps the names of devices for later starts in `keeper`.
    pub(super) fn keep_by(&mut self, keeper: TargetKeeper) {
        self.keeper = keeper;
    }

    /// Whether a replacement is under way.
    pub(super) fn is_under_way(&self) -> bool {
        !matches!(self.phase, Phase::Ended(_))
    }

    /// Whether a step may follow when the volume is driven. A copy goes on for hours without one.
    fn has_step(&self) -> bool {
        !matches!(self.phase, Phase::Ended(_) | Phase::Copying)
    }

    /// Progress, or how the last one ended.
    fn state(&self, progress: Option<ReplacingReport>) -> Replaced {
        match (&self.phase, &self.replacement) {
            (Phase::Ended(Some(Ok(report))), _) => Replaced::Done((**report).clone()),
            (Phase::Ended(Some(Err(problem))), _) => Replaced::Failed(problem.clone()),
            (Phase::Ended(None), _) | (_, None) => Replaced::Never,
            (_, Some((_, replacement))) => Replaced::UnderWay(self.report(replacement, progress)),
        }
    }

    fn report(
        &self,
        replacement: &Replacement,
        progress: Option<ReplacingReport>,
    ) -> ReplaceReport {
        let Replacement { old, new, .. } = replacement.clone();
        let (volume_file, advice) = self.keeper.kept();
        let devices = self.devices.names();
        ReplaceReport { devices, old, new, done: false, progress, volume_file, advice }
    }

    /// Begins one, unless that cannot be done.
    fn begin(&mut self, request: &ReplaceRequest) -> Result<(), String> {
        let names = self.devices.names();
        if let Some(under_way) = names.all().find_map(|text| Replacement::of(text)) {
            return Err(under_way.refusal());
        }
        let members: Vec<String> = names.all().flat_map(|text| mirror_members(text)).collect();
        let is_old = |member: &str| request.means(member);
        let has_it = |text: &String| mirror_members(text).iter().any(|member| is_old(member));
        let Some((position, text)) = names.all().enumerate().find(|(_, text)| has_it(text)) else {
            let list = if members.is_empty() { "none".to_owned() } else { members.join(", ") };
            return Err(format!(
                "expected a member of a mirror to replace, one of {list}, found {}; name it as `nearhead status` does",
                request.old
            ));
        };
        if names.all().any(|name| *name == request.new) || members.contains(&request.new) {
            return Err(format!(
                "expected a disk that the volume does not use yet, found {}, which is one of its devices",
                request.new
            ));
        }
        let replacement = Replacement::begin(text, &request.new, is_old)?;
        let during = names.with(position, &replacement.during);
        check_successor(&replacement, &during, request.force, &self.devices.args().disk)?;
        self.keeper.begin();
        self.replacement = Some((position, replacement));
        Ok(())
    }

    /// Does the next step that can be done at once.
    fn go_on(&mut self, opened: &mut Opened, now: Nanos) {
        let Some((position, replacement)) = self.replacement.clone() else { return };
        let stages = self.stages(position, &replacement);
        let has_failed = !opened.is_at_rest() && !opened.is_reopening();
        match std::mem::replace(&mut self.phase, Phase::Ended(None)) {
            Phase::Stopping if opened.is_at_rest() => {
                self.phase = self.open_with_both(&replacement, &stages, opened, now);
            }
            Phase::Stopping if has_failed => {
                self.phase = self.failed("the volume failed; see its log");
            }
            Phase::Opening(outcome) if !opened.is_reopening() => match outcome {
                Ok(()) => {
                    self.keeper.keep_in_file((&stages.all(), &stages.during));
                    let Replacement { old, new, .. } = &replacement;
                    note(&format!(
                        "{new} replaces {old}: the volume is served, and is copied to it"
                    ));
                    self.phase = Phase::Copying;
                }
                Err(problem) => self.phase = self.failed(&problem),
            },
            other => self.phase = other,
        }
    }

    fn stages(&self, position: usize, replacement: &Replacement) -> Stages {
        let names = self.devices.names();
        Stages {
            before: names.with(position, &replacement.before),
            without_old: names.with(position, &replacement.without_old),
            during: names.with(position, &replacement.during),
            after: names.with(position, &replacement.after),
        }
    }

    fn failed(&self, problem: &str) -> Phase {
        let problem = format!("replace {}: {problem}", self.devices.target());
        blame(&problem);
        Phase::Ended(Some(Err(problem)))
    }

    /// The volume is at rest: the new disk gets its label, and the volume is opened with it.
    fn open_with_both(
        &mut self,
        replacement: &Replacement,
        stages: &Stages,
        opened: &mut Opened,
        now: Nanos,
    ) -> Phase {
        let (devices, keeper) = (self.devices.clone(), &self.keeper);
        let mut outcome = Ok(());
        let with_new = || -> Result<Target, String> {
            label_successor(replacement, &devices.args().disk)?;
            keeper.keep(&stages.during)?;
            devices.open_as(&stages.during)
        };
        let change = || -> Result<(Target, DeviceNames), String> {
            let problem = match with_new() {
                Ok(target) => return Ok((target, stages.during.clone())),
                Err(problem) => problem,
            };
            outcome = Err(problem);
            back(&devices, keeper, stages)
        };
        match exchange(&self.devices, opened, now, change) {
            Ok(()) => Phase::Opening(outcome),
            Err(problem) => self.failed(&problem),
        }
    }

    /// Checks the progress of the mirror: ends the replacement if the new disk failed, or has everything and the old member is released.
    fn check(&mut self, progress: Option<ReplacingReport>, opened: &mut Opened) {
        let (Phase::Copying, Some((position, replacement))) =
            (&self.phase, self.replacement.clone())
        else {
            return;
        };
        let stages = self.stages(position, &replacement);
        let Some(progress) = progress.filter(|_| !opened.is_reopening()) else { return };
        if let Some(problem) = &progress.failed {
            let goes_on = if progress.old_counts { &stages.before } else { &stages.without_old };
            self.rename(&stages, goes_on);
            self.phase = self.failed(&format!(
                "{} failed and is used no more: {problem}; the mirror goes on without it",
                replacement.new
            ));
        } else if progress.is_done && opened.volume_mut().lanes_mut().release_replaced() {
            self.rename(&stages, &stages.after);
            // Those of the opening describe the copy.
            self.devices.exchanged(stages.after.clone(), Vec::new());
            let report = ReplaceReport { done: true, ..self.report(&replacement, None) };
            let Replacement { old, new, .. } = &replacement;
            note(&format!("{new} has replaced {old}, which is used no more"));
            self.phase = Phase::Ended(Some(Ok(Box::new(report))));
        }
    }

    /// Later starts open `names`. If that cannot be kept, they find the same by the labels.
    fn rename(&mut self, stages: &Stages, names: &DeviceNames) {
        if let Err(problem) = self.keeper.keep(names) {
            note(&problem);
        }
        self.keeper.keep_in_file((&stages.all(), names));
        self.devices.rename(names.clone());
    }
}

/// Names of all devices by the stages of a replacement.
struct Stages {
    before: DeviceNames,
    without_old: DeviceNames,
    during: DeviceNames,
    after: DeviceNames,
}

impl Stages {
    fn all(&self) -> [DeviceNames; 4] {
        let Self { before, without_old, during, after } = self;
        [before, without_old, during, after].map(Clone::clone)
    }
}

/// Opens the volume as it was before; without the old member if that is what fails.
fn back(
    devices: &Devices,
    keeper: &TargetKeeper,
    stages: &Stages,
) -> Result<(Target, DeviceNames), String> {
    let mut first_problem = None;
    for names in [&stages.before, &stages.without_old] {
        if let Err(problem) = keeper.keep(names) {
            note(&problem);
        }
        match devices.open_as(names) {
            Ok(opened) => return Ok((opened, names.clone())),
            Err(problem) => first_problem = first_problem.or(Some(problem)),
        }
    }
    Err(first_problem.unwrap_or_else(|| "it cannot be opened again".to_owned()))
}

/// Exchanges the devices of a volume at rest for those that `change` opens, which says how they are named then.
fn exchange(
    devices: &Devices,
    opened: &mut Opened,
    now: Nanos,
    change: impl FnOnce() -> Result<(Target, DeviceNames), String>,
) -> Result<(), String> {
    let stand_in = Box::new(AbsentDisk::new(&devices.target()));
    opened.change_devices(
        stand_in,
        |lanes| {
            // Every device is closed before it is opened again, or it would be in use.
            drop(lanes);
            let (target, names) = change()?;
            devices.exchanged(names, target.notes);
            Ok(target.lanes)
        },
        now,
    )
}
