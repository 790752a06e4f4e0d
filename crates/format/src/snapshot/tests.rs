//! Tests of the snapshot codec.
