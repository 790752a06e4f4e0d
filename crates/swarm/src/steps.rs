//! What happens to a volume, step by step, and how a seed chooses it.
//!
//! A step never depends on what came before, so that any of them can be left out when a failing life is
//! made shorter. Addresses are a window and a sector of 512 bytes in it: the client's address space has a
//! few windows far apart, so that requests overlap each other and still go to many logs.

use nearhead_basics::SplitMix;
use std::fmt;
use std::str::FromStr;

/// Windows of a volume.
pub(crate) const WINDOWS: u64 = 4;
/// Sectors of each window.
pub(crate) const WINDOW_SECTORS: u64 = 1024;

/// Sectors of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which window.
    pub window: u64,
    /// First sector in it.
    pub start: u64,
    /// Number of sectors; never past the window's end.
    pub count: u64,
}

/// One thing that a client, an operator or fate does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it; `fua` and the like are the request's fields")]
pub enum Step {
    Write {
        place: Place,
        fua: bool,
    },
    Zeroes {
        place: Place,
        fua: bool,
        fast_only: bool,
    },
    Trim {
        place: Place,
        fua: bool,
    },
    Atomic {
        place: Place,
        other: Place,
    },
    Read {
        place: Place,
    },
    Flush,
    Hint {
        place: Place,
        on: bool,
    },
    /// A request that must be refused; `salt` chooses which.
    Hostile {
        salt: u64,
    },
    Checkpoint {
        everything: bool,
    },
    Snapshot,
    /// Time passes, at most to the next event.
    Turn {
        micros: u64,
    },
    /// Time passes, with everything that happens meanwhile.
    Idle {
        millis: u64,
    },
    /// Everything asked for is answered.
    Settle,
    /// Everything logged goes home.
    Drain,
    /// The power goes, and `again` times more during the recovery that follows.
    Cut {
        again: u64,
    },
    /// A write, and a flush if it is not durable by itself; the power goes the moment it is answered.
    CutAtAck {
        place: Place,
        fua: bool,
    },
    /// The process goes, the disk stays.
    Kill {
        again: u64,
    },
    /// A clean stop, then a start.
    Restart,
    /// A clean stop, a larger disk, a start.
    Grow,
    /// A clean stop, damage to the disk at rest, a start; in lives that look for detection only.
    Damage {
        salt: u64,
    },
}

/// How often each sort of step comes, as a seed likes it.
#[derive(Clone, Copy, Debug)]
struct Weights {
    write: u64,
    read: u64,
    flush: u64,
    zeroes: u64,
    trim: u64,
    atomic: u64,
    hint: u64,
    hostile: u64,
    operator: u64,
    time: u64,
    restart: u64,
    /// One request in so many is large.
    large_one_in: u64,
    fua_one_in: u64,
}

impl Weights {
    fn random(random: &mut SplitMix) -> Self {
        let mut some = |most: u64| if random.below(3) == 0 { 0 } else { 1 + random.below(most) };
        let (read, flush, zeroes, trim) = (some(120), some(60), some(40), some(40));
        let (atomic, hint, hostile) = (some(40), some(15), some(10));
        let (operator, restart) = (some(15), 1 + some(12));
        Self {
            write: 200 + random.below(300),
            read,
            flush,
            zeroes,
            trim,
            atomic,
            hint,
            hostile,
            operator,
            time: 50 + random.below(500),
            restart,
            large_one_in: 2 + random.below(12),
            fua_one_in: 1 + random.below(8),
        }
    }

    fn place(&self, random: &mut SplitMix) -> Place {
        let large = random.below(self.large_one_in) == 0;
        let count = 1 + random.below(if large { WINDOW_SECTORS } else { 24 });
        // Half of all requests meet in the first sectors of each window.
        let span = if random.coin() { WINDOW_SECTORS } else { 96 };
        let start = random.below(span);
        Place { window: random.below(WINDOWS), start, count: count.min(WINDOW_SECTORS - start) }
    }

    fn step(&self, random: &mut SplitMix) -> Step {
        let kinds = [
            self.write,
            self.read,
            self.flush,
            self.zeroes,
            self.trim,
            self.atomic,
            self.hint,
            self.hostile,
            self.operator,
            self.time,
            self.restart,
        ];
        let mut chosen = random.below(kinds.iter().sum());
        let mut kind = 0;
        while chosen >= kinds[kind] {
            chosen -= kinds[kind];
            kind += 1;
        }
        let place = self.place(random);
        let fua = random.below(self.fua_one_in) == 0;
        match kind {
            0 => Step::Write { place, fua },
            1 => Step::Read { place },
            2 => Step::Flush,
            3 => Step::Zeroes { place, fua, fast_only: random.below(4) == 0 },
            4 => Step::Trim { place, fua },
            5 => {
                let place = Place { count: place.count.min(16), ..place };
                let other = self.place(random);
                let start = other.start.min(WINDOW_SECTORS - place.count);
                Step::Atomic { place, other: Place { start, count: place.count, ..other } }
            }
            6 => Step::Hint { place, on: random.coin() },
            7 => Step::Hostile { salt: random.next_u64() },
            8 => match random.below(8) {
                0 => Step::Snapshot,
                1 | 2 => Step::Settle,
                3 => Step::Drain,
                4 => Step::Idle { millis: random.below(2000) },
                other => Step::Checkpoint { everything: other == 5 },
            },
            9 => Step::Turn { micros: random.below(400) },
            _ => match random.below(15) {
                0 | 1 => Step::Kill { again: random.below(3) },
                2 | 3 => Step::Restart,
                4 => Step::Grow,
                5 | 6 => Step::Damage { salt: random.next_u64() },
                7..=9 => Step::CutAtAck { place, fua },
                _ => Step::Cut { again: random.below(4).saturating_sub(1) },
            },
        }
    }
}

/// The steps of a life.
pub(crate) fn random_steps(count: usize, random: &mut SplitMix) -> Vec<Step> {
    let weights = Weights::random(random);
    (0..count).map(|_| weights.step(random)).collect()
}

/// Which steps of a life are taken, as `0-12,17,40-41`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps(pub Vec<usize>);

impl fmt::Display for Steps {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = 0;
        while at < self.0.len() {
            let first = at;
            while at + 1 < self.0.len() && self.0[at + 1] == self.0[at] + 1 {
                at += 1;
            }
            let comma = if first == 0 { "" } else { "," };
            let (start, end) = (self.0[first], self.0[at]);
            if start == end {
                write!(formatter, "{comma}{start}")?;
            } else {
                write!(formatter, "{comma}{start}-{end}")?;
            }
            at += 1;
        }
        Ok(())
    }
}

impl FromStr for Steps {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |part: &str| format!("steps: expected numbers as in 0-12,17, found {part:?}");
        let mut steps = Vec::new();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (start, end) = part.split_once('-').unwrap_or((part, part));
            let start: usize = start.parse().map_err(|_| wrong(part))?;
            let end: usize = end.parse().map_err(|_| wrong(part))?;
            if end < start || end - start > 1 << 20 {
                return Err(wrong(part));
            }
            steps.extend(start..=end);
        }
        Ok(Self(steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_steps_reads_as_it_is_written() {
        for steps in [vec![], vec![3], vec![0, 1, 2, 7, 9, 10]] {
            let steps = Steps(steps);
            assert_eq!(steps.to_string().parse::<Steps>().unwrap(), steps);
        }
        assert_eq!(Steps(vec![0, 1, 2, 7, 9, 10]).to_string(), "0-2,7,9-10");
        assert!("2-1".parse::<Steps>().is_err() && "x".parse::<Steps>().is_err());
    }

    #[test]
    fn no_step_leaves_its_window() {
        let mut random = SplitMix::new(1);
        for _ in 0..50 {
            for step in random_steps(200, &mut random) {
                if let Step::Write { place, .. } | Step::Atomic { other: place, .. } = step {
                    assert!(place.count > 0 && place.start + place.count <= WINDOW_SECTORS);
                }
            }
        }
    }
}
