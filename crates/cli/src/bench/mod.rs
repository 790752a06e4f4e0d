//! `nearhead bench`: every number the project claims, measured side by side in one run.
//!
//! Each bench is a file that returns rows; a row says what was measured, its target and whether it
//! was met. What is compared (ours, nbdkit, the raw file) takes turns in rounds, and medians of the
//! rounds count, so that whatever else the machine does hits all alike. Nothing here is a test: a
//! number that is not met is told, and the exit code stays 0.

mod engine_alone;
mod flash;
mod idle;
mod machine;
mod map_memory;
mod recovery;
mod row;
mod served;
mod sparse_store;
mod two_clients;

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
    /// Only these benches: demo, served, engine, map, recovery, idle, flash.
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

const BENCHES: [(&str, Bench); 7] = [
    ("demo", two_clients::measure),
    ("engine", engine_alone::measure),
    ("map", map_memory::measure),
    ("recovery", recovery::measure),
    ("idle", idle::measure),
    ("flash", flash::measure),
    ("served", served::measure),
];

/// Runs the benches; the error is what to tell the user.
pub fn run(args: &BenchArgs) -> Result<(), String> {
    if args.measure_idle {
        return idle::measure_here();
    }
    let names = BENCHES.map(|(name, _)| name);
    if let Some(unknown) = args.only.iter().find(|only| !names.contains(&only.as_str())) {
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
        if args.only.is_empty() || args.only.iter().any(|only| only == name) {
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
