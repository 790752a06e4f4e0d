//! `nearhead status` without a target: every volume that is served or mounted on this machine, as far as this user may ask.
//!
//! Each daemon is asked by itself and at the same time as the others, so that one that hangs is told as such and delays nobody for longer
//! than it is given. A socket that nobody listens on is what a daemon that was killed left behind: no volume is served there, so it says nothing of
//! how those that are served are doing, and the exit code is theirs. It is never removed here: another daemon may take its name at any moment, and
//! between `bind` and `listen` its socket refuses as well. Whoever serves that disk next has the disk to itself, and replaces it.

use super::{EXIT_NOT_WELL, exit_code, lasting};
use crate::attach;
use crate::control::{Client, Searched, sockets};
use crate::report::{AttachedReport, StatusReport};
use crate::units::ByteSize;
use nearhead_basics::{Column, Table};
use nearhead_output::{note, plain, say, say_json, warn};
use serde::Serialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// What a daemon is given to answer.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);
/// Daemons that are asked at once.
const ASKED_AT_ONCE: usize = 64;

/// What a socket means that nobody answers on.
const STALE: &str = "nothing is served there any more: its daemon was killed; the next one on that disk takes its place and recovers what is \
    in the logs; if there will be none, remove it";
/// So many of them are told one by one.
const STALE_TOLD_MAX: usize = 5;

/// All of them.
#[derive(Debug, Serialize)]
struct List {
    volumes: Vec<Listed>,
    /// Attached volumes that no worker serves.
    attached: Vec<AttachedReport>,
    /// Sockets that are no way to a volume.
    unanswered: Vec<Unanswered>,
    /// Folders with more sockets than are asked: there may be volumes that are not in this list.
    cut_short: Vec<PathBuf>,
}

/// One volume.
#[derive(Debug, Serialize)]
struct Listed {
    target: String,
    label: String,
    preset: String,
    size_bytes: u64,
    health: String,
    reasons: Vec<String>,
    phase: String,
    /// Where clients connect, or the folder where it is mounted.
    served_at: Vec<String>,
    is_mounted: bool,
    pid: u32,
    uptime_s: f64,
    control: PathBuf,
}

/// One socket without an answer.
#[derive(Debug, Serialize)]
struct Unanswered {
    control: PathBuf,
    /// Nobody is there any more.
    is_stale: bool,
    problem: String,
}

/// Runs the command.
pub(super) fn run(as_json: bool) -> Result<ExitCode, String> {
    let found = sockets();
    let list = asked(&found);
    let is_well =
        list.attached.is_empty() && list.volumes.iter().all(|volume| volume.health == "well");
    if as_json {
        say_json(&list)?;
    } else {
        tell(&list);
        found.told_if_cut_short().iter().for_each(|told| warn(told));
    }
    let all_answered = list.cut_short.is_empty() && list.unanswered.iter().all(|one| one.is_stale);
    Ok(match (is_well, all_answered) {
        (false, _) => ExitCode::from(EXIT_NOT_WELL),
        (true, false) => ExitCode::FAILURE,
        (true, true) => exit_code(true),
    })
}

fn asked(found: &Searched) -> List {
    let cut_short = found.cut_short.clone();
    let (volumes, unanswered, attached) = (Vec::new(), Vec::new(), attach::unserved());
    let mut list = List { volumes, attached, unanswered, cut_short };
    for some in found.paths.chunks(ASKED_AT_ONCE) {
        let answers: Vec<_> = std::thread::scope(|scope| {
            let asking: Vec<_> = some.iter().map(|path| scope.spawn(|| ask(path))).collect();
            asking.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        for (path, answer) in some.iter().zip(answers) {
            match answer.unwrap_or_else(|_| Err((false, "internal: no answer".to_owned()))) {
                Ok(report) => list.volumes.push(Listed::of(report, path)),
                Err((is_stale, problem)) => {
                    list.unanswered.push(Unanswered { control: path.clone(), is_stale, problem });
                }
            }
        }
    }
    list.volumes.sort_by(|a, b| a.target.cmp(&b.target));
    list
}

/// The report of the daemon that listens there; else whether nobody does any more, and what to do.
fn ask(path: &Path) -> Result<StatusReport, (bool, String)> {
    let mut client = Client::connect_for(path, ANSWER_WAIT_MAX).map_err(|error| {
        let is_stale = matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound);
        let problem = match (is_stale, error.kind()) {
            (true, _) => STALE.to_owned(),
            (_, ErrorKind::PermissionDenied) => {
                "this user may not ask its daemon: try as root".to_owned()
            }
            _ => error.to_string(),
        };
        (is_stale, problem)
    })?;
    client.ask("status").map_err(|problem| (false, problem))
}

impl Listed {
    fn of(report: StatusReport, control: &Path) -> Self {
        let served = report.served;
        Self {
            target: report.target,
            label: report.volume.label,
            preset: report.volume.preset,
            size_bytes: report.volume.client_bytes,
            health: report.health.state,
            reasons: report.health.reasons,
            phase: report.state.phase,
            served_at: served.as_ref().map(|served| served.uris.clone()).unwrap_or_default(),
            is_mounted: report.file_system.is_some(),
            pid: served.as_ref().map_or(0, |served| served.pid),
            uptime_s: served.map_or(0.0, |served| served.uptime_s),
            control: control.to_owned(),
        }
    }

    fn columns(&self) -> [String; 7] {
        [
            plain(&self.target).into_owned(),
            self.preset.clone(),
            ByteSize(self.size_bytes).to_string(),
            self.health.clone(),
            lasting(self.uptime_s),
            self.pid.to_string(),
            plain(&self.served_at.join(" ")).into_owned(),
        ]
    }
}

fn tell(list: &List) {
    let has_none = list.volumes.is_empty() && list.attached.is_empty();
    if has_none && list.unanswered.iter().all(|one| one.is_stale) {
        note("no volume is served or mounted here, as far as this user can see");
    }
    if !list.volumes.is_empty() {
        let head = ["TARGET", "PRESET", "SIZE", "HEALTH", "UP", "PROCESS", "AT"];
        let mut table = Table::new(head.map(|name| Column::left(name).gap(2)));
        list.volumes.iter().for_each(|volume| table.row(volume.columns()));
        say(table.text().trim_end());
    }
    for volume in list.volumes.iter().filter(|volume| !volume.reasons.is_empty()) {
        say(&format!("{}: {}", plain(&volume.target), volume.reasons.join("; ")));
    }
    for attached in &list.attached {
        let lines = attached.lines();
        let parts: Vec<String> =
            lines.iter().map(|(name, value)| format!("{name} {}", plain(value))).collect();
        say(&parts.join("; "));
    }
    let (stale, silent): (Vec<_>, Vec<_>) = list.unanswered.iter().partition(|one| one.is_stale);
    let told =
        |one: &Unanswered| format!("control socket {}: {}", one.control.display(), one.problem);
    for one in silent {
        warn(&told(one));
    }
    // Years of them may have gathered where images came and went.
    if stale.len() > STALE_TOLD_MAX {
        note(&format!("{} control sockets: {STALE}; --json lists them", stale.len()));
        return;
    }
    for one in stale {
        note(&told(one));
    }
}
