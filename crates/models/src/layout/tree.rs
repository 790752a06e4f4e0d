//! A layout as an index tree: patterns of tracks, repeated by tables that repeat each other.
//!
//! The layout of DiskSim's `dm_layout_g4`, as `DIXtrac` extracts it from drives with serpentine
//! tracks. A row of a table says where a pattern or another table begins, how often it is repeated
//! and how far each repetition is turned; the last table is the root. Slipped sectors are counted
//! in the address space of the tree, remapped ones by logical block (`remaps`).

use super::remaps::{TreeRemap, remap};
use super::runs::{RUNS_MAX, Run, RunMap};
use crate::angle::Angle;
use serde::Deserialize;

/// The tree.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeSpec {
    /// `[first sector, last sector, sectors per track]` of each pattern.
    pub patterns: Vec<(u32, u32, u32)>,
    /// Tables of rows; the last one is the root.
    pub tables: Vec<Vec<TreeRow>>,
    /// `[address, sectors]` that hold no block, ascending.
    #[serde(default)]
    pub slips: Vec<(u64, u64)>,
    /// Blocks that are elsewhere.
    #[serde(default)]
    pub remaps: Vec<TreeRemap>,
}

/// Repetitions of a pattern or table: `[address, cylinder, angle, blocks, cylinders, turn, blocks
/// in all, cylinders in all, "track" or "table", which, head]`; addresses, cylinders and angles
/// relative to where the table itself begins. A negative number of cylinders in all goes inwards
/// to outwards.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TreeRow(
    /// First block.
    pub u64,
    /// First cylinder.
    pub u32,
    /// Angle of the first block, in revolutions.
    pub f64,
    /// Blocks of one repetition.
    pub u64,
    /// Cylinders from one repetition to the next.
    pub u32,
    /// Turn from one repetition to the next, in revolutions.
    pub f64,
    /// Blocks of all repetitions.
    pub u64,
    /// Cylinders of all repetitions; their sign is the direction.
    pub i64,
    /// What is repeated: `track` or `table`.
    pub String,
    /// Number of the pattern or table.
    pub usize,
    /// Head, for a track.
    #[serde(default)]
    pub u16,
);

/// Deepest nesting of tables.
const DEPTH_MAX: usize = 16;
/// Largest address: far beyond any disk, and far from overflow.
const ADDRESS_MAX: u64 = 1 << 48;
/// Most repetitions of tables that are walked through.
const STEPS_MAX: u64 = 16_000_000;

impl TreeSpec {
    /// Compiles the layout of a disk with `blocks` logical blocks.
    pub fn compile(&self, heads: u16, cylinders: u32, blocks: u64) -> Result<RunMap, String> {
        self.compile_traced(heads, cylinders, blocks).map(|(runs, _)| runs)
    }

    /// The same, and for each run the row that it comes from.
    pub fn compile_traced(
        &self,
        heads: u16,
        cylinders: u32,
        blocks: u64,
    ) -> Result<(RunMap, Vec<Origins>), String> {
        let root = self.tables.len().checked_sub(1).ok_or("a tree needs a table")?;
        let rows = self.tables.iter().flatten().flat_map(|row| [row.0, row.3, row.6]);
        let slips = self.slips.iter().flat_map(|&(at, count)| [at, count]);
        if let Some(found) = rows.chain(slips).find(|&address| address > ADDRESS_MAX) {
            return Err(format!("expected addresses of a tree up to {ADDRESS_MAX}, found {found}"));
        }
        if self.slips.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
            return Err("the slips of a tree must ascend".to_owned());
        }
        let slips = &self.slips;
        let mut builder = Builder {
            tree: self,
            runs: Vec::new(),
            origins: Vec::new(),
            zeros: Vec::new(),
            zero: Angle(0),
            under: (0, 0),
            steps: 0,
            next: 0,
            left: blocks,
            slips,
            reached: 0,
        };
        builder.table(root, Origin { lbn: 0, cylinder: 0, angle: Angle(0) }, u64::MAX, 0)?;
        if builder.left > 0 {
            let held = blocks - builder.left;
            return Err(format!("the tree holds {held} blocks, expected {blocks}"));
        }
        let (mut runs, mut origins) = (builder.runs, builder.origins);
        remap(&self.remaps, &mut runs, &mut origins, &builder.zeros)?;
        RunMap::new(runs, u32::from(heads), cylinders).map(|runs| (runs, origins))
    }

    /// Addresses of the root less the slipped ones: the most blocks the tree can hold.
    pub fn blocks(&self) -> u64 {
        let rows = self.tables.last().map_or(&[][..], |rows| rows.as_slice());
        let addresses = rows.iter().map(|row| row.0.saturating_add(row.6)).max().unwrap_or(0);
        let slipped = self.slips.iter().filter(|(address, _)| *address < addresses);
        addresses.saturating_sub(slipped.map(|(_, sectors)| sectors).sum())
    }
}

/// The row that a run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origins {
    /// Its table.
    pub table: usize,
    /// Its number in the table.
    pub row: usize,
    /// Which of its repetitions the run begins with.
    pub repetition: u64,
    /// Row of the root under which it is.
    pub root_row: usize,
    /// Which of that row's repetitions.
    pub root_repetition: u64,
}

/// Where a table or track begins.
#[derive(Clone, Copy)]
struct Origin {
    lbn: u64,
    cylinder: i64,
    angle: Angle,
}

struct Builder<'a> {
    tree: &'a TreeSpec,
    runs: Vec<Run>,
    origins: Vec<Origins>,
    /// Angle of sector 0 of each run's first piece, and of the piece being placed.
    zeros: Vec<Angle>,
    zero: Angle,
    /// Row and repetition of the root where the builder is.
    under: (usize, u64),
    /// Repetitions walked through.
    steps: u64,
    /// Next logical block to place.
    next: u64,
    /// Logical blocks not placed yet.
    left: u64,
    /// Slips not passed yet.
    slips: &'a [(u64, u64)],
    /// Address up to which the tree has been walked.
    reached: u64,
}

impl Builder<'_> {
    fn table(&mut self, table: usize, at: Origin, end: u64, depth: usize) -> Result<(), String> {
        let rows = self.tree.tables.get(table).filter(|_| depth < DEPTH_MAX).ok_or_else(|| {
            let tables = self.tree.tables.len();
            format!(
                "expected one of {tables} tables nested at most {DEPTH_MAX} deep, found {table}"
            )
        })?;
        for (number, row) in rows.iter().enumerate() {
            if depth == 0 {
                self.under = (number, 0);
            }
            let start = at.lbn.saturating_add(row.0);
            if self.left == 0 || start >= end {
                break;
            }
            if row.3 == 0 || row.6 == 0 {
                return Err(format!("table {table} has an empty row at {}", row.0));
            }
            let origin = Origin {
                lbn: start,
                cylinder: at.cylinder + i64::from(row.1),
                angle: at.angle.plus(Angle::from_revolutions(row.2)),
            };
            let stop = end.min(start.saturating_add(row.6));
            match row.8.to_ascii_lowercase().as_str() {
                "track" => self.tracks((table, number), row, origin, stop)?,
                "table" => self.repeat(row, origin, stop, depth)?,
                other => return Err(format!("expected \"track\" or \"table\", found {other:?}")),
            }
        }
        Ok(())
    }

    fn repeat(&mut self, row: &TreeRow, at: Origin, end: u64, depth: usize) -> Result<(), String> {
        let mut index = 0;
        while self.left > 0 && at.lbn + index * row.3 < end {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(format!("the tree's tables repeat each other over {STEPS_MAX} times"));
            }
            let origin = step(row, at, index);
            if depth == 0 {
                self.under.1 = index;
            }
            self.table(row.9, origin, end.min(origin.lbn + row.3), depth + 1)?;
            index += 1;
        }
        Ok(())
    }

    fn tracks(
        &mut self,
        (table, number): (usize, usize),
        row: &TreeRow,
        at: Origin,
        end: u64,
    ) -> Result<(), String> {
        let &(low, high, per_track) = self.tree.patterns.get(row.9).ok_or_else(|| {
            let patterns = self.tree.patterns.len();
            format!("expected one of {patterns} patterns, found {}", row.9)
        })?;
        if high < low || high >= per_track {
            return Err(format!(
                "pattern {}: expected sectors of a track of {per_track}, found {low} to {high}",
                row.9
            ));
        }
        let blocks = u64::from(high - low) + 1;
        if blocks > row.3 {
            let (which, held) = (row.9, row.3);
            return Err(format!("pattern {which} has {blocks} blocks, its row says {held}"));
        }
        let low_turn = Angle::of_sector(low, per_track);
        let mut index = 0;
        while self.left > 0 && at.lbn + index * row.3 < end {
            let origin = step(row, at, index);
            self.zero = origin.angle;
            let origin = Origin { angle: origin.angle.plus(low_turn), ..origin };
            let whole = (end - origin.lbn) / row.3;
            let clear =
                self.slips.first().map_or(u64::MAX, |slip| slip.0.saturating_sub(origin.lbn));
            let alike = whole.min(clear / row.3).min(self.left / blocks).min(1 << 30);
            if row.3 == blocks && alike > 0 {
                self.push(row, origin, alike, blocks, per_track)?;
                index += alike;
            } else {
                let stop = end.min(origin.lbn + blocks);
                self.broken(row, origin, stop, per_track)?;
                index += 1;
            }
            let repetition = index - if row.3 == blocks && alike > 0 { alike } else { 1 };
            let (root_row, root_repetition) = self.under;
            let origin = Origins { table, row: number, repetition, root_row, root_repetition };
            self.origins.resize(self.runs.len(), origin);
        }
        Ok(())
    }

    /// A track with slipped sectors in it, or cut short.
    fn broken(
        &mut self,
        row: &TreeRow,
        at: Origin,
        end: u64,
        per_track: u32,
    ) -> Result<(), String> {
        let mut from = at.lbn;
        while from < end && self.left > 0 {
            while self.slips.first().is_some_and(|&(start, count)| start + count <= from) {
                self.slips = &self.slips[1..];
            }
            let (start, count) = self.slips.first().copied().unwrap_or((u64::MAX, 0));
            if start <= from {
                from = start + count;
                continue;
            }
            let blocks = (end.min(start) - from).min(self.left);
            let turned = Angle::of_sector((from - at.lbn) as u32, per_track);
            let origin = Origin { lbn: from, angle: at.angle.plus(turned), ..at };
            self.push(row, origin, 1, blocks, per_track)?;
            from += blocks;
        }
        Ok(())
    }

    fn push(
        &mut self,
        row: &TreeRow,
        at: Origin,
        pieces: u64,
        blocks: u64,
        per_track: u32,
    ) -> Result<(), String> {
        if at.lbn < self.reached || self.runs.len() >= RUNS_MAX {
            return Err(format!("the tree's rows overlap or are too many at address {}", at.lbn));
        }
        self.reached = at.lbn + (pieces - 1) * row.3 + blocks;
        let cylinder = u32::try_from(at.cylinder)
            .map_err(|_| format!("cylinder {} at address {}", at.cylinder, at.lbn))?;
        let step = row.4 as i32 * row.7.signum() as i32;
        self.zeros.push(self.zero);
        self.runs.push(Run {
            first_lbn: self.next,
            pieces: pieces as u32,
            blocks: blocks as u32,
            sectors_per_track: per_track,
            cylinder,
            head: row.10,
            inner: pieces as u32,
            cylinder_step: step,
            head_step: 0,
            outer_cylinder_step: 0,
            start: at.angle,
            turn: Angle::from_revolutions(row.5),
            outer_turn: Angle(0),
        });
        self.next += pieces * blocks;
        self.left -= pieces * blocks;
        Ok(())
    }
}

/// Where repetition `index` of a row that begins at `at` begins.
fn step(row: &TreeRow, at: Origin, index: u64) -> Origin {
    Origin {
        lbn: at.lbn + index * row.3,
        cylinder: at.cylinder + (index as i64).saturating_mul(i64::from(row.4) * row.7.signum()),
        angle: at.angle.plus(Angle::from_revolutions(row.5).times(index)),
    }
}
