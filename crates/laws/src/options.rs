//! What kind of volume on what kind of disk a test has, and how its configuration differs from the default.

use crate::disk::{Devices, Fault, TestDisk};
use crate::steps::Step;
use nearhead_basics::SplitMix;
use nearhead_disk::{Nanos, Properties, Region, RegionKind, Zones};
use nearhead_engine::{Config, Policies};
use nearhead_format::layout::DataParts;
use nearhead_format::{AckMode, Label, LayoutKind};
use nearhead_models::{MemoryStore, plain_properties};
use nearhead_swarm::{Eager, Fickle, Patient, Wanderer};
use nearhead_volume::create::create_with_regions;
use nearhead_volume::{CreateOptions, NamedPreset, Presets};
use std::ops::Range;
use std::sync::Arc;

pub const DEVICE_BYTES: u64 = 64 << 20;
pub const VOLUME_ID: [u8; 16] = [7; 16];
/// Regions of the blank map, so small that a workload fills and zeroes many.
const REGION_BYTES: u64 = 4096;
/// Data devices of a volume whose own disk has the logs: on the first there is one mebibyte of homes behind the snapshots, so that
/// workloads go over to the second.
const DATA_BYTES: [u64; 2] = [8 << 20, 14 << 20];
/// The same with as few logs as such devices can have.
const SCARCE_DATA_BYTES: [u64; 2] = [8 << 20, 3 << 20];
/// Further log devices.
const LOG_DEVICE_BYTES: [u64; 2] = [11 << 20, 6 << 20];
/// The devices of a chain behind the first, and with as few logs as a chain can have.
const CHAIN_BYTES: [u64; 2] = [8 << 20, 14 << 20];
const SCARCE_CHAIN_BYTES: [u64; 2] = [26 << 20, 22 << 20];
/// Its logs then.
const SCARCE_CHAIN_LOG_BYTES: u64 = 3 << 20;
/// Faults of a workload in the first part of the volume's own disk are there; others are on the data devices.
const FAULTS_AT_LOGS_BYTES: u64 = 16 << 20;

/// What kind of volume on what kind of disk.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent choices of a test, not a state")]
pub struct Options {
    /// What it is created as, and the table that it is opened with.
    pub preset: NamedPreset,
    pub presets: Presets,
    /// Policies instead of the preset's.
    pub policies: Option<Arc<dyn Policies>>,
    pub ack: AckMode,
    pub sector_bytes: u32,
    /// What the disk calls its physical sector, if it is longer; a log is written in blocks of it.
    pub physical_sector_bytes: Option<u32>,
    pub volatile_cache: bool,
    /// Commands that the disk takes at once.
    pub queue_depth_max: u16,
    /// Checkpoints begin by themselves.
    pub idle_checkpoints: bool,
    /// Logs move when they are this full.
    pub swap_above_pct: Option<u8>,
    pub snapshot_after_bytes: u64,
    /// A snapshot after so long with changes.
    pub snapshot_period: Nanos,
    pub stage_bytes_max: usize,
    /// What is staged becomes durable by itself after so long, if not after the default.
    pub stage_age_max: Option<Nanos>,
    /// Writes up to this size are logged, if not the preset's.
    pub logged_write_bytes_max: Option<u32>,
    /// All logs together hold less than the workload writes over.
    pub logs_are_scarce: bool,
    /// A checkpoint begins when this share of the logs is in use.
    pub watermark_pct: Option<u8>,
    /// The disk was damaged on purpose, and opening may tell of it.
    pub is_damaged: bool,
    /// Small writes that wait alone go home.
    pub lone_writes_go_home: bool,
    /// Small writes wait for room in the logs, and never go home for want of it.
    pub is_patient: bool,
    /// Records go anywhere they may, by a placement from outside the engine.
    pub wanders: bool,
    /// Records are filled without sense, by a packing from outside the engine.
    pub is_fickle: bool,
    /// Logged bytes that stay in memory.
    pub memory_bytes: u64,
    /// Memory for what lies on the tail of a chain.
    pub read_cache_bytes: u64,
    /// So many further log devices, if it has a log device.
    pub log_devices: usize,
    /// Memory for the map of a chain: with none it is paged, and a snapshot is due after a few hundred blocks.
    pub map_memory_bytes: u64,
    /// Records may bring bytes smaller than a sector.
    pub fragments: bool,
    /// They do whatever that costs.
    pub is_eager: bool,
}

impl Options {
    /// On the program's preset of that name.
    pub fn new(preset: &str, ack: AckMode) -> Self {
        let presets = Presets::default();
        let preset = presets.by_name(preset).unwrap_or_else(|error| panic!("{error}"));
        Self::of(presets, preset, ack)
    }

    /// The same with records that bring bytes, wherever it is a volume that may have such.
    #[must_use]
    pub fn with_fragments(self) -> Self {
        let layout = self.preset.layout;
        // Their slots have no room on a small first data device, nor before the bands of a disk with few logs.
        let is_small =
            layout.is_for_data_devices() || self.logs_are_scarce && layout.is_for_shingled();
        let has = layout.has_logs() && !layout.is_chain() && !is_small;
        Self { fragments: has, is_eager: has, ..self }
    }

    /// On one of these presets.
    pub fn of(presets: Presets, preset: NamedPreset, ack: AckMode) -> Self {
        Self {
            preset,
            presets,
            policies: None,
            ack,
            // A chain has whole blocks, whatever its disks have.
            sector_bytes: if preset.layout.is_chain() { 4096 } else { 512 },
            physical_sector_bytes: None,
            volatile_cache: true,
            queue_depth_max: 1024,
            idle_checkpoints: false,
            swap_above_pct: Some(30),
            snapshot_after_bytes: 300 << 10,
            snapshot_period: Nanos::from_secs(600),
            stage_bytes_max: 256 << 10,
            stage_age_max: None,
            logged_write_bytes_max: None,
            logs_are_scarce: false,
            // In a chain cleaning begins there, and short workloads fill little.
            watermark_pct: Some(if preset.layout.is_chain() { 3 } else { 70 }),
            is_damaged: false,
            lone_writes_go_home: false,
            is_patient: false,
            is_fickle: false,
            memory_bytes: 0,
            // So little that much is let go again.
            read_cache_bytes: if preset.layout.is_chain() { 60 << 10 } else { 0 },
            map_memory_bytes: if preset.layout.is_chain() { 0 } else { u64::MAX },
            wanders: false,
            log_devices: 0,
            fragments: false,
            is_eager: false,
        }
    }

    /// A mixture that a seed chooses.
    pub fn random(preset: &str, ack: AckMode, random: &mut SplitMix) -> Self {
        let presets = Presets::default();
        let preset = presets.by_name(preset).unwrap_or_else(|error| panic!("{error}"));
        Self::random_of(presets, preset, ack, random)
    }

    /// The same of one of these presets.
    pub fn random_of(
        presets: Presets,
        preset: NamedPreset,
        ack: AckMode,
        random: &mut SplitMix,
    ) -> Self {
        let has_large_sectors = random.below(4) == 0 || preset.layout.is_chain();
        Self {
            sector_bytes: if has_large_sectors { 4096 } else { 512 },
            map_memory_bytes: if preset.layout.is_chain() && random.coin() { 0 } else { u64::MAX },
            volatile_cache: random.below(4) > 0,
            idle_checkpoints: random.below(3) == 0,
            swap_above_pct: [None, Some(10), Some(30), Some(80)][random.below(4) as usize],
            snapshot_after_bytes: [60 << 10, 300 << 10, 8 << 20][random.below(3) as usize],
            stage_bytes_max: [64 << 10, 256 << 10, 2 << 20][random.below(3) as usize],
            // A preset that logs everything writes in place only if it is told to.
            logged_write_bytes_max: (preset.layout == LayoutKind::OneLogApart && random.coin())
                .then_some(32 << 10),
            ..Self::of(presets, preset, ack)
        }
    }

    pub fn create_options(&self) -> CreateOptions {
        let named = self.preset;
        let (group_bytes, log_bytes) =
            (if self.logs_are_scarce { 28 << 20 } else { 4 << 20 }, 512 << 10);
        let is_scarce_chain = self.logs_are_scarce && named.layout.is_chain();
        let log_bytes = if is_scarce_chain { SCARCE_CHAIN_LOG_BYTES } else { log_bytes };
        CreateOptions {
            volume_id: VOLUME_ID,
            created_unix_s: 0,
            preset: named,
            logged_write_bytes_max: self
                .logged_write_bytes_max
                .unwrap_or(named.logged_write_bytes_max),
            group_bytes: named.layout.has_groups_of_any_size().then_some(group_bytes),
            log_bytes: named.layout.has_logs().then_some(log_bytes),
            ack: self.ack,
            label: Label::default(),
            device_bytes: None,
            data_parts: DataParts::NONE,
            fragments: self.fragments,
            force: true,
        }
    }

    pub fn configure(&self, config: &mut Config) {
        if let Some(policies) = &self.policies {
            policies.configure(config);
        }
        config.snapshot_after_bytes = self.snapshot_after_bytes;
        config.snapshot_period = self.snapshot_period;
        if self.logs_are_scarce {
            // Then releases of a checkpoint find no record either.
            config.log_reserve_bytes = 0;
        }
        config.cleaning.batch_bytes = 64 << 10;
        config.cleaning.window_bytes = 256 << 10;
        config.cleaning.idle_after = self.idle_checkpoints.then_some(Nanos::from_millis(3));
        config.cleaning.watermark_pct = self.watermark_pct;
        config.cleaning.memory_bytes = self.memory_bytes;
        config.read_cache_bytes = self.read_cache_bytes;
        config.map_memory_bytes = self.map_memory_bytes;
        config.keeps_paged_map = true;
        config.cleaning.swap_idle_after = Nanos::ZERO;
        config.cleaning.swap_above_pct = self.swap_above_pct;
        config.stage_bytes_max = self.stage_bytes_max;
        config.stage_age_max = self.stage_age_max.unwrap_or(config.stage_age_max);
        config.lone_writes_go_home = self.lone_writes_go_home;
        if self.is_patient {
            config.cleaner = Box::new(Patient(config.cleaner.clone()));
        }
        if self.is_fickle {
            config.packing = Box::new(Fickle::new(11));
        }
        if self.is_eager {
            config.packing = Box::new(Eager(config.packing.clone()));
        }
        if self.wanders {
            config.placement = Box::new(Wanderer::new(7, self.preset.layout.has_many_logs()));
        }
    }

    pub fn disk_properties(&self) -> Properties {
        Properties {
            volatile_cache: self.volatile_cache,
            queue_depth_max: self.queue_depth_max,
            physical_sector_bytes: self.physical_sector_bytes.unwrap_or(self.sector_bytes),
            ..plain_properties(DEVICE_BYTES, self.sector_bytes)
        }
    }

    /// Where the disk is shingled, for the presets that need to know: bands of an odd number of
    /// sectors, small enough that a workload has homes in several.
    fn zones(&self) -> Option<Zones> {
        let layout = self.preset.layout;
        let free_bytes = if self.logs_are_scarce { 7 << 20 } else { 12 << 20 };
        let sector = u64::from(self.sector_bytes);
        let kind = RegionKind::Bands { band_bytes: 1201 * sector };
        layout.is_for_shingled().then(|| {
            let free = Region { offset: 0, len: free_bytes, kind: RegionKind::NonShingled };
            let bands = Region { offset: free_bytes, len: DEVICE_BYTES - free_bytes, kind };
            Zones::new(vec![free, bands], DEVICE_BYTES).unwrap()
        })
    }

    fn log_devices(&self) -> usize {
        if self.preset.layout.is_for_data_devices() { self.log_devices } else { 0 }
    }

    /// Those of the data devices, if it is such a volume; further log devices are the last.
    fn data_properties(&self) -> impl Iterator<Item = Properties> {
        let layout = self.preset.layout;
        let bytes = match (layout.is_chain(), self.logs_are_scarce) {
            (false, false) => DATA_BYTES,
            (false, true) => SCARCE_DATA_BYTES,
            (true, false) => CHAIN_BYTES,
            (true, true) => SCARCE_CHAIN_BYTES,
        };
        let has_data = layout.is_for_data_devices() || layout.is_chain();
        let bytes = bytes.into_iter().filter(move |_| has_data);
        let bytes = bytes.chain(LOG_DEVICE_BYTES.into_iter().take(self.log_devices()));
        let main = self.disk_properties();
        bytes.enumerate().map(move |(position, capacity_bytes)| Properties {
            name: format!("data device {position}"),
            capacity_bytes,
            ..main.clone()
        })
    }

    /// Those of all devices, in the order in which they stand in an image.
    pub fn device_properties(&self) -> Vec<Properties> {
        std::iter::once(self.disk_properties()).chain(self.data_properties()).collect()
    }

    /// How long an image is.
    pub fn image_bytes(&self) -> u64 {
        self.device_properties().iter().map(|properties| properties.capacity_bytes).sum()
    }

    /// A step that was chosen for a disk of [`DEVICE_BYTES`]: a fault of a part of it is where such a volume has something.
    #[must_use]
    pub fn placed(&self, step: Step) -> Step {
        let data_bytes = self.image_bytes() - DEVICE_BYTES;
        let place = |range: Range<u64>| {
            if data_bytes == 0 || range.start < FAULTS_AT_LOGS_BYTES {
                return range;
            }
            let start = DEVICE_BYTES + (range.start - FAULTS_AT_LOGS_BYTES) % data_bytes;
            start..start + (range.end - range.start)
        };
        match step {
            Step::Fail(fault) => Step::Fail(Fault { range: fault.range.map(place), ..fault }),
            step => step,
        }
    }

    /// Such a disk, or such disks, holding `image`.
    pub fn disk_with(&self, image: MemoryStore) -> Devices {
        let mut devices = TestDisk::side_by_side(self.device_properties(), image).into_iter();
        let main = devices.next().expect("the volume's own").with_zones(self.zones());
        Devices::new(main, devices.collect(), self.log_devices())
    }

    /// A fresh volume on a fresh disk.
    pub fn disk(&self) -> Devices {
        let mut disk = self.disk_with(MemoryStore::new());
        let mut io = disk.lanes_mut().in_virtual_time(Nanos::ZERO);
        create_with_regions(&mut io, &self.create_options(), REGION_BYTES).unwrap();
        disk.with_latency(Nanos::from_micros(100))
    }
}
