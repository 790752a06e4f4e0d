//! A packing from outside the engine that takes any part of what waits, also none of it or more than there is. What holds
//! must hold however records are filled.

use nearhead_basics::SplitMix;
use nearhead_engine::packing::{Amount, Packing, Waiting};

/// The packing.
#[derive(Clone, Debug)]
pub struct Fickle {
    random: SplitMix,
}

impl Fickle {
    /// One that does what follows from the seed.
    pub fn new(seed: u64) -> Self {
        Self { random: SplitMix::new(seed) }
    }
}

impl Packing for Fickle {
    fn amount(&mut self, waiting: Waiting) -> Amount {
        let pieces_max = self.random.below(waiting.pieces as u64 + 2) as usize;
        Amount { pieces_max, sectors_max: self.random.below(2 * waiting.sectors + 1) }
    }

    fn boxed(&self) -> Box<dyn Packing> {
        Box::new(self.clone())
    }
}
