//! Short workloads, a cut at every change of the disk's state, every outcome of the cut.
//!
//! All sequences of up to three operations at two overlapping addresses, each either after the one
//! before is done or while it is under way; at each moment every subset of the unflushed writes, with
//! tears of each write in it. Every image is recovered and what can be read is held against the
//! oracle; recovery must write nothing, so that recovering twice is recovering once; and of some
//! images the volume is used and cut again.
//!
//! `EXHAUSTIVE_STRIDE=7` runs one in seven of the sequences of three, for a quick look.

mod image;

use crate::support::content::{SECTOR, versions};
use crate::support::disk::{CutPoint, TestDisk};
use crate::support::harness::{Harness, Options};
use crate::support::oracle::Oracle;
use crate::support::steps::Step;
use image::{ImageDisk, Shared, TornSector, TornWrite, hash, torn_writes};
use nearhead_disk::Nanos;
use nearhead_engine::{Operation, Request, RequestId};
use nearhead_format::AckMode;
use nearhead_models::{MemoryStore, SplitMix, Store};
use nearhead_volume::{Service, Volume};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sectors that the operations touch.
const TOUCHED_SECTORS: u64 = 64;
/// Writes up to this many bytes are logged; the large ones here are three times as long.
const LOGGED_BYTES_MAX: u32 = 4096;
/// Unflushed writes of which every subset is tried; of more a sample.
const SUBSETS_OF_WRITES_MAX: usize = 10;
/// Images of which the volume is used and cut again: one in so many.
const CONTINUE_ONE_IN: u64 = 512;

const OPERATIONS: u64 = 18;
/// Number of sequences: operations, and whether each after the first waits for the one before.
const fn sequences(length: u32) -> u64 {
    OPERATIONS.pow(length) * 2_u64.pow(length - 1)
}

fn operation(number: u64) -> Step {
    let second = number % 2 == 1;
    let (small, large) = if second { ((10, 8), (8, 24)) } else { ((8, 4), (0, 24)) };
    match number / 2 {
        0 => Step::Write { start: small.0, count: small.1, fua: false },
        1 => Step::Write { start: small.0, count: small.1, fua: true },
        2 => Step::Write { start: large.0, count: large.1, fua: false },
        3 => Step::Write { start: large.0, count: large.1, fua: true },
        4 => Step::Zeroes { start: large.0, count: large.1 - 8, fua: second },
        5 => Step::Trim { start: small.0, count: small.1 + 8, fua: second },
        6 => Step::Atomic { start: small.0, other: small.0 + 24, count: 4 },
        7 => Step::Checkpoint { everything: second },
        _ if second => Step::Zeroes { start: 9, count: 2, fua: true },
        _ => Step::Flush,
    }
}

/// A sequence, by its number.
#[derive(Clone, Debug)]
struct Sequence {
    steps: Vec<(Step, bool)>,
}

impl Sequence {
    fn new(length: u32, mut number: u64) -> Self {
        let mut steps = Vec::new();
        for place in 0..length {
            let step = operation(number % OPERATIONS);
            number /= OPERATIONS;
            let waits = place > 0 && number % 2 == 1;
            if place > 0 {
                number /= 2;
            }
            steps.push((step, waits));
        }
        Self { steps }
    }
}

fn configurations() -> Vec<Options> {
    let mut all = Vec::new();
    for preset in ["singlelog", "mlb", "nolog"] {
        for ack in [AckMode::Durable, AckMode::Flush] {
            for snapshot_after_bytes in [2 << 10, 1 << 20] {
                all.push(Options {
                    snapshot_after_bytes,
                    logged_write_bytes_max: Some(if preset == "nolog" {
                        0
                    } else {
                        LOGGED_BYTES_MAX
                    }),
                    swap_above_pct: None,
                    ..Options::new(preset, ack)
                });
            }
        }
    }
    all
}

/// One workload in one configuration, with everything that was seen on the way.
struct Case {
    name: String,
    options: Options,
    points: Vec<(CutPoint, Rc<Oracle>)>,
    /// The first point after the last operation: shorter sequences cover what was before.
    check_from: usize,
    regions: Vec<Range<u64>>,
}

fn run_sequence(options: &Options, empty: &MemoryStore, sequence: &Sequence, name: String) -> Case {
    let properties = options.disk_properties();
    let mut disk =
        TestDisk::with_image(properties, empty.clone()).with_latency(Nanos::from_micros(100));
    disk.cut_points = Some(Vec::new());
    let mut harness = Harness::start(options.clone(), disk);
    let (options, points, regions) = (options.clone(), Vec::new(), Vec::new());
    let mut case = Case { name, options, points, check_from: 0, regions };
    let layout = &harness.volume().superblock().layout;
    let log_bytes = layout.log_bytes;
    let logs = (0..layout.log_count()).filter_map(|index| layout.log_offset(index));
    case.regions = logs.map(|start| start..start + log_bytes).collect();
    for (place, (step, waits)) in sequence.steps.iter().enumerate() {
        if *waits {
            watch_until_done(&mut harness, &mut case);
        }
        if place + 1 == sequence.steps.len() {
            case.check_from = case.points.len();
        }
        harness.apply(step);
        watch(&mut harness, &mut case);
    }
    watch_until_done(&mut harness, &mut case);
    case
}

/// Takes note of every state of the disk up to now, with what the client had been told before.
fn watch(harness: &mut Harness, case: &mut Case) {
    for _ in 0..2 {
        let before = Rc::new(harness.oracle.clone());
        harness.drive();
        let disk = harness.volume().disk_mut();
        disk.note_cut_point();
        let points = disk.cut_points.replace(Vec::new()).unwrap_or_default();
        case.points.extend(points.into_iter().map(|point| (point, Rc::clone(&before))));
    }
}

fn watch_until_done(harness: &mut Harness, case: &mut Case) {
    for _ in 0..200 {
        watch(harness, case);
        let Some(wake) = harness.volume().wake_at() else { break };
        if harness.is_settled() && wake > harness.now + Nanos::from_millis(5) {
            break;
        }
        harness.now = wake.max(harness.now);
    }
    assert!(harness.is_settled(), "{}: requests wait and nothing will happen", case.name);
}

/// The write that each sector shows. A workload has fewer than 256.
type Contents = [u8; TOUCHED_SECTORS as usize];

/// What one thread has checked.
#[derive(Default)]
struct Tally {
    /// Every image recovered so far, and what could be read then: the same image gives the same.
    images: HashMap<u64, Contents>,
    checked: u64,
    continued: u64,
}

struct Checker<'a> {
    case: &'a Case,
    tally: &'a mut Tally,
    /// Images checked against an oracle, by both hashes.
    seen: HashSet<(u64, u64)>,
    /// The hash of every sector that is safe and was written since the beginning.
    safe: HashMap<u64, u64>,
    safe_hash: u64,
}

impl Checker<'_> {
    fn run(&mut self) {
        let sector_bytes = self.case.options.sector_bytes as usize;
        let properties = self.case.options.disk_properties();
        let mut before: Vec<TornWrite> = Vec::new();
        for (number, (point, oracle)) in self.case.points.iter().enumerate() {
            let writes = torn_writes(point, sector_bytes);
            // What is not unflushed any more is safe.
            for write in &before {
                if writes.iter().all(|left| left.serial != write.serial) {
                    write.sectors.iter().for_each(|sector| self.settle(sector));
                }
            }
            if number >= self.case.check_from {
                let shared = Shared::new(&properties, &point.safe, &self.case.regions);
                self.check_outcomes(&shared, &writes, oracle);
            }
            before = writes;
        }
    }

    fn settle(&mut self, sector: &TornSector) {
        let old = self.safe.insert(sector.offset, sector.hash).unwrap_or(0);
        self.safe_hash ^= old ^ sector.hash;
    }

    fn check_outcomes(&mut self, shared: &Rc<Shared>, writes: &[TornWrite], oracle: &Oracle) {
        let all = 1_u64 << writes.len().min(SUBSETS_OF_WRITES_MAX);
        let mut random = SplitMix::new(hash(writes.len() as u64, self.case.name.as_bytes()));
        for number in 0..all {
            let sampled = writes.len() > SUBSETS_OF_WRITES_MAX;
            let subset = if sampled { random.next_u64() } else { number };
            let survives = |index: usize| subset >> index.min(63) & 1 == 1;
            self.check_one(shared, writes, oracle, &|index, _| survives(index));
            for torn in (0..writes.len()).filter(|index| survives(*index)) {
                let count = writes[torn].sectors.len();
                // Every prefix of a short write, eight of a long one; then some scattered tears.
                for step in 1..count.min(9) {
                    let prefix = step * count / count.min(9);
                    self.check_one(shared, writes, oracle, &|index, sector| {
                        survives(index) && (index != torn || sector < prefix)
                    });
                }
                for _ in 0..if count > 2 { 3 } else { 0 } {
                    let coins = SplitMix::new(random.next_u64());
                    self.check_one(shared, writes, oracle, &|index, sector| {
                        survives(index) && (index != torn || coins.clone().nth_coin(sector as u64))
                    });
                }
            }
        }
    }

    fn check_one(
        &mut self,
        shared: &Rc<Shared>,
        writes: &[TornWrite],
        oracle: &Oracle,
        keep: &dyn Fn(usize, usize) -> bool,
    ) {
        let mut overlay: BTreeMap<u64, &TornSector> = BTreeMap::new();
        for (index, write) in writes.iter().enumerate() {
            let kept = write.sectors.iter().enumerate().filter(|(sector, _)| keep(index, *sector));
            overlay.extend(kept.map(|(_, sector)| (sector.offset, sector)));
        }
        let mut image = self.safe_hash;
        for (offset, sector) in &overlay {
            image ^= sector.hash ^ self.safe.get(offset).copied().unwrap_or(0);
        }
        if !self.seen.insert((image, oracle.epoch)) {
            return;
        }
        self.tally.checked += 1;
        let case = self.case;
        let fail =
            |problem: String| -> ! { panic!("{}\nimage {image:016x}: {problem}", case.name) };
        let overlay = || {
            let sectors = overlay.iter();
            sectors.map(|(offset, sector)| (*offset, Rc::clone(&sector.bytes))).collect()
        };
        let known = self.tally.images.get(&image).copied();
        let contents = known.unwrap_or_else(|| {
            recover(&case.options, shared, overlay()).unwrap_or_else(|problem| fail(problem))
        });
        self.tally.images.insert(image, contents);
        let read = (0..).zip(contents.map(u64::from)).collect();
        if let Err(problem) = oracle.check_restart(&read) {
            fail(problem);
        }
        if known.is_some() {
            return;
        }
        if image.is_multiple_of(CONTINUE_ONE_IN) {
            self.tally.continued += 1;
            go_on(&self.case.options, shared, &overlay(), oracle, image);
        }
    }
}

type Overlay = BTreeMap<u64, Rc<Vec<u8>>>;

/// Recovers the image and reads what the workload may have changed.
fn recover(options: &Options, shared: &Rc<Shared>, overlay: Overlay) -> Result<Contents, String> {
    let disk = ImageDisk::new(shared, overlay);
    let opened = Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, config| {
        options.configure(config);
        // A snapshot that is due after the restart is not recovery's.
        config.snapshot_after_bytes = u64::MAX;
    });
    let (mut volume, now) = opened.map_err(|error| error.to_string())?;
    volume.run_until_open(now).map_err(|error| error.to_string())?;
    let damage = volume.status().damage;
    if !damage.is_empty() {
        return Err(format!("a cut is no damage, but recovery says: {damage:?}"));
    }
    let operation = Operation::Read { offset: 0, len: (TOUCHED_SECTORS * SECTOR) as u32 };
    volume.submit(Request { id: RequestId(1), operation }, now);
    volume.drive(now);
    let reply = volume.poll_reply().ok_or("the read is not answered")?;
    let parts = reply.result.map_err(|error| error.to_string())?;
    if volume.disk().changes > 0 {
        return Err(format!("recovery changed the disk {} times", volume.disk().changes));
    }
    let mut contents = [0; TOUCHED_SECTORS as usize];
    for (place, version) in contents.iter_mut().zip(versions(0, &parts)?) {
        let unknown = |_| format!("version {version} was never written");
        *place = u8::try_from(version).map_err(unknown)?;
    }
    Ok(contents)
}

/// Recovers, uses the volume, cuts it once more and recovers again.
fn go_on(options: &Options, shared: &Rc<Shared>, overlay: &Overlay, oracle: &Oracle, seed: u64) {
    let mut image = shared.safe.clone();
    for (offset, bytes) in overlay {
        image.write(*offset, bytes).unwrap();
    }
    let disk = TestDisk::with_image(shared.properties.clone(), image)
        .with_latency(Nanos::from_micros(100));
    let mut random = SplitMix::new(seed);
    let mut harness = Harness::resume(options.clone(), disk, oracle.clone());
    for _ in 0..4 {
        harness.apply(&operation(random.below(OPERATIONS)));
        harness.apply(&Step::Turn { micros: random.below(300) });
    }
    harness.apply(&Step::Cut { seed: random.next_u64() });
    harness.apply(&operation(random.below(4)));
    harness.apply(&Step::Settle);
    harness.apply(&Step::Cut { seed: random.next_u64() });
}

/// The sequences to run, as length and number, each with its configuration.
fn plan(stride: u64, configurations: usize) -> Vec<(u32, u64, usize)> {
    let mut plan = Vec::new();
    for length in 1..=3 {
        // Spread over operations and configurations alike if the stride is odd and no multiple of 3.
        let stride = if length == 3 { stride } else { 1 };
        let total = sequences(length) * configurations as u64;
        for number in (0..total).step_by(stride as usize) {
            let configuration = (number % configurations as u64) as usize;
            plan.push((length, number / configurations as u64, configuration));
        }
    }
    plan
}

#[test]
fn every_outcome_of_a_cut_in_a_short_workload_keeps_the_laws() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let stride = number("EXHAUSTIVE_STRIDE").unwrap_or(1).max(1);
    let configurations = configurations();
    let plan = plan(stride, configurations.len());
    let only = number("EXHAUSTIVE_CASE");
    let next = AtomicU64::new(only.unwrap_or(0));
    let end = only.map_or(plan.len() as u64, |case| case + 1);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| run_cases(&plan, &configurations, &next, end, stride)))
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a law was broken")).collect()
    });
    let mut images = HashSet::new();
    let (mut checked, mut continued) = (0, 0);
    for tally in tallies {
        images.extend(tally.images.into_keys());
        checked += tally.checked;
        continued += tally.continued;
    }
    println!(
        "{} workloads (stride {stride}): {} distinct images, {checked} checks, {continued} used and cut again",
        plan.len(),
        images.len()
    );
    let reduced = only.is_some() || stride > 1;
    assert!(reduced || images.len() > 1_000_000, "only {} distinct images", images.len());
}

fn run_cases(
    plan: &[(u32, u64, usize)],
    configurations: &[Options],
    next: &AtomicU64,
    end: u64,
    stride: u64,
) -> Tally {
    let empty: Vec<MemoryStore> = configurations
        .iter()
        .map(|options| {
            let mut image = options.disk().image();
            image.consolidate();
            image
        })
        .collect();
    let mut tally = Tally::default();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= end {
            return tally;
        }
        let (length, sequence, configuration) = plan[number as usize];
        let options = &configurations[configuration];
        let sequence = Sequence::new(length, sequence);
        let name = format!(
            "repeat with: EXHAUSTIVE_STRIDE={stride} EXHAUSTIVE_CASE={number} cargo test -p nearhead-volume \
             --test laws every_outcome -- --nocapture\n{options:?}\n{sequence:?}"
        );
        let guard = Announce(&name);
        let case = run_sequence(options, &empty[configuration], &sequence, name.clone());
        let (safe, seen) = (HashMap::new(), HashSet::new());
        Checker { case: &case, tally: &mut tally, seen, safe, safe_hash: configuration as u64 }
            .run();
        std::mem::forget(guard);
    }
}

/// Says which case it was when something below panics.
struct Announce<'a>(&'a str);

impl Drop for Announce<'_> {
    fn drop(&mut self) {
        println!("{}", self.0);
    }
}
