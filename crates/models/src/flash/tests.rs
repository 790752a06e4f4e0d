//! Laws of flash disks: what every disk keeps, what runs side by side, and what collecting costs.

use super::*;
use crate::model_laws::{
    a_power_cut_tears_only_what_was_not_safe, give, next, polling_late_changes_nothing,
    reads_return_the_last_write, run, write,
};
use crate::{Dataless, MemoryStore, Model};
use nearhead_basics::SplitMix;
use nearhead_disk::DiskErrorKind;

fn whole() -> FlashProfile {
    FlashProfile::named("flash-8ch-550gb").unwrap()
}

/// Two channels, four planes, 13 MB: soon full.
fn small() -> FlashProfile {
    let mut profile = whole();
    profile.flash = FlashSpec {
        channels: 2,
        chips_per_channel: 1,
        dies_per_chip: 1,
        blocks_per_plane: 32,
        pages_per_block: 16,
        over_provisioning: 0.2,
        mapping_cache_bytes: 8192,
        dirty_bytes_max: 1 << 20,
        ..profile.flash
    };
    profile
}

fn model(profile: &FlashProfile) -> FlashModel {
    FlashModel::new(profile, Box::new(Dataless), HddOptions::default()).unwrap()
}

fn phantom(offset: u64, len: u32) -> Command {
    Command::Write { offset, parts: vec![Payload::Phantom(len as usize)], durable: false }
}

fn check_all(law: impl Fn(&dyn Fn(bool) -> Box<dyn Model>)) {
    for (in_use, cache_protected) in [(true, false), (false, false), (false, true)] {
        law(&|cache| {
            let mut profile = small();
            profile.flash.in_use = in_use;
            profile.flash.cache_protected = cache_protected;
            let options = HddOptions { write_cache: Some(cache), ..HddOptions::default() };
            Box::new(FlashModel::new(&profile, Box::new(MemoryStore::new()), options).unwrap())
        });
    }
}

#[test]
fn reads_return_the_last_write_while_blocks_are_collected() {
    let places = [0..1 << 16, 4 << 20..13_000_000 / 512 * 512];
    check_all(|make| reads_return_the_last_write(make, &places, Nanos::from_millis(100)));
}

#[test]
fn polling_late_changes_neither_times_nor_bytes_nor_order() {
    check_all(|make| polling_late_changes_nothing(make, &[0..1 << 16, 8 << 20..9 << 20]));
}

#[test]
fn a_power_cut_keeps_what_was_durable_and_tears_the_rest_by_physical_sectors() {
    // Programs so slow that the law's cuts come in the middle of some.
    let mut profile = small();
    profile.flash.program_us = 9000.0;
    let make = |cache| -> Box<dyn Model> {
        let options = HddOptions { write_cache: Some(cache), ..HddOptions::default() };
        Box::new(FlashModel::new(&profile, Box::new(MemoryStore::new()), options).unwrap())
    };
    a_power_cut_tears_only_what_was_not_safe(&make, &(1 << 16..1 << 17));
}

#[test]
fn a_power_cut_loses_nothing_that_a_protected_cache_answered() {
    // Room for some of the law's writes only, so that others wait when the power is cut.
    let mut profile = small();
    profile.flash.program_us = 9000.0;
    (profile.flash.cache_protected, profile.flash.dirty_bytes_max) = (true, 8192);
    let make = |_| -> Box<dyn Model> {
        // Told that the cache is off, the law takes every answer for a promise.
        let options = HddOptions { write_cache: Some(true), ..HddOptions::default() };
        Box::new(FlashModel::new(&profile, Box::new(MemoryStore::new()), options).unwrap())
    };
    assert!(!make(true).properties().volatile_cache);
    a_power_cut_tears_only_what_was_not_safe(&make, &(1 << 16..1 << 17));
}

#[test]
fn a_protected_cache_answers_at_once_until_it_is_full_and_then_in_order_of_arrival() {
    const PIECE_BYTES: u32 = 128 << 10;
    const PIECES: u64 = 400;
    let profile = FlashProfile::named("sata-ssd-240gb").unwrap();
    let mut disk = model(&profile);
    let alone = run(&mut disk, Nanos::ZERO, phantom(1 << 30, 4096)).0;
    // The datasheet's 65 us.
    assert!((64_000..66_000).contains(&alone), "{alone} ns");
    // Four pieces outstanding for as long as it takes, and one small write in the middle.
    let begun = Nanos::from_secs(1);
    let (mut now, mut given, mut answered, mut small_given_at) = (begun, 0, 0, Nanos::ZERO);
    let mut small_waited = 0;
    while answered < PIECES {
        while given < PIECES && given - answered < 4 {
            let piece = phantom(given * u64::from(PIECE_BYTES), PIECE_BYTES);
            give(&mut disk, given, piece, now);
            given += 1;
            if given == PIECES / 2 {
                give(&mut disk, u64::MAX, phantom(1 << 30, 4096), now);
                small_given_at = now;
            }
        }
        let (at, completion) = next(&mut disk);
        now = at;
        if completion.id.0 == u64::MAX {
            small_waited = now.since(small_given_at).0;
        } else {
            answered += 1;
        }
    }
    let ns = now.since(begun).0 as f64;
    let cached = profile.flash.dirty_bytes_max as f64;
    let megabytes_per_s = 1e3 * (PIECES as f64 * f64::from(PIECE_BYTES) - cached) / ns;
    assert!((250.0..270.0).contains(&megabytes_per_s), "{megabytes_per_s} MB/s");
    // Up to four pieces of half a millisecond each are before it.
    assert!((1_000_000..2_600_000).contains(&small_waited), "{small_waited} ns");
}

#[test]
fn a_block_written_again_with_each_record_is_answered_from_a_protected_cache_every_time() {
    let mut disk = model(&FlashProfile::named("sata-ssd-240gb").unwrap());
    let (mut now, mut longest) = (Nanos::ZERO, 0);
    // A log: each write has the last block of the one before. More than the memory holds.
    for block in 0..4000 {
        let answered_at = run(&mut disk, now, phantom(block * 4096, 8192));
        longest = longest.max(answered_at.since(now).0);
        now = answered_at + Nanos::from_micros(20);
    }
    // 58 us and twice the transfer of a block; programming one takes 241 us.
    assert!((70_000..80_000).contains(&longest), "{longest} ns");
}

#[test]
fn trimmed_and_zeroed_bytes_read_as_zeros_at_once_and_cost_no_programming() {
    let mut disk =
        FlashModel::new(&small(), Box::new(MemoryStore::new()), HddOptions::default()).unwrap();
    let mut at = run(&mut disk, Nanos::ZERO, write(0, 7, 64 << 10, false));
    let programs = disk.stats().page_programs;
    at = run(&mut disk, at, Command::Trim { offset: 8192, len: 8192 });
    let zeroes = Command::WriteZeroes { offset: 32768, len: 16384, durable: true };
    at = run(&mut disk, at, zeroes);
    assert_eq!(disk.stats().page_programs, programs);
    let zeroes = Command::WriteZeroes { offset: 512, len: 512, durable: true };
    at = run(&mut disk, at, zeroes);
    assert_eq!(disk.stats().page_programs, programs + 1, "a part of a page must be programmed");
    let (_, found) = crate::model_laws::read(&mut disk, at, 0..64 << 10);
    for (sector, bytes) in found.chunks(512).enumerate() {
        let zero = sector == 1 || (16..32).contains(&sector) || (64..96).contains(&sector);
        assert_eq!(bytes, [if zero { 0 } else { 7 }; 512], "sector {sector}");
    }
}

/// Mean response of 8 KiB random requests at a queue depth, in us.
fn mean_us(write: bool, depth: u64, count: u64) -> f64 {
    let mut disk = model(&whole());
    let pages = disk.properties().capacity_bytes / 8192;
    let mut random = SplitMix::new(depth);
    let mut started = std::collections::HashMap::new();
    let (mut at, mut sum, mut measured) = (Nanos::ZERO, 0, 0);
    // Until the translation pages in memory are as they will be for ever.
    let warm_up = 2000;
    for id in 0..count + warm_up {
        if id >= depth {
            let (now, done) = next(&mut disk);
            let begun: Nanos = started.remove(&done.id.0).unwrap();
            at = now;
            if done.id.0 >= warm_up {
                sum += now.since(begun).0;
                measured += 1;
            }
        }
        let offset = random.below(pages) * 8192;
        let command =
            if write { phantom(offset, 8192) } else { Command::Read { offset, len: 8192 } };
        started.insert(id, at);
        give(&mut disk, id, command, at);
    }
    sum as f64 / f64::from(measured) / 1e3
}

/// What MQSim reports for this device, 8 KiB random, cache off, at queue depth 1, 4, 16 and 64.
const MQSIM_READ_US: [(u64, f64); 4] = [(1, 179.0), (4, 192.0), (16, 247.0), (64, 577.0)];
const MQSIM_WRITE_US: [(u64, f64); 4] = [(1, 854.0), (4, 915.0), (16, 1163.0), (64, 2200.0)];

#[test]
fn latencies_are_near_those_of_another_simulator_where_nothing_queues() {
    for (write, table) in [(false, MQSIM_READ_US), (true, MQSIM_WRITE_US)] {
        let kind = if write { "write" } else { "read" };
        for (depth, theirs) in table {
            let ours = mean_us(write, depth, 4000);
            let differ = 100.0 * (ours / theirs - 1.0);
            println!("{kind} at depth {depth}: {ours:.0} us, MQSim {theirs:.0} us, {differ:+.1} %");
            // Where commands wait for each other the two schedule differently: MQSim gives a chip
            // nothing before all of its dies are idle.
            let most = if depth == 1 { 2.0 } else { 30.0 };
            assert!(differ.abs() < most, "{kind} at depth {depth}: {ours} us, not {theirs}");
        }
    }
}

#[test]
fn pages_on_different_dies_are_read_side_by_side_and_on_the_same_die_one_after_the_other() {
    let both = |second: u64| {
        let mut disk = model(&whole());
        // The mapping is in memory.
        let at = run(&mut disk, Nanos::ZERO, Command::Read { offset: 0, len: 8192 });
        give(&mut disk, 1, Command::Read { offset: 0, len: 8192 }, at);
        give(&mut disk, 2, Command::Read { offset: second * 8192, len: 8192 }, at);
        next(&mut disk);
        next(&mut disk).0.since(at).0 as f64 / 1e3
    };
    let (other_channel, same_channel, same_die) = (both(1), both(8), both(64));
    assert!((95.0..108.0).contains(&other_channel), "{other_channel} us");
    // 8192 bytes and their 448 spare ones at 333 MB/s.
    assert!((same_channel - other_channel - 23.9).abs() < 0.7, "a transfer later: {same_channel}");
    assert!((same_die - 2.0 * 101.2).abs() < 4.0, "all of it later: {same_die}");
}

#[test]
fn a_command_waits_for_the_bus_that_pages_cross() {
    let mut disk = model(&whole());
    let at = run(&mut disk, Nanos::ZERO, Command::Read { offset: 0, len: 8192 });
    // Two pages are sent to other dies of the channel, one after the other; a read of a third die
    // can be told only when both are over.
    for page in [8, 16] {
        give(&mut disk, page, phantom(page * 8192, 8192), at);
    }
    give(&mut disk, 1, Command::Read { offset: 0, len: 8192 }, at + Nanos::from_micros(5));
    let (end, done) = next(&mut disk);
    assert_eq!(done.id.0, 1);
    let us = end.since(at).0 as f64 / 1e3;
    let transfer = 8640.0 / 333.0;
    assert!((us - (2.0 * transfer + 75.0 + transfer)).abs() < 6.0, "{us} us");
}

#[test]
fn writing_a_part_of_a_page_costs_reading_it_first() {
    let mut disk = model(&whole());
    let start = run(&mut disk, Nanos::ZERO, phantom(0, 8192));
    let at = run(&mut disk, start, phantom(0, 8192));
    let end = run(&mut disk, at, phantom(4096, 4096));
    let (whole_page, part) = (at.since(start).0 as f64 / 1e3, end.since(at).0 as f64 / 1e3);
    assert!((98.0..101.0).contains(&(part - whole_page)), "{whole_page} and {part} us");
}

/// Overwrites the whole disk `times` times, at random or in order; pages programmed per page.
fn amplification(times: u64, random_order: bool) -> FlashStats {
    let mut disk = model(&small());
    let pages = disk.properties().capacity_bytes / 8192;
    let mut random = SplitMix::new(4);
    let mut at = Nanos::ZERO;
    for id in 0..times * pages {
        if id >= 8 {
            (at, _) = next(&mut disk);
        }
        let page = if random_order { random.below(pages) } else { id % pages };
        give(&mut disk, id, phantom(page * 8192, 8192), at);
    }
    while disk.outstanding() > 0 {
        next(&mut disk);
    }
    disk.stats()
}

#[test]
fn collecting_moves_nothing_for_writes_in_order_and_much_for_random_ones() {
    let in_order = amplification(5, false);
    let moved = |stats: &FlashStats| stats.pages_moved as f64 / stats.page_programs as f64;
    assert!(in_order.erases > 100 && moved(&in_order) < 0.1, "{in_order:?}");
    let random = amplification(5, true);
    assert!(random.erases > in_order.erases && moved(&random) > 0.5, "{random:?}");
    assert!(random.write_amplification() > 1.5);
}

#[test]
fn collecting_holds_dies_and_buses_that_reads_wait_for() {
    let read_us = |collecting: bool| {
        let mut profile = small();
        profile.flash.mapping_cache_bytes = 1 << 20;
        let mut disk = model(&profile);
        let pages = disk.properties().capacity_bytes / 8192;
        let mut random = SplitMix::new(9);
        let mut at = Nanos::ZERO;
        if collecting {
            for id in 0..3 * pages {
                if id >= 8 {
                    (at, _) = next(&mut disk);
                }
                give(&mut disk, id, phantom(random.below(pages) * 8192, 8192), at);
            }
            while disk.outstanding() > 0 {
                (at, _) = next(&mut disk);
            }
        }
        disk.reset_stats();
        let (mut sum, count) = (0, 100);
        for _ in 0..count {
            // One write, which a plane may have to be collected for, and one read beside it.
            give(&mut disk, 1, phantom(random.below(pages) * 8192, 8192), at);
            let begun = at + Nanos::from_micros(800);
            let _ = disk.poll(begun);
            give(
                &mut disk,
                2,
                Command::Read { offset: random.below(pages) * 8192, len: 8192 },
                begun,
            );
            while disk.outstanding() > 0 {
                let (now, done) = next(&mut disk);
                sum += if done.id.0 == 2 { now.since(begun).0 } else { 0 };
                at = now;
            }
            at += Nanos::from_millis(2);
        }
        (sum as f64 / f64::from(count) / 1e3, disk.stats().erases)
    };
    let ((calm, none), (busy, erases)) = (read_us(false), read_us(true));
    assert!(none == 0 && erases > 20, "{none} and {erases} erases");
    assert!(busy > 1.5 * calm, "{calm} us calm, {busy} us while collecting");
}

#[test]
fn a_page_that_was_written_while_it_was_moved_stays_where_it_was_written() {
    let mut disk = model(&small());
    let from = disk.planes[0].place(5).unwrap();
    let to = disk.planes[0].allocate(plane::By::Collector).unwrap();
    let mut at = run(&mut disk, Nanos::ZERO, phantom(5 * 4 * 8192, 8192));
    let newest = disk.planes[0].place(5).unwrap();
    assert_ne!(newest, from);
    disk.moved(0, 5, (from, to));
    assert_eq!(disk.planes[0].place(5), Some(newest));
    at = run(&mut disk, at, Command::Trim { offset: 6 * 4 * 8192, len: 8192 });
    let to = disk.planes[0].allocate(plane::By::Collector).unwrap();
    disk.moved(0, 6, (6, to));
    assert_eq!(disk.planes[0].place(6), None, "trimmed is gone at {at}");
}

#[test]
fn memory_follows_what_was_written_not_the_size_of_the_disk() {
    let mut disk = model(&whole());
    let memory = |disk: &FlashModel| disk.planes.iter().map(Plane::memory_bytes).sum::<usize>();
    let idle = memory(&disk);
    assert!(idle < 40 << 20, "{idle} bytes for 511 GB");
    let mut random = SplitMix::new(2);
    let pages = disk.properties().capacity_bytes / 8192;
    let mut at = Nanos::ZERO;
    for id in 0..20_000 {
        if id >= 64 {
            (at, _) = next(&mut disk);
        }
        give(&mut disk, id, phantom(random.below(pages) * 8192, 8192), at);
    }
    let more = memory(&disk) - idle;
    // A leaf of 64 entries for each, at worst, and the contents of the blocks they went to.
    assert!(more < 20_000 * 256 + 128 * 4 * 1024, "{more} bytes for 20,000 pages");
}

#[test]
fn a_full_queue_and_bad_commands_are_refused_and_still_answered() {
    let mut disk = model(&small());
    let depth = u64::from(disk.properties().queue_depth_max);
    let capacity = disk.properties().capacity_bytes;
    give(&mut disk, 0, Command::Read { offset: capacity, len: 512 }, Nanos::ZERO);
    assert_eq!(next(&mut disk).1.result.unwrap_err().kind, DiskErrorKind::Invalid);
    for id in 0..=depth {
        give(&mut disk, id, Command::Read { offset: 0, len: 4096 }, Nanos::ZERO);
    }
    let refused = (0..=depth).filter(|_| next(&mut disk).1.result.is_err()).count();
    assert_eq!(refused, 1, "one more than the queue holds");
}
