//! Sockets on which clients come in.
//!
//! Who may connect to a Unix socket is settled before anybody can: it is made for its owner alone,
//! then given its group and mode, and only then listened on.
//!
//! A Unix socket's path is taken over only when it is a socket on which nobody answers. On the way
//! out the path is removed if it still is the socket that was made here. Accepted sockets never
//! block and are not inherited.

use super::ServerError;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Stat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Room for replies in the kernel, in bytes: a reply of 1 MiB leaves in one piece where the system
/// allows it (`net.core.wmem_max`).
const SEND_BUFFER_BYTES: usize = 1 << 20;

/// The port that IANA assigned to NBD.
const PORT: u16 = 10809;

/// Clients that wait to be accepted.
const BACKLOG: i32 = 4096;

/// Who may connect to a Unix socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketAccess {
    /// Permission bits; none: what the umask leaves.
    pub mode: Option<u32>,
    /// The number of the group that the socket belongs to; none: that of the process.
    pub group: Option<u32>,
}

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    tcp: bool,
    /// The path to remove in the end, and the identity of the socket made there.
    made: Option<(PathBuf, u64, u64)>,
}

impl Listener {
    /// Listens on a new Unix socket.
    pub(crate) fn unix(path: &Path, access: SocketAccess) -> Result<Self, ServerError> {
        remove_stale(path)?;
        let failed = |errno: Errno| ServerError::Listen {
            address: path.display().to_string(),
            source: errno.into(),
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(failed)?;
        let address = SocketAddrUnix::new(path).map_err(failed)?;
        if access != SocketAccess::default() {
            // Linux makes the socket's file with the mode that the socket has before it is bound.
            rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        }
        rustix::net::bind(&socket, &address).map_err(failed)?;
        // From here on the path is removed again, whatever fails.
        let made = identity(path).map(|(device, inode)| (path.to_owned(), device, inode));
        let listener = Self { socket, tcp: false, made };
        access.give(path).map_err(failed)?;
        rustix::net::listen(&listener.socket, BACKLOG).map_err(failed)?;
        Ok(listener)
    }

    /// Listens on every address that `address` means; with the addresses bound.
    pub(crate) fn tcp(address: &str) -> Result<Vec<(Self, SocketAddr)>, ServerError> {
        let failed = |source| ServerError::Listen { address: address.to_owned(), source };
        let mut listeners = Vec::new();
        for address in with_port(address).to_socket_addrs().map_err(failed)? {
            let socket = TcpListener::bind(address).map_err(failed)?;
            socket.set_nonblocking(true).map_err(failed)?;
            let local = socket.local_addr().map_err(failed)?;
            listeners.push((Self { socket: socket.into(), tcp: true, made: None }, local));
        }
        Ok(listeners)
    }

    /// The sockets that the parent process hands over (`LISTEN_FDS`, `sd_listen_fds(3)`).
    pub(crate) fn activated() -> Result<Vec<Self>, ServerError> {
        let mut handed = listenfd::ListenFd::from_env();
        let mut listeners = Vec::new();
        for at in 0..handed.len() {
            let problem = |error: io::Error| ServerError::Activation {
                problem: format!("descriptor {}: expected a listening socket: {error}", at + 3),
            };
            let (socket, tcp): (OwnedFd, bool) = match handed.take_unix_listener(at) {
                Ok(Some(socket)) => (socket.into(), false),
                Ok(None) => continue,
                Err(_) => match handed.take_tcp_listener(at).map_err(problem)? {
                    Some(socket) => (socket.into(), true),
                    None => continue,
                },
            };
            rustix::io::ioctl_fionbio(&socket, true).map_err(|errno| problem(errno.into()))?;
            listeners.push(Self { socket, tcp, made: None });
        }
        if listeners.is_empty() {
            let problem = "expected sockets in LISTEN_FDS, found none for this process".to_owned();
            return Err(ServerError::Activation { problem });
        }
        Ok(listeners)
    }

    /// The next client that waits, if any.
    pub(crate) fn accept(&self) -> Result<Option<OwnedFd>, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match rustix::net::accept_with(&self.socket, flags) {
            Ok(socket) => {
                let _ =
                    rustix::net::sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES);
                if self.tcp {
                    // Best effort: a client is served without them, only slower or longer.
                    let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
                    let _ = rustix::net::sockopt::set_socket_keepalive(&socket, true);
                }
                Ok(Some(socket))
            }
            // The client left before it was accepted (accept(2), "Error handling").
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR | Errno::PROTO) => Ok(None),
            Err(errno) => Err(errno),
        }
    }
}

impl SocketAccess {
    /// Gives the socket's file its group, then its mode; the other way round the mode would hold for
    /// the group of the process for a moment.
    fn give(self, path: &Path) -> Result<(), Errno> {
        if let Some(group) = self.group {
            let group = Gid::from_raw(group);
            rustix::fs::chownat(CWD, path, None, Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        match self.mode {
            Some(mode) => rustix::fs::chmod(path, Mode::from_raw_mode(mode)),
            // Whoever says only a group means that the group may connect.
            None if self.group.is_some() => {
                rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP)
            }
            None => Ok(()),
        }
    }
}

/// `address` with NBD's port, if it names none.
fn with_port(address: &str) -> String {
    let inner = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Ok(ip) = inner.unwrap_or(address).parse::<IpAddr>() {
        return SocketAddr::new(ip, PORT).to_string();
    }
    if address.contains(':') { address.to_owned() } else { format!("{address}:{PORT}") }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((path, device, inode)) = self.made.take()
            && identity(&path) == Some((device, inode))
        {
            // A path that stays behind is recognized as stale by the next server.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn status(path: &Path) -> Option<Stat> {
    rustix::fs::lstat(path).ok()
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    status(path).map(|status| (status.st_dev, status.st_ino))
}

/// Removes a socket that nobody answers on; refuses everything else that exists.
fn remove_stale(path: &Path) -> Result<(), ServerError> {
    let Some(status) = status(path) else { return Ok(()) };
    if FileType::from_raw_mode(status.st_mode) != FileType::Socket {
        return Err(ServerError::NotASocket { path: path.to_owned() });
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|source| ServerError::Listen {
                address: path.display().to_string(),
                source,
            })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) | Err(_) => Err(ServerError::SocketInUse { path: path.to_owned() }),
    }
}
