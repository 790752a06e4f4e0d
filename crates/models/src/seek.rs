//! How long the arm takes to travel a number of cylinders.
//!
//! The curve is given by points (measured or from a datasheet) and read off by linear
//! interpolation; it is flat before the first and after the last point.

/// A seek curve: time in nanoseconds by distance in cylinders.
///
/// Looked up once or more per request, so a coarse index over the distances leads to the points.
#[derive(Clone, Debug)]
pub struct SeekCurve {
    points: Vec<Point>,
    /// For distances `i << shift` and up, the first point that may be at or beyond them.
    index: Vec<u16>,
    shift: u32,
}

#[derive(Clone, Copy, Debug)]
struct Point {
    distance: u32,
    time_ns: i64,
    /// Change per cylinder on the way from the point before, in units of 2^-20 ns.
    slope: i64,
}

/// Entries of the index, about.
const INDEX_ENTRIES: u32 = 2048;

impl SeekCurve {
    /// The curve through `(distance in cylinders, milliseconds)` points.
    ///
    /// Errors name the point that is out of order or not a time.
    pub fn from_points_ms(points: &[(u32, f64)]) -> Result<Self, String> {
        let (Some(first), Some(last)) = (points.first(), points.last()) else {
            return Err("a seek curve needs at least one point".to_owned());
        };
        if points.len() > usize::from(u16::MAX) {
            return Err(format!("a seek curve of {} points is too fine", points.len()));
        }
        for pair in points.windows(2) {
            if pair[0].0 >= pair[1].0 {
                let (left, right) = (pair[0].0, pair[1].0);
                return Err(format!("seek distances must increase: {right} follows {left}"));
            }
        }
        if let Some((distance, ms)) = points.iter().find(|(_, ms)| !(0.0..1000.0).contains(ms)) {
            return Err(format!("a seek over {distance} cylinders cannot take {ms} ms"));
        }
        let mut before = (first.0, (first.1 * 1e6).round() as i64);
        let mut curve = Vec::with_capacity(points.len());
        for &(distance, ms) in points {
            let time_ns = (ms * 1e6).round() as i64;
            let run = i64::from((distance - before.0).max(1));
            let slope = ((time_ns - before.1) << 20) / run;
            curve.push(Point { distance, time_ns, slope });
            before = (distance, time_ns);
        }
        let shift = (last.0 / INDEX_ENTRIES).checked_ilog2().map_or(0, |bits| bits + 1);
        let index = (0..=last.0 >> shift)
            .map(|entry| curve.partition_point(|point| point.distance < entry << shift) as u16)
            .collect();
        Ok(Self { points: curve, index, shift })
    }

    /// Time to travel `distance` cylinders, in ns; none for no distance.
    pub fn time_ns(&self, distance: u32) -> u64 {
        if distance == 0 {
            return 0;
        }
        let first = self.index.get((distance >> self.shift) as usize).copied();
        let beyond = first.and_then(|first| {
            self.points[usize::from(first)..].iter().find(|point| point.distance >= distance)
        });
        let Some(point) = beyond else {
            return self.points.last().map_or(0, |last| last.time_ns as u64);
        };
        (point.time_ns - ((i64::from(point.distance - distance) * point.slope) >> 20)) as u64
    }

    /// Mean over all pairs of cylinders of a disk with `cylinders`, in ns: what datasheets call
    /// the average seek.
    pub fn mean_ns(&self, cylinders: u32) -> f64 {
        // Two uniform positions lie d apart with a density falling linearly to 0 at full stroke.
        const STEPS: u32 = 4096;
        let full = f64::from(cylinders);
        (0..STEPS)
            .map(|step| {
                let share = (f64::from(step) + 0.5) / f64::from(STEPS);
                let distance = (share * full).round() as u32;
                2.0 * (1.0 - share) * self.time_ns(distance.max(1)) as f64
            })
            .sum::<f64>()
            / f64::from(STEPS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_met_and_interpolated_between() {
        let curve = SeekCurve::from_points_ms(&[(1, 0.5), (11, 1.5), (100, 2.0)]).unwrap();
        assert_eq!(curve.time_ns(0), 0);
        assert_eq!(curve.time_ns(1), 500_000);
        assert_eq!(curve.time_ns(6), 1_000_000);
        assert_eq!(curve.time_ns(11), 1_500_000);
        assert_eq!(curve.time_ns(5000), 2_000_000);
    }

    #[test]
    fn the_index_leads_to_the_same_times_as_a_search() {
        let points: Vec<(u32, f64)> =
            (1..200).map(|step: u32| (step * step * 7, f64::from(step).sqrt())).collect();
        let curve = SeekCurve::from_points_ms(&points).unwrap();
        for distance in (1..300_000).step_by(13) {
            let after = points.partition_point(|&(known, _)| known < distance);
            let expected = match (after.checked_sub(1), points.get(after)) {
                (None, _) => points[0].1,
                (Some(last), None) => points[last].1,
                (Some(left), Some(&(x1, y1))) => {
                    let (x0, y0) = points[left];
                    y0 + (y1 - y0) * f64::from(distance - x0) / f64::from(x1 - x0)
                }
            };
            let found = curve.time_ns(distance) as f64 / 1e6;
            assert!((found - expected).abs() < 1e-4, "{distance}: {found}, expected {expected}");
        }
    }

    #[test]
    fn points_out_of_order_are_named() {
        let error = SeekCurve::from_points_ms(&[(5, 1.0), (5, 2.0)]).unwrap_err();
        assert!(error.contains("5 follows 5"), "{error}");
    }
}
