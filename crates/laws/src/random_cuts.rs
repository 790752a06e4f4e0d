//! Random workloads with power cuts, kills, shutdowns and failing disks: one seed decides the options, the steps and the
//! fate of every unflushed sector.

use crate::harness::Harness;
use crate::options::Options;
use crate::steps::{Step, random_step};
use nearhead_basics::SplitMix;
use nearhead_format::AckMode;
use nearhead_volume::{NamedPreset, Presets};

/// What is tried beside the cuts.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub steps: u64,
    /// The disk fails now and then.
    pub faults: bool,
    /// The logs hold less than is written over.
    pub logs_are_scarce: bool,
}

impl Kind {
    pub const SOUND: Self = Self { steps: 800, faults: false, logs_are_scarce: false };
    pub const FAILING: Self = Self { steps: 500, faults: true, logs_are_scarce: false };
    pub const SCARCE: Self = Self { steps: 800, faults: false, logs_are_scarce: true };
}

/// Lives the workload of that seed. `change` says what else of the options is other than the seed has it. What is read at its
/// end, and what was asked of the disk on the way, are all in the hash that it gives.
///
/// # Panics
/// If a law is broken.
pub fn live(
    seed: u64,
    (presets, preset): (Presets, NamedPreset),
    ack: AckMode,
    kind: Kind,
    change: impl FnOnce(Options) -> Options,
) -> u64 {
    let mut random = SplitMix::new(seed);
    let options = Options::random_of(presets, preset, ack, &mut random);
    let options = change(Options { logs_are_scarce: kind.logs_are_scarce, ..options });
    let options = if random.below(3) == 0 { options.with_fragments() } else { options };
    let trace = std::env::var_os("TRACE").is_some();
    if trace {
        println!("{options:?}");
    }
    let mut harness = Harness::new(options);
    for _ in 0..kind.steps {
        let step = harness.options.placed(random_step(&mut random, true, kind.faults));
        if trace {
            println!("{} at {}: {step:?}", harness.oracle.epoch, harness.now);
        }
        harness.apply(&step);
    }
    harness.apply(&Step::Settle);
    harness.apply(&Step::Cut { seed });
    harness.replies_hash() ^ harness.volume().disk().commands_hash()
}
