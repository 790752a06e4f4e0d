//! `nearhead checkpoint` and `nearhead drain`: bring logged blocks home, now.
//!
//! A drain takes durability-only ranges too and says when it is safe to stop. Both work through the
//! daemon that serves the volume, or on the volume itself; both show how far they are.

use crate::attach;
use crate::control::Client;
use crate::offline;
use crate::report::{State, StatusReport};
use crate::target::{Access, DiskArgs};
use crate::units::{ByteSize, Span};
use nearhead_disk::Nanos;
use nearhead_output::{note, say, say_json};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often a daemon is asked how far it is.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const TELL_EVERY: Duration = Duration::from_secs(1);
/// How long it may take unless told otherwise.
const WAIT_MAX_DEFAULT: Nanos = Nanos::from_secs(3600);

/// Arguments of `nearhead checkpoint` and `nearhead drain`.
#[derive(clap::Args, Debug)]
pub struct CheckpointArgs {
    /// Block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B
    pub target: String,
    /// Control socket of the daemon [default: derived from the target]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Give up waiting after this long; the daemon goes on [default: 1h]
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Span>,
    /// Stop the daemon afterwards
    #[arg(long)]
    pub stop: bool,
    /// End one that is under way; what was brought home stays there
    #[arg(long, conflicts_with_all = ["stop", "timeout"])]
    pub cancel: bool,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

/// What was done.
#[derive(Debug, Serialize)]
struct CheckpointReport {
    target: String,
    /// Bytes copied home.
    checkpointed_bytes: u64,
    /// Pieces whose newest copy is still in a log, or lost.
    map_entries_left: u64,
    /// Share of the log space still in use.
    log_fill_pct: u32,
    /// Time it took, in seconds.
    took_s: f64,
    /// Whether nothing is in the logs any more; a stop is always safe, and then also quick.
    everything_is_home: bool,
    /// Whether the daemon was told to stop.
    stopping: bool,
}

/// Shows how far it is, with the time left at the present speed.
struct Progress {
    what: &'static str,
    begun: Instant,
    told: Instant,
    entries: u64,
}

impl Progress {
    fn new(what: &'static str, entries: u64) -> Self {
        Self { what, begun: Instant::now(), told: Instant::now(), entries }
    }

    fn tell(&mut self, left: u64) {
        if self.told.elapsed() < TELL_EVERY {
            return;
        }
        self.told = Instant::now();
        self.entries = self.entries.max(left);
        let done = self.entries - left;
        let spent = self.begun.elapsed().as_secs_f64();
        let eta = if done == 0 {
            String::new()
        } else {
            format!(", about {:.0} s left", spent / done as f64 * left as f64)
        };
        note(&format!("{}: {done} of {} pieces home{eta}", self.what, self.entries));
    }
}

/// Runs `checkpoint`, or `drain` if `everything`.
pub fn run(args: &CheckpointArgs, everything: bool) -> Result<(), String> {
    let what = if everything { "drain" } else { "checkpoint" };
    if args.cancel {
        return cancel(args, what);
    }
    let report = match Client::find(&args.target, args.control.as_deref())? {
        Some(client) => through_daemon(args, client, what)?,
        None => at_rest(args, what, everything)?,
    };
    if args.json {
        say_json(&report)?;
    } else {
        tell(&report, what);
    }
    if everything && !report.everything_is_home {
        return Err(format!(
            "{what} {}: {} pieces are not home: clients write on, their copies are damaged, or a data device is missing; \
             see `nearhead status` and `nearhead check`",
            args.target, report.map_entries_left
        ));
    }
    Ok(())
}

/// What was cancelled.
#[derive(Debug, Serialize)]
struct CancelReport<'a> {
    target: &'a str,
    cancelled: bool,
}

fn cancel(args: &CheckpointArgs, what: &str) -> Result<(), String> {
    let target = &args.target;
    let Some(mut client) = Client::find(target, args.control.as_deref())? else {
        return Err(format!(
            "{what} {target}: expected a volume that is served, found none: nothing is under way"
        ));
    };
    let before: StatusReport = client.ask("status")?;
    let _: String = client.ask("cancel")?;
    let cancelled = before.state.checkpointing;
    if args.json {
        return say_json(&CancelReport { target, cancelled });
    }
    say(&if cancelled {
        format!("{what} of {target} is cancelled: it ends after the pieces that it copies now")
    } else {
        format!("{what} of {target}: none was under way")
    });
    Ok(())
}

fn tell(report: &CheckpointReport, what: &str) {
    say(&format!(
        "{what} of {}: {} brought home in {:.1} s, logs {} % full, {} pieces left in them",
        report.target,
        ByteSize(report.checkpointed_bytes),
        report.took_s,
        report.log_fill_pct,
        report.map_entries_left,
    ));
    if what == "drain" && report.everything_is_home {
        say(if report.stopping {
            "the daemon is stopping"
        } else {
            "everything is home: it is safe to stop"
        });
    }
}

fn through_daemon(
    args: &CheckpointArgs,
    mut client: Client,
    what: &'static str,
) -> Result<CheckpointReport, String> {
    let wait_max = args.timeout.map_or(WAIT_MAX_DEFAULT, |Span(span)| span);
    let begun = Instant::now();
    let before: StatusReport = client.ask("status")?;
    let cancels = |report: &StatusReport| report.served.as_ref().map_or(0, |it| it.cancels);
    let target = &args.target;
    attach::say_what_goes_on_at_ctrl_c(&format!(
        "{what} {target}: interrupted; the daemon goes on with it, `nearhead {what} {target} --cancel` ends it"
    ))?;
    let mut progress = Progress::new(what, before.state.map_entries);
    let mut last = before.clone();
    let mut home = false;
    // Clients may write on: a drain tries again while it gets somewhere.
    while !home {
        let (entries, staged) = (last.state.map_entries, last.state.staged_bytes);
        let copied = last.counters.0.checkpointed_bytes;
        let _: String = client.ask(what)?;
        let mut quiet = 0;
        last = wait_for(&mut client, &mut progress, begun, wait_max, what, |report| {
            // Between two passes it is quiet for a moment.
            quiet = if report.state.checkpointing { 0 } else { quiet + 1 };
            quiet >= 2
        })?;
        if cancels(&last) > cancels(&before) {
            return Err(format!(
                "{what} {target}: it was cancelled, {} pieces are left in the logs",
                last.state.map_entries
            ));
        }
        // What was staged when a pass began is logged now, and for the next pass.
        let moved = last.counters.0.checkpointed_bytes > copied
            || last.state.map_entries != entries
            || staged > 0;
        home = what == "checkpoint" || last.state.map_entries == 0 || !moved;
    }
    if what == "drain" {
        // So that the next start has as little to read as can be.
        let _: String = client.ask("snapshot")?;
        let number = last.state.snapshot_number;
        last = wait_for(&mut client, &mut progress, begun, wait_max, what, |report| {
            report.state.snapshot_number > number
        })?;
    }
    // Of a mounted file system also what is in memory alone.
    let is_clean = last.file_system.as_ref().is_none_or(|files| files.dirty_bytes == 0);
    let everything_is_home =
        last.state.map_entries == 0 && last.state.staged_bytes == 0 && is_clean;
    let stopping = args.stop && (everything_is_home || what == "checkpoint");
    if stopping {
        let _: String = client.ask("stop")?;
    }
    Ok(CheckpointReport {
        target: args.target.clone(),
        checkpointed_bytes: last.counters.0.checkpointed_bytes
            - before.counters.0.checkpointed_bytes,
        map_entries_left: last.state.map_entries,
        log_fill_pct: last.state.log_fill_pct,
        took_s: begun.elapsed().as_secs_f64(),
        everything_is_home,
        stopping,
    })
}

/// Asks the daemon how it is until `done` says so.
fn wait_for(
    client: &mut Client,
    progress: &mut Progress,
    begun: Instant,
    wait_max: Nanos,
    what: &str,
    mut done: impl FnMut(&StatusReport) -> bool,
) -> Result<StatusReport, String> {
    loop {
        let report: StatusReport = client.ask("status")?;
        check_alive(&report.state, what)?;
        if done(&report) {
            return Ok(report);
        }
        if begun.elapsed().as_nanos() > u128::from(wait_max.0) {
            return Err(format!(
                "{what}: not done after {:.0} s, {} pieces left; the daemon goes on, see `nearhead status`",
                wait_max.as_secs_f64(),
                report.state.map_entries
            ));
        }
        progress.tell(report.state.map_entries);
        std::thread::sleep(LOOK_EVERY);
    }
}

fn check_alive(state: &State, what: &str) -> Result<(), String> {
    match &state.failure {
        Some(failure) => Err(format!("{what}: the volume failed: {failure}")),
        None => Ok(()),
    }
}

fn at_rest(
    args: &CheckpointArgs,
    what: &'static str,
    everything: bool,
) -> Result<CheckpointReport, String> {
    let begun = Instant::now();
    let mut offline = offline::open(&args.target, Access::Write, &args.disk, false)?;
    let mut progress = Progress::new(what, offline.volume.engine().map().len() as u64);
    let now = offline.now();
    offline.volume.start_checkpoint(everything, now);
    offline.drive_until(|volume| {
        progress.tell(volume.engine().map().len() as u64);
        !volume.status().checkpointing
    })?;
    let status = offline.volume.status();
    offline.close()?;
    Ok(CheckpointReport {
        target: args.target.clone(),
        checkpointed_bytes: status.stats.checkpointed_bytes,
        map_entries_left: status.map_entries,
        log_fill_pct: status.log_fill_pct,
        took_s: begun.elapsed().as_secs_f64(),
        everything_is_home: status.map_entries == 0,
        stopping: false,
    })
}
