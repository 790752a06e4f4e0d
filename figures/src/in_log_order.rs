//! The simplest way to clean a chain that Gecko describes (section 4), to compare others with: the log that was written first is emptied first,
//! chunk by chunk, whatever is needed of it, and what is needed goes to the tail between the records of clients.
//!
//! A baseline of figures and no policy of the program: nothing is chosen, so where requests are large it may copy full logs, one behind the
//! other, until there is no room for copies any more.

use nearhead_disk::SECTOR_BYTES;
use nearhead_engine::cleaner::{Cleaner, CleaningView, Goal, Move, Reading, WhenFull};

/// Of a log that takes what is moved so many of a hundred sectors; the rest has headers.
const FILLED_PCT: u64 = 90;

/// Logs moved to the tail in the order in which they were written, from when it is asked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InLogOrder;

impl Cleaner for InLogOrder {
    fn relocate(&mut self, view: &CleaningView<'_>) -> Option<Move> {
        let (logs, count) = (view.logs, view.logs.count());
        let may_go = |log: &u32| {
            *log != view.last_log
                && logs.is_needed(*log)
                && !logs.is_held(*log)
                && !logs.is_stuck(*log)
        };
        let sources: Vec<u32> = logs.touched_in(0..count).filter(may_go).collect();
        let needed: u64 = sources.iter().map(|log| u64::from(logs.live_sectors_of(*log))).sum();
        let of_log = u64::from(logs.blocks()) * logs.block_bytes() as u64 / SECTOR_BYTES;
        // Else it would all be copied to and fro.
        let frees_any = sources.len() as u64 > (needed * 100).div_ceil(of_log * FILLED_PCT);
        // Logs are begun one behind the other, so the next one behind the tail that has anything is the oldest.
        let age = |log: &u32| (log + count - view.last_log) % count;
        let from = sources.into_iter().min_by_key(age).filter(|_| frees_any)?;
        Some(Move { from, to: Goal::Tail })
    }

    fn reading(&self) -> Reading {
        Reading::ChunkByChunk
    }

    fn when_full(&self) -> WhenFull {
        WhenFull::Wait
    }

    fn boxed(&self) -> Box<dyn Cleaner> {
        Box::new(*self)
    }
}
