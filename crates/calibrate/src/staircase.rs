//! Groups of tracks, as arithmetic: at what angle a sector lies if they are known, and what they are if angles are.
//!
//! What is left of an angle without what the sectors of a track make of it is a staircase: each track begins a step, that of the skew,
//! and each group one of another height. Spares at a group's end make the next begin that much sooner and its step that much higher.

use crate::clock::signed;

/// Groups of tracks that are alike. Sectors are logical ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    /// First sector of some group.
    pub(crate) first: i64,
    /// Sectors of a track.
    pub(crate) per_track: i64,
    /// Tracks of a group.
    pub(crate) group_tracks: i64,
    /// Sectors of a group.
    pub(crate) group_sectors: i64,
    /// By how much a track is turned against the one before, in revolutions.
    pub(crate) skew: f64,
    /// The same of a group's first track.
    pub(crate) group_skew: f64,
}

impl Shape {
    /// One that has no groups.
    pub(crate) fn plain(first: i64, per_track: i64, skew: f64) -> Self {
        let group_sectors = per_track;
        Self { first, per_track, group_tracks: 1, group_sectors, skew, group_skew: skew }
    }

    /// The group of a sector, and its track in that.
    pub(crate) fn place(&self, sector: i64) -> (i64, i64) {
        let group = (sector - self.first).div_euclid(self.group_sectors);
        let within = (sector - self.first).rem_euclid(self.group_sectors);
        (group, within / self.per_track)
    }

    /// How much of a group's sectors are not there.
    pub(crate) fn missing(&self) -> i64 {
        self.group_tracks * self.per_track - self.group_sectors
    }

    /// By how much a group is turned against the one before, in revolutions.
    fn group_turns(&self) -> f64 {
        (self.group_tracks - 1) as f64 * self.skew + self.group_skew
    }

    /// Angle at which a sector begins, against the first one of the first group.
    pub(crate) fn angle(&self, sector: i64) -> f64 {
        let (group, track) = self.place(sector);
        let within = (sector - self.first).rem_euclid(self.group_sectors) % self.per_track;
        group as f64 * self.group_turns()
            + track as f64 * self.skew
            + within as f64 / self.per_track as f64
    }
}

/// What is left of a sector's angle on a disk of tracks of `per_track` sectors.
pub(crate) fn residual(sector: i64, angle: f64, per_track: i64) -> f64 {
    (angle - (sector % per_track) as f64 / per_track as f64).rem_euclid(1.0)
}

/// The value that most others lie within `tolerance` of, and how many.
fn most_common(values: &[f64], tolerance: f64) -> Option<(f64, usize)> {
    let near = |value: f64| {
        values.iter().filter(|other| signed(**other - value).abs() < tolerance).count()
    };
    // The first of several: what is asked again gives the same.
    values.iter().rev().map(|value| (*value, near(*value))).max_by_key(|(_, count)| *count)
}

/// The middle of those angles that agree.
fn middle(angles: &[f64], tolerance: f64) -> Option<f64> {
    let (common, _) = most_common(angles, tolerance)?;
    let mut off: Vec<f64> = angles.iter().map(|angle| signed(angle - common)).collect();
    off.retain(|off| off.abs() < tolerance);
    off.sort_by(f64::total_cmp);
    Some(common + off[off.len() / 2])
}

/// In a staircase of one residual for each track: the skew, and the tracks that groups begin with, consecutive ones, as many as show.
pub(crate) fn group_steps(residuals: &[f64], tolerance: f64) -> Option<(f64, Vec<usize>)> {
    let steps: Vec<f64> = residuals.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (skew, _) = most_common(&steps, tolerance)?;
    let is_near = |step: f64, other: f64| signed(step - other).abs() < tolerance;
    let odd: Vec<f64> = steps.iter().copied().filter(|step| !is_near(*step, skew)).collect();
    let (group, _) = most_common(&odd, tolerance)?;
    // Where a group's last track is short none of its sectors may have been asked for.
    let begins = |step: f64| is_near(step, group) || is_near(step, group + skew);
    let at: Vec<usize> = (0..steps.len()).filter(|index| begins(steps[*index])).collect();
    Some((skew, longest_even(&at).iter().map(|index| index + 1).collect()))
}

/// The longest stretch of numbers whose distances differ by one at most, and are not all one.
fn longest_even(at: &[usize]) -> &[usize] {
    let mut longest: &[usize] = &[];
    for start in 0..at.len() {
        let (mut least, mut most, mut end) = (usize::MAX, 0, start + 1);
        while end < at.len() {
            let gap = at[end] - at[end - 1];
            if gap.max(most) - gap.min(least) > 1 {
                break;
            }
            (least, most, end) = (gap.min(least), gap.max(most), end + 1);
        }
        if most >= 2 && end - start > longest.len() {
            longest = &at[start..end];
        }
    }
    longest
}

/// Sectors of a group, and where one begins, from where some were found to begin: (number of the group, sector). Two pairs of them
/// must agree: what was read late is found elsewhere.
pub(crate) fn group_sectors(begun: &[(usize, i64)]) -> Option<(i64, i64)> {
    let mut found: Vec<(i64, i64)> = Vec::new();
    for (index, (number, sector)) in begun.iter().enumerate() {
        for (later_number, later) in &begun[index + 1..] {
            let groups = (later_number - number) as i64;
            if groups > 0 && (later - sector) % groups == 0 {
                found.push(((later - sector) / groups, *sector));
            }
        }
    }
    let count = |sectors: i64| found.iter().filter(|other| other.0 == sectors).count();
    let best = found.iter().max_by_key(|(sectors, _)| count(*sectors))?;
    (count(best.0) >= 2).then_some(*best)
}

/// What groups of `group_sectors` beginning at `first` are like, from sectors and their residuals.
pub(crate) fn fit(
    samples: &[(i64, f64)],
    (group_sectors, first): (i64, i64),
    per_track: i64,
    tolerance: f64,
) -> Option<Shape> {
    let group_tracks = (group_sectors + per_track - 1) / per_track;
    let shape = Shape { group_tracks, group_sectors, ..Shape::plain(first, per_track, 0.0) };
    let placed: Vec<(i64, i64, f64)> = samples
        .iter()
        .map(|(sector, residual)| (shape.place(*sector).0, shape.place(*sector).1, *residual))
        .collect();
    let steps: Vec<f64> = placed
        .windows(2)
        .filter(|pair| pair[0].0 == pair[1].0 && pair[1].1 == pair[0].1 + 1)
        .map(|pair| pair[1].2 - pair[0].2)
        .collect();
    let skew = exact_skew(&placed, middle(&steps, tolerance)?, tolerance)?;
    let mut turns = Vec::new();
    for (group, track, residual) in &placed {
        let next = placed.iter().find(|other| (other.0, other.1) == (group + 1, *track));
        turns.extend(next.map(|next| next.2 - residual));
    }
    let spares = shape.missing() as f64 / per_track as f64;
    let in_group = (group_tracks - 1) as f64 * skew;
    let group_skew = (middle(&turns, tolerance)? - in_group - spares).rem_euclid(1.0);
    Some(Shape { skew: skew.rem_euclid(1.0), group_skew, ..shape })
}

/// By how much the disk is turned against `shape`, as sectors and their residuals say.
pub(crate) fn turned(samples: &[(i64, f64)], shape: &Shape, tolerance: f64) -> f64 {
    let one = |(sector, left): &(i64, f64)| {
        left + (sector % shape.per_track) as f64 / shape.per_track as f64 - shape.angle(*sector)
    };
    middle(&samples.iter().map(one).collect::<Vec<_>>(), tolerance).unwrap_or(0.0)
}

/// The skew as the tracks of whole groups have it: over sixteen of them an error of one reading is a sixteenth. The middle of the groups,
/// as a slipped defect in one bends that alone.
fn exact_skew(placed: &[(i64, i64, f64)], skew: f64, tolerance: f64) -> Option<f64> {
    let groups: Vec<&[(i64, i64, f64)]> = placed.chunk_by(|one, next| one.0 == next.0).collect();
    let most = groups.iter().map(|group| group.len()).max()?;
    let slope = |group: &&[(i64, i64, f64)]| {
        let (_, from, base) = group[0];
        let point = |(_, track, residual): &(i64, i64, f64)| {
            ((track - from) as f64, signed(residual - base - (track - from) as f64 * skew))
        };
        let points: Vec<(f64, f64)> = group.iter().map(point).collect();
        crate::clock::line(&points).map(|(slope, _)| skew + slope)
    };
    let slopes: Vec<f64> =
        groups.iter().filter(|group| 2 * group.len() > most).filter_map(slope).collect();
    middle(&slopes, tolerance)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CYLINDERS: Shape = Shape {
        first: 500,
        per_track: 85,
        group_tracks: 17,
        group_sectors: 17 * 85 - 6,
        skew: 2.0 / 85.0,
        group_skew: 16.0 / 85.0,
    };

    /// One sector of each track would be there without groups.
    fn walked(shape: &Shape, tracks: i64) -> Vec<(i64, f64)> {
        let sectors = (0..tracks).map(|track| 42 + track * shape.per_track);
        sectors.map(|sector| (sector, residual(sector, shape.angle(sector), 85))).collect()
    }

    #[test]
    fn an_angle_grows_along_a_track_and_by_a_skew_to_the_next_whatever_is_missing() {
        let sectors = |sector| (CYLINDERS.angle(sector) - CYLINDERS.angle(500)) * 85.0;
        let found = [500, 510, 585, 500 + 16 * 85, 500 + 1439, 500 + 1439 + 85].map(sectors);
        let expected = [0.0, 10.0, 2.0, 32.0, 48.0, 50.0];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
        }
        assert_eq!(CYLINDERS.place(499), (-1, 16));
        assert_eq!(CYLINDERS.missing(), 6);
    }

    #[test]
    fn groups_show_as_steps_of_another_height_at_even_distances() {
        let residuals: Vec<f64> = walked(&CYLINDERS, 80).iter().map(|(_, left)| *left).collect();
        let (skew, steps) = group_steps(&residuals, 0.012).unwrap();
        assert!((skew - 2.0 / 85.0).abs() < 1e-9);
        assert_eq!(steps, [6, 23, 40, 57, 74]);
        assert_eq!(group_steps(&vec![0.1; 80], 0.012), None, "no step is another");
    }

    #[test]
    fn steps_at_uneven_distances_are_no_groups() {
        for (at, even) in [
            (&[3, 20, 37, 54][..], &[3, 20, 37, 54][..]),
            (&[3, 20, 36, 53], &[3, 20, 36, 53]),
            (&[3, 9, 26, 43, 44], &[9, 26, 43]),
            (&[1, 2, 3, 4], &[]),
            (&[], &[]),
        ] {
            assert_eq!(longest_even(at), even, "{at:?}");
        }
    }

    #[test]
    fn the_sectors_of_a_group_are_what_two_pairs_of_beginnings_agree_upon() {
        let begun = |late: i64| [(0, 500), (1, 1939 + late), (2, 3378), (4, 6256)];
        assert_eq!(group_sectors(&begun(0)).map(|found| found.0), Some(1439));
        assert_eq!(group_sectors(&begun(3)).map(|found| found.0), Some(1439));
        assert_eq!(group_sectors(&[(0, 500), (1, 1939)]), None, "nothing confirms it");
    }

    #[test]
    fn a_fit_finds_both_skews_although_a_defect_was_slipped_and_two_sectors_lie_elsewhere() {
        let mut samples = walked(&CYLINDERS, 80);
        for (sector, left) in &mut samples {
            *left += if *sector > 4000 { 1.0 / 85.0 } else { 0.0 };
        }
        samples[9].1 += 0.3;
        samples[60].1 += 0.4;
        let shape = fit(&samples, (1439, 500), 85, 0.012).unwrap();
        assert_eq!((shape.group_tracks, shape.missing()), (17, 6));
        assert!((shape.skew - CYLINDERS.skew).abs() < 1e-6, "{shape:?}");
        assert!((shape.group_skew - CYLINDERS.group_skew).abs() < 1e-6, "{shape:?}");
    }
}
