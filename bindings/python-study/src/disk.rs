//! Modelled disks, and the presets that volumes on them may have.

use crate::told;
use nearhead_disk::Properties;
use nearhead_models::{Drive, Profile};
use nearhead_study::{Disks, Made, Modelled, OnDisk};
use nearhead_volume::PRESETS;
use pyo3::prelude::*;
use serde_json::json;

/// A modelled disk, or several as one.
#[pyclass(frozen, module = "nearhead._native")]
pub(crate) struct Disk {
    pub(crate) disks: Disks,
    facts: String,
}

/// What a host may know of a disk.
struct Facts;

impl OnDisk for Facts {
    type Outcome = Properties;

    fn run<D: Modelled>(self, disks: Made<D>) -> Result<Properties, String> {
        let others = disks.data.iter().chain(&disks.logs);
        let others: u64 = others.map(|disk| disk.properties().capacity_bytes).sum();
        let own = disks.disk.properties();
        Ok(Properties { capacity_bytes: own.capacity_bytes + others, ..own.clone() })
    }
}

#[pymethods]
impl Disk {
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        let disks = Disks::parse(text).map_err(told)?;
        let facts = facts_of(&disks).map_err(told)?;
        Ok(Self { disks, facts })
    }

    /// Names of the profiles that come along.
    #[staticmethod]
    fn names() -> Vec<&'static str> {
        Drive::known_names().collect()
    }

    /// What is known of it, as JSON.
    fn facts(&self) -> &str {
        &self.facts
    }

    /// Every number of its drives, as a text that is the same wherever they are the same.
    fn numbers(&self) -> String {
        let drives: Vec<&Drive> = self.disks.drives().collect();
        format!("{drives:?}")
    }
}

fn facts_of(disks: &Disks) -> Result<String, String> {
    let properties = disks.with(None, Facts)?;
    let drives: Vec<&Drive> = disks.drives().collect();
    let mut descriptions: Vec<&str> = drives.iter().map(|drive| drive.description()).collect();
    descriptions.dedup();
    let parts = drives.iter().find_map(|drive| drive.parts());
    let seeks =
        |parts: &Profile| parts.seek.points_ms.iter().map(|(_, ms)| *ms).fold(0.0, f64::max);
    let per_minute = |period: nearhead_disk::Nanos| (60e9 / period.0 as f64).round() as u64;
    let facts = json!({
        "name": disks.asked(),
        "description": descriptions.join(", "),
        "kind": match drives[..] {
            _ if disks.are_several() => "devices",
            [one] => one.kind(),
            _ => "array",
        },
        "drives": drives.len(),
        "capacity_bytes": properties.capacity_bytes,
        "sector_bytes": properties.sector_bytes,
        "physical_sector_bytes": properties.physical_sector_bytes,
        "revolutions_per_minute": properties.rotation_period.map(per_minute),
        "seek_ms_max": parts.map(seeks),
        "queue_depth": properties.queue_depth_max,
        "write_cache": properties.volatile_cache,
        "warnings": disks.warnings(),
    });
    Ok(facts.to_string())
}

/// Name and summary of each preset.
#[pyfunction]
pub(crate) fn presets() -> Vec<(&'static str, &'static str)> {
    PRESETS.iter().map(|preset| (preset.name, preset.summary)).collect()
}
