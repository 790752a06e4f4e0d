//! `single_log`: one log at a fixed place takes everything, as a journal does. If the volume has
//! more logs, only the first is used.

use super::{Need, Placement, Spot, View};

/// The fixed log.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleLog;

impl Placement for SingleLog {
    fn choose(&mut self, need: Need, view: &View<'_>) -> Option<Spot> {
        let block = view.logs.next_place(0, need).filter(|_| view.logs.is_claimed(0))?;
        Some(Spot { log_index: 0, block, wanted_index: 0 })
    }

    fn leaves_out_bytes_max(&self, _knows_tracks: bool) -> u64 {
        0
    }

    fn claims_ahead(&self) -> u32 {
        0
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(*self)
    }
}
