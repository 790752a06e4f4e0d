//! Which log of a chain is emptied next, and whether any is: what moving to the tail and compacting in the body have in common.
//!
//! Cleaning begins where the chain has few free logs, on whatever device they are, and goes on until it has some more: a device in the body
//! that is full is as it should be, as records go on elsewhere, and the later a log is emptied the less of it is needed. It prefers the
//! devices that take no records now; that of the tail is cleaned only while no other has free logs to spare (Gecko, section 4). Of these the
//! log goes first of which least is needed, as that frees most for what it copies.

use super::CleaningView;
use crate::state::logs::Logs;
use nearhead_disk::{Nanos, SECTOR_BYTES};
use std::ops::Range;

/// With fewer free logs of a hundred a chain is cleaned.
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
/// Free logs of each device for clients, beside those that are kept for others.
const LOGS_FOR_CLIENTS: u64 = 2;

/// What is remembered of a chain that is being cleaned.
#[derive(Clone, Debug, Default)]
pub(super) struct Cleaned {
    /// It began with few free logs, and there are not enough yet.
    goes_on: bool,
}

/// All devices that are there.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    logs: u64,
    free: u64,
    /// So many are to be free in any case.
    least: u64,
}

impl Room {
    fn of(view: &CleaningView<'_>) -> Self {
        devices(view).fold(Self::default(), |sum, device| Self {
            logs: sum.logs + u64::from(device.end - device.start),
            free: sum.free + free(view, &device),
            least: sum.least + least(&device),
        })
    }

    /// Whether fewer of a hundred logs are free than that.
    fn is_below(&self, pct: u64) -> bool {
        self.free < (self.logs * pct).div_ceil(100).max(self.least)
    }
}

impl Cleaned {
    /// When the answer becomes another though nothing happens.
    pub(super) fn wake(view: &CleaningView<'_>) -> Option<Nanos> {
        Some(view.last_request_at + IDLE_AFTER).filter(|at| *at > view.now)
    }

    /// Whether there are few free logs.
    pub(super) fn is_pressed(&self, view: &CleaningView<'_>) -> bool {
        let asked = view.asked.watermark_pct;
        let low_pct = asked.map_or(FREE_LOW_PCT, |pct| 100 - u64::from(pct).min(100));
        let room = Room::of(view);
        room.is_below(low_pct)
            || self.goes_on && room.is_below(low_pct + FREE_ENOUGH_PCT - FREE_LOW_PCT)
    }

    /// The next log to empty, if any is, of which no more is needed than there is `room` for blocks of a device.
    pub(super) fn next(
        &mut self,
        view: &CleaningView<'_>,
        room: impl Fn(&Range<u32>) -> u64,
    ) -> Option<u32> {
        self.goes_on = self.is_pressed(view);
        let needed_max_pct = match self.goes_on {
            true => NEEDED_MAX_PCT,
            false if !view.is_quiet || view.idle_for() < IDLE_AFTER => return None,
            false if Room::of(view).is_below(FREE_IDLE_PCT) => NEEDED_MAX_IDLE_PCT,
            false => return None,
        };
        let (tail, body): (Vec<_>, Vec<_>) =
            devices(view).partition(|device| device.contains(&view.last_log));
        let emptiest_of = |devices: &[Range<u32>]| {
            let logs = devices.iter().filter_map(|device| {
                emptiest(view, device, needed_max_pct)
                    .filter(|found| fits(view, *found, room(device)))
            });
            logs.min_by_key(|(log, needed)| (*needed, *log)).map(|(log, _)| log)
        };
        let needs_tail = || body.iter().all(|device| free(view, device) <= least(device));
        emptiest_of(&body).or_else(|| needs_tail().then(|| emptiest_of(&tail)).flatten())
    }
}

/// The logs of each device that is there.
fn devices(view: &CleaningView<'_>) -> impl Iterator<Item = Range<u32>> {
    let logs = view.logs;
    logs.by_device().filter(|device| !device.is_empty() && !logs.is_lost(device.start))
}

/// So many logs of a device are to be free.
fn least(device: &Range<u32>) -> u64 {
    u64::from(Logs::kept_in(device)) + LOGS_FOR_CLIENTS
}

/// Whether what is needed of a log finds place where there is room for so many blocks.
fn fits(view: &CleaningView<'_>, (_, needed): (u32, u64), room_blocks: u64) -> bool {
    let sectors_of_block = view.logs.block_bytes() as u64 / SECTOR_BYTES;
    needed.div_ceil(sectors_of_block) * 100 <= room_blocks.saturating_mul(FILLED_PCT)
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

/// The log of a device of which least is needed, and how many sectors, if it is worth it to empty one.
fn emptiest(
    view: &CleaningView<'_>,
    device: &Range<u32>,
    needed_max_pct: u64,
) -> Option<(u32, u64)> {
    let whole = sources(view, device).filter(|(log, _)| !view.logs.is_stuck(*log));
    let found = whole.min_by_key(|(_, needed)| *needed)?;
    let is_worth_it = found.1 * 100 <= sectors_of_log(view) * needed_max_pct;
    (is_worth_it && frees_any(view, device)).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cleaner::Cleaning;
    use nearhead_format::Layout;
    use nearhead_format::layout::{DataParts, LayoutKind, LayoutOptions};

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
        next_behind(logs, 0, room, idle)
    }

    fn next_behind(logs: &Logs, last_log: u32, room: u64, idle: Nanos) -> Option<u32> {
        let asked = Cleaning::as_if_nothing_was_asked();
        let view = CleaningView {
            asked: &asked,
            logs,
            last_log,
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
    fn a_device_that_is_full_is_let_alone_while_the_chain_has_free_logs_elsewhere() {
        let options = LayoutOptions {
            log_bytes: Some(1 << 20),
            data_parts: DataParts::of(&[64 << 20]).unwrap(),
            ..LayoutOptions::new(LayoutKind::Chain)
        };
        let mut logs = Logs::new(&Layout::plan(64 << 20, &options).unwrap(), true);
        let devices: Vec<_> = logs.by_device().collect();
        let fill = |logs: &mut Logs, range: Range<u32>| {
            for log in range {
                let (blocks, start) = (logs.blocks(), logs.block_offset(log, 0).unwrap() / 512);
                logs.advance(log, 0, blocks);
                for block in 0..u64::from(blocks) * 7 / 10 {
                    logs.add_live(start + block * 8, 8, 8);
                }
            }
        };
        let kept = Logs::kept_in(&devices[0]);
        fill(&mut logs, devices[0].start..devices[0].end - kept);
        fill(&mut logs, devices[1].start..devices[1].start + 5);
        let tail = devices[1].start + 4;
        assert_eq!(next_behind(&logs, tail, u64::MAX, Nanos::ZERO), None);
        assert_eq!(next_behind(&logs, tail, u64::MAX, IDLE_AFTER), None, "nor for a little");
        fill(&mut logs, devices[1].start + 5..devices[1].end - 4);
        let body = next_behind(&logs, tail, u64::MAX, Nanos::ZERO).unwrap();
        assert!(devices[0].contains(&body), "{body} is on the device of the tail");
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
