//! A file system for the kernel, through FUSE.
//!
//! The kernel's requests are received by a few threads. Whoever received one carries it out, with the file system and the service under it,
//! unless another thread is at it, which does it then. What this crate keeps true:
//!
//! - one thread at a time has the file system, and requests are received meanwhile;
//! - every request of the kernel gets exactly one reply, also when the file system fails or ends;
//! - the kernel keeps no written data back (no write-back cache): a write of 100 bytes arrives as 100 bytes, when it is made;
//! - a folder is mounted only once the file system is open, and what was written is durable before the end.
//!
//! Never use a file of the mounted folder from the process that serves it: it would wait for itself.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answers;
mod bell;
mod carrier;
mod front;
mod handle;
mod image;
mod ioctls;
mod serve;
mod sync;
mod turns;
mod words;

use carrier::Carrier;
use front::Front;
use fuser::{Config, MountOption, Session, SessionACL};
use nearhead_disk::Nanos;
use nearhead_fs::{FsError, Mounted, Phase};
use nearhead_service::Service;
use serve::{Shared, Sleep};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub use handle::Handle;
pub use image::IMAGE_NAME;
pub use nearhead_one_file::unmount;
pub use words::unescaped;

/// Threads that receive requests: one of them may carry out while the other receives and copies what is written.
const RECEIVERS: usize = 2;

/// Options of a mount that the kernel enforces.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Source that `mount` shows.
    pub source: String,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Other users may use it.
    pub for_everybody: bool,
    /// Further flags of the mount.
    pub flags: KernelFlags,
}

/// Flags that the kernel enforces, named as the options of mount(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelFlags {
    /// Set-user-id bits and file capabilities have effect; only root may allow it.
    pub suid: bool,
    /// Device nodes have effect; only root may allow it.
    pub dev: bool,
    /// Programs may be executed.
    pub exec: bool,
    /// The kernel follows each write by a sync of the file.
    pub sync: bool,
    /// Changes of names are durable before they are answered. The file system carries this out; the kernel only shows it.
    pub dirsync: bool,
}

impl Default for KernelFlags {
    /// The kernel's defaults: another user's mount can never grant privileges.
    fn default() -> Self {
        let is_root = rustix::process::geteuid().is_root();
        Self { suid: is_root, dev: is_root, exec: true, sync: false, dirsync: false }
    }
}

impl KernelFlags {
    fn options(self) -> Vec<MountOption> {
        let flags = [
            (self.suid, MountOption::Suid, MountOption::NoSuid),
            (self.dev, MountOption::Dev, MountOption::NoDev),
            (self.exec, MountOption::Exec, MountOption::NoExec),
            (self.sync, MountOption::Sync, MountOption::Async),
        ];
        let mut options: Vec<_> =
            flags.into_iter().map(|(is_set, yes, no)| if is_set { yes } else { no }).collect();
        if self.dirsync {
            options.push(MountOption::DirSync);
        }
        options
    }
}

/// Mounts the file system on `service` at `folder` and serves it until it is unmounted or `handle` asks for the end; then everything is
/// durable, or the error says what is not. `ready` is called once it can be used, `turn` whenever something was carried out, at least
/// every second. Runs on the caller's thread, and a few more.
pub fn serve<S: Service + Send + 'static>(
    mut mounted: Mounted<S>,
    start: Instant,
    folder: &Path,
    options: &MountOptions,
    handle: &Handle,
    ready: impl FnOnce(),
    mut turn: impl FnMut(&mut Mounted<S>, Nanos),
) -> Result<(), String> {
    wait_until_open(&mut mounted, start)?;
    carry(mounted, start, folder, options, handle, ready, &mut turn)
}

/// Shows a service as one file, [`IMAGE_NAME`], that can only be read, at `folder`, until it is unmounted or `handle` asks for the end.
pub fn serve_image<S: Service + Send + 'static>(
    service: S,
    start: Instant,
    folder: &Path,
    source: &str,
    handle: &Handle,
    ready: impl FnOnce(),
) -> Result<(), String> {
    let options = MountOptions {
        source: source.to_owned(),
        read_only: true,
        for_everybody: false,
        flags: KernelFlags::default(),
    };
    carry(image::Image::of(service), start, folder, &options, handle, ready, &mut |_, _| {})
}

fn carry<C: Carrier + Send + 'static>(
    carrier: C,
    start: Instant,
    folder: &Path,
    options: &MountOptions,
    handle: &Handle,
    ready: impl FnOnce(),
    turn: &mut dyn FnMut(&mut C, Nanos),
) -> Result<(), String> {
    let shared = Arc::new(Shared::new(carrier, start).map_err(|error| told(folder, &error))?);
    handle.attach(&shared.bell, Arc::clone(&shared) as Arc<_>);
    let front = Front::new(Arc::clone(&shared) as Arc<_>);
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(options.source.clone()),
        MountOption::Subtype("nearhead".to_owned()),
        MountOption::DefaultPermissions,
    ];
    if options.read_only {
        config.mount_options.push(MountOption::RO);
    }
    config.mount_options.extend(options.flags.options());
    config.acl = if options.for_everybody { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(RECEIVERS);
    let session = Session::new(front, folder, &config).map_err(|error| told(folder, &error))?;
    let at_end = Arc::clone(&shared.bell);
    let receivers = std::thread::Builder::new().name("fuse".to_owned()).spawn(move || {
        let ended = session.run();
        at_end.end();
        ended
    });
    let receivers = receivers.map_err(|error| told(folder, &error))?;
    ready();
    let broken = "a thread of the file system panicked (internal error)";
    // Those that are left would wait for requests that nobody can carry out.
    let result = serve::run(&shared, folder, turn);
    handle.detach();
    let result = result.map_err(|_| broken)?;
    let received = receivers.join();
    result?;
    match received {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("{}: {error}", folder.display())),
        Err(_) => Err(broken.to_owned()),
    }
}

fn told(folder: &Path, error: &io::Error) -> String {
    let place = folder.display();
    format!(
        "cannot mount a file system at {place}: {error}; expected an empty folder and /dev/fuse"
    )
}

fn wait_until_open<S: Service>(mounted: &mut Mounted<S>, start: Instant) -> Result<(), String> {
    loop {
        mounted.drive(serve::since(start));
        match mounted.phase() {
            Phase::Opening | Phase::Mounting => {
                let wake = mounted.wake();
                Sleep::until(&wake).sleep(start, None, wake.fd);
            }
            Phase::Failed(FsError { detail, .. }) => return Err(detail.clone()),
            Phase::Serving | Phase::Closing | Phase::Closed => return Ok(()),
        }
    }
}

/// The wall clock, as it is written into inodes.
pub fn clock() -> nearhead_ext4::Timestamp {
    words::timestamp(SystemTime::now(), UNIX_EPOCH)
}
