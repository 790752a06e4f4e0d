//! A bare disk against a disk of the test's own, which checks what a disk may expect.

use super::*;
use nearhead_disk::DiskErrorKind;
use nearhead_disk::{BufferMut, Completion, Properties};
use nearhead_service::{Request, Service};

/// Memory with a queue that the test empties in either order, and faults on demand.
struct ScriptedDisk {
    properties: Properties,
    bytes: Vec<u8>,
    queue: VecDeque<Submission>,
    newest_first: bool,
    held: bool,
    commands: Vec<Command>,
    fail: Option<fn(&Command) -> bool>,
}

impl ScriptedDisk {
    fn new() -> Self {
        let properties = Properties {
            physical_sector_bytes: 4096,
            volatile_cache: true,
            trim_reads_zero: true,
            fast_zero: false,
            transfer_bytes_max: 64 * 1024,
            queue_depth_max: 4,
            ..Properties::plain("scripted", 4 << 20, 512)
        };
        let bytes = vec![0; properties.capacity_bytes as usize];
        let (queue, commands) = (VecDeque::new(), Vec::new());
        Self { properties, bytes, queue, newest_first: false, held: false, commands, fail: None }
    }

    fn carry_out(&mut self, command: &Command) -> Result<Payload, DiskError> {
        if self.fail.is_some_and(|fails| fails(command)) {
            return Err(DiskError { kind: DiskErrorKind::Io, detail: "scripted fault".to_owned() });
        }
        match command {
            Command::Read { offset, len } => {
                let from = *offset as usize;
                let bytes = &self.bytes[from..from + *len as usize];
                return Ok(Payload::Bytes(BufferMut::copy_of(bytes).freeze()));
            }
            Command::Write { offset, parts, .. } => {
                let mut at = *offset as usize;
                for part in parts {
                    part.copy_to(&mut self.bytes[at..at + part.len()]);
                    at += part.len();
                }
            }
            Command::WriteZeroes { offset, len, .. } | Command::Trim { offset, len } => {
                self.bytes[*offset as usize..(offset + len) as usize].fill(0);
            }
            Command::Flush => {}
        }
        Ok(Payload::EMPTY)
    }
}

impl Disk for ScriptedDisk {
    fn below(&self) -> Option<&dyn Disk> {
        None
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        None
    }

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn submit(&mut self, submission: Submission, _now: Nanos) {
        if let Command::Read { len, .. } = &submission.command {
            assert!(*len <= self.properties.transfer_bytes_max);
        }
        self.commands.push(submission.command.clone());
        self.queue.push_back(submission);
        assert!(self.queue.len() <= usize::from(self.properties.queue_depth_max));
    }

    fn poll(&mut self, _now: Nanos) -> Option<Completion> {
        if self.held {
            return None;
        }
        let next = if self.newest_first { self.queue.pop_back() } else { self.queue.pop_front() };
        let Submission { ticket, command, .. } = next?;
        let result = self.carry_out(&command);
        Some(ticket.complete(result))
    }

    fn wake_at(&self) -> Option<Nanos> {
        None
    }
}

impl Drop for ScriptedDisk {
    fn drop(&mut self) {
        self.queue.drain(..).for_each(|submission| submission.ticket.abandon());
    }
}

fn submit(bare: &mut BareDisk<ScriptedDisk>, id: u64, operation: Operation) {
    bare.submit(Request { id: RequestId(id), operation }, Nanos::ZERO);
}

/// Submits, drives, and returns the one reply.
fn ask(
    bare: &mut BareDisk<ScriptedDisk>,
    operation: Operation,
) -> Result<Vec<Payload>, RequestError> {
    submit(bare, 1, operation);
    bare.drive(Nanos::ZERO);
    let reply = bare.poll_reply().unwrap();
    assert!(bare.poll_reply().is_none(), "one request, one reply");
    reply.result
}

fn kind(result: &Result<Vec<Payload>, RequestError>) -> ErrorKind {
    result.as_ref().unwrap_err().kind
}

fn pattern(len: usize) -> Payload {
    let bytes: Vec<u8> = (0..len).map(|at| (at / 512 * 7 + at) as u8).collect();
    Payload::Bytes(BufferMut::copy_of(&bytes).freeze())
}

fn joined(parts: &[Payload]) -> Vec<u8> {
    let mut bytes = vec![0; nearhead_disk::total_len(parts)];
    let mut at = 0;
    for part in parts {
        part.copy_to(&mut bytes[at..at + part.len()]);
        at += part.len();
    }
    bytes
}

fn write(offset: u64, data: Payload, fua: bool) -> Operation {
    Operation::Write { offset, data, fua }
}

#[test]
fn a_large_transfer_is_split_and_comes_back_in_order() {
    for newest_first in [false, true] {
        let mut bare = BareDisk::new(ScriptedDisk::new());
        bare.disk_mut().newest_first = newest_first;
        let data = pattern(1_000 * 512);
        ask(&mut bare, write(8192, data.clone(), false)).unwrap();
        let read = ask(&mut bare, Operation::Read { offset: 8192, len: 1_000 * 512 }).unwrap();
        assert_eq!(joined(&read), joined(&[data]), "newest first: {newest_first}");
    }
}

#[test]
fn every_one_of_many_requests_is_answered_once() {
    let mut bare = BareDisk::new(ScriptedDisk::new());
    bare.disk_mut().newest_first = true;
    for id in 0..500 {
        let data = pattern(512 * (1 + id as usize % 300));
        submit(&mut bare, id, write(id * 512, data, id % 3 == 0));
    }
    bare.drive(Nanos::ZERO);
    let mut ids: Vec<u64> = std::iter::from_fn(|| bare.poll_reply()).map(|r| r.id.0).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..500).collect::<Vec<_>>());
}

#[test]
fn requests_count_as_outstanding_until_they_are_answered() {
    let mut bare = BareDisk::new(ScriptedDisk::new());
    bare.disk_mut().held = true;
    // The queue takes four commands; the fourth request is of several pieces, one of which finds room.
    for id in 0..3 {
        submit(&mut bare, id, write(id * 512, pattern(512), false));
    }
    submit(&mut bare, 3, write(0, pattern(4 * 64 * 1024), false));
    submit(&mut bare, 4, write(0, pattern(512), false));
    assert_eq!(bare.outstanding(), 5);
    bare.drive(Nanos::ZERO);
    assert_eq!(bare.outstanding(), 5, "nothing is answered yet");
    bare.disk_mut().held = false;
    bare.drive(Nanos::ZERO);
    assert_eq!(bare.outstanding(), 0);
}

#[test]
fn only_a_durable_write_in_one_piece_is_durable_by_itself_another_by_a_flush() {
    const PIECE: usize = 64 * 1024;
    for (len, fua) in
        [(4096, false), (4096, true), (PIECE, true), (3 * PIECE, false), (3 * PIECE, true)]
    {
        let mut bare = BareDisk::new(ScriptedDisk::new());
        ask(&mut bare, write(0, pattern(len), fua)).unwrap();
        let commands = std::mem::take(&mut bare.disk_mut().commands);
        let is_durable =
            |command: &&Command| matches!(command, Command::Write { durable: true, .. });
        let durable = commands.iter().filter(is_durable).count();
        assert_eq!(durable, usize::from(fua && len <= PIECE), "{len} bytes, {fua}: {commands:?}");
        let flushes = commands.iter().filter(|command| matches!(command, Command::Flush)).count();
        assert_eq!(flushes, usize::from(fua && len > PIECE), "{len} bytes, {fua}: {commands:?}");
    }
}

#[test]
fn without_power_everything_is_refused_and_with_it_nothing() {
    let mut bare = BareDisk::new(ScriptedDisk::new());
    for on in [true, false, true] {
        bare.set_power(on);
        for operation in [
            Operation::Flush,
            write(0, pattern(512), true),
            Operation::Read { offset: 0, len: 512 },
        ] {
            assert_eq!(ask(&mut bare, operation).is_ok(), on);
        }
    }
}

#[test]
fn a_flush_costs_a_command_only_after_a_volatile_write() {
    let mut bare = BareDisk::new(ScriptedDisk::new());
    ask(&mut bare, Operation::Flush).unwrap();
    ask(&mut bare, write(0, pattern(4096), true)).unwrap();
    ask(&mut bare, Operation::Flush).unwrap();
    assert_eq!(bare.disk().commands.len(), 1, "only the durable write");
    ask(&mut bare, write(0, pattern(4096), false)).unwrap();
    ask(&mut bare, Operation::Flush).unwrap();
    ask(&mut bare, Operation::Flush).unwrap();
    assert_eq!(bare.disk().commands.len(), 3, "one write, one flush");
}

#[test]
fn durable_zeroes_need_no_flush_and_others_do() {
    let zeroes = |fua| Operation::WriteZeroes {
        offset: 0,
        len: 4096,
        fua,
        fast_only: false,
        may_unmap: false,
    };
    let mut bare = BareDisk::new(ScriptedDisk::new());
    ask(&mut bare, zeroes(true)).unwrap();
    ask(&mut bare, Operation::Flush).unwrap();
    assert_eq!(bare.disk().commands.len(), 1, "only the zeroes");
    ask(&mut bare, zeroes(false)).unwrap();
    ask(&mut bare, Operation::Flush).unwrap();
    assert!(matches!(bare.disk().commands[2], Command::Flush));
}

#[test]
fn zeros_that_may_be_unmapped_are_a_trim_where_trims_read_as_zeros() {
    let zeroes = |fua, may_unmap| Operation::WriteZeroes {
        offset: 4096,
        len: 8192,
        fua,
        fast_only: false,
        may_unmap,
    };
    let mut bare = BareDisk::new(ScriptedDisk::new());
    bare.disk_mut().bytes.fill(7);
    ask(&mut bare, zeroes(true, true)).unwrap();
    let commands = &bare.disk().commands;
    assert!(matches!(commands[0], Command::Trim { offset: 4096, len: 8192 }), "{commands:?}");
    assert!(matches!(commands[1], Command::Flush), "{commands:?}");
    assert!(bare.disk().bytes[4096..12_288].iter().all(|byte| *byte == 0));
    ask(&mut bare, zeroes(true, false)).unwrap();
    bare.disk_mut().properties.trim_reads_zero = false;
    ask(&mut bare, zeroes(true, true)).unwrap();
    for command in &bare.disk().commands[2..] {
        assert!(matches!(command, Command::WriteZeroes { durable: true, .. }), "{command:?}");
    }
}

#[test]
fn a_disk_whose_longest_transfer_is_no_whole_number_of_sectors_gets_whole_sectors() {
    let mut bare = BareDisk::new(ScriptedDisk::new());
    bare.disk_mut().properties.transfer_bytes_max = 64 * 1024 + 100;
    let data = pattern(1_000 * 512);
    ask(&mut bare, write(0, data.clone(), false)).unwrap();
    for command in &bare.disk().commands {
        let Command::Write { parts, .. } = command else { panic!("{command:?}") };
        let len = nearhead_disk::total_len(parts);
        assert!(len.is_multiple_of(512) && len <= 64 * 1024, "{len} bytes");
    }
    assert!(bare.disk().bytes[..1_000 * 512] == joined(&[data]));
}

#[test]
fn fua_of_a_split_write_or_of_a_trim_ends_with_a_flush() {
    let mut bare = BareDisk::new(ScriptedDisk::new());
    ask(&mut bare, write(0, pattern(4 * 64 * 1024), true)).unwrap();
    assert!(matches!(bare.disk().commands[4], Command::Flush));
    ask(&mut bare, Operation::Trim { offset: 0, len: 4096, fua: true }).unwrap();
    assert!(matches!(bare.disk().commands[6], Command::Flush));
    assert_eq!(bare.disk().commands.len(), 7);
}

#[test]
fn after_a_failed_flush_no_later_flush_claims_durability() {
    let mut bare = BareDisk::new(ScriptedDisk::new());
    bare.disk_mut().fail = Some(|command| matches!(command, Command::Flush));
    ask(&mut bare, write(0, pattern(4096), false)).unwrap();
    assert_eq!(kind(&ask(&mut bare, Operation::Flush)), ErrorKind::Io);
    bare.disk_mut().fail = None;
    assert_eq!(kind(&ask(&mut bare, Operation::Flush)), ErrorKind::Io);
    ask(&mut bare, write(0, pattern(4096), false)).unwrap();
    assert_eq!(kind(&ask(&mut bare, Operation::Flush)), ErrorKind::Io);
}

#[test]
fn a_disk_whose_flush_failed_says_at_its_end_that_it_did_not_keep_everything() {
    let mut bare = BareDisk::new(ScriptedDisk::new());
    ask(&mut bare, write(0, pattern(4096), false)).unwrap();
    bare.disk_mut().fail = Some(|command| matches!(command, Command::Flush));
    assert_eq!(bare.failure(), None);
    bare.begin_shutdown(Nanos::ZERO);
    assert!(bare.is_shut_down());
    assert_eq!(bare.failure(), Some("a flush failed: scripted fault"));
}

#[test]
fn every_error_of_the_disk_is_counted_and_told_where_and_as_what() {
    let mut bare = BareDisk::new(ScriptedDisk::new());
    bare.disk_mut().fail = Some(|command| matches!(command, Command::Write { .. }));
    ask(&mut bare, write(65_536, pattern(4096), false)).unwrap_err();
    ask(&mut bare, Operation::Read { offset: 0, len: 512 }).unwrap();
    let told: Vec<String> = std::iter::from_fn(|| bare.poll_disk_event(Nanos::ZERO))
        .map(|event| event.to_string())
        .collect();
    let expected =
        "disk error while writing in place 4096 bytes at device byte 65536: scripted fault";
    assert_eq!(told, [expected]);
    let (work, kind) = (DiskWork::HomeWrite, DiskErrorKind::Io);
    assert_eq!(bare.watch().counts().of(work, kind), 1);
    assert_eq!((bare.watch().counts().total(), bare.failure()), (1, None));
}

#[test]
fn a_fault_in_one_piece_fails_the_request_and_no_other() {
    let mut bare = BareDisk::new(ScriptedDisk::new());
    bare.disk_mut().fail = Some(|command| matches!(command, Command::Read { offset: 65_536, .. }));
    assert_eq!(kind(&ask(&mut bare, Operation::Read { offset: 0, len: 1 << 20 })), ErrorKind::Io);
    ask(&mut bare, Operation::Read { offset: 1 << 20, len: 1 << 20 }).unwrap();
}

#[test]
fn what_no_disk_should_see_is_refused_at_the_gate() {
    let mut bare = BareDisk::new(ScriptedDisk::new());
    let end = 4 << 20;
    let refused = [
        Operation::Read { offset: 1, len: 512 },
        Operation::Read { offset: 0, len: 100 },
        Operation::Read { offset: 0, len: 0 },
        Operation::Read { offset: end, len: 512 },
        Operation::Trim { offset: end - 512, len: 1024, fua: false },
        Operation::Trim { offset: u64::MAX - 511, len: 512, fua: false },
        Operation::WriteZeroes {
            offset: 512,
            len: u64::MAX,
            fua: false,
            fast_only: false,
            may_unmap: false,
        },
    ];
    for operation in refused {
        assert_eq!(kind(&ask(&mut bare, operation.clone())), ErrorKind::Invalid, "{operation:?}");
    }
    let fast = Operation::WriteZeroes {
        offset: 0,
        len: 512,
        fua: false,
        fast_only: true,
        may_unmap: false,
    };
    assert_eq!(kind(&ask(&mut bare, fast)), ErrorKind::NotSupported);
    assert!(bare.disk().commands.is_empty());
    let mut bare = BareDisk::new(ScriptedDisk::new()).read_only();
    assert_eq!(kind(&ask(&mut bare, write(0, pattern(512), false))), ErrorKind::ReadOnly);
}

#[test]
fn a_power_cut_answers_everything_outstanding_with_an_error() {
    let mut bare = BareDisk::new(ScriptedDisk::new());
    bare.disk_mut().held = true;
    for id in 0..10 {
        submit(&mut bare, id, Operation::Read { offset: 0, len: 200 * 1024 / 512 * 512 });
    }
    bare.drive(Nanos::ZERO);
    let disk = bare.disk_mut();
    let late: Vec<Submission> = disk.queue.drain(..).collect();
    assert_eq!(late.len(), 4, "as many as the queue is deep");
    for submission in late {
        submission.ticket.abandon();
    }
    bare.power_was_cut();
    let replies: Vec<Reply> = std::iter::from_fn(|| bare.poll_reply()).collect();
    assert_eq!(replies.len(), 10);
    assert!(replies.iter().all(|reply| reply.result.is_err()));
    bare.disk_mut().held = false;
    ask(&mut bare, Operation::Read { offset: 0, len: 512 }).unwrap();
}

#[test]
fn a_shutdown_answers_what_waits_then_flushes_then_refuses() {
    let mut bare = BareDisk::new(ScriptedDisk::new());
    submit(&mut bare, 1, write(0, pattern(512 * 1024), false));
    bare.begin_shutdown(Nanos::ZERO);
    assert!(bare.poll_reply().unwrap().result.is_ok());
    assert!(bare.is_shut_down());
    assert!(matches!(bare.disk().commands.last(), Some(Command::Flush)));
    assert_eq!(kind(&ask(&mut bare, Operation::Flush)), ErrorKind::ShuttingDown);
}
