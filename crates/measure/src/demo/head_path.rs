//! Where the head goes while durable points are written beside a stream: the picture that says why the presets differ.
//!
//! In virtual time always, whatever the rest of the demo ran in: the same clients on the same disk model, watched by a disk that stands
//! before it, changes nothing and delays nothing. Of the window that is drawn every transfer is kept, and no more than [`VISITS_MAX`].

use super::experiment::{self, BulkKind, DISK, PRESETS, Setting, Span};
use super::in_virtual_time;
use nearhead_disk::{Disk, Nanos};
use nearhead_figures::chart::PathChart;
use nearhead_models::Dataless;
use nearhead_study::{Meter, Visits};
use nearhead_volume::NamedPreset;

/// Durable points a second: some in the window, and not so many that the way is a block of ink.
const POINTS_PER_S: u32 = 8;
/// What is drawn begins after the clients have found their pace, and lasts so long.
const WARM_UP: Nanos = Nanos::from_secs(2);
const WINDOW: Nanos = Nanos::from_millis(500);
/// More transfers than any disk with an arm makes in the window.
const VISITS_MAX: usize = 20_000;

/// A place where something was read or written.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Visit {
    /// When the transfer was over.
    at: Nanos,
    offset: u64,
    is_write: bool,
}

/// The head's way with one preset.
pub(crate) struct HeadPath {
    /// The preset.
    pub(crate) preset: &'static str,
    capacity_bytes: u64,
    visits: Vec<Visit>,
}

/// The ways of all presets of the demo.
pub(crate) fn all() -> Result<Vec<HeadPath>, String> {
    PRESETS.into_iter().map(of_preset).collect()
}

fn of_preset(name: &'static str) -> Result<HeadPath, String> {
    let preset = NamedPreset::by_name(name).map_err(|error| error.to_string())?;
    let disk = Meter::new(experiment::disk(Box::new(Dataless))?, true);
    let capacity_bytes = disk.properties().capacity_bytes;
    let span = Span { warm_up: WARM_UP, measured: WINDOW };
    let tracks = in_virtual_time::tracks(DISK, preset)?;
    let mut volume = in_virtual_time::volume(preset, disk, &tracks)?;
    let setting = Setting::usual(BulkKind::Read);
    in_virtual_time::run(&mut volume, setting, Some(POINTS_PER_S), span)?;
    let visits = in_window(&volume.disk_mut().take_visits().unwrap_or_default());
    Ok(HeadPath { preset: name, capacity_bytes, visits })
}

/// Of all transfers those that are drawn.
fn in_window(all: &Visits) -> Vec<Visit> {
    let visit = |index: usize| Visit {
        at: Nanos(all.completed_ns[index]),
        offset: all.offset_bytes[index],
        is_write: all.write[index] == 1,
    };
    let is_within = |visit: &Visit| WARM_UP <= visit.at && visit.at < WARM_UP + WINDOW;
    (0..all.completed_ns.len()).map(visit).filter(is_within).take(VISITS_MAX).collect()
}

impl HeadPath {
    /// How far the head went, as a share of the disk's addresses in percent: 100 is from one end to the other.
    pub(crate) fn way_pct(&self) -> f64 {
        let pairs = self.visits.iter().zip(self.visits.iter().skip(1));
        let bytes: u64 = pairs.map(|(from, to)| from.offset.abs_diff(to.offset)).sum();
        100.0 * bytes as f64 / self.capacity_bytes as f64
    }

    /// The chart: address against time.
    pub(crate) fn chart(&self) -> Result<String, String> {
        let place = |visit: &Visit| {
            (visit.at.since(WARM_UP).as_secs_f64() * 1e3, visit.offset as f64 / 1e9)
        };
        let of = |is_write: bool| {
            self.visits.iter().filter(|visit| visit.is_write == is_write).map(place).collect()
        };
        let way = self.way_pct() / 100.0;
        PathChart {
            title: &format!("{}: the head went over the disk {way:.1} times", self.preset),
            x_label: "ms",
            y_label: "address, GB",
            ends: (WINDOW.as_secs_f64() * 1e3, self.capacity_bytes as f64 / 1e9),
            path: ("the head's way".to_owned(), self.visits.iter().map(place).collect()),
            marks: vec![
                ("read by the stream".to_owned(), of(false)),
                ("written".to_owned(), of(true)),
            ],
        }
        .render()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_goes_far_for_writes_in_place_less_far_to_one_log_and_hardly_to_the_nearest() {
        let ways: Vec<f64> = all().unwrap().iter().map(HeadPath::way_pct).collect();
        let [in_place, one_log, near, nearhead] = ways[..] else { panic!("{ways:?}") };
        assert!(in_place > 2.0 * one_log, "{ways:?}");
        assert!(one_log > 4.0 * near && one_log > 4.0 * nearhead, "{ways:?}");
    }

    #[test]
    fn what_is_drawn_is_what_the_stream_read_and_the_points_wrote() {
        let path = of_preset("nolog").unwrap();
        // Twenty writes of each of four points, and a stream that reads all the time.
        let writes = path.visits.iter().filter(|visit| visit.is_write).count();
        assert!((40..=120).contains(&writes), "{writes}");
        assert!(path.visits.iter().filter(|visit| !visit.is_write).count() > 40);
        assert!(path.visits.windows(2).all(|pair| pair[0].at <= pair[1].at));
        assert!(path.chart().unwrap().contains("<circle"));
    }
}
