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
pub mod protocol;
mod resuming;
mod seeking;
mod serve;
mod session;
mod survival_log;
mod sync;
mod turns;
mod words;

use carrier::Carrier;
use front::Front;
use nearhead_disk::Nanos;
use nearhead_fs::{FsError, Mounted, Phase};
use nearhead_service::Service;
use serve::{Shared, Sleep};
use session::Session;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

pub use handle::Handle;
pub use image::IMAGE_NAME;
pub use nearhead_one_file::unmount;
pub use resuming::replay;
pub use serve::unmount_when_unused;
pub use session::{Connection, KernelFlags, MountOptions};
pub use survival_log::{MemoryLog, Problem};

/// Threads that receive requests: one of them may carry out while the other receives and copies what is written.
const RECEIVERS: usize = 2;

/// Origin of the connection to the kernel.
pub enum Mount<'a> {
    /// The folder is mounted with these options. The callback gets the connection, for a process that goes on with it.
    New(&'a MountOptions, &'a mut dyn FnMut(&Connection)),
    /// The folder was mounted by a process that has ended; the kernel sends what it did not answer again.
    Resumed(Connection),
}

/// Mounts the file system on `service` at `folder`, or goes on with one that is mounted, and serves it until it is unmounted or `handle` asks
/// for the end; then everything is durable, or the error says what is not. `ready` is called once it can be used, `turn` whenever something
/// was carried out, at least every second. Runs on the caller's thread, and a few more.
pub fn serve<S: Service + Send + 'static>(
    mut mounted: Mounted<S>,
    start: Instant,
    folder: &Path,
    mount: Mount<'_>,
    handle: &Handle,
    ready: impl FnOnce(),
    mut turn: impl FnMut(&mut Mounted<S>, Nanos),
) -> Result<(), String> {
    wait_until_open(&mut mounted, start)?;
    if matches!(mount, Mount::Resumed(_)) {
        // Answers of the ended process may promise that something is durable.
        resuming::make_durable(&mut mounted, start)?;
    }
    carry(mounted, start, folder, mount, handle, ready, &mut turn)
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
    let options =
        MountOptions { source: source.to_owned(), read_only: true, ..MountOptions::default() };
    let mount = Mount::New(&options, &mut |_| {});
    carry(image::Image::of(service), start, folder, mount, handle, ready, &mut |_, _| {})
}

fn carry<C: Carrier + Send + 'static>(
    carrier: C,
    start: Instant,
    folder: &Path,
    mount: Mount<'_>,
    handle: &Handle,
    ready: impl FnOnce(),
    turn: &mut dyn FnMut(&mut C, Nanos),
) -> Result<(), String> {
    let cannot_mount = |error: io::Error| cannot_mount(folder, &error);
    let shared = Arc::new(Shared::new(carrier, start).map_err(cannot_mount)?);
    handle.attach(&shared.bell, Arc::clone(&shared) as Arc<_>);
    let (session, is_resumed) = match mount {
        Mount::New(options, connected) => {
            let session = Session::mount(folder, options).map_err(cannot_mount)?;
            connected(&session.connection().map_err(cannot_mount)?);
            (session, false)
        }
        Mount::Resumed(connection) => (Session::of(connection), true),
    };
    let session = Arc::new(session);
    let front = Front::new(Arc::clone(&shared) as Arc<_>, &session);
    let front = Arc::new(front.map_err(cannot_mount)?);
    if is_resumed {
        // Before the first request is received: the kernel sends all again that it has no answer to, also those that this process has.
        // It fails where the folder was unmounted during that time.
        let _ = session.notify(&protocol::answer::resend());
    }
    let at_end = Arc::clone(&shared.bell);
    let receivers = std::thread::Builder::new().name("fuse".to_owned()).spawn(move || {
        let ended = session::receive_all(&session, &front, RECEIVERS);
        at_end.end();
        ended
    });
    let receivers = receivers.map_err(cannot_mount)?;
    ready();
    let broken = "a thread of the file system panicked (internal error)";
    // Threads that are left would wait for requests that no thread can carry out.
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

fn cannot_mount(folder: &Path, error: &io::Error) -> String {
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
    words::now()
}
