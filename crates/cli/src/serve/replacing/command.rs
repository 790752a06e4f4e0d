//! Commands of a served volume about a replacement: `replace`, `replaced`, `devices`, and the calls that drive it.
//!
//! A request is refused before anything is stopped, where that can be known. Nothing here opens a device.

use super::{Phase, Replacer, TargetKeeper};
use crate::replace::{ReplaceRequest, Replaced};
use crate::report::ReplacingReport;
use crate::serve::served::{Opened, Served};
use crate::target::DeviceNames;
use nearhead_disk::Nanos;
use nearhead_output::note;
use nearhead_service::Service;
use std::path::PathBuf;

impl Served {
    /// Keeps the devices of later workers in the file at `identity`, if a supervisor starts them.
    pub(in crate::serve) fn replace_for(&mut self, identity: Option<PathBuf>) {
        let config = self.replacing.devices.args().config.clone();
        self.replacing.keep_by(TargetKeeper::new(identity, config));
    }

    /// The target as it is named now.
    pub(in crate::serve) fn target(&self) -> String {
        self.replacing.devices.target()
    }

    /// Notes about its disks, if they are others than at the start.
    pub(in crate::serve) fn disk_notes(&self) -> Option<Vec<String>> {
        self.replacing.devices.notes()
    }

    /// All devices as they are named now.
    pub(in crate::serve) fn devices(&self) -> DeviceNames {
        self.replacing.devices.names()
    }

    /// Begins to replace a member of a mirror, unless that cannot be done.
    pub(in crate::serve) fn replace(
        &mut self,
        request: &str,
        now: Nanos,
    ) -> Result<Replaced, String> {
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
            return Err(failed(under_way.refusal()));
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
    pub(in crate::serve) fn replaced(&self) -> Replaced {
        self.replacing.state(self.replacing_progress())
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
    pub(in crate::serve) fn go_on_replacing(&mut self, now: Nanos) {
        if !self.replacing.has_step() {
            return;
        }
        self.drive_replacer(|replacer, opened| replacer.go_on(opened, now));
        if !self.replacing.is_under_way() {
            self.tell_of_permit_again();
        }
    }

    /// Checks the progress of the copy; called at intervals.
    pub(in crate::serve) fn check_replacing(&mut self) {
        if !matches!(self.replacing.phase, Phase::Copying) {
            return;
        }
        let progress = self.replacing_progress();
        self.drive_replacer(|replacer, opened| replacer.check(progress, opened));
    }

    /// Finds the backing files again if `act` changed the names of the devices.
    fn drive_replacer(&mut self, act: impl FnOnce(&mut Replacer, &mut Opened)) {
        let before = self.devices();
        let (replacer, opened) = self.replacing_and_opened();
        act(replacer, opened);
        if self.devices() != before {
            self.has_other_devices();
        }
    }
}
