//! "Will it help me?": a trace against the bare disk and against volumes, answered by a sentence, with what that rests on.
//!
//! All runs do the same: bulk goes as fast as it gets through, as many requests at once as in the trace; everything else comes at its recorded times (`run.rs`).
//! A run of the bulk alone on the bare disk says what the whole disk is. What a durable point and what bulk is, `nearhead_sim::replay` says;
//! the sentence says only what these runs came to, and where they came to nothing it says so.

mod basis;
mod page;
mod run;
mod table;
mod verdict;

pub use run::{Experiment, Side};
pub use verdict::{Class, Verdict};

use nearhead_sim::replay::Makeup;
use serde::Serialize;

/// The disk that was played on, as its model says.
#[derive(Clone, Debug, Serialize)]
pub struct DiskFacts {
    /// As it was asked for.
    pub asked: String,
    /// What it models.
    pub description: String,
    /// Whether it is one of those that come along, not a file of the user's.
    pub is_built_in: bool,
    /// Whether what it completes may wait in a volatile cache.
    pub write_cache: bool,
    /// How far its response times are from those in the trace, with nothing between, in percent of the mean of these; where the trace has them.
    pub demerit_pct: Option<f64>,
}

/// Everything that the answer is made of.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The trace's name.
    pub trace: String,
    /// What it is made of.
    pub makeup: Makeup,
    /// On what it was played.
    pub disk: DiskFacts,
    /// Bytes a second of the trace's bulk alone on the bare disk.
    pub alone_bytes_per_s: Option<f64>,
    /// The bare disk.
    pub bare: Side,
    /// The presets.
    pub presets: Vec<Side>,
}

/// The answer as programs read it.
#[derive(Clone, Debug, Serialize)]
pub struct Told {
    /// The answer in a word.
    pub class: Class,
    /// In a sentence.
    pub sentence: String,
    /// What it rests on.
    pub rests_on: Vec<String>,
    /// Which of the trace's requests count as durable points.
    pub durability: nearhead_sim::replay::Durability,
    /// On what it was played.
    pub disk: DiskFacts,
    /// Bytes a second of the trace's bulk alone on the bare disk: the whole disk.
    pub alone_bytes_per_s: Option<f64>,
    /// As it was recorded, if the trace says.
    pub recorded: Option<Shown>,
    /// The bare disk.
    pub bare_disk: Shown,
    /// The presets, as they were named.
    pub presets: Vec<Shown>,
}

/// What one of them made of the trace.
#[derive(Clone, Debug, Serialize)]
pub struct Shown {
    /// Preset, or what else it is.
    pub name: String,
    /// Time of durable points.
    pub durable_points: nearhead_sim::LatencySummary,
    /// Bytes a second of bulk while any of it was under way.
    pub bulk_bytes_per_s: Option<f64>,
    /// The same against bulk alone on the bare disk, in percent.
    pub bulk_pct_of_disk: Option<f64>,
    /// How long after the last arrival the last reply came.
    pub late_s: f64,
}

impl Answer {
    /// The answer in a sentence, with its class.
    pub fn verdict(&self) -> Verdict {
        verdict::of(self)
    }

    /// What the sentence rests on, a line each.
    pub fn rests_on(&self) -> Vec<String> {
        basis::lines(self)
    }

    /// The whole answer for a terminal.
    pub fn text(&self) -> String {
        table::text(self)
    }

    /// The whole answer as a page with charts, made by this command.
    ///
    /// # Errors
    /// If a chart cannot be drawn.
    pub fn page(&self, command: &str) -> Result<String, String> {
        page::render(self, command)
    }

    /// The whole answer for programs.
    pub fn told(&self) -> Told {
        let Verdict { class, sentence } = self.verdict();
        let show = |side: &Side| Shown {
            name: side.name.clone(),
            durable_points: nearhead_sim::LatencySummary::of(&side.points),
            bulk_bytes_per_s: side.bulk_bytes_per_s,
            bulk_pct_of_disk: self.pct_of_disk(side),
            late_s: side.late_s,
        };
        Told {
            class,
            sentence,
            rests_on: self.rests_on(),
            durability: self.makeup.durability,
            disk: self.disk.clone(),
            alone_bytes_per_s: self.alone_bytes_per_s,
            recorded: self.recorded().as_ref().map(show),
            bare_disk: show(&self.bare),
            presets: self.presets.iter().map(show).collect(),
        }
    }

    /// What bulk kept of the whole disk, in percent.
    fn pct_of_disk(&self, side: &Side) -> Option<f64> {
        Some(100.0 * side.bulk_bytes_per_s? / self.alone_bytes_per_s.filter(|rate| *rate > 0.0)?)
    }

    /// The device that was traced, as if it were one of those compared.
    fn recorded(&self) -> Option<Side> {
        let recorded = self.makeup.recorded.as_ref()?;
        Some(Side {
            name: RECORDED.to_owned(),
            points: recorded.points.clone(),
            bulk_bytes_per_s: self.makeup.has_bulk().then_some(recorded.bulk_bytes_per_s),
            bulk_over_time: Vec::new(),
            late_s: 0.0,
        })
    }
}

/// What the device that was traced is called beside the others.
const RECORDED: &str = "as recorded";
/// What the disk without a volume is called.
pub const BARE: &str = "bare disk";
