//! Sizes and bounds of a log. Every one has a default that is right for a replicated service on
//! one shared disk; each says what it costs to change.

use crate::codec::record::space_of;
use crate::codec::{Geometry, Tail};
use crate::error::{Result, WalError, WalErrorKind};

/// How a log is made and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Sizes that a log keeps for life. Of a log that exists, its own count.
    pub geometry: Geometry,
    /// Most bytes of one durable write. A larger batch waits less often and longer.
    pub batch_bytes_max: u32,
    /// Largest record. At most what fits into a segment.
    pub record_bytes_max: u32,
    /// Most memory for records that wait to be written, with what is noted of each (about 100 bytes);
    /// who brings more waits.
    pub waiting_bytes_max: usize,
    /// Most segments, and so the most disk space: who brings more gets
    /// [`WalErrorKind::Full`] until the prefix is truncated.
    pub segments_max: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            geometry: Geometry {
                segment_bytes: 16 << 20,
                block_bytes: 4096,
                tail: Tail::Rewritten,
            },
            batch_bytes_max: 1 << 20,
            record_bytes_max: 1 << 20,
            waiting_bytes_max: 4 << 20,
            segments_max: 256,
        }
    }
}

impl LogOptions {
    /// Checks every bound against the others.
    pub(crate) fn validate(&self) -> Result<()> {
        self.geometry.validate()?;
        let largest = self.geometry.payload_bytes_max();
        let checks = [
            ("record_bytes_max", u64::from(self.record_bytes_max), 1, u64::from(largest)),
            ("batch_bytes_max", u64::from(self.batch_bytes_max), 4096, 64 << 20),
            (
                "waiting_bytes_max",
                self.waiting_bytes_max as u64,
                u64::from(self.record_bytes_max),
                1 << 30,
            ),
            ("segments_max", self.segments_max as u64, 2, 1 << 20),
        ];
        for (name, found, least, most) in checks {
            if !(least..=most).contains(&found) {
                let detail = format!("{name}: expected {least} to {most}, found {found}");
                return Err(WalError::new(WalErrorKind::OutOfRange, detail));
            }
        }
        Ok(())
    }

    /// Room in memory for one write: a full batch, or the largest record alone.
    pub(crate) fn batch_buffer_bytes(&self) -> usize {
        let one = space_of(self.record_bytes_max) + space_of(8) + 2 * self.geometry.block_bytes;
        let batch = self.batch_bytes_max + self.geometry.block_bytes;
        batch.max(one).next_multiple_of(4096) as usize
    }

    /// Refuses a record that is too large, before anything is done with it.
    pub(crate) fn check_record(&self, bytes: usize) -> Result<()> {
        if bytes <= self.record_bytes_max as usize {
            return Ok(());
        }
        let detail = format!(
            "a record of {bytes} bytes: expected at most {}; cut it, or raise record_bytes_max",
            self.record_bytes_max
        );
        Err(WalError::new(WalErrorKind::OutOfRange, detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_within_their_own_bounds() {
        assert_eq!(LogOptions::default().validate(), Ok(()));
    }

    #[test]
    fn a_bound_that_contradicts_another_is_refused_by_name() {
        let small = Geometry { segment_bytes: 16384, ..LogOptions::default().geometry };
        let options = LogOptions { geometry: small, ..LogOptions::default() };
        assert!(options.validate().unwrap_err().detail.starts_with("record_bytes_max"));
        let options = LogOptions { segments_max: 1, ..LogOptions::default() };
        assert!(options.validate().unwrap_err().detail.starts_with("segments_max"));
    }
}
