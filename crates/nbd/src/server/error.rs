//! Why a server cannot start or go on.

use crate::protocol::ExportError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a server cannot start or go on. What one client does is never among it.
#[derive(Debug)]
pub enum ServerError {
    /// Another server answers on this socket.
    SocketInUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something that is no socket lies at the path of the socket.
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// A socket could not be opened.
    Listen {
        /// The address or path.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Sockets handed over by the parent process cannot be used.
    Activation {
        /// What was expected and found.
        problem: String,
    },
    /// Neither a listener nor an activated socket was given.
    NothingToListenOn,
    /// A TLS file cannot be used.
    Tls {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The service cannot be offered over NBD.
    Export(ExportError),
    /// The event loop itself failed.
    EventLoop {
        /// The step that failed.
        step: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl fmt::Display for ServerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SocketInUse { path } => write!(
                formatter,
                "socket {}: another server answers here; stop it or choose another path",
                path.display()
            ),
            Self::NotASocket { path } => write!(
                formatter,
                "socket {}: expected nothing or an old socket at this path, found something else; \
                 choose another path",
                path.display()
            ),
            Self::Listen { address, source } => write!(formatter, "listen on {address}: {source}"),
            Self::Activation { problem } => write!(formatter, "socket activation: {problem}"),
            Self::NothingToListenOn => {
                write!(formatter, "no socket to listen on; give a Unix path or a TCP address")
            }
            Self::Tls { path, problem } => write!(formatter, "TLS: {}: {problem}", path.display()),
            Self::Export(error) => write!(formatter, "export: {error}"),
            Self::EventLoop { step, source } => write!(formatter, "event loop: {step}: {source}"),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen { source, .. } | Self::EventLoop { source, .. } => Some(source),
            Self::Export(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ExportError> for ServerError {
    fn from(error: ExportError) -> Self {
        Self::Export(error)
    }
}

/// Turns an error of a system call of the event loop into a [`ServerError`].
pub(crate) fn in_step(step: &'static str) -> impl Fn(rustix::io::Errno) -> ServerError {
    move |errno| ServerError::EventLoop { step, source: errno.into() }
}
