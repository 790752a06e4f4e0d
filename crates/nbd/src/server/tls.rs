//! TLS: certificates from files, and a session between the socket and the protocol.
//!
//! The session is driven without any socket of its own: what comes from the socket is fed in, what
//! it wants to send is taken out, so a handshake can never block the event loop. Encrypted bytes
//! that wait, in either direction, are bounded.

use super::ServerError;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Encrypted bytes that may wait to be sent.
const UNSENT_BYTES_MAX: usize = 256 * 1024;

/// Where the certificates are, all in PEM form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those that lead to its authority.
    pub certificate: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
    /// Authorities of which every client must show a certificate; none: clients need no
    /// certificate.
    pub client_authority: Option<PathBuf>,
}

impl TlsFiles {
    /// The usual names in one directory: `server-cert.pem` and `server-key.pem`.
    pub fn in_directory(directory: &Path) -> Self {
        let certificate = directory.join("server-cert.pem");
        Self { certificate, key: directory.join("server-key.pem"), client_authority: None }
    }

    /// Reads the files.
    pub(crate) fn load(&self) -> Result<Arc<ServerConfig>, ServerError> {
        let chain = certificates(&self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| problem(&self.key, format!("expected a private key: {error}")))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| problem(&self.certificate, error.to_string()))?;
        let config = match &self.client_authority {
            None => config.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| problem(path, in_words(&error)))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .build()
                        .map_err(|error| problem(path, error.to_string()))?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let config = config.with_single_cert(chain, key).map_err(|error| {
            problem(&self.key, format!("does not fit the certificate: {}", in_words(&error)))
        })?;
        Ok(Arc::new(config))
    }
}

/// An error without the names that the library has for the causes it does not know.
fn in_words(error: &rustls::Error) -> String {
    let text = error.to_string();
    if text.contains("UnsupportedCertVersion") {
        return "expected a certificate of X.509 version 3, found an older one; with `openssl x509 -req` give \
                extensions (-extfile), or it makes version 1"
            .to_owned();
    }
    match text.split_once("Other(OtherError(") {
        Some((before, cause)) => format!("{before}{}", cause.trim_end_matches(')')),
        None => text,
    }
}

fn problem(path: &Path, problem: String) -> ServerError {
    ServerError::Tls { path: path.to_owned(), problem }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    let failed = |error| problem(path, format!("expected certificates: {error}"));
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(failed)?.collect();
    let found = found.map_err(failed)?;
    if found.is_empty() {
        return Err(problem(path, "expected certificates, found none".to_owned()));
    }
    Ok(found)
}

/// One client's session.
pub(crate) struct TlsSession {
    session: ServerConnection,
    /// Received and not yet fed in.
    encrypted: Vec<u8>,
    fed: usize,
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

impl TlsSession {
    pub(crate) fn new(config: &Arc<ServerConfig>) -> Result<Self, io::Error> {
        let mut session = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Ok(Self { session, encrypted: Vec::new(), fed: 0 })
    }

    /// Takes encrypted bytes from the socket. Call only when [`TlsSession::pull`] was starved.
    pub(crate) fn take_encrypted(&mut self, bytes: &[u8]) {
        self.encrypted.drain(..self.fed);
        self.fed = 0;
        self.encrypted.extend_from_slice(bytes);
    }

    /// Moves plain bytes into `target`.
    pub(crate) fn pull(&mut self, target: &mut [u8]) -> io::Result<Pulled> {
        loop {
            match self.session.reader().read(target) {
                Ok(0) if target.is_empty() => return Ok(Pulled::Bytes(0)),
                Ok(0) => return Ok(Pulled::End),
                Ok(len) => return Ok(Pulled::Bytes(len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let mut rest = &self.encrypted[self.fed..];
            if rest.is_empty() {
                return Ok(Pulled::Starved);
            }
            self.fed += self.session.read_tls(&mut rest)?;
            self.session.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// Encrypts what fits of `plain`; the number of bytes taken.
    pub(crate) fn push(&mut self, plain: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.session.writer().write_vectored(plain)
    }

    /// Whether encrypted bytes wait to be sent.
    pub(crate) fn wants_send(&self) -> bool {
        self.session.wants_write()
    }

    /// Sends encrypted bytes to `socket`.
    pub(crate) fn send(&mut self, socket: &mut impl Write) -> io::Result<usize> {
        self.session.write_tls(socket)
    }

    /// Says goodbye; the bytes for it still have to be sent.
    pub(crate) fn close(&mut self) {
        self.session.send_close_notify();
    }
}
