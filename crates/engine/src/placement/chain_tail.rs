//! `chain_tail`: one log over all devices, written at its tail (Gecko, section 4).
//!
//! Records go on in the log of the newest one; behind its end in a free log of the same device, and once that has no more to spare in one of
//! the next device, going round. So whatever cleans the others disturbs nobody who writes.
//!
//! Each device keeps some free logs: what has no data of its own, and what is moved by cleaning, may begin one when clients may not, because
//! it makes room.
//!
//! A record begins a little behind the end of the one before it. On a disk that turns, the block right behind has passed when the next
//! command comes, and a whole revolution would be lost for each record; how much is to be left out is learned by trying ([`Gap`]).

use super::gap::Gap;
use super::{Need, Placement, Seen, Spot, View};
use crate::state::logs::Logs;
use crate::state::logs::chain::{Spared, Wanted};
use nearhead_disk::Properties;

/// The tail of the chain.
#[derive(Clone, Debug, Default)]
pub struct ChainTail {
    /// The log in use, and the block behind its newest record.
    tail: Option<(u32, u32)>,
    /// The log that clients' records may fill, if it is the one in use: not one that others had to begin.
    for_clients: Option<u32>,
    gap: Gap,
}

impl ChainTail {
    /// For devices like this one.
    pub fn on(properties: &Properties) -> Self {
        Self { tail: None, for_clients: None, gap: Gap::on(properties) }
    }

    /// The log in use: where the newest record went, at first the one that may be written.
    fn tail(&self, view: &View<'_>, need: Need) -> Option<(u32, u32)> {
        let claimed = |log: &u32| view.logs.is_claimed(*log);
        if let Some(tail) = self.tail.filter(|(log, _)| claimed(log)) {
            return Some(tail);
        }
        let log_index = view.logs.nearest_claimed(view.head_offset, need)?;
        Some((log_index, view.logs.next_place(log_index, need)?))
    }

    /// The place behind the newest record, if its log has room there.
    fn behind(&self, (log_index, end): (u32, u32), need: Need, view: &View<'_>) -> Option<u32> {
        let logs = view.logs;
        let gap = self.gap.blocks(need, logs);
        let ahead = Some(end.saturating_add(gap)).filter(|_| gap > 0 && end > 0);
        let fits = |block: &u32| logs.accepts(log_index, *block, need);
        if let Some(block) = ahead.filter(fits) {
            return Some(block);
        }
        // Never round: what is free in front of it is what cleaning has yet to give back as a whole.
        logs.next_place(log_index, need).filter(|block| *block >= end)
    }
}

/// The log that the next record claims, so that one is ready once this one is full: one that is claimed already if there is any.
fn wanted(logs: &Logs, log_index: u32) -> u32 {
    let next = |spared, wanted| logs.next_in_chain(log_index, spared, wanted);
    let of = |spared| next(spared, Wanted::Claimed).or_else(|| next(spared, Wanted::Free));
    // Where clients may begin none, one for the others is enough: cleaning needs the rest.
    of(Spared::Kept).or_else(|| of(Spared::Logs(0))).unwrap_or(log_index)
}

impl Placement for ChainTail {
    fn seen(&mut self, seen: &Seen, view: &View<'_>) {
        match seen {
            Seen::RecordLeaves { spot } => {
                let follows = self.tail == Some((spot.log_index, spot.block));
                let gap =
                    self.tail.filter(|(log, end)| *log == spot.log_index && spot.block >= *end);
                self.gap
                    .leaves(gap.filter(|_| !follows).map(|(_, end)| spot.block - end), view.now);
            }
            Seen::Completed(done) => {
                let Some((log_index, end)) = done.record_end else { return };
                self.gap.completed(done, view);
                if done.is_ok {
                    self.tail = Some((log_index, end));
                }
            }
        }
    }

    fn choose(&mut self, need: Need, view: &View<'_>) -> Option<Spot> {
        let logs = view.logs;
        let tail = self.tail(view, need)?;
        let is_data = need.reserve > 0;
        if logs.has_kept(tail.0) {
            self.for_clients = Some(tail.0);
        }
        let may_go_on = !is_data || self.for_clients == Some(tail.0);
        if let Some(block) = self.behind(tail, need, view).filter(|_| may_go_on) {
            return Some(Spot { log_index: tail.0, block, wanted_index: wanted(logs, tail.0) });
        }
        // What has no data of its own makes room: it begins a log when clients may not, one that is not the last if there is a choice.
        let mut spared = Spared::most_first().take(if is_data { 1 } else { usize::MAX });
        let next = spared.find_map(|spared| logs.next_in_chain(tail.0, spared, Wanted::Claimed))?;
        let block = logs.next_place(next, need)?;
        if is_data {
            self.for_clients = Some(next);
        }
        Some(Spot { log_index: next, block, wanted_index: wanted(logs, next) })
    }

    fn leaves_out_bytes_max(&self, _knows_tracks: bool) -> u64 {
        Gap::BYTES_MAX
    }

    fn claims_ahead(&self) -> u32 {
        1
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.clone())
    }
}
