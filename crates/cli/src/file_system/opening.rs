//! From the arguments of `nearhead mount` to an open volume and the file system on it.
//!
//! Nothing here mounts. A worker that goes on for another one writes nothing to a volume that is not the same.

use super::desk::Mounted;
use super::mount::MountArgs;
use super::options::Wanted;
use super::supervisor::{CannotGoOn, Orders, ToSupervisor, VolumeMark};
use crate::offline::{self, Offline};
use crate::report::preset_name;
use crate::target::{Access, Target, refuse_if_misnamed};
use crate::timed::Timed;
use nearhead_disk::Disk;
use nearhead_engine::Ack;
use nearhead_engine::placement::OneArea;
use nearhead_ext4::Options;
use nearhead_fs::FsOptions;
use nearhead_fuse::{MemoryLog, MountOptions, Problem};
use nearhead_journal::small_run_bytes;
use nearhead_service::Service;
use nearhead_settings::{ServeArgs, Sharing, Tuner, second_of_day};
use nearhead_volume::{Volume, generations};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// Blocks of metadata kept in memory.
const CACHE_BLOCKS_MAX: usize = (64 << 20) / nearhead_ext4::BLOCK_BYTES;

/// An open volume, with facts about it.
pub(super) struct Opened {
    pub(super) offline: Offline,
    /// Notes on its disk, for the user.
    pub(super) disk_notes: Vec<String>,
    /// Longest write that it logs, and the moment at which it answers writes.
    pub(super) logged_bytes_max: u32,
    pub(super) ack: Ack,
    /// Settings that may change while it is mounted.
    pub(super) tuner: Tuner,
}

/// Identity of an open volume.
pub(super) fn mark_of(volume: &Volume<Box<dyn Disk + Send>>) -> VolumeMark {
    let (volume_id, generation) = (volume.superblock().volume_id, volume.generation());
    VolumeMark { volume_id, generation, openings: 0 }
}

/// Refuses a volume that is not the one of the mount, before anything is written to it.
fn refuse_another(
    expected: &VolumeMark,
    target: &mut Target,
    supervisor: &ToSupervisor,
) -> Result<(), String> {
    let found = generations::generation(&mut target.io());
    let (volume_id, generation) = found.map_err(|error| error.to_string())?;
    let found = VolumeMark { volume_id, generation, openings: 0 };
    let refused = expected.refuse_another(&found);
    refused.map_err(|why| format!("mount {}: {}", target.name, supervisor.refused(why)))
}

/// Options for the kernel.
pub(super) fn mount_options(args: &MountArgs, wanted: &Wanted, read_only: bool) -> MountOptions {
    MountOptions {
        source: args.target.clone(),
        read_only,
        for_everybody: wanted.for_everybody,
        flags: wanted.kernel,
        reports_sync: wanted.reports_sync,
    }
}

/// Options for the file system.
pub(super) fn fs_options(
    wanted: &Wanted,
    volume: &Volume<Box<dyn Disk + Send>>,
    logged_bytes_max: u32,
) -> FsOptions {
    let read_only = wanted.read_only || volume.info().read_only;
    let now = nearhead_fuse::clock();
    let seed = u64::from(now.nanoseconds) << 32 ^ now.seconds as u64;
    FsOptions {
        ext4: Options { read_only, cache_blocks_max: CACHE_BLOCKS_MAX, seed },
        durable: wanted.durable.clone(),
        has_durable_names: wanted.kernel.dirsync,
        mode: wanted.mode,
        small_run_bytes_max: small_run_bytes(u64::from(logged_bytes_max)),
        record_bytes_max: volume.engine().atomic_bytes_max(),
        commit_after: wanted.commit_after,
        mounted_at: now,
    }
}

/// The file system of a volume with a survival log, after what an ended worker left in the log was replayed.
pub(super) fn surviving(
    memory: OwnedFd,
    mut service: Timed<Volume<Box<dyn Disk + Send>>>,
    start: Instant,
    options: FsOptions,
) -> Result<(Problem, Mounted), CannotGoOn> {
    let (mut log, mut survived) = MemoryLog::open(memory)
        .map_err(|error| CannotGoOn { why: error.to_string(), is_for_good: true })?;
    let (now, problem) = (options.mounted_at, log.problem());
    nearhead_fuse::replay(&mut service, start, &mut survived, now, &mut log)
        .map_err(|why| CannotGoOn { why, is_for_good: false })?;
    Ok((problem, Mounted::surviving(service, options, Box::new(log), survived)))
}

/// Opens the volume of a mount. A worker that goes on opens the volume of the worker before.
pub(super) fn opened(args: &MountArgs, wanted: &Wanted, orders: &Orders) -> Result<Opened, String> {
    let access = if wanted.read_only { Access::Read } else { Access::Write };
    let mut target = Target::open(&args.target, access, &args.disk)?;
    if let Some(expected) = &orders.volume {
        refuse_another(expected, &mut target, &orders.supervisor)?;
    }
    if access == Access::Write {
        refuse_if_misnamed(&mut target)?;
    }
    let is_near_head = wanted.mode.is_near_head();
    let disk_notes = target.notes.clone();
    let (mut logged, mut base, mut shared) = ((0, Ack::Flush), None, Ok(()));
    let offline = offline::serving(target, access, |superblock, config| {
        logged = (config.logged_write_bytes_max, config.ack);
        config.second_of_day_at_zero = second_of_day();
        base = Some(config.clone());
        // A mode with one journal, on a volume that has many logs: the journal is around the middle.
        if !is_near_head && superblock.layout.log_count() > 1 && !superblock.layout.is_chain() {
            config.placement = Box::new(OneArea);
        }
        shared = args.sharing.configure(superblock, config);
    })?;
    shared?;
    let (logged_bytes_max, ack) = logged;
    let base = base.ok_or("internal: a volume was opened without a configuration")?;
    let Sharing { durable_p99, bulk_share } = args.sharing;
    let asked = ServeArgs { durable_p99, bulk_share, ..ServeArgs::default() };
    let superblock = offline.volume.superblock();
    let tuner = Tuner::new(&asked, superblock, &preset_name(superblock), base)?;
    Ok(Opened { offline, disk_notes, logged_bytes_max, ack, tuner })
}
