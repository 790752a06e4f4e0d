//! `nearhead attach`, `detach`, `upgrade`: a volume as a block device of the kernel, which a crash of the daemon only delays.
//!
//! Three processes have their part. The command waits until there is a device and ends. The one that supervises ([`supervisor`]) stays: it has the
//! connection to the kernel, and hardly anything that could go wrong. The worker ([`worker`]) serves the volume, and is followed by another
//! one if it ends. `--foreground` makes the command itself supervise, for a service manager.

mod backend;
mod background;
mod desk;
mod detach;
mod identity;
mod kept;
mod loop_device;
mod mounting;
mod nbd_device;
mod place;
mod report;
mod resize;
mod resume;
mod supervisor;
mod ublk_device;
mod udev;
mod upgrade;
mod worker;
mod worker_process;

pub(crate) use detach::say_what_goes_on_at_ctrl_c;
pub use detach::{DetachArgs, run as detach};
pub use identity::{devices_at, lasting_name, lasting_path};
pub use kept::refuse_if_attached;
pub use place::link_of;
pub use report::{Unserved, report_of, status, unserved, with_user, without_worker};
pub use resize::{AttachedVolume, all_attached, attached};
pub use upgrade::{UpgradeArgs, run as upgrade};

use backend::{By, HandedOver};
use clap::ValueEnum;
use nearhead_settings::ServeArgs;
use place::Place;
use resume::Resumed;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Part of attaching that a process has.
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

/// Arguments of `nearhead attach`.
#[derive(clap::Args, Clone, Debug)]
pub struct AttachArgs {
    #[command(flatten)]
    /// The volume and how to serve it, as `nearhead serve` takes it.
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
    /// Kind of a worker's standard input.
    #[arg(long, hide = true, value_enum, default_value = "file")]
    pub handed_over: HandedOver,
    /// The identity that a worker is to open.
    #[arg(long, hide = true)]
    pub exactly: Option<PathBuf>,
}

/// Runs the command.
pub fn attach(args: &AttachArgs) -> Result<(), String> {
    if args.role == Some(Role::Worker) {
        nearhead_output::tell_times();
        return worker::run(args);
    }
    let Plan { place, first, resumed } = Plan::of(args)?;
    match args.role {
        Some(_) => {
            nearhead_output::tell_times();
            // The process that started it, and its terminal, may go.
            let _ = rustix::process::setsid();
            supervisor::run(args, &place, first, resumed)
        }
        None if args.foreground => supervisor::run(args, &place, first, resumed),
        None => background::attach(args, &place),
    }
}

/// A volume to attach.
struct Plan {
    place: Place,
    /// Settings of the first worker, and the text of its volume file.
    first: Option<(ServeArgs, Option<String>)>,
    /// An attached volume whose supervisor ended.
    resumed: Option<Resumed>,
}

impl Plan {
    fn of(args: &AttachArgs) -> Result<Self, String> {
        if let Some(place) = named_by_itself(args) {
            let resumed = Resumed::at(&place);
            if resumed.is_none() {
                // Says what has the name, if something has.
                drop(place.lock()?);
                return Err(format!(
                    "attach {}: expected a volume or the name of an attached one, found neither",
                    place.name
                ));
            }
            return Ok(Self { place, first: None, resumed });
        }
        let config = args.serve.config.as_ref().and_then(|path| std::fs::read_to_string(path).ok());
        let settings = args.serve.merged_with_file()?;
        if settings.file.is_some() {
            return Err("attach: expected no --file, found one: attaching shows the volume itself"
                .to_owned());
        }
        let place = Place::of(&settings, args.name.as_deref())?;
        let resumed = Resumed::at(&place).filter(|resumed| resumed.is_there(&place));
        let first = resumed.is_none().then_some((settings, config));
        Ok(Self { place, first, resumed })
    }
}

/// The place that the target names, if it is no volume but the name of something that was attached.
fn named_by_itself(args: &AttachArgs) -> Option<Place> {
    let target = args.serve.target.as_deref().filter(|_| args.serve.config.is_none())?;
    if args.name.is_some() || Path::new(target).exists() {
        return None;
    }
    let name = target.strip_prefix("/dev/nearhead/").unwrap_or(target);
    Place::named(name).ok().filter(Place::is_there)
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
