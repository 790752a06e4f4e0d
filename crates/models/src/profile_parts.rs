//! The parts of a profile: layout, skews, seeks, command times, interface, cache, queue.
//!
//! Plain data as a profile states it, each with its unit in its name. What follows from it, and
//! whether the parts agree, is decided in `profile`.

use crate::layout::{TreeSpec, ZonedSpec};
use crate::profile::Profile;
use serde::{Deserialize, Serialize};

/// Order of the tracks; see [`Layout`](crate::Layout).
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum LayoutSpec {
    /// All surfaces of a cylinder in turn.
    Cylinder,
    /// Runs of cylinders on one head, back on the next.
    Serpentine {
        /// Cylinders per run.
        run_cylinders: u32,
    },
    /// Zones with spares, slips and skews in sectors.
    Zoned(ZonedSpec),
    /// An extracted index tree.
    Tree(TreeSpec),
}

/// Turns between the first sectors of neighbouring tracks, in revolutions.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkewSpec {
    /// To the next cylinder.
    pub next_cylinder: f64,
    /// To another head.
    pub next_head: f64,
    /// To the next group of a serpentine layout.
    #[serde(default)]
    pub next_group: f64,
}

/// Tracks with equally many sectors.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    /// First cylinder.
    pub first_cylinder: u32,
    /// Logical sectors on a track.
    pub sectors_per_track: u32,
    /// First logical block, where known; the tracks it leaves free at the end of the zone before
    /// are spares and defects.
    pub first_lbn: Option<u64>,
}

/// Arm movement, in ms.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekSpec {
    /// `[distance in cylinders, ms]` of reads, interpolated between.
    pub points_ms: Vec<(u32, f64)>,
    /// The same for writes, if they differ by more than a constant.
    pub write_points_ms: Option<Vec<(u32, f64)>>,
    /// Added before a write that follows a movement of the arm, except to the next track.
    pub write_settle_ms: f64,
    /// Whether it is added before going on to the next track too.
    #[serde(default)]
    pub settles_between_tracks: bool,
    /// Least time of getting ready for a read where the head wrote last, also on the same track: drives whose heads read
    /// and write with elements of their own move by the distance of these.
    #[serde(default)]
    pub read_after_write_ms: f64,
    /// Changing to another head without moving.
    pub head_switch_ms: f64,
    /// Share of the accesses after a movement that settle too late or are not read at once, and
    /// wait another revolution.
    #[serde(default)]
    pub late_share: f64,
}

/// Time of the electronics per command, in ms.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandSpec {
    /// Before a read from the medium can start.
    pub read_ms: f64,
    /// Before a write to the medium can start.
    pub write_ms: f64,
    /// Of a command that needs only the drive's memory.
    pub cached_ms: f64,
    /// The exchange with the host in detail, where it was measured; it replaces the times above.
    pub exchange: Option<ExchangeSpec>,
}

/// How commands and data cross the interface, step by step. Pairs are `[after a read, after a
/// write]`: the firmware of drives takes different times depending on what it did last.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExchangeSpec {
    /// From the arrival of a read until the arm moves.
    pub read_seek_ms: [f64; 2],
    /// From the arrival of a read that the memory holds until its first byte goes out.
    pub read_hit_ms: [f64; 2],
    /// From when enough was read until the first byte goes out, each time anew.
    pub read_reconnect_ms: f64,
    /// Share of a read that is enough.
    pub read_enough: f64,
    /// Whether the interface is kept until a read that began to go out is over.
    pub read_keeps_interface: bool,
    /// From a read's last byte until the host is told.
    pub read_end_ms: f64,
    /// From the arrival of a write until the arm moves.
    pub write_seek_ms: [f64; 2],
    /// From the arrival of a write until its first byte comes in.
    pub write_data_ms: [f64; 2],
    /// Least time of a seek before a write.
    pub write_seek_least_ms: f64,
    /// From when a write is on the medium until the host is told.
    pub write_end_ms: f64,
    /// From the arrival of a write that goes into the write cache until its first byte comes in,
    /// and until the arm moves for it.
    pub cached_write_data_ms: [f64; 2],
    /// From such a write's last byte until the host is told.
    pub cached_write_end_ms: f64,
    /// How much later all of this is for a command that ends a read-ahead under way: the head must be stopped and what
    /// it read be closed before the command is looked at.
    #[serde(default)]
    pub read_ahead_end_ms: f64,
}

impl ExchangeSpec {
    /// Errors name a time that is none.
    pub fn check(&self) -> Result<(), String> {
        let pairs = [
            ("read_seek_ms", self.read_seek_ms),
            ("read_hit_ms", self.read_hit_ms),
            ("write_seek_ms", self.write_seek_ms),
            ("write_data_ms", self.write_data_ms),
            ("cached_write_data_ms", self.cached_write_data_ms),
            ("read_reconnect_ms and read_end_ms", [self.read_reconnect_ms, self.read_end_ms]),
            ("write_seek_least_ms and write_end_ms", [self.write_seek_least_ms, self.write_end_ms]),
            ("cached_write_end_ms and read_enough", [self.cached_write_end_ms, self.read_enough]),
            ("read_ahead_end_ms", [self.read_ahead_end_ms; 2]),
        ];
        match pairs.iter().find(|(_, pair)| pair.iter().any(|ms| !(0.0..1000.0).contains(ms))) {
            Some((name, found)) => {
                Err(format!("expected command.exchange.{name} from 0 to 1000, found {found:?}"))
            }
            None => Ok(()),
        }
    }
}

/// The host's side.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterfaceSpec {
    /// 10^6 bytes per second.
    pub megabytes_per_s: f64,
    /// The same towards the drive, if it differs.
    pub write_megabytes_per_s: Option<f64>,
}

/// Memory of the drive.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the drive")]
pub struct CacheSpec {
    /// Sequential streams remembered at once.
    pub segments: u16,
    /// Most sectors one segment holds.
    pub segment_sectors: u32,
    /// How far the head reads on after a read, in sectors.
    pub read_ahead_sectors: u32,
    /// Where else reading ahead stops.
    #[serde(default)]
    pub read_ahead_until: ReadAhead,
    /// Whether reading ahead ends before a full segment would give up what was asked for.
    #[serde(default)]
    pub read_ahead_keeps_requested: bool,
    /// Whether only a read that goes on where the one before ended is read ahead of.
    #[serde(default)]
    pub read_ahead_when_sequential: bool,
    /// Whether a read joins a read-ahead that is just about to reach its first block.
    #[serde(default = "yes")]
    pub joins_read_ahead: bool,
    /// Whether the sectors that pass while the head waits for those it was sent for are kept too.
    #[serde(default)]
    pub keeps_passing_sectors: bool,
    /// Segments that keep what was written, so that reading it needs no arm.
    #[serde(default)]
    pub written_segments: u16,
    /// Whether a read may begin in its middle when the head lands there.
    pub zero_latency_reads: bool,
    /// Whether writes are acknowledged from memory unless told otherwise.
    pub write_cache: bool,
    /// Most bytes acknowledged and not yet on the medium.
    pub dirty_bytes_max: u64,
    /// Idle time before such bytes are written while nothing asks for it, in ms.
    pub destage_idle_ms: f64,
}

/// Where reading ahead stops, at the latest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadAhead {
    /// After as many sectors as the profile states.
    #[default]
    Sectors,
    /// At the end of the track.
    Track,
    /// At the end of the cylinder.
    Cylinder,
    /// At the end of the track, and of one track more once a stream has crossed from one track to
    /// another.
    NextTrack,
}

fn yes() -> bool {
    true
}

/// Command queue.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Most commands outstanding.
    pub depth: u16,
    /// Which one goes next.
    pub policy: QueuePolicy,
    /// What SPTF takes off the positioning time of a command, as a share of the time it waited.
    pub aging: f64,
    /// A command that waited this long goes first whatever the policy says, in ms.
    pub age_limit_ms: f64,
    /// Whether the drive serves the `Durable` class first.
    pub honours_priority: bool,
}

/// Which of the waiting commands goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum QueuePolicy {
    /// In order of arrival.
    Fifo,
    /// The next higher address, from the lowest again after the highest (C-LOOK).
    Clook,
    /// Shortest positioning time first: seek and rotation together (Seltzer, Chen and Ousterhout,
    /// USENIX Winter 1990).
    Sptf,
}

impl QueuePolicy {
    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "fifo" => Some(Self::Fifo),
            "clook" => Some(Self::Clook),
            "sptf" => Some(Self::Sptf),
            _ => None,
        }
    }
}

/// What a datasheet claims, for comparison only: the model is derived from the rest.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasheetSpec {
    /// Bytes on an average track.
    pub bytes_per_track: Option<f64>,
    /// Average seek of reads, in ms.
    pub mean_seek_ms: Option<f64>,
    /// 10^6 bytes per second at the outermost track.
    pub outer_megabytes_per_s: Option<f64>,
}

impl DatasheetSpec {
    /// Claims that differ from the profile by more than a tenth.
    pub(crate) fn contradictions(&self, profile: &Profile) -> Vec<String> {
        let tracks = f64::from(profile.cylinders) * f64::from(profile.heads);
        let per_track = profile.capacity_bytes() as f64 / tracks;
        let seek = profile.seek_curve().map_or(0.0, |curve| curve.mean_ns(profile.cylinders) / 1e6);
        let outer = profile.geometry().map_or(0.0, |geometry| {
            let bytes =
                u64::from(geometry.locate(0).sectors_per_track) * u64::from(profile.sector_bytes);
            bytes as f64 * 1e3 / profile.period_ns as f64
        });
        let claims = [
            ("bytes per track", self.bytes_per_track, per_track),
            ("ms for an average seek", self.mean_seek_ms, seek),
            ("MB/s at the outer edge, skews not counted", self.outer_megabytes_per_s, outer),
        ];
        let mut found = Vec::new();
        for (what, claim, derived) in claims {
            let Some(claim) = claim else { continue };
            if (claim - derived).abs() > 0.1 * derived.abs() {
                found.push(format!(
                    "{}: the datasheet claims {claim} {what}, which contradicts the profile; the \
                     model uses {derived:.1}",
                    profile.name
                ));
            }
        }
        found
    }
}
