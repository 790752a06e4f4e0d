//! Each planted mistake against each rung of SAFETY.md: which find it, and how soon.
//!
//! Tests and simulator are built once, in a copy of the tree with all patches of `planted/` in it, each of which asks whether its
//! mistake is the one to be made. Then every rung runs once without a mistake, which must pass, and writes down which mistakes it comes to; and once with each
//! of those, until a test fails or a bound of processor time is reached. A mistake that no rung finds is a hole in
//! the ladder and an error of this run; so is a rung that fails without any. Processor time is what is printed, so
//! that other work on the machine changes little. A row is printed as soon as it is full: a run that is stopped has
//! said what it found until then.

mod build;
pub(crate) mod cell;
mod patch;
pub(crate) mod patches;

use crate::sandbox::{Sandbox, target_folder};
use crate::tidy::{Finding, Tree};
use build::{Programs, build};
use cell::{Cell, Choice, Lives, try_rung};
use patch::Patch;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

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

const RUNGS: [Rung; 23] = [
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
    rung(
        "full logs",
        LAWS,
        &[
            "full_logs::",
            "failed_volume::",
            "failing_data_device::",
            "bad_slot::",
            "bad_sectors::",
            "no_space::",
            "alone_home::",
            "only_log::",
        ],
    ),
    rung(
        "recovery table",
        LAWS,
        &[
            "recovery_table::",
            "after_recovery::",
            "stale_superblock::",
            "older_slot::",
            "torn_removal::",
            "torn_twin::",
            "journal_wrap::",
            "lone_header::",
            "lost_record::",
            "unreadable::",
        ],
    ),
    rung("company", LAWS, &["company::", "given_up_swap::"]),
    rung("rot", LAWS, &["rot::"]),
    rung("blank map", LAWS, &["blank_map::"]),
    rung("rebuilt map", LAWS, &["rebuild::"]),
    rung("map device", &[("nearhead-volume", "map_device")], &[]),
    rung("fragments", &[("nearhead-volume", "fragments")], &[]),
    rung(
        "chains",
        &[
            ("nearhead-volume", "lost_links"),
            ("nearhead-volume", "chain"),
            ("nearhead-volume", "paged_map"),
        ],
        &[],
    ),
    rung("offline commands", LAWS, &["offline_commands::"]),
    rung("arrays", &[("nearhead-arrays", "nearhead_arrays")], &[]),
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
    rung(
        "file system",
        &[
            ("nearhead-fs", "modes"),
            ("nearhead-fs", "every_request"),
            ("nearhead-fs", "on_volumes"),
            ("nearhead-fs", "ahead"),
        ],
        &[],
    ),
    rung("n-th command", &[("nearhead-swarm", "nth_failure")], &[]),
    rung("hostile input", &[("nearhead-hostile", "corpus")], &[]),
    rung("real daemon", &[("nearhead-cli", "power_cuts")], &[]),
];

/// The simulator is asked for all of its lives, so that it can say how many of them find the mistake; for those on chains, of which one in eight
/// is; and for a campaign, which says how many lives the first that fails needs.
const SWARM: [(&str, Lives); 3] =
    [("swarm", Lives::BySeed), ("chains", Lives::OnChains), ("steered", Lives::Steered)];

/// A line of the table.
struct Row {
    mistake: Option<(String, String)>,
    cells: Vec<Cell>,
}

/// Builds a copy with all planted mistakes and lets every rung look for those in `names` (separated by commas), or for
/// `all`; true if each was found. `list` only says which there are.
pub(crate) fn run(root: &Path, names: &str) -> bool {
    let (patches, files) = match patched(root) {
        Ok(patched) => patched,
        Err(problem) => {
            println!("{problem}");
            return false;
        }
    };
    if names == "list" {
        for patch in &patches {
            println!("{}: {}", patch.name, patch.what);
        }
        return true;
    }
    let wanted = |name: &str| names == "all" || names.split(',').any(|wanted| wanted == name);
    let known = patches.into_iter().map(|patch| (patch.name, patch.what));
    let mistakes: Vec<_> = known.filter(|(name, _)| wanted(name)).collect();
    if mistakes.is_empty() {
        println!("no mistake is called {names}; `cargo xtask planted list` says which there are");
        return false;
    }
    let folder = target_folder(root).join("planted");
    let sandbox = match copy(root, &folder, &files) {
        Ok(sandbox) => sandbox,
        Err(problem) => {
            println!("{problem}");
            return false;
        }
    };
    // The simulator comes with the tests of its package.
    let targets = RUNGS.iter().flat_map(|rung| rung.programs).map(|(_, target)| *target);
    let Some(programs) = build(&sandbox, folder, targets) else { return false };
    let seconds = std::env::var("PLANTED_SECONDS").ok().and_then(|text| text.parse().ok());
    let limit = Duration::from_secs(seconds.unwrap_or(RUNG_SECONDS));
    let first_only = std::env::var_os("PLANTED_FIRST").is_some();
    let asked = Asked { root: sandbox.root(), programs: &programs, limit, first_only };
    print_head(limit);
    let Some(without) = without_mistake(&asked) else { return false };
    let mut rows = vec![Row { mistake: None, cells: without.cells.clone() }];
    print_row(&rows[0]);
    rows.extend(fill(&asked, &mistakes, &without));
    print_yields(&rows, first_only);
    judge(&rows)
}

/// Every mistake, and the files that have all of them; or what is wrong with the patches.
fn patched(root: &Path) -> Result<(Vec<Patch>, BTreeMap<String, String>), String> {
    let told = |findings: Vec<Finding>| findings.iter().map(Finding::to_string).collect::<String>();
    let tree = Tree::load(root)?;
    let (patches, findings) = patches::load(&tree);
    if !findings.is_empty() {
        return Err(told(findings));
    }
    let files = patches::apply(&tree, &patches).map_err(told)?;
    Ok((patches, files))
}

/// A copy of the tree in `folder`, with `files` in it.
fn copy(root: &Path, folder: &Path, files: &BTreeMap<String, String>) -> Result<Sandbox, String> {
    let own: BTreeSet<String> = files.keys().cloned().collect();
    let sandbox = Sandbox::create(root, folder.join("tree"), folder.join("build"), &own)?;
    files.iter().try_for_each(|(file, text)| sandbox.write(file, text))?;
    Ok(sandbox)
}

/// What is asked.
struct Asked<'a> {
    root: &'a Path,
    programs: &'a Programs,
    /// Processor time of a rung.
    limit: Duration,
    /// A mistake that one rung has found is not shown to another.
    first_only: bool,
}

impl Asked<'_> {
    fn try_column(&self, column: usize, choice: Choice<'_>) -> Cell {
        if let Some(rung) = RUNGS.get(column) {
            return try_rung(self.root, self.programs, rung, choice, self.limit);
        }
        let (_, lives) = SWARM[column - RUNGS.len()];
        cell::try_swarm(self.root, self.programs, choice, lives, self.limit)
    }
}

/// The rungs as they do without a mistake.
struct Without {
    cells: Vec<Cell>,
    /// Which mistakes each comes to, made or not. What it never comes to it cannot find, unless it was stopped.
    reached: Vec<BTreeSet<String>>,
    /// Columns, the quickest first.
    order: Vec<usize>,
}

impl Without {
    /// Whether a rung ran to its end and never came to the mistake. The simulator has other lives to try.
    fn never_reaches(&self, column: usize, name: &str) -> bool {
        let is_whole = matches!(self.cells[column], Cell::Passed(_));
        is_whole && !self.reached[column].contains(name)
    }

    fn new(columns: Vec<(Cell, BTreeSet<String>, Duration)>) -> Self {
        let mut order: Vec<usize> = (0..columns.len()).collect();
        order.sort_by_key(|column| columns[*column].2);
        let (cells, reached) =
            columns.into_iter().map(|(cell, reached, _)| (cell, reached)).unzip();
        Self { cells, reached, order }
    }
}

/// Every rung without a mistake; none if it cannot be said which mistakes they come to.
fn without_mistake(asked: &Asked<'_>) -> Option<Without> {
    let columns: Vec<usize> = (0..columns().len()).collect();
    let tried = side_by_side(&columns, |column| {
        let path = asked.programs.folder().join(format!("reached-{column}.txt"));
        // What an earlier run left would count as reached.
        let _ = std::fs::remove_file(&path);
        let began = Instant::now();
        let cell = asked.try_column(*column, Choice::None { reached: &path });
        let took = match cell {
            Cell::Passed(took) | Cell::Found(took) | Cell::TimeUp(took) => took,
            _ => began.elapsed(),
        };
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        (cell, text.lines().map(str::to_owned).collect::<BTreeSet<_>>(), took)
    });
    if tried.iter().all(|(_, reached, _)| reached.is_empty()) {
        println!("no rung comes to any mistake: the copy was built without them");
        return None;
    }
    Some(Without::new(tried))
}

/// Shows each mistake to the rungs that come to it, the quickest first, and prints its row as soon as it is full.
fn fill(asked: &Asked<'_>, mistakes: &[(String, String)], without: &Without) -> Vec<Row> {
    side_by_side(mistakes, |mistake| {
        let mut cells = vec![Cell::NotAsked; without.cells.len()];
        for column in &without.order {
            if without.never_reaches(*column, &mistake.0) {
                cells[*column] = Cell::NotReached;
            } else if !(asked.first_only && cells.iter().any(Cell::is_found)) {
                cells[*column] = asked.try_column(*column, Choice::Mistake(&mistake.0));
            }
        }
        let row = Row { mistake: Some(mistake.clone()), cells };
        print_row(&row);
        row
    })
}

/// What `work` makes of each of `items`, in their order, on as many threads as there are processors.
fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(number) else { return };
                    let result = work(item);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

fn print_head(limit: Duration) {
    println!(
        "Found by: after so much processor time; of the simulator, by so many of so many lives. Not by: rungs that ran \
         to their end, `>` those that were stopped after {} s. Others never come to the mistake, or were not asked.\n",
        limit.as_secs()
    );
    println!("| mistake | found by | not by |\n|---|---|---|");
}

fn columns() -> Vec<&'static str> {
    RUNGS.iter().map(|rung| rung.name).chain(SWARM.map(|(name, _)| name)).collect()
}

/// What each rung comes to and finds, and what no other one does.
fn print_yields(rows: &[Row], first_only: bool) {
    let mistakes: Vec<&Row> = rows.iter().filter(|row| row.mistake.is_some()).collect();
    let finds = if first_only { "finds first" } else { "finds" };
    println!("\n| rung | {finds} | comes to | and no other rung does |\n|---|---|---|---|");
    for (column, name) in columns().into_iter().enumerate() {
        let found = |row: &&&Row| row.cells[column].is_found();
        let alone = |row: &&&Row| row.cells.iter().filter(|cell| cell.is_found()).count() == 1;
        let finds: Vec<&&Row> = mistakes.iter().filter(found).collect();
        let reached = mistakes.iter().filter(|row| row.cells[column] != Cell::NotReached).count();
        let only: Vec<&str> = finds
            .iter()
            .filter(|row| alone(row) && !first_only)
            .filter_map(|row| row.mistake.as_ref().map(|(name, _)| name.as_str()))
            .collect();
        println!("| {name} | {} | {reached} | {} |", finds.len(), only.join(", "));
    }
}

fn print_row(row: &Row) {
    let named = |is_wanted: fn(&Cell) -> bool| {
        let cells = columns().into_iter().zip(&row.cells).filter(|(_, cell)| is_wanted(cell));
        cells.map(|(name, cell)| format!("{name}{cell}")).collect::<Vec<_>>().join(", ")
    };
    let (found, missed) = (named(Cell::is_found), named(Cell::is_asked_in_vain));
    match &row.mistake {
        None => println!("| none | {found} | {missed} |"),
        Some((name, what)) => println!("| `{name}`: {what} | {found} | {missed} |"),
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
            None if cells.contains(&Cell::Broken) => {
                println!("\na rung cannot be run");
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
