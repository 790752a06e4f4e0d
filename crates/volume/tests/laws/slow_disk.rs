//! A disk that takes long over a command: what became due meanwhile waits for the answer, and nobody looks a thousand
//! times a second whether it may go on by now.

use nearhead_disk::{Nanos, Payload};
use nearhead_format::layout::DataParts;
use nearhead_format::{AckMode, Label};
use nearhead_models::{Dataless, InstantDisk, plain_properties};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::{CreateOptions, NamedPreset, Volume, create};

const BLOCK: u64 = 4096;
/// What each command takes.
const LATENCY: Nanos = Nanos::from_secs(2);
/// Looks at the volume for each of its commands: at what the disk says, and at times of its own.
const LOOKS_MAX: u64 = 8;

fn volume() -> Volume<InstantDisk> {
    let properties = plain_properties(64 << 20, 512);
    let disk = InstantDisk::new(properties.clone(), Box::new(Dataless), LATENCY);
    let preset = NamedPreset::by_name("singlelog").unwrap();
    let options = CreateOptions {
        volume_id: [1; 16],
        created_unix_s: 0,
        preset,
        logged_write_bytes_max: 64 << 10,
        group_bytes: None,
        log_bytes: Some(512 << 10),
        ack: AckMode::Flush,
        label: Label::default(),
        device_bytes: None,
        data_parts: DataParts::NONE,
        fragments: false,
        force: true,
    };
    let superblock = create::describe(&properties, None, &options).unwrap();
    Volume::start_empty(disk, superblock, preset, |_, config| {
        config.stage_age_max = Nanos::from_millis(1);
        config.snapshot_period = Nanos::from_millis(5);
        config.cleaning.idle_after = Some(Nanos::from_millis(1));
    })
}

#[test]
fn what_became_due_while_the_disk_works_is_looked_at_rarely_until_it_answers() {
    let (mut volume, mut now) = (volume(), Nanos::ZERO);
    for id in 0..8 {
        let data = Payload::Phantom(BLOCK as usize);
        let operation = Operation::Write { offset: 2 * id * BLOCK, data, fua: id % 2 == 0 };
        volume.submit(Request { id: RequestId(id), operation }, now);
        volume.drive(now);
        now += Nanos::from_millis(3);
    }
    let mut looks = 0;
    while let Some(wake) = volume.wake_at().filter(|wake| *wake < Nanos::from_secs(200)) {
        now = wake.max(now);
        volume.drive(now);
        looks += 1;
    }
    let answers = std::iter::from_fn(|| volume.poll_reply()).count();
    assert_eq!(answers, 8);
    let stats = volume.status().stats;
    let commands = stats.records
        + 4 * stats.snapshots
        + stats.device_flushes
        + stats.checkpointed_bytes / BLOCK;
    assert!(looks <= LOOKS_MAX * commands, "{looks} looks for about {commands} commands");
}
