//! `nearhead bench [NAME...]`: every number the project claims, measured side by side in one run.
//!
//! Each bench is a file that returns rows; a row says what was measured, its target and whether it
//! was met. What is compared (ours, nbdkit, the raw file) takes turns in rounds, and medians of the
//! rounds count, so that whatever else the machine does hits all alike. Nothing here is a test: a
//! number that is not met is told, and the exit code stays 0.

mod disk_models;
mod engine_alone;
mod flash;
mod idle;
mod machine;
mod map_memory;
mod recovery;
mod row;
mod served;
mod sparse_store;
mod timer;
mod two_clients;
mod wal;

use row::Row;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What `nearhead bench` is told.
#[derive(clap::Args, Debug)]
pub struct BenchArgs {
    /// Folder for bench.json and, meanwhile, image files.
    #[arg(long, default_value = "target/bench")]
    pub out: PathBuf,
    /// Only these benches: demo, models, engine, map, recovery, idle, timer, flash, served,
    /// wal-beside, wal-append, wal-peers; wal is all three
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// The same, between commas
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    pub only: Vec<String>,
    /// Small sizes and few rounds: shows that everything runs, not how fast it is.
    #[arg(long)]
    pub quick: bool,
    /// Measures the memory of an idle volume in this process; `bench` starts itself like this.
    #[arg(long, hide = true)]
    pub measure_idle: bool,
}

/// How much work the benches do.
#[derive(Clone, Copy, Debug)]
struct Effort {
    quick: bool,
}

impl Effort {
    /// The full amount, or the quick one.
    fn pick<T>(self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }
}

type Bench = fn(Effort, &Path) -> Result<Vec<Row>, String>;

const BENCHES: [(&str, Bench); 12] = [
    ("demo", two_clients::measure),
    ("models", disk_models::measure),
    ("engine", engine_alone::measure),
    ("map", map_memory::measure),
    ("recovery", recovery::measure),
    ("idle", idle::measure),
    ("timer", timer::measure),
    ("flash", flash::measure),
    ("served", served::measure),
    ("wal-beside", wal::measure_beside),
    ("wal-append", wal::measure_append),
    ("wal-peers", wal::measure_peers),
];

/// Whether who asks for `wish` means the bench `name`: that one, or a part of it.
fn means(wish: &str, name: &str) -> bool {
    name.strip_prefix(wish).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Runs the benches; the error is what to tell the user.
pub fn run(args: &BenchArgs) -> Result<(), String> {
    if args.measure_idle {
        return idle::measure_here();
    }
    let names = BENCHES.map(|(name, _)| name);
    let wished: Vec<&String> = args.names.iter().chain(&args.only).collect();
    if let Some(unknown) = wished.iter().find(|wish| !names.iter().any(|name| means(wish, name))) {
        let known = names.join(", ");
        return Err(format!("bench: expected --only with one of {known}, found {unknown:?}"));
    }
    let cannot = |what: &str, path: &Path, error: std::io::Error| {
        format!("bench: cannot {what} {}: {error}", path.display())
    };
    fs::create_dir_all(&args.out).map_err(|error| cannot("make the folder", &args.out, error))?;
    let effort = Effort { quick: args.quick };
    let mut rows = Vec::new();
    for (name, bench) in BENCHES {
        if wished.is_empty() || wished.iter().any(|wish| means(wish, name)) {
            let started = Instant::now();
            eprintln!("bench {name} ...");
            rows.extend(bench(effort, &args.out).map_err(|told| format!("bench {name}: {told}"))?);
            eprintln!("bench {name}: {:.1} s", started.elapsed().as_secs_f64());
        }
    }
    print!("{}", row::table(&rows));
    let report = machine::report(&rows, args.quick);
    let text = serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?;
    let path = args.out.join("bench.json");
    fs::write(&path, text + "\n").map_err(|error| cannot("write", &path, error))
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
