//! What `blktrace` writes of a Linux block device, before `blkparse` makes text of it (`blktrace_api.h` of the Linux sources, version 7).
//!
//! ```text
//!  0      4          8        16       24      28       32    36      40    44      46        48
//!  | magic| sequence | time,ns| sector | bytes | action | pid | device| cpu | error | pdu len | pdu ...
//! ```
//!
//! All numbers are in the byte order of the machine that wrote them: the magic, `0x65617400` and the version, tells which. `action` is what happened
//! in its low 16 bits and what the request is, a bit for each, in the high ones. A `pdu` is anything, and is passed over; so are messages and the names of
//! processes.
//!
//! A trace is a file for each processor (`NAME.blktrace.0`, `.1`, ...), each in order of time, or one stream of pieces of each. Events are
//! put into order through a window of fixed size; what is further out of order counts as it comes. An event that is cut off ends the trace, as whoever
//! ends `blktrace` leaves it; one without the magic is an error, as nobody can say where the next begins.

use super::actions::{Action, What};
use super::fields::{ADDRESS_BYTES_MAX, ParseResult, Parsed};
use super::{Problem, TraceRequest};
use nearhead_basics::little_endian::{u16_at, u32_at, u64_at};
use nearhead_disk::{Nanos, SECTOR_BYTES};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Read};

/// Bytes of an event without its pdu.
const EVENT_BYTES: usize = 48;
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;

/// Events held to put one stream of several processors into order; a piece of one is a buffer of `blktrace`, 512 KiB.
const STREAM_WINDOW: usize = 1 << 16;
/// The same of each file of several, which are in order but for what interrupts each other.
const FILE_WINDOW: usize = 64;
/// Files of one trace.
pub(super) const FILES_MAX: usize = 4096;

/// `BLK_TC_...`, the bits of a request, from bit 16 of an action on.
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const SYNC: u32 = 1 << 19;
const PASSED_THROUGH: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;
/// `__BLK_TA_...`, what happened, without the bit that says that a control group is told.
const WHAT: u32 = 0xFF;
const QUEUED: u32 = 1;
const ISSUED: u32 = 7;
const COMPLETED: u32 = 8;

/// Whether a trace that begins so is one of these.
pub(super) fn is_magic(head: &[u8]) -> bool {
    let Some(&head) = head.first_chunk::<4>() else { return false };
    [u32::from_le_bytes(head), u32::from_be_bytes(head)].iter().any(|magic| magic & !0xFF == MAGIC)
}

/// An event that is held: its time, its sequence, its file, and what it says.
type Held = Reverse<(u64, u32, usize, Said)>;

/// What an event says; that it is ordered means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Said {
    action: u32,
    sector: u64,
    bytes: u32,
    process: u32,
    device: u32,
}

/// The events of a trace, in order of time.
pub(super) struct Events {
    files: Vec<File>,
    held: BinaryHeap<Held>,
    is_begun: bool,
    /// Events passed on, and those that were cut off.
    pub(super) number: u64,
}

impl Events {
    /// Those of a trace of these files.
    pub(super) fn new(files: Vec<Box<dyn Read + Send>>) -> Self {
        let files = files.into_iter().map(File::new).collect();
        Self { files, held: BinaryHeap::new(), is_begun: false, number: 0 }
    }

    /// The next one; `None` behind the last. What cannot be read is an error once everything before it was passed on.
    pub(super) fn next(&mut self) -> io::Result<Option<ParseResult>> {
        if !self.is_begun {
            self.is_begun = true;
            let window = if self.files.len() == 1 { STREAM_WINDOW } else { FILE_WINDOW };
            for file in 0..self.files.len() {
                (0..window).for_each(|_| self.hold(file));
            }
        }
        let Some(Reverse((time, _, file, said))) = self.held.pop() else {
            return self.at_the_end();
        };
        self.hold(file);
        self.number += 1;
        Ok(Some(said.parsed(Nanos(time))))
    }

    /// What is to be told of each file when all others were passed on: why it cannot be read on, or that it ends in the middle of an event.
    fn at_the_end(&mut self) -> io::Result<Option<ParseResult>> {
        if let Some(failure) = self.files.iter_mut().find_map(|file| file.failure.take()) {
            return Err(failure);
        }
        let cut_off = self.files.iter_mut().find(|file| file.is_cut_off);
        Ok(cut_off.map(|file| {
            file.is_cut_off = false;
            self.number += 1;
            Err(Problem::new("a whole event", b"the end of the file"))
        }))
    }

    fn hold(&mut self, number: usize) {
        if let Some((time, sequence, said)) = self.files[number].next_event() {
            self.held.push(Reverse((time, sequence, number, said)));
        }
    }
}

/// One file of a trace.
struct File {
    bytes: Box<dyn Read + Send>,
    /// As its first event says.
    is_big_endian: Option<bool>,
    events: u64,
    is_over: bool,
    is_cut_off: bool,
    failure: Option<io::Error>,
}

impl File {
    fn new(bytes: Box<dyn Read + Send>) -> Self {
        let (is_big_endian, failure) = (None, None);
        Self { bytes, is_big_endian, events: 0, is_over: false, is_cut_off: false, failure }
    }

    /// Its next event: time, sequence and what it says.
    fn next_event(&mut self) -> Option<(u64, u32, Said)> {
        if self.is_over {
            return None;
        }
        let event = self.read_event().unwrap_or_else(|error| {
            self.failure = Some(error);
            None
        });
        self.is_over = event.is_none();
        event
    }

    fn read_event(&mut self) -> io::Result<Option<(u64, u32, Said)>> {
        let mut event = [0; EVENT_BYTES];
        let found = fill(&mut self.bytes, &mut event)?;
        if found < EVENT_BYTES {
            self.is_cut_off = found > 0;
            return Ok(None);
        }
        let magic = u32_at(&event, 0);
        let is_big_endian = *self.is_big_endian.get_or_insert(magic & !0xFF != MAGIC);
        let number = |at| {
            let number = u32_at(&event, at);
            if is_big_endian { number.swap_bytes() } else { number }
        };
        let long = |at| {
            let number = u64_at(&event, at);
            if is_big_endian { number.swap_bytes() } else { number }
        };
        self.events += 1;
        if number(0) != MAGIC | VERSION {
            return Err(self.no_event(number(0)));
        }
        let pdu_bytes = u16_at(&event, 46);
        let pdu_bytes = u64::from(if is_big_endian { pdu_bytes.swap_bytes() } else { pdu_bytes });
        let passed_over = io::copy(&mut self.bytes.by_ref().take(pdu_bytes), &mut io::sink())?;
        if passed_over < pdu_bytes {
            self.is_cut_off = true;
            return Ok(None);
        }
        let said = Said {
            sector: long(16),
            bytes: number(24),
            action: number(28),
            process: number(32),
            device: number(36),
        };
        Ok(Some((long(8), number(4), said)))
    }

    fn no_event(&self, magic: u32) -> io::Error {
        let event = self.events;
        io::Error::new(
            io::ErrorKind::InvalidData,
            if magic & !0xFF == MAGIC {
                let version = magic & 0xFF;
                format!(
                    "event {event}: expected version {VERSION} of blktrace's form, found {version}; `blkparse` makes text of it that is read"
                )
            } else {
                format!(
                    "event {event}: expected the mark {:08x} of blktrace's form, found {magic:08x}; the file is damaged from here on",
                    MAGIC | VERSION
                )
            },
        )
    }
}

/// Reads until the buffer is full or the input ends; how much of it was filled.
fn fill(bytes: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match bytes.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

impl Said {
    /// The same as an action.
    fn parsed(self, at: Nanos) -> ParseResult {
        let has = |bit| self.action & bit != 0;
        let what = match self.action & WHAT {
            QUEUED => What::Queued,
            ISSUED => What::Issued,
            COMPLETED => What::Completed,
            _ => return Ok(Parsed::NotATransfer),
        };
        // Passed-through commands, discards and messages move no bytes of the disk's.
        if has(NOTIFY | DISCARD | PASSED_THROUGH) || !has(READ | WRITE | FLUSH) {
            return Ok(Parsed::NotATransfer);
        }
        // The kernel's own flush has the bit of a read.
        let is_flush_alone = has(FLUSH) && !has(WRITE);
        let write = !has(READ) || is_flush_alone;
        let mut request = TraceRequest {
            at,
            device: self.device,
            process: self.process,
            len_bytes: self.bytes,
            write,
            flush: has(FLUSH),
            fua: has(FUA),
            in_background: write && !has(SYNC),
            ..TraceRequest::default()
        };
        if self.bytes > 0 || !is_flush_alone {
            let offset = self.sector.checked_mul(SECTOR_BYTES);
            request.offset_bytes =
                offset.filter(|offset| *offset < ADDRESS_BYTES_MAX).ok_or_else(|| {
                    let found = format!("sector {}", self.sector);
                    Problem::new("an address below 2^63 bytes", found.as_bytes())
                })?;
        }
        if request.len_bytes == 0 && !request.flush && what != What::Completed {
            return Ok(Parsed::NotATransfer);
        }
        Ok(Parsed::Action(Action { what, request }))
    }
}
