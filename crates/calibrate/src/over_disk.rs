//! A disk as a drive to calibrate: one command at a time, in real time or in virtual time.

use crate::{Drive, DriveError, Facts, Findings, Options, Timed, calibrate};
use nearhead_disk::{BufferMut, Command, Disk, Nanos, Payload, Tracks};
use nearhead_volume::SyncIo;

/// A disk, one command at a time.
pub struct OverDisk<'a> {
    io: SyncIo<'a>,
    name: String,
}

impl<'a> OverDisk<'a> {
    /// `name` is what it is called in errors.
    pub fn new(io: SyncIo<'a>, name: &str) -> Self {
        Self { io, name: name.to_owned() }
    }

    fn time(&mut self, command: Command, what: &str, offset: u64) -> Result<Timed, DriveError> {
        let left_at = self.io.now();
        let done = self.io.run(command);
        let ended_at = self.io.now();
        done.map_err(|error| DriveError {
            problem: format!("{}: {what} at byte {offset} failed: {error}", self.name),
        })?;
        Ok(Timed { left_at, ended_at })
    }
}

impl Drive for OverDisk<'_> {
    fn facts(&self) -> Facts {
        let properties = self.io.disk().properties();
        Facts {
            capacity_bytes: properties.capacity_bytes,
            sector_bytes: properties.sector_bytes,
            physical_sector_bytes: properties.physical_sector_bytes,
        }
    }

    fn now(&self) -> Nanos {
        self.io.now()
    }

    fn read(&mut self, offset: u64, bytes: u32) -> Result<Timed, DriveError> {
        self.time(Command::Read { offset, len: bytes }, "a read", offset)
    }

    fn write(&mut self, offset: u64, bytes: u32) -> Result<Timed, DriveError> {
        let parts = vec![Payload::Bytes(BufferMut::zeroed(bytes as usize).freeze())];
        self.time(Command::Write { offset, parts, durable: true }, "a write", offset)
    }
}

/// Where the tracks of an emulated disk are, found out in virtual time by reads alone: a moment, and the same each time. The disk is
/// not as it was afterwards: its arm moved, and time went by. `None`: nothing turns, or it is more than one disk.
///
/// # Errors
/// A command failed, or nothing can be computed from what was found.
pub fn tracks_in_virtual_time(disk: &mut dyn Disk) -> Result<Option<Tracks>, String> {
    let properties = disk.properties();
    if !properties.rotational || properties.width > 1 {
        return Ok(None);
    }
    let name = properties.name.clone();
    let mut drive = OverDisk::new(SyncIo::in_virtual_time(disk, Nanos::ZERO), &name);
    let found = calibrate(&mut drive, &Options::default(), &mut |_| {});
    match found.map_err(|error| error.to_string())? {
        Findings::NothingToLearn(_) => Ok(None),
        Findings::Turns(found) => {
            found.tracks().map(Some).map_err(|error| format!("{name}: {error}"))
        }
    }
}
