//! Lives of a process that is killed at any moment, over a disk that keeps of what was not flushed what it likes: whatever was answered is
//! read afterwards. The service is a model of blocks in memory.

use crate::{
    FLUSH_BYTES, KEPT_BYTES_MAX, Kept, KeptFor, begin_opening, kept_writes, refuse_another_volume,
};
use nearhead_basics::SplitMix;
use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_service::{
    ErrorKind, Extent, Operation, Reply, Request, RequestError, RequestId, Service, ServiceInfo,
    Wake,
};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

const BLOCK: usize = 512;
const BLOCKS: u64 = 16;
const OURS: KeptFor = KeptFor { volume_id: [4; 16], generation: 0 };

/// A disk that answers at the next drive, and loses what was not flushed as it likes.
#[derive(Debug, Default)]
struct Volatile {
    durable: BTreeMap<u64, u8>,
    cache: BTreeMap<u64, u8>,
    due: VecDeque<Request>,
    replies: VecDeque<Reply>,
    flushes: u64,
    is_failing: bool,
    is_stopping: bool,
    /// Answers at different drives, in any order.
    is_unordered: bool,
    late: Vec<Reply>,
    turn: u64,
}

impl Volatile {
    fn carry_out(&mut self, operation: Operation) -> Vec<Payload> {
        match operation {
            Operation::Write { offset, data: Payload::Bytes(data), fua } => {
                for (number, bytes) in data.chunks(BLOCK).enumerate() {
                    let block = offset / BLOCK as u64 + number as u64;
                    self.cache.insert(block, bytes[0]);
                    if fua {
                        self.durable.insert(block, bytes[0]);
                        self.cache.remove(&block);
                    }
                }
            }
            Operation::WriteZeroes { offset, len, .. } => {
                let first = offset / BLOCK as u64;
                self.cache.extend((first..first + len / BLOCK as u64).map(|block| (block, 0)));
            }
            Operation::Flush => {
                self.flushes += 1;
                self.durable.append(&mut self.cache);
            }
            Operation::Read { offset, .. } => {
                let block = offset / BLOCK as u64;
                let value = self.cache.get(&block).or(self.durable.get(&block)).unwrap_or(&0);
                return vec![bytes(*value, 1)];
            }
            other => panic!("{other:?}"),
        }
        Vec::new()
    }

    /// What a successor finds.
    fn killed(mut self, random: &mut SplitMix) -> Self {
        for (block, value) in self.cache {
            if random.next_u64() & 1 == 0 {
                self.durable.insert(block, value);
            }
        }
        Self { durable: self.durable, ..Self::default() }
    }
}

fn bytes(value: u8, blocks: usize) -> Payload {
    Payload::Bytes(BufferMut::copy_of(&vec![value; blocks * BLOCK]).freeze())
}

impl Service for Volatile {
    fn info(&self) -> ServiceInfo {
        ServiceInfo {
            description: "volatile".to_owned(),
            size_bytes: BLOCKS * BLOCK as u64,
            block_bytes_min: 512,
            block_bytes_preferred: 512,
            request_bytes_max: 1 << 20,
            read_only: false,
            rotational: false,
            fast_zero: true,
        }
    }

    fn submit(&mut self, request: Request, _: Nanos) {
        self.due.push_back(request);
    }

    fn drive(&mut self, _: Nanos) {
        while let Some(Request { id, operation }) = self.due.pop_front() {
            let is_refused = self.is_failing && !matches!(operation, Operation::Read { .. });
            let kind = if self.is_stopping { ErrorKind::ShuttingDown } else { ErrorKind::Io };
            let result = if is_refused || self.is_stopping {
                Err(RequestError::new(kind, "refused"))
            } else {
                Ok(self.carry_out(operation))
            };
            self.turn += 1;
            let is_late = self.is_unordered && id.0 < 1000 && !self.turn.is_multiple_of(3);
            if is_late {
                self.late.push(Reply { id, result });
            } else {
                self.replies.push_back(Reply { id, result });
            }
        }
        self.turn += 1;
        if self.turn.is_multiple_of(2) {
            self.replies.extend(self.late.pop());
        }
    }

    fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn wake(&self) -> Wake<'_> {
        Wake { at: None, is_precise: false, fd: None }
    }

    fn block_status(&self, _: u64, len: u64, _: usize) -> Vec<Extent> {
        vec![Extent::data(len)]
    }

    fn losses(&self) -> u64 {
        0
    }

    fn begin_shutdown(&mut self, _: Nanos) {
        self.is_stopping = true;
    }

    fn is_shut_down(&self) -> bool {
        self.is_stopping && self.due.is_empty()
    }
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nearhead-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Self(path)
    }

    fn kept(&self, service: Volatile) -> Kept<Volatile> {
        Kept::in_file(service, &self.0, OURS, true).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Asks for one thing and drives until the answer.
fn ask(kept: &mut Kept<Volatile>, id: u64, operation: Operation) -> Option<Reply> {
    kept.submit(Request { id: RequestId(id), operation }, Nanos::ZERO);
    kept.drive(Nanos::ZERO);
    kept.poll_reply()
}

fn write(block: u64, value: u8, fua: bool) -> Operation {
    Operation::Write { offset: block * BLOCK as u64, data: bytes(value, 1), fua }
}

fn read(kept: &mut Kept<Volatile>, block: u64) -> u8 {
    let read = Operation::Read { offset: block * BLOCK as u64, len: BLOCK as u32 };
    let reply = ask(kept, 0, read).unwrap();
    let Payload::Bytes(bytes) = &reply.result.unwrap()[0] else { panic!("bytes") };
    bytes[0]
}

#[test]
fn whatever_was_answered_is_read_after_any_number_of_kills() {
    for seed in 0..200 {
        let scratch = Scratch::new("kept-lives");
        let mut random = SplitMix::new(seed);
        let (mut disk, mut expected) = (Volatile::default(), BTreeMap::new());
        for life in 0..6 {
            let mut kept = scratch.kept(disk);
            for id in 1..=random.next_u64() % 40 {
                let (block, value) = (random.next_u64() % BLOCKS, random.next_u64() as u8);
                let operation = match random.next_u64() % 8 {
                    0 => Operation::Flush,
                    1 => write(block, value, true),
                    2 => Operation::WriteZeroes {
                        offset: block * BLOCK as u64,
                        len: BLOCK as u64,
                        fua: false,
                        fast_only: false,
                        may_unmap: false,
                    },
                    _ => write(block, value, false),
                };
                let value = match &operation {
                    Operation::Flush => None,
                    Operation::WriteZeroes { .. } => Some(0),
                    _ => Some(value),
                };
                // The answer of the last one may be what the kill took.
                assert!(ask(&mut kept, id, operation).unwrap().result.is_ok());
                expected.extend(value.map(|value| (block, value)));
            }
            for (block, value) in &expected {
                assert_eq!(read(&mut kept, *block), *value, "seed {seed}, life {life}: {block}");
            }
            disk = std::mem::take(&mut kept.service).killed(&mut random);
        }
    }
}

#[test]
fn requests_wait_until_what_an_earlier_process_answered_is_carried_out() {
    let scratch = Scratch::new("kept-wait");
    let mut first = scratch.kept(Volatile::default());
    assert!(ask(&mut first, 1, write(3, 7, false)).is_some());
    drop(first);
    let mut second = scratch.kept(Volatile::default());
    assert!(second.is_catching_up());
    assert_eq!(second.wake_at(), Some(Nanos::ZERO), "nobody else would begin with it");
    assert_eq!(read(&mut second, 3), 7);
    assert!(!second.is_catching_up());
    assert!(second.take_told().unwrap().contains("writes: 1"));
    assert_eq!(second.service().durable.get(&3), Some(&7), "it is durable before it is forgotten");
    assert_eq!(second.losses(), 0);
}

#[test]
fn refused_writes_stay_and_fail_flushes_until_carried_out() {
    let scratch = Scratch::new("kept-loss");
    let mut first = scratch.kept(Volatile::default());
    assert!(ask(&mut first, 1, write(3, 7, false)).is_some());
    assert!(ask(&mut first, 2, write(4, 7, false)).is_some());
    let mut second = scratch.kept(Volatile { is_failing: true, ..Volatile::default() });
    second.drive(Nanos::ZERO);
    assert!(!second.is_catching_up());
    for id in 1..3 {
        assert!(ask(&mut second, id, Operation::Flush).unwrap().result.is_err());
        assert!(kept_writes(&scratch.0).unwrap().is_some(), "nothing is thrown away");
    }
    second.service.is_failing = false;
    assert!(ask(&mut second, 3, write(4, 8, false)).unwrap().result.is_ok());
    assert!(ask(&mut second, 4, Operation::Flush).unwrap().result.is_ok());
    assert_eq!((kept_writes(&scratch.0).unwrap(), second.losses()), (None, 0));
    let mut random = SplitMix::new(1);
    let mut third = scratch.kept(std::mem::take(&mut second.service).killed(&mut random));
    assert_eq!([3, 4].map(|block| read(&mut third, block)), [7, 8], "the later write wins");
    std::fs::write(&scratch.0, [9; 100]).unwrap();
    assert_eq!(scratch.kept(Volatile::default()).losses(), 1, "a file of anything else");
}

#[test]
fn a_stop_before_all_is_carried_out_leaves_it_to_the_next_process() {
    let scratch = Scratch::new("kept-stop");
    let mut first = scratch.kept(Volatile::default());
    assert!(ask(&mut first, 1, write(3, 7, false)).is_some());
    let mut second = scratch.kept(Volatile::default());
    second.submit(Request { id: RequestId(5), operation: Operation::Flush }, Nanos::ZERO);
    second.begin_shutdown(Nanos::ZERO);
    second.drive(Nanos::ZERO);
    let refused = second.poll_reply().unwrap();
    assert_eq!(refused.result.unwrap_err().kind, ErrorKind::ShuttingDown);
    second.everything_is_durable().unwrap();
    let mut third = scratch.kept(Volatile::default());
    assert_eq!(read(&mut third, 3), 7);
}

#[test]
fn an_orderly_end_leaves_nothing_behind() {
    let scratch = Scratch::new("kept-orderly");
    let mut first = scratch.kept(Volatile::default());
    assert!(ask(&mut first, 1, write(3, 7, false)).is_some());
    first.begin_shutdown(Nanos::ZERO);
    first.everything_is_durable().unwrap();
    assert!(!scratch.kept(Volatile::default()).is_catching_up());
}

#[test]
fn the_file_is_bounded_and_who_never_flushes_goes_on() {
    let scratch = Scratch::new("kept-bound");
    let mut kept = scratch.kept(Volatile::default());
    let data = bytes(1, 2048);
    let mut len_max = 0;
    for id in 1..=((2 * KEPT_BYTES_MAX) >> 20) {
        let write = Operation::Write { offset: 0, data: data.clone(), fua: false };
        assert!(ask(&mut kept, id, write).unwrap().result.is_ok());
        len_max = len_max.max(std::fs::metadata(&scratch.0).unwrap().len());
    }
    assert!(len_max < FLUSH_BYTES + (4 << 20), "{len_max}");
    assert!(kept.service().flushes >= 4);
    kept.service.is_failing = true;
    assert!(ask(&mut kept, 0, Operation::Flush).unwrap().result.is_err(), "and it does not spin");
}

#[test]
fn overlapping_writes_are_carried_out_in_order_of_submission() {
    for seed in 0..100 {
        let scratch = Scratch::new("kept-order");
        let (mut random, mut expected) = (SplitMix::new(seed), BTreeMap::new());
        let mut kept = scratch.kept(Volatile { is_unordered: true, ..Volatile::default() });
        let mut answered = 0;
        for id in 1..=30 {
            let (block, value) = (random.next_u64() % 4, random.next_u64() as u8);
            let blocks = 1 + random.next_u64() % 4;
            let data = bytes(value, blocks as usize);
            let operation = if random.next_u64().is_multiple_of(6) {
                Operation::Flush
            } else {
                expected.extend((block..block + blocks).map(|block| (block, value)));
                Operation::Write { offset: block * BLOCK as u64, data, fua: false }
            };
            kept.submit(Request { id: RequestId(id), operation }, Nanos::ZERO);
            if random.next_u64().is_multiple_of(4) {
                kept.drive(Nanos::ZERO);
                answered += std::iter::from_fn(|| kept.poll_reply()).count();
            }
        }
        // Those that were applied are answered in any order.
        while answered < 30 {
            kept.drive(Nanos::ZERO);
            answered += std::iter::from_fn(|| kept.poll_reply()).count();
        }
        let mut after = scratch.kept(std::mem::take(&mut kept.service).killed(&mut random));
        for (block, value) in expected {
            assert_eq!(read(&mut after, block), value, "seed {seed}: block {block}");
        }
    }
}

#[test]
fn kept_writes_reach_no_other_volume_and_no_other_generation() {
    let scratch = Scratch::new("kept-other");
    let of = |id: u8, generation: u64| KeptFor { volume_id: [id; 16], generation };
    let open = |of: KeptFor| Kept::in_file(Volatile::default(), &scratch.0, of, true);
    drop(open(of(1, 7)).unwrap());
    drop(open(of(2, 3)).unwrap());
    let mut first = open(of(1, 7)).unwrap();
    first.set_generation(8, false);
    assert!(ask(&mut first, 1, write(3, 7, false)).is_some());
    for other in [of(2, 8), of(1, 7), of(1, 9)] {
        let problem = open(other).unwrap_err().to_string();
        assert!(problem.contains("1 writes of 512 bytes") && problem.contains("1536"), "{problem}");
        assert!(refuse_another_volume(&scratch.0, &other).unwrap_err().contains("1536"));
    }
    // Workers that were killed between their first change and this file.
    refuse_another_volume(&scratch.0, &of(1, 8)).unwrap();
    begin_opening(&scratch.0).unwrap();
    begin_opening(&scratch.0).unwrap();
    assert!(open(of(1, 11)).is_err());
    let mut next = open(of(1, 10)).unwrap();
    assert_eq!(kept_writes(&scratch.0).unwrap().unwrap().of, Some(of(1, 10)));
    assert_eq!(read(&mut next, 3), 7);
    assert_eq!(kept_writes(&scratch.0).unwrap(), None);
}

#[test]
fn a_write_that_failed_is_not_carried_out_again() {
    let scratch = Scratch::new("kept-failed");
    let mut first = scratch.kept(Volatile { is_failing: true, ..Volatile::default() });
    assert!(ask(&mut first, 1, write(3, 7, false)).unwrap().result.is_err());
    drop(first);
    assert_eq!(kept_writes(&scratch.0).unwrap(), None);
    assert_eq!(read(&mut scratch.kept(Volatile::default()), 3), 0);
}

#[test]
fn kept_writes_that_the_disk_refuses_stay_kept() {
    let scratch = Scratch::new("kept-refused");
    let mut first = scratch.kept(Volatile::default());
    assert!(ask(&mut first, 1, write(3, 7, false)).unwrap().result.is_ok());
    drop(first);
    let mut second = scratch.kept(Volatile { is_failing: true, ..Volatile::default() });
    while second.is_catching_up() {
        second.drive(Nanos::ZERO);
    }
    let problem = second.everything_is_durable().unwrap_err().to_string();
    assert!(problem.contains("1 writes of 512 bytes"), "{problem}");
    drop(second);
    assert!(kept_writes(&scratch.0).unwrap().is_some(), "a later worker carries them out");
    assert_eq!(read(&mut scratch.kept(Volatile::default()), 3), 7);
    assert_eq!(kept_writes(&scratch.0).unwrap(), None);
}
