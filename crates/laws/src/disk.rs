//! Crash disks that can also fail: the n-th matching command, once or from then on, with or without having had its effect.
//!
//! A disk of a test is a device on a medium, alone or beside others. One cut hits all devices of a medium, and one image holds
//! them one behind the other; a flush reaches one device only. What is asked of any of them beside commands is asked of the medium:
//! its content, its faults, what it was told; places in faults and images are the medium's.

mod faults;
mod medium;

pub use faults::{Arrives, Fault, FaultKind, Trouble};
pub use medium::CutPoint;

use medium::Medium;
use nearhead_basics::SplitMix;
use nearhead_disk::{
    Completion, Disk, DiskError, Nanos, Properties, Run, Submission, Zones, check_command,
};
use nearhead_models::MemoryStore;
use nearhead_volume::Lanes;
use std::cell::RefCell;
use std::hash::Hasher;
use std::ops::{Deref, DerefMut, Range};
use std::rc::Rc;

/// A device.
pub struct TestDisk {
    medium: Rc<RefCell<Medium>>,
    properties: Properties,
    /// What of the medium it is.
    part: Range<u64>,
    zones: Option<Zones>,
}

impl TestDisk {
    /// A device that has a medium for itself.
    pub fn with_image(properties: Properties, image: MemoryStore) -> Self {
        let part = 0..properties.capacity_bytes;
        let medium = Rc::new(RefCell::new(Medium::new(properties.clone(), image)));
        Self { medium, properties, part, zones: None }
    }

    /// Devices one behind the other on a medium that holds `image`.
    pub fn side_by_side(
        all: impl IntoIterator<Item = Properties>,
        image: MemoryStore,
    ) -> Vec<Self> {
        let all: Vec<Properties> = all.into_iter().collect();
        let capacity_bytes = all.iter().map(|properties| properties.capacity_bytes).sum();
        let whole = Properties { capacity_bytes, ..all[0].clone() };
        let medium = Rc::new(RefCell::new(Medium::new(whole, image)));
        let mut start = 0;
        let devices = all.into_iter().map(|properties| {
            let part = start..start + properties.capacity_bytes;
            start = part.end;
            Self { medium: Rc::clone(&medium), properties, part, zones: None }
        });
        devices.collect()
    }

    /// The disk tells its host that it is shingled so. It takes any write all the same.
    #[must_use]
    pub fn with_zones(mut self, zones: Option<Zones>) -> Self {
        self.zones = zones;
        self
    }

    #[must_use]
    pub fn with_latency(self, latency: Nanos) -> Self {
        self.medium.borrow_mut().set_latency(latency);
        self
    }

    pub fn add_fault(&mut self, fault: Fault) {
        self.medium.borrow_mut().add_fault(fault);
    }

    pub fn set_trouble(&mut self, trouble: Trouble) {
        self.medium.borrow_mut().set_trouble(trouble);
    }

    pub fn mend(&mut self) {
        self.medium.borrow_mut().mend();
    }

    /// Commands that failed because somebody wanted it.
    pub fn faults_hit(&self) -> u64 {
        self.medium.borrow().faults_hit
    }

    /// The same, counted anew from here on.
    pub fn take_faults_hit(&mut self) -> u64 {
        std::mem::take(&mut self.medium.borrow_mut().faults_hit)
    }

    /// Commands so far that change something.
    pub fn writes(&self) -> u64 {
        self.medium.borrow().writes
    }

    /// A hash over every command so far.
    pub fn commands_hash(&self) -> u64 {
        self.medium.borrow().commands.finish()
    }

    /// The content if nothing is lost.
    pub fn image(&self) -> MemoryStore {
        self.medium.borrow().image()
    }

    /// The content if all is lost that may be.
    pub fn safe_image(&self) -> MemoryStore {
        self.medium.borrow().inner.image_after(&|_, _| false)
    }

    /// Cuts the power with a random outcome.
    pub fn power_cut(&mut self, random: &mut SplitMix) {
        self.medium.borrow_mut().power_cut(random);
    }

    /// The program that used it is gone: what it submitted takes effect, nobody is told.
    pub fn disown(&mut self) {
        self.medium.borrow_mut().disown();
    }

    /// From now on every state that a cut may find is remembered.
    pub fn watch_cuts(&mut self) {
        self.medium.borrow_mut().cut_points = Some(Vec::new());
    }

    /// Remembers the present state if it differs from the last one, if anybody watches.
    pub fn note_cut_point(&mut self) {
        self.medium.borrow_mut().note_cut_point();
    }

    /// Every state since the last look, or since somebody began to watch.
    pub fn take_cut_points(&mut self) -> Vec<CutPoint> {
        let mut medium = self.medium.borrow_mut();
        medium.cut_points.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Disk for TestDisk {
    /// The medium is shared, and lent to nobody.
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        let Submission { ticket, class, command } = submission;
        let checked: Result<(), DiskError> = check_command(&self.properties, &command);
        let mut medium = self.medium.borrow_mut();
        if let Err(error) = checked {
            return medium.refuse(ticket, error, now);
        }
        let offset = command.offset().unwrap_or_default();
        let command = command.at(self.part.start + offset);
        medium.submit(&self.part, Submission { ticket, class, command }, now);
    }

    /// Of whichever device of the medium: its id says what it answers.
    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.medium.borrow_mut().poll(now)
    }

    fn zones(&self) -> Option<&Zones> {
        self.zones.as_ref()
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.medium.borrow().wake_at()
    }

    fn run_at(&self, offset: u64) -> Run {
        self.medium.borrow().inner.run_at(self.part.start + offset)
    }
}

/// The devices of a volume, on one medium. What is asked of it beside lanes is asked of its own disk, and so of the medium.
pub struct Devices(Lanes<TestDisk>);

impl Devices {
    /// The volume's own disk, and its data devices behind it if it has any, of which the last so many are for logs.
    pub fn new(main: TestDisk, mut data: Vec<TestDisk>, for_logs: usize) -> Self {
        let main = Lanes::from(main);
        if data.is_empty() {
            return Self(main);
        }
        let logs = data.split_off(data.len().saturating_sub(for_logs));
        let with_data = main.with_data(data);
        let all = with_data.and_then(|lanes| lanes.with_log_devices(logs));
        Self(all.expect("nothing to watch"))
    }

    #[must_use]
    pub fn with_latency(self, latency: Nanos) -> Self {
        self.main().medium.borrow_mut().set_latency(latency);
        self
    }

    /// Reads are carried out up to so long after they came, each when a chance from this seed says; what they bring is what is there then.
    #[must_use]
    pub fn with_reads_late(self, most: Nanos, seed: u64) -> Self {
        self.main().medium.borrow_mut().set_reads_late(most, seed);
        self
    }

    /// As a volume has them.
    pub fn lanes_mut(&mut self) -> &mut Lanes<TestDisk> {
        &mut self.0
    }

    fn main(&self) -> &TestDisk {
        self.0.main()
    }
}

impl From<Lanes<TestDisk>> for Devices {
    fn from(lanes: Lanes<TestDisk>) -> Self {
        Self(lanes)
    }
}

impl From<Devices> for Lanes<TestDisk> {
    fn from(devices: Devices) -> Self {
        devices.0
    }
}

impl Deref for Devices {
    type Target = TestDisk;

    fn deref(&self) -> &TestDisk {
        self.0.main()
    }
}

impl DerefMut for Devices {
    fn deref_mut(&mut self) -> &mut TestDisk {
        self.0.main_mut()
    }
}
