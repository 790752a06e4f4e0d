//! What a calibration found, with how sure it is.

use nearhead_disk::{SECTOR_BYTES, TrackZone, Tracks, TracksError, Turn};
use serde::{Deserialize, Serialize};

/// How far a calibration is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is being found out.
    pub of: &'static str,
    /// Of the whole.
    pub done_pct: u8,
}

/// What was found out.
#[derive(Clone, Debug, PartialEq)]
pub enum Findings {
    /// Something turns.
    Turns(Calibration),
    /// Nothing does, or it does not show; why.
    NothingToLearn(String),
}

/// A drive that turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Reads that it took.
    pub reads: u64,
    /// Time that it took, in s.
    pub took_s: f64,
    /// The spindle.
    pub turning: Turning,
    /// Bytes of a logical sector.
    pub sector_bytes: u32,
    /// Of writes, if a range could be overwritten and it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<Overhead>,
    /// Zones in the order of their addresses; the first begins at byte 0.
    pub zones: Vec<Zone>,
}

impl Calibration {
    /// What a placement makes of it.
    ///
    /// # Errors
    /// Numbers from which nothing can be computed: a file that somebody changed.
    pub fn tracks(&self) -> Result<Tracks, TracksError> {
        let bytes =
            |zone: &Zone| zone.sectors_per_track.saturating_mul(u64::from(self.sector_bytes));
        let zones = self.zones.iter().map(|zone| {
            let missing = zone.group_missing_sectors.saturating_mul(u64::from(self.sector_bytes));
            let tracks = bytes(zone).saturating_mul(u64::from(zone.group_tracks));
            TrackZone {
                first_byte: zone.first_byte / SECTOR_BYTES * SECTOR_BYTES,
                track_bytes: bytes(zone),
                skew: Turn::of(zone.skew_turns),
                group_tracks: zone.group_tracks,
                group_skew: Turn::of(zone.group_skew_turns),
                // More missing than there is makes a group too short, which is refused.
                group_bytes: if missing == 0 { 0 } else { tracks.saturating_sub(missing).max(1) },
            }
        });
        Tracks::new(self.turning.period_ns, zones.collect())
    }
}

/// The spindle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Turning {
    /// Length of a revolution, in ns.
    pub period_ns: f64,
    /// How far that may be off, in millionths of it.
    pub doubt_ppm: f64,
    /// How far four in five readings lie from where they should at most: jitter of the machine and the drive, in us.
    pub spread_us: f64,
}

/// A range of addresses whose tracks are alike.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Zone {
    /// First byte that was found to be of it; the zone may begin up to `begins_within_bytes` before.
    pub first_byte: u64,
    /// How far before.
    pub begins_within_bytes: u64,
    /// Logical sectors of a track; of most tracks that were probed.
    pub sectors_per_track: u64,
    /// By how much of a revolution a track is turned against the one before: the middle of those that were probed.
    pub skew_turns: f64,
    /// Tracks that were probed.
    pub tracks_probed: u32,
    /// Those of them that have that many sectors.
    pub tracks_alike: u32,
    /// Tracks of a group (a cylinder, or a run of a serpentine layout), the first of which begins with the zone; 0: none showed.
    #[serde(default)]
    pub group_tracks: u32,
    /// Logical sectors that a group's last track has less: spares.
    #[serde(default)]
    pub group_missing_sectors: u64,
    /// By how much of a revolution a group's first track is turned against the one before.
    #[serde(default)]
    pub group_skew_turns: f64,
    /// Pairs of sectors up to eight groups apart that were within a 50th of a revolution of where groups put them.
    #[serde(default)]
    pub foretold: u32,
    /// Of how many.
    #[serde(default)]
    pub foretold_of: u32,
}

/// What a command costs beside arm, rotation and transfer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overhead {
    /// From the end of a write, as the host sees it, to the first sector of the track that the next one can begin with, in us.
    pub write_us: f64,
    /// How far that may be off, in us.
    pub doubt_us: f64,
}
