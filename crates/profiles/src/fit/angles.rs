//! The rotation period and the angles of an index tree, from when requests completed.
//!
//! When a request to the medium completes, its last sector has just passed under the head. So the
//! time of completion, less the angle that the layout gives for that sector, is the same phase for
//! all requests, if period and angles are right. Where the rows of a tree are off by constants,
//! each row shows a phase of its own: its offset is corrected by the difference, and its turn per
//! track if the phases inside the row spread. Uses measured times only, never the model's.

use super::{Fitted, FittedConstant};
use nearhead_models::Angle;
use nearhead_models::TreeRow;
use nearhead_models::measured::MeasuredRequest;
use nearhead_models::{LayoutSpec, Profile};
use std::collections::BTreeMap;
use std::f64::consts::TAU;

/// Requests that a row needs before it is corrected: fewer could agree by chance.
const ROW_REQUESTS_MIN: usize = 6;
/// Concentration of the phases of a row (1 is perfect) from which its turn is believed.
const BELIEVED: f64 = 0.9;
/// Concentration from which nothing is left to be gained.
const EXACT: f64 = 0.99;
/// How far the turn between repetitions of a table may be off, in revolutions.
const ROOT_TURN_RANGE: f64 = 0.02;
/// Share by which the period may differ from the stated one.
const PERIOD_RANGE: f64 = 4e-4;

/// A completion as seen from the rows of the layout.
#[derive(Clone, Copy)]
struct Completion {
    /// Since the start of the trace, in ns.
    at_ns: f64,
    /// Angle where the layout says that the request ends, in revolutions.
    angle: f64,
    /// Repetition of the row in which it ends.
    repetition: u64,
    /// Repetition of the row of the root under which that is.
    root_repetition: u64,
}

/// Completions by row of a table; of one row of the root.
type Rows = BTreeMap<(usize, usize), Vec<Completion>>;
/// Those of the whole disk, by row of the root.
type Roots = BTreeMap<usize, Rows>;

pub(super) fn fit(fitted: &mut Fitted, requests: &[MeasuredRequest]) -> Result<(), String> {
    let profile = &mut fitted.profile;
    let mut roots = by_row(profile, requests)?;
    let before = profile.period_ns as f64;
    let period = fit_period(&roots, before);
    profile.period_ns = period.round() as u64;
    let constant = FittedConstant { name: "period_ns".to_owned(), before, after: period.round() };
    fitted.constants.push(constant);
    let LayoutSpec::Tree(tree) = &mut profile.layout else { return Ok(()) };
    // The phase of the outermost zone is where the others are to be.
    let phases = |rows: &Rows| -> Vec<f64> {
        rows.values().flatten().map(|seen| phase(seen, period)).collect()
    };
    let known = roots.values().map(|rows| mean_phase(&phases(rows)));
    let Some((reference, _)) = known.into_iter().find(|found| found.1 >= BELIEVED) else {
        return Ok(());
    };
    let mut corrector = Corrector { period, reference, constants: &mut fitted.constants };
    let root = tree.tables.len() - 1;
    // A table that several rows of the root repeat is corrected where most requests are.
    let mut order: Vec<usize> = roots.keys().copied().collect();
    order.sort_by_key(|row| std::cmp::Reverse(roots[row].values().map(Vec::len).sum::<usize>()));
    let mut corrected = Vec::new();
    for root_row in order {
        let Some(rows) = roots.get_mut(&root_row) else { continue };
        let regular = rows.values().filter(|seen| seen.len() >= ROW_REQUESTS_MIN).count();
        let table = tree.tables[root][root_row].9;
        let is_table = tree.tables[root][root_row].8 == "table";
        if is_table && (regular == 0 || corrected.contains(&table)) {
            corrector.whole(&mut tree.tables[root][root_row], (root, root_row), rows);
            continue;
        }
        corrected.push(table);
        if is_table {
            let turns: Vec<f64> = tree.tables[table].iter().map(|row| row.5).collect();
            corrector.root_turn(&mut tree.tables[root][root_row], (root, root_row), rows, &turns);
        }
        for (&(table, row), seen) in rows.iter() {
            if seen.len() >= ROW_REQUESTS_MIN {
                corrector.row(&mut tree.tables[table][row], (table, row), seen);
            }
        }
        for other in roots.values_mut() {
            // Whoever repeats the same table sees its rows as corrected from now on.
            for (&(known, row), seen) in other.iter_mut().filter(|((known, _), _)| *known == table)
            {
                let (moved, turned) = corrector.change(known, row);
                for seen in seen {
                    seen.angle += moved + turned * seen.repetition as f64;
                }
            }
        }
    }
    Ok(())
}

/// Corrects rows and writes down what was corrected.
struct Corrector<'a> {
    period: f64,
    /// Phase of a completion where period and angles are right.
    reference: f64,
    constants: &'a mut Vec<FittedConstant>,
}

impl Corrector<'_> {
    /// One row: its offset, and its turn if the phases inside it spread.
    fn row(&mut self, spec: &mut TreeRow, (table, row): (usize, usize), seen: &[Completion]) {
        let (turn, offset, concentration) = best_turn(seen, self.period, spec.5);
        if concentration >= BELIEVED {
            self.set(&mut spec.5, turn, 1e-9, format!("layout.tables[{table}][{row}].turn"));
            self.offset(spec, (table, row), offset);
        }
    }

    /// A row of the root as a whole, where its table's own rows are not to be changed.
    fn whole(&mut self, spec: &mut TreeRow, place: (usize, usize), rows: &Rows) {
        let phases: Vec<f64> =
            rows.values().flatten().map(|seen| phase(seen, self.period)).collect();
        let (offset, concentration) = mean_phase(&phases);
        if phases.len() >= ROW_REQUESTS_MIN && concentration >= BELIEVED {
            self.offset(spec, place, offset);
        }
    }

    fn offset(&mut self, spec: &mut TreeRow, (table, row): (usize, usize), found: f64) {
        let moved = (found - self.reference).rem_euclid(1.0);
        let after = (spec.2 + moved).rem_euclid(1.0);
        // A few thousandths are noise of the fit rather than of the layout.
        if moved.min(1.0 - moved) > 0.002 {
            self.set(&mut spec.2, after, 0.0, format!("layout.tables[{table}][{row}].angle"));
        }
    }

    fn set(&mut self, value: &mut f64, after: f64, least: f64, name: String) {
        if (after - *value).abs() > least {
            self.constants.push(FittedConstant { name, before: *value, after });
            *value = after;
        }
    }

    /// What was added to the angle and the turn of a row.
    fn change(&self, table: usize, row: usize) -> (f64, f64) {
        let added = |what: &str| {
            let name = format!("layout.tables[{table}][{row}].{what}");
            let constant = self.constants.iter().find(|constant| constant.name == name);
            constant.map_or(0.0, |constant| constant.after - constant.before)
        };
        (added("angle"), added("turn"))
    }

    /// The turn from one repetition of a table to the next, where the phases of its rows spread.
    fn root_turn(
        &mut self,
        spec: &mut TreeRow,
        (table, row): (usize, usize),
        rows: &mut Rows,
        turns: &[f64],
    ) {
        let score = |rows: &Rows, moved: f64| -> f64 {
            let mut sum = 0.0;
            let mut count = 0;
            for (&(_, row), seen) in rows.iter().filter(|(_, seen)| seen.len() >= ROW_REQUESTS_MIN)
            {
                let turned: Vec<Completion> =
                    seen.iter().map(|seen| turned_root(*seen, moved)).collect();
                let turn = turns.get(row).copied().unwrap_or(0.0);
                sum += best_turn(&turned, self.period, turn).2 * seen.len() as f64;
                count += seen.len();
            }
            sum / f64::from(count.max(1) as u32)
        };
        let longest = rows.values().flatten().map(|seen| seen.root_repetition).max().unwrap_or(0);
        let given = score(rows, 0.0);
        if longest == 0 || given >= EXACT {
            return;
        }
        let mut step = 1.0 / (12.0 * longest as f64);
        let steps = (ROOT_TURN_RANGE / step).ceil() as i64;
        let mut tried: Vec<f64> = (-steps..=steps).map(|index| index as f64 * step).collect();
        let mut best = (given, 0.0);
        for _ in 0..2 {
            for moved in tried {
                let found = score(rows, moved);
                if found > best.0 {
                    best = (found, moved);
                }
            }
            step /= 8.0;
            tried = (-8..=8).map(|index| best.1 + f64::from(index) * step).collect();
        }
        if best.0 >= BELIEVED && best.0 > given + 0.002 {
            for seen in rows.values_mut().flatten() {
                *seen = turned_root(*seen, best.1);
            }
            let after = spec.5 + best.1;
            self.set(&mut spec.5, after, 0.0, format!("layout.tables[{table}][{row}].turn"));
        }
    }
}

/// The completion as seen if each repetition of the root's row were turned by `moved` more.
fn turned_root(seen: Completion, moved: f64) -> Completion {
    Completion { angle: seen.angle + moved * seen.root_repetition as f64, ..seen }
}

/// Completions by row of the root and row of the tree in which they end; by zone in other layouts.
fn by_row(profile: &Profile, requests: &[MeasuredRequest]) -> Result<Roots, String> {
    let geometry = profile.geometry().map_err(|error| error.problem)?;
    let origins = match &profile.layout {
        LayoutSpec::Tree(tree) => {
            Some(tree.compile_traced(profile.heads, profile.cylinders, profile.blocks)?)
        }
        _ => None,
    };
    let per_sector = u64::from(profile.sector_bytes / 512);
    let mut roots = Roots::new();
    let mut at_ns = 0.0;
    for request in requests {
        at_ns += request.response_ms * 1e6;
        let last = (request.lbn + u64::from(request.sectors) - 1) / per_sector;
        if last >= profile.blocks {
            return Err(format!("a request at sector {} reaches past the end", request.lbn));
        }
        let track = geometry.locate(last);
        let end = track.angle_of(last).plus(Angle::of_sector(1, track.sectors_per_track));
        let mut seen =
            Completion { at_ns, angle: end.revolutions(), repetition: 0, root_repetition: 0 };
        let (root, key) = match &origins {
            Some((runs, origins)) => {
                let (run, piece) = runs.find(last);
                let origin = origins[run];
                seen.repetition = origin.repetition + u64::from(piece);
                seen.root_repetition = origin.root_repetition;
                (origin.root_row, (origin.table, origin.row))
            }
            None => (track.sectors_per_track as usize, (0, 0)),
        };
        roots.entry(root).or_default().entry(key).or_default().push(seen);
        at_ns += request.think.0 as f64;
    }
    Ok(roots)
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
fn fit_period(roots: &Roots, stated: f64) -> f64 {
    let rows = || roots.values().flat_map(BTreeMap::values);
    let last = rows().flatten().map(|seen| seen.at_ns).fold(0.0, f64::max);
    // Over the whole trace a step shifts the phase by a sixteenth of a revolution.
    let mut step = stated * stated / last.max(stated) / 16.0;
    let steps = ((stated * PERIOD_RANGE / step) as i64).clamp(1, 4000);
    let score = |period: f64| -> f64 {
        rows()
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
