//! A service in memory that loses by a crash what was not flushed, block by block.
//!
//! It believes what an atomic write says of its bytes, and takes over no other ones than those that are said to be new; and it looks
//! whether that is true.

use super::{BLOCK, Blocks};
use nearhead_basics::Random;
use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_service::{
    Changed, Extent, Operation, Reply, Request, RequestError, Service, ServiceInfo, Wake,
};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

/// A change that a crash may take back.
#[derive(Clone, Debug)]
struct Unflushed {
    offset: u64,
    bytes: Vec<u8>,
}

/// A service in memory: what is written in place is lost by a crash until a flush, each block of it or not; what is atomic is not.
#[expect(clippy::struct_excessive_bools, reason = "what tests switch, each by itself")]
pub struct Ram {
    size: u64,
    blocks: Blocks,
    pub durable: Blocks,
    unflushed: Vec<Unflushed>,
    /// Of each flush that was asked for and not carried out, how much of that it covers.
    covered: VecDeque<usize>,
    asked: VecDeque<Request>,
    replies: VecDeque<Reply>,
    is_stopping: bool,
    pub atomic_writes: u64,
    pub atomic_bytes: u64,
    /// Of them those that were said to be new.
    pub new_bytes: u64,
    pub in_place_bytes: u64,
    pub flushes: u64,
    pub reads: u64,
    /// Ranges that the file system said are for durability only, and that it gave back.
    pub hinted: nearhead_disk::RangeSet,
    pub trimmed: nearhead_disk::RangeSet,
    /// After so many requests that change or flush nothing is answered any more.
    pub requests_left: u64,
    /// What is written in place is carried out, and answered only once this is not so any more.
    pub holds_bulk: bool,
    /// The same of records.
    pub holds_records: bool,
    /// The same of reads: what they answer with is what was there when they were asked for.
    pub holds_reads: bool,
    held: Vec<Reply>,
    /// Nothing may be changed; to be set before it is mounted.
    pub read_only: bool,
    /// An error for all that follows.
    pub is_broken: bool,
    /// What is not carried out for now, and so nothing that changes the same bytes later.
    pub holds: fn(&Operation) -> bool,
}

fn store(blocks: &mut Blocks, mut offset: u64, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let (block, inside) = (offset / BLOCK as u64, offset as usize % BLOCK);
        let take = (BLOCK - inside).min(bytes.len());
        let is_nothing =
            bytes[..take].iter().all(|byte| *byte == 0) && !blocks.contains_key(&block);
        if is_nothing {
            (offset, bytes) = (offset + take as u64, &bytes[take..]);
            continue;
        }
        let entry = blocks.entry(block).or_insert_with(|| Rc::new(vec![0; BLOCK]));
        Rc::make_mut(entry)[inside..inside + take].copy_from_slice(&bytes[..take]);
        (offset, bytes) = (offset + take as u64, &bytes[take..]);
    }
}

/// What a request changes.
fn changed_by(operation: &Operation) -> Vec<Range<u64>> {
    match operation {
        Operation::Write { offset, data, .. } | Operation::WriteInPlace { offset, data, .. } => {
            std::iter::once(*offset..offset + data.len() as u64).collect()
        }
        Operation::WriteAtomic { extents, .. } => {
            extents.iter().map(|(offset, data)| *offset..offset + data.len() as u64).collect()
        }
        Operation::Trim { offset, len, .. } | Operation::WriteZeroes { offset, len, .. } => {
            std::iter::once(*offset..offset + len).collect()
        }
        Operation::Read { .. } | Operation::Flush | Operation::Hint { .. } => Vec::new(),
    }
}

/// Whether any of them changes any of these bytes.
fn changes_any(requests: &VecDeque<Request>, range: &Range<u64>) -> bool {
    let meets = |other: &Range<u64>| other.start < range.end && range.start < other.end;
    requests.iter().any(|request| changed_by(&request.operation).iter().any(meets))
}

/// The new bytes of an extent, as ranges within it.
fn new_within(changed: &Changed, offset: u64, len: usize) -> Vec<Range<usize>> {
    let Changed::Only(ranges) = changed else { return std::iter::once(0..len).collect() };
    let end = offset + len as u64;
    let cut = |range: &Range<u64>| range.start.max(offset)..range.end.min(end);
    let parts = ranges.iter().map(cut).filter(|part| part.start < part.end);
    parts.map(|part| (part.start - offset) as usize..(part.end - offset) as usize).collect()
}

pub fn bytes_of(payload: &Payload) -> Vec<u8> {
    let mut bytes = vec![0; payload.len()];
    payload.copy_to(&mut bytes);
    bytes
}

impl Ram {
    pub fn of(size: u64, blocks: Blocks) -> Self {
        Self {
            size,
            durable: blocks.clone(),
            blocks,
            unflushed: Vec::new(),
            covered: VecDeque::new(),
            asked: VecDeque::new(),
            replies: VecDeque::new(),
            is_stopping: false,
            atomic_writes: 0,
            atomic_bytes: 0,
            new_bytes: 0,
            in_place_bytes: 0,
            flushes: 0,
            reads: 0,
            hinted: nearhead_disk::RangeSet::new(),
            trimmed: nearhead_disk::RangeSet::new(),
            requests_left: u64::MAX,
            holds_bulk: false,
            holds_records: false,
            holds_reads: false,
            held: Vec::new(),
            read_only: false,
            is_broken: false,
            holds: |_| false,
        }
    }

    /// The first of what was held back is answered.
    pub fn let_one_go(&mut self) {
        self.replies.push_back(self.held.remove(0));
    }

    /// How much is held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// All of it is, and nothing is held back any more.
    pub fn let_go(&mut self) {
        (self.holds_bulk, self.holds_records, self.holds_reads) = (false, false, false);
        self.replies.extend(self.held.drain(..));
    }

    /// What a crash leaves: all that is durable, and of the rest, block by block, what chance keeps.
    pub fn after_crash(&self, random: &mut Random) -> Blocks {
        self.after_crash_that(&mut || random.below(2) == 0)
    }

    /// The same, of the rest what `keeps` says.
    pub fn after_crash_that(&self, keeps: &mut dyn FnMut() -> bool) -> Blocks {
        let mut blocks = self.durable.clone();
        for write in &self.unflushed {
            for (at, part) in (0_u64..).zip(write.bytes.chunks(BLOCK)) {
                if keeps() {
                    store(&mut blocks, write.offset + at * BLOCK as u64, part);
                }
            }
        }
        blocks
    }

    /// Whether a crash may lose anything.
    pub fn has_unflushed(&self) -> bool {
        !self.unflushed.is_empty()
    }

    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    fn write_atomic(&mut self, extents: &[(u64, Payload)], changed: &Changed) {
        self.atomic_writes += 1;
        assert!(extents.len() <= 256, "an atomic write of {} parts", extents.len());
        let total: u64 = extents.iter().map(|(_, data)| data.len() as u64).sum();
        assert!(total <= 1 << 20, "an atomic write of {total} bytes");
        self.atomic_bytes += total;
        for (offset, data) in extents {
            let bytes = bytes_of(data);
            for range in new_within(changed, *offset, bytes.len()) {
                let from = *offset + range.start as u64;
                self.new_bytes += range.len() as u64;
                self.replace(from, &bytes[range]);
            }
        }
    }

    /// These bytes are durable, and what was written there before cannot come back.
    fn replace(&mut self, offset: u64, bytes: &[u8]) {
        store(&mut self.blocks, offset, bytes);
        store(&mut self.durable, offset, bytes);
        let end = offset + bytes.len() as u64;
        for write in &mut self.unflushed {
            let (from, to) = (write.offset, write.offset + write.bytes.len() as u64);
            if to <= offset || from >= end {
                continue;
            }
            let (start, stop) = (from.max(offset), to.min(end));
            let inside = (start - offset) as usize..(stop - offset) as usize;
            let at = (start - from) as usize;
            write.bytes[at..at + inside.len()].copy_from_slice(&bytes[inside]);
        }
    }

    /// A flush is for what was carried out when it was asked for, and for nothing that came while it was on its way.
    fn make_covered_durable(&mut self) {
        let count = self.covered.pop_front().unwrap_or(0);
        for write in self.unflushed.drain(..count) {
            store(&mut self.durable, write.offset, &write.bytes);
        }
        for later in &mut self.covered {
            *later -= count;
        }
    }

    /// What an atomic write says of its bytes must be true at the moment at which it is asked for: those that are not new are what a read
    /// would give, and nothing is on its way to them.
    fn check_changed(&self, extents: &[(u64, Payload)], changed: &Changed) {
        let Changed::Only(ranges) = changed else { return };
        let ends = |range: &Range<u64>| range.start < range.end;
        assert!(ranges.iter().all(ends), "a range of new bytes that is empty: {ranges:?}");
        let in_order = |pair: &[Range<u64>]| pair[0].end <= pair[1].start;
        assert!(ranges.windows(2).all(in_order), "new bytes that are in no order: {ranges:?}");
        let mut within = 0;
        for (offset, data) in extents {
            let bytes = bytes_of(data);
            let new = new_within(changed, *offset, bytes.len());
            within += new.iter().map(|range| range.len() as u64).sum::<u64>();
            for (at, byte) in (0_u64..).zip(&bytes) {
                if new.iter().any(|range| range.contains(&(at as usize))) {
                    continue;
                }
                let place = offset + at;
                let there = self.byte(place);
                assert!(
                    there == *byte,
                    "byte {place} of the volume (block {}) is {there:#x}, and an atomic write that says it is not new gives {byte:#x}",
                    place / BLOCK as u64
                );
            }
            // Those that are not new as well: a write on its way to them may come there later.
            let is_partial = new.iter().map(Range::len).sum::<usize>() < bytes.len();
            assert!(
                !is_partial || !changes_any(&self.asked, &(*offset..offset + bytes.len() as u64)),
                "an atomic write says that bytes at {offset} are not new while a write to them is not answered"
            );
        }
        let told: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        assert_eq!(told, within, "new bytes outside of what is written, or across its parts");
    }

    fn byte(&self, place: u64) -> u8 {
        let block = self.blocks.get(&(place / BLOCK as u64));
        block.map_or(0, |bytes| bytes[place as usize % BLOCK])
    }

    fn carry_out(&mut self, operation: Operation) -> Result<Vec<Payload>, RequestError> {
        if self.is_broken {
            let kind = nearhead_service::ErrorKind::Io;
            return Err(RequestError::new(kind, "the disk of this test is broken"));
        }
        match operation {
            Operation::Read { offset, len } => {
                let mut buffer = BufferMut::zeroed(len as usize);
                for (at, part) in (0_u64..).zip(buffer.chunks_mut(BLOCK)) {
                    if let Some(bytes) = self.blocks.get(&(offset / BLOCK as u64 + at)) {
                        part.copy_from_slice(bytes);
                    }
                }
                return Ok(vec![Payload::Bytes(buffer.freeze())]);
            }
            Operation::Write { offset, data, .. }
            | Operation::WriteInPlace { offset, data, .. } => {
                self.in_place_bytes += data.len() as u64;
                let bytes = bytes_of(&data);
                store(&mut self.blocks, offset, &bytes);
                self.unflushed.push(Unflushed { offset, bytes });
            }
            Operation::WriteAtomic { extents, changed } => self.write_atomic(&extents, &changed),
            Operation::Flush => {
                self.flushes += 1;
                self.make_covered_durable();
            }
            Operation::Hint { offset, len, hint } => {
                match hint {
                    nearhead_service::Hint::DurabilityOnly => {
                        self.hinted.insert(offset..offset + len)
                    }
                    nearhead_service::Hint::Normal => self.hinted.remove(offset..offset + len),
                };
            }
            Operation::Trim { offset, len, .. } => {
                self.trimmed.insert(offset..offset + len);
                // What was there may read as anything from now on.
                let bytes = vec![0; len as usize];
                store(&mut self.blocks, offset, &bytes);
                self.unflushed.push(Unflushed { offset, bytes });
            }
            Operation::WriteZeroes { .. } => {}
        }
        Ok(Vec::new())
    }
}

impl Service for Ram {
    fn info(&self) -> ServiceInfo {
        ServiceInfo {
            description: "memory".to_owned(),
            size_bytes: self.size,
            block_bytes_min: 512,
            block_bytes_preferred: 4096,
            request_bytes_max: 1 << 20,
            read_only: self.read_only,
            rotational: false,
            fast_zero: true,
        }
    }

    fn submit(&mut self, request: Request, _: Nanos) {
        if let Operation::WriteAtomic { extents, changed } = &request.operation {
            self.check_changed(extents, changed);
        }
        if matches!(request.operation, Operation::Flush) {
            self.covered.push_back(self.unflushed.len());
        }
        self.asked.push_back(request);
    }

    fn drive(&mut self, _: Nanos) {
        let mut held = VecDeque::new();
        while let Some(request) = self.asked.pop_front() {
            let changed = changed_by(&request.operation);
            let is_behind = changed.iter().any(|range| changes_any(&held, range));
            if is_behind || (self.holds)(&request.operation) {
                held.push_back(request);
                continue;
            }
            let is_advice = matches!(request.operation, Operation::Hint { .. });
            if !is_advice && !matches!(request.operation, Operation::Read { .. }) {
                if self.requests_left == 0 {
                    continue;
                }
                self.requests_left -= 1;
            }
            let is_bulk = matches!(request.operation, Operation::WriteInPlace { .. });
            let is_record = matches!(request.operation, Operation::WriteAtomic { .. });
            let is_read = matches!(request.operation, Operation::Read { .. });
            self.reads += u64::from(is_read);
            let result = self.carry_out(request.operation);
            let reply = Reply { id: request.id, result };
            let is_held = is_bulk && self.holds_bulk
                || is_record && self.holds_records
                || is_read && self.holds_reads;
            if is_held {
                self.held.push(reply);
            } else {
                self.replies.push_back(reply);
            }
        }
        self.asked = held;
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
        self.is_stopping
    }
}
