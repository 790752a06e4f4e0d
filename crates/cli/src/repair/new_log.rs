//! `nearhead repair NEW --new-log`: an empty device becomes the log device of a volume that has lost its own.
//!
//! The data devices must have been drained and stopped in order. Nothing is written to them here; the new device has a volume on it
//! only once its superblock is written, last of all, so an interrupted run is simply run again.

use super::RepairArgs;
use crate::target::{Access, DataDevices, open_alone};
use nearhead_output::{say, say_json};
use nearhead_volume::SyncIo;
use nearhead_volume::create::refuse_used_part;
use std::path::Path;
use std::time::Instant;

/// Runs the command.
pub(super) fn run(args: &RepairArgs) -> Result<(), String> {
    let (start, name) = (Instant::now(), args.target.as_str());
    let access = Access::Read;
    let found = DataDevices::open(access, &args.disk, start)?;
    let superblock = found.drained.superblock.clone();
    let needed = superblock.layout.device_bytes;
    if args.dry_run {
        let text = format!("{name} would become the log device: at least {needed} bytes, empty");
        return told(args, &text);
    }
    if !name.contains(':') && !Path::new(name).exists() {
        nearhead_uring::create_image(Path::new(name), needed).map_err(|error| error.to_string())?;
    }
    let mut main = open_alone(name, Access::Write, &args.disk, start)?;
    let capacity = main.properties().capacity_bytes;
    if capacity < needed {
        return Err(format!(
            "repair {name}: expected a device of at least {needed} bytes, as the lost log device had, found {capacity}; use a larger one"
        ));
    }
    refuse_used_part(&mut SyncIo::in_real_time(&mut main, start), capacity)
        .map_err(|error| error.to_string())?;
    found.with_main(main, &superblock, (access, &args.disk, start))?;
    told(
        args,
        &format!(
            "{name} is the log device of the volume now; the old one is refused once the volume was opened with this one"
        ),
    )
}

fn told(args: &RepairArgs, text: &str) -> Result<(), String> {
    if args.json {
        return say_json(
            &serde_json::json!({ "target": args.target, "dry_run": args.dry_run, "new_log": text }),
        );
    }
    say(text);
    Ok(())
}
