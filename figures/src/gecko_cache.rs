//! Gecko's read cache for the tail (section 4, "Caching"): how much of what is read of a tail it absorbs, on real traces, and what that is
//! worth to those who write meanwhile.
//!
//! What a mix of traces reads of its tail, and how much of that a cache of each size answers, `tail_reads.rs` finds out. What it is worth is
//! measured on a chain of disk models, whose clients read what was written lately (`recent_reader.rs`), the cache in memory or on a model
//! of a flash drive.

use crate::chart::LineChart;
use crate::contention::succeeded;
use crate::error::FigureError;
use crate::lab::Lab;
use crate::paper::PAPERS;
use crate::recent_reader::{RecentOptions, RecentReader};
use crate::report::{Data, Drawing, Report, Row, Value, shown};
use crate::rig::{self, FigureDisk, SATA, System};
use crate::tail_reads::Tail;
use crate::traces::{RealTrace, Traces};
use nearhead_disk::Nanos;
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_volume::Volume;

/// Sizes of the cache, in percent of the tail, beside the paper's.
const SIZES_PCT: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
/// Addresses of any trace end before.
const ADDRESSES_END: u64 = 1 << 50;

/// A drive of 120 MB/s at its outer edge, as the paper's, and how much of each is used.
const DRIVE: &str = rig::CHEETAH;
const DRIVE_BYTES: u64 = 8 << 30;
/// The oldest that is read, in bytes written since.
const AGE_BYTES_MAX: u64 = DRIVE_BYTES / 2;
/// Writes outstanding: so many that records follow one another.
const WRITES: u32 = 2048;
/// A flash drive for the cache.
const FLASH: &str = "sata-ssd-240gb";
/// Reads a second.
const READS_PER_S: u64 = 150;

/// The paper's cache, in percent of its tail.
fn paper_pct() -> f64 {
    let gecko = &PAPERS.gecko;
    100.0 * gecko.cache_gb / gecko.cache_tail_gb
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

/// A chain that is tried.
#[derive(Clone, Copy, Debug)]
struct Case {
    cache_pct: f64,
    is_on_flash: bool,
    reads_per_s: u64,
}

impl Case {
    const fn new(cache_pct: f64, reads_per_s: u64) -> Self {
        Self { cache_pct, is_on_flash: false, reads_per_s }
    }

    fn cache_bytes(self) -> u64 {
        (DRIVE_BYTES as f64 * self.cache_pct / 100.0) as u64
    }

    fn where_it_is(self) -> &'static str {
        if self.is_on_flash { "on flash" } else { "in memory" }
    }

    fn name(self) -> String {
        let Self { reads_per_s, .. } = self;
        let mib = self.cache_bytes() >> 20;
        format!("chain, {reads_per_s} reads/s, cache of {mib} MiB {}", self.where_it_is())
    }

    fn volume(self) -> Result<Volume<FigureDisk>, FigureError> {
        let disk = || rig::hard_disk(DRIVE, SATA);
        let system = System::of_preset("gecko")?;
        let bytes = self.cache_bytes();
        let (in_memory, device) = if self.is_on_flash {
            (0, Some(rig::part_of_flash(FLASH, bytes)?))
        } else {
            (bytes, None)
        };
        let disks = vec![disk()?, disk()?];
        rig::chain_with(disks, &system, DRIVE_BYTES, device, |config| {
            config.read_cache_bytes = in_memory;
        })
    }
}

/// What clients got of a chain.
struct Served {
    case: Case,
    left_out: u64,
    write_mb_s: f64,
    write_mean_ms: f64,
    write_p99_ms: f64,
    read_mean_ms: f64,
    read_p99_ms: f64,
    absorbed_pct: Option<f64>,
}

fn serve(case: Case, seconds: u64) -> Result<Served, FigureError> {
    let what = case.name();
    let stuck = |problem| FigureError::Stuck { what: what.clone(), problem };
    let mut volume = case.volume()?;
    let reads_per_s = case.reads_per_s;
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
        case,
        left_out: after.read_cache_left_out - before.read_cache_left_out,
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
    let has_cache = |one: &&Served| one.case.cache_pct > 0.0;
    let plain = |of: &Served| {
        let same = |one: &&Served| one.case.reads_per_s == of.case.reads_per_s && !has_cache(one);
        served.iter().find(same)
    };
    let rows = |one: &Served| {
        let row = |what: &str, unit, of: fn(&Served) -> f64| {
            let row = Row::new(format!("{}: {what}", one.case.name()), unit);
            row.baseline(plain(one).map(of)).ours(of(one))
        };
        [
            row("writes", "MB/s", |served| served.write_mb_s),
            row("a write, p99", "ms", |served| served.write_p99_ms),
            row("a read, mean", "ms", |served| served.read_mean_ms),
        ]
    };
    let alone = served.iter().filter(|one| one.case.reads_per_s == 0);
    let alone = alone.map(|one| Row::new("chain, no reads: writes", "MB/s").ours(one.write_mb_s));
    alone.chain(served.iter().filter(has_cache).flat_map(rows)).collect()
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
            format!("{:.0}", tail.bytes() as f64 / 1e6),
            tail.reads().to_string(),
            tail.reads_of_body().to_string(),
            tail.reads_unwritten().to_string(),
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
        "where",
        "write_mb_s",
        "write_ms_mean",
        "write_ms_p99",
        "read_ms_mean",
        "read_ms_p99",
        "absorbed_pct",
        "left_out",
    ];
    let mut data = Data::new("chain", &columns);
    for one in served {
        data.push([
            one.case.reads_per_s.to_string(),
            (one.case.cache_bytes() >> 20).to_string(),
            one.case.where_it_is().to_owned(),
            format!("{:.1}", one.write_mb_s),
            format!("{:.2}", one.write_mean_ms),
            format!("{:.2}", one.write_p99_ms),
            format!("{:.2}", one.read_mean_ms),
            format!("{:.2}", one.read_p99_ms),
            one.absorbed_pct.map_or(String::new(), |pct| format!("{pct:.1}")),
            one.left_out.to_string(),
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
        Case::new(0.0, 0),
        Case::new(0.0, 50),
        Case::new(paper_pct(), 50),
        Case::new(0.0, READS_PER_S),
        Case::new(1.0, READS_PER_S),
        Case::new(paper_pct(), READS_PER_S),
        Case { is_on_flash: true, ..Case::new(paper_pct(), READS_PER_S) },
        Case::new(16.0, READS_PER_S),
    ];
    let all = &all[..lab.effort.pick(8, 8, 3)];
    let steps = all.iter().map(|case| (case.name(), *case));
    let served = lab.each("gecko-cache", steps.collect(), |_, case| serve(case, seconds))?;
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
    let mut data = vec![served_data(&served)];
    let mut drawings = Vec::new();
    if !found.is_empty() {
        data.extend(trace_data(&found));
        drawings.push(Drawing::new("sizes", chart.render())?);
    }
    Ok(Report {
        name: "gecko-cache",
        title: "Gecko 4: a read cache for the tail".to_owned(),
        ran: format!(
            "Traces as they are, blocks of 4 KiB appended to one log, a tail of half of what the mix writes; a cache in the paper's proportion \
             ({} GB for {} GB) and of 1 to 16 %: the engine's table, which takes what is written and what was missed. Limit: a cache that \
             knows the future. The chain: the first {} GiB of two {DRIVE}, write caches off, {WRITES} durable writes of 4 KiB outstanding one block \
             after the other, beside them reads at a fixed rate of what was written 1 MiB to {} GiB before, as many of each doubling; means of {seconds} s. \
             On flash: a part of a {FLASH}. 'Baseline' has no cache.",
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

    #[test]
    fn a_cache_gives_writers_back_what_readers_of_the_tail_took() {
        let (plain, cached) =
            (serve(Case::new(0.0, 50), 2).unwrap(), serve(Case::new(paper_pct(), 50), 2).unwrap());
        assert!(cached.absorbed_pct.unwrap() > 50.0 && plain.absorbed_pct.is_none());
        assert!(cached.write_mb_s > plain.write_mb_s);
        assert!(cached.read_mean_ms < plain.read_mean_ms);
    }
}
