//! How long the arm takes to travel a number of cylinders.
//!
//! The curve is given by points (measured or from a datasheet) and read off by linear
//! interpolation; it is flat before the first and after the last point.

/// A seek curve: time in nanoseconds by distance in cylinders.
#[derive(Clone, Debug)]
pub struct SeekCurve {
    distances: Vec<u32>,
    times_ns: Vec<u64>,
}

impl SeekCurve {
    /// The curve through `(distance in cylinders, milliseconds)` points.
    ///
    /// Errors name the point that is out of order or not a time.
    pub fn from_points_ms(points: &[(u32, f64)]) -> Result<Self, String> {
        if points.is_empty() {
            return Err("a seek curve needs at least one point".to_owned());
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
        Ok(Self {
            distances: points.iter().map(|&(distance, _)| distance).collect(),
            times_ns: points.iter().map(|&(_, ms)| (ms * 1e6).round() as u64).collect(),
        })
    }

    /// Time to travel `distance` cylinders, in ns; none for no distance.
    pub fn time_ns(&self, distance: u32) -> u64 {
        if distance == 0 {
            return 0;
        }
        let after = self.distances.partition_point(|&known| known < distance);
        if after == 0 {
            return self.times_ns[0];
        }
        if after == self.distances.len() {
            return self.times_ns[after - 1];
        }
        let (x0, x1) = (self.distances[after - 1], self.distances[after]);
        let (y0, y1) = (self.times_ns[after - 1] as i64, self.times_ns[after] as i64);
        (y0 + (y1 - y0) * i64::from(distance - x0) / i64::from(x1 - x0)) as u64
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
        assert_eq!(curve.time_ns(5000), 2_000_000);
    }

    #[test]
    fn points_out_of_order_are_named() {
        let error = SeekCurve::from_points_ms(&[(5, 1.0), (5, 2.0)]).unwrap_err();
        assert!(error.contains("5 follows 5"), "{error}");
    }
}
