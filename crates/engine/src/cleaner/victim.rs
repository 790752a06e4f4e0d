//! Which log of a chain is emptied next, and whether any is: what moving to the tail and compacting in the body have in common.
//!
//! Cleaning begins on a device with few free logs and goes on until it has some more. It prefers the devices that take no records now;
//! that of the tail is cleaned only while no other has free logs to spare (Gecko, section 4). Of a device the log goes first of which
//! least is needed, as that frees most for what it copies.

use super::CleaningView;
use crate::state::logs::chain::KEPT_LOGS;
use nearhead_disk::{Nanos, SECTOR_BYTES};
use std::ops::Range;

/// With fewer free logs of a hundred a device is cleaned.
const FREE_LOW_PCT: u64 = 10;
/// Until it has so many.
const FREE_ENOUGH_PCT: u64 = 15;
/// While nobody is there it is cleaned until it has so many.
const FREE_IDLE_PCT: u64 = 25;
/// Nobody is there after so long without a request.
const IDLE_AFTER: Nanos = Nanos::from_secs(1);
/// A log of which more is needed, of a hundred sectors, is not worth being copied.
const NEEDED_MAX_PCT: u64 = 95;
/// Nor, while nobody needs the room, one of which more than this is.
const NEEDED_MAX_IDLE_PCT: u64 = 60;
/// Of a log that takes copies so much is filled with them, of a hundred sectors; the rest has headers, or is too little.
const FILLED_PCT: u64 = 90;
/// Logs of each device that are to be free in any case: some for clients beside those that are kept for others.
const LOGS_MIN: u64 = KEPT_LOGS as u64 + 2;

/// What is remembered of devices that are being cleaned.
#[derive(Clone, Debug, Default)]
pub(super) struct Cleaned {
    /// The first logs of those whose cleaning goes on.
    going_on: Vec<u32>,
}

impl Cleaned {
    /// When the answer becomes another though nothing happens.
    pub(super) fn wake(view: &CleaningView<'_>) -> Option<Nanos> {
        Some(view.last_request_at + IDLE_AFTER).filter(|at| *at > view.now)
    }

    /// The next log to empty, if any is, of which no more is needed than there is `room` for blocks of a device.
    pub(super) fn next(
        &mut self,
        view: &CleaningView<'_>,
        room: impl Fn(&Range<u32>) -> u64,
    ) -> Option<u32> {
        let devices: Vec<Range<u32>> = view.logs.by_device().collect();
        let is_tail = |device: &Range<u32>| device.contains(&view.last_log);
        let there = devices.into_iter().filter(|device| !view.logs.is_lost(device.start));
        let (tail, body): (Vec<_>, Vec<_>) = there.partition(is_tail);
        let needs_tail = body.iter().all(|device| free(view, device) <= LOGS_MIN);
        let tail = tail.iter().filter(|_| needs_tail);
        body.iter().chain(tail).find_map(|device| self.of_device(view, device, &room))
    }

    fn of_device(
        &mut self,
        view: &CleaningView<'_>,
        device: &Range<u32>,
        room: &impl Fn(&Range<u32>) -> u64,
    ) -> Option<u32> {
        let logs = u64::from(device.end - device.start);
        let free = free(view, device);
        let at_least = |pct: u64| (logs * pct).div_ceil(100).max(LOGS_MIN);
        let low =
            100 - u64::from(view.asked.watermark_pct.unwrap_or(100 - FREE_LOW_PCT as u8)).min(100);
        let goes_on = self.going_on.contains(&device.start);
        let is_low = free < at_least(low)
            || goes_on && free < at_least(low + FREE_ENOUGH_PCT - FREE_LOW_PCT);
        self.going_on.retain(|first| *first != device.start);
        let is_idle = view.idle_for() >= IDLE_AFTER && free < at_least(FREE_IDLE_PCT);
        if !is_low && !is_idle {
            return None;
        }
        let needed_max = if is_low { NEEDED_MAX_PCT } else { NEEDED_MAX_IDLE_PCT };
        let log = emptiest(view, device, needed_max).filter(|_| frees_any(view, device))?;
        let sectors_of_block = view.logs.block_bytes() as u64 / SECTOR_BYTES;
        let blocks = u64::from(view.logs.live_sectors_of(log)).div_ceil(sectors_of_block);
        if blocks * 100 > room(device).saturating_mul(FILLED_PCT) {
            return None;
        }
        if is_low {
            self.going_on.push(device.start);
        }
        Some(log)
    }
}

fn free(view: &CleaningView<'_>, device: &Range<u32>) -> u64 {
    u64::from(view.logs.free_in(device))
}

fn sectors_of_log(view: &CleaningView<'_>) -> u64 {
    u64::from(view.logs.blocks()) * view.logs.block_bytes() as u64 / SECTOR_BYTES
}

/// The logs of a device that could be emptied, and how many sectors of each are needed.
fn sources<'a>(
    view: &'a CleaningView<'_>,
    device: &Range<u32>,
) -> impl Iterator<Item = (u32, u64)> + use<'a> {
    let (logs, last_log) = (view.logs, view.last_log);
    let may_go = move |log: &u32| *log != last_log && logs.is_needed(*log) && !logs.is_held(*log);
    let known = logs.known_in(device.clone()).filter(may_go);
    known.map(|log| (log, u64::from(logs.live_sectors_of(log))))
}

/// Whether what is needed of those logs of the device that are worth it fits fewer of them: else it would be copied to and fro.
fn frees_any(view: &CleaningView<'_>, device: &Range<u32>) -> bool {
    let sectors = sectors_of_log(view);
    let is_worth_it = |(_, needed): &(u32, u64)| needed * 100 <= sectors * NEEDED_MAX_PCT;
    let (count, needed) = sources(view, device)
        .filter(is_worth_it)
        .fold((0, 0), |(count, sum), (_, needed)| (count + 1, sum + needed));
    count > (needed * 100).div_ceil(sectors * FILLED_PCT)
}

/// The log of a device of which least is needed.
fn emptiest(view: &CleaningView<'_>, device: &Range<u32>, needed_max_pct: u64) -> Option<u32> {
    let whole = sources(view, device).filter(|(log, _)| !view.logs.is_stuck(*log));
    let (log, needed) = whole.min_by_key(|(_, needed)| *needed)?;
    (needed * 100 <= sectors_of_log(view) * needed_max_pct).then_some(log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cleaner::Cleaning;
    use crate::state::logs::Logs;
    use nearhead_format::Layout;
    use nearhead_format::layout::{LayoutKind, LayoutOptions};

    /// One device with logs of which all but a few are used: the first `needed.len()` of them have so many hundredths needed, the others nothing.
    fn logs_with(needed_pct: &[u64], free: u32) -> Logs {
        let layout = Layout::plan(64 << 20, &LayoutOptions::new(LayoutKind::Chain)).unwrap();
        let mut logs = Logs::new(&layout, true);
        let used = logs.count() - free;
        for log in 0..used {
            let (blocks, start) = (logs.blocks(), layout.log_offset(log).unwrap() / 512);
            logs.advance(log, 0, blocks);
            let pct = needed_pct.get(log as usize).copied().unwrap_or(100);
            for block in 0..u64::from(blocks) * pct / 100 {
                logs.add_live(start + block * 8, 8, 8);
            }
        }
        logs
    }

    fn next(logs: &Logs, room: u64, idle: Nanos) -> Option<u32> {
        let asked = Cleaning::as_if_nothing_was_asked();
        let view = CleaningView {
            asked: &asked,
            logs,
            last_log: 0,
            now: Nanos::from_secs(100) + idle,
            second_of_day_at_zero: 0,
            last_request_at: Nanos::from_secs(100),
            is_quiet: true,
            last_pass_ended_at: Nanos::ZERO,
            snapshot_number: 0,
            awaits_permit: false,
            fragment_fill_pct: 0,
        };
        Cleaned::default().next(&view, |_| room)
    }

    #[test]
    fn the_log_goes_first_of_which_least_is_needed_once_few_are_free() {
        let needed = [0, 90, 40, 60, 20, 80];
        assert_eq!(next(&logs_with(&needed, 5), u64::MAX, Nanos::ZERO), Some(4));
        assert_eq!(next(&logs_with(&needed, 50), u64::MAX, Nanos::ZERO), None, "many are free");
        assert_eq!(
            next(&logs_with(&needed, 20), u64::MAX, Nanos::ZERO),
            None,
            "enough are, for now"
        );
        assert_eq!(
            next(&logs_with(&needed, 20), u64::MAX, IDLE_AFTER),
            Some(4),
            "but nobody is there"
        );
    }

    #[test]
    fn nothing_is_copied_that_frees_no_log_or_has_no_place() {
        assert_eq!(next(&logs_with(&[100; 6], 5), u64::MAX, Nanos::ZERO), None, "all is needed");
        assert_eq!(
            next(&logs_with(&[0, 100, 100, 93], 5), u64::MAX, Nanos::ZERO),
            None,
            "it would fill as many"
        );
        let logs = logs_with(&[0, 90, 40, 60, 20, 80], 5);
        let blocks = u64::from(logs.blocks()) / 5;
        assert_eq!(next(&logs, blocks, Nanos::ZERO), None, "with headers it does not fit");
        assert_eq!(next(&logs, blocks * 2, Nanos::ZERO), Some(4));
    }
}
