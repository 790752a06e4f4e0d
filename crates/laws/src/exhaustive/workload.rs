//! The short workloads: which there are, by number, and what happens while one runs.
//!
//! Two overlapping addresses, nine sorts of operation, each after the one before is done or while it is under
//! way; four configurations of each preset. Up to three operations in order of their number; of four and five, in soaks,
//! groups that differ in the last operation alone, spread over everything, so that any part of them is a fair
//! sample and neighbours share what was recovered before.

use crate::disk::CutPoint;
use crate::harness::Harness;
use crate::options::Options;
use crate::steps::Step;
use nearhead_disk::Nanos;
use nearhead_format::{AckMode, Layout};
use nearhead_models::MemoryStore;
use nearhead_service::Service;
use nearhead_swarm::content::SECTOR;
use nearhead_swarm::oracle::Oracle;
use nearhead_volume::{NamedPreset, Presets};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

/// Writes up to this many bytes are logged; the large ones here are three times as long.
const LOGGED_BYTES_MAX: u32 = 4096;

/// Operations there are.
pub(super) const OPERATIONS: u64 = 18;

pub(super) fn operation(number: u64) -> Step {
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

/// A sequence, by its number: each step, and whether it waits for the one before.
pub(super) struct Sequence {
    steps: Vec<(Step, bool)>,
}

impl Sequence {
    pub(super) fn new(length: u32, mut number: u64) -> Self {
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

    /// All but the last operation.
    #[cfg(test)]
    pub(super) fn beginning(&self) -> String {
        format!("{:?}", &self.steps[..self.steps.len() - 1])
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.steps)
    }
}

/// What the workloads run on: in four ways a preset, of which records leave blocks out if it `wanders`.
pub fn configurations(presets: Presets, preset: NamedPreset, wanders: bool) -> Vec<Options> {
    let mut all = Vec::new();
    let logged = if preset.layout.has_logs() { LOGGED_BYTES_MAX } else { 0 };
    for ack in [AckMode::Durable, AckMode::Flush] {
        for snapshot_after_bytes in [2 << 10, 1 << 20] {
            all.push(Options {
                wanders,
                snapshot_after_bytes,
                logged_write_bytes_max: Some(logged),
                swap_above_pct: None,
                ..Options::of(presets, preset, ack)
            });
        }
    }
    all
}

/// One workload in one configuration, with everything that was seen on the way.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) options: Options,
    pub(super) points: Vec<(CutPoint, Rc<Oracle>)>,
    /// The first point after the last operation: shorter sequences cover what was before.
    pub(super) check_from: usize,
    pub(super) regions: Vec<Range<u64>>,
    /// Where the addresses of the operations begin: at the start of the volume, or where its first device ends, so that some of
    /// what is written is on either and some on both.
    pub(super) first_sector: u64,
}

impl Case {
    /// The step at the addresses of this case.
    pub(super) fn placed(&self, mut step: Step) -> Step {
        match &mut step {
            Step::Write { start, .. } | Step::Zeroes { start, .. } | Step::Trim { start, .. } => {
                *start += self.first_sector;
            }
            Step::Atomic { start, other, .. } => {
                *start += self.first_sector;
                *other += self.first_sector;
            }
            _ => {}
        }
        step
    }
}

/// Sectors of the operations that are on the first of several devices.
const BEFORE_BORDER_SECTORS: u64 = 16;

fn first_sector(layout: &Layout) -> u64 {
    let border = layout.home_pieces(0, u64::MAX).nth(1).filter(|_| !layout.data_parts.is_empty());
    border.map_or(0, |piece| piece.client_offset / SECTOR - BEFORE_BORDER_SECTORS)
}

pub(super) fn run_sequence(
    options: &Options,
    empty: &MemoryStore,
    sequence: &Sequence,
    name: String,
) -> Case {
    let mut disk = options.disk_with(empty.clone()).with_latency(Nanos::from_micros(100));
    disk.watch_cuts();
    let mut harness = Harness::start(options.clone(), disk);
    let (options, points, regions) = (options.clone(), Vec::new(), Vec::new());
    let layout = harness.volume().superblock().layout;
    let first_sector = first_sector(&layout);
    let mut case = Case { name, options, points, check_from: 0, regions, first_sector };
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
        harness.apply(&case.placed(step.clone()));
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
        let points = disk.take_cut_points();
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
