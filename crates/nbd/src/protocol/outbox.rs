//! What waits to be sent: headers gathered in one place, payloads by reference.
//!
//! Payload bytes are never copied here; [`Outbox::slices`] lends headers, payloads and zeros to a
//! gathering write in order, and [`Outbox::advance`] takes away what the socket accepted. The
//! number of bytes waiting is known at any time, so that the owner can stop reading from a client
//! that does not read.

use nearhead_disk::{Buffer, Payload};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Most slices given to one gathering write.
pub const SLICES_MAX: usize = 64;

/// Sent headers are dropped from the front once there are this many bytes of them.
const COMPACT_BYTES: usize = 64 * 1024;

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// One thing to send.
#[derive(Debug)]
enum Piece {
    /// That many of the gathered header bytes.
    Header(usize),
    /// A payload; the number of its bytes that were sent.
    Bytes(Buffer, usize),
    /// That many zeros.
    Zeros(usize),
}

/// Bytes to send, in order.
#[derive(Debug, Default)]
pub struct Outbox {
    pieces: VecDeque<Piece>,
    headers: Vec<u8>,
    /// Header bytes already sent.
    headers_sent: usize,
    len: usize,
}

impl Outbox {
    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends what `write` appends to the gathered headers.
    pub(crate) fn put_header<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        let before = self.headers.len();
        let result = write(&mut self.headers);
        let added = self.headers.len() - before;
        self.len += added;
        if let Some(Piece::Header(len)) = self.pieces.back_mut() {
            *len += added;
        } else if added > 0 {
            self.pieces.push_back(Piece::Header(added));
        }
        result
    }

    /// Appends a payload. A phantom is sent as zeros.
    pub(crate) fn put_payload(&mut self, payload: Payload) {
        self.len += payload.len();
        match payload {
            payload if payload.is_empty() => {}
            Payload::Bytes(buffer) => self.pieces.push_back(Piece::Bytes(buffer, 0)),
            Payload::Zeros(len) | Payload::Phantom(len) => {
                self.pieces.push_back(Piece::Zeros(len));
            }
        }
    }

    /// Lends the first pieces to `slices`; the number lent.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> usize {
        let mut header_at = self.headers_sent;
        let mut count = 0;
        for piece in &self.pieces {
            let lent = match piece {
                Piece::Header(len) => {
                    let header = &self.headers[header_at..header_at + len];
                    header_at += len;
                    header
                }
                Piece::Bytes(buffer, sent) => &buffer[*sent..],
                Piece::Zeros(len) => &ZEROS[..ZEROS.len().min(*len)],
            };
            slices[count] = IoSlice::new(lent);
            count += 1;
            let cut_short = matches!(piece, Piece::Zeros(len) if *len > ZEROS.len());
            if count == SLICES_MAX || cut_short {
                break;
            }
        }
        count
    }

    /// Takes away the first `sent` bytes.
    pub fn advance(&mut self, mut sent: usize) {
        debug_assert!(sent <= self.len, "sent {sent} of {} bytes", self.len);
        self.len -= sent;
        while sent > 0 {
            let Some(piece) = self.pieces.front_mut() else { break };
            let (taken, finished) = match piece {
                Piece::Header(len) => {
                    let taken = sent.min(*len);
                    *len -= taken;
                    self.headers_sent += taken;
                    (taken, *len == 0)
                }
                Piece::Bytes(buffer, done) => {
                    let taken = sent.min(buffer.len() - *done);
                    *done += taken;
                    (taken, *done == buffer.len())
                }
                Piece::Zeros(len) => {
                    let taken = sent.min(*len);
                    *len -= taken;
                    (taken, *len == 0)
                }
            };
            sent -= taken;
            if finished {
                self.pieces.pop_front();
            }
        }
        self.compact();
    }

    fn compact(&mut self) {
        if self.headers_sent == self.headers.len() {
            self.headers.clear();
            self.headers_sent = 0;
            // A burst of replies leaves no memory behind on a connection that then idles.
            self.headers.shrink_to(4096);
        } else if self.headers_sent >= COMPACT_BYTES {
            self.headers.drain(..self.headers_sent);
            self.headers_sent = 0;
        }
    }

    /// Everything that waits, as one run of bytes (for tests and for small messages).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        let mut header_at = self.headers_sent;
        for piece in &self.pieces {
            match piece {
                Piece::Header(len) => {
                    bytes.extend_from_slice(&self.headers[header_at..header_at + len]);
                    header_at += len;
                }
                Piece::Bytes(buffer, sent) => bytes.extend_from_slice(&buffer[*sent..]),
                Piece::Zeros(len) => bytes.resize(bytes.len() + len, 0),
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::BufferMut;

    /// Sends at most `step` bytes at a time, as a full socket would.
    fn send_all(outbox: &mut Outbox, step: usize) -> Vec<u8> {
        let mut sent = Vec::new();
        while !outbox.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = outbox.slices(&mut slices);
            assert!(count > 0, "bytes wait but no slice is lent");
            let all: Vec<u8> =
                slices[..count].iter().flat_map(|slice| slice.to_vec()).take(step).collect();
            sent.extend_from_slice(&all);
            let len = all.len();
            outbox.advance(len);
        }
        sent
    }

    #[test]
    fn bytes_leave_in_order_however_little_the_socket_takes() {
        for step in [1, 7, 4096, 100_000, usize::MAX] {
            let mut outbox = Outbox::default();
            for round in 0..3_u8 {
                outbox.put_header(|out| out.extend_from_slice(&[round; 16]));
                outbox.put_header(|out| out.extend_from_slice(b"more"));
                outbox.put_payload(Payload::Bytes(BufferMut::copy_of(&[round + 10; 999]).freeze()));
                outbox.put_payload(Payload::Zeros(70_000));
                outbox.put_payload(Payload::EMPTY);
            }
            let expected = outbox.to_bytes();
            assert_eq!(expected.len(), outbox.len());
            assert_eq!(send_all(&mut outbox, step), expected, "step {step}");
        }
    }

    #[test]
    fn sent_headers_do_not_pile_up_behind_a_slow_reader() {
        let mut outbox = Outbox::default();
        outbox.put_header(|out| out.extend_from_slice(&[1; 100]));
        for _ in 0..100_000 {
            outbox.put_header(|out| out.extend_from_slice(&[2; 16]));
            outbox.advance(16);
        }
        assert_eq!(outbox.len(), 100);
        assert!(outbox.headers.len() < 2 * COMPACT_BYTES, "{} bytes", outbox.headers.len());
        // Also if the reader takes much at once.
        for _ in 0..10 {
            outbox.put_header(|out| out.resize(out.len() + 3 * COMPACT_BYTES, 2));
            outbox.advance(3 * COMPACT_BYTES);
        }
        assert_eq!(outbox.len(), 100);
        assert!(outbox.headers.len() < 2 * COMPACT_BYTES, "{} bytes", outbox.headers.len());
    }

    #[test]
    fn one_gathering_write_takes_as_much_as_it_may_and_nothing_empty() {
        let byte = || Payload::Bytes(BufferMut::copy_of(&[7]).freeze());
        let lent = |outbox: &Outbox| {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = outbox.slices(&mut slices);
            assert!(slices[..count].iter().all(|slice| !slice.is_empty()));
            count
        };
        let mut outbox = Outbox::default();
        outbox.put_header(|_| ());
        (0..3).for_each(|_| outbox.put_payload(byte()));
        outbox.put_payload(Payload::EMPTY);
        outbox.put_payload(Payload::Zeros(0));
        outbox.put_payload(Payload::Bytes(BufferMut::copy_of(&[7]).freeze().slice(0..0)));
        outbox.put_header(|out| out.push(1));
        assert_eq!(lent(&outbox), 4);
        (0..100).for_each(|_| outbox.put_payload(byte()));
        assert_eq!(lent(&outbox), SLICES_MAX);
    }
}
