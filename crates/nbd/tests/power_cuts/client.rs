//! A client that speaks all three forms of the protocol and notices a reply that is not its own.

use nearhead_nbd::protocol::constants::{
    EXTENDED_REPLY_MAGIC, EXTENDED_REQUEST_MAGIC, OPTION_MAGIC, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC,
    STRUCTURED_REPLY_MAGIC, chunk, command, command_flag, option, option_reply,
};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// A reply that takes longer is taken for lost; nothing in this test takes a thousandth of it.
const REPLY_MAX: Duration = Duration::from_secs(120);

/// What replies look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Simple,
    Structured,
    Extended,
}

/// A whole reply.
pub(crate) struct Reply {
    pub(crate) cookie: u64,
    pub(crate) errno: u32,
    /// The bytes of a read, or what a block status says.
    pub(crate) data: Vec<u8>,
}

/// A request whose reply is outstanding.
struct Asked {
    kind: u16,
    offset: u64,
    data: Vec<u8>,
}

pub(crate) struct Client {
    stream: UnixStream,
    form: Form,
    asked: BTreeMap<u64, Asked>,
}

impl Client {
    /// Connects, and goes through the handshake.
    pub(crate) fn connect(socket: &Path, form: Form) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(REPLY_MAX))?;
        let mut client = Self { stream, form, asked: BTreeMap::new() };
        client.read::<18>()?;
        client.stream.write_all(&[0, 0, 0, 3])?;
        match form {
            Form::Simple => {}
            Form::Structured => client.option(option::STRUCTURED_REPLY, &[])?,
            Form::Extended => client.option(option::EXTENDED_HEADERS, &[])?,
        }
        if form != Form::Simple {
            let name = b"base:allocation";
            let data =
                [&[0; 4][..], &[0, 0, 0, 1], &(name.len() as u32).to_be_bytes(), name].concat();
            client.option(option::SET_META_CONTEXT, &data)?;
        }
        client.option(option::GO, &[0; 6])?;
        Ok(client)
    }

    /// Sends an option; it must be agreed to.
    fn option(&mut self, number: u32, data: &[u8]) -> io::Result<()> {
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend(number.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        self.stream.write_all(&bytes)?;
        loop {
            let header: [u8; 20] = self.read()?;
            let (kind, len) = (word(&header, 12), word(&header, 16));
            self.read_vec(len as usize)?;
            if kind == option_reply::ACK {
                return Ok(());
            }
            assert!(kind < 1 << 31, "option {number} was refused: {kind:#x}");
        }
    }

    /// Requests without a reply.
    pub(crate) fn outstanding(&self) -> usize {
        self.asked.len()
    }

    /// Whether block status may be asked for.
    pub(crate) fn has_status(&self) -> bool {
        self.form != Form::Simple
    }

    pub(crate) fn send(
        &mut self,
        (kind, flags): (u16, u16),
        cookie: u64,
        (offset, len): (u64, u64),
        payload: &[u8],
    ) -> io::Result<()> {
        // A read longer than any is only sent to be refused.
        let read_bytes = if kind == command::READ { len.min(32 << 20) as usize } else { 0 };
        self.asked.insert(cookie, Asked { kind, offset, data: vec![0xee; read_bytes] });
        let is_extended = self.form == Form::Extended;
        let counted =
            if is_extended && kind == command::WRITE { command_flag::PAYLOAD_LEN } else { 0 };
        let magic = if is_extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC };
        let mut bytes = magic.to_be_bytes().to_vec();
        bytes.extend((flags | counted).to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        if is_extended {
            bytes.extend(len.to_be_bytes());
        } else {
            bytes.extend((len as u32).to_be_bytes());
        }
        bytes.extend(payload);
        self.stream.write_all(&bytes)
    }

    /// The next reply, all of its chunks.
    pub(crate) fn reply(&mut self) -> io::Result<Reply> {
        loop {
            let start: [u8; 16] = self.read()?;
            let cookie = u64::from_be_bytes(start[8..].try_into().unwrap());
            let Some(asked) = self.asked.get(&cookie) else {
                panic!("a reply to {cookie}, which was never asked on this connection");
            };
            if word(&start, 0) == SIMPLE_REPLY_MAGIC {
                assert_ne!(self.form, Form::Extended, "a simple reply");
                let (errno, len) = (word(&start, 4), asked.data.len());
                assert!(len == 0 || self.form == Form::Simple, "a simple reply to a read");
                let data = if errno == 0 { self.read_vec(len)? } else { Vec::new() };
                self.asked.remove(&cookie);
                return Ok(Reply { cookie, errno, data });
            }
            let (flags, kind) = (word(&start, 4) >> 16, word(&start, 4) as u16);
            let errno = self.chunk(word(&start, 0), kind, cookie)?;
            if flags as u16 & chunk::DONE != 0 {
                let data = self.asked.remove(&cookie).unwrap().data;
                return Ok(Reply { cookie, errno, data });
            }
            assert_eq!(errno, 0, "an error is the last chunk");
        }
    }

    /// The rest of a chunk; its error number.
    fn chunk(&mut self, magic: u32, kind: u16, cookie: u64) -> io::Result<u32> {
        let is_extended = self.form == Form::Extended;
        let expected = if is_extended { EXTENDED_REPLY_MAGIC } else { STRUCTURED_REPLY_MAGIC };
        assert!(magic == expected && self.form != Form::Simple, "magic {magic:#x}");
        let len = if is_extended {
            let rest: [u8; 16] = self.read()?;
            let offset = u64::from_be_bytes(rest[..8].try_into().unwrap());
            assert_eq!(offset, self.asked[&cookie].offset, "the offset of another request");
            u64::from_be_bytes(rest[8..].try_into().unwrap()) as usize
        } else {
            word(&self.read::<4>()?, 0) as usize
        };
        assert!(len <= 33 << 20, "a chunk of {len} bytes");
        let content = self.read_vec(len)?;
        let asked = self.asked.get_mut(&cookie).unwrap();
        match kind {
            chunk::OFFSET_DATA | chunk::OFFSET_HOLE => {
                let at = u64::from_be_bytes(content[..8].try_into().unwrap()) - asked.offset;
                let target = &mut asked.data[at as usize..];
                if kind == chunk::OFFSET_HOLE {
                    target[..word(&content, 8) as usize].fill(0);
                } else {
                    target[..len - 8].copy_from_slice(&content[8..]);
                }
            }
            chunk::BLOCK_STATUS | chunk::BLOCK_STATUS_EXT => {
                assert_eq!(asked.kind, command::BLOCK_STATUS);
                assert_eq!(kind == chunk::BLOCK_STATUS_EXT, is_extended);
                assert!(len >= 12, "no extent");
                asked.data = content;
            }
            chunk::ERROR => return Ok(word(&content, 0)),
            other => assert_eq!((other, len), (chunk::NONE, 0)),
        }
        Ok(0)
    }

    fn read<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn read_vec(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let filled = self.stream.read_exact(bytes);
        let is_late = filled.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        assert!(!is_late, "no reply within {REPLY_MAX:?}, to any of {:?}", self.asked.keys());
        filled
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}
