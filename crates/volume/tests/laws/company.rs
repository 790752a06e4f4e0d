//! Activities that seldom meet, brought together on purpose: one begins while another is under way, a step later in
//! each run, on a log small enough that both come to the same blocks. At every record and every snapshot that becomes
//! durable from then on a cut is tried beside it (`support/beside.rs`), with the newest snapshot whole and rotten.
//!
//! Each test says which company it is about and fails if that never came together: a test that drives past it would
//! find nothing for ever.

use crate::support::beside::Beside;
use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::Step;
use nearhead_disk::Nanos;
use nearhead_engine::{Activities, Activity};
use nearhead_format::AckMode;

/// Logged blocks, every other one, so that each has an entry of its own; more than half of the log.
const BLOCKS: u64 = 72;
const APART: u64 = 8;
/// Sectors that are written and looked at.
const SPAN: u64 = 768;
/// Where a client is busy beside all that.
const BUSY: u64 = BLOCKS * APART + 64;

fn options(ack: AckMode, moves: bool) -> Options {
    Options {
        swap_above_pct: moves.then_some(30),
        logged_write_bytes_max: Some(32 << 10),
        snapshot_after_bytes: 64 << 20,
        watermark_pct: None,
        ..Options::new("mlb", ack)
    }
}

/// One life, watched.
struct Watched {
    harness: Harness,
    beside: Beside,
    wanted: Activities,
    /// The company came together.
    has_met: bool,
    what: String,
}

impl Watched {
    /// A volume with logged blocks, the last of them the first on the volume: what moves a log in its order and what
    /// goes home in the order of the volume begin at different ends.
    fn new(options: Options, wanted: (Activity, Activity), what: String) -> Self {
        let mut harness = Harness::new(options);
        // Nothing of it is blank any more: writes in place need not wait for that to be said.
        harness.apply(&Step::Write { start: 0, count: SPAN, fua: true });
        harness.apply(&Step::Settle);
        for block in (0..BLOCKS).rev() {
            harness.apply(&Step::Write { start: block * APART, count: 8, fua: true });
            harness.drive();
        }
        let wanted = Activities::pair(wanted.0, wanted.1);
        Self { harness, beside: Beside::default(), wanted, has_met: false, what }
    }

    fn apply(&mut self, step: &Step) {
        self.harness.apply(step);
        self.watch();
    }

    /// On to the next event; false if there is none.
    fn jump(&mut self) -> bool {
        let goes_on = self.harness.jump();
        self.watch();
        goes_on
    }

    fn on(&mut self) {
        let _is_at_rest = !self.jump();
    }

    /// On for a while, less than to the next event.
    fn pass(&mut self, micros: u64) {
        self.harness.apply(&Step::Turn { micros });
        self.watch();
    }

    fn watch(&mut self) {
        self.harness.drive();
        let activities = self.harness.volume().engine().activities();
        self.has_met |= activities.has_all(self.wanted);
        // What was there before the company is the business of other tests.
        if self.has_met
            && let Err(problem) = self.beside.look(&mut self.harness, SPAN)
        {
            panic!("{}: {problem}", self.what);
        }
    }

    fn start_snapshot(&mut self) {
        let now = self.harness.now;
        self.harness.volume().start_snapshot(now);
        self.watch();
    }

    /// A snapshot more than now is durable.
    fn wait_for_snapshot(&mut self, number: u64) {
        while self.harness.volume().status().snapshot_number <= number {
            assert!(self.jump(), "{}: no snapshot comes", self.what);
        }
    }

    fn number(&mut self) -> u64 {
        self.harness.volume().status().snapshot_number
    }

    /// Everything that goes on by itself has ended; then the power goes.
    fn end(mut self) -> bool {
        self.apply(&Step::Settle);
        for _ in 0..40 {
            if !self.jump() {
                break;
            }
        }
        self.apply(&Step::Cut { seed: 1 });
        self.has_met
    }
}

/// How many of these lives met what they are about.
fn count_met(lives: impl Iterator<Item = bool>) -> usize {
    lives.filter(|has_met| *has_met).count()
}

/// The blocks that one record moves must not be those that it lets go: a replay would move what went home.
#[test]
fn a_block_that_is_moved_and_brought_home_at_once_comes_back_from_no_log() {
    let pair = (Activity::SwapChunks, Activity::CheckpointRelease);
    let life = |(begins, busy): (u64, u64)| {
        let what = format!("a checkpoint from event {begins} on, a client that is busy for {busy}");
        let mut life = Watched::new(options(AckMode::Durable, true), pair, what);
        (0..begins).for_each(|_| life.on());
        life.apply(&Step::Checkpoint { everything: true });
        // A client's record goes before one that moves blocks: those wait, and the checkpoint catches up.
        for number in 0..busy {
            life.apply(&Step::Write { start: BUSY + number % 4 * APART, count: 8, fua: true });
            life.on();
        }
        (0..3).for_each(|_| life.on());
        // What is home is overwritten there, and no record tells of that.
        life.apply(&Step::Write { start: 0, count: BLOCKS * APART, fua: true });
        life.end()
    };
    let met =
        count_met((3..6).flat_map(|begins| (4..12).map(move |busy| (begins, busy))).map(life));
    assert!(met > 2, "only {met} lives had chunks to move beside blocks to let go");
}

/// A snapshot that began while blocks are moved would not know of the move, and the record that is behind it would bring
/// back what was overwritten at home meanwhile.
#[test]
fn what_was_overwritten_while_it_was_moved_comes_back_behind_no_snapshot() {
    let pair = (Activity::RecordThatMoves, Activity::InPlaceWrite);
    let life = |(begins, waits, place): (u64, u64, u64)| {
        let what = format!("sector {place} at event {begins} and a half, a snapshot {waits} later");
        let mut life = Watched::new(options(AckMode::Flush, true), pair, what);
        (0..begins).for_each(|_| life.on());
        // One transfer, as long under way as a record: half a step apart, it ends while the next one is on its way.
        life.pass(50);
        life.apply(&Step::Write { start: place, count: 128, fua: false });
        (0..waits).for_each(|_| life.on());
        for _ in 0..2 {
            let number = life.number();
            life.start_snapshot();
            life.wait_for_snapshot(number);
        }
        life.apply(&Step::Flush);
        life.end()
    };
    // Which blocks the last record moves is the engine's business: each is written by some life.
    let places = (0..BLOCKS * APART - 128).step_by(128);
    let all = (5..10).flat_map(|begins| (1..3).map(move |waits| (begins, waits)));
    let all = all.flat_map(|(begins, waits)| places.clone().map(move |at| (begins, waits, at)));
    let met = count_met(all.map(life));
    assert!(met > 4, "only {met} lives had a record that moves beside a write in place");
}

/// What a record on its way takes back is counted when it is durable, also if a snapshot says so before.
#[test]
fn what_a_record_takes_back_while_a_snapshot_ends_is_counted_once() {
    let pair = (Activity::RecordThatTakesBack, Activity::SnapshotCopy);
    let life = |begins: u64| {
        let what = format!("a durable write at event {begins} of the second snapshot");
        let mut life = Watched::new(options(AckMode::Flush, false), pair, what);
        life.apply(&Step::Settle);
        life.apply(&Step::Write { start: 0, count: 256, fua: false });
        life.apply(&Step::Settle);
        let number = life.number();
        life.start_snapshot();
        life.wait_for_snapshot(number);
        life.start_snapshot();
        (0..begins).for_each(|_| life.on());
        // Taken back later than what the snapshot settles, and by no record yet.
        life.apply(&Step::Write { start: 256, count: 256, fua: false });
        life.harness.pass(Nanos::from_micros(1));
        life.apply(&Step::Write { start: BUSY, count: 8, fua: true });
        life.wait_for_snapshot(number + 1);
        life.apply(&Step::Flush);
        life.end()
    };
    let met = count_met((0..10).map(life));
    assert!(met > 0, "no life had such a record beside the end of a snapshot");
}
