//! Growing a volume while it is served: it is stopped in order, opened anew on a device that has become larger, grown, and served on.
//!
//! Whoever uses it waits meanwhile, as long as an orderly stop and a start take, and gets no error. What cannot be done is refused before
//! anything is stopped where that can be known, and else the volume goes on as it was. If the device cannot be opened any more the
//! volume has failed, as it would have at its next start.

use super::devices::Devices;
use super::served::{Opened, Served};
use crate::grow::{GrowReport, Grown};
use crate::target::Target;
use crate::units::ByteSize;
use nearhead_disk::{AbsentDisk, Nanos};
use nearhead_output::{blame, note};
use nearhead_service::Service;
use nearhead_volume::grow;

/// How far it is.
enum Phase {
    /// It was never asked for, or it has ended so.
    Ended(Option<Result<GrowReport, String>>),
    /// The volume is being stopped, since then.
    Stopping(Nanos),
    /// It was grown, or not, and is being opened.
    Opening(Nanos, Result<GrowReport, String>),
}

/// What grows it.
pub(super) struct Growing {
    devices: Devices,
    phase: Phase,
}

impl Growing {
    /// Grows a volume on `devices`.
    pub(super) fn new(devices: Devices) -> Self {
        Self { devices, phase: Phase::Ended(None) }
    }

    /// Whether it is under way.
    pub(super) fn is_under_way(&self) -> bool {
        !matches!(self.phase, Phase::Ended(_))
    }

    /// How it went, or that it goes on.
    pub(super) fn told(&self) -> Grown {
        match &self.phase {
            Phase::Ended(None) => Grown::Never,
            Phase::Ended(Some(Ok(report))) => Grown::Done(report.clone()),
            Phase::Ended(Some(Err(problem))) => Grown::Not(problem.clone()),
            Phase::Stopping(_) | Phase::Opening(..) => Grown::UnderWay,
        }
    }

    /// Does the next step that can be done; true once the volume is served again with another size.
    fn go_on(&mut self, opened: &mut Opened, now: Nanos) -> bool {
        match std::mem::replace(&mut self.phase, Phase::Ended(None)) {
            Phase::Stopping(since) if opened.is_at_rest() => {
                self.phase = self.exchange(since, opened, now);
                false
            }
            Phase::Stopping(_) if !opened.is_reopening() => {
                let problem =
                    format!("grow {}: the volume failed; see its log", self.devices.target());
                self.phase = Phase::Ended(Some(Err(problem)));
                false
            }
            Phase::Opening(since, outcome) if !opened.is_reopening() => {
                let has_grown = Self::log(&outcome, now.since(since));
                self.phase = Phase::Ended(Some(outcome));
                has_grown
            }
            other => {
                self.phase = other;
                false
            }
        }
    }

    fn exchange(&self, since: Nanos, opened: &mut Opened, now: Nanos) -> Phase {
        let name = self.devices.target();
        let mut outcome = Err(format!("grow {name}: the device was not opened"));
        let stand_in = Box::new(AbsentDisk::new(&name));
        let changed = opened.change_devices(
            stand_in,
            |lanes| {
                // It is nobody else's in between: whoever had it keeps it from others until it ends.
                drop(lanes);
                let mut target = self.devices.open()?;
                outcome = grown(&name, &mut target);
                Ok(target.lanes)
            },
            now,
        );
        match changed {
            Ok(()) => Phase::Opening(since, outcome),
            Err(problem) => Phase::Ended(Some(Err(format!("grow {name}: {problem}")))),
        }
    }

    /// Tells people; whether it has grown.
    fn log(outcome: &Result<GrowReport, String>, took: Nanos) -> bool {
        let waited_ms = took.as_secs_f64() * 1e3;
        match outcome {
            Ok(report) => note(&format!(
                "grew {} from {} to {}; who uses it waited {waited_ms:.0} ms",
                report.target(),
                ByteSize(report.client_bytes_before),
                ByteSize(report.client_bytes_after),
            )),
            Err(problem) => blame(&format!("{problem}; it goes on as it was")),
        }
        outcome.is_ok()
    }
}

fn grown(name: &str, target: &mut Target) -> Result<GrowReport, String> {
    let growth = grow::plan(&mut target.io()).map_err(|error| error.to_string())?;
    grow::grow(&mut target.io(), &growth).map_err(|error| error.to_string())?;
    Ok(GrowReport::of(name, &growth, true))
}

impl Served {
    /// Begins to grow, unless that is of no use; what will come of it, as far as it is known. With `only_looks` nothing is begun.
    pub(super) fn grow(
        &mut self,
        only_looks: bool,
        now: Nanos,
    ) -> Result<Option<GrowReport>, String> {
        let target = self.growing.devices.target();
        if self.info().read_only {
            return Err(format!(
                "grow {target}: expected a volume that takes changes, found it served read-only"
            ));
        }
        if self.is_busy_opening() {
            return Err(format!("grow {target}: the volume is being opened; try again"));
        }
        if self.replacing.is_under_way() {
            return Err(format!(
                "grow {target}: expected that no member is being replaced, found one; try again once that is done (`nearhead status`)"
            ));
        }
        let planned = self.device_bytes().map(|bytes| self.volume().growth(bytes));
        let planned = planned.transpose().map_err(|error| error.to_string())?;
        let planned = planned.map(|growth| GrowReport::of(&target, &growth, false));
        if only_looks {
            return match planned {
                Some(planned) => Ok(Some(planned)),
                None => Err(format!(
                    "grow {target}: what comes of it can be told while it is served of one file or device; stop it first, or grow it"
                )),
            };
        }
        if !self.opened_mut().rest(now) {
            return Err(format!(
                "grow {target}: expected a volume that is served, found one that has failed or is being stopped"
            ));
        }
        note(&format!("growing {target}: stopping in order, who uses it waits"));
        self.growing.phase = Phase::Stopping(now);
        Ok(planned)
    }

    /// Goes on with it.
    pub(super) fn go_on_growing(&mut self, now: Nanos) {
        if matches!(self.growing.phase, Phase::Ended(_)) {
            return;
        }
        let (growing, opened) = self.growing_and_opened();
        let has_grown = growing.go_on(opened, now);
        if has_grown {
            self.has_grown();
        }
        if matches!(self.growing.phase, Phase::Ended(_)) {
            self.tell_of_permit_again();
        }
    }
}
