//! A placement from outside the engine that goes anywhere it may, and asks for what it may not.
//!
//! It takes one of the logs around the head and leaves out a few blocks before the record, or many, or none; so crash
//! tests meet gaps of every length. And now and then it answers with any log and any block, mostly ones that it must not
//! have: what holds must hold whatever a policy says.

use nearhead_basics::SplitMix;
use nearhead_engine::placement::{Need, Placement, Spot, View};

/// Logs around the head that it chooses from.
const NEAR: usize = 6;
/// Blocks that it leaves out; the last is further than any recovery looks.
const LEFT_OUT: [u32; 8] = [0, 0, 1, 2, 7, 31, 150, 1 << 12];
/// One answer in so many is at random.
const LIES: u64 = 8;

/// The placement.
#[derive(Clone, Debug)]
pub struct Wanderer {
    random: SplitMix,
    claims_ahead: u32,
}

impl Wanderer {
    /// One that keeps to the first log, or goes to others, too.
    pub fn new(seed: u64, scatters: bool) -> Self {
        Self { random: SplitMix::new(seed), claims_ahead: if scatters { 3 } else { 0 } }
    }

    fn lie(&mut self, view: &View<'_>) -> Spot {
        let logs = u64::from(view.logs.count()) + 1;
        let block = self.random.below(1 << 13) as u32;
        let mut log_index = || self.random.below(logs) as u32;
        Spot { log_index: log_index(), block, wanted_index: log_index() }
    }

    /// One of the logs around the head that may take the record.
    fn log(&mut self, need: Need, view: &View<'_>) -> Option<u32> {
        let logs = view.logs;
        if self.claims_ahead == 0 {
            return Some(0);
        }
        let near = logs.near(view.head_offset).take(NEAR);
        let usable = near.filter(|log| logs.is_claimed(*log) && logs.has_room(*log, need));
        let usable: Vec<u32> = usable.collect();
        let any = usable.get(self.random.below(NEAR as u64) as usize).copied();
        any.or_else(|| usable.first().copied())
            .or_else(|| logs.nearest_claimed(view.head_offset, need))
    }
}

impl Placement for Wanderer {
    fn choose(&mut self, need: Need, view: &View<'_>) -> Option<Spot> {
        if self.random.below(LIES) == 0 {
            return Some(self.lie(view));
        }
        let log_index = self.log(need, view)?;
        let next = view.logs.next_place(log_index, need)?;
        if view.logs.take_records_anywhere() {
            let from = self.random.below(u64::from(view.logs.blocks()) + 1) as u32;
            let block = view.logs.place_from(log_index, from, need).unwrap_or(next);
            return Some(Spot { log_index, block, wanted_index: log_index });
        }
        let block = next + LEFT_OUT[self.random.below(LEFT_OUT.len() as u64) as usize];
        let block = if view.logs.accepts(log_index, block, need) { block } else { next };
        let wanted_index = view.logs.near(view.head_offset).next().unwrap_or(log_index);
        Some(Spot { log_index, block, wanted_index })
    }

    fn claims_ahead(&self) -> u32 {
        self.claims_ahead
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
    }
}
