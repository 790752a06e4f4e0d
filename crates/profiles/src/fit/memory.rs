//! What a drive's memory does, chosen from a trace: segments, reading ahead, buffering of writes, and what they cost.
//!
//! These are choices of the whole drive's firmware, a dozen of them with few values each. They are tried one after the other,
//! each with all of its values, until none of them changes any more. A value is kept only if the first half of the trace is told
//! better by more than chance: in all its quarters but one, by twice what the quarters differ, and by a hundredth; or, where few
//! requests tell, in none of them for the worse and by a twentieth.
//! So what a trace says nothing about stays as it was. The number of replays is bounded by [`REPLAYS_MAX`]; nothing is random.

use super::{FitOptions, FittedConstant, Replays, distance_ms};
use nearhead_models::measured::MeasuredRequest;
use nearhead_models::{ExchangeSpec, Profile, ReadAhead};

/// Most passes over all choices.
const PASSES_MAX: usize = 3;
/// Most times that are changed in a pass.
const TIMES_MAX: usize = 4;
/// Most replays of the half that is fitted on: all values in all passes, and each time refined.
pub(super) const REPLAYS_MAX: usize = PASSES_MAX * replays_of_a_pass();
/// Parts of the half in which a value must do better.
const PARTS: usize = 4;
/// Share by which a value must do better.
const MARGIN: f64 = 0.01;
/// The same for a value that only some parts say anything about.
const CLEAR: f64 = 0.05;
/// Of a revolution: farther than this from what was measured is just wrong. Of a request to the medium whose place on the track
/// nobody knows it does not matter how far.
const WRONG_FROM: f64 = 0.25;

/// Steps by which a time is refined.
const REFINED_MS: [f64; 4] = [0.12, 0.06, 0.03, 0.015];

/// One choice and the values that are tried.
struct Choice {
    name: &'static str,
    tried: &'static [f64],
    /// A time: the values between two that are tried are possible, too.
    is_time: bool,
    /// The value; none where the profile has no such thing.
    get: fn(&Profile) -> Option<f64>,
    set: fn(&mut Profile, f64),
}

const SWITCH: &[f64] = &[0.0, 1.0];
const MORE_MS: &[f64] =
    &[-2.0, -1.5, -1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0];

/// Where reading ahead may end, by the numbers that the choice of it has.
const UNTIL: [ReadAhead; 4] =
    [ReadAhead::Sectors, ReadAhead::Track, ReadAhead::Cylinder, ReadAhead::NextTrack];

const CHOICES: [Choice; 19] = [
    Choice {
        name: "cache.read_ahead_when_sequential",
        tried: SWITCH,
        is_time: false,
        get: |profile| Some(f64::from(u8::from(profile.cache.read_ahead_when_sequential))),
        set: |profile, value| profile.cache.read_ahead_when_sequential = value > 0.5,
    },
    Choice {
        name: "cache.read_ahead_keeps_requested",
        tried: SWITCH,
        is_time: false,
        get: |profile| Some(f64::from(u8::from(profile.cache.read_ahead_keeps_requested))),
        set: |profile, value| profile.cache.read_ahead_keeps_requested = value > 0.5,
    },
    Choice {
        name: "cache.read_ahead_until (0 sectors, 1 track, 2 cylinder, 3 next track)",
        tried: &[0.0, 1.0, 2.0, 3.0],
        is_time: false,
        get: |profile| {
            let place = UNTIL.iter().position(|until| *until == profile.cache.read_ahead_until);
            place.map(|place| place as f64)
        },
        set: |profile, value| {
            let cache = &mut profile.cache;
            cache.read_ahead_until = UNTIL[(value as usize).min(UNTIL.len() - 1)];
            if cache.read_ahead_until != ReadAhead::Sectors {
                cache.read_ahead_sectors = cache.segment_sectors;
            }
        },
    },
    Choice {
        name: "cache.read_ahead_sectors",
        tried: &[
            0.0, 8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0, 768.0,
            1024.0, 2048.0,
        ],
        is_time: false,
        get: |profile| Some(f64::from(profile.cache.read_ahead_sectors)),
        set: |profile, value| profile.cache.read_ahead_sectors = value as u32,
    },
    Choice {
        name: "cache.segments",
        tried: &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0, 32.0],
        is_time: false,
        get: |profile| Some(f64::from(profile.cache.segments)),
        set: |profile, value| profile.cache.segments = value as u16,
    },
    Choice {
        name: "cache.segment_sectors",
        tried: &[
            8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0, 768.0,
            1024.0, 2048.0, 4096.0,
        ],
        is_time: false,
        get: |profile| Some(f64::from(profile.cache.segment_sectors)),
        set: |profile, value| profile.cache.segment_sectors = value as u32,
    },
    Choice {
        name: "cache.written_segments",
        tried: &[0.0, 1.0, 2.0, 3.0, 4.0, 8.0, 16.0],
        is_time: false,
        get: |profile| Some(f64::from(profile.cache.written_segments)),
        set: |profile, value| profile.cache.written_segments = value as u16,
    },
    Choice {
        name: "cache.joins_read_ahead",
        tried: SWITCH,
        is_time: false,
        get: |profile| Some(f64::from(u8::from(profile.cache.joins_read_ahead))),
        set: |profile, value| profile.cache.joins_read_ahead = value > 0.5,
    },
    Choice {
        name: "cache.keeps_passing_sectors",
        tried: SWITCH,
        is_time: false,
        get: |profile| Some(f64::from(u8::from(profile.cache.keeps_passing_sectors))),
        set: |profile, value| profile.cache.keeps_passing_sectors = value > 0.5,
    },
    Choice {
        name: "cache.zero_latency_reads",
        tried: SWITCH,
        is_time: false,
        get: |profile| Some(f64::from(u8::from(profile.cache.zero_latency_reads))),
        set: |profile, value| profile.cache.zero_latency_reads = value > 0.5,
    },
    Choice {
        name: "cache.write_cache",
        tried: SWITCH,
        is_time: false,
        get: |profile| Some(f64::from(u8::from(profile.cache.write_cache))),
        set: |profile, value| profile.cache.write_cache = value > 0.5,
    },
    Choice {
        name: "cache.dirty_bytes_max",
        tried: &[8e3, 16e3, 32e3, 64e3, 128e3, 256e3, 512e3, 1024e3, 4096e3],
        is_time: false,
        get: |profile| Some(profile.cache.dirty_bytes_max as f64),
        set: |profile, value| profile.cache.dirty_bytes_max = value as u64,
    },
    Choice {
        name: "cache.destage_idle_ms",
        tried: &[0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0],
        is_time: false,
        get: |profile| Some(profile.cache.destage_idle_ms),
        set: |profile, value| profile.cache.destage_idle_ms = value,
    },
    Choice {
        name: "seek.write_settle_ms",
        tried: &[0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0],
        is_time: true,
        get: |profile| Some(profile.seek.write_settle_ms),
        set: |profile, value| profile.seek.write_settle_ms = value,
    },
    Choice {
        name: "seek.read_after_write_ms",
        tried: &[0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0],
        is_time: true,
        get: |profile| Some(profile.seek.read_after_write_ms),
        set: |profile, value| profile.seek.read_after_write_ms = value.max(0.0),
    },
    Choice {
        name: "command.exchange.read_ahead_end_ms",
        tried: &[0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0],
        is_time: true,
        get: |profile| profile.command.exchange.map(|exchange| exchange.read_ahead_end_ms),
        set: |profile, value| {
            if let Some(exchange) = &mut profile.command.exchange {
                exchange.read_ahead_end_ms = value.max(0.0);
            }
        },
    },
    Choice {
        name: "command.exchange: ms more after a write before a read moves the arm",
        tried: MORE_MS,
        is_time: true,
        get: |profile| profile.command.exchange.map(|exchange| more(exchange.read_seek_ms)),
        set: |profile, value| {
            shift_after_write(profile, value, |exchange| vec![&mut exchange.read_seek_ms]);
        },
    },
    Choice {
        name: "command.exchange: ms more after a write before a read from memory goes out",
        tried: MORE_MS,
        is_time: true,
        get: |profile| profile.command.exchange.map(|exchange| more(exchange.read_hit_ms)),
        set: |profile, value| {
            shift_after_write(profile, value, |exchange| vec![&mut exchange.read_hit_ms]);
        },
    },
    Choice {
        name: "command.exchange: ms more after a write before a write comes in",
        tried: MORE_MS,
        is_time: true,
        get: |profile| {
            let is_cached = profile.cache.write_cache;
            profile.command.exchange.map(|exchange| {
                more(if is_cached { exchange.cached_write_data_ms } else { exchange.write_seek_ms })
            })
        },
        set: |profile, value| {
            shift_after_write(profile, value, |exchange| {
                vec![
                    &mut exchange.write_seek_ms,
                    &mut exchange.write_data_ms,
                    &mut exchange.cached_write_data_ms,
                ]
            });
        },
    },
];

const fn replays_of_a_pass() -> usize {
    let (mut count, mut index) = (TIMES_MAX * (1 + 2 * REFINED_MS.len()), 0);
    while index < CHOICES.len() {
        let tried = CHOICES[index].tried.len();
        count += if CHOICES[index].is_time { TIMES_MAX * tried } else { 1 + tried };
        index += 1;
    }
    count
}

fn more([after_read, after_write]: [f64; 2]) -> f64 {
    after_write - after_read
}

/// Makes the one of the `pairs` that the drive uses differ by `value`, and moves the others by as much: of writes, the last is that
/// of a write that is answered early.
fn shift_after_write(
    profile: &mut Profile,
    value: f64,
    pairs: fn(&mut ExchangeSpec) -> Vec<&mut [f64; 2]>,
) {
    let is_cached = profile.cache.write_cache;
    let Some(exchange) = &mut profile.command.exchange else { return };
    let mut pairs = pairs(exchange);
    let leading = if is_cached { pairs.last() } else { pairs.first() };
    let by = value - leading.map_or(0.0, |pair| more(**pair));
    for pair in &mut pairs {
        pair[1] = (pair[1] + by).max(0.0);
    }
}

/// How far a model is from the drive, in ms, in each part of the trace.
type Losses = [f64; PARTS];

struct Search<'a> {
    requests: &'a [MeasuredRequest],
    options: FitOptions,
    profile: Profile,
    replays: &'a mut Replays,
}

impl Search<'_> {
    /// What a structure is chosen by is how far each request is from what was measured; a time moves the requests to the medium,
    /// which a trace without the phase of the rotation shows in their distribution only.
    fn losses(&mut self, profile: &Profile, is_time: bool) -> Result<Losses, String> {
        let pairs = self.replays.of(profile, self.requests)?;
        let wrong_ms = WRONG_FROM * profile.period_ns as f64 / 1e6;
        let mut found = [0.0; PARTS];
        for (part, loss) in found.iter_mut().enumerate() {
            let range = pairs.len() * part / PARTS..pairs.len() * (part + 1) / PARTS;
            let pairs = &pairs[range.clone()];
            let errors =
                pairs.iter().map(|(measured, found)| (measured - found).abs().min(wrong_ms));
            *loss = errors.sum::<f64>() / pairs.len() as f64;
            if is_time {
                *loss += distance_ms(&self.requests[range], pairs, self.options.angles);
            }
        }
        Ok(found)
    }

    /// Takes the best value of the best of `choices`, if it is better than what there is by more than chance.
    fn choose<'b>(
        &mut self,
        choices: impl Iterator<Item = &'b Choice>,
        is_time: bool,
    ) -> Result<bool, String> {
        let now = self.losses(&self.profile.clone(), is_time)?;
        let mut chosen: Option<(f64, &Choice, Profile, Losses)> = None;
        for choice in choices {
            let Some(before) = (choice.get)(&self.profile) else { continue };
            for value in choice.tried.iter().copied().filter(|value| (value - before).abs() > 1e-9)
            {
                let Some(moved) = self.moved(choice, value) else { continue };
                let found = self.losses(&moved, is_time)?;
                if let Some(gain) = gain(&now, &found)
                    && chosen.as_ref().is_none_or(|(most, ..)| gain > *most)
                {
                    chosen = Some((gain, choice, moved, found));
                }
            }
        }
        let Some((_, choice, profile, losses)) = chosen else { return Ok(false) };
        self.profile = profile;
        if is_time {
            self.refine(choice, losses)?;
        }
        Ok(true)
    }

    /// A time that was worth taking is taken more exactly.
    fn refine(&mut self, choice: &Choice, mut best: Losses) -> Result<(), String> {
        let sum = |losses: &Losses| losses.iter().sum::<f64>();
        for step in REFINED_MS {
            let Some(value) = (choice.get)(&self.profile) else { return Ok(()) };
            for value in [value - step, value + step] {
                let Some(moved) = self.moved(choice, value) else { continue };
                let found = self.losses(&moved, true)?;
                if sum(&found) < sum(&best) {
                    (self.profile, best) = (moved, found);
                }
            }
        }
        Ok(())
    }

    fn moved(&self, choice: &Choice, value: f64) -> Option<Profile> {
        let mut moved = self.profile.clone();
        (choice.set)(&mut moved, value);
        moved.validate().is_ok().then_some(moved)
    }
}

/// Mean gain of `found` over `now`, if it is more than chance: in all parts but one and by twice what the parts differ, or, where few
/// requests tell, in none for the worse and by much.
fn gain(now: &Losses, found: &Losses) -> Option<f64> {
    let count = PARTS as f64;
    let gains: Vec<f64> = now.iter().zip(found).map(|(now, found)| now - found).collect();
    let mean = gains.iter().sum::<f64>() / count;
    let share = mean * count / now.iter().sum::<f64>().max(1e-9);
    let spread = gains.iter().map(|gain| (gain - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let better = gains.iter().filter(|gain| **gain > 0.0).count();
    let is_steady = better + 1 >= PARTS && mean > 2.0 * (spread / count).sqrt();
    let is_clear = share > CLEAR && gains.iter().all(|gain| *gain >= 0.0);
    (share > MARGIN && (is_steady || is_clear)).then_some(mean)
}

pub(super) fn fit(
    profile: &mut Profile,
    requests: &[MeasuredRequest],
    options: FitOptions,
    replays: &mut Replays,
) -> Result<(), String> {
    let mut search = Search { requests, options, profile: profile.clone(), replays };
    let is_free = |choice: &&Choice| {
        options.setup.write_cache.is_none() || choice.name != "cache.write_cache"
    };
    for _ in 0..PASSES_MAX {
        let mut changed = false;
        for choice in CHOICES.iter().filter(|choice| !choice.is_time).filter(is_free) {
            changed |= search.choose(std::iter::once(choice), false)?;
        }
        // Times mean something once it is known what is a hit. Several can explain the same: the best goes first.
        for _ in 0..TIMES_MAX {
            if !search.choose(CHOICES.iter().filter(|choice| choice.is_time), true)? {
                break;
            }
            changed = true;
        }
        if !changed {
            break;
        }
    }
    *profile = search.profile;
    Ok(())
}

/// What differs between two profiles of what is chosen here.
pub(super) fn changes(before: &Profile, after: &Profile) -> Vec<FittedConstant> {
    let both = CHOICES
        .iter()
        .filter_map(|choice| Some((choice, (choice.get)(before)?, (choice.get)(after)?)));
    both.filter(|(_, before, after)| (before - after).abs() > 1e-9)
        .map(|(choice, before, after)| FittedConstant {
            name: choice.name.to_owned(),
            before,
            after,
        })
        .collect()
}
