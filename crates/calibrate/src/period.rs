//! The length of a revolution, from nothing: times at which one sector had passed, that are whole revolutions apart, however many.
//!
//! Taken modulo the right period all of them lie together. They do so modulo a half of it, a third, ..., too, so the longest period
//! is it at which they do; and modulo any other they are spread evenly. A device without a spindle has no such period.

use crate::clock::Clock;
use std::f64::consts::TAU;

/// Revolutions that there are: 25 ms is 2,400 a minute, 2.4 ms is 25,000.
const PERIOD_NS: std::ops::Range<f64> = 2.4e6..25e6;
/// How closely together the times lie, from 0 (evenly spread) to 1. 48 times at random reach 0.5 once in ten thousand devices.
const TOGETHER_MIN: f64 = 0.75;
/// What is so high is a top like the highest. Reads that follow each other evenly make lower hills beside the right ones.
const AS_HIGH: f64 = 0.95;
/// Steps of frequency for each turn that the whole span may be off by.
const STEPS: f64 = 8.0;

/// The longest period that fits, and how closely.
pub(crate) fn find(times_ns: &[f64]) -> Option<Clock> {
    let (first, last) = (*times_ns.first()?, *times_ns.last()?);
    let span = last - first;
    if times_ns.len() < 8 || span < 4.0 * PERIOD_NS.end {
        return None;
    }
    let step = 1.0 / (STEPS * span);
    let count = ((1.0 / PERIOD_NS.start - 1.0 / PERIOD_NS.end) / step) as u64;
    let heights: Vec<(f64, f64)> = (0..count)
        .map(|index| 1.0 / PERIOD_NS.end + index as f64 * step)
        .map(|frequency| (frequency, concentration(times_ns, frequency).0))
        .collect();
    let highest = heights.iter().map(|(_, height)| *height).fold(0.0, f64::max);
    if highest < TOGETHER_MIN {
        return None;
    }
    // Of hills as high as the highest the first is the longest period; then to its top.
    let slope = heights.iter().position(|(_, height)| *height >= AS_HIGH * highest)?;
    let hill = heights[slope..].iter().take(2 * STEPS as usize);
    let (frequency, height) = hill.copied().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let (_, angle) = concentration(times_ns, frequency);
    let period_ns = 1.0 / frequency;
    let origin_ns = first + angle * period_ns;
    let spread = (-2.0 * height.min(0.999_999).ln()).sqrt() / TAU;
    let rough = Clock { period_ns, origin_ns, spread, doubt: step * period_ns };
    Some(rough.refined(times_ns))
}

/// How closely the times lie together modulo a period, and where, as a share of it behind the first of them.
fn concentration(times_ns: &[f64], frequency: f64) -> (f64, f64) {
    let (mut x, mut y) = (0.0, 0.0);
    for at in times_ns {
        let angle = TAU * ((at - times_ns[0]) * frequency).fract();
        (x, y) = (x + angle.cos(), y + angle.sin());
    }
    let n = times_ns.len() as f64;
    (x.hypot(y) / n, y.atan2(x) / TAU)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::SplitMix;

    fn passes(period_ns: f64, jitter_ns: u64, seed: u64) -> Vec<f64> {
        let mut random = SplitMix::new(seed);
        let mut turns = 0;
        (0..48)
            .map(|_| {
                turns += 2 + random.below(9);
                turns as f64 * period_ns + 1e6 + random.below(jitter_ns + 1) as f64
            })
            .collect()
    }

    #[test]
    fn the_period_is_found_at_every_speed_and_not_a_half_of_it() {
        for (seed, rpm) in
            [3_600.0, 4_002.0, 5_397.0, 7_193.0, 10_000.0, 15_020.0].iter().enumerate()
        {
            let period = 60e9 / rpm;
            let clock = find(&passes(period, 60_000, seed as u64)).unwrap();
            let ppm = (clock.period_ns / period - 1.0).abs() * 1e6;
            assert!(ppm < 50.0, "{rpm} a minute: {ppm} ppm");
        }
    }

    #[test]
    fn what_does_not_turn_has_no_period() {
        for seed in 0..50 {
            let mut random = SplitMix::new(seed);
            let mut at = 0;
            let times: Vec<f64> = (0..48)
                .map(|_| {
                    at += 60_000 + random.below(4_000_000);
                    at as f64
                })
                .collect();
            assert_eq!(find(&times), None, "seed {seed}");
        }
    }
}
