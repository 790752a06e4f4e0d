//! What a durable append costs: the log in each mode, beside the barest write there is and beside
//! write and fdatasync on a growing file, in rounds that take turns.
//!
//! Twice: on the file system of the bench's folder, whatever device that is; and on the emulated
//! disk, which has no volatile cache, so that a durable write is one write and no flush.

use super::super::Effort;
use super::super::row::{Row, Target};
use super::cleanup::Cleanup;
use super::contest::{Tally, append};
use super::stack::{Stack, missing};
use super::writers::{MODES, Who, Writer};
use nearhead_basics::Table;
use nearhead_output::{note, say};
use std::fs;
use std::path::Path;
use std::time::Duration;

const OVER_BARE: Target = Target::AtMost(1.1);
const BELOW_GROWING: Target = Target::AtLeast(3.0);
const THREADS: [usize; 3] = [1, 8, 64];
/// What the ratios are about, for a single writer: docs/wal.md recommends it there.
const JUDGED: [&str; 2] = ["caller", "caller_512"];

/// Where appends are measured.
struct Place<'a> {
    name: &'static str,
    folder: &'a Path,
    threads: &'static [usize],
}

pub(super) fn measure(
    effort: Effort,
    cleanup: &Cleanup,
    folder: &Path,
) -> Result<Vec<Row>, String> {
    let here = folder.join("append");
    remove(&here)?;
    fs::create_dir_all(&here).map_err(|error| format!("{}: {error}", here.display()))?;
    let place = Place { name: "folder", folder: &here, threads: &THREADS };
    let measured = at(effort, &place);
    remove(&here)?;
    let mut rows = measured?;
    if let Some(why) = missing() {
        note(&format!("bench wal: appends to the emulated disk are skipped: {why}"));
    } else {
        let stack = Stack::build(cleanup, folder, "none")?;
        let place = Place { name: "emulated", folder: stack.path(), threads: &THREADS[..1] };
        rows.extend(at(effort, &place)?);
    }
    Ok(rows)
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

fn at(effort: Effort, place: &Place<'_>) -> Result<Vec<Row>, String> {
    let modes = MODES.iter().map(|(_, mode)| Who::Log(*mode));
    let contestants: Vec<Who> = [Who::Bare, Who::FineLog]
        .into_iter()
        .chain(modes)
        .chain([Who::LogBySocket, Who::Growing])
        .collect();
    let opened: Result<Vec<Writer>, String> =
        contestants.iter().map(|&who| Writer::open(who, place.folder)).collect();
    let writers = opened?;
    let (rounds, slice) = (effort.pick(5, 2), Duration::from_millis(effort.pick(300, 100)));
    let mut rows = Vec::new();
    let mut table = Table::with_headings(&[
        "place",
        "threads",
        "writer",
        "p50 ms",
        "p99 ms",
        "appends/s",
        "p50 of bare",
    ]);
    for &threads in place.threads {
        let mut tallies: Vec<Tally> = writers.iter().map(|_| Tally::default()).collect();
        for _ in 0..rounds {
            for (writer, tally) in writers.iter().zip(&mut tallies) {
                tally.add(append(writer, threads, slice)?);
            }
        }
        let found: Vec<Found> = contestants
            .iter()
            .zip(&mut tallies)
            .map(|(who, tally)| Found::new(who.name(), tally))
            .collect();
        let bare_ms = p50_of(&found, Who::Bare.name());
        for it in &found {
            table.row([
                place.name.to_owned(),
                threads.to_string(),
                it.name.to_owned(),
                format!("{:.3}", it.p50_ms),
                format!("{:.3}", it.p99_ms),
                format!("{:.0}", it.per_s),
                format!("{:.2}", it.p50_ms / bare_ms),
            ]);
        }
        rows.extend(rows_of(place.name, threads, &found));
    }
    say(&table.markdown());
    Ok(rows)
}

/// What one contestant reached.
struct Found {
    name: &'static str,
    p50_ms: f64,
    p99_ms: f64,
    per_s: f64,
}

impl Found {
    fn new(name: &'static str, tally: &mut Tally) -> Self {
        let latencies = tally.latencies();
        Self { name, p50_ms: latencies.p50, p99_ms: latencies.p99, per_s: tally.per_s() }
    }
}

fn p50_of(found: &[Found], name: &str) -> f64 {
    found.iter().find(|it| it.name == name).map_or(f64::NAN, |it| it.p50_ms)
}

/// Ratios that are claimed for one thread, and told for several: bare writes of several threads
/// overlap, which a log that promises an order cannot do.
fn rows_of(place: &str, threads: usize, found: &[Found]) -> Vec<Row> {
    let (bare, growing) = (p50_of(found, "bare"), p50_of(found, "growing"));
    let of = |name: &str, target: Target| {
        if JUDGED.contains(&name) && threads == 1 { target } else { Target::Informative }
    };
    let mut rows = Vec::new();
    for it in found.iter().filter(|it| it.name != "bare" && it.name != "growing") {
        let name = |what: &str| format!("wal_append_{place}_{threads}_{}_{what}", it.name);
        let detail = format!("p50 {:.3} ms against {bare:.3} ms bare", it.p50_ms);
        let over = it.p50_ms / bare;
        rows.push(Row::new(name("over_bare_ratio"), of(it.name, OVER_BARE), over, detail));
        let detail = format!("p50 {:.3} ms against {growing:.3} ms growing", it.p50_ms);
        let faster = growing / it.p50_ms;
        rows.push(Row::new(name("vs_growing_ratio"), of(it.name, BELOW_GROWING), faster, detail));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &'static str, p50_ms: f64) -> Found {
        Found { name, p50_ms, p99_ms: 1.0, per_s: 1.0 }
    }

    #[test]
    fn only_the_mode_recommended_for_one_writer_is_judged_and_only_with_one() {
        let all = [
            found("bare", 0.1),
            found("caller", 0.11),
            found("thread", 0.2),
            found("growing", 0.3),
        ];
        let met = |threads| -> Vec<Option<bool>> {
            rows_of("folder", threads, &all).iter().map(|row| row.met).collect()
        };
        assert_eq!(met(1), [Some(true), Some(false), None, None]);
        assert_eq!(met(8), [None; 4]);
        let names = rows_of("folder", 1, &all);
        assert_eq!(names[0].name, "wal_append_folder_1_caller_over_bare_ratio");
    }
}
