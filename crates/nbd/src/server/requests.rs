//! From a client's request to the service and back.
//!
//! Every request that the service takes has one entry in the table of pending requests, and its
//! reply finds the client by place and id; if the client has left, the reply is dropped. Requests
//! that need no service are answered at once.

use super::clients::Clients;
use super::memory::Gate;
use crate::protocol::{ClientCommand, ClientRequest, Event, ReadAsked, tidy_extents};
use nearhead_disk::{Buffer, Nanos, Payload};
use nearhead_engine::{ErrorKind, Operation, Reply, Request, RequestError, RequestId};
use nearhead_volume::Service;

/// Zeros that must stay allocated are written in pieces of this size, one after the other.
const ZERO_PIECE_BYTES: u32 = 4 << 20;

/// Most runs in one answer to a block status request.
const EXTENTS_MAX: usize = 4096;

/// A request at the service.
#[derive(Debug)]
pub(crate) struct Pending {
    place: u32,
    id: u64,
    cookie: u64,
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
    Zeros(u64, u32, bool),
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
        self.count(&request);
        let Some((connection, budget, _)) = self.client_and_memory(place) else { return };
        let bytes = budget.started(&mut connection.share);
        let ClientRequest { cookie, command, fua, offset, len, payload } = request;
        let length = u64::from(len);
        let mut kind = Kind::Other;
        let operation = match command {
            ClientCommand::Read { one_chunk } => {
                kind = Kind::Read(ReadAsked { cookie, offset, len, one_chunk });
                Operation::Read { offset, len }
            }
            ClientCommand::Write => {
                kind = Kind::Write(buffer_of(&payload));
                Operation::Write { offset, data: payload, fua }
            }
            ClientCommand::Flush => Operation::Flush,
            ClientCommand::Trim => Operation::Trim { offset, len: length, fua },
            ClientCommand::WriteZeroes { no_hole: false, fast_only } => {
                Operation::WriteZeroes { offset, len: length, fua, fast_only }
            }
            ClientCommand::WriteZeroes { no_hole: true, fast_only: false } => {
                let piece = zero_piece(offset, len, fua);
                let done = total_len(&piece);
                kind = Kind::Zeros(offset + u64::from(done), len - done, fua);
                piece
            }
            ClientCommand::WriteZeroes { .. } => {
                // Zeros that stay allocated are written, which is as slow as a write.
                connection.machine.reply_error(cookie, &slow_zeros());
                return budget.finished(Some(&mut connection.share), bytes);
            }
            ClientCommand::Cache => {
                // Nothing is cached here that a later read would find, so there is nothing to do.
                connection.machine.reply_done(cookie);
                return budget.finished(Some(&mut connection.share), bytes);
            }
            ClientCommand::BlockStatus { one_extent } => {
                let extents_max = if one_extent { 1 } else { EXTENTS_MAX };
                let extents = service.block_status(offset, length, extents_max);
                let extents = tidy_extents(extents, len, extents_max);
                connection.machine.reply_block_status(cookie, &extents);
                return budget.finished(Some(&mut connection.share), bytes);
            }
        };
        let id = connection.id;
        let tag = self.pending.insert_tagged(Pending { place, id, cookie, bytes, kind });
        service.submit(Request { id: RequestId(tag), operation }, now);
        self.submitted = true;
    }

    /// Hands the service's replies to the clients.
    pub(crate) fn collect_replies<S: Service + ?Sized>(&mut self, service: &mut S, now: Nanos) {
        while let Some(reply) = service.poll_reply() {
            if !self.continue_zeros(&reply, service, now) {
                self.finish(reply);
            }
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
        *offset += u64::from(done);
        *left -= done;
        service.submit(Request { id: reply.id, operation }, now);
        self.submitted = true;
        true
    }

    fn finish(&mut self, reply: Reply) {
        let Some(pending) = self.pending.remove_tagged(reply.id.0) else {
            self.notices.push(format!("the service answered {:?} twice", reply.id));
            return;
        };
        let Pending { place, id, cookie, bytes, kind } = pending;
        self.statistics.errors += u64::from(reply.result.is_err());
        let Some((connection, budget, _)) =
            self.client_and_memory(place).filter(|(connection, ..)| connection.id == id)
        else {
            return self.budget.finished(None, bytes);
        };
        budget.finished(Some(&mut connection.share), bytes);
        let mut reusable = None;
        match (reply.result, kind) {
            (Err(error), _) => connection.machine.reply_error(cookie, &error),
            (Ok(parts), Kind::Read(asked)) => connection.machine.reply_read(asked, parts),
            (Ok(_), Kind::Write(buffer)) => {
                connection.machine.reply_done(cookie);
                reusable = buffer;
            }
            (Ok(_), Kind::Zeros(..) | Kind::Other) => connection.machine.reply_done(cookie),
        }
        let unsent = connection.machine.outbox().len();
        budget.set_unsent(&mut connection.share, unsent);
        if let Some(buffer) = reusable {
            self.pool.recycle(buffer);
        }
        self.touch(place);
    }

    fn count(&mut self, request: &ClientRequest) {
        let statistics = &mut self.statistics;
        match request.command {
            ClientCommand::Read { .. } => {
                statistics.reads += 1;
                statistics.read_bytes += u64::from(request.len);
            }
            ClientCommand::Write => {
                statistics.writes += 1;
                statistics.written_bytes += u64::from(request.len);
            }
            ClientCommand::Flush => statistics.flushes += 1,
            ClientCommand::Trim => statistics.trims += 1,
            ClientCommand::WriteZeroes { .. } => statistics.write_zeroes += 1,
            ClientCommand::Cache | ClientCommand::BlockStatus { .. } => {
                statistics.other_requests += 1;
            }
        }
    }
}

fn buffer_of(payload: &Payload) -> Option<Buffer> {
    match payload {
        Payload::Bytes(buffer) => Some(buffer.clone()),
        Payload::Zeros(_) | Payload::Phantom(_) => None,
    }
}

fn zero_piece(offset: u64, left: u32, fua: bool) -> Operation {
    let data = Payload::Zeros(left.min(ZERO_PIECE_BYTES) as usize);
    Operation::Write { offset, data, fua }
}

fn total_len(operation: &Operation) -> u32 {
    match operation {
        Operation::Write { data, .. } => data.len() as u32,
        _ => 0,
    }
}

fn slow_zeros() -> RequestError {
    RequestError::new(ErrorKind::NotSupported, "zeros without a hole are as slow as a write")
}
