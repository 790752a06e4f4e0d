//! The job's laws, with the kernel's part played by the tests.

use super::*;
use crate::options::OpenOptions;
use nearhead_disk::{Buffer, CommandId};
use std::path::PathBuf;

const MIB: u64 = 1 << 20;

/// A target over a fresh image, which the tests then bend to the case at hand.
pub(crate) fn target(name: &str) -> Target {
    let path = std::env::temp_dir().join(format!("nearhead-job-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    crate::create_image(&path, 64 * MIB).unwrap();
    let target = Target::open(&path, &OpenOptions::default()).unwrap();
    std::fs::remove_file(PathBuf::from(&target.properties.name)).unwrap();
    target
}

fn begin(command: Command, target: &Target) -> Progress {
    let ticket = Ticket::new(CommandId(1));
    let submission = Submission { ticket, class: Class::Durable, command };
    Job::begin(submission, target, &mut ReadPool::default())
}

pub(crate) fn begun(command: Command, target: &Target) -> Job {
    again(begin(command, target))
}

/// A flush that is about to be carried out, for tests of what jobs wait in.
pub(crate) fn flush(class: Class, number: u64, target: &Target) -> Job {
    let ticket = Ticket::new(CommandId(number));
    let submission = Submission { ticket, class, command: Command::Flush };
    again(Job::begin(submission, target, &mut ReadPool::default()))
}

fn again(progress: Progress) -> Job {
    match progress {
        Progress::Again(job) => job,
        Progress::Done(completion) => panic!("expected another call, found {completion:?}"),
    }
}

fn done(progress: Progress) -> Result<Payload, DiskError> {
    match progress {
        Progress::Done(completion) => completion.result,
        Progress::Again(job) => {
            job.abandon();
            panic!("expected the end of the command, found another call");
        }
    }
}

fn advance(job: Job, outcome: Result<usize, Errno>, target: &Target) -> Progress {
    job.advance(outcome, target, &mut ReadPool::default())
}

/// Of bytes that begin at 8192.
pub(crate) fn write(len: usize, durable: bool) -> Command {
    let bytes: Vec<u8> = (0..len).map(|index| (index / 512) as u8).collect();
    let data = Payload::Bytes(BufferMut::copy_of(&bytes).freeze());
    Command::Write { offset: 8192, parts: vec![data], durable }
}

#[test]
fn a_durable_write_is_one_call_where_write_through_is_honoured() {
    let mut target = target("through");
    target.way.write_through = true;
    let job = begun(write(4096, true), &target);
    assert_eq!(job.operation(&target), Operation::Write { offset: 8192, through: true });
    done(advance(job, Ok(4096), &target)).unwrap();
}

#[test]
fn a_durable_write_is_not_done_before_its_sync_elsewhere() {
    let mut target = target("sync");
    target.way.write_through = false;
    let job = begun(write(4096, true), &target);
    assert_eq!(job.operation(&target), Operation::Write { offset: 8192, through: false });
    let job = again(advance(job, Ok(4096), &target));
    assert_eq!(job.operation(&target), Operation::Sync);
    let error = done(advance(job, Err(Errno::IO), &target)).unwrap_err();
    assert_eq!(error.kind, DiskErrorKind::Io, "a failed sync fails the write");
}

#[test]
fn a_write_that_need_not_be_durable_costs_no_sync() {
    let mut target = target("lazy");
    target.way.write_through = false;
    let job = begun(write(4096, false), &target);
    assert_eq!(job.operation(&target), Operation::Write { offset: 8192, through: false });
    done(advance(job, Ok(4096), &target)).unwrap();
}

#[test]
fn the_rest_of_a_short_write_goes_where_it_belongs() {
    let target = target("short");
    let job = begun(write(4096, false), &target);
    let job = again(advance(job, Ok(1024), &target));
    assert_eq!(job.operation(&target), Operation::Write { offset: 9216, through: false });
    let rest: Vec<u8> = job.pending().flatten().copied().collect();
    assert_eq!((rest.len(), rest[0]), (3072, 2));
    done(advance(job, Ok(3072), &target)).unwrap();
}

#[test]
fn a_read_in_pieces_is_put_together() {
    let target = target("pieces");
    let mut job = begun(Command::Read { offset: 4096, len: 4096 }, &target);
    for piece in 0..4_u8 {
        let offset = 4096 + u64::from(piece) * 1024;
        assert_eq!(job.operation(&target), Operation::Read { offset });
        job.memory()[..1024].fill(piece);
        match advance(job, Ok(1024), &target) {
            Progress::Again(next) => job = next,
            Progress::Done(completion) => {
                assert_eq!(piece, 3);
                let Payload::Bytes(bytes) = completion.result.unwrap() else { panic!("no bytes") };
                let expected: Vec<u8> = (0..4096).map(|index| (index / 1024) as u8).collect();
                assert_eq!(&*bytes, &expected[..]);
                return;
            }
        }
    }
    panic!("the read never ended");
}

#[test]
fn a_transfer_of_nothing_or_too_much_or_half_a_sector_is_an_error_not_a_loop() {
    let mut target = target("nothing");
    target.way.direct = true;
    for outcome in [0, 100, 4608, 8192] {
        let job = begun(Command::Read { offset: 8192, len: 4096 }, &target);
        let error = done(advance(job, Ok(outcome), &target)).unwrap_err();
        assert_eq!(error.kind, DiskErrorKind::Io, "{outcome} bytes");
        assert!(error.detail.contains(&target.properties.name), "{}", error.detail);
    }
}

#[test]
fn through_the_page_cache_a_transfer_goes_on_from_within_a_sector() {
    let mut target = target("half");
    target.way.direct = false;
    let job = again(advance(begun(write(4096, false), &target), Ok(100), &target));
    assert_eq!(job.operation(&target), Operation::Write { offset: 8292, through: false });
    done(advance(job, Ok(3996), &target)).unwrap();
}

#[test]
fn interruptions_are_repeated_but_not_forever() {
    let target = target("interrupted");
    let mut progress = Progress::Again(begun(write(512, false), &target));
    for attempt in 0..=RETRIES_MAX {
        let job = again(progress);
        assert_eq!(job.operation(&target), Operation::Write { offset: 8192, through: false });
        let errnos = [Errno::INTR, Errno::AGAIN, Errno::CANCELED];
        progress = advance(job, Err(errnos[attempt as usize % 3]), &target);
    }
    assert_eq!(done(progress).unwrap_err().kind, DiskErrorKind::Io);
}

#[test]
fn a_full_or_vanished_disk_is_told_apart() {
    let target = target("kinds");
    for (errno, kind) in
        [(Errno::NOSPC, DiskErrorKind::OutOfSpace), (Errno::NODEV, DiskErrorKind::Gone)]
    {
        let job = begun(write(512, true), &target);
        let error = done(advance(job, Err(errno), &target)).unwrap_err();
        assert_eq!(error.kind, kind);
        assert!(error.detail.contains("8192"), "the offset is named: {}", error.detail);
    }
}

#[test]
fn zeroing_falls_back_from_range_to_punch_to_writing_zeros() {
    let mut target = target("zeroing");
    target.trim_by = TrimBy::Punch;
    target.way.write_through = true;
    let (offset, len) = (MIB, 5 * MIB);
    let job = begun(Command::WriteZeroes { offset, len, durable: true }, &target);
    assert_eq!(job.operation(&target), Operation::ZeroRange { offset, len });
    let job = again(advance(job, Err(Errno::OPNOTSUPP), &target));
    assert_eq!(job.operation(&target), Operation::Punch { offset, len });
    let mut progress = advance(job, Err(Errno::OPNOTSUPP), &target);
    let mut at = offset;
    while at < offset + len {
        let job = again(progress);
        assert_eq!(job.operation(&target), Operation::Write { offset: at, through: true });
        let call: usize = job.pending().map(<[u8]>::len).sum();
        assert!(job.pending().flatten().all(|byte| *byte == 0));
        progress = advance(job, Ok(call), &target);
        at += call as u64;
    }
    assert_eq!(at, offset + len, "nothing past the end is zeroed");
    done(progress).unwrap();
    let later = begun(Command::WriteZeroes { offset, len, durable: true }, &target);
    let operation = later.operation(&target);
    later.abandon();
    assert!(matches!(operation, Operation::Write { .. }), "the refusal is remembered");
}

#[test]
fn durable_zeroing_by_allocation_ends_with_a_sync() {
    let target = target("zero-sync");
    let (offset, len) = (0, 4 * MIB);
    let job = begun(Command::WriteZeroes { offset, len, durable: true }, &target);
    assert_eq!(job.operation(&target), Operation::ZeroRange { offset, len });
    let job = again(advance(job, Ok(0), &target));
    assert_eq!(job.operation(&target), Operation::Sync);
    done(advance(job, Ok(0), &target)).unwrap();
}

#[test]
fn a_trim_that_nobody_can_carry_out_succeeds_without_effect() {
    let mut target = target("trim");
    target.trim_by = TrimBy::Nothing;
    done(begin(Command::Trim { offset: 0, len: MIB }, &target)).unwrap();
    target.trim_by = TrimBy::Discard;
    let job = begun(Command::Trim { offset: 0, len: MIB }, &target);
    assert_eq!(job.operation(&target), Operation::Discard { offset: 0, len: MIB });
    done(advance(job, Err(Errno::OPNOTSUPP), &target)).unwrap();
}

#[test]
fn a_refused_punch_writes_the_zeros_that_were_promised() {
    let mut target = target("punch");
    target.trim_by = TrimBy::Punch;
    let job = begun(Command::Trim { offset: 0, len: MIB }, &target);
    let job = again(advance(job, Err(Errno::OPNOTSUPP), &target));
    assert_eq!(job.operation(&target), Operation::Write { offset: 0, through: false });
    assert_eq!(job.pending().map(<[u8]>::len).sum::<usize>(), MIB as usize);
    done(advance(job, Ok(MIB as usize), &target)).unwrap();
}

#[test]
fn commands_outside_the_limits_never_reach_the_kernel() {
    let mut target = target("gate");
    let sector = target.properties.sector_bytes;
    let capacity = target.properties.capacity_bytes;
    let limit = target.properties.transfer_bytes_max;
    let odd: Buffer = BufferMut::zeroed(100).freeze();
    let parts = |len| vec![Payload::Zeros(len)];
    let refused = [
        Command::Read { offset: 1, len: sector },
        Command::Read { offset: 0, len: sector + 1 },
        Command::Read { offset: capacity, len: sector },
        Command::Read { offset: u64::MAX - u64::from(sector) + 1, len: sector },
        Command::Read { offset: 0, len: limit + sector },
        Command::Write { offset: 0, parts: parts(limit as usize + 512), durable: false },
        Command::Write { offset: 0, parts: vec![Payload::Phantom(512)], durable: false },
        Command::Write {
            offset: 0,
            parts: vec![Payload::Bytes(odd), Payload::Zeros(412)],
            durable: true,
        },
        Command::WriteZeroes { offset: 0, len: capacity + 512, durable: false },
        Command::Trim { offset: 7, len: 512 },
        Command::Trim { offset: 512, len: capacity },
    ];
    for command in refused {
        let shown = format!("{command:?}");
        let error = done(begin(command, &target)).unwrap_err();
        assert_eq!(error.kind, DiskErrorKind::Invalid, "{shown}");
        assert!(error.detail.contains("expected"), "{shown}: {}", error.detail);
    }
    target.read_only = true;
    for command in [
        write(512, false),
        Command::WriteZeroes { offset: 0, len: 512, durable: false },
        Command::Trim { offset: 0, len: 512 },
    ] {
        let error = done(begin(command, &target)).unwrap_err();
        assert_eq!(error.kind, DiskErrorKind::ReadOnly);
    }
}

#[test]
fn commands_of_no_bytes_are_done_at_once() {
    let target = target("empty");
    done(begin(Command::Read { offset: 0, len: 0 }, &target)).unwrap();
    done(begin(Command::Write { offset: 0, parts: Vec::new(), durable: true }, &target)).unwrap();
    done(begin(Command::WriteZeroes { offset: 512, len: 0, durable: true }, &target)).unwrap();
}

#[test]
fn only_long_ranges_of_zeros_are_left_to_the_kernel() {
    let mut target = target("long-zeros");
    target.trim_by = TrimBy::Discard;
    let zeros = |len, target: &Target| {
        begun(Command::WriteZeroes { offset: MIB, len, durable: false }, target)
    };
    let short = zeros(ZERO_BY_WRITING_BYTES_MAX, &target);
    assert_eq!(short.operation(&target), Operation::Write { offset: MIB, through: false });
    assert_eq!(short.pending().map(<[u8]>::len).sum::<usize>(), 128 << 10);
    done(advance(short, Ok(128 << 10), &target)).unwrap();
    let len = ZERO_BY_WRITING_BYTES_MAX + 512;
    let long = zeros(len, &target);
    assert_eq!(long.operation(&target), Operation::ZeroRange { offset: MIB, len });
    done(advance(long, Ok(0), &target)).unwrap();
}

#[test]
fn whichever_way_of_zeroing_is_refused_exactly_its_range_is_written() {
    for trim_by in [TrimBy::Punch, TrimBy::Discard, TrimBy::Nothing] {
        for refusal in [Errno::OPNOTSUPP, Errno::NOSYS, Errno::NOTTY] {
            let mut target = target("exactly");
            target.trim_by = trim_by;
            let (offset, len) = (MIB, 512 << 10);
            let mut job = begun(Command::WriteZeroes { offset, len, durable: false }, &target);
            let mut asked = 0;
            while !matches!(job.operation(&target), Operation::Write { .. }) {
                job = again(advance(job, Err(refusal), &target));
                asked += 1;
            }
            assert_eq!(asked, if trim_by == TrimBy::Punch { 2 } else { 1 });
            assert_eq!(job.pending().map(<[u8]>::len).sum::<usize>(), 512 << 10);
            done(advance(job, Ok(512 << 10), &target)).unwrap();
        }
    }
}

#[test]
fn zeros_by_allocation_cost_a_sync_only_if_they_must_be_durable() {
    let mut target = target("lazy-zeros");
    target.trim_by = TrimBy::Punch;
    let job = begun(Command::WriteZeroes { offset: 0, len: MIB, durable: false }, &target);
    let job = again(advance(job, Err(Errno::OPNOTSUPP), &target));
    assert_eq!(job.operation(&target), Operation::Punch { offset: 0, len: MIB });
    done(advance(job, Ok(0), &target)).unwrap();
    let job = begun(Command::Trim { offset: MIB, len: MIB }, &target);
    assert_eq!(job.operation(&target), Operation::Punch { offset: MIB, len: MIB });
    done(advance(job, Ok(0), &target)).unwrap();
}

#[test]
fn a_call_that_changes_bytes_and_is_refused_fails_its_command() {
    let target = target("refused");
    let error = done(advance(begun(write(512, true), &target), Err(Errno::OPNOTSUPP), &target));
    assert_eq!(error.unwrap_err().kind, DiskErrorKind::Io);
}

/// What `poll` carries out by itself must not keep it long.
#[test]
fn what_somebody_waits_for_is_a_durable_write_of_at_most_256_kib() {
    let target = target("small");
    let is_small = |command| {
        let job = begun(command, &target);
        let found = job.is_small_and_durable();
        job.abandon();
        found
    };
    for (len, durable, expected) in [
        (512, true, true),
        (256 << 10, true, true),
        ((256 << 10) + 512, true, false),
        (512, false, false),
        ((256 << 10) + 512, false, false),
    ] {
        assert_eq!(is_small(write(len, durable)), expected, "{len} bytes, durable: {durable}");
    }
    assert!(!is_small(Command::WriteZeroes { offset: 0, len: 512, durable: true }));
    assert!(!is_small(Command::Flush));
    assert!(!is_small(Command::Read { offset: 0, len: 512 }));
}

#[test]
fn a_flush_is_told_from_whatever_else_ends_with_a_sync() {
    let mut target = target("flush");
    target.way.write_through = false;
    let flush = begun(Command::Flush, &target);
    assert!(flush.is_flush() && flush.operation(&target) == Operation::Sync);
    let job = begun(write(4096, true), &target);
    assert!(!job.is_flush());
    let job = again(advance(job, Ok(4096), &target));
    assert!(!job.is_flush() && job.operation(&target) == Operation::Sync);
    for (job, expected) in [(flush, "flush of"), (job, "write of 4096 bytes at offset 8192 of")] {
        let detail = done(advance(job, Err(Errno::IO), &target)).unwrap_err().detail;
        assert!(detail.starts_with(expected), "{detail}");
        assert!(detail.contains("expected all completed writes to become durable"), "{detail}");
    }
}

#[test]
fn what_is_left_shrinks_with_every_piece() {
    let target = target("left");
    let job = begun(write(4096, false), &target);
    assert_eq!(job.left_bytes(), 4096);
    let job = again(advance(job, Ok(1024), &target));
    assert_eq!(job.left_bytes(), 3072);
    let detail = done(advance(job, Err(Errno::IO), &target)).unwrap_err().detail;
    assert!(detail.contains("write of 4096 bytes at offset 8192"), "{detail}");
    assert!(detail.contains("after 1024 bytes: expected 4096 bytes done"), "{detail}");
}

/// Its bytes may then be made durable by writing them once more instead of by a sync of the whole file.
#[test]
fn of_a_small_write_that_only_its_sync_is_left_of_the_bytes_are_known() {
    let mut target = target("written");
    target.way.write_through = false;
    let job = begun(write(4096, true), &target);
    assert!(job.written().is_none(), "nothing is written yet");
    let job = again(advance(job, Ok(1024), &target));
    assert!(job.written().is_none(), "a part is not all");
    let mut job = again(advance(job, Ok(3072), &target));
    let (offset, segments) = job.written().unwrap();
    let bytes: Vec<u8> = segments.pending().flatten().copied().collect();
    assert!(offset == 8192 && bytes.iter().enumerate().all(|(at, byte)| *byte == (at / 512) as u8));
    assert_eq!(bytes.len(), 4096);
    job.sync_first();
    assert!(job.written().is_none(), "somebody else's bytes are to be synced first");
    job.abandon();
    for (len, is_known) in [(256 << 10, true), ((256 << 10) + 512, false)] {
        let job = again(advance(begun(write(len, true), &target), Ok(len), &target));
        assert_eq!(job.written().is_some(), is_known, "{len} bytes");
        job.abandon();
    }
}

#[test]
fn a_sync_that_comes_first_is_followed_by_what_was_to_be_done() {
    let mut target = target("sync-first");
    target.way.write_through = false;
    let waiting = || {
        let mut job = begun(write(4096, false), &target);
        job.sync_first();
        assert_eq!(job.operation(&target), Operation::Sync);
        job
    };
    let job = again(advance(waiting(), Ok(0), &target));
    assert_eq!(job.operation(&target), Operation::Write { offset: 8192, through: false });
    done(advance(job, Ok(4096), &target)).unwrap();
    done(advance(waiting(), Err(Errno::IO), &target)).unwrap_err();
}

/// An error of the read itself says nothing of what was written.
#[test]
fn where_written_pages_were_lost_a_sync_says_why_and_a_read_does_not() {
    let mut target = target("lost");
    target.page_cache = Some(crate::page_cache::PageCache::new(false));
    let flush = begun(Command::Flush, &target);
    let read = begun(Command::Read { offset: 0, len: 4096 }, &target);
    target.sync_ended(Err(Errno::IO));
    for command in [write(4096, false), Command::Flush, Command::Trim { offset: 0, len: 4096 }] {
        let error = done(begin(command, &target)).unwrap_err();
        assert_eq!(
            (error.kind, error.detail.as_str()),
            (DiskErrorKind::Gone, target.lost().unwrap())
        );
    }
    let error = done(advance(flush, Err(Errno::IO), &target)).unwrap_err();
    assert_eq!(error.kind, DiskErrorKind::Gone);
    assert!(error.detail.contains(target.lost().unwrap()), "{}", error.detail);
    let error = done(advance(read, Err(Errno::IO), &target)).unwrap_err();
    assert_eq!(error.kind, DiskErrorKind::Io, "{}", error.detail);
}

#[test]
fn an_error_of_the_driver_says_of_which_command() {
    let target = target("driver");
    let job = begun(Command::Trim { offset: MIB, len: 2 * MIB }, &target);
    let error = job.fail(DiskErrorKind::Gone, "nobody", &target).result.unwrap_err();
    assert_eq!(error.kind, DiskErrorKind::Gone);
    let name = &target.properties.name;
    let told =
        format!("trim of 2097152 bytes at offset 1048576 of {name}, after 0 bytes: found nobody");
    assert_eq!(error.detail, told);
}
