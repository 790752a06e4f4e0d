//! Volumes whose logs are on disks of their own, in front of those that have the data.

use super::{
    FigureDisk, HddOptions, Queue, System, member, options, plan_and_start, plan_and_start_on,
};
use crate::error::FigureError;
use crate::metered::Metered;
use crate::tracks;
use nearhead_disk::{Nanos, Tracks};
use nearhead_volume::open::OpenError;
use nearhead_volume::{Lanes, Volume, create};
use std::sync::Arc;

/// The same on a log device, in front of others that have the data.
pub(crate) fn volume_behind(
    log: FigureDisk,
    data: Vec<FigureDisk>,
    system: &System,
) -> Result<Volume<FigureDisk>, FigureError> {
    let tracks = tracks::of(&log)?;
    let made = plan_and_start(log, data, system, tracks);
    made.map_err(|error| FigureError::setup(format!("a volume for {}", system.name), &error))
}

/// The same with further log disks.
pub(crate) fn volume_behind_several(
    log: FigureDisk,
    (data, logs): (Vec<FigureDisk>, Vec<FigureDisk>),
    system: &System,
) -> Result<Volume<FigureDisk>, FigureError> {
    let tracks = tracks::of(&log)?;
    let others: Result<Vec<_>, _> = logs.iter().map(|log| tracks::of(log)).collect();
    let made = plan_and_start_on(log, (data, logs), system, (tracks, others?));
    made.map_err(|error| FigureError::setup(format!("a volume for {}", system.name), &error))
}

/// So many of the disk `name`, in order, their write caches off; no two turn alike.
pub(crate) fn several(name: &str, count: u32) -> Result<Vec<FigureDisk>, FigureError> {
    let options = HddOptions { write_cache: Some(false), ..Queue::InOrder.options() };
    let one = |index| Ok(Metered::new(Box::new(member(name, index, options)?) as Box<_>));
    (0..count).map(one).collect()
}

/// The same, made and opened as on real disks, which keep what is written to them; and what time it is then.
pub(crate) fn made_behind(
    log: FigureDisk,
    data: Vec<FigureDisk>,
    system: &System,
) -> Result<(Volume<FigureDisk>, Nanos), FigureError> {
    let failed = |error: &dyn ToString| {
        FigureError::setup(format!("a volume for {}", system.name), &error.to_string())
    };
    let tracks = tracks::of(&log)?;
    let mut lanes = Lanes::from(log).with_data(data).map_err(|error| failed(&error))?;
    let mut io = lanes.in_virtual_time(Nanos::ZERO);
    create(&mut io, &options(system)).map_err(|error| failed(&error))?;
    let now = io.now();
    open_behind(lanes, &tracks, system, now)
}

/// Opens it again, as after a crash; says what time it is once requests are answered.
pub(crate) fn open_behind(
    lanes: Lanes<FigureDisk>,
    tracks: &[Arc<Tracks>],
    system: &System,
    now: Nanos,
) -> Result<(Volume<FigureDisk>, Nanos), FigureError> {
    let failed =
        |error: OpenError| FigureError::setup(format!("a volume for {}", system.name), &error);
    let (mut volume, now) = Volume::open_in_virtual_time(lanes, now, |_, config| {
        config.tracks = tracks.to_vec();
        (system.configure)(config);
    })
    .map_err(failed)?;
    let now = volume.run_until_open(now).map_err(failed)?;
    Ok((volume, now))
}
