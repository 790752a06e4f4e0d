//! What an array calls blank: never a byte that does not read as zero, and all of what nobody wrote.

use super::label_rig::{BLOCK, BLOCKS, Shaky, change, made, reopened, run_one, start};
use super::*;
use nearhead_disk::{BufferMut, Payload, Run};
use nearhead_models::{InstantDisk, MemoryStore, plain_properties};

const MEMBER_BYTES: u64 = 1 << 20;

fn disk() -> InstantDisk {
    let properties = Properties { trim_reads_zero: true, ..plain_properties(MEMBER_BYTES, 512) };
    InstantDisk::new(properties, Box::new(MemoryStore::new()), Nanos::ZERO)
}

fn disks(count: usize) -> Vec<InstantDisk> {
    (0..count).map(|_| disk()).collect()
}

fn write(offset: u64, bytes: &[u8]) -> Command {
    let parts = vec![Payload::Bytes(BufferMut::copy_of(bytes).freeze())];
    Command::Write { offset, parts, durable: false }
}

/// The runs of a whole disk, in order.
fn runs(disk: &dyn Disk) -> Vec<(u64, u64, bool)> {
    let (mut at, end) = (0, disk.properties().capacity_bytes);
    let mut runs = Vec::new();
    while at < end {
        let Run { len, zero } = disk.run_at(at);
        assert!(len > 0, "the run at {at}");
        let next = at.saturating_add(len).min(end);
        runs.push((at, next, zero));
        at = next;
    }
    runs
}

fn known_zero_bytes(disk: &dyn Disk) -> u64 {
    runs(disk).iter().filter(|run| run.2).map(|(from, to, _)| to - from).sum()
}

#[test]
fn no_byte_that_an_array_calls_blank_is_anything_but_zero() {
    let mut arrays: Vec<Box<dyn Disk>> = Vec::new();
    for (count, chunk_bytes) in [(2, 4096), (3, 8192), (5, 65536)] {
        arrays.push(Box::new(Stripe::new(disks(count), chunk_bytes).unwrap()));
    }
    arrays.push(Box::new(Mirror::new(disks(3), ReadPolicy::Balanced).unwrap()));
    for mut array in arrays {
        let (name, end) = (array.properties().name.clone(), array.properties().capacity_bytes);
        assert_eq!(known_zero_bytes(&array), end, "{name}: nobody wrote");
        let mut flat = vec![0_u8; end as usize];
        let mut random = SplitMix::new(11);
        for turn in 0..120_u8 {
            let from = random.below(end / 512) * 512;
            let len = (512 * (1 + random.below(200))).min(end - from);
            let (place, fill) = (from as usize..(from + len) as usize, turn % 3);
            let command = match fill {
                0 => Command::WriteZeroes { offset: from, len, durable: false },
                1 => Command::Trim { offset: from, len },
                _ => write(from, &vec![turn; len as usize]),
            };
            flat[place].fill(if fill == 2 { turn } else { 0 });
            run_one(&mut array, command).unwrap();
            let look = (0..20).map(|_| random.below(end)).collect::<Vec<_>>();
            let anywhere = look.into_iter().map(|at| (at, array.run_at(at)));
            let anywhere =
                anywhere.map(|(at, run)| (at, at.saturating_add(run.len).min(end), run.zero));
            for (from, to, zero) in runs(&array).into_iter().chain(anywhere) {
                let bytes = &flat[from as usize..to as usize];
                assert!(!zero || bytes.iter().all(|byte| *byte == 0), "{name}: {from} to {to}");
            }
        }
    }
}

#[test]
fn all_but_what_was_written_is_blank_and_a_run_reaches_over_many_chunks() {
    let mut stripe = Stripe::new(disks(4), 65536).unwrap();
    // One page of the fifth chunk, and the first of the last.
    for offset in [5 * 65536 + 8192, 63 * 65536] {
        run_one(&mut stripe, write(offset, &[7; 4096])).unwrap();
    }
    let page = |at: u64| (at, at + 4096, false);
    let expected = [
        (0, 5 * 65536 + 8192, true),
        page(5 * 65536 + 8192),
        (5 * 65536 + 12288, 63 * 65536, true),
        page(63 * 65536),
        (63 * 65536 + 4096, 64 * 65536, true),
    ];
    assert_eq!(runs(&stripe), expected);
    assert_eq!(stripe.run_at(64 * 65536), Run::UNKNOWN, "nothing is said past the end");
}

#[test]
fn one_member_that_does_not_say_so_is_enough() {
    let mut members = disks(3);
    run_one(&mut members[1], write(8192, &[1; 4096])).unwrap();
    let mirror = Mirror::new(members, ReadPolicy::First).unwrap();
    let expected = [(0, 8192, true), (8192, 12288, false), (12288, MEMBER_BYTES, true)];
    assert_eq!(runs(&mirror), expected);
}

#[test]
fn a_mirror_that_is_not_whole_calls_nothing_blank() {
    let end = BLOCKS * BLOCK;
    // Whole, then one member falls out.
    let mut run = start(made([10, 10]));
    assert_eq!(known_zero_bytes(&run.mirror), end);
    run.write(3, 1);
    run.wait(Command::Flush).unwrap();
    assert_eq!(known_zero_bytes(&run.mirror), end - BLOCK);
    run.mirror.member(1).broken.set(true);
    run.write(4, 1);
    assert_eq!(known_zero_bytes(&run.mirror), 0, "one member is out");

    // It comes back, and is behind until everything was copied to it.
    let mut disks = run.disks();
    disks[1].as_ref().unwrap().broken.set(false);
    let mut run = start(reopened("mirror:a,b", &mut disks).unwrap());
    assert_eq!(known_zero_bytes(&run.mirror), 0, "one member is behind");
    run.until(Nanos::from_secs(10));
    assert_eq!(run.mirror.trouble(), None);
    run.wait(Command::Flush).unwrap();
    let known = known_zero_bytes(&run.mirror);
    let copied: u64 = runs(&run.mirror).iter().filter(|run| !run.2).map(|run| run.1 - run.0).sum();
    assert_eq!(known + copied, end);

    // Not left in order: its members may differ where it was written.
    run.send(1, change(5, 9));
    run.until(run.now + Nanos::from_millis(1));
    let mut disks = run.disks();
    let run = start(reopened("mirror:a,b", &mut disks).unwrap());
    assert_eq!(known_zero_bytes(&run.mirror), 0, "its members are unsure");

    // One is away.
    let mut disks: Vec<Option<Shaky>> = start(made([10, 10])).disks();
    disks[1] = None;
    let run = start(reopened("mirror:a,missing", &mut disks).unwrap());
    assert_eq!(known_zero_bytes(&run.mirror), 0, "one member is missing");
}
