//! `nearhead disk list`: the profiles, with the facts people choose by.

use crate::output::{say, say_json};
use crate::units::ByteSize;
use nearhead_models::{Profile, QueuePolicy};
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
    capacity_bytes: u64,
    sector_bytes: u32,
    physical_sector_bytes: u32,
    revolutions_per_minute: u64,
    /// The longest seek in the profile, for a read.
    seek_ms_max: f64,
    queue_depth: u16,
    queue_policy: QueuePolicy,
    write_cache: bool,
}

/// Runs the command.
pub fn run(args: &DiskListArgs) -> Result<(), String> {
    let mut disks = Vec::new();
    for name in Profile::known_names() {
        let profile = Profile::named(name).map_err(|error| error.to_string())?;
        disks.push(report(&profile));
    }
    if args.json {
        return say_json(&disks);
    }
    for disk in &disks {
        say(&format!(
            "{:<24}{}: {}, {} rpm, sectors of {} ({} on the medium), write cache {}",
            disk.name,
            disk.description,
            ByteSize(disk.capacity_bytes),
            disk.revolutions_per_minute,
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

fn report(profile: &Profile) -> DiskReport {
    let seeks = profile.seek.points_ms.iter().map(|(_, ms)| *ms);
    DiskReport {
        name: profile.name.clone(),
        description: profile.description.clone(),
        capacity_bytes: profile.capacity_bytes(),
        sector_bytes: profile.sector_bytes,
        physical_sector_bytes: profile.physical_sector_bytes,
        revolutions_per_minute: (60e9 / profile.period_ns as f64).round() as u64,
        seek_ms_max: seeks.fold(0.0, f64::max),
        queue_depth: profile.queue.depth,
        queue_policy: profile.queue.policy,
        write_cache: profile.cache.write_cache,
    }
}
