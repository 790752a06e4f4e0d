//! A superblock made again for a volume that has lost all three copies and has no backup of its metadata.
//!
//! The identity stands in every snapshot and record, and on a map device. Where everything is, nothing else says; but a layout
//! follows from the size of the device, where it is shingled, the size that it had before the volume grew and what `create`
//! was told, and there are few that somebody did not ask for. Each of them is
//! held against what lies on the device: snapshots and records must be where it has them and nowhere else, name only
//! logs, places and client bytes that it has, and logs must begin with records of just those logs. Exactly one must fit; with several, or where nothing
//! in a log speaks for one, the owner has to say more. A wrong layout would exchange everybody's data, so a guess is
//! never taken for an answer. Nothing is written here before the owner has seen what was found.

use crate::create::{CreateError, CreateOptions, describe_to_grow, write_superblocks};
use crate::dump::{Slot, read_body, read_slots};
use crate::generations;
use crate::grow::as_grown;
use crate::map_device::{self, Joined};
use crate::presets::{NamedPreset, Presets};
use crate::probe::{Remnant, places_of};
use crate::sync_io::SyncIo;
use crate::without_log::part;
use nearhead_disk::{At, DiskError, SECTOR_BYTES};
use nearhead_engine::MapPlace;
use nearhead_format::blank_map::BLANK_MAP_OFFSET;
use nearhead_format::layout::Region;
use nearhead_format::record::peek;
use nearhead_format::snapshot::{BodyItem, FragmentCell, SNAPSHOT_MAGIC};
use nearhead_format::superblock::{
    FEATURE_BLANK_MAP, FEATURE_GENERATIONS, FEATURE_LOGS_TELL_ALL, features_of,
};
use nearhead_format::{AckMode, BlankMapHeader, Entry, Label, Layout, Place, Superblock, VolumeId};
use std::collections::BTreeSet;
use std::fmt;

const BLOCK: usize = 4096;
/// Logs whose beginning is looked at.
const LOGS_LOOKED_AT: usize = 64;
/// Of a log in which records may stand anywhere.
const BYTES_LOOKED_THROUGH: u64 = 4 << 20;
/// Where the first slot is in every layout.
const FIRST_SLOT_OFFSET: u64 = 1 << 20;
/// Higher than that of any copy that a sector which cannot be read now may bring back.
const GENERATION: u64 = 1 << 32;

/// What the owner knows: what `create` was told.
#[derive(Clone, Debug)]
pub struct Known {
    /// Which logs, if known; else each preset for such a disk is tried.
    pub preset: Option<NamedPreset>,
    /// Size of a group, if it was not the default.
    pub group_bytes: Option<u64>,
    /// Size of each log, if it was not the default.
    pub log_bytes: Option<u64>,
    /// Room to grow, if it was asked for.
    pub grow_to_bytes: Option<u64>,
    /// Size of the device that it was made on, if it grew over a larger one since.
    pub grown_from_bytes: Option<u64>,
    /// Writes up to this size are logged, if it was not the preset's.
    pub logged_write_bytes_max: Option<u32>,
    /// When writes are answered.
    pub ack: AckMode,
    /// For people.
    pub label: Label,
    /// Whether the second snapshot is at the other end of the device, as in all volumes that this program makes; if not
    /// known, both places are tried.
    pub second_snapshot_is_far: Option<bool>,
}

/// A superblock that fits, and what speaks for it.
#[derive(Clone, Debug)]
pub struct Fit {
    /// It.
    pub superblock: Superblock,
    /// Sound snapshots and copies of their headers, where it has them.
    pub snapshots: u32,
    /// Number of the newest snapshot.
    pub snapshot_number: u64,
    /// The last record that it includes.
    pub record_sequence: u64,
    /// Pieces of its map, each in a log and of a client byte that there are.
    pub map_entries: u64,
    /// Logs that begin with a record of just that log.
    pub logs_confirmed: u32,
}

/// Why no superblock is made again.
#[derive(Debug)]
pub struct SearchError(String);

impl fmt::Display for SearchError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for SearchError {}

impl From<DiskError> for SearchError {
    fn from(error: DiskError) -> Self {
        Self(error.to_string())
    }
}

const SAY_MORE: &str = "say what `create` was told: --preset, and --group-size, --log-size and --grow-to if they were given; \
     --grown-from if it has grown; --map-device if it has one; --second-snapshot far for a volume that this version made; one with \
     data devices is not found so: restore a backup of its metadata";

/// Finds the superblock of the volume whose snapshots and records are on the device. Changes nothing.
///
/// # Errors
/// If nothing fits, more than one thing does, or what fits does so without any record in a log. A place that cannot be
/// read speaks neither for nor against.
pub fn search(io: &mut SyncIo<'_>, known: &Known) -> Result<Fit, SearchError> {
    if let Some(part) = part(io) {
        return Err(SearchError(format!(
            "expected the device that has lost its superblocks, found another one: {}",
            part.describe()
        )));
    }
    let (map, presets) = (map_device::joined(io)?, io.presets());
    let mut fits = fits(io, candidates(io, known, map, false)?, map)?;
    // With fragments the slots are larger, so that nothing fits both with them and without.
    if fits.is_empty()
        && let Ok(candidates) = candidates(io, known, map, true)
    {
        fits = self::fits(io, candidates, map)?;
    }
    // Of a slot at the place of another layout's the header may fit, but then not its copy.
    let best = fits.iter().map(|fit| fit.snapshots).max().unwrap_or(0);
    fits.retain(|fit| fit.snapshots == best);
    let fit = match fits.len() {
        1 => fits.remove(0),
        0 => {
            return Err(SearchError(format!(
                "expected a sound snapshot of the map where a volume of this size has one, found none{}; {SAY_MORE}",
                unreadable(io)
            )));
        }
        count => {
            let all: Vec<_> = fits.iter().map(|fit| in_words(presets, &fit.superblock)).collect();
            return Err(SearchError(format!(
                "expected one layout that fits what is on the device, found {count}: {}; {SAY_MORE}",
                all.join("; ")
            )));
        }
    };
    let has_logged = fit.map_entries > 0 || fit.record_sequence > 0;
    // A map device alone may be another volume's: something of this one must be on the disk itself.
    let is_its_own = map.is_none() || fit.superblock.has_blank_map();
    if fit.logs_confirmed == 0 && (known.preset.is_none() || has_logged || !is_its_own) {
        return Err(SearchError(format!(
            "expected logs that begin with records where the layout has them, found none, so nothing speaks for {}; \
             {SAY_MORE}",
            in_words(presets, &fit.superblock)
        )));
    }
    Ok(fit)
}

/// Those of the candidates that fit.
fn fits(
    io: &mut SyncIo<'_>,
    candidates: Vec<Superblock>,
    map: Option<Joined>,
) -> Result<Vec<Fit>, SearchError> {
    let mut fits = Vec::new();
    for candidate in candidates {
        fits.extend(fit(io, candidate, map)?);
    }
    Ok(fits)
}

/// Says so if the beginning of the device, where the first snapshot is in every layout, cannot be read.
fn unreadable(io: &mut SyncIo<'_>) -> String {
    let first = io.read(FIRST_SLOT_OFFSET, BLOCK);
    first.err().map_or_else(String::new, |error| {
        format!(" ({error}: a disk that cannot be read is to be copied or replaced first)")
    })
}

/// A layout for people.
pub fn in_words(presets: Presets, superblock: &Superblock) -> String {
    let layout = &superblock.layout;
    let preset = presets.of(superblock);
    format!(
        "{}, {} groups of {} bytes with a log of {} bytes each, second snapshot at byte {}",
        preset.map_or_else(|_| superblock.preset.to_string(), |preset| preset.name.to_owned()),
        layout.group_count,
        layout.group_bytes,
        layout.log_bytes,
        layout.slot_offsets[1]
    )
}

/// Writes all three copies.
pub fn write(io: &mut SyncIo<'_>, superblock: &Superblock) -> Result<(), DiskError> {
    let mut superblock = superblock.clone();
    if superblock.has_several_devices() {
        superblock.feature_ro_compat |= FEATURE_GENERATIONS;
    }
    // The owner says that these are its devices: nothing is left that could tell.
    generations::begin(io, &superblock)?;
    write_superblocks(io, &superblock)
}

/// What `create` and `grow` may have made here, with the second snapshot slot where programs put it then and now, and records as they
/// stood in logs apart then and now; all with fragments or all without.
fn candidates(
    io: &SyncIo<'_>,
    known: &Known,
    map: Option<Joined>,
    fragments: bool,
) -> Result<Vec<Superblock>, SearchError> {
    let (properties, zones) = (io.disk().properties(), io.disk().zones());
    if let Some(from) = known.grown_from_bytes.filter(|from| *from >= properties.capacity_bytes) {
        return Err(SearchError(format!(
            "--grown-from: expected less than the {} bytes of the device, found {from}",
            properties.capacity_bytes
        )));
    }
    let (mut found, mut problem): (Vec<Superblock>, Option<String>) = (Vec::new(), None);
    for preset in presets(io, known, zones.is_some()) {
        let options = CreateOptions {
            group_bytes: known.group_bytes,
            log_bytes: known.log_bytes,
            ack: known.ack,
            label: known.label.clone(),
            logged_write_bytes_max: known
                .logged_write_bytes_max
                .unwrap_or_else(|| preset.logged_by_default(properties)),
            device_bytes: known.grown_from_bytes,
            fragments,
            ..CreateOptions::new([0; 16], preset)
        };
        let made = match describe_to_grow(properties, zones, &options, known.grow_to_bytes) {
            Ok(made) => Superblock { map_device_id: map.map(|map| map.id), ..made },
            Err(error) => {
                problem = Some(CreateError::from(error).to_string());
                continue;
            }
        };
        let layouts = [made.layout, made.layout.with_near_slot()];
        for layout in layouts.into_iter().chain(layouts.map(Layout::with_records_in_order)) {
            let made = Superblock { layout, ..made.clone() };
            let slot_bytes = map.map_or(layout.slot_bytes, |map| map.slot_bytes);
            let made = match known.grown_from_bytes {
                None => Ok(made),
                Some(_) => as_grown((&made, &preset), properties.capacity_bytes, slot_bytes),
            };
            match made {
                Ok(made) => add_new(&mut found, made, known),
                Err(error) => problem = Some(error.to_string()),
            }
        }
    }
    match problem {
        Some(problem) if found.is_empty() => Err(SearchError(format!(
            "expected what `create` was told, found what it would refuse on a device of this size: {problem}"
        ))),
        _ => Ok(found),
    }
}

/// Those to try: the one that the owner knows, or one of each kind of layout.
fn presets(io: &SyncIo<'_>, known: &Known, is_shingled: bool) -> Vec<NamedPreset> {
    match known.preset {
        Some(preset) => vec![preset],
        None => io.presets().one_of_each_layout(is_shingled),
    }
}

/// Adds one that is not there yet, if it may exist and the owner does not know better.
fn add_new(found: &mut Vec<Superblock>, made: Superblock, known: &Known) {
    let layout = made.layout;
    let is_excluded = known.second_snapshot_is_far.is_some_and(|far| far != layout.slot_is_far());
    let is_there = found.iter().any(|other| other.layout == layout);
    if !is_excluded && !is_there && layout.validate().is_ok() {
        found.push(made);
    }
}

/// Holds a layout against the device; none if it does not fit.
fn fit(
    io: &mut SyncIo<'_>,
    candidate: Superblock,
    map: Option<Joined>,
) -> Result<Option<Fit>, SearchError> {
    let layout = candidate.layout;
    // Of a map device the header says whose it is.
    let named = Superblock { volume_id: map.map_or([0; 16], |map| map.volume_id), ..candidate };
    let place = map_device::place(io, &named)?;
    let Some(volume_id) = volume_of(io, &place) else { return Ok(None) };
    if map.is_some_and(|map| map.volume_id != volume_id) {
        return Ok(None);
    }
    let superblock = Superblock {
        volume_id,
        generation: GENERATION,
        feature_incompat: features_of(&layout),
        feature_ro_compat: features(io, &layout, &volume_id),
        ..named
    };
    Ok(fit_of(io, superblock, &place))
}

/// The same for a superblock with the volume's identity, whose map is at `place`.
fn fit_of(io: &mut SyncIo<'_>, superblock: Superblock, place: &MapPlace) -> Option<Fit> {
    let (layout, volume_id) = (superblock.layout, superblock.volume_id);
    let slots = read_slots(io, &superblock);
    let sound = || slots.iter().filter(|slot| slot.is_sound());
    let numbered = |slot: &Slot| slot.header.as_ref().map_or(0, |header| header.snapshot_number);
    let newest = sound().max_by_key(|slot| numbered(slot))?;
    let header = newest.header.as_ref().ok().filter(|header| header.is_of(&layout))?;
    let (mut fits, mut used) = (true, Vec::new());
    let body = read_body(io, newest.at, header, &mut |item| match item {
        BodyItem::Entry(entry) => fits &= has_place(&layout, &entry),
        BodyItem::Log(log) => {
            fits &= log.log_index < layout.log_count() && log.position <= layout.log_blocks();
            if log.position > 0 {
                used.push(log.log_index);
            }
        }
        BodyItem::Claim(log) => fits &= log < layout.log_count(),
        BodyItem::Hint(range) => {
            fits &= layout.client_range(range.start_sector, range.len_sectors).is_some();
        }
        BodyItem::Fragment(cell) => fits &= has_cell(&layout, &cell),
    });
    let is_in_place = |found: &Remnant| match *found {
        Remnant::Snapshot { at } => is_snapshot_place(place, at.into()),
        Remnant::Record { at, log, position } => layout.log_block_offset(log, position) == Some(at),
    };
    if body.is_err() || !fits || !places_of(io, &volume_id).iter().all(is_in_place) {
        return None;
    }
    let copies = (0..2).filter(|slot| {
        io.read(place.copy(*slot), BLOCK).is_ok_and(|bytes| id_in(&bytes) == Some(volume_id))
    });
    let snapshots = (copies.count() + sound().count()) as u32;
    let logs_confirmed = confirmed_logs(io, &superblock, &used)?;
    Some(Fit {
        snapshots,
        snapshot_number: header.snapshot_number,
        record_sequence: header.record_sequence,
        map_entries: header.body.entry_count,
        logs_confirmed,
        superblock,
    })
}

/// The one volume whose snapshots are in these slots.
fn volume_of(io: &mut SyncIo<'_>, place: &MapPlace) -> Option<VolumeId> {
    let mut found: Option<VolumeId> = None;
    for slot in 0..2 {
        for at in [place.header(slot), place.copy(slot)] {
            let Some(id) = io.read(at, BLOCK).ok().and_then(|bytes| id_in(&bytes)) else {
                continue;
            };
            // What an earlier volume left is at the places of its own layout.
            if found.is_some_and(|known| known != id) {
                return None;
            }
            found = Some(id);
        }
    }
    found
}

/// Whether a snapshot has its header or the copy of it there.
fn is_snapshot_place(place: &MapPlace, at: At) -> bool {
    (0..2).any(|slot| at == place.header(slot) || at == place.copy(slot))
}

/// The identity in what says that it is a snapshot's header.
fn id_in(bytes: &[u8]) -> Option<VolumeId> {
    bytes.starts_with(&SNAPSHOT_MAGIC).then(|| bytes.get(16..32)?.try_into().ok())?
}

/// The blank map has a header of its own. Logs tell all since the second slot lies at the other end; of volumes made
/// before that it is not said, which makes nothing but a later repair more careful.
fn features(io: &mut SyncIo<'_>, layout: &Layout, volume_id: &VolumeId) -> u64 {
    let bytes = io.read(BLANK_MAP_OFFSET, BLOCK);
    let has_blanks = crate::blanks::has_room(layout)
        && bytes.is_ok_and(|bytes| BlankMapHeader::decode(&bytes, volume_id).is_ok());
    let blanks = if has_blanks { FEATURE_BLANK_MAP } else { 0 };
    blanks | if layout.slot_is_far() { FEATURE_LOGS_TELL_ALL } else { 0 }
}

/// Whether an entry is of client bytes that there are, and in one of the logs.
fn has_place(layout: &Layout, entry: &Entry) -> bool {
    let is_client = layout.client_range(entry.home_sector, u64::from(entry.len_sectors)).is_some();
    let is_in_log = match entry.place {
        Place::Zero | Place::Poisoned => true,
        Place::Home => layout.fragments,
        Place::Log { chunk_sector, chunk_len, .. } => {
            let log_at = |sector: u64| match layout.region(sector.checked_mul(SECTOR_BYTES)?) {
                Region::Log { log_index, .. } => Some(log_index),
                _ => None,
            };
            let last = chunk_sector.saturating_add(u64::from(chunk_len.max(1)) - 1);
            log_at(chunk_sector).is_some() && log_at(chunk_sector) == log_at(last)
        }
    };
    is_client && is_in_log
}

/// Whether what is left of a fragment is of client bytes that there are, and came by a record in one of the logs.
fn has_cell(layout: &Layout, cell: &FragmentCell) -> bool {
    let byte = cell.record_sector.checked_mul(SECTOR_BYTES);
    let is_in_log = byte.is_some_and(|byte| matches!(layout.region(byte), Region::Log { .. }));
    layout.fragments && cell.end_byte() <= layout.client_bytes() && is_in_log
}

/// How many logs begin with a record of theirs, or have one anywhere if the layout allows it; none if one begins with a
/// record of another log or place.
fn confirmed_logs(io: &mut SyncIo<'_>, superblock: &Superblock, used: &[u32]) -> Option<u32> {
    let layout = &superblock.layout;
    let first = 0..layout.log_count().min(LOGS_LOOKED_AT as u32);
    let logs: BTreeSet<u32> = used.iter().copied().take(LOGS_LOOKED_AT).chain(first).collect();
    let mut confirmed = 0;
    for log in logs {
        let Some(offset) = layout.log_offset(log) else { continue };
        let Ok(bytes) = io.read(offset, BLOCK) else { continue };
        match peek(&bytes) {
            Ok(found) if found.volume_id == superblock.volume_id => {
                if found.log_index != log || found.position != 0 {
                    return None;
                }
                confirmed += 1;
            }
            _ => confirmed += u32::from(layout.records_anywhere && has_record(io, superblock, log)),
        }
    }
    Some(confirmed)
}

/// Whether a record of this log stands anywhere in its first [`BYTES_LOOKED_THROUGH`].
fn has_record(io: &mut SyncIo<'_>, superblock: &Superblock, log: u32) -> bool {
    let (layout, id) = (&superblock.layout, superblock.volume_id);
    let bytes = layout.log_bytes.min(BYTES_LOOKED_THROUGH) as usize;
    let bytes = layout.log_offset(log).and_then(|offset| io.read(offset, bytes).ok());
    let is_here = |position: u32, block: &[u8]| {
        peek(block).is_ok_and(|found| {
            (found.volume_id, found.log_index, found.position) == (id, log, position)
        })
    };
    bytes.is_some_and(|bytes| {
        (0..)
            .zip(bytes.chunks_exact(layout.log_block_bytes as usize))
            .any(|(position, block)| is_here(position, block))
    })
}
