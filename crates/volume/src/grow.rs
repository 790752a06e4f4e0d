//! Growing a volume into a device or image that became larger.
//!
//! Nothing that exists moves: groups are added behind the last one, and the superblock copies are
//! written anew, the last one at the new end first. Until the first copy of the new generation is
//! there the volume is the old one; from then on it is the new one. The map must be at rest in a
//! snapshot. The snapshot slots, on the disk or on its map device, keep the size chosen at creation, and
//! so does the map that must fit them: with many more logs than then, part of the log space cannot be
//! used, which is said.

use crate::blanks;
use crate::create::write_superblocks;
use crate::dump::{Slot, read_slots};
use crate::forget;
use crate::generations;
use crate::map_device;
use crate::open::{Found, OpenError, find_superblock_to_change};
use crate::presets::{NamedPreset, Presets};
use crate::probe::{Contents, Finding, HEAD_BYTES, TAIL_BYTES, probe, probe_copies};
use crate::sync_io::SyncIo;
use nearhead_disk::DiskError;
use nearhead_format::{
    BLOCK_BYTES, ENTRY_BYTES, Layout, LayoutError, LayoutKind, Superblock, superblock,
};
use std::fmt;

/// Room a slot keeps for its header and every hint there can be, in bytes.
const SLOT_BYTES_KEPT: u64 = 4096 + 16 * nearhead_engine::HINTS_MAX as u64 + 4096;
/// Bytes of a snapshot for each log besides its entries: its state and its claim.
const SLOT_BYTES_PER_LOG: u64 = 16;
/// Bytes of a snapshot that are copied at once.
const COPY_BYTES: u64 = 1 << 20;
/// A volume does not grow so far that its map has room for less than this share of its logs.
const MAP_ROOM_PCT_MIN: u64 = 10;

/// What growing did, or would do.
#[derive(Clone, Debug)]
pub struct Growth {
    /// Before.
    pub before: Superblock,
    /// After.
    pub after: Superblock,
    /// Groups that the snapshot slots had no room for.
    pub groups_left_out: u64,
    /// Share of the logs' blocks that the map has room for, at most 100.
    pub map_room_pct: u64,
}

/// Why a volume cannot grow.
#[derive(Debug)]
pub enum GrowError {
    /// It cannot be opened.
    Open(OpenError),
    /// The device is as large as the volume.
    NothingToAdd {
        /// The device.
        device: String,
        /// Bytes of the volume.
        volume_bytes: u64,
        /// Bytes of the device.
        device_bytes: u64,
    },
    /// The data or a log would move, as with one log in the middle.
    Preset {
        /// The device.
        device: String,
        /// The preset.
        preset: String,
    },
    /// The snapshot slots have no room for more logs.
    Slots {
        /// The device.
        device: String,
        /// Groups there may be.
        groups_max: u64,
    },
    /// The map could not be written to the slot that stays.
    Slot(String),
    /// There is something behind the volume that another program knows.
    Used {
        /// The device.
        device: String,
        /// End of the volume, in bytes.
        from: u64,
        /// What was found.
        found: String,
    },
    /// The sizes do not fit.
    Layout(LayoutError),
    /// The device failed.
    Disk(DiskError),
}

impl fmt::Display for GrowError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(formatter),
            Self::NothingToAdd { device, volume_bytes, device_bytes } => write!(
                formatter,
                "grow {device}: expected a device larger than the volume's {volume_bytes} bytes \
                 by at least one group, found {device_bytes}; enlarge the device or image first"
            ),
            Self::Preset { device, preset } => write!(
                formatter,
                "grow {device}: expected preset {}, found {preset}, whose data or log \
                 would have to move; copy to a new volume instead",
                Presets::default().names_with(
                    &[LayoutKind::ManyLogs, LayoutKind::ManyLogsAnywhere, LayoutKind::NoLogs],
                    "or"
                )
            ),
            Self::Slots { device, groups_max } => write!(
                formatter,
                "grow {device}: expected room for more logs in the snapshots, found it full at \
                 {groups_max} groups, fixed at creation; copy to a new volume instead, made with --grow-to or \
                 with a larger map device"
            ),
            Self::Used { device, from, found } => write!(
                formatter,
                "grow {device}: expected nothing of others behind the volume's end at byte {from}, found {found}; if it is not needed, \
                 zero it first (`dd if=/dev/zero of={device} oseek={from} oflag=seek_bytes bs=1M`), then grow"
            ),
            Self::Slot(problem) => write!(formatter, "grow: {problem}"),
            Self::Layout(error) => write!(formatter, "grow: {error}"),
            Self::Disk(error) => write!(formatter, "grow: {error}"),
        }
    }
}

impl std::error::Error for GrowError {}

impl From<OpenError> for GrowError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<DiskError> for GrowError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl From<LayoutError> for GrowError {
    fn from(error: LayoutError) -> Self {
        Self::Layout(error)
    }
}

/// Works out how the volume would grow. Changes nothing.
pub fn plan(io: &mut SyncIo<'_>) -> Result<Growth, GrowError> {
    let Found { superblock: before, preset, .. } = find_superblock_to_change(io)?;
    let properties = io.disk().properties();
    let (device, capacity) = (properties.name.clone(), properties.capacity_bytes);
    // What limits the groups is the room for the map, wherever that is.
    let map_slot_bytes = map_device::place(io, &before)?.slots.bytes;
    let growth = growth((&before, &preset), capacity, map_slot_bytes, &device)?;
    refuse_what_is_behind(io, &growth.before, (&device, capacity))?;
    Ok(growth)
}

/// Refuses to take in what another program may still need. Data of an unknown kind does not count: nearly every device that became larger has
/// some there.
fn refuse_what_is_behind(
    io: &mut SyncIo<'_>,
    before: &Superblock,
    (device, capacity): (&str, u64),
) -> Result<(), GrowError> {
    // Of an image file with a broken sector at its end only whole ones can be read.
    let sector_bytes = u64::from(io.disk().properties().sector_bytes.max(512));
    let capacity = capacity / sector_bytes * sector_bytes;
    let from = before.layout.device_bytes;
    let bytes = capacity.saturating_sub(from);
    let head = io.read(from, bytes.min(HEAD_BYTES as u64) as usize)?;
    let tail_bytes = bytes.min(TAIL_BYTES as u64);
    let tail = io.read(capacity - tail_bytes, tail_bytes as usize)?;
    // By its own start, and by the device's end.
    let (at_start, at_end) = (probe(bytes, &head, &[]), probe(capacity, &[], &tail));
    // The end of a growth that was broken off is no reason to refuse the next one.
    let own = |finding: &Finding| finding.what == "Nearhead volume" && finding.offset >= from;
    let of = |contents: Contents| match contents {
        Contents::Known(findings) => findings,
        Contents::Empty | Contents::Unknown { .. } => Vec::new(),
    };
    let moved =
        of(at_start).into_iter().map(|found| Finding { offset: from + found.offset, ..found });
    let mut others: Vec<Finding> =
        moved.chain(of(at_end).into_iter().filter(|finding| !own(finding))).collect();
    if others.is_empty() {
        // Copies of a superblock that was at the start of the device.
        others = probe_copies(capacity, from, |offset, len| io.read(offset, len))?;
    }
    if others.is_empty() {
        return Ok(());
    }
    let (device, found) = (device.to_owned(), Contents::Known(others).to_string());
    Err(GrowError::Used { device, from, found })
}

/// How the volume `before` of this preset would grow over all of a device with so many bytes.
pub(crate) fn growth(
    (before, preset): (&Superblock, &NamedPreset),
    device_bytes: u64,
    map_slot_bytes: u64,
    device: &str,
) -> Result<Growth, GrowError> {
    let device_bytes = device_bytes - device_bytes % u64::from(before.layout.sector_bytes);
    let (layout, groups_left_out) =
        enlarged((&before.layout, preset), device_bytes, map_slot_bytes, device)?;
    layout.validate()?;
    if layout.client_bytes() <= before.layout.client_bytes() {
        let (device, volume_bytes) = (device.to_owned(), before.layout.device_bytes);
        return Err(GrowError::NothingToAdd { device, volume_bytes, device_bytes });
    }
    let map_room_pct = map_room_pct(&layout, map_slot_bytes);
    let generation = before.generation + 1;
    let after = Superblock { layout, generation, ..before.clone() };
    Ok(Growth { before: before.clone(), after, groups_left_out, map_room_pct })
}

/// The volume `before` of this preset as it is once it has grown over all of a device of `device_bytes`, in however many
/// steps. The map has slots of `map_slot_bytes`.
pub(crate) fn as_grown(
    (before, preset): (&Superblock, &NamedPreset),
    device_bytes: u64,
    map_slot_bytes: u64,
) -> Result<Superblock, GrowError> {
    let device_bytes = device_bytes - device_bytes % u64::from(before.layout.sector_bytes);
    let (layout, _) = enlarged((&before.layout, preset), device_bytes, map_slot_bytes, "")?;
    layout.validate()?;
    Ok(Superblock { layout, ..before.clone() })
}

fn enlarged(
    (old, preset): (&Layout, &NamedPreset),
    device_bytes: u64,
    map_slot_bytes: u64,
    device: &str,
) -> Result<(Layout, u64), GrowError> {
    let mut layout = Layout { device_bytes, ..*old };
    if old.slot_is_far() {
        layout.slot_offsets[1] = layout.superblock_offsets()[2].saturating_sub(old.slot_bytes);
    }
    let room = layout.groups_limit().saturating_sub(old.groups_offset);
    match preset.layout {
        LayoutKind::OneLog
        | LayoutKind::OneLogApart
        | LayoutKind::ManyLogsApart
        | LayoutKind::LogDevice
        | LayoutKind::Chain => {
            let (device, preset) = (device.to_owned(), preset.name.to_owned());
            Err(GrowError::Preset { device, preset })
        }
        // Without a log a group's data is one piece: enlarging it moves nothing.
        LayoutKind::NoLogs => {
            layout.group_bytes = (room / BLOCK_BYTES * BLOCK_BYTES).max(old.group_bytes);
            Ok((layout, 0))
        }
        LayoutKind::ManyLogs | LayoutKind::ManyLogsAnywhere => {
            let wanted = (room / old.group_bytes).min(u64::from(u32::MAX));
            let groups_max = groups_max(old, map_slot_bytes);
            let count = wanted.min(groups_max);
            if count <= u64::from(old.group_count) && wanted > count {
                return Err(GrowError::Slots { device: device.to_owned(), groups_max });
            }
            layout.group_count = count.max(u64::from(old.group_count)) as u32;
            Ok((layout, wanted.saturating_sub(count)))
        }
    }
}

/// Bytes of a snapshot for the entries of one log when every block of it is mapped.
fn entry_bytes_per_log(layout: &Layout) -> u64 {
    layout.log_bytes / BLOCK_BYTES * ENTRY_BYTES as u64
}

/// Logs for which the slots have room enough.
fn groups_max(layout: &Layout, map_slot_bytes: u64) -> u64 {
    let per_log = entry_bytes_per_log(layout) * MAP_ROOM_PCT_MIN / 100 + SLOT_BYTES_PER_LOG;
    let kept = map_slot_bytes.saturating_sub(SLOT_BYTES_KEPT);
    let most = (kept / per_log).min(u64::from(u32::MAX));
    if !layout.fragments {
        return most;
    }
    // The room for what is left of fragments grows with the logs, up to a bound and to what the slots have beside the least for a map.
    let has_room = |count: u64| {
        let room = Layout { group_count: count as u32, ..*layout }.fragment_room_bytes();
        count * per_log + room <= kept
    };
    let (mut fits, mut end) = (0, most + 1);
    while end - fits > 1 {
        let middle = fits.midpoint(end);
        if has_room(middle) { fits = middle } else { end = middle }
    }
    fits
}

fn map_room_pct(layout: &Layout, map_slot_bytes: u64) -> u64 {
    let logs = u64::from(layout.log_count());
    let kept = SLOT_BYTES_KEPT + logs * SLOT_BYTES_PER_LOG + layout.fragment_room_bytes();
    let room = map_slot_bytes.saturating_sub(kept);
    let wanted = entry_bytes_per_log(layout) * logs;
    (room * 100).checked_div(wanted).unwrap_or(100).min(100)
}

/// The second slot moves to the new end, which may overlap where it was: so the newest snapshot must be in the first.
fn leave_slot_1(io: &mut SyncIo<'_>, superblock: &Superblock) -> Result<(), GrowError> {
    if superblock.map_device_id.is_some() {
        return Ok(());
    }
    let newest = read_slots(io, superblock)
        .into_iter()
        .filter(Slot::is_sound)
        .filter_map(|slot| slot.header.ok())
        .max_by_key(|header| header.snapshot_number);
    if newest.is_none_or(|newest| newest.slot() == 0) {
        return Ok(());
    }
    forget::give_up(io, superblock, &[]).map_err(|error| GrowError::Slot(error.to_string()))
}

/// Nothing where the slot's header and its copy are, so that neither is taken for one.
fn clear_slot_1(io: &mut SyncIo<'_>, layout: &Layout) -> Result<(), GrowError> {
    for place in [layout.slot_offsets[1], layout.snapshot_copy_offset(1)] {
        io.write(place, &[0; 4096])?;
    }
    Ok(io.flush()?)
}

/// The snapshot in slot 1, the older one by now, stands in its new place too. Where that place and the old one share
/// bytes, or there is nothing sound to copy, the new one is left empty.
fn copy_slot_1(io: &mut SyncIo<'_>, before: &Superblock, new: &Layout) -> Result<(), GrowError> {
    clear_slot_1(io, new)?;
    let old = &before.layout;
    let (from, to) = (old.slot_offsets[1], new.slot_offsets[1]);
    let slot = &read_slots(io, before)[1];
    let shares_bytes = from.abs_diff(to) < old.slot_bytes.max(new.slot_bytes);
    let Ok(header) = slot.header.as_ref() else { return Ok(()) };
    if shares_bytes || before.map_device_id.is_some() || !slot.is_sound() {
        return Ok(());
    }
    let (mut at, end) = (BLOCK_BYTES, BLOCK_BYTES + header.body.body_bytes);
    while at < end {
        let piece = io.read(from + at, (end - at).min(COPY_BYTES) as usize)?;
        io.write(to + at, &piece)?;
        at += piece.len() as u64;
    }
    io.flush()?;
    let header = header.encode();
    io.write(to, &header)?;
    io.write(new.snapshot_copy_offset(1), &header)?;
    Ok(io.flush()?)
}

/// The slot's old place is a part of groups now, up to where its new one begins, which is always behind it: what it held
/// is nothing that clients should find.
fn zero_slot_1(io: &mut SyncIo<'_>, old: &Layout, new: &Layout) -> Result<(), GrowError> {
    let mut at = old.slot_offsets[1];
    let end = (at + old.slot_bytes).min(new.slot_offsets[1]);
    while at < end {
        let len = (end - at).min(COPY_BYTES);
        io.write(at, &vec![0; len as usize])?;
        at += len;
    }
    Ok(io.flush()?)
}

/// Grows the volume as planned. No engine may be running on the device.
pub fn grow(io: &mut SyncIo<'_>, growth: &Growth) -> Result<(), GrowError> {
    let (old, new) = (&growth.before.layout, &growth.after.layout);
    generations::begin(io, &growth.before)?;
    blanks::grow(io, &growth.before, &growth.after)?;
    let moves_slot = old.slot_offsets != new.slot_offsets;
    if moves_slot {
        leave_slot_1(io, &growth.before)?;
        copy_slot_1(io, &growth.before, new)?;
    }
    write_superblocks(io, &growth.after)?;
    if moves_slot {
        zero_slot_1(io, old, new)?;
    }
    // The old last copy is in the middle of a group now, where clients would find it; or the second slot begins just
    // there, and its header has replaced it.
    let stale = old.superblock_offsets()[superblock::COPIES as usize - 1];
    if stale != new.superblock_offsets()[2] && stale != new.slot_offsets[1] {
        io.write(stale, &[0; 4096])?;
        io.flush()?;
    }
    Ok(())
}
