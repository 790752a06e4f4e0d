//! `nearhead mount`: the file system of a volume, at a folder, until it is unmounted.
//!
//! The command stays and serves, as `serve` does; it says when the folder can be used. A signal that stops unmounts first. Everything is
//! durable when it ends well.

use super::mounts::Served;
use crate::offline;
use crate::serve::priority;
use crate::target::{Access, DiskArgs, Target, refuse_if_misnamed};
use nearhead_engine::placement::OneArea;
use nearhead_ext4::Options;
use nearhead_fs::{DurableName, FsOptions, Mounted};
use nearhead_fuse::{MountOptions, Stop};
use nearhead_journal::{DEFAULT_MODE, MODES, Mode, mode_named};
use nearhead_output::{say, say_json_line};
use nearhead_service::Service;
use nearhead_volume::Volume;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::{Path, PathBuf};

/// Blocks of metadata kept in memory.
const CACHE_BLOCKS_MAX: usize = (64 << 20) / nearhead_ext4::BLOCK_BYTES;

/// What `nearhead mount` is told.
#[derive(clap::Args, Clone, Debug)]
pub struct MountArgs {
    /// The volume: block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B
    pub target: String,
    /// An empty folder
    pub folder: PathBuf,
    /// Options with commas between them: ro, rw, mode=NAME, `allow_other`, and last durable=NAMES: what is made under these names
    /// (*.wal, `pg_wal/**`) is needed after a crash only, and stays in the logs
    #[arg(short = 'o', value_name = "OPTIONS", value_delimiter = ',')]
    pub options: Vec<String>,
    /// Say in JSON when it can be used
    #[arg(long)]
    pub json: bool,
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
    mode: &'static str,
    read_only: bool,
    pid: u32,
}

/// What the options say.
struct Wanted {
    read_only: bool,
    for_everybody: bool,
    durable: Vec<DurableName>,
    mode: &'static dyn Mode,
}

/// Runs the command.
pub fn run(args: &MountArgs) -> Result<(), String> {
    let wanted = wanted(args)?;
    refuse_folder(&args.folder)?;
    let signals = Signals::new([SIGTERM, SIGINT, SIGQUIT, SIGHUP])
        .map_err(|error| format!("signals cannot be handled: {error}"))?;
    // As `serve` does, and before the disk: whoever waits for a file waits for these threads. Without it, it is served all the same.
    let _ = priority::take(None);
    let _ = nearhead_uring::ask_for_short_slices();
    let (volume, start) = opened(args, &wanted)?;
    let read_only = wanted.read_only || volume.info().read_only;
    let now = nearhead_fuse::clock();
    let seed = u64::from(now.nanoseconds) << 32 ^ now.seconds as u64;
    let options = FsOptions {
        ext4: Options { read_only, cache_blocks_max: CACHE_BLOCKS_MAX, seed },
        durable: wanted.durable.clone(),
        mode: wanted.mode,
        record_bytes_max: volume.engine().atomic_bytes_max(),
        mounted_at: now,
    };
    let mounted = Mounted::new(volume, options);
    let stop = Stop::default();
    stop_at_signals(signals, stop.clone())?;
    let mount = MountOptions {
        source: args.target.clone(),
        read_only,
        for_everybody: wanted.for_everybody,
    };
    // On a thread of its own: what the folder is, only this very process can answer.
    let (told, (noted, note)) = (args.clone(), std::sync::mpsc::channel());
    let served = nearhead_fuse::serve(mounted, start, &args.folder, &mount, &stop, || {
        std::thread::spawn(move || {
            let _ = noted.send(Served::note(&told.folder));
            tell_ready(&told, wanted.mode, read_only);
        });
    });
    // Held until here.
    drop(note.try_recv());
    served.map_err(|problem| format!("mount {}: {problem}", args.target))
}

fn wanted(args: &MountArgs) -> Result<Wanted, String> {
    let is_root = rustix::process::geteuid().is_root();
    let mut wanted = Wanted {
        read_only: false,
        for_everybody: is_root,
        durable: Vec::new(),
        mode: named(DEFAULT_MODE)?,
    };
    for option in &args.options {
        match option.split_once('=') {
            None if option == "ro" => wanted.read_only = true,
            None if option == "rw" => wanted.read_only = false,
            None if option == "allow_other" => wanted.for_everybody = true,
            Some(("mode", name)) => wanted.mode = named(name)?,
            Some(("durable", name)) => wanted.durable.push(durable(name)?),
            // Names after the first, with commas between them.
            None if !wanted.durable.is_empty() => wanted.durable.push(durable(option)?),
            _ => {
                let modes: Vec<String> = MODES
                    .iter()
                    .map(|mode| format!("{} ({})", mode.name(), mode.about()))
                    .collect();
                return Err(format!(
                    "mount -o {option}: expected ro, rw, allow_other, durable=NAMES or mode=NAME with one of: {}",
                    modes.join("; ")
                ));
            }
        }
    }
    Ok(wanted)
}

fn named(name: &str) -> Result<&'static dyn Mode, String> {
    mode_named(name).map_err(|error| format!("mount -o mode: {error}"))
}

fn durable(name: &str) -> Result<DurableName, String> {
    DurableName::parse(name).ok_or_else(|| {
        format!("mount -o durable={name}: expected names such as *.wal or pg_wal/**, with commas between them")
    })
}

fn refuse_folder(folder: &Path) -> Result<(), String> {
    let place = folder.display();
    if !folder.is_dir() {
        return Err(format!("mount: expected an empty folder, found no folder at {place}"));
    }
    match nearhead_fuse::mounted_source(folder) {
        Ok(Some(source)) => Err(format!("mount: {source} is mounted at {place} already")),
        Ok(None) => Ok(()),
        Err(error) => Err(format!("mount {place}: {error}")),
    }
}

fn opened(
    args: &MountArgs,
    wanted: &Wanted,
) -> Result<(Volume<Box<dyn nearhead_disk::Disk + Send>>, std::time::Instant), String> {
    let access = if wanted.read_only { Access::Read } else { Access::Write };
    let mut target = Target::open(&args.target, access, &args.disk)?;
    if access == Access::Write {
        refuse_if_misnamed(&mut target)?;
    }
    let is_near_head = wanted.mode.is_near_head();
    let offline = offline::serving(target, access, |superblock, config| {
        // A mode with one journal, on a volume that has many logs: the journal is around the middle.
        if !is_near_head && superblock.layout.log_count() > 1 && !superblock.layout.is_chain() {
            config.placement = Box::new(OneArea);
        }
    })?;
    Ok((offline.volume, offline.start))
}

fn stop_at_signals(mut signals: Signals, stop: Stop) -> Result<(), String> {
    let waiting = std::thread::Builder::new().name("signals".to_owned());
    let started = waiting.spawn(move || {
        // A terminal that goes away must not take the file system with it.
        for signal in signals.forever().filter(|signal| *signal != SIGHUP) {
            nearhead_output::note(&format!("signal {signal}: unmounting"));
            stop.ask();
        }
    });
    started.map(drop).map_err(|error| format!("a thread cannot be started: {error}"))
}

fn tell_ready(args: &MountArgs, mode: &dyn Mode, read_only: bool) {
    let folder = args.folder.as_path();
    if args.json {
        let (target, mode, pid) = (args.target.as_str(), mode.name(), std::process::id());
        let line = Ready { event: "ready", target, folder, mode, read_only, pid };
        // Who does not listen is served all the same.
        let _ = say_json_line(&line);
        return;
    }
    let how = if read_only { "read-only" } else { mode.name() };
    say(&format!("serving the file system of {} at {} ({how})", args.target, folder.display()));
}
