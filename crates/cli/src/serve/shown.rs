//! A served volume as a file or a block device as well: `serve --file FOLDER`, and the process that works for `nearhead attach`.
//!
//! With a folder of its own the daemon mounts it once the volume is open, and ends when somebody unmounts it; whoever uses the file when
//! it ends otherwise gets errors. A connection that was handed over is somebody else's: another process goes on with it, so nothing is
//! unmounted here, what was not answered is left to that one, and what was answered and not flushed is kept in a file for it.

use super::served::{Opened, Served};
use crate::target::Target;
use nearhead_engine::Ack;
use nearhead_handover::{Kept, KeptFor, kept_writes, refuse_another_volume};
use nearhead_nbd::ShutdownHandle;
use nearhead_nbd::kernel::KernelFront;
use nearhead_one_file::{Connection, LastingFile, NAME};
use nearhead_output::{hex, note};
use nearhead_service::{LastingFront, Reply, Request, RequestId, Service, ServiceInfo};
use nearhead_ublk::{BlockShape, Ublk};
use nearhead_volume::generations;
use nearhead_volume::open::find_own_superblock;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// Requests taken from the kernel before the volume is driven.
pub(super) const REQUESTS_MAX: usize = 256;

/// As what the volume is shown besides the sockets.
#[derive(Debug)]
pub enum Showing {
    /// As nothing.
    Nothing,
    /// As the one file in this folder.
    Folder(PathBuf),
    /// As what outlives this process.
    HandedOver {
        /// The kernel's side of it.
        handed: Handed,
        /// Writes that are answered and not flushed are in this file.
        kept: PathBuf,
        /// Id of the volume that an earlier worker served for the same device, if there was one.
        expected: Option<String>,
        /// Settings that were changed while it was served are in this file.
        settings: PathBuf,
        /// Identity file of the supervisor: volume and devices that later workers open.
        identity: PathBuf,
        /// Where people find it.
        place: String,
    },
}

/// A kernel's side that another process made.
#[derive(Debug)]
pub enum Handed {
    /// The connection behind a mounted folder.
    File(Connection),
    /// One end of a socket whose other end the kernel's client of NBD has.
    Nbd(OwnedFd),
    /// A device of the ublk driver, opened.
    Ublk {
        /// It.
        device: OwnedFd,
        /// What whoever attached it decided.
        shape: BlockShape,
    },
}

/// A folder that is unmounted with this.
pub(super) struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        if nearhead_one_file::unmount(&self.0).is_err() {
            // In use, or unmounted already. Who uses it gets errors once this process has ended; the folder is free.
            let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

impl Showing {
    /// Whether it has clients besides those of sockets.
    pub(super) fn is_something(&self) -> bool {
        !matches!(self, Self::Nothing)
    }

    /// Whether another process supervises this one.
    pub(super) fn is_handed_over(&self) -> bool {
        matches!(self, Self::HandedOver { .. })
    }

    /// Where people find it.
    pub(super) fn place(&self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::Folder(folder) => Some(folder.join(NAME).display().to_string()),
            Self::HandedOver { place, .. } => Some(place.clone()),
        }
    }

    /// Before any thread is started: memory that this process needs must not be waited for with what only it can write out.
    pub(super) fn prepare(&self) {
        if self.is_something() {
            // It takes a privilege; without it, it is served all the same.
            let _ = rustix::process::configure_io_flusher_behavior(true);
        }
    }

    /// Refuses a volume that is not the one for which the kernel's side was made, before anything is written to it.
    pub(super) fn refuse_another(&self, target: &mut Target) -> Result<(), String> {
        let Self::HandedOver { kept, expected, .. } = self else { return Ok(()) };
        let writes = kept_writes(kept).ok().flatten();
        let of_writes = writes.as_ref().and_then(|writes| writes.of).map(|of| hex(&of.volume_id));
        let Some(wanted) = expected.clone().or(of_writes) else { return Ok(()) };
        let name = target.name.clone();
        let found = find_own_superblock(&mut target.io()).map_err(|error| error.to_string())?;
        let found = hex(&found.superblock.volume_id);
        if found == wanted {
            let now = generations::generation(&mut target.io());
            let (volume_id, generation) = now.map_err(|error| error.to_string())?;
            return refuse_another_volume(kept, &KeptFor { volume_id, generation })
                .map_err(|problem| format!("{name}: {problem}"));
        }
        let about = writes.map_or_else(String::new, |writes| {
            format!("; {} stay in {}", writes.in_words(), kept.display())
        });
        Err(format!(
            "{name}: expected volume {wanted}, which this device shows, found volume {found}; nothing was written to it: bring the other one \
             back to its place{about}"
        ))
    }

    /// Notes that the volume is about to be opened for writing, which raises its generation.
    pub(super) fn begin_opening(&self) -> Result<(), String> {
        let Self::HandedOver { kept, .. } = self else { return Ok(()) };
        nearhead_handover::begin_opening(kept)
            .map_err(|error| format!("{}: {error}", kept.display()))
    }

    /// Identity file of the supervisor, if there is one.
    pub(super) fn identity(&self) -> Option<PathBuf> {
        match self {
            Self::HandedOver { identity, .. } => Some(identity.clone()),
            _ => None,
        }
    }

    /// File with settings that were changed while the volume was served.
    pub(super) fn live_settings(&self) -> Option<PathBuf> {
        match self {
            Self::HandedOver { settings, .. } => Some(settings.clone()),
            _ => None,
        }
    }

    /// The volume, whose answers outlive this process if another one follows it. Writes of an earlier process that are kept are carried out.
    pub(super) fn kept(&self, volume: Opened, ack: Ack) -> Result<Kept<Opened>, String> {
        let Self::HandedOver { kept, .. } = self else { return Ok(Kept::nothing(volume)) };
        let failed = |error: io::Error| format!("{}: {error}", kept.display());
        let has_writes = kept_writes(kept).map_or(true, |writes| writes.is_some());
        if volume.info().read_only && has_writes {
            return Err(format!(
                "{}: expected none, found writes that were answered and not flushed: they cannot be carried out read-only; \
                 attach it without --read-only first",
                kept.display()
            ));
        }
        if volume.info().read_only || (ack == Ack::Durable && !has_writes) {
            // Whatever is answered is durable.
            return Ok(Kept::nothing(volume));
        }
        let opened = volume.volume();
        let (volume_id, generation) = (opened.superblock().volume_id, opened.generation());
        let may_raise = opened.may_raise_generation();
        Kept::in_file(volume, kept, KeptFor { volume_id, generation }, may_raise).map_err(failed)
    }

    /// Serves the file from now on; `stop` is asked for when it is unmounted.
    pub(super) fn show(
        self,
        served: &mut Served,
        stop: &ShutdownHandle,
    ) -> Result<Option<Folder>, String> {
        let (handed, folder) = match self {
            Self::Nothing => return Ok(None),
            Self::Folder(folder) => {
                (Handed::File(Connection::mount(&folder)?.connection), Some(Folder(folder)))
            }
            Self::HandedOver { handed, .. } => {
                if let Handed::File(connection) = &handed {
                    // What a process before this one had not answered. A kernel that cannot do it never hands over after a kill.
                    let _ = connection.resend();
                }
                (handed, None)
            }
        };
        let (info, losses) = (served.info(), Service::losses(served));
        let front = handed.front(&info, served.wake().fd, losses);
        let front = front.map_err(|error| format!("the kernel's side of the volume: {error}"))?;
        served.show(Shown { front, stop: stop.clone(), is_over: false, has_told: false });
        Ok(folder)
    }
}

impl Handed {
    fn front(
        self,
        info: &ServiceInfo,
        of_service: Option<BorrowedFd<'_>>,
        losses: u64,
    ) -> io::Result<Box<dyn LastingFront>> {
        Ok(match self {
            Self::File(connection) => {
                Box::new(LastingFile::new(connection, info, of_service, losses)?)
            }
            Self::Nbd(socket) => {
                Box::new(KernelFront::new(socket, info.clone(), of_service, losses)?)
            }
            Self::Ublk { device, shape } => {
                Box::new(Ublk::new(device, shape, info, of_service, losses)?)
            }
        })
    }
}

/// The kernel's side.
pub(super) struct Shown {
    front: Box<dyn LastingFront>,
    stop: ShutdownHandle,
    is_over: bool,
    has_told: bool,
}

impl Shown {
    /// Readable when the volume is to be driven.
    pub(super) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.front.wake_fd()
    }

    /// Whether a reply is for the kernel.
    pub(super) fn is_mine(&self, id: RequestId) -> bool {
        self.front.is_mine(id)
    }

    /// The next request of the kernel. Once there can be none the daemon is asked to stop, but not before it has caught up with what a
    /// process before it had answered.
    pub(super) fn receive(&mut self, losses: u64, is_catching_up: bool) -> Option<Request> {
        let received = self.front.receive(losses);
        if let Err(error) = &received {
            self.front.leave();
            note(&format!("the connection to the kernel failed: {error}; stopping"));
        }
        self.is_over |= received.is_err() || self.front.has_ended();
        if self.is_over && !is_catching_up && !std::mem::replace(&mut self.has_told, true) {
            self.stop.request();
        }
        received.unwrap_or_default()
    }

    /// Answers the kernel.
    pub(super) fn reply(&mut self, reply: Reply) {
        if let Err(error) = self.front.reply(reply) {
            note(&format!("an answer did not reach the kernel: {error}"));
        }
    }

    /// Hands over what was answered.
    pub(super) fn send(&mut self) {
        if let Err(error) = self.front.send() {
            note(&format!("answers did not reach the kernel: {error}"));
        }
    }

    /// The volume has grown.
    pub(super) fn resized(&mut self, info: &ServiceInfo) {
        self.front.resized(info);
    }

    /// Nothing more is taken from the kernel.
    pub(super) fn leave(&mut self) {
        self.front.leave();
    }
}
