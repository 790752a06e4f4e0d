//! A service as one file, through FUSE: `losetup --direct-io=on` makes a disk of it that the kernel
//! takes for a real one.
//!
//! The way through NBD ends at the same place, with one process and two copies of each byte more
//! (nbdfuse); on a machine with few processors that way is slower than the disks it carries. What
//! this crate keeps true:
//!
//! - every request reaches the service as the kernel made it, no cache between; what is no whole
//!   block is refused by the service (EINVAL);
//! - a flush reaches the service, unless nothing it answered can be lost: then the kernel is told
//!   once that there is nothing to flush, and asks no more;
//! - a reply is never early. It is late by what the kernel takes to wake a thread up.
//!
//! That is [`Mounted`], for emulated disks, with threads of its own that wait for the clock. [`LastingFile`] is the same file for whoever
//! drives a service anyway, and its connection to the kernel can be handed from one process to the next.
//!
//! Never use a file from the process that serves it: a thread that waits for its own process in the
//! kernel cannot be ended by anybody, and the process with it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod alarm;
mod allocation;
mod file;
mod front;
mod lasting;
#[cfg(test)]
mod tests;

pub use file::NAME;
use file::OneFile;
use front::Front;
use fuser::{Config, MountOption, Session, SessionACL};
pub use lasting::{Connection, Joined, LastingFile};
use nearhead_disk::Nanos;
use nearhead_service::Service;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

/// How a service is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether a write that was answered may still be lost until a flush.
    pub volatile_cache: bool,
    /// How long before a reply is due to look at the clock instead of sleeping, which ends late, by
    /// 37 us at the median on a virtual machine. 0 only ever sleeps.
    pub timer_look: Nanos,
}

/// A file that is there until somebody unmounts it.
pub struct Mounted {
    session: JoinHandle<io::Result<()>>,
    timekeeper: JoinHandle<()>,
    close: Box<dyn Fn() -> bool>,
    folder: PathBuf,
}

impl Mounted {
    /// Mounts `service`, whose clock counts from `start`, on the folder `folder`.
    ///
    /// The error says what cannot be done: mount there, or wait for a service that does not say
    /// when it has to be driven (one on a real disk).
    pub fn new<S: Service + Send + 'static>(
        service: S,
        start: Instant,
        folder: &Path,
        options: Options,
    ) -> Result<Self, String> {
        let failed = |error: io::Error| {
            let place = folder.display();
            format!(
                "cannot mount a file system at {place}: {error}; expected an empty folder and /dev/fuse"
            )
        };
        if service.wake().fd.is_some() {
            return Err("a service on a real disk cannot be served as a file (use NBD)".to_owned());
        }
        let info = service.info();
        let front = Front::new(service, start, options.timer_look);
        let front = Arc::new(front.map_err(|errno| failed(errno.into()))?);
        let mut config = Config::default();
        let name = MountOption::FSName("nearhead".to_owned());
        config.mount_options = vec![name, MountOption::Subtype("disk".to_owned())];
        config.acl = SessionACL::Owner;
        let file = OneFile { front: Arc::clone(&front), info, flushes: options.volatile_cache };
        let session = Session::new(file, folder, &config).map_err(failed)?;
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let keeper = Arc::clone(&front);
        let timekeeper = thread("disk").spawn(move || keeper.keep_time()).map_err(failed)?;
        let session = thread("requests").spawn(move || session.run()).map_err(failed)?;
        let close = Box::new(move || front.close());
        Ok(Self { session, timekeeper, close, folder: folder.to_owned() })
    }

    /// Where the file is.
    pub fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// Waits until it is unmounted, then until what was written is durable.
    pub fn wait(self) -> Result<(), String> {
        let served = self.session.join();
        let is_durable = (self.close)();
        let kept = self.timekeeper.join();
        let panicked = || "a thread of the disk panicked (internal error)".to_owned();
        let served = served.map_err(|_| panicked())?;
        kept.map_err(|_| panicked())?;
        let place = self.folder.display();
        served.map_err(|error| format!("{place}: {error}"))?;
        if is_durable {
            return Ok(());
        }
        Err(format!(
            "{place}: expected the disk to end with everything durable, found that it gave up; take what was written last for lost"
        ))
    }
}

/// Unmounts the file system at `folder`, if nobody uses it.
pub fn unmount(folder: &Path) -> io::Result<()> {
    match rustix::mount::unmount(folder, UnmountFlags::empty()) {
        // Not root: the kernel leaves it to a program that may.
        Err(Errno::PERM) => {
            let told = Command::new("fusermount3").arg("-u").arg(folder).output()?;
            let words = String::from_utf8_lossy(&told.stderr).trim().to_owned();
            if told.status.success() { Ok(()) } else { Err(io::Error::other(words)) }
        }
        other => Ok(other?),
    }
}
