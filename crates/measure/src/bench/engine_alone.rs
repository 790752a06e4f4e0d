//! The engine alone: requests a second on a disk that takes no time and keeps no data.
//!
//! What remains is the engine's own work: map, staging, records, dispatch. One thread, one core.

use super::Effort;
use super::machine::processor_time;
use super::row::{Row, Target, median};
use nearhead_basics::Random;
use nearhead_disk::{Nanos, Payload};
use nearhead_models::{Dataless, InstantDisk, plain_properties};
use nearhead_service::{Operation, Request, RequestId, Service};
use nearhead_study::dataless::{self, Answers};
use nearhead_volume::{NamedPreset, Volume};
use std::path::Path;

/// Requests handed over together, as a server with many clients does.
pub(super) const BATCH: u64 = 64;
const DISK_BYTES: u64 = 1 << 40;
/// Where requests go: 1 Mi blocks.
const SPAN_BLOCKS: u64 = 1 << 20;

pub(super) fn measure(effort: Effort, _folder: &Path) -> Result<Vec<Row>, String> {
    let (rounds, requests) = (effort.pick(5, 1), effort.pick(2_000_000, 100_000));
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    let mut volume = volume(DISK_BYTES)?;
    let mut clock = Load::default();
    for _ in 0..rounds {
        writes.push(clock.run(&mut volume, requests, write)?);
        reads.push(clock.run(&mut volume, requests, read)?);
    }
    let row = |name, values: &[f64]| {
        let detail = format!(
            "per second of processor time, median of {rounds} rounds of {requests}, {BATCH} at a time"
        );
        Row::new(name, Target::AtLeast(1e6), median(values), detail)
    };
    Ok(vec![
        row("engine_write_4k_requests_per_s", &writes),
        row("engine_read_4k_requests_per_s", &reads),
    ])
}

/// A volume that exists in its map only.
pub(super) fn volume(disk_bytes: u64) -> Result<Volume<InstantDisk>, String> {
    let properties = plain_properties(disk_bytes, 4096);
    let disk = InstantDisk::new(properties, Box::new(Dataless), Nanos::ZERO);
    let preset = NamedPreset::by_name("mlb").map_err(|error| error.to_string())?;
    dataless::volume(disk, preset, Answers::Durable)
}

fn write(random: &mut Random) -> Operation {
    let offset = random.below(SPAN_BLOCKS) * 4096;
    Operation::Write { offset, data: Payload::Phantom(4096), fua: true }
}

fn read(random: &mut Random) -> Operation {
    Operation::Read { offset: random.below(SPAN_BLOCKS) * 4096, len: 4096 }
}

/// Makes requests; remembers time and ids between rounds.
pub(super) struct Load {
    now: Nanos,
    next_id: u64,
    random: Random,
}

impl Default for Load {
    fn default() -> Self {
        Self { now: Nanos::ZERO, next_id: 0, random: Random::new(1) }
    }
}

impl Load {
    /// Makes `requests` requests, each batch after the replies to the last; requests a
    /// second of processor time, which other programs cannot take away.
    pub(super) fn run<S: Service>(
        &mut self,
        service: &mut S,
        requests: u64,
        mut operation: impl FnMut(&mut Random) -> Operation,
    ) -> Result<f64, String> {
        let started = processor_time();
        let mut left = requests;
        while left > 0 {
            let batch = left.min(BATCH);
            for _ in 0..batch {
                let id = RequestId(self.next_id);
                self.next_id += 1;
                let operation = operation(&mut self.random);
                service.submit(Request { id, operation }, self.now);
            }
            self.collect(service, batch)?;
            left -= batch;
        }
        Ok(requests as f64 / processor_time().saturating_sub(started).as_secs_f64())
    }

    fn collect<S: Service>(&mut self, service: &mut S, mut expected: u64) -> Result<(), String> {
        while expected > 0 {
            service.drive(self.now);
            let mut collected = false;
            while let Some(reply) = service.poll_reply() {
                if let Err(error) = reply.result {
                    return Err(format!("expected success, found {}", error.detail));
                }
                expected -= 1;
                collected = true;
            }
            if expected > 0 && !collected {
                let wake_at = service.wake_at();
                let wake_at = wake_at.ok_or("the engine owes replies and asks for no time")?;
                self.now = wake_at.max(self.now);
            }
        }
        self.now += Nanos::from_micros(10);
        Ok(())
    }
}
