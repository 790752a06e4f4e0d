//! How large a map may grow: so that a snapshot of it always fits its slot.

use nearhead_format::ENTRY_BYTES;

/// Bytes of a snapshot for each log: its state and its claim.
const LOG_BYTES: u64 = 16;
/// Bytes of a snapshot for the hints.
const HINTS_BYTES: u64 = crate::HINTS_MAX as u64 * 16;
/// Bytes kept free in a slot: padding, and entries that in-place writes cut in two.
const SPARE_BYTES: u64 = 64 << 10;

/// Entries that fit a slot whose body takes so many bytes, beside the states of all logs, the hints, and room for
/// entries cut in place.
pub(crate) fn entries_max(body_bytes_max: u64, logs: u32) -> usize {
    let other_bytes = u64::from(logs) * LOG_BYTES + HINTS_BYTES + SPARE_BYTES;
    (body_bytes_max.saturating_sub(other_bytes) / ENTRY_BYTES as u64) as usize
}
