//! What the superblock says once and for all: sizes, features, seeds. Refuses what this implementation does not have.
//!
//! Counts that change (free blocks, times) are not here: they are read from block 0 as it is now.

/// What an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Blocks of 4096 bytes of the file system, from the start of the volume.
    pub blocks: u64,
    /// Inodes.
    pub inodes: u32,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Its label, without the zeros behind it.
    pub label: Vec<u8>,
}
