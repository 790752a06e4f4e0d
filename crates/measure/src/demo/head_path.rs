//! Where the head goes while durable points are written beside a stream: the picture that says why the presets differ.
//!
//! In virtual time always, whatever the rest of the demo ran in: the same clients on the same disk model, watched by a disk that stands
//! before it, changes nothing and delays nothing. Of the window that is drawn it keeps every transfer, and no more than [`VISITS_MAX`].

use super::experiment::{self, BulkKind, PRESETS, Span};
use super::in_virtual_time;
use nearhead_disk::{Command, CommandId, Completion, Disk, Nanos, Properties, Submission};
use nearhead_figures::chart::PathChart;
use nearhead_models::Dataless;
use nearhead_volume::NamedPreset;
use std::collections::BTreeMap;

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

/// A disk that notes where transfers were.
struct Watched<D> {
    disk: D,
    under_way: BTreeMap<CommandId, (u64, bool)>,
    from: Nanos,
    visits: Vec<Visit>,
}

impl<D: Disk> Disk for Watched<D> {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }

    fn properties(&self) -> &Properties {
        self.disk.properties()
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        let place = match &submission.command {
            Command::Read { offset, .. } => Some((*offset, false)),
            Command::Write { offset, .. } | Command::WriteZeroes { offset, .. } => {
                Some((*offset, true))
            }
            Command::Trim { .. } | Command::Flush => None,
        };
        if let Some(place) = place {
            self.under_way.insert(submission.ticket.id(), place);
        }
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        let completion = self.disk.poll(now)?;
        if let Some((offset, is_write)) = self.under_way.remove(&completion.id) {
            let is_within = self.from <= now && now < self.from + WINDOW;
            if is_within && self.visits.len() < VISITS_MAX {
                self.visits.push(Visit { at: now, offset, is_write });
            }
        }
        Some(completion)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.disk.wake_at()
    }
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
    let disk = Watched {
        disk: experiment::disk(Box::new(Dataless))?,
        under_way: BTreeMap::new(),
        from: WARM_UP,
        visits: Vec::new(),
    };
    let capacity_bytes = disk.properties().capacity_bytes;
    let span = Span { warm_up: WARM_UP, measured: WINDOW };
    let mut volume = in_virtual_time::volume(preset, disk)?;
    in_virtual_time::run(&mut volume, BulkKind::Read, Some(POINTS_PER_S), span)?;
    Ok(HeadPath { preset: name, capacity_bytes, visits: volume.disk().visits.clone() })
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
