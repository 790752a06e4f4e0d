//! `nearhead stop`: asks the daemon that serves or has mounted a volume to stop in order, and waits until it has ended.
//!
//! The connection on which the stop was asked for stays open: how it ended is the last line on it, and its end is the end of the daemon. What the
//! daemon still has to do is asked on another one meanwhile.

use crate::control::{Client, Ended};
use crate::report::StatusReport;
use crate::units::{ByteSize, Span};
use nearhead_output::{note, say, say_json};
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What `nearhead stop` is told.
#[derive(clap::Args, Debug)]
pub struct StopArgs {
    /// The volume, as whoever serves it named it or by any other name of its disk, or the folder where it is mounted
    pub target: String,
    /// Wait no longer than this for its end; it goes on stopping all the same [default: as long as it takes]
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<Span>,
    /// Control socket of the daemon [default: derived from the target]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
}

/// How often people are told what is waited for.
const TELL_EVERY: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct Report<'a> {
    target: &'a str,
    stopped: bool,
    how: &'a str,
}

/// Runs the command.
pub fn run(args: &StopArgs) -> Result<(), String> {
    let target = &args.target;
    let control = args.control.as_deref();
    let Some(mut client) = Client::find(target, control)? else {
        return Err(format!(
            "stop {target}: expected a volume that is served or mounted, found nobody who does"
        ));
    };
    let mut beside = Client::find(target, control).ok().flatten();
    client.ask::<String>("stop")?;
    let begun = Instant::now();
    let left = || match args.timeout {
        Some(Span(span)) => Duration::from_nanos(span.0).saturating_sub(begun.elapsed()),
        None => TELL_EVERY,
    };
    while !client.has_something_within(left().min(TELL_EVERY)) {
        let waits_for = beside.as_mut().and_then(what_it_waits_for);
        if left().is_zero() {
            let waits_for = waits_for.map_or_else(String::new, |what| format!(" ({what})"));
            return Err(format!(
                "stop {target}: it has not ended yet{waits_for}; it goes on stopping, and `nearhead status {target}` shows how far it is"
            ));
        }
        if let Some(what) = waits_for {
            note(&format!("stopping {target} for {:.0} s: {what}", begun.elapsed().as_secs_f64()));
        }
    }
    let ended = client
        .hear::<Ended>("stop")
        .map_err(|problem| format!("stop {target}: it stopped {problem}"))?;
    // A mount has nothing more to say: unmounted is durable.
    let how = ended.map_or_else(|| "it has ended".to_owned(), |ended| ended.ended);
    // Its last word came before its end, at which it lets go of the disk.
    while client.hear::<serde_json::Value>("stop").is_ok_and(|more| more.is_some()) {}
    if args.json {
        return say_json(&Report { target, stopped: true, how: &how });
    }
    say(&format!("stopped {target}: {how}"));
    Ok(())
}

/// What is still to be done before its end, if it says.
fn what_it_waits_for(beside: &mut Client) -> Option<String> {
    let report: StatusReport = beside.ask("status").ok()?;
    let running = report.served.map_or(0, |served| served.clients.connections_open);
    Some(format!(
        "{}, {} left to log, {running} clients connected",
        report.state.phase,
        ByteSize(report.state.staged_bytes)
    ))
}
