//! Chains that are written over again and again: room never ends, whoever cleans and on however many devices, and nobody is refused.

#![allow(clippy::unwrap_used)]

mod chunk_by_chunk;

use chunk_by_chunk::ChunkByChunk;
use nearhead_disk::{Disk, Nanos};
use nearhead_engine::cleaner::{Cleaner, CompactInBody, MoveToTail};
use nearhead_format::layout::DataParts;
use nearhead_models::{Dataless, HddModel, HddOptions, Profile};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::{Content, RandomMix, RandomMixOptions};
use nearhead_volume::create::describe;
use nearhead_volume::{CreateOptions, Lanes, NamedPreset, Volume};

const MIB: u64 = 1 << 20;

fn disk() -> HddModel {
    let options = HddOptions { write_cache: Some(false), ..HddOptions::default() };
    HddModel::new(&Profile::named("st3146855fc").unwrap(), Box::new(Dataless), options).unwrap()
}

fn chain(devices: &[u64], log_bytes: u64, cleaner: Box<dyn Cleaner>) -> Volume<HddModel> {
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
    Volume::start_empty(lanes, superblock, preset, |_, config| {
        config.cleaner = cleaner;
        config.snapshot_after_bytes = 8 * MIB;
    })
}

/// Writes so many times what the chain offers, at random, in requests of these bytes.
fn write_over(
    volume: &mut Volume<HddModel>,
    time: &mut VirtualTime,
    (request_bytes, times): (u32, u64),
) {
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
    time.run(volume, &mut [&mut writer], Nanos::from_secs(100_000)).unwrap();
    assert_eq!(writer.writes().first_failure, None);
    assert_eq!(writer.writes().requests, requests, "the rest waits for ever");
}

#[test]
fn one_trim_of_everything_gives_every_log_back() {
    let mut volume = chain(&[64 * MIB, 16 * MIB], MIB, Box::new(CompactInBody::default()));
    let mut time = VirtualTime::default();
    write_over(&mut volume, &mut time, (4096, 2));
    let (offset, len) = (0, volume.info().size_bytes);
    let operation = Operation::Trim { offset, len, fua: true };
    let mut now = time.now();
    volume.submit(Request { id: RequestId(1 << 40), operation }, now);
    let reply = loop {
        volume.drive(now);
        if let Some(reply) = volume.poll_reply() {
            break reply;
        }
        now = volume.wake_at().expect("the trim is under way").max(now);
    };
    assert!(reply.result.is_ok(), "{:?}", reply.result);
    volume.start_snapshot(now);
    VirtualTime::starting_at(now).advance_to(&mut volume, now + Nanos::from_secs(2)).unwrap();
    let status = volume.status();
    assert_eq!(status.map_entries, 0);
    let taken: u32 = status.links.iter().map(|link| link.logs - link.logs_free).sum();
    // But for the tail, and the log of each device that copies go to next.
    assert!(taken <= 3, "{:?}", status.links);
}

#[test]
fn a_chain_that_is_written_over_again_and_again_never_runs_out_of_room() {
    let (small, few): (&[u64], &[u64]) = (&[64 * MIB, 16 * MIB, 9 * MIB], &[64 * MIB, 23 * MIB]);
    for (devices, log_bytes) in
        [(&[64 * MIB][..], MIB / 2), (&[64 * MIB][..], 3 * MIB), (small, MIB), (few, 3 * MIB)]
    {
        for (request_bytes, times) in [(4096, 20), (256 << 10, 40)] {
            let (body, tail) = (CompactInBody::default(), MoveToTail::default());
            let cleaners: [Box<dyn Cleaner>; 4] = [
                Box::new(ChunkByChunk(Box::new(body.clone()))),
                Box::new(ChunkByChunk(Box::new(tail.clone()))),
                Box::new(body),
                Box::new(tail),
            ];
            for cleaner in cleaners {
                println!(
                    "devices {devices:?}, logs of {log_bytes}, requests of {request_bytes}, {cleaner:?}"
                );
                let mut volume = chain(devices, log_bytes, cleaner);
                write_over(&mut volume, &mut VirtualTime::default(), (request_bytes, times));
                let stats = volume.status().stats;
                let logs = stats.compactions + stats.swaps;
                assert!(logs > 5, "only {logs} logs were cleaned");
            }
        }
    }
}
