//! What is said of small writes: when they are answered, and which are logged.

use nearhead_format::AckMode;

/// When a write is answered.
#[derive(clap::ValueEnum, serde::Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum AckArg {
    /// Every reply means durable
    Durable,
    /// Replies are early; a flush or FUA makes durable
    #[default]
    Flush,
}

impl From<AckArg> for AckMode {
    fn from(ack: AckArg) -> Self {
        match ack {
            AckArg::Durable => Self::Durable,
            AckArg::Flush => Self::Flush,
        }
    }
}

/// Largest threshold: one such write is half of the largest record.
const THRESHOLD_BYTES_MAX: u64 = 1 << 20;

/// A threshold that can be kept.
pub fn checked_threshold(bytes: u64) -> Result<u32, String> {
    let max = THRESHOLD_BYTES_MAX;
    if bytes == 0 || bytes > max || !bytes.is_multiple_of(512) {
        return Err(format!(
            "--threshold: expected a multiple of 512 from 512 to {max} bytes, found {bytes}"
        ));
    }
    Ok(bytes as u32)
}
