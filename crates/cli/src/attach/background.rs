//! The command `attach` itself: starts the process that supervises, and waits until there is a device.
//!
//! Lines that the supervisor logs until then are shown here. Ctrl-C takes back what was begun, and says so. This must never end before the
//! supervisor without a message about what goes on.

use super::place::Place;
use super::{AttachArgs, arguments_for, backend, mounting};
use crate::in_background::{self, Started};
use nearhead_output::{note, pass_on_json, say};
use std::fmt::Display;
use std::process::Command;

/// Message at Ctrl-C.
const INTERRUPTED: &str = "interrupted: nothing stays attached; this ends once its processes have";
/// Part of the message about a device that was never made a volume.
const NO_VOLUME: &str = "expected a Nearhead volume, found no sound superblock";

/// Runs the command.
pub(super) fn attach(args: &AttachArgs, place: &Place) -> Result<(), String> {
    // Found out here, where the user sees it.
    backend::chosen(args.by)?;
    if let Some(folder) = &args.mount {
        mounting::refuse_folder(folder)?;
    }
    let _ = place.take_word();
    let begun = begin(args, place);
    if begun.is_err() {
        place.remove_attempt();
    }
    begun?;
    match &args.mount {
        Some(folder) => mounting::mount(place, folder),
        None => Ok(()),
    }
}

/// Starts the supervisor, and waits until it has made the device.
fn begin(args: &AttachArgs, place: &Place) -> Result<(), String> {
    place.prepare()?;
    drop(place.lock()?);
    let failed = |why: &dyn Display| format!("attach: {why}");
    let mut command = Command::new(std::env::current_exe().map_err(|error| failed(&error))?);
    command.args(arguments_for("supervisor"));
    let started = in_background::start(&mut command, &place.log(), INTERRUPTED);
    let Started { line, messages: mut lines } = started.map_err(|why| failed(&why))?;
    let Some(line) = line else {
        // It is reported here.
        let _ = place.take_word();
        let why = lines.pop().unwrap_or_else(|| {
            format!("attach {}: it ended before there was a device", place.name)
        });
        // The worker logged the same before.
        lines.iter().filter(|line| !why.contains(line.as_str())).for_each(|line| note(line));
        let is_blank = why.contains(NO_VOLUME);
        let advice = if is_blank { "; to make a volume on it: `nearhead create`" } else { "" };
        return Err(why + advice);
    };
    for line in &lines {
        note(line);
    }
    if args.serve.json {
        pass_on_json(line.trim_end());
    } else {
        say(&place.link().display().to_string());
    }
    Ok(())
}
