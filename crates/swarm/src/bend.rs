//! Small changes to a life, each named by a word: what a campaign makes new lives of.
//!
//! A life is a seed and the bends made to it, one after the other: `--seed 7 --bend shape:12,steps:3`. The same words
//! give the same life, whatever made them.

use crate::ghost::WATCHED_MAX;
use crate::scenario::Scenario;
use crate::steps::{Step, random_steps};
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_engine::{Activities, Activity};
use nearhead_format::AckMode;
use nearhead_models::faults::{FaultBudget, FaultKind, FaultPlan};
use std::fmt;
use std::str::FromStr;

/// Steps of a life that was made longer, at most.
const STEPS_MAX: usize = 3000;
/// Steps that one bend puts in.
const STEPS_NEW_MAX: u64 = 300;

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bend {
    /// Sizes, policies, faults: some are chosen anew, towards what is tight.
    Shape(u64),
    /// Steps: a part is replaced, doubled, left out, or more are added.
    Steps(u64),
    /// The power goes beside the life whenever these two are under way.
    Watch(Activity, Activity),
}

impl fmt::Display for Bend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape(salt) => write!(formatter, "shape:{salt}"),
            Self::Steps(salt) => write!(formatter, "steps:{salt}"),
            Self::Watch(one, two) => write!(formatter, "watch:{}+{}", one.name(), two.name()),
        }
    }
}

impl FromStr for Bend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("bend: expected shape:N, steps:N or watch:ACTIVITY+ACTIVITY, found {text:?}")
        };
        let (kind, value) = text.split_once(':').ok_or_else(wrong)?;
        let number = || value.parse().map_err(|_| wrong());
        match kind {
            "shape" => Ok(Self::Shape(number()?)),
            "steps" => Ok(Self::Steps(number()?)),
            "watch" => {
                let (one, two) = value.split_once('+').ok_or_else(wrong)?;
                let named = |name| Activity::by_name(name).ok_or_else(wrong);
                Ok(Self::Watch(named(one)?, named(two)?))
            }
            _ => Err(wrong()),
        }
    }
}

impl Scenario {
    /// The same life, bent.
    #[must_use]
    pub fn bent(mut self, bend: Bend) -> Self {
        self.bends.push(bend);
        match bend {
            Bend::Shape(salt) => {
                let mut random = SplitMix::new(salt);
                for _ in 0..=random.below(3) {
                    self.shape(&mut random);
                }
            }
            Bend::Steps(salt) => self.bend_steps(&mut SplitMix::new(salt)),
            Bend::Watch(one, two) => {
                self.watched.push(Activities::pair(one, two));
                self.watched.truncate(WATCHED_MAX);
            }
        }
        self
    }

    fn shape(&mut self, random: &mut SplitMix) {
        let millis = |random: &mut SplitMix, most: u64| Nanos::from_millis(1 + random.below(most));
        match random.below(16) {
            0 | 1 => {
                // Two logs, or one, that go round again and again.
                (self.group_bytes, self.log_bytes) = (28 << 20, 512 << 10);
                self.no_log_reserve = random.coin();
            }
            2 => self.snapshot_after_bytes = 20 << (10 + random.below(9)),
            3 => self.snapshot_period = millis(random, 300),
            4 => self.checkpoint_period = random.coin().then(|| millis(random, 40)),
            5 => self.idle_after = random.coin().then(|| millis(random, 10)),
            6 => self.watermark_pct = Some(5 + random.below(60) as u8),
            7 => self.swap_above_pct = Some(2 + random.below(20) as u8),
            8 => self.batch_bytes = 16 << (10 + random.below(6)),
            9 => self.stage_bytes_max = 64 << (10 + random.below(4)),
            10 => {
                let depths = [1, 2, 4, 32];
                self.properties.queue_depth_max = depths[random.below(4) as usize];
            }
            11 => {
                self.latency = Nanos::from_micros([20, 100, 1000, 5000][random.below(4) as usize]);
            }
            12 => self.ack = if random.coin() { AckMode::Durable } else { AckMode::Flush },
            13 => self.faults = FaultPlan::random(FaultBudget::Survive, random),
            14 => {
                let kinds = [
                    FaultKind::WriteError,
                    FaultKind::ShortWrite,
                    FaultKind::FlushError,
                    FaultKind::Slow,
                ];
                let kind = kinds[random.below(4) as usize];
                self.faults = self.faults.clone().with(kind, 30 << random.below(4));
            }
            _ => {
                let has_map = self.preset.layout.has_logs() && random.coin();
                self.map_device_bytes = has_map.then_some(4 << 20);
            }
        }
    }

    fn bend_steps(&mut self, random: &mut SplitMix) {
        let len = self.steps.len();
        let place = |random: &mut SplitMix| random.below(len as u64 + 1) as usize;
        let (at, to) = (place(random), place(random));
        let part = at..(at + random.below(STEPS_NEW_MAX) as usize).min(len);
        match random.below(6) {
            0 => {
                let new = random_steps(part.len(), random);
                self.steps.splice(part, new);
            }
            1 => {
                let copy: Vec<Step> = self.steps[part].to_vec();
                self.steps.splice(to..to, copy);
            }
            2 => drop(self.steps.drain(part)),
            3 => {
                let company = crowded_steps(random);
                self.steps.splice(at..at, company);
            }
            4 => {
                // The steps that bring a life to rest are what keeps states from getting deep.
                let rests = |step: &Step| {
                    matches!(
                        step,
                        Step::Cut { .. }
                            | Step::Kill { .. }
                            | Step::Restart
                            | Step::CutAtAck { .. }
                    )
                };
                let stays = random.below(8);
                let mut number = 0;
                self.steps.retain(|step| {
                    number += u64::from(rests(step));
                    !rests(step) || number % 8 < stays
                });
            }
            _ => {
                let new = random_steps(random.below(STEPS_NEW_MAX) as usize, random);
                self.steps.splice(to..to, new);
            }
        }
        self.steps.truncate(STEPS_MAX);
    }
}

/// Steps close together: writes large and small over the same places while operators ask for everything.
fn crowded_steps(random: &mut SplitMix) -> Vec<Step> {
    let mut steps = Vec::new();
    for step in random_steps(20 + random.below(100) as usize, random) {
        let also = match random.below(14) {
            0 => Some(Step::Checkpoint { everything: random.coin() }),
            1 | 2 => Some(Step::Snapshot),
            3 => Some(Step::Flush),
            4..=6 => Some(Step::Turn { micros: random.below(60) }),
            _ => None,
        };
        steps.extend(also);
        match step {
            Step::Write { .. }
            | Step::Atomic { .. }
            | Step::Trim { .. }
            | Step::Zeroes { .. }
            | Step::Turn { .. }
            | Step::Flush => steps.push(step),
            _ => {}
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bend_reads_as_it_is_written_and_does_the_same_each_time() {
        let watch = Bend::Watch(Activity::Flush, Activity::SnapshotCopy);
        for bend in [Bend::Shape(7), Bend::Steps(9), watch] {
            assert_eq!(bend.to_string().parse::<Bend>().unwrap(), bend);
            let bent = || Scenario::new(3, 200).bent(bend);
            assert_eq!(format!("{:?}", bent()), format!("{:?}", bent()));
        }
        for wrong in ["shape", "shape:x", "watch:flush", "watch:flush+sleep", "turn:3"] {
            assert!(wrong.parse::<Bend>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn lives_stay_bounded_however_often_they_are_bent() {
        let mut scenario = Scenario::new(5, 1000);
        for salt in 0..60 {
            scenario = scenario.bent(Bend::Steps(salt)).bent(Bend::Shape(salt));
        }
        assert!(scenario.steps.len() <= STEPS_MAX, "{}", scenario.steps.len());
    }
}
