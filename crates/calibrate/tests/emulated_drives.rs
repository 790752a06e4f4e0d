//! Emulated drives: what a calibration says of them is what they are.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use nearhead_basics::SplitMix;
use nearhead_calibrate::{Drive, DriveError, Facts, Findings, Options, Timed, calibrate};
use nearhead_disk::Nanos;
use nearhead_models::{HddOptions, Profile};
use support::Emulated;

/// Calibrates a model of `profile`, and holds what is found against what it is.
fn check(profile: &Profile, options: HddOptions, seed: u64, jitter_us: u64) {
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
}

#[test]
fn a_cheetah_is_told_as_it_is_although_every_reading_is_disturbed() {
    let profile = Profile::named("st3146855fc").unwrap();
    for (seed, jitter_us) in [(1, 0), (2, 20), (3, 60)] {
        check(&profile, HddOptions::default(), seed, jitter_us);
    }
}

/// A drive that nobody built: some heads, zones, skews, a period and a memory of its own.
fn made_up(seed: u64) -> Profile {
    let mut random = SplitMix::new(seed);
    let mut between = |from: u64, to: u64| from + random.below(to - from + 1);
    let mut profile = Profile::named("constellation-es3-1tb").unwrap();
    profile.name = format!("made up, {seed}");
    let rpm = [4500, 5400, 5900, 7200, 10_000, 15_000][between(0, 5) as usize];
    // The spindle is off by a thousandth at most.
    profile.period_ns = 60_000_000_000 / rpm * between(9990, 10_010) / 10_000;
    profile.heads = between(1, 9) as u16;
    profile.skew.next_cylinder = between(40, 200) as f64 / 1e3;
    profile.skew.next_head = between(40, 250) as f64 / 1e3;
    profile.skew.next_group = between(40, 400) as f64 / 1e3;
    profile.cache.segments = [1, 8, 32, 64][between(0, 3) as usize];
    profile.command.write_ms = between(20, 400) as f64 / 1e3;
    let (count, cylinders) = (between(1, 14) as usize, profile.cylinders);
    let mut zones: Vec<_> = profile.zones[..count].to_vec();
    let mut sectors = between(60, 4000) as u32;
    for (index, zone) in zones.iter_mut().enumerate() {
        zone.first_cylinder = cylinders / count as u32 * index as u32;
        zone.sectors_per_track = sectors;
        zone.first_lbn = None;
        sectors -= (sectors * between(2, 5) as u32 / 100).max(1);
    }
    let ends = zones.iter().skip(1).map(|zone| zone.first_cylinder).chain([cylinders]);
    let lengths = zones.iter().zip(ends);
    let tracks = lengths.map(|(zone, end)| {
        u64::from(end - zone.first_cylinder) * u64::from(zone.sectors_per_track)
    });
    profile.blocks = tracks.sum::<u64>() * u64::from(profile.heads);
    profile.zones = zones;
    profile.datasheet = None;
    profile
}

#[test]
fn drives_made_up_at_random_are_told_as_they_are() {
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(8);
    for seed in 0..seeds {
        println!("repeat with: SEEDS={} cargo test -p nearhead-calibrate made_up", seed + 1);
        check(&made_up(seed), HddOptions::default(), seed, 20);
    }
}

/// Something that takes about as long wherever it is read.
struct Even {
    now: Nanos,
    random: SplitMix,
    took_us: u64,
}

impl Even {
    fn time(&mut self) -> Timed {
        let left_at = self.now;
        self.now += Nanos::from_micros(self.took_us + self.random.below(self.took_us));
        Timed { left_at, ended_at: self.now }
    }
}

impl Drive for Even {
    fn facts(&self) -> Facts {
        Facts { capacity_bytes: 64 << 30, sector_bytes: 512, physical_sector_bytes: 4096 }
    }

    fn now(&self) -> Nanos {
        self.now
    }

    fn read(&mut self, _: u64, _: u32) -> Result<Timed, DriveError> {
        Ok(self.time())
    }

    fn write(&mut self, _: u64, _: u32) -> Result<Timed, DriveError> {
        panic!("nothing may be written where no range was named");
    }
}

#[test]
fn of_what_does_not_turn_nothing_is_learned_and_that_soon() {
    for took_us in [60, 700, 5_000] {
        let mut even = Even { now: Nanos(5), random: SplitMix::new(took_us), took_us };
        let found = calibrate(&mut even, &Options::default(), &mut |_| {}).unwrap();
        let Findings::NothingToLearn(why) = found else { panic!("{took_us} us: {found:?}") };
        assert!(why.contains("nothing turns here"), "{why}");
        assert!(even.now < Nanos::from_secs(60), "{took_us} us: {}", even.now);
    }
}
