//! Commands whose replies are outstanding, and what came of each so far.
//!
//! Here is judged what a fact means for the command it belongs to. A read is done only when every byte of it came
//! exactly once; anything that does not belong to its command is the end of the connection.

use super::status::Status;
use nearhead_disk::RangeSet;
use nearhead_disk::{BufferMut, Payload, Ticket};

/// Most pieces of a read that are not next to each other at any time.
const PIECES_MAX: usize = 1024;

/// A range that is zeroed or trimmed: kind, flags, offset, length.
pub(super) type Ranged = (u16, u16, u64, u64);

/// A command of which the reply is outstanding.
pub(super) struct Awaited {
    pub(super) what: What,
    /// The number of an error that the server told.
    pub(super) error: Option<u32>,
}

pub(super) enum What {
    /// A change or a flush; what is still to be asked for after it.
    Change { ticket: Ticket, rest: Option<Ranged> },
    /// A read.
    Read(Ticket, Reading),
    /// What is stored where.
    Status { context: u32, status: Status },
}

/// The bytes of a read on their way in.
pub(super) struct Reading {
    offset: u64,
    len: u32,
    /// Taken once the server sends something for it.
    buffer: Option<BufferMut>,
    filled: RangeSet,
    /// Where the next data belongs.
    cursor: usize,
}

impl Awaited {
    pub(super) fn change(ticket: Ticket, rest: Option<Ranged>) -> Self {
        Self { what: What::Change { ticket, rest }, error: None }
    }

    pub(super) fn read(ticket: Ticket, offset: u64, len: u32) -> Self {
        let (buffer, filled) = (None, RangeSet::new());
        let reading = Reading { offset, len, buffer, filled, cursor: 0 };
        Self { what: What::Read(ticket, reading), error: None }
    }

    pub(super) fn status(context: u32, status: Status) -> Self {
        Self { what: What::Status { context, status }, error: None }
    }

    /// Whether something may be different after it.
    pub(super) fn is_change(&self) -> bool {
        matches!(self.what, What::Change { .. })
    }

    /// Who asked for it, if a host did.
    pub(super) fn into_ticket(self) -> Option<Ticket> {
        match self.what {
            What::Change { ticket, .. } | What::Read(ticket, _) => Some(ticket),
            What::Status { .. } => None,
        }
    }

    /// `len` bytes from the disk's byte `offset` on came, or come next.
    pub(super) fn piece(&mut self, offset: u64, len: u64) -> Result<(), String> {
        match &mut self.what {
            What::Read(_, reading) => reading.piece(offset, len),
            _ => Err("expected no data in the reply to a command that does not read, found some"
                .to_owned()),
        }
    }

    /// All of it comes next.
    pub(super) fn whole(&mut self) -> Result<u64, String> {
        match &mut self.what {
            What::Read(_, reading) => {
                let len = u64::from(reading.len);
                reading.piece(reading.offset, len).map(|()| len)
            }
            _ => Err("expected no data, found some".to_owned()),
        }
    }

    /// Room for the next bytes of data, at most `most`.
    pub(super) fn room(&mut self, most: u64) -> &mut [u8] {
        match &mut self.what {
            What::Read(_, reading) => {
                let (from, len) = (reading.cursor, reading.len as usize);
                let end = len.min(from.saturating_add(usize::try_from(most).unwrap_or(usize::MAX)));
                reading.buffer.as_mut().map_or(&mut [], |buffer| &mut buffer[from..end])
            }
            _ => &mut [],
        }
    }

    /// `count` bytes came into the room.
    pub(super) fn came(&mut self, count: usize) {
        if let What::Read(_, reading) = &mut self.what {
            reading.cursor += count;
        }
    }

    /// The server says what the next `len` bytes are.
    pub(super) fn extent(&mut self, context: u32, len: u64, flags: u64) -> Result<(), String> {
        match &mut self.what {
            What::Status { context: asked, status } if *asked == context => {
                status.add(len, flags);
                Ok(())
            }
            What::Status { context: asked, .. } => {
                Err(format!("expected what context {asked} says, found context {context}"))
            }
            _ => {
                Err("expected a block status where one was asked for, found one elsewhere"
                    .to_owned())
            }
        }
    }
}

impl Reading {
    fn piece(&mut self, offset: u64, len: u64) -> Result<(), String> {
        let (from, all) = (offset.checked_sub(self.offset), u64::from(self.len));
        let Some(from) = from.filter(|from| len > 0 && *from < all && len <= all - from) else {
            return Err(format!(
                "expected some of {} bytes from byte {} on, found {len} from byte {offset} on",
                self.len, self.offset
            ));
        };
        if self.filled.insert(from..from + len) != len || self.filled.len() > PIECES_MAX {
            return Err(format!(
                "expected each byte of a read once and in few pieces, found {len} bytes from byte {offset} on again, \
                 or more than {PIECES_MAX} pieces"
            ));
        }
        self.buffer.get_or_insert_with(|| BufferMut::zeroed(self.len as usize));
        self.cursor = from as usize;
        Ok(())
    }

    /// The bytes, if all of them came.
    pub(super) fn end(self) -> Result<Payload, String> {
        let (found, expected) = (self.filled.total(), self.len);
        match self.buffer {
            Some(buffer) if found == u64::from(expected) => {
                Ok(Payload::Bytes(buffer.freeze().slice(0..expected as usize)))
            }
            _ => Err(format!("expected {expected} bytes in the reply to a read, found {found}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::CommandId;

    /// A read of `len` bytes from `offset` on, which `take` gets pieces of.
    fn read_of(offset: u64, len: u32, take: impl FnOnce(&mut Awaited)) {
        let mut awaited = Awaited::read(Ticket::new(CommandId(1)), offset, len);
        take(&mut awaited);
        awaited.into_ticket().unwrap().abandon();
    }

    #[test]
    fn a_piece_of_a_read_lies_inside_it_to_the_byte() {
        for (offset, len, is_right) in [
            (100, 1000, true),
            (100, 1, true),
            (1099, 1, true),
            (101, 999, true),
            (99, 1, false),
            (99, 1001, false),
            (100, 0, false),
            (1100, 0, false),
            (1100, 1, false),
            (100, 1001, false),
            (101, 1000, false),
            (600, 501, false),
            (1099, 2, false),
            (100, u64::MAX, false),
            (u64::MAX, 1, false),
        ] {
            read_of(100, 1000, |read| {
                let found = read.piece(offset, len);
                assert_eq!(found.is_ok(), is_right, "{len} from {offset} on: {found:?}");
            });
        }
    }

    #[test]
    fn a_read_may_be_in_as_many_pieces_as_are_kept_and_in_no_more() {
        let pieces = PIECES_MAX as u64;
        read_of(0, 3 * PIECES_MAX as u32, |read| {
            (0..pieces).for_each(|at| read.piece(2 * at, 1).unwrap());
            // What joins two of them makes room for one elsewhere.
            read.piece(1, 1).unwrap();
            read.piece(2 * pieces, 1).unwrap();
            assert!(read.piece(2 * pieces + 2, 1).is_err());
        });
        read_of(0, 512, |read| {
            read.piece(0, 10).unwrap();
            assert!(read.piece(9, 1).is_err(), "again");
        });
    }
}
