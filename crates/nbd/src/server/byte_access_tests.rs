//! Requests at any byte against a plain array of bytes, many at once, over a service that carries
//! them out in any order and fails some.

use super::*;
use nearhead_basics::SplitMix;
use nearhead_disk::{BufferMut, Payload};
use nearhead_service::{ErrorKind, RequestError, Wake};
use proptest::prelude::*;

const SECTOR: usize = 512;
const SIZE: usize = 12 * SECTOR;
/// Small, so that transfers of more sectors than their length says are tried.
const TRANSFER_MAX: usize = 4 * SECTOR;

/// Numbers from a seed, as indices.
struct Chance(SplitMix);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0.below(end as u64) as usize
    }
}

/// Whole sectors, carried out when the test says so and in the order it says.
pub(super) struct Sectors {
    bytes: Vec<u8>,
    /// What was asked for with FUA, or was there at a flush.
    durable: Vec<u8>,
    pub(super) taken: Vec<Request>,
    pub(super) replies: VecDeque<Reply>,
}

impl Sectors {
    fn new() -> Self {
        let (bytes, durable) = (vec![0; SIZE], vec![0; SIZE]);
        Self { bytes, durable, taken: Vec::new(), replies: VecDeque::new() }
    }

    /// Carries out one of the requests taken, or fails it without doing anything.
    pub(super) fn carry_out(&mut self, index: usize, fails: bool) {
        let Request { id, operation } = self.taken.remove(index);
        let (range, _) = bytes_of(&operation).unwrap();
        let range = range.start as usize..range.end as usize;
        assert!(range.start % SECTOR == 0 && range.end % SECTOR == 0, "{operation:?}");
        assert!(!range.is_empty() && range.end <= SIZE, "{operation:?}");
        if fails {
            let error = RequestError::new(ErrorKind::Io, "a bad day");
            return self.replies.push_back(Reply { id, result: Err(error) });
        }
        let mut found = Vec::new();
        let durable = match operation {
            Operation::Read { .. } => {
                assert!(range.len() <= TRANSFER_MAX);
                // In two parts, as services may.
                for part in self.bytes[range.clone()].chunks(range.len().div_ceil(2)) {
                    found.push(Payload::Bytes(BufferMut::copy_of(part).freeze()));
                }
                false
            }
            Operation::Write { data, fua, .. } => {
                assert!(range.len() <= TRANSFER_MAX);
                data.copy_to(&mut self.bytes[range.clone()]);
                fua
            }
            Operation::Trim { fua, .. } | Operation::WriteZeroes { fua, .. } => {
                self.bytes[range.clone()].fill(0);
                fua
            }
            other => panic!("{other:?}"),
        };
        if durable {
            self.durable[range.clone()].copy_from_slice(&self.bytes[range]);
        }
        self.replies.push_back(Reply { id, result: Ok(found) });
    }
}

impl Service for Sectors {
    fn info(&self) -> ServiceInfo {
        ServiceInfo {
            description: "an array".to_owned(),
            size_bytes: SIZE as u64,
            block_bytes_min: SECTOR as u32,
            block_bytes_preferred: 4096,
            request_bytes_max: TRANSFER_MAX as u32,
            read_only: false,
            rotational: false,
            fast_zero: true,
        }
    }

    fn submit(&mut self, request: Request, _now: Nanos) {
        self.taken.push(request);
    }

    fn drive(&mut self, _now: Nanos) {}

    fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn wake(&self) -> Wake<'_> {
        Wake::precisely(None)
    }

    fn losses(&self) -> u64 {
        0
    }

    /// Even sectors are data, odd ones holes.
    fn block_status(&self, offset: u64, len: u64, _runs_max: usize) -> Vec<Extent> {
        let (from, to) = (offset / SECTOR as u64, (offset + len) / SECTOR as u64);
        let extent = |sector: u64| {
            let odd = sector % 2 == 1;
            Extent { len: SECTOR as u64, hole: odd, zero: odd }
        };
        (from..to).map(extent).collect()
    }

    fn begin_shutdown(&mut self, _now: Nanos) {}

    fn is_shut_down(&self) -> bool {
        true
    }
}

/// A request as the test remembers it.
struct Asked {
    range: Range<usize>,
    /// What its bytes are afterwards; none for a read.
    content: Option<Vec<u8>>,
    fua: bool,
}

/// The access, the service below, and what the bytes must be.
pub(super) struct Rig {
    pub(super) access: ByteAccess,
    pub(super) service: Sectors,
    model: Vec<u8>,
    asked: Vec<(u64, Asked)>,
    next: u64,
    chance: Chance,
    fails: bool,
}

impl Rig {
    pub(super) fn new(seed: u64, fails: bool) -> Self {
        let service = Sectors::new();
        Self {
            access: ByteAccess::new(&service.info()),
            service,
            model: vec![0; SIZE],
            asked: Vec::new(),
            next: 1,
            chance: Chance(SplitMix::new(seed)),
            fails,
        }
    }

    /// Some range that no request under way touches, so that order among them does not matter; but
    /// they may well share sectors.
    fn free_range(&mut self) -> Option<Range<usize>> {
        let chance = &mut self.chance;
        let unit = [1, 1, 100, SECTOR][chance.below(4)];
        let start = chance.below(SIZE / unit) * unit;
        let len = (1 + chance.below(TRANSFER_MAX / unit)) * unit;
        let range = start..(start + len).min(SIZE);
        let overlaps = |(_, other): &(u64, Asked)| {
            other.range.start < range.end && range.start < other.range.end
        };
        (!self.asked.iter().any(overlaps)).then_some(range)
    }

    fn ask(&mut self) {
        let Some(range) = self.free_range() else { return };
        let id = self.next;
        self.next += 1;
        let (offset, len) = (range.start as u64, range.len() as u64);
        let fua = self.chance.below(2) == 0;
        let zeros = vec![0; range.len()];
        let (operation, content) = match self.chance.below(6) {
            0 | 1 => (Operation::Read { offset, len: len as u32 }, None),
            2 => (Operation::Trim { offset, len, fua }, Some(zeros)),
            3 => {
                let fast_only = self.chance.below(2) == 0;
                let may_unmap = fast_only;
                (Operation::WriteZeroes { offset, len, fua, fast_only, may_unmap }, Some(zeros))
            }
            4 => {
                let data = Payload::Zeros(range.len());
                (Operation::Write { offset, data, fua }, Some(zeros))
            }
            _ => {
                let bytes: Vec<u8> =
                    range.clone().map(|at| (at as u64 * 31 + id) as u8 | 1).collect();
                let data = Payload::Bytes(BufferMut::copy_of(&bytes).freeze());
                (Operation::Write { offset, data, fua }, Some(bytes))
            }
        };
        self.asked.push((id, Asked { range, content, fua }));
        self.access.submit(
            Request { id: RequestId(id), operation },
            &mut self.service,
            Nanos::ZERO,
        );
    }

    fn carry_out_one(&mut self) {
        let count = self.service.taken.len();
        if count == 0 {
            assert!(self.asked.is_empty(), "{} requests wait for nothing", self.asked.len());
            return;
        }
        let index = self.chance.below(count);
        let fails = self.fails && self.chance.below(12) == 0;
        self.service.carry_out(index, fails);
        while let Some(reply) = self.access.poll_reply(&mut self.service, Nanos::ZERO) {
            self.take(reply);
        }
        assert_eq!(self.access.take_stray(), None);
    }

    fn take(&mut self, reply: Reply) {
        let at = self.asked.iter().position(|(id, _)| *id == reply.id.0);
        let (_, Asked { range, content, fua }) = self.asked.remove(at.expect("a second answer"));
        match (reply.result, content) {
            (Ok(parts), None) => {
                let mut found = vec![0; range.len()];
                let mut at = 0;
                for part in parts {
                    part.copy_to(&mut found[at..at + part.len()]);
                    at += part.len();
                }
                assert_eq!(at, range.len(), "as many bytes as were asked for");
                assert!(found == self.model[range.clone()], "a read of {range:?}");
            }
            (Ok(_), Some(content)) => {
                self.model[range.clone()].copy_from_slice(&content);
                assert!(!fua || self.service.durable[range.clone()] == content, "FUA of {range:?}");
            }
            (Err(_), None) => {}
            // Each of its bytes is old or new, and nobody else's changed.
            (Err(_), Some(content)) => {
                assert!(self.fails);
                for (at, new) in range.clone().zip(content) {
                    let found = self.service.bytes[at];
                    assert!(found == new || found == self.model[at], "byte {at} of {range:?}");
                    self.model[at] = found;
                }
            }
        }
    }

    fn end(mut self) {
        while !self.asked.is_empty() {
            self.carry_out_one();
        }
        assert!(self.service.bytes == self.model, "bytes differ");
        assert!(self.access.at_service.is_empty() && self.access.jobs.is_empty());
        assert!(self.access.waiting.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_byte_is_what_was_last_written_there(seed: u64, fails: bool) {
        let mut rig = Rig::new(seed, fails);
        for _ in 0..200 {
            if rig.chance.below(2) == 0 && rig.asked.len() < 10 {
                rig.ask();
            } else {
                rig.carry_out_one();
            }
        }
        rig.end();
    }
}

#[test]
fn whole_sectors_pass_through_at_once_even_if_they_overlap() {
    let mut rig = Rig::new(0, false);
    for id in 1..4 {
        let operation = Operation::Trim { offset: 512, len: 1024, fua: false };
        rig.access.submit(Request { id: RequestId(id), operation }, &mut rig.service, Nanos::ZERO);
    }
    assert_eq!(rig.service.taken.len(), 3);
}

#[test]
fn zeros_that_must_be_fast_change_nothing_if_they_are_not() {
    let mut rig = Rig::new(0, true);
    rig.service.bytes.fill(7);
    let operation = Operation::WriteZeroes {
        offset: 100,
        len: 2000,
        fua: false,
        fast_only: true,
        may_unmap: true,
    };
    rig.access.submit(Request { id: RequestId(1), operation }, &mut rig.service, Nanos::ZERO);
    while !rig.service.taken.is_empty() {
        let is_middle = matches!(rig.service.taken[0].operation, Operation::WriteZeroes { .. });
        rig.service.carry_out(0, is_middle);
        while let Some(reply) = rig.access.poll_reply(&mut rig.service, Nanos::ZERO) {
            assert!(reply.result.is_err());
        }
    }
    assert!(rig.service.bytes.iter().all(|byte| *byte == 7));
}

#[test]
fn block_status_of_any_bytes_begins_at_the_first_of_them() {
    let rig = Rig::new(0, false);
    let runs = rig.access.block_status(&rig.service, (700, 500), 10);
    let found: Vec<_> = runs.iter().map(|run| (run.len, run.hole)).collect();
    assert_eq!(found, [(324, true), (512, false)], "what lies behind is cut by the reply");
}
