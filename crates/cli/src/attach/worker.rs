//! The process that works for an attached volume: `nearhead serve` for a connection that it was given as its standard input.
//!
//! It has the volume and nothing else. It may be killed at any moment: whoever started it starts another one.

use super::AttachArgs;
use super::backend::HandedOver;
use super::place::Place;
use crate::serve::{Handed, Showing, serve};
use nearhead_one_file::Connection;
use nearhead_settings::ServeArgs;
use nearhead_ublk::BlockShape;
use std::os::fd::AsFd;

/// Serves until the device is taken away or a signal stops it.
pub(super) fn run(args: &AttachArgs, settings: ServeArgs) -> Result<(), String> {
    let place = Place::of(&settings, args.name.as_deref())?;
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
        place: place.link().display().to_string(),
    };
    serve(&ServeArgs { json: true, ..settings }, showing)
}
