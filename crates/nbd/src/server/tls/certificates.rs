//! Sessions with clients that know the server by its certificate, and may have to show their own, by rustls.

use super::super::ServerError;
use super::{Pulled, Session, Sessions, TlsSession, UNSENT_BYTES_MAX, problem};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::io::{self, IoSlice, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    pub(super) fn load(&self) -> Result<Arc<dyn Sessions>, ServerError> {
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
        Ok(Arc::new(Certified(Arc::new(config))))
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

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ServerError> {
    let failed = |error| problem(path, format!("expected certificates: {error}"));
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(failed)?.collect();
    let found = found.map_err(failed)?;
    if found.is_empty() {
        return Err(problem(path, "expected certificates, found none".to_owned()));
    }
    Ok(found)
}

/// Begins sessions with one certificate.
struct Certified(Arc<ServerConfig>);

impl Sessions for Certified {
    fn begin(&self) -> io::Result<TlsSession> {
        let mut session = ServerConnection::new(Arc::clone(&self.0)).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(UNSENT_BYTES_MAX));
        Ok(Box::new(CertifiedSession { session, encrypted: Vec::new(), fed: 0 }))
    }
}

/// One client's session.
struct CertifiedSession {
    session: ServerConnection,
    /// Received and not yet fed in.
    encrypted: Vec<u8>,
    fed: usize,
}

impl Session for CertifiedSession {
    fn take_encrypted(&mut self, bytes: &[u8]) {
        self.encrypted.drain(..self.fed);
        self.fed = 0;
        self.encrypted.extend_from_slice(bytes);
    }

    fn pull(&mut self, target: &mut [u8]) -> io::Result<Pulled> {
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

    fn push(&mut self, plain: &[IoSlice<'_>]) -> io::Result<usize> {
        self.session.writer().write_vectored(plain)
    }

    fn wants_send(&self) -> bool {
        self.session.wants_write()
    }

    fn send(&mut self, mut socket: &mut dyn Write) -> io::Result<usize> {
        self.session.write_tls(&mut socket)
    }

    fn close(&mut self) {
        self.session.send_close_notify();
    }
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;
