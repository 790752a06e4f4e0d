//! What every block of the volume should hold: computed, never remembered, so that any number of blocks can be verified.
//!
//! The volume is written in rounds. In the first one every block is written in order, in each later one in a random order of its own, every
//! block once. So which round wrote a block last follows from how far the present round has come. Only writes that a power cut caught are
//! remembered: of those either version may be there, until the block is written again.

use nearhead_basics::SplitMix;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: u64 = 4096;
/// Bits of a word that say the round; the others say the block.
const ROUND_BITS: u32 = 20;
/// Rounds of a Feistel network after which the order looks random.
const MIXINGS: u64 = 4;

/// A random order of so many blocks: a Feistel network over the next larger square, walked until it hits one of them.
#[derive(Clone, Copy, Debug)]
struct Order {
    blocks: u64,
    half_bits: u32,
    seed: u64,
}

impl Order {
    fn new(blocks: u64, round: u64) -> Self {
        let bits = u64::BITS - blocks.saturating_sub(1).leading_zeros();
        Self { blocks, half_bits: bits.div_ceil(2).max(1), seed: round << 40 }
    }

    fn mixed(self, half: u64, mixing: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        SplitMix::new(self.seed ^ mixing << 56).nth_u64(half) & mask
    }

    fn halves(self, number: u64) -> (u64, u64) {
        (number >> self.half_bits, number & ((1 << self.half_bits) - 1))
    }

    fn forward(self, number: u64) -> u64 {
        let (mut left, mut right) = self.halves(number);
        for mixing in 0..MIXINGS {
            (left, right) = (right, left ^ self.mixed(right, mixing));
        }
        left << self.half_bits | right
    }

    fn backward(self, number: u64) -> u64 {
        let (mut left, mut right) = self.halves(number);
        for mixing in (0..MIXINGS).rev() {
            (left, right) = (right ^ self.mixed(left, mixing), left);
        }
        left << self.half_bits | right
    }

    /// The block that this step writes.
    fn block_of(self, step: u64) -> u64 {
        let mut at = self.forward(step);
        while at >= self.blocks {
            at = self.forward(at);
        }
        at
    }

    /// The step that writes this block.
    fn step_of(self, block: u64) -> u64 {
        let mut at = self.backward(block);
        while at >= self.blocks {
            at = self.backward(at);
        }
        at
    }
}

/// How far the rounds have come, as it is kept beside the disks.
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    path: PathBuf,
    pub(crate) blocks: u64,
    /// Rounds that are over.
    pub(crate) rounds: u64,
    /// Blocks that the present one has written.
    pub(crate) steps: u64,
    /// Blocks of which a power cut may have kept the older version.
    doubtful: BTreeSet<u64>,
}

impl Ledger {
    /// Nothing is written yet.
    pub(crate) fn new(folder: &Path, blocks: u64) -> Self {
        let (path, doubtful) = (Self::place(folder), BTreeSet::new());
        Self { path, blocks, rounds: 0, steps: 0, doubtful }
    }

    fn place(folder: &Path) -> PathBuf {
        folder.join("ledger")
    }

    /// As the last process left it.
    pub(crate) fn load(folder: &Path) -> Result<Self, String> {
        let path = Self::place(folder);
        let failed = |problem: &dyn std::fmt::Display| format!("{}: {problem}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|error| failed(&error))?;
        let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
        match numbers.map_err(|error| failed(&error))?.as_slice() {
            [blocks, rounds, steps, doubtful @ ..] => Ok(Self {
                blocks: *blocks,
                rounds: *rounds,
                steps: *steps,
                doubtful: doubtful.iter().copied().collect(),
                path,
            }),
            _ => Err(failed(&"expected three numbers or more")),
        }
    }

    /// Keeps it for the next process.
    pub(crate) fn save(&self) -> Result<(), String> {
        let numbers = [self.blocks, self.rounds, self.steps];
        let text: Vec<String> =
            numbers.iter().chain(&self.doubtful).map(ToString::to_string).collect();
        std::fs::write(&self.path, text.join(" "))
            .map_err(|error| format!("{}: {error}", self.path.display()))
    }

    fn order(&self) -> Order {
        Order::new(self.blocks, self.rounds)
    }

    /// The block to be written next, and its content; then a new round begins where this one is over.
    pub(crate) fn next(&mut self) -> (u64, u64) {
        if self.steps == self.blocks {
            (self.rounds, self.steps) = (self.rounds + 1, 0);
        }
        let block = if self.rounds == 0 { self.steps } else { self.order().block_of(self.steps) };
        self.steps += 1;
        self.doubtful.remove(&block);
        (block, word(block, self.rounds))
    }

    /// The power was cut before a write of this block was answered.
    pub(crate) fn doubt(&mut self, block: u64) {
        self.doubtful.insert(block);
    }

    /// What reading a block may give: the word that it repeats.
    pub(crate) fn allows(&self, block: u64, found: u64) -> bool {
        let is_written = match self.rounds {
            0 => block < self.steps,
            _ => self.order().step_of(block) < self.steps,
        };
        let newest = self.rounds + u64::from(is_written);
        let is_newest = found == newest.checked_sub(1).map_or(0, |round| word(block, round));
        let is_older = || found == newest.checked_sub(2).map_or(0, |round| word(block, round));
        is_newest || self.doubtful.contains(&block) && is_older()
    }
}

/// What a block repeats after a round.
fn word(block: u64, round: u64) -> u64 {
    block << ROUND_BITS | (round + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_writes_every_block_once_in_an_order_of_its_own() {
        for blocks in [1, 2, 7, 1000, 4097] {
            let mut ledger = Ledger::new(Path::new("/nowhere"), blocks);
            let mut orders = BTreeSet::new();
            for round in 0..3 {
                let order: Vec<u64> = (0..blocks).map(|_| ledger.next().0).collect();
                assert_eq!((ledger.rounds, ledger.steps), (round, blocks));
                assert_eq!(order.iter().collect::<BTreeSet<_>>().len() as u64, blocks);
                assert!(order.iter().all(|block| *block < blocks));
                orders.insert(order);
            }
            assert!(blocks < 7 || orders.len() == 3, "{blocks} blocks");
        }
    }

    #[test]
    fn what_a_block_should_hold_is_known_wherever_the_rounds_are() {
        let mut ledger = Ledger::new(Path::new("/nowhere"), 100);
        let mut known = vec![0; 100];
        for _ in 0..250 {
            let (block, word) = ledger.next();
            let before = std::mem::replace(&mut known[block as usize], word);
            assert!(!ledger.allows(block, before));
            for (block, word) in (0..).zip(&known) {
                assert!(ledger.allows(block, *word), "block {block}");
            }
        }
        let (block, word) = ledger.next();
        ledger.doubt(block);
        assert!(ledger.allows(block, word) && ledger.allows(block, known[block as usize]));
        assert!(!ledger.allows(block, word + 1));
    }
}
