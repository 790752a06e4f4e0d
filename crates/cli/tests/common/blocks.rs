//! A small volume with logged blocks that are not home, in `a.img`, for tests that damage it.

use super::nbd::Client;
use super::{Daemon, Scratch, run_ok};
use std::os::unix::fs::FileExt;

/// Blocks that are written, each a record of its own, with an unwritten one behind each.
pub const BLOCKS: u64 = 24;
/// Bytes of the image.
pub const IMAGE_BYTES: u64 = 64 << 20;

/// What stands in a block.
pub fn content(block: u64) -> Vec<u8> {
    (0..4096_u64).map(|index| (index * 11 + block * 17 + 3) as u8).collect()
}

/// Serves it; nothing is brought home.
pub fn serve(scratch: &Scratch) -> Daemon {
    Daemon::serve(scratch, "a.img", &["--checkpoint-idle", "0"])
}

/// Makes it and writes its blocks; closed in order, or killed.
pub fn volume(scratch: &Scratch, in_order: bool) {
    run_ok(scratch, &["create", "a.img", "--size", "64MiB", "--group-size", "16MiB"]);
    let daemon = serve(scratch);
    write_all(&daemon);
    if in_order {
        daemon.stop_ok();
    } else {
        daemon.kill();
    }
}

/// Writes every block, durably.
pub fn write_all(daemon: &Daemon) {
    let mut client = Client::connect(&daemon.socket).unwrap();
    for block in 0..BLOCKS {
        client.write(block * 8192, &content(block), true);
    }
}

/// What each block reads as; nothing where that is an error.
pub fn read(scratch: &Scratch) -> Vec<Option<Vec<u8>>> {
    let daemon = serve(scratch);
    let mut client = Client::connect(&daemon.socket).unwrap();
    let found = (0..BLOCKS).map(|block| client.try_read(block * 8192, 4096).ok()).collect();
    drop(client);
    daemon.stop_ok();
    found
}

/// Every block reads as it was written.
pub fn expect_content(scratch: &Scratch) {
    for (block, found) in (0..).zip(read(scratch)) {
        assert_eq!(found, Some(content(block)), "block {block}");
    }
}

/// Overwrites bytes of the image with zeros.
pub fn zero(scratch: &Scratch, offset: u64, len: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(scratch.path("a.img")).unwrap();
    file.write_all_at(&vec![0; len as usize], offset).unwrap();
}

/// All three copies of the superblock.
pub fn zero_superblocks(scratch: &Scratch) {
    for offset in [0, 65536, IMAGE_BYTES - 4096] {
        zero(scratch, offset, 4096);
    }
}

/// Both snapshots.
pub fn zero_slots(scratch: &Scratch) {
    let dump = super::run_json(scratch, &["dump", "a.img"]);
    let slot_bytes = dump["layout"]["slot_bytes"].as_u64().unwrap();
    for slot in dump["snapshots"].as_array().unwrap() {
        zero(scratch, slot["device_offset"].as_u64().unwrap(), slot_bytes);
    }
}

/// Every byte of the image.
pub fn image(scratch: &Scratch) -> Vec<u8> {
    std::fs::read(scratch.path("a.img")).unwrap()
}
