//! What every boundary to hostile input must keep true, as one function from bytes for each.
//!
//! A [`Target`] takes any bytes at all and panics if a law is broken: the code behind the boundary
//! panicked, did not come to an end, or accepted what it must not. libFuzzer runs the targets
//! (`fuzz/`, `make soak`), and so does an ordinary test over `fuzz/corpus`, so that what was found
//! once stays found without a fuzzer. What stays true here:
//!
//! - the same bytes always do the same: no clock, no chance, no state from an earlier input;
//! - where a checksum would keep a mutation from getting anywhere, the input chooses whether it is
//!   made right afterwards: a sum is no defence against whoever can write to the device;
//! - seeds are made by our own encoders, so that they follow the format by themselves.

mod base;
mod decoders;
mod disksim;
mod ext4;
mod fuse_request;
mod image;
mod input;
mod mutate;
mod nbd_handshake;
mod nbd_transmission;
mod profile;
mod recovery;
mod seeds;
mod trace;
mod volume_file;
mod wal;

pub use mutate::mutated;

/// A boundary.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name: that of its fuzz target and of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Takes any bytes.
    ///
    /// # Panics
    /// If a law is broken.
    pub run: fn(&[u8]),
    /// Inputs to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Mutated inputs that the ordinary test tries, so that none takes it long.
    pub mutants: u32,
}

/// Every boundary.
pub const TARGETS: [Target; 18] = [
    target("superblock", decoders::superblock, seeds::superblock, 4000),
    target("record_header", decoders::record_header, seeds::record_header, 8000),
    target("snapshot_header", decoders::snapshot_header, seeds::snapshot_header, 4000),
    target("snapshot_body", decoders::snapshot_body, seeds::snapshot_body, 8000),
    target("map_device", decoders::map_device, seeds::map_device, 4000),
    target("blank_map", decoders::blank_map, seeds::blank_map, 4000),
    target("metadata_backup", decoders::metadata_backup, seeds::metadata_backup, 4000),
    target("array_label", decoders::array_label, seeds::array_label, 4000),
    target("nbd_handshake", nbd_handshake::run, nbd_handshake::seeds, 4000),
    target("nbd_transmission", nbd_transmission::run, nbd_transmission::seeds, 2000),
    target("recovery", recovery::run, recovery::seeds, 1000),
    target("trace", trace::run, trace::seeds, 3000),
    target("profile", profile::run, profile::seeds, 1000),
    target("disksim", disksim::run, disksim::seeds, 1000),
    target("volume_file", volume_file::run, volume_file::seeds, 4000),
    target("wal", wal::run, wal::seeds, 4000),
    target("ext4", ext4::run, ext4::seeds, 2000),
    target("fuse_request", fuse_request::run, fuse_request::seeds, 8000),
];

const fn target(
    name: &'static str,
    run: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
    mutants: u32,
) -> Target {
    Target { name, run, seeds, mutants }
}

/// The target called `name`.
///
/// # Panics
/// If there is none.
pub fn target_named(name: &str) -> Target {
    let found = TARGETS.into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("no target is called {name}"))
}
