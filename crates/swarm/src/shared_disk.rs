//! One disk with faults, held by the volume that uses it and by the test that breaks it.
//!
//! A volume that cannot be opened takes its disk with it; fate keeps a hand on this one.

use nearhead_disk::{
    Completion, Disk, Nanos, Properties, Region, RegionKind, Run, Submission, Zones,
};
use nearhead_models::faults::FaultDisk;
use nearhead_models::{Dataless, InstantDisk, MemoryStore};
use std::cell::{RefCell, RefMut};
use std::rc::Rc;

/// Sectors of a band: an odd number, so that blocks lie in two, and few, so that homes lie in many.
const BAND_SECTORS: u64 = 1201;

/// A handle; clones are the same disk.
#[derive(Clone)]
pub struct SharedDisk {
    inner: Rc<RefCell<FaultDisk<InstantDisk>>>,
    properties: Properties,
    latency: Nanos,
    zones: Option<Zones>,
}

impl SharedDisk {
    /// A disk of zeros with these `properties`, on which every command takes `latency`.
    pub fn new(properties: Properties, latency: Nanos) -> Self {
        let timing = InstantDisk::new(properties.clone(), Box::new(Dataless), latency);
        let disk = FaultDisk::new(timing, MemoryStore::new());
        Self { inner: Rc::new(RefCell::new(disk)), properties, latency, zones: None }
    }

    /// The disk tells its host that it has bands from `non_shingled_bytes` on, if any are given.
    #[must_use]
    pub fn shingled_from(mut self, non_shingled_bytes: Option<u64>) -> Self {
        self.zones = non_shingled_bytes.and_then(|len| {
            let (end, sector) = (self.properties.capacity_bytes, self.properties.sector_bytes);
            let free = Region { offset: 0, len, kind: RegionKind::NonShingled };
            let kind = RegionKind::Bands { band_bytes: BAND_SECTORS * u64::from(sector) };
            let bands = Region { offset: len, len: end.saturating_sub(len), kind };
            Zones::new(vec![free, bands], end).ok()
        });
        self
    }

    /// The disk itself.
    pub fn faults(&self) -> RefMut<'_, FaultDisk<InstantDisk>> {
        self.inner.borrow_mut()
    }

    fn timing(&self) -> InstantDisk {
        InstantDisk::new(self.properties.clone(), Box::new(Dataless), self.latency)
    }

    /// The power goes and comes back.
    pub fn power_cut(&self) {
        let timing = self.timing();
        self.faults().power_cut(timing);
    }

    /// Another disk, without faults: what a power cut now might leave of this one, as `seed` decides.
    #[must_use]
    pub fn forked(&self, seed: u64) -> Self {
        let image = self.faults().image_after_cut(seed);
        let disk = FaultDisk::new(self.timing(), image);
        Self { inner: Rc::new(RefCell::new(disk)), ..self.clone() }
    }

    /// The program that used it is gone.
    pub fn disown(&self) {
        let timing = self.timing();
        self.faults().disown(timing);
    }

    /// The same content on a larger disk; nobody may use it meanwhile.
    #[must_use]
    pub fn enlarged(mut self, capacity_bytes: u64) -> Self {
        self.properties.capacity_bytes = capacity_bytes;
        let timing = self.timing();
        self.faults().replace_timing(timing);
        let free = self.zones.as_ref().map(Zones::non_shingled_start_bytes);
        self.shingled_from(free)
    }
}

impl Disk for SharedDisk {
    /// Nobody can be lent what is behind the cell; it has nothing more to say than is asked of it here.
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn run_at(&self, offset: u64) -> Run {
        self.inner.borrow().run_at(offset)
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.faults().submit(submission, now);
    }

    fn kick(&mut self) {
        self.faults().kick();
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.faults().poll(now)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.inner.borrow().wake_at()
    }

    fn zones(&self) -> Option<&Zones> {
        self.zones.as_ref()
    }
}
