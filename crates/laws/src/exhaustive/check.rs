//! Every outcome of a cut at every moment of a workload: recovered, read, held against the oracle.
//!
//! Images are told apart by a hash of what differs from the empty volume, so that the same image is recovered
//! once by each thread while it remembers it, and counted once by all.

use super::TOUCHED_SECTORS;
use super::image::{Shared, TornSector, TornWrite, changes_of, devices_of, hash, torn_writes};
use super::tally::Tally;
use super::workload::{Case, OPERATIONS, operation};
use crate::harness::Harness;
use crate::status::only_zeros_are_called_zeros;
use crate::steps::Step;
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_models::Store;
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_swarm::content::{SECTOR, versions};
use nearhead_swarm::oracle::Oracle;
use nearhead_volume::{Clock, Volume};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Images of which the volume is used and cut again: one in so many.
const CONTINUE_ONE_IN: u64 = 512;
/// Images that a thread remembers; it begins anew when there are more.
const KNOWN_MAX: usize = 1 << 20;

/// How many outcomes of one cut are tried.
#[derive(Clone, Copy)]
pub(super) struct Depth {
    /// Unflushed writes of which every subset is tried; of more a sample.
    subsets_of_writes_max: usize,
    /// Prefixes of a torn write: each of a short one, so many of a long one.
    prefixes_max: usize,
    /// Whether ends are tried without their beginning, too.
    suffixes: bool,
    /// Tears at random places.
    scattered: u32,
}

impl Depth {
    pub(super) const TEST: Self =
        Self { subsets_of_writes_max: 10, prefixes_max: 9, suffixes: false, scattered: 3 };
    pub(super) const SOAK: Self =
        Self { subsets_of_writes_max: 12, prefixes_max: 64, suffixes: true, scattered: 8 };
}

/// The write that each sector shows. A workload has fewer than 256.
type Contents = [u8; TOUCHED_SECTORS as usize];

/// Images a thread has recovered, and what could be read then: the same image gives the same.
pub(super) type Known = HashMap<u64, Contents>;

pub(super) struct Checker<'a> {
    case: &'a Case,
    depth: Depth,
    known: &'a mut Known,
    tally: &'a Tally,
    /// Images checked against an oracle, by both hashes.
    seen: HashSet<(u64, u64)>,
    /// What may be read, by the oracle that allows it.
    allowed: HashSet<(u64, Contents)>,
    /// The hash of every sector that is safe and was written since the beginning.
    safe: HashMap<u64, u64>,
    safe_hash: u64,
}

impl<'a> Checker<'a> {
    pub(super) fn new(
        case: &'a Case,
        configuration: usize,
        depth: Depth,
        known: &'a mut Known,
        tally: &'a Tally,
    ) -> Self {
        Self {
            case,
            depth,
            known,
            tally,
            seen: HashSet::new(),
            allowed: HashSet::new(),
            safe: HashMap::new(),
            safe_hash: configuration as u64,
        }
    }

    pub(super) fn run(&mut self) {
        let sector_bytes = self.case.options.sector_bytes as usize;
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
                let devices = self.case.options.device_properties();
                let shared = Shared::new(devices, &point.safe, &self.case.regions);
                self.check_outcomes(&Moment::new(shared, writes.as_slice(), &self.safe, oracle));
            }
            before = writes;
        }
    }

    fn settle(&mut self, sector: &TornSector) {
        let old = self.safe.insert(sector.offset, sector.hash).unwrap_or(0);
        self.safe_hash ^= old ^ sector.hash;
    }

    fn check_outcomes(&mut self, moment: &Moment) {
        let Depth { subsets_of_writes_max, prefixes_max, suffixes, scattered } = self.depth;
        let writes = moment.writes;
        let all = 1_u64 << writes.len().min(subsets_of_writes_max);
        let mut random = SplitMix::new(hash(writes.len() as u64, self.case.name.as_bytes()));
        for number in 0..all {
            let sampled = writes.len() > subsets_of_writes_max;
            let subset = if sampled { random.next_u64() } else { number };
            let survives = |index: usize| subset >> index.min(63) & 1 == 1;
            self.check_one(moment, |index, _| survives(index));
            for torn in (0..writes.len()).filter(|index| survives(*index)) {
                let count = writes[torn].sectors.len();
                for step in 1..count.min(prefixes_max) {
                    let prefix = step * count / count.min(prefixes_max);
                    self.check_one(moment, |index, sector| {
                        survives(index) && (index != torn || sector < prefix)
                    });
                    if suffixes {
                        self.check_one(moment, |index, sector| {
                            survives(index) && (index != torn || sector >= prefix)
                        });
                    }
                }
                for _ in 0..if count > 2 { scattered } else { 0 } {
                    let coins = SplitMix::new(random.next_u64());
                    self.check_one(moment, |index, sector| {
                        survives(index) && (index != torn || coins.clone().nth_coin(sector as u64))
                    });
                }
            }
        }
    }

    fn check_one(&mut self, moment: &Moment, keep: impl Fn(usize, usize) -> bool) {
        let kept = moment.kept(keep);
        let image = self.safe_hash ^ moment.difference(&kept);
        let oracle = moment.oracle;
        if !self.seen.insert((image, oracle.epoch)) {
            return;
        }
        self.tally.checked.fetch_add(1, Ordering::Relaxed);
        let case = self.case;
        let fail =
            |problem: String| -> ! { panic!("{}\nimage {image:016x}: {problem}", case.name) };
        let known = self.known.get(&image).copied();
        let contents = known.unwrap_or_else(|| {
            let overlay = overlay_of(&kept);
            recover(case, &moment.shared, overlay).unwrap_or_else(|problem| fail(problem))
        });
        if self.allowed.insert((oracle.epoch, contents)) {
            let read = (case.first_sector..).zip(contents.map(u64::from)).collect();
            if let Err(problem) = oracle.check_restart(&read) {
                fail(problem);
            }
        }
        if known.is_some() {
            return;
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(image, contents);
        self.tally.recovered(image);
        if image.is_multiple_of(CONTINUE_ONE_IN) {
            self.tally.continued.fetch_add(1, Ordering::Relaxed);
            go_on(case, &moment.shared, &overlay_of(&kept), oracle, image);
        }
    }
}

/// A moment of a workload at which power is cut: what is safe, and what may be there or not.
struct Moment<'a> {
    shared: Rc<Shared>,
    writes: &'a [TornWrite],
    oracle: &'a Oracle,
    /// For each sector of each write, in order, the number of its place among all places written.
    places: Vec<usize>,
    /// The hash of what is safe at each place.
    safe: Vec<u64>,
}

impl<'a> Moment<'a> {
    fn new(
        shared: Rc<Shared>,
        writes: &'a [TornWrite],
        safe: &HashMap<u64, u64>,
        oracle: &'a Oracle,
    ) -> Self {
        let sectors = || writes.iter().flat_map(|write| &write.sectors);
        let mut offsets: Vec<u64> = sectors().map(|sector| sector.offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        let place = |sector: &TornSector| offsets.partition_point(|at| *at < sector.offset);
        let places = sectors().map(place).collect();
        let safe = offsets.iter().map(|offset| safe.get(offset).copied().unwrap_or(0)).collect();
        Self { shared, writes, oracle, places, safe }
    }

    /// What stands at each place if the sectors that `keep` names, by write and sector, reached it.
    fn kept(&self, keep: impl Fn(usize, usize) -> bool) -> Vec<Option<&'a TornSector>> {
        let mut kept = vec![None; self.safe.len()];
        let mut places = self.places.iter();
        for (index, write) in self.writes.iter().enumerate() {
            for ((number, sector), place) in write.sectors.iter().enumerate().zip(&mut places) {
                if keep(index, number) {
                    kept[*place] = Some(sector);
                }
            }
        }
        kept
    }

    /// What `kept` changes of the hash of everything that is safe.
    fn difference(&self, kept: &[Option<&TornSector>]) -> u64 {
        let both = kept.iter().zip(&self.safe);
        both.fold(0, |hash, (sector, safe)| hash ^ sector.map_or(0, |sector| sector.hash ^ *safe))
    }
}

fn overlay_of(kept: &[Option<&TornSector>]) -> Overlay {
    let sectors = kept.iter().flatten();
    sectors.map(|sector| (sector.offset, Rc::clone(&sector.bytes))).collect()
}

type Overlay = BTreeMap<u64, Rc<Vec<u8>>>;

/// Recovers the image and reads what the workload may have changed.
fn recover(case: &Case, shared: &Rc<Shared>, overlay: Overlay) -> Result<Contents, String> {
    let (options, disks) = (&case.options, devices_of(shared, overlay));
    let clock = Clock::Virtual { now: Nanos::ZERO };
    let opened = Volume::open_with(options.presets, disks, clock, |_, config| {
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
    let offset = case.first_sector * SECTOR;
    let operation = Operation::Read { offset, len: (TOUCHED_SECTORS * SECTOR) as u32 };
    volume.submit(Request { id: RequestId(1), operation }, now);
    volume.drive(now);
    let reply = volume.poll_reply().ok_or("the read is not answered")?;
    let parts = reply.result.map_err(|error| error.to_string())?;
    let changes = changes_of(volume.lanes());
    if changes > 0 {
        return Err(format!("recovery changed the disk {changes} times"));
    }
    let mut contents = [0; TOUCHED_SECTORS as usize];
    let found = versions(case.first_sector, &parts)?;
    let extents = volume.block_status(offset, TOUCHED_SECTORS * SECTOR, usize::MAX);
    only_zeros_are_called_zeros(case.first_sector, &extents, &found)?;
    for (place, version) in contents.iter_mut().zip(found) {
        let unknown = |_| format!("version {version} was never written");
        *place = u8::try_from(version).map_err(unknown)?;
    }
    Ok(contents)
}

/// Recovers, uses the volume, cuts it once more and recovers again.
fn go_on(case: &Case, shared: &Rc<Shared>, overlay: &Overlay, oracle: &Oracle, seed: u64) {
    let mut image = shared.safe.clone();
    for (offset, bytes) in overlay {
        image.write(*offset, bytes).unwrap();
    }
    let disks = case.options.disk_with(image).with_latency(Nanos::from_micros(100));
    let mut random = SplitMix::new(seed);
    let mut harness = Harness::resume(case.options.clone(), disks, oracle.clone());
    for _ in 0..4 {
        harness.apply(&case.placed(operation(random.below(OPERATIONS))));
        harness.apply(&Step::Turn { micros: random.below(300) });
    }
    harness.apply(&Step::Cut { seed: random.next_u64() });
    harness.apply(&case.placed(operation(random.below(4))));
    harness.apply(&Step::Settle);
    harness.apply(&Step::Cut { seed: random.next_u64() });
}
