//! A volume on an image, used a little: what a hostile image is made from, and how it is used.
//!
//! Every sector ever written says which one it is and which version, so that whatever a read
//! returns can be told from what nobody ever wrote.

use crate::image::{IMAGE_BYTES, ImageDisk, bytes_at};
use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_format::layout::DataParts;
use nearhead_format::record::RecordHeader;
use nearhead_format::{AckMode, Label, SECTOR_BYTES, Superblock};
use nearhead_models::MemoryStore;
use nearhead_service::{Changed, Hint, Operation, Request, RequestError, RequestId, Service};
use nearhead_volume::{CreateOptions, NamedPreset, OpenError, SyncIo, Volume, create};

/// Steps of a volume before it counts as one that does not come to rest.
const STEPS_MAX: u32 = 50_000;

/// A record in a log of a base image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordPlace {
    /// First byte on the device.
    pub(crate) offset: u64,
    /// Bytes of its header.
    pub(crate) header_bytes: usize,
    /// Bytes with its payload.
    pub(crate) bytes: usize,
}

/// An image to start from.
pub(crate) struct Base {
    pub(crate) store: MemoryStore,
    pub(crate) superblock: Superblock,
    pub(crate) records: Vec<RecordPlace>,
    /// Every version of a sector is below this; 0 is a sector of zeros.
    pub(crate) versions: u64,
}

/// Preset, and whether it was closed in order.
pub(crate) const KINDS: [(&str, bool); 4] =
    [("singlelog", false), ("mlb", false), ("mlb", true), ("nolog", false)];

/// Client sectors that are written to lie in blocks below this.
pub(crate) const BLOCKS: u64 = 24;

/// A client block of `IMAGE_BYTES`, so that writes reach several groups.
pub(crate) fn block_sector(block: u64) -> u64 {
    block / 8 * (6 << 11) + block % 8 * 8
}

/// What version `version` of `sector` holds.
pub(crate) fn content(sector: u64, version: u64) -> Vec<u8> {
    let words = [version.to_le_bytes(), sector.to_le_bytes()].concat();
    if version == 0 { vec![0; 512] } else { words.repeat(32) }
}

/// The version that `bytes` of `sector` are, if they are one.
pub(crate) fn version_of(sector: u64, bytes: &[u8]) -> Option<u64> {
    let version = bytes.first_chunk().map(|word| u64::from_le_bytes(*word))?;
    (bytes == content(sector, version)).then_some(version)
}

impl Base {
    /// Makes the image of a kind ([`KINDS`]); always the same one.
    pub(crate) fn make(kind: usize) -> Self {
        let (preset, is_closed) = KINDS[kind % KINDS.len()];
        let mut disk = ImageDisk::new(MemoryStore::new());
        let made = create(&mut SyncIo::in_virtual_time(&mut disk, Nanos::ZERO), &options(preset));
        let superblock = made.unwrap_or_else(|error| panic!("the base volume: {error}"));
        let opened = Session::open(disk.into_store());
        let mut session = opened.unwrap_or_else(|error| panic!("the base volume: {error}"));
        let mut version = 0;
        for round in 0..3 {
            use_it(&mut session, round, &mut version);
            if round == 1 {
                session.snapshot();
            }
        }
        if is_closed {
            assert!(session.stop(), "the base volume does not stop");
        }
        let mut store = session.volume.into_disk().into_store();
        store.consolidate();
        let records = records_of(&store, &superblock);
        Self { store, superblock, records, versions: version + 1 }
    }
}

fn options(preset: &str) -> CreateOptions {
    let named = NamedPreset::by_name(preset).unwrap_or_else(|error| panic!("{error}"));
    CreateOptions {
        volume_id: [7; 16],
        created_unix_s: 0,
        preset: named,
        logged_write_bytes_max: named.logged_write_bytes_max,
        group_bytes: named.layout.has_groups_of_any_size().then_some(4 << 20),
        log_bytes: named.layout.has_logs().then_some(512 << 10),
        ack: AckMode::Flush,
        label: Label::default(),
        device_bytes: None,
        data_parts: DataParts::NONE,
        fragments: false,
        force: true,
    }
}

/// Small and large writes, zeros, an atomic write, a hint; each durable before the next.
fn use_it(session: &mut Session, round: u64, version: &mut u64) {
    for step in 0..5 {
        *version += 1;
        let sector = block_sector((round * 5 + step * 7) % BLOCKS) + if step == 2 { 3 } else { 0 };
        let sectors = if step == 2 { 2 } else { 8 * (1 + step % 2) };
        session.write(sector, sectors, *version);
    }
    let block = block_sector(round + 2) * SECTOR_BYTES;
    let zeroes = Operation::WriteZeroes {
        offset: block,
        len: 4096,
        fua: true,
        fast_only: false,
        may_unmap: false,
    };
    let hint = Operation::Hint { offset: block, len: 8192, hint: Hint::DurabilityOnly };
    let extent = |block, version| {
        let sector = block_sector(block);
        (sector * SECTOR_BYTES, payload(sector, 8, version))
    };
    let extents = vec![extent(round, *version + 1), extent(round + 9, *version + 1)];
    *version += 1;
    for operation in
        [zeroes, hint, Operation::WriteAtomic { extents, changed: Changed::All }, Operation::Flush]
    {
        let _ = session.ask(operation);
    }
}

fn payload(sector: u64, sectors: u64, version: u64) -> Payload {
    let bytes: Vec<u8> = (sector..sector + sectors).flat_map(|at| content(at, version)).collect();
    Payload::Bytes(BufferMut::copy_of(&bytes).freeze())
}

fn records_of(store: &MemoryStore, superblock: &Superblock) -> Vec<RecordPlace> {
    let layout = &superblock.layout;
    let block = layout.log_block_bytes as usize;
    let mut records = Vec::new();
    for log in 0..layout.log_count() {
        let start = layout.log_offset(log).unwrap_or(0);
        let bytes = bytes_at(store, start, layout.log_bytes as usize);
        for at in (0..bytes.len()).step_by(block) {
            let Ok(header) = RecordHeader::decode(&bytes[at..]) else { continue };
            let (header_bytes, bytes) = (header.encoded_bytes(block), header.record_bytes(block));
            records.push(RecordPlace { offset: start + at as u64, header_bytes, bytes });
        }
    }
    records
}

/// A volume in use on an image.
pub(crate) struct Session {
    pub(crate) volume: Volume<ImageDisk>,
    pub(crate) now: Nanos,
    next: u64,
}

impl Session {
    /// Recovers what is on the image; recovery itself writes nothing.
    pub(crate) fn open(store: MemoryStore) -> Result<Self, OpenError> {
        let disk = ImageDisk::new(store);
        let (mut volume, now) = Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, _| ())?;
        let now = volume.run_until_open(now)?;
        Ok(Self { volume, now, next: 1 })
    }

    /// Asks for something and waits for the answer.
    pub(crate) fn ask(&mut self, operation: Operation) -> Result<Vec<u8>, RequestError> {
        let id = RequestId(self.next);
        self.next += 1;
        let asked = format!("{operation:.200?}");
        self.volume.submit(Request { id, operation }, self.now);
        let mut answer = None;
        self.step_until(&asked, |session| {
            while let Some(reply) = session.volume.poll_reply() {
                assert_eq!(reply.id, id, "an answer that nobody waits for");
                answer = Some(reply.result);
            }
            answer.is_some()
        });
        let parts = answer.unwrap_or_else(|| Ok(Vec::new()))?;
        let mut bytes = Vec::new();
        for part in parts {
            let mut piece = vec![0; part.len()];
            part.copy_to(&mut piece);
            bytes.extend(piece);
        }
        Ok(bytes)
    }

    /// Writes `version` of sectors, durably.
    pub(crate) fn write(&mut self, sector: u64, sectors: u64, version: u64) -> bool {
        let data = payload(sector, sectors, version);
        self.ask(Operation::Write { offset: sector * SECTOR_BYTES, data, fua: true }).is_ok()
    }

    /// What the sectors read as.
    pub(crate) fn read(&mut self, sector: u64, sectors: u64) -> Option<Vec<u8>> {
        let len = (sectors * SECTOR_BYTES) as u32;
        self.ask(Operation::Read { offset: sector * SECTOR_BYTES, len }).ok()
    }

    fn snapshot(&mut self) {
        let before = self.volume.disk().changes;
        self.volume.start_snapshot(self.now);
        self.step_until("a snapshot", |session| {
            // A body and a header.
            session.volume.disk().changes >= before + 2
        });
        let _ = self.ask(Operation::Flush);
    }

    /// Closes it in order; false if it cannot be.
    pub(crate) fn stop(&mut self) -> bool {
        self.volume.begin_shutdown(self.now);
        self.step_until("a clean stop", |session| session.volume.is_shut_down());
        self.volume.engine().failure().is_none()
    }

    fn step_until(&mut self, what: &str, mut is_done: impl FnMut(&mut Self) -> bool) {
        for _ in 0..STEPS_MAX {
            self.volume.drive(self.now);
            if is_done(self) {
                return;
            }
            let wake = self.volume.wake_at();
            self.now = wake.unwrap_or_else(|| panic!("{what}: nothing to wait for")).max(self.now);
        }
        panic!("{what}: no end after {STEPS_MAX} steps");
    }
}

const _: () = assert!(IMAGE_BYTES > 3 * (6 << 20), "every block lies inside the volume");
