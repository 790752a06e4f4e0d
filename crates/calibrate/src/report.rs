//! A calibration as it is kept in a file and printed: what was asked, and what was found.

use crate::findings::{Calibration, Findings};
use nearhead_disk::Tracks;
use serde::{Deserialize, Serialize};

/// What `nearhead calibrate` writes and prints.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// What was calibrated, as it was named.
    pub target: String,
    /// Whether anything turns.
    pub turns: bool,
    /// Why there is nothing to learn, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
    /// What was found, if something turns.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub found: Option<Calibration>,
}

impl Report {
    /// Of what was found on `target`.
    pub fn of(target: &str, findings: &Findings) -> Self {
        let (why_not, found) = match findings {
            Findings::Turns(found) => (None, Some(found.clone())),
            Findings::NothingToLearn(why) => (Some(why.clone()), None),
        };
        Self { target: target.to_owned(), turns: found.is_some(), why_not, found }
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// It is no such text; what it says, and where.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    /// Where tracks are, if anything turns.
    ///
    /// # Errors
    /// Numbers from which nothing can be computed.
    pub fn tracks(&self) -> Result<Option<Tracks>, String> {
        if self.turns && self.found.is_none() {
            return Err("expected what was found, as `turns` is true; found nothing".to_owned());
        }
        let tracks = self.found.as_ref().map(Calibration::tracks).transpose();
        tracks.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Turning, Zone};

    fn calibration() -> Calibration {
        let zone = Zone {
            first_byte: 0,
            begins_within_bytes: 0,
            sectors_per_track: 1200,
            skew_turns: 0.1417,
            tracks_probed: 3,
            tracks_alike: 3,
            group_tracks: 4,
            group_missing_sectors: 6,
            group_skew_turns: 0.2,
            foretold: 19,
            foretold_of: 20,
        };
        let turning = Turning { period_ns: 3_995_340.5, doubt_ppm: 0.1, spread_us: 12.0 };
        Calibration {
            reads: 100,
            took_s: 3.5,
            sector_bytes: 512,
            turning,
            overhead: None,
            zones: vec![zone],
        }
    }

    #[test]
    fn what_was_written_is_read_again_with_all_that_a_placement_needs() {
        let report = Report::of("sdx", &Findings::Turns(calibration()));
        let text = toml::to_string(&report).unwrap();
        let read = Report::from_toml(&text).unwrap();
        assert_eq!(read.found, Some(calibration()));
        let tracks = read.tracks().unwrap().unwrap();
        assert_eq!((tracks.period().0, tracks.zones()[0].track_bytes), (3_995_340, 614_400));
        let nothing = Report::of("sdx", &Findings::NothingToLearn("flash".to_owned()));
        let read = Report::from_toml(&toml::to_string(&nothing).unwrap()).unwrap();
        assert_eq!((read.turns, read.tracks()), (false, Ok(None)));
    }

    #[test]
    fn a_file_from_before_groups_were_found_has_none() {
        let report = Report::of("sdx", &Findings::Turns(calibration()));
        let text = toml::to_string(&report).unwrap();
        let is_new = |line: &str| ["group_", "foretold"].iter().any(|new| line.starts_with(new));
        let old: Vec<&str> = text.lines().filter(|line| !is_new(line)).collect();
        let old = old.join("\n");
        let tracks = Report::from_toml(&old).unwrap().tracks().unwrap().unwrap();
        assert_eq!(tracks.zones()[0].group_tracks, 0, "{old}");
        let tracks = Report::from_toml(&text).unwrap().tracks().unwrap().unwrap();
        let zone = tracks.zones()[0];
        assert_eq!((zone.group_tracks, zone.group_bytes), (4, (4 * 1200 - 6) * 512));
    }

    #[test]
    fn a_file_that_somebody_changed_is_refused_with_the_reason() {
        let report = Report::of("sdx", &Findings::Turns(calibration()));
        let text = toml::to_string(&report).unwrap();
        let why = |from: &str, to: &str| {
            let read = Report::from_toml(&text.replace(from, to));
            read.and_then(|read| read.tracks().map(|_| ())).unwrap_err()
        };
        assert!(why("sectors_per_track = 1200", "sectors_per_track = 0").contains("found 0"));
        assert!(why("first_byte = 0", "first_byte = 4096").contains("begins at byte 0"));
        assert!(why("period_ns = 3995340.5", "period_ns = 1.0").contains("found 1"));
        assert!(
            why("group_missing_sectors = 6", "group_missing_sectors = 1200").contains("groups of")
        );
        assert!(Report::from_toml("target = 1").is_err());
        assert!(why("period_ns", "periods").contains("expected what was found"));
    }
}
