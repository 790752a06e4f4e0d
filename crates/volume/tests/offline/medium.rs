//! Volumes as bytes: made, written to, stopped or cut, and changed behind their back. Every disk of a test is made of such
//! bytes anew, so no test meets what another one left.

use crate::support::Run;
use nearhead_disk::{Lane, Nanos, Properties};
use nearhead_engine::MapPlace;
use nearhead_format::{MapDevice, Superblock};
use nearhead_models::{CrashDisk, MemoryStore, Store, plain_properties};
use nearhead_service::Service;
use nearhead_volume::{CreateOptions, Lanes, SyncIo, create, find_superblock};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const DEVICE_BYTES: u64 = 64 * MIB;
const MAP_DEVICE_BYTES: u64 = 4 * MIB;

/// What lies on a disk, and on its map device if it has one.
#[derive(Clone)]
pub(crate) struct Medium {
    pub(crate) bytes: u64,
    pub(crate) main: MemoryStore,
    pub(crate) map: Option<MemoryStore>,
}

fn disk(bytes: u64, image: &MemoryStore) -> CrashDisk {
    let properties = Properties { volatile_cache: true, ..plain_properties(bytes, 512) };
    CrashDisk::with_image(properties, image.clone())
}

impl Medium {
    /// Of zeros.
    pub(crate) fn empty(bytes: u64, has_map: bool) -> Self {
        Self { bytes, main: MemoryStore::new(), map: has_map.then(MemoryStore::new) }
    }

    /// A volume just created.
    pub(crate) fn made(options: &CreateOptions) -> Self {
        Self::made_on(Self::empty(DEVICE_BYTES, false), options)
    }

    /// A volume just created on this.
    pub(crate) fn made_on(mut self, options: &CreateOptions) -> Self {
        self.with(|io| create(io, options)).unwrap();
        self
    }

    pub(crate) fn lanes(&self) -> Lanes<CrashDisk> {
        let main = disk(self.bytes, &self.main);
        match &self.map {
            None => main.into(),
            Some(map) => Lanes::with_map(main, disk(MAP_DEVICE_BYTES, map)).unwrap(),
        }
    }

    fn of(bytes: u64, lanes: Lanes<CrashDisk>) -> Self {
        let (main, map) = lanes.into_parts();
        let all = |disk: CrashDisk| disk.image_after(&|_, _| true);
        Self { bytes, main: all(main), map: map.map(all) }
    }

    /// Runs a command on it, and keeps what that wrote.
    pub(crate) fn with<T>(&mut self, command: impl FnOnce(&mut SyncIo<'_>) -> T) -> T {
        let mut lanes = self.lanes();
        let result = command(&mut lanes.in_virtual_time(Nanos::ZERO));
        *self = Self::of(self.bytes, lanes);
        result
    }

    /// Opens the volume, which has no damage; nothing is cleaned and no snapshot comes by itself.
    pub(crate) fn open(&self) -> Run<CrashDisk> {
        Run::open(self.lanes(), Nanos::ZERO, |config| {
            config.cleaning.idle_after = None;
            config.cleaning.swap_above_pct = None;
        })
    }

    /// The volume used and stopped in order.
    pub(crate) fn used(&self, work: impl FnOnce(&mut Run<CrashDisk>)) -> Self {
        let mut run = self.open();
        work(&mut run);
        run.volume.begin_shutdown(run.now);
        while !run.volume.is_shut_down() {
            run.volume.drive(run.now);
            run.now = run.volume.wake_at().unwrap_or(run.now).max(run.now);
        }
        Self::of(self.bytes, run.volume.into_lanes())
    }

    /// The volume used until the power went; everything that was written survives.
    pub(crate) fn cut_after(&self, work: impl FnOnce(&mut Run<CrashDisk>)) -> Self {
        let mut run = self.open();
        work(&mut run);
        Self::of(self.bytes, run.volume.into_lanes())
    }

    pub(crate) fn superblock(&self) -> Superblock {
        self.clone().with(find_superblock).unwrap().superblock
    }

    /// The disk that has the volume's map.
    pub(crate) fn of_map(&mut self) -> &mut MemoryStore {
        self.map.as_mut().unwrap_or(&mut self.main)
    }

    /// Where the map's snapshots are.
    pub(crate) fn map_place(&self) -> MapPlace {
        let Some(map) = &self.map else { return MapPlace::of_layout(&self.superblock().layout) };
        let mut header = [0; 4096];
        map.read(0, &mut header).unwrap();
        MapPlace::of_device(Lane(1), &MapDevice::decode(&header, MAP_DEVICE_BYTES).unwrap())
    }

    pub(crate) fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.main.read(at, &mut bytes).unwrap();
        bytes
    }
}

/// Bytes that no checksum covers by chance.
pub(crate) fn spoil(image: &mut MemoryStore, at: u64) {
    let mut bytes = [0; 8];
    image.read(at, &mut bytes).unwrap();
    for byte in &mut bytes {
        *byte ^= 0xa5;
    }
    image.write(at, &bytes).unwrap();
}
