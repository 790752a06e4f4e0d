//! The raw list of tracks that `DIXtrac` read from a drive: `layout.mappings`, or the map of a layout
//! of the second kind (`track_list`).
//!
//! ```text
//! maxlbn 286749487, blocksize 512
//! 74340 cylinders, 15015 rot, 4 heads
//! lbn 0 --> cyl 0, head 0, sect 0, count 1200
//! Defect at cyl 73951, head 2, sect 28
//! ```
//!
//! Older lists say `seqcnt N` for a count of N + 1. The number of blocks of `layout.mappings` is
//! believed over a model file. Its tracks are used only where the package lacks its layout: they
//! hold no angles.

use super::ImportError;
use super::files::Folder;
use nearhead_models::{TreeRow, TreeSpec};

const FILE: &str = "layout.mappings";

/// A list of tracks.
pub(super) struct Mappings {
    pub(super) blocks: u64,
    tracks: Vec<Track>,
}

/// Blocks that follow each other on a track.
#[derive(Clone, Copy)]
pub(super) struct Track {
    pub(super) lbn: u64,
    pub(super) cylinder: u32,
    pub(super) head: u16,
    pub(super) sector: u32,
    pub(super) count: u32,
}

/// The file of the package's folder, if there is one.
pub(super) fn read(folder: &Folder) -> Result<Option<Mappings>, ImportError> {
    folder.read(FILE)?.map(|text| parse(FILE, &text)).transpose()
}

/// The list that `text`, the text of `file`, is.
pub(super) fn parse(file: &str, text: &str) -> Result<Mappings, ImportError> {
    let mut mappings = Mappings { blocks: 0, tracks: Vec::new() };
    let mut next = 0;
    for (index, line) in text.lines().enumerate() {
        let failed = |problem: String| ImportError::new(format!("{file}:{}", index + 1), problem);
        let numbers: Vec<u64> = line
            .split(|letter: char| !letter.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .collect();
        if line.starts_with("maxlbn") {
            mappings.blocks = numbers.first().map_or(0, |last| last.saturating_add(1));
        } else if line.starts_with("lbn") {
            let &[lbn, cylinder, head, sector, count] = numbers.as_slice() else {
                let expected = "lbn N --> cyl N, head N, sect N, count N";
                return Err(failed(format!("expected `{expected}`, found {line:?}")));
            };
            let count = count.saturating_add(u64::from(line.contains("seqcnt")));
            let is_track = cylinder < 1 << 31 && head < 1 << 10 && sector < 1 << 20;
            if lbn != next || !(1..=1 << 20).contains(&count) || !is_track {
                return Err(failed(format!("expected the track of block {next}, found {line:?}")));
            }
            next = lbn + count;
            let (cylinder, head) = (cylinder as u32, head as u16);
            let track = Track { lbn, cylinder, head, sector: sector as u32, count: count as u32 };
            mappings.tracks.push(track);
        }
    }
    if mappings.blocks == 0 {
        mappings.blocks = next;
    }
    if mappings.blocks == 0 || next != 0 && next < mappings.blocks {
        let expected = mappings.blocks;
        return Err(ImportError::new(
            file,
            format!("expected {expected} blocks on tracks, found {next}"),
        ));
    }
    Ok(mappings)
}

impl Mappings {
    /// The tracks as a tree, without angles.
    pub(super) fn bare_tree(&self) -> TreeSpec {
        let mut per_track = 0;
        self.tree(|track| {
            let end = track.sector + track.count;
            // A track that lacks a few sectors has defects; one that lacks many is of another zone.
            if end > per_track || end + per_track / 20 < per_track {
                per_track = end;
            }
            Ok((0.0, per_track))
        })
        // Nothing above fails.
        .unwrap_or_else(|_| TreeSpec::default())
    }

    /// The tracks as a tree of one table, tracks at equal steps in one row. `place` says, for each in
    /// order, the angle of its sector 0 in revolutions, and its sectors.
    pub(super) fn tree(
        &self,
        mut place: impl FnMut(&Track) -> Result<(f64, u32), ImportError>,
    ) -> Result<TreeSpec, ImportError> {
        let mut patterns: Vec<(u32, u32, u32)> = Vec::new();
        let mut rows: Vec<TreeRow> = Vec::new();
        for track in &self.tracks {
            let (angle, per_track) = place(track)?;
            let pattern = (track.sector, track.sector + track.count - 1, per_track);
            let which = patterns.iter().position(|known| *known == pattern).unwrap_or_else(|| {
                patterns.push(pattern);
                patterns.len() - 1
            });
            if let Some(row) = rows.last_mut()
                && continues(row, track, which, angle)
            {
                if row.6 == row.3 {
                    row.5 = (angle - row.2).rem_euclid(1.0);
                }
                row.6 += u64::from(track.count);
                row.7 = i64::from(track.cylinder) - i64::from(row.1);
                row.7 += row.7.signum();
                continue;
            }
            let count = u64::from(track.count);
            let (cylinder, kind) = (track.cylinder, "track".to_owned());
            rows.push(TreeRow(
                track.lbn, cylinder, angle, count, 1, 0.0, count, 1, kind, which, track.head,
            ));
        }
        Ok(TreeSpec { patterns, tables: vec![rows], ..TreeSpec::default() })
    }
}

/// Whether `track` is the next repetition of `row`.
fn continues(row: &TreeRow, track: &Track, pattern: usize, angle: f64) -> bool {
    let repetitions = (row.6 / row.3) as i64;
    let step = i64::from(track.cylinder) - i64::from(row.1);
    let same = row.9 == pattern && row.10 == track.head && row.3 == u64::from(track.count);
    let off = (row.2 + repetitions as f64 * row.5 - angle).rem_euclid(1.0);
    let turned = repetitions == 1 || off.min(1.0 - off) < 1e-9;
    let stepped =
        step.abs() == repetitions && (repetitions == 1 || step.signum() == row.7.signum());
    same && turned && stepped
}
