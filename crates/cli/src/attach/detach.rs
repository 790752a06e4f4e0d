//! `nearhead detach`: the block device goes, everything is durable, and nobody who uses it is left without it.
//!
//! The order: who uses it is asked to leave or named; then the device is taken away, which also proves that nobody does; the worker sees that
//! there is nothing more to do, makes everything durable and ends, and the supervisor after it. It works without a supervisor as well.

use super::backend::{self, Backend};
use super::place::{Facts, Place};
use crate::checkpoint::{self, CheckpointArgs};
use crate::target::DiskArgs;
use nearhead_output::{note, say};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// So often, and after so long each time, it is looked whether somebody still uses a device.
pub(super) const LOOKS: u32 = 20;
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(50);

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
    let backend = backend::named(&facts.by)?;
    if args.unmount && backend.is_there(&place, &facts) {
        unmount(&facts.device)?;
    }
    if args.force {
        note(&format!("detach {}: by force", place.name));
        backend.give_up(&place, Some(&facts.device))?;
    } else {
        refuse_if_used(&place, &facts, backend)?;
        if args.drain {
            drain(&facts)?;
        }
        take_away(&place, &facts, backend)?;
    }
    place.wait_until_left().map_err(|error| format!("detach {}: {error}", place.name))?;
    // Whoever supervises takes everything away before he leaves.
    if place.facts().is_ok() && !place.is_held() {
        // There was none, and its worker goes on alone until now.
        facts.control.iter().for_each(|control| wait_for_worker(control));
        let _ = backend.give_up(&place, Some(&facts.device));
        place.remove();
    }
    match place.take_word() {
        Some(why) if !args.force => return Err(why),
        _ => {}
    }
    let how = if args.force { "" } else { ": everything is durable" };
    say(&format!("detached {}{how}", place.name));
    Ok(())
}

/// Waits until nobody answers commands any more.
fn wait_for_worker(control: &Path) {
    if let Ok(mut stream) = UnixStream::connect(control) {
        // It says nothing unasked, and closes when it ends.
        let _ = stream.read(&mut [0]);
    }
}

/// Takes the device away if nobody uses it.
pub(super) fn take_away(
    place: &Place,
    facts: &Facts,
    backend: &'static dyn Backend,
) -> Result<(), String> {
    refuse_if_used(place, facts, backend)?;
    backend.take_away(place, facts).map_err(|error| format!("detach {}: {error}", place.name))
}

fn refuse_if_used(place: &Place, facts: &Facts, backend: &dyn Backend) -> Result<(), String> {
    if !backend.is_there(place, facts) {
        return Ok(());
    }
    let found = || nearhead_uring::user_of(&facts.device);
    // Who looks at every device there is has it open for a moment, and is no user: udev, blkid, losetup.
    let passes_by = || {
        (0..LOOKS).any(|_| {
            std::thread::sleep(LOOK_AGAIN);
            found().is_none()
        })
    };
    let Some((user, advice)) = found().filter(|_| !passes_by()) else { return Ok(()) };
    Err(format!(
        "detach {}: expected that nobody uses {}, found {user}; {advice}",
        place.name,
        facts.device.display()
    ))
}

/// Unmounts whatever is mounted from `device`, the last first.
fn unmount(device: &Path) -> Result<(), String> {
    for point in nearhead_uring::mount_points_of(device) {
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
