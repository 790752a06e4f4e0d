//! Images that a cut may leave, and a read-only disk over one of them.
//!
//! An image is the safe content plus some sectors of the unflushed writes. Thousands are made of one
//! moment, so they share its content: reads of a log are slices of one buffer, and copied only if the
//! image differs there.

use crate::disk::CutPoint;
use crate::raw::bytes_of;
use nearhead_disk::{
    BufferMut, Command, Completion, Disk, Nanos, Payload, Properties, Submission, Ticket,
};
use nearhead_models::{MemoryStore, Store};
use nearhead_volume::Lanes;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::rc::Rc;

/// One sector of an unflushed write.
#[derive(Clone)]
pub(super) struct TornSector {
    pub(super) offset: u64,
    pub(super) bytes: Rc<Vec<u8>>,
    pub(super) hash: u64,
}

/// An unflushed write as sectors that a cut may leave or lose; those that cannot come back are not
/// among them.
pub(super) struct TornWrite {
    pub(super) serial: u64,
    pub(super) sectors: Vec<TornSector>,
}

/// The writes of a cut point, in order.
pub(super) fn torn_writes(point: &CutPoint, sector_bytes: usize) -> Vec<TornWrite> {
    let writes = point.unflushed.iter().map(|write| {
        let bytes = bytes_of(&write.parts);
        let sectors = bytes.chunks(sector_bytes).enumerate();
        let left = sectors.filter(|(index, _)| !write.is_superseded(*index));
        let sectors = left.map(|(index, bytes)| {
            let offset = write.offset + (index * sector_bytes) as u64;
            TornSector { offset, hash: hash(offset, bytes), bytes: Rc::new(bytes.to_vec()) }
        });
        TornWrite { serial: write.serial, sectors: sectors.collect() }
    });
    writes.collect()
}

pub(super) fn hash(offset: u64, bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (offset, bytes).hash(&mut hasher);
    hasher.finish()
}

/// The content all images of one cut point share.
pub(super) struct Shared {
    /// Of each device, in the order in which the content has them.
    devices: Vec<Properties>,
    pub(super) safe: MemoryStore,
    /// Places that recovery reads in large transfers.
    pub(super) regions: Vec<Range<u64>>,
    cached: RefCell<HashMap<u64, Payload>>,
}

impl Shared {
    pub(super) fn new(
        devices: Vec<Properties>,
        safe: &MemoryStore,
        regions: &[Range<u64>],
    ) -> Rc<Self> {
        Rc::new(Self {
            devices,
            safe: safe.clone(),
            regions: regions.to_vec(),
            cached: RefCell::default(),
        })
    }

    fn read(&self, range: &Range<u64>) -> BufferMut {
        let mut bytes = BufferMut::zeroed((range.end - range.start) as usize);
        self.safe.read(range.start, &mut bytes).unwrap();
        bytes
    }

    fn region(&self, range: &Range<u64>) -> Payload {
        let mut cached = self.cached.borrow_mut();
        let read = || Payload::Bytes(self.read(range).freeze());
        cached.entry(range.start).or_insert_with(read).clone()
    }
}

/// A device after a cut. It counts changes: recovery must make none.
pub(super) struct ImageDisk {
    shared: Rc<Shared>,
    /// Which of the devices it is, and where it begins in the content.
    number: usize,
    base: u64,
    overlay: Rc<BTreeMap<u64, Rc<Vec<u8>>>>,
    done: VecDeque<Completion>,
    changes: u64,
}

/// The devices of a volume after a cut.
pub(super) fn devices_of(
    shared: &Rc<Shared>,
    overlay: BTreeMap<u64, Rc<Vec<u8>>>,
) -> Lanes<ImageDisk> {
    let (overlay, mut start) = (Rc::new(overlay), 0);
    let mut devices = shared.devices.iter().enumerate().map(|(number, properties)| {
        let base = start;
        start += properties.capacity_bytes;
        let (shared, overlay) = (Rc::clone(shared), Rc::clone(&overlay));
        ImageDisk { shared, number, base, overlay, done: VecDeque::new(), changes: 0 }
    });
    let main = Lanes::from(devices.next().expect("the volume's own"));
    let data: Vec<ImageDisk> = devices.collect();
    if data.is_empty() { main } else { main.with_data(data).expect("there is nothing to watch") }
}

/// How often anything on them was changed.
pub(super) fn changes_of(lanes: &Lanes<ImageDisk>) -> u64 {
    lanes.main().changes + lanes.data().iter().map(|disk| disk.changes).sum::<u64>()
}

impl ImageDisk {
    fn patch(&self, range: &Range<u64>, mut bytes: BufferMut) -> Payload {
        for (offset, sector) in self.overlay.range(range.clone()) {
            let at = (offset - range.start) as usize;
            bytes[at..at + sector.len()].copy_from_slice(sector);
        }
        Payload::Bytes(bytes.freeze())
    }

    fn read(&self, range: &Range<u64>) -> Payload {
        let shared = &self.shared;
        let inside = |region: &&Range<u64>| region.start <= range.start && range.end <= region.end;
        let Some(region) = shared.regions.iter().find(inside) else {
            return self.patch(range, shared.read(range));
        };
        let from = (range.start - region.start) as usize;
        let part = shared.region(region).slice(from..from + (range.end - range.start) as usize);
        if self.overlay.range(range.clone()).next().is_none() {
            return part;
        }
        let Payload::Bytes(bytes) = part else { unreachable!("always bytes") };
        self.patch(range, BufferMut::copy_of(&bytes))
    }
}

impl Disk for ImageDisk {
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.shared.devices[self.number]
    }

    fn submit(&mut self, submission: Submission, _now: Nanos) {
        let ticket: Ticket = submission.ticket;
        let payload = match submission.command {
            Command::Read { offset, len } => {
                let start = self.base + offset;
                self.read(&(start..start + u64::from(len)))
            }
            Command::Flush => Payload::EMPTY,
            Command::Write { .. } | Command::WriteZeroes { .. } | Command::Trim { .. } => {
                self.changes += 1;
                Payload::EMPTY
            }
        };
        self.done.push_back(ticket.complete(Ok(payload)));
    }

    fn poll(&mut self, _now: Nanos) -> Option<Completion> {
        self.done.pop_front()
    }

    fn wake_at(&self) -> Option<Nanos> {
        (!self.done.is_empty()).then_some(Nanos::ZERO)
    }
}
