//! Logs on devices of several that take nothing any more: the device failed, is not there, or does not take what is written.
//!
//! Such a log keeps what the map says it holds, so that all of it is there again once the device is. Until then it is neither free nor
//! full: no record begins there, nothing is copied there or from there, and no snapshot claims it.

use super::{Logs, Need};
use std::ops::Range;

/// So many logs of a device that rest at once, each since it did not take a record, are no bad places but a device that takes none.
const RESTING_MANY: usize = 3;

impl Logs {
    /// Log block `position` cannot be read, and what it may have held is lost: the next record goes behind it, so that no
    /// recovery needs to know what was there. A log whose records may begin anywhere is not claimed any more.
    pub(crate) fn leave_behind(&mut self, index: u32, position: u32) {
        let Some(ring) = self.get_or_create(index) else { return };
        if !ring.leave_behind(position) {
            ring.claimed = false;
            ring.failures += 1;
            self.claimed.remove(&index);
        }
        self.measure(index);
    }

    /// The logs of this device take nothing from now on.
    pub(crate) fn lose(&mut self, device: &Range<u32>) {
        if device.is_empty() || self.is_lost(device.start) {
            return;
        }
        self.lost.push(device.clone());
        for index in device.clone() {
            self.note_use(index);
        }
    }

    /// Whether that is so of the device of a log.
    pub fn is_lost(&self, index: u32) -> bool {
        self.lost.iter().any(|device| device.contains(&index))
    }

    /// The device of this log, if what happened to its logs says that it takes nothing, and there is another one that does.
    pub(crate) fn device_that_takes_nothing(&self, index: u32) -> Option<Range<u32>> {
        let device = self.by_device().find(|device| device.contains(&index))?;
        let mut others = self.by_device().filter(|other| *other != device);
        let takes_others = others.any(|other| self.takes_records(other));
        let resting = self.resting.iter().filter(|(log, _)| device.contains(log)).count();
        (takes_others && resting >= RESTING_MANY).then_some(device)
    }

    /// Whether a record finds room on a device: of a chain in a log that is begun anew.
    fn takes_records(&self, mut device: Range<u32>) -> bool {
        if self.has_no_homes() {
            return self.free_in(&device) > 0;
        }
        let need = Need { blocks: 1, reserve: 0 };
        device.any(|log| self.has_room(log, need))
    }

    /// The logs of the other device at a position, if it has any.
    pub(crate) fn of_position(&self, position: u8) -> Option<Range<u32>> {
        let without = if self.has_no_homes() { 0 } else { self.layout.data_parts.with_homes() };
        self.by_device().nth(usize::from(position).checked_sub(without)? + 1)
    }

    /// The first of these logs that may be written and has room.
    pub(crate) fn first_claimed_in(&self, mut logs: Range<u32>, need: Need) -> Option<u32> {
        let has_room = |log: &u32| self.has_room(*log, need);
        if self.claim_all {
            return logs.find(has_room);
        }
        self.claimed.range(logs).copied().find(has_room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::logs::chain::{Spared, Wanted};
    use nearhead_disk::Nanos;
    use nearhead_format::Layout;
    use nearhead_format::layout::{DataParts, LayoutKind, LayoutOptions};

    fn two_devices() -> Logs {
        let data_parts = DataParts::of(&[64 << 20]).unwrap();
        let options = LayoutOptions {
            data_parts,
            log_bytes: Some(4 << 20),
            ..LayoutOptions::new(LayoutKind::Chain)
        };
        Logs::new(&Layout::plan(64 << 20, &options).unwrap(), true)
    }

    #[test]
    fn nothing_goes_to_a_device_that_is_lost_and_what_it_holds_is_not_free() {
        let mut logs = two_devices();
        let devices: Vec<_> = logs.by_device().collect();
        let first = devices[1].start;
        logs.advance(first, 0, 10);
        assert_eq!(logs.next_in_chain(first, Spared::Logs(0), Wanted::Free), Some(first + 1));
        logs.lose(&devices[1]);
        let need = Need { blocks: 1, reserve: 0 };
        for log in devices[1].clone() {
            assert!(logs.is_lost(log) && !logs.is_free(log) && logs.is_stuck(log), "{log}");
            assert!(!logs.has_room(log, need) && !logs.accepts(log, 0, need), "{log}");
        }
        assert_eq!(logs.free_in(&devices[1]), 0);
        assert_eq!(logs.check_uses(), Ok(()));
        assert_eq!(
            logs.next_in_chain(first, Spared::Logs(0), Wanted::Free),
            Some(devices[0].start)
        );
        assert_eq!(logs.begin_copies(devices[1].clone()), None);
        assert!(logs.nearest_claimed(u64::MAX, need).is_some_and(|log| devices[0].contains(&log)));
    }

    #[test]
    fn logs_that_fail_one_after_the_other_are_a_device_that_takes_nothing_if_there_is_another() {
        let mut logs = two_devices();
        let devices: Vec<_> = logs.by_device().collect();
        for log in devices[1].clone().take(RESTING_MANY) {
            assert_eq!(logs.device_that_takes_nothing(log), None);
            logs.rest(log, Nanos::ZERO);
        }
        assert_eq!(logs.device_that_takes_nothing(devices[1].start), Some(devices[1].clone()));
        logs.lose(&devices[0]);
        assert_eq!(logs.device_that_takes_nothing(devices[1].start), None, "no other one is left");
    }
}
