//! The commands of the control socket: `status`, `checkpoint`, `drain`, `cancel`, `snapshot`, `hint`,
//! `metrics`, `set`, `grow`, `replace`, `stop`.
//!
//! Each is answered at once with one line of JSON; what takes long is begun here, and whoever asked
//! watches it through `status`.

use super::served::Served;
use crate::control::Answer;
use crate::health::Losses;
use crate::hint::hint_of;
use crate::metrics;
use crate::report::{Clients, Served as ServedReport, StatusReport};
use nearhead_nbd::Context;
use nearhead_service::{Operation, Service};
use serde::Serialize;
use std::cell::{Cell, OnceCell};
use std::path::{Path, PathBuf};

/// What the commands share with the tick.
#[derive(Default)]
pub struct Desk {
    uris: OnceCell<Vec<String>>,
    disk_notes: OnceCell<Vec<String>>,
    stop: Cell<bool>,
    attached_as: OnceCell<String>,
    /// The volume file.
    config: OnceCell<PathBuf>,
    /// Checkpoints and drains that were cancelled.
    cancels: Cell<u64>,
}

const COMMANDS: &str = "status, checkpoint, drain, cancel, config, snapshot, hint OFFSET LEN KIND, metrics, set NAME=VALUE..., grow, replace JSON, stop";

impl Desk {
    /// Where it is served.
    pub fn set_uris(&self, uris: Vec<String>) {
        let _ = self.uris.set(uris);
    }

    /// Sets what was found out about the disk.
    pub fn set_disk_notes(&self, notes: Vec<String>) {
        let _ = self.disk_notes.set(notes);
    }

    /// Another process starts a worker anew whenever this one ends, for whoever uses this device.
    pub fn set_attached(&self, device: String) {
        let _ = self.attached_as.set(device);
    }

    /// The volume file that the settings come from.
    pub fn set_config(&self, path: &Path) {
        let _ = self.config.set(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    }

    /// Whether a stop was asked for since the last call.
    pub fn take_stop(&self) -> bool {
        self.stop.replace(false)
    }

    /// Answers one command.
    pub fn answer(&self, line: &str, context: &mut Context<'_, Served>) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["status"] => Answer::Ok(self.report(context)).line(),
            ["metrics"] => Answer::Ok(self.metrics(context)).line(),
            ["snapshot"] => snapshot(context),
            ["checkpoint"] => checkpoint(context, false),
            ["drain"] => checkpoint(context, true),
            ["config"] => Answer::Ok(self.config.get()).line(),
            ["cancel"] => self.cancel(context),
            ["hint", offset, len, kind] => answered(hint(context, offset, len, kind)),
            ["set"] => Answer::Ok(context.service.settings()).line(),
            ["set", words @ ..] => answered(context.service.set(words, context.now)),
            ["grow"] => answered(context.service.grow(false, context.now)),
            ["grow", "look"] => answered(context.service.grow(true, context.now)),
            ["grown"] => Answer::Ok(context.service.growing.told()).line(),
            ["replace", ..] => {
                let request = line.trim().strip_prefix("replace").unwrap_or_default().trim();
                answered(context.service.replace(request, context.now))
            }
            ["devices"] => Answer::Ok(context.service.devices()).line(),
            ["replaced"] => Answer::Ok(context.service.replaced()).line(),
            ["stop"] => self.stop().line(),
            _ => {
                Answer::<()>::Error(format!("control: expected one of {COMMANDS}, found {line:?}"))
                    .line()
            }
        }
    }

    fn cancel(&self, context: &mut Context<'_, Served>) -> String {
        if let Some(refusal) = refusal(context) {
            return refusal;
        }
        self.cancels.set(self.cancels.get() + 1);
        context.service.volume_mut().cancel_checkpoint(context.now);
        Answer::Ok("cancelled").line()
    }

    fn stop(&self) -> Answer<&'static str> {
        if let Some(device) = self.attached_as.get() {
            return Answer::Error(format!(
                "it is attached as {device}, and another worker would follow this one; to end it: nearhead detach {device}"
            ));
        }
        self.stop.set(true);
        Answer::Ok("stopping")
    }

    /// The state as a report.
    pub fn report(&self, context: &Context<'_, Served>) -> StatusReport {
        let uris = self.uris.get().cloned().unwrap_or_default();
        let target = context.service.target();
        let statistics = &context.statistics;
        let attached = self
            .attached_as
            .get()
            .and_then(|device| crate::attach::report_of(device, Some(std::process::id())));
        let without_supervisor = attached.as_ref().and_then(|attached| attached.advice.clone());
        let served = ServedReport {
            pid: std::process::id(),
            uptime_s: context.now.as_secs_f64(),
            started_unix_s: crate::metrics::started_unix_s(),
            uris,
            read_only: context.service.info().read_only,
            clients: Clients {
                connections_open: statistics.connections_open,
                connections_accepted: statistics.connections_accepted,
                connections_refused: statistics.connections_refused,
                connections_stalled: statistics.connections_stalled,
                connections_unfinished: statistics.connections_unfinished,
                requests: statistics.requests(),
                errors: statistics.errors,
            },
            requests: context.service.counts(),
            latency: context.service.latencies(),
            disk_trouble: context.service.trouble().or(without_supervisor),
            losses: Losses::of(
                context.service.losses(),
                context.service.is_reopening(),
                context.now,
            ),
            disk_notes: self.disk_notes(context),
            coordination: context.service.coordination(),
            attached,
            cancels: self.cancels.get(),
        };
        let volume = context.service.volume();
        let mut report = StatusReport::new(&target, volume, Some(served), context.now);
        context.service.tell_of_rest(&mut report.devices);
        report
    }

    /// What was found out about the disk at the start, and whether its image has room to grow now.
    fn disk_notes(&self, context: &Context<'_, Served>) -> Vec<String> {
        let at_start = || self.disk_notes.get().cloned().unwrap_or_default();
        let mut notes = context.service.disk_notes().unwrap_or_else(at_start);
        notes.extend(context.service.without_space());
        notes
    }

    /// The state as metrics.
    pub fn metrics(&self, context: &Context<'_, Served>) -> String {
        metrics::render(&self.report(context))
    }
}

/// How it is, for who has room for one line only.
pub fn in_a_line(context: &Context<'_, Served>) -> String {
    let status = context.service.volume().status();
    let clients = nearhead_output::counted(context.statistics.connections_open, "client");
    format!("{}: {clients}, logs {} % full", status.phase.name(), status.log_fill_pct)
}

/// Why the volume takes no change, as an answer.
fn refusal(context: &Context<'_, Served>) -> Option<String> {
    if context.service.info().read_only {
        let problem = "the volume is served read-only: nothing can be brought home";
        return Some(Answer::<()>::Error(problem.to_owned()).line());
    }
    if context.service.is_reopening() {
        let problem = "the volume is being opened again; try again";
        return Some(Answer::<()>::Error(problem.to_owned()).line());
    }
    let failure = context.service.volume().engine().failure()?;
    let problem = format!("the volume accepts no change since a failure: {failure}");
    Some(Answer::<()>::Error(problem).line())
}

fn snapshot(context: &mut Context<'_, Served>) -> String {
    if let Some(refusal) = refusal(context) {
        return refusal;
    }
    context.service.volume_mut().start_snapshot(context.now);
    Answer::Ok("started").line()
}

fn checkpoint(context: &mut Context<'_, Served>, everything: bool) -> String {
    if let Some(refusal) = refusal(context) {
        return refusal;
    }
    context.service.volume_mut().start_checkpoint(everything, context.now);
    Answer::Ok("started").line()
}

fn answered<T: Serialize>(result: Result<T, String>) -> String {
    match result {
        Ok(answer) => Answer::Ok(answer).line(),
        Err(problem) => Answer::<()>::Error(problem).line(),
    }
}

fn hint(
    context: &mut Context<'_, Served>,
    offset: &str,
    len: &str,
    kind: &str,
) -> Result<&'static str, String> {
    let (offset, len, hint) = hint_of(offset, len, kind)?;
    let operation = Operation::Hint { offset, len, hint };
    context.service.run_own(operation, context.now)?;
    // Hints live in snapshots: without one this would be forgotten at a crash.
    context.service.volume_mut().start_snapshot(context.now);
    Ok("done")
}
