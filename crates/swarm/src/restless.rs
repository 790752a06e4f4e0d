//! A cleaner from outside the engine that asks for jobs without sense: passes home in the middle of work, for any reason
//! that there is, and logs moved wherever they lie, also where there is no log, read in any way. What holds must hold whatever a policy says.

use nearhead_basics::SplitMix;
use nearhead_engine::cleaner::{Cleaner, CleaningView, Goal, Move, Reading, Why};

/// A pass is asked for once in so many questions, and a move.
const HOME: u64 = 40;
const MOVE: u64 = 12;

/// The cleaner.
#[derive(Clone, Debug)]
pub struct Restless {
    random: SplitMix,
}

impl Restless {
    /// One that does what follows from the seed.
    pub fn new(seed: u64) -> Self {
        Self { random: SplitMix::new(seed) }
    }
}

impl Cleaner for Restless {
    fn home(&mut self, _view: &CleaningView<'_>) -> Option<Why> {
        let reasons = [Why::Idle, Why::Room, Why::Time, Why::Need];
        reasons.get(self.random.below(HOME) as usize).copied()
    }

    fn relocate(&mut self, view: &CleaningView<'_>) -> Option<Move> {
        if self.random.below(MOVE) > 0 {
            return None;
        }
        let logs = u64::from(view.logs.count()) + 1;
        let mut any = || self.random.below(logs) as u32;
        let from = if any() % 2 == 0 { view.last_log } else { any() };
        Some(Move { from, to: Goal::Log(any()) })
    }

    fn reading(&self) -> Reading {
        if self.random.clone().nth_coin(0) { Reading::LongPieces } else { Reading::ChunkByChunk }
    }

    fn boxed(&self) -> Box<dyn Cleaner> {
        Box::new(self.clone())
    }
}
