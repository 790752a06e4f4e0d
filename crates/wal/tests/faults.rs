//! What is told from what: damage from tears, full from broken; and that after an error nothing is
//! acknowledged on hope.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

mod support;

use nearhead_basics::SplitMix;
use nearhead_wal::storage::{Memory, Storage};
use nearhead_wal::{LogOptions, Lsn, Result, SerialLog, Tail, WalError, WalErrorKind};
use support::{Oracle, Step, created, live, open, open_checked, payload, small};

const CONTROL: &str = "wal.control";

fn segment(sequence: u64) -> String {
    format!("{sequence:016x}.wal")
}

fn error_of<T>(outcome: Result<T>) -> WalError {
    match outcome {
        Ok(_) => panic!("expected an error"),
        Err(error) => error,
    }
}

/// A log of `sizes`, each record committed by itself, left as a power cut would.
fn log_of(options: &LogOptions, sizes: &[usize]) -> Memory {
    let storage = created(options);
    let (mut log, ..) = open(&storage, options).unwrap();
    for (index, bytes) in sizes.iter().enumerate() {
        log.append(&payload(index as u64 + 1, *bytes)).unwrap();
        log.commit().unwrap();
    }
    drop(log);
    storage.killed()
}

#[test]
fn every_operation_may_fail_once_and_nothing_acknowledged_is_lost() {
    use Step::{Append, Commit, KeepLast, Prepare, Reopen};
    let steps = [
        Append(5000),
        Commit,
        Prepare,
        Append(5000),
        Append(5000),
        Commit,
        KeepLast(1),
        Append(5000),
        Commit,
        Reopen,
        Append(5000),
        Append(400),
        Commit,
        KeepLast(0),
        Append(5000),
        Commit,
    ];
    for tail in [Tail::Rewritten, Tail::LeftAlone] {
        for kind in [WalErrorKind::Io, WalErrorKind::NoSpace] {
            let options = small(tail);
            for fail_at in 0.. {
                let storage = created(&options);
                let (log, ..) = open(&storage, &options).unwrap();
                let mut oracle = Oracle::new();
                let fault = storage.operations() + fail_at;
                storage.fail_at(fault, kind);
                let ended = live(&storage, &options, log, &steps, &mut oracle);
                let was_met = storage.operations() > fault;
                // What a failed write-back left may vanish; what it did not acknowledge may too.
                for image in [
                    storage.killed(),
                    storage
                        .cut(&nearhead_wal::storage::Cut { sectors: Vec::new(), name_changes: 0 }),
                ] {
                    let context = format!("{tail:?}, {kind:?} at {fail_at}");
                    open_checked(&image, &options, &mut oracle.clone(), &context);
                }
                if !was_met {
                    assert!(ended.is_ok() && fail_at > 10);
                    break;
                }
            }
        }
    }
}

#[test]
fn after_a_failed_write_the_log_is_stopped_and_nothing_is_retried() {
    for tail in [Tail::Rewritten, Tail::LeftAlone] {
        let options = small(tail);
        let storage = log_of(&options, &[100]);
        let (mut log, ..) = open(&storage, &options).unwrap();
        log.append(b"lost").unwrap();
        storage.fail_at(storage.operations(), WalErrorKind::Io);
        assert_eq!(error_of(log.commit()).kind, WalErrorKind::Io);
        let operations = storage.operations();
        assert_eq!(error_of(log.commit()).kind, WalErrorKind::Stopped);
        assert_eq!(error_of(log.append(b"more")).kind, WalErrorKind::Stopped);
        assert_eq!(error_of(log.close()).kind, WalErrorKind::Stopped);
        assert_eq!(storage.operations(), operations, "nothing may be written after an error");
    }
}

#[test]
fn a_full_disk_takes_nothing_in_and_room_helps() {
    let options = small(Tail::Rewritten);
    let storage = created(&options);
    let (mut log, ..) = open(&storage, &options).unwrap();
    // Room for the control block and one segment: full before, during and after zeroing the second.
    for room in [8192 + 16384, 8192 + 16384 + 512, 8192 + 2 * 16384 - 512] {
        storage.set_capacity(Some(room));
        let mut next = log.next_lsn();
        let error = loop {
            match log.append(&payload(next.0, 5000)) {
                Ok(lsn) => next = lsn.next(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind, WalErrorKind::NoSpace);
        assert_eq!(log.next_lsn(), next, "no number is used up");
        assert_eq!(log.commit().unwrap(), next, "what was taken in can still be made durable");
    }
    storage.set_capacity(None);
    let lsn = log.next_lsn();
    assert_eq!(log.append(&payload(lsn.0, 5000)).unwrap(), lsn);
    log.close().unwrap();
    let (_, found, records) = open(&storage, &options).unwrap();
    assert_eq!(found.next_lsn, lsn.next());
    assert!(records.iter().all(|(lsn, bytes)| *bytes == payload(*lsn, 5000)));
}

#[test]
fn a_log_with_all_its_segments_is_full_until_it_is_truncated() {
    let options = small(Tail::Rewritten);
    let storage = created(&options);
    let (mut log, ..) = open(&storage, &options).unwrap();
    let error = loop {
        match log.append(&payload(log.next_lsn().0, 5000)) {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind, WalErrorKind::Full);
    let next = log.commit().unwrap();
    assert_eq!(next, Lsn(13), "two records in each of six segments");
    log.truncate_prefix(Lsn(4)).unwrap();
    assert_eq!(log.append(&payload(13, 5000)).unwrap(), Lsn(13));
    log.commit().unwrap();
    assert_eq!(error_of(log.records(Lsn(3))).kind, WalErrorKind::Truncated);
    let read: Vec<u64> = log.records(Lsn(4)).unwrap().map(|record| record.unwrap().0.0).collect();
    assert_eq!(read, (4..=13).collect::<Vec<_>>());
    assert_eq!(error_of(log.truncate_prefix(Lsn(15))).kind, WalErrorKind::OutOfRange);
}

#[test]
fn any_flipped_bit_of_what_has_a_witness_is_damage_and_never_a_shorter_log() {
    for tail in [Tail::Rewritten, Tail::LeftAlone] {
        let options = small(tail);
        let sizes = [30, 600, 9, 5000, 5000, 5000, 40, 40];
        let storage = log_of(&options, &sizes);
        let (_, found, records) = open(&storage.killed(), &options).unwrap();
        assert_eq!((found.next_lsn, records.len()), (Lsn(9), 8));
        let mut noticed = 0;
        for sequence in 1..=2 {
            for offset in (0..16384).step_by(41) {
                let damaged = storage.killed();
                damaged.damage(&segment(sequence), |bytes| bytes[offset] ^= 4);
                match open(&damaged, &options) {
                    Ok((_, found, again)) => {
                        // Padding, or the newest record, whose loss nothing witnesses.
                        assert!(found.next_lsn >= Lsn(8), "{sequence}:{offset}: {found:?}");
                        assert_eq!(again[..], records[..again.len()], "{sequence}:{offset}");
                    }
                    Err(error) => {
                        assert_eq!(
                            error.kind,
                            WalErrorKind::Corrupt,
                            "{sequence}:{offset}: {error}"
                        );
                        noticed += 1;
                    }
                }
            }
        }
        assert!(noticed > 300, "{noticed}");
    }
}

#[test]
fn the_newest_record_of_a_log_closed_in_order_is_missed() {
    let options = small(Tail::Rewritten);
    let storage = log_of(&options, &[30, 40]);
    let end = storage.killed();
    // Offset 4096, the first record of the segment (40 bytes), 30 bytes with header (64), 32 more.
    let newest = 4096 + 40 + 64 + 32;
    end.damage(&segment(1), |bytes| bytes[newest] ^= 1);
    let (_, found, _) = open(&end, &options).unwrap();
    assert_eq!(found.next_lsn, Lsn(2), "without a witness it looks like a tear");
    let (log, ..) = open(&storage, &options).unwrap();
    log.close().unwrap();
    storage.damage(&segment(1), |bytes| bytes[newest] ^= 1);
    let error = error_of(open(&storage, &options));
    assert_eq!(error.kind, WalErrorKind::Corrupt);
    assert!(error.detail.contains("closed in order"), "{error}");
}

#[test]
fn a_segment_that_is_missing_short_or_of_another_log_is_named() {
    let options = small(Tail::Rewritten);
    let storage = log_of(&options, &[5000; 7]);
    for sequence in 1..=4 {
        let name = segment(sequence);
        let missing = storage.killed();
        missing.remove(&name).unwrap();
        let error = error_of(open(&missing, &options));
        assert_eq!(error.kind, WalErrorKind::SegmentMissing);
        assert!(error.detail.contains(&name), "{error}");
        for change in [
            |bytes: &mut Vec<u8>| bytes.truncate(9000),
            |bytes: &mut Vec<u8>| bytes.clear(),
            |bytes: &mut Vec<u8>| bytes[20] ^= 1,
        ] {
            let damaged = storage.killed();
            damaged.damage(&name, change);
            let error = error_of(open(&damaged, &options));
            assert_eq!(error.kind, WalErrorKind::Corrupt);
            assert!(error.detail.contains(&name), "{error}");
        }
    }
    let renamed = storage.killed();
    renamed.rename(&segment(2), &segment(9)).unwrap();
    assert_eq!(error_of(open(&renamed, &options)).kind, WalErrorKind::Corrupt);
    let swapped = storage.killed();
    swapped.rename(&segment(2), "aside").unwrap();
    swapped.rename(&segment(3), &segment(2)).unwrap();
    swapped.rename("aside", &segment(3)).unwrap();
    assert_eq!(error_of(open(&swapped, &options)).kind, WalErrorKind::Corrupt);
}

#[test]
fn a_log_without_control_block_is_not_opened_nor_made_again() {
    let options = small(Tail::Rewritten);
    let storage = log_of(&options, &[10]);
    let again = SerialLog::create(&storage, &options, [1; 16]);
    assert_eq!(error_of(again).kind, WalErrorKind::AlreadyExists);
    let damaged = storage.killed();
    damaged.damage(CONTROL, |bytes| bytes.fill(0));
    assert_eq!(error_of(open(&damaged, &options)).kind, WalErrorKind::Corrupt);
    let missing = storage.killed();
    missing.remove(CONTROL).unwrap();
    assert_eq!(error_of(open(&missing, &options)).kind, WalErrorKind::NotFound);
    let again = SerialLog::create(&missing, &options, [1; 16]);
    assert_eq!(
        error_of(again).kind,
        WalErrorKind::AlreadyExists,
        "segments are somebody's records"
    );
}

#[test]
fn a_second_writer_is_kept_out_and_a_reader_is_not() {
    let options = small(Tail::Rewritten);
    let storage = log_of(&options, &[10, 20]);
    let first = open(&storage, &options).unwrap();
    assert_eq!(error_of(open(&storage, &options)).kind, WalErrorKind::InUse);
    let before = storage.operations();
    let mut seen = Vec::new();
    let found = nearhead_wal::log::read_only(&storage, |lsn, _| seen.push(lsn.0)).unwrap();
    assert_eq!((found.next_lsn, seen), (Lsn(3), vec![1, 2]));
    assert_eq!(storage.operations(), before, "a reader changes nothing");
    drop(first);
    assert!(open(&storage, &options).is_ok());
}

#[test]
fn a_record_that_is_too_large_is_refused_before_anything_is_done() {
    let options = small(Tail::Rewritten);
    let storage = created(&options);
    let (mut log, ..) = open(&storage, &options).unwrap();
    let error = error_of(log.append(&[0; 6001]));
    assert_eq!(error.kind, WalErrorKind::OutOfRange);
    assert_eq!(log.next_lsn(), Lsn::FIRST);
}

#[test]
fn recycled_segments_keep_their_number_down() {
    let options = small(Tail::Rewritten);
    let storage = created(&options);
    let (mut log, ..) = open(&storage, &options).unwrap();
    for lsn in 1..200 {
        log.append(&payload(lsn, 5000)).unwrap();
        let next = log.commit().unwrap();
        log.truncate_prefix(Lsn(next.0.saturating_sub(3).max(1))).unwrap();
    }
    let segments = storage.names().unwrap().len() - 1;
    assert!(segments <= 5, "{segments} segments for three records");
    log.close().unwrap();
    let (_, found, records) = open(&storage, &options).unwrap();
    assert_eq!((found.first_lsn, found.next_lsn, records.len()), (Lsn(197), Lsn(200), 3));
}

#[test]
fn files_of_arbitrary_bytes_are_refused_without_a_panic() {
    let options = small(Tail::Rewritten);
    let storage = log_of(&options, &[30, 5000, 5000, 5000, 40]);
    let names = storage.names().unwrap();
    for seed in 0..2000 {
        let mut random = SplitMix::new(seed);
        let hostile = storage.killed();
        for _ in 0..=random.below(3) {
            let name = &names[random.below(names.len() as u64) as usize];
            hostile.damage(name, |bytes| match random.below(4) {
                0 => bytes.truncate(random.below(bytes.len() as u64 + 1) as usize),
                1 => bytes.extend([0xff; 5000]),
                _ => {
                    let from = random.below(bytes.len() as u64 + 1) as usize;
                    let len = random.below(600) as usize;
                    let range = from..(from + len).min(bytes.len());
                    bytes[range].iter_mut().for_each(|byte| *byte = random.next_u64() as u8);
                }
            });
        }
        // Whatever is found, it is a beginning of what was written.
        if let Ok((_, _, records)) = open(&hostile, &options) {
            for (lsn, bytes) in records {
                let sizes = [30, 5000, 5000, 5000, 40];
                assert_eq!(bytes, payload(lsn, sizes[lsn as usize - 1]), "seed {seed}");
            }
        }
    }
}

#[test]
fn records_of_two_pasts_are_never_read_as_one() {
    let options = small(Tail::Rewritten);
    let common = log_of(&options, &[40]);
    // Two pasts of one log, as a copy of it that was written on would have: the same numbers at the
    // same places, other bytes.
    let past = |byte: u8| {
        let storage = common.killed();
        let (mut log, ..) = open(&storage, &options).unwrap();
        for _ in 0..3 {
            log.append(&[byte; 600]).unwrap();
            log.commit().unwrap();
        }
        drop(log);
        storage.killed()
    };
    let (left, right) = (past(1), past(2));
    let mut newer = Vec::new();
    right.damage(&segment(1), |bytes| newer.clone_from(bytes));
    // Offsets: 4096, the segment's first record (40), 40 bytes (72), then 632 for each of 600.
    let mix = |records_of_left: usize| {
        let from = 4096 + 40 + 72 + records_of_left * 632;
        let mixed = left.killed();
        mixed.damage(&segment(1), |bytes| bytes[from..].copy_from_slice(&newer[from..]));
        mixed
    };
    assert_eq!(error_of(open(&mix(1), &options)).kind, WalErrorKind::Corrupt);
    let (_, found, records) = open(&mix(2), &options).unwrap();
    assert_eq!((found.next_lsn, records.len()), (Lsn(4), 3), "the newest has no witness");
}

#[test]
fn a_reader_ends_at_damage_and_says_so() {
    let options = small(Tail::Rewritten);
    let storage = log_of(&options, &[40, 5000, 5000, 5000, 40]);
    let (log, ..) = open(&storage, &options).unwrap();
    let healthy: Vec<_> =
        log.records(Lsn::FIRST).unwrap().map(|record| record.unwrap().0).collect();
    assert_eq!(healthy, (1..=5).map(Lsn).collect::<Vec<_>>());
    // Offset 4096, the segment's first record (40), 40 bytes (72): somewhere in the second record.
    storage.damage(&segment(1), |bytes| bytes[4096 + 40 + 72 + 100] ^= 1);
    let mut records = log.records(Lsn::FIRST).unwrap();
    assert_eq!(records.next().unwrap().unwrap().0, Lsn(1));
    assert_eq!(error_of(records.next().unwrap()).kind, WalErrorKind::Corrupt);
    assert!(records.next().is_none(), "after an error nothing follows");
    let beyond = log.records(Lsn(4)).unwrap().map(|record| record.unwrap().0.0);
    assert_eq!(beyond.collect::<Vec<_>>(), [4, 5], "another segment is not affected");
}
