//! The data devices of a volume whose own device has the logs, and its further log devices: made, and known again.
//!
//! Each says whose it is and at which position ([`nearhead_format::DataDevice`]), so they may be named in any order. One that is
//! missing without having been said to be, of another volume, of an earlier one, or too small is refused by name before anything on it is believed.

use crate::create::CreateError;
use crate::open::OpenError;
use crate::sync_io::SyncIo;
use nearhead_disk::{At, Disk, DiskError, DiskErrorKind, Lane};
use nearhead_format::data_device::{DATA_DEVICE_COPIES, DATA_HEADER_BYTES, DATA_START_BYTES};
use nearhead_format::layout::{DATA_PART_ALIGN, DataParts};
use nearhead_format::{DataDevice, Superblock, VolumeId};

/// What the data devices at hand would add to a volume, in the order in which they were named.
///
/// # Errors
/// There are more than a volume can have, or one has no room for anything.
pub(crate) fn parts(io: &SyncIo<'_>) -> Result<DataParts, DiskError> {
    let too_small =
        |disk: &&dyn Disk| DataDevice::part_bytes(disk.properties().capacity_bytes) == 0;
    if let Some(disk) = io.data_disks().find(too_small) {
        let found = disk.properties();
        let least = DATA_START_BYTES + DATA_PART_ALIGN;
        return Err(invalid(format!(
            "data device {}: expected at least {least} bytes, found {}; take a larger one",
            found.name, found.capacity_bytes
        )));
    }
    let bytes: Vec<u64> = io
        .data_disks()
        .map(|disk| DataDevice::part_bytes(disk.properties().capacity_bytes))
        .collect();
    let parts = DataParts::of(&bytes).ok_or_else(|| {
        let most = nearhead_format::layout::DATA_DEVICES_MAX;
        invalid(format!("data devices: expected at most {most}, found {}", bytes.len()))
    })?;
    let for_logs = io.for_logs();
    parts.with_log_devices(for_logs as u32).ok_or_else(|| {
        invalid(format!(
            "log devices: expected a data device beside {for_logs} of them, found none"
        ))
    })
}

pub(crate) fn invalid(detail: String) -> DiskError {
    DiskError { kind: DiskErrorKind::Invalid, detail }
}

/// Whether the data devices at hand have sectors that a new volume can do with.
///
/// # Errors
/// Those of one are larger than the volume's own.
pub(crate) fn check_sectors(io: &SyncIo<'_>, superblock: &Superblock) -> Result<(), DiskError> {
    let sector_bytes = superblock.layout.sector_bytes;
    if let Some(name) = with_larger_sectors(io, sector_bytes) {
        let detail =
            format!("data device {name}: expected sectors of at most {sector_bytes} bytes");
        return Err(invalid(format!("{detail}; use a log device with sectors as large")));
    }
    refuse_larger_physical_sectors(io, superblock)
}

/// Prepares the data devices of a new volume, in the order in which they were named.
pub(crate) fn create(io: &mut SyncIo<'_>, superblock: &Superblock) -> Result<(), CreateError> {
    check_sectors(io, superblock)?;
    let parts = &superblock.layout.data_parts;
    for (position, bytes) in (0..).zip(parts.bytes()) {
        let volume_id = superblock.volume_id;
        let (devices, bytes) = (parts.count(), *bytes);
        let header = DataDevice { volume_id, position, devices, bytes };
        for (copy, offset) in (0..).zip(DATA_DEVICE_COPIES) {
            io.write(At { lane: Lane::data(position as u8), offset }, &header.encode(copy))?;
        }
    }
    io.flush()?;
    io.join(&superblock.layout, &(0..parts.bytes().len()).collect::<Vec<_>>());
    Ok(())
}

/// A record shares no physical sector with its neighbour, on any device of logs.
fn refuse_larger_physical_sectors(
    io: &SyncIo<'_>,
    superblock: &Superblock,
) -> Result<(), DiskError> {
    let most = superblock.layout.log_block_bytes;
    let for_logs = io.data_disks().skip(superblock.layout.data_parts.with_homes());
    let mut found =
        for_logs.map(|disk| (&disk.properties().name, disk.properties().physical_sector_bytes));
    match found.find(|(_, sectors)| *sectors > most) {
        None => Ok(()),
        Some((name, sectors)) => Err(invalid(format!(
            "log device {name}: expected physical sectors of at most {most} bytes as the volume's own device has, found {sectors}; \
             name that one first"
        ))),
    }
}

fn with_larger_sectors(io: &SyncIo<'_>, sector_bytes: u32) -> Option<String> {
    let larger = io.data_disks().find(|disk| disk.properties().sector_bytes > sector_bytes);
    larger.map(|disk| disk.properties().name.clone())
}

/// What messages call the device at a position: of a chain the volume's own is link 0, of log devices it is the first as well.
pub(crate) fn called(superblock: &Superblock, position: usize) -> String {
    let (noun, number) = named(superblock, position);
    format!("{noun} {number}")
}

fn named(superblock: &Superblock, position: usize) -> (&'static str, usize) {
    let with_homes = superblock.layout.data_parts.with_homes();
    match position.checked_sub(with_homes) {
        _ if superblock.layout.is_chain() => ("link", position + 1),
        Some(number) => ("log device", number + 1),
        None => ("data device", position),
    }
}

/// All of them in one go: `data device 0 and 1 and log device 1`.
fn called_together(superblock: &Superblock, positions: &[usize]) -> String {
    let named: Vec<_> = positions.iter().map(|position| named(superblock, *position)).collect();
    let alike = named.chunk_by(|one, next| one.0 == next.0).map(|alike| {
        let numbers: Vec<String> = alike.iter().map(|(_, number)| number.to_string()).collect();
        format!("{} {}", alike[0].0, numbers.join(" and "))
    });
    alike.collect::<Vec<_>>().join(" and ")
}

/// Finds which of the devices at hand is at which position, so that the addresses of the volume go on over them.
pub(crate) fn join(io: &mut SyncIo<'_>, superblock: &Superblock) -> Result<(), OpenError> {
    let device = io.disk().properties().name.clone();
    let refuse = |problem| OpenError::Recovery { device, problem };
    let order = order(io, superblock).map_err(refuse)?;
    io.join(&superblock.layout, &order);
    Ok(())
}

/// The number of the device at hand for each position.
fn order(io: &mut SyncIo<'_>, superblock: &Superblock) -> Result<Vec<usize>, String> {
    let expected = superblock.layout.data_parts.bytes();
    let at_hand = io.data_disks().count();
    if expected.is_empty() && at_hand > 0 {
        return Err("the volume lies on one device; leave --data-devices out".to_owned());
    }
    let is_absent =
        |io: &SyncIo<'_>, number| io.data_disks().nth(number).is_some_and(Disk::is_absent);
    let (absent, there): (Vec<_>, Vec<_>) = (0..at_hand).partition(|number| is_absent(io, *number));
    let mut order = vec![None; expected.len()];
    for number in there {
        let found = look(io, number)?;
        let name = name_of(io, number);
        let position = check(&found, superblock, &name)?;
        if let Some(other) = order[position].replace(number) {
            let other = name_of(io, other);
            let called = called(superblock, position);
            return Err(format!("{called}: found twice, as {other} and as {name}"));
        }
        let capacity =
            io.data_disks().nth(number).map_or(0, |disk| disk.properties().capacity_bytes);
        let needed = DATA_START_BYTES + expected[position];
        if capacity < needed {
            let called = called(superblock, position);
            return Err(format!(
                "{called}, {name}: expected {needed} bytes, found {capacity}; restore its full size first"
            ));
        }
    }
    without(&mut order, &absent, superblock)?;
    Ok(order.into_iter().flatten().collect())
}

/// Puts those that were said to be missing where nothing was found: as many as that, and not where the map is.
fn without(
    order: &mut [Option<usize>],
    absent: &[usize],
    superblock: &Superblock,
) -> Result<(), String> {
    let expected = order.len();
    let empty: Vec<usize> = (0..expected).filter(|at| order[*at].is_none()).collect();
    let (noun, flag) = match superblock.layout.data_parts.log_devices() {
        _ if superblock.layout.is_chain() => ("link", "--chain"),
        0 => ("data device", "--data-devices"),
        _ => ("data or log device", "--data-devices and --log-devices"),
    };
    let which = called_together(superblock, &empty);
    if absent.len() > empty.len() {
        return Err(format!(
            "expected {expected} {noun}s beside the first device, found {} and {} said to be missing; leave the word out for those that are there",
            expected - empty.len(),
            absent.len()
        ));
    }
    if absent.len() < empty.len() {
        let (found, said) = (expected - empty.len(), absent.len());
        let said =
            if said == 0 { String::new() } else { format!(" and {said} said to be missing") };
        return Err(format!(
            "expected {expected} {noun}s beside the first device, found {found}{said}; {which} was not named: name all of them with {flag}, \
             `missing` for one that is not there"
        ));
    }
    // Of a chain the snapshots are on the volume's own device.
    let has_snapshots = superblock.map_device_id.is_none() && !superblock.layout.is_chain();
    if empty.first() == Some(&0) && has_snapshots {
        return Err(
            "data device 0 is missing, which has the snapshots of the map: nothing can be found without it; attach it".to_owned(),
        );
    }
    for (at, number) in empty.into_iter().zip(absent) {
        order[at] = Some(*number);
    }
    Ok(())
}

fn name_of(io: &SyncIo<'_>, number: usize) -> String {
    io.data_disks().nth(number).map(|disk| disk.properties().name.clone()).unwrap_or_default()
}

/// What a device says of itself, by whichever copy is sound.
fn look(io: &mut SyncIo<'_>, number: usize) -> Result<DataDevice, String> {
    let mut problems = Vec::new();
    for (copy, offset) in (0..).zip(DATA_DEVICE_COPIES) {
        match io.read_data(number, offset, DATA_HEADER_BYTES) {
            Ok(bytes) => match DataDevice::decode(&bytes, copy) {
                Ok(found) => return Ok(found),
                Err(error) => problems.push(error.to_string()),
            },
            Err(error) => problems.push(error.to_string()),
        }
    }
    Err(format!(
        "{}: expected a data device of the volume, found none ({}); check the path",
        name_of(io, number),
        problems.join("; copy: ")
    ))
}

/// The position that a device has in the volume, if it is the volume's.
fn check(found: &DataDevice, superblock: &Superblock, name: &str) -> Result<usize, String> {
    let hex = |id: &VolumeId| format!("{:032x}", u128::from_be_bytes(*id));
    if found.volume_id != superblock.volume_id {
        return Err(format!(
            "{name}: expected a data device of volume {}, found one of {}; name the right one",
            hex(&superblock.volume_id),
            hex(&found.volume_id)
        ));
    }
    let parts = superblock.layout.data_parts.bytes();
    let position = found.position as usize;
    if found.devices as usize == parts.len() && parts.get(position) == Some(&found.bytes) {
        return Ok(position);
    }
    Err(format!(
        "{name}: expected one of {} data devices as the superblock has them, found number {} of {} with {} bytes",
        parts.len(),
        found.position,
        found.devices,
        found.bytes
    ))
}
