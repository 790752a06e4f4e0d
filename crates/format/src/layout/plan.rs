//! Choosing a layout for a device: sizes in, [`Layout`] out.
//!
//! Whatever the plan chooses passes [`Layout::validate`], the one gate that layouts read from a
//! superblock pass too.

use super::error::{LayoutError, LayoutField};
use super::{
    DEVICE_BYTES_MAX, DEVICE_BYTES_MIN, DataParts, LOG_BYTES_MIN, Layout, LayoutKind,
    superblock_offsets,
};
use crate::{BLOCK_BYTES, ENTRY_BYTES};

const KIB: u64 = 1024;
pub(super) const MIB: u64 = 1024 * KIB;

/// Group of a device that is large enough: Manylogs section IV-A keeps 10 MB of log in every
/// 100 MB of disk.
pub const GROUP_BYTES_DEFAULT: u64 = 100 * MIB;
/// Log of such a group.
pub const LOG_BYTES_DEFAULT: u64 = 10 * MIB;
/// Largest log that a single one becomes by itself.
pub const SINGLE_LOG_BYTES_DEFAULT_MAX: u64 = 5 * 1024 * MIB;

/// Below this many groups near-head placement has nothing to choose from; smaller groups are taken.
pub(super) const GROUPS_WANTED: u64 = 4;
/// Where the first snapshot slot starts: past the superblock copies, aligned for everything.
pub(super) const FIRST_SLOT_OFFSET: u64 = MIB;
const ALIGN_GROUP: u64 = MIB;
pub(super) const ALIGN_LOG: u64 = 64 * KIB;
/// Snapshot bytes per log besides its entries: its state (12) and its claim (4).
pub(super) const SLOT_BYTES_PER_LOG: u64 = 16;
/// Room of a slot for its header, hints, and entries of less than a block.
const SLOT_BYTES_SPARE: u64 = MIB;

/// Least and most room of a slot for what is left of fragments: 1024 and 65536 cells.
pub(super) const FRAGMENT_ROOM_BYTES_MIN: u64 = 64 * KIB;
const FRAGMENT_ROOM_BYTES_MAX: u64 = 4 * MIB;

/// What may be chosen about a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutOptions {
    /// Which logs there are.
    pub kind: LayoutKind,
    /// Sector of the device: 512 or 4096.
    pub sector_bytes: u32,
    /// Unit of the logs, 512 or 4096: the device's physical sector, so that a record never shares
    /// one with its neighbour.
    pub log_block_bytes: u32,
    /// Size of a group; only where [`LayoutKind::has_groups_of_any_size`].
    pub group_bytes: Option<u64>,
    /// Size of each log.
    pub log_bytes: Option<u64>,
    /// How much of the device, from its start, is not shingled; needed by the kinds for shingled
    /// disks, which have their logs there.
    pub non_shingled_bytes: Option<u64>,
    /// What data devices add; needed by the kind whose logs are on a device of their own, and none of any other.
    pub data_parts: DataParts,
    /// Whether records may have fragments; only of a volume with homes and logs.
    pub fragments: bool,
}

impl LayoutOptions {
    /// The defaults of a kind of layout, on a device with 512-byte sectors of which the medium writes
    /// eight at once.
    pub fn new(kind: LayoutKind) -> Self {
        Self {
            kind,
            sector_bytes: 512,
            log_block_bytes: 4096,
            group_bytes: None,
            log_bytes: None,
            non_shingled_bytes: None,
            data_parts: DataParts::NONE,
            fragments: false,
        }
    }
}

impl Layout {
    /// Lays out a device of `device_bytes`.
    pub fn plan(device_bytes: u64, options: &LayoutOptions) -> Result<Self, LayoutError> {
        check_device(device_bytes)?;
        check_combination(options)?;
        let sizes = match options.kind {
            LayoutKind::NoLogs => Sizes { group_bytes: None, log_bytes: 0 },
            LayoutKind::OneLog => Sizes {
                group_bytes: None,
                log_bytes: options
                    .log_bytes
                    .unwrap_or_else(|| log_for(device_bytes).min(SINGLE_LOG_BYTES_DEFAULT_MAX)),
            },
            LayoutKind::ManyLogs | LayoutKind::ManyLogsAnywhere => {
                group_sizes(device_bytes, options)
            }
            LayoutKind::OneLogApart | LayoutKind::ManyLogsApart => {
                return super::apart::plan(device_bytes, options);
            }
            LayoutKind::LogDevice => return super::apart::plan_device(device_bytes, options),
            LayoutKind::Chain => return super::chain::plan(device_bytes, options),
        };
        let layout = assemble(device_bytes, options, sizes)?;
        layout.validate()?;
        Ok(layout)
    }
}

#[derive(Clone, Copy)]
struct Sizes {
    /// `None`: everything there is, in one group.
    group_bytes: Option<u64>,
    log_bytes: u64,
}

/// A tenth of `bytes`, rounded to what logs are aligned to.
pub(super) fn log_for(bytes: u64) -> u64 {
    (bytes / 10 / ALIGN_LOG * ALIGN_LOG).max(LOG_BYTES_MIN)
}

fn group_sizes(device_bytes: u64, options: &LayoutOptions) -> Sizes {
    if let Some(group_bytes) = options.group_bytes {
        let log_bytes = options.log_bytes.unwrap_or_else(|| log_for(group_bytes));
        return Sizes { group_bytes: Some(group_bytes), log_bytes };
    }
    let log_bytes = options.log_bytes.unwrap_or(LOG_BYTES_DEFAULT);
    let space = space_for(device_bytes, GROUP_BYTES_DEFAULT, log_bytes, options.fragments);
    if space.group_count >= GROUPS_WANTED {
        return Sizes { group_bytes: Some(GROUP_BYTES_DEFAULT), log_bytes };
    }
    let log_bound = options.log_bytes.unwrap_or_else(|| log_for(device_bytes / GROUPS_WANTED));
    let slot_bytes = slot_bytes_for(GROUPS_WANTED, log_bound, options.fragments);
    let usable = far_slot(device_bytes, slot_bytes).saturating_sub(first_group(slot_bytes));
    let group_bytes = usable / GROUPS_WANTED / ALIGN_GROUP * ALIGN_GROUP;
    let log_bytes = options.log_bytes.unwrap_or_else(|| log_for(group_bytes));
    Sizes { group_bytes: Some(group_bytes), log_bytes }
}

struct Space {
    slot_bytes: u64,
    groups_offset: u64,
    group_count: u64,
}

/// What fits beside snapshot slots large enough for the logs of every group that could exist.
fn space_for(device_bytes: u64, group_bytes: u64, log_bytes: u64, fragments: bool) -> Space {
    let end = groups_end(device_bytes);
    let group_bytes = group_bytes.max(1);
    let slot_bytes = slot_bytes_for((end - FIRST_SLOT_OFFSET) / group_bytes, log_bytes, fragments);
    let groups_offset = first_group(slot_bytes);
    let group_count =
        far_slot(device_bytes, slot_bytes).saturating_sub(groups_offset) / group_bytes;
    Space { slot_bytes, groups_offset, group_count }
}

fn assemble(
    device_bytes: u64,
    options: &LayoutOptions,
    sizes: Sizes,
) -> Result<Layout, LayoutError> {
    let (space, group_bytes) = if let Some(group_bytes) = sizes.group_bytes {
        (space_for(device_bytes, group_bytes, sizes.log_bytes, options.fragments), group_bytes)
    } else {
        let slot_bytes = slot_bytes_for(1, sizes.log_bytes, options.fragments);
        let groups_offset = first_group(slot_bytes);
        let left = far_slot(device_bytes, slot_bytes).saturating_sub(groups_offset);
        let space = Space { slot_bytes, groups_offset, group_count: 1 };
        (space, left / BLOCK_BYTES * BLOCK_BYTES)
    };
    let group_count = u32::try_from(space.group_count).map_err(|_| {
        LayoutError::new(
            LayoutField::GroupCount,
            format_args!("at most {}", u32::MAX),
            space.group_count,
            "choose larger groups",
        )
    })?;
    if group_count == 0 {
        return Err(LayoutError::new(
            LayoutField::GroupBytes,
            format_args!(
                "at most {} so that one group fits beside the snapshots",
                far_slot(device_bytes, space.slot_bytes).saturating_sub(space.groups_offset)
            ),
            group_bytes,
            "choose smaller groups or a larger device",
        ));
    }
    Ok(Layout {
        device_bytes,
        sector_bytes: options.sector_bytes,
        log_block_bytes: options.log_block_bytes,
        slot_offsets: [FIRST_SLOT_OFFSET, far_slot(device_bytes, space.slot_bytes)],
        slot_bytes: space.slot_bytes,
        groups_offset: space.groups_offset,
        group_bytes,
        log_bytes: sizes.log_bytes,
        group_count,
        data_offset: 0,
        records_anywhere: options.kind.has_records_anywhere(),
        data_parts: DataParts::NONE,
        fragments: options.fragments,
    })
}

/// Room for a map of every 4 KiB block of every log, the state of every log, what is left of fragments, and some to spare.
pub(super) fn slot_bytes_for(log_count: u64, log_bytes: u64, fragments: bool) -> u64 {
    if log_bytes == 0 {
        return SLOT_BYTES_SPARE;
    }
    let per_log = log_bytes / BLOCK_BYTES * ENTRY_BYTES as u64 + SLOT_BYTES_PER_LOG;
    let bytes = per_log.saturating_mul(log_count).saturating_add(SLOT_BYTES_SPARE);
    // Whole mebibytes by itself, so that a layout with fragments is never the same as one without.
    let room = if fragments { fragment_room_for(log_count, log_bytes) } else { 0 };
    bytes.min(DEVICE_BYTES_MAX).next_multiple_of(MIB) + room.next_multiple_of(MIB)
}

/// Room of a slot for what is left of the fragments of so many logs: a sixteenth of them, within bounds. Whole blocks.
pub(super) fn fragment_room_for(log_count: u64, log_bytes: u64) -> u64 {
    let share = log_bytes.saturating_mul(log_count) / 16;
    share.clamp(FRAGMENT_ROOM_BYTES_MIN, FRAGMENT_ROOM_BYTES_MAX) / BLOCK_BYTES * BLOCK_BYTES
}

/// Where the logs of a shingled disk start: behind both slots, which cannot be in its bands.
pub(super) fn groups_offset_for(slot_bytes: u64) -> u64 {
    FIRST_SLOT_OFFSET + 2 * slot_bytes
}

/// Where the groups start that lie between the two slots.
fn first_group(slot_bytes: u64) -> u64 {
    FIRST_SLOT_OFFSET + slot_bytes
}

/// Where the second slot is: right before the last superblock, so that no single blow to a device hits both.
pub(super) fn far_slot(device_bytes: u64, slot_bytes: u64) -> u64 {
    groups_end(device_bytes).saturating_sub(slot_bytes) / BLOCK_BYTES * BLOCK_BYTES
}

pub(super) fn groups_end(device_bytes: u64) -> u64 {
    superblock_offsets(device_bytes)[2]
}

pub(super) fn check_device(device_bytes: u64) -> Result<(), LayoutError> {
    if (DEVICE_BYTES_MIN..=DEVICE_BYTES_MAX).contains(&device_bytes) {
        return Ok(());
    }
    Err(LayoutError::new(
        LayoutField::DeviceBytes,
        format_args!("from {DEVICE_BYTES_MIN} to {DEVICE_BYTES_MAX} bytes"),
        device_bytes,
        "use a device or image of at least 64 MiB and at most 1 PiB",
    ))
}

fn check_combination(options: &LayoutOptions) -> Result<(), LayoutError> {
    let kind = options.kind;
    if let (false, Some(found)) = (kind.has_groups_of_any_size(), options.group_bytes) {
        return Err(LayoutError::new(
            LayoutField::GroupBytes,
            format_args!("none given: the groups of {kind} follow from the device"),
            found,
            "leave the group size out, or choose a layout with a log in every group",
        ));
    }
    if options.fragments && (kind.is_chain() || !kind.has_logs()) {
        return Err(LayoutError::new(
            LayoutField::Fragments,
            format_args!("none in {kind}: they need logs, and homes to lie over"),
            1,
            "leave fragments out, or choose a layout with homes and logs",
        ));
    }
    let is_alone = options.data_parts.is_empty();
    if kind.is_for_data_devices() == is_alone && (is_alone || !kind.is_chain()) {
        let (expected, advice) = if kind.is_for_data_devices() {
            ("data devices behind the one that has the logs", "name the data devices")
        } else {
            ("no data devices: everything is on one", "leave them out, or choose a layout for them")
        };
        let found = u64::from(options.data_parts.count());
        return Err(LayoutError::new(LayoutField::DataParts, expected, found, advice));
    }
    match (kind.has_logs(), options.log_bytes) {
        (false, Some(found)) if found != 0 => Err(LayoutError::new(
            LayoutField::LogBytes,
            "none given: there is no log",
            found,
            "leave the log size out, or choose a layout with logs",
        )),
        (true, Some(0)) => Err(LayoutError::new(
            LayoutField::LogBytes,
            format_args!("at least {LOG_BYTES_MIN} in {kind}"),
            0,
            "give the logs a size, or choose a layout without logs",
        )),
        _ => Ok(()),
    }
}
