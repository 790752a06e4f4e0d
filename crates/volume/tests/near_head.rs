//! Where records go on a disk with a head: near where it is, as far as a host can know that. Addresses are
//! compared, and once times, which are virtual.

#![allow(clippy::unwrap_used)]

use nearhead_basics::SplitMix;
use nearhead_disk::{Completion, Disk, Nanos, Payload, Properties, Submission};
use nearhead_format::{AckMode, Place};
use nearhead_models::{HddModel, ModelSpec};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::create::describe;
use nearhead_volume::{CreateOptions, NamedPreset, Volume};

const DISK: &str = "constellation-es3-1tb,content=none,cache=off,depth=32";
const GB: u64 = 1_000_000_000;
/// Part of the disk where reads move the arm, and how long it is.
const HERE: u64 = 100 * GB;
const SPAN: u64 = 10 * GB;
/// Far from it.
const THERE: u64 = 800 * GB;
/// Home of what is written: far from both.
const WRITTEN: u64 = 450 * GB;
/// A log is written only once it is claimed, by an earlier record: the first ones go where they may.
const WARM_UP: u64 = 20;
const ROUNDS: u64 = 300;

/// The disk, which may not tell how fast it turns.
struct Turning {
    disk: HddModel,
    properties: Properties,
}

impl Disk for Turning {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.disk.poll(now)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.disk.wake_at()
    }
}

struct Run {
    volume: Volume<Turning>,
    now: Nanos,
    next: u64,
    random: SplitMix,
    /// Records whose log is nearer to `THERE` than to `HERE`, after the warm-up.
    there: u64,
    here: u64,
}

impl Run {
    fn new() -> Self {
        Self::on(|_| {})
    }

    /// On a disk that says of itself what `told` makes of the truth.
    fn on(told: fn(&mut Properties)) -> Self {
        let disk = ModelSpec::parse(DISK).unwrap().build().unwrap();
        let mut properties = disk.properties().clone();
        told(&mut properties);
        let disk = Turning { disk, properties };
        let preset = NamedPreset::by_name("mlb-256").unwrap();
        let options =
            CreateOptions { ack: AckMode::Durable, ..CreateOptions::new([7; 16], preset) };
        let superblock = describe(disk.properties(), None, &options).unwrap();
        let volume = Volume::start_empty(disk, superblock, preset, |_, _| {});
        Self { volume, now: Nanos::ZERO, next: 0, random: SplitMix::new(1), there: 0, here: 0 }
    }

    fn send(&mut self, operation: Operation) -> u64 {
        self.next += 1;
        self.volume.submit(Request { id: RequestId(self.next), operation }, self.now);
        self.volume.drive(self.now);
        self.next
    }

    /// Drives until `id` is answered.
    fn wait(&mut self, id: u64) {
        loop {
            self.volume.drive(self.now);
            while let Some(reply) = self.volume.poll_reply() {
                reply.result.unwrap();
                if reply.id.0 == id {
                    return;
                }
            }
            self.now = self.volume.wake_at().unwrap().max(self.now);
        }
    }

    fn read(&mut self, offset: u64) -> u64 {
        self.send(Operation::Read { offset: offset / 4096 * 4096, len: 4096 })
    }

    fn read_somewhere(&mut self, start: u64) -> u64 {
        let offset = start + self.random.below(SPAN);
        self.read(offset)
    }

    /// Writes a block durably, and books where its record went.
    fn write(&mut self, round: u64) {
        let offset = WRITTEN / 4096 * 4096 + round * 4096;
        let data = Payload::Phantom(4096);
        let id = self.send(Operation::Write { offset, data, fua: true });
        self.wait(id);
        let entry = self.volume.engine().map().iter_from(offset / 512).next().unwrap();
        let Place::Log { chunk_sector, .. } = entry.place else { panic!("{entry:?}: not logged") };
        if round >= WARM_UP {
            let at = chunk_sector * 512;
            let is_there = at.abs_diff(THERE) < at.abs_diff(HERE);
            self.there += u64::from(is_there);
            self.here += u64::from(!is_there);
        }
    }
}

#[test]
fn reads_from_the_drives_memory_do_not_lead_records_away_from_the_head() {
    let mut run = Run::new();
    for round in 0..ROUNDS {
        let id = run.read_somewhere(HERE);
        run.wait(id);
        // The same block again and again: only the first time does the arm go there.
        let id = run.read(THERE);
        run.wait(id);
        run.write(round);
    }
    assert_eq!((run.here, run.there), (ROUNDS - WARM_UP, 0));
}

/// Mean virtual time of a durable write on a drive with nothing else to do.
fn mean_idle_write(told: fn(&mut Properties)) -> Nanos {
    let mut run = Run::on(told);
    let mut total = 0;
    for round in 0..ROUNDS {
        let offset = HERE + run.random.below(GB);
        let id = run.read(offset);
        run.wait(id);
        run.now += Nanos(run.random.below(20_000_000));
        let begun = run.now;
        run.write(round);
        total += run.now.since(begun).0;
    }
    Nanos(total / ROUNDS)
}

#[test]
fn of_the_logs_near_the_head_the_one_that_comes_round_soonest_takes_the_record() {
    let told = mean_idle_write(|_| {});
    let untold = mean_idle_write(|properties| properties.rotation_period = None);
    // A record in one log waits half a revolution, 4.17 ms; with several to choose from it waits less.
    assert!(
        told + Nanos(1_000_000) < untold,
        "{told} where the speed is told, {untold} where it is not"
    );
}

#[test]
fn a_record_goes_where_the_drive_is_going() {
    let mut run = Run::new();
    for round in 0..ROUNDS {
        let id = run.read_somewhere(THERE);
        run.wait(id);
        let id = run.read_somewhere(HERE);
        // Longer than an answer from memory takes, shorter than the way there.
        run.now += Nanos::from_micros(1500);
        run.write(round);
        run.wait_if_open(id);
    }
    assert_eq!((run.here, run.there), (ROUNDS - WARM_UP, 0));
}

impl Run {
    /// Drives until nothing is outstanding; `id` may have been answered before.
    fn wait_if_open(&mut self, id: u64) {
        let after = self.read(WRITTEN);
        assert!(after > id);
        self.wait(after);
        self.now += Nanos::from_millis(200);
        self.volume.drive(self.now);
        while self.volume.poll_reply().is_some() {}
    }
}
