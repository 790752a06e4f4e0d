//! The devices of a volume, and places on them.
//!
//! A volume lies on one device or on several. Each is a lane: it has its own addresses, queue, cache and facts, and what
//! one of them is told says nothing to another. So an order between what is on two lanes holds only where somebody waits
//! for the one before telling the other. These are words only, and who has the lanes knows which there are.

use std::fmt;
use std::ops::Add;

/// One of the devices that a volume lies on, by its number among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u8);

impl Lane {
    /// The volume's own disk: superblocks, logs and homes. Its addresses go on over the data devices, if the volume has those.
    pub const MAIN: Self = Self(0);
    /// The device for the map, if there is one.
    pub const MAP: Self = Self(1);
    /// The device for the read cache, if there is one: the volume's content is not there, only copies of it.
    pub const CACHE: Self = Self(u8::MAX);
    /// The first data device, if there are any; the others follow.
    const FIRST_DATA: u8 = 2;

    /// The data device at a position.
    pub fn data(position: u8) -> Self {
        Self(Self::FIRST_DATA.saturating_add(position))
    }

    /// The position of a data device.
    pub fn data_position(self) -> Option<u8> {
        self.0.checked_sub(Self::FIRST_DATA).filter(|_| self != Self::CACHE)
    }
}

/// A byte of one of a volume's devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At {
    /// Which device.
    pub lane: Lane,
    /// Which byte of it.
    pub offset: u64,
}

/// Whoever names only a byte means one of the volume's own disk.
impl From<u64> for At {
    fn from(offset: u64) -> Self {
        Self { lane: Lane::MAIN, offset }
    }
}

impl Add<u64> for At {
    type Output = Self;

    fn add(self, bytes: u64) -> Self {
        Self { offset: self.offset + bytes, ..self }
    }
}

impl fmt::Display for At {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "device byte {}", self.offset)?;
        match (self.lane, self.lane.data_position()) {
            (_, Some(position)) => write!(formatter, " of data device {position}"),
            (Lane::MAIN, None) => Ok(()),
            (Lane::CACHE, None) => write!(formatter, " of the read cache"),
            (_, None) => write!(formatter, " of the map device"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_told_by_its_byte_and_by_its_lane_unless_that_is_the_volume_s_own_disk() {
        let own = At::from(4096);
        assert_eq!((own + 512).to_string(), "device byte 4608");
        assert_eq!(
            (At { lane: Lane::MAP, ..own } + 4).to_string(),
            "device byte 4100 of the map device"
        );
        assert_eq!(
            At { lane: Lane::CACHE, ..own }.to_string(),
            "device byte 4096 of the read cache"
        );
        assert_eq!(
            At { lane: Lane::data(3), offset: 512 }.to_string(),
            "device byte 512 of data device 3"
        );
    }
}
