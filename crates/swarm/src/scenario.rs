//! One life of a volume, as a seed chooses it: disk, preset, sizes, policies, faults, steps.
//!
//! Everything is decided before the life begins, so that a failing one can be printed, shortened and
//! lived again.

mod by_seed;

use crate::bend::Bend;
use crate::eager::Eager;
use crate::fickle::Fickle;
use crate::patient::Patient;
use crate::restless::Restless;
use crate::steps::{Step, Steps, random_steps};
use crate::wanderer::Wanderer;
use nearhead_basics::SplitMix;
use nearhead_disk::{Nanos, Properties};
use nearhead_engine::{Activities, Config, Policies};
use nearhead_format::layout::DataParts;
use nearhead_format::{AckMode, Label, Layout, LayoutKind};
use nearhead_models::faults::{FaultBudget, FaultPlan};
use nearhead_models::plain_properties;
use nearhead_volume::{CreateOptions, NamedPreset, Presets};
use std::ops::Range;
use std::sync::Arc;

/// The presets that lives are made of.
pub(crate) const PRESET_NAMES: [&str; 4] = ["nolog", "singlelog", "mlb", "mlb-256"];
/// What some of them become where the disk is shingled.
const ON_SHINGLED: [(&str, &str); 2] = [("singlelog", "slsmr"), ("mlb-256", "mlsmr")];
/// What half of the lives with many logs become.
const ANYWHERE: &str = "nearhead";
/// What some of them become: their data is on other devices.
const ON_LOG_DEVICE: &str = "trail";
/// What some of them become: nothing but logs, on one device or several.
const CHAINED: &str = "gecko";
const MIB: u64 = 1 << 20;
/// A map device with room for what snapshots have of fragments.
const MAP_DEVICE_WITH_FRAGMENTS_BYTES: u64 = 16 * MIB;

/// What the volume's own disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// A disk.
    One,
    /// RAID-0.
    Stripe {
        /// Disks.
        members: usize,
        /// Length of a chunk.
        chunk_bytes: u64,
    },
    /// The same on two disks.
    Mirror {
        /// The one of them that has faults.
        faulty: usize,
        /// It is missing at some openings, and comes back at later ones.
        goes_away: bool,
    },
}

/// A life.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent choices of a life, not a state")]
pub struct Scenario {
    /// What everything follows from.
    pub seed: u64,
    /// Which volume.
    pub preset: NamedPreset,
    /// The table that it is opened with.
    pub presets: Presets,
    /// Policies instead of the preset's.
    pub policies: Option<Arc<dyn Policies>>,
    /// When writes are acknowledged.
    pub ack: AckMode,
    /// The disk.
    pub properties: Properties,
    /// What it is made of.
    pub arrangement: Arrangement,
    /// Sizes of the data devices, if the volume's own disk has nothing but the logs.
    pub data_bytes: Vec<u64>,
    /// Further log devices beside the volume's own.
    pub log_device_bytes: Vec<u64>,
    /// Size of the device that the map's snapshots and journal are on, if they are not on the disk.
    pub map_device_bytes: Option<u64>,
    /// A failure at one exact command is the map device's, not the disk's.
    pub nth_is_of_map_device: bool,
    /// Time of a command.
    pub latency: Nanos,
    /// Capacity of the disk after it has grown.
    pub grown_bytes: u64,
    /// Size of a group of `mlb`.
    pub group_bytes: u64,
    /// Size of each log.
    pub log_bytes: u64,
    /// No reserve in the logs, so that releases of a checkpoint find no record either.
    pub no_log_reserve: bool,
    /// Writes up to this size are logged, if not as the preset says.
    pub logged_write_bytes_max: Option<u32>,
    /// Small writes that wait alone go home.
    pub lone_writes_go_home: bool,
    /// Records go anywhere they may ([`Wanderer`]), not where the preset puts them.
    pub wanders: bool,
    /// Logs are emptied without sense ([`Restless`]).
    pub is_restless: bool,
    /// What finds no room in the logs waits for it.
    pub is_patient: bool,
    /// Records are filled without sense ([`Fickle`]).
    pub is_fickle: bool,
    /// Records may bring bytes, and do wherever they may ([`Eager`]).
    pub has_fragments: bool,
    /// Bytes of small writes in memory.
    pub stage_bytes_max: usize,
    /// A snapshot after so many bytes.
    pub snapshot_after_bytes: u64,
    /// A snapshot, a periodic checkpoint, an idle one after so long.
    pub snapshot_period: Nanos,
    /// As the configuration's.
    pub checkpoint_period: Option<Nanos>,
    /// As the configuration's.
    pub idle_after: Option<Nanos>,
    /// As the configuration's.
    pub watermark_pct: Option<u8>,
    /// As the configuration's.
    pub swap_above_pct: Option<u8>,
    /// As the configuration's.
    pub memory_bytes: u64,
    /// As the configuration's; of a chain alone.
    pub read_cache_bytes: u64,
    /// As the configuration's.
    pub batch_bytes: u32,
    /// Age at which staged writes are written.
    pub stage_age_max: Nanos,
    /// What faults may do.
    pub budget: FaultBudget,
    /// Which there are.
    pub faults: FaultPlan,
    /// What happens.
    pub steps: Vec<Step>,
    /// How it was bent, in this order.
    pub bends: Vec<Bend>,
    /// When these are under way the power goes beside the life.
    pub watched: Vec<Activities>,
}

impl Scenario {
    /// The life that `seed` names, of `steps` steps.
    pub fn new(seed: u64, steps: usize) -> Self {
        let mut random = SplitMix::new(seed);
        let preset = PRESET_NAMES[random.below(PRESET_NAMES.len() as u64) as usize];
        // By another generator, so that what follows in a life does not depend on it.
        let shingled = SplitMix::new(!seed).below(3) == 0;
        let on_shingled = ON_SHINGLED.iter().find(|(plain, _)| shingled && *plain == preset);
        let preset = named(on_shingled.map_or(preset, |(_, shingled)| shingled));
        let is_plain = preset.layout == LayoutKind::ManyLogs;
        let preset = if is_plain && by_seed::is_anywhere(seed) { named(ANYWHERE) } else { preset };
        let preset =
            if is_plain && by_seed::has_log_device(seed) { named(ON_LOG_DEVICE) } else { preset };
        let preset = if is_plain && by_seed::is_chained(seed) { named(CHAINED) } else { preset };
        Self::chosen(seed, steps, preset, &mut random)
    }

    /// The presets that lives may have.
    pub fn preset_names() -> impl Iterator<Item = &'static str> {
        let shingled = ON_SHINGLED.iter().map(|(_, name)| *name);
        let others = [ANYWHERE, ON_LOG_DEVICE, CHAINED];
        PRESET_NAMES.into_iter().chain(shingled).chain(others)
    }

    /// The same on a volume of this preset, with its own policies whatever the seed says.
    pub fn of_preset(seed: u64, steps: usize, presets: Presets, preset: NamedPreset) -> Self {
        let chosen = Self::chosen(seed, steps, preset, &mut SplitMix::new(seed));
        let (wanders, is_restless, is_patient, is_fickle) = (false, false, false, false);
        Self { presets, wanders, is_restless, is_patient, is_fickle, ..chosen }
    }

    fn chosen(seed: u64, steps: usize, preset: NamedPreset, random: &mut SplitMix) -> Self {
        let (arrangement, map_device_bytes) = parts(seed, &preset);
        let has_fragments = by_seed::has_fragments(seed, &preset);
        let map_device_bytes = map_device_bytes
            .map(|bytes| if has_fragments { MAP_DEVICE_WITH_FRAGMENTS_BYTES } else { bytes });
        let budget = if random.below(4) == 0 { FaultBudget::Detect } else { FaultBudget::Survive };
        // Which member of an array damage hits is not worked out here.
        let one = arrangement == Arrangement::One;
        let budget = if one { budget } else { FaultBudget::Survive };
        let sector_bytes = if random.below(4) == 0 { 4096 } else { 512 };
        let device_bytes = (64 + random.below(3) * 32) * MIB;
        let physical = if random.coin() { 4096 } else { sector_bytes };
        let properties = Properties {
            name: format!("seed {seed}"),
            physical_sector_bytes: physical,
            volatile_cache: random.below(4) > 0,
            rotational: random.coin(),
            trim_reads_zero: random.coin(),
            fast_zero: random.coin(),
            queue_depth_max: pick(random, &[1, 4, 32, 1024]),
            ..plain_properties(device_bytes, sector_bytes)
        };
        let ack = if random.coin() { AckMode::Durable } else { AckMode::Flush };
        // Logs that go round several times in a life, and what that makes wait.
        let few_logs = random.coin();
        let no_log_reserve = few_logs && random.below(3) == 0;
        let faults = FaultPlan::random(budget, random);
        Self {
            seed,
            preset,
            presets: Presets::default(),
            policies: None,
            ack,
            properties,
            arrangement,
            data_bytes: if preset.layout.is_chain() {
                by_seed::chain_bytes(seed)
            } else {
                with_room(by_seed::data_bytes(seed, &preset), has_fragments)
            },
            log_device_bytes: by_seed::log_device_bytes(seed, &preset),
            map_device_bytes,
            nth_is_of_map_device: false,
            latency: Nanos::from_micros(pick(random, &[20, 100, 5000])),
            grown_bytes: device_bytes + (16 + random.below(64)) * MIB,
            group_bytes: if few_logs {
                28 * MIB
            } else {
                pick(random, &[4 * MIB, 8 * MIB, 16 * MIB])
            },
            log_bytes: if few_logs { 512 << 10 } else { pick(random, &[512 << 10, MIB, 2 * MIB]) },
            no_log_reserve,
            logged_write_bytes_max: pick(random, &[None, None, Some(4096), Some(64 << 10)]),
            lone_writes_go_home: by_seed::lone_writes_go_home(seed),
            wanders: by_seed::wanders(seed),
            is_restless: by_seed::is_restless(seed),
            is_patient: by_seed::is_patient(seed),
            is_fickle: by_seed::is_fickle(seed),
            has_fragments,
            memory_bytes: by_seed::memory_bytes(seed),
            read_cache_bytes: by_seed::read_cache_bytes(seed),
            stage_bytes_max: pick(random, &[64 << 10, 256 << 10, 2 << 20]),
            snapshot_after_bytes: pick(random, &[60 << 10, 300 << 10, 8 << 20]),
            snapshot_period: Nanos::from_millis(pick(random, &[5, 200, 600_000])),
            checkpoint_period: pick(random, &[None, None, Some(Nanos::from_millis(40))]),
            idle_after: pick(
                random,
                &[None, Some(Nanos::from_millis(3)), Some(Nanos::from_secs(1))],
            ),
            watermark_pct: pick(random, &[None, Some(70), Some(20)]),
            swap_above_pct: pick(random, &[None, Some(10), Some(30), Some(80)]),
            batch_bytes: pick(random, &[64 << 10, 4 << 20]),
            stage_age_max: Nanos::from_millis(pick(random, &[1, 1000])),
            budget,
            faults,
            steps: random_steps(steps, random),
            bends: Vec::new(),
            watched: Vec::new(),
        }
    }

    /// The same life with so many further log devices, if it has a log device.
    #[must_use]
    pub fn with_log_devices(mut self, count: usize) -> Self {
        if self.preset.layout.is_for_data_devices() {
            let mut random = SplitMix::new(self.seed ^ 0x6c6f_6720_6469_736b);
            self.log_device_bytes =
                (0..count).map(|_| by_seed::a_log_device(&mut random)).collect();
        }
        self
    }

    /// The same life with these policies instead of the preset's.
    #[must_use]
    pub fn with_policies(self, policies: Option<Arc<dyn Policies>>) -> Self {
        Self { policies, ..self }
    }

    /// The same life with another budget, and faults chosen for it.
    #[must_use]
    pub fn with_budget(mut self, budget: FaultBudget) -> Self {
        if self.budget != budget {
            self.budget = budget;
            self.faults = FaultPlan::random(budget, &mut SplitMix::new(!self.seed));
        }
        self
    }

    /// The same life with only some of its steps.
    #[must_use]
    pub fn with_steps(mut self, steps: &Steps) -> Self {
        self.steps = steps.0.iter().filter_map(|step| self.steps.get(*step).copied()).collect();
        self
    }

    /// Whether there may be more than one log, so that records are claimed for and logs swapped.
    fn chooses_logs(&self) -> bool {
        self.preset.layout.has_many_logs()
    }

    /// Whether of a stripe each log is to lie on one member.
    pub fn has_whole_logs(&self) -> bool {
        self.seed >> 3 & 1 == 0
    }

    /// Regions of the blank map: mostly so small that a life fills and zeroes many.
    pub fn region_bytes(&self) -> u64 {
        [4096, 16 << 10, 1 << 20][(self.seed % 3) as usize]
    }

    /// Bytes of the volume's smallest unit: a chain has whole blocks, whatever its disks have.
    pub fn block_bytes(&self) -> u64 {
        let is_chain = self.preset.layout.is_chain();
        if is_chain { 4096 } else { u64::from(self.properties.sector_bytes) }
    }

    /// What the volume is created as.
    pub fn create_options(&self) -> CreateOptions {
        let (preset, layout) = (self.preset, self.preset.layout);
        let logged = self.logged_write_bytes_max.unwrap_or(preset.logged_write_bytes_max);
        CreateOptions {
            volume_id: *b"swarm of volumes",
            created_unix_s: 0,
            preset,
            logged_write_bytes_max: if layout.has_logs() { logged } else { 0 },
            group_bytes: layout.has_groups_of_any_size().then_some(self.group_bytes),
            log_bytes: layout.has_logs().then_some(if layout.is_chain() {
                self.chain_log_bytes()
            } else {
                self.log_bytes
            }),
            ack: self.ack,
            label: Label::default(),
            device_bytes: None,
            data_parts: DataParts::NONE,
            fragments: self.has_fragments,
            force: true,
        }
    }

    /// Logs of a chain: few of them where lives have few, so that they are cleaned.
    fn chain_log_bytes(&self) -> u64 {
        if self.group_bytes == 28 * MIB { 3 * MIB } else { self.log_bytes }
    }

    /// Changes the default configuration into this life's.
    pub fn configure(&self, config: &mut Config) {
        if let Some(policies) = &self.policies {
            policies.configure(config);
        }
        if self.preset.layout.has_records_anywhere() {
            let drives = match self.arrangement {
                Arrangement::Stripe { members, .. } => members as u64,
                _ => 1,
            };
            config.tracks =
                (0..drives).map(|drive| Arc::new(by_seed::tracks(self.seed + drive))).collect();
            let others = 0..self.log_device_bytes.len() as u64;
            config.log_device_tracks =
                others.map(|device| vec![Arc::new(by_seed::tracks(!self.seed - device))]).collect();
        }
        config.stage_bytes_max = self.stage_bytes_max;
        config.lone_writes_go_home = self.lone_writes_go_home;
        if self.wanders {
            config.placement = Box::new(Wanderer::new(self.seed, self.chooses_logs()));
        }
        if self.is_restless {
            config.cleaner = Box::new(Restless::new(self.seed));
        }
        if self.is_patient {
            config.cleaner = Box::new(Patient(config.cleaner.clone()));
        }
        if self.is_fickle {
            config.packing = Box::new(Fickle::new(self.seed));
        }
        if self.has_fragments {
            config.packing = Box::new(Eager(config.packing.clone()));
        }
        config.snapshot_after_bytes = self.snapshot_after_bytes;
        config.snapshot_period = self.snapshot_period;
        config.stage_age_max = self.stage_age_max;
        if self.no_log_reserve {
            config.log_reserve_bytes = 0;
        }
        config.read_cache_bytes = self.read_cache_bytes;
        // Most chains have a paged map, and hardly any memory for it.
        config.map_memory_bytes = if self.seed.is_multiple_of(5) { u64::MAX } else { 0 };
        config.keeps_paged_map = true;
        let cleaning = &mut config.cleaning;
        cleaning.period = self.checkpoint_period;
        cleaning.idle_after = self.idle_after;
        // In a chain it is what cleaning begins at, and lives never fill one.
        let is_cleaned = self.preset.layout.is_chain() && !self.seed.is_multiple_of(4);
        cleaning.watermark_pct = if is_cleaned { Some(3) } else { self.watermark_pct };
        cleaning.batch_bytes = self.batch_bytes;
        cleaning.window_bytes = 4 * self.batch_bytes;
        cleaning.memory_bytes = self.memory_bytes;
        cleaning.swap_above_pct = self.swap_above_pct.filter(|_| self.chooses_logs());
        cleaning.swap_idle_after = Nanos::ZERO;
    }

    /// Bytes from the beginning of the disk on that are not shingled, if it is a shingled one.
    pub fn non_shingled_bytes(&self) -> Option<u64> {
        let shingled = self.preset.layout.is_for_shingled();
        let snapshots = 8 * MIB;
        let logs = if self.group_bytes == 28 * MIB { 2 } else { 12 };
        shingled.then_some(snapshots + logs * self.log_bytes)
    }

    /// The ranges of `layout` in which checksums cover everything.
    pub fn verified(layout: &Layout) -> Vec<Range<u64>> {
        let mut ranges = Self::slots(layout);
        let logs = (0..layout.log_count()).filter_map(|log| layout.log_offset(log));
        ranges.extend(logs.map(|start| start..start + layout.log_bytes));
        ranges
    }

    /// The two slots of the map's snapshots.
    pub fn slots(layout: &Layout) -> Vec<Range<u64>> {
        layout.slot_offsets.iter().map(|start| *start..*start + layout.slot_bytes).collect()
    }
}

/// The preset of that name; of names that there are not, the first of the table.
pub(crate) fn named(name: &str) -> NamedPreset {
    NamedPreset::by_name(name).unwrap_or(nearhead_volume::PRESETS[0])
}

/// One disk, or one life in eight several as an array; one life in eight has a map device.
fn parts(seed: u64, preset: &NamedPreset) -> (Arrangement, Option<u64>) {
    // By another generator, so that nothing else in a life depends on it.
    let mut random = SplitMix::new(seed ^ 0x6469_736b_735f_6f66);
    let shingled = preset.layout.is_for_shingled();
    let arrangement = match random.below(16) {
        0 if !shingled => Arrangement::Stripe {
            members: 2 + random.below(3) as usize,
            chunk_bytes: pick(&mut random, &[4 << 10, 64 << 10, MIB]),
        },
        1 if !shingled => {
            let faulty = random.below(2) as usize;
            Arrangement::Mirror { faulty, goes_away: by_seed::goes_away(seed) }
        }
        _ => Arrangement::One,
    };
    let map_device = random.below(8) == 0 && preset.layout.has_logs();
    let bytes = pick(&mut random, &[4 * MIB, 5 * MIB, 16 * MIB]);
    (arrangement, map_device.then_some(bytes))
}

/// The same data devices, the first with room for what snapshots have of fragments, if records have any.
fn with_room(mut data_bytes: Vec<u64>, has_fragments: bool) -> Vec<u64> {
    if let Some(first) = data_bytes.first_mut().filter(|_| has_fragments) {
        *first += 8 * MIB;
    }
    data_bytes
}

fn pick<T: Copy>(random: &mut SplitMix, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}
