//! `nearhead mount`: the file system of a volume, at a folder, until it is unmounted.
//!
//! The command stays and serves, as `serve` does; it says when the folder can be used. A signal that stops unmounts first. Everything is
//! durable when it ends well.

use super::control::Listening;
use super::desk::{Desk, Facts, Mounted};
use super::opening::{Opened, fs_options, mark_of, mount_options, opened, surviving};
use super::options::Wanted;
use super::report::report;
use super::supervisor::{self, Orders, Role, ToSupervisor};
use super::{background, folder, remount};
use crate::backing::Backing;
use crate::bounded_log::BoundedLog;
use crate::journal::ToldPasses;
use crate::offline::Offline;
use crate::over_http::OverHttp;
use crate::serve::priority;
use crate::service_manager::ServiceManager;
use crate::stopping_signals::stopping_signals;
use crate::target::DiskArgs;
use crate::timed::Timed;
use nearhead_disk::Nanos;
use nearhead_fuse::{Connection, Handle, Mount, Problem};
use nearhead_journal::Mode;
use nearhead_output::{alarm, say, say_json_line, warn};
use nearhead_settings::Sharing;
use serde::Serialize;
use signal_hook::consts::SIGTERM;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Interval between two checks of the files under the volume.
const CHECK_EVERY: Nanos = Nanos::from_millis(200);

/// Arguments of `nearhead mount`.
#[derive(clap::Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct MountArgs {
    /// The volume: block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B
    pub target: String,
    /// An empty folder
    pub folder: PathBuf,
    /// Options with commas between them: those of mount(8), mode=NAME, commit=SECONDS, durable=NAMES (docs/file-system.md lists all)
    #[arg(short = 'o', value_name = "OPTIONS", value_delimiter = ',')]
    pub options: Vec<String>,
    /// Where `status`, `checkpoint`, `drain` and `hint` find this mount [default: derived from the target]
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Metrics for Prometheus over HTTP at this address
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<String>,
    /// A page for browsers at this address, for example 127.0.0.1:9421
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<String>,
    /// Return once it can be used; a process in the background serves it
    #[arg(long)]
    pub background: bool,
    /// Ignore unknown options.
    #[arg(short = 's', hide = true)]
    pub sloppy: bool,
    /// Check the options and the folder, and mount nothing.
    #[arg(short = 'f', hide = true)]
    pub fake: bool,
    /// Part of this process in a mount that outlives its processes.
    #[arg(long, hide = true)]
    pub role: Option<Role>,
    /// Log of this process, if a command started it in the background.
    #[arg(long, hide = true, value_name = "PATH")]
    pub detached: Option<PathBuf>,
    /// Say in JSON when it can be used
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    /// Who gives way.
    pub sharing: Sharing,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

/// The line that says that it can be used.
#[derive(Debug, Serialize)]
struct Ready<'a> {
    event: &'static str,
    target: &'a str,
    folder: &'a Path,
    control: Option<&'a Path>,
    mode: &'static str,
    read_only: bool,
    pid: u32,
}

/// What is looked at between requests.
struct Watch {
    facts: Facts,
    over_http: OverHttp,
    /// What was told of a failure, and of passes.
    failure: Option<String>,
    told_passes: ToldPasses,
    manager: ServiceManager,
    /// Files under the volume, and the time of their next check.
    backing: Backing,
    check_at: Nanos,
    /// Log of a process in the background.
    log: Option<BoundedLog>,
    /// Reason for which no other process can go on.
    log_problem: Problem,
}

impl Watch {
    /// Says once what went wrong, and keeps the numbers fresh.
    fn look(&mut self, mounted: &mut Mounted, now: Nanos) {
        while let Some(event) = mounted.service_mut().inner_mut().poll_disk_event() {
            warn(&event.to_string());
        }
        let failure = mounted
            .service()
            .inner()
            .engine()
            .failure()
            .map(|why| format!("the volume failed: {why}"));
        if failure.is_some() && self.failure != failure {
            alarm(failure.as_deref().unwrap_or_default());
            self.failure = failure;
        }
        if now >= self.check_at {
            self.check_at = now + CHECK_EVERY;
            let trouble = self.backing.trouble();
            let before = std::mem::replace(&mut *self.facts.trouble(), trouble.clone());
            if let Some(trouble) = trouble.filter(|_| before.is_none()) {
                alarm(&trouble);
            }
        }
        let volume = mounted.service().inner();
        self.told_passes.tell(volume.engine().passes(), now);
        self.manager.alive(now, || {
            let status = volume.status();
            format!("{}: logs {} % full", status.phase.name(), status.log_fill_pct)
        });
        self.over_http.refresh(now, || report(&self.facts, mounted, now));
        if let Some(problem) = self.log_problem.take() {
            warn(&format!("{problem}; if this process ends, the mount ends"));
        }
        if let Some(log) = &mut self.log {
            log.check();
        }
    }
}

/// Runs the command.
pub fn run(args: &MountArgs) -> Result<(), String> {
    let wanted = Wanted::of(&args.options, args.sloppy)?;
    if wanted.is_remount {
        return remount::run(args, &wanted);
    }
    if args.role.is_some() && args.detached.is_some() {
        nearhead_output::tell_times();
    }
    match args.role {
        Some(Role::Worker) => return serve(args, &wanted, Orders::receive()?),
        Some(Role::Supervisor) => return supervisor::go_on(args),
        None => {}
    }
    folder::refuse(&args.folder, wanted.allows_nonempty)?;
    if args.fake {
        return Ok(());
    }
    match &args.detached {
        Some(_) => background::detach(),
        None if args.background => return background::start(args),
        None => {}
    }
    supervisor::run(args)
}

fn serve(args: &MountArgs, wanted: &Wanted, orders: Orders) -> Result<(), String> {
    // The name of the program, which is started by a link.
    let _ = std::fs::write("/proc/self/comm", "nearhead");
    end_at_panic();
    stop_at_signals(orders.supervisor.clone())?;
    // As `serve` does, and before the disk: whoever waits for a file waits for these threads. Without it, it is served all the same.
    let _ = priority::take(None);
    let _ = nearhead_uring::ask_for_short_slices();
    let over_http = OverHttp::listen(args.metrics.as_deref(), args.http.as_deref())?;
    let Opened { offline, disk_notes, logged_bytes_max, ack, tuner } =
        opened(args, wanted, &orders)?;
    let Offline { volume, start, .. } = offline;
    let listening = Listening::of(&args.target, args.control.as_deref())?;
    let options = fs_options(wanted, &volume, logged_bytes_max);
    let mark = mark_of(&volume);
    let read_only = options.ext4.read_only;
    let Orders { log, connection, mount: known, supervisor, .. } = orders;
    let is_first = connection.is_none();
    let file_system = surviving(log, Timed::new(volume, ack), start, options);
    let (log_problem, mut mounted) =
        file_system.map_err(|why| format!("mount {}: {}", args.target, supervisor.refused(why)))?;
    mounted.trim_freed(wanted.trims_freed);
    mounted.keep_access_times(wanted.access_times);
    // Before it is mounted; later workers know its number.
    let place = if is_first { folder::canonical(&args.folder) } else { Ok(PathBuf::new()) };
    let place = place.map_err(|error| format!("mount {}: {error}", args.folder.display()))?;
    let handle = Handle::default();
    let facts = Facts {
        target: args.target.clone(),
        folder: absolute(&args.folder),
        disk_notes,
        ..Facts::default()
    };
    let (desk, errands) = Desk::new(facts.clone(), handle.clone(), tuner, supervisor.clone());
    let mount = mount_options(args, wanted, read_only);
    let mode = wanted.mode;
    let (own, to, (noted, note)) = (args.clone(), supervisor.clone(), std::sync::mpsc::channel());
    let number = Arc::new(OnceLock::new());
    if !is_first {
        let _ = number.set(known);
    }
    let of_thread = Arc::clone(&number);
    // On a thread of its own, as it waits for the supervisor.
    let ready = || {
        std::thread::spawn(move || {
            let path = listening.as_ref().map(|listening| listening.path().to_owned());
            let number = of_thread.get().copied().flatten();
            let control = listening.map(|it| it.answer(number, Arc::new(desk)));
            let _ = noted.send(control);
            to.ready(mark);
            if is_first {
                report_ready(&own, mode, read_only, path.as_deref());
            }
            ServiceManager::find().ready();
            to.guard();
        });
    };
    let mut connected = |connection: &Connection| {
        // Of the kernel's table: this process must not ask the folder.
        let found = nearhead_uring::mount_at(&place).map(|mount| mount.device);
        let _ = number.set(found);
        supervisor.mounted(connection, found, mark);
    };
    let mount = match connection {
        Some(connection) => Mount::Resumed(connection),
        None => Mount::New(&mount, &mut connected),
    };
    let manager = ServiceManager::find();
    let told_passes = ToldPasses::default();
    let log = args.detached.clone().map(background::bounded);
    let backing = Backing::of(&args.target, &args.disk)?;
    let check_at = Nanos::ZERO;
    let mut watch = Watch {
        facts,
        over_http,
        failure: None,
        told_passes,
        manager,
        backing,
        check_at,
        log,
        log_problem,
    };
    let served = nearhead_fuse::serve(
        mounted,
        start,
        &args.folder,
        mount,
        &handle,
        ready,
        |mounted, now| {
            errands.run(mounted, now);
            watch.look(mounted, now);
        },
    );
    // Held until here.
    drop(note.try_recv());
    let unkept = || watch.backing.unkept().map_or(Ok(()), |unkept| Err(unkept.to_owned()));
    served.and_then(|()| unkept()).map_err(|problem| format!("mount {}: {problem}", args.target))
}

pub(super) fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}

/// Passes signals that stop on to the supervisor, but those of a terminal: it gets them as well.
fn stop_at_signals(supervisor: ToSupervisor) -> Result<(), String> {
    stopping_signals(move |signal| {
        if signal == SIGTERM {
            supervisor.stop();
        }
    })
}

/// Makes a panic of any thread end the process at once, with its message. Requests without an answer go to the next worker: an orderly end
/// would answer them with an error.
fn end_at_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        report(info);
        std::process::abort();
    }));
}

fn report_ready(args: &MountArgs, mode: &dyn Mode, read_only: bool, control: Option<&Path>) {
    let folder = args.folder.as_path();
    if args.json {
        // The supervisor: a signal that it gets stops the mount.
        let pid =
            rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get().cast_unsigned());
        let (target, mode) = (args.target.as_str(), mode.name());
        let line = Ready { event: "ready", target, folder, control, mode, read_only, pid };
        // Who does not listen is served all the same.
        let _ = say_json_line(&line);
        return;
    }
    let how = if read_only { "read-only" } else { mode.name() };
    say(&format!("serving the file system of {} at {} ({how})", args.target, folder.display()));
}
