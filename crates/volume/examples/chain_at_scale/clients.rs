//! Clients of the chain: who writes it in the ledger's order, and who reads and compares.

use crate::content::{BLOCK_BYTES, Ledger};
use nearhead_basics::Slab;
use nearhead_disk::{Buffer, BufferPool, Nanos, Payload, bytes_of};
use nearhead_service::{ErrorKind, Operation, RequestError};
use nearhead_sim::workload::{Issue, Tally, Workload};

/// Durable writes that follow the ledger.
pub(crate) struct Writer {
    pub(crate) ledger: Ledger,
    pub(crate) tally: Tally,
    blocks_left: u64,
    /// Blocks of a write: of more than one only while the ledger goes in order.
    blocks_a_write: u64,
    outstanding: Slab<Write>,
    /// Used again, as a server does.
    buffers: BufferPool,
}

struct Write {
    first: u64,
    blocks: u64,
    issued: Nanos,
    data: Buffer,
}

impl Writer {
    /// Writes so many blocks, so many at once, with so many writes outstanding.
    pub(crate) fn new(
        ledger: Ledger,
        blocks_left: u64,
        (blocks_a_write, outstanding_max): (u64, u32),
    ) -> Self {
        Self {
            ledger,
            tally: Tally::default(),
            blocks_left,
            blocks_a_write,
            outstanding: Slab::with_room(outstanding_max),
            buffers: BufferPool::default(),
        }
    }

    /// The power is cut: what was not answered may be there or not.
    pub(crate) fn cut(mut self) -> Ledger {
        for write in self.outstanding.iter() {
            (write.first..write.first + write.blocks).for_each(|block| self.ledger.doubt(block));
        }
        self.ledger
    }
}

impl Workload for Writer {
    fn next_at(&self) -> Option<Nanos> {
        (self.blocks_left > 0 && !self.outstanding.is_full()).then_some(Nanos::ZERO)
    }

    fn poll_issue(&mut self, now: Nanos) -> Option<Issue> {
        self.next_at()?;
        let blocks = self.blocks_a_write.min(self.blocks_left);
        let mut data = self.buffers.take((blocks * BLOCK_BYTES) as usize);
        let mut first = None;
        for piece in data.chunks_exact_mut(BLOCK_BYTES as usize).take(blocks as usize) {
            let (block, word) = self.ledger.next();
            first.get_or_insert(block);
            let (words, _) = piece.as_chunks_mut();
            words.fill(word.to_le_bytes());
        }
        let (first, data) = (first?, data.freeze());
        self.blocks_left -= blocks;
        let payload = Payload::Bytes(data.slice(0..(blocks * BLOCK_BYTES) as usize));
        let write = Write { first, blocks, issued: now, data };
        let tag = self.outstanding.try_insert_tagged(write).ok()?;
        let (offset, data) = (first * BLOCK_BYTES, payload);
        Some(Issue { tag, due_at: now, operation: Operation::Write { offset, data, fua: true } })
    }

    fn on_reply(
        &mut self,
        tag: u64,
        result: Result<Vec<Payload>, RequestError>,
        now: Nanos,
    ) -> bool {
        let Some(write) = self.outstanding.remove_tagged(tag) else { return false };
        self.tally.book(&result, write.blocks * BLOCK_BYTES, write.issued, now);
        self.buffers.recycle(write.data);
        true
    }

    fn stop(&mut self) {
        self.blocks_left = 0;
    }

    fn is_finished(&self) -> bool {
        self.blocks_left == 0 && self.outstanding.is_empty()
    }

    fn start_measuring(&mut self, now: Nanos) {
        self.tally.restart(now);
    }
}

/// Reads these blocks, one after the other, and compares each with what the ledger says.
pub(crate) struct Reader<'a> {
    ledger: &'a Ledger,
    blocks: Vec<u64>,
    outstanding: Option<(u64, Nanos)>,
    pub(crate) tally: Tally,
}

impl<'a> Reader<'a> {
    /// The last one first.
    pub(crate) fn new(ledger: &'a Ledger, blocks: Vec<u64>) -> Self {
        Self { ledger, blocks, outstanding: None, tally: Tally::default() }
    }

    fn compared(&self, block: u64, parts: &[Payload]) -> Result<(), RequestError> {
        let bytes = bytes_of(parts);
        let (words, _) = bytes.as_chunks();
        let first = words.first().copied().unwrap_or_default();
        let is_whole = bytes.len() as u64 == BLOCK_BYTES && words.iter().all(|word| *word == first);
        let found = u64::from_le_bytes(first);
        if is_whole && self.ledger.allows(block, found) {
            return Ok(());
        }
        let Ledger { rounds, steps, .. } = self.ledger;
        let detail = format!(
            "block {block} after {rounds} rounds and {steps} writes: found {} bytes that begin with {found:#x}, \
             which nobody wrote there last",
            bytes.len()
        );
        Err(RequestError::new(ErrorKind::Io, detail))
    }
}

impl Workload for Reader<'_> {
    fn next_at(&self) -> Option<Nanos> {
        (self.outstanding.is_none() && !self.blocks.is_empty()).then_some(Nanos::ZERO)
    }

    fn poll_issue(&mut self, now: Nanos) -> Option<Issue> {
        self.next_at()?;
        let block = self.blocks.pop()?;
        self.outstanding = Some((block, now));
        let (offset, len) = (block * BLOCK_BYTES, BLOCK_BYTES as u32);
        Some(Issue { tag: 0, due_at: now, operation: Operation::Read { offset, len } })
    }

    fn on_reply(
        &mut self,
        _tag: u64,
        result: Result<Vec<Payload>, RequestError>,
        now: Nanos,
    ) -> bool {
        let Some((block, issued)) = self.outstanding.take() else { return false };
        let result = result.and_then(|parts| self.compared(block, &parts).map(|()| parts));
        self.tally.book(&result, BLOCK_BYTES, issued, now);
        true
    }

    fn stop(&mut self) {
        self.blocks.clear();
    }

    fn is_finished(&self) -> bool {
        self.outstanding.is_none() && self.blocks.is_empty()
    }

    fn start_measuring(&mut self, now: Nanos) {
        self.tally.restart(now);
    }
}
