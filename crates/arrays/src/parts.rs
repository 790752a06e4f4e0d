//! What a command to a mirror waits for, and which bytes nothing else may touch meanwhile.

use super::alike::Walk;
use super::gate::Answer;
use nearhead_disk::{Class, Command, DiskError, Payload};
use std::ops::Range;

/// What a command waits for.
pub enum Parts {
    /// A member's answer; `tried` are those that were asked.
    Read {
        /// As the host gave it.
        class: Class,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u32,
        /// In this order.
        tried: Vec<usize>,
    },
    /// What each member that counts holds, and that those that hold something else are made alike.
    Compare {
        /// As the host gave it.
        class: Class,
        /// Where, and what was shown of it so far.
        walk: Walk,
        /// What it waits for.
        step: Comparing,
    },
    /// Every member's answer.
    Change {
        /// As the host gave it.
        class: Class,
        /// Bytes that it changes; none for a flush.
        range: Option<Range<u64>>,
        /// Whether it is durable by itself.
        durable: bool,
        /// Whether the members were given it.
        sent: bool,
        /// The command, and the members that are given it when the one before has answered.
        later: Option<(Command, Vec<usize>)>,
        /// Whether any member that counts made it.
        made: bool,
        /// Those that did not.
        failed: Vec<(usize, DiskError)>,
    },
}

/// What a read that asks all members waits for.
pub enum Comparing {
    /// That it may be sent.
    Turn,
    /// What they hold of the part that is being compared.
    Answers(Vec<Answer>),
    /// The answer of every member that held something else; those that did not take what is shown.
    Repairs(Vec<(usize, DiskError)>),
    /// The labels, if any must be told before it is answered.
    Labels,
}

impl Comparing {
    /// A member answered what it was asked.
    pub(super) fn answered(&mut self, member: usize, answer: Result<Payload, DiskError>) {
        match (self, answer) {
            (Self::Answers(answers), answer) => answers.push((member, answer)),
            (Self::Repairs(failed), Err(error)) => failed.push((member, error)),
            (Self::Repairs(_), Ok(_)) | (Self::Turn | Self::Labels, _) => {}
        }
    }
}

impl Parts {
    /// What a command that succeeds is answered with, if it was not a read.
    pub(super) fn into_answer(self) -> Payload {
        if let Self::Compare { walk, .. } = self { walk.into_payload() } else { Payload::EMPTY }
    }

    /// Whether a member that counts is being made like another.
    pub(super) fn is_repair(&self) -> bool {
        matches!(self, Self::Compare { step: Comparing::Repairs(_), .. })
    }

    /// Whether it makes members alike in any of these bytes, and is on its way.
    pub(super) fn repairs(&self, bytes: &Range<u64>) -> bool {
        match self {
            Self::Compare { step: Comparing::Turn, .. } => false,
            Self::Compare { walk, .. } => overlap(walk.range(), bytes),
            _ => false,
        }
    }

    /// Whether it changes any of these bytes, and is on its way.
    pub(super) fn changes(&self, bytes: &Range<u64>) -> bool {
        match self {
            Self::Change { range: Some(range), sent: true, .. } => overlap(range, bytes),
            _ => false,
        }
    }

    /// The bytes that it changes, sent or not.
    pub(super) fn changed_bytes(&self) -> Option<Range<u64>> {
        if let Self::Change { range, .. } = self { range.clone() } else { None }
    }

    /// Whether nothing else may touch these bytes meanwhile.
    pub(super) fn is_in_the_way_of_a_piece(&self, bytes: &Range<u64>) -> bool {
        self.repairs(bytes) || self.changes(bytes)
    }
}

/// Whether two ranges have a byte in common.
pub(super) fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_only_touch_have_no_byte_in_common() {
        let cases =
            [(0..4, 4..8, false), (0..5, 4..8, true), (2..3, 0..9, true), (9..10, 4..8, false)];
        for (one, other, expected) in cases {
            assert_eq!(
                [overlap(&one, &other), overlap(&other, &one)],
                [expected; 2],
                "{one:?}, {other:?}"
            );
        }
    }
}
