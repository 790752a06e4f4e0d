//! What a recovery leaves behind beside the data: the figures it tells, the flush it owes, when the next snapshot
//! is due and which log counts as the one in use. None of it may be lost with the power, or a volume that is cut
//! often would never write a snapshot, and would move the wrong log.

use crate::support::disk::TestDisk;
use crate::support::harness::Harness;
use crate::support::options::{DEVICE_BYTES, Options};
use crate::support::steps::Step;
use nearhead_disk::{Command, Completion, Disk, Nanos, Payload, Properties, Submission};
use nearhead_engine::{Phase, Status};
use nearhead_format::blank_map::{BLANK_MAP_END, BLANK_MAP_OFFSET};
use nearhead_format::generation::GENERATION_OFFSETS;
use nearhead_format::{AckMode, Layout, Place};
use nearhead_models::MemoryStore;
use nearhead_service::Operation;
use nearhead_volume::Volume;
use std::collections::BTreeSet;

/// A disk that remembers what it was asked for.
struct Watched {
    disk: TestDisk,
    reads: Vec<(u64, u64)>,
    flushes: u64,
}

impl Disk for Watched {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }

    fn properties(&self) -> &Properties {
        self.disk.properties()
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        match &submission.command {
            Command::Read { offset, len } => self.reads.push((*offset, u64::from(*len))),
            Command::Flush => self.flushes += 1,
            _ => {}
        }
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.disk.poll(now)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.disk.wake_at()
    }
}

fn durable(preset: &'static str) -> Options {
    // Nothing happens by itself unless a test says so.
    Options {
        swap_above_pct: None,
        snapshot_after_bytes: 64 << 20,
        ..Options::new(preset, AckMode::Durable)
    }
}

/// Some durable writes of single blocks, one after another, so that each is a record.
fn write_blocks(harness: &mut Harness, starts: impl Iterator<Item = u64>) {
    for start in starts {
        harness.apply(&Step::Write { start, count: 8, fua: true });
        harness.apply(&Step::Settle);
    }
}

/// Writes near the end of the volume until records go to a log there, and then until that one is used by so many
/// bytes.
fn fill_a_far_log(harness: &mut Harness, bytes: u64) {
    let layout = harness.volume().superblock().layout;
    let far = (layout.client_bytes() - (2 << 20)) / 4096 * 4096;
    for round in 0..bytes / 4096 + 20 {
        if round < 20 {
            // Written in place: the head is there then.
            let data = Payload::Zeros(512 << 10);
            harness.send(Operation::Write { offset: far + (1 << 20), data, fua: true });
            harness.apply(&Step::Settle);
        }
        let data = Payload::Bytes(nearhead_disk::BufferMut::copy_of(&[7; 4096]).freeze());
        harness.send(Operation::Write { offset: far + round * 4096, data, fua: true });
        harness.apply(&Step::Settle);
    }
}

/// The log in which each entry of the map points, and how many do.
fn logs_in_use(volume: &Volume<TestDisk>) -> std::collections::BTreeMap<u32, usize> {
    let layout = volume.superblock().layout;
    let mut logs = std::collections::BTreeMap::new();
    for entry in volume.engine().map() {
        if let Place::Log { chunk_sector, .. } = entry.place {
            let log = log_at(&layout, chunk_sector * 512).expect("an entry points into a log");
            *logs.entry(log).or_insert(0) += 1;
        }
    }
    logs
}

fn log_at(layout: &Layout, offset: u64) -> Option<u32> {
    (0..layout.log_count()).find(|log| {
        let start = layout.log_offset(*log).unwrap();
        (start..start + layout.log_bytes).contains(&offset)
    })
}

/// Opens the volume of an image; hands out its state and what the disk was asked for, but for the superblock.
fn open(image: MemoryStore, cached: bool, read_only: bool) -> (Status, Watched, Layout) {
    let properties = Options { volatile_cache: cached, ..durable("mlb") }.disk_properties();
    assert_eq!(properties.capacity_bytes, DEVICE_BYTES);
    let disk = TestDisk::with_image(properties, image);
    let disk = Watched { disk, reads: Vec::new(), flushes: 0 };
    let (mut volume, now) =
        Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, config| config.read_only = read_only)
            .unwrap_or_else(|error| panic!("{error}"));
    volume.run_until_open(now).unwrap_or_else(|error| panic!("{error}"));
    let layout = volume.superblock().layout;
    let status = volume.status();
    let mut disk = volume.into_disk();
    disk.reads.retain(|(offset, _)| {
        !layout.superblock_offsets().contains(offset) && !GENERATION_OFFSETS.contains(offset)
    });
    (status, disk, layout)
}

#[test]
fn a_recovery_tells_what_it_read_and_where() {
    let mut harness = Harness::new(durable("mlb"));
    write_blocks(&mut harness, 0..6);
    fill_a_far_log(&mut harness, 16 << 10);
    let (status, mut disk, layout) = open(harness.volume().disk().image(), true, false);
    // The blank map is read with the superblock, before recovery.
    disk.reads.retain(|(offset, _)| !(BLANK_MAP_OFFSET..BLANK_MAP_END).contains(offset));
    assert_eq!(status.recovery_read_bytes, disk.reads.iter().map(|(_, len)| len).sum::<u64>());
    let logs: BTreeSet<u32> =
        disk.reads.iter().filter_map(|(offset, _)| log_at(&layout, *offset)).collect();
    assert!(logs.len() > 1, "one log is no trial: {:?}", disk.reads);
    assert_eq!(status.recovery_logs as usize, logs.len());
    assert_eq!(status.recovery_records, status.record_sequence);
}

#[test]
fn a_recovery_flushes_once_if_what_it_read_may_be_in_a_cache_and_it_may_write() {
    let mut harness = Harness::new(durable("mlb"));
    write_blocks(&mut harness, 0..6);
    let image = harness.volume().disk().image();
    for (cached, read_only, expected) in
        [(true, false, 1), (false, false, 0), (true, true, 0), (false, true, 0)]
    {
        let (status, disk, _) = open(image.clone(), cached, read_only);
        assert_eq!(status.phase, Phase::Serving);
        assert_eq!(disk.flushes, expected, "cache: {cached}, read-only: {read_only}");
    }
}

#[test]
fn records_from_before_a_crash_count_for_when_the_next_snapshot_is_due() {
    for (more_bytes, snapshots) in [(0, 1), (1, 0)] {
        let mut harness = Harness::new(durable("mlb"));
        write_blocks(&mut harness, std::iter::repeat_n(0, 40));
        let status = harness.volume().status();
        assert_eq!((status.stats.records, status.snapshot_number), (40, 0));
        harness.options.snapshot_after_bytes = status.stats.record_bytes + more_bytes;
        harness.apply(&Step::Kill);
        let until = harness.now + Nanos::from_millis(200);
        while harness.now < until && harness.jump() {}
        let status = harness.volume().status();
        assert_eq!(status.recovery_records, 40);
        assert_eq!(status.snapshot_number, snapshots, "{more_bytes} bytes short");
    }
}

#[test]
fn the_log_in_use_before_a_crash_is_the_one_that_moves_after_it() {
    let mut harness = Harness::new(durable("mlb"));
    fill_a_far_log(&mut harness, 256 << 10);
    let logs = logs_in_use(harness.volume());
    let (hot, blocks) = logs.iter().max_by_key(|(_, blocks)| **blocks).unwrap();
    assert!(*hot > 0 && *blocks > 60, "no far log is full: {logs:?}");
    harness.options.swap_above_pct = Some(30);
    harness.apply(&Step::Kill);
    let until = harness.now + Nanos::from_millis(200);
    while harness.now < until && harness.jump() {}
    assert_eq!(harness.volume().status().stats.swaps, 1, "{logs:?}");
    assert_eq!(
        logs_in_use(harness.volume()).get(hot),
        None,
        "log {hot} was not the one that moved"
    );
}

#[test]
fn a_volume_that_stopped_cleanly_writes_nothing_if_it_stops_again_at_once() {
    let mut harness = Harness::new(durable("mlb"));
    write_blocks(&mut harness, 0..6);
    harness.apply(&Step::Restart);
    let number = harness.volume().status().snapshot_number;
    let writes = harness.volume().disk().writes();
    harness.apply(&Step::Restart);
    assert_eq!(harness.volume().status().snapshot_number, number);
    assert_eq!(harness.volume().disk().writes(), writes);
}

/// A snapshot that a running volume writes does not say so, even if nothing was written after it.
#[test]
fn a_stop_after_a_crash_leaves_a_snapshot_that_says_it_was_clean() {
    let mut harness = Harness::new(durable("mlb"));
    write_blocks(&mut harness, 0..6);
    let now = harness.now;
    harness.volume().start_snapshot(now);
    while harness.volume().status().snapshot_number == 0 {
        assert!(harness.jump(), "no snapshot comes: {:#?}", harness.volume().status());
    }
    harness.apply(&Step::Kill);
    let status = harness.volume().status();
    assert_eq!((status.snapshot_number, status.recovery_records), (1, 0));
    harness.apply(&Step::Restart);
    assert_eq!(harness.volume().status().snapshot_number, 2);
}
