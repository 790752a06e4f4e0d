//! A log beside bulk writes on one emulated flash disk: who writes, by which scheduler, bulk paced
//! or not.
//!
//! After section 4 of "Mitigating Write-ahead Log Contention on Shared Storage Devices": durable
//! writes of 4 KiB against a file of 536 MiB. Each cell of the table is one test on a disk of its
//! own ([`super::stack`]): the log alone, then beside the bulk file. The goal is the issue's: p99
//! beside bulk at most 1.2 times the p99 alone plus the transfer of one bulk piece, at no less than
//! 90 % of the bandwidth that bulk has alone.

use super::super::Effort;
use super::super::row::{Row, Target, median};
use super::cleanup::Cleanup;
use super::load::{Latencies, Rate, alone_and_beside, bulk_paced, bulk_unmanaged};
use super::stack::{MODEL, Stack, clear_leftovers, missing};
use super::writers::{MODES, Who, Writer};
use nearhead_arrays::model_from_text;
use nearhead_basics::Table;
use nearhead_disk::{Class, Command, CommandId, Disk, Nanos, Payload, Submission, Ticket};
use nearhead_output::{note, say};
use nearhead_wal::bulk::{Gate, PIECE_BYTES, PaceOptions};
use nearhead_wal::writer::Mode;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SCHEDULERS: [&str; 3] = ["none", "mq-deadline", "bfq"];
/// The paper's bulk file.
const BULK_MIB: usize = 536;
const BULK_MIB_QUICK: usize = 96;
/// Where a scheduler leaves bulk next to nothing.
const BULK_MIB_STARVED: usize = 24;
/// About a tenth of what the disk can do one after the other.
const PACED: Rate = Rate::Paced(500.0);
/// Of the p99 alone and a piece's transfer.
const GOAL_RATIO: f64 = 1.2;
/// What the gate is told to keep: less than the goal, as anybody with a goal would, since a gate learns from what it
/// misses.
const GATE_RATIO: f64 = 1.1;
/// The piece that the goal speaks of. Ours are half as large.
const GOAL_PIECE_BYTES: usize = 128 << 10;
const GOAL_BANDWIDTH_PCT: f64 = 90.0;

/// How the bulk file is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bulk {
    Unmanaged,
    Paced,
}

impl Bulk {
    fn name(self) -> &'static str {
        match self {
            Self::Unmanaged => "unmanaged",
            Self::Paced => "paced",
        }
    }
}

/// One test.
#[derive(Clone, Copy)]
struct Case {
    scheduler: &'static str,
    who: Who,
    bulk: Bulk,
    rate: Rate,
}

/// What it found.
struct Cell {
    case: Case,
    alone: Latencies,
    /// The p99 alone that the goal is made of: of several tests the one in the middle, in ms.
    alone_p99: f64,
    beside: Latencies,
    bulk_mib_per_s: f64,
    /// What bulk has alone under this scheduler.
    bulk_alone_mib_per_s: f64,
}

impl Cell {
    /// How long one bulk piece of the goal's size takes the disk, in ms.
    fn piece_ms(&self) -> f64 {
        piece_ms(self.bulk_alone_mib_per_s)
    }

    fn goal_ratio(&self) -> f64 {
        self.beside.p99 / (self.alone_p99 + self.piece_ms())
    }

    fn bandwidth_pct(&self) -> f64 {
        100.0 * self.bulk_mib_per_s / self.bulk_alone_mib_per_s
    }

    fn row_name(&self, what: &str) -> String {
        let Case { scheduler, who, bulk, rate } = self.case;
        let rate = match rate {
            Rate::Paced(_) => "500_per_s",
            Rate::Saturating => "saturating",
        };
        let scheduler = scheduler.replace('-', "_");
        format!("wal_{scheduler}_{}_bulk_{}_{rate}_{what}", who.name(), bulk.name())
    }

    fn detail(&self) -> String {
        format!(
            "alone p50 {:.3}, p99 {:.3} ms; beside bulk mean {:.3}, p50 {:.3}, max {:.3} ms, {} writes; bulk {:.0} of {:.0} MiB/s",
            self.alone.p50,
            self.alone.p99,
            self.beside.mean,
            self.beside.p50,
            self.beside.max,
            self.beside.count,
            self.bulk_mib_per_s,
            self.bulk_alone_mib_per_s
        )
    }
}

fn piece_ms(mib_per_s: f64) -> f64 {
    1e3 * GOAL_PIECE_BYTES as f64 / (1 << 20) as f64 / mib_per_s
}

/// The bench; rows that say why if it cannot be run here.
pub(super) fn measure(
    effort: Effort,
    cleanup: &Cleanup,
    folder: &Path,
) -> Result<Vec<Row>, String> {
    if let Some(why) = missing() {
        note(&format!("bench wal: the emulated disk is skipped: {why}"));
        return Ok(vec![Row::skipped("wal_emulated_disk", Target::AtMost(GOAL_RATIO), &why)]);
    }
    clear_leftovers(folder);
    let alone = Duration::from_millis(effort.pick(1500, 400));
    let (mut cells, mut bulk_alone) = (Vec::new(), Vec::new());
    for scheduler in SCHEDULERS {
        let before = cells.len();
        let stack = Stack::build(cleanup, folder, scheduler)?;
        let mib = effort.pick(BULK_MIB, BULK_MIB_QUICK);
        let bulk_alone_mib_per_s = bulk_unmanaged(&stack.path().join("bulk"), mib)?;
        drop(stack);
        bulk_alone.push(bulk_alone_mib_per_s);
        for case in cases(scheduler, effort) {
            let mut tests = Vec::new();
            for _ in 0..tests_of(case, effort) {
                let stack = Stack::build(cleanup, folder, scheduler)?;
                let mib = bulk_mib(case, effort);
                let measured = one(case, stack.path(), mib, alone, bulk_alone_mib_per_s);
                drop(stack);
                tests.push(measured?);
            }
            cells.extend(middle_of(tests));
        }
        // Each is minutes of work: not only at the end.
        say(&table(&cells[before..]));
    }
    let mut all = vec![bottleneck(&bulk_alone)?];
    all.extend(rows(&cells));
    Ok(all)
}

/// Whether it was the disk that bulk waited for, and not what carries the bytes to it: only then do
/// the other numbers mean anything.
fn bottleneck(bulk_alone: &[f64]) -> Result<Row, String> {
    let (measured, by_itself) = (median(bulk_alone), by_itself_mib_per_s()?);
    let detail = format!("bulk alone {measured:.0} MiB/s; the model by itself {by_itself:.0}");
    let pct = 100.0 * measured / by_itself;
    Ok(Row::new("wal_emulated_disk_is_the_bottleneck_pct", Target::AtLeast(90.0), pct, detail))
}

/// What the model writes in sequence with four pieces outstanding, in virtual time.
fn by_itself_mib_per_s() -> Result<f64, String> {
    const PIECES: u64 = 1024;
    let mut disk =
        model_from_text(&format!("{MODEL},content=none")).map_err(|error| error.to_string())?;
    let (mut given, mut answered, mut now) = (0, 0, Nanos::ZERO);
    while answered < PIECES {
        while given < PIECES && given - answered < 4 {
            let parts = vec![Payload::Phantom(PIECE_BYTES)];
            let offset = given * PIECE_BYTES as u64;
            let command = Command::Write { offset, parts, durable: false };
            let ticket = Ticket::new(CommandId(given));
            disk.submit(Submission { ticket, class: Class::Bulk, command }, now);
            given += 1;
        }
        now = disk.wake_at().ok_or("the disk owes a reply and asks for no wake-up")?;
        while disk.poll(now).is_some() {
            answered += 1;
        }
    }
    let mib = PIECES as f64 * PIECE_BYTES as f64 / f64::from(1 << 20);
    Ok(mib / (now.0 as f64 / 1e9))
}

fn cases(scheduler: &'static str, effort: Effort) -> Vec<Case> {
    let rates = effort.pick(&[PACED, Rate::Saturating][..], &[Rate::Saturating]);
    let modes = MODES.iter().map(|(_, mode)| Who::Log(*mode));
    let writers = std::iter::once(Who::Bare).chain(modes).map(|who| (who, Bulk::Unmanaged));
    let paced = [Who::Log(Mode::Caller), Who::FineLog, Who::Log(Mode::Thread)];
    let paced = paced.map(|who| (who, Bulk::Paced));
    let all: Vec<(Who, Bulk)> = writers.chain(paced).collect();
    let with = |&rate: &Rate| {
        all.iter().map(move |&(who, bulk)| Case { scheduler, who, bulk, rate }).collect::<Vec<_>>()
    };
    rates.iter().flat_map(with).collect()
}

/// How many tests: for what is claimed the one in the middle of three counts, since a p99 of a thousand writes is ten
/// of them. Under bfq nothing is.
fn tests_of(case: Case, effort: Effort) -> usize {
    if case.bulk == Bulk::Paced && case.scheduler != "bfq" { effort.pick(3, 1) } else { 1 }
}

/// The test whose p99 is in the middle, of the middle p99 alone: whatever disturbed one test alone must not set a goal.
fn middle_of(mut tests: Vec<Cell>) -> Option<Cell> {
    let alone_p99 = median(&tests.iter().map(|test| test.alone.p99).collect::<Vec<_>>());
    for test in &mut tests {
        test.alone_p99 = alone_p99;
    }
    tests.sort_by(|one, other| one.goal_ratio().total_cmp(&other.goal_ratio()));
    let middle = tests.len() / 2;
    tests.into_iter().nth(middle)
}

/// How much bulk is written. Beside a writer at full rate bfq leaves it a hundredth of the disk.
fn bulk_mib(case: Case, effort: Effort) -> usize {
    if case.scheduler == "bfq" && case.rate == Rate::Saturating {
        return BULK_MIB_STARVED;
    }
    effort.pick(BULK_MIB, BULK_MIB_QUICK)
}

fn one(
    case: Case,
    mount: &Path,
    mib: usize,
    alone: Duration,
    bulk_alone_mib_per_s: f64,
) -> Result<Cell, String> {
    let writer = Writer::open(case.who, mount)?;
    if let Some(choice) = writer.choice() {
        note(&format!("bench wal: {}: {choice}", case.scheduler));
    }
    let path = mount.join("bulk");
    let source = (case.bulk == Bulk::Paced).then(|| writer.latency_source()).flatten();
    let (alone, beside, bulk_mib_per_s) =
        alone_and_beside(&writer, case.rate, alone, |alone| match source {
            None => bulk_unmanaged(&path, mib),
            Some(source) => {
                let target_ms = GATE_RATIO * (alone.p99 + piece_ms(bulk_alone_mib_per_s));
                let target_latency_ns_p99 = (target_ms * 1e6) as u64;
                let options = PaceOptions { target_latency_ns_p99, ..PaceOptions::default() };
                let gate = Arc::new(Gate::new(options, Box::new(source)));
                let rate = bulk_paced(&path, mib, Arc::clone(&gate));
                note(&format!("bench wal: {}", gate.report()));
                rate
            }
        })?;
    let alone_p99 = alone.p99;
    Ok(Cell { case, alone, alone_p99, beside, bulk_mib_per_s, bulk_alone_mib_per_s })
}

fn table(cells: &[Cell]) -> String {
    let mut table = Table::with_headings(&[
        "scheduler",
        "writer",
        "bulk",
        "rate",
        "alone p50",
        "p99",
        "beside mean",
        "p50",
        "p99",
        "max ms",
        "writes",
        "bulk MiB/s",
        "of alone",
        "p99/goal base",
    ]);
    for cell in cells {
        let Case { scheduler, who, bulk, rate } = cell.case;
        let ms = |value: f64| format!("{value:.3}");
        table.row([
            scheduler.to_owned(),
            who.name().to_owned(),
            bulk.name().to_owned(),
            rate.name(),
            ms(cell.alone.p50),
            ms(cell.alone_p99),
            ms(cell.beside.mean),
            ms(cell.beside.p50),
            ms(cell.beside.p99),
            ms(cell.beside.max),
            cell.beside.count.to_string(),
            format!("{:.0}", cell.bulk_mib_per_s),
            format!("{:.0} %", cell.bandwidth_pct()),
            format!("{:.2}", cell.goal_ratio()),
        ]);
    }
    format!(
        "4 KiB durable writes beside bulk writes, emulated disk, latencies in ms\n{}",
        table.markdown()
    )
}

fn rows(cells: &[Cell]) -> Vec<Row> {
    let mut rows = Vec::new();
    for cell in cells {
        let is_goal = cell.case.bulk == Bulk::Paced;
        let target = |target| if is_goal { target } else { Target::Informative };
        let detail = cell.detail();
        let most = target(Target::AtMost(GOAL_RATIO));
        let least = target(Target::AtLeast(GOAL_BANDWIDTH_PCT));
        rows.push(Row::new(cell.row_name("p99_ms"), Target::Informative, cell.beside.p99, detail));
        let base = format!(
            "p99 {:.3} ms over p99 alone {:.3} and a piece's {:.3} ms",
            cell.beside.p99,
            cell.alone_p99,
            cell.piece_ms()
        );
        rows.push(Row::new(cell.row_name("p99_ratio"), most, cell.goal_ratio(), base));
        let of = format!("{:.0} of {:.0} MiB/s", cell.bulk_mib_per_s, cell.bulk_alone_mib_per_s);
        rows.push(Row::new(cell.row_name("bulk_pct"), least, cell.bandwidth_pct(), of));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(bulk: Bulk, beside_p99: f64, bulk_mib_per_s: f64) -> Cell {
        let latencies = |p99| Latencies { count: 100, mean: p99, p50: p99, p99, max: p99 };
        Cell {
            case: Case { scheduler: "mq-deadline", who: Who::Log(Mode::Thread), bulk, rate: PACED },
            alone: latencies(0.5),
            alone_p99: 0.5,
            beside: latencies(beside_p99),
            bulk_mib_per_s,
            bulk_alone_mib_per_s: 250.0,
        }
    }

    #[test]
    fn the_goal_is_1_2_times_the_p99_alone_and_one_piece_at_90_percent_of_the_bandwidth() {
        // A piece of 128 KiB takes half a millisecond at 250 MiB/s: the base is 1 ms.
        let met: Vec<_> =
            rows(&[cell(Bulk::Paced, 1.19, 226.0)]).iter().map(|row| row.met).collect();
        assert_eq!(met, [None, Some(true), Some(true)]);
        let missed: Vec<_> =
            rows(&[cell(Bulk::Paced, 1.21, 224.0)]).iter().map(|row| row.met).collect();
        assert_eq!(missed, [None, Some(false), Some(false)]);
    }

    #[test]
    fn of_three_tests_the_one_in_the_middle_counts_whole() {
        let tests = [(9.0, 250.0), (1.1, 240.0), (0.7, 100.0)];
        let tests = tests.map(|(p99, bulk)| cell(Bulk::Paced, p99, bulk)).into();
        let middle = middle_of(tests).unwrap();
        assert_eq!((middle.beside.p99, middle.bulk_mib_per_s), (1.1, 240.0));
        assert!(middle_of(Vec::new()).is_none());
    }

    #[test]
    fn a_test_that_was_disturbed_alone_sets_no_goal() {
        let mut disturbed = cell(Bulk::Paced, 4.0, 225.0);
        disturbed.alone.p99 = 3.5;
        let tests =
            [disturbed, cell(Bulk::Paced, 1.1, 225.0), cell(Bulk::Paced, 1.0, 225.0)].into();
        let middle = middle_of(tests).unwrap();
        assert_eq!((middle.beside.p99, middle.alone_p99, middle.goal_ratio()), (1.1, 0.5, 1.1));
    }

    #[test]
    fn only_the_managed_case_claims_anything_and_names_say_which_case_it_is() {
        let rows = rows(&[cell(Bulk::Unmanaged, 50.0, 250.0)]);
        assert!(rows.iter().all(|row| row.met.is_none()));
        assert_eq!(rows[0].name, "wal_mq_deadline_thread_bulk_unmanaged_500_per_s_p99_ms");
    }

    #[test]
    fn the_model_by_itself_writes_what_its_profile_says() {
        let mib_per_s = by_itself_mib_per_s().unwrap();
        // 260 MB/s, and its memory that is filled first.
        assert!((245.0..256.0).contains(&mib_per_s), "{mib_per_s}");
    }

    #[test]
    fn every_scheduler_has_every_writer_and_no_case_twice() {
        let cases = cases("bfq", Effort { quick: false, loads: &[] });
        let mut names: Vec<String> = cases
            .iter()
            .map(|it| format!("{} {} {}", it.who.name(), it.bulk.name(), it.rate.name()))
            .collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), cases.len());
        assert_eq!(cases.len(), 2 * (1 + MODES.len() + 3));
    }
}
