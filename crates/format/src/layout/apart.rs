//! Logs apart from the data: the layout of a shingled disk, and of logs on a device of their own.
//!
//! ```text
//! 0        64 KiB     slot_offsets[0]   [1]      groups_offset            data_offset               last 4 KiB
//! | sb 0 | | sb 1 | | snapshot slot 0 | slot 1 | log 0 | log 1 | unused | data of all groups | unused | sb 2 |
//! \____________________ not shingled ___________________________________/ \_____________ bands _____________/
//! ```
//!
//! Bands are only written as a whole (Manylogs section III-I.3), so nothing that is rewritten a
//! little at a time may lie in one: snapshots, logs and the first two superblocks do not. (The last
//! superblock does, as the end of the device is where it is looked for; it is written once.) A host
//! sees what is not shingled first, as most such disks have it; a disk whose non-shingled parts lie
//! between its bands is presented this way by the layer below, which keeps the order of both parts.
//! So the byte that is a third into the one part is at the same radius as the byte that is a third
//! into the other, and that is what *near* means here.
//!
//! Where the data is on other devices ([`super::DataParts`]) the logs are on the volume's own, between its superblocks, and
//! the snapshots with the data, so that nothing but a record moves the arm of the device that has the logs:
//!
//! ```text
//! 0        64 KiB     1 MiB                       last 4 KiB | device_bytes
//! | sb 0 | | sb 1 | | log 0 | log 1 | ... | unused | sb 2     | header | slot 0 | slot 1 | data of all groups | unused |
//! ```

use super::plan::{
    ALIGN_LOG, FIRST_SLOT_OFFSET, GROUPS_WANTED, SLOT_BYTES_PER_LOG, fragment_room_for, groups_end,
    groups_offset_for, slot_bytes_for,
};
use super::{
    DATA_PART_ALIGN, DEVICE_BYTES_MAX, DataParts, HomePiece, LOG_BYTES_DEFAULT, LOG_BYTES_MIN,
    Layout, LayoutError, LayoutField, LayoutKind, LayoutOptions, Region,
};
use crate::BLOCK_BYTES;
use crate::data_device::DATA_START_BYTES;

/// Largest log that a single one becomes by itself: the persistent cache of the drives that are sold is
/// 20 to 25 GB (Manylogs section III-I.3).
pub(super) const SINGLE_LOG_BYTES_MAX: u64 = 25_000_000_000;

impl Layout {
    /// Whether the logs are apart from the data.
    #[inline]
    pub fn logs_are_apart(&self) -> bool {
        self.data_offset != 0
    }

    pub(super) fn home_when_apart(&self, client_offset: u64) -> Option<HomePiece> {
        if !self.data_parts.is_empty() && !self.is_chain() {
            return self.home_on_devices(client_offset);
        }
        let len = self.client_bytes().checked_sub(client_offset).filter(|len| *len > 0)?;
        Some(HomePiece { client_offset, device_offset: self.data_offset + client_offset, len })
    }

    /// The client byte that would be at home there, if it is in the data.
    fn client_when_apart(&self, device_offset: u64) -> Option<u64> {
        if self.data_parts.is_empty() || self.is_chain() {
            return device_offset.checked_sub(self.data_offset);
        }
        self.client_on_devices(device_offset)
    }

    /// The group of which a device byte is data or log; it may be past the last.
    pub(super) fn group_when_apart(&self, device_offset: u64) -> u64 {
        match self.client_when_apart(device_offset) {
            Some(within) => within / self.data_bytes(),
            None if self.logs_are_on_several() => u64::from(self.log_on_devices(device_offset).0),
            None => device_offset.saturating_sub(self.groups_offset) / self.log_bytes,
        }
    }

    pub(super) fn region_when_apart(&self, device_offset: u64) -> Region {
        if let Some(client_offset) = self.client_when_apart(device_offset) {
            let is_data = client_offset < self.client_bytes();
            return if is_data { Region::Data { client_offset } } else { Region::Unused };
        }
        if self.logs_are_on_several() {
            let (log_index, offset) = self.log_on_devices(device_offset);
            let is_inside = offset < self.log_bytes;
            return if is_inside { Region::Log { log_index, offset } } else { Region::Unused };
        }
        match device_offset.checked_sub(self.groups_offset) {
            Some(within) if within < self.log_bytes * u64::from(self.group_count) => Region::Log {
                log_index: (within / self.log_bytes) as u32,
                offset: within % self.log_bytes,
            },
            _ => Region::Unused,
        }
    }

    /// The byte of the non-shingled part that is as far in on the disk as `device_offset` is.
    pub(super) fn beside_when_apart(&self, device_offset: u64) -> u64 {
        let Some(within) = device_offset.checked_sub(self.data_offset) else {
            return device_offset;
        };
        if self.log_devices().any(|device| device.contains(&device_offset)) {
            return device_offset;
        }
        let all = self.end_bytes().saturating_sub(self.data_offset).max(1);
        let logs_end = self.data_offset.min(self.device_bytes);
        let beside = u128::from(within) * u128::from(logs_end) / u128::from(all);
        u64::try_from(beside).unwrap_or(u64::MAX)
    }

    /// How many logs fit: before `logs_end` on the volume's own device, and on others that have logs.
    fn logs_fitting(&self, logs_end: u64) -> u64 {
        if self.logs_are_on_several() {
            return self.logs_fitting_all();
        }
        (logs_end - self.groups_offset) / self.log_bytes
    }

    pub(super) fn validate_apart(&self) -> Result<(), LayoutError> {
        if self.is_chain() {
            return self.validate_chain();
        }
        let damaged = "the superblock is damaged; try another copy";
        let superblock = self.superblock_offsets()[2];
        let (start, end, logs_end) = if self.data_parts.is_empty() {
            (self.groups_offset, superblock, self.data_offset)
        } else {
            // The snapshots are before the data of the first device.
            let first_end = self.data_devices().next().map_or(0, |device| device.end);
            (self.slot_offsets[1] + self.slot_bytes, first_end, superblock)
        };
        let in_reach = self.data_offset.is_multiple_of(BLOCK_BYTES)
            && (start..=end).contains(&self.data_offset)
            && self.groups_offset <= logs_end;
        if !in_reach || self.log_bytes == 0 {
            let expected = format_args!("0, or with logs a multiple of 4096 from {start} to {end}")
                .to_string();
            let found = self.data_offset;
            return Err(LayoutError::new(LayoutField::DataOffset, expected, found, damaged));
        }
        let logs_max = self.logs_fitting(logs_end);
        let data = self.homes_on_devices().map(|homes| homes.end.saturating_sub(homes.start)).sum();
        let data = if self.data_parts.is_empty() { end - self.data_offset } else { data };
        let data_max = data / self.data_bytes();
        let count_max = logs_max.min(data_max);
        let has_all = self.logs_by_device().all(|logs| !logs.is_empty());
        if has_all && (1..=count_max).contains(&u64::from(self.group_count)) {
            return Ok(());
        }
        let expected = format_args!("from 1 to {count_max}").to_string();
        let found = u64::from(self.group_count);
        Err(LayoutError::new(LayoutField::GroupCount, expected, found, damaged))
    }
}

/// Lays out a shingled device: as many logs as its non-shingled part holds, the bands divided among
/// them.
pub(super) fn plan(device_bytes: u64, options: &LayoutOptions) -> Result<Layout, LayoutError> {
    let free_bytes = options.non_shingled_bytes.unwrap_or(0).min(device_bytes);
    let data_offset = free_bytes.next_multiple_of(BLOCK_BYTES);
    let end = groups_end(device_bytes);
    let (log_bytes, slot_bytes) = match options.kind {
        LayoutKind::OneLogApart => one_log(free_bytes, options),
        _ => many_logs(free_bytes, options),
    };
    let groups_offset = groups_offset_for(slot_bytes);
    let room = free_bytes.saturating_sub(groups_offset);
    let logs = if options.kind == LayoutKind::OneLogApart { 1 } else { room / log_bytes.max(1) };
    let needed = log_bytes.saturating_mul(logs.max(1)).saturating_add(groups_offset);
    if log_bytes == 0 || free_bytes < needed || data_offset >= end {
        let expected = format_args!(
            "a disk that is not shingled from its start up to a byte from {needed} to {end}"
        )
        .to_string();
        let advice = "choose a disk that tells where it is shingled, or a layout whose logs are in the groups";
        return Err(LayoutError::new(LayoutField::DataOffset, expected, free_bytes, advice));
    }
    let group_count = u32::try_from(logs).unwrap_or(u32::MAX);
    let data_bytes = (end - data_offset) / u64::from(group_count) / BLOCK_BYTES * BLOCK_BYTES;
    let layout = Layout {
        device_bytes,
        sector_bytes: options.sector_bytes,
        log_block_bytes: options.log_block_bytes,
        slot_offsets: [FIRST_SLOT_OFFSET, FIRST_SLOT_OFFSET + slot_bytes],
        slot_bytes,
        groups_offset,
        group_bytes: data_bytes + log_bytes,
        log_bytes,
        group_count,
        data_offset,
        records_anywhere: options.kind.has_records_anywhere(),
        data_parts: DataParts::NONE,
        fragments: options.fragments,
    };
    layout.validate()?;
    Ok(layout)
}

/// Log bytes of which a snapshot has room for a map at most: what is logged goes home soon, and a map of all that a large device holds
/// would take more room than the data it is about.
pub(super) const MAPPED_BYTES_MAX: u64 = 16 << 30;
/// So many logs are made of a device, if they are not larger then than logs in groups: a recovery reads the one in use, the one behind it
/// and those used since the last snapshot, each whole.
const DEVICE_LOGS: u64 = 2048;

/// Fewest logs of a device, if there are several: one in use, the next one, and others that are brought home meanwhile.
const LOGS_OF_DEVICE_MIN: u64 = 4;
/// No more logs are made than there is so much data for each: what is divided among them is rounded down.
const LOG_DATA_BYTES_MIN: u64 = 1 << 20;

/// Lays out a device that has nothing but logs, before others that have the data.
pub(super) fn plan_device(
    device_bytes: u64,
    options: &LayoutOptions,
) -> Result<Layout, LayoutError> {
    let device_bytes = device_bytes / BLOCK_BYTES * BLOCK_BYTES;
    let data = options.data_parts.home_bytes();
    let (log_bytes, logs) = logs_of_devices(device_bytes, options, data)?;
    let slot_bytes = slot_bytes_of_device(logs, log_bytes, options.fragments);
    let first = options.data_parts.bytes().first().copied().unwrap_or(0);
    let least = slot_bytes.saturating_mul(2).saturating_add(DATA_PART_ALIGN);
    if first < least {
        let expected = format_args!("at least {least} bytes on the first data device").to_string();
        let advice = "name a larger data device first";
        return Err(LayoutError::new(LayoutField::DataParts, expected, first, advice));
    }
    let slots_offset = device_bytes + DATA_START_BYTES;
    let data = data - 2 * slot_bytes;
    let logs = logs.min(data / LOG_DATA_BYTES_MIN);
    let group_count = u32::try_from(logs).unwrap_or(u32::MAX);
    let data_bytes = data / u64::from(group_count.max(1)) / BLOCK_BYTES * BLOCK_BYTES;
    let layout = Layout {
        device_bytes,
        sector_bytes: options.sector_bytes,
        log_block_bytes: options.log_block_bytes,
        slot_offsets: [slots_offset, slots_offset + slot_bytes],
        slot_bytes,
        groups_offset: FIRST_SLOT_OFFSET,
        group_bytes: data_bytes.saturating_add(log_bytes),
        log_bytes,
        group_count,
        data_offset: slots_offset + 2 * slot_bytes,
        records_anywhere: options.kind.has_records_anywhere(),
        data_parts: options.data_parts,
        fragments: options.fragments,
    };
    layout.validate()?;
    Ok(layout)
}

/// Size and number of the logs of all log devices, of a volume with so much data.
fn logs_of_devices(
    device_bytes: u64,
    options: &LayoutOptions,
    data: u64,
) -> Result<(u64, u64), LayoutError> {
    let fitting = device_bytes / DEVICE_LOGS / ALIGN_LOG * ALIGN_LOG;
    let by_itself = fitting.clamp(LOG_BYTES_MIN, LOG_BYTES_DEFAULT);
    let own = groups_end(device_bytes).saturating_sub(FIRST_SLOT_OFFSET);
    let parts = &options.data_parts;
    let rooms = || std::iter::once(own).chain(parts.bytes()[parts.with_homes()..].iter().copied());
    let most = data / LOG_DATA_BYTES_MIN;
    if parts.log_devices() == 0 {
        let log_bytes = options.log_bytes.unwrap_or(by_itself);
        return Ok((log_bytes, (own / log_bytes.max(1)).min(most)));
    }
    let log_bytes = options.log_bytes.unwrap_or(by_itself);
    let by_device = rooms().map(|room| room / log_bytes.max(1));
    let least = by_device.clone().min().unwrap_or(0);
    if least >= LOGS_OF_DEVICE_MIN {
        return Ok((log_bytes, by_device.sum::<u64>().min(most)));
    }
    let expected =
        format!("at least {LOGS_OF_DEVICE_MIN} logs of {log_bytes} bytes on each log device");
    let advice = "name larger log devices, or choose smaller logs";
    Err(LayoutError::new(LayoutField::DataParts, expected, least, advice))
}

/// Size of a snapshot slot for a device of that many logs.
fn slot_bytes_of_device(logs: u64, log_bytes: u64, fragments: bool) -> u64 {
    let mapped = (MAPPED_BYTES_MAX / log_bytes.max(1)).clamp(1, logs.max(1));
    let states = logs.saturating_mul(SLOT_BYTES_PER_LOG).min(DEVICE_BYTES_MAX);
    // A map that is shorter than all logs does not make the room for their fragments smaller.
    let room = if fragments { fragment_room_for(logs, log_bytes) } else { 0 };
    slot_bytes_for(mapped, log_bytes, false)
        + states.next_multiple_of(DATA_PART_ALIGN)
        + room.next_multiple_of(DATA_PART_ALIGN)
}

/// Sizes of the log and of a snapshot slot for a single log.
fn one_log(free_bytes: u64, options: &LayoutOptions) -> (u64, u64) {
    let most = free_bytes.min(SINGLE_LOG_BYTES_MAX) / ALIGN_LOG * ALIGN_LOG;
    let wanted = options.log_bytes.unwrap_or(most);
    let slot_bytes = slot_bytes_for(1, wanted, options.fragments);
    let room = free_bytes.saturating_sub(groups_offset_for(slot_bytes)) / ALIGN_LOG * ALIGN_LOG;
    (options.log_bytes.unwrap_or(wanted.min(room).max(LOG_BYTES_MIN)), slot_bytes)
}

/// Sizes of each log and of a snapshot slot for many.
fn many_logs(free_bytes: u64, options: &LayoutOptions) -> (u64, u64) {
    let small = free_bytes / 2 / GROUPS_WANTED / ALIGN_LOG * ALIGN_LOG;
    let log_bytes = options.log_bytes.unwrap_or(LOG_BYTES_DEFAULT.min(small).max(LOG_BYTES_MIN));
    (log_bytes, slot_bytes_for(free_bytes / log_bytes.max(1), log_bytes, options.fragments))
}

#[cfg(test)]
mod tests {
    use super::super::tests::defaults;
    use super::*;

    #[test]
    fn a_log_apart_is_near_the_data_that_is_as_far_in_on_the_disk() {
        // The 8 TB of a drive of which one surface of twelve is not shingled, and a small one.
        for device_bytes in [8_000_000_000_000, 1 << 30] {
            let layout =
                Layout::plan(device_bytes, &defaults(LayoutKind::ManyLogsApart, device_bytes))
                    .unwrap();
            let logs = u64::from(layout.log_count());
            for step in 0..=1000 {
                let from = (layout.client_bytes() - 1) / 1000 * step;
                let home = layout.home(from).unwrap().device_offset;
                let nearest = u64::from(layout.logs_near(home).next().unwrap());
                let log_at = layout.log_offset(nearest as u32).unwrap() as f64;
                // The snapshots are at the outer edge; a log cannot be further out than the first.
                let share = (log_at / layout.data_offset as f64).max(0.0);
                let wanted = (step as f64 / 1000.0)
                    .max(layout.groups_offset as f64 / layout.data_offset as f64);
                let one_log = 1.5 * layout.log_bytes as f64 / layout.data_offset as f64;
                assert!(
                    (share - wanted).abs() <= one_log + 0.001,
                    "{step}: log {nearest} of {logs}"
                );
                let in_log = layout.log_offset(nearest as u32).unwrap();
                assert_eq!(layout.logs_near(in_log).next(), Some(nearest as u32), "from a log");
            }
            assert_eq!(layout.logs_near(0).len(), layout.log_count() as usize);
            let mut all: Vec<u32> = layout.logs_near(device_bytes / 3).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..layout.log_count()));
        }
    }

    #[test]
    fn logs_apart_that_reach_into_the_data_or_data_past_the_end_are_refused() {
        let sound = Layout::plan(1 << 30, &defaults(LayoutKind::ManyLogsApart, 1 << 30)).unwrap();
        assert_eq!(sound.validate(), Ok(()));
        let logs_end = sound.groups_offset + sound.log_bytes * u64::from(sound.group_count);
        let at = |data_offset| Layout { data_offset, ..sound };
        assert_eq!(at(logs_end).validate(), Ok(()), "the data may touch the last log");
        for (layout, field) in [
            (at(logs_end - 4096), LayoutField::GroupCount),
            (at(sound.data_offset + 512), LayoutField::DataOffset),
            (at(sound.groups_offset - 4096), LayoutField::DataOffset),
            (at(sound.device_bytes - 4096), LayoutField::GroupCount),
            (at(u64::MAX - 4095), LayoutField::DataOffset),
            (Layout { log_bytes: 0, ..sound }, LayoutField::DataOffset),
            (Layout { group_count: 0, ..sound }, LayoutField::GroupCount),
            (Layout { group_count: sound.group_count + 40, ..sound }, LayoutField::GroupCount),
        ] {
            let error = layout.validate().expect_err(field.name());
            assert_eq!(error.field, field, "{error}: {layout:?}");
        }
    }
}
