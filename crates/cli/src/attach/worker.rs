//! The process that works for an attached volume: `nearhead serve` for a connection that it was given as its standard input.
//!
//! It has the volume and nothing else. It may be killed at any moment: its supervisor starts another one.

use super::AttachArgs;
use super::backend::HandedOver;
use super::identity::Identity;
use super::place::Place;
use crate::serve::{Handed, Showing, serve};
use nearhead_one_file::Connection;
use nearhead_output::say_json_line;
use nearhead_settings::{DiskArgs, Opener, ServeArgs};
use nearhead_ublk::BlockShape;
use serde::Serialize;
use std::os::fd::AsFd;
use std::path::Path;

/// Tells the supervisor why this process ends.
#[derive(Debug, Serialize)]
struct Failed<'a> {
    event: &'static str,
    problem: &'a str,
}

/// Serves until the device is taken away or a signal stops it.
pub(super) fn run(args: &AttachArgs) -> Result<(), String> {
    // Its own name for tools that list processes: it was started as a descriptor's number.
    let _ = std::fs::write("/proc/self/comm", "nearhead-worker");
    let served = serve_for(args);
    if let Err(problem) = &served {
        let _ = say_json_line(&Failed { event: "failed", problem });
    }
    served
}

fn serve_for(args: &AttachArgs) -> Result<(), String> {
    let (place, settings, identity) = match &args.exactly {
        None => {
            let settings = args.serve.merged_with_file()?;
            (Place::of(&settings, args.name.as_deref())?, settings, None)
        }
        Some(path) => {
            let identity = Identity::read(path)?;
            let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
            let place = Place::named(folder.unwrap_or_default())?;
            identity.refuse_other_files()?;
            (place, identity.settings(&args.serve)?, Some(identity))
        }
    };
    let disk = DiskArgs { opener: Opener::Worker(place.name.clone()), ..settings.disk.clone() };
    let device = std::io::stdin().as_fd().try_clone_to_owned();
    let device =
        device.map_err(|error| format!("attach: no connection was handed over: {error}"))?;
    let showing = Showing::HandedOver {
        handed: match args.handed_over {
            HandedOver::File => Handed::File(Connection::inherited(device)),
            HandedOver::Nbd => Handed::Nbd(device),
            HandedOver::Ublk => {
                Handed::Ublk { device, shape: BlockShape { block_bytes: args.block_size.bytes() } }
            }
        },
        kept: place.kept(),
        expected: identity.map(|identity| identity.volume_id),
        settings: place.settings(),
        identity: place.identity(),
        place: place.link().display().to_string(),
    };
    serve(&ServeArgs { json: true, disk, ..settings }, showing)
}
