//! What a drive can do at best: the yardsticks for everything built on top of it.
//!
//! They come from the same mechanics that time requests, so a result can be stated as a share of
//! what is physically possible. An engine must not look here: no real disk tells.

use crate::mechanics::Mechanics;
use nearhead_disk::Nanos;

impl Mechanics {
    /// Bytes per second of one long sequential transfer around byte `offset`: what a host can
    /// have from the disk alone.
    pub fn bandwidth(&self, offset: u64) -> f64 {
        let blocks = self.geometry().blocks();
        let sectors = (64 << 20) / self.sector_bytes();
        let sectors = sectors.min(blocks);
        let lbn = (offset / self.sector_bytes()).min(blocks - sectors);
        let motion = self.transfer(self.arm_at(lbn), Nanos::ZERO, lbn, sectors, true);
        // The first sector's rotation is not part of a stream that is under way.
        let start = self.positioning_ns(self.arm_at(lbn), Nanos::ZERO, lbn, true);
        let span_ns = motion.ends_at.0 - start;
        (sectors * self.sector_bytes()) as f64 * 1e9 / span_ns as f64
    }

    /// Half a revolution: what a request at a random angle waits on average.
    pub fn mean_rotational_latency(&self) -> Nanos {
        Nanos(self.spindle().period().0 / 2)
    }

    /// Average seek over all pairs of cylinders.
    pub fn mean_seek(&self) -> Nanos {
        Nanos(self.seek_curve().mean_ns(self.geometry().cylinders()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    fn cheetah() -> Mechanics {
        Mechanics::new(&Profile::named("st3146855fc").unwrap()).unwrap()
    }

    #[test]
    fn the_media_rates_are_those_of_the_sources() {
        let rate = |disk: &Mechanics, offset| disk.bandwidth(offset) / 1e6;
        let disk = cheetah();
        // 1200 and 720 sectors per 1.1417 revolutions; the sources say about 134 and 81 MB/s.
        assert!((132.0..135.5).contains(&rate(&disk, 0)), "{}", rate(&disk, 0));
        let inner = rate(&disk, 146_000_000_000);
        assert!((79.0..81.5).contains(&inner), "{inner}");
        let es3 = Profile::named("constellation-es3-1tb").unwrap();
        let es3 = Mechanics::new(&es3).unwrap();
        assert!((173.0..177.0).contains(&rate(&es3, 0)), "{}", rate(&es3, 0));
        assert!((82.0..85.0).contains(&rate(&es3, 999 << 30)), "{}", rate(&es3, 999 << 30));
        assert!((es3.mean_seek().as_millis_f64() - 8.5).abs() < 0.05, "{}", es3.mean_seek());
        let exos = Mechanics::new(&Profile::named("exos-x20-20tb").unwrap()).unwrap();
        assert!((282.0..288.0).contains(&rate(&exos, 0)), "{}", rate(&exos, 0));
    }

    #[test]
    fn the_mean_seek_is_the_measured_one() {
        // The measured curve averages 3.795 ms over uniform pairs of cylinders.
        let found = cheetah().mean_seek().as_millis_f64();
        assert!((found - 3.795).abs() < 0.02, "{found} ms");
    }
}
