//! From a client's request to the service and back.
//!
//! Every request that the service takes has one entry in the table of pending requests, and its
//! reply finds the client by place and id; if the client has left, the reply is dropped. Requests
//! that need no service are answered at once.

use super::clients::Clients;
use super::losses::Mark;
use super::memory::Gate;
use super::visits::Traffic;
use crate::protocol::{ClientCommand, ClientRequest, Event, Handle, ReadAsked, tidy_extents};
use nearhead_disk::{Buffer, Nanos, Payload};
use nearhead_service::{ErrorKind, Operation, Reply, Request, RequestError, RequestId, Service};

/// Zeros that must stay allocated are written in pieces that end at multiples of this, one after
/// the other.
const ZERO_PIECE_BYTES: u64 = 4 << 20;

/// Most runs in one answer to a block status request.
const EXTENTS_MAX: usize = 4096;

/// A request at the service.
#[derive(Debug)]
pub(crate) struct Pending {
    place: u32,
    id: u64,
    handle: Handle,
    /// As charged to the budget.
    bytes: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Read(ReadAsked),
    /// The payload, to use its memory again.
    Write(Option<Buffer>),
    /// Zeros written piece by piece: the next offset, the bytes left, FUA.
    Zeros(u64, u64, bool),
    Flush(Mark),
    Other,
}

impl Clients {
    /// Takes every request that was received from the client at `place` and for which there is
    /// room.
    pub(super) fn understand<S: Service + ?Sized>(
        &mut self,
        place: u32,
        service: &mut S,
        now: Nanos,
    ) {
        loop {
            let Some((connection, budget, pool)) = self.client_and_memory(place) else { return };
            if !connection.listens() {
                return;
            }
            let share = &mut connection.share;
            match connection.machine.poll(&mut Gate { budget, share, pool }) {
                None => return,
                Some(Event::Request(request)) => self.start(place, request, service, now),
                Some(Event::Paused) => {
                    connection.paused = true;
                    self.park(place);
                }
                Some(Event::StartTls) => connection.tls_wanted = true,
                Some(Event::Closed(wrong)) => {
                    connection.ended = true;
                    if let Some(wrong) = wrong {
                        self.notices.push(format!("a client was let go: it sent {wrong}"));
                    }
                }
            }
        }
    }

    fn start<S: Service + ?Sized>(
        &mut self,
        place: u32,
        request: ClientRequest,
        service: &mut S,
        now: Nanos,
    ) {
        self.count(place, &request);
        let Some(connection) = self.places.get_mut(place as usize).and_then(Option::as_mut) else {
            return;
        };
        let budget = &mut self.budget;
        let bytes = budget.started(&mut connection.share);
        let ClientRequest { handle, command, fua, offset, len, payload } = request;
        let mut kind = Kind::Other;
        let operation = match command {
            ClientCommand::Read { one_chunk } => {
                // The gate lets no read pass that 32 bits do not count.
                let len = len as u32;
                kind = Kind::Read(ReadAsked { handle, len, one_chunk });
                Operation::Read { offset, len }
            }
            ClientCommand::Write => {
                kind = Kind::Write(buffer_of(&payload));
                Operation::Write { offset, data: payload, fua }
            }
            ClientCommand::Flush => {
                self.losses.look_ahead(service.losses());
                if self.losses.owes(&mut connection.losses_seen) {
                    self.statistics.errors += 1;
                    connection.machine.reply_error(handle, &lost());
                    return budget.finished(Some(&mut connection.share), bytes);
                }
                kind = Kind::Flush(self.losses.mark());
                Operation::Flush
            }
            ClientCommand::Trim => Operation::Trim { offset, len, fua },
            ClientCommand::WriteZeroes { no_hole: false, fast_only } => {
                Operation::WriteZeroes { offset, len, fua, fast_only, may_unmap: true }
            }
            ClientCommand::WriteZeroes { no_hole: true, fast_only: false } => {
                let piece = zero_piece(offset, len, fua);
                let done = total_len(&piece);
                kind = Kind::Zeros(offset + done, len - done, fua);
                piece
            }
            ClientCommand::WriteZeroes { .. } => {
                // Zeros that stay allocated are written, which is as slow as a write.
                connection.machine.reply_error(handle, &slow_zeros());
                return budget.finished(Some(&mut connection.share), bytes);
            }
            ClientCommand::Cache => {
                // Nothing is cached here that a later read would find, so there is nothing to do.
                connection.machine.reply_done(handle);
                return budget.finished(Some(&mut connection.share), bytes);
            }
            ClientCommand::BlockStatus { one_extent } => {
                let extents_max = if one_extent { 1 } else { EXTENTS_MAX };
                let extents = self.access.block_status(service, (offset, len), extents_max);
                let extents = tidy_extents(extents, len, extents_max);
                connection.machine.reply_block_status(handle, &extents);
                return budget.finished(Some(&mut connection.share), bytes);
            }
        };
        let id = connection.id;
        let tag = self.pending.insert_tagged(Pending { place, id, handle, bytes, kind });
        self.access.submit(Request { id: RequestId(tag), operation }, service, now);
        self.submitted = true;
    }

    /// Hands the service's replies to the clients.
    pub(crate) fn collect_replies<S: Service + ?Sized>(&mut self, service: &mut S, now: Nanos) {
        while let Some(reply) = self.access.poll_reply(service, now) {
            if !self.continue_zeros(&reply, service, now) {
                self.finish(reply);
            }
        }
        self.settle_losses(service.losses());
        self.submitted |= self.access.take_submitted();
        if let Some(id) = self.access.take_stray() {
            self.notices.push(format!("the service answered {id:?} twice"));
        }
    }

    /// Submits the next piece of zeros, if `reply` is for one and more follow.
    fn continue_zeros<S: Service + ?Sized>(
        &mut self,
        reply: &Reply,
        service: &mut S,
        now: Nanos,
    ) -> bool {
        let Some(pending) = self.pending.get_tagged_mut(reply.id.0) else { return false };
        let Kind::Zeros(offset, left, fua) = &mut pending.kind else { return false };
        if *left == 0 || reply.result.is_err() {
            return false;
        }
        let operation = zero_piece(*offset, *left, *fua);
        let done = total_len(&operation);
        *offset += done;
        *left -= done;
        self.access.submit(Request { id: reply.id, operation }, service, now);
        self.submitted = true;
        true
    }

    /// All answers are here that were given before a loss that the service tells of now. Whose flush failed for it, with
    /// nothing acknowledged since that flush was asked for, knows.
    fn settle_losses(&mut self, count: u64) {
        self.losses.look(count);
        for (place, id, mark) in std::mem::take(&mut self.failed_flushes) {
            let connection = self.places.get_mut(place as usize).and_then(Option::as_mut);
            if let Some(connection) = connection.filter(|connection| connection.id == id) {
                self.losses.flush_failed(mark, &mut connection.losses_seen);
            }
        }
    }

    fn finish(&mut self, reply: Reply) {
        let Some(pending) = self.pending.remove_tagged(reply.id.0) else { return };
        let Pending { place, id, handle, bytes, kind } = pending;
        self.statistics.errors += u64::from(reply.result.is_err());
        match (&reply.result, &kind) {
            (Ok(_), Kind::Flush(mark)) => self.losses.flushed(*mark),
            (Err(_), Kind::Flush(mark)) => self.failed_flushes.push((place, id, *mark)),
            (Ok(_), Kind::Write(_) | Kind::Zeros(..) | Kind::Other) => self.losses.acknowledged(),
            (_, _) => {}
        }
        let Some((connection, budget, _)) =
            self.client_and_memory(place).filter(|(connection, ..)| connection.id == id)
        else {
            return self.budget.finished(None, bytes);
        };
        budget.finished(Some(&mut connection.share), bytes);
        let mut reusable = None;
        match (reply.result, kind) {
            (Err(error), _) => connection.machine.reply_error(handle, &error),
            (Ok(parts), Kind::Read(asked)) => connection.machine.reply_read(asked, parts),
            (Ok(_), Kind::Write(buffer)) => {
                connection.machine.reply_done(handle);
                reusable = buffer;
            }
            (Ok(_), Kind::Zeros(..) | Kind::Flush(_) | Kind::Other) => {
                connection.machine.reply_done(handle);
            }
        }
        let unsent = connection.machine.outbox().len();
        budget.set_unsent(&mut connection.share, unsent);
        if let Some(buffer) = reusable {
            self.pool.recycle(buffer);
        }
        self.touch(place);
    }

    fn count(&mut self, place: u32, request: &ClientRequest) {
        let mut traffic = Traffic { requests: 1, ..Traffic::default() };
        let statistics = &mut self.statistics;
        match request.command {
            ClientCommand::Read { .. } => {
                traffic.read_bytes = request.len;
                statistics.reads += 1;
                statistics.read_bytes += request.len;
            }
            ClientCommand::Write => {
                traffic.written_bytes = request.len;
                statistics.writes += 1;
                statistics.written_bytes += request.len;
            }
            ClientCommand::Flush => statistics.flushes += 1,
            ClientCommand::Trim => statistics.trims += 1,
            ClientCommand::WriteZeroes { .. } => statistics.write_zeroes += 1,
            ClientCommand::Cache | ClientCommand::BlockStatus { .. } => {
                statistics.other_requests += 1;
            }
        }
        if let Some(connection) = self.get(place) {
            connection.traffic.add(traffic);
        }
    }
}

fn buffer_of(payload: &Payload) -> Option<Buffer> {
    match payload {
        Payload::Bytes(buffer) => Some(buffer.clone()),
        Payload::Zeros(_) | Payload::Phantom(_) => None,
    }
}

fn zero_piece(offset: u64, left: u64, fua: bool) -> Operation {
    let until_boundary = ZERO_PIECE_BYTES - offset % ZERO_PIECE_BYTES;
    let data = Payload::Zeros(left.min(until_boundary) as usize);
    Operation::Write { offset, data, fua }
}

fn total_len(operation: &Operation) -> u64 {
    match operation {
        Operation::Write { data, .. } | Operation::WriteInPlace { data, .. } => data.len() as u64,
        _ => 0,
    }
}

fn lost() -> RequestError {
    RequestError::new(
        ErrorKind::Io,
        "flush: expected what was written before to be durable, found that the disk lost writes meanwhile; what was not \
         flushed before may be old: write it again",
    )
}

fn slow_zeros() -> RequestError {
    RequestError::new(ErrorKind::NotSupported, "zeros without a hole are as slow as a write")
}

#[cfg(test)]
#[path = "requests_tests.rs"]
mod tests;
