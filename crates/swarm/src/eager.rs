//! A packing from outside the engine that takes bytes for whatever a client says is new, also where whole sectors would be shorter. How much
//! goes into a record another one says. What holds must hold in whichever form a piece is logged.

use nearhead_engine::packing::{Amount, Packing, Waiting};

/// The packing.
#[derive(Clone, Debug)]
pub struct Eager(pub Box<dyn Packing>);

impl Packing for Eager {
    fn amount(&mut self, waiting: Waiting) -> Amount {
        self.0.amount(waiting)
    }

    fn takes_fragments(&self, _sectors: usize, _runs: usize, _bytes: usize) -> bool {
        true
    }

    fn boxed(&self) -> Box<dyn Packing> {
        Box::new(self.clone())
    }
}
