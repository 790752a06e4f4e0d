//! Law 8 for the medium: one bad sector costs the requests that touch it, and nobody else.
//!
//! Homes that cannot be written stay in the logs and are tried again; a log that cannot be written rests; where
//! neither log nor home takes a block, those who wait for that block are told. The volume goes on in every case,
//! and has forgotten all of it once the disk is mended.

use crate::support::disk::Trouble;
use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::{SPAN_SECTORS, Step};
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_engine::{DiskEvent, DiskWork, Phase};
use nearhead_format::AckMode;
use nearhead_service::ErrorKind;
use std::collections::BTreeMap;
use std::ops::Range;

const PRESETS: [&str; 8] =
    ["nolog", "singlelog", "mlb", "mlb-256", "slsmr", "mlsmr", "trail", "gecko"];
const LOGGING: [&str; 7] = ["singlelog", "mlb", "mlb-256", "slsmr", "mlsmr", "trail", "gecko"];
const BLOCK_SECTORS: u64 = 8;

/// What each request changes, by its number; a flush changes nothing.
pub(crate) struct Asked {
    pub(crate) harness: Harness,
    writes: BTreeMap<u64, Range<u64>>,
    random: SplitMix,
}

impl Asked {
    pub(crate) fn new(options: Options, seed: u64) -> Self {
        let random = SplitMix::new(seed);
        Self { harness: Harness::new(options), writes: BTreeMap::new(), random }
    }

    pub(crate) fn apply(&mut self, step: &Step) {
        let range = match *step {
            Step::Write { start, count, .. } | Step::Zeroes { start, count, .. } => {
                start..start + count
            }
            _ => 0..0,
        };
        self.writes.insert(self.harness.next_id(), range);
        self.harness.apply(step);
    }

    /// A mixture in which much more is written than the logs hold.
    pub(crate) fn work(&mut self, steps: u64) {
        for _ in 0..steps {
            let (start, fua) = (self.random.below(480) * BLOCK_SECTORS, self.random.coin());
            let few = 1 + self.random.below(24);
            let step = match self.random.below(24) {
                0 => Step::Checkpoint { everything: self.random.coin() },
                1 => Step::Flush,
                2 => Step::Write { start, count: 100 + self.random.below(200), fua },
                3 => Step::Zeroes { start, count: few, fua },
                4 => Step::Read { start, count: few },
                5..=7 => Step::Turn { micros: self.random.below(2000) },
                8 => Step::Settle,
                _ => Step::Write { start, count: few, fua },
            };
            self.apply(&step);
        }
        self.apply(&Step::Settle);
    }

    pub(crate) fn assert_serving(&mut self, what: &str) {
        let status = self.harness.volume().status();
        assert_eq!((status.phase, &status.failure), (Phase::Serving, &None), "{what}: {status:#?}");
    }

    /// With the disk in order again nothing is left of the trouble.
    pub(crate) fn mend_and_check(&mut self, what: &str) {
        self.harness.volume().disk_mut().mend();
        // What rests is not tried before that.
        self.harness.pass(Nanos::from_secs(70));
        let before = self.harness.failed.len();
        self.apply(&Step::Write { start: 0, count: SPAN_SECTORS / 8, fua: true });
        self.apply(&Step::Flush);
        self.apply(&Step::Settle);
        assert_eq!(self.harness.failed.len(), before, "{what}: {:?}", self.harness.failed);
        for _ in 0..4 {
            self.apply(&Step::Checkpoint { everything: true });
            self.harness.drive();
            while self.harness.volume().status().checkpointing && self.harness.jump() {}
        }
        let status = self.harness.volume().status();
        // What has no home stays in its log.
        let is_left = !status.links.is_empty() || status.map_entries == 0;
        assert_eq!((is_left, status.homes_failed), (true, 0), "{what}: {status:#?}");
        self.apply(&Step::Cut { seed: 1 });
        self.apply(&Step::Restart);
        self.assert_serving(what);
    }
}

fn scarce(preset: &'static str, ack: AckMode) -> Options {
    Options { logs_are_scarce: preset != "nolog", ..Options::new(preset, ack) }
}

#[test]
fn a_bad_sector_at_home_fails_only_what_touches_it() {
    let mut told = 0;
    for seed in 0..10 {
        for preset in PRESETS {
            let ack = if seed % 2 == 0 { AckMode::Durable } else { AckMode::Flush };
            let what = format!("seed {seed}, {preset}, {ack:?}");
            println!("repeat with {what}");
            let mut asked = Asked::new(scarce(preset, ack), seed);
            let layout = asked.harness.volume().superblock().layout;
            let bad: Vec<u64> = (0..=seed % 5).map(|_| asked.random.below(480)).collect();
            let home = |block: &u64| layout.home(block * 4096).unwrap().device_offset;
            let trouble = Trouble {
                bad: bad.iter().map(|block| home(block)..home(block) + 512).collect(),
                ..Trouble::default()
            };
            asked.harness.volume().disk_mut().set_trouble(trouble);
            asked.work(400);
            asked.assert_serving(&what);
            let touches_bad = |range: &Range<u64>| {
                let blocks = range.start / BLOCK_SECTORS..range.end.div_ceil(BLOCK_SECTORS);
                bad.iter().any(|block| blocks.contains(block))
            };
            for (id, kind) in &asked.harness.failed {
                let range = &asked.writes[id];
                // What was acknowledged and is not durable makes a flush fail.
                let is_flush = range.is_empty() && ack == AckMode::Flush;
                assert!(touches_bad(range) || is_flush, "{what}: {range:?} failed: {kind:?}");
            }
            while let Some(event) = asked.harness.volume().poll_disk_event() {
                told += u64::from(
                    matches!(event, DiskEvent::Failed(report) if report.work == DiskWork::HomeWrite),
                );
            }
            asked.mend_and_check(&what);
        }
    }
    assert!(told > 0, "no error was told");
}

#[test]
fn writes_that_fail_by_chance_fail_no_small_write_and_no_volume() {
    for seed in 0..10 {
        for preset in PRESETS {
            let ack = if seed % 2 == 0 { AckMode::Durable } else { AckMode::Flush };
            let what = format!("seed {seed}, {preset}, {ack:?}");
            println!("repeat with {what}");
            let options =
                if seed % 3 == 0 { scarce(preset, ack) } else { Options::new(preset, ack) };
            let mut asked = Asked::new(options, seed);
            let trouble = Trouble { one_write_in: 100, seed, ..Trouble::default() };
            asked.harness.volume().disk_mut().set_trouble(trouble);
            asked.work(400);
            asked.assert_serving(&what);
            for (id, kind) in &asked.harness.failed {
                let range = &asked.writes[id];
                let in_place = preset == "nolog" || range.end - range.start > 64;
                assert!(in_place, "{what}: {range:?} failed: {kind:?}");
            }
            asked.mend_and_check(&what);
        }
    }
}

#[test]
fn a_home_that_stays_bad_is_tried_ever_more_rarely_and_told() {
    let options = Options { idle_checkpoints: true, ..Options::new("singlelog", AckMode::Durable) };
    let mut asked = Asked::new(options, 1);
    let home = asked.harness.volume().superblock().layout.home(0).unwrap().device_offset;
    let trouble = Trouble { bad: [home..home + 512].into(), ..Trouble::default() };
    asked.harness.volume().disk_mut().set_trouble(trouble);
    asked.apply(&Step::Write { start: 0, count: 64, fua: true });
    asked.apply(&Step::Settle);
    asked.harness.pass(Nanos::from_secs(10));
    let status = asked.harness.volume().status();
    assert_eq!((status.homes_failed, status.map_entries), (1, 1), "{status:#?}");
    let first = status.disk_errors.of_work(DiskWork::HomeWrite);
    asked.harness.pass(Nanos::from_secs(1000));
    let later = asked.harness.volume().status().disk_errors.of_work(DiskWork::HomeWrite) - first;
    assert!((8..40).contains(&later), "tried {later} times in 1,000 s");
    asked.mend_and_check("one bad home");
}

/// Of two writes in place that wait for a block on its way, the first is refused with it: the second one goes on, and
/// what is put off must not come back over it.
#[test]
fn what_is_put_off_does_not_come_back_over_a_write_in_place_that_was_acknowledged() {
    for ack in [AckMode::Durable, AckMode::Flush] {
        let options =
            Options { logged_write_bytes_max: Some(32 << 10), ..scarce("singlelog", ack) };
        let mut asked = Asked::new(options, 1);
        let layout = asked.harness.volume().superblock().layout;
        let home = |block: u64| layout.home(block * 4096).unwrap().device_offset;
        let (targets, filling) = ((20..240).step_by(20), 240..480);
        let write = |start: u64, count: u64| Step::Write { start, count, fua: true };
        // Nothing of it is blank: a write in place over it need not wait for the blank map.
        asked.apply(&write(0, 240 * BLOCK_SECTORS));
        asked.apply(&Step::Settle);
        // The last sector of each of them; with some the log is filled, and stays full.
        let bad = targets.clone().chain(filling.clone());
        let bad = bad.map(|block| home(block) + 7 * 512..home(block) + 8 * 512).collect();
        asked.harness.volume().disk_mut().set_trouble(Trouble { bad, ..Trouble::default() });
        for block in filling {
            asked.apply(&write(block * BLOCK_SECTORS, BLOCK_SECTORS));
            asked.apply(&Step::Settle);
            if !asked.harness.failed.is_empty() {
                break;
            }
        }
        for target in targets {
            let (block, before) = (target * BLOCK_SECTORS, asked.harness.failed.len());
            asked.apply(&write(block, BLOCK_SECTORS));
            for _ in 0..2 {
                // It ends before the bad sector.
                asked.apply(&write(block - 96, 96 + 5));
            }
            asked.apply(&Step::Settle);
            assert!(asked.harness.failed.len() > before, "nothing was put off: {target}");
        }
        asked.mend_and_check(&format!("{ack:?}"));
    }
}

#[test]
fn a_disk_that_writes_nothing_any_more_fails_the_volume() {
    for preset in LOGGING {
        let mut asked = Asked::new(Options::new(preset, AckMode::Durable), 1);
        let everything = 0..u64::MAX;
        asked
            .harness
            .volume()
            .disk_mut()
            .set_trouble(Trouble { bad: vec![everything], ..Trouble::default() });
        asked.apply(&Step::Write { start: 0, count: 8, fua: true });
        asked.apply(&Step::Settle);
        assert_eq!(asked.harness.failed.first().map(|(_, kind)| *kind), Some(ErrorKind::Io));
        assert_eq!(asked.harness.volume().status().phase, Phase::Failed, "{preset}");
    }
}
