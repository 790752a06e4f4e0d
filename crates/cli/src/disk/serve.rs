//! `nearhead disk serve`: a bare emulated disk over NBD, or as one file ([`super::serve_file`]), so
//! that anything else can be measured on the very disk that a volume runs on.
//!
//! Errors of the medium (the file that holds its bytes) are said in the log and counted; a disk of which a flush failed
//! ends with exit code 1. The control socket answers each line with one line of JSON: `stats`, `reset-stats`, `errors`,
//! `clients`, `power-cut [SEED]` (the write cache is lost, writes under way are torn as the seed decides, and
//! everything outstanding fails), `power-off [SEED]` (the same, and everything that comes later fails
//! too until `power-on`), `quit`.

use super::told::Told;
use crate::control::{Answer, check_socket_path, prepare_for, why_not_there};
use crate::health::DiskErrors;
use crate::serve::Signals;
use crate::units::ByteSize;
use crate::uri;
use nearhead_arrays::{ArraySpec, model_from_text};
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_models::ModelSpec;
use nearhead_nbd::{Clock, Context, Ending, Limits, Server, ServerBuilder, ShutdownHandle};
use nearhead_output::{note, say, say_json_line};
use nearhead_service::Service;
use nearhead_volume::BareDisk;
use serde::Serialize;
use std::cell::OnceCell;
use std::path::PathBuf;
use std::rc::Rc;

/// What `nearhead disk serve` is told.
#[derive(clap::Args, Debug)]
pub struct DiskServeArgs {
    /// model:PROFILE[,file=PATH][,cache=on|off][,ncq=fifo|clook|sptf][,depth=N], or raid0: or mirror:
    /// and several of them
    pub disk: String,
    /// Listen on a Unix socket at PATH
    #[arg(long, short, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Listen on a TCP address such as 127.0.0.1:10809; 10809 is the port if none is given
    #[arg(long, value_name = "ADDRESS")]
    pub tcp: Option<String>,
    /// Control socket at PATH
    #[arg(long, value_name = "PATH")]
    pub control: Option<PathBuf>,
    /// Not over NBD but as the file FOLDER/disk, of which `losetup --direct-io=on` makes a block device; until
    /// somebody unmounts FOLDER
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["socket", "tcp", "control"])]
    pub file: Option<PathBuf>,
    /// Refuse every change
    #[arg(long)]
    pub read_only: bool,
    /// Sleep until a reply is due: replies come some 50 us late, and no processor is kept busy to look at the clock
    #[arg(long)]
    pub sleep: bool,
    /// Say that it is ready as one line of JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct Ready<'a> {
    event: &'static str,
    disk: &'a str,
    size_bytes: u64,
    uris: &'a [String],
    pid: u32,
}

#[derive(Debug, Serialize)]
struct PowerCut {
    /// Repeats what was torn, given the same commands at the same times.
    seed: u64,
    power_cuts: u64,
}

/// Who uses the disk. After a client was killed, what it sent may still be carried out: it is over
/// once both are 0.
#[derive(Debug, Serialize)]
struct Clients {
    connections_open: u64,
    requests_outstanding: usize,
}

/// How often what is left to tell is looked for.
const TICK: Nanos = Nanos::from_secs(10);

const COMMANDS: &str =
    "stats, reset-stats, errors, clients, power-cut [SEED], power-off [SEED], power-on, quit";

/// Runs the command.
pub fn run(args: &DiskServeArgs) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("disk serve {}: {error}", args.disk);
    if !ModelSpec::is_model(&args.disk) && !ArraySpec::is_array(&args.disk) {
        return Err(failed(&format!(
            "expected model:PROFILE, found {:?}; `nearhead disk list` names the profiles",
            args.disk
        )));
    }
    let mut bare = BareDisk::new(model_from_text(&args.disk).map_err(|error| failed(&error))?);
    if args.read_only {
        bare = bare.read_only();
    }
    let mut disk = Told::new(bare);
    if let Some(folder) = &args.file {
        return super::serve_file::run(args, disk, folder).map_err(|error| failed(&error));
    }
    for (flag, path) in [("--socket", &args.socket), ("--control", &args.control)] {
        path.iter().try_for_each(|path| check_socket_path(flag, path))?;
    }
    let signals = Signals::install()?;
    let _ = nearhead_uring::ask_for_short_slices();
    let handle: Rc<OnceCell<ShutdownHandle>> = Rc::default();
    let sockets = || [&args.socket, &args.control].into_iter().flatten();
    sockets().for_each(|path| prepare_for(path));
    let server = listen(args, &handle).map_err(|error| {
        let why: String = sockets().map(|path| why_not_there(path)).collect();
        failed(&error) + &why
    })?;
    signals.stop_gracefully_through(&server.shutdown_handle())?;
    let _ = handle.set(server.shutdown_handle());
    announce(args, disk.info().size_bytes, &uris(args, &server))?;
    let report = server.run(&mut disk, &Clock::start()).map_err(|error| failed(&error))?;
    match report.ending {
        Ending::Graceful => {
            say(&disk.failure().ending(&args.disk).map_err(|why| failed(&why))?);
            Ok(())
        }
        Ending::Forced | Ending::TimedOut => Err(failed(&format!(
            "stopped at once, {} requests without a reply, the write cache is lost",
            report.unanswered
        ))),
    }
}

fn listen<'a>(
    args: &DiskServeArgs,
    handle: &Rc<OnceCell<ShutdownHandle>>,
) -> Result<Server<'a, Told>, nearhead_nbd::ServerError> {
    let mut limits = Limits::default();
    if args.sleep {
        limits.timer_look = Nanos::ZERO;
    }
    // The disk as it is: nothing puts requests together that its sectors cannot take.
    let mut builder: ServerBuilder<'a, Told> =
        Server::builder().limits(limits).notices(note).whole_blocks();
    // What was too much to tell one by one is told once it is over.
    builder = builder.every(TICK, |context| context.service.tell(context.now));
    if let Some(path) = &args.socket {
        builder = builder.listen_unix(path)?;
    }
    if let Some(address) = &args.tcp {
        builder = builder.listen_tcp(address)?;
    }
    if args.socket.is_none() && args.tcp.is_none() && std::env::var_os("LISTEN_FDS").is_some() {
        builder = builder.listen_activated()?;
    }
    if let Some(path) = &args.control {
        let handle = Rc::clone(handle);
        builder = builder.control(path, move |line, context| answer(line, context, &handle))?;
    }
    builder.build()
}

fn uris(args: &DiskServeArgs, server: &Server<'_, Told>) -> Vec<String> {
    let mut uris = Vec::new();
    uris.extend(args.socket.iter().map(|path| uri::of_socket("nbd", "", path)));
    uris.extend(server.addresses().iter().map(|address| format!("nbd://{address}/")));
    uris
}

/// Says that it is ready, and where.
pub(super) fn announce(
    args: &DiskServeArgs,
    size_bytes: u64,
    uris: &[String],
) -> Result<(), String> {
    if args.json {
        let (disk, pid) = (&args.disk, std::process::id());
        return say_json_line(&Ready { event: "serving", disk, size_bytes, uris, pid });
    }
    say(&format!("serving {} ({}) on {}", args.disk, ByteSize(size_bytes), uris.join(" and ")));
    Ok(())
}

fn answer(
    line: &str,
    context: &mut Context<'_, Told>,
    handle: &Rc<OnceCell<ShutdownHandle>>,
) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["stats"] => Answer::Ok(context.service.bare().disk().report()).line(),
        ["reset-stats"] => {
            context.service.bare_mut().disk_mut().reset_report();
            Answer::Ok("done").line()
        }
        ["errors"] => {
            let watch = context.service.bare().watch();
            Answer::Ok(DiskErrors::counted(&watch.counts(), watch.last(), context.now)).line()
        }
        ["clients"] => Answer::Ok(Clients {
            connections_open: context.statistics.connections_open,
            requests_outstanding: context.service.bare().outstanding(),
        })
        .line(),
        ["power-cut"] => power_cut(context, None, true),
        ["power-cut", seed] => power_cut(context, Some(seed), true),
        ["power-off"] => power_cut(context, None, false),
        ["power-off", seed] => power_cut(context, Some(seed), false),
        ["power-on"] => {
            context.service.bare_mut().set_power(true);
            Answer::Ok("done").line()
        }
        ["quit"] => {
            if let Some(handle) = handle.get() {
                handle.request();
            }
            Answer::Ok("stopping").line()
        }
        _ => Answer::<()>::Error(format!("control: expected one of {COMMANDS}, found {line:?}"))
            .line(),
    }
}

/// Cuts the power, which comes back at once or not until it is switched on.
fn power_cut(context: &mut Context<'_, Told>, seed: Option<&str>, back: bool) -> String {
    let seed = match seed.map(str::parse) {
        None => random_seed(),
        Some(Ok(seed)) => seed,
        Some(Err(_)) => {
            let problem = "power-cut: expected a seed that is a number, found something else";
            return Answer::<()>::Error(problem.to_owned()).line();
        }
    };
    let bare = context.service.bare_mut();
    let cut = bare.disk_mut().power_cut(context.now, &mut SplitMix::new(seed));
    bare.power_was_cut();
    bare.set_power(back);
    match cut {
        Ok(()) => {
            Answer::Ok(PowerCut { seed, power_cuts: bare.disk().report().power_cuts() }).line()
        }
        Err(error) => Answer::<()>::Error(format!("power-cut: {error}")).line(),
    }
}

fn random_seed() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness every cut is the same one, and says so by its seed.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u64::from_le_bytes(bytes)
}
