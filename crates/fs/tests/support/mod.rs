//! What the tests of a mounted file system need: an image, a service in memory that can lose what was not flushed, a client that waits.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test uses a part of it")]
#![allow(unused_imports, reason = "the same")]

mod client;
mod image;
pub mod judge;
pub mod known;
mod ram;
pub mod seen;
pub mod short;
pub mod store;
pub mod tree;
pub mod user;

pub use client::{Client, SIZE, Timed};
pub use image::{assert_clean, empty, empty_in_groups, empty_with_reserve, scratch};
pub use ram::Ram;

use nearhead_basics::Random;
use nearhead_disk::{Buffer, BufferMut};
use nearhead_ext4::{Ino, NewNode};
use nearhead_fs::FsOperation;
use std::collections::BTreeMap;
use std::rc::Rc;

pub const BLOCK: usize = 4096;

/// The name of a journaling mode; each `number` has one, and neighbours have different ones.
pub fn mode_of(number: u64) -> &'static str {
    let modes = nearhead_journal::MODES;
    modes[number as usize % modes.len()].name()
}

/// The blocks of a disk that are not zeros.
pub type Blocks = BTreeMap<u64, Rc<Vec<u8>>>;

pub fn make(parent: Ino, name: &str, kind: nearhead_ext4::FileKind) -> FsOperation {
    let mode = if kind == nearhead_ext4::FileKind::Directory { 0o755 } else { 0o644 };
    let new = NewNode { kind, mode, umask: 0, device: 0, target: None };
    FsOperation::Make { parent, name: name.as_bytes().to_vec(), new }
}

pub fn buffer(bytes: &[u8]) -> Buffer {
    BufferMut::copy_of(bytes).freeze()
}

/// Bytes that differ from place to place.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = vec![0; len];
    bytes.chunks_mut(8).for_each(|part| {
        let number = random.next_u64().to_le_bytes();
        part.copy_from_slice(&number[..part.len()]);
    });
    bytes
}
