//! `everything`: all that waits goes into one record, so that whoever comes while one is on its way shares the next (group
//! commit, as databases do it since Gawlick and Kinkade, 1985).

use super::{Amount, Packing, Waiting};

/// The policy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everything;

impl Packing for Everything {
    fn amount(&mut self, waiting: Waiting) -> Amount {
        Amount { pieces_max: waiting.pieces, sectors_max: waiting.sectors }
    }

    fn boxed(&self) -> Box<dyn Packing> {
        Box::new(*self)
    }
}
