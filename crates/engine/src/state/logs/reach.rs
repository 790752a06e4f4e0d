//! How far away from where it could be a record may stand: what placement may leave out, and how far a recovery looks.

use crate::RECORD_BYTES_MAX;
use nearhead_format::record::{
    CLAIMS_MAX, ECHO_MAX, HEADER_BYTES_MAX, HEADER_FIXED_BYTES, INVALIDATIONS_MAX, ITEM_BYTES,
    WRITES_MAX,
};

/// No record is longer than this, in bytes, and none is looked for further away from where it could be.
pub(crate) const REACH_BYTES: u64 = RECORD_BYTES_MAX as u64 + HEADER_BYTES_MAX as u64 + 4096;

/// The longest header that a record can have.
const HEADER_BYTES_LONGEST: u64 = (HEADER_FIXED_BYTES
    + ITEM_BYTES * (WRITES_MAX + INVALIDATIONS_MAX + CLAIMS_MAX + ECHO_MAX))
    .next_multiple_of(4096) as u64;

/// The longest gap that a log may leave before a record, in bytes: a look ahead from where it begins sees all of the
/// header behind it.
pub(crate) const GAP_BYTES_MAX: u64 = REACH_BYTES - HEADER_BYTES_LONGEST;
