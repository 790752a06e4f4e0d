//! A drive model in virtual time as a drive to calibrate, whose every answer is seen late, and what must be found of it.

use nearhead_basics::SplitMix;
use nearhead_calibrate::{
    Calibration, Drive, DriveError, Facts, Findings, Options, Timed, calibrate,
};
use nearhead_disk::{Class, Command, CommandId, Disk, Nanos, Payload, Submission, Ticket};
use nearhead_models::{Dataless, HddModel, HddOptions, Profile};

/// One sector in so many is not where it should be: far more than a drive has.
const REMAPPED_ONE_IN: u64 = 10_000;

/// A drive model, and a host that is now and then late.
pub(crate) struct Emulated {
    pub(crate) disk: HddModel,
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

/// Calibrates a model of `profile`, and holds what is found against what it is.
pub(crate) fn check(
    profile: &Profile,
    options: HddOptions,
    seed: u64,
    jitter_us: u64,
) -> Calibration {
    let what = format!("{}, seed {seed}, up to {jitter_us} us late", profile.name);
    let mut drive = Emulated::new(profile, options, seed, jitter_us);
    let asked = Options { seed, scratch: Some(0..64 << 20), ..Options::default() };
    let found = calibrate(&mut drive, &asked, &mut |_| {}).unwrap();
    let Findings::Turns(found) = found else { panic!("{what}: {found:?}") };
    println!(
        "{what}: {:?} {:?} {} reads, {} s",
        found.turning, found.overhead, found.reads, found.took_s
    );
    let ppm = (found.turning.period_ns / profile.period_ns as f64 - 1.0).abs() * 1e6;
    assert!(ppm < 10.0, "{what}: {ppm} ppm off");
    assert!(found.took_s <= 301.0, "{what}: {} s", found.took_s);
    let geometry = profile.geometry().unwrap();
    let (mut alike, mut probed) = (0, 0);
    for zone in &found.zones {
        let lbn = zone.first_byte / u64::from(profile.sector_bytes);
        let per_track = u64::from(geometry.locate(lbn).sectors_per_track);
        println!("  at sector {lbn}: {} found, {per_track} are there", zone.sectors_per_track);
        probed += zone.tracks_probed;
        alike += if zone.sectors_per_track == per_track { zone.tracks_alike } else { 0 };
    }
    let overhead = found.overhead.unwrap_or_else(|| panic!("{what}: no overhead"));
    // A host that is late to hand a command over, and to see the one before end, is so by as much in the middle.
    let truth_us = 1e3 * profile.command.write_ms + jitter_us as f64;
    assert!(
        (overhead.write_us - truth_us).abs() < overhead.doubt_us.max(50.0),
        "{what}: {overhead:?}, {truth_us} us is there"
    );
    let share = f64::from(alike) / f64::from(probed.max(1));
    assert!(probed >= 20 && share >= 0.95, "{what}: {alike} of {probed} tracks");
    found
}
