//! What an engine is told when it starts: the policies it follows and the bounds it keeps.
//!
//! Nothing here is read from the environment; the same configuration, disk and requests give the
//! same bytes.

use crate::admission::Admission;
use crate::cleaner::Cleaner;
pub use crate::cleaner::Cleaning;
use crate::packing::Packing;
use crate::placement::Placement;
pub use crate::state::journal::JournalPlace;
use crate::state::map_bounds;
use crate::state::paged::PagedBounds;
use crate::state::sectors::BLOCK_SECTORS;
use nearhead_disk::{At, Lane, Nanos, Properties, SECTOR_BYTES, Tracks, Zones};
use nearhead_format::{Layout, MapDevice, Slots};
use std::sync::Arc;

/// What a logged block takes of memory in the worst order of writes (`state/map`).
const MAP_ENTRY_BYTES: u64 = 24;

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// Every reply means durable (the papers' set-up: the disk's cache off).
    Durable,
    /// Replies are early; FUA and flush make durable what they cover.
    Flush,
}

/// Everything an engine is told.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent choices, not a state")]
pub struct Config {
    /// When a write is acknowledged.
    pub ack: Ack,
    /// *Where does it go?*: where logged writes go.
    pub placement: Box<dyn Placement>,
    /// Where the tracks of the volume's disk are, or those of each member of its array in their order; none if nobody found out.
    pub tracks: Vec<Arc<Tracks>>,
    /// The same of each further log device, in their order; those of one of which nobody found out are none.
    pub log_device_tracks: Vec<Vec<Arc<Tracks>>>,
    /// *How is it packed?*: how much of what waits goes into one record.
    pub packing: Box<dyn Packing>,
    /// *Who goes first?*: in which order commands go to the disk.
    pub admission: Box<dyn Admission>,
    /// Writes up to this size are logged, in bytes; 0 logs nothing.
    pub logged_write_bytes_max: u32,
    /// The same while a drive that is known and takes many commands has many, and has room for more: it chooses among all of them, and what goes home
    /// is one more to choose, where a record is one that everybody waits for.
    pub logged_beside_many_bytes_max: u32,
    /// A small write that waits alone goes home at once, if no log holds anything of it: for disks where no head
    /// moves, on which a log is worth its copying only if it gathers many writes.
    pub lone_writes_go_home: bool,
    /// *How is it emptied?*: what is cleaned of the engine's own accord.
    pub cleaner: Box<dyn Cleaner>,
    /// What the owner asks of it, and the bounds of those who do it.
    pub cleaning: Cleaning,
    /// Memory for copies of what the tail of a chain holds, in bytes, so that reads leave its arm alone; 0 for none. Of anything but a
    /// chain it does nothing.
    pub read_cache_bytes: u64,
    /// Memory for the map of a chain, in bytes: one that could grow larger is paged. The index of its pages comes on top, 12 bytes for
    /// 20 KiB. All of any other map is in memory.
    pub map_memory_bytes: u64,
    /// Of a paged map everything stays in memory as well, for tests that count anew.
    pub keeps_paged_map: bool,
    /// Most bytes of small writes waiting in memory.
    pub stage_bytes_max: usize,
    /// Largest payload of one record, in bytes.
    pub record_bytes_max: u32,
    /// Space every log keeps for records that carry no data, in bytes, so that an invalidation finds a
    /// place even when every log is full.
    pub log_reserve_bytes: u32,
    /// Take a snapshot of the map after so many logged bytes.
    pub snapshot_after_bytes: u64,
    /// Take a snapshot after so long with records since the last one.
    pub snapshot_period: Nanos,
    /// In `flush` mode, write staged blocks out after so long even if nobody asks.
    pub stage_age_max: Nanos,
    /// A command that the disk has not answered for so long is told of, and counted.
    pub stall_after: Nanos,
    /// A write for which there is no space under a sparse image waits so long at most before it fails.
    pub no_space_wait_max: Nanos,
    /// Seconds since midnight at `Nanos::ZERO`, for the off-hours window.
    pub second_of_day_at_zero: u32,
    /// Refuse every change.
    pub read_only: bool,
    /// Open even if recovery finds that a record is lost and cannot know what it wrote.
    pub accept_loss: bool,
    /// Where no snapshot of the map is left, read all logs whole and rebuild the map from their records. What is
    /// doubtful then ([`crate::Engine::rebuilt`]) is for its owner to decide about, so the volume opens for
    /// reading only until [`crate::Engine::take_rebuilt`].
    pub rebuild: bool,
    /// A snapshot from elsewhere, its header and its body: the map is rebuilt from it and from all records behind it, and
    /// whatever the slots hold is not looked at.
    pub base: Option<Arc<Vec<u8>>>,
}

/// A configuration together with what it runs on.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The choices.
    pub config: Config,
    /// Where everything is on the device.
    pub layout: Layout,
    /// The volume's identity, in every record.
    pub volume_id: [u8; 16],
    /// The facts of the volume's own disk.
    pub properties: Properties,
    /// Those of its data devices, and further log devices, by position; none if it lies on one disk.
    pub data_devices: Vec<Properties>,
    /// Positions of those that are not there: nothing is asked of them.
    pub absent_devices: Vec<u8>,
    /// Those of the device for its map, if it has one.
    pub map_device: Option<Properties>,
    /// Those of the device for the read cache, if it has one. What is on it does not count and is never read before it is written.
    pub cache_device: Option<Properties>,
    /// Where the map lives.
    pub map: MapPlace,
    /// What the volume's blank map says, if it has one that can be used.
    pub blanks: Option<BlanksFound>,
    /// The bands of the client's address space, on a shingled disk: homes in one band are written
    /// together, as the whole band.
    pub bands: Option<Zones>,
    /// A track table of the volume cannot be read, or is not sound: records may have been placed by it.
    pub tracks_are_doubtful: bool,
}

impl Setup {
    /// The devices on which homes lie: the data devices, or the volume's own disk if there are none.
    fn homes(&self) -> &[Properties] {
        let own = std::slice::from_ref(&self.properties);
        let with_homes = self.layout.data_parts.with_homes().min(self.data_devices.len());
        if with_homes == 0 { own } else { &self.data_devices[..with_homes] }
    }

    /// Whether what is not logged has a place at all; else it reads as zeros.
    pub(crate) fn has_homes(&self) -> bool {
        !self.layout.is_chain()
    }

    /// The bounds of a paged map, if the volume is to have one: a chain whose map could be larger than its memory. Not where the map is made
    /// anew, which those do who look at all of it.
    pub(crate) fn paged_bounds(&self) -> Option<PagedBounds> {
        let Config { map_memory_bytes, rebuild, .. } = self.config;
        let body_bytes_max = self.map.slots.body_bytes_max();
        let entries = map_bounds::entries_max(body_bytes_max, self.layout.log_count()) as u64;
        let could_grow = entries.saturating_mul(MAP_ENTRY_BYTES) > map_memory_bytes;
        let is_paged = could_grow && !self.has_homes() && !rebuild && self.config.base.is_none();
        let blocks = self.layout.client_bytes() / (BLOCK_SECTORS * SECTOR_BYTES);
        is_paged.then(|| PagedBounds::new(map_memory_bytes, blocks, self.config.keeps_paged_map))
    }

    /// Whether what was written home may be lost until a flush.
    pub(crate) fn homes_are_volatile(&self) -> bool {
        self.has_homes() && self.homes().iter().any(|device| device.volatile_cache)
    }

    /// Whether homes are soon made zeros.
    pub(crate) fn homes_zero_fast(&self) -> bool {
        !self.has_homes() || self.homes().iter().all(|device| device.fast_zero)
    }

    /// Whether homes that are trimmed read as zeros.
    pub(crate) fn trimmed_homes_are_zeros(&self) -> bool {
        !self.has_homes() || self.homes().iter().all(|device| device.trim_reads_zero)
    }

    /// All devices, with the names of their lanes.
    pub(crate) fn devices(&self) -> impl Iterator<Item = (Lane, &Properties)> {
        let map = self.map_device.iter().map(|device| (Lane::MAP, device));
        let data = (0..).map(Lane::data).zip(&self.data_devices);
        std::iter::once((Lane::MAIN, &self.properties)).chain(map).chain(data)
    }
}

/// A blank map as it is on the disk ([`nearhead_format::blank_map`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlanksFound {
    /// Size of a region: a power of two, at least 4096.
    pub region_bytes: u64,
    /// A bit for each region that is blank, in the order of the units; nothing where a unit is not sound.
    pub words: Vec<u64>,
    /// A bit for each region that the disk may call blank now or when it is read again: those, and all of a unit
    /// that is not sound.
    pub promised: Vec<u64>,
    /// The header could not be read or is not sound. It may be when it is read again, with whatever the units say:
    /// it must be overwritten before anything is written home.
    pub is_header_doubtful: bool,
}

impl BlanksFound {
    /// Bytes of the blank regions of a volume of `client_bytes`.
    pub fn blank_bytes(&self, client_bytes: u64) -> u64 {
        let regions: u64 = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
        regions.saturating_mul(self.region_bytes).min(client_bytes)
    }
}

/// Where the map lives: the slots of its snapshots, and its own journal if it has one. Both are on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapPlace {
    /// Which.
    pub lane: Lane,
    /// The slots.
    pub slots: Slots,
    /// The journal, on a map device.
    pub journal: Option<JournalPlace>,
}

impl MapPlace {
    /// On the volume's own disk, as its layout has it.
    pub fn of_layout(layout: &Layout) -> Self {
        Self { lane: Lane::MAIN, slots: layout.slots(), journal: None }
    }

    /// On a map device.
    pub fn of_device(lane: Lane, device: &MapDevice) -> Self {
        let journal = JournalPlace { offset: device.journal_offset, bytes: device.journal_bytes };
        Self { lane, slots: device.slots(), journal: Some(journal) }
    }

    /// Where a slot's header stands: slot 0 or 1.
    pub fn header(&self, slot: usize) -> At {
        self.at(self.slots.header_offset(slot))
    }

    /// Where the snapshot's body begins.
    pub fn body(&self, slot: usize) -> At {
        self.at(self.slots.body_offset(slot))
    }

    /// Where the copy of the header stands.
    pub fn copy(&self, slot: usize) -> At {
        self.at(self.slots.copy_offset(slot))
    }

    fn at(&self, offset: u64) -> At {
        At { lane: self.lane, offset }
    }
}
