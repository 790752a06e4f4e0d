//! The spindle as a clock: its period, and at which angle it stood when. Angles are fractions of a revolution from 0 to below 1.

/// So much of the residuals' spread counts as one step of doubt: a fifth of them lies beyond it.
const SPREAD_QUANTILE: f64 = 0.8;

/// Fits, each without what lies farthest off after the one before.
const TRIMS: u32 = 4;
/// Revolutions are counted as far as the clock may have gone wrong by so much of one.
const CERTAIN: f64 = 0.1;
/// A few readings may agree by chance: no clock is believed more than this.
const DOUBT_MIN: f64 = 1e-7;
/// Readings lie at least so far from a clock, when it is asked how far its period may be off.
const SPREAD_MIN: f64 = 1e-3;

/// A spindle that turns evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Clock {
    /// Length of a revolution, in ns.
    pub(crate) period_ns: f64,
    /// A time at which the reference had just passed, in ns.
    pub(crate) origin_ns: f64,
    /// How far readings lie from the clock, in revolutions.
    pub(crate) spread: f64,
    /// Doubt about the period, as a share of it.
    pub(crate) doubt: f64,
}

impl Clock {
    /// The angle that has just passed at `at_ns`, seen from the reference.
    pub(crate) fn angle(&self, at_ns: f64) -> f64 {
        ((at_ns - self.origin_ns) / self.period_ns).rem_euclid(1.0)
    }

    /// The clock that fits times at which the reference had passed, from one that is nearly right: by least squares, without
    /// those that lie farthest off. `times_ns` are in order.
    pub(crate) fn refined(&self, times_ns: &[f64]) -> Self {
        let mut clock = *self;
        let mut used = 0;
        // Each round may only count revolutions over a span in which the clock of the round before loses none.
        while used < times_ns.len() {
            let doubt = clock.doubt.max(DOUBT_MIN);
            let certain_ns = CERTAIN * clock.period_ns / doubt;
            let within = times_ns.iter().take_while(|at| **at - times_ns[0] <= certain_ns).count();
            used = within.max(used + 1).max(2).min(times_ns.len());
            clock = clock.fitted(&times_ns[..used]);
        }
        clock
    }

    fn fitted(&self, times_ns: &[f64]) -> Self {
        let first = times_ns[0];
        let turns = |at: f64| ((at - first) / self.period_ns).round();
        let all: Vec<(f64, f64)> = times_ns.iter().map(|at| (turns(*at), *at)).collect();
        let (mut used, mut clock, mut spread_ns) = (all.clone(), *self, 0.0);
        for _ in 0..TRIMS {
            let Some((period_ns, origin_ns)) = line(&used) else { break };
            clock = Self { period_ns, origin_ns, ..clock };
            let off = |(turns, at): &(f64, f64)| (at - origin_ns - turns * period_ns).abs();
            let mut sorted: Vec<f64> = all.iter().map(off).collect();
            sorted.sort_by(f64::total_cmp);
            spread_ns = quantile(&sorted, SPREAD_QUANTILE);
            used = all.iter().copied().filter(|point| off(point) <= 3.0 * spread_ns).collect();
        }
        clock.spread = (spread_ns / clock.period_ns).max(1e-6);
        let span = all.last().map_or(1.0, |last| last.0 - all[0].0).max(1.0);
        let sure = (used.len() as f64 / 12.0).sqrt().max(1.0);
        clock.doubt = clock.spread.max(SPREAD_MIN) / span / sure;
        clock
    }
}

/// Slope and intercept of the line through points, if there are two places.
pub(crate) fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let n = points.len() as f64;
    let (mean_x, mean_y) = (
        points.iter().map(|point| point.0).sum::<f64>() / n,
        points.iter().map(|point| point.1).sum::<f64>() / n,
    );
    let across: f64 = points.iter().map(|point| (point.0 - mean_x).powi(2)).sum();
    let along: f64 = points.iter().map(|point| (point.0 - mean_x) * (point.1 - mean_y)).sum();
    (across > 0.0).then(|| (along / across, mean_y - along / across * mean_x))
}

/// The value below which that share of `sorted` lies.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (share * sorted.len() as f64) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// An angle as the nearest number to 0: from -0.5 to below 0.5.
pub(crate) fn signed(turns: f64) -> f64 {
    (turns + 0.5).rem_euclid(1.0) - 0.5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_off_by_a_thousandth_is_set_right_by_what_passes() {
        let period = 8_333_333.25;
        let times: Vec<f64> = (0..200_u64)
            .map(|index| {
                (index * index % 7 + 40 * index) as f64 * period + (index % 5) as f64 * 9e3
            })
            .collect();
        let rough = Clock { period_ns: period * 1.001, origin_ns: 0.0, spread: 0.01, doubt: 1e-3 };
        let clock = rough.refined(&times);
        let ppm = (clock.period_ns / period - 1.0).abs() * 1e6;
        assert!(ppm < 1.0, "{ppm} ppm, {clock:?}");
        assert!(clock.spread < 0.004, "{clock:?}");
    }

    #[test]
    fn angles_are_told_from_the_nearer_side() {
        assert!((signed(0.9) + 0.1).abs() < 1e-12 && (signed(-0.6) - 0.4).abs() < 1e-12);
        assert!((signed(0.25) - 0.25).abs() < 1e-12);
    }
}
