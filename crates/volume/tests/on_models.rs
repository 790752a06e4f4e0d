//! Volumes on every kind of modelled disk and on arrays of them: the engine knows none of them, and
//! whatever was acknowledged as durable is there after a power cut.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_arrays::model_from_text;
use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_models::Model;
use nearhead_service::Service;
use nearhead_volume::{CreateOptions, SyncIo, create};
use support::{Run, Trial};

const VOLUME_BYTES: u64 = 96 << 20;
const BLOCKS: u64 = 4096;

/// Each with its write cache on, where something can be lost.
const DISKS: [&str; 7] = [
    "model:st8000as0002,cache=on",
    "model:st8000as0002-slsmr,cache=on",
    "model:st8000as0002-mlsmr,cache=on",
    "model:st8000as0002-mlsmr",
    "model:flash-8ch-550gb,cache=on",
    "raid0:model:st3146855fc,cache=on,model:flash-8ch-550gb,cache=on?chunk=16k",
    "mirror:model:st3146855fc,cache=on,model:st8000as0002,cache=on",
];

fn options() -> CreateOptions {
    CreateOptions { device_bytes: Some(VOLUME_BYTES), ..support::options("mlb-32", 7, 8 << 20) }
}

#[test]
fn what_was_durable_is_there_after_power_cuts_on_every_kind_of_disk() {
    for (disk, seed) in DISKS.iter().flat_map(|disk| [(disk, 1), (disk, 2)]) {
        let name = format!("{disk}, seed {seed}");
        println!("repeat with {name}");
        let mut random = SplitMix::new(seed);
        let mut model = model_from_text(disk).unwrap();
        create(&mut SyncIo::in_virtual_time(&mut model, Nanos::ZERO), &options()).unwrap();
        let run: Run<Box<dyn Model>> = Run::open(model, Nanos::from_secs(60), |_| {});
        let trial = Trial {
            name: &name,
            cuts: 6,
            writes_max: 20,
            blocks: BLOCKS,
            rest: Some(Nanos::from_secs(5)),
            cut_within_us: 20_000,
        };
        trial.run(run, &mut random, |run, random| {
            let now = run.now;
            let mut model = run.volume.into_disk();
            model.power_cut(now, random).unwrap();
            Run::open(model, now, |_| {})
        });
    }
}

/// How long it takes to bring home what was logged of blocks all over the volume, in virtual time, and the bytes from memory.
fn pass_home(memory_bytes: u64) -> (Nanos, u64) {
    let mut model = model_from_text("model:st3146855fc").unwrap();
    create(&mut SyncIo::in_virtual_time(&mut model, Nanos::ZERO), &options()).unwrap();
    let mut run = Run::open(model, Nanos::from_secs(60), |config| {
        config.cleaning.memory_bytes = memory_bytes;
        config.cleaning.idle_after = None;
    });
    let mut random = SplitMix::new(3);
    for version in 0..1000 {
        let block = random.below(BLOCKS);
        let id = run.write(block..block + 1, version);
        run.wait(id);
    }
    let began_at = run.now;
    run.volume.start_checkpoint(true, run.now);
    while run.volume.status().map_entries > 0 {
        run.now = run.volume.wake_at().expect("a pass goes on").max(run.now);
        run.volume.drive(run.now);
    }
    (run.now.since(began_at), run.volume.status().stats.remembered_bytes)
}

#[test]
fn what_comes_home_from_memory_leaves_the_disk_more_of_its_time() {
    let (read, none) = pass_home(0);
    let (remembered, bytes) = pass_home(64 << 20);
    println!("{read} with reads of the logs, {remembered} from memory: {} KiB", bytes >> 10);
    assert!(none == 0 && bytes > 3 << 20, "{none} and {bytes} bytes from memory");
    assert!(remembered < read, "{remembered} from memory, {read} with reads of the logs");
}
