//! The same seed twice gives the same commands, the same replies and the same bytes.

use crate::support::harness::Harness;
use crate::support::options::Options;
use crate::support::steps::{Step, random_step};
use nearhead_basics::SplitMix;
use nearhead_format::AckMode;
use nearhead_models::Store;
use nearhead_volume::PRESETS;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Hashes over commands, replies and the disk's content.
#[derive(Debug, PartialEq, Eq)]
struct Trace {
    commands: u64,
    replies: u64,
    content: u64,
}

fn run(seed: u64, preset: &'static str, ack: AckMode) -> Trace {
    let mut random = SplitMix::new(seed);
    let mut harness = Harness::new(Options::random(preset, ack, &mut random));
    for _ in 0..600 {
        let step = harness.options.placed(random_step(&mut random, true, seed % 2 == 1));
        harness.apply(&step);
    }
    harness.apply(&Step::Settle);
    let (replies, image_bytes) = (harness.replies_hash(), harness.options.image_bytes());
    let disk = harness.volume().disk();
    let (image, mut content) = (disk.image(), DefaultHasher::new());
    let mut bytes = vec![0; 1 << 20];
    for offset in (0..image_bytes).step_by(bytes.len()) {
        image.read(offset, &mut bytes).unwrap();
        bytes.hash(&mut content);
    }
    Trace { commands: disk.commands_hash(), replies, content: content.finish() }
}

#[test]
fn the_same_seed_gives_the_same_commands_replies_and_bytes() {
    for preset in &PRESETS {
        for ack in [AckMode::Durable, AckMode::Flush] {
            for seed in 0..4 {
                let (first, second) = (run(seed, preset.name, ack), run(seed, preset.name, ack));
                assert_eq!(first, second, "seed {seed}, {}, {ack:?}", preset.name);
            }
        }
    }
    let (one, other) = (run(0, "mlb", AckMode::Flush), run(2, "mlb", AckMode::Flush));
    assert_ne!(one, other, "another seed gives something else");
}
