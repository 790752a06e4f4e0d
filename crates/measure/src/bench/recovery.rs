//! Recovery of a volume that was cut off with 10 GB in 1,000 active logs of a 1 TB disk.
//!
//! The logs are written through the engine, one after the other, by reading near each (that is how
//! the engine knows where the head is) and then writing until the log is full. No snapshot is taken
//! in between, which is the worst case: recovery has to read every one of them.

use super::Effort;
use super::engine_alone::{BATCH, Load};
use super::machine::processor_time;
use super::row::{Row, Target};
use super::sparse_store::SparseStore;
use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_engine::{Cleaning, Config, Status};
use nearhead_format::Superblock;
use nearhead_models::{InstantDisk, plain_properties};
use nearhead_service::Operation;
use nearhead_study::dataless::{Answers, create_options};
use nearhead_volume::{NamedPreset, SyncIo, Volume, create};
use std::path::Path;

const DISK_BYTES: u64 = 1_000_000_000_000 / 4096 * 4096;

pub(super) fn measure(effort: Effort, _folder: &Path) -> Result<Vec<Row>, String> {
    let logs: u64 = effort.pick(1000, 20);
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let store = Box::new(SparseStore::default());
    let mut disk = InstantDisk::new(plain_properties(DISK_BYTES, 4096), store, Nanos::ZERO);
    let preset = NamedPreset::by_name("mlb").map_err(|error| told(&error))?;
    let options = create_options(preset, Answers::Durable);
    create(&mut SyncIo::in_virtual_time(&mut disk, Nanos::ZERO), &options)
        .map_err(|error| told(&error))?;
    let (mut volume, now) = Volume::open_in_virtual_time(disk, Nanos::ZERO, no_cleaning)
        .map_err(|error| told(&error))?;
    volume.run_until_open(now).map_err(|error| told(&error))?;
    fill(&mut volume, logs)?;
    let before = volume.status();
    let log_bytes = volume.superblock().layout.log_bytes;
    let mut disk = volume.into_disk();
    disk.power_cut();

    let cpu = processor_time();
    let (mut volume, now) = Volume::open_in_virtual_time(disk, Nanos::ZERO, no_cleaning)
        .map_err(|error| told(&error))?;
    volume.run_until_open(now).map_err(|error| told(&error))?;
    let cpu_s = processor_time().saturating_sub(cpu).as_secs_f64();
    let after = volume.status();
    check(&before, &after)?;
    Ok(rows(&before, &after, log_bytes, cpu_s))
}

fn rows(before: &Status, after: &Status, log_bytes: u64, cpu_s: f64) -> Vec<Row> {
    // The snapshot is empty but for its header and one page; superblocks are read before recovery.
    let allowed = u64::from(after.recovery_logs) * log_bytes + 2 * 4096 + 4096;
    let detail = format!(
        "{:.2} GB logged, {} logs scanned, {} records, {:.2} GB read",
        before.stats.logged_bytes as f64 / 1e9,
        after.recovery_logs,
        after.recovery_records,
        after.recovery_read_bytes as f64 / 1e9
    );
    let share = after.recovery_read_bytes as f64 / allowed as f64;
    vec![
        Row::new(
            "recovery_read_per_snapshot_and_logs",
            Target::AtMost(1.0),
            share,
            format!("{detail}, of {:.2} GB in snapshot and active logs", allowed as f64 / 1e9),
        ),
        Row::new("recovery_cpu_s", Target::AtMost(3.0), cpu_s, detail),
    ]
}

/// A recovery that forgot something would be fast for the wrong reason.
fn check(before: &Status, after: &Status) -> Result<(), String> {
    let (found, expected) = (after.map_entries, before.map_entries);
    if found == expected && after.record_sequence == before.record_sequence {
        Ok(())
    } else {
        Err(format!(
            "expected {expected} map entries up to record {} after recovery, found {found} up to {}",
            before.record_sequence, after.record_sequence
        ))
    }
}

fn no_cleaning(_: &Superblock, config: &mut Config) {
    config.snapshot_after_bytes = u64::MAX;
    config.snapshot_period = Nanos::MAX;
    config.cleaning = Cleaning {
        period: None,
        idle_after: None,
        window: None,
        watermark_pct: None,
        swap_above_pct: None,
        ..config.cleaning.clone()
    };
}

/// Fills `logs` logs with blocks that were never written before.
fn fill(volume: &mut Volume<InstantDisk>, logs: u64) -> Result<(), String> {
    let layout = volume.superblock().layout;
    // A batch takes one block more for its header; the last batch's room stays free.
    let blocks = u64::from(layout.log_blocks());
    let writes = (blocks / (BATCH + 1) - 1) * BATCH;
    let block = Payload::Bytes(BufferMut::zeroed(4096).freeze());
    let mut load = Load::default();
    for log in 0..logs {
        let base = log * layout.data_bytes() / 4096 * 4096;
        load.run(volume, 1, |_| Operation::Read { offset: base, len: 4096 })?;
        let mut next = base;
        load.run(volume, writes, |_| {
            let offset = next;
            next += 4096;
            Operation::Write { offset, data: block.clone(), fua: true }
        })?;
    }
    Ok(())
}
