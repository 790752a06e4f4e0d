//! `nearhead bench [NAME...]`: every number the project claims, measured side by side in one run.
//!
//! Each bench is a file that returns rows; a row says what was measured, its target and whether it
//! was met. What is compared (ours, nbdkit, the raw file) takes turns in rounds, and medians of the
//! rounds count, so that whatever else the machine does hits all alike. What it does is watched
//! (`busy`): rows of a busy machine are marked in the table and in bench.json. Nothing here is a test: a
//! number that is not met is told, and the exit code stays 0.

mod cleanup;
mod commands;
mod disk_models;
mod engine_alone;
mod file_system;
mod flash;
mod idle;
pub(crate) mod machine;
mod map_memory;
mod recovery;
mod row;
mod served;
mod sparse_store;
mod timer;
mod traces;
mod two_clients;
mod wal;

use crate::busy::{self, Watch};
use machine::Watched;
use nearhead_output::say;
use row::Row;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What `nearhead bench` is told.
#[derive(clap::Args, Debug)]
pub struct BenchArgs {
    /// Folder for bench.json and, meanwhile, image files.
    #[arg(long, default_value = "target/bench")]
    pub out: PathBuf,
    /// Only these benches: demo, models, engine, map, recovery, idle, timer, flash, traces, served,
    /// file-system, wal-beside, wal-append, wal-peers; wal is all three
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// The same, between commas
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub only: Vec<String>,
    /// Small sizes and few rounds: shows that everything runs, not how fast it is.
    #[arg(long)]
    pub quick: bool,
    /// Of `served` only the loads whose names in the table of rows begin like this: `fua_1`, `read`
    #[arg(long, value_delimiter = ',', value_name = "LOAD")]
    pub loads: Vec<String>,
    /// Measures the memory of an idle volume in this process; `bench` starts itself like this.
    #[arg(long, hide = true)]
    pub measure_idle: bool,
}

/// How much work the benches do.
#[derive(Clone, Copy, Debug)]
struct Effort<'a> {
    quick: bool,
    /// Which loads of a served volume; all if there is none.
    loads: &'a [String],
}

impl Effort<'_> {
    /// The full amount, or the quick one.
    fn pick<T>(self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

type Bench = fn(Effort<'_>, &Path) -> Result<Vec<Row>, String>;

/// How long the disk alone is tried, before and after a bench that uses it.
const TRIAL: Duration = Duration::from_millis(500);

/// What other work on the machine changes about a bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbed {
    /// Nothing: virtual time, or bytes of memory.
    Never,
    /// Its processor time or its real time.
    ByProcessors,
    /// That, and the disk below the folder.
    ByDisk,
}

use Disturbed::{ByDisk, ByProcessors, Never};

const BENCHES: [(&str, Disturbed, Bench); 14] = [
    ("demo", Never, two_clients::measure),
    ("models", ByProcessors, disk_models::measure),
    ("engine", ByProcessors, engine_alone::measure),
    ("map", Never, map_memory::measure),
    ("recovery", ByProcessors, recovery::measure),
    ("idle", Never, idle::measure),
    ("timer", ByProcessors, timer::measure),
    ("flash", Never, flash::measure),
    ("traces", Never, traces::measure),
    ("served", ByDisk, served::measure),
    ("file-system", ByProcessors, file_system::measure),
    ("wal-beside", ByDisk, wal::measure_beside),
    ("wal-append", ByDisk, wal::measure_append),
    ("wal-peers", ByDisk, wal::measure_peers),
];

/// What can be measured by itself.
pub fn names() -> impl Iterator<Item = &'static str> {
    BENCHES.into_iter().map(|(name, ..)| name)
}

/// Whether who asks for `wish` means the bench `name`: that one, or a part of it.
fn means(wish: &str, name: &str) -> bool {
    name.strip_prefix(wish).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Runs the benches; the error is what to tell the user.
pub fn run(args: &BenchArgs) -> Result<(), String> {
    if args.measure_idle {
        return idle::measure_here();
    }
    let names = BENCHES.map(|(name, ..)| name);
    let wished: Vec<&String> = args.names.iter().chain(&args.only).collect();
    if let Some(unknown) = wished.iter().find(|wish| !names.iter().any(|name| means(wish, name))) {
        let known = names.join(", ");
        return Err(format!("bench: expected --only with one of {known}, found {unknown:?}"));
    }
    let cannot = |what: &str, path: &Path, error: std::io::Error| {
        format!("bench: cannot {what} {}: {error}", path.display())
    };
    fs::create_dir_all(&args.out).map_err(|error| cannot("make the folder", &args.out, error))?;
    let effort = Effort { quick: args.quick, loads: &args.loads };
    let (mut rows, mut machines) = (Vec::new(), Vec::new());
    for (name, disturbed, bench) in BENCHES {
        if wished.is_empty() || wished.iter().any(|wish| means(wish, name)) {
            let started = Instant::now();
            eprintln!("bench {name} ...");
            let measured = watched(name, disturbed, &args.out, || bench(effort, &args.out));
            let (found, machine) = measured.map_err(|told| format!("bench {name}: {told}"))?;
            rows.extend(found);
            machines.extend(machine);
            eprintln!("bench {name}: {:.1} s", started.elapsed().as_secs_f64());
        }
    }
    say(row::table(&rows).trim_end_matches('\n'));
    for machine in &machines {
        say(&machine.to_string());
    }
    let report = machine::report(&rows, &machines, args.quick);
    let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
    let path = args.out.join("bench.json");
    fs::write(&path, text + "\n").map_err(|error| cannot("write", &path, error))
}

/// What `bench` measures, and what the machine did meanwhile, if that can have disturbed it.
fn watched(
    name: &'static str,
    disturbed: Disturbed,
    folder: &Path,
    bench: impl FnOnce() -> Result<Vec<Row>, String>,
) -> Result<(Vec<Row>, Option<Watched>), String> {
    if disturbed == Never {
        return Ok((bench()?, None));
    }
    let disk = || (disturbed == ByDisk).then(|| machine::durable_write_us(folder, TRIAL)).flatten();
    let before = disk();
    let watch = Watch::around();
    let rows = bench()?;
    let mut machine = watch.end();
    if let Some((before, after)) = before.zip(disk()) {
        let what = "durable 4 KiB write to a file, us".to_owned();
        machine = machine.with_bare(busy::Bare { what, before, after, in_virtual_time: None });
    }
    let watched = Watched::new(name, machine);
    let rows = rows.into_iter().map(|row| Row { machine_was_busy: watched.was_busy(), ..row });
    Ok((rows.collect(), Some(watched)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_its_bench_or_all_of_its_parts_and_nothing_that_only_begins_like_it() {
        assert!(means("wal", "wal-peers") && means("wal-peers", "wal-peers"));
        assert!(!means("wal-p", "wal-peers") && !means("", "wal-peers") && !means("map", "maps"));
    }
}
