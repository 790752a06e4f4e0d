//! A disk served as it is: no log, no map, nothing between the client and the medium.
//!
//! It exists so that anything else (a file system, another block layer, a benchmark) can be
//! measured on the very same disk, real or emulated, that a volume runs on. Therefore it adds no
//! policy: requests go down in the order they came, all in one class, split only where the disk's
//! own transfer limit demands it. What it keeps true:
//!
//! - every request gets exactly one reply, also after [`BareDisk::power_was_cut`];
//! - at most `queue_depth_max` commands are outstanding, and at most [`WAITING_REQUESTS_MAX`]
//!   requests wait; one more is refused, never dropped;
//! - a reply to FUA or to a flush is given only when the disk said that the bytes are durable. A
//!   flush with nothing dirty before it costs no command;
//! - every command that fails is counted and told ([`BareDisk::poll_disk_event`]), and a flush that fails is why the disk
//!   does not end in order ([`BareDisk::failure`]).

mod answers;
mod serving;

use answers::{extent_of, not_supported, operation_bytes, request_error, work_of};
use nearhead_basics::Slab;
use nearhead_disk::{
    Class, Command, CommandId, Disk, DiskError, Lane, Nanos, Payload, Submission, Ticket,
};
use nearhead_engine::{DiskErrorReport, DiskEvent, DiskWatch, DiskWork};
use nearhead_service::{ErrorKind, Operation, Reply, RequestError, RequestId};
use std::collections::VecDeque;

/// Most requests that wait for a place in the disk's queue.
pub const WAITING_REQUESTS_MAX: usize = 16 * 1024;

/// Largest read or write offered to clients, in bytes; what the NBD protocol lets every client
/// assume ("Block size constraints": 2^25).
const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// A disk as a [`Service`](nearhead_service::Service).
pub struct BareDisk<D> {
    disk: D,
    read_only: bool,
    /// The disk has no power: everything is refused.
    is_off: bool,
    /// Requests of which some piece was not yet submitted; the first is being split.
    waiting: VecDeque<Work>,
    /// Requests with pieces at the disk, by the slot that a command id names.
    running: Slab<Running>,
    /// Commands at the disk, by the slot that a command id names.
    commands: Slab<Piece>,
    replies: VecDeque<Reply>,
    dirt: Dirt,
    watch: DiskWatch,
    /// Why something that was written may not be on the medium; stays, whatever comes later.
    failure: Option<String>,
    stopping: Stopping,
    submitted_any: bool,
}

/// What is needed to tell whether a flush has anything to do.
#[derive(Default)]
struct Dirt {
    /// Commands that left something volatile behind, counted when they complete.
    volatile_count: u64,
    /// How many of them a completed flush covered.
    flushed_count: u64,
    /// A flush failed. The disk may have dropped what it could not write, so a later flush that
    /// succeeds proves nothing (law 7): from here on every flush fails.
    flush_error: Option<RequestError>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopping {
    No,
    /// New requests are refused; what runs is finished.
    Draining,
    /// The last flush is at the disk.
    Flushing,
    Done,
}

/// A request on its way through the disk.
struct Work {
    id: RequestId,
    operation: Operation,
    /// Bytes already submitted.
    done_bytes: u64,
    /// Where its pieces report, once the first was submitted.
    slot: Option<u32>,
}

/// A request with pieces at the disk.
struct Running {
    id: RequestId,
    pieces_left: u32,
    /// More pieces will come.
    unfinished: bool,
    /// A flush of the disk must follow the last piece (FUA of a split or indirect write).
    flush_after: bool,
    parts: Vec<Payload>,
    error: Option<RequestError>,
}

/// A command at the disk.
#[derive(Clone, Copy)]
struct Piece {
    /// The running request, or none for the flush of a shutdown.
    owner: Option<u32>,
    /// Place among the parts of a read.
    part: u32,
    leaves_dirt: bool,
    /// For a flush: the volatile commands that it covers.
    covers: Option<u64>,
    /// What it is, should it fail.
    work: DiskWork,
    /// First byte and length; none of a flush.
    extent: Option<(u64, u64)>,
}

impl Piece {
    fn flush(owner: Option<u32>, part: u32, covers: Option<u64>) -> Self {
        Self { owner, part, leaves_dirt: false, covers, work: DiskWork::Flush, extent: None }
    }
}

impl<D: Disk> BareDisk<D> {
    /// Serves `disk`.
    pub fn new(disk: D) -> Self {
        Self {
            disk,
            read_only: false,
            is_off: false,
            waiting: VecDeque::new(),
            running: Slab::new(),
            commands: Slab::new(),
            replies: VecDeque::new(),
            dirt: Dirt::default(),
            watch: DiskWatch::default(),
            failure: None,
            stopping: Stopping::No,
            submitted_any: false,
        }
    }

    /// Refuses everything that changes the disk.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// The disk below.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// The disk below, for what is no request: statistics, a power cut of an emulated disk.
    pub fn disk_mut(&mut self) -> &mut D {
        &mut self.disk
    }

    /// The disk lost its power and forgot every command (its tickets are abandoned): everything
    /// outstanding fails, what comes later is served again.
    pub fn power_was_cut(&mut self) {
        let error = RequestError::new(
            ErrorKind::Io,
            format!("disk {} lost its power during the request", self.disk.properties().name),
        );
        self.commands.drain().for_each(drop);
        let running = self.running.drain().map(|running| running.id);
        let waiting = self.waiting.drain(..).filter(|work| work.slot.is_none()).map(|work| work.id);
        let failed = running.chain(waiting).map(|id| Reply { id, result: Err(error.clone()) });
        self.replies.extend(failed);
        self.dirt = Dirt::default();
        if self.stopping == Stopping::Flushing {
            self.stopping = Stopping::Draining;
        }
    }

    /// Whether the disk has power. Without it everything is refused, flushes above all: what they
    /// would cover may be lost.
    pub fn set_power(&mut self, on: bool) {
        self.is_off = !on;
    }

    /// What the disk did wrong since the last call, oldest first: for a log.
    pub fn poll_disk_event(&mut self, now: Nanos) -> Option<DiskEvent> {
        self.watch.poll(now)
    }

    /// Every command that failed. What a power cut took is no error of the disk.
    pub fn watch(&self) -> &DiskWatch {
        &self.watch
    }

    /// Why what was written may not be on the medium, if so.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Requests that are not answered yet.
    pub fn outstanding(&self) -> usize {
        let untouched = self.waiting.iter().filter(|work| work.slot.is_none()).count();
        self.running.len() + untouched
    }

    /// The one gate for requests: what a disk must never see is refused here.
    fn validate_request(&self, operation: &Operation) -> Result<(), RequestError> {
        let properties = self.disk.properties();
        if self.is_off {
            let problem = format!("disk {} has no power", properties.name);
            return Err(RequestError::new(ErrorKind::Io, problem));
        }
        let (offset, len, writes) = match operation {
            Operation::Read { offset, len } => (*offset, u64::from(*len), false),
            Operation::Write { offset, data, .. }
            | Operation::WriteInPlace { offset, data, .. } => (*offset, data.len() as u64, true),
            Operation::Trim { offset, len, .. } => (*offset, *len, true),
            Operation::WriteZeroes { offset, len, fast_only, .. } => {
                if *fast_only && !properties.fast_zero {
                    return Err(not_supported(&properties.name, "fast zeroing"));
                }
                (*offset, *len, true)
            }
            Operation::Flush => return Ok(()),
            Operation::WriteAtomic { .. } => {
                return Err(not_supported(&properties.name, "an atomic write"));
            }
            Operation::Hint { .. } => return Err(not_supported(&properties.name, "a hint")),
        };
        if writes && self.read_only {
            return Err(RequestError::new(
                ErrorKind::ReadOnly,
                format!("disk {} is served read-only", properties.name),
            ));
        }
        let sector = u64::from(properties.sector_bytes);
        let inside = offset.checked_add(len).is_some_and(|end| end <= properties.capacity_bytes);
        if len == 0 || !inside || !offset.is_multiple_of(sector) || !len.is_multiple_of(sector) {
            return Err(RequestError::new(
                ErrorKind::Invalid,
                format!(
                    "disk {}: expected whole {sector}-byte sectors inside {} bytes, \
                     found {len} bytes at {offset}",
                    properties.name, properties.capacity_bytes
                ),
            ));
        }
        Ok(())
    }

    fn reply(&mut self, id: RequestId, result: Result<Vec<Payload>, RequestError>) {
        self.replies.push_back(Reply { id, result });
    }

    /// Submits pieces of waiting requests while the disk has room for them.
    fn fill_queue(&mut self, now: Nanos) {
        let depth_max = usize::from(self.disk.properties().queue_depth_max);
        while self.commands.len() < depth_max {
            let Some(mut work) = self.waiting.pop_front() else { break };
            let is_flush = matches!(work.operation, Operation::Flush);
            if is_flush && !self.is_dirty() {
                let result = self.dirt.flush_error.clone().map_or(Ok(Vec::new()), Err);
                self.reply(work.id, result);
                continue;
            }
            let finished = self.submit_next_piece(&mut work, now);
            if !finished {
                self.waiting.push_front(work);
            }
        }
    }

    /// Submits one piece of `work`; whether that was the last.
    fn submit_next_piece(&mut self, work: &mut Work, now: Nanos) -> bool {
        let limit = u64::from(self.disk.properties().transfer_bytes_max);
        let sector = u64::from(self.disk.properties().sector_bytes);
        let limit = limit - limit % sector;
        let volatile = self.disk.properties().volatile_cache;
        let at = work.done_bytes;
        let total = operation_bytes(&work.operation);
        let splits = matches!(
            work.operation,
            Operation::Read { .. } | Operation::Write { .. } | Operation::WriteInPlace { .. }
        );
        let len = if splits { limit.min(total - at) } else { total };
        let whole = len == total;
        let mut flush_after = false;
        let mut covers = None;
        let mut leaves_dirt = false;
        let command = match &work.operation {
            Operation::Read { offset, .. } => {
                Command::Read { offset: offset + at, len: len as u32 }
            }
            Operation::Write { offset, data, fua }
            | Operation::WriteInPlace { offset, data, fua } => {
                // One piece can be durable by itself; several are made durable by one flush.
                flush_after = *fua && !whole;
                leaves_dirt = !(*fua && whole);
                Command::Write {
                    offset: offset + at,
                    parts: vec![data.slice(at as usize..(at + len) as usize)],
                    durable: *fua && whole,
                }
            }
            // Bytes that read as zeros once they are trimmed need not stay allocated.
            Operation::WriteZeroes { offset, len, fua, may_unmap: true, .. }
                if self.disk.properties().trim_reads_zero =>
            {
                flush_after = *fua;
                leaves_dirt = true;
                Command::Trim { offset: *offset, len: *len }
            }
            Operation::WriteZeroes { offset, len, fua, .. } => {
                leaves_dirt = !*fua;
                Command::WriteZeroes { offset: *offset, len: *len, durable: *fua }
            }
            Operation::Trim { offset, len, fua } => {
                flush_after = *fua;
                leaves_dirt = true;
                Command::Trim { offset: *offset, len: *len }
            }
            Operation::Flush | Operation::WriteAtomic { .. } | Operation::Hint { .. } => {
                covers = Some(self.dirt.volatile_count);
                Command::Flush
            }
        };
        let slot = *work.slot.get_or_insert_with(|| {
            self.running.insert(Running {
                id: work.id,
                pieces_left: 0,
                unfinished: true,
                flush_after: flush_after && volatile,
                parts: Vec::new(),
                error: None,
            })
        });
        work.done_bytes += len;
        let finished = work.done_bytes >= total;
        let mut part = 0;
        if let Some(running) = self.running.get_mut(slot) {
            running.pieces_left += 1;
            running.unfinished = !finished;
            if matches!(command, Command::Read { .. }) {
                part = running.parts.len() as u32;
                running.parts.push(Payload::EMPTY);
            }
        }
        let piece = Piece {
            owner: Some(slot),
            part,
            leaves_dirt: leaves_dirt && volatile,
            covers,
            work: work_of(&command),
            extent: extent_of(&command),
        };
        self.send(piece, command, now);
        finished
    }

    fn send(&mut self, piece: Piece, command: Command, now: Nanos) {
        let id = self.commands.insert_tagged(piece);
        let ticket = Ticket::new(CommandId(id));
        self.disk.submit(Submission { ticket, class: Class::Foreground, command }, now);
        self.submitted_any = true;
    }

    fn is_dirty(&self) -> bool {
        self.dirt.flushed_count < self.dirt.volatile_count
    }

    /// Books a finished command; replies when it was the last of its request.
    fn complete(&mut self, id: CommandId, result: Result<Payload, DiskError>, now: Nanos) {
        // Unknown: forgotten in a power cut.
        let Some(piece) = self.commands.remove_tagged(id.0) else { return };
        if let Err(error) = &result {
            self.note_error(&piece, error, now);
        }
        if piece.leaves_dirt {
            self.dirt.volatile_count += 1;
        }
        if let Some(covers) = piece.covers {
            self.book_flush(covers, &result);
        }
        let Some(slot) = piece.owner else {
            self.stopping = Stopping::Done;
            return;
        };
        let Some(running) = self.running.get_mut(slot) else { return };
        running.pieces_left -= 1;
        match result {
            Ok(bytes) => {
                if let Some(part) = running.parts.get_mut(piece.part as usize) {
                    *part = bytes;
                }
            }
            Err(error) => {
                running.error.get_or_insert_with(|| request_error(&error));
            }
        }
        if piece.covers.is_some() {
            running.error = running.error.take().or(self.dirt.flush_error.clone());
        }
        if running.pieces_left > 0 || running.unfinished {
            return;
        }
        if running.flush_after && running.error.is_none() {
            running.flush_after = false;
            running.pieces_left = 1;
            let covers = Some(self.dirt.volatile_count);
            let flush = Piece::flush(Some(slot), u32::MAX, covers);
            // The place in the queue is the one that the finished command just left.
            self.send(flush, Command::Flush, now);
            return;
        }
        if let Some(running) = self.running.remove(slot) {
            let result = match running.error {
                None => Ok(running.parts),
                Some(error) => Err(error),
            };
            self.reply(running.id, result);
        }
    }

    fn book_flush(&mut self, covers: u64, result: &Result<Payload, DiskError>) {
        // Counted as flushed also when it failed: `flush_error` answers from now on.
        self.dirt.flushed_count = self.dirt.flushed_count.max(covers);
        if let Err(error) = result {
            self.dirt.flush_error.get_or_insert_with(|| request_error(error));
            self.failure.get_or_insert_with(|| format!("a flush failed: {}", error.detail));
        }
    }

    fn note_error(&mut self, piece: &Piece, error: &DiskError, now: Nanos) {
        self.watch.note(DiskErrorReport {
            lane: Lane::MAIN,
            work: piece.work,
            kind: error.kind,
            offset: piece.extent.map(|(offset, _)| offset),
            len: piece.extent.map_or(0, |(_, len)| len),
            at: now,
            detail: error.detail.clone(),
        });
    }

    /// Takes the next step of a shutdown, once everything accepted is answered.
    fn advance_shutdown(&mut self, now: Nanos) {
        let idle = self.waiting.is_empty() && self.running.is_empty();
        if self.stopping != Stopping::Draining || !idle {
            return;
        }
        if self.is_dirty() {
            self.stopping = Stopping::Flushing;
            let covers = Some(self.dirt.volatile_count);
            self.send(Piece::flush(None, 0, covers), Command::Flush, now);
        } else {
            self.stopping = Stopping::Done;
        }
    }
}

#[cfg(test)]
mod tests;
