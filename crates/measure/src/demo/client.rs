//! A small NBD client over a Unix socket: the other end of what is measured.
//!
//! It speaks the fixed newstyle handshake with GO and simple replies
//! (the NBD protocol document, sections "Handshake phase" and "Transmission phase"), keeps any
//! number of requests outstanding, and hands requests over together when asked to. It is for
//! measuring servers that are trusted; it still checks every magic and every length it reads.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::io::{self, IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;

const FLAG_FIXED_NEWSTYLE: u16 = 1;
const FLAG_NO_ZEROES: u16 = 2;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const INFO_EXPORT: u16 = 0;
const TRANSMISSION_SEND_FUA: u16 = 1 << 3;

const COMMAND_READ: u16 = 0;
const COMMAND_WRITE: u16 = 1;
const COMMAND_FLUSH: u16 = 3;
const COMMAND_FLAG_FUA: u16 = 1;

/// Largest option reply believed.
const OPTION_REPLY_BYTES_MAX: u32 = 64 << 10;
/// Bytes taken from the socket at a time.
const INPUT_BYTES: usize = 256 << 10;
/// Data of at least this size goes to the socket without being copied next to its header.
const DIRECT_BYTES_MIN: usize = 32 << 10;

/// What a server is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask<'a> {
    Read { offset: u64, len: u32 },
    Write { offset: u64, data: &'a [u8], fua: bool },
    Flush,
}

/// What it answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The handle that the request was sent with.
    pub(crate) handle: u64,
    /// 0, or why it failed.
    pub(crate) error: u32,
}

/// A connection in its transmission phase.
pub(crate) struct Client {
    socket: UnixStream,
    size_bytes: u64,
    /// Requests not yet handed to the socket.
    output: Vec<u8>,
    input: Vec<u8>,
    /// What of `input` is not yet used.
    unread: std::ops::Range<usize>,
    /// Bytes that the answer to each outstanding request carries.
    outstanding: HashMap<u64, u32>,
}

fn wrong(expected: &str, found: impl std::fmt::Debug) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("NBD server: expected {expected}, found {found:x?}"),
    )
}

impl Client {
    /// Connects to the default export of the server at `path`, waiting up to `patience` for it.
    pub(crate) fn connect(path: &Path, patience: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + patience;
        let socket = loop {
            match UnixStream::connect(path) {
                Ok(socket) => break socket,
                Err(error) if Instant::now() >= deadline => {
                    let told = format!("cannot connect to {}: {error}", path.display());
                    return Err(io::Error::new(error.kind(), told));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let mut client = Self {
            socket,
            size_bytes: 0,
            output: Vec::new(),
            input: vec![0; INPUT_BYTES],
            unread: 0..0,
            outstanding: HashMap::new(),
        };
        client.shake_hands()?;
        Ok(client)
    }

    /// Bytes served.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn shake_hands(&mut self) -> io::Result<()> {
        let magics = (self.take_u64()?, self.take_u64()?);
        if magics != (INIT_MAGIC, OPTION_MAGIC) {
            return Err(wrong("the magics of the newstyle handshake", magics));
        }
        let flags = self.take_u16()?;
        if flags & FLAG_FIXED_NEWSTYLE == 0 {
            return Err(wrong("the fixed newstyle handshake", flags));
        }
        let answer = u32::from(flags & (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES));
        self.output.extend(answer.to_be_bytes());
        self.output.extend(OPTION_MAGIC.to_be_bytes());
        self.output.extend(OPTION_GO.to_be_bytes());
        // An empty name and no requests for information.
        self.output.extend([0, 0, 0, 6, 0, 0, 0, 0, 0, 0]);
        self.hand_over()?;
        while !self.take_option_reply()? {}
        Ok(())
    }

    /// Takes one reply to GO; whether it was the last.
    fn take_option_reply(&mut self) -> io::Result<bool> {
        let magic = self.take_u64()?;
        let (option, kind, len) = (self.take_u32()?, self.take_u32()?, self.take_u32()?);
        if magic != OPTION_REPLY_MAGIC || option != OPTION_GO || len > OPTION_REPLY_BYTES_MAX {
            return Err(wrong("a reply to GO", (magic, option, len)));
        }
        match kind {
            REPLY_ACK => Ok(true),
            REPLY_INFO if len >= 2 => {
                let mut left = len - 2;
                if self.take_u16()? == INFO_EXPORT && left == 10 {
                    self.size_bytes = self.take_u64()?;
                    let flags = self.take_u16()?;
                    if flags & TRANSMISSION_SEND_FUA == 0 {
                        return Err(wrong("an export with FUA", flags));
                    }
                    left = 0;
                }
                self.skip(left as usize)?;
                Ok(false)
            }
            _ => Err(wrong("an export", kind)),
        }
    }

    /// Queues a request; `handle` must not be outstanding. Large data is handed over at once.
    pub(crate) fn send(&mut self, handle: u64, ask: Ask<'_>) -> io::Result<()> {
        let (command, flags, offset, len, data): (_, _, _, _, &[u8]) = match ask {
            Ask::Read { offset, len } => (COMMAND_READ, 0, offset, len, &[]),
            Ask::Write { offset, data, fua } => {
                let flags = if fua { COMMAND_FLAG_FUA } else { 0 };
                (COMMAND_WRITE, flags, offset, data.len() as u32, data)
            }
            Ask::Flush => (COMMAND_FLUSH, 0, 0, 0, &[]),
        };
        self.output.extend(REQUEST_MAGIC.to_be_bytes());
        self.output.extend(flags.to_be_bytes());
        self.output.extend(command.to_be_bytes());
        self.output.extend(handle.to_be_bytes());
        self.output.extend(offset.to_be_bytes());
        self.output.extend(len.to_be_bytes());
        self.outstanding.insert(handle, if command == COMMAND_READ { len } else { 0 });
        if data.len() < DIRECT_BYTES_MIN {
            self.output.extend(data);
            return Ok(());
        }
        let output = std::mem::take(&mut self.output);
        write_both(&mut self.socket, &output, data)?;
        self.output = output;
        self.output.clear();
        Ok(())
    }

    /// Hands over everything queued.
    pub(crate) fn hand_over(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            self.socket.write_all(&self.output)?;
            self.output.clear();
        }
        Ok(())
    }

    /// Waits until an answer begins to arrive, at most until `deadline`; whether one did.
    pub(crate) fn wait(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
        self.hand_over()?;
        if !self.unread.is_empty() {
            return Ok(true);
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        });
        let mut sockets = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut sockets, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(_) => self.fill().map(|()| true),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether (the beginning of) an answer was taken from the socket already.
    pub(crate) fn has_input(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Takes the next answer, waiting for it. The bytes of a read are taken and dropped.
    pub(crate) fn receive(&mut self) -> io::Result<Answer> {
        let (magic, error, handle) = (self.take_u32()?, self.take_u32()?, self.take_u64()?);
        if magic != SIMPLE_REPLY_MAGIC {
            return Err(wrong("a simple reply", magic));
        }
        let Some(len) = self.outstanding.remove(&handle) else {
            return Err(wrong("the handle of an outstanding request", handle));
        };
        if error == 0 {
            self.skip(len as usize)?;
        }
        Ok(Answer { handle, error })
    }

    fn fill(&mut self) -> io::Result<()> {
        // Whoever waits for an answer must have asked.
        self.hand_over()?;
        let len = self.socket.read(&mut self.input)?;
        if len == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the NBD server hung up"));
        }
        self.unread = 0..len;
        Ok(())
    }

    fn take(&mut self, target: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < target.len() {
            if self.unread.is_empty() {
                self.fill()?;
            }
            let step = self.unread.len().min(target.len() - filled);
            let from = self.unread.start;
            target[filled..filled + step].copy_from_slice(&self.input[from..from + step]);
            self.unread.start += step;
            filled += step;
        }
        Ok(())
    }

    fn skip(&mut self, mut len: usize) -> io::Result<()> {
        while len > 0 {
            if self.unread.is_empty() {
                self.fill()?;
            }
            let step = self.unread.len().min(len);
            self.unread.start += step;
            len -= step;
        }
        Ok(())
    }

    fn take_u16(&mut self) -> io::Result<u16> {
        let mut bytes = [0; 2];
        self.take(&mut bytes)?;
        Ok(u16::from_be_bytes(bytes))
    }

    fn take_u32(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.take(&mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn take_u64(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.take(&mut bytes)?;
        Ok(u64::from_be_bytes(bytes))
    }
}

fn write_both(socket: &mut UnixStream, first: &[u8], second: &[u8]) -> io::Result<()> {
    let written = socket.write_vectored(&[IoSlice::new(first), IoSlice::new(second)])?;
    match first.get(written..) {
        Some(rest) if !rest.is_empty() => {
            socket.write_all(rest)?;
            socket.write_all(second)
        }
        _ => socket.write_all(second.get(written - first.len()..).unwrap_or_default()),
    }
}
