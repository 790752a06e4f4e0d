//! Which faults a disk has, how often, and where silent ones are allowed.
//!
//! Swarm testing (Groce and others, ISSTA 2012): a seed switches each kind on or off before it chooses
//! rates, so that some runs meet one kind alone and none has a mixture in which one kind hides the
//! others. The *budget* says what SAFETY.md promises to survive; silent damage is beyond it and only
//! has to be detected, and only where there are checksums.

use super::kinds::{FaultKind, KINDS};
use nearhead_basics::SplitMix;
use std::ops::Range;

/// One command in so many suffers, by how rare the seed wants a kind.
const RATES: [u32; 3] = [40, 150, 600];

/// What may be injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultBudget {
    /// Only what must cost nothing that was acknowledged.
    Survive,
    /// Silent damage too: it must be found, never returned as data.
    Detect,
}

/// A failure at one exact command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NthFault {
    /// The command, counted from 1 since the plan was given.
    pub nth: u64,
    /// All commands after it suffer too.
    pub sticky: bool,
    /// What happens; `WriteError`, `ShortWrite`, `Full`, `Hang` or `Gone`, to commands of any sort.
    pub kind: FaultKind,
}

/// Which faults a disk has.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    /// Decides every choice.
    pub seed: u64,
    /// One command in so many suffers, by kind; 0 for never.
    pub one_in: [u32; KINDS],
    /// Byte ranges in which everything is covered by checksums: only there may a cut garble sectors and
    /// may a read be wrong without a word.
    pub verified: Vec<Range<u64>>,
    /// Byte ranges whose content may be damaged without a word: wrong writes and rot.
    pub damageable: Vec<Range<u64>>,
    /// Most silent faults until [`super::FaultDisk::allow_silent`] allows more.
    pub silent_max: u64,
    /// A failure at one exact command, in place of chance.
    pub nth: Option<NthFault>,
    /// Extra time of a command at most, in nanoseconds, so that completions overtake each other.
    pub jitter_ns_max: u64,
}

impl FaultPlan {
    /// Power cuts lose and tear; nothing else happens.
    pub fn none(seed: u64) -> Self {
        Self {
            seed,
            one_in: [0; KINDS],
            verified: Vec::new(),
            damageable: Vec::new(),
            silent_max: 0,
            nth: None,
            jitter_ns_max: 0,
        }
    }

    /// What `random` chooses within the budget: nothing, one kind, or each kind with one chance in four.
    pub fn random(budget: FaultBudget, random: &mut SplitMix) -> Self {
        let mut plan = Self::none(random.next_u64());
        let kinds: Vec<FaultKind> = FaultKind::ALL
            .into_iter()
            .filter(|kind| budget == FaultBudget::Detect || !kind.is_silent())
            .collect();
        let only = kinds[random.below(kinds.len() as u64) as usize];
        let mixture = random.below(4);
        // Where damage must be found there is a sort of it.
        let silent = kinds[kinds.len() - 1 - random.below(6) as usize];
        for kind in kinds {
            let rate = RATES[random.below(RATES.len() as u64) as usize];
            let rate = match kind {
                // What takes the disk away takes the rest of the run away.
                FaultKind::Gone | FaultKind::Hang => rate * 4,
                // Flushes are few, and so are silent faults: one is all that may be.
                FaultKind::FlushError => rate / 4,
                kind if kind.is_silent() => rate / 2,
                _ => rate,
            };
            let on = match mixture {
                0 => false,
                1 => kind == only,
                _ => random.below(4) == 0,
            };
            let on = on || (kind == silent && kind.is_silent());
            // Garbled sectors are cheap to have and hide nothing.
            let on = on || (kind == FaultKind::CutGarbled && random.coin());
            plan.one_in[kind as usize] = if on { rate } else { 0 };
        }
        plan.jitter_ns_max = [0, 50_000, 2_000_000][random.below(3) as usize];
        plan
    }

    /// Whether `kind` may happen.
    pub fn has(&self, kind: FaultKind) -> bool {
        self.one_in[kind as usize] > 0
    }

    /// The kinds that may happen.
    pub fn kinds(&self) -> Vec<FaultKind> {
        FaultKind::ALL.into_iter().filter(|kind| self.has(*kind)).collect()
    }

    /// The same without `kind`. Every other choice stays as it was.
    #[must_use]
    pub fn without(mut self, kind: FaultKind) -> Self {
        self.one_in[kind as usize] = 0;
        self
    }

    /// One command in `rate` suffers `kind`.
    #[must_use]
    pub fn with(mut self, kind: FaultKind, rate: u32) -> Self {
        self.one_in[kind as usize] = rate;
        self
    }

    /// Whether checksums cover all of these bytes.
    pub(super) fn is_verified(&self, offset: u64, len: u64) -> bool {
        holding(&self.verified, offset, len).is_some()
    }

    /// The range in which these bytes may be damaged.
    pub(super) fn damageable_at(&self, offset: u64, len: u64) -> Option<&Range<u64>> {
        holding(&self.damageable, offset, len)
    }

    /// The range in which a read of these bytes may be wrong.
    pub(super) fn misreadable_at(&self, offset: u64, len: u64) -> Option<&Range<u64>> {
        holding(&self.verified, offset, len)
    }
}

fn holding(ranges: &[Range<u64>], offset: u64, len: u64) -> Option<&Range<u64>> {
    ranges.iter().find(|range| range.start <= offset && offset + len <= range.end)
}
