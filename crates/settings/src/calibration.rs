//! Calibrations that somebody names: where the tracks of a disk are, or those of each member of an array.

use nearhead_calibrate::Report;
use nearhead_disk::Tracks;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the files say, in their order; nothing of those that say that nothing turns.
pub(crate) fn read(paths: &[PathBuf]) -> Result<Vec<Arc<Tracks>>, String> {
    let found: Result<Vec<_>, _> = paths.iter().map(|path| read_one(path)).collect();
    Ok(found?.into_iter().flatten().map(Arc::new).collect())
}

fn read_one(path: &Path) -> Result<Option<Tracks>, String> {
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

/// In a volume file: one file, or a list of them.
pub(crate) fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Named {
        One(PathBuf),
        Several(Vec<PathBuf>),
    }
    let named = Named::deserialize(from).map_err(|_| {
        D::Error::custom("expected the name of a file, or a list of them, one for each member")
    })?;
    Ok(match named {
        Named::One(path) => vec![path],
        Named::Several(paths) => paths,
    })
}

#[cfg(test)]
mod tests {
    use crate::ServeArgs;
    use std::path::PathBuf;

    #[test]
    fn a_volume_file_names_one_calibration_or_one_for_each_member() {
        for (text, expected) in [
            ("", vec![]),
            ("calibration = \"a.toml\"", vec!["a.toml"]),
            ("calibration = [\"a.toml\", \"b.toml\"]", vec!["a.toml", "b.toml"]),
        ] {
            let found = ServeArgs::from_text(text).unwrap().calibration;
            assert_eq!(found, expected.into_iter().map(PathBuf::from).collect::<Vec<_>>());
        }
        let error = ServeArgs::from_text("calibration = 7").unwrap_err();
        assert!(error.contains("expected the name of a file, or a list"), "{error}");
    }
}
