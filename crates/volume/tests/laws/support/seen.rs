//! What somebody sees who opens the volume on an image: how large it is, what blocks hold, what is hinted, what is
//! reported. And a disk with or without a map device, so that one cut hits both.

use super::disk::TestDisk;
use super::options::{DEVICE_BYTES, Options};
use super::raw::bytes_of;
use nearhead_disk::{BufferMut, Nanos, Payload, Properties};
use nearhead_engine::{DamageKind, Status};
use nearhead_models::MemoryStore;
use nearhead_service::{Hint, Operation, Request, RequestId, Service};
use nearhead_volume::{Lanes, OpenError, SyncIo, Volume};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

const BLOCK_BYTES: u64 = 4096;
const MAP_DEVICE_BYTES: u64 = 4 << 20;

/// A test disk, and a map device behind it if it has one: one cut hits both.
pub(crate) struct Device {
    lanes: Lanes<TestDisk>,
}

impl Device {
    /// A disk of `device_bytes` that holds `image`.
    pub(crate) fn new(
        options: &Options,
        device_bytes: u64,
        has_map: bool,
        image: MemoryStore,
    ) -> Self {
        let properties =
            |capacity_bytes| Properties { capacity_bytes, ..options.disk_properties() };
        let map = has_map.then(|| properties(MAP_DEVICE_BYTES));
        let all = std::iter::once(properties(device_bytes)).chain(map);
        let mut all = TestDisk::side_by_side(all, image).into_iter();
        let main = all.next().expect("the volume's own");
        let lanes = match all.next() {
            None => main.into(),
            Some(map) => Lanes::with_map(main, map).unwrap(),
        };
        Self { lanes }
    }

    /// The devices of a volume that is no longer open.
    pub(crate) fn of(volume: Volume<TestDisk>) -> Self {
        Self { lanes: volume.into_lanes() }
    }

    /// For a volume on it.
    pub(crate) fn into_lanes(self) -> Lanes<TestDisk> {
        self.lanes
    }

    /// All of it.
    pub(crate) fn disk(&self) -> &TestDisk {
        self.lanes.main()
    }

    /// The same, to be told something.
    pub(crate) fn disk_mut(&mut self) -> &mut TestDisk {
        self.lanes.main_mut()
    }
}

/// What a look at an image shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It does not open; which kind of error, and its words.
    Refused(String, String),
    Open(View),
}

/// An open volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) size_bytes: u64,
    /// What each block holds, as a hash; none if it cannot be read.
    pub(crate) blocks: BTreeMap<u64, Option<u64>>,
    pub(crate) hints: Vec<Range<u64>>,
    /// Findings, but for those about superblock copies, which a cut may leave half written.
    pub(crate) damage: Vec<String>,
    /// Whether there were any at all.
    pub(crate) is_told: bool,
}

impl Seen {
    /// The same without the words.
    pub(crate) fn kind(&self) -> Self {
        match self {
            Self::Refused(kind, _) => Self::Refused(kind.clone(), String::new()),
            Self::Open(view) => Self::Open(View { is_told: false, ..view.clone() }),
        }
    }
}

/// A kind of volume on a kind of device, and which blocks are looked at.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) options: Options,
    pub(crate) has_map: bool,
    pub(crate) device_bytes: u64,
    pub(crate) blocks: Vec<u64>,
}

impl Subject {
    pub(crate) fn new(options: Options, has_map: bool, blocks: Vec<u64>) -> Self {
        Self { options, has_map, device_bytes: DEVICE_BYTES, blocks }
    }

    pub(crate) fn device(&self, image: MemoryStore) -> Device {
        Device::new(&self.options, self.device_bytes, self.has_map, image)
    }

    pub(crate) fn open(&self, image: MemoryStore) -> Result<Used, OpenError> {
        let lanes = self.device(image).into_lanes();
        let (mut volume, now) = Volume::open_in_virtual_time(lanes, Nanos::ZERO, |_, config| {
            self.options.configure(config);
        })?;
        let now = volume.run_until_open(now)?;
        Ok(Used { volume, now, next: 1 })
    }

    /// Opens the volume on `image` and looks around.
    pub(crate) fn look(&self, image: MemoryStore) -> Seen {
        match self.open(image) {
            Err(error) => {
                let kind = format!("{error:?}");
                let kind = kind.split([' ', '(', '{']).next().unwrap_or_default().to_owned();
                Seen::Refused(kind, error.to_string())
            }
            Ok(mut used) => Seen::Open(used.view(&self.blocks)),
        }
    }
}

/// An open volume in use.
pub(crate) struct Used {
    pub(crate) volume: Volume<TestDisk>,
    pub(crate) now: Nanos,
    next: u64,
}

impl Used {
    /// A volume that is open.
    pub(crate) fn of(volume: Volume<TestDisk>, now: Nanos) -> Self {
        Self { volume, now, next: 1 }
    }

    /// Asks for something and waits for the answer.
    pub(crate) fn ask(&mut self, operation: Operation) -> Result<Vec<Payload>, String> {
        let id = self.send(operation);
        self.wait(id)
    }

    pub(crate) fn send(&mut self, operation: Operation) -> u64 {
        let id = self.next;
        self.next += 1;
        self.volume.submit(Request { id: RequestId(id), operation }, self.now);
        id
    }

    /// Waits until `id` is answered; answers to others are forgotten.
    pub(crate) fn wait(&mut self, id: u64) -> Result<Vec<Payload>, String> {
        loop {
            self.volume.drive(self.now);
            while let Some(reply) = self.volume.poll_reply() {
                if reply.id.0 == id {
                    return reply.result.map_err(|error| error.to_string());
                }
            }
            self.now = self.volume.wake_at().expect("an answer comes").max(self.now);
        }
    }

    /// A durable write of `count` blocks, recognisable by `version`.
    pub(crate) fn write(&mut self, block: u64, count: u64, version: u64, fua: bool) -> u64 {
        let words = (block * 512..(block + count) * 512)
            .flat_map(|word| (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ version).to_le_bytes());
        let bytes: Vec<u8> = words.collect();
        let data = Payload::Bytes(BufferMut::copy_of(&bytes).freeze());
        self.send(Operation::Write { offset: block * BLOCK_BYTES, data, fua })
    }

    pub(crate) fn hint(&mut self, block: u64, count: u64) {
        let (offset, len) = (block * BLOCK_BYTES, count * BLOCK_BYTES);
        self.ask(Operation::Hint { offset, len, hint: Hint::DurabilityOnly }).unwrap();
    }

    pub(crate) fn view(&mut self, blocks: &[u64]) -> View {
        let status = self.volume.status();
        let told = status.damage.iter().filter(|told| told.kind != DamageKind::Superblock);
        let mut view = View {
            size_bytes: self.volume.info().size_bytes,
            blocks: BTreeMap::new(),
            hints: self.volume.engine().hints().collect(),
            damage: told.map(ToString::to_string).collect(),
            is_told: !status.damage.is_empty(),
        };
        for block in blocks {
            let read = Operation::Read { offset: block * BLOCK_BYTES, len: BLOCK_BYTES as u32 };
            view.blocks.insert(*block, self.ask(read).ok().map(|parts| hash_of(&parts)));
        }
        view
    }

    /// Stops in order; gives the device, with whatever a cut may leave of it.
    pub(crate) fn stop(mut self) -> Device {
        nearhead_laws::stop(&mut self.volume, self.now);
        Device::of(self.volume)
    }

    /// The content if the power goes now and nothing is lost.
    pub(crate) fn image(&self) -> MemoryStore {
        self.volume.disk().image()
    }
}

fn hash_of(parts: &[Payload]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes_of(parts).hash(&mut hasher);
    hasher.finish()
}

/// Runs a command without an engine on a device.
pub(crate) fn run_on<T>(device: &mut Device, command: impl FnOnce(&mut SyncIo<'_>) -> T) -> T {
    command(&mut device.lanes.in_virtual_time(Nanos::ZERO))
}

/// All that was found damaged, as one text.
pub(crate) fn damage_of(status: &Status) -> String {
    let told: Vec<String> = status.damage.iter().map(ToString::to_string).collect();
    told.join("; ")
}
