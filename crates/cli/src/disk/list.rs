//! `nearhead disk list`: the profiles, with the facts people choose by.

use crate::units::ByteSize;
use nearhead_disk::Disk;
use nearhead_models::{Dataless, Drive, HddOptions, Profile, ProfileError, QueuePolicy};
use nearhead_output::{say, say_json};
use serde::Serialize;

/// What `nearhead disk list` is told.
#[derive(clap::Args, Debug)]
pub struct DiskListArgs {
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Serialize)]
struct DiskReport {
    name: String,
    description: String,
    kind: &'static str,
    capacity_bytes: u64,
    sector_bytes: u32,
    physical_sector_bytes: u32,
    /// Of a disk that turns.
    revolutions_per_minute: Option<u64>,
    /// The longest seek in the profile, for a read.
    seek_ms_max: Option<f64>,
    queue_depth: u16,
    /// Of a disk with an arm.
    queue_policy: Option<QueuePolicy>,
    write_cache: bool,
}

/// Runs the command.
pub fn run(args: &DiskListArgs) -> Result<(), String> {
    let mut disks = Vec::new();
    for name in Drive::known_names() {
        disks.push(report(name).map_err(|error| error.to_string())?);
    }
    if args.json {
        return say_json(&disks);
    }
    for disk in &disks {
        let turns = disk.revolutions_per_minute.map(|rpm| format!("{rpm} rpm, "));
        say(&format!(
            "{:<24}{}: {}, {}sectors of {} ({} on the medium), write cache {}",
            disk.name,
            disk.description,
            ByteSize(disk.capacity_bytes),
            turns.unwrap_or_default(),
            disk.sector_bytes,
            disk.physical_sector_bytes,
            if disk.write_cache { "on" } else { "off" },
        ));
    }
    say(
        "use one as model:NAME,file=PATH, or give the path of a profile of your own in place of NAME",
    );
    Ok(())
}

fn report(name: &str) -> Result<DiskReport, ProfileError> {
    let drive = Drive::named(name)?;
    let disk = drive.build(Box::new(Dataless), HddOptions::default())?;
    let facts = disk.properties();
    let parts = drive.parts();
    let period_ns = facts.rotation_period.map(|period| period.0 as f64);
    let seeks =
        |parts: &Profile| parts.seek.points_ms.iter().map(|(_, ms)| *ms).fold(0.0, f64::max);
    Ok(DiskReport {
        name: drive.name().to_owned(),
        description: drive.description().to_owned(),
        kind: drive.kind(),
        capacity_bytes: facts.capacity_bytes,
        sector_bytes: facts.sector_bytes,
        physical_sector_bytes: facts.physical_sector_bytes,
        revolutions_per_minute: period_ns.map(|period| (60e9 / period).round() as u64),
        seek_ms_max: parts.map(seeks),
        queue_depth: facts.queue_depth_max,
        queue_policy: parts.map(|parts| parts.queue.policy),
        write_cache: facts.volatile_cache,
    })
}
