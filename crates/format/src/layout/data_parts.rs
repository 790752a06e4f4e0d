//! Data devices: what other devices add to the address space of a volume whose own holds nothing but the logs. The last of them may
//! be further log devices (`log_runs.rs`), on which no home lies.
//!
//! The volume's addresses are those of its own device, and behind them those of each data device in the order of their positions:
//!
//! ```text
//! 0                      device_bytes                                                   end_bytes()
//! | the volume's own     | header | slot 0 | slot 1 | data ...   | header | data ...   |  ...  |
//! \____ logs __________/ \________ data device 0 ______________/ \______ 1 __________/ \_ .. /
//! ```
//!
//! The first mebibyte of each device is its own, so that it is known again ([`crate::data_device`]). It also keeps what lies on two
//! devices from being neighbours: whoever merges neighbours into one transfer need not know of devices.

use super::{HomePiece, Layout};
use super::{LayoutError, LayoutField};
use crate::BLOCK_BYTES;
use crate::data_device::DATA_START_BYTES;
use std::ops::Range;

/// Most data devices of a volume.
pub const DATA_DEVICES_MAX: usize = 15;
/// The share of a data device is a multiple of this.
pub const DATA_PART_ALIGN: u64 = 1 << 20;

/// How much each data device adds, in bytes, by position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataParts {
    count: u8,
    /// So many of them, the last ones, have logs and no homes.
    log_devices: u8,
    bytes: [u64; DATA_DEVICES_MAX],
}

impl DataParts {
    /// Everything is on the volume's own device.
    pub const NONE: Self = Self { count: 0, log_devices: 0, bytes: [0; DATA_DEVICES_MAX] };

    /// Devices that add so many bytes each; `None` of more than there may be.
    pub fn of(bytes: &[u64]) -> Option<Self> {
        let mut parts = Self { count: u8::try_from(bytes.len()).ok()?, ..Self::NONE };
        parts.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(parts)
    }

    /// The same where the last so many have logs, as the volume's own device has; `None` if no data device would be left.
    #[must_use]
    pub fn with_log_devices(self, log_devices: u32) -> Option<Self> {
        let log_devices = u8::try_from(log_devices).ok()?;
        let is_sound = log_devices == 0 || log_devices < self.count;
        is_sound.then_some(Self { log_devices, ..self })
    }

    /// How many of them, the last ones, have logs and no homes.
    #[inline]
    pub fn log_devices(&self) -> u32 {
        u32::from(self.log_devices)
    }

    /// How many have homes: the first ones.
    #[inline]
    pub fn with_homes(&self) -> usize {
        usize::from(self.count - self.log_devices)
    }

    /// What those add that have homes.
    pub(super) fn home_bytes(&self) -> u64 {
        self.bytes()[..self.with_homes()].iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of them, log devices among them.
    #[inline]
    pub fn count(&self) -> u32 {
        u32::from(self.count)
    }

    /// What each adds, by position.
    #[inline]
    pub fn bytes(&self) -> &[u64] {
        &self.bytes[..usize::from(self.count)]
    }

    /// What all of them add; checked by [`Layout::validate`].
    #[inline]
    pub fn total_bytes(&self) -> u64 {
        self.bytes().iter().fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

impl Layout {
    /// The first address behind the volume's: behind its last data device, or its own.
    #[inline]
    pub fn end_bytes(&self) -> u64 {
        let headers = u64::from(self.data_parts.count()) * DATA_START_BYTES;
        self.device_bytes.saturating_add(headers).saturating_add(self.data_parts.total_bytes())
    }

    /// The addresses of each data device, its header's among them, by position.
    pub fn data_devices(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut start = self.device_bytes;
        self.data_parts.bytes().iter().map(move |bytes| {
            let device = start..start + DATA_START_BYTES + bytes;
            start = device.end;
            device
        })
    }

    /// The addresses of each further log device, its header's among them.
    pub fn log_devices(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.data_devices().skip(self.data_parts.with_homes())
    }

    /// Where client bytes live on each data device, by position: not in the snapshots, which are on the first.
    pub(super) fn homes_on_devices(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let homes = |device: Range<u64>| {
            (device.start + DATA_START_BYTES).max(self.data_offset)..device.end
        };
        self.data_devices().take(self.data_parts.with_homes()).map(homes)
    }

    pub(super) fn home_on_devices(&self, client_offset: u64) -> Option<HomePiece> {
        let client_left =
            self.client_bytes().checked_sub(client_offset).filter(|left| *left > 0)?;
        let mut within = client_offset;
        for homes in self.homes_on_devices() {
            let bytes = homes.end.saturating_sub(homes.start);
            if within < bytes {
                let len = (bytes - within).min(client_left);
                return Some(HomePiece { client_offset, device_offset: homes.start + within, len });
            }
            within -= bytes;
        }
        None
    }

    /// The client byte at home at this address, as far as it goes: past the end what would be there.
    pub(super) fn client_on_devices(&self, address: u64) -> Option<u64> {
        let mut before = 0;
        for homes in self.homes_on_devices() {
            if homes.contains(&address) {
                return Some(before + (address - homes.start));
            }
            before += homes.end.saturating_sub(homes.start);
        }
        None
    }

    pub(super) fn validate_data_parts(&self) -> Result<(), LayoutError> {
        let most = super::DEVICE_BYTES_MAX;
        let is_sound = |bytes: &u64| {
            bytes.is_multiple_of(DATA_PART_ALIGN) && (DATA_PART_ALIGN..=most).contains(bytes)
        };
        let wrong = self.data_parts.bytes().iter().find(|bytes| !is_sound(bytes));
        let is_own_aligned = self.device_bytes.is_multiple_of(BLOCK_BYTES);
        let found = match wrong {
            Some(bytes) => *bytes,
            None if self.end_bytes() > most => self.end_bytes(),
            None if !self.data_parts.is_empty() && !is_own_aligned => self.device_bytes,
            None => return Ok(()),
        };
        Err(LayoutError::new(
            LayoutField::DataParts,
            format_args!("multiples of 1 MiB behind one of 4096, all of them at most {most}"),
            found,
            "the superblock is damaged; try another copy",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::sound;
    use super::super::{LayoutKind, LayoutOptions};
    use super::*;

    #[test]
    fn between_the_homes_of_two_devices_lies_a_header_and_nothing_else_is_left_out() {
        let options = LayoutOptions {
            data_parts: DataParts::of(&[300 << 20, 1 << 20, 7 << 20]).unwrap(),
            ..LayoutOptions::new(LayoutKind::LogDevice)
        };
        let layout = Layout::plan(1 << 30, &options).unwrap();
        let devices: Vec<_> = layout.data_devices().collect();
        let sizes: Vec<_> = devices.iter().map(|device| device.end - device.start).collect();
        assert_eq!(sizes, [301 << 20, 2 << 20, 8 << 20]);
        assert_eq!((devices[0].start, devices[2].end), (1 << 30, layout.end_bytes()));
        let pieces: Vec<_> = layout.home_pieces(0, u64::MAX).collect();
        assert_eq!(pieces.len(), 3, "{pieces:?}");
        for (piece, device) in pieces.iter().zip(&devices) {
            let first = piece.device_offset.max(layout.data_offset);
            assert_eq!(first, (device.start + DATA_START_BYTES).max(layout.data_offset));
            assert!(piece.device_offset + piece.len <= device.end);
            assert_eq!(layout.client_on_devices(piece.device_offset), Some(piece.client_offset));
        }
        assert_eq!(layout.client_on_devices(devices[1].start), None, "a header");
        assert_eq!(layout.client_on_devices(0), None, "the logs' device");
    }

    #[test]
    fn there_are_as_many_as_there_may_be_and_not_one_more() {
        assert!(DataParts::of(&[1 << 20; DATA_DEVICES_MAX]).is_some());
        assert_eq!(DataParts::of(&[1 << 20; DATA_DEVICES_MAX + 1]), None);
        assert_eq!(DataParts::of(&[]), Some(DataParts::NONE));
    }

    #[test]
    fn parts_that_are_empty_or_uneven_or_too_many_bytes_are_refused() {
        let sound = sound();
        let check = |parts: &[u64]| {
            let layout = Layout { data_parts: DataParts::of(parts).unwrap(), ..sound };
            layout.validate_data_parts().map_err(|error| error.field)
        };
        assert_eq!(check(&[1 << 20, 2 << 20]), Ok(()));
        for wrong in [vec![0], vec![(1 << 20) + 4096], vec![u64::MAX - 4095], vec![1 << 50; 3]] {
            assert_eq!(check(&wrong), Err(LayoutField::DataParts), "{wrong:?}");
        }
    }
}
