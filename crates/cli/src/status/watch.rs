//! `nearhead status --watch`: what a daemon does, interval by interval, until Ctrl-C.
//!
//! A terminal is drawn on in place, anything else gets a line each time. A daemon that goes away is waited for: who watches it wants to see
//! it come back.

use super::StatusArgs;
use super::screen::{Screen, frame};
use crate::attach;
use crate::control::{Client, sockets};
use crate::report::Rates;
use crate::report::StatusReport;
use nearhead_output::{note, plain, say, say_json_line};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

/// Something that ends a wait: a signal that asks for the end.
struct Ending(UnixStream);

impl Ending {
    fn at_signals() -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("signals cannot be handled: {error}");
        let (reader, writer) = UnixStream::pair().map_err(failed)?;
        for signal in [SIGINT, SIGTERM] {
            let writer = writer.try_clone().map_err(failed)?;
            signal_hook::low_level::pipe::register(signal, writer).map_err(failed)?;
        }
        Ok(Self(reader))
    }

    /// Waits so long; whether the end came.
    fn within(&mut self, span: Duration) -> bool {
        // A pair of sockets of our own takes any span that is not 0.
        let _ = self.0.set_read_timeout(Some(span));
        match self.0.read(&mut [0; 16]) {
            // A byte for each signal: one is enough.
            Ok(_bytes) => true,
            Err(error) => !matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
            ),
        }
    }
}

/// A line for programs while nobody answers.
#[derive(Serialize)]
struct Away<'a> {
    target: &'a str,
    error: &'a str,
}

/// Runs the command.
pub(super) fn run(args: &StatusArgs, seconds: f64) -> Result<ExitCode, String> {
    let mut watching = Watching::begin(args)?;
    let mut ending = Ending::at_signals()?;
    let mut screen = if args.json { None } else { Screen::take() };
    loop {
        let is_seen = watching.look(args.json, screen.as_mut())?;
        if !is_seen || ending.within(Duration::from_secs_f64(seconds)) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

struct Watching<'a> {
    args: &'a StatusArgs,
    target: String,
    client: Option<Client>,
    before: Option<StatusReport>,
}

impl<'a> Watching<'a> {
    fn begin(args: &'a StatusArgs) -> Result<Self, String> {
        let (target, client) = match (&args.target, &args.control) {
            (Some(target), control) => {
                (target.clone(), Client::connected(target, control.as_deref())?)
            }
            (None, Some(control)) => (control.display().to_string(), Some(Client::at(control)?)),
            (None, None) => only_one()?,
        };
        if client.is_none() && attach::without_worker(&target).is_none() {
            return Err(format!(
                "status --watch {target}: expected a volume that is served or mounted, found none; \
                 serve it, or leave --watch out to look at the volume itself"
            ));
        }
        Ok(Self { args, target, client, before: None })
    }

    /// Shows one interval; whether anybody still sees it.
    fn look(&mut self, as_json: bool, screen: Option<&mut Screen>) -> Result<bool, String> {
        let report = self.ask();
        let rates = report.as_ref().map_err(Clone::clone).and_then(|report| {
            Rates::between(self.before.as_ref(), report)
                .ok_or_else(|| "it is not served".to_owned())
        });
        self.before = report.ok();
        let (target, rates) = (self.target.as_str(), rates.as_ref());
        match (screen, rates) {
            (Some(screen), Ok(rates)) => {
                let columns = Screen::size().0;
                return Ok(screen.draw(&frame(rates, columns)));
            }
            (Some(screen), Err(error)) => {
                let text = format!("{}: {error}\nwaiting for it; Ctrl-C ends this", plain(target));
                return Ok(screen.draw(&text));
            }
            (None, Ok(rates)) if as_json => say_json_line(rates)?,
            (None, Err(error)) if as_json => say_json_line(&Away { target, error })?,
            (None, Ok(rates)) => say(&rates.line()),
            (None, Err(error)) => note(&format!("{target}: {error}; waiting for it")),
        }
        Ok(true)
    }

    fn ask(&mut self) -> Result<StatusReport, String> {
        if self.client.is_none() {
            let control = self.args.control.as_deref();
            self.client = match &self.args.target {
                Some(target) => Client::connected(target, control)?,
                None => Client::connected(&self.target, control)?,
            };
        }
        let Some(client) = &mut self.client else {
            let why = attach::without_worker(&self.target).map(|why| why.to_string());
            return Err(why.unwrap_or_else(|| "no process serves it".to_owned()));
        };
        let answer = client.ask("status");
        if answer.is_err() {
            self.client = None;
        }
        answer
    }
}

/// The volume that is served here, if it is one alone.
fn only_one() -> Result<(String, Option<Client>), String> {
    let mut found = Vec::new();
    let sockets = sockets();
    // The only one of the first is perhaps not the only one.
    if let Some(told) = sockets.told_if_cut_short() {
        return Err(format!("status --watch: expected a TARGET; {told}"));
    }
    for path in sockets.paths {
        let Ok(mut client) = Client::connect(&path) else { continue };
        if let Ok(report) = client.ask::<StatusReport>("status") {
            found.push((report.target, Some(client)));
        }
    }
    let names: Vec<&str> = found.iter().map(|(target, _)| target.as_str()).collect();
    match (names.as_slice(), found.len()) {
        ([], _) => {
            Err("status --watch: expected a volume that is served or mounted here, found none"
                .to_owned())
        }
        (_, 1) => Ok(found.remove(0)),
        (names, _) => Err(format!(
            "status --watch: expected a TARGET, as several volumes are served here: {}",
            names.join(", ")
        )),
    }
}
