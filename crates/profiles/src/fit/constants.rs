//! A few overheads by coordinate descent: one after the other is moved while that brings the model
//! nearer to the drive, in steps that get smaller.

use super::{FitOptions, FittedConstant, Replays, distance_ms};
use nearhead_models::Profile;
use nearhead_models::measured::MeasuredRequest;

/// Smallest step, as a share of the first one.
const SMALLEST: f64 = 1.0 / 40.0;
/// Most passes over the constants at one step size.
const PASSES_MAX: usize = 4;
/// Most replays: each constant up and down in each pass at each of six step sizes.
pub(super) const REPLAYS_MAX: usize = 1 + 6 * PASSES_MAX * KNOBS.len() * 2;

/// A constant that can be moved.
struct Knob {
    name: &'static str,
    step: f64,
    get: fn(&Profile) -> f64,
    /// Adds to the constant, or multiplies it for a rate.
    add: fn(&mut Profile, f64),
}

const KNOBS: [Knob; 7] = [
    Knob {
        name: "command: ms before a read moves the arm (after a read)",
        step: 0.2,
        get: |profile| {
            let exchange = profile.command.exchange;
            exchange.map_or(profile.command.read_ms, |exchange| exchange.read_seek_ms[0])
        },
        add: |profile, ms| {
            profile.command.read_ms = (profile.command.read_ms + ms).max(0.0);
            if let Some(exchange) = &mut profile.command.exchange {
                shift(&mut exchange.read_seek_ms, ms);
            }
        },
    },
    Knob {
        name: "command: ms before a read from memory goes out (after a read)",
        step: 0.2,
        get: |profile| {
            let exchange = profile.command.exchange;
            exchange.map_or(profile.command.cached_ms, |exchange| exchange.read_hit_ms[0])
        },
        add: |profile, ms| {
            profile.command.cached_ms = (profile.command.cached_ms + ms).max(0.0);
            if let Some(exchange) = &mut profile.command.exchange {
                shift(&mut exchange.read_hit_ms, ms);
            }
        },
    },
    Knob {
        name: "command: ms before a write comes in (after a read)",
        step: 0.2,
        get: |profile| {
            let exchange = profile.command.exchange;
            exchange.map_or(profile.command.write_ms, |exchange| {
                if profile.cache.write_cache {
                    exchange.cached_write_data_ms[0]
                } else {
                    exchange.write_seek_ms[0]
                }
            })
        },
        add: |profile, ms| {
            profile.command.write_ms = (profile.command.write_ms + ms).max(0.0);
            if let Some(exchange) = &mut profile.command.exchange {
                shift(&mut exchange.write_seek_ms, ms);
                shift(&mut exchange.write_data_ms, ms);
                shift(&mut exchange.cached_write_data_ms, ms);
            }
        },
    },
    Knob {
        name: "seek.write_settle_ms",
        step: 0.2,
        get: |profile| profile.seek.write_settle_ms,
        add: |profile, ms| profile.seek.write_settle_ms += ms,
    },
    Knob {
        name: "seek.points_ms (full stroke)",
        step: 0.04,
        get: |profile| profile.seek.points_ms.last().map_or(0.0, |point| point.1),
        add: |profile, share| {
            let writes = profile.seek.write_points_ms.iter_mut().flatten();
            for point in profile.seek.points_ms.iter_mut().chain(writes) {
                point.1 = (point.1 * share.exp()).min(999.0);
            }
        },
    },
    Knob {
        name: "seek.points_ms (shortest; what is added fades to the full stroke)",
        step: 0.1,
        get: |profile| profile.seek.points_ms.first().map_or(0.0, |point| point.1),
        add: |profile, ms| {
            let full = f64::from(profile.cylinders.max(2));
            let writes = profile.seek.write_points_ms.iter_mut().flatten();
            for point in profile.seek.points_ms.iter_mut().chain(writes) {
                let share = (1.0 - f64::from(point.0) / full).max(0.0);
                point.1 = (point.1 + ms * share).clamp(0.0, 999.0);
            }
        },
    },
    Knob {
        name: "interface.megabytes_per_s (writes)",
        step: 0.2,
        get: |profile| {
            let interface = profile.interface;
            interface.write_megabytes_per_s.unwrap_or(interface.megabytes_per_s)
        },
        add: |profile, share| {
            let interface = &mut profile.interface;
            let rate = interface.write_megabytes_per_s.unwrap_or(interface.megabytes_per_s);
            interface.write_megabytes_per_s = Some((rate * share.exp()).clamp(0.05, 1e6));
        },
    },
];

fn shift(pair: &mut [f64; 2], ms: f64) {
    *pair = pair.map(|before| (before + ms).max(0.0));
}

pub(super) fn fit(
    profile: &mut Profile,
    requests: &[MeasuredRequest],
    options: FitOptions,
    replays: &mut Replays,
) -> Result<(), String> {
    let mut score = |profile: &Profile| -> Result<f64, String> {
        Ok(distance_ms(requests, &replays.of(profile, requests)?, options.angles))
    };
    let mut best = score(profile)?;
    let mut scale = 1.0;
    while scale >= SMALLEST {
        for _ in 0..PASSES_MAX {
            let before = best;
            for knob in &KNOBS {
                for step in [knob.step * scale, -knob.step * scale] {
                    let mut moved = profile.clone();
                    (knob.add)(&mut moved, step);
                    let found = score(&moved)?;
                    if found < best {
                        (best, *profile) = (found, moved);
                        break;
                    }
                }
            }
            if best >= before {
                break;
            }
        }
        scale /= 2.0;
    }
    Ok(())
}

/// What differs between two profiles of what is fitted here.
pub(super) fn changes(before: &Profile, after: &Profile) -> Vec<FittedConstant> {
    let both = KNOBS.iter().map(|knob| (knob, (knob.get)(before), (knob.get)(after)));
    both.filter(|(_, before, after)| (before - after).abs() > 1e-9)
        .map(|(knob, before, after)| FittedConstant { name: knob.name.to_owned(), before, after })
        .collect()
}
