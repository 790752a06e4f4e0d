//! A small NBD client that can have many requests under way and survives its server's death.
//!
//! Only what the tests need: fixed newstyle with `EXPORT_NAME`, simple replies
//! (the protocol: github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md).

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_EXPORT_NAME: u32 = 1;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
const FIXED_NEWSTYLE_NO_ZEROES: u32 = 3;
const FLAG_FUA: u16 = 1;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read = 0,
    Write = 1,
    Flush = 3,
    Trim = 4,
    WriteZeroes = 6,
}

/// A connection.
pub struct Client {
    stream: UnixStream,
    pub size_bytes: u64,
}

impl Client {
    pub fn connect(socket: &Path) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        stream.write_all(&FIXED_NEWSTYLE_NO_ZEROES.to_be_bytes())?;
        stream.write_all(&OPTION_MAGIC.to_be_bytes())?;
        stream.write_all(&OPTION_EXPORT_NAME.to_be_bytes())?;
        stream.write_all(&0_u32.to_be_bytes())?;
        let mut export = [0; 10];
        stream.read_exact(&mut export)?;
        let size_bytes = u64::from_be_bytes(export[..8].try_into().unwrap());
        Ok(Self { stream, size_bytes })
    }

    /// Requests and replies that take longer than this fail.
    pub fn answer_within(&mut self, span: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(span))?;
        self.stream.set_write_timeout(Some(span))
    }

    /// Sends a request without waiting for its reply.
    pub fn send(
        &mut self,
        cookie: u64,
        kind: Kind,
        fua: bool,
        offset: u64,
        len: u32,
        data: &[u8],
    ) -> io::Result<()> {
        let mut header = Vec::with_capacity(28 + data.len());
        header.extend_from_slice(&REQUEST_MAGIC.to_be_bytes());
        header.extend_from_slice(&(if fua { FLAG_FUA } else { 0 }).to_be_bytes());
        header.extend_from_slice(&(kind as u16).to_be_bytes());
        header.extend_from_slice(&cookie.to_be_bytes());
        header.extend_from_slice(&offset.to_be_bytes());
        header.extend_from_slice(&len.to_be_bytes());
        header.extend_from_slice(data);
        self.stream.write_all(&header)
    }

    /// The next reply: its cookie and NBD error. Not for reads.
    pub fn reply(&mut self) -> io::Result<(u64, u32)> {
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply)?;
        let magic = u32::from_be_bytes(reply[..4].try_into().unwrap());
        if magic != REPLY_MAGIC {
            return Err(io::Error::other(format!("expected a simple reply, found {magic:#x}")));
        }
        let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
        Ok((u64::from_be_bytes(reply[8..].try_into().unwrap()), error))
    }

    /// Runs one request that is no read to its reply; the NBD error.
    pub fn run(
        &mut self,
        kind: Kind,
        fua: bool,
        offset: u64,
        len: u32,
        data: &[u8],
    ) -> io::Result<u32> {
        self.send(0, kind, fua, offset, len, data)?;
        self.reply().map(|(_, error)| error)
    }

    pub fn write(&mut self, offset: u64, data: &[u8], fua: bool) {
        let error = self.run(Kind::Write, fua, offset, data.len() as u32, data).unwrap();
        assert_eq!(error, 0, "write of {} bytes at {offset}", data.len());
    }

    pub fn flush(&mut self) {
        assert_eq!(self.run(Kind::Flush, false, 0, 0, &[]).unwrap(), 0, "flush");
    }

    /// Reads; the bytes or the NBD error.
    pub fn try_read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, u32> {
        self.send(0, Kind::Read, false, offset, len, &[]).unwrap();
        let (_, error) = self.reply().unwrap();
        if error != 0 {
            return Err(error);
        }
        Ok(self.data(len as usize).unwrap())
    }

    /// What follows the reply to a read.
    pub fn data(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut data = vec![0; len];
        self.stream.read_exact(&mut data)?;
        Ok(data)
    }

    pub fn read(&mut self, offset: u64, len: u32) -> Vec<u8> {
        self.try_read(offset, len)
            .unwrap_or_else(|error| panic!("read of {len} at {offset}: NBD error {error}"))
    }
}
