//! Presets: every published system as a named choice of policies.
//!
//! A preset is a value: its name (what users type), its number (what a volume remembers; the layout follows from it),
//! one line for people, and a function that makes the configuration of what the disk tells. [`PRESETS`] is the one
//! table: which names are taken, what help, completion and errors list, and how a volume is configured come from it.

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
#[derive(Clone, Copy, Debug)]
pub struct NamedPreset {
    /// What is typed.
    pub name: &'static str,
    /// What the superblock says.
    pub preset: Preset,
    /// Writes up to this many bytes are logged.
    pub logged_write_bytes_max: u32,
    /// One line for people.
    pub summary: &'static str,
    /// The engine's configuration, with everything else at its default. Names with one number have one function: a
    /// volume remembers the number.
    pub configure: fn(&Facts<'_>) -> Config,
}

/// A name is given once.
impl PartialEq for NamedPreset {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for NamedPreset {}

/// What a preset makes its configuration of.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What the volume was created as.
    pub superblock: &'a Superblock,
    /// What the disk tells.
    pub properties: &'a Properties,
    /// How many devices share its work ([`nearhead_disk::Disk::width`]).
    pub width: u32,
}

/// Every preset there is.
pub const PRESETS: [NamedPreset; 7] = [
    NamedPreset {
        name: "nolog",
        preset: Preset::NoLog,
        logged_write_bytes_max: 0,
        summary: "everything in place: the baseline",
        configure: in_place,
    },
    NamedPreset {
        name: "singlelog",
        preset: Preset::SingleLog,
        logged_write_bytes_max: 32 << 10,
        summary: "writes up to 32 KiB go to one log in the middle of the disk",
        configure: single_log,
    },
    NamedPreset {
        name: "mlb",
        preset: Preset::Mlb,
        logged_write_bytes_max: 32 << 10,
        summary: "Manylogs: writes up to 32 KiB go to the log nearest the head",
        configure: near_head,
    },
    NamedPreset {
        name: "mlb-32",
        preset: Preset::Mlb,
        logged_write_bytes_max: 32 << 10,
        summary: "the same as mlb",
        configure: near_head,
    },
    NamedPreset {
        name: "mlb-256",
        preset: Preset::Mlb,
        logged_write_bytes_max: 256 << 10,
        summary: "Manylogs: writes up to 256 KiB go to the log nearest the head",
        configure: near_head,
    },
    NamedPreset {
        name: "slsmr",
        preset: Preset::SlSmr,
        logged_write_bytes_max: u32::MAX,
        summary: "shingled disk: all writes go to one log where it is not shingled",
        configure: single_log,
    },
    NamedPreset {
        name: "mlsmr",
        preset: Preset::MlSmr,
        logged_write_bytes_max: u32::MAX,
        summary: "Manylogs on a shingled disk: all writes go to the non-shingled log nearest the head",
        configure: near_head,
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

/// One name for each kind of layout, the likeliest first; those for shingled disks only on one.
pub(crate) fn one_of_each_layout(is_shingled: bool) -> Vec<NamedPreset> {
    let names = ["mlb", "singlelog", "nolog", "mlsmr", "slsmr"];
    let found = names.iter().filter_map(|name| NamedPreset::by_name(name).ok());
    found.filter(|named| is_shingled || !named.preset.is_for_shingled()).collect()
}

/// The engine's configuration for a volume on a disk, as its preset makes it. `width` is the disk's
/// ([`nearhead_disk::Disk::width`]).
pub fn default_config(superblock: &Superblock, properties: &Properties, width: u32) -> Config {
    let known = PRESETS.iter().find(|named| named.preset == superblock.preset);
    // Every number has a name, which a test sees to; in place is what needs no log.
    let configure = known.map_or(in_place as fn(&Facts<'_>) -> Config, |named| named.configure);
    configure(&Facts { superblock, properties, width })
}

fn in_place(facts: &Facts<'_>) -> Config {
    placed(facts, Box::new(SingleLog))
}

fn single_log(facts: &Facts<'_>) -> Config {
    placed(facts, Box::new(SingleLog))
}

/// The one whose full logs go to cold ones.
fn near_head(facts: &Facts<'_>) -> Config {
    // A map device is another disk behind the same addresses.
    let is_single = facts.superblock.map_device_id.is_none();
    let config = placed(facts, Box::new(NearHead::on(facts.properties, is_single)));
    Config { cleaning: Cleaning { swap_above_pct: Some(80), ..config.cleaning }, ..config }
}

/// What the presets have in common.
fn placed(facts: &Facts<'_>, placement: Box<dyn Placement>) -> Config {
    let Facts { superblock, properties, width } = *facts;
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
            swap_above_pct: None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_name_and_names_of_one_number_have_one_function() {
        for preset in Preset::ALL {
            let mut named = PRESETS.iter().filter(|named| named.preset == preset);
            let first = named.next().unwrap();
            assert!(named.all(|other| std::ptr::fn_addr_eq(other.configure, first.configure)));
        }
    }

    #[test]
    fn each_name_is_given_once_and_found() {
        for (index, named) in PRESETS.iter().enumerate() {
            assert_eq!(NamedPreset::by_name(named.name).as_ref(), Ok(named));
            assert!(PRESETS[..index].iter().all(|other| other.name != named.name));
        }
    }

    #[test]
    fn the_guide_lists_every_name() {
        let guide = include_str!("../../../docs/operations.md");
        for named in PRESETS {
            assert!(guide.contains(&format!("`{}`", named.name)), "{}", named.name);
        }
    }

    #[test]
    fn one_of_each_layout_is_every_number_once() {
        let numbers = |named: Vec<NamedPreset>| {
            named.iter().map(|named| named.preset as u16).collect::<Vec<_>>()
        };
        assert_eq!(numbers(one_of_each_layout(false)), [2, 1, 0]);
        assert_eq!(numbers(one_of_each_layout(true)), [2, 1, 0, 4, 3]);
    }
}
