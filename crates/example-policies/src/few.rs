//! `few`: a record takes a few blocks, so that nobody waits for the transfer of a long one.

use nearhead_engine::packing::{Amount, Packing, Waiting};

/// Most runs of sectors in one record.
const PIECES_MAX: usize = 3;

/// The packing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Few;

impl Packing for Few {
    fn amount(&mut self, waiting: Waiting) -> Amount {
        Amount { pieces_max: PIECES_MAX, sectors_max: waiting.sectors }
    }

    fn boxed(&self) -> Box<dyn Packing> {
        Box::new(*self)
    }
}
