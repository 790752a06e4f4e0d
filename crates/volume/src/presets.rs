//! Presets: every published system as a named choice of policies.
//!
//! A preset is a value: its name (what users type), its number (what a volume remembers), the kind of layout that it has,
//! one line for people, and a function that makes the configuration of what the disk tells. [`PRESETS`] is the one
//! table: which names are taken, what help, completion and errors list, and how a volume is configured come from it. To add
//! one is one entry here, and its policies; nobody else may ask which one it is, only what it is like. Programs that bring
//! presets of their own open volumes with [`Presets::with`].

mod defaults;
mod known;

pub(crate) use defaults::STALL_AFTER;
pub use known::{Presets, UnknownPreset};

use nearhead_disk::{Nanos, Properties};
use nearhead_engine::cleaner::{CompactInBody, WriteBehind};
use nearhead_engine::placement::{ChainTail, NearHead, SingleLog, TrackByTrack, UnderHead};
use nearhead_engine::{Cleaning, Config};
use nearhead_format::{LayoutKind, PresetNumber, Superblock};
use std::fmt;

/// A preset as users name it.
#[derive(Clone, Copy)]
pub struct NamedPreset {
    /// What is typed.
    pub name: &'static str,
    /// What the superblock says.
    pub number: PresetNumber,
    /// Which logs there are, and where.
    pub layout: LayoutKind,
    /// Writes up to this many bytes are logged.
    pub logged_write_bytes_max: u32,
    /// Whether records bring bytes smaller than a sector, unless its owner says otherwise.
    pub fragments: bool,
    /// One line for people.
    pub summary: &'static str,
    /// The engine's configuration, most of it by [`Facts::config`]. Names with one number have one function, and one kind
    /// of layout: a volume remembers the number.
    pub configure: fn(&Facts<'_>) -> Config,
}

/// A name is given once.
impl PartialEq for NamedPreset {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for NamedPreset {}

/// Its name: where its function lies in memory is nothing that two runs would print alike.
impl fmt::Debug for NamedPreset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "preset {}", self.name)
    }
}

/// What a preset makes its configuration of.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What the volume was created as.
    pub superblock: &'a Superblock,
    /// What the disk tells.
    pub properties: &'a Properties,
}

/// Where no head moves, what is written to a log and then home is written twice and gains nothing by its size: as little as
/// the published preset logs.
const HEADLESS_LOGGED_BYTES: u32 = 32 << 10;

/// What is logged beside many commands of a drive that chooses: what Manylogs logs.
const BESIDE_MANY_LOGGED_BYTES: u32 = 32 << 10;

/// Logged bytes that are kept in memory until they are at home: at a hundred homes a second those of five minutes.
const WRITTEN_BEHIND_BYTES: u64 = 128 << 20;

/// Records after which the map is written anew: a recovery reads the logs that they went to, on a slow disk perhaps, and the map of what is
/// not yet at home is small.
const SNAPSHOT_AFTER_BYTES: u64 = 16 << 20;

/// What is written behind is let go along with the next record, if one comes within this time: a record of its own would be in the way of
/// a client's.
const RELEASES_WAIT: Nanos = Nanos::from_millis(250);

/// The preset of a volume if nobody says which.
pub const DEFAULT_PRESET: &str = "nearhead";

/// Every preset of the program. Numbers are never given twice: they stand in superblocks.
pub const PRESETS: [NamedPreset; 10] = [
    NamedPreset {
        name: "nolog",
        number: PresetNumber(0),
        layout: LayoutKind::NoLogs,
        logged_write_bytes_max: 0,
        fragments: false,
        summary: "everything in place: the baseline",
        configure: in_place,
    },
    NamedPreset {
        name: "singlelog",
        number: PresetNumber(1),
        layout: LayoutKind::OneLog,
        logged_write_bytes_max: 32 << 10,
        fragments: false,
        summary: "writes up to 32 KiB go to one log in the middle of the disk",
        configure: single_log,
    },
    NamedPreset {
        name: "mlb",
        number: PresetNumber(2),
        layout: LayoutKind::ManyLogs,
        logged_write_bytes_max: 32 << 10,
        fragments: false,
        summary: "Manylogs: writes up to 32 KiB go to the log nearest the head",
        configure: near_head,
    },
    NamedPreset {
        name: "mlb-32",
        number: PresetNumber(2),
        layout: LayoutKind::ManyLogs,
        logged_write_bytes_max: 32 << 10,
        fragments: false,
        summary: "the same as mlb",
        configure: near_head,
    },
    NamedPreset {
        name: "mlb-256",
        number: PresetNumber(2),
        layout: LayoutKind::ManyLogs,
        logged_write_bytes_max: 256 << 10,
        fragments: false,
        summary: "Manylogs: writes up to 256 KiB go to the log nearest the head",
        configure: near_head,
    },
    NamedPreset {
        name: "slsmr",
        number: PresetNumber(3),
        layout: LayoutKind::OneLogApart,
        logged_write_bytes_max: u32::MAX,
        fragments: false,
        summary: "shingled disk: all writes go to one log where it is not shingled",
        configure: single_log,
    },
    NamedPreset {
        name: "mlsmr",
        number: PresetNumber(4),
        layout: LayoutKind::ManyLogsApart,
        logged_write_bytes_max: u32::MAX,
        fragments: false,
        summary: "Manylogs on a shingled disk: all writes go to the non-shingled log nearest the head",
        configure: under_head,
    },
    NamedPreset {
        name: "nearhead",
        number: PresetNumber(5),
        layout: LayoutKind::ManyLogsAnywhere,
        logged_write_bytes_max: 256 << 10,
        fragments: true,
        summary: "writes up to 256 KiB go where the head arrives, in the log that costs least there and back",
        configure: under_head,
    },
    NamedPreset {
        name: "trail",
        number: PresetNumber(6),
        layout: LayoutKind::LogDevice,
        logged_write_bytes_max: u32::MAX,
        fragments: false,
        summary: "Trail: all writes go to a log device, under its head, and from memory to the data devices later",
        configure: track_by_track,
    },
    NamedPreset {
        name: "gecko",
        number: PresetNumber(7),
        layout: LayoutKind::Chain,
        logged_write_bytes_max: u32::MAX,
        fragments: false,
        summary: "Gecko: one log chained over all devices; all writes go to its tail, and cleaning touches the others",
        configure: chained,
    },
];

impl NamedPreset {
    /// The program's preset called `name`.
    pub fn by_name(name: &str) -> Result<Self, UnknownPreset> {
        Presets::default().by_name(name)
    }

    /// Up to which size writes are logged on such a disk if nobody says: less without a head, if the preset is about heads.
    pub fn logged_by_default(&self, properties: &Properties) -> u32 {
        let (layout, is_own_disk) = (self.layout, !self.layout.is_for_data_devices());
        let is_about_heads =
            layout.has_records_anywhere() && is_own_disk && !layout.is_for_shingled();
        let most =
            if is_about_heads && !properties.rotational { HEADLESS_LOGGED_BYTES } else { u32::MAX };
        self.logged_write_bytes_max.min(most)
    }

    /// The engine's configuration for a volume on a disk.
    pub fn config(&self, superblock: &Superblock, properties: &Properties) -> Config {
        (self.configure)(&Facts { superblock, properties })
    }
}

fn in_place(facts: &Facts<'_>) -> Config {
    facts.config(Box::new(SingleLog))
}

fn single_log(facts: &Facts<'_>) -> Config {
    facts.config(Box::new(SingleLog))
}

/// The one whose full logs go to cold ones.
fn near_head(facts: &Facts<'_>) -> Config {
    // A map device is another disk behind the same addresses.
    let is_single = facts.superblock.map_device_id.is_none();
    let config = facts.config(Box::new(NearHead::on(facts.properties, is_single)));
    Config { cleaning: Cleaning { swap_above_pct: Some(80), ..config.cleaning }, ..config }
}

/// The same, and records under the head where it is known where tracks are.
fn under_head(facts: &Facts<'_>) -> Config {
    let is_single = facts.superblock.map_device_id.is_none();
    let near = NearHead::on(facts.properties, is_single);
    let config = near_head(facts);
    Config {
        placement: Box::new(UnderHead::beside(near)),
        admission: Box::new(facts.soonest_first()),
        // What is home in a band cannot go there by itself.
        logged_beside_many_bytes_max: if facts.superblock.layout.logs_are_apart() {
            u32::MAX
        } else {
            BESIDE_MANY_LOGGED_BYTES
        },
        ..config
    }
}

/// The one whose data is on other devices.
fn track_by_track(facts: &Facts<'_>) -> Config {
    let config = facts.config(Box::new(TrackByTrack::default()));
    let cleaning = Cleaning {
        memory_bytes: WRITTEN_BEHIND_BYTES,
        releases_wait: RELEASES_WAIT,
        ..config.cleaning
    };
    let snapshot_after_bytes = SNAPSHOT_AFTER_BYTES;
    Config { cleaner: Box::new(WriteBehind), cleaning, snapshot_after_bytes, ..config }
}

/// The one without homes.
fn chained(facts: &Facts<'_>) -> Config {
    let config = facts.config(Box::new(ChainTail::on(facts.properties)));
    // The policy's own bounds, unless the owner says otherwise: a chain is always full by those of others.
    let cleaning = Cleaning { watermark_pct: None, ..config.cleaning };
    Config { cleaner: Box::new(CompactInBody::default()), cleaning, ..config }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{CreateOptions, describe};
    use nearhead_models::plain_properties;

    #[test]
    fn names_of_one_number_have_one_function_and_one_kind_of_layout() {
        for named in PRESETS {
            for other in PRESETS.iter().filter(|other| other.number == named.number) {
                assert!(std::ptr::fn_addr_eq(other.configure, named.configure), "{}", named.name);
                assert_eq!(other.layout, named.layout, "{}", named.name);
            }
        }
    }

    #[test]
    fn without_a_head_no_preset_that_follows_one_logs_large_writes_by_default() {
        for preset in PRESETS {
            let logged = |rotational| {
                preset
                    .logged_by_default(&Properties { rotational, ..plain_properties(1 << 30, 512) })
            };
            let without_head =
                if preset.name == "nearhead" { 32 << 10 } else { preset.logged_write_bytes_max };
            let expected = (preset.logged_write_bytes_max, without_head);
            assert_eq!((logged(true), logged(false)), expected, "{}", preset.name);
        }
    }

    #[test]
    fn beside_many_commands_less_is_logged_by_what_is_about_heads_and_has_homes_that_can_be_written_alone()
     {
        let properties = Properties { rotational: true, ..plain_properties(1 << 30, 512) };
        let has_own_disk = |preset: &&NamedPreset| {
            !preset.layout.is_for_shingled() && !preset.layout.is_for_data_devices()
        };
        for preset in PRESETS.iter().filter(has_own_disk) {
            let options = CreateOptions::new([7; 16], *preset);
            let superblock = describe(&properties, None, &options).unwrap();
            let found = preset.config(&superblock, &properties).logged_beside_many_bytes_max;
            let expected = if preset.name == "nearhead" { 32 << 10 } else { u32::MAX };
            assert_eq!(found, expected, "{}", preset.name);
        }
    }

    #[test]
    fn a_preset_logs_writes_if_and_only_if_it_has_logs() {
        for named in PRESETS {
            assert_eq!(named.logged_write_bytes_max > 0, named.layout.has_logs(), "{}", named.name);
        }
    }

    #[test]
    fn each_name_is_given_once_and_found() {
        for (index, named) in PRESETS.iter().enumerate() {
            assert_eq!(NamedPreset::by_name(named.name).as_ref(), Ok(named));
            assert!(PRESETS[..index].iter().all(|other| other.name != named.name));
            assert!(PRESETS[..index].iter().all(|other| other != named));
        }
    }

    #[test]
    fn the_guide_lists_every_name_and_the_format_every_number() {
        let guide = include_str!("../../../docs/create.md");
        let format = include_str!("../../../docs/format.md");
        for named in PRESETS {
            assert!(guide.contains(&format!("`{}`", named.name)), "{}", named.name);
        }
        for (number, name) in [
            (0, "nolog"),
            (1, "singlelog"),
            (2, "mlb"),
            (3, "slsmr"),
            (4, "mlsmr"),
            (5, "nearhead"),
            (6, "trail"),
            (7, "gecko"),
        ] {
            let named = NamedPreset::by_name(name).unwrap();
            assert_eq!(named.number, PresetNumber(number));
            assert!(format.contains(&format!("{number} `{name}`")), "{name}");
        }
    }
}
