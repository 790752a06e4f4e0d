//! A burst of durable writes: few large records take it, and a recovery finds all of them, also the largest that
//! the engine writes.

#![allow(clippy::unwrap_used)]

use nearhead_arrays::model_from_text;
use nearhead_basics::SplitMix;
use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_engine::RECORD_BYTES_MAX;
use nearhead_format::AckMode;
use nearhead_models::Model;
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_volume::{CreateOptions, NamedPreset, SyncIo, Volume, create};

const BLOCK: u64 = 4096;

fn options() -> CreateOptions {
    CreateOptions {
        ack: AckMode::Durable,
        device_bytes: Some(1 << 30),
        force: true,
        ..CreateOptions::new([7; 16], NamedPreset::by_name("mlb-32").unwrap())
    }
}

struct Run {
    volume: Volume<Box<dyn Model>>,
    now: Nanos,
}

impl Run {
    fn open(disk: Box<dyn Model>, now: Nanos) -> Self {
        let (mut volume, now) = Volume::open_in_virtual_time(disk, now, |_, _| {}).unwrap();
        let now = volume.run_until_open(now).unwrap();
        assert!(volume.status().damage.is_empty(), "{:?}", volume.status().damage);
        Self { volume, now }
    }

    fn submit(&mut self, id: u64, operation: Operation) {
        self.volume.submit(Request { id: RequestId(id), operation }, self.now);
    }

    /// Drives until `count` replies came; what the last of them brought.
    fn wait(&mut self, count: u64) -> Vec<Payload> {
        let (mut left, mut last) = (count, Vec::new());
        loop {
            self.volume.drive(self.now);
            while let Some(reply) = self.volume.poll_reply() {
                last = reply.result.unwrap();
                left -= 1;
            }
            if left == 0 {
                return last;
            }
            self.now = self.volume.wake_at().unwrap().max(self.now);
        }
    }
}

fn content(block: u64) -> Vec<u8> {
    (block ^ 0x5EED).to_le_bytes().repeat(512)
}

#[test]
fn a_burst_of_durable_writes_takes_few_records_and_survives_a_power_cut() {
    let mut disk = model_from_text("constellation-es3-1tb,cache=off").unwrap();
    create(&mut SyncIo::in_virtual_time(&mut disk, Nanos::ZERO), &options()).unwrap();
    let mut run = Run::open(disk, Nanos::from_secs(60));
    // Every other block, so that nothing can be joined.
    let blocks: Vec<u64> =
        (0..2 * u64::from(RECORD_BYTES_MAX) / BLOCK).map(|block| 2 * block).collect();
    for block in &blocks {
        let data = Payload::Bytes(BufferMut::copy_of(&content(*block)).freeze());
        run.submit(*block, Operation::Write { offset: block * BLOCK, data, fua: true });
    }
    run.wait(blocks.len() as u64);
    let records = run.volume.status().stats.records;
    assert!(records <= 3, "{records} records for twice what one can hold");

    let now = run.now;
    let mut disk = run.volume.into_disk();
    disk.power_cut(now, &mut SplitMix::new(1)).unwrap();
    let mut run = Run::open(disk, now);
    assert_eq!(run.volume.status().recovery_records, records);
    for block in blocks {
        run.submit(block, Operation::Read { offset: block * BLOCK, len: BLOCK as u32 });
        let mut bytes = Vec::new();
        for part in run.wait(1) {
            let mut piece = vec![0; part.len()];
            part.copy_to(&mut piece);
            bytes.extend(piece);
        }
        assert!(bytes == content(block), "block {block}");
    }
}
