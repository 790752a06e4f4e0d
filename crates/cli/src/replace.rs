//! `nearhead replace`: asks the daemon that serves a volume to replace a member of a mirror by another disk, and waits until that is done.
//!
//! The daemon does all of it, and goes on if this command ends. If a worker of an attached volume is killed, the next one goes on with the
//! replacement, and this command asks that one. It must never wait without a bound for a daemon that does not answer.

use crate::attach;
use crate::control::Client;
use crate::report::ReplacingReport;
use crate::target::DeviceNames;
use crate::units::Span;
use nearhead_arrays::mirror_members;
use nearhead_output::{note, say, say_json};
use serde::{Deserialize, Serialize};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Interval between two questions to the daemon.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Interval between two lines of progress, at a terminal and in a log.
const TELL_EVERY: Duration = Duration::from_secs(2);
const LOG_EVERY: Duration = Duration::from_secs(60);
/// Longest time without a daemon that answers: a supervisor starts one within seconds, and recovery may take as long.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Arguments of `nearhead replace`.
#[derive(clap::Args, Debug)]
pub struct ReplaceArgs {
    /// The volume, by the name of its daemon: an attached volume's name, its target, or any other name of its devices
    pub target: String,
    /// The member to replace, as `nearhead status` names it; `missing` for one that is away
    pub old: String,
    /// Block device or image that replaces it, at least as large as the other members
    pub new: String,
    /// Overwrite what NEW holds
    #[arg(long)]
    pub force: bool,
    /// Return once the copy has begun; `nearhead status` shows its progress
    #[arg(long)]
    pub no_wait: bool,
    /// Give up waiting after this long; the daemon goes on [default: none]
    #[arg(long, value_name = "TIME", conflicts_with = "no_wait")]
    pub timeout: Option<Span>,
    /// Control socket of the daemon [default: derived from the target]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
}

/// A request to a daemon.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplaceRequest {
    /// As the user named the member.
    pub old: String,
    /// The same from the root.
    pub old_path: PathBuf,
    /// From the root.
    pub new: String,
    /// Overwrite what it holds.
    pub force: bool,
}

impl ReplaceRequest {
    /// Whether a member is the one that is to be replaced.
    pub fn means(&self, member: &str) -> bool {
        let is_same = || {
            let same = |path: &Path| path.canonicalize().ok();
            same(Path::new(member)).is_some_and(|path| same(&self.old_path) == Some(path))
        };
        member == self.old || Path::new(member) == self.old_path || is_same()
    }
}

/// A replacement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplaceReport {
    /// The devices as the daemon names them, now and at a later start.
    #[serde(flatten)]
    pub devices: DeviceNames,
    pub old: String,
    pub new: String,
    /// The new member has everything, and the old one is used no more.
    pub done: bool,
    /// Progress of the copy, while there is any.
    pub progress: Option<ReplacingReport>,
    /// The volume file that names the target now.
    pub volume_file: Option<PathBuf>,
    /// Change that an operator must make for later starts.
    pub advice: Option<String>,
}

/// State of a replacement, as a daemon reports it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replaced {
    /// The daemon got no request; the one that got it may have ended.
    Never,
    UnderWay(ReplaceReport),
    Done(ReplaceReport),
    /// Reason of the failure.
    Failed(String),
}

/// Runs the command.
pub fn run(args: &ReplaceArgs) -> Result<(), String> {
    let ReplaceArgs { target, old, new, .. } = args;
    let what = format!("replace {target}");
    let Some(mut client) = find(args)? else {
        return Err(format!(
            "{what}: expected a volume that is served or attached, found none by that name; start it first, or name the new member at its next \
             start (mirror:A,missing, then `nearhead replace`)"
        ));
    };
    let absolute = attach::lasting_path(Path::new(new));
    let request = ReplaceRequest {
        old: old.clone(),
        old_path: attach::lasting_path(Path::new(old)),
        new: absolute.to_str().map(str::to_owned).ok_or_else(|| {
            format!("{what}: expected a path in UTF-8, found {}", absolute.display())
        })?,
        force: args.force,
    };
    let words = serde_json::to_string(&request).map_err(|error| format!("{what}: {error}"))?;
    let begun: Replaced = client.ask(&format!("replace {words}"))?;
    if args.no_wait {
        return report(args, begun);
    }
    attach::say_what_goes_on_at_ctrl_c(&format!(
        "{what}: the daemon goes on copying to {new}; `nearhead status {target}` shows how far it is"
    ))?;
    let ended = wait(args, &request, client)?;
    report(args, ended)
}

fn find(args: &ReplaceArgs) -> Result<Option<Client>, String> {
    let attached = attach::attached(&args.target);
    let control = args.control.clone().or_else(|| attached.as_ref()?.control());
    match (Client::find(&args.target, control.as_deref()), attached) {
        // Its worker was killed, and the next one does not answer yet.
        (Err(_), Some(_)) if args.control.is_none() => Ok(None),
        (found, _) => found,
    }
}

/// Asks until the replacement has ended.
fn wait(args: &ReplaceArgs, request: &ReplaceRequest, client: Client) -> Result<Replaced, String> {
    let begun = Instant::now();
    let mut client = Some(client);
    let (mut heard, mut told_at) = (begun, begun);
    let every = if std::io::stderr().is_terminal() { TELL_EVERY } else { LOG_EVERY };
    loop {
        std::thread::sleep(LOOK_EVERY);
        let answer = client.as_mut().map(|client| client.ask::<Replaced>("replaced"));
        match answer {
            Some(Ok(Replaced::UnderWay(report))) => {
                heard = Instant::now();
                if told_at.elapsed() >= every
                    && let Some(progress) = &report.progress
                {
                    told_at = heard;
                    note(&progress.words());
                }
            }
            Some(Ok(Replaced::Never)) => return ended_before(args, request, client),
            Some(Ok(ended)) => return Ok(ended),
            Some(Err(_)) | None => client = find(args).ok().flatten(),
        }
        if heard.elapsed() >= SILENCE_MAX {
            return Err(format!(
                "replace {}: expected that its daemon answers, found none for {} s; an attached volume goes on with the replacement once a worker \
                 serves it again",
                args.target,
                SILENCE_MAX.as_secs()
            ));
        }
        if args
            .timeout
            .is_some_and(|Span(most)| begun.elapsed().as_secs_f64() >= most.as_secs_f64())
        {
            note("the daemon goes on");
            return Err(format!(
                "replace {}: expected that it ends within {:.0} s, found it under way",
                args.target,
                begun.elapsed().as_secs_f64()
            ));
        }
    }
}

/// Outcome by the target of a daemon that was started after the request.
fn ended_before(
    args: &ReplaceArgs,
    request: &ReplaceRequest,
    client: Option<Client>,
) -> Result<Replaced, String> {
    let failed = |found: &str| {
        Err(format!(
            "replace {}: expected a daemon that goes on with the replacement, found {found}; see its log, and run the command again",
            args.target
        ))
    };
    let Some(mut client) = client else { return failed("none") };
    let devices: DeviceNames = client.ask("devices")?;
    let has_new = |text: &String| mirror_members(text).contains(&request.new);
    if !devices.all().any(has_new) {
        return failed(&format!("one that serves {}", devices.target));
    }
    Ok(Replaced::Done(ReplaceReport {
        devices,
        old: request.old.clone(),
        new: request.new.clone(),
        done: true,
        progress: None,
        volume_file: None,
        advice: None,
    }))
}

/// Prints the report, or fails as the replacement did.
fn report(args: &ReplaceArgs, ended: Replaced) -> Result<(), String> {
    let report = match ended {
        Replaced::UnderWay(report) | Replaced::Done(report) => report,
        Replaced::Failed(problem) => return Err(problem),
        Replaced::Never => return Err(format!("replace {}: it was not begun", args.target)),
    };
    if args.json {
        return say_json(&report);
    }
    let ReplaceReport { devices, old, new, done, volume_file, advice, .. } = report;
    say(&if done {
        format!("{new} has replaced {old}, which is used no more: {}", devices.target)
    } else {
        format!("{new} replaces {old}; `nearhead status {}` shows how far it is", args.target)
    });
    if let Some(file) = volume_file {
        note(&format!("{} names it now", file.display()));
    }
    if let Some(advice) = advice {
        note(&advice);
    }
    Ok(())
}
