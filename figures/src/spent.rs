//! Where a modelled disk's time goes, and what of it a sync costs.
//!
//! The disk tells how long it moved, waited and transferred; the rest of the time it had nothing to do, or read on
//! ahead. A sync costs what the disk spent beyond what the sequential client's bytes cost it alone.

use nearhead_arrays::{Mirror, Stripe};
use nearhead_basics::SplitMix;
use nearhead_disk::{Disk, DiskError, DiskErrorKind, Nanos};
use nearhead_models::{FirstBytes, HddModel, Model, PowerTimes, Powered};
use nearhead_volume::GatheredDisk;

/// A disk of figures, which may tell where its time goes.
pub(crate) trait Modelled: Disk {
    /// Since it was made; nothing of what is not one plain hard disk.
    fn spent(&self) -> Option<Spent> {
        None
    }

    /// For how long each of its drives was in which state until then; nothing of drives whose power nobody books.
    fn power(&self, _now: Nanos) -> Vec<PowerTimes> {
        Vec::new()
    }

    /// The power is off and on again at `now`: what was under way is there or not, as `random` decides.
    fn power_cut(&mut self, _now: Nanos, _random: &mut SplitMix) -> Result<(), DiskError> {
        let detail =
            "expected one plain hard disk, whose power can be cut; found another".to_owned();
        Err(DiskError { kind: DiskErrorKind::Invalid, detail })
    }
}

impl Modelled for HddModel {
    fn power_cut(&mut self, now: Nanos, random: &mut SplitMix) -> Result<(), DiskError> {
        HddModel::power_cut(self, now, random)
    }

    fn spent(&self) -> Option<Spent> {
        let stats = self.stats();
        let [seek, rotation, transfer] =
            [stats.seek_ns, stats.rotation_ns, stats.transfer_ns].map(|ns| ns as f64 / 1e6);
        Some(Spent { seek_ms: seek, rotation_ms: rotation, transfer_ms: transfer, idle_ms: 0.0 })
    }
}

impl<D: Disk> Modelled for Stripe<D> {}
impl Modelled for Mirror<HddModel> {}

impl Modelled for Mirror<Powered<HddModel>> {
    fn power(&self, now: Nanos) -> Vec<PowerTimes> {
        (0..self.members_left()).map(|member| self.member(member).times(now)).collect()
    }
}

impl<D: Disk> Modelled for FirstBytes<D> {}
impl<D: Disk> Modelled for GatheredDisk<D> {}
impl Modelled for Box<dyn Model> {}

/// Time of a disk.
#[expect(clippy::struct_field_names, reason = "units stand last in names")]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    /// Moving and settling.
    pub(crate) seek_ms: f64,
    /// Waiting for sectors to come round.
    pub(crate) rotation_ms: f64,
    /// Sectors passing under the head.
    pub(crate) transfer_ms: f64,
    /// None of these: nothing to do, commands on their way, or sectors read ahead.
    pub(crate) idle_ms: f64,
}

impl Spent {
    /// What they are called, in the order of [`Spent::parts`].
    pub(crate) const PARTS: [&'static str; 4] = ["seek", "rotation", "transfer", "idle"];

    /// Each of them.
    pub(crate) fn parts(&self) -> [f64; 4] {
        [self.seek_ms, self.rotation_ms, self.transfer_ms, self.idle_ms]
    }

    fn of(parts: [f64; 4]) -> Self {
        let [seek_ms, rotation_ms, transfer_ms, idle_ms] = parts;
        Self { seek_ms, rotation_ms, transfer_ms, idle_ms }
    }

    /// What was spent of `span` since `earlier`; what was not on anything else is idle.
    pub(crate) fn since(&self, earlier: &Self, span: Nanos) -> Self {
        let [seek, rotation, transfer, _] = self.parts();
        let [seek, rotation, transfer] = [
            seek - earlier.seek_ms,
            rotation - earlier.rotation_ms,
            transfer - earlier.transfer_ms,
        ];
        let idle = span.as_secs_f64() * 1e3 - seek - rotation - transfer;
        Self::of([seek, rotation, transfer, idle])
    }

    /// What each of `syncs` syncs cost, if the same disk alone spent `alone` on `share` as many bytes of the sequential
    /// client's.
    pub(crate) fn for_each_sync(&self, alone: &Self, share: f64, syncs: f64) -> Self {
        let mut parts = self.parts();
        for (part, alone) in parts.iter_mut().zip(alone.parts()) {
            *part = (*part - alone * share) / syncs;
        }
        Self::of(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_syncs_cost_is_the_bandwidth_that_they_take() {
        let alone = Spent::of([0.0, 100.0, 800.0, 100.0]);
        let earlier = Spent::of([5.0, 5.0, 5.0, 0.0]);
        let later = Spent::of([105.0, 155.0, 725.0, 0.0]);
        let beside = later.since(&earlier, Nanos::from_secs(1));
        assert_eq!(beside, Spent::of([100.0, 150.0, 720.0, 30.0]));
        // Nine tenths of the bytes: a tenth of the second went to ten syncs.
        let each = beside.for_each_sync(&alone, 0.9, 10.0);
        let expected = [10.0, 6.0, 0.0, -6.0];
        let near = each.parts().iter().zip(expected).all(|(part, is)| (part - is).abs() < 1e-9);
        assert!(near, "{each:?}");
        assert!((each.parts().iter().sum::<f64>() - 10.0).abs() < 1e-9);
    }
}
