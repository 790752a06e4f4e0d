//! `nearhead detach`: the block device goes, everything is durable, and nobody who uses it is left without it.
//!
//! The order: who uses it is asked to leave or named; then the device is taken away, which also proves that nobody does; the worker sees that
//! there is nothing more to do, makes everything durable and ends, and the supervisor after it. It works without a supervisor as well.

use super::backend::{self, Backend};
use super::mounts::points_of;
use super::place::{Facts, Place};
use crate::checkpoint::{self, CheckpointArgs};
use crate::target::DiskArgs;
use nearhead_output::{note, say};
use std::path::Path;
use std::process::{Command, Stdio};

/// What `nearhead detach` is told.
#[derive(clap::Args, Debug)]
pub struct DetachArgs {
    /// The attached volume: its name, /dev/nearhead/NAME, its device or its target
    pub what: String,
    /// Unmount first what is mounted from it
    #[arg(long)]
    pub unmount: bool,
    /// Bring everything home first, so that nothing is in the logs
    #[arg(long)]
    pub drain: bool,
    /// Also if somebody uses it, or nobody answers: whoever does gets errors. What was not flushed may be lost
    #[arg(long, conflicts_with = "drain")]
    pub force: bool,
}

/// Runs the command.
pub fn run(args: &DetachArgs) -> Result<(), String> {
    let (place, facts) = Place::find(&args.what)?;
    let (backend, was_held) = (backend::named(&facts.by)?, place.is_held());
    if args.unmount {
        unmount(&facts.device)?;
    }
    if args.force {
        note(&format!("detach {}: by force", place.name));
        backend.give_up(&place, Some(&facts.device))?;
    } else {
        refuse_if_used(&place, &facts)?;
        if args.drain {
            drain(&facts)?;
        }
        take_away(&place, &facts, backend)?;
    }
    place.wait_until_left().map_err(|error| format!("detach {}: {error}", place.name))?;
    if !was_held {
        place.remove();
    }
    let how = match (args.force, was_held) {
        (true, _) => "",
        (false, true) => ": everything is durable",
        (false, false) => {
            "; nobody supervised it, `nearhead status` on its target tells once its worker has ended"
        }
    };
    say(&format!("detached {}{how}", place.name));
    Ok(())
}

/// Takes the device away if nobody uses it.
pub(super) fn take_away(
    place: &Place,
    facts: &Facts,
    backend: &'static dyn Backend,
) -> Result<(), String> {
    refuse_if_used(place, facts)?;
    backend.take_away(place, facts).map_err(|error| format!("detach {}: {error}", place.name))
}

fn refuse_if_used(place: &Place, facts: &Facts) -> Result<(), String> {
    let Some((user, advice)) = nearhead_uring::user_of(&facts.device) else { return Ok(()) };
    Err(format!(
        "detach {}: expected that nobody uses {}, found {user}; {advice}",
        place.name,
        facts.device.display()
    ))
}

/// Unmounts whatever is mounted from `device`, the last first.
fn unmount(device: &Path) -> Result<(), String> {
    for point in points_of(device) {
        let output = Command::new("umount").arg(&point).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("umount {}: {error}", point.display()))?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        note(&format!("unmounted {}", point.display()));
    }
    Ok(())
}

fn drain(facts: &Facts) -> Result<(), String> {
    let args = CheckpointArgs {
        target: facts.target.clone(),
        control: facts.control.clone(),
        timeout: None,
        stop: false,
        json: false,
        disk: DiskArgs::default(),
    };
    checkpoint::run(&args, true)
}
