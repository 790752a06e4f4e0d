//! How many random 4 KiB requests a second the engine alone handles on one core, data-less, on a
//! disk that takes no time: `cargo run --release -p nearhead-volume --example engine_speed`.

use nearhead_basics::SplitMix;
use nearhead_disk::{Nanos, Payload};
use nearhead_format::AckMode;
use nearhead_models::{Dataless, InstantDisk, plain_properties};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::{CreateOptions, NamedPreset, Volume, create};
use std::time::Instant;

const REQUESTS: u64 = 4_000_000;
const QUEUE_DEPTH: u64 = 32;

fn main() {
    for write_pct in [100, 0, 50] {
        let properties = plain_properties(1 << 40, 512);
        let disk = InstantDisk::new(properties.clone(), Box::new(Dataless), Nanos::ZERO);
        let preset = NamedPreset::by_name("mlb").expect("a known preset");
        let options =
            CreateOptions { ack: AckMode::Durable, ..CreateOptions::new([1; 16], preset) };
        let superblock = create::describe(&properties, None, &options).expect("a layout");
        let mut volume = Volume::start_empty(disk, superblock, preset, |_, _| {});
        let blocks = volume.info().size_bytes / 4096;
        let mut random = SplitMix::new(7);
        let started = Instant::now();
        let (mut sent, mut answered) = (0, 0);
        while answered < REQUESTS {
            let now = Nanos(started.elapsed().as_nanos() as u64);
            for _ in 0..QUEUE_DEPTH.min(REQUESTS - sent) {
                let offset = random.below(blocks) * 4096;
                let operation = if random.below(100) < write_pct {
                    Operation::Write { offset, data: Payload::Phantom(4096), fua: false }
                } else {
                    Operation::Read { offset, len: 4096 }
                };
                volume.submit(Request { id: RequestId(sent), operation }, now);
                sent += 1;
            }
            volume.drive(now);
            while let Some(reply) = volume.poll_reply() {
                assert!(reply.result.is_ok(), "{:?}", reply.result);
                answered += 1;
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "{write_pct:3} % writes: {:.0} requests/s, {} map entries",
            REQUESTS as f64 / seconds,
            volume.status().map_entries
        );
    }
}
