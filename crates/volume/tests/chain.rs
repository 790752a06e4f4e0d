//! Chains that are written over again and again: room never ends, whoever cleans and on however many devices, and nobody is refused.

#![allow(clippy::unwrap_used)]

use nearhead_disk::{Disk, Nanos};
use nearhead_engine::cleaner::{Cleaner, CompactInBody, MoveToTail};
use nearhead_format::layout::DataParts;
use nearhead_models::{Dataless, HddModel, HddOptions, Profile};
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::{Content, RandomMix, RandomMixOptions};
use nearhead_volume::create::describe;
use nearhead_volume::{CreateOptions, Lanes, NamedPreset, Volume};

const MIB: u64 = 1 << 20;

fn disk() -> HddModel {
    let options = HddOptions { write_cache: Some(false), ..HddOptions::default() };
    HddModel::new(&Profile::named("st3146855fc").unwrap(), Box::new(Dataless), options).unwrap()
}

/// Writes so many times what the chain offers, at random, in requests of these bytes; says how many logs were cleaned, and how often nobody had room.
fn written_over(
    devices: &[u64],
    log_bytes: u64,
    cleaner: Box<dyn Cleaner>,
    (request_bytes, times): (u32, u64),
) -> u64 {
    let preset = NamedPreset::by_name("gecko").unwrap();
    let options = CreateOptions {
        device_bytes: Some(devices[0]),
        data_parts: DataParts::of(&devices[1..]).unwrap(),
        log_bytes: Some(log_bytes),
        ..CreateOptions::new([7; 16], preset)
    };
    let first = disk();
    let superblock = describe(first.properties(), None, &options).unwrap();
    let others = devices[1..].iter().map(|_| disk()).collect();
    let lanes = Lanes::from(first).with_data(others).unwrap();
    let mut volume = Volume::start_empty(lanes, superblock, preset, |_, config| {
        config.cleaner = cleaner;
        config.snapshot_after_bytes = 8 * MIB;
    });
    let size_bytes = volume.info().size_bytes;
    let requests = size_bytes * times / u64::from(request_bytes);
    let mut writer = RandomMix::new(RandomMixOptions {
        span: 0..size_bytes,
        request_bytes,
        reads: 0.0,
        fua: true,
        outstanding_max: 64,
        requests_max: Some(requests),
        content: Content::Phantom,
        seed: 3,
    });
    let mut time = VirtualTime::default();
    time.run(&mut volume, &mut [&mut writer], Nanos::from_secs(100_000)).unwrap();
    assert_eq!(writer.writes().first_failure, None);
    assert_eq!(writer.writes().requests, requests, "the rest waits for ever");
    let stats = volume.status().stats;
    stats.compactions + stats.swaps
}

#[test]
fn a_chain_that_is_written_over_again_and_again_never_runs_out_of_room() {
    let (small, few): (&[u64], &[u64]) = (&[64 * MIB, 16 * MIB, 9 * MIB], &[64 * MIB, 23 * MIB]);
    for (devices, log_bytes) in
        [(&[64 * MIB][..], MIB / 2), (&[64 * MIB][..], 3 * MIB), (small, MIB), (few, 3 * MIB)]
    {
        for (request_bytes, times) in [(4096, 20), (256 << 10, 40)] {
            for to_tail in [false, true] {
                println!(
                    "devices {devices:?}, logs of {log_bytes}, requests of {request_bytes}, to the tail: {to_tail}"
                );
                let cleaner: Box<dyn Cleaner> = if to_tail {
                    Box::new(MoveToTail::default())
                } else {
                    Box::new(CompactInBody::default())
                };
                let logs = written_over(devices, log_bytes, cleaner, (request_bytes, times));
                assert!(logs > 5, "only {logs} logs were cleaned");
            }
        }
    }
}
