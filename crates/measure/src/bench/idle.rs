//! Resident memory of an idle 20 TB volume, in a process of its own.
//!
//! The process makes the volume on the modelled 20 TB drive, opens it as `serve` does, waits (in
//! virtual time) for an hour without requests, and tells what is resident.

use super::Effort;
use super::machine::resident_bytes;
use super::row::{Row, Target};
use nearhead_disk::Nanos;
use nearhead_models::{HddModel, HddOptions, MemoryStore, Profile};
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_study::dataless::{Answers, create_options};
use nearhead_volume::{NamedPreset, SyncIo, Volume, create};
use std::path::Path;
use std::process::Command;

const DISK: &str = "exos-x20-20tb";
/// Long enough for everything that an idle volume still does.
const IDLE: Nanos = Nanos::from_secs(3600);

pub(super) fn measure(_effort: Effort, _folder: &Path) -> Result<Vec<Row>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program).args(["bench", "--measure-idle"]).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let figures: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    let Some([size_bytes, logs, resident]) = figures.as_deref() else {
        let told = String::from_utf8_lossy(&output.stderr);
        return Err(format!("expected three figures from a child process, found {text:?} {told}"));
    };
    let mib = *resident as f64 / f64::from(1 << 20);
    let detail = format!("{:.1} TB served, {logs} logs", *size_bytes as f64 / 1e12);
    Ok(vec![Row::new("idle_20tb_resident_mib", Target::AtMost(256.0), mib, detail)])
}

/// The child's part: prints bytes served, logs, and resident bytes.
pub(super) fn measure_here() -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let profile = Profile::named(DISK).map_err(|error| told(&error))?;
    let store = Box::new(MemoryStore::new());
    let mut disk =
        HddModel::new(&profile, store, HddOptions::default()).map_err(|error| told(&error))?;
    let preset = NamedPreset::by_name("mlb").map_err(|error| told(&error))?;
    let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
    create(&mut io, &create_options(preset, Answers::OnFlush)).map_err(|error| told(&error))?;
    let now = io.now();
    let (mut volume, now) =
        Volume::open_in_virtual_time(disk, now, |_, _| {}).map_err(|error| told(&error))?;
    let now = volume.run_until_open(now).map_err(|error| told(&error))?;
    let mut time = VirtualTime::starting_at(now);
    time.advance_to(&mut volume, now + IDLE).map_err(|error| told(&error))?;
    let (size, logs) = (volume.info().size_bytes, volume.status().logs);
    println!("{size} {logs} {}", resident_bytes());
    Ok(())
}
