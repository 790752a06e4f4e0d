//! `nearhead detach`: the block device goes, everything is durable, and no user of the device is left without it.
//!
//! The order: its users are named, or unmounted; then the device is taken away, which also proves that it has none; the worker sees that
//! there is nothing more to do, makes everything durable and ends, and the supervisor after it. It works without a supervisor as well. It must
//! never say that all is durable while writes are kept that were answered and not flushed, and never throw those away without `--force`.

use super::backend::{self, Backend};
use super::kept::Kept;
use super::place::{Facts, Place};
use super::resume;
use crate::checkpoint::{self, CheckpointArgs};
use crate::control::Client;
use crate::report::StatusReport;
use crate::target::DiskArgs;
use crate::units::ByteSize;
use nearhead_output::{note, say, say_json};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Writes that are listed one a line when they are thrown away.
const LOST_LISTED_MAX: usize = 64;
/// Interval between two progress messages.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Number of times that a device is checked for users before it counts as used, and the pause between two checks.
pub(super) const LOOKS: u32 = 20;
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Arguments of `nearhead detach`.
#[derive(clap::Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own on the command line")]
pub struct DetachArgs {
    /// The attached volume: its name, /dev/nearhead/NAME, its device or its target
    pub what: String,
    /// Unmount first what is mounted from it
    #[arg(long)]
    pub unmount: bool,
    /// Bring everything home first, so that nothing is in the logs
    #[arg(long)]
    pub drain: bool,
    /// Also if it is used, or no process answers: its users get errors. What was not flushed may be lost, and is said to be
    #[arg(long, conflicts_with = "drain")]
    pub force: bool,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Report of `detach --json`.
#[derive(Debug, Serialize)]
struct Report<'a> {
    name: &'a str,
    detached: bool,
    /// All that was answered is durable.
    durable: bool,
    /// Writes that were thrown away, in words.
    lost: Option<&'a str>,
    /// Each of them, oldest first.
    lost_writes: Vec<LostWrite>,
}

/// A write that was thrown away.
#[derive(Debug, Serialize)]
struct LostWrite {
    offset: u64,
    bytes: u64,
}

/// Runs the command.
pub fn run(args: &DetachArgs) -> Result<(), String> {
    let (place, facts) = Place::find(&args.what)?;
    let backend = backend::named(&facts.by)?;
    if args.unmount && backend.is_there(&place, &facts) {
        unmount(&facts.device)?;
    }
    let can_finish = resume::living_worker(&facts).is_some() || facts.worker.is_none();
    if args.force {
        note(&format!("detach {}: by force", place.name));
        backend.give_up(&place, Some(&facts.device))?;
    } else {
        refuse_if_used(&place, &facts, backend, "detach")?;
        if !place.is_held() && !can_finish {
            refuse_kept(&place)?;
        }
        if args.drain {
            drain(&place)?;
        }
        say_what_goes_on_at_ctrl_c(&format!(
            "detach {0}: interrupted; it goes on in the background: `nearhead status {0}` shows it until it has gone",
            place.name
        ))?;
        take_away(&place, &facts, backend)?;
    }
    wait_until_left(&place, &facts)?;
    // A supervisor takes everything away before it leaves.
    if place.facts().is_ok() && !place.is_held() {
        // It served on alone until now. A supervisor that was just killed may have been there a moment ago.
        match resume::living_worker(&facts) {
            Some(worker) => wait_for_end(worker, &place, &facts),
            None => facts.control.iter().for_each(|control| wait_for_close(control)),
        }
        let _ = backend.give_up(&place, Some(&facts.device));
        if !args.force {
            // The supervisor knows more.
            place.take_word().map_or(Ok(()), Err)?;
            refuse_kept(&place)?;
        }
    }
    let lost = Kept::at(&place).filter(|_| args.force);
    if args.force {
        place.throw_kept_away();
    }
    if !place.is_held() {
        place.remove();
    }
    match place.take_word() {
        Some(why) if !args.force => return Err(why),
        _ => {}
    }
    report(args, &place, lost.as_ref())
}

/// Prints how it ended; `lost` was thrown away.
fn report(args: &DetachArgs, place: &Place, lost: Option<&Kept>) -> Result<(), String> {
    let writes = lost.and_then(|lost| lost.writes.as_ref());
    if args.json {
        let ranges = writes.map_or(&[][..], |writes| &writes.ranges);
        return say_json(&Report {
            name: &place.name,
            detached: true,
            durable: !args.force,
            lost: lost.map(|lost| lost.words.as_str()),
            lost_writes: ranges
                .iter()
                .map(|(offset, bytes)| LostWrite { offset: *offset, bytes: *bytes })
                .collect(),
        });
    }
    let how = match (lost, args.force) {
        (Some(lost), _) => format!("; thrown away: {}", lost.words),
        (None, true) => String::new(),
        (None, false) => ": everything is durable".to_owned(),
    };
    say(&format!("detached {}{how}", place.name));
    let lines = writes.map_or_else(Vec::new, |writes| writes.listed(LOST_LISTED_MAX));
    for line in lines {
        say(&format!("  {line}"));
    }
    Ok(())
}

/// Refuses to end a volume of which writes are kept that no process is going to carry out.
fn refuse_kept(place: &Place) -> Result<(), String> {
    let Some(kept) = Kept::at(place) else { return Ok(()) };
    Err(format!(
        "detach {}: expected that everything is durable, found {}; {}",
        place.name,
        kept.words,
        kept.advice(place)
    ))
}

/// Waits until no process supervises it, and says what for.
fn wait_until_left(place: &Place, facts: &Facts) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("detach {}: {error}", place.name);
    let begun = Instant::now();
    let (sender, receiver) = channel();
    let waited = place.clone();
    let waiting = std::thread::Builder::new().name("waiting".to_owned());
    waiting.spawn(move || sender.send(waited.wait_until_left())).map_err(failed)?;
    loop {
        match receiver.recv_timeout(TELL_EVERY) {
            Ok(left) => return left.map_err(failed),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => tell_waiting(place, facts, begun),
        }
    }
}

/// Waits until the worker, which serves alone, has ended, and says what for.
fn wait_for_end(worker: Pid, place: &Place, facts: &Facts) {
    let begun = Instant::now();
    let Ok(handle) = pidfd_open(worker, PidfdFlags::empty()) else { return };
    let every = Timespec::try_from(TELL_EVERY).ok();
    while !poll(&mut [PollFd::new(&handle, PollFlags::IN)], every.as_ref()).is_ok_and(|n| n > 0) {
        tell_waiting(place, facts, begun);
    }
}

/// Waits until no process answers commands any more: the worker of an older program is known by that alone.
fn wait_for_close(control: &Path) {
    if let Ok(mut stream) = UnixStream::connect(control) {
        // It says nothing unasked, and closes when it ends.
        let _ = stream.read(&mut [0]);
    }
}

fn tell_waiting(place: &Place, facts: &Facts, begun: Instant) {
    let waits_for = facts.control.as_deref().and_then(|control| {
        let mut client = Client::connect_for(control, TELL_EVERY).ok()?;
        let report: StatusReport = client.ask("status").ok()?;
        let staged = ByteSize(report.state.staged_bytes);
        let why = report.health.reasons.first().map(|why| format!("; {why}"));
        Some(format!("{}, {staged} left to log{}", report.state.phase, why.unwrap_or_default()))
    });
    note(&format!(
        "detaching {} for {:.0} s: waiting for its worker ({})",
        place.name,
        begun.elapsed().as_secs_f64(),
        waits_for.unwrap_or_else(|| "it does not answer now".to_owned())
    ));
}

/// Lets the program end at Ctrl-C with `message`.
pub(crate) fn say_what_goes_on_at_ctrl_c(message: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("signals cannot be handled: {error}");
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let message = message.to_owned();
    let waiting = std::thread::Builder::new().name("signals".to_owned());
    let started = waiting.spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let code = 128 + signal as u8;
            nearhead_output::fail(&message, code);
            std::process::exit(i32::from(code));
        }
    });
    started.map(drop).map_err(failed)
}

/// Takes the device away unless it is used.
pub(super) fn take_away(
    place: &Place,
    facts: &Facts,
    backend: &'static dyn Backend,
) -> Result<(), String> {
    refuse_if_used(place, facts, backend, "detach")?;
    backend.take_away(place, facts).map_err(|error| format!("detach {}: {error}", place.name))
}

/// Refuses to `doing` a volume whose device is used.
pub(super) fn refuse_if_used(
    place: &Place,
    facts: &Facts,
    backend: &dyn Backend,
    doing: &str,
) -> Result<(), String> {
    if !backend.is_there(place, facts) {
        return Ok(());
    }
    let found = || nearhead_uring::user_of(&facts.device);
    // udev, blkid and losetup open every device for a moment, and are no users.
    let passes_by = || {
        (0..LOOKS).any(|_| {
            std::thread::sleep(LOOK_AGAIN);
            found().is_none()
        })
    };
    let Some((user, advice)) = found().filter(|_| !passes_by()) else { return Ok(()) };
    Err(format!(
        "{doing} {}: expected that nothing uses {}, found {user}; {advice}",
        place.name,
        facts.device.display()
    ))
}

/// Unmounts whatever is mounted from `device`, the last first.
fn unmount(device: &Path) -> Result<(), String> {
    for point in nearhead_uring::mount_points_of(device) {
        let output = Command::new("umount").arg(&point).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("umount {}: {error}", point.display()))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        note(&format!("unmounted {}", point.display()));
    }
    Ok(())
}

fn drain(place: &Place) -> Result<(), String> {
    let args = CheckpointArgs {
        target: place.link().display().to_string(),
        control: None,
        timeout: None,
        stop: false,
        cancel: false,
        json: false,
        disk: DiskArgs::default(),
    };
    checkpoint::run(&args, true)
}
