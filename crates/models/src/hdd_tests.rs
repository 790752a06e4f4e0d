//! Laws of the hard-disk model: timing, durability, and that coming late changes nothing.

use crate::{Dataless, HddModel, HddOptions, MemoryStore, Profile, QueuePolicy, Store};
use nearhead_basics::SplitMix;
use nearhead_disk::{
    BufferMut, Class, Command, CommandId, Completion, Disk, Nanos, Payload, Submission, Ticket,
};
use std::collections::HashMap;

fn model_on(name: &str, store: Box<dyn Store>, options: HddOptions) -> HddModel {
    HddModel::new(&Profile::named(name).unwrap(), store, options).unwrap()
}

fn model(options: HddOptions) -> HddModel {
    model_on("st3146855fc", Box::new(Dataless), options)
}

fn submission(id: u64, command: Command) -> Submission {
    Submission { ticket: Ticket::new(CommandId(id)), class: Class::Foreground, command }
}

fn write(offset: u64, byte: u8, len: usize, durable: bool) -> Command {
    let bytes = BufferMut::copy_of(&vec![byte; len]).freeze();
    Command::Write { offset, parts: vec![Payload::Bytes(bytes)], durable }
}

/// Lets time pass until something completes.
fn next(disk: &mut HddModel) -> (Nanos, Completion) {
    loop {
        let at = disk.wake_at().expect("a command is outstanding");
        if let Some(completion) = disk.poll(at) {
            return (at, completion);
        }
    }
}

fn run(disk: &mut HddModel, at: Nanos, command: Command) -> Nanos {
    disk.submit(submission(0, command), at);
    let (at, completion) = next(disk);
    completion.result.unwrap();
    at
}

fn bytes(disk: &mut HddModel, at: Nanos, offset: u64, len: u32) -> Vec<u8> {
    disk.submit(submission(0, Command::Read { offset, len }), at);
    match next(disk).1.result.unwrap() {
        Payload::Bytes(bytes) => bytes.to_vec(),
        other => panic!("expected bytes, found {other:?}"),
    }
}

/// Streams 32 MiB from `offset` in requests of `len` at `depth`; MB/s once under way.
fn stream(disk: &mut HddModel, offset: u64, len: u32, depth: u64, write: bool) -> f64 {
    const WARM_UP: u64 = 8;
    let total = (32 << 20) / u64::from(len);
    let command = |index: u64| {
        let offset = offset + index * u64::from(len);
        if write {
            let parts = vec![Payload::Phantom(len as usize)];
            Command::Write { offset, parts, durable: false }
        } else {
            Command::Read { offset, len }
        }
    };
    let mut sent = 0;
    let (mut first, mut last) = (Nanos::ZERO, Nanos::ZERO);
    while sent < depth {
        // One after the other, or SPTF would begin with whichever is nearest.
        disk.submit(submission(sent, command(sent)), Nanos::from_micros(sent * 250));
        sent += 1;
    }
    for done in 0..total {
        (last, _) = next(disk);
        if done == WARM_UP {
            first = last;
        }
        if sent < total {
            // A host needs some time to react.
            disk.submit(submission(sent, command(sent)), last + Nanos::from_micros(20));
            sent += 1;
        }
    }
    ((total - 1 - WARM_UP) * u64::from(len)) as f64 / 1e6 / last.since(first).as_secs_f64()
}

#[test]
fn a_sequential_reader_gets_the_media_rate_at_any_depth() {
    for name in Profile::known_names() {
        for (len, depth) in [(128 << 10, 1), (256 << 10, 1), (256 << 10, 2), (1 << 20, 1)] {
            let mut disk = model_on(name, Box::new(Dataless), HddOptions::default());
            let depth = depth.min(disk.properties().queue_depth_max.into());
            let limit = disk.mechanics().bandwidth(0) / 1e6;
            let found = stream(&mut disk, 0, len, depth, false);
            let place = format!("{name}: {len} bytes at depth {depth}: {found} of {limit} MB/s");
            assert!(found > 0.97 * limit && found < 1.03 * limit, "{place}");
        }
    }
}

#[test]
fn a_sequential_writer_needs_the_cache_or_a_queue_to_get_the_media_rate() {
    let limit = model(HddOptions::default()).mechanics().bandwidth(0) / 1e6;
    let at_depth = |depth| stream(&mut model(HddOptions::default()), 0, 256 << 10, depth, true);
    // Alone, each write misses its place by the time the host takes, and waits a revolution.
    assert!(at_depth(1) < 0.6 * limit, "{}", at_depth(1));
    assert!(at_depth(4) > 0.97 * limit, "{}", at_depth(4));
    let options = HddOptions { write_cache: Some(true), ..HddOptions::default() };
    let found = stream(&mut model(options), 0, 256 << 10, 1, true);
    assert!(found > 0.9 * limit, "{found} of {limit} MB/s");
}

#[test]
fn a_stream_that_was_interrupted_pays_seek_and_rotation_again() {
    let mut disk = model(HddOptions::default());
    let mut at = Nanos::ZERO;
    for index in 0..8 {
        at = run(&mut disk, at, Command::Read { offset: index << 18, len: 1 << 18 });
    }
    let calm_start = at;
    at = run(&mut disk, at, Command::Read { offset: 8 << 18, len: 1 << 18 });
    let calm = at.since(calm_start);
    at = run(&mut disk, at, write(100_000_000_000, 1, 4096, true));
    // Long enough ago that nothing of the next request was read ahead before.
    let resumed_start = at;
    at = run(&mut disk, at, Command::Read { offset: 12 << 18, len: 1 << 18 });
    let resumed = at.since(resumed_start);
    assert!(resumed > calm + Nanos::from_millis(4), "calm {calm}, resumed {resumed}");
}

#[test]
fn a_repeated_read_comes_from_memory_and_a_write_in_between_does_not_make_it_stale() {
    let mut disk = model_on("st3146855fc", Box::new(MemoryStore::new()), HddOptions::default());
    let at = run(&mut disk, Nanos::ZERO, Command::Read { offset: 1 << 30, len: 8192 });
    let again = run(&mut disk, at, Command::Read { offset: 1 << 30, len: 4096 });
    assert!(again.since(at) < Nanos::from_micros(250), "{}", again.since(at));
    assert_eq!(disk.stats().served.read_hits, 1);
    let at = run(&mut disk, again, write(1 << 30, 7, 4096, false));
    assert_eq!(bytes(&mut disk, at, 1 << 30, 4096), [7; 4096]);
}

#[test]
fn random_reads_take_a_seek_and_half_a_revolution_on_average() {
    let mut disk = model(HddOptions::default());
    let mut random = SplitMix::new(1);
    let mut at = Nanos::ZERO;
    let count = 2000;
    let mut busy = 0;
    for _ in 0..count {
        let offset = random.below(disk.properties().capacity_bytes / 4096) * 4096;
        let start = at + Nanos(random.below(20_000_000));
        at = run(&mut disk, start, Command::Read { offset, len: 4096 });
        busy += at.since(start).0;
    }
    let mean = busy as f64 / f64::from(count) / 1e6;
    let limits = disk.mechanics();
    let expected = (limits.mean_seek() + limits.mean_rotational_latency()).as_millis_f64() + 0.2;
    assert!((mean - expected).abs() < 0.2, "{mean} ms, expected {expected}");
}

#[test]
fn better_queue_policies_serve_more_requests_per_second() {
    let rate = |policy| {
        let options = HddOptions { policy: Some(policy), ..HddOptions::default() };
        let mut disk = model(options);
        let mut random = SplitMix::new(9);
        let mut command = |disk: &HddModel| {
            let offset = random.below(disk.properties().capacity_bytes / 4096) * 4096;
            Command::Read { offset, len: 4096 }
        };
        let mut at = Nanos::ZERO;
        for id in 0..3000 {
            if id >= 16 {
                (at, _) = next(&mut disk);
            }
            let command = command(&disk);
            disk.submit(submission(id, command), at);
        }
        while disk.outstanding() > 0 {
            (at, _) = next(&mut disk);
        }
        3000.0 / at.as_secs_f64()
    };
    let (fifo, clook, sptf) =
        (rate(QueuePolicy::Fifo), rate(QueuePolicy::Clook), rate(QueuePolicy::Sptf));
    assert!(fifo * 1.1 < clook && clook * 1.1 < sptf, "{fifo} {clook} {sptf}");
}

#[test]
fn a_durable_command_overtakes_only_on_a_drive_that_honours_priority() {
    for honours_priority in [false, true] {
        let mut profile = Profile::named("st3146855fc").unwrap();
        profile.queue.honours_priority = honours_priority;
        profile.queue.policy = QueuePolicy::Fifo;
        let options = HddOptions::default();
        let mut disk = HddModel::new(&profile, Box::new(Dataless), options).unwrap();
        for id in 0..8 {
            let command = Command::Read { offset: id << 30, len: 4096 };
            disk.submit(submission(id, command), Nanos::ZERO);
        }
        let ticket = Ticket::new(CommandId(8));
        let command = write(1 << 36, 1, 4096, true);
        disk.submit(Submission { ticket, class: Class::Durable, command }, Nanos::ZERO);
        let first = next(&mut disk).1.id.0;
        assert_eq!(first, if honours_priority { 8 } else { 0 });
    }
}

#[test]
fn a_stream_of_reads_does_not_keep_a_write_waiting_for_ever() {
    let mut disk = model(HddOptions::default());
    let read = |id: u64| Command::Read { offset: id << 18, len: 1 << 18 };
    for id in 1..4 {
        disk.submit(submission(id, read(id)), Nanos::from_micros(id * 250));
    }
    disk.submit(submission(0, write(100 << 30, 1, 4096, true)), Nanos::from_millis(1));
    for id in 4.. {
        let (at, completion) = next(&mut disk);
        if completion.id.0 == 0 {
            assert!(at < Nanos::from_millis(500), "{at}");
            return;
        }
        disk.submit(submission(id, read(id)), at);
    }
}

/// A random mix of commands with the times at which a host submits them.
fn mix(seed: u64, capacity: u64) -> Vec<(Nanos, u64, Command)> {
    let mut random = SplitMix::new(seed);
    let mut at = 0;
    (1..300)
        .map(|id| {
            at += random.below(8_000_000);
            let area = if random.coin() { capacity } else { 1 << 22 };
            let len = (1 + random.below(64)) * 512;
            let offset = random.below((area - len) / 512) * 512;
            let command = match random.below(8) {
                0 => Command::Flush,
                1..=3 => Command::Read { offset, len: len as u32 },
                kind => write(offset, id as u8, len as usize, kind == 4),
            };
            (Nanos(at), id, command)
        })
        .collect()
}

/// Runs `mix`, polling as often as `poll_every` says; what completed, in order, with its bytes.
fn outcome(seed: u64, cache: bool, poll_every: Option<u64>) -> (Vec<(u64, Vec<u8>)>, String) {
    let options = HddOptions { write_cache: Some(cache), ..HddOptions::default() };
    let mut disk = model_on("st3146855fc", Box::new(MemoryStore::new()), options);
    let mut results = Vec::new();
    let mut collect = |disk: &mut HddModel, now| {
        while let Some(completion) = disk.poll(now) {
            let mut content = Vec::new();
            if let Payload::Bytes(bytes) = completion.result.unwrap() {
                content = bytes.to_vec();
            }
            results.push((completion.id.0, content));
        }
    };
    let mut now = Nanos::ZERO;
    for (at, id, command) in mix(seed, disk.properties().capacity_bytes) {
        while let Some(span) = poll_every {
            now += Nanos(span);
            if now >= at {
                break;
            }
            collect(&mut disk, now);
        }
        now = at;
        disk.submit(submission(id, command), at);
    }
    collect(&mut disk, now + Nanos::from_secs(100));
    assert_eq!(disk.outstanding(), 0, "seed {seed}");
    (results, format!("{:?}", disk.stats()))
}

#[test]
fn polling_late_changes_neither_times_nor_bytes_nor_order() {
    for seed in 0..20 {
        for cache in [false, true] {
            let exact = outcome(seed, cache, Some(50_000));
            let late = outcome(seed, cache, None);
            assert!(exact == late, "seed {seed}, cache {cache}");
            assert_eq!(exact.0.len(), 299, "seed {seed}: every command completes once");
        }
    }
}

#[test]
fn reads_return_the_last_completed_write_in_both_cache_modes() {
    for (seed, cache) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        let options = HddOptions { write_cache: Some(cache), ..HddOptions::default() };
        let mut disk = model_on("st3146855fc", Box::new(MemoryStore::new()), options);
        let mut flat = vec![0_u8; 1 << 16];
        let mut random = SplitMix::new(seed);
        let mut at = Nanos::ZERO;
        for _ in 0..200 {
            at += Nanos(random.below(20_000_000));
            let len = ((1 + random.below(16)) * 512) as usize;
            let offset = (random.below((flat.len() - len) as u64 / 512) * 512) as usize;
            let range = offset..offset + len;
            match random.below(8) {
                0 => at = run(&mut disk, at, Command::Flush),
                1 => {
                    let (offset, len) = (offset as u64, len as u64);
                    let zero = Command::WriteZeroes { offset, len, durable: false };
                    at = run(&mut disk, at, zero);
                    flat[range].fill(0);
                }
                2..=4 => {
                    let found = bytes(&mut disk, at, offset as u64, len as u32);
                    assert!(found == flat[range], "seed {seed}, cache {cache}, byte {offset}");
                }
                kind => {
                    let byte = random.next_u64() as u8;
                    at = run(&mut disk, at, write(offset as u64, byte, len, kind == 5));
                    flat[range].fill(byte);
                }
            }
        }
    }
}

#[test]
fn a_power_cut_keeps_what_was_durable_and_tears_the_rest_by_sectors() {
    let mut lost = 0;
    let mut kept = 0;
    for (seed, cache) in (0..200).flat_map(|seed| [(seed, false), (seed, true)]) {
        let options = HddOptions { write_cache: Some(cache), ..HddOptions::default() };
        let mut disk = model_on("st3146855fc", Box::new(MemoryStore::new()), options);
        let mut random = SplitMix::new(seed);
        // Per sector: what must be there, and what may be there instead.
        let mut safe = [0_u8; 128];
        let mut maybe = vec![Vec::new(); 128];
        let mut waiting: HashMap<u64, (usize, usize, u8, bool)> = HashMap::new();
        let mut flushing: HashMap<u64, Vec<(usize, Option<u8>)>> = HashMap::new();
        let mut acknowledged: Vec<Option<u8>> = vec![None; 128];
        let mut now = Nanos::ZERO;
        for id in 1..40_u64 {
            let sectors = 1 + random.below(8) as usize;
            let lbn = random.below((128 - sectors) as u64) as usize;
            let busy = |range: &std::ops::Range<usize>| {
                waiting
                    .values()
                    .any(|&(lbn, sectors, ..)| lbn < range.end && range.start < lbn + sectors)
            };
            if random.below(6) == 0 {
                let covered: Vec<_> = acknowledged.iter().copied().enumerate().collect();
                flushing.insert(id, covered);
                disk.submit(submission(id, Command::Flush), now);
            } else if !busy(&(lbn..lbn + sectors)) {
                let durable = random.below(3) == 0;
                let byte = id as u8;
                let command = write(lbn as u64 * 512, byte, sectors * 512, durable);
                disk.submit(submission(id, command), now);
                waiting.insert(id, (lbn, sectors, byte, durable || !cache));
                for sector in &mut maybe[lbn..lbn + sectors] {
                    sector.push(byte);
                }
            }
            now += Nanos(random.below(6_000_000));
            while let Some(completion) = disk.poll(now) {
                let id = completion.id.0;
                if let Some((lbn, sectors, byte, durable)) = waiting.remove(&id) {
                    for sector in lbn..lbn + sectors {
                        acknowledged[sector] = Some(byte);
                        if durable {
                            safe[sector] = byte;
                            maybe[sector].retain(|&other| other > byte);
                        }
                    }
                }
                for (sector, covered) in flushing.remove(&id).unwrap_or_default() {
                    if let Some(byte) = covered.filter(|&byte| byte > safe[sector]) {
                        safe[sector] = byte;
                        maybe[sector].retain(|&other| other > byte);
                    }
                }
            }
        }
        disk.power_cut(now, &mut random).unwrap();
        let found = bytes(&mut disk, now, 0, 128 * 512);
        for sector in 0..128 {
            let content = &found[sector * 512..(sector + 1) * 512];
            let byte = content[0];
            assert!(content.iter().all(|&other| other == byte), "a sector is never torn inside");
            let may = byte == safe[sector] || maybe[sector].contains(&byte);
            let expected = (safe[sector], &maybe[sector]);
            let place = format!("seed {seed}, cache {cache}, sector {sector}");
            assert!(may, "{place}: found {byte}, expected {expected:?}");
            lost += usize::from(byte == safe[sector] && !maybe[sector].is_empty());
            kept += usize::from(byte != safe[sector]);
        }
    }
    assert!(lost > 300 && kept > 300, "both must happen: {lost} lost, {kept} kept");
}

#[test]
fn switching_off_properly_loses_nothing_even_in_the_middle_of_a_destage() {
    let options = HddOptions { write_cache: Some(true), ..HddOptions::default() };
    for wait_us in (0..20_000).step_by(250) {
        let mut disk = model_on("st3146855fc", Box::new(MemoryStore::new()), options);
        let at = run(&mut disk, Nanos::ZERO, write(1 << 30, 1, 4096, false));
        // The first version is being written when the second one replaces it in the cache.
        let _ = disk.poll(at + Nanos::from_micros(wait_us));
        let at = at + Nanos::from_micros(wait_us);
        let at = run(&mut disk, at, write(1 << 30, 2, 4096, false));
        disk.write_back().unwrap();
        assert_eq!(disk.dirty_bytes(), 0);
        let at = at + Nanos::from_secs(1);
        disk.power_cut(at, &mut SplitMix::new(wait_us)).unwrap();
        assert_eq!(bytes(&mut disk, at, 1 << 30, 4096), [2; 4096], "after {wait_us} us");
    }
}

#[test]
fn a_model_can_be_handed_to_another_thread() {
    fn sendable<T: Send>() {}
    sendable::<HddModel>();
    sendable::<crate::InstantDisk>();
    sendable::<crate::CrashDisk>();
}

#[test]
fn commands_that_cannot_be_carried_out_say_why_and_still_complete() {
    let mut disk = model(HddOptions::default());
    let capacity = disk.properties().capacity_bytes;
    let cases = [
        (Command::Read { offset: capacity, len: 512 }, "past the end"),
        (Command::Read { offset: u64::MAX - 511, len: 1024 }, "past the end"),
        (Command::Read { offset: 100, len: 512 }, "whole sectors"),
        (Command::Read { offset: 0, len: 0 }, "whole sectors"),
        (Command::Read { offset: 0, len: 17 << 20 }, "at most"),
        (write(0, 1, 100, false), "whole sectors"),
    ];
    for (command, expected) in cases {
        disk.submit(submission(1, command), Nanos::ZERO);
        let error = next(&mut disk).1.result.unwrap_err();
        assert!(error.detail.contains(expected), "{error}");
    }
    for id in 0..129 {
        disk.submit(submission(id, Command::Flush), Nanos::ZERO);
    }
    let refused = (0..129).filter(|_| next(&mut disk).1.result.is_err()).count();
    assert_eq!(refused, 1, "one more than the queue holds");
}
