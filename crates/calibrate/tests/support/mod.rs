//! A drive model in virtual time as a drive to calibrate, whose every answer is seen late.

use nearhead_basics::SplitMix;
use nearhead_calibrate::{Drive, DriveError, Facts, Timed};
use nearhead_disk::{Class, Command, CommandId, Disk, Nanos, Payload, Submission, Ticket};
use nearhead_models::{Dataless, HddModel, HddOptions, Profile};
use std::path::PathBuf;

/// Drives whose packages DiskSim comes with.
#[allow(dead_code, reason = "not for every test")]
pub(crate) const MEASURED: [&str; 8] = [
    "hp_c2247a",
    "st41601n",
    "atlas10k",
    "atlas_III",
    "barracuda",
    "cheetah4LP",
    "cheetah9LP",
    "ibm18es",
];

/// Where those packages are; says that the test is skipped if they are not there.
#[allow(dead_code, reason = "not for every test")]
pub(crate) fn measured_disks() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("NEARHEAD_SHARED").map_or_else(beside, PathBuf::from);
    let disks = root.join("disks/disksim-valid");
    if !disks.exists() {
        println!("skipped: no disks/disksim-valid under NEARHEAD_SHARED");
        return None;
    }
    Some(disks)
}

/// One sector in so many is not where it should be: far more than a drive has.
const REMAPPED_ONE_IN: u64 = 10_000;

/// A drive model, and a host that is now and then late.
pub(crate) struct Emulated {
    disk: HddModel,
    now: Nanos,
    number: u64,
    jitter_us: u64,
    random: SplitMix,
}

impl Emulated {
    pub(crate) fn new(profile: &Profile, options: HddOptions, seed: u64, jitter_us: u64) -> Self {
        let disk = HddModel::new(profile, Box::new(Dataless), options).unwrap();
        // Drives have been turning since before anybody looked.
        let now = Nanos(1 + seed * 1_234_567);
        Self { disk, now, number: 0, jitter_us, random: SplitMix::new(seed) }
    }

    /// Time goes by before a command is handed over, or its end is seen.
    fn be_late(&mut self) {
        let us = self.random.below(self.jitter_us + 1);
        // One in a hundred is very late: another program had the processor.
        let us = if self.jitter_us > 0 && self.random.below(100) == 0 { 40 * us } else { us };
        self.now += Nanos::from_micros(us);
    }

    fn time(&mut self, command: Command) -> Result<Timed, DriveError> {
        let left_at = self.now;
        self.number += 1;
        let ticket = Ticket::new(CommandId(self.number));
        self.be_late();
        self.disk.submit(Submission { ticket, class: Class::Foreground, command }, self.now);
        loop {
            self.now = self.disk.wake_at().expect("a command ends").max(self.now);
            if let Some(done) = self.disk.poll(self.now) {
                done.result.map_err(|error| DriveError { problem: error.to_string() })?;
                break;
            }
        }
        self.be_late();
        let ended_at = self.now;
        Ok(Timed { left_at, ended_at })
    }
}

impl Drive for Emulated {
    fn facts(&self) -> Facts {
        let properties = self.disk.properties();
        Facts {
            capacity_bytes: properties.capacity_bytes,
            sector_bytes: properties.sector_bytes,
            physical_sector_bytes: properties.physical_sector_bytes,
        }
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn read(&mut self, offset: u64, bytes: u32) -> Result<Timed, DriveError> {
        // Some sectors were found bad and lie among the spares at the drive's end.
        let spares = self.disk.properties().capacity_bytes / 64;
        let is_elsewhere = SplitMix::new(offset).below(REMAPPED_ONE_IN) == 0;
        let home = (self.disk.properties().capacity_bytes - spares + offset % spares) / 4096 * 4096;
        let offset = if is_elsewhere { home } else { offset };
        self.time(Command::Read { offset, len: bytes })
    }

    fn write(&mut self, offset: u64, bytes: u32) -> Result<Timed, DriveError> {
        let parts = vec![Payload::Phantom(bytes as usize)];
        self.time(Command::Write { offset, parts, durable: true })
    }
}
