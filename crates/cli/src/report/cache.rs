//! The read cache, as reports tell of it.

use crate::units::ByteSize;
use nearhead_engine::{ReadCacheStatus, Stats};
use serde::{Deserialize, Serialize};

/// How full the read cache is, and what it is good for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadCacheReport {
    /// Memory in use for it.
    pub memory_bytes: u64,
    /// As much as that may become.
    pub memory_bytes_max: u64,
    /// Bytes in use on its device.
    pub device_bytes: u64,
    /// As many as there may be; 0 without one.
    pub device_bytes_max: u64,
    /// Why its device is used no more, if so.
    pub dropped: Option<String>,
    /// Of the pieces that were read of the tail, how many of a hundred were here; none if nothing was read there.
    pub tail_hit_pct: Option<f64>,
}

impl ReadCacheReport {
    pub(super) fn of(cache: &ReadCacheStatus, stats: &Stats) -> Self {
        let read = stats.read_cache_hits + stats.read_cache_misses;
        Self {
            memory_bytes: cache.memory_bytes,
            memory_bytes_max: cache.memory_bytes_max,
            device_bytes: cache.device_bytes,
            device_bytes_max: cache.device_bytes_max,
            dropped: cache.dropped.clone(),
            tail_hit_pct: (read > 0).then(|| 100.0 * stats.read_cache_hits as f64 / read as f64),
        }
    }

    pub(super) fn in_words(&self) -> String {
        let used = |bytes: u64, of: u64, what: &str| {
            (of > 0).then(|| format!("{} of {} {what}", ByteSize(bytes), ByteSize(of)))
        };
        let memory = used(self.memory_bytes, self.memory_bytes_max, "in memory");
        let device = used(self.device_bytes, self.device_bytes_max, "on its device");
        let dropped = self.dropped.as_ref().map(|why| format!("its device was given up: {why}"));
        let parts = [memory, device, dropped].into_iter().flatten().collect::<Vec<_>>();
        let found = self.tail_hit_pct.map_or_else(
            || "nothing of the tail was read yet".to_owned(),
            |pct| format!("{pct:.1} % of what was read of the tail was there"),
        );
        format!("{}; {found}", parts.join(", "))
    }
}
