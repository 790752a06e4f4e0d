//! Where later starts of a volume find how its target is named: the identity that a supervisor keeps, and the volume file.
//!
//! A name in the identity counts only once the supervisor has written it; a volume file is changed only if it names the same devices as the
//! volume that is served.

use crate::attach::{devices_at, lasting_name};
use crate::target::DeviceNames;
use nearhead_output::{note, say_json_line};
use nearhead_settings::{ServeArgs, VolumeFile};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longest time that a supervisor may take to write a line into a file; requests wait for that long.
const NOTE_MAX: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Keeps the names of a volume's devices for later starts.
pub(super) struct TargetKeeper {
    /// Written by the supervisor, if there is one.
    identity: Option<PathBuf>,
    /// The volume file that the daemon was started with.
    config: Option<PathBuf>,
    /// The volume file names the target as it is.
    is_in_file: bool,
    /// Change that an operator must make, where this could not.
    advice: Option<String>,
}

/// A line for the supervisor.
#[derive(Debug, Serialize)]
struct Line<'a> {
    event: &'static str,
    devices: &'a DeviceNames,
}

impl TargetKeeper {
    pub(super) fn new(identity: Option<PathBuf>, config: Option<PathBuf>) -> Self {
        let config = config.map(|path| std::path::absolute(&path).unwrap_or(path));
        Self { identity, config, is_in_file: false, advice: None }
    }

    /// Another replacement begins.
    pub(super) fn begin(&mut self) {
        (self.is_in_file, self.advice) = (false, None);
    }

    /// The volume file that names the target as it is, and what is to be written by hand.
    pub(super) fn kept(&self) -> (Option<PathBuf>, Option<String>) {
        (self.config.clone().filter(|_| self.is_in_file), self.advice.clone())
    }

    /// Later workers open the devices with these names. Returns once the supervisor has written that.
    pub(super) fn keep(&self, devices: &DeviceNames) -> Result<(), String> {
        let Some(path) = &self.identity else { return Ok(()) };
        let wanted = devices.each(lasting_name)?;
        let is_there = || devices_at(path).as_ref() == Some(&wanted);
        let sent = say_json_line(&Line { event: "devices", devices: &wanted });
        let until = Instant::now() + NOTE_MAX;
        while sent.is_ok() && !is_there() {
            if Instant::now() >= until {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        if is_there() {
            return Ok(());
        }
        Err(format!(
            "{}: expected that the supervisor writes the new device there, found that it does not: it has ended, or is of an older program; \
             `nearhead attach NAME` brings one back, then `nearhead upgrade NAME`",
            path.display()
        ))
    }

    /// Writes `names` into the volume file if that names the devices of one of the `stages`. Otherwise the advice says what to write.
    pub(super) fn keep_in_file(&mut self, (stages, names): (&[DeviceNames], &DeviceNames)) {
        let lines = lines(names);
        let Some(path) = &self.config else {
            self.advice = Some(format!("the next start is to name {}", lines.join(", ")));
            return;
        };
        match write(path, stages, names) {
            Ok(()) => (self.is_in_file, self.advice) = (true, None),
            Err(problem) => {
                note(&problem);
                let path = path.display();
                self.advice = Some(format!("{problem}; write into {path}: {}", lines.join(", ")));
                self.is_in_file = false;
            }
        }
    }
}

/// The lines of a volume file that name devices.
fn lines(names: &DeviceNames) -> Vec<String> {
    let mut lines = vec![format!("target={:?}", names.target)];
    for (name, texts) in
        [("data_devices", &names.data_devices), ("log_devices", &names.log_devices)]
    {
        if !texts.is_empty() {
            lines.push(format!("{name}={texts:?}"));
        }
    }
    lines
}

fn write(path: &Path, stages: &[DeviceNames], names: &DeviceNames) -> Result<(), String> {
    let failed =
        |problem: &dyn std::fmt::Display| format!("volume file {}: {problem}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
    let found = ServeArgs::from_text(&text).map_err(|error| failed(&error))?;
    let target = found.target.as_deref().unwrap_or_default();
    let found = DeviceNames::of(target, &found.disk)?;
    let known = found.each(lasting_name)?;
    let is_it = |stage: &DeviceNames| stage.each(lasting_name).is_ok_and(|stage| stage == known);
    if !stages.iter().any(is_it) {
        let list = |names: &DeviceNames| names.all().cloned().collect::<Vec<_>>().join(" and ");
        let expected = stages.first().map(list).unwrap_or_default();
        return Err(failed(&format_args!(
            "expected {expected}, as the volume was started, found {}",
            list(&found)
        )));
    }
    VolumeFile::read(path)?.with(&lines(names))?.write()
}
