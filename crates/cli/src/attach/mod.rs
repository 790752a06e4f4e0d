//! `nearhead attach`, `detach`, `upgrade`: a volume as a block device of the kernel, which a crash of the daemon only delays.
//!
//! Three processes have their part. The command waits until there is a device and ends. The one that supervises ([`supervisor`]) stays: it has the
//! connection to the kernel, and hardly anything that could go wrong. The worker ([`worker`]) serves the volume, and is followed by another
//! one if it ends. `--foreground` makes the command itself supervise, for a service manager.

mod backend;
mod desk;
mod detach;
mod log;
mod loop_device;
mod mounting;
mod nbd_device;
mod place;
mod resize;
mod supervisor;
mod ublk_device;
mod udev;
mod upgrade;
mod worker;
mod worker_process;

pub use detach::{DetachArgs, run as detach};
pub use place::link_of;
pub use resize::{AttachedVolume, all_attached, attached};
pub use upgrade::{UpgradeArgs, run as upgrade};

use backend::{By, HandedOver};
use clap::ValueEnum;
use nearhead_output::{note, say};
use nearhead_settings::ServeArgs;
use place::Place;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Which part of it a process has.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Supervisor,
    Worker,
}

/// How large the device's smallest block is.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSize {
    #[value(name = "512")]
    B512,
    #[value(name = "4096")]
    B4096,
}

impl BlockSize {
    fn bytes(self) -> u32 {
        match self {
            Self::B512 => 512,
            Self::B4096 => 4096,
        }
    }
}

/// What `nearhead attach` is told.
#[derive(clap::Args, Clone, Debug)]
pub struct AttachArgs {
    #[command(flatten)]
    /// What to serve and how, as `nearhead serve` takes it.
    pub serve: ServeArgs,
    /// Call the device /dev/nearhead/NAME [default: after the device or file]
    #[arg(long = "as", value_name = "NAME")]
    pub name: Option<String>,
    /// Mount at FOLDER what is on it
    #[arg(long, value_name = "FOLDER")]
    pub mount: Option<PathBuf>,
    /// Make the device this way [default: the best that the kernel has]
    #[arg(long, value_enum, value_name = "WAY")]
    pub by: Option<By>,
    /// Smallest block of the device, in bytes
    #[arg(long, value_enum, value_name = "BYTES", default_value = "4096")]
    pub block_size: BlockSize,
    /// Stay and supervise, for a service manager
    #[arg(long, conflicts_with = "mount")]
    pub foreground: bool,
    /// Which part this process has.
    #[arg(long, hide = true)]
    pub role: Option<Role>,
    /// What a worker is given.
    #[arg(long, hide = true, value_enum, default_value = "file")]
    pub handed_over: HandedOver,
}

/// Runs the command.
pub fn attach(args: &AttachArgs) -> Result<(), String> {
    let settings = args.serve.merged_with_file()?;
    if settings.file.is_some() {
        return Err("attach: expected no --file, found one: attaching shows the volume by itself"
            .to_owned());
    }
    match args.role {
        Some(Role::Worker) => worker::run(args, settings),
        Some(Role::Supervisor) => {
            // Whoever started it, and his terminal, may go.
            let _ = rustix::process::setsid();
            supervisor::run(args, &settings)
        }
        None if args.foreground => supervisor::run(args, &settings),
        None => in_background(args, &settings),
    }
}

/// This command's arguments, for a process with another part in it.
fn arguments_for(role: &str) -> Vec<OsString> {
    let own = std::env::args_os().skip(2);
    let mut own: Vec<OsString> = own.collect();
    if own.first().is_some_and(|first| first == "--role") {
        own.drain(..2);
    }
    ["attach", "--role", role].into_iter().map(OsString::from).chain(own).collect()
}

/// Starts who supervises, and waits until there is a device.
fn in_background(args: &AttachArgs, settings: &ServeArgs) -> Result<(), String> {
    let place = Place::of(settings, args.name.as_deref())?;
    // Found out here, while there is somebody to tell.
    backend::chosen(args.by)?;
    if let Some(folder) = &args.mount {
        mounting::refuse_folder(folder)?;
    }
    let _ = place.take_word();
    place.prepare()?;
    drop(place.lock()?);
    if nearhead_uring::is_mount_point(&place.shown()) {
        return Err(format!(
            "attach: expected that nothing is left of an earlier {0}, found its file still mounted; `nearhead detach {0} --force`",
            place.name
        ));
    }
    let failed = |error: std::io::Error| format!("attach: {}: {error}", place.log().display());
    let mut log = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .open(place.log())
        .map_err(failed)?;
    let before = log.seek(SeekFrom::End(0)).map_err(failed)?;
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(arguments_for("supervisor")).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.stderr(log.try_clone().map_err(failed)?).spawn().map_err(failed)?;
    let mut line = String::new();
    let is_there = child.stdout.take().is_some_and(
        |stdout| matches!(BufReader::new(stdout).read_line(&mut line), Ok(len) if len > 0),
    );
    let mut told = String::new();
    // It may have been cut meanwhile: all of it was said since.
    let was_cut = log.metadata().is_ok_and(|found| found.len() < before);
    let from = SeekFrom::Start(if was_cut { 0 } else { before });
    let _ = log.seek(from).and_then(|_| log.read_to_string(&mut told));
    // What it noted there has the program's name in front already.
    let lines: Vec<&str> =
        told.lines().map(|line| line.strip_prefix("nearhead: ").unwrap_or(line)).collect();
    if !is_there {
        let _ = child.wait();
        // It is told here.
        let _ = place.take_word();
        return Err(lines.join("\n"));
    }
    lines.into_iter().for_each(note);
    if args.serve.json {
        say(line.trim_end());
    } else {
        say(&place.link().display().to_string());
    }
    match &args.mount {
        Some(folder) => mounting::mount(&place, folder),
        None => Ok(()),
    }
}
