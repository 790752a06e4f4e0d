//! Our file system through FUSE beside `fuse2fs`, which is ext4 through FUSE: the same clients on images that lie in memory.
//!
//! Each is a program of its own, mounted as users mount it ([`mounts`]); the same loops drive both ([`load`]), in turns, in another order
//! each round, and who is not measured is stopped. A row is the median of the ratios of the rounds. On an image in memory a sync costs
//! nothing, so what is compared is what the front and the file system cost: what a disk does for each sync is not in it. What ours does
//! with the logs while it is used, cleaning them as well, is.

mod load;
mod mounts;

use super::Effort;
use super::cleanup::Cleanup;
use super::row::{Row, Target, median};
use load::{LOADS, Load};
use mounts::{Mount, Who};
use std::path::Path;
use std::time::Duration;

/// What is aimed at: so many times what `fuse2fs` does.
const RATIO: Target = Target::AtLeast(3.0);
const ROUNDS: usize = 5;

/// What each of both came to, by round.
#[derive(Default)]
struct Rates {
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

pub(super) fn measure(effort: Effort, folder: &Path) -> Result<Vec<Row>, String> {
    let cleanup = Cleanup::on_signals()?;
    let image_bytes = effort.pick(3 << 30, 1 << 30);
    let ours = match Mount::new(Who::Ours, folder, image_bytes, &cleanup) {
        Ok(ours) => ours,
        Err(why) => return Ok(vec![Row::skipped("file_system", RATIO, &why)]),
    };
    let theirs = Mount::new(Who::Fuse2fs, folder, image_bytes, &cleanup);
    let (theirs, missing) = theirs.map_or_else(|why| (None, Some(why)), |it| (Some(it), None));
    let span = Duration::from_millis(effort.pick(2000, 200));
    let mut rates: Vec<Rates> = LOADS.iter().map(|_| Rates::default()).collect();
    for round in 0..effort.pick(ROUNDS, 1) {
        for (load, rates) in LOADS.iter().zip(&mut rates) {
            // The first turn after a pause is not always the same one's.
            for turn in 0..2 {
                if (turn + round) % 2 == 0 {
                    rates.ours.push(take_turn(&ours, load, span)?);
                } else if let Some(theirs) = &theirs {
                    rates.theirs.push(take_turn(theirs, load, span)?);
                }
            }
        }
    }
    let mut rows: Vec<Row> =
        LOADS.iter().zip(&rates).flat_map(|(load, rates)| rows_of(load, rates)).collect();
    rows.extend(missing.map(|why| Row::skipped("file_system_vs_fuse2fs_ratio", RATIO, &why)));
    Ok(rows)
}

fn take_turn(mount: &Mount, load: &Load, span: Duration) -> Result<f64, String> {
    mount.run(true);
    let rate = load.run(mount.folder(), span);
    mount.run(false);
    rate.map_err(|problem| format!("{}, {}: {problem}", mount.who.name(), load.name))
}

fn rows_of(load: &Load, rates: &Rates) -> Vec<Row> {
    let (name, unit) = (load.row, load.unit());
    let (low, high) = ends(&rates.ours);
    let detail = format!("{}, on an image in memory: {low:.0} to {high:.0}", load.name);
    let ours =
        Row::new(format!("file_system_{name}_{unit}"), load.target, median(&rates.ours), detail);
    if rates.theirs.is_empty() {
        return vec![ours];
    }
    let ratios: Vec<f64> =
        rates.ours.iter().zip(&rates.theirs).map(|(ours, theirs)| ours / theirs).collect();
    let ((least, most), (low, high)) = (ends(&ratios), ends(&rates.theirs));
    let detail = format!("{least:.2} to {most:.2}; fuse2fs {low:.0} to {high:.0}");
    let name = format!("file_system_{name}_vs_fuse2fs_ratio");
    vec![ours, Row::new(name, RATIO, median(&ratios), detail)]
}

fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, 0.0), |(low, high), value| (value.min(low), value.max(high)))
}
