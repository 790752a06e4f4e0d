//! Gecko's decoupled cleaning (its section 4): what clients who read the body of a chain of mirrored pairs see of its cleaning, with the
//! reads of cleaning on one side of each pair and without.
//!
//! The paper claims it and measures nothing of it. Half of what is written to the first pair is read later and never written again; the
//! other half is written over while the tail is on the second pair, so that cleaning has something to free and copies what is read.
//! Cleaning may begin 30 s after the first pair is full; it compacts in the body.

use crate::contention::succeeded;
use crate::error::FigureError;
use crate::gecko_cleaning::{BEFORE, in_body};
use crate::lab::Lab;
use crate::metered::Metered;
use crate::paced::Paced;
use crate::report::{Data, Report, Row};
use crate::rig::{self, FigureDisk, System};
use nearhead_arrays::ReadPolicy;
use nearhead_disk::Nanos;
use nearhead_sim::VirtualTime;
use nearhead_sim::virtual_time::Stuck;
use nearhead_sim::workload::{Bulk, BulkOptions, Content, RandomMix, RandomMixOptions, Workload};
use nearhead_volume::Volume;
use std::ops::Range;

/// The drive of the other figures of chains.
const DRIVE: &str = rig::CHEETAH;
/// So much of each is used.
const DRIVE_BYTES: u64 = 4 << 30;
/// Writes outstanding while the first pair is filled.
const FILLING: u32 = 2048;
/// Writes a second afterwards: about a third of what a pair takes.
const WRITES_PER_S: f64 = 10_000.0;
/// After either began.
const SETTLED: Nanos = Nanos::from_secs(5);

/// Who reads the body.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Readers {
    /// So many reads a second, as they come.
    PerSecond(f64),
    /// So many outstanding, always.
    Outstanding(u32),
}

impl Readers {
    const ALL: [Self; 2] = [Self::PerSecond(100.0), Self::Outstanding(8)];

    fn name(self) -> String {
        match self {
            Self::PerSecond(rate) => format!("{rate:.0} reads/s"),
            Self::Outstanding(count) => format!("{count} reads outstanding"),
        }
    }

    fn workload(self, span: Range<u64>) -> Paced<RandomMix> {
        let (outstanding_max, rate) = match self {
            Self::PerSecond(rate) => (64, Some(rate)),
            Self::Outstanding(count) => (count, None),
        };
        Paced::new(mix(span, 1.0, outstanding_max, 7), rate)
    }
}

fn mix(span: Range<u64>, reads: f64, outstanding_max: u32, seed: u64) -> RandomMix {
    RandomMix::new(RandomMixOptions {
        span,
        request_bytes: 4096,
        reads,
        fua: true,
        outstanding_max,
        requests_max: None,
        content: Content::Phantom,
        seed,
    })
}

/// How a pair serves reads.
type Sides = (ReadPolicy, bool);

const SIDES: [Sides; 4] = [
    (ReadPolicy::First, false),
    (ReadPolicy::First, true),
    (ReadPolicy::Balanced, false),
    (ReadPolicy::Balanced, true),
];

fn name((policy, apart): Sides) -> &'static str {
    match (policy, apart) {
        (ReadPolicy::First, false) => "first side, mixed",
        (ReadPolicy::First, true) => "first side, apart",
        (ReadPolicy::Balanced, false) => "both sides, mixed",
        (ReadPolicy::Balanced, true) => "both sides, apart",
    }
}

/// What readers see.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    p50_ms: f64,
    p99_ms: f64,
    per_s: f64,
}

/// Before cleaning and while it goes on, and how much of it there was.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    before: Seen,
    during: Seen,
    copied_mb_per_s: f64,
}

fn volume(sides: Sides) -> Result<Volume<FigureDisk>, FigureError> {
    let system = System { configure: in_body, ..System::of_preset("gecko")? };
    let pair = || {
        let mirror = rig::mirrored(DRIVE, sides.0, sides.1)?;
        Ok::<FigureDisk, FigureError>(Metered::new(Box::new(mirror)))
    };
    rig::chain(vec![pair()?, pair()?], &system, DRIVE_BYTES, |_| ())
}

/// What is read, and what is written over: together four fifths of the first pair.
fn spans() -> (Range<u64>, Range<u64>) {
    let each = DRIVE_BYTES / 5 * 2 / 4096 * 4096;
    (0..each, each..2 * each)
}

/// Writes both once, side by side, so that every log holds as much of each; and what is written over further, until the first
/// pair is full.
fn fill(volume: &mut Volume<FigureDisk>, time: &mut VirtualTime) -> Result<(), Stuck> {
    let (read, over) = spans();
    let sequential = |span: Range<u64>| {
        let options = BulkOptions::writer(span.clone(), Content::Phantom);
        Bulk::new(BulkOptions {
            request_bytes: 4096,
            outstanding_max: FILLING / 2,
            fua: true,
            bytes_max: Some(span.end - span.start),
            ..options
        })
    };
    let (mut one, mut other) = (sequential(read), sequential(over.clone()));
    let half = volume.engine().log_count() / 2;
    let step = Nanos::from_millis(100);
    while !(one.is_finished() && other.is_finished()) {
        time.run(volume, &mut [&mut one, &mut other], time.now() + step)?;
    }
    let mut again = mix(over, 0.0, FILLING, 1);
    while volume.engine().newest_log() < half {
        time.run(volume, &mut [&mut again], time.now() + step)?;
    }
    time.drain(volume, &mut [&mut again], Nanos::from_secs(60))
}

fn run(sides: Sides, readers: Readers, measured: Nanos) -> Result<Found, FigureError> {
    let what = format!("{}, {}", name(sides), readers.name());
    let stuck = |problem| FigureError::Stuck { what: what.clone(), problem };
    let mut volume = volume(sides)?;
    let mut time = VirtualTime::default();
    fill(&mut volume, &mut time).map_err(stuck)?;
    let (read, over) = spans();
    let mut writer = Paced::new(mix(over, 0.0, FILLING, 2), Some(WRITES_PER_S));
    let mut reader = readers.workload(read);
    let mut found = Found::default();
    let from = time.now();
    let spans = [SETTLED, BEFORE + SETTLED].map(|at| from + at);
    for (index, begin) in spans.into_iter().enumerate() {
        time.run(&mut volume, &mut [&mut writer, &mut reader], begin).map_err(stuck)?;
        reader.start_measuring(begin);
        let copied = volume.status().stats.compacted_bytes;
        let end = begin + measured;
        time.run(&mut volume, &mut [&mut writer, &mut reader], end).map_err(stuck)?;
        let tally = reader.inner.reads().summary(end);
        succeeded(&what, &[&tally, &writer.inner.writes().summary(end)])?;
        let seen = Seen {
            p50_ms: tally.latency.p50_ms,
            p99_ms: tally.latency.p99_ms,
            per_s: tally.requests_per_s,
        };
        if index == 0 {
            found.before = seen;
        } else {
            let copied = volume.status().stats.compacted_bytes - copied;
            (found.during, found.copied_mb_per_s) =
                (seen, copied as f64 / measured.as_secs_f64() / 1e6);
        }
    }
    Ok(found)
}

/// The figure.
pub(crate) fn gecko_mirrors(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let measured = Nanos::from_secs(lab.effort.pick(25, 25, 2));
    let chosen = lab.effort.pick(&SIDES[..], &SIDES[..], &SIDES[2..]);
    let cases: Vec<(Sides, Readers)> = Readers::ALL
        .into_iter()
        .flat_map(|readers| chosen.iter().map(move |sides| (*sides, readers)))
        .collect();
    let told =
        |(sides, readers): &(Sides, Readers)| format!("{}, {}", name(*sides), readers.name());
    let steps = cases.iter().map(|case| (told(case), *case)).collect();
    let done =
        lab.each("gecko-mirrors", steps, |_, (sides, readers)| run(sides, readers, measured))?;
    let found = |sides: Sides, readers: Readers| {
        let place = cases.iter().position(|case| *case == (sides, readers));
        place.map_or_else(Found::default, |place| done[place])
    };
    let mut rows = Vec::new();
    let mut data = Data::new(
        "reads",
        &["case", "while", "reads_per_s", "p50_ms", "p99_ms", "copied_mb_per_s"],
    );
    for readers in Readers::ALL {
        for policy in [ReadPolicy::First, ReadPolicy::Balanced] {
            if !chosen.contains(&(policy, true)) {
                continue;
            }
            let (mixed, apart) = (found((policy, false), readers), found((policy, true), readers));
            let sides = if policy == ReadPolicy::First { "first side" } else { "both sides" };
            let case = |what: &str| format!("{what}, {}, read from {sides}", readers.name());
            let row = |what: &str, unit, of: fn(&Found) -> f64| {
                Row::new(case(what), unit).baseline(of(&mixed)).ours(of(&apart))
            };
            rows.push(row("p99 before cleaning", "ms", |found| found.before.p99_ms));
            rows.push(row("p99 while the body is cleaned", "ms", |found| found.during.p99_ms));
            rows.push(row("median while the body is cleaned", "ms", |found| found.during.p50_ms));
            rows.push(row("reads before cleaning", "1/s", |found| found.before.per_s));
            rows.push(row("reads while the body is cleaned", "1/s", |found| found.during.per_s));
            rows.push(row("copied meanwhile", "MB/s", |found| found.copied_mb_per_s));
        }
    }
    for (case, found) in cases.iter().zip(&done) {
        let moments =
            [("before", found.before, 0.0), ("cleaning", found.during, found.copied_mb_per_s)];
        for (moment, seen, copied) in moments {
            data.push([
                told(case),
                moment.to_owned(),
                format!("{:.1}", seen.per_s),
                format!("{:.3}", seen.p50_ms),
                format!("{:.3}", seen.p99_ms),
                format!("{copied:.2}"),
            ]);
        }
    }
    Ok(Report {
        name: "gecko-mirrors",
        title: "Gecko, decoupled cleaning: reads of the body while it is cleaned".to_owned(),
        ran: format!(
            "A chain (preset gecko, compacted in its body) of two pairs of mirrored {DRIVE}, the first {} GiB of each, write caches off, the drive choosing among 32. The first pair is \
             full when the measurement begins; {WRITES_PER_S:.0} writes/s of 4 KiB then go to random places of one half of the volume, and 4 KiB reads to random places of the other, which is on the first pair. \
             Before: {} s, from {} s after the pair is full. While cleaning: the same, from {} s after cleaning may begin. 'baseline' has reads of cleaning wherever the mirror's way of choosing puts them, 'ours' keeps \
             cleaning and clients apart.",
            DRIVE_BYTES >> 30,
            measured.as_secs_f64(),
            SETTLED.as_secs_f64(),
            SETTLED.as_secs_f64(),
        ),
        differs: vec![
            "The paper proposes it for move-to-tail and measures nothing of it.".to_owned(),
            "Compaction writes its copies to both sides of its own pair; apart, to one after the other.".to_owned(),
        ],
        findings: Vec::new(),
        rows,
        data: vec![data],
        drawings: Vec::new(),
    })
}
