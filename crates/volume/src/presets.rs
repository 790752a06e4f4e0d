//! Presets: every published system as a named choice of policies.
//!
//! A preset fixes the layout (which logs there are) and the defaults of the policies. The name is
//! what users type; its number in the superblock is what a volume remembers.

use nearhead_disk::{Nanos, Properties};
use nearhead_engine::admission::DurableFirst;
use nearhead_engine::cleaning::HomeAndSwap;
use nearhead_engine::placement::{NearHead, Placement, SingleLog};
use nearhead_engine::{Ack, Cleaning, Config, RECORD_BYTES_MAX};
use nearhead_format::{AckMode, Preset, Superblock};
use std::fmt;

/// Bulk bytes on a rotational disk at once: two pieces. At 100 MB/s a durable write waits 2.6 ms
/// behind them at most, and two are enough to keep a disk streaming.
const BULK_BYTES_ROTATIONAL: u64 = 256 << 10;
/// What a checkpoint holds in memory at once on a rotational disk. The busiest synthetic hour (T7 of `nearhead
/// figures fig7a`) goes home in 313 s from windows of 4 MiB, in 213 s from 64 MiB, in 165 s from 256 MiB.
const WINDOW_BYTES_ROTATIONAL: u32 = 64 << 20;
/// Piece of a bulk transfer on a rotational disk.
const PIECE_BYTES_ROTATIONAL: u32 = 128 << 10;
/// The same where no head moves: enough in flight for a fast device.
const BULK_BYTES_FLASH: u64 = 4 << 20;
const PIECE_BYTES_FLASH: u32 = 1 << 20;
/// Commands of cleaning at once where several may go: a few for a disk to choose from (one at a time, the
/// next block has passed under the head before it is asked for), many where no head moves.
const BACKGROUND_COMMANDS_ROTATIONAL: u32 = 8;
const BACKGROUND_COMMANDS_FLASH: u32 = 64;

/// A command without an answer for this long is told of: a healthy disk takes a second or two at worst, one that retries
/// a bad sector some ten, and the kernel gives up after 30 s or more by default.
pub(crate) const STALL_AFTER: Nanos = Nanos::from_secs(30);

/// A preset as users name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedPreset {
    /// What is typed.
    pub name: &'static str,
    /// What the superblock says.
    pub preset: Preset,
    /// Writes up to this many bytes are logged.
    pub logged_write_bytes_max: u32,
    /// One line for people.
    pub summary: &'static str,
}

/// Every preset there is.
pub const PRESETS: [NamedPreset; 7] = [
    NamedPreset {
        name: "nolog",
        preset: Preset::NoLog,
        logged_write_bytes_max: 0,
        summary: "everything in place: the baseline",
    },
    NamedPreset {
        name: "singlelog",
        preset: Preset::SingleLog,
        logged_write_bytes_max: 32 << 10,
        summary: "writes up to 32 KiB go to one log in the middle of the disk",
    },
    NamedPreset {
        name: "mlb",
        preset: Preset::Mlb,
        logged_write_bytes_max: 32 << 10,
        summary: "Manylogs: writes up to 32 KiB go to the log nearest the head",
    },
    NamedPreset {
        name: "mlb-32",
        preset: Preset::Mlb,
        logged_write_bytes_max: 32 << 10,
        summary: "the same as mlb",
    },
    NamedPreset {
        name: "mlb-256",
        preset: Preset::Mlb,
        logged_write_bytes_max: 256 << 10,
        summary: "Manylogs: writes up to 256 KiB go to the log nearest the head",
    },
    NamedPreset {
        name: "slsmr",
        preset: Preset::SlSmr,
        logged_write_bytes_max: u32::MAX,
        summary: "shingled disk: all writes go to one log where it is not shingled",
    },
    NamedPreset {
        name: "mlsmr",
        preset: Preset::MlSmr,
        logged_write_bytes_max: u32::MAX,
        summary: "Manylogs on a shingled disk: all writes go to the non-shingled log nearest the head",
    },
];

/// A name that is no preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPreset {
    /// What was asked for.
    pub name: String,
}

impl fmt::Display for UnknownPreset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        write!(formatter, "preset: expected one of {}, found {:?}", names.join(", "), self.name)
    }
}

impl std::error::Error for UnknownPreset {}

impl NamedPreset {
    /// The preset that gives these; of several names the first. `None` if none does: another
    /// threshold was chosen.
    pub fn of(preset: Preset, logged_write_bytes_max: u32) -> Option<Self> {
        let is_it = |named: &&Self| {
            (named.preset, named.logged_write_bytes_max) == (preset, logged_write_bytes_max)
        };
        PRESETS.iter().find(is_it).copied()
    }

    /// The preset called `name`.
    pub fn by_name(name: &str) -> Result<Self, UnknownPreset> {
        let known = PRESETS.iter().find(|preset| preset.name == name);
        known.copied().ok_or_else(|| UnknownPreset { name: name.to_owned() })
    }
}

/// The engine's configuration for a volume on a disk, with everything else at its default. `width`
/// is the disk's ([`nearhead_disk::Disk::width`]).
pub fn default_config(superblock: &Superblock, properties: &Properties, width: u32) -> Config {
    let scatters = matches!(superblock.preset, Preset::Mlb | Preset::MlSmr);
    let placement: Box<dyn Placement> = if scatters {
        // A map device is another disk behind the same addresses.
        Box::new(NearHead::on(properties, superblock.map_device_id.is_none()))
    } else {
        Box::new(SingleLog)
    };
    let (piece_bytes, bulk_bytes_max, background_commands_max) = if properties.rotational {
        (PIECE_BYTES_ROTATIONAL, BULK_BYTES_ROTATIONAL, BACKGROUND_COMMANDS_ROTATIONAL)
    } else {
        (PIECE_BYTES_FLASH, BULK_BYTES_FLASH, BACKGROUND_COMMANDS_FLASH)
    };
    Config {
        ack: match superblock.ack {
            AckMode::Durable => Ack::Durable,
            AckMode::Flush => Ack::Flush,
        },
        placement,
        admission: Box::new(DurableFirst {
            piece_bytes: piece_bytes.saturating_mul(width).min(properties.transfer_bytes_max),
            // A piece falls unevenly on the members: as much again keeps all of them busy.
            bulk_bytes_max: bulk_bytes_max * u64::from(if width > 1 { 2 * width } else { 1 }),
            background_commands_max: background_commands_max.saturating_mul(width),
        }),
        logged_write_bytes_max: superblock.logged_write_bytes_max,
        lone_writes_go_home: false,
        cleaner: Box::new(HomeAndSwap::default()),
        cleaning: Cleaning {
            period: None,
            idle_after: Some(Nanos::from_secs(30)),
            window: None,
            coordinated: false,
            watermark_pct: Some(70),
            batch_bytes: 4 << 20,
            window_bytes: if properties.rotational { WINDOW_BYTES_ROTATIONAL } else { 4 << 20 },
            swap_above_pct: scatters.then_some(80),
            swap_idle_after: Nanos::from_millis(500),
        },
        stage_bytes_max: 16 << 20,
        record_bytes_max: RECORD_BYTES_MAX,
        log_reserve_bytes: 64 << 10,
        snapshot_after_bytes: 1 << 30,
        snapshot_period: Nanos::from_secs(600),
        stage_age_max: Nanos::from_secs(1),
        stall_after: STALL_AFTER,
        no_space_wait_max: Nanos::from_secs(10),
        second_of_day_at_zero: 0,
        read_only: superblock.must_be_read_only(),
        accept_loss: false,
        rebuild: false,
        base: None,
    }
}
