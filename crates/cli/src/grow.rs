//! `nearhead grow`: extends a volume over a device or image that became larger.

use crate::offline;
use crate::target::{Access, DiskArgs, Target, refuse_if_misnamed};
use crate::units::ByteSize;
use nearhead_output::{say, say_json};
use nearhead_volume::grow;
use serde::Serialize;

/// What `nearhead grow` is told.
#[derive(clap::Args, Debug)]
pub struct GrowArgs {
    /// Block device, image file, model:PROFILE,file=PATH, or several as raid0:A,B or mirror:A,B; not being served
    pub target: String,
    /// Say what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Report as JSON
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    /// How the disk is driven.
    pub disk: DiskArgs,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    target: &'a str,
    done: bool,
    client_bytes_before: u64,
    client_bytes_after: u64,
    groups_before: u32,
    groups_after: u32,
    /// Groups for which the snapshots, sized at creation, have no room.
    groups_left_out: u64,
    /// Share of the logs' blocks that the map has room for.
    map_room_pct: u64,
}

/// Runs the command.
pub fn run(args: &GrowArgs) -> Result<(), String> {
    let mut target = Target::open(&args.target, Access::Write, &args.disk)?;
    refuse_if_misnamed(&mut target)?;
    let growth = grow::plan(&mut target.io()).map_err(|error| error.to_string())?;
    if !args.dry_run {
        // Recovered and closed in order first: the map rests in a snapshot.
        target = offline::on(target, Access::Write, false)?.close()?;
        grow::grow(&mut target.io(), &growth).map_err(|error| error.to_string())?;
        target.leave()?;
    }
    let (before, after) = (&growth.before.layout, &growth.after.layout);
    let report = Report {
        target: &args.target,
        done: !args.dry_run,
        client_bytes_before: before.client_bytes(),
        client_bytes_after: after.client_bytes(),
        groups_before: before.group_count,
        groups_after: after.group_count,
        groups_left_out: growth.groups_left_out,
        map_room_pct: growth.map_room_pct,
    };
    if args.json {
        return say_json(&report);
    }
    say(&format!(
        "{} {}: from {} in {} groups to {} in {}",
        if report.done { "grew" } else { "would grow" },
        args.target,
        ByteSize(report.client_bytes_before),
        report.groups_before,
        ByteSize(report.client_bytes_after),
        report.groups_after,
    ));
    if report.map_room_pct < 100 {
        say(&format!(
            "the map, whose room was fixed at creation, can hold {} % of what the logs can; past that \
             small writes go in place (see create --grow-to)",
            report.map_room_pct
        ));
    }
    if report.groups_left_out > 0 {
        say(&format!(
            "{} more groups would fit the device, but not the snapshots, whose size was fixed at creation \
             (see create --grow-to)",
            report.groups_left_out
        ));
    }
    Ok(())
}
