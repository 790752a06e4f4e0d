//! What is left of one of our own volumes on a device whose superblocks are gone, so that `create` never takes it for
//! empty.
//!
//! A bounded look, in order of offset so that a head moves one way: where snapshot slots begin and end, where the logs
//! of the layouts begin that this device would get by default, and samples all over it. Fewer than 250 places and
//! 70 MiB on any device: a second or two on a disk that seeks, nothing to speak of on others. It must never write, and
//! a place that cannot be read is an error: nobody can say that nothing is there.

use super::Finding;
use crate::dump::read_long;
use crate::sync_io::SyncIo;
use nearhead_disk::{At, DiskError, Lane, Zones};
use nearhead_format::data_device::DATA_DEVICE_MAGIC;
use nearhead_format::map_device::MAP_DEVICE_MAGIC;
use nearhead_format::record::{RECORD_MAGIC, peek};
use nearhead_format::snapshot::SNAPSHOT_MAGIC;
use nearhead_format::superblock::SUPERBLOCK_MAGIC;
use nearhead_format::{Layout, LayoutKind, LayoutOptions, VolumeId};
use std::collections::BTreeMap;

const BLOCK: u64 = 4096;
const MIB: u64 = 1 << 20;
/// Slots are whole MiB large: so many sizes are tried at either end.
const SLOT_SIZES: u64 = 24;
/// Logs looked at of each layout.
const LOGS_LOOKED_AT: u32 = 6;
/// Samples all over the device, and their size.
const SAMPLES: u64 = 64;
const SAMPLE_BYTES: u64 = 1 << 20;
/// Findings told.
const FINDINGS_MAX: usize = 4;

/// Looks for remains; none if there seem to be none.
pub(crate) fn look_for_remains(io: &mut SyncIo<'_>) -> Result<Vec<Finding>, DiskError> {
    let places = places_on_disk(io);
    look_in(io, Lane::MAIN, places)
}

/// The same on another device, which is `lane` and has `bytes`. What is found is told by that device's own bytes.
pub(crate) fn look_for_remains_on(
    io: &mut SyncIo<'_>,
    lane: Lane,
    bytes: u64,
) -> Result<Vec<Finding>, DiskError> {
    let sector_bytes = io.lane(lane).unwrap_or(io.disk()).properties().sector_bytes;
    look_in(io, lane, places(bytes, sector_bytes, None))
}

fn look_in(
    io: &mut SyncIo<'_>,
    lane: Lane,
    places: BTreeMap<u64, u64>,
) -> Result<Vec<Finding>, DiskError> {
    let mut findings: Vec<Finding> = Vec::new();
    for (offset, len) in places {
        let bytes = read_long(io, At { lane, offset }, len)?;
        for (at, block) in (offset..).step_by(512).zip(bytes.chunks_exact(512)) {
            let Some(finding) = recognise(at, block) else { continue };
            if !findings
                .iter()
                .any(|known| (known.what, &known.label) == (finding.what, &finding.label))
            {
                findings.push(finding);
            }
        }
        if findings.len() >= FINDINGS_MAX {
            break;
        }
    }
    Ok(findings)
}

/// Everything that says that it belongs to the volume: places of its snapshots' headers and of its records, as far as the
/// same look finds them. What cannot be read says nothing.
pub(crate) fn places_of(io: &mut SyncIo<'_>, volume_id: &VolumeId) -> Vec<Remnant> {
    let mut found = Vec::new();
    for (offset, len) in places_on_disk(io) {
        let Ok(bytes) = read_long(io, offset, len) else { continue };
        for (at, block) in (offset..).step_by(512).zip(bytes.chunks_exact(512)) {
            let is_own = |from: usize| block.get(from..from + 16) == Some(volume_id.as_slice());
            if block.starts_with(&SNAPSHOT_MAGIC) && is_own(16) {
                found.push(Remnant::Snapshot { at });
            } else if block.starts_with(&RECORD_MAGIC)
                && is_own(8)
                && let Ok(peeked) = peek(block)
            {
                found.push(Remnant::Record {
                    at,
                    log: peeked.log_index,
                    position: peeked.position,
                });
            }
        }
    }
    found
}

/// What is left of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remnant {
    /// The header of a snapshot, or its copy.
    Snapshot {
        /// Device byte.
        at: u64,
    },
    /// A record.
    Record {
        /// Device byte.
        at: u64,
        /// The log that it says to be in.
        log: u32,
        /// The place there.
        position: u32,
    },
}

fn places_on_disk(io: &SyncIo<'_>) -> BTreeMap<u64, u64> {
    let properties = io.disk().properties();
    places(properties.capacity_bytes, properties.sector_bytes, io.disk().zones())
}

/// Where to look, by offset: bytes of the device and length.
fn places(capacity_bytes: u64, sector_bytes: u32, zones: Option<&Zones>) -> BTreeMap<u64, u64> {
    let device_bytes = capacity_bytes / BLOCK * BLOCK;
    let end = device_bytes.saturating_sub(BLOCK);
    let mut places = BTreeMap::new();
    let mut add = |offset: u64, len: u64| {
        if offset.checked_add(len).is_some_and(|end| end <= device_bytes) {
            let known = places.entry(offset).or_insert(len);
            *known = len.max(*known);
        }
    };
    for size in 0..SLOT_SIZES {
        // A header and, right before it, the copy of the one of the slot before.
        add(MIB + size * MIB - BLOCK, 2 * BLOCK);
        add(end.saturating_sub(size * MIB + BLOCK), 2 * BLOCK);
    }
    for layout in layouts(device_bytes, sector_bytes, zones) {
        for slot in layout.slot_offsets {
            add(slot, BLOCK);
            add(slot + layout.slot_bytes - BLOCK, BLOCK);
        }
        let logs = layout.log_count();
        let step = logs.div_ceil(LOGS_LOOKED_AT).max(1) as usize;
        for log in (0..logs).step_by(step) {
            if let Some(start) = layout.log_offset(log) {
                add(start, BLOCK);
            }
        }
    }
    let step = (device_bytes / SAMPLES / BLOCK * BLOCK).max(SAMPLE_BYTES);
    for sample in 0..SAMPLES {
        let offset = sample * step;
        add(offset, SAMPLE_BYTES.min(device_bytes.saturating_sub(offset)));
    }
    places
}

/// Layouts that a volume on such a device would have by default, with the second slot at either place.
fn layouts(device_bytes: u64, sector_bytes: u32, zones: Option<&Zones>) -> Vec<Layout> {
    let non_shingled_bytes = zones.map(Zones::non_shingled_start_bytes);
    let kinds = LayoutKind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]);
    let plans = kinds.filter_map(|(kind, fragments)| {
        let options = LayoutOptions {
            sector_bytes,
            non_shingled_bytes,
            fragments,
            ..LayoutOptions::new(kind)
        };
        Layout::plan(device_bytes, &options).ok()
    });
    plans.flat_map(|layout| [layout, layout.with_near_slot()]).collect()
}

fn recognise(at: u64, block: &[u8]) -> Option<Finding> {
    let id = |from: usize| -> Option<String> {
        let id: [u8; 16] = block.get(from..from + 16)?.try_into().ok()?;
        Some(format!("{:032x}", u128::from_be_bytes(id)))
    };
    let (what, label) = if block.starts_with(&SUPERBLOCK_MAGIC) {
        ("superblock of a Nearhead volume", id(16))
    } else if block.starts_with(&MAP_DEVICE_MAGIC) {
        ("map device of a Nearhead volume", id(16))
    } else if block.starts_with(&DATA_DEVICE_MAGIC) {
        ("data device of a Nearhead volume", id(16))
    } else if block.starts_with(&SNAPSHOT_MAGIC) {
        ("snapshot of the map of a Nearhead volume", id(16))
    } else if block.starts_with(&RECORD_MAGIC) && peek(block).is_ok() {
        ("record in a log of a Nearhead volume", id(8))
    } else {
        return None;
    };
    Some(Finding { what, label, offset: at })
}

#[cfg(test)]
mod tests;
