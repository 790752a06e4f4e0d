//! A chain: one log over several devices, and no homes (Gecko, section 4).
//!
//! Every device has logs and nothing else but what it needs to be known; the volume's own has the superblocks and the snapshots besides:
//!
//! ```text
//! 0        64 KiB     1 MiB                     groups_offset          last 4 KiB | device_bytes
//! | sb 0 | | sb 1 | | slot 0 | slot 1 | unused | log 0 | log 1 | unused | sb 2     | header | log 7 | log 8 | unused | header | log 9 ...
//! \_______________________ the volume's own _____________________________________/ \______ data device 0 _________/ \___ 1 ___ .. /
//! ```
//!
//! What no log has reads as zeros. The addresses of the homes begin behind the last device ([`Layout::data_offset`] is
//! [`Layout::end_bytes`]): no device has them, and nobody may send a command there. The client's address space is smaller than the logs, so
//! that there always is something to be cleaned; `group_bytes` without the log is each log's share of it.

use super::plan::{
    ALIGN_LOG, FIRST_SLOT_OFFSET, MIB, SLOT_BYTES_PER_LOG, groups_end, groups_offset_for,
};
use super::{DEVICE_BYTES_MAX, LOG_BYTES_MIN, Layout, LayoutError, LayoutField, LayoutOptions};
use crate::{BLOCK_BYTES, ENTRY_BYTES};

/// The largest log of a chain by itself: cleaning frees a log at a time, and half a second of a fast disk is neither long nor many seeks.
const CHAIN_LOG_BYTES_MAX: u64 = 64 * MIB;
/// So many logs are made of the smallest device, if they are no larger then.
const LOGS_OF_DEVICE: u64 = 256;
/// Logs of each device that clients are not promised: the one that is being filled, the one that is being cleaned, the one that its content
/// goes to, and three that stay free for that and for records without data.
const SPARE_LOGS: u64 = 6;
/// The share of the others that clients are promised, in hundredths. Cleaning frees a third of a log then, on average, if what is
/// written over is anywhere; the more is promised, the more is copied for it (Gecko section 3).
const PROMISED_PCT: u64 = 75;

impl Layout {
    /// Whether the volume is a chain: there are no homes, and the logs are on all devices.
    #[inline]
    pub fn is_chain(&self) -> bool {
        self.data_offset != 0 && self.data_offset == self.end_bytes()
    }

    pub(super) fn validate_chain(&self) -> Result<(), LayoutError> {
        let rooms = self.logs_fitting_all();
        let (count, share) = (u64::from(self.group_count), self.data_bytes());
        let fits = (1..=rooms).contains(&count)
            && self.log_bytes > 0
            && share > 0
            && share < self.log_bytes
            && self.sector_bytes as u64 == BLOCK_BYTES;
        if fits {
            return Ok(());
        }
        Err(LayoutError::new(
            LayoutField::GroupCount,
            format_args!(
                "from 1 to {rooms} logs of more than they hold for clients, in sectors of {BLOCK_BYTES}"
            ),
            count,
            "the superblock is damaged; try another copy",
        ))
    }
}

/// Lays out a chain of the volume's own device and those behind it.
pub(super) fn plan(device_bytes: u64, options: &LayoutOptions) -> Result<Layout, LayoutError> {
    let device_bytes = device_bytes / BLOCK_BYTES * BLOCK_BYTES;
    let others = options.data_parts.bytes().iter().copied();
    let smallest = others.fold(device_bytes, u64::min);
    let by_itself = (smallest / LOGS_OF_DEVICE / ALIGN_LOG * ALIGN_LOG)
        .clamp(LOG_BYTES_MIN, CHAIN_LOG_BYTES_MAX);
    let log_bytes = options.log_bytes.unwrap_or(by_itself);
    let all_bytes = device_bytes.saturating_add(options.data_parts.total_bytes());
    let slot_bytes = slot_bytes(all_bytes, log_bytes);
    let groups_offset = groups_offset_for(slot_bytes);
    let layout = Layout {
        device_bytes,
        sector_bytes: BLOCK_BYTES as u32,
        log_block_bytes: BLOCK_BYTES as u32,
        slot_offsets: [FIRST_SLOT_OFFSET, FIRST_SLOT_OFFSET + slot_bytes],
        slot_bytes,
        groups_offset,
        group_bytes: log_bytes,
        log_bytes,
        group_count: u32::MAX,
        data_offset: 0,
        records_anywhere: false,
        data_parts: options.data_parts,
        fragments: options.fragments,
    };
    let layout = Layout { data_offset: layout.end_bytes(), ..layout };
    let by_device: Vec<u64> = layout.logs_by_device().map(|logs| logs.len() as u64).collect();
    let count: u64 = by_device.iter().sum();
    let promised: u64 = by_device.iter().map(|logs| logs.saturating_sub(SPARE_LOGS)).sum();
    let share = (log_bytes.saturating_sub(LOG_OVERHEAD_BYTES) * promised / 100 * PROMISED_PCT
        / count.max(1))
        / BLOCK_BYTES
        * BLOCK_BYTES;
    if by_device.iter().any(|logs| *logs <= SPARE_LOGS) || share < 2 * BLOCK_BYTES {
        let room = groups_end(device_bytes).saturating_sub(groups_offset);
        let found = by_device.iter().copied().min().unwrap_or(room / log_bytes.max(1));
        return Err(LayoutError::new(
            LayoutField::LogBytes,
            format_args!("logs of which each device holds more than {SPARE_LOGS}"),
            found,
            "choose smaller logs or larger devices",
        ));
    }
    let layout = Layout {
        group_bytes: log_bytes + share,
        group_count: u32::try_from(count).unwrap_or(u32::MAX),
        ..layout
    };
    layout.validate()?;
    Ok(layout)
}

/// What of a log holds nothing for clients: headers, and what is kept for records without data.
const LOG_OVERHEAD_BYTES: u64 = 128 << 10;

/// Room for a map of every block that clients are promised, the state of every log, and some to spare.
fn slot_bytes(all_bytes: u64, log_bytes: u64) -> u64 {
    let all_bytes = all_bytes.min(DEVICE_BYTES_MAX);
    let entries = all_bytes / 100 * PROMISED_PCT / BLOCK_BYTES * ENTRY_BYTES as u64;
    let states = all_bytes / log_bytes.max(1) * SLOT_BYTES_PER_LOG;
    (entries + states + MIB).next_multiple_of(MIB)
}

#[cfg(test)]
mod tests {
    use super::super::{DataParts, LayoutKind, Region};
    use super::*;

    fn chain(device_bytes: u64, others: &[u64]) -> Result<Layout, LayoutError> {
        let data_parts = DataParts::of(others).unwrap();
        Layout::plan(
            device_bytes,
            &LayoutOptions { data_parts, ..LayoutOptions::new(LayoutKind::Chain) },
        )
    }

    #[test]
    fn logs_are_on_every_device_and_each_is_found_again_from_any_byte_of_it() {
        let layout = chain(1 << 30, &[300 * MIB, 71 * MIB]).unwrap();
        let by_device: Vec<_> = layout.logs_by_device().collect();
        assert_eq!(by_device.len(), 3);
        assert_eq!((by_device[0].start, by_device[2].end), (0, layout.log_count()));
        let devices: Vec<_> =
            std::iter::once(0..layout.device_bytes).chain(layout.data_devices()).collect();
        for (logs, device) in by_device.iter().zip(&devices) {
            assert!(logs.len() > 6, "{logs:?} on {device:?}");
            for log_index in logs.clone() {
                let start = layout.log_offset(log_index).unwrap();
                assert!(
                    device.start <= start && start + layout.log_bytes <= device.end,
                    "{log_index}"
                );
                for offset in [0, 4096, layout.log_bytes - 1] {
                    assert_eq!(layout.region(start + offset), Region::Log { log_index, offset });
                    assert_eq!(layout.group_of(start + offset), log_index);
                }
            }
        }
        assert_eq!(layout.region(devices[1].start), Region::Unused, "a header");
    }

    #[test]
    fn clients_are_promised_less_than_the_logs_hold_and_every_promised_block_has_an_entry() {
        for (own, others) in
            [(64 * MIB, vec![]), (1 << 30, vec![1 << 30]), (8 << 40, vec![8 << 40; 15])]
        {
            let layout = chain(own, &others).unwrap();
            let held: u64 = layout
                .logs_by_device()
                .map(|logs| (logs.len() as u64 - SPARE_LOGS) * layout.log_bytes)
                .sum();
            assert!(layout.client_bytes() * 4 <= held * 3, "{layout:?}");
            assert!(layout.client_bytes() * 2 >= held, "{layout:?}");
            let needed = layout.client_bytes() / BLOCK_BYTES * ENTRY_BYTES as u64
                + u64::from(layout.log_count()) * SLOT_BYTES_PER_LOG;
            assert!(layout.snapshot_body_bytes_max() >= needed, "{layout:?}");
            assert!(
                layout.slot_bytes <= layout.end_bytes() / 200 + 2 * MIB,
                "half a hundredth: {layout:?}"
            );
        }
    }

    #[test]
    fn what_no_log_has_has_no_address_on_any_device() {
        let layout = chain(1 << 30, &[300 * MIB]).unwrap();
        let home = layout.home(0).unwrap();
        assert_eq!((home.device_offset, home.len), (layout.end_bytes(), layout.client_bytes()));
        assert_eq!(layout.region(layout.end_bytes()), Region::Data { client_offset: 0 });
    }

    #[test]
    fn a_chain_that_claims_more_logs_or_promises_more_than_there_is_is_refused() {
        let sound = chain(1 << 30, &[300 * MIB]).unwrap();
        assert_eq!(sound.validate(), Ok(()));
        for wrong in [
            Layout { group_count: sound.group_count + 1, ..sound },
            Layout { group_count: 0, ..sound },
            Layout { group_bytes: 2 * sound.log_bytes, ..sound },
            Layout { sector_bytes: 512, ..sound },
        ] {
            let field = wrong.validate().map_err(|error| error.field);
            assert_eq!(field, Err(LayoutField::GroupCount), "{wrong:?}");
        }
        let refused = chain(1 << 30, &[MIB]).unwrap_err();
        assert_eq!(refused.field, LayoutField::LogBytes, "a device that is too small for any use");
    }
}
