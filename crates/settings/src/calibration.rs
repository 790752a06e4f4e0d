//! A calibration that somebody names: where the tracks of a disk are.

use nearhead_calibrate::Report;
use nearhead_disk::Tracks;
use std::path::Path;

/// What the file says; none if it says that nothing turns.
pub(crate) fn read(path: &Path) -> Result<Option<Tracks>, String> {
    let told = |error: &dyn std::fmt::Display| {
        format!(
            "--calibration {}: {error}; expected what `nearhead calibrate --out` writes",
            path.display()
        )
    };
    let text = std::fs::read_to_string(path).map_err(|error| told(&error))?;
    let report = Report::from_toml(&text).map_err(|error| told(&error))?;
    report.tracks().map_err(|error| told(&error))
}
