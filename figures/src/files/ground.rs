//! What a file system stands on in figures: a volume on modelled disks that keep what is written to them, and the image on it.

use super::Image;
use super::bench::{Bench, caller_at, run_until_served};
use crate::error::FigureError;
use crate::metered::Passed;
use crate::rig::{self, FigureDisk, System};
use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_engine::Config;
use nearhead_engine::placement::OneArea;
use nearhead_ext4::{BLOCK_BYTES, BlockBytes, Options};
use nearhead_fs::{FsOptions, Mounted};
use nearhead_journal::Mode;
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::Volume;
use std::collections::BTreeMap;

/// Longer runs of a file are bulk: between the 32 and the 256 KiB that the two presets of Manylogs log.
const SMALL_RUN_BYTES_MAX: u64 = 64 << 10;
const BLOCK: u64 = BLOCK_BYTES as u64;
/// Blocks of metadata kept in memory, as `nearhead mount` does.
const CACHE_BLOCKS_MAX: usize = (64 << 20) / BLOCK_BYTES;
/// Where directories go and the like follows from it.
pub(super) const SEED: u64 = 7;
/// Writes of the image that are under way at once.
const INSTALL_AT_ONCE: usize = 32;
/// Time between two passes home of the modes with one journal, as ext3 brings its metadata home.
const JOURNAL_PASSES_EVERY: Nanos = Nanos::from_secs(5);

/// A volume in figures.
pub(crate) type Ground = Volume<FigureDisk>;

/// A way to keep files: a journaling mode on a kind of volume.
#[derive(Clone, Debug)]
pub(crate) struct FileMethod {
    /// As it is called in tables.
    pub(crate) name: &'static str,
    /// What the file system writes where.
    pub(crate) mode: &'static dyn Mode,
    /// The volume below.
    pub(crate) system: System,
}

/// First come, first served, and records in the logs around the middle of the disk alone, from where blocks go home every five seconds: a
/// file system with one journal.
pub(crate) fn with_one_journal(config: &mut Config) {
    rig::off_hours_first_come(config);
    config.placement = Box::new(OneArea);
    config.cleaning.period = Some(JOURNAL_PASSES_EVERY);
}

/// The file system of `image` on a new volume.
pub(crate) fn mounted(
    volume: Ground,
    method: &FileMethod,
    image: Image,
) -> Result<Bench, FigureError> {
    mounted_at(volume, method, image, Nanos::ZERO)
}

/// The same on one that took some time to make.
pub(crate) fn mounted_at(
    volume: Ground,
    method: &FileMethod,
    image: Image,
    now: Nanos,
) -> Result<Bench, FigureError> {
    let mut volume = volume;
    let now = install(&mut volume, &image.into_blocks(), &what(method), now)?;
    mounted_again(volume, method, now)
}

fn what(method: &FileMethod) -> String {
    format!("the file system with mode {}", method.name)
}

/// The file system that is on a volume.
pub(crate) fn mounted_again(
    volume: Ground,
    method: &FileMethod,
    now: Nanos,
) -> Result<Bench, FigureError> {
    let what = what(method);
    let options = FsOptions {
        has_durable_names: false,
        ext4: Options { read_only: false, cache_blocks_max: CACHE_BLOCKS_MAX, seed: SEED },
        durable: Vec::new(),
        mode: method.mode,
        record_bytes_max: volume.engine().atomic_bytes_max(),
        small_run_bytes_max: SMALL_RUN_BYTES_MAX,
        commit_after: nearhead_fs::COMMIT_AFTER,
        mounted_at: caller_at(now).now,
    };
    let mut mounted = Mounted::new(volume, options);
    let now = run_until_served(&mut mounted, now, &what)?;
    Ok(Bench::of(mounted, what, now))
}

/// Writes the image to where it belongs; says what time it is then.
fn install(
    volume: &mut Ground,
    blocks: &BTreeMap<u64, BlockBytes>,
    what: &str,
    now: Nanos,
) -> Result<Nanos, FigureError> {
    let piece_max = u64::from(volume.info().request_bytes_max) / BLOCK;
    let mut waiting = writes(blocks, piece_max).into_iter().chain([Operation::Flush]).peekable();
    let (mut now, mut next, mut under_way) = (now, 0, 0);
    loop {
        while let Some(operation) = waiting.next_if(|operation| {
            let is_last = matches!(operation, Operation::Flush);
            under_way < if is_last { 1 } else { INSTALL_AT_ONCE }
        }) {
            volume.submit(Request { id: RequestId(next), operation }, now);
            (next, under_way) = (next + 1, under_way + 1);
        }
        volume.drive(now);
        let mut came = false;
        while let Some(reply) = volume.poll_reply() {
            reply.result.map_err(|error| FigureError::setup(what, &error.detail))?;
            (came, under_way) = (true, under_way - 1);
        }
        if waiting.peek().is_none() && under_way == 0 {
            return Ok(now);
        }
        if came {
            continue;
        }
        let Some(at) = volume.wake().at else {
            return Err(FigureError::setup(what, &"the volume does not take the image"));
        };
        now = at.max(Nanos(now.0 + 1));
    }
}

/// The blocks in runs of neighbours.
fn writes(blocks: &BTreeMap<u64, BlockBytes>, piece_max: u64) -> Vec<Operation> {
    let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
    for (block, bytes) in blocks {
        match runs.last_mut() {
            Some((first, run))
                if *first + run.len() as u64 / BLOCK == *block
                    && run.len() as u64 / BLOCK < piece_max =>
            {
                run.extend_from_slice(&bytes[..]);
            }
            _ => runs.push((*block, bytes.to_vec())),
        }
    }
    let write = |(first, bytes): (u64, Vec<u8>)| Operation::WriteInPlace {
        offset: first * BLOCK,
        data: Payload::Bytes(BufferMut::copy_of(&bytes).freeze()),
        fua: false,
    };
    runs.into_iter().map(write).collect()
}

/// What passed through each disk of a volume, its own first.
pub(super) fn passed(volume: &Ground) -> Vec<Passed> {
    let others = volume.lanes().data();
    std::iter::once(volume.disk()).chain(others).map(FigureDisk::passed).collect()
}
