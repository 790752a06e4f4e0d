//! The devices that a volume lies on, as reports name them: what each is for, and where its bytes are among the volume's.

use crate::units::ByteSize;
use nearhead_disk::{Disk, Lane, Properties};
use nearhead_format::Superblock;
use nearhead_volume::{Lanes, SyncIo};
use serde::{Deserialize, Serialize};

/// One of the devices of a volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceReport {
    /// `disk` if logs and data are there, else `log` or `data`, or `link` of a chain; `map` of a map device, `cache` of the read cache's.
    pub role: String,
    /// Which of the data devices.
    pub position: Option<u8>,
    /// As errors name it: its path, the profile of an emulated disk, or what an array is made of.
    pub path: String,
    /// All its bytes.
    pub size_bytes: u64,
    /// Where its bytes begin among the volume's addresses, which is what a "device byte" of other reports is; a map device
    /// has its own.
    pub first_address: Option<u64>,
}

impl DeviceReport {
    /// Those of an open volume, or of one just made.
    pub fn of_lanes(superblock: &Superblock, lanes: &Lanes<Box<dyn Disk>>) -> Vec<Self> {
        let at = |lane: Lane| match (lane, lane.data_position()) {
            (Lane::MAIN, _) => Some(lanes.main()),
            (_, Some(position)) => lanes.data().get(usize::from(position)),
            (_, None) => lanes.map(),
        };
        let mut all = Self::all(superblock, |lane| at(lane).map(|disk| disk.properties().clone()));
        all.extend(lanes.cache().map(|cache| {
            let Properties { name: path, capacity_bytes: size_bytes, .. } =
                cache.properties().clone();
            Self { role: "cache".to_owned(), position: None, path, size_bytes, first_address: None }
        }));
        all
    }

    /// Those of a volume whose superblock was found by this.
    pub fn of_io(superblock: &Superblock, io: &SyncIo<'_>) -> Vec<Self> {
        Self::all(superblock, |lane| io.lane(lane).map(|disk| disk.properties().clone()))
    }

    fn all(superblock: &Superblock, at: impl Fn(Lane) -> Option<Properties>) -> Vec<Self> {
        let layout = &superblock.layout;
        let (own, other) = match (layout.is_chain(), layout.data_parts.is_empty()) {
            (true, _) => ("link", "link"),
            (false, true) => ("disk", "data"),
            (false, false) => ("log", "data"),
        };
        let data = (0..).zip(layout.data_devices()).map(|(position, addresses)| {
            (Lane::data(position), other, Some(position), Some(addresses.start))
        });
        let map = superblock.map_device_id.map(|_| (Lane::MAP, "map", None, None));
        let all = std::iter::once((Lane::MAIN, own, None, Some(0))).chain(data).chain(map);
        all.filter_map(|(lane, role, position, first_address)| {
            let Properties { name: path, capacity_bytes: size_bytes, .. } = at(lane)?;
            Some(Self { role: role.to_owned(), position, path, size_bytes, first_address })
        })
        .collect()
    }

    /// One line each for people, if there are data devices: one disk was named by whoever asks.
    pub fn lines(devices: &[Self]) -> Vec<String> {
        if devices.iter().all(|device| device.position.is_none()) {
            return Vec::new();
        }
        devices.iter().map(Self::line).collect()
    }

    fn line(&self) -> String {
        let Self { role, position, path, size_bytes, first_address } = self;
        let position = position.map_or(String::new(), |position| format!(" {position}"));
        let from = first_address.map_or(String::new(), |at| format!(", device bytes from {at} on"));
        format!("{role} device{position}: {path}, {}{from}", ByteSize(*size_bytes))
    }
}
