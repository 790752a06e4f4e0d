//! Other logs beside ours: etcd's, okaywal, raft-engine and `RocksDB`'s, in rounds that take turns.
//!
//! Each is a program of its own (`bench/peers`, and `RocksDB`'s `db_bench`) that appends with so many
//! writers for a given time to a directory of its own and prints what it measured. Ours does
//! the same in this process. All are on one file system; all are durable at each answer. A peer that
//! cannot be built or run is left out, and a line says why.
//!
//! One writer is measured twice: with processors as they are, and kept awake, for everybody alike. A lone writer sleeps
//! in every write, and what is spent on waking up (`nearhead_wal::Awake`) depends on what else a program happens to do.

use super::super::Effort;
use super::super::row::{Row, Target, median};
use super::commands::{command, exists, run};
use super::contest::append;
use super::load::Latencies;
use super::writers::{MODES, RECORD_BYTES, Who, Writer};
use nearhead_basics::Table;
use nearhead_output::{note, say};
use nearhead_wal::Awake;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How many writers, and whether processors are kept awake for all.
const CASES: [(usize, bool); 4] = [(1, false), (1, true), (8, false), (64, false)];
/// What a first build may take: it fetches and compiles everything.
const BUILD_LIMIT: Duration = Duration::from_secs(1200);
/// What a run may take over the time that it measures.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// Where the sources are, from the root of the repository.
const SOURCES: &str = "bench/peers";
const GOAL: Target = Target::AtLeast(1.0);
/// The modes that docs/wal.md recommends: for one writer, and for several.
const RECOMMENDED: (&str, &str) = ("caller", "thread");

/// What one run measured.
#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Reading {
    peer: String,
    version: String,
    writers: usize,
    appends: u64,
    seconds: f64,
    p50_us: f64,
    p99_us: f64,
}

impl Reading {
    fn per_s(&self) -> f64 {
        self.appends as f64 / self.seconds
    }
}

/// Who takes part.
enum Contestant {
    Ours(Who),
    /// A program that takes DIRECTORY WRITERS SECONDS BYTES after its arguments.
    Program {
        name: &'static str,
        program: PathBuf,
        arguments: Vec<String>,
    },
    RocksDb,
}

impl Contestant {
    fn name(&self) -> String {
        match self {
            Self::Ours(who) => format!("nearhead {}", who.name()),
            Self::Program { name, .. } => (*name).to_owned(),
            Self::RocksDb => "rocksdb".to_owned(),
        }
    }

    fn run(&self, folder: &Path, writers: usize, seconds: f64) -> Result<Reading, String> {
        let limit = RUN_LIMIT + Duration::from_secs_f64(seconds);
        match self {
            Self::Ours(who) => ours(*who, folder, writers, seconds),
            Self::Program { program, arguments, .. } => {
                let mut command = Command::new(program);
                command.args(arguments).arg(folder).arg(writers.to_string());
                command.arg(seconds.to_string()).arg(RECORD_BYTES.to_string());
                reading(&run(command, limit)?.stdout)
            }
            Self::RocksDb => rocksdb(folder, writers, seconds, limit),
        }
    }
}

pub(super) fn measure(effort: Effort, folder: &Path) -> Result<Vec<Row>, String> {
    let contestants = contestants(folder);
    let data = folder.join("peers-data");
    let mut rows = Vec::new();
    let mut table = Table::with_headings(&[
        "writers",
        "processors",
        "log",
        "version",
        "appends/s",
        "p50 us",
        "p99 us",
    ]);
    for (writers, is_awake) in CASES {
        let name = row_name(writers, is_awake);
        let _awake = match is_awake.then(Awake::keep).transpose() {
            Ok(awake) => awake,
            Err(error) => {
                let why = format!("processors cannot be kept awake: {error}");
                rows.push(Row::skipped(name, GOAL, &why));
                continue;
            }
        };
        let found = in_turn(&contestants, writers, effort, &data)?;
        for it in &found {
            table.row([
                writers.to_string(),
                if is_awake { "awake" } else { "as they are" }.to_owned(),
                it.peer.clone(),
                it.version.clone(),
                format!("{:.0}", it.per_s()),
                format!("{:.0}", it.p50_us),
                format!("{:.0}", it.p99_us),
            ]);
        }
        rows.push(row(name, writers, &found));
    }
    remove(&data)?;
    say(&table.markdown());
    Ok(rows)
}

/// The median reading of each, in rounds that take turns.
fn in_turn(
    contestants: &[Contestant],
    writers: usize,
    effort: Effort,
    data: &Path,
) -> Result<Vec<Reading>, String> {
    let seconds = effort.pick(1.0, 0.3);
    let mut all: Vec<Vec<Reading>> = contestants.iter().map(|_| Vec::new()).collect();
    for _ in 0..effort.pick(3, 1) {
        for (contestant, readings) in contestants.iter().zip(&mut all) {
            fresh(data)?;
            match contestant.run(data, writers, seconds) {
                Ok(reading) => readings.push(reading),
                Err(why) => note(&format!("bench wal: {}: {why}", contestant.name())),
            }
        }
    }
    let named = contestants.iter().zip(&all);
    Ok(named.filter_map(|(contestant, readings)| middle(&contestant.name(), readings)).collect())
}

/// Who can take part here; a line for everybody who cannot.
fn contestants(folder: &Path) -> Vec<Contestant> {
    let mut all: Vec<Contestant> =
        MODES.iter().map(|(_, mode)| Contestant::Ours(Who::Log(*mode))).collect();
    all.push(Contestant::Ours(Who::SmallLog));
    match build_rust(folder) {
        Ok(program) => all.extend(["okaywal", "raft-engine"].map(|name| Contestant::Program {
            name,
            program: program.clone(),
            arguments: vec![name.to_owned()],
        })),
        Err(why) => note(&format!("bench wal: okaywal and raft-engine are skipped: {why}")),
    }
    match build_go(folder) {
        Ok(program) => {
            all.push(Contestant::Program { name: "etcd wal", program, arguments: Vec::new() });
        }
        Err(why) => note(&format!("bench wal: etcd's wal is skipped: {why}")),
    }
    if exists("db_bench") {
        all.push(Contestant::RocksDb);
    } else {
        note(
            "bench wal: rocksdb is skipped: db_bench is missing; on Debian: apt-get install rocksdb-tools",
        );
    }
    all
}

fn build_rust(folder: &Path) -> Result<PathBuf, String> {
    let sources = sources("rust")?;
    let target = folder.join("peers-rust");
    let mut cargo = command("cargo");
    cargo
        .args(["build", "--quiet", "--release", "--locked", "--target-dir"])
        .arg(absolute(&target)?);
    // Nothing set for our own build is meant for this one.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_TARGET_DIR").current_dir(sources);
    run(cargo, BUILD_LIMIT)?;
    Ok(target.join("release/nearhead-bench-peers"))
}

fn build_go(folder: &Path) -> Result<PathBuf, String> {
    let sources = sources("etcd")?;
    let program = absolute(&folder.join("peer-etcd"))?;
    let mut go = command("go");
    go.args(["build", "-o"]).arg(&program).arg(".").current_dir(sources);
    run(go, BUILD_LIMIT)?;
    Ok(program)
}

fn sources(name: &str) -> Result<PathBuf, String> {
    let path = Path::new(SOURCES).join(name);
    if path.is_dir() {
        return Ok(path);
    }
    Err(format!("{} is missing; run this at the root of the repository", path.display()))
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn fresh(folder: &Path) -> Result<(), String> {
    remove(folder)?;
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(())
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn ours(who: Who, folder: &Path, writers: usize, seconds: f64) -> Result<Reading, String> {
    let writer = Writer::open(who, folder)?;
    let mut slice = append(&writer, writers, Duration::from_secs_f64(seconds))?;
    let Latencies { p50, p99, count, .. } = Latencies::of(&mut slice.samples);
    Ok(Reading {
        peer: String::new(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        writers,
        appends: count as u64,
        seconds: slice.took.as_secs_f64(),
        p50_us: p50 * 1e3,
        p99_us: p99 * 1e3,
    })
}

/// The line that a peer prints.
fn reading(stdout: &str) -> Result<Reading, String> {
    let line = stdout.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    serde_json::from_str(line)
        .map_err(|error| format!("expected a line of JSON, found {:?}: {error}", stdout.trim()))
}

fn rocksdb(
    folder: &Path,
    writers: usize,
    seconds: f64,
    limit: Duration,
) -> Result<Reading, String> {
    let mut db_bench = command("db_bench");
    db_bench.arg(format!("--db={}", folder.join("db").display()));
    // Its log alone: everything stays in one memtable, nothing is compacted.
    db_bench.args(["--benchmarks=fillrandom", "--sync=1", "--key_size=16", "--num=1000000"]);
    db_bench.args(["--compression_type=none", "--write_buffer_size=1073741824"]);
    db_bench.args(["--disable_auto_compactions=1", "--histogram=1"]);
    db_bench.arg(format!("--value_size={RECORD_BYTES}")).arg(format!("--threads={writers}"));
    db_bench.arg(format!("--duration={:.0}", seconds.max(1.0)));
    let output = run(db_bench, limit)?;
    db_bench_reading(&(output.stderr + &output.stdout), writers)
}

/// What `db_bench --histogram` prints.
fn db_bench_reading(text: &str, writers: usize) -> Result<Reading, String> {
    let after = |line: &str, word: &str| -> Option<f64> {
        line.split_once(word)?.1.split_whitespace().next()?.parse().ok()
    };
    let before = |line: &str, word: &str| -> Option<f64> {
        line.split_once(word)?.0.split_whitespace().last()?.parse().ok()
    };
    let result = text.lines().find(|line| line.starts_with("fillrandom "));
    let percentiles = text.lines().find(|line| line.starts_with("Percentiles:"));
    let version = text.lines().find_map(|line| line.strip_prefix("RocksDB:"));
    let version = version.and_then(|rest| rest.split_whitespace().last()).unwrap_or("unknown");
    let found = result.zip(percentiles).and_then(|(result, percentiles)| {
        Some(Reading {
            peer: "rocksdb".to_owned(),
            version: version.to_owned(),
            writers,
            appends: before(result, " operations")? as u64,
            seconds: before(result, " seconds")?,
            p50_us: after(percentiles, "P50:")?,
            p99_us: after(percentiles, "P99:")?,
        })
    });
    found.ok_or_else(|| {
        "expected the result of fillrandom and its percentiles, found none".to_owned()
    })
}

/// Medians of the rounds of one contestant.
fn middle(name: &str, readings: &[Reading]) -> Option<Reading> {
    let of = |value: fn(&Reading) -> f64| median(&readings.iter().map(value).collect::<Vec<_>>());
    let first = readings.first()?;
    Some(Reading {
        peer: name.to_owned(),
        // A rate: appends in one second.
        appends: of(Reading::per_s).round() as u64,
        seconds: 1.0,
        p50_us: of(|it| it.p50_us),
        p99_us: of(|it| it.p99_us),
        ..first.clone()
    })
}

fn row_name(writers: usize, is_awake: bool) -> String {
    let awake = if is_awake { "_awake" } else { "" };
    format!("wal_vs_best_peer_{writers}_writers{awake}_ratio")
}

/// Ours over the best of the others, by appends per second.
fn row(name: String, writers: usize, found: &[Reading]) -> Row {
    let mode = if writers == 1 { RECOMMENDED.0 } else { RECOMMENDED.1 };
    let ours = found.iter().find(|it| it.peer == format!("nearhead {mode}"));
    let peers = found.iter().filter(|it| !it.peer.starts_with("nearhead "));
    let best = peers.max_by(|one, other| one.per_s().total_cmp(&other.per_s()));
    match (ours, best) {
        (Some(ours), Some(best)) => {
            let detail = format!(
                "{mode}: {:.0} appends/s, p50 {:.0} us; {} {}: {:.0}, p50 {:.0} us",
                ours.per_s(),
                ours.p50_us,
                best.peer,
                best.version,
                best.per_s(),
                best.p50_us
            );
            Row::new(name, GOAL, ours.per_s() / best.per_s(), detail)
        }
        _ => Row::skipped(name, GOAL, "no peer could be measured"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(peer: &str, appends: u64) -> Reading {
        Reading {
            peer: peer.to_owned(),
            version: "1".to_owned(),
            writers: 8,
            appends,
            seconds: 2.0,
            p50_us: 10.0,
            p99_us: 20.0,
        }
    }

    #[test]
    fn what_db_bench_prints_is_understood_and_anything_else_is_refused() {
        let text = "RocksDB:    version 7.8.3\nKeys: 16 bytes each\n\
            fillrandom   :    1984.154 micros/op 503 ops/sec 1.982 seconds 999 operations;    2.0 MB/s\n\
            Percentiles: P50: 321.82 P75: 2150.00 P99: 20673.33 P99.9: 62512.50 P99.99: 73751.25\n";
        let found = db_bench_reading(text, 4).unwrap();
        let expected = Reading {
            peer: "rocksdb".to_owned(),
            version: "7.8.3".to_owned(),
            writers: 4,
            appends: 999,
            seconds: 1.982,
            p50_us: 321.82,
            p99_us: 20673.33,
        };
        assert_eq!(found, expected);
        assert!(db_bench_reading("fillrandom : fast", 4).is_err());
        assert!(db_bench_reading("", 4).is_err());
    }

    #[test]
    fn a_peers_line_is_found_among_others_and_a_missing_one_is_told() {
        let line = r#"{"peer":"okaywal","version":"0.3.1","writers":8,"appends":7717,"seconds":1.09,"p50_us":371.3,"p99_us":19394.3}"#;
        let found = reading(&format!("warning\n{line}\n")).unwrap();
        assert_eq!((found.peer.as_str(), found.appends), ("okaywal", 7717));
        assert!(reading("nothing").unwrap_err().contains("expected a line of JSON"));
    }

    #[test]
    fn the_best_peer_is_what_counts_and_the_mode_is_the_one_recommended() {
        let found = [
            made("nearhead caller", 5000),
            made("nearhead thread", 2000),
            made("slow", 1000),
            made("fast", 4000),
        ];
        assert_eq!(row(row_name(1, false), 1, &found).measured, Some(1.25));
        assert_eq!(row(row_name(8, false), 8, &found).measured, Some(0.5));
        assert_eq!(row(row_name(8, false), 8, &found).met, Some(false));
        assert_eq!(row(row_name(8, false), 8, &found[..2]).measured, None);
    }

    #[test]
    fn rounds_are_summed_up_by_their_medians_and_no_round_is_no_reading() {
        let readings = [made("x", 100), made("x", 900), made("x", 300)];
        let found = middle("x", &readings).unwrap();
        assert_eq!((found.appends, found.per_s().round() as u64), (150, 150));
        assert_eq!(middle("x", &[]), None);
    }
}
