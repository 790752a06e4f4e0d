//! Gecko's read cache for the tail (section 4, "Caching"): how much of what is read of a tail it absorbs, on real traces, and what that is
//! worth to those who write meanwhile.
//!
//! A mix of traces is written to one log, block by block; its tail is a drive that half of all that the mix writes fits on. What is
//! read is looked for where it was written last: on the tail, or in the body, which counts for nothing here; what the trace never wrote
//! was there before, in the body. The tail's reads and writes go to the very table that the engine has for its cache, and, as the
//! best that any cache of that size could do, to one that knows the future. What it is worth is measured on a chain of disk models.

use crate::chart::LineChart;
use crate::contention::succeeded;
use crate::error::FigureError;
use crate::lab::Lab;
use crate::paper::PAPERS;
use crate::recent_reader::{RecentOptions, RecentReader};
use crate::report::{Data, Drawing, Report, Row, Value, shown};
use crate::rig::{self, SATA, System};
use crate::traces::{RealTrace, Traces};
use nearhead_disk::Nanos;
use nearhead_read_cache::Slots;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::trace::TraceRequest;
use nearhead_volume::Volume;
use std::collections::{BTreeMap, BTreeSet};

/// What the engine keeps.
const BLOCK_BYTES: u64 = 4096;
/// Sizes of the cache, in percent of the tail, beside the paper's.
const SIZES_PCT: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
/// Addresses of any trace end before.
const ADDRESSES_END: u64 = 1 << 50;
/// Of all that a mix writes so much fits on the tail, one part in so many.
const TAILS_WRITTEN: u64 = 2;

/// A drive of 120 MB/s at its outer edge, as the paper's, and how much of each is used.
const DRIVE: &str = rig::CHEETAH;
const DRIVE_BYTES: u64 = 8 << 30;
/// The oldest that is read, in bytes written since.
const AGE_BYTES_MAX: u64 = DRIVE_BYTES / 2;
/// Writes outstanding: so many that records follow one another.
const WRITES: u32 = 2048;
/// Reads a second.
const READS_PER_S: u64 = 150;

/// The paper's cache, in percent of its tail.
fn paper_pct() -> f64 {
    let gecko = &PAPERS.gecko;
    100.0 * gecko.cache_gb / gecko.cache_tail_gb
}

/// Something that happens to a place on the tail.
#[derive(Clone, Copy, Debug)]
struct Event {
    place: u64,
    is_read: bool,
}

/// What a mix does to its tail.
#[derive(Clone, Debug, Default)]
struct Tail {
    blocks: u64,
    events: Vec<Event>,
    reads: u64,
    reads_of_body: u64,
    reads_unwritten: u64,
}

fn blocks_of(request: &TraceRequest) -> std::ops::Range<u64> {
    request.offset_bytes / BLOCK_BYTES..request.end_bytes().div_ceil(BLOCK_BYTES)
}

impl Tail {
    /// Of traces that take equally long, each with addresses of its own.
    fn of(traces: &[&RealTrace]) -> Self {
        let mut merged: Vec<(f64, usize, &TraceRequest)> = Vec::new();
        for (owner, trace) in traces.iter().enumerate() {
            let count = trace.requests.len() as f64;
            let at = |number: usize| number as f64 / count;
            merged.extend(trace.requests.iter().enumerate().map(|(n, one)| (at(n), owner, one)));
        }
        merged.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let blocks = |request: &TraceRequest| blocks_of(request).count() as u64;
        let writes = merged.iter().filter(|(_, _, request)| request.write);
        let written: u64 = writes.map(|(_, _, request)| blocks(request)).sum();
        let mut tail = Self { blocks: (written / TAILS_WRITTEN).max(1), ..Self::default() };
        let (mut newest, mut end) = (BTreeMap::new(), 0_u64);
        for (_, owner, request) in merged {
            for block in blocks_of(request) {
                if request.write {
                    newest.insert((owner, block), end);
                    tail.events.push(Event { place: end, is_read: false });
                    end += 1;
                } else {
                    tail.read(newest.get(&(owner, block)).copied(), end);
                }
            }
        }
        tail
    }

    /// A block is read that was last written at `place`, while the log ends at `end`.
    fn read(&mut self, place: Option<u64>, end: u64) {
        let Some(place) = place else {
            self.reads_unwritten += 1;
            return;
        };
        if place / self.blocks == end.saturating_sub(1) / self.blocks {
            self.reads += 1;
            self.events.push(Event { place, is_read: true });
        } else {
            self.reads_of_body += 1;
        }
    }

    fn slots(&self, size_pct: f64) -> u32 {
        (self.blocks as f64 * size_pct / 100.0) as u32
    }

    /// Share of the reads that the engine's cache answers, in percent.
    fn absorbed_pct(&self, size_pct: f64) -> f64 {
        let mut slots = Slots::new(self.slots(size_pct));
        let mut hits = 0_u64;
        for event in &self.events {
            if event.is_read && slots.find(event.place).is_some() {
                hits += 1;
            } else {
                slots.keep(event.place, ());
            }
        }
        100.0 * hits as f64 / self.reads.max(1) as f64
    }

    /// The same of a cache that lets go of what is read again last, or never (Belady, 1966), and keeps nothing that never is.
    fn absorbed_at_best_pct(&self, size_pct: f64) -> f64 {
        let mut next = vec![u64::MAX; self.events.len()];
        let mut later = BTreeMap::new();
        for (number, event) in self.events.iter().enumerate().rev() {
            next[number] = later.insert(event.place, number as u64).unwrap_or(u64::MAX);
        }
        let room = self.slots(size_pct) as usize;
        let (mut kept, mut hits): (BTreeSet<(u64, u64)>, u64) = (BTreeSet::new(), 0);
        for (number, event) in self.events.iter().enumerate() {
            hits += u64::from(kept.remove(&(number as u64, event.place)) && event.is_read);
            if next[number] != u64::MAX {
                kept.insert((next[number], event.place));
            }
            if kept.len() > room {
                kept.pop_last();
            }
        }
        100.0 * hits as f64 / self.reads.max(1) as f64
    }
}

/// What was found of a mix.
struct Mixed {
    name: String,
    tail: Tail,
    /// Size in percent, absorbed, and at best.
    points: Vec<(f64, f64, f64)>,
}

/// Each trace by itself, those that go together, and all.
fn mixes(traces: &Traces, quickly: bool) -> Result<Vec<(String, Vec<RealTrace>)>, FigureError> {
    let mut found: Vec<RealTrace> = traces.dtrs(ADDRESSES_END)?.into_iter().collect();
    found.extend(traces.others(ADDRESSES_END)?);
    // The shortest first: what goes with the next one, and with all.
    found.sort_by_key(|trace| trace.requests.len());
    let count = if quickly { found.len().min(1) } else { found.len() };
    let mut mixes: Vec<Vec<RealTrace>> =
        found[..count].iter().map(|one| vec![one.clone()]).collect();
    for other in found.iter().take(count).skip(1) {
        mixes.push(vec![found[0].clone(), other.clone()]);
    }
    if count > 2 {
        mixes.push(found);
    }
    let name = |mix: &Vec<RealTrace>| {
        mix.iter().map(|trace| trace.name.as_str()).collect::<Vec<_>>().join(" and ")
    };
    Ok(mixes.into_iter().map(|mix| (name(&mix), mix)).collect())
}

fn absorbed(name: &str, mix: &[RealTrace]) -> Mixed {
    let tail = Tail::of(&mix.iter().collect::<Vec<_>>());
    let mut sizes: Vec<f64> = SIZES_PCT.into_iter().chain([paper_pct()]).collect();
    sizes.sort_by(f64::total_cmp);
    let point = |size| (size, tail.absorbed_pct(size), tail.absorbed_at_best_pct(size));
    let points = sizes.into_iter().map(point).collect();
    Mixed { name: name.to_owned(), tail, points }
}

/// What clients got of a chain.
struct Served {
    cache_bytes: u64,
    reads_per_s: u64,
    write_mb_s: f64,
    write_mean_ms: f64,
    write_p99_ms: f64,
    read_mean_ms: f64,
    read_p99_ms: f64,
    absorbed_pct: Option<f64>,
}

fn serve(cache_pct: f64, reads_per_s: u64, seconds: u64) -> Result<Served, FigureError> {
    let what = format!("a chain with a cache of {cache_pct} %");
    let stuck = |problem| FigureError::Stuck { what: what.clone(), problem };
    let cache_bytes = (DRIVE_BYTES as f64 * cache_pct / 100.0) as u64;
    let disk = || rig::hard_disk(DRIVE, SATA);
    let system = System::of_preset("gecko")?;
    let mut volume: Volume<_> =
        rig::chain_with(vec![disk()?, disk()?], &system, DRIVE_BYTES, |config| {
            config.read_cache_bytes = cache_bytes;
        })?;
    let mut clients = RecentReader::new(RecentOptions {
        // So that nothing has to be cleaned: what comes round was all overwritten.
        size_bytes: volume.info().size_bytes / 2,
        age_bytes_max: AGE_BYTES_MAX,
        writes: WRITES,
        read_every: (reads_per_s > 0).then(|| Nanos(1_000_000_000 / reads_per_s.max(1))),
        seed: 1,
    });
    let mut time = VirtualTime::default();
    while clients.written_bytes() <= AGE_BYTES_MAX {
        let until = time.now() + Nanos::from_millis(100);
        time.run(&mut volume, &mut [&mut clients], until).map_err(stuck)?;
    }
    nearhead_sim::workload::Workload::start_measuring(&mut clients, time.now());
    let before = volume.status().stats;
    let until = time.now() + Nanos::from_secs(seconds);
    time.run(&mut volume, &mut [&mut clients], until).map_err(stuck)?;
    let after = volume.status().stats;
    let hits = after.read_cache_hits - before.read_cache_hits;
    let of = hits + after.read_cache_misses - before.read_cache_misses;
    let (writes, reads) =
        (clients.writes().summary(time.now()), clients.reads().summary(time.now()));
    succeeded(&what, &[&writes, &reads])?;
    Ok(Served {
        cache_bytes,
        reads_per_s,
        write_mb_s: writes.bytes_per_s / 1e6,
        write_mean_ms: writes.latency.mean_ms,
        write_p99_ms: writes.latency.p99_ms,
        read_mean_ms: reads.latency.mean_ms,
        read_p99_ms: reads.latency.p99_ms,
        absorbed_pct: (of > 0).then(|| 100.0 * hits as f64 / of as f64),
    })
}

fn trace_rows(found: &[Mixed]) -> Vec<Row> {
    let gecko = &PAPERS.gecko;
    if found.is_empty() {
        let why = "no traces at hand; name their folder with --traces".to_owned();
        let row = Row::new("reads of the tail absorbed", "%").paper(gecko.tail_cache_hit_pct);
        return vec![row.ours(Value::NotRun(why))];
    }
    let at_paper = |mixed: &Mixed| {
        let point = mixed.points.iter().find(|point| (point.0 - paper_pct()).abs() < 1e-9);
        point.map_or((f64::NAN, f64::NAN), |point| (point.1, point.2))
    };
    let row = |mixed: &Mixed| {
        let (ours, best) = at_paper(mixed);
        let size = shown(paper_pct());
        Row::new(format!("{}: reads of the tail absorbed by {size} % of it", mixed.name), "%")
            .paper(gecko.tail_cache_hit_pct)
            .goal(gecko.tail_cache_hit_pct)
            .ours(ours)
            .limit(best)
    };
    found.iter().map(row).collect()
}

fn served_rows(served: &[Served]) -> Vec<Row> {
    let plain = |of: &Served| {
        served.iter().find(|one| one.cache_bytes == 0 && one.reads_per_s == of.reads_per_s)
    };
    let rows = |one: &Served| {
        let Served { reads_per_s, cache_bytes, .. } = one;
        let cache = format!("chain, {reads_per_s} reads/s, cache of {} MiB", cache_bytes >> 20);
        let row = |what: &str, unit, of: fn(&Served) -> f64| {
            Row::new(format!("{cache}: {what}"), unit).baseline(plain(one).map(of)).ours(of(one))
        };
        [
            row("writes", "MB/s", |served| served.write_mb_s),
            row("a write, p99", "ms", |served| served.write_p99_ms),
            row("a read, mean", "ms", |served| served.read_mean_ms),
        ]
    };
    let alone = served.iter().filter(|one| one.reads_per_s == 0);
    let alone = alone.map(|one| Row::new("chain, no reads: writes", "MB/s").ours(one.write_mb_s));
    alone.chain(served.iter().filter(|one| one.cache_bytes > 0).flat_map(rows)).collect()
}

fn trace_data(found: &[Mixed]) -> [Data; 2] {
    let columns = ["mix", "cache_pct_of_tail", "absorbed_pct", "absorbed_at_best_pct"];
    let mut sizes = Data::new("sizes", &columns);
    let columns =
        ["mix", "tail_mb", "reads_of_tail", "reads_of_body", "reads_of_what_was_never_written"];
    let mut mixes = Data::new("mixes", &columns);
    for Mixed { name, tail, points } in found {
        mixes.push([
            name.clone(),
            format!("{:.0}", (tail.blocks * BLOCK_BYTES) as f64 / 1e6),
            tail.reads.to_string(),
            tail.reads_of_body.to_string(),
            tail.reads_unwritten.to_string(),
        ]);
        for (size, ours, best) in points {
            let number = |value: &f64| format!("{value:.1}");
            sizes.push([name.clone(), number(size), number(ours), number(best)]);
        }
    }
    [sizes, mixes]
}

fn served_data(served: &[Served]) -> Data {
    let columns = [
        "reads_per_s",
        "cache_mib",
        "write_mb_s",
        "write_ms_mean",
        "write_ms_p99",
        "read_ms_mean",
        "read_ms_p99",
        "absorbed_pct",
    ];
    let mut data = Data::new("chain", &columns);
    for one in served {
        data.push([
            one.reads_per_s.to_string(),
            (one.cache_bytes >> 20).to_string(),
            format!("{:.1}", one.write_mb_s),
            format!("{:.2}", one.write_mean_ms),
            format!("{:.2}", one.write_p99_ms),
            format!("{:.2}", one.read_mean_ms),
            format!("{:.2}", one.read_p99_ms),
            one.absorbed_pct.map_or(String::new(), |pct| format!("{pct:.1}")),
        ]);
    }
    data
}

/// The figure.
pub(crate) fn gecko_cache(lab: &mut Lab<'_>) -> Result<Report, FigureError> {
    let mixes = mixes(&lab.traces, lab.effort.pick(false, false, true))?;
    let steps = mixes.into_iter().map(|(name, mix)| (name.clone(), (name, mix)));
    let found =
        lab.each("gecko-cache", steps.collect(), |_, (name, mix)| Ok(absorbed(&name, &mix)))?;
    let seconds = lab.effort.pick(60, 20, 2);
    let all = [
        (0.0, 0),
        (0.0, 50),
        (paper_pct(), 50),
        (0.0, READS_PER_S),
        (1.0, READS_PER_S),
        (paper_pct(), READS_PER_S),
        (16.0, READS_PER_S),
    ];
    let all = &all[..lab.effort.pick(7, 7, 3)];
    let steps = all.iter().map(|one| (format!("{} reads/s, {:.1} %", one.1, one.0), *one));
    let served = lab.each("gecko-cache", steps.collect(), |_, (cache_pct, reads_per_s)| {
        serve(cache_pct, reads_per_s, seconds)
    })?;
    let series = found.iter().map(|mixed| {
        let points = mixed.points.iter().map(|(size, ours, _)| (*size, *ours)).collect();
        (mixed.name.clone(), points)
    });
    let chart = LineChart {
        title: "Reads of the tail that a cache absorbs",
        x_label: "size of the cache, % of the tail",
        y_label: "% of the reads",
        x_decades: true,
        y_decades: false,
        series: series.collect(),
    };
    let mut data: Vec<Data> = trace_data(&found).into();
    data.push(served_data(&served));
    let drawings =
        if found.is_empty() { Vec::new() } else { vec![Drawing::new("sizes", chart.render())?] };
    Ok(Report {
        name: "gecko-cache",
        title: "Gecko 4: a read cache for the tail".to_owned(),
        ran: format!(
            "Traces as they are, blocks of 4 KiB appended to one log, a tail of half of what the mix writes; a cache in the paper's proportion \
             ({} GB for {} GB) and of 1 to 16 %: the engine's table, which takes what is written and what was missed. Limit: a cache that \
             knows the future. The chain: the first {} GiB of two {DRIVE}, write caches off, {WRITES} durable writes of 4 KiB outstanding one block \
             after the other, beside them reads at a fixed rate of what was written 1 MiB to {} GiB before, as many of each doubling; means of {seconds} s. \
             'Baseline' has no cache.",
            PAPERS.gecko.cache_gb,
            PAPERS.gecko.cache_tail_gb,
            DRIVE_BYTES >> 30,
            AGE_BYTES_MAX >> 30
        ),
        differs: vec![
            "The paper's mixes are of eight servers over days; the traces at hand are of minutes to two hours, with tails of tens of megabytes to one gigabyte. Few of their reads are of what they wrote themselves.".to_owned(),
            "The paper does not say what its cache lets go of, nor whether writes are put in.".to_owned(),
        ],
        findings: Vec::new(),
        rows: trace_rows(&found).into_iter().chain(served_rows(&served)).collect(),
        data,
        drawings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(requests: &[(bool, u64)]) -> RealTrace {
        let request = |(write, block): &(bool, u64)| TraceRequest {
            at: Nanos::ZERO,
            device: 0,
            offset_bytes: block * BLOCK_BYTES,
            len_bytes: BLOCK_BYTES as u32,
            write: *write,
            response: None,
            think: None,
        };
        RealTrace { name: "made up".to_owned(), requests: requests.iter().map(request).collect() }
    }

    #[test]
    fn a_read_is_of_the_tail_the_body_or_of_what_was_never_written() {
        // A tail of two blocks: 0 and 1, then 2 and 3.
        let requests = [
            (true, 10),
            (false, 10),
            (true, 11),
            (true, 12),
            (false, 10),
            (true, 10),
            (false, 10),
            (false, 99),
        ];
        let tail = Tail::of(&[&trace(&requests)]);
        assert_eq!(
            (tail.blocks, tail.reads, tail.reads_of_body, tail.reads_unwritten),
            (2, 2, 1, 1)
        );
        assert!((tail.absorbed_at_best_pct(100.0) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_cache_gives_writers_back_what_readers_of_the_tail_took() {
        let (plain, cached) = (serve(0.0, 50, 2).unwrap(), serve(paper_pct(), 50, 2).unwrap());
        assert!(cached.absorbed_pct.unwrap() > 50.0 && plain.absorbed_pct.is_none());
        assert!(cached.write_mb_s > plain.write_mb_s);
        assert!(cached.read_mean_ms < plain.read_mean_ms);
    }

    #[test]
    fn no_cache_is_better_than_one_that_knows_the_future() {
        let mut random = nearhead_basics::Random::new(5);
        let requests: Vec<(bool, u64)> = (0..20_000)
            .map(|_| (random.happens(0.3), random.below(40) * random.below(40)))
            .collect();
        let tail = Tail::of(&[&trace(&requests)]);
        let mut last = 0.0;
        for size in [1.0, 4.0, 16.0, 64.0] {
            let (ours, best) = (tail.absorbed_pct(size), tail.absorbed_at_best_pct(size));
            assert!(ours <= best && best >= last, "{size}: {ours} and {best}, {last} before");
            last = best;
        }
        assert!(last > 50.0);
    }
}
