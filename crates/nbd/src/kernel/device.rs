//! Telling the kernel which socket a block device is to use: making it, giving it another socket, ending it (`linux/nbd-netlink.h`).

use super::netlink::{
    CONTROLLER, FAMILY_ID, FAMILY_NAME, GET_FAMILY, Message, NESTED, Said, find, first, nested,
    take,
};
use crate::protocol::constants::flag;
use rustix::io::Errno;
use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A request that was not answered for so long is sent again, on another connection if there is one. A drive tries for 7 s and more to read
/// a sector that it cannot (`SCT Error Recovery Control`), several times over.
pub const OVERDUE: Duration = Duration::from_secs(30);
/// So long a device waits for another connection.
const WITHOUT_CONNECTION_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// The kernel answers at once, but for what it waits for when a device begins.
const ANSWER_MAX: Duration = Duration::from_secs(30);

const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const RECONFIGURE: u8 = 3;

const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const TIMEOUT: u16 = 4;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const DEAD_CONN_TIMEOUT: u16 = 8;
const BACKEND_IDENTIFIER: u16 = 10;
const SOCK_ITEM: u16 = 1;
const SOCK_FD: u16 = 1;

/// What a device is to be like.
#[derive(Clone, Copy, Debug)]
pub struct Attached<'a> {
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Its smallest block, in bytes.
    pub block_bytes: u32,
    /// Transmission flags, `constants::flag` ([`offered_flags`]).
    pub flags: u16,
    /// What tells it from those of others; another socket is taken from those alone who know it (Linux 5.14).
    pub identifier: &'a str,
}

/// What the kernel may ask of a volume: flushes, durable writes and discards of any.
pub fn offered_flags(read_only: bool, rotational: bool, fast_zero: bool) -> u16 {
    let mut flags = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::SEND_FUA | flag::SEND_TRIM;
    for (is_set, flag) in [
        (read_only, flag::READ_ONLY),
        (rotational, flag::ROTATIONAL),
        (fast_zero, flag::SEND_WRITE_ZEROES),
    ] {
        flags |= if is_set { flag } else { 0 };
    }
    flags
}

/// The block device with this number.
pub fn block_device(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/nbd{number}"))
}

/// The module's ear.
#[derive(Debug)]
pub struct Nbd {
    socket: OwnedFd,
    family: u16,
    sequence: u32,
}

impl Nbd {
    /// Finds it.
    ///
    /// # Errors
    /// `ENOENT` if the module is not there.
    pub fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let (domain, kind) = (AddressFamily::NETLINK, SocketType::RAW);
        let socket = rustix::net::socket_with(domain, kind, flags, Some(GENERIC))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_MAX))?;
        let mut found = Self { socket, family: CONTROLLER, sequence: 0 };
        let ask = found.message(GET_FAMILY).with(FAMILY_NAME, b"nbd\0");
        let id = found.ask(ask, FAMILY_ID)?;
        let id = id.as_deref().and_then(|id| take(id, 0)).ok_or(Errno::NOENT)?;
        found.family = u16::from_ne_bytes(id);
        Ok(found)
    }

    /// Makes a device of the process at the other end of `socket`, which answers already; its number.
    pub fn connect(&mut self, socket: BorrowedFd<'_>, device: Attached<'_>) -> io::Result<u32> {
        let message = self
            .message(CONNECT)
            .with(SIZE_BYTES, &device.size_bytes.to_ne_bytes())
            .with(BLOCK_SIZE_BYTES, &u64::from(device.block_bytes).to_ne_bytes())
            .with(TIMEOUT, &OVERDUE.as_secs().to_ne_bytes())
            .with(DEAD_CONN_TIMEOUT, &WITHOUT_CONNECTION_MAX.as_secs().to_ne_bytes())
            .with(SERVER_FLAGS, &u64::from(device.flags).to_ne_bytes());
        let index = self.ask(with_socket(message, socket, device.identifier), INDEX)?;
        let index = index.as_deref().and_then(|index| take(index, 0));
        let lost = || io::Error::other("expected the number of the new device, found none");
        Ok(u32::from_ne_bytes(index.ok_or_else(lost)?))
    }

    /// Gives a device whose connection ended another one.
    pub fn reconnect(
        &mut self,
        number: u32,
        socket: BorrowedFd<'_>,
        identifier: &str,
    ) -> io::Result<()> {
        let message = self.message(RECONFIGURE).with(INDEX, &number.to_ne_bytes());
        self.ask(with_socket(message, socket, identifier), INDEX).map(drop)
    }

    /// Tells the kernel that a device has become larger.
    pub fn resize(&mut self, number: u32, size_bytes: u64, identifier: &str) -> io::Result<()> {
        let identifier = [identifier.as_bytes(), &[0]].concat();
        let message = self
            .message(RECONFIGURE)
            .with(INDEX, &number.to_ne_bytes())
            .with(SIZE_BYTES, &size_bytes.to_ne_bytes())
            .with(BACKEND_IDENTIFIER, &identifier);
        self.ask(message, INDEX).map(drop)
    }

    /// Ends a device: whoever uses it gets errors, and its server is told.
    pub fn disconnect(&mut self, number: u32) -> io::Result<()> {
        let message = self.message(DISCONNECT).with(INDEX, &number.to_ne_bytes());
        self.ask(message, INDEX).map(drop)
    }

    /// Whether a device is in use and known by this identifier. A kernel before Linux 5.14 keeps none.
    pub fn is_connected(number: u32, identifier: &str) -> bool {
        let folder = Path::new("/sys/block").join(format!("nbd{number}"));
        let found = std::fs::read_to_string(folder.join("backend")).ok();
        folder.join("pid").exists() && found.is_none_or(|found| found.trim() == identifier)
    }

    fn message(&mut self, command: u8) -> Message {
        self.sequence += 1;
        Message::new(self.family, command, self.sequence)
    }

    /// Sends `message` and waits until it is done; the attribute `wanted` of what was said meanwhile.
    fn ask(&mut self, message: Message, wanted: u16) -> io::Result<Option<Vec<u8>>> {
        let kernel = SocketAddrNetlink::new(0, 0);
        rustix::net::sendto(&self.socket, &message.finish(), SendFlags::empty(), &kernel)?;
        let mut found = None;
        loop {
            let mut bytes = vec![0; 16384];
            let (len, _) = rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::empty())?;
            let mut rest = bytes.get(..len).unwrap_or_default();
            while let Some((said, others)) = first(rest) {
                rest = others;
                match said {
                    Said::Done { sequence, error } if sequence == self.sequence => {
                        return match error {
                            0 => Ok(found),
                            error => Err(Errno::from_raw_os_error(error).into()),
                        };
                    }
                    Said::Content { sequence, attributes } if sequence == self.sequence => {
                        found = find(attributes, wanted).map(<[u8]>::to_vec).or(found);
                    }
                    _ => {}
                }
            }
        }
    }
}

fn with_socket(message: Message, socket: BorrowedFd<'_>, identifier: &str) -> Message {
    let number = socket.as_raw_fd().to_ne_bytes();
    let item = nested(&[(SOCK_FD, &number)]);
    let sockets = nested(&[(SOCK_ITEM | NESTED, &item)]);
    let identifier = [identifier.as_bytes(), &[0]].concat();
    message.with(SOCKETS | NESTED, &sockets).with(BACKEND_IDENTIFIER, &identifier)
}
