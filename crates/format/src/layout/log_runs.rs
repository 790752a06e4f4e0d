//! Logs on several devices: those of a chain, or of a volume with further log devices beside its own.
//!
//! Logs are numbered in the order of their addresses: first those of the volume's own device, then those of each other one that has logs, behind
//! its header. None lies on two devices. Whoever asks by a number or by an address is told by arithmetic alone:
//!
//! ```text
//!  the volume's own device                        header                          header
//! | sb | sb | log 0 | log 1 | ... | unused | sb | | . | data device 0 ... | ... | | . | log 7 | log 8 | ... | unused |
//! ```

use super::Layout;
use crate::data_device::DATA_START_BYTES;
use std::ops::Range;

impl Layout {
    /// Whether other devices than the volume's own have logs, too.
    #[inline]
    pub fn logs_are_on_several(&self) -> bool {
        self.is_chain() || self.data_parts.log_devices() > 0
    }

    /// Where each device that has logs may have them.
    fn rooms(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let own = self.groups_offset..self.superblock_offsets()[2];
        let without = if self.is_chain() { 0 } else { self.data_parts.with_homes() };
        let others = self.data_devices().skip(without);
        let others = others.map(|device| device.start + DATA_START_BYTES..device.end);
        std::iter::once(own).chain(others)
    }

    /// How many logs fit there.
    fn fitting(&self, room: &Range<u64>) -> u64 {
        room.end.saturating_sub(room.start) / self.log_bytes.max(1)
    }

    /// How many logs fit on all devices together, however many there are.
    pub(super) fn logs_fitting_all(&self) -> u64 {
        self.rooms().map(|room| self.fitting(&room)).sum()
    }

    /// Where each device has its logs: the number of the first, and where they begin and end. Where fewer are made than fit, each device
    /// has as many as the others, or as fit.
    fn runs_of_logs(&self) -> impl Iterator<Item = (u32, Range<u64>)> + '_ {
        let (mut first, mut devices, mut fitting_behind) =
            (0, self.rooms().count() as u64, self.logs_fitting_all());
        self.rooms().map(move |room| {
            let fitting = self.fitting(&room);
            fitting_behind -= fitting;
            let left = u64::from(self.group_count.saturating_sub(first));
            let share = left.div_ceil(devices).max(left.saturating_sub(fitting_behind));
            devices = devices.saturating_sub(1).max(1);
            let count = fitting.min(share) as u32;
            let run = (first, room.start..room.start + u64::from(count) * self.log_bytes.max(1));
            first += count;
            run
        })
    }

    /// The logs of each device that has any, by their numbers: the volume's own first.
    pub fn logs_by_device(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let log_bytes = self.log_bytes.max(1);
        self.runs_of_logs()
            .map(move |(first, run)| first..first + ((run.end - run.start) / log_bytes) as u32)
    }

    pub(super) fn log_start_on_devices(&self, log_index: u32) -> u64 {
        let mut runs = self.runs_of_logs();
        let found = runs.find(|(first, run)| {
            let within = u64::from(log_index.saturating_sub(*first)) * self.log_bytes;
            log_index >= *first && within < run.end - run.start
        });
        found.map_or(self.end_bytes(), |(first, run)| {
            run.start + u64::from(log_index - first) * self.log_bytes
        })
    }

    /// The log at an address, or the last one before it, and how far behind its start that is.
    pub(super) fn log_on_devices(&self, address: u64) -> (u32, u64) {
        let before =
            self.runs_of_logs().filter(|(_, run)| run.start <= address && run.start < run.end);
        let Some((first, run)) = before.last() else { return (0, u64::MAX) };
        let within = address - run.start;
        let last = (run.end - run.start) / self.log_bytes - 1;
        let index = (within / self.log_bytes).min(last);
        (first + index as u32, within - index * self.log_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DataParts, LayoutField, LayoutKind, LayoutOptions, Region};
    use super::*;

    const MIB: u64 = 1 << 20;

    fn with_log_devices(own: u64, parts: &[u64], log_devices: u32) -> Layout {
        let data_parts = DataParts::of(parts).unwrap().with_log_devices(log_devices).unwrap();
        let options = LayoutOptions { data_parts, ..LayoutOptions::new(LayoutKind::LogDevice) };
        Layout::plan(own, &options).unwrap()
    }

    #[test]
    fn each_log_is_found_again_from_any_byte_of_it_and_no_home_is_on_a_device_of_logs() {
        let layout = with_log_devices(128 * MIB, &[400 * MIB, 90 * MIB, 71 * MIB, 64 * MIB], 2);
        let by_device: Vec<_> = layout.logs_by_device().collect();
        assert_eq!(by_device.len(), 3);
        assert_eq!(by_device[2].end, layout.log_count());
        let devices: Vec<_> =
            std::iter::once(0..layout.device_bytes).chain(layout.log_devices()).collect();
        for (logs, device) in by_device.iter().zip(&devices) {
            assert!(logs.len() > 4, "{logs:?} on {device:?}");
            for log_index in logs.clone() {
                let start = layout.log_offset(log_index).unwrap();
                assert!(device.start <= start && start + layout.log_bytes <= device.end);
                for offset in [0, 4096, layout.log_bytes - 1] {
                    assert_eq!(layout.region(start + offset), Region::Log { log_index, offset });
                    assert_eq!(layout.group_of(start + offset), log_index);
                }
                assert_eq!(layout.logs_near(start).next(), Some(log_index));
            }
        }
        let ends = layout.data_devices().nth(1).unwrap().end;
        let homes = layout.home_pieces(0, u64::MAX).last().unwrap();
        assert!(homes.device_offset + homes.len <= ends, "{homes:?} {layout:?}");
        assert_eq!(layout.region(devices[1].start), Region::Unused, "a header");
    }

    #[test]
    fn with_little_data_every_log_device_has_as_many_logs_as_the_others_or_as_fit() {
        let layout = with_log_devices(1 << 30, &[130 * MIB, 1 << 30, 10 * MIB], 2);
        let by_device: Vec<_> = layout.logs_by_device().map(|logs| logs.len()).collect();
        let most = layout.log_count() as usize;
        assert_eq!((by_device[1], by_device[2]), (most - by_device[0] - 20, 20), "{layout:?}");
        assert!(by_device[0].abs_diff(by_device[1]) < 30, "{by_device:?}");
        let data = layout.data_parts.bytes()[0] - 2 * layout.slot_bytes;
        assert!(data - layout.client_bytes() <= data / 50, "{layout:?}");
    }

    #[test]
    fn a_log_device_without_room_for_logs_and_logs_that_are_not_there_are_refused() {
        let sound = with_log_devices(128 * MIB, &[400 * MIB, 64 * MIB], 1);
        assert_eq!(sound.validate(), Ok(()));
        let more = Layout { group_count: sound.group_count + 1, ..sound };
        assert_eq!(more.validate().map_err(|error| error.field), Err(LayoutField::GroupCount));
        let none = Layout { group_count: 1, ..sound };
        assert_eq!(none.validate().map_err(|error| error.field), Err(LayoutField::GroupCount));
        let data_parts = DataParts::of(&[400 * MIB, MIB]).unwrap().with_log_devices(1).unwrap();
        let options = LayoutOptions { data_parts, ..LayoutOptions::new(LayoutKind::LogDevice) };
        let refused = Layout::plan(128 * MIB, &options).unwrap_err();
        assert_eq!(refused.field, LayoutField::DataParts, "{refused}");
        assert_eq!(DataParts::of(&[400 * MIB]).unwrap().with_log_devices(1), None, "no data");
    }
}
