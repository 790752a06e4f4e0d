//! Which workloads run, in which order: by number, so that any one can be repeated and a soak can go on
//! where an earlier one stopped.

use super::workload::{OPERATIONS, Sequence};

/// Workloads that differ in their last operation alone; they share most images.
pub(super) const GROUP: u64 = OPERATIONS * 2;

/// Number of sequences: operations, and whether each after the first waits for the one before.
const fn sequences(length: u32) -> u64 {
    OPERATIONS.pow(length) * 2_u64.pow(length - 1)
}

/// Longest sequences of a test run, and of a soak.
const LENGTH_MAX: u32 = 3;
const LENGTH_MAX_IN_SOAK: u32 = 5;

/// A prime, larger than any factor of the number of groups: multiples of it visit every group once.
const SPREAD: u64 = 1_000_000_007;

/// Strides from which on sequences of two are left out, too, and the stride among them.
const STRIDES_OF_PAIRS: [(u64, u64); 2] = [(4000, 25), (400, 5)];

/// The workloads of one run.
pub(super) struct Plan {
    configurations: u64,
    /// Only one in so many of the sequences of three.
    pub(super) stride: u64,
    pub(super) soaks: bool,
}

impl Plan {
    pub(super) fn new(configurations: usize, stride: u64, soaks: bool) -> Self {
        Self { configurations: configurations as u64, stride, soaks }
    }

    fn count(&self, length: u32) -> u64 {
        (sequences(length) * self.configurations).div_ceil(self.stride_of(length))
    }

    /// Stride among the sequences of this length. An odd one that is no multiple of 3 spreads them over operations and
    /// configurations alike.
    fn stride_of(&self, length: u32) -> u64 {
        let of_pairs = || STRIDES_OF_PAIRS.into_iter().find(|(from, _)| self.stride >= *from);
        match length {
            LENGTH_MAX => self.stride,
            2 => of_pairs().map_or(1, |(_, stride)| stride),
            _ => 1,
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        let longest = if self.soaks { LENGTH_MAX_IN_SOAK } else { LENGTH_MAX };
        (1..=longest).map(|length| self.count(length)).sum()
    }

    /// Workload `number`: its operations, and the number of its configuration.
    pub(super) fn workload(&self, mut number: u64) -> (Sequence, usize) {
        let mut length = 1;
        while number >= self.count(length) {
            number -= self.count(length);
            length += 1;
        }
        if length <= LENGTH_MAX {
            let number = number * self.stride_of(length);
            let configuration = (number % self.configurations) as usize;
            return (Sequence::new(length, number / self.configurations), configuration);
        }
        let groups = self.count(length) / GROUP;
        let group = (u128::from(number / GROUP) * u128::from(SPREAD) % u128::from(groups)) as u64;
        // The first operation is the lowest digit, the last one the highest.
        let sequence = group / self.configurations + number % GROUP * sequences(length - 1);
        (Sequence::new(length, sequence), (group % self.configurations) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn plans_of_soaks_have_every_workload_once_and_neighbours_share_their_beginning() {
        let plan = Plan::new(12, 1, true);
        let first = plan.len() - plan.count(5) - plan.count(4);
        let mut groups = HashSet::new();
        for group in (0..plan.count(4) / GROUP).step_by(7) {
            let (one, configuration) = plan.workload(first + group * GROUP);
            let (other, same) = plan.workload(first + group * GROUP + GROUP - 1);
            assert_eq!((one.beginning(), configuration), (other.beginning(), same));
            assert_ne!(one.to_string(), other.to_string());
            assert!(groups.insert((one.beginning(), configuration)));
        }
        assert_eq!(groups.len() as u64, (sequences(3) * 12).div_ceil(7));
    }
}
