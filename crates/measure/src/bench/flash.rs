//! The flash model beside another simulator: mean response of 8 KiB random requests on the device
//! both know, write cache off. Nothing was fitted to these numbers; what is assumed stands in
//! `crates/models/profiles/flash-8ch-550gb.toml`.

use super::Effort;
use super::row::{Row, Target};
use nearhead_basics::SplitMix;
use nearhead_disk::{Class, Command, CommandId, Disk, Nanos, Payload, Submission, Ticket};
use nearhead_models::{Dataless, Drive, HddOptions, Model};
use std::collections::HashMap;
use std::path::Path;

const PAGE_BYTES: u32 = 8192;

/// Requests until the translation pages in memory are as they will be for ever.
const WARM_UP: u64 = 2000;

/// Queue depth, and what MQSim reports for reads and writes, in us.
const MQSIM: [(u64, &str, f64, &str, f64); 4] = [
    (1, "flash_read_depth_1_us", 179.0, "flash_write_depth_1_us", 854.0),
    (4, "flash_read_depth_4_us", 192.0, "flash_write_depth_4_us", 915.0),
    (16, "flash_read_depth_16_us", 247.0, "flash_write_depth_16_us", 1163.0),
    (64, "flash_read_depth_64_us", 577.0, "flash_write_depth_64_us", 2200.0),
];

pub(super) fn measure(effort: Effort, _folder: &Path) -> Result<Vec<Row>, String> {
    let requests = effort.pick(50_000, 2_000);
    let mut rows = Vec::new();
    for (depth, read, read_us, write, write_us) in MQSIM {
        for (name, theirs, writes) in [(read, read_us, false), (write, write_us, true)] {
            let ours = mean_us(writes, depth, requests)?;
            let differ_pct = 100.0 * (ours / theirs - 1.0);
            let detail = format!("8 KiB at random; MQSim {theirs} us, {differ_pct:+.1} %");
            rows.push(Row::new(name, Target::Informative, ours, detail));
        }
    }
    Ok(rows)
}

fn mean_us(writes: bool, depth: u64, requests: u64) -> Result<f64, String> {
    let drive = Drive::named("flash-8ch-550gb").map_err(|error| error.to_string())?;
    let disk = drive.build(Box::new(Dataless), HddOptions::default());
    let mut disk: Box<dyn Model> = disk.map_err(|error| error.to_string())?;
    let pages = disk.properties().capacity_bytes / u64::from(PAGE_BYTES);
    let mut random = SplitMix::new(depth);
    let mut begun: HashMap<u64, Nanos> = HashMap::new();
    let (mut now, mut sum_us, mut measured) = (Nanos::ZERO, 0.0, 0_u64);
    for id in 0..requests + WARM_UP {
        while begun.len() as u64 >= depth {
            now = disk.wake_at().ok_or("the flash model owes a reply and asks for no wake-up")?;
            let Some(done) = disk.poll(now) else { continue };
            if let Some(since) = begun.remove(&done.id.0).filter(|_| done.id.0 >= WARM_UP) {
                sum_us += now.since(since).0 as f64 / 1e3;
                measured += 1;
            }
            break;
        }
        let offset = random.below(pages) * u64::from(PAGE_BYTES);
        let command = if writes {
            let parts = vec![Payload::Phantom(PAGE_BYTES as usize)];
            Command::Write { offset, parts, durable: false }
        } else {
            Command::Read { offset, len: PAGE_BYTES }
        };
        begun.insert(id, now);
        let ticket = Ticket::new(CommandId(id));
        disk.submit(Submission { ticket, class: Class::Foreground, command }, now);
    }
    Ok(sum_us / measured.max(1) as f64)
}
