//! A disk as a list of runs: tracks that follow each other at equal steps.
//!
//! Runs are sorted by logical block and leave no gap between them. A track that a slipped defect
//! cuts in two is two runs of one piece each, so whoever walks over the disk waits for the hole to
//! pass without knowing of it.

use crate::angle::Angle;
use crate::geometry::Track;

/// Pieces of tracks at equal steps: `inner` of them, then the same again `outer_*` further on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// First logical block.
    pub(crate) first_lbn: u64,
    /// Pieces of tracks.
    pub(crate) pieces: u32,
    /// Blocks on each piece.
    pub(crate) blocks: u32,
    /// Sectors on each whole track.
    pub(crate) sectors_per_track: u32,
    /// Cylinder of the first piece.
    pub(crate) cylinder: u32,
    /// Head of the first piece.
    pub(crate) head: u16,
    /// Pieces before an outer step is taken.
    pub(crate) inner: u32,
    /// Cylinders from piece to piece.
    pub(crate) cylinder_step: i32,
    /// Heads from piece to piece.
    pub(crate) head_step: i16,
    /// Cylinders from one inner run to the next, all on the same heads.
    pub(crate) outer_cylinder_step: i32,
    /// Angle of the first block.
    pub(crate) start: Angle,
    /// Turn from piece to piece.
    pub(crate) turn: Angle,
    /// Turn from one inner run to the next.
    pub(crate) outer_turn: Angle,
}

impl Run {
    fn end_lbn(&self) -> u64 {
        self.first_lbn + u64::from(self.pieces) * u64::from(self.blocks)
    }

    fn piece(&self, index: u32) -> Track {
        let (outer, inner) = (index / self.inner, index % self.inner);
        let cylinder = i64::from(self.cylinder)
            + i64::from(outer) * i64::from(self.outer_cylinder_step)
            + i64::from(inner) * i64::from(self.cylinder_step);
        let head = i64::from(self.head) + i64::from(inner) * i64::from(self.head_step);
        let turned =
            self.outer_turn.times(u64::from(outer)).plus(self.turn.times(u64::from(inner)));
        Track {
            first_lbn: self.first_lbn + u64::from(index) * u64::from(self.blocks),
            blocks: self.blocks,
            sectors_per_track: self.sectors_per_track,
            cylinder: cylinder as u32,
            head: head as u16,
            start: self.start.plus(turned),
        }
    }

    /// Whether every piece lies on a disk of so many heads and cylinders.
    fn fits(&self, heads: u32, cylinders: u32) -> bool {
        let outer = (self.pieces - 1) / self.inner;
        let inner = self.inner.min(self.pieces) - 1;
        let ends = [(0, 0), (outer, 0), (0, inner), (outer, inner)];
        ends.iter().all(|&(outer, inner)| {
            let cylinder = i64::from(self.cylinder)
                + i64::from(outer) * i64::from(self.outer_cylinder_step)
                + i64::from(inner) * i64::from(self.cylinder_step);
            let head = i64::from(self.head) + i64::from(inner) * i64::from(self.head_step);
            (0..i64::from(cylinders).min(CYLINDERS_MAX)).contains(&cylinder)
                && (0..i64::from(heads)).contains(&head)
        })
    }
}

/// Entries of the index over the runs, about.
const INDEX_ENTRIES: u64 = 16_384;
/// Most runs of a disk: a bound on memory (about 80 bytes each) whatever a profile claims.
pub(crate) const RUNS_MAX: usize = 4_000_000;
/// Most cylinders: beyond any disk, and steps over them cannot overflow.
const CYLINDERS_MAX: i64 = 1 << 31;

/// The map from logical blocks to pieces of tracks.
#[derive(Clone, Debug)]
pub struct RunMap {
    runs: Vec<Run>,
    /// For blocks `i << shift` and up, the first run that may hold them.
    index: Vec<u32>,
    shift: u32,
}

impl RunMap {
    /// Checks that `runs` follow each other and lie on the disk; errors say which does not.
    pub(crate) fn new(runs: Vec<Run>, heads: u32, cylinders: u32) -> Result<Self, String> {
        let mut next = 0;
        if runs.is_empty() || runs.len() > RUNS_MAX {
            return Err(format!("expected 1 to {RUNS_MAX} runs of tracks, found {}", runs.len()));
        }
        for run in &runs {
            if run.first_lbn != next || run.pieces == 0 || run.blocks == 0 || run.inner == 0 {
                let found = run.first_lbn;
                return Err(format!("expected tracks from block {next} on, found them at {found}"));
            }
            if run.blocks > run.sectors_per_track {
                let (blocks, sectors) = (run.blocks, run.sectors_per_track);
                return Err(format!("{blocks} blocks at block {next} on a track of {sectors}"));
            }
            if !run.fits(heads, cylinders) {
                return Err(format!(
                    "the tracks from block {next} on leave the disk's {cylinders} cylinders and \
                     {heads} heads"
                ));
            }
            next = run.end_lbn();
        }
        let shift = (next / INDEX_ENTRIES).checked_ilog2().map_or(0, |bits| bits + 1);
        let index = (0..=next >> shift)
            .map(|entry| entry << shift)
            .map(|lbn| runs.partition_point(|run| run.first_lbn <= lbn) as u32 - 1)
            .collect();
        Ok(Self { runs, index, shift })
    }

    /// Logical blocks.
    pub fn blocks(&self) -> u64 {
        self.runs.last().map_or(0, Run::end_lbn)
    }

    /// Cylinders from the first up to the last that holds a block.
    pub fn cylinders_used(&self) -> u32 {
        let last = |run: &Run| {
            let (first, last) = (run.piece(0).cylinder, run.piece(run.pieces - 1).cylinder);
            first.max(last) + 1
        };
        self.runs.iter().map(last).max().unwrap_or(0)
    }

    /// The piece of a track that holds `lbn`, or the disk's last one.
    pub(crate) fn locate(&self, lbn: u64) -> Track {
        let (run, piece) = self.find(lbn);
        self.runs[run].piece(piece)
    }

    /// The run that holds `lbn`, and the piece of it.
    pub fn find(&self, lbn: u64) -> (usize, u32) {
        let lbn = lbn.min(self.blocks() - 1);
        let entry = (lbn >> self.shift) as usize;
        let first = self.index[entry] as usize;
        let last = self.index.get(entry + 1).map_or(self.runs.len() - 1, |&last| last as usize);
        let after = self.runs[first..=last].partition_point(|run| run.first_lbn <= lbn);
        let index = first + after - 1;
        let run = &self.runs[index];
        (index, ((lbn - run.first_lbn) / u64::from(run.blocks)) as u32)
    }
}
