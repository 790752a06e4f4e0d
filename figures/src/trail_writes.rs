//! What the variants of Trail's figure 3 have in common: synchronous writes to random places, by size, sparse and clustered, by one process
//! and five. It says what is asked and how it is shown; on which disks, and what is taken from them, is each figure's own.

use crate::chart::BarChart;
use crate::paced::Paced;
use crate::paper::PAPERS;
use crate::report::Row;
use nearhead_service::Service;
use nearhead_sim::workload::{Content, RandomMix, RandomMixOptions};

const PROCESSES: [u32; 2] = [1, 5];
/// Writes a second of each process in the sparse mode: a pause of several revolutions, in which Trail moves its head.
pub(crate) const SPARSE_PER_S: f64 = 10.0;

/// When the next write comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Sparse,
    Clustered,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sparse => "sparse",
            Self::Clustered => "clustered",
        }
    }
}

/// One bar of the paper's figure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) mode: Mode,
    processes: u32,
    bytes: u32,
}

/// What one system made of it, as far as the paper shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) mean_ms: f64,
    /// Waiting for a sector to come round, for each write to the medium.
    pub(crate) rotation_ms: f64,
}

/// All bars with writes of these sizes.
pub(crate) fn cases(sizes: &[u32]) -> Vec<Case> {
    let modes = [Mode::Sparse, Mode::Clustered].into_iter();
    let crowds = modes.flat_map(|mode| PROCESSES.map(|processes| (mode, processes)));
    let of =
        |(mode, processes)| sizes.iter().map(move |bytes| Case { mode, processes, bytes: *bytes });
    crowds.flat_map(of).collect()
}

impl Case {
    /// While it runs.
    pub(crate) fn step(&self) -> String {
        format!("{} {} {}", self.mode.name(), self.processes, self.bytes)
    }

    /// The columns of a table that say which it is: mode, processes, bytes.
    pub(crate) fn columns(&self) -> [String; 3] {
        [self.mode.name().to_owned(), self.processes.to_string(), self.bytes.to_string()]
    }

    fn size(&self) -> String {
        let bytes = self.bytes;
        if bytes < 1024 { format!("{bytes} B") } else { format!("{} KiB", bytes / 1024) }
    }

    /// In words.
    pub(crate) fn told(&self) -> String {
        let crowd = if self.processes == 1 { "one process" } else { "five processes" };
        format!("{}, {}, {crowd}", self.mode.name(), self.size())
    }

    /// Who writes to all of a volume.
    pub(crate) fn writer(&self, volume: &impl Service) -> Paced<RandomMix> {
        let writer = RandomMix::new(RandomMixOptions {
            span: 0..volume.info().size_bytes,
            request_bytes: self.bytes,
            reads: 0.0,
            fua: true,
            outstanding_max: self.processes,
            requests_max: None,
            content: Content::Phantom,
            seed: 1,
        });
        let rate = (self.mode == Mode::Sparse).then_some(SPARSE_PER_S * f64::from(self.processes));
        Paced::new(writer, rate)
    }

    /// What is told of it, beside what the paper says in words: of one process and 4 KiB.
    pub(crate) fn rows(&self, baseline: Times, ours: Times) -> Vec<Row> {
        let told = self.told();
        let is_in_words = self.processes == 1 && self.bytes == 4 << 10;
        let mut rows = vec![
            Row::new(format!("a synchronous write, {told}"), "ms")
                .paper(is_in_words.then_some(PAPERS.trail.sync_write_ms_4k))
                .baseline(baseline.mean_ms)
                .ours(ours.mean_ms),
        ];
        if self.processes == 1 {
            rows.push(
                Row::new(format!("waiting for the sector, {told}"), "ms")
                    .paper(is_in_words.then_some(PAPERS.trail.mean_rotational_ms))
                    .baseline(baseline.rotation_ms)
                    .ours(ours.rotation_ms),
            );
        }
        rows
    }
}

/// The best of all cases, over what is compared with.
pub(crate) fn speedup_row(over: &str, pairs: impl Iterator<Item = (Times, Times)>) -> Row {
    let best = pairs.map(|(baseline, ours)| baseline.mean_ms / ours.mean_ms).fold(0.0, f64::max);
    Row::new(format!("largest speed-up over {over}"), "x")
        .paper(PAPERS.trail.speedup_max)
        .baseline(1.0)
        .ours(best)
}

/// The cases of one process in one mode; `mean_ms` of a case by its number and that of a system.
pub(crate) fn chart(
    cases: &[Case],
    mode: Mode,
    systems: &[&str],
    mean_ms: impl Fn(usize, usize) -> f64,
) -> BarChart<'static> {
    let shown = |case: &Case| case.mode == mode && case.processes == 1;
    let numbers: Vec<usize> = (0..cases.len()).filter(|at| shown(&cases[*at])).collect();
    let of = |system| numbers.iter().map(|at| mean_ms(*at, system)).collect();
    BarChart {
        title: match mode {
            Mode::Sparse => "A synchronous write of one process, sparse",
            Mode::Clustered => "A synchronous write of one process, clustered",
        },
        unit: "ms, logarithmic",
        groups: numbers.iter().map(|at| cases[*at].size()).collect(),
        series: systems.iter().enumerate().map(|(at, name)| ((*name).to_owned(), of(at))).collect(),
        limit: None,
        decades: true,
    }
}
