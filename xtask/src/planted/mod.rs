//! Each planted mistake against each rung of SAFETY.md: which find it, and how soon.
//!
//! Tests and simulator are built once with `--cfg planted`, in a directory of their own. Then every rung
//! runs once without a mistake, which must pass, and once with each, until a test fails or a bound of
//! processor time is reached. A mistake that no rung finds is a hole in the ladder and an error of this run;
//! so is a rung that fails without any. Processor time is what is printed, so that other work on the
//! machine changes little.

mod build;
pub(crate) mod cell;

use build::{Programs, build};
use cell::{Cell, try_rung};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Processor time that one rung gets for one mistake, if `PLANTED_SECONDS` does not say otherwise.
const RUNG_SECONDS: u64 = 30;

/// What runs for one column of the table.
struct Rung {
    name: &'static str,
    /// Test programs, by package and target; the library itself is called like its package.
    programs: &'static [(&'static str, &'static str)],
    /// Which tests of them; all if empty.
    tests: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

const fn rung(
    name: &'static str,
    programs: &'static [(&'static str, &'static str)],
    tests: &'static [&'static str],
) -> Rung {
    Rung { name, programs, tests, environment: &[] }
}

const LAWS: &[(&str, &str)] = &[("nearhead-volume", "laws")];

const RUNGS: [Rung; 17] = [
    rung(
        "unit tests",
        &[
            ("nearhead-format", "nearhead_format"),
            ("nearhead-engine", "nearhead_engine"),
            ("nearhead-volume", "nearhead_volume"),
            ("nearhead-swarm", "nearhead_swarm"),
        ],
        &[],
    ),
    Rung {
        environment: &[("EXHAUSTIVE_STRIDE", "11"), ("EXHAUSTIVE_THREADS", "1")],
        ..rung("every cut", LAWS, &["every_outcome"])
    },
    rung("laps", LAWS, &["laps::"]),
    rung("random", LAWS, &["no_power_cut", "logs_too_small"]),
    rung("failing disk", LAWS, &["a_failing_disk"]),
    Rung {
        // Making a failing sequence short takes longer than finding it.
        environment: &[("PROPTEST_MAX_SHRINK_ITERS", "0")],
        ..rung("invented", LAWS, &["state_machine::"])
    },
    rung("full logs", LAWS, &["full_logs::", "failed_volume::"]),
    rung(
        "recovery table",
        LAWS,
        &[
            "recovery_table::",
            "stale_superblock::",
            "older_slot::",
            "torn_twin::",
            "journal_wrap::",
            "lone_header::",
        ],
    ),
    rung("company", LAWS, &["company::"]),
    rung("rot", LAWS, &["rot::"]),
    rung("offline commands", LAWS, &["offline_commands::"]),
    rung("arrays", &[("nearhead-models", "nearhead_models")], &["array::"]),
    rung(
        "nbd",
        &[
            ("nearhead-nbd", "nearhead_nbd"),
            ("nearhead-nbd", "power_cuts"),
            ("nearhead-nbd", "clients_misbehave"),
            ("nearhead-nbd", "server_life"),
            ("nearhead-nbd", "remote_disk"),
        ],
        &[],
    ),
    rung(
        "uring",
        &[
            ("nearhead-uring", "nearhead_uring"),
            ("nearhead-uring", "losing_disk"),
            ("nearhead-uring", "commands"),
            ("nearhead-uring", "fallback"),
            ("nearhead-uring", "random"),
            ("nearhead-uring", "block_device"),
        ],
        &[],
    ),
    rung("n-th command", &[("nearhead-swarm", "nth_failure")], &[]),
    rung("hostile input", &[("nearhead-hostile", "corpus")], &[]),
    rung("real daemon", &[("nearhead-cli", "power_cuts")], &[]),
];

/// The simulator is asked for all of its lives, so that it can say how many of them find the mistake; and for a
/// campaign, which says how many lives the first that fails needs.
const SWARM: [&str; 2] = ["swarm", "steered"];

/// A line of the table.
struct Row {
    mistake: Option<(String, String)>,
    cells: Vec<Cell>,
}

/// Builds everything with the planted mistakes and lets every rung look for those in `names` (separated by
/// commas), or for all; true if each was found.
pub(crate) fn run(root: &Path, names: &str) -> bool {
    // The simulator comes with the tests of its package.
    let targets = RUNGS.iter().flat_map(|rung| rung.programs).map(|(_, target)| *target);
    let Some(programs) = build(root, targets) else { return false };
    let Some(known) = programs.mistakes() else { return false };
    let wanted = |name: &str| names == "all" || names.split(',').any(|wanted| wanted == name);
    let mistakes: Vec<_> = known.into_iter().filter(|(name, _)| wanted(name)).collect();
    if mistakes.is_empty() {
        println!("no mistake is called {names}");
        return false;
    }
    let seconds = std::env::var("PLANTED_SECONDS").ok().and_then(|text| text.parse().ok());
    let limit = Duration::from_secs(seconds.unwrap_or(RUNG_SECONDS));
    let first_only = std::env::var_os("PLANTED_FIRST").is_some();
    let rows: Vec<_> = [None].into_iter().chain(mistakes.into_iter().map(Some)).collect();
    print_head(limit);
    let rows = fill(root, &programs, rows, &Asked { limit, first_only });
    print_yields(&rows, first_only);
    judge(&rows)
}

/// How much is asked.
struct Asked {
    /// Processor time of a rung.
    limit: Duration,
    /// A mistake that one rung has found is not shown to another.
    first_only: bool,
}

fn print_head(limit: Duration) {
    println!(
        "Processor time until a rung finds the mistake; `–`: it ran to its end and did not; `> {0}`: it did not \
         within {0} s of processor time. The swarm: lives that fail.\n",
        limit.as_secs()
    );
    let names = columns();
    println!("| mistake | {} |", names.join(" | "));
    println!("|---|{}", "---|".repeat(names.len()));
}

fn columns() -> Vec<&'static str> {
    RUNGS.iter().map(|rung| rung.name).chain(SWARM).collect()
}

/// What each rung finds, and what no other one does.
fn print_yields(rows: &[Row], first_only: bool) {
    if first_only {
        return;
    }
    println!("\n| rung | finds | of | and no other rung does |\n|---|---|---|---|");
    let mistakes: Vec<&Row> = rows.iter().filter(|row| row.mistake.is_some()).collect();
    for (column, name) in columns().into_iter().enumerate() {
        let found = |row: &&&Row| row.cells[column].is_found();
        let alone = |row: &&&Row| row.cells.iter().filter(|cell| cell.is_found()).count() == 1;
        let finds: Vec<&&Row> = mistakes.iter().filter(found).collect();
        let only: Vec<&str> = finds
            .iter()
            .filter(|row| alone(row))
            .filter_map(|row| row.mistake.as_ref().map(|(name, _)| name.as_str()))
            .collect();
        println!("| {name} | {} | {} | {} |", finds.len(), mistakes.len(), only.join(", "));
    }
}

/// Tries everything on every core and prints each row as soon as it is full.
fn fill(
    root: &Path,
    programs: &Programs,
    rows: Vec<Option<(String, String)>>,
    asked: &Asked,
) -> Vec<Row> {
    let columns = RUNGS.len() + SWARM.len();
    let next = AtomicUsize::new(0);
    let cells: Mutex<Vec<Option<Cell>>> = Mutex::new(vec![None; rows.len() * columns]);
    let printed = AtomicUsize::new(0);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(row) = rows.get(number / columns) else { return };
            let mistake = row.as_ref().map(|(name, _)| name.as_str());
            let from = number / columns * columns;
            let is_known = asked.first_only && mistake.is_some() && {
                let cells = cells.lock().unwrap_or_else(PoisonError::into_inner);
                cells[from..from + columns].iter().flatten().any(Cell::is_found)
            };
            let cell = match RUNGS.get(number % columns) {
                _ if is_known => Cell::NotAsked,
                Some(rung) => try_rung(root, programs, rung, mistake, asked.limit),
                None => {
                    let is_steered = number % columns > RUNGS.len();
                    cell::try_swarm(root, programs, mistake, is_steered)
                }
            };
            let mut cells = cells.lock().unwrap_or_else(PoisonError::into_inner);
            cells[number] = Some(cell);
            // Rows are printed in order, each when the last of its cells is there.
            while let Some(row) = rows.get(printed.load(Ordering::Relaxed)) {
                let from = printed.load(Ordering::Relaxed) * columns;
                let full: Option<Vec<_>> = cells[from..from + columns].iter().cloned().collect();
                let Some(full) = full else { break };
                print_row(row.as_ref(), &full);
                printed.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let cells = cells.into_inner().unwrap_or_else(PoisonError::into_inner);
    let cells: Vec<Cell> = cells.into_iter().flatten().collect();
    let rows = rows.into_iter().zip(cells.chunks(columns));
    rows.map(|(mistake, cells)| Row { mistake, cells: cells.to_vec() }).collect()
}

fn print_row(mistake: Option<&(String, String)>, cells: &[Cell]) {
    let words: Vec<_> = cells.iter().map(ToString::to_string).collect();
    match mistake {
        None => println!("| none | {} |", words.join(" | ")),
        Some((name, what)) => println!("| `{name}`: {what} | {} |", words.join(" | ")),
    }
}

fn judge(rows: &[Row]) -> bool {
    let mut succeeded = true;
    for Row { mistake, cells } in rows {
        let found = cells.iter().filter(|cell| cell.is_found()).count();
        match mistake {
            None if found > 0 => {
                println!("\na rung fails without any mistake: the table says nothing");
                succeeded = false;
            }
            Some((name, _)) if found == 0 => {
                println!("\nno rung finds {name}: a hole to close");
                succeeded = false;
            }
            _ => {}
        }
    }
    if succeeded {
        println!("\nevery mistake was found");
    }
    succeeded
}
