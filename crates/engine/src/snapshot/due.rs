//! When a snapshot is due: when somebody needs one, when a recovery would have too much to read, and when nobody minds.

use super::{SnapshotContext, Snapshotter};
use crate::core::Core;
use nearhead_disk::Nanos;
use nearhead_format::ENTRY_BYTES;

/// Claimed logs that make a snapshot worth its cost: a recovery looks up to [`crate::RECORD_BYTES_MAX`] ahead in
/// each, 4 GiB in all, also when they are empty.
const CLAIMS_MANY: usize = 2048;
/// A wished snapshot waits until this many times its size was logged ...
const WISHED_COST_SHARE: u64 = 64;
/// ... or until nobody has asked anything for so long.
const IDLE_FOR_SNAPSHOT: Nanos = Nanos::from_millis(200);
/// Bytes logged for each byte of a snapshot, at least, while the interval is not at its bound.
const INTERVAL_PER_BODY: u64 = 128;
/// The longest interval, in configured ones: with the default, 8 GiB of logs for a recovery to read.
const INTERVAL_MAX: u64 = 8;

/// Bytes logged for each byte of a paged map that a snapshot merges, at least, once that is more than the longest interval: a start reads the
/// map in any case, and then twice as much of logs, and half a byte of the map is written and read for each that clients write.
const LOGGED_PER_MERGED: u64 = 2;
/// Of a paged map time alone makes a snapshot due only after a byte logged for so many that are merged.
const MERGED_PER_LOGGED: u64 = 16;

impl Snapshotter {
    pub(super) fn is_due(&self, core: &Core, context: SnapshotContext) -> bool {
        let changed = core.recorded().bytes_since_snapshot() > 0;
        let has_rested = self.rests_until().is_none_or(|until| until <= core.now());
        self.demanded
            || has_rested && self.wished && is_cheap(core, context)
            || has_rested && (much_was_logged(core) || is_much_in_memory(core))
            || changed
                && core.now().since(self.last_at) >= core.setup().config.snapshot_period
                && is_worth_merging(core)
    }

    /// When a snapshot is due by time alone, where nobody has asked anything since `idle_from`, if nobody waits for an answer.
    pub(crate) fn wake(&self, core: &Core, idle_from: Option<Nanos>) -> Option<Nanos> {
        if let Some(work) = &self.in_progress {
            return work.transfers.again_at();
        }
        let rests_until = self.rests_until();
        let idle = idle_from.filter(|_| self.wished).map(|idle_from| {
            let idle = idle_from + IDLE_FOR_SNAPSHOT;
            rests_until.map_or(idle, |until| until.max(idle))
        });
        let again = rests_until.filter(|_| much_was_logged(core) || is_much_in_memory(core));
        let changed = core.recorded().bytes_since_snapshot() > 0;
        let period = (changed && is_worth_merging(core))
            .then(|| self.last_at + core.setup().config.snapshot_period);
        [idle, again, period].into_iter().flatten().min()
    }
}

/// Whether a recovery would have more to read than it should.
fn much_was_logged(core: &Core) -> bool {
    core.recorded().bytes_since_snapshot() >= interval_bytes(core)
        || core.logs().claimed_len() > CLAIMS_MANY
}

/// Whether what changed of a paged map takes so much memory that writers would soon wait for the snapshot that makes room.
fn is_much_in_memory(core: &Core) -> bool {
    let layers = core.layers();
    layers.paged().is_some_and(|paged| paged.wants_snapshot(layers.newest_bytes()))
}

/// Logged bytes between two snapshots: what is configured, or more while the map is so large that
/// writing it that often would cost more than it saves a recovery.
fn interval_bytes(core: &Core) -> u64 {
    let configured = core.setup().config.snapshot_after_bytes;
    let of_pages = core.layers().paged().map_or(0, |_| body_bytes(core) * LOGGED_PER_MERGED);
    let most = configured.saturating_mul(INTERVAL_MAX).max(of_pages);
    (body_bytes(core) * INTERVAL_PER_BODY).clamp(configured, most)
}

/// Whether time alone makes a snapshot due: not of a paged map of which next to nothing changed, as all of it is read and written.
fn is_worth_merging(core: &Core) -> bool {
    let logged = core.recorded().bytes_since_snapshot();
    core.layers().paged().is_none() || logged >= body_bytes(core) / MERGED_PER_LOGGED
}

/// Whether nobody would notice it, or it is small against what was logged since the last one.
fn is_cheap(core: &Core, context: SnapshotContext) -> bool {
    context.idle_for >= IDLE_FOR_SNAPSHOT
        || core.recorded().bytes_since_snapshot() >= body_bytes(core) * WISHED_COST_SHARE
}

fn body_bytes(core: &Core) -> u64 {
    core.layers().len_max() as u64 * ENTRY_BYTES as u64
}
