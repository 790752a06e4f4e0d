//! The rotation period and the angles of an index tree, from when requests completed.
//!
//! When a request to the medium completes, its last sector has just passed under the head. So the
//! time of completion, less the angle that the layout gives for that sector, is the same phase for
//! all requests, if period and angles are right. Where the rows of a tree are off by constants,
//! each row shows a phase of its own: its offset is corrected by the difference, and its turn per
//! track if the phases inside the row spread. Uses measured times only, never the model's.

use super::{Fitted, FittedConstant};
use crate::angle::Angle;
use crate::layout::Origins;
use crate::measured::MeasuredRequest;
use crate::{LayoutSpec, Profile};
use std::collections::BTreeMap;
use std::f64::consts::TAU;

/// Requests that a row needs before it is corrected: fewer could agree by chance.
const ROW_REQUESTS_MIN: usize = 6;
/// Concentration of the phases of a row (1 is perfect) from which its turn is believed.
const BELIEVED: f64 = 0.9;
/// Share by which the period may differ from the stated one.
const PERIOD_RANGE: f64 = 4e-4;

/// A completion as seen from a row of the layout.
#[derive(Clone, Copy)]
struct Completion {
    /// Since the start of the trace, in ns.
    at_ns: f64,
    /// Angle where the layout says that the request ends, in revolutions.
    angle: f64,
    /// Repetition of the row in which it ends.
    repetition: u64,
}

type Rows = BTreeMap<(usize, usize), Vec<Completion>>;

pub(super) fn fit(fitted: &mut Fitted, requests: &[MeasuredRequest]) -> Result<(), String> {
    let profile = &mut fitted.profile;
    let rows = by_row(profile, requests)?;
    let before = profile.period_ns as f64;
    let period = fit_period(&rows, before);
    profile.period_ns = period.round() as u64;
    let constant = FittedConstant { name: "period_ns".to_owned(), before, after: period.round() };
    fitted.constants.push(constant);
    let all: Vec<f64> = rows.values().flatten().map(|seen| phase(seen, period)).collect();
    // The phase of the outermost rows is where the others are to be.
    let first = rows.values().next().map_or(&[][..], Vec::as_slice);
    let first: Vec<f64> = first.iter().map(|seen| phase(seen, period)).collect();
    let reference = mean_phase(if first.len() < ROW_REQUESTS_MIN { &all } else { &first }).0;
    let LayoutSpec::Tree(tree) = &mut profile.layout else { return Ok(()) };
    for ((table, row), seen) in &rows {
        if seen.len() < ROW_REQUESTS_MIN {
            continue;
        }
        let spec = &mut tree.tables[*table][*row];
        let (turn, offset, concentration) = best_turn(seen, period, spec.5);
        if concentration < BELIEVED {
            continue;
        }
        let moved = (offset - reference).rem_euclid(1.0);
        let name = |what: &str| format!("layout.tables[{table}][{row}].{what}");
        if (turn - spec.5).abs() > 1e-9 {
            let (before, after) = (spec.5, turn);
            fitted.constants.push(FittedConstant { name: name("turn"), before, after });
            spec.5 = turn;
        }
        // A few thousandths are noise of the fit rather than of the layout.
        if moved.min(1.0 - moved) > 0.002 {
            let (before, after) = (spec.2, (spec.2 + moved).rem_euclid(1.0));
            fitted.constants.push(FittedConstant { name: name("angle"), before, after });
            spec.2 = after;
        }
    }
    Ok(())
}

/// Completions by the row of the tree in which they end; by zone, as rows of one table, in other
/// layouts.
fn by_row(profile: &Profile, requests: &[MeasuredRequest]) -> Result<Rows, String> {
    let geometry = profile.geometry().map_err(|error| error.problem)?;
    let origins = match &profile.layout {
        LayoutSpec::Tree(tree) => {
            Some(tree.compile_traced(profile.heads, profile.cylinders, profile.blocks)?)
        }
        _ => None,
    };
    let per_sector = u64::from(profile.sector_bytes / 512);
    let mut rows = Rows::new();
    let mut at_ns = 0.0;
    for request in requests {
        at_ns += request.response_ms * 1e6;
        let last = (request.lbn + u64::from(request.sectors) - 1) / per_sector;
        if last >= profile.blocks {
            return Err(format!("a request at sector {} reaches past the end", request.lbn));
        }
        let track = geometry.locate(last);
        let end = track.angle_of(last).plus(Angle::of_sector(1, track.sectors_per_track));
        let (key, repetition) = match &origins {
            Some((runs, origins)) => {
                let (run, piece) = runs.find(last);
                let Origins { table, row, repetition } = origins[run];
                ((table, row), repetition + u64::from(piece))
            }
            None => ((0, track.sectors_per_track as usize), 0),
        };
        let seen = Completion { at_ns, angle: end.revolutions(), repetition };
        rows.entry(key).or_default().push(seen);
        at_ns += request.think.0 as f64;
    }
    Ok(rows)
}

fn phase(seen: &Completion, period: f64) -> f64 {
    (seen.at_ns / period - seen.angle).rem_euclid(1.0)
}

/// Mean of phases on the circle, and how concentrated they are.
fn mean_phase(phases: &[f64]) -> (f64, f64) {
    let (mut x, mut y) = (0.0, 0.0);
    for phase in phases {
        x += (phase * TAU).cos();
        y += (phase * TAU).sin();
    }
    let count = phases.len().max(1) as f64;
    ((y.atan2(x) / TAU).rem_euclid(1.0), x.hypot(y) / count)
}

/// The period at which the phases of the rows are most concentrated.
fn fit_period(rows: &Rows, stated: f64) -> f64 {
    let last = rows.values().flatten().map(|seen| seen.at_ns).fold(0.0, f64::max);
    // Over the whole trace a step shifts the phase by a sixteenth of a revolution.
    let mut step = stated * stated / last.max(stated) / 16.0;
    let steps = ((stated * PERIOD_RANGE / step) as i64).clamp(1, 4000);
    let score = |period: f64| -> f64 {
        rows.values()
            .filter(|seen| seen.len() >= ROW_REQUESTS_MIN)
            .map(|seen| {
                let phases: Vec<f64> = seen.iter().map(|seen| phase(seen, period)).collect();
                mean_phase(&phases).1 * seen.len() as f64
            })
            .sum()
    };
    let best = |centre: f64, step: f64, steps: i64| {
        let tried = (-steps..=steps).map(|index| centre + index as f64 * step);
        let scored = tried.map(|period| (score(period), period));
        scored.max_by(|left, right| left.0.total_cmp(&right.0)).map_or(centre, |(_, best)| best)
    };
    let mut period = best(stated, step, steps);
    for _ in 0..2 {
        step /= 8.0;
        period = best(period, step, 8);
    }
    period
}

/// The turn per repetition at which a row's phases agree best, its phase, and how well they agree.
fn best_turn(seen: &[Completion], period: f64, stated: f64) -> (f64, f64, f64) {
    let at = |turn: f64| {
        let phases: Vec<f64> = seen
            .iter()
            .map(|seen| phase(seen, period) - (turn - stated) * seen.repetition as f64)
            .collect();
        let (offset, concentration) = mean_phase(&phases);
        (turn, offset, concentration)
    };
    let longest = seen.iter().map(|seen| seen.repetition).max().unwrap_or(0);
    let given = at(stated);
    if given.2 >= BELIEVED || longest == 0 {
        return given;
    }
    let mut best = given;
    let mut step = 1.0 / (8.0 * longest as f64);
    let steps = (1.0 / step) as i64;
    let mut tried: Vec<f64> = (0..=steps).map(|index| index as f64 * step).collect();
    for _ in 0..3 {
        for turn in tried {
            let found = at(turn);
            if found.2 > best.2 {
                best = found;
            }
        }
        step /= 8.0;
        tried = (-8..=8).map(|index| best.0 + f64::from(index) * step).collect();
    }
    best
}
