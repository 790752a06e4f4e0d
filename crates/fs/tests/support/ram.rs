//! A service in memory that loses by a crash what was not flushed, block by block.

use super::{BLOCK, Blocks};
use nearhead_basics::Random;
use nearhead_disk::{BufferMut, Nanos, Payload};
use nearhead_service::{
    Extent, Operation, Reply, Request, RequestError, Service, ServiceInfo, Wake,
};
use std::collections::VecDeque;
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
    asked: VecDeque<Request>,
    replies: VecDeque<Reply>,
    is_stopping: bool,
    pub atomic_writes: u64,
    pub atomic_bytes: u64,
    pub in_place_bytes: u64,
    pub flushes: u64,
    /// Ranges that the file system said are for durability only, and that it gave back.
    pub hinted: nearhead_disk::RangeSet,
    pub trimmed: nearhead_disk::RangeSet,
    /// After so many requests that change or flush nothing is answered any more.
    pub requests_left: u64,
    /// What is written in place is carried out, and answered only once this is not so any more.
    pub holds_bulk: bool,
    /// The same of records.
    pub holds_records: bool,
    held: Vec<Reply>,
    /// An error for all that follows.
    pub is_broken: bool,
}

fn store(blocks: &mut Blocks, mut offset: u64, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let (block, inside) = (offset / BLOCK as u64, offset as usize % BLOCK);
        let take = (BLOCK - inside).min(bytes.len());
        let entry = blocks.entry(block).or_insert_with(|| Rc::new(vec![0; BLOCK]));
        Rc::make_mut(entry)[inside..inside + take].copy_from_slice(&bytes[..take]);
        (offset, bytes) = (offset + take as u64, &bytes[take..]);
    }
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
            asked: VecDeque::new(),
            replies: VecDeque::new(),
            is_stopping: false,
            atomic_writes: 0,
            atomic_bytes: 0,
            in_place_bytes: 0,
            flushes: 0,
            hinted: nearhead_disk::RangeSet::new(),
            trimmed: nearhead_disk::RangeSet::new(),
            requests_left: u64::MAX,
            holds_bulk: false,
            holds_records: false,
            held: Vec::new(),
            is_broken: false,
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
        (self.holds_bulk, self.holds_records) = (false, false);
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
            Operation::WriteAtomic { extents } => {
                self.atomic_writes += 1;
                assert!(extents.len() <= 256, "an atomic write of {} parts", extents.len());
                let mut total = 0;
                for (offset, data) in extents {
                    total += data.len() as u64;
                    let bytes = bytes_of(&data);
                    store(&mut self.blocks, offset, &bytes);
                    store(&mut self.durable, offset, &bytes);
                    // What was written there before cannot come back.
                    let end = offset + bytes.len() as u64;
                    self.unflushed.retain_mut(|write| {
                        let (from, to) = (write.offset, write.offset + write.bytes.len() as u64);
                        if to <= offset || from >= end {
                            return true;
                        }
                        let (start, stop) = (from.max(offset), to.min(end));
                        let inside = (start - offset) as usize..(stop - offset) as usize;
                        let at = (start - from) as usize;
                        write.bytes[at..at + inside.len()].copy_from_slice(&bytes[inside]);
                        true
                    });
                }
                assert!(total <= 1 << 20, "an atomic write of {total} bytes");
                self.atomic_bytes += total;
            }
            Operation::Flush => {
                self.flushes += 1;
                self.unflushed.clear();
                self.durable = self.blocks.clone();
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
            read_only: false,
            rotational: false,
            fast_zero: true,
        }
    }

    fn submit(&mut self, request: Request, _: Nanos) {
        self.asked.push_back(request);
    }

    fn drive(&mut self, _: Nanos) {
        while let Some(request) = self.asked.pop_front() {
            let is_advice = matches!(request.operation, Operation::Hint { .. });
            if !is_advice && !matches!(request.operation, Operation::Read { .. }) {
                if self.requests_left == 0 {
                    continue;
                }
                self.requests_left -= 1;
            }
            let is_bulk = matches!(request.operation, Operation::WriteInPlace { .. });
            let is_record = matches!(request.operation, Operation::WriteAtomic { .. });
            let result = self.carry_out(request.operation);
            let reply = Reply { id: request.id, result };
            if is_bulk && self.holds_bulk || is_record && self.holds_records {
                self.held.push(reply);
            } else {
                self.replies.push_back(reply);
            }
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
        self.is_stopping
    }
}
