//! One process: the chain is opened, something is done with it, and it ends in order or by a power cut.
//!
//! Each part prints what it took, a line each: name, number, unit. Every block that is read is compared, and anything that is not as it should be
//! ends the process.

use crate::Problem;
use crate::clients::{Reader, Writer};
use crate::content::Ledger;
use crate::disks::{Drive, Drives, cut};
use crate::spent::{processor_s, resident_bytes};
use nearhead_basics::Random;
use nearhead_disk::Nanos;
use nearhead_engine::{Activity, Stats, Status};
use nearhead_service::Service;
use nearhead_sim::VirtualTime;
use nearhead_sim::workload::{Tally, Workload};
use nearhead_volume::Volume;
use std::path::Path;

/// Longer than anything takes.
const LIMIT: Nanos = Nanos::from_secs(1 << 24);
/// Where nobody asks for anything it is looked so often how far things are.
const LOOK_EVERY: Nanos = Nanos::from_secs(1);
/// A map's page has so many entries: so many blocks of a chain that is full.
const PAGE_BLOCKS: u64 = 1024;
/// Writes in order: of so many blocks, so many outstanding.
const IN_ORDER: (u64, u32) = (256, 8);
/// Writes in no order: one block each.
const SCATTERED: (u64, u32) = (1, 2048);

/// A snapshot is under way while any of these is.
const SNAPSHOT: [Activity; 4] = [
    Activity::SnapshotBody,
    Activity::SnapshotFlush,
    Activity::SnapshotHeader,
    Activity::SnapshotCopy,
];

/// How a process leaves the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    InOrder,
    ByCut,
}

/// The chain, open.
pub(crate) struct Run {
    volume: Volume<Drive>,
    ledger: Ledger,
    time: VirtualTime,
}

fn say(name: &str, number: f64, unit: &str) {
    println!("{name}\t{number:.6}\t{unit}");
}

fn say_memory(name: &str) {
    let (now, most) = resident_bytes();
    say(&format!("{name}: resident"), now as f64 / f64::from(1 << 20), "MiB");
    say(&format!("{name}: most resident so far"), most as f64 / f64::from(1 << 20), "MiB");
}

impl Run {
    /// Opens what is in the folder, with so much memory for its map.
    pub(crate) fn open(
        drives: &Drives,
        folder: &Path,
        (name, map_memory_bytes): (&str, u64),
    ) -> Result<Self, Problem> {
        let lanes = drives.open(folder)?;
        let cpu = processor_s();
        let (mut volume, now) = Volume::open_in_virtual_time(lanes, Nanos::ZERO, |_, config| {
            config.map_memory_bytes = map_memory_bytes;
        })?;
        let now = volume.run_until_open(now)?;
        let status = volume.status();
        if let Some(damage) = status.damage.first() {
            return Err(format!("{name}: expected no damage, found {damage}").into());
        }
        say(name, now.as_secs_f64(), "virtual s");
        say(&format!("{name}: processor"), processor_s() - cpu, "s");
        say(&format!("{name}: read"), status.recovery_read_bytes as f64 / 1e9, "GB");
        say(&format!("{name}: records"), status.recovery_records as f64, "");
        say_memory(name);
        let blocks = volume.info().size_bytes / crate::content::BLOCK_BYTES;
        let ledger = Ledger::load(folder).unwrap_or_else(|_| Ledger::new(folder, blocks));
        Ok(Self { volume, ledger, time: VirtualTime::starting_at(now) })
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.ledger.blocks
    }

    /// Writes the next blocks of the ledger.
    pub(crate) fn write(&mut self, name: &str, blocks: u64) -> Result<(), Problem> {
        let width = if self.ledger.rounds == 0 && self.ledger.steps < self.ledger.blocks {
            IN_ORDER
        } else {
            SCATTERED
        };
        let (before, cpu, from) = (self.volume.status(), processor_s(), self.time.now());
        let mut writer = Writer::new(self.ledger.clone(), blocks, width);
        writer.start_measuring(from);
        self.time.run(&mut self.volume, &mut [&mut writer], from + LIMIT)?;
        let after = self.volume.status();
        told(name, &writer.tally, self.time.now())?;
        say(&format!("{name}: processor"), processor_s() - cpu, "s");
        wear(name, &before, &after);
        say_memory(name);
        map(name, &after);
        self.ledger = writer.ledger;
        Ok(())
    }

    /// Reads blocks anywhere: few of their pages are in memory. Then blocks of pages that are.
    pub(crate) fn read(&mut self, name: &str, count: u64) -> Result<(), Problem> {
        let mut random = Random::new(self.time.now().0);
        let anywhere = |random: &mut Random| random.below(self.ledger.blocks);
        let far: Vec<u64> = (0..count).map(|_| anywhere(&mut random)).collect();
        // Half as many pages as blocks, so that they fit into any cache, each read once before.
        let pages = self.cached_pages().min(count).max(1);
        let near: Vec<u64> =
            (0..pages).map(|_| random.below(self.ledger.blocks / PAGE_BLOCKS)).collect();
        let in_page =
            |random: &mut Random, page: u64| page * PAGE_BLOCKS + random.below(PAGE_BLOCKS);
        let first = near.iter().map(|page| in_page(&mut random, *page)).collect();
        let again = near.iter().map(|page| in_page(&mut random, *page)).collect();
        self.read_these(&format!("{name}, of any page"), far)?;
        self.read_these(&format!("{name}, of few pages"), first)?;
        self.read_these(&format!("{name}, of pages in memory"), again)
    }

    /// A quarter of the pages that there is room for.
    fn cached_pages(&self) -> u64 {
        let paged = self.volume.status().paged_map;
        paged.map_or(u64::MAX, |paged| paged.memory_bytes_max / 8 * 3 / 4 / (20 << 10))
    }

    fn read_these(&mut self, name: &str, blocks: Vec<u64>) -> Result<(), Problem> {
        let before = self.volume.status().stats;
        let count = blocks.len();
        let mut reader = Reader::new(&self.ledger, blocks);
        reader.start_measuring(self.time.now());
        let until = self.time.now() + LIMIT;
        self.time.run(&mut self.volume, &mut [&mut reader], until)?;
        told(name, &reader.tally, self.time.now())?;
        let pages = self.volume.status().stats.map_pages_read - before.map_pages_read;
        say(&format!("{name}: pages read"), pages as f64 / count.max(1) as f64, "a read");
        Ok(())
    }

    /// A snapshot while nobody asks for anything.
    pub(crate) fn snapshot(&mut self, name: &str) -> Result<(), Problem> {
        self.await_snapshot_under_way()?;
        let (before, cpu, from) = (self.volume.status(), processor_s(), self.time.now());
        self.volume.start_snapshot(from);
        self.await_snapshot_after(before.snapshot_number)?;
        let after = self.volume.status();
        say(name, (self.time.now() - from).as_secs_f64(), "virtual s");
        say(&format!("{name}: processor"), processor_s() - cpu, "s");
        let bytes = after.stats.snapshot_bytes - before.stats.snapshot_bytes;
        say(&format!("{name}: written"), bytes as f64 / 1e9, "GB");
        map(name, &after);
        Ok(())
    }

    /// Nobody asks for anything: what goes on by itself, and until when.
    pub(crate) fn rest(&mut self, name: &str, duration: Nanos) -> Result<(), Problem> {
        let (before, from) = (self.volume.status(), self.time.now());
        let (mut number, mut last, mut looked) = (before.snapshot_number, from, from);
        while let Some(next) = self.volume.wake_at().filter(|at| at.since(from) < duration) {
            self.time.advance_to(&mut self.volume, next.max(self.time.now()))?;
            // A look at all of it costs more than most steps.
            if self.time.now().since(looked) < LOOK_EVERY {
                continue;
            }
            looked = self.time.now();
            if self.volume.status().snapshot_number != number {
                (number, last) = (self.volume.status().snapshot_number, looked);
            }
        }
        let after = self.volume.status();
        let bytes = |of: fn(&Stats) -> u64| (of(&after.stats) - of(&before.stats)) as f64 / 1e9;
        say(&format!("{name}: snapshots"), (number - before.snapshot_number) as f64, "");
        say(&format!("{name}: the last ended after"), (last - from).as_secs_f64(), "virtual s");
        say(&format!("{name}: compacted"), bytes(|stats| stats.compacted_bytes), "GB");
        say(&format!("{name}: went on for"), (self.time.now() - from).as_secs_f64(), "virtual s");
        Ok(())
    }

    /// Goes on until the snapshot that is under way, if any, is done. Where cleaning has much to do the next one may begin at once.
    fn await_snapshot_under_way(&mut self) -> Result<(), Problem> {
        if self.snapshot_part().is_some() {
            self.await_snapshot_after(self.volume.status().snapshot_number)?;
        }
        Ok(())
    }

    /// Goes on until there is a newer one than this.
    fn await_snapshot_after(&mut self, number: u64) -> Result<(), Problem> {
        loop {
            let before = self.snapshot_part();
            let next = self.volume.wake_at().ok_or("a snapshot is due, and nothing goes on")?;
            self.time.advance_to(&mut self.volume, next.max(self.time.now()))?;
            // A look at all of it costs more than most steps.
            let has_changed = self.snapshot_part() != before;
            if has_changed && self.volume.status().snapshot_number != number {
                return Ok(());
            }
        }
    }

    /// What the snapshot under way does, if one is.
    fn snapshot_part(&self) -> Option<Activity> {
        let activities = self.volume.engine().activities();
        SNAPSHOT.into_iter().find(|part| activities.has(*part))
    }

    /// Ends it.
    pub(crate) fn end(mut self, how: Ends) -> Result<(), Problem> {
        match how {
            Ends::InOrder => {
                let (from, cpu) = (self.time.now(), processor_s());
                self.time.shut_down(&mut self.volume, LIMIT)?;
                say("orderly stop", (self.time.now() - from).as_secs_f64(), "virtual s");
                say("orderly stop: processor", processor_s() - cpu, "s");
                self.ledger.save()?;
            }
            Ends::ByCut => self.cut()?,
        }
        Ok(())
    }

    /// Cuts the power while clients write.
    fn cut(mut self) -> Result<(), Problem> {
        let mut writer = Writer::new(self.ledger, u64::MAX, SCATTERED);
        let until = self.time.now() + Nanos::from_secs(5);
        self.time.run(&mut self.volume, &mut [&mut writer], until)?;
        writer.cut().save()?;
        cut(self.volume, self.time.now())
    }
}

/// What the clients found, or what was wrong.
fn told(name: &str, tally: &Tally, now: Nanos) -> Result<(), Problem> {
    let summary = tally.summary(now);
    if summary.failed > 0 {
        let first = summary.first_failure.unwrap_or_default();
        return Err(
            format!("{name}: {} requests failed, the first: {first}", summary.failed).into()
        );
    }
    say(&format!("{name}: clients"), summary.bytes as f64 / 1e9, "GB");
    say(&format!("{name}: in"), summary.measured_s, "virtual s");
    say(&format!("{name}: rate"), summary.bytes_per_s / 1e6, "MB/s");
    say(&format!("{name}: mean"), summary.latency.mean_ms, "ms");
    say(&format!("{name}: p99"), summary.latency.p99_ms, "ms");
    say(&format!("{name}: longest"), summary.latency.max_ms, "ms");
    Ok(())
}

/// What was written beside what clients wrote.
fn wear(name: &str, before: &Status, after: &Status) {
    let clients = (after.stats.written_bytes - before.stats.written_bytes).max(1) as f64;
    let share = |of: fn(&Stats) -> u64| (of(&after.stats) - of(&before.stats)) as f64 / clients;
    let snapshots = after.stats.snapshots - before.stats.snapshots;
    say(&format!("{name}: snapshots"), snapshots as f64, "");
    say(&format!("{name}: of the map written"), share(|stats| stats.snapshot_bytes), "of clients");
    say(&format!("{name}: of the map read"), share(|stats| stats.map_read_bytes), "of clients");
    say(&format!("{name}: records"), share(|stats| stats.record_bytes), "of clients");
    say(&format!("{name}: compacted"), share(|stats| stats.compacted_bytes), "of clients");
}

/// What the map takes now.
fn map(name: &str, status: &Status) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    say(&format!("{name}: newest layer"), mib(status.map_bytes), "MiB");
    let Some(paged) = status.paged_map else { return };
    say(&format!("{name}: frozen layer"), mib(paged.frozen_bytes), "MiB");
    say(&format!("{name}: index"), mib(paged.index_bytes), "MiB");
    say(&format!("{name}: pages in memory"), mib(paged.cached_bytes), "MiB");
    say(&format!("{name}: entries in pages"), paged.entries as f64 / 1e6, "million");
}
