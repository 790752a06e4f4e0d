//! Profiles of flash disks: how many of what, and how long each takes.

use crate::profile_text::{self, Embedded, ProfileError};
use serde::Deserialize;

pub(crate) const EMBEDDED: &Embedded = &[
    ("flash-8ch-550gb", include_str!("../../profiles/flash-8ch-550gb.toml")),
    ("sata-ssd-240gb", include_str!("../../profiles/sata-ssd-240gb.toml")),
];

/// Most pages of a plane: they are numbered with 32 bits, a few values of which mean something.
const PLANE_PAGES_MAX: u64 = 1 << 31;

/// The numbers of a flash disk.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashSpec {
    /// Logical sector: 512 or 4096 bytes.
    pub sector_bytes: u32,
    /// What the disk tells its host about the medium.
    pub physical_sector_bytes: u32,
    /// Buses.
    pub channels: u32,
    /// Chips on each bus.
    pub chips_per_channel: u32,
    /// Dies of a chip: each does one thing at a time.
    pub dies_per_chip: u32,
    /// Planes of a die: each has its own blocks.
    pub planes_per_die: u32,
    /// What is read and programmed at once.
    pub page_bytes: u32,
    /// What crosses the bus with each page, for its correction.
    #[serde(default)]
    pub spare_bytes_per_page: u32,
    /// Blocks, which are erased at once.
    pub blocks_per_plane: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Reading a page from its cells.
    pub read_us: f64,
    /// Programming a page.
    pub program_us: f64,
    /// Erasing a block.
    pub erase_us: f64,
    /// Of each bus, in 10^6 bytes per second.
    pub channel_megabytes_per_s: f64,
    /// Command and address cycles before each operation.
    pub command_us: f64,
    /// Of the host's side.
    pub host_megabytes_per_s: f64,
    /// Share of the pages that no host sees.
    pub over_provisioning: f64,
    /// Share of free blocks in a plane below which it is collected.
    pub collect_below: f64,
    /// Share of free blocks below which collecting goes before the host.
    pub collect_first_below: f64,
    /// Memory for translation pages.
    pub mapping_cache_bytes: u64,
    /// What of a translation page crosses the bus when one is needed.
    pub mapping_read_bytes: u32,
    /// Whether every page holds data at the start.
    pub in_use: bool,
    /// Whether writes are answered from memory.
    pub write_cache: bool,
    /// Whether what was answered from memory survives a power cut: capacitors bring it to the cells.
    /// Such a cache is not volatile, also for durable writes, and who finds it full waits for room.
    #[serde(default)]
    pub cache_protected: bool,
    /// Most bytes answered and not programmed.
    pub dirty_bytes_max: u64,
    /// Time of a command that needs only memory.
    pub cached_us: f64,
    /// Most commands outstanding.
    pub queue_depth: u16,
}

/// Everything a model of a flash disk needs to know.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashProfile {
    /// Short name.
    pub name: String,
    /// Full name, for people.
    pub description: String,
    /// The numbers.
    pub flash: FlashSpec,
}

impl FlashSpec {
    /// Dies of the disk.
    pub fn dies(&self) -> u32 {
        self.channels * self.chips_per_channel * self.dies_per_chip
    }

    /// Planes of the disk.
    pub fn planes(&self) -> u32 {
        self.dies() * self.planes_per_die
    }

    /// Pages of a plane.
    pub fn plane_pages(&self) -> u32 {
        self.blocks_per_plane * self.pages_per_block
    }

    /// Pages of a plane that a host sees.
    pub fn host_pages_per_plane(&self) -> u32 {
        (f64::from(self.plane_pages()) * (1.0 - self.over_provisioning)) as u32
    }
}

impl FlashProfile {
    /// Names of the embedded profiles.
    pub fn known_names() -> impl Iterator<Item = &'static str> {
        profile_text::names(EMBEDDED)
    }

    /// The embedded profile `name`.
    pub fn named(name: &str) -> Result<Self, ProfileError> {
        Self::parse(name, profile_text::named(name, &[EMBEDDED])?)
    }

    /// Reads and checks the TOML `text` of the profile called `source` in errors.
    pub fn parse(source: &str, text: &str) -> Result<Self, ProfileError> {
        let profile: Self = profile_text::from_toml(source, text)?;
        profile.flash.check().map_err(|problem| ProfileError::new(source, problem))?;
        Ok(profile)
    }

    /// Bytes that a host can address.
    pub fn capacity_bytes(&self) -> u64 {
        let flash = &self.flash;
        let pages = u64::from(flash.host_pages_per_plane()) * u64::from(flash.planes());
        pages * u64::from(flash.page_bytes)
    }
}

impl FlashSpec {
    fn check(&self) -> Result<(), String> {
        let counts = [
            ("channels", self.channels, 64),
            ("chips_per_channel", self.chips_per_channel, 64),
            ("dies_per_chip", self.dies_per_chip, 64),
            ("planes_per_die", self.planes_per_die, 16),
            ("blocks_per_plane", self.blocks_per_plane, 1 << 20),
            ("pages_per_block", self.pages_per_block, 1 << 12),
        ];
        if let Some((field, found, most)) =
            counts.iter().find(|(_, found, most)| !(1..=*most).contains(found))
        {
            return Err(format!("expected flash.{field} from 1 to {most}, found {found}"));
        }
        if u64::from(self.blocks_per_plane) * u64::from(self.pages_per_block) > PLANE_PAGES_MAX {
            return Err("flash: a plane has more than 2^31 pages".to_owned());
        }
        let times = [
            ("read_us", self.read_us),
            ("program_us", self.program_us),
            ("erase_us", self.erase_us),
            ("command_us", self.command_us),
            ("cached_us", self.cached_us),
        ];
        if let Some((field, found)) = times.iter().find(|(_, us)| !(0.0..1e6).contains(us)) {
            return Err(format!("expected flash.{field} from 0 to 10^6, found {found}"));
        }
        for (field, found) in [
            ("channel_megabytes_per_s", self.channel_megabytes_per_s),
            ("host_megabytes_per_s", self.host_megabytes_per_s),
        ] {
            if !(1.0..1e6).contains(&found) {
                return Err(format!("expected flash.{field} from 1 to 10^6, found {found}"));
            }
        }
        let sectors = matches!(self.sector_bytes, 512 | 4096)
            && self.physical_sector_bytes.is_multiple_of(self.sector_bytes)
            && self.physical_sector_bytes > 0
            && self.page_bytes.is_multiple_of(self.physical_sector_bytes)
            && (4096..=1 << 20).contains(&self.page_bytes);
        if !sectors {
            return Err(format!(
                "expected flash.page_bytes in whole physical sectors, and those in whole sectors of \
                 512 or 4096, found {}, {} and {}",
                self.page_bytes, self.physical_sector_bytes, self.sector_bytes
            ));
        }
        if self.spare_bytes_per_page > self.page_bytes {
            let found = self.spare_bytes_per_page;
            return Err(format!("expected flash.spare_bytes_per_page up to a page, found {found}"));
        }
        if self.mapping_read_bytes > self.page_bytes || self.queue_depth == 0 {
            return Err(
                "flash.mapping_read_bytes is larger than a page, or queue_depth is 0".to_owned()
            );
        }
        self.check_room()
    }

    /// Collecting needs room to move pages to, and must be able to reach its goal.
    fn check_room(&self) -> Result<(), String> {
        let blocks = f64::from(self.blocks_per_plane);
        let spare = blocks * self.over_provisioning;
        let ordered = 0.0 <= self.collect_first_below
            && self.collect_first_below <= self.collect_below
            && self.collect_below < self.over_provisioning
            && self.over_provisioning <= 0.9;
        if !ordered || spare - blocks * self.collect_below < 1.0 || spare < 5.0 {
            return Err(format!(
                "expected flash.collect_first_below, collect_below and over_provisioning in this \
                 order, and at least 5 spare blocks in a plane, found {}, {}, {} and {spare:.1}",
                self.collect_first_below, self.collect_below, self.over_provisioning
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_profile_is_consistent() {
        for name in FlashProfile::known_names() {
            let profile = FlashProfile::named(name).unwrap();
            assert_eq!(profile.name, name);
            let pages = u64::from(profile.flash.planes()) * u64::from(profile.flash.plane_pages());
            let raw_bytes = pages * u64::from(profile.flash.page_bytes);
            let share = profile.capacity_bytes() as f64 / raw_bytes as f64;
            assert!((share - (1.0 - profile.flash.over_provisioning)).abs() < 1e-5, "{share}");
        }
    }

    #[test]
    fn a_contradiction_names_the_field() {
        for (from, to, expected) in [
            ("channels = 8", "channels = 0", "flash.channels from 1"),
            ("page_bytes = 8192", "page_bytes = 6000", "page_bytes in whole physical sectors"),
            (
                "spare_bytes_per_page = 448",
                "spare_bytes_per_page = 8448",
                "flash.spare_bytes_per_page",
            ),
            ("read_us = 75.0", "read_us = -1.0", "flash.read_us"),
            ("over_provisioning = 0.07", "over_provisioning = 0.01", "in this order"),
            ("collect_below = 0.05", "collect_below = 0.0", "in this order"),
            ("blocks_per_plane = 2048", "blocks_per_plane = 64", "5 spare blocks"),
            ("host_megabytes_per_s = 4000.0", "host_megabytes_per_s = 0.0", "host_megabytes_per_s"),
            ("in_use = true", "inuse = true", "inuse"),
        ] {
            let good = EMBEDDED[0].1;
            assert!(good.contains(from), "{from}");
            let error = FlashProfile::parse("test", &good.replacen(from, to, 1)).unwrap_err();
            assert!(error.problem.contains(expected), "{to}: {error}");
        }
    }
}
