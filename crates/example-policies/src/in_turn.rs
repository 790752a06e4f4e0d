//! `in_turn`: one log after the other takes a record, so that all fill up alike, and a block is left out between two
//! records, as one would to give a disk time.

use nearhead_engine::placement::{Need, Placement, Spot, View};

/// Logs claimed ahead of the one whose turn it is.
const CLAIMS_AHEAD: u32 = 2;

/// The log whose turn it is.
#[derive(Clone, Debug, Default)]
pub struct InTurn {
    next: u32,
}

impl InTurn {
    /// The block behind the one that is left out, or the one that is left.
    fn block(log_index: u32, need: Need, view: &View<'_>) -> Option<u32> {
        let next = view.logs.next_place(log_index, need)?;
        Some(if view.logs.accepts(log_index, next + 1, need) { next + 1 } else { next })
    }
}

impl Placement for InTurn {
    fn choose(&mut self, need: Need, view: &View<'_>) -> Option<Spot> {
        let count = view.logs.count();
        let in_turn = (0..count).map(|step| (self.next + step) % count);
        let mut usable = in_turn.filter(|log| view.logs.has_room(*log, need));
        let wanted_index = usable.clone().next()?;
        let log_index = usable.find(|log| view.logs.is_claimed(*log))?;
        self.next = log_index + 1;
        Some(Spot { log_index, block: Self::block(log_index, need, view)?, wanted_index })
    }

    fn claims_ahead(&self) -> u32 {
        CLAIMS_AHEAD
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
    }
}
