//! A record that waits for the arm of a known drive does not wait for a command that the drive hangs on.

use nearhead_disk::{Nanos, Payload, Properties, TrackZone, Tracks, Turn};
use nearhead_models::{Dataless, InstantDisk, plain_properties};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::{CreateOptions, NamedPreset, Volume, create};
use std::sync::Arc;

/// What each command takes, whatever else is on the disk.
const LATENCY: Nanos = Nanos::from_secs(2);
/// A record waits this long at most for a disk on which nothing is, and an engine looks again soon.
const HELD_MAX: Nanos = Nanos::from_millis(60);

#[test]
fn a_record_leaves_beside_a_command_that_does_not_end() {
    let properties = Properties { rotational: true, ..plain_properties(64 << 20, 512) };
    let disk = InstantDisk::new(properties.clone(), Box::new(Dataless), LATENCY);
    let preset = NamedPreset::by_name("nearhead").unwrap();
    let options = CreateOptions::new([1; 16], preset);
    let superblock = create::describe(&properties, None, &options).unwrap();
    let zone = TrackZone {
        first_byte: 0,
        track_bytes: 1 << 20,
        skew: Turn(0),
        group_tracks: 0,
        group_skew: Turn(0),
        group_bytes: 0,
    };
    let tracks = Tracks::new(8e6, vec![zone]).unwrap();
    let mut volume = Volume::start_empty(disk, superblock, preset, |_, config| {
        config.tracks = vec![Arc::new(tracks)];
    });
    let read = Operation::Read { offset: 1 << 20, len: 4096 };
    volume.submit(Request { id: RequestId(1), operation: read }, Nanos::ZERO);
    volume.drive(Nanos::ZERO);
    let mut now = Nanos::from_millis(1);
    let write = Operation::Write { offset: 0, data: Payload::Phantom(4096), fua: true };
    volume.submit(Request { id: RequestId(2), operation: write }, now);
    volume.drive(now);
    assert_eq!(volume.status().stats.records, 0, "it waits for the arm");
    let mut answered = Vec::new();
    while answered.len() < 2 {
        now = volume.wake_at().expect("both are answered").max(now);
        volume.drive(now);
        answered.extend(std::iter::from_fn(|| volume.poll_reply()).map(|reply| (reply.id.0, now)));
    }
    let (_, written_at) = answered.iter().find(|(id, _)| *id == 2).unwrap();
    assert!(*written_at <= Nanos::from_millis(1) + HELD_MAX + LATENCY, "{answered:?}");
}
