//! What a disk of several parts with the same bytes tells of one that it could do without.

use crate::Nanos;

/// A part that may rest: the disk lives without asking it anything as long as nothing is written ([`crate::Disk::let_rest`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// As errors name it.
    pub name: String,
    /// For how long it has rested: it has had nothing to do for as long as was asked for, so its drive may sleep. None while it does not.
    pub resting_for: Option<Nanos>,
    /// For how long it has had nothing to do.
    pub idle: Nanos,
    /// For how long it has rested in all, this time included.
    pub rested: Nanos,
    /// How often it was asked something after it had rested, and what.
    pub woken: Woken,
}

/// What a part that rests is woken by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WokenBy {
    /// A read that somebody waits for.
    Read,
    /// A change that is not cleaning's, or the label that has to be written before it.
    Write,
    /// What nobody waits for.
    Cleaning,
    /// The parts being made alike again.
    Alike,
    /// Writes that are about to come ([`crate::Disk::expect_writes`]).
    Ahead,
}

impl WokenBy {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Cleaning, Self::Alike, Self::Ahead];

    /// One word for reports and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Cleaning => "cleaning",
            Self::Alike => "alike",
            Self::Ahead => "ahead",
        }
    }
}

/// How often a part was woken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken([u64; WokenBy::ALL.len()]);

impl Woken {
    /// Once more.
    pub fn note(&mut self, by: WokenBy) {
        self.0[by as usize] += 1;
    }

    /// How often by this.
    pub fn by(&self, by: WokenBy) -> u64 {
        self.0[by as usize]
    }

    /// How often in all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_waking_is_counted_once_under_its_own_name() {
        let mut woken = Woken::default();
        for (times, by) in (1..).zip(WokenBy::ALL) {
            (0..times).for_each(|_| woken.note(by));
            assert_eq!(woken.by(by), times, "{}", by.name());
        }
        assert_eq!(woken.total(), 15);
    }
}
