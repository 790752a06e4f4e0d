//! Real files and block devices as [`Disk`]s.
//!
//! [`open`] gives a disk that speaks `io_uring` or, where a container or an old kernel has none, a
//! bounded pool of threads; which one shows only in speed and in [`RealDisk::notes`]. Promises:
//!
//! - a command marked durable completes only once its bytes survive a power cut, as far as the
//!   kernel and the device keep their own promises (`RWF_DSYNC` or `fdatasync`, never a guess);
//! - every command gets exactly one completion, also when the disk is dropped under it;
//! - while an exclusive disk is open, no second opener that asks for exclusiveness gets it, under
//!   whichever name: links, partitions, loop devices and the files they are attached to;
//! - nothing is changed on a disk opened read-only, and nothing outside a command's range ever.
//!
//! It never interprets what is on the disk: that is the volume's work.
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod awake;
mod beneath;
mod blocking;
mod byte_lock;
mod driver_commands;
mod durable_file;
mod error;
mod exclusive;
mod file_extents;
mod forks;
mod gate;
mod head_judgement;
mod helper;
mod identity;
mod image;
mod ioctl;
mod job;
mod lease;
mod loops;
mod mailbox;
mod medium;
mod mounts;
mod options;
mod page_cache;
mod past_cache;
mod pool;
mod pread_disk;
mod priority;
mod priority_ring;
mod probe_direct;
mod probe_head;
mod ring;
mod segments;
mod shared_memory;
mod shared_sync;
mod short_slices;
mod signals;
mod sync;
mod sysfs;
mod target;
mod uring_disk;
mod users;
mod zoned;

pub use awake::{Awake, wake_up_limit_us};
pub use driver_commands::{COMMAND_BYTES, CommandOutcome, DriverCommands, DriverWords};
pub use durable_file::{Access, DurableFile};
pub use error::{OpenError, OpenErrorKind};
pub use file_extents::{FileExtents, file_extents};
pub use forks::Opener;
pub use image::{
    create_image, is_empty_image, preallocate_image, remove_empty_image, space_missing,
};
pub use lease::{Lease, take_lease};
pub use mounts::Mount;
pub use options::{Engine, OpenOptions};
pub use priority::{
    IoPriority, priority_of, set_priority_of, set_thread_priority, thread_priority,
};
pub use priority_ring::PriorityRing;
pub use shared_memory::SharedWords;
pub use short_slices::ask_for_short_slices;
pub use signals::block_signals;
pub use sysfs::{scheduler_of, set_scheduler_of};

use nearhead_disk::{AbsentDisk, Completion, Disk, Nanos, Properties, Submission};
use pread_disk::PreadDisk;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use target::Target;
use uring_disk::UringDisk;

/// A file or block device. Dropping it waits for its outstanding commands and lets others in.
pub struct RealDisk {
    disk: Box<dyn Disk + Send>,
    engine: Engine,
    notes: Vec<String>,
}

/// Opens the regular file or block device at `path`.
///
/// # Errors
/// [`OpenErrorKind::InUse`] names who has it, where that can be found out; [`OpenErrorKind::NoUring`]
/// only if [`Engine::Uring`] was insisted on.
pub fn open(path: &Path, options: &OpenOptions) -> Result<RealDisk, OpenError> {
    let target = Arc::new(Target::open(path, options)?);
    let mut notes = target.notes.clone();
    if options.engine != Engine::Threads {
        match UringDisk::new(Arc::clone(&target)) {
            Ok(disk) => return Ok(RealDisk { disk: Box::new(disk), engine: Engine::Uring, notes }),
            Err(error) if options.engine == Engine::Uring => return Err(no_uring(&target, &error)),
            Err(error) => {
                notes.push(format!("io_uring is not available here ({error}): using threads"));
            }
        }
    }
    match PreadDisk::new(Arc::clone(&target)) {
        Ok(disk) => Ok(RealDisk { disk: Box::new(disk), engine: Engine::Threads, notes }),
        Err(error) => {
            let name = &target.properties.name;
            let detail =
                format!("cannot start threads for {name}: {error}; raise the process limits");
            Err(OpenError::new(OpenErrorKind::Io, detail))
        }
    }
}

fn no_uring(target: &Target, error: &std::io::Error) -> OpenError {
    let detail = format!(
        "cannot drive {} through io_uring: expected Linux 5.6 or later, \
         /proc/sys/kernel/io_uring_disabled at 0 and no seccomp filter against it, found {error}; \
         use threads instead",
        target.properties.name
    );
    OpenError::new(OpenErrorKind::NoUring, detail)
}

/// Refuses a regular file that somebody uses: by a `flock`, as the backing of a loop device, as swap space, or with
/// byte-range locks. For those who open and lock it by themselves afterwards; [`open`] asks on its own.
///
/// # Errors
/// [`OpenErrorKind::InUse`] names who has it. A file that cannot be opened is not refused.
pub fn refuse_used_file(path: &Path) -> Result<(), OpenError> {
    let Some(file) = identity::Identity::of_path(path) else { return Ok(()) };
    beneath::refuse_used_file(file, &path.display().to_string())?;
    exclusive::refuse_locked(path)
}

/// Who keeps the block device at `path` busy, or a partition of it, and what to do about that: a noun phrase and a clause. None if nobody
/// does, or it cannot be found out.
pub fn user_of(path: &Path) -> Option<(String, String)> {
    let identity::Identity::Device(number) = identity::Identity::of_path(path)? else {
        return None;
    };
    users::of_device(number).map(|user| (user.what, user.advice))
}

/// Where file systems of the block device at `path` are mounted, the last one first.
pub fn mount_points_of(path: &Path) -> Vec<PathBuf> {
    let Some(identity::Identity::Device(number)) = identity::Identity::of_path(path) else {
        return Vec::new();
    };
    let list = mounts::list();
    let mut points: Vec<PathBuf> = mounts::points_in(&list, number).map(PathBuf::from).collect();
    points.reverse();
    points
}

/// The mount at just this folder, by the kernel's list: the folder itself is not asked.
pub fn mount_at(folder: &Path) -> Option<Mount> {
    mounts::at(&mounts::list(), folder)
}

/// What the loop device at `path` is attached to; `None` for anything else.
pub fn attached_to(path: &Path) -> Option<PathBuf> {
    loops::attached_to(path)
}

impl RealDisk {
    /// Which way it is driven: never [`Engine::Automatic`].
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// What the user should know: fallbacks taken, facts guessed, bytes left unused.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl Disk for RealDisk {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&*self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut *self.disk)
    }

    fn properties(&self) -> &Properties {
        self.disk.properties()
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.disk.poll(now)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.disk.wake_at()
    }

    fn release(&mut self) {
        self.disk = Box::new(AbsentDisk::new(&self.disk.properties().name));
    }
}
