//! Blocks of a tree that are elsewhere: grown defects, remapped one by one.
//!
//! The six numbers of an entry of `Remaps` in DiskSim's `dm_layout_g4`. A remapped block lies on
//! another track, as far round as that track is turned; where the tree has no block on that track,
//! its turn is unknown and taken as none. Every block still lies in exactly one place.

use super::runs::{RUNS_MAX, Run};
use super::tree::Origins;
use crate::angle::Angle;
use serde::{Deserialize, Serialize};

/// Most entries: each is looked up among all runs of the disk.
const REMAPS_MAX: usize = 16_384;

/// Blocks that were remapped together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TreeRemap {
    /// First logical block.
    pub lbn: u64,
    /// How many.
    pub blocks: u64,
    /// Where they are.
    pub cylinder: u32,
    /// The head of that track.
    pub head: u16,
    /// The sector of the first of them.
    pub sector: u32,
    /// Sectors of that track.
    pub sectors_per_track: u32,
}

/// Moves what was remapped. `zeros` has the angle of sector 0 of each run's first piece.
pub(super) fn remap(
    remaps: &[TreeRemap],
    runs: &mut Vec<Run>,
    origins: &mut Vec<Origins>,
    zeros: &[Angle],
) -> Result<(), String> {
    if remaps.len() > REMAPS_MAX {
        return Err(format!("expected at most {REMAPS_MAX} remaps, found {}", remaps.len()));
    }
    let targets = remaps.iter().map(|remap| target(remap, runs, zeros));
    let targets: Vec<Run> = targets.collect::<Result<_, _>>()?;
    for (remap, target) in remaps.iter().zip(targets) {
        let mut moved = 0;
        while moved < remap.blocks {
            moved += replace(remap.lbn + moved, moved, target, runs, origins)?;
        }
    }
    Ok(())
}

/// Where the blocks of an entry are, as one piece of a track.
fn target(remap: &TreeRemap, runs: &[Run], zeros: &[Angle]) -> Result<Run, String> {
    let TreeRemap { lbn, blocks, sector, sectors_per_track, .. } = *remap;
    let end = u64::from(sector).saturating_add(blocks);
    if blocks == 0 || end > u64::from(sectors_per_track) || sectors_per_track > 1 << 20 {
        return Err(format!(
            "remap of block {lbn}: expected sectors of a track of {sectors_per_track}, found \
             {blocks} from {sector} on"
        ));
    }
    let zero = runs.iter().zip(zeros).find_map(|(run, zero)| {
        let pieces = piece_on(run, remap.cylinder, remap.head)?;
        Some(zero.plus(run.turn.times(u64::from(pieces))))
    });
    let start = zero.unwrap_or(Angle(0)).plus(Angle::of_sector(sector, sectors_per_track));
    Ok(Run {
        first_lbn: lbn,
        pieces: 1,
        blocks: blocks as u32,
        sectors_per_track,
        cylinder: remap.cylinder,
        head: remap.head,
        inner: 1,
        cylinder_step: 0,
        head_step: 0,
        outer_cylinder_step: 0,
        start,
        turn: Angle(0),
        outer_turn: Angle(0),
    })
}

/// Which piece of a run is on that track, if one is.
fn piece_on(run: &Run, cylinder: u32, head: u16) -> Option<u32> {
    let away = i64::from(cylinder) - i64::from(run.cylinder);
    let step = i64::from(run.cylinder_step);
    if run.head != head || (step == 0 && away != 0) {
        return None;
    }
    let piece = if step == 0 { 0 } else { away / step };
    let is_there = piece * step == away && (0..i64::from(run.pieces)).contains(&piece);
    is_there.then_some(piece as u32)
}

/// Moves the blocks from `lbn` on that are in one piece of a track, `moved` of the entry being moved
/// already; says how many these are.
fn replace(
    lbn: u64,
    moved: u64,
    target: Run,
    runs: &mut Vec<Run>,
    origins: &mut Vec<Origins>,
) -> Result<u64, String> {
    let index = runs.partition_point(|run| run.first_lbn <= lbn).wrapping_sub(1);
    let outside = || format!("remap of block {lbn}: expected a block of the disk");
    let (run, origin) = (*runs.get(index).ok_or_else(outside)?, origins[index]);
    let per_piece = u64::from(run.blocks);
    let inside = lbn - run.first_lbn;
    let piece = inside / per_piece;
    if piece >= u64::from(run.pieces) {
        return Err(outside());
    }
    let from = inside % per_piece;
    let count = (per_piece - from).min(u64::from(target.blocks) - moved);
    let rest = from + count;
    let part = |start: u64, blocks: u64| Run {
        first_lbn: run.first_lbn + piece * per_piece + start,
        pieces: 1,
        inner: 1,
        blocks: blocks as u32,
        cylinder: (i64::from(run.cylinder) + piece as i64 * i64::from(run.cylinder_step)) as u32,
        start: run
            .start
            .plus(run.turn.times(piece))
            .plus(Angle::of_sector(start as u32, run.sectors_per_track)),
        ..run
    };
    let there = Run {
        first_lbn: lbn,
        blocks: count as u32,
        start: target.start.plus(Angle::of_sector(moved as u32, target.sectors_per_track)),
        ..target
    };
    let after = part(per_piece, 0);
    let before = Run { pieces: piece as u32, inner: (piece as u32).max(1), ..run };
    let behind = Run {
        first_lbn: after.first_lbn,
        pieces: run.pieces - piece as u32 - 1,
        inner: (run.pieces - piece as u32 - 1).max(1),
        cylinder: (i64::from(run.cylinder) + (piece as i64 + 1) * i64::from(run.cylinder_step))
            as u32,
        start: run.start.plus(run.turn.times(piece + 1)),
        ..run
    };
    let parts = [
        (before, 0),
        (part(0, from), piece),
        (there, piece),
        (part(rest, per_piece - rest), piece),
        (behind, piece + 1),
    ];
    let parts: Vec<_> =
        parts.into_iter().filter(|(run, _)| run.pieces > 0 && run.blocks > 0).collect();
    if runs.len() + parts.len() > RUNS_MAX {
        return Err(format!("remap of block {lbn}: more than {RUNS_MAX} runs of tracks"));
    }
    let origin =
        |(_, piece): &(Run, u64)| Origins { repetition: origin.repetition + piece, ..origin };
    origins.splice(index..=index, parts.iter().map(origin));
    runs.splice(index..=index, parts.iter().map(|(run, _)| *run));
    Ok(count)
}
