//! `nearhead serve` (alias `open`): opens a volume and serves it over NBD until told to stop.
//!
//! The order matters: the disk first (nobody else may have it), then the sockets (a client that
//! comes early waits, it is not refused), then recovery, then the line that says it is ready. A
//! stop by signal is graceful within a bound; nothing that was acknowledged as durable depends on
//! it.

mod access;
mod commands;
mod coordination;
mod devices;
mod encryption;
mod growing;
mod live_settings;
mod memory;
pub(crate) mod priority;
mod progress;
mod ready;
mod replacing;
mod rest_command;
mod served;
mod shown;
mod signals;
mod target_keeper;

pub use coordination::Coordination;
pub use nearhead_settings::ServeArgs;
use nearhead_settings::Tuner;
pub use served::Served;
pub use shown::{Handed, Showing};
use signals::Hangup;
pub use signals::Signals;

use crate::backing::Backing;
use crate::control::{
    Answer, Ended, Links, check_socket_path, places, prepare_for, remove_old, why_not_there,
};
use crate::create::{self, CreateArgs};
use crate::over_http::OverHttp;
use crate::report::preset_name;
use crate::service_manager::ServiceManager;
use crate::target::{Access, Target, backing_path, refuse_if_misnamed};
use crate::units::{ByteSize, Span};
use commands::Desk;
use devices::Devices;
use nearhead_disk::{Nanos, Properties, Striping};
use nearhead_engine::{Ack, Config};
use nearhead_format::Superblock;
use nearhead_nbd::{Clock, Ending, Limits, Report, Server, ServerBuilder, ShutdownHandle};
use nearhead_output::{fail, inform, note, say_json_line, tell, warn};
use nearhead_service::Service;
use nearhead_volume::{ReopeningVolume, Volume};
use progress::{Progress, Told};
use rest_command::RestCommands;
use serde::Serialize;
use std::cell::{OnceCell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// How often progress of a stop, failures and metrics are looked at.
const TICK: Nanos = Nanos::from_millis(250);
/// How long a graceful stop may take unless told otherwise.
const SHUTDOWN_MAX_DEFAULT: Nanos = Nanos::from_secs(30);

type Builder<'a> = ServerBuilder<'a, Served>;

/// Runs the command.
pub fn run(args: &ServeArgs) -> Result<(), String> {
    let args = args.merged_with_file()?;
    let showing = args.file.clone().map_or(Showing::Nothing, Showing::Folder);
    serve(&args, showing)
}

/// Serves the volume over what `args` name, and as what `showing` says.
pub fn serve(args: &ServeArgs, showing: Showing) -> Result<(), String> {
    let name = args.target()?.to_owned();
    let access = if args.read_only { Access::Read } else { Access::Write };
    let signals = Signals::install()?;
    // Before the disk: the threads that carry out its commands have these as well.
    priority::take(args.nice)?;
    // Without them it is served all the same.
    let _ = nearhead_uring::ask_for_short_slices();
    showing.prepare();
    memory::refuse_more_than_there_is(args)?;
    let progress = Progress { is_told: showing.is_handed_over() && args.json };
    progress.tell("opening", 0);
    let mut target = with_read_cache(open_target(args, &name, access, &signals)?, args)?;
    showing.refuse_another(&mut target)?;
    for line in &target.notes {
        note(line);
    }
    let desk = Rc::new(Desk::default());
    desk.set_disk_notes(target.notes.clone());
    args.config.iter().for_each(|path| desk.set_config(path));
    if let Showing::HandedOver { place, .. } = &showing {
        desk.set_attached(place.clone());
    }
    let (builder, control, links) = listen(args, &name, &desk, &showing)?;
    let over_http = OverHttp::listen(args.metrics.as_deref(), args.http.as_deref())?;
    let start = target.start;
    let mut volume = open_volume(args, target, start, (&showing, &progress))?;
    volume.watch(Backing::of(&name, &args.disk)?);
    volume.without_space().iter().for_each(|line| note(line));
    volume.take_turns_by(coordination::start(args, volume.volume().superblock())?);
    volume
        .hear_of_rest(args.rest_command.as_ref().map(|command| RestCommands::new(command.path())));

    let limits = limits(args);
    let handle: Rc<OnceCell<ShutdownHandle>> = Rc::default();
    let server = finish(builder, args, limits, &desk, &handle, over_http, signals.hangup())?;
    encryption::warn_if_open(args, &server);
    let mut uris = encryption::uris(args, &server);
    uris.extend(showing.place());
    let folder = showing.show(&mut volume, &server.shutdown_handle())?;
    desk.set_uris(uris.clone());
    signals.stop_gracefully_through(&server.shutdown_handle())?;
    let _ = handle.set(server.shutdown_handle());
    ready::announce(args, &name, &volume, &uris, control.as_deref())?;
    ServiceManager::find().ready();
    let report =
        server.run(&mut volume, &Clock::since(start)).map_err(|error| format!("serve: {error}"))?;
    drop((links, folder));
    volume.tell_disk_events();
    finished(args, &name, &mut volume, &report)
}

fn with_read_cache(target: Target, args: &ServeArgs) -> Result<Target, String> {
    match &args.read_cache_device {
        Some(device) => target.with_read_cache(device, &args.disk),
        None => Ok(target),
    }
}

fn open_target(
    args: &ServeArgs,
    name: &str,
    access: Access,
    signals: &Signals,
) -> Result<Target, String> {
    let disk = args.disk.clone();
    let backing = backing_path(name)?;
    let missing = backing.as_deref().is_none_or(|path| !path.exists());
    if args.create_if_missing && missing {
        let create = CreateArgs {
            target: Some(name.to_owned()),
            log_device: None,
            size: args.size,
            data_size: None,
            preallocate: false,
            preset: args.preset.clone(),
            threshold: args.threshold,
            group_size: None,
            log_size: None,
            grow_to: None,
            fragments: None,
            ack: args.ack.unwrap_or_default(),
            label: String::new(),
            force: false,
            json: false,
            disk,
        };
        let (target, superblock) = signals.leave_to(|| create::create(&create))?;
        note(&format!(
            "created a volume of {} on {name}",
            ByteSize(superblock.layout.client_bytes())
        ));
        return Ok(target);
    }
    if backing.is_none() {
        return Err(format!(
            "serve {name}: this emulated disk keeps its content in memory only, so it holds no volume yet; \
             add file=PATH to the target, or --create-if-missing to make a volume that ends with the process"
        ));
    }
    let mut target = Target::open(name, access, &disk)?;
    refuse_if_misnamed(&mut target)?;
    Ok(target)
}

fn open_volume(
    args: &ServeArgs,
    target: Target,
    start: std::time::Instant,
    (showing, progress): (&Showing, &Progress),
) -> Result<Served, String> {
    let (mut bad, mut ack, mut base) = (None, Ack::Flush, None);
    let configure = configurer(args, target.lanes.properties());
    let devices = Devices::new(args, &target.name, start)?;
    let mut volume = Volume::open(target.lanes, start, |superblock, config| {
        base = Some(config.clone());
        bad = configure(superblock, config).err();
        ack = config.ack;
        if !config.read_only {
            bad = bad.take().or_else(|| showing.begin_opening().err());
        }
    })
    .map_err(|error| error.to_string())?;
    if let Some(problem) = bad {
        return Err(format!("serve {}: {problem}", target.name));
    }
    let mut told = Told::default();
    volume
        .wait_until_open_and_tell(start, |status| told.tell(progress, status))
        .map_err(|error| error.to_string())?;
    let base = base.ok_or("internal: a volume was opened without a configuration")?;
    let tuner = Tuner::new(args, volume.superblock(), &preset_name(volume.superblock()), base)?;
    let tuner = Rc::new(RefCell::new(tuner));
    let rest_after =
        args.rest_mirrors.map(|Span(after)| after).filter(|after| *after > Nanos::ZERO);
    volume.let_mirrors_rest(rest_after);
    for finding in volume.status().damage {
        warn(&format!("damage: {finding}"));
    }
    let settings = Rc::clone(&tuner);
    let volume = ReopeningVolume::new(volume, Some(start), move |superblock, config| {
        // It was good for the same volume when that was opened first.
        let _ = configure(superblock, config);
        settings.borrow().configure_again(config);
    });
    let volume = showing.kept(volume, ack)?;
    let mut served = Served::new(volume, args.read_only, ack, (tuner, devices));
    served.replace_for(showing.identity());
    if let Some(path) = showing.live_settings() {
        served.go_on_with(path, Nanos(start.elapsed().as_nanos() as u64));
    }
    Ok(served)
}

/// How volumes on this disk are configured: by what is known of the disk, and by what the user says.
fn configurer(
    args: &ServeArgs,
    disk: &Properties,
) -> impl Fn(&Superblock, &mut Config) -> Result<(), String> + 'static {
    let (args, rotational) = (args.clone(), disk.rotational);
    let drives = disk.striping.map_or(1, Striping::members) as usize;
    move |superblock, config| {
        let named = args.calibration.len();
        if named > 0 && named != drives {
            return Err(format!(
                "--calibration: expected a file for each drive, {drives} in their order, found {named}"
            ));
        }
        config.lone_writes_go_home = !rotational && !superblock.layout.logs_are_apart();
        args.configure(superblock, &preset_name(superblock), config)
    }
}

/// Opens every socket; a socket in use is found out before recovery.
fn listen<'a>(
    args: &ServeArgs,
    name: &str,
    desk: &Rc<Desk>,
    showing: &Showing,
) -> Result<(Builder<'a>, Option<PathBuf>, Links), String> {
    for (flag, path) in [("--socket", &args.socket), ("--control", &args.control)] {
        path.iter().try_for_each(|path| check_socket_path(flag, path))?;
    }
    let failed = |error: nearhead_nbd::ServerError| format!("serve {name}: {error}");
    let access = access::socket_access(args)?;
    let mut builder: Builder<'a> = Server::builder();
    if let Some(path) = &args.socket {
        prepare_for(path);
        builder = builder
            .listen_unix_for(path, access)
            .map_err(|error| failed(error) + &why_not_there(path))?;
    }
    if let Some(address) = &args.tcp {
        builder = builder.listen_tcp(address).map_err(failed)?;
    }
    if showing.is_something() {
        builder = builder.served_otherwise();
    }
    let is_activated = std::env::var_os("LISTEN_FDS").is_some();
    if args.socket.is_none() && args.tcp.is_none() && (is_activated || !showing.is_something()) {
        if !is_activated {
            return Err(format!(
                "serve {name}: expected --socket PATH, --tcp ADDRESS, --file FOLDER or a socket from the service \
                 manager (LISTEN_FDS), found none of them"
            ));
        }
        builder = builder.listen_activated().map_err(failed)?;
    }
    if let Some(path) = &args.control {
        prepare_for(path);
        let builder = builder
            .control(path, handler(desk))
            .map_err(|error| failed(error) + &why_not_there(path))?;
        let others = places(name)?.into_iter().next().unwrap_or_default();
        return Ok((builder, Some(path.clone()), Links::make(others, path)));
    }
    derived_control(builder, name, desk)
}

fn handler<'a>(
    desk: &Rc<Desk>,
) -> impl FnMut(&str, &mut nearhead_nbd::Context<'_, Served>) -> String + 'a {
    let desk = Rc::clone(desk);
    move |line, context| desk.answer(line, context)
}

/// The control socket at its derived place; a daemon without one still serves.
fn derived_control<'a>(
    builder: Builder<'a>,
    name: &str,
    desk: &Rc<Desk>,
) -> Result<(Builder<'a>, Option<PathBuf>, Links), String> {
    let mut paths = places(name)?.into_iter().flatten();
    if let Some(path) = paths.next() {
        if path.is_symlink() {
            remove_old(&path);
        }
        let builder = builder
            .control(&path, handler(desk))
            .map_err(|error| format!("serve {name}: {error}; choose another with --control"))?;
        let directory = path.parent().unwrap_or(Path::new("/"));
        let others = paths.filter(|other| other.parent() == Some(directory));
        let links = Links::make(others, &path);
        return Ok((builder, Some(path), links));
    }
    note(
        "no directory for a control socket can be written: `nearhead status` will not find this daemon; give --control PATH",
    );
    Ok((builder, None, Links::default()))
}

fn limits(args: &ServeArgs) -> Limits {
    let mut limits = Limits {
        shutdown_max: args.shutdown_max.map_or(SHUTDOWN_MAX_DEFAULT, |Span(span)| span),
        ..Limits::default()
    };
    if let Some(connections) = args.connections_max {
        limits.connections_max = connections;
    }
    limits
}

fn finish<'a>(
    mut builder: Builder<'a>,
    args: &ServeArgs,
    limits: Limits,
    desk: &Rc<Desk>,
    handle: &Rc<OnceCell<ShutdownHandle>>,
    mut over_http: OverHttp,
    hangup: Hangup,
) -> Result<Server<'a, Served>, String> {
    for export in &args.export {
        builder = builder.export(export);
    }
    if let Some((mode, keys)) = encryption::tls(args)? {
        builder = builder.tls(mode, keys);
    }
    let (desk, handle) = (Rc::clone(desk), Rc::clone(handle));
    let mut manager = ServiceManager::find();
    let shutdown_max = limits.shutdown_max;
    builder
        .last_words(move |report, served| {
            match outcome(served, report, shutdown_max) {
                Ok(how) => Answer::Ok(Ended { ended: how }),
                Err(problem) => Answer::Error(problem),
            }
            .line()
        })
        .limits(limits)
        .notices(warn)
        .visits(inform)
        .every(TICK, move |context| {
            hangup.tell();
            manager.alive(context.now, || commands::in_a_line(context));
            context.service.tell(context.now, shutdown_max);
            context.service.check_replacing();
            context.service.take_turns(context.now);
            context.service.look_who_rests(context.now);
            if desk.take_stop()
                && let Some(handle) = handle.get()
            {
                handle.request();
            }
            over_http.refresh(context.now, || desk.report(context));
        })
        .build()
        .map_err(|error| format!("serve: {error}"))
}

/// Printed after an orderly stop, for programs.
#[derive(Debug, Serialize)]
struct Stopped<'a> {
    event: &'static str,
    target: &'a str,
    how: &'a str,
}

/// Printed where an end could not be waited for, for programs.
#[derive(Debug, Serialize)]
struct Failed<'a> {
    event: &'static str,
    problem: &'a str,
}

/// How it ended: what is promised after an orderly stop, or what went wrong.
fn outcome(served: &Served, report: &Report, shutdown_max: Nanos) -> Result<String, String> {
    let unanswered = report.unanswered;
    match report.ending {
        Ending::Graceful => {
            if let Some(failure) = served.volume().engine().failure() {
                return Err(format!("after a failure: {failure}"));
            }
            if let Some(unkept) = served.unkept() {
                return Err(unkept.to_owned());
            }
            let more = if served.info().read_only { ", and nothing was changed" } else { "" };
            Ok(format!("everything is durable{more}"))
        }
        Ending::Forced => Err(format!(
            "at once, {unanswered} requests without a reply; nothing acknowledged as durable is lost"
        )),
        Ending::TimedOut => Err(format!(
            "after {:.0} s, the bound of a graceful stop, {unanswered} requests without a reply; \
             nothing acknowledged as durable is lost, the next start recovers the rest",
            shutdown_max.as_secs_f64()
        )),
    }
}

fn finished(
    args: &ServeArgs,
    name: &str,
    served: &mut Served,
    report: &Report,
) -> Result<(), String> {
    let outcome = outcome(served, report, limits(args).shutdown_max);
    if outcome.is_ok() {
        served.is_done()?;
    }
    match outcome {
        Ok(how) if args.json => {
            say_json_line(&Stopped { event: "stopped", target: name, how: &how })
        }
        Ok(how) => {
            tell(&format!("stopped {name}: {how}"));
            Ok(())
        }
        Err(problem) if report.ending == Ending::Graceful => {
            Err(format!("stopped {name}: {problem}"))
        }
        Err(problem) => {
            let problem = format!("stopped {name} {problem}");
            if args.json {
                let _ = say_json_line(&Failed { event: "failed", problem: &problem });
            }
            leave(&problem)
        }
    }
}

/// Ends without waiting for the disk, which is what could not be waited for.
fn leave(message: &str) -> ! {
    fail(message, crate::EXIT_FAILED);
    std::process::exit(i32::from(crate::EXIT_FAILED))
}
