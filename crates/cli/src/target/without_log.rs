//! A volume of the preset `trail` whose log device is lost, read from its data devices alone.
//!
//! An empty disk in memory is in the place of the log device. So nothing may be written: the volume is read-only, and its devices are
//! opened for reading. That the data devices hold everything their labels say to the library.

use super::data::Beside;
use super::{Access, DiskArgs, Opened, Target, open_disk, with_map_device};
use nearhead_disk::{Disk, Nanos};
use nearhead_format::Superblock;
use nearhead_format::data_device::DATA_START_BYTES;
use nearhead_format::superblock::FEATURE_STAND_IN;
use nearhead_models::{InstantDisk, MemoryStore, plain_properties};
use nearhead_volume::without_log::{Drained, judge, part};
use nearhead_volume::{Lanes, SyncIo};
use std::time::Instant;

/// Time that a disk in memory takes for a command.
const LATENCY: Nanos = Nanos::from_micros(1);

type BoxedDisk = Box<dyn Disk + Send>;

/// The data devices that `args` name, and what they say together.
pub struct DataDevices {
    disks: Vec<BoxedDisk>,
    /// What people should know.
    pub notes: Vec<String>,
    /// The volume.
    pub drained: Drained,
}

impl DataDevices {
    /// Opens them and refuses those that do not hold all of the volume.
    pub fn open(access: Access, args: &DiskArgs, start: Instant) -> Result<Self, String> {
        let Beside { data, logs } = Beside::of(args)?;
        if let Some(log) = logs.first() {
            return Err(format!(
                "{log}: expected no log device beside --without-log and --new-log; leave --log-devices out: data devices that were drained need none"
            ));
        }
        let (mut disks, mut notes, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for text in data {
            let Opened { mut disk, notes: told, .. } = open_disk(&text, access, args, start)?;
            let found = part(&mut SyncIo::in_real_time(&mut disk, start));
            parts.push(found.ok_or_else(|| {
                format!(
                    "open {text}: expected a data device of a volume, found none; check the path"
                )
            })?);
            notes.extend(told);
            disks.push(disk);
        }
        Ok(Self { disks, notes, drained: judge(&parts)? })
    }

    /// The volume on `main`, its data devices, and a disk in memory for each further log device.
    pub fn with_main(
        self,
        main: BoxedDisk,
        superblock: &Superblock,
        (access, args, start): (Access, &DiskArgs, Instant),
    ) -> Result<Lanes<BoxedDisk>, String> {
        let Self { disks, drained, .. } = self;
        let first = disks.len() as u8;
        let headers = drained.log_devices();
        let logs =
            headers.iter().map(|log| in_memory(superblock, DATA_START_BYTES + log.bytes)).collect();
        let lanes = match &args.map_device {
            None => main.into(),
            Some(path) => with_map_device(main, path, access, args)?,
        };
        let lanes = lanes.with_data(disks).and_then(|lanes| lanes.with_log_devices(logs));
        let mut lanes = lanes.map_err(|error| error.to_string())?;
        let empty = first..first + headers.len() as u8;
        drained
            .write(&mut lanes.in_real_time(start), superblock, empty)
            .map_err(|error| error.to_string())?;
        Ok(lanes)
    }
}

fn in_memory(superblock: &Superblock, bytes: u64) -> BoxedDisk {
    let properties = plain_properties(bytes, superblock.layout.sector_bytes);
    Box::new(InstantDisk::new(properties, Box::new(MemoryStore::new()), LATENCY))
}

/// Opens the volume for reading.
pub(super) fn open(text: &str, args: &DiskArgs, start: Instant) -> Result<Target, String> {
    if text != nearhead_arrays::MISSING {
        return Err(format!(
            "open {text}: expected `missing` in place of the log device with --without-log, found another name; leave --without-log out \
             if that is the log device"
        ));
    }
    let access = Access::Read;
    let mut found = DataDevices::open(access, args, start)?;
    let mut superblock = found.drained.superblock.clone();
    superblock.feature_ro_compat |= FEATURE_STAND_IN;
    let mut notes = std::mem::take(&mut found.notes);
    notes.push(
        "the log device is missing and was drained: all is read from the data devices, and nothing can be written; `nearhead repair \
         NEW_LOG_DEVICE --new-log --data-devices ...` gives the volume a new one"
            .to_owned(),
    );
    let main = in_memory(&superblock, superblock.layout.device_bytes);
    let lanes = found.with_main(main, &superblock, (access, args, start))?;
    Ok(Target { name: text.to_owned(), lanes, notes, lone_member: None, start })
}
