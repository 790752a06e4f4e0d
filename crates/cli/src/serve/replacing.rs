//! Replacing a member of a mirror while the volume is served: the volume is stopped in order, opened again with the new disk behind the
//! members, and served on while the mirror copies; once the new disk has everything, it is opened again without the old one.
//!
//! Clients wait twice for as long as an orderly stop and a start take, and get no error. What stays true:
//! - what cannot be done is refused before anything is stopped, where that can be known; else the volume goes on as it was;
//! - the supervisor of an attached volume names the new disk to later workers before the volume writes to it, so a worker that is killed at
//!   any moment is followed by one that goes on with the replacement;
//! - the volume file, if there is one that names the same members, names the new disk from then on as well.

use super::devices::Devices;
use super::served::{Opened, Served};
use super::target_keeper::TargetKeeper;
use crate::replace::{ReplaceReport, ReplaceRequest, Replaced};
use crate::report::ReplacingReport;
use crate::target::{DeviceNames, Target, check_successor, label_successor};
use nearhead_arrays::{Replacement, mirror_members};
use nearhead_disk::{AbsentDisk, Nanos};
use nearhead_output::{blame, note};
use nearhead_service::Service;
use nearhead_settings::DiskArgs;
use std::path::Path;

/// Progress of a replacement.
enum Phase {
    /// None is under way; how the last one ended, if there was one.
    Ended(Option<Result<Box<ReplaceReport>, String>>),
    /// The volume is being stopped, to be opened with the new disk.
    Stopping,
    /// It is being opened. An error is why that is done without the new disk.
    Opening(Result<(), String>),
    /// The mirror copies.
    Copying,
    /// The volume is being stopped, to be opened without the old member.
    Closing,
    /// It is being opened without it.
    Reopening,
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

    /// Tells later starts of other devices through `keeper`.
    pub(super) fn keep_by(&mut self, keeper: TargetKeeper) {
        self.keeper = keeper;
    }

    /// Whether a replacement is under way.
    pub(super) fn is_under_way(&self) -> bool {
        !matches!(self.phase, Phase::Ended(_))
    }

    /// Progress, or how the last one ended.
    pub(super) fn told(&self, progress: Option<ReplacingReport>) -> Replaced {
        match (&self.phase, &self.replacement) {
            (Phase::Ended(Some(Ok(report))), _) => Replaced::Done((**report).clone()),
            (Phase::Ended(Some(Err(problem))), _) => Replaced::Not(problem.clone()),
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
            return Err(is_replaced(&under_way));
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
            Phase::Closing if opened.is_at_rest() => {
                self.phase = self.open_without_old(&stages, opened, now);
            }
            Phase::Stopping | Phase::Closing if has_failed => {
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
            Phase::Reopening if !opened.is_reopening() => {
                let report = ReplaceReport { done: true, ..self.report(&replacement, None) };
                let Replacement { old, new, .. } = &replacement;
                note(&format!("{new} has replaced {old}, which is used no more"));
                self.phase = Phase::Ended(Some(Ok(Box::new(report))));
            }
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
        let told = format!("replace {}: {problem}", self.devices.target());
        blame(&told);
        Phase::Ended(Some(Err(told)))
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

    /// The volume is at rest, and the new disk has everything.
    fn open_without_old(&mut self, stages: &Stages, opened: &mut Opened, now: Nanos) -> Phase {
        let devices = self.devices.clone();
        let change = || -> Result<(Target, DeviceNames), String> {
            let after = devices.open_as(&stages.after);
            // The labels say the same with the old member named.
            let opened = after.map(|target| (target, stages.after.clone()));
            opened.or_else(|problem| {
                note(&problem);
                Ok((devices.open_as(&stages.during)?, stages.during.clone()))
            })
        };
        match exchange(&self.devices, opened, now, change) {
            Ok(()) => Phase::Reopening,
            Err(problem) => self.failed(&problem),
        }
    }

    /// Looks how far the mirror is.
    fn look(&mut self, progress: Option<ReplacingReport>, opened: &mut Opened, now: Nanos) {
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
        } else if progress.is_done && opened.rest(now) {
            self.rename(&stages, &stages.after);
            self.phase = Phase::Closing;
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

fn is_replaced(under_way: &Replacement) -> String {
    format!(
        "expected that no member is being replaced, found that {} replaces {}; wait until that is done (`nearhead status`)",
        under_way.new, under_way.old
    )
}

/// Opens the volume as it was before; without the old member if that is what fails.
fn back(
    devices: &Devices,
    keeper: &TargetKeeper,
    stages: &Stages,
) -> Result<(Target, DeviceNames), String> {
    let mut told = None;
    for names in [&stages.before, &stages.without_old] {
        if let Err(problem) = keeper.keep(names) {
            note(&problem);
        }
        match devices.open_as(names) {
            Ok(opened) => return Ok((opened, names.clone())),
            Err(problem) => told = told.or(Some(problem)),
        }
    }
    Err(told.unwrap_or_else(|| "it cannot be opened again".to_owned()))
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

impl Served {
    /// Later workers are told of other devices through the file at `identity`, if another process starts them.
    pub(super) fn replace_for(&mut self, identity: Option<std::path::PathBuf>) {
        let config = self.replacing.devices.args().config.clone();
        self.replacing.keep_by(TargetKeeper::new(identity, config));
    }

    /// The target as it is named now.
    pub(super) fn target(&self) -> String {
        self.replacing.devices.target()
    }

    /// Notes about its disks, if they are others than at the start.
    pub(super) fn disk_notes(&self) -> Option<Vec<String>> {
        self.replacing.devices.notes()
    }

    /// All devices as they are named now.
    pub(super) fn devices(&self) -> DeviceNames {
        self.replacing.devices.names()
    }

    /// Begins to replace a member of a mirror, unless that cannot be done.
    pub(super) fn replace(&mut self, request: &str, now: Nanos) -> Result<Replaced, String> {
        let target = self.target();
        let failed = |problem: String| format!("replace {target}: {problem}");
        let request: ReplaceRequest =
            serde_json::from_str(request).map_err(|error| failed(error.to_string()))?;
        if self.info().read_only {
            return Err(failed(
                "expected a volume that takes changes, found it served read-only".to_owned(),
            ));
        }
        let under_way = self.replacing.replacement.as_ref();
        if let Some((_, under_way)) = under_way.filter(|_| self.replacing.is_under_way()) {
            return Err(failed(is_replaced(under_way)));
        }
        if self.is_busy_opening() || self.growing.is_under_way() {
            return Err(failed("the volume is being opened, or grows; try again".to_owned()));
        }
        self.replacing.begin(&request).map_err(failed)?;
        if !self.opened_mut().rest(now) {
            return Err(failed(
                "expected a volume that is served, found one that has failed or is being stopped"
                    .to_owned(),
            ));
        }
        note(&format!("replacing {} by {}: clients wait", request.old, request.new));
        self.replacing.phase = Phase::Stopping;
        Ok(self.replaced())
    }

    /// Progress, or how the last replacement ended.
    pub(super) fn replaced(&self) -> Replaced {
        self.replacing.told(self.replacing_progress())
    }

    fn replacing_progress(&self) -> Option<ReplacingReport> {
        if self.is_reopening() {
            return None;
        }
        let lanes = self.volume().lanes();
        let disks = std::iter::once(lanes.main()).chain(lanes.data());
        let mut mirrors = disks.flat_map(nearhead_disk::Disk::resilvers);
        mirrors.find_map(|mirror| mirror.replacing).map(ReplacingReport::of)
    }

    /// Goes on with a replacement; called whenever the volume is driven.
    pub(super) fn go_on_replacing(&mut self, now: Nanos) {
        if !self.replacing.is_under_way() {
            return;
        }
        let before = self.devices();
        let (replacing, opened) = self.replacing_and_opened();
        replacing.go_on(opened, now);
        if self.devices() != before {
            self.has_other_devices();
        }
        if !self.replacing.is_under_way() {
            self.tell_of_permit_again();
        }
    }

    /// Looks how far the copy is; called from time to time.
    pub(super) fn look_at_replacing(&mut self, now: Nanos) {
        if !matches!(self.replacing.phase, Phase::Copying) {
            return;
        }
        let progress = self.replacing_progress();
        let (replacing, opened) = self.replacing_and_opened();
        replacing.look(progress, opened, now);
    }
}

impl ReplaceRequest {
    /// Whether a member is the one that is to be replaced.
    fn means(&self, member: &str) -> bool {
        let is_same = || {
            let same = |path: &Path| path.canonicalize().ok();
            same(Path::new(member)).is_some_and(|path| same(&self.old_path) == Some(path))
        };
        member == self.old || Path::new(member) == self.old_path || is_same()
    }
}
