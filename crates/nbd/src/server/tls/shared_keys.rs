//! Sessions with clients that have a key in common with the server (TLS-PSK, RFC 8446 section 2.2 and
//! RFC 5489), by OpenSSL.
//!
//! Only with forward secrecy: who learns a key later cannot read what was recorded before. Nothing is
//! resumed, so every session needs the key. A user that is not known fails as one with a wrong key does:
//! who tries names learns nothing; what it was is in the notice.

use super::super::ServerError;
use super::key_file::{KeyFile, shown};
use super::{Pulled, Session, Sessions, TlsSession, UNSENT_BYTES_MAX, problem};
use openssl::error::ErrorStack;
use openssl::ex_data::Index;
use openssl::ssl::{
    ErrorCode, Ssl, SslContext, SslContextBuilder, SslMethod, SslMode, SslOptions, SslRef,
    SslSessionCacheMode, SslStream, SslVersion,
};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::path::{Path, PathBuf};

/// Of TLS 1.3. OpenSSL takes a key from such a callback for SHA-256, so do GnuTLS and the standard.
const SUITES_13: &str = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
/// Of TLS 1.2: all that OpenSSL and GnuTLS both have with forward secrecy, the best first.
const CIPHERS_12: &str =
    "ECDHE-PSK-CHACHA20-POLY1305:ECDHE-PSK-AES256-CBC-SHA384:ECDHE-PSK-AES128-CBC-SHA256";
/// Plain bytes of a record.
const RECORD_BYTES: usize = 16 * 1024;
/// Encrypted bytes beyond which a client is cut off that makes the server answer (key updates) and reads
/// nothing.
const ANSWERS_BYTES_MAX: usize = 2 * UNSENT_BYTES_MAX;
/// Length of the key that nobody has, in bytes.
const NO_KEY_BYTES: usize = 32;
/// Memory that a session keeps for the next bytes to be sent.
const KEPT_BYTES: usize = 32 * 1024;

/// As whom a client said that it came.
struct Claim {
    user: String,
    is_known: bool,
}

/// Begins sessions with those whose key is in a file.
pub(super) struct SharedKeys {
    context: SslContext,
    claim: Index<Ssl, Claim>,
    path: PathBuf,
}

impl SharedKeys {
    /// Reads the file of keys.
    pub(super) fn load(path: &Path) -> Result<Self, ServerError> {
        let keys = KeyFile::load(path)?;
        let prepared = Ssl::new_ex_index().and_then(|claim| Ok((context(keys, claim)?, claim)));
        let (context, claim) = prepared
            .map_err(|error| problem(path, format!("OpenSSL is not able to use it: {error}")))?;
        Ok(Self { context, claim, path: path.to_owned() })
    }
}

fn context(keys: KeyFile, claim: Index<Ssl, Claim>) -> Result<SslContext, ErrorStack> {
    let mut builder = SslContextBuilder::new(SslMethod::tls_server())?;
    builder.set_min_proto_version(Some(SslVersion::TLS1_2))?;
    builder.set_cipher_list(CIPHERS_12)?;
    builder.set_ciphersuites(SUITES_13)?;
    builder.set_options(
        SslOptions::NO_TICKET | SslOptions::NO_RENEGOTIATION | SslOptions::CIPHER_SERVER_PREFERENCE,
    );
    builder.set_num_tickets(0)?;
    builder.set_session_cache_mode(SslSessionCacheMode::OFF);
    builder.set_mode(SslMode::RELEASE_BUFFERS);
    builder.set_psk_server_callback(move |ssl, user, key| give_key(&keys, claim, ssl, user, key));
    Ok(builder.build())
}

/// Puts the key of `user` into `target`, or one that nobody has; the length of it.
fn give_key(
    keys: &KeyFile,
    claim: Index<Ssl, Claim>,
    ssl: &mut SslRef,
    user: Option<&[u8]>,
    target: &mut [u8],
) -> Result<usize, ErrorStack> {
    let user = user.unwrap_or_default();
    let found = keys.key_of(user).filter(|key| key.len() <= target.len());
    ssl.set_ex_data(claim, Claim { user: shown(user), is_known: found.is_some() });
    if let Some(key) = found {
        target[..key.len()].copy_from_slice(key);
        return Ok(key.len());
    }
    let len = target.len().min(NO_KEY_BYTES);
    openssl::rand::rand_bytes(&mut target[..len])?;
    Ok(len)
}

impl Sessions for SharedKeys {
    fn begin(&self) -> io::Result<TlsSession> {
        let ssl = Ssl::new(&self.context)?;
        let stream = SslStream::new(ssl, Wire::default())?;
        let scratch = Vec::new();
        let (claim, path) = (self.claim, self.path.clone());
        Ok(Box::new(SharedKeySession { stream, is_open: false, claim, path, scratch }))
    }
}

/// Encrypted bytes on their way in and out.
#[derive(Default)]
struct Wire {
    received: Vec<u8>,
    fed: usize,
    unsent: Vec<u8>,
    sent: usize,
}

impl Wire {
    fn unsent_bytes(&self) -> usize {
        self.unsent.len() - self.sent
    }

    fn send(&mut self, socket: &mut dyn Write) -> io::Result<usize> {
        let count = socket.write(&self.unsent[self.sent..])?;
        self.sent += count;
        if self.unsent_bytes() == 0 {
            self.sent = 0;
            self.unsent.clear();
            self.unsent.shrink_to(KEPT_BYTES);
        } else if self.sent > UNSENT_BYTES_MAX {
            // What was sent must not pile up before what never quite is.
            self.unsent.drain(..self.sent);
            self.sent = 0;
        }
        Ok(count)
    }
}

impl Read for Wire {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let mut rest = &self.received[self.fed..];
        if rest.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = rest.read(target)?;
        self.fed += count;
        Ok(count)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.unsent_bytes() > ANSWERS_BYTES_MAX {
            return Err(io::Error::other("it asks and does not read the answers"));
        }
        self.unsent.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One client's session.
struct SharedKeySession {
    stream: SslStream<Wire>,
    /// The handshake is over.
    is_open: bool,
    claim: Index<Ssl, Claim>,
    /// Where the keys are, for messages.
    path: PathBuf,
    /// Plain bytes on their way into a record.
    scratch: Vec<u8>,
}

impl SharedKeySession {
    /// Goes on with the handshake; whether it is over.
    fn shake_hands(&mut self) -> io::Result<bool> {
        if !self.is_open {
            match self.stream.accept() {
                Ok(()) => self.is_open = true,
                Err(error) if error.code() == ErrorCode::WANT_READ => return Ok(false),
                Err(error) => return Err(io::Error::other(self.why_not(&error))),
            }
        }
        Ok(true)
    }

    /// Why a handshake failed, as far as the client let it be known.
    fn why_not(&self, error: &openssl::ssl::Error) -> String {
        let (keys, words) = (self.path.display(), in_words(error));
        match self.stream.ssl().ex_data(self.claim) {
            Some(Claim { user, is_known: false }) => {
                format!("TLS: expected a user of {keys}, found {user} ({words})")
            }
            Some(Claim { user, .. }) => {
                format!(
                    "TLS: user {user}: expected the key in {keys}, found another, or none of the two ends agree ({words})"
                )
            }
            None => format!(
                "TLS: expected a client with a user and key of {keys} (tls-psk-file=), found one without ({words})"
            ),
        }
    }
}

/// OpenSSL's reason without the places in its sources.
fn in_words(error: &openssl::ssl::Error) -> String {
    let stack = error.ssl_error().map(ErrorStack::errors).unwrap_or_default();
    let reason = stack.iter().find_map(openssl::error::Error::reason);
    match (reason, error.io_error()) {
        (Some(reason), _) => reason.to_owned(),
        (None, Some(error)) => error.to_string(),
        (None, None) => "the client left".to_owned(),
    }
}

impl Session for SharedKeySession {
    fn take_encrypted(&mut self, bytes: &[u8]) {
        let wire = self.stream.get_mut();
        wire.received.drain(..wire.fed);
        wire.fed = 0;
        wire.received.extend_from_slice(bytes);
    }

    fn pull(&mut self, target: &mut [u8]) -> io::Result<Pulled> {
        if !self.shake_hands()? {
            return Ok(Pulled::Starved);
        }
        if target.is_empty() {
            return Ok(Pulled::Bytes(0));
        }
        match self.stream.ssl_read(target) {
            Ok(len) => Ok(Pulled::Bytes(len)),
            Err(error) => match error.code() {
                ErrorCode::WANT_READ => Ok(Pulled::Starved),
                ErrorCode::ZERO_RETURN => Ok(Pulled::End),
                _ => Err(io::Error::other(format!("TLS: {}", in_words(&error)))),
            },
        }
    }

    fn push(&mut self, plain: &[IoSlice<'_>]) -> io::Result<usize> {
        if !self.shake_hands()? {
            return Ok(0);
        }
        let mut taken = 0;
        let mut slices = plain.iter();
        let mut rest: &[u8] = &[];
        while self.stream.get_ref().unsent_bytes() < UNSENT_BYTES_MAX {
            // A reply's header and the beginning of its data go into one record.
            self.scratch.clear();
            while self.scratch.len() < RECORD_BYTES {
                if rest.is_empty() {
                    let Some(next) = slices.next() else { break };
                    rest = next;
                }
                let (now, later) = rest.split_at(rest.len().min(RECORD_BYTES - self.scratch.len()));
                self.scratch.extend_from_slice(now);
                rest = later;
            }
            if self.scratch.is_empty() {
                break;
            }
            let written = self.stream.ssl_write(&self.scratch);
            taken +=
                written.map_err(|error| io::Error::other(format!("TLS: {}", in_words(&error))))?;
        }
        Ok(taken)
    }

    fn wants_send(&self) -> bool {
        self.stream.get_ref().unsent_bytes() > 0
    }

    fn send(&mut self, socket: &mut dyn Write) -> io::Result<usize> {
        self.stream.get_mut().send(socket)
    }

    fn close(&mut self) {
        // A handshake that is not over has no goodbye.
        let _ = self.stream.shutdown();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use openssl::ssl::HandshakeError;
    use std::os::unix::fs::PermissionsExt;

    fn sessions() -> SharedKeys {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("nearhead-shared-keys-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, format!("ann:{}\n", "5a".repeat(32))).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let sessions = SharedKeys::load(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        sessions
    }

    /// A client of OpenSSL's, as `set_up` makes it, with this key.
    fn client(
        key: [u8; 32],
        set_up: impl FnOnce(&mut SslContextBuilder),
    ) -> Result<SslStream<Wire>, HandshakeError<Wire>> {
        let mut builder = SslContextBuilder::new(SslMethod::tls_client()).unwrap();
        builder.set_psk_client_callback(move |_, _, user, target| {
            user[..4].copy_from_slice(b"ann\0");
            target[..32].copy_from_slice(&key);
            Ok(32)
        });
        set_up(&mut builder);
        Ssl::new(&builder.build()).unwrap().connect(Wire::default())
    }

    /// Lets a client and a server talk until one of them ends it.
    fn meet(
        set_up: impl FnOnce(&mut SslContextBuilder),
    ) -> Result<(SslStream<Wire>, TlsSession), String> {
        let mut server = sessions().begin().unwrap();
        let mut waiting = client([0x5a; 32], set_up);
        for _ in 0..10 {
            let mut open = match waiting {
                Ok(mut stream) => {
                    server.take_encrypted(&std::mem::take(&mut stream.get_mut().unsent));
                    assert_eq!(server.pull(&mut [0; 16]).unwrap(), Pulled::Starved);
                    return Ok((stream, server));
                }
                Err(HandshakeError::WouldBlock(stream)) => stream,
                Err(_) => return Err("the client gave up".to_owned()),
            };
            let wire = open.get_mut();
            server.take_encrypted(&std::mem::take(&mut wire.unsent));
            server.pull(&mut [0; 16]).map_err(|error| error.to_string())?;
            (wire.received, wire.fed) = (Vec::new(), 0);
            while server.wants_send() {
                server.send(&mut wire.received).unwrap();
            }
            waiting = open.handshake();
        }
        panic!("the handshake does not end");
    }

    #[test]
    fn both_versions_are_spoken_with_forward_secrecy_and_nothing_else() {
        let at_most = |version| {
            move |builder: &mut SslContextBuilder| {
                builder.set_max_proto_version(Some(version)).unwrap();
            }
        };
        let (open, _) = meet(at_most(SslVersion::TLS1_3)).unwrap();
        assert_eq!(open.ssl().version_str(), "TLSv1.3");
        let (open, _) = meet(at_most(SslVersion::TLS1_2)).unwrap();
        assert_eq!(open.ssl().version_str(), "TLSv1.2");
        let cipher = open.ssl().current_cipher().unwrap().name();
        assert!(cipher.starts_with("ECDHE-PSK-"), "{cipher}");
        let session = open.ssl().session().unwrap();
        assert!(session.id().is_empty(), "nothing is kept to resume it with");
        let the_other_way = |builder: &mut SslContextBuilder| {
            builder.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
            let ciphers: Vec<&str> = CIPHERS_12.split(':').rev().collect();
            builder.set_cipher_list(&ciphers.join(":")).unwrap();
        };
        let (open, _) = meet(the_other_way).unwrap();
        let cipher = open.ssl().current_cipher().unwrap().name();
        assert!(CIPHERS_12.starts_with(cipher), "the best that both have: {cipher}");
        let without = |builder: &mut SslContextBuilder| {
            builder.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
            builder.set_cipher_list("PSK-AES128-GCM-SHA256").unwrap();
        };
        assert!(meet(without).err().unwrap().contains("no shared cipher"));
    }

    #[test]
    fn bytes_go_both_ways_in_pieces_of_every_size_and_end_with_a_goodbye() {
        for step in [1, 99, 4096, 70_000] {
            let (mut open, mut server) = meet(|_| {}).unwrap();
            let plain: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8).collect();
            open.write_all(&plain).unwrap();
            assert_eq!(server.pull(&mut []).unwrap(), Pulled::Bytes(0), "no room is no end");
            let encrypted = std::mem::take(&mut open.get_mut().unsent);
            let (mut parts, mut found) = (encrypted.chunks(step), Vec::new());
            let mut target = vec![0; step];
            while found.len() < plain.len() {
                match server.pull(&mut target).unwrap() {
                    Pulled::Bytes(len) => found.extend_from_slice(&target[..len]),
                    Pulled::Starved => server.take_encrypted(parts.next().unwrap()),
                    Pulled::End => panic!("an end after {} bytes", found.len()),
                }
            }
            assert!(found == plain, "in steps of {step}");
            // The goodbye of either side.
            server.close();
            let mut sent = Vec::new();
            while server.wants_send() {
                server.send(&mut sent).unwrap();
            }
            assert!(!sent.is_empty());
            (open.get_mut().received, open.get_mut().fed) = (sent, 0);
            assert_eq!(open.read(&mut [0; 9]).unwrap(), 0, "an end that was announced");
            let _ = open.shutdown();
            server.take_encrypted(&std::mem::take(&mut open.get_mut().unsent));
            assert_eq!(server.pull(&mut target).unwrap(), Pulled::End);
        }
    }

    /// Takes at most so many bytes at once.
    struct Narrow(Vec<u8>, usize);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = bytes.len().min(self.1);
            self.0.extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_encrypted_leaves_whole_however_little_is_taken_and_records_are_full() {
        let (mut open, mut server) = meet(|_| {}).unwrap();
        let plain: Vec<u8> = (0..200_000_u32).map(|at| (at % 247) as u8).collect();
        let (mut taken, mut sent) = (0, Narrow(Vec::new(), 3001));
        while taken < plain.len() {
            let (one, other) = plain[taken..].split_at((plain.len() - taken).min(100));
            taken += server.push(&[IoSlice::new(one), IoSlice::new(other)]).unwrap();
            // Something waits at any time.
            for _ in 0..20 {
                server.send(&mut sent).unwrap();
            }
        }
        while server.wants_send() {
            server.send(&mut sent).unwrap();
        }
        let Narrow(encrypted, _) = sent;
        // RFC 8446, section 5.2: five bytes of header, one of type, sixteen of a tag.
        let records = plain.len().div_ceil(RECORD_BYTES);
        assert_eq!(encrypted.len(), plain.len() + 22 * records);
        (open.get_mut().received, open.get_mut().fed) = (encrypted, 0);
        let mut found = vec![0; plain.len()];
        open.read_exact(&mut found).unwrap();
        assert!(found == plain);
    }

    #[test]
    fn answers_that_nobody_reads_have_a_bound() {
        let mut wire = Wire::default();
        let record = vec![7; RECORD_BYTES];
        let mut written = 0;
        while wire.write(&record).is_ok() {
            written += record.len();
        }
        assert_eq!(written, ANSWERS_BYTES_MAX + RECORD_BYTES);
        wire.sent = RECORD_BYTES;
        assert!(wire.write(&record).is_ok(), "at the bound itself");
        assert!(wire.write(&record).is_err());
    }

    #[test]
    fn what_was_sent_does_not_pile_up_before_what_never_quite_is() {
        let mut wire = Wire::default();
        let piece = 10_007;
        let mut sent = Narrow(Vec::new(), piece);
        wire.write_all(&[7]).unwrap();
        for _ in 0..1000 {
            wire.write_all(&vec![7; piece]).unwrap();
            wire.send(&mut sent).unwrap();
            assert_eq!(wire.unsent_bytes(), 1);
            assert!(wire.unsent.len() <= UNSENT_BYTES_MAX + piece + 1);
        }
    }

    #[test]
    fn what_waits_to_be_sent_is_bounded_and_given_back() {
        let (mut open, mut server) = meet(|_| {}).unwrap();
        let plain = vec![7; 1 << 20];
        let taken = server.push(&[IoSlice::new(&plain)]).unwrap();
        assert!(
            (UNSENT_BYTES_MAX - RECORD_BYTES..=UNSENT_BYTES_MAX + RECORD_BYTES).contains(&taken)
        );
        assert_eq!(server.push(&[IoSlice::new(&plain)]).unwrap(), 0, "no more until it is sent");
        let mut sent = Vec::new();
        while server.wants_send() {
            server.send(&mut sent).unwrap();
        }
        (open.get_mut().received, open.get_mut().fed) = (sent, 0);
        let mut found = vec![0; taken];
        open.read_exact(&mut found).unwrap();
        assert!(found == plain[..taken]);
        assert!(server.push(&[IoSlice::new(&plain)]).unwrap() > 0);
    }
}
