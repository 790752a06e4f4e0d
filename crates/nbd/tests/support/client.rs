//! A small blocking client, for what well-behaved clients never do.

use nearhead_nbd::protocol::constants::{
    OPTION_MAGIC, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC, option, option_reply,
};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

pub(crate) struct Client {
    pub(crate) stream: UnixStream,
}

impl Client {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { stream }
    }

    pub(crate) fn read(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(crate) fn option(&mut self, number: u32, data: &[u8]) {
        let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&number.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
        bytes.extend_from_slice(data);
        self.send(&bytes);
    }

    /// The next reply to an option: its type and data.
    pub(crate) fn option_reply(&mut self) -> (u32, Vec<u8>) {
        let header = self.read(20);
        let number = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
        let (kind, len) = (number(12), number(16));
        (kind, self.read(len as usize))
    }

    /// Reads the greeting and answers it.
    pub(crate) fn greet(&mut self) {
        assert_eq!(&self.read(18)[..8], b"NBDMAGIC");
        self.send(&[0, 0, 0, 3]);
    }

    /// Goes through the handshake to the default export, with simple replies.
    pub(crate) fn go(mut self) -> Self {
        self.greet();
        self.option(option::GO, &[0; 6]);
        while self.option_reply().0 != option_reply::ACK {}
        self
    }

    pub(crate) fn request(&mut self, kind: u16, cookie: u64, offset: u64, len: u32) {
        self.send(&request(kind, cookie, offset, len));
    }

    /// The next simple reply: its error number and cookie.
    pub(crate) fn reply(&mut self) -> (u32, u64) {
        let header = self.read(16);
        assert_eq!(header[..4], SIMPLE_REPLY_MAGIC.to_be_bytes());
        let errno = u32::from_be_bytes(header[4..8].try_into().unwrap());
        (errno, u64::from_be_bytes(header[8..16].try_into().unwrap()))
    }

    /// Whether the server closed the connection: no more bytes come.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        matches!(self.stream.read_to_end(&mut rest), Ok(0) | Err(_))
    }
}

pub(crate) fn request(kind: u16, cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend_from_slice(&0_u16.to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&cookie.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    bytes.extend_from_slice(&len.to_be_bytes());
    bytes
}
