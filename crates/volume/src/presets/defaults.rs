//! What presets have in common: the configuration that follows from the volume and its disk alone.
//!
//! A preset says where records go, and changes what else is its own; the rest is here once, so that two presets differ in
//! nothing but what makes them different. No number here may depend on which preset asks.

use super::Facts;
use nearhead_disk::Nanos;
use nearhead_engine::admission::{DurableFirst, SoonestFirst};
use nearhead_engine::cleaner::HomeAndSwap;
use nearhead_engine::packing::Everything;
use nearhead_engine::placement::Placement;
use nearhead_engine::{Ack, Cleaning, Config, RECORD_BYTES_MAX};
use nearhead_format::AckMode;

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
/// Where small durable writes follow each other without a pause, bulk that has waited so long goes beside them. Of the CloudPhysics trace, in
/// whose bursts they do, 20 ms and 50 ms are alike, and with neither mlb-32 takes four times as long (docs/performance.md). A reader with a
/// few MiB outstanding never waits so long for its turn.
const BULK_WAIT_MAX: Nanos = Nanos::from_millis(50);
/// A pause of half a second is in the middle of a burst (140 moves in one trace); from 2 s on nothing changes (docs/performance.md).
const SWAP_IDLE_AFTER: Nanos = Nanos::from_secs(5);
/// Of what a command waited for its turn a 32nd counts against what the arm needs: after half a second it is worth two revolutions.
const WAITING_WEIGHS_ONE_IN: u32 = 32;
/// With more small commands than this a drive's own choice is the better one: of the traces at hand DTRS at a depth of 32 took 19.8 ms so and
/// 458 ms without when that was tried, and the mixes of figure 6b are as fast as without (docs/performance.md).
const QUEUED_MAX: u32 = 8;
/// Commands of cleaning at once where several may go: a few for a disk to choose from (one at a time, the
/// next block has passed under the head before it is asked for), many where no head moves.
const BACKGROUND_COMMANDS_ROTATIONAL: u32 = 8;
const BACKGROUND_COMMANDS_FLASH: u32 = 64;

/// A command without an answer for this long is told of: a healthy disk takes a second or two at worst, one that retries
/// a bad sector some ten, and the kernel gives up after 30 s or more by default.
pub(crate) const STALL_AFTER: Nanos = Nanos::from_secs(30);

impl Facts<'_> {
    /// Who goes first, if nobody says otherwise.
    pub fn durable_first(&self) -> DurableFirst {
        let properties = self.properties;
        let width = properties.width;
        let (piece_bytes, bulk_bytes_max, background_commands_max) = if properties.rotational {
            (PIECE_BYTES_ROTATIONAL, BULK_BYTES_ROTATIONAL, BACKGROUND_COMMANDS_ROTATIONAL)
        } else {
            (PIECE_BYTES_FLASH, BULK_BYTES_FLASH, BACKGROUND_COMMANDS_FLASH)
        };
        DurableFirst {
            piece_bytes: piece_bytes.saturating_mul(width).min(properties.transfer_bytes_max),
            // A piece falls unevenly on the members: as much again keeps all of them busy.
            bulk_bytes_max: bulk_bytes_max * u64::from(if width > 1 { 2 * width } else { 1 }),
            bulk_wait_max: BULK_WAIT_MAX,
            background_commands_max: background_commands_max.saturating_mul(width),
        }
    }

    /// The same on a drive of which it is known where its tracks are.
    pub fn soonest_first(&self) -> SoonestFirst {
        SoonestFirst {
            others: self.durable_first(),
            waiting_weighs_one_in: WAITING_WEIGHS_ONE_IN,
            queued_max: QUEUED_MAX,
        }
    }

    /// The configuration with this placement, and everything else at its default.
    pub fn config(&self, placement: Box<dyn Placement>) -> Config {
        let Facts { superblock, properties } = *self;
        Config {
            ack: match superblock.ack {
                AckMode::Durable => Ack::Durable,
                AckMode::Flush => Ack::Flush,
            },
            placement,
            tracks: Vec::new(),
            log_device_tracks: Vec::new(),
            packing: Box::new(Everything),
            admission: Box::new(self.durable_first()),
            logged_write_bytes_max: superblock.logged_write_bytes_max,
            logged_beside_many_bytes_max: u32::MAX,
            map_memory_bytes: u64::MAX,
            keeps_paged_map: false,
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
                memory_bytes: 0,
                releases_wait: Nanos::ZERO,
                swap_above_pct: None,
                swap_idle_after: SWAP_IDLE_AFTER,
            },
            stage_bytes_max: 16 << 20,
            record_bytes_max: RECORD_BYTES_MAX,
            log_reserve_bytes: 64 << 10,
            snapshot_after_bytes: 1 << 30,
            snapshot_period: Nanos::from_secs(600),
            read_cache_bytes: 0,
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create::{CreateOptions, describe};
    use crate::presets::NamedPreset;
    use nearhead_disk::Properties;
    use nearhead_engine::placement::SingleLog;
    use nearhead_models::plain_properties;

    fn config(rotational: bool, width: u32, transfer_bytes_max: u32) -> Config {
        let plain = plain_properties(1 << 30, 512);
        let properties = Properties { rotational, transfer_bytes_max, width, ..plain };
        let preset = NamedPreset::by_name("mlb").unwrap();
        let options = CreateOptions::new([7; 16], preset);
        let superblock = describe(&properties, None, &options).unwrap();
        let facts = Facts { superblock: &superblock, properties: &properties };
        facts.config(Box::new(SingleLog))
    }

    /// Pieces of bulk, bulk and commands of cleaning on the disk at once, by what the disk is and how many share its work.
    #[test]
    fn what_is_on_a_disk_at_once_follows_from_its_head_its_width_and_its_longest_transfer() {
        for (rotational, width, transfer_bytes_max, expected) in [
            (true, 1, 16_777_216, (131_072, 262_144, 8)),
            (true, 2, 16_777_216, (262_144, 1_048_576, 16)),
            (true, 3, 16_777_216, (393_216, 1_572_864, 24)),
            (true, 1, 65_536, (65_536, 262_144, 8)),
            (false, 1, 16_777_216, (1_048_576, 4_194_304, 64)),
            (false, 2, 16_777_216, (2_097_152, 16_777_216, 128)),
            (false, 20, 16_777_216, (16_777_216, 167_772_160, 1280)),
        ] {
            let (piece_bytes, bulk_bytes_max, background_commands_max) = expected;
            let bulk_wait_max = BULK_WAIT_MAX;
            let expected = DurableFirst {
                piece_bytes,
                bulk_bytes_max,
                bulk_wait_max,
                background_commands_max,
            };
            let found = config(rotational, width, transfer_bytes_max).admission;
            let name = format!("a head {rotational}, width {width}, {transfer_bytes_max} bytes");
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{name}");
        }
    }

    /// In bytes, as docs and the sizing of memory have them.
    #[test]
    fn memory_and_logs_are_bounded_by_these_numbers() {
        for (rotational, window_bytes) in [(true, 67_108_864), (false, 4_194_304)] {
            let config = config(rotational, 1, 16_777_216);
            assert_eq!(config.cleaning.window_bytes, window_bytes);
            assert_eq!(config.cleaning.batch_bytes, 4_194_304);
            assert_eq!(config.stage_bytes_max, 16_777_216);
            assert_eq!(config.log_reserve_bytes, 65_536);
            assert_eq!(config.snapshot_after_bytes, 1_073_741_824);
            assert_eq!(config.record_bytes_max, 2_097_152);
            assert_eq!(config.logged_write_bytes_max, 32_768);
        }
    }
}
