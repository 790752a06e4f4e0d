//! What the map costs: bytes for each logged 4 KiB block (by its own count and by the growth of this
//! process's resident memory, which the kernel counts) and nanoseconds of processor time for each operation.
//!
//! `cargo run --release -p nearhead-engine --example map_memory [blocks]` (default 10 million).

use clap::Parser;
use nearhead_basics::SplitMix;
use nearhead_engine::map::{Map, Segment};
use nearhead_format::{Entry, Place};
use rustix::time::{ClockId, clock_gettime};

const BLOCK_SECTORS: u64 = 8;

/// A prime: goes through any number of blocks without order that is no multiple of it.
const STRIDE: u64 = 15_485_863;

/// Processor time of this thread: what an operation costs also where other programs run beside.
fn cpu_time_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A number for each step.
fn random(step: u64) -> u64 {
    SplitMix::new(0).nth_u64(step)
}

/// Resident bytes of this process; 0 where /proc does not say.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<usize>().ok());
    kib.unwrap_or(0) * 1024
}

fn timed(name: &str, count: u64, work: impl FnOnce()) {
    let start = cpu_time_ns();
    work();
    println!("  {name:<28} {:>7.0} ns/op", (cpu_time_ns() - start) as f64 / count as f64);
}

fn measure(disk_bytes: u64, count: u64) {
    let blocks = (disk_bytes / 4096).max(count);
    let (every, gb) = (blocks == count, (blocks * 4096) as f64 / 1e9);
    let which = if every { "all, in no order, the" } else { "random" };
    println!("{count} {which} 4 KiB blocks of a disk of {gb:.0} GB");
    let entry = |step: u64| {
        let place = Place::Log { chunk_sector: step * BLOCK_SECTORS, chunk_len: 8, offset: 0 };
        let block = if every { step * STRIDE % blocks } else { random(step) % blocks };
        let home_sector = block * BLOCK_SECTORS;
        Entry { home_sector, len_sectors: 8, place, crc: step as u32 }
    };
    let resident_before = resident_bytes();
    let mut map = Map::new();
    timed("insert", count, || (0..count).for_each(|step| map.insert(entry(step), &mut |_| ())));
    let (own, resident) = (map.memory_bytes(), resident_bytes().saturating_sub(resident_before));
    let each = |map: &Map, bytes: usize| bytes as f64 / map.len() as f64;
    println!("  {:<28} {:>7.2} by its own count", "bytes per block", each(&map, own));
    println!("  {:<28} {:>7.2} resident (VmRSS)", "", each(&map, resident));

    let mut found = 0_u64;
    timed("lookup, hit", count, || {
        for step in 0..count {
            map.lookup(entry(step).home_sector, BLOCK_SECTORS, &mut |segment| {
                found += u64::from(matches!(segment, Segment::Mapped(_)));
            });
        }
    });
    assert!(found >= map.len() as u64, "every block that was inserted is found");
    timed("overlaps", count, || {
        let hits = (0..count).filter(|step| map.overlaps(random(!step) % blocks * 8, 8)).count();
        assert!(every || hits < map.len(), "random addresses hit the map too often: {hits}");
    });
    timed("overwrite", count, || {
        (0..count).for_each(|step| map.insert(entry(step), &mut |_| ()));
    });
    timed("walk in order", map.len() as u64, || {
        assert_eq!(map.iter().map(|entry| u64::from(entry.len_sectors)).sum::<u64>() % 8, 0);
    });
    let entries: Vec<_> = map.iter().collect();
    timed("load in order", map.len() as u64, || match Map::from_sorted(entries) {
        Ok(loaded) => assert_eq!(loaded.len(), map.len()),
        Err(error) => panic!("the map's own order was refused: {error}"),
    });
    timed("remove half, scattered", count / 2, || {
        for step in 0..count / 2 {
            map.remove(entry(step).home_sector, BLOCK_SECTORS, &mut |_| ());
        }
    });
    println!(
        "  {:<28} {:>7.2} by its own count",
        "bytes per block left",
        each(&map, map.memory_bytes())
    );
    let left = map.len() as u64;
    timed("remove the rest, one range", left, || map.remove(0, u64::MAX, &mut |_| ()));
    println!("  {:<28} {:>7} bytes, {} entries", "in the end", map.memory_bytes(), map.len());
}

/// What the map costs: bytes for each block, nanoseconds for each operation
#[derive(clap::Parser)]
struct Arguments {
    /// Blocks in the map
    #[arg(default_value_t = 10_000_000)]
    blocks: u64,
}

fn main() {
    let count = Arguments::parse().blocks;
    measure(1_000_000_000_000, count);
    measure(20_000_000_000_000, count);
    // Where no block is missing.
    measure(0, count);
}
