//! Where a modelled disk's tracks are, found out as on a real one: by `nearhead calibrate`'s own steps, in virtual time.
//!
//! It takes five minutes of the disk's time and a moment of ours, and says the same each time: so each disk is asked once.

use crate::error::FigureError;
use crate::rig;
use nearhead_arrays::ARRAY_PREFIXES;
use nearhead_calibrate::tracks_in_virtual_time;
use nearhead_disk::{Disk, Striping, Tracks};
use nearhead_models::MODEL_PREFIX;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

type Found = BTreeMap<String, Option<Arc<Tracks>>>;

thread_local! {
    static FOUND: RefCell<Found> = const { RefCell::new(BTreeMap::new()) };
}

/// Those of the disk that a model of this name is, or of each member of an array of them; none of what does not turn.
pub(crate) fn of(disk: &dyn Disk) -> Result<Vec<Arc<Tracks>>, FigureError> {
    let properties = disk.properties();
    let members = properties.name.strip_prefix(ARRAY_PREFIXES[0]).unwrap_or(&properties.name);
    let models = members.split([',', ' ']).filter_map(|word| word.strip_prefix(MODEL_PREFIX));
    let drives = properties.striping.map_or(1, Striping::members) as usize;
    let names: Vec<&str> = models.take(drives).filter(|_| properties.rotational).collect();
    let found: Result<Vec<_>, _> = names.into_iter().map(of_drive).collect();
    Ok(found?.into_iter().flatten().collect())
}

fn of_drive(name: &str) -> Result<Option<Arc<Tracks>>, FigureError> {
    if let Some(found) = FOUND.with_borrow(|found| found.get(name).cloned()) {
        return Ok(found);
    }
    let tracks = find(name)?;
    FOUND.with_borrow_mut(|found| found.insert(name.to_owned(), tracks.clone()));
    Ok(tracks)
}

fn find(name: &str) -> Result<Option<Arc<Tracks>>, FigureError> {
    let mut disk = rig::twin_of(name)?;
    let found = tracks_in_virtual_time(&mut disk).map_err(|problem| {
        FigureError::setup(format!("finding out where the tracks of {name} are"), &problem)
    });
    Ok(found?.map(Arc::new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::{self, Method, Point, Span};
    use crate::fig2::{self, FIG2A};
    use nearhead_disk::{Nanos, TrackZone, Turn};
    use nearhead_engine::Config;

    fn wrong_tracks(config: &mut Config) {
        rig::off_hours(config);
        let zone = TrackZone {
            first_byte: 0,
            track_bytes: 1_000_448,
            skew: Turn::of(0.07),
            group_tracks: 0,
            group_skew: Turn(0),
            group_bytes: 0,
        };
        config.tracks = vec![Arc::new(Tracks::new(8_333_333.3, vec![zone]).unwrap())];
    }

    fn at_320_writes_a_second(name: &str, wrong: bool) -> Point {
        let method = fig2::methods().unwrap().into_iter().find(|method| method.name == name);
        let mut method: Method = method.unwrap();
        if wrong {
            method.system.configure = wrong_tracks;
        }
        let span = Span { warm_up: Nanos::from_secs(1), measured: Nanos::from_secs(20) };
        let disk = fig2::disk(FIG2A).unwrap();
        contention::point(disk, &method, FIG2A.client(), 16.0, span).unwrap()
    }

    /// In virtual time, so that it is the same on every machine.
    #[test]
    fn known_tracks_make_records_faster_and_those_of_another_drive_make_them_no_slower() {
        let plain = at_320_writes_a_second(fig2::OURS, false);
        let known = at_320_writes_a_second(fig2::NEARHEAD, false);
        let wrong = at_320_writes_a_second(fig2::NEARHEAD, true);
        let told = format!("{plain:?}, known {known:?}, wrong {wrong:?}");
        assert!(known.bytes_per_s > 1.01 * plain.bytes_per_s, "{told}");
        assert!(known.sync_ms_mean < 0.95 * plain.sync_ms_mean, "{told}");
        assert!(wrong.bytes_per_s > 0.95 * plain.bytes_per_s, "{told}");
        assert!(wrong.sync_ms_mean < 1.05 * plain.sync_ms_mean, "{told}");
    }
}
