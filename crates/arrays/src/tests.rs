//! Laws of arrays: no byte is lost or misplaced, nothing is answered too early, n disks are n
//! times as fast, and a mirror outlives a member.

use super::*;
use nearhead_basics::SplitMix;
use nearhead_disk::{BufferMut, CommandId, Payload};
use nearhead_models::{
    CrashDisk, Dataless, HddModel, HddOptions, InstantDisk, MemoryStore, Model, Profile,
    plain_properties,
};
use std::cell::Cell;
use std::rc::Rc;

/// A disk that fails as it is told.
struct Frail {
    disk: InstantDisk,
    writes_fail: Rc<Cell<bool>>,
    reads_fail: Rc<Cell<bool>>,
    flushes: Rc<Cell<u64>>,
}

impl Disk for Frail {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }
    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }
    fn properties(&self) -> &Properties {
        self.disk.properties()
    }
    fn submit(&mut self, mut submission: Submission, now: Nanos) {
        let fails = match submission.command {
            Command::Read { .. } => self.reads_fail.get(),
            _ => self.writes_fail.get(),
        };
        self.flushes
            .set(self.flushes.get() + u64::from(matches!(submission.command, Command::Flush)));
        if fails {
            // Past the end: the disk itself answers with an error.
            submission.command = Command::Read { offset: 1 << 60, len: 4096 };
        }
        self.disk.submit(submission, now);
    }
    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        self.disk.poll(now)
    }
    fn wake_at(&self) -> Option<Nanos> {
        self.disk.wake_at()
    }
}

fn instant(capacity_bytes: u64, latency_us: u64) -> InstantDisk {
    let properties = Properties {
        trim_reads_zero: true,
        transfer_bytes_max: 64 << 10,
        queue_depth_max: 2,
        ..plain_properties(capacity_bytes, 512)
    };
    InstantDisk::new(properties, Box::new(MemoryStore::new()), Nanos::from_micros(latency_us))
}

fn frail(latency_us: u64) -> Frail {
    Frail {
        disk: instant(1 << 20, latency_us),
        writes_fail: Rc::default(),
        reads_fail: Rc::default(),
        flushes: Rc::default(),
    }
}

fn give(disk: &mut dyn Disk, id: u64, command: Command, now: Nanos) {
    let ticket = Ticket::new(CommandId(id));
    disk.submit(Submission { ticket, class: Class::Foreground, command }, now);
    disk.kick();
}

fn next(disk: &mut dyn Disk) -> (Nanos, Completion) {
    loop {
        let at = disk.wake_at().expect("a command is outstanding");
        if let Some(done) = disk.poll(at) {
            return (at, done);
        }
    }
}

fn run(disk: &mut dyn Disk, command: Command) -> Result<Payload, DiskError> {
    give(disk, 1, command, Nanos::ZERO);
    next(disk).1.result
}

fn write(offset: u64, bytes: &[u8]) -> Command {
    // In parts of uneven length, as the engine sends them.
    let cut = (bytes.len() / 512 / 3) * 512;
    let part = |bytes: &[u8]| Payload::Bytes(BufferMut::copy_of(bytes).freeze());
    let parts = vec![part(&bytes[..cut]), part(&bytes[cut..])];
    Command::Write { offset, parts, durable: false }
}

fn bytes(result: Result<Payload, DiskError>) -> Vec<u8> {
    let payload = result.unwrap();
    let mut bytes = vec![0; payload.len()];
    payload.copy_to(&mut bytes);
    bytes
}

fn arrays() -> Vec<Box<dyn Disk>> {
    let disks =
        |count: u64| (0..count).map(|index| instant((1 << 18) + index * 4096, index)).collect();
    let mut arrays: Vec<Box<dyn Disk>> = Vec::new();
    for (count, chunk_bytes) in [(2, 4096), (3, 8192), (4, 65536), (5, 16384)] {
        arrays.push(Box::new(Stripe::new(disks(count), chunk_bytes).unwrap()));
    }
    arrays.push(Box::new(Mirror::new(disks(2), ReadPolicy::First).unwrap()));
    arrays.push(Box::new(Mirror::new(disks(3), ReadPolicy::Balanced).unwrap()));
    arrays
}

#[test]
fn every_array_behaves_as_one_flat_disk() {
    for mut array in arrays() {
        let name = array.properties().name.clone();
        let capacity = array.properties().capacity_bytes;
        assert!(capacity >= 1 << 18, "{name}");
        let most = u64::from(array.properties().transfer_bytes_max);
        let mut flat = vec![0_u8; capacity as usize];
        let mut random = SplitMix::new(7);
        for step in 0..400 {
            let len = (1 + random.below(most.min(capacity) / 512)) * 512;
            let offset = random.below((capacity - len) / 512 + 1) * 512;
            let range = offset as usize..(offset + len) as usize;
            match random.below(6) {
                0 => {
                    run(&mut array, Command::WriteZeroes { offset, len, durable: true }).unwrap();
                    flat[range].fill(0);
                }
                1 => {
                    run(&mut array, Command::Trim { offset, len }).unwrap();
                    flat[range].fill(0);
                }
                2 | 3 => {
                    let content: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
                    run(&mut array, write(offset, &content)).unwrap();
                    flat[range].copy_from_slice(&content);
                }
                _ => {
                    let found = bytes(run(&mut array, Command::Read { offset, len: len as u32 }));
                    assert!(found == flat[range], "{name}: step {step}, {len} bytes at {offset}");
                }
            }
        }
        let (first, second) = (Command::Read { offset: capacity, len: 512 }, write(1, &[0; 512]));
        for command in [first, second] {
            assert_eq!(
                run(&mut array, command).unwrap_err().kind,
                DiskErrorKind::Invalid,
                "{name}"
            );
        }
    }
}

#[test]
fn more_commands_than_the_members_take_wait_and_all_are_answered_once() {
    for mut array in arrays() {
        let depth = u64::from(array.properties().queue_depth_max);
        for id in 0..=depth {
            give(&mut array, id, Command::Read { offset: 0, len: 65536 }, Nanos::ZERO);
        }
        let mut answers: Vec<_> = (0..=depth).map(|_| next(&mut array).1).collect();
        answers.sort_by_key(|done| done.id.0);
        let name = &array.properties().name;
        let ids: Vec<_> = answers.iter().map(|done| done.id.0).collect();
        assert_eq!(ids, (0..=depth).collect::<Vec<_>>(), "{name}");
        let refused = answers.iter().filter(|done| done.result.is_err()).count();
        assert_eq!(refused, 1, "{name}: one more than the queue holds");
        assert_eq!(array.wake_at(), None, "{name}");
    }
}

#[test]
fn a_command_is_answered_when_its_slowest_part_is() {
    let disks = vec![instant(1 << 20, 100), instant(1 << 20, 900)];
    let mut stripe = Stripe::new(disks, 4096).unwrap();
    for (offset, len, expected_us) in [(0, 4096, 100), (4096, 4096, 900), (0, 8192, 900)] {
        give(&mut stripe, 1, Command::Read { offset, len }, Nanos::ZERO);
        assert_eq!(next(&mut stripe).0, Nanos::from_micros(expected_us), "{len} bytes at {offset}");
    }
    give(&mut stripe, 1, Command::Flush, Nanos::ZERO);
    assert_eq!(next(&mut stripe).0, Nanos::from_micros(900), "a flush asks everybody");
    let disks = vec![instant(1 << 20, 100), instant(1 << 20, 900)];
    let mut mirror = Mirror::new(disks, ReadPolicy::First).unwrap();
    give(&mut mirror, 1, write(0, &[7; 4096]), Nanos::ZERO);
    assert_eq!(next(&mut mirror).0, Nanos::from_micros(900));
}

#[test]
fn striped_disks_stream_as_many_times_faster_as_there_are() {
    let rate = |count: u64| {
        let profile = Profile::named("st3146855fc").unwrap();
        let disk = || HddModel::new(&profile, Box::new(Dataless), HddOptions::default()).unwrap();
        let disks = (0..count.max(2)).map(|_| disk()).collect();
        let mut stripe: Box<dyn Disk> = match count {
            1 => Box::new(disk()),
            _ => Box::new(Stripe::new(disks, 64 << 10).unwrap()),
        };
        let (len, total) = (1_u32 << 20, 64 * count);
        let (mut sent, mut last, mut first) = (0, Nanos::ZERO, Nanos::ZERO);
        while sent < 2 * count {
            give(&mut stripe, sent, Command::Read { offset: sent << 20, len }, Nanos(sent * 1000));
            sent += 1;
        }
        for done in 0..total {
            (last, _) = next(&mut stripe);
            first = if done == 8 * count { last } else { first };
            if sent < total {
                give(&mut stripe, sent, Command::Read { offset: sent << 20, len }, last);
                sent += 1;
            }
        }
        (total - 1 - 8 * count) as f64 / last.since(first).as_secs_f64()
    };
    let one = rate(1);
    for count in [2, 4] {
        let speedup = rate(count) / one;
        let wanted = count as f64;
        assert!(
            (0.93 * wanted..1.07 * wanted).contains(&speedup),
            "{count} disks: {speedup} times"
        );
    }
}

#[test]
fn an_error_of_a_striped_disk_is_an_error_of_the_array_and_names_it() {
    let (left, right) = (frail(1), frail(2));
    let fails = Rc::clone(&right.writes_fail);
    let mut stripe = Stripe::new(vec![left, right], 4096).unwrap();
    fails.set(true);
    run(&mut stripe, write(0, &[1; 4096])).unwrap();
    for command in [write(4096, &[1; 4096]), write(0, &[1; 8192]), Command::Flush] {
        let error = run(&mut stripe, command).unwrap_err();
        assert!(error.detail.starts_with("member 2 of 2 (instant): "), "{error}");
    }
}

#[test]
fn a_mirror_goes_on_without_the_member_that_could_not_write_and_never_reads_it_again() {
    for failing in [0, 1] {
        let disks = vec![frail(5), frail(9)];
        let fails = Rc::clone(&disks[failing].writes_fail);
        let mut mirror = Mirror::new(disks, ReadPolicy::Balanced).unwrap();
        run(&mut mirror, write(0, &[1; 4096])).unwrap();
        assert_eq!(mirror.trouble(), None);
        fails.set(true);
        run(&mut mirror, write(0, &[2; 4096])).unwrap();
        fails.set(false);
        let trouble = mirror.trouble().unwrap();
        let expected = format!("1 of 2 members left: member {} of 2", failing + 1);
        assert!(trouble.contains(&expected), "{trouble}");
        for _ in 0..8 {
            let found = bytes(run(&mut mirror, Command::Read { offset: 0, len: 4096 }));
            assert_eq!(found, [2; 4096], "the old copy is never read");
        }
        run(&mut mirror, write(0, &[3; 4096])).unwrap();
        assert_eq!(bytes(run(&mut mirror, Command::Read { offset: 0, len: 512 })), [3; 512]);
    }
}

#[test]
fn a_failed_flush_of_one_member_costs_that_member_and_of_all_is_an_error() {
    let disks = vec![frail(5), frail(9)];
    let (first, second) = (Rc::clone(&disks[0].writes_fail), Rc::clone(&disks[1].writes_fail));
    let flushes = Rc::clone(&disks[1].flushes);
    let mut mirror = Mirror::new(disks, ReadPolicy::First).unwrap();
    first.set(true);
    run(&mut mirror, Command::Flush).unwrap();
    assert_eq!((mirror.members_left(), flushes.get()), (1, 1));
    second.set(true);
    let error = run(&mut mirror, Command::Flush).unwrap_err();
    assert!(error.detail.contains("member 2 of 2"), "{error}");
    assert_eq!(mirror.members_left(), 1, "the last member is never given up");
}

#[test]
fn reads_survive_one_member_and_fail_when_none_can_serve_them() {
    let disks = vec![frail(5), frail(9)];
    let (first, second) = (Rc::clone(&disks[0].reads_fail), Rc::clone(&disks[1].reads_fail));
    let mut mirror = Mirror::new(disks, ReadPolicy::First).unwrap();
    run(&mut mirror, write(8192, &[4; 4096])).unwrap();
    first.set(true);
    assert_eq!(bytes(run(&mut mirror, Command::Read { offset: 8192, len: 4096 })), [4; 4096]);
    assert!(
        mirror.trouble().unwrap().contains("help out: member 1 of 2"),
        "{:?}",
        mirror.trouble()
    );
    second.set(true);
    run(&mut mirror, Command::Read { offset: 8192, len: 4096 }).unwrap_err();
    assert_eq!(mirror.members_left(), 2, "what cannot be read may still be written");
}

#[test]
fn a_balanced_mirror_serves_twice_the_random_reads() {
    let rate = |policy| {
        let profile = Profile::named("st3146855fc").unwrap();
        let disk = |_| HddModel::new(&profile, Box::new(Dataless), HddOptions::default()).unwrap();
        let mut mirror = Mirror::new((0..2).map(disk).collect(), policy).unwrap();
        let mut random = SplitMix::new(3);
        let mut at = Nanos::ZERO;
        for id in 0..1000 {
            if id >= 8 {
                (at, _) = next(&mut mirror);
            }
            let offset = random.below(30 << 20) * 4096;
            give(&mut mirror, id, Command::Read { offset, len: 4096 }, at);
        }
        1000.0 / at.as_secs_f64()
    };
    let speedup = rate(ReadPolicy::Balanced) / rate(ReadPolicy::First);
    // Two queues of half the length find shorter ways less often, so it is a little under two.
    assert!((1.5..2.1).contains(&speedup), "{speedup}");
}

#[test]
fn what_a_flush_covered_is_safe_on_every_member_after_a_power_cut() {
    for seed in 0..50 {
        let profile = Profile::named("st3146855fc").unwrap();
        let options = HddOptions { write_cache: Some(true), ..HddOptions::default() };
        let disk = |_| HddModel::new(&profile, Box::new(MemoryStore::new()), options).unwrap();
        let mut stripe = Stripe::new((0..3).map(disk).collect(), 4096).unwrap();
        let mut random = SplitMix::new(seed);
        assert!(stripe.properties().volatile_cache);
        run(&mut stripe, write(0, &vec![1; 12 * 4096])).unwrap();
        give(&mut stripe, 2, Command::Flush, Nanos::from_millis(1));
        let (at, done) = next(&mut stripe);
        done.result.unwrap();
        give(&mut stripe, 3, write(0, &vec![2; 12 * 4096]), at);
        give(&mut stripe, 4, Command::Flush, at);
        let cut = at + Nanos(random.below(9_000_000));
        stripe.power_cut(cut, &mut random).unwrap();
        assert_eq!(stripe.poll(cut).map(|done| done.id), None, "seed {seed}: nothing is answered");
        give(&mut stripe, 5, Command::Read { offset: 0, len: 12 * 4096 }, cut);
        let found = bytes(next(&mut stripe).1.result);
        let wrong = found.iter().position(|byte| !(1..=2).contains(byte));
        assert_eq!(wrong, None, "seed {seed}: neither the safe content nor the newer one");
    }
}

#[test]
fn arrays_that_cannot_be_made_say_why() {
    let disks = |count| (0..count).map(|_| instant(1 << 20, 1)).collect::<Vec<_>>();
    for (count, chunk, expected) in [
        (1, 4096, "expected 2 to 32 disks, found 1"),
        (33, 4096, "expected 2 to 32 disks, found 33"),
        (2, 5000, "a power of two from 4 KiB to 16 MiB, found 5000"),
        (2, 2 << 20, "at least one chunk of 2097152"),
    ] {
        let error = Stripe::new(disks(count), chunk).err().unwrap();
        assert!(error.detail.contains(expected), "{error}");
    }
    let error = Mirror::new(disks(0), ReadPolicy::First).err().unwrap();
    assert!(error.detail.contains("found 0"), "{error}");
}

#[test]
fn an_array_that_is_dropped_with_commands_outstanding_loses_no_ticket() {
    let disks = (0..2).map(|_| CrashDisk::new(1 << 20, 512)).collect();
    let mut stripe = Stripe::new(disks, 4096).unwrap();
    for id in 0..4 {
        give(&mut stripe, id, write(0, &[1; 8192]), Nanos::ZERO);
    }
    drop(stripe);
}
