//! Tests of the superblock codec.
