//! TLS: what clients are known by, and a session between the socket and the protocol.
//!
//! A session is driven without any socket of its own: what comes from the socket is fed in, what it
//! wants to send is taken out, so a handshake can never block the event loop. Encrypted bytes that
//! wait, in either direction, are bounded. Two libraries do it: rustls with certificates, and OpenSSL
//! with keys shared beforehand, which rustls does not take.

mod certificates;
mod key_file;
#[cfg(feature = "psk")]
mod shared_keys;

pub use certificates::TlsFiles;

use super::ServerError;
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Encrypted bytes that may wait to be sent.
const UNSENT_BYTES_MAX: usize = 256 * 1024;

/// What server and clients are known to each other by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsKeys {
    /// Certificates.
    Certificates(TlsFiles),
    /// A file of users and keys that both sides have: lines `USER:HEXKEY`, as the `psktool` of GnuTLS writes them.
    Shared(PathBuf),
}

impl From<TlsFiles> for TlsKeys {
    fn from(files: TlsFiles) -> Self {
        Self::Certificates(files)
    }
}

/// Begins sessions.
pub(crate) trait Sessions {
    /// A session with one client.
    fn begin(&self) -> io::Result<TlsSession>;
}

/// One client's session.
pub(crate) type TlsSession = Box<dyn Session>;

/// Encryption of one connection.
pub(crate) trait Session {
    /// Takes encrypted bytes from the socket. Call only when [`Session::pull`] was starved.
    fn take_encrypted(&mut self, bytes: &[u8]);

    /// Moves plain bytes into `target`. An error says for people what the client did.
    fn pull(&mut self, target: &mut [u8]) -> io::Result<Pulled>;

    /// Encrypts what fits of `plain`; the number of bytes taken.
    fn push(&mut self, plain: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Whether encrypted bytes wait to be sent.
    fn wants_send(&self) -> bool;

    /// Sends encrypted bytes to `socket`.
    fn send(&mut self, socket: &mut dyn Write) -> io::Result<usize>;

    /// Says goodbye; the bytes for it still have to be sent.
    fn close(&mut self);
}

/// What a pull of plain bytes gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pulled {
    Bytes(usize),
    /// More encrypted bytes are needed.
    Starved,
    /// The client ended the session.
    End,
}

impl TlsKeys {
    /// Reads the files.
    pub(crate) fn load(&self) -> Result<Arc<dyn Sessions>, ServerError> {
        match self {
            Self::Certificates(files) => files.load(),
            Self::Shared(path) => load_shared(path),
        }
    }
}

#[cfg(feature = "psk")]
fn load_shared(path: &Path) -> Result<Arc<dyn Sessions>, ServerError> {
    Ok(Arc::new(shared_keys::SharedKeys::load(path)?))
}

#[cfg(not(feature = "psk"))]
fn load_shared(path: &Path) -> Result<Arc<dyn Sessions>, ServerError> {
    key_file::KeyFile::load(path)?;
    Err(problem(
        path,
        "expected a program that takes keys shared beforehand, found one built without them (its feature \
         `psk` is off); build it with the system's OpenSSL 3 there, or give certificates"
            .to_owned(),
    ))
}

fn problem(path: &Path, problem: String) -> ServerError {
    ServerError::Tls { path: path.to_owned(), problem }
}
