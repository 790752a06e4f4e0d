//! Data devices of a volume whose log device is lost: what each says by itself, and what it takes to go on without the log device.
//!
//! Each data device has a copy of the superblock beside its header and its generation. If all of them say that the volume was stopped in
//! order with nothing left in its logs, everything is at its home location: then an empty log device can take the place of the lost
//! one. What stays true: nothing is written to a data device here, no data device that is older than the others passes, and the
//! superblock of the new log device is written last.

use crate::blanks;
use crate::create::write_superblocks;
use crate::data_devices;
use crate::sync_io::SyncIo;
use nearhead_disk::{At, DiskError, Lane};
use nearhead_format::data_device::{DATA_DEVICE_COPIES, DATA_HEADER_BYTES, DATA_SUPERBLOCK_OFFSET};
use nearhead_format::generation::{GENERATION_BYTES, GENERATION_OFFSETS};
use nearhead_format::{BlankMapHeader, DataDevice, DeviceGeneration, Superblock, VolumeId};
use std::fmt::Write as _;

/// What a data device, a further log device or a further link of a chain says of itself.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its name.
    pub name: String,
    header: DataDevice,
    /// The volume's superblock; none on a device of a volume that no program with generations wrote.
    superblock: Option<Superblock>,
    generation: Option<DeviceGeneration>,
}

/// A volume whose data devices hold all of it.
#[derive(Clone, Debug)]
pub struct Drained {
    /// Its superblock.
    pub superblock: Superblock,
    generation: DeviceGeneration,
}

/// What a device says that is looked at by itself; none if it is no part of a volume beside the first device.
pub fn part(io: &mut SyncIo<'_>) -> Option<Part> {
    let name = io.disk().properties().name.clone();
    let header = (0..).zip(DATA_DEVICE_COPIES).find_map(|(copy, offset)| {
        DataDevice::decode(&io.read(offset, DATA_HEADER_BYTES).ok()?, copy).ok()
    })?;
    let superblock = io.read(DATA_SUPERBLOCK_OFFSET, 4096).ok();
    let superblock = superblock.and_then(|bytes| io.presets().decode(&bytes, 0).ok());
    let blocks = GENERATION_OFFSETS.into_iter().filter_map(|offset| {
        DeviceGeneration::decode(&io.read(offset, GENERATION_BYTES).ok()?).ok()
    });
    let is_its_own = |block: &DeviceGeneration| {
        block.volume_id == header.volume_id && block.device == header.position + 1
    };
    let generation = blocks.filter(is_its_own).max_by_key(|block| block.sequence);
    let superblock = superblock.filter(|superblock| superblock.volume_id == header.volume_id);
    Some(Part { name, header, superblock, generation })
}

impl Part {
    /// Which device of which volume it is, in which state, and how the volume is opened.
    pub fn describe(&self) -> String {
        let Self { name, header, superblock, generation } = self;
        let position = header.position as usize;
        let called = match superblock {
            Some(superblock) => data_devices::called(superblock, position),
            None => format!("data device {position}"),
        };
        let mut text = format!(
            "{name} is {called} of volume {} ({} devices beside the first)",
            hex(&header.volume_id),
            header.devices
        );
        let is_chain = superblock.as_ref().is_some_and(|superblock| superblock.layout.is_chain());
        if let Some(generation) = generation {
            let _ = write!(text, ", generation {}", generation.generation);
            if !is_chain {
                let _ = write!(text, ", {}", state(generation));
            }
        }
        let others = if header.devices > 1 { " and the others" } else { "" };
        if is_chain {
            return text + "; open it with all its links: `nearhead serve --chain FIRST,...`";
        }
        let with_homes =
            superblock.as_ref().map_or(usize::MAX, |one| one.layout.data_parts.with_homes());
        if position >= with_homes {
            let _ = write!(
                text,
                "; open it with `nearhead serve LOG_DEVICE --data-devices ... --log-devices {name}{others}`"
            );
            return text;
        }
        let _ = write!(
            text,
            "; open it with `nearhead serve LOG_DEVICE --data-devices {name}{others}`"
        );
        if generation.as_ref().is_some_and(|generation| generation.drained) && superblock.is_some()
        {
            let _ = write!(
                text,
                ", or, if the log device is lost, read it with `nearhead serve missing --without-log --data-devices {name}{others}` and \
                 give it a new one with `nearhead repair NEW_LOG_DEVICE --new-log --data-devices {name}{others}`"
            );
        }
        text
    }
}

fn state(generation: &DeviceGeneration) -> &'static str {
    match (generation.drained, generation.stopped_in_order) {
        (true, _) => "stopped in order and drained: everything is at its home location",
        (false, true) => "stopped in order and not drained: the log device has what is newest",
        (false, false) => "not stopped in order: the log device has what is newest",
    }
}

fn hex(id: &VolumeId) -> String {
    format!("{:032x}", u128::from_be_bytes(*id))
}

/// Whether the data devices hold all of the volume; those of its logs are not asked for.
///
/// # Errors
/// One is missing, older than the others, of another volume, or the volume was not drained.
pub fn judge(parts: &[Part]) -> Result<Drained, String> {
    let Some(first) = parts.first() else {
        return Err(
            "--without-log: expected the data devices, found none; name them with --data-devices"
                .to_owned(),
        );
    };
    let newest =
        parts.iter().filter_map(|part| part.generation.as_ref()).max_by_key(|one| one.generation);
    let superblock =
        parts.iter().filter_map(|part| part.superblock.as_ref()).max_by_key(|one| one.generation);
    let (Some(newest), Some(superblock)) = (newest, superblock) else {
        return Err(format!(
            "{}: expected a copy of the superblock and a generation on the data devices, found none: the volume was not opened for \
             writing since a program keeps them there; attach its log device",
            first.name
        ));
    };
    if superblock.layout.is_chain() {
        return Err(format!(
            "{}: expected data devices, found links of a chain, whose data is in its logs",
            first.name
        ));
    }
    let with_homes = superblock.layout.data_parts.with_homes();
    let mut found = vec![None; with_homes];
    for part in parts {
        let (name, position) = (&part.name, part.header.position as usize);
        if part.header.volume_id != superblock.volume_id {
            return Err(format!(
                "{name}: expected a device of volume {}, found one of {}; name the right one",
                hex(&superblock.volume_id),
                hex(&part.header.volume_id)
            ));
        }
        let generation = part.generation.as_ref().map_or(0, |one| one.generation);
        if generation != newest.generation {
            return Err(format!(
                "{name}: expected generation {} as the other data devices have it, found {generation}: it is an older copy; attach the \
                 newest one",
                newest.generation
            ));
        }
        if !part.generation.as_ref().is_some_and(|one| one.drained) {
            return Err(format!(
                "{}; without the log device what is newest would be lost: attach it",
                part.describe()
            ));
        }
        let Some(place) = found.get_mut(position) else { continue };
        if let Some(other) = place.replace(name) {
            return Err(format!("data device {position}: found twice, as {other} and as {name}"));
        }
    }
    match found.iter().position(Option::is_none) {
        Some(position) => Err(format!(
            "expected all {with_homes} data devices, found none at position {position}; name all of them with --data-devices"
        )),
        None => Ok(Drained { superblock: superblock.clone(), generation: newest.clone() }),
    }
}

impl Drained {
    /// Bytes of each further log device, by position, with the header that it has.
    pub fn log_devices(&self) -> Vec<DataDevice> {
        let parts = &self.superblock.layout.data_parts;
        let all = (0..).zip(parts.bytes());
        let header = |(position, bytes): (u32, &u64)| DataDevice {
            volume_id: self.superblock.volume_id,
            position,
            devices: parts.count(),
            bytes: *bytes,
        };
        all.skip(parts.with_homes()).map(header).collect()
    }

    /// Makes the empty disk that is in the place of the log device one, as `superblock` describes it. `empty` are the numbers of further
    /// log devices, in the order in which the devices were named, that are empty as well. The superblock is written last.
    pub fn write(
        &self,
        io: &mut SyncIo<'_>,
        superblock: &Superblock,
        empty: std::ops::Range<u8>,
    ) -> Result<(), DiskError> {
        let block = |device: u32| DeviceGeneration { device, ..self.generation.clone() };
        for (number, header) in empty.zip(self.log_devices()) {
            let at = |offset| At { lane: Lane::data(number), offset };
            for (copy, offset) in (0..).zip(DATA_DEVICE_COPIES) {
                io.write(at(offset), &header.encode(copy))?;
            }
            for offset in GENERATION_OFFSETS {
                io.write(at(offset), &block(header.position + 1).encode())?;
            }
        }
        for offset in GENERATION_OFFSETS {
            io.write(offset, &block(0).encode())?;
        }
        data_devices::join(io, superblock)
            .map_err(|error| data_devices::invalid(error.to_string()))?;
        if superblock.has_blank_map() {
            let fitting = BlankMapHeader::region_bytes_for(superblock.layout.client_bytes());
            blanks::create(io, superblock, fitting)?;
        }
        io.flush()?;
        write_superblocks(io, superblock)
    }
}

/// Puts a copy of the superblock on each device beside the first that has another one, or none.
pub(crate) fn keep_superblock(io: &mut SyncIo<'_>, superblock: &Superblock) {
    let bytes = superblock.encode(0);
    for position in 0..superblock.layout.data_parts.bytes().len() as u8 {
        let at = At { lane: Lane::data(position), offset: DATA_SUPERBLOCK_OFFSET };
        let is_there = io.lane(at.lane).is_some_and(|disk| !disk.is_absent());
        if is_there && io.read(at, bytes.len()).is_ok_and(|found| found[..] != bytes[..]) {
            // Nothing depends on it while the first device is there.
            let _ = io.write(at, &bytes);
        }
    }
}
