//! When a snapshot is due: when somebody needs one, when a recovery would have too much to read, and when nobody minds.
//!
//! Also how large a map may grow: so that a snapshot of it always fits its slot.

use crate::engine::Engine;
use nearhead_disk::Nanos;

/// Claimed logs that make a snapshot worth its cost: a recovery looks up to [`crate::RECORD_BYTES_MAX`] ahead in
/// each, 4 GiB in all, also when they are empty.
const CLAIMS_MANY: usize = 2048;
/// Bytes of a snapshot for each log: its state and its claim.
const LOG_BYTES: u64 = 16;
/// Bytes of a snapshot for the hints.
const HINTS_BYTES: u64 = crate::HINTS_MAX as u64 * 16;
/// Bytes kept free in a slot: padding, and entries that in-place writes cut in two.
const SPARE_BYTES: u64 = 64 << 10;
/// A wished snapshot waits until this many times its size was logged ...
const WISHED_COST_SHARE: u64 = 64;
/// Bytes logged for each byte of a snapshot, at least, while the interval is not at its bound.
const INTERVAL_PER_BODY: u64 = 128;
/// The longest interval, in configured ones: with the default, 8 GiB of logs for a recovery to read.
const INTERVAL_MAX: u64 = 8;
/// ... or until nobody has asked anything for so long.
const IDLE_FOR_SNAPSHOT: Nanos = Nanos::from_millis(200);

impl Engine {
    /// Entries the map may hold, so that a snapshot of it always fits its slot: what is left of the
    /// slot beside the states of all logs, the hints, and room for entries cut in place.
    pub(crate) fn map_entries_max(&self) -> usize {
        let body_bytes = self.setup.map.slots.body_bytes_max();
        let other_bytes = u64::from(self.core.logs.count()) * LOG_BYTES + HINTS_BYTES + SPARE_BYTES;
        (body_bytes.saturating_sub(other_bytes) / nearhead_format::ENTRY_BYTES as u64) as usize
    }

    pub(super) fn snapshot_is_due(&self) -> bool {
        let snapshotter = &self.snapshotter;
        let config = &self.setup.config;
        let changed = self.core.bytes_since_snapshot() > 0;
        let has_rested = snapshotter.rests_until().is_none_or(|until| until <= self.now);
        snapshotter.demanded
            || has_rested && snapshotter.wished && self.snapshot_is_cheap()
            || has_rested && self.much_was_logged()
            || (changed && self.now.since(snapshotter.last_at) >= config.snapshot_period)
    }

    /// Whether a recovery would have more to read than it should.
    pub(super) fn much_was_logged(&self) -> bool {
        self.core.bytes_since_snapshot() >= self.snapshot_interval_bytes()
            || self.core.logs.claimed_len() > CLAIMS_MANY
    }

    /// Logged bytes between two snapshots: what is configured, or more while the map is so large that
    /// writing it that often would cost more than it saves a recovery.
    pub(super) fn snapshot_interval_bytes(&self) -> u64 {
        let configured = self.setup.config.snapshot_after_bytes;
        let body_bytes = self.core.map.len() as u64 * nearhead_format::ENTRY_BYTES as u64;
        (body_bytes * INTERVAL_PER_BODY).clamp(configured, configured.saturating_mul(INTERVAL_MAX))
    }

    /// Whether nobody would notice it, or it is small against what was logged since the last one.
    pub(super) fn snapshot_is_cheap(&self) -> bool {
        let body_bytes = self.core.map.len() as u64 * nearhead_format::ENTRY_BYTES as u64;
        self.schedule.idle_for(self.now) >= IDLE_FOR_SNAPSHOT
            || self.core.bytes_since_snapshot() >= body_bytes * WISHED_COST_SHARE
    }

    /// When a snapshot is due by time alone.
    pub(crate) fn snapshot_wake(&self) -> Option<Nanos> {
        let snapshotter = &self.snapshotter;
        if let Some(work) = &snapshotter.in_progress {
            return work.again_at;
        }
        let rests_until = snapshotter.rests_until();
        let idle = snapshotter.wished.then(|| {
            let idle = self.schedule.idle_from() + IDLE_FOR_SNAPSHOT;
            rests_until.map_or(idle, |until| until.max(idle))
        });
        let again = rests_until.filter(|_| self.much_was_logged());
        let changed = self.core.bytes_since_snapshot() > 0;
        let period = changed.then(|| snapshotter.last_at + self.setup.config.snapshot_period);
        [idle, again, period].into_iter().flatten().min()
    }
}
