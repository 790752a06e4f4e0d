//! A superblock that is older than the map on the same device: of a volume that has grown, with the newest
//! copy unreadable. What the map and the records name lies outside then, and nothing may be served.

use crate::support::disk::TestDisk;
use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::Step;
use nearhead_disk::{Nanos, Payload};
use nearhead_format::{AckMode, Superblock};
use nearhead_models::Store;
use nearhead_service::Operation;
use nearhead_volume::{OpenError, Volume};

/// A volume of many groups that used logs of the last ones, opened as one that has two groups.
fn open_as_it_was(end: &Step) -> Result<Nanos, OpenError> {
    let options = Options::new("mlb", AckMode::Durable);
    let mut harness = Harness::new(options.clone());
    let layout = harness.volume().superblock().layout;
    let far = (layout.client_bytes() - (1 << 20)) / 4096 * 4096;
    for round in 0..4 {
        for len in [512 << 10, 4096] {
            let data = Payload::Zeros(len);
            harness.send(Operation::Write { offset: far + round * 4096, data, fua: true });
            harness.apply(&Step::Settle);
        }
    }
    harness.apply(end);
    let mut image = harness.volume().disk().image();
    let superblock = harness.volume().superblock();
    let older = Superblock {
        layout: nearhead_format::Layout { group_count: 2, ..superblock.layout },
        ..superblock.clone()
    };
    for (copy, offset) in (0..).zip(older.layout.superblock_offsets()) {
        image.write(offset, &older.encode(copy)).unwrap();
    }
    let disk = TestDisk::with_image(options.disk_properties(), image);
    let (mut volume, now) =
        Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, config| options.configure(config))?;
    volume.run_until_open(now)
}

#[test]
fn a_map_that_names_logs_past_the_superblocks_is_refused() {
    // By records, and by a snapshot that holds everything.
    for end in [Step::Cut { seed: 1 }, Step::Restart] {
        let error = open_as_it_was(&end).expect_err("the map lies outside").to_string();
        assert!(error.contains("expected a log below 2, found log"), "{end:?}: {error}");
    }
}
