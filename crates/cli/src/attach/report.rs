//! The state of an attached volume for `nearhead status`: its processes, its users, and the one command that brings back what is missing.
//!
//! It must never ask the worker, which may be the process that asks, nor wait for the device.

use super::backend;
use super::kept::Kept;
use super::place::{Facts, Place};
use super::resume::Resumed;
use crate::report::AttachedReport;
use nearhead_output::{say, say_json};
use std::path::Path;

/// The attached volume that `what` means: its name, its link, its device or its target. `worker` is the process that serves it, if that is known.
pub fn report_of(what: &str, worker: Option<u32>) -> Option<AttachedReport> {
    let named = what.strip_prefix("/dev/nearhead/").unwrap_or(what);
    let known = Place::named(named).ok().and_then(|place| Some((place.facts().ok()?, place)));
    let found = || Place::find(what).ok().map(|(place, facts)| (facts, place));
    let (facts, place) = known.or_else(found)?;
    Some(report(&place, &facts, worker))
}

fn report(place: &Place, facts: &Facts, asking: Option<u32>) -> AttachedReport {
    let is_held = place.is_held();
    let resumed = Resumed::at(place);
    let alone = resumed.as_ref().and_then(|resumed| resumed.worker);
    let alone = alone.map(|worker| worker.as_raw_nonzero().get().cast_unsigned());
    let worker = asking.or(if is_held { facts.worker } else { alone });
    let name = &place.name;
    let is_served = worker.is_some() && facts.trouble.is_none();
    let kept = Kept::at(place).filter(|_| !is_served);
    let advice = (!is_held).then(|| match (&kept, worker) {
        (_, Some(_)) => format!(
            "the process that supervises it has ended, and no worker follows if this one ends; `nearhead attach {name}` brings it back"
        ),
        (None, None) => {
            format!("its processes have ended; `nearhead attach {name}` brings it back")
        }
        (Some(kept), None) => format!("its processes have ended; {}", kept.advice(place)),
    });
    AttachedReport {
        name: name.clone(),
        supervisor: facts.supervisor.filter(|_| is_held),
        worker,
        user: None,
        trouble: facts.trouble.clone().filter(|_| is_held),
        kept: kept.map(|kept| format!("{}: they are not durable", kept.words)),
        advice,
    }
}

/// Why no worker serves an attached volume.
#[derive(Debug)]
pub enum Unserved {
    /// The supervisor is starting one.
    Starting(String),
    /// For this reason, until something is done about it.
    For(String),
}

impl std::fmt::Display for Unserved {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Starting(why) | Self::For(why)) = self;
        formatter.write_str(why)
    }
}

/// Why no worker answers for the attached volume that `what` means; none if `what` is no attached volume, or names its target and no
/// process supervises it: then a command may use the target itself.
pub fn without_worker(what: &str) -> Option<Unserved> {
    let report = report_of(what, None)?;
    let name = &report.name;
    let found = format!("expected a worker that serves the attached volume {name}, found none");
    if report.supervisor.is_none() {
        let is_device = what.starts_with("/dev/nearhead/");
        let advice = report.advice.filter(|_| is_device || !Path::new(what).exists())?;
        let kept = report.kept.map_or_else(String::new, |kept| format!("it keeps {kept}; "));
        return Some(Unserved::For(format!("{found}: {kept}{advice}")));
    }
    Some(match report.trouble {
        None => Unserved::Starting(format!(
            "{found}: the next one is not ready yet; requests wait for it, and `nearhead status {name}` shows when it is"
        )),
        Some(trouble) => Unserved::For(format!(
            "{found}: {trouble}; `nearhead status {name}` shows when it is back"
        )),
    })
}

/// Attached volumes that no worker serves, each of which waits for something or keeps writes.
pub fn unserved() -> Vec<AttachedReport> {
    let known = |place: Place| Some(report(&place, &place.facts().ok()?, None));
    let is_unserved = |report: &AttachedReport| {
        report.trouble.is_some() || (report.supervisor.is_none() && report.worker.is_none())
    };
    Place::all().into_iter().filter_map(known).filter(is_unserved).collect()
}

/// Adds what keeps the device busy.
pub fn with_user(report: AttachedReport) -> AttachedReport {
    let found = Place::named(&report.name).and_then(|place| Ok((place.facts()?, place)));
    let user = found.ok().and_then(|(facts, place)| {
        let is_there = backend::named(&facts.by).is_ok_and(|by| by.is_there(&place, &facts));
        nearhead_uring::user_of(&facts.device).filter(|_| is_there)
    });
    AttachedReport { user: user.map(|(user, _)| user), ..report }
}

/// Prints the state of an attached volume that no worker serves now; none if `what` is no such volume.
pub fn status(what: &str, as_json: bool) -> Option<Result<(), String>> {
    let is_path = Path::new(what).exists();
    let report = report_of(what, None).filter(|report| !is_path || report.supervisor.is_some())?;
    let report = with_user(report);
    if as_json {
        return Some(say_json(&report));
    }
    report.lines().iter().for_each(|(name, value)| say(&format!("{name:<12}{value}")));
    Some(Ok(()))
}
