//! The job's laws, with the kernel's part played by the tests.

use super::*;
use crate::options::OpenOptions;
use nearhead_disk::{Buffer, CommandId};
use std::path::PathBuf;

const MIB: u64 = 1 << 20;

/// A target over a fresh image, which the tests then bend to the case at hand.
fn target(name: &str) -> Target {
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

fn begun(command: Command, target: &Target) -> Job {
    match begin(command, target) {
        Progress::Again(job) => job,
        Progress::Done(completion) => panic!("expected a call to make, found {completion:?}"),
    }
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

fn write(len: usize, durable: bool) -> Command {
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
    for outcome in [0, 100, 8192] {
        let job = begun(Command::Read { offset: 0, len: 4096 }, &target);
        let error = done(advance(job, Ok(outcome), &target)).unwrap_err();
        assert_eq!(error.kind, DiskErrorKind::Io, "{outcome} bytes");
        assert!(error.detail.contains(&target.properties.name), "{}", error.detail);
    }
}

#[test]
fn interruptions_are_repeated_but_not_forever() {
    let target = target("interrupted");
    let mut progress = Progress::Again(begun(write(512, false), &target));
    for attempt in 0..=RETRIES_MAX {
        let job = again(progress);
        assert_eq!(job.operation(&target), Operation::Write { offset: 8192, through: false });
        let errno = if attempt % 2 == 0 { Errno::INTR } else { Errno::AGAIN };
        progress = advance(job, Err(errno), &target);
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
fn a_refused_punch_is_an_error_where_trimmed_bytes_were_promised_to_read_as_zeros() {
    let mut target = target("punch");
    target.trim_by = TrimBy::Punch;
    let job = begun(Command::Trim { offset: 0, len: MIB }, &target);
    done(advance(job, Err(Errno::OPNOTSUPP), &target)).unwrap_err();
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
