//! What the file system has asked of the service and is not answered yet: each request with what it is for.
//!
//! Requests have numbers in the order in which they were made, so that "all that was asked before" is a number. The queue is bounded by
//! what clients and the commit may have under way.

use nearhead_ext4::Ino;
use nearhead_service::{Operation, Request, RequestId};
use std::collections::{BTreeMap, VecDeque};

/// What a request to the service is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The first block, which says what is here.
    Superblock,
    /// A block of metadata.
    Block(u64),
    /// A page of a file that is about to be changed in part.
    Page(Ino, u64),
    /// Pages of a file that are likely to be.
    Ahead { ino: Ino, first: u64, len: u32 },
    /// A part of what a client reads.
    Read { job: u32, part: u32 },
    /// A part of a write-out.
    WriteOut(u32),
    /// All that was written in place is to be durable.
    Flush,
    /// The record of a transaction.
    Record,
    /// What the volume may know.
    Advice,
    /// Something that a client asks of the volume itself.
    Asked(u32),
}

/// Requests under way.
#[derive(Debug, Default)]
pub(crate) struct Io {
    next: u64,
    under_way: BTreeMap<u64, Purpose>,
    outgoing: VecDeque<Request>,
}

impl Io {
    /// Asks it; the number of the request.
    pub(crate) fn ask(&mut self, purpose: Purpose, operation: Operation) -> u64 {
        self.next += 1;
        self.under_way.insert(self.next, purpose);
        self.outgoing.push_back(Request { id: RequestId(self.next), operation });
        self.next
    }

    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    pub(crate) fn poll(&mut self) -> Option<Request> {
        self.outgoing.pop_front()
    }

    /// What the request was for that is answered.
    pub(crate) fn answered(&mut self, id: RequestId) -> Option<Purpose> {
        self.under_way.remove(&id.0)
    }

    /// The number of the newest request.
    pub(crate) fn newest(&self) -> u64 {
        self.next
    }

    /// Whether all requests up to this one are answered.
    pub(crate) fn are_answered_up_to(&self, number: u64) -> bool {
        self.under_way.first_key_value().is_none_or(|(first, _)| *first > number)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }
}
