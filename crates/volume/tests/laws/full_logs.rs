//! Law 6 under lasting pressure: when more is logged than cleaning can take home, the volume becomes
//! slower, never silent.
//!
//! Small durable writes all over the volume, several times what its logs hold, on a disk where every
//! command takes the same time. After each reply the next must come within a bounded number of
//! events, and what the disk is made to write stays in proportion to what was asked.

use nearhead_basics::SplitMix;
use nearhead_disk::{Nanos, Payload, Properties};
use nearhead_engine::admission::DurableFirst;
use nearhead_engine::{Config, Status};
use nearhead_format::DataDevice;
use nearhead_format::layout::DataParts;
use nearhead_models::{Dataless, InstantDisk, plain_properties};
use nearhead_service::{Changed, Operation, Request, RequestId, Service};
use nearhead_swarm::Patient;
use nearhead_volume::{CreateOptions, Lanes, NamedPreset, Volume, create};

/// Events in which at least one request must be answered.
const EVENTS_MAX: u64 = 20_000;

/// Data devices, where a volume has its data on such.
const DATA_BYTES: [u64; 2] = [20 << 20, 40 << 20];

/// Requests of one kind, so many outstanding.
#[derive(Clone, Copy)]
struct Burst {
    requests: u64,
    outstanding: u64,
    request_bytes: u64,
    read: bool,
    /// Every so many requests is an atomic write of two blocks; 0 for none.
    atomic_every: u64,
}

const SMALL_WRITES: Burst =
    Burst { requests: 60_000, outstanding: 32, request_bytes: 4096, read: false, atomic_every: 0 };

fn volume(preset: &str, device_bytes: u64, log_bytes: Option<u64>) -> Volume<InstantDisk> {
    configured(preset, device_bytes, log_bytes, |_| ())
}

fn configured(
    preset: &str,
    device_bytes: u64,
    log_bytes: Option<u64>,
    configure: impl FnOnce(&mut Config),
) -> Volume<InstantDisk> {
    let mut properties = plain_properties(device_bytes, 512);
    properties.volatile_cache = true;
    let named = NamedPreset::by_name(preset).unwrap();
    let data_bytes = DATA_BYTES.into_iter().filter(|_| named.layout.is_for_data_devices());
    let disk = |capacity_bytes| {
        let properties = Properties { capacity_bytes, ..properties.clone() };
        InstantDisk::new(properties, Box::new(Dataless), Nanos::from_micros(100))
    };
    let lanes = Lanes::from(disk(device_bytes)).with_data(data_bytes.clone().map(disk).collect());
    let parts: Vec<u64> = data_bytes.map(DataDevice::part_bytes).collect();
    let options = CreateOptions {
        data_parts: DataParts::of(&parts).unwrap(),
        group_bytes: log_bytes.filter(|_| preset == "mlb").map(|log| log * 8),
        log_bytes,
        ..CreateOptions::new([1; 16], named)
    };
    let superblock = create::describe(&properties, None, &options).unwrap();
    // One command of cleaning at a time, so that it cannot keep up.
    Volume::start_empty(lanes.unwrap(), superblock, named, |_, config| {
        config.admission = Box::new(DurableFirst {
            bulk_wait_max: Nanos::from_millis(50),
            piece_bytes: 128 << 10,
            bulk_bytes_max: 256 << 10,
            background_commands_max: 1,
        });
        configure(config);
    })
}

struct Client {
    volume: Volume<InstantDisk>,
    random: SplitMix,
    now: Nanos,
    next_id: u64,
    /// Small writes go to the first bytes of the volume, bulk behind them.
    small_bytes: u64,
}

impl Client {
    fn new(volume: Volume<InstantDisk>, small_bytes: u64) -> Self {
        Self { volume, random: SplitMix::new(3), now: Nanos::ZERO, next_id: 0, small_bytes }
    }

    fn operation(&mut self, burst: &Burst) -> Operation {
        let len = burst.request_bytes;
        let data = || Payload::Phantom(len as usize);
        if len > 4096 {
            let offset = self.small_bytes + self.next_id % 256 * len;
            return if burst.read {
                Operation::Read { offset, len: len as u32 }
            } else {
                Operation::Write { offset, data: data(), fua: true }
            };
        }
        let places = self.small_bytes / len;
        let (first, second) = (self.random.below(places) * len, self.random.below(places) * len);
        let atomic = burst.atomic_every > 0 && self.next_id.is_multiple_of(burst.atomic_every);
        if atomic && first != second {
            Operation::WriteAtomic {
                extents: vec![(first, data()), (second, data())],
                changed: Changed::All,
            }
        } else {
            Operation::Write { offset: first, data: data(), fua: true }
        }
    }

    fn run(&mut self, burst: &Burst) {
        let (mut sent, mut answered, mut events) = (0, 0, 0);
        while answered < burst.requests {
            while sent < burst.requests && sent - answered < burst.outstanding {
                let operation = self.operation(burst);
                let id = RequestId(self.next_id);
                self.volume.submit(Request { id, operation }, self.now);
                self.next_id += 1;
                sent += 1;
            }
            self.volume.drive(self.now);
            events += 1;
            while let Some(reply) = self.volume.poll_reply() {
                assert!(reply.result.is_ok(), "{:?}", reply.result);
                answered += 1;
                events = 0;
            }
            if events == 0 {
                continue;
            }
            let status = self.volume.status();
            assert!(events < EVENTS_MAX, "silent after {answered} replies: {status:#?}");
            let wake = self.volume.wake_at();
            self.now = self.now.max(wake.unwrap_or_else(|| panic!("nothing follows: {status:#?}")));
        }
    }
}

/// A record, the copy home, and snapshots of the map, which is small against the logs.
fn assert_in_proportion(status: &Status, asked_bytes: u64) {
    let counts = &status.stats;
    let written = counts.record_bytes + counts.checkpointed_bytes + counts.snapshot_bytes;
    let ratio = written as f64 / asked_bytes as f64;
    assert!(ratio < 6.0, "{ratio:.1} bytes written for each byte asked: {status:#?}");
}

#[test]
fn a_volume_whose_logs_stay_full_goes_on_answering() {
    let mut client = Client::new(volume("mlb", 256 << 20, None), 200 << 20);
    client.run(&SMALL_WRITES);
    let asked_bytes = SMALL_WRITES.requests * SMALL_WRITES.request_bytes;
    assert_in_proportion(&client.volume.status(), asked_bytes);
}

#[test]
fn bursts_of_small_writes_between_bulk_transfers_are_all_answered() {
    let mut client = Client::new(volume("mlb", 4 << 30, None), 512 << 20);
    let alone = Burst { requests: 7_000, outstanding: 1, ..SMALL_WRITES };
    let together = Burst { requests: 30_000, ..SMALL_WRITES };
    let bulk = Burst { requests: 500, outstanding: 4, request_bytes: 1 << 20, ..SMALL_WRITES };
    for _ in 0..6 {
        for burst in [alone, together, bulk, Burst { read: true, ..bulk }] {
            client.run(&burst);
        }
    }
}

#[test]
fn a_volume_whose_logs_stay_full_answers_a_single_writer() {
    let mut client = Client::new(volume("mlb", 256 << 20, None), 200 << 20);
    client.run(&Burst { requests: 30_000, outstanding: 1, atomic_every: 7, ..SMALL_WRITES });
}

#[test]
fn a_single_small_log_that_stays_full_goes_on_answering() {
    let mut client = Client::new(volume("singlelog", 256 << 20, Some(2 << 20)), 200 << 20);
    client.run(&Burst { requests: 30_000, ..SMALL_WRITES });
}

#[test]
fn sectors_all_over_the_volume_do_not_silence_it() {
    let mut client = Client::new(volume("mlb", 64 << 20, Some(512 << 10)), 48 << 20);
    client.run(&Burst { requests: 100_000, request_bytes: 512, atomic_every: 5, ..SMALL_WRITES });
}

#[test]
fn where_the_policy_says_so_small_writes_wait_for_room_and_none_goes_home() {
    let sizes = [
        ("mlb", 256 << 20, None, 200 << 20),
        ("singlelog", 256 << 20, Some(2 << 20), 200 << 20),
        ("trail", 64 << 20, Some(512 << 10), 40 << 20),
    ];
    for (preset, device_bytes, log_bytes, small_bytes) in sizes {
        let patient = |config: &mut Config| {
            config.cleaner = Box::new(Patient(config.cleaner.clone()));
        };
        let volume = configured(preset, device_bytes, log_bytes, patient);
        let mut client = Client::new(volume, small_bytes);
        client.run(&Burst { requests: 30_000, atomic_every: 9, ..SMALL_WRITES });
        let status = client.volume.status();
        assert!(status.stats.checkpointed_bytes > 0 && status.stats.records > 0);
        assert_eq!((status.stats.spills, status.stats.in_place_bytes), (0, 0), "{preset}");
    }
}
