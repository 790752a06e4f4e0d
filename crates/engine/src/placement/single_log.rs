//! `single_log`: one log at a fixed place takes everything, as a journal does. If the volume has
//! more logs, only the first is used.

use super::{Choice, Placement};
use crate::logs::Logs;

/// The fixed log.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleLog;

impl Placement for SingleLog {
    fn choose(&self, logs: &Logs, _head: u64, blocks: u32, reserve: u32) -> Option<Choice> {
        let fits = logs.is_claimed(0) && logs.has_room(0, blocks, reserve);
        fits.then_some(Choice { log_index: 0, wanted_index: 0 })
    }
}
