//! Logs in the order of their distance from somewhere: where near-head placement looks.

use super::Layout;
use std::iter::FusedIterator;

impl Layout {
    /// Every log, nearest to `device_offset` first.
    ///
    /// The distance is that to the nearest byte of the log, 0 inside it. Of two at the same
    /// distance the one ahead (at higher offsets) comes first, as that is where streams move. Where
    /// the logs are apart, the distance is that from the place among them which is as far in on the
    /// disk as `device_offset` is.
    pub fn logs_near(&self, device_offset: u64) -> LogsNear<'_> {
        let device_offset = if self.logs_are_apart() {
            self.beside_when_apart(device_offset)
        } else {
            device_offset
        };
        let group = self.group_of(device_offset);
        let log_count = self.log_count();
        let ahead = if log_count == 0 {
            0
        } else if self.log_start(group) <= device_offset {
            group + 1
        } else {
            group
        };
        LogsNear { layout: self, device_offset, behind: ahead, ahead, log_count }
    }
}

/// Iterator over log indices by increasing distance; see [`Layout::logs_near`].
#[derive(Clone, Debug)]
pub struct LogsNear<'a> {
    layout: &'a Layout,
    device_offset: u64,
    /// Logs below this index, which start at or before the offset, are still to come.
    behind: u32,
    /// Logs from this index on, which start after the offset, are still to come.
    ahead: u32,
    log_count: u32,
}

impl LogsNear<'_> {
    fn distance_behind(&self) -> Option<u64> {
        let end = self.layout.log_start(self.behind.checked_sub(1)?) + self.layout.log_bytes;
        Some(self.device_offset.saturating_add(1).saturating_sub(end))
    }

    fn distance_ahead(&self) -> Option<u64> {
        let exists = self.ahead < self.log_count;
        exists.then(|| self.layout.log_start(self.ahead) - self.device_offset)
    }
}

impl Iterator for LogsNear<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let behind_is_nearer = match (self.distance_behind(), self.distance_ahead()) {
            (None, None) => return None,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(behind), Some(ahead)) => behind < ahead,
        };
        if behind_is_nearer {
            self.behind -= 1;
            return Some(self.behind);
        }
        self.ahead += 1;
        Some(self.ahead - 1)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.behind + (self.log_count - self.ahead)) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for LogsNear<'_> {}
impl FusedIterator for LogsNear<'_> {}

#[cfg(test)]
#[path = "near_tests.rs"]
mod tests;
