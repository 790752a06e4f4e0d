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
    /// The volume's own disk: superblocks, logs and homes.
    pub const MAIN: Self = Self(0);
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
        match self.lane {
            Lane::MAIN => Ok(()),
            Lane(lane) => write!(formatter, " of device {lane} beside the volume's disk"),
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
            (At { lane: Lane(1), ..own } + 4).to_string(),
            "device byte 4100 of device 1 beside the volume's disk"
        );
    }
}
