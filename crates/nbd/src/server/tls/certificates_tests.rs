//! A session with a client of the same library, in pieces of every size, from the first byte to the goodbye.

use super::*;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use std::sync::atomic::{AtomicU32, Ordering};

/// A file that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(content: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nearhead-nbd-{}-pem-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A server's session and a client that trusts it, before the first byte.
fn pair() -> (TlsSession, ClientConnection) {
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let (pem, key) = (Scratch::new(&certificate.pem()), Scratch::new(&key.serialize_pem()));
    let files = TlsFiles { certificate: pem.0.clone(), key: key.0.clone(), client_authority: None };
    let session = files.load().unwrap().begin().unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificates(&pem.0).unwrap().remove(0)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    (session, ClientConnection::new(Arc::new(config), name).unwrap())
}

/// Takes what the server has to send to the client: how much that was, and the plain bytes in it.
fn to_client(session: &mut TlsSession, client: &mut ClientConnection) -> (usize, Vec<u8>) {
    let (mut bytes, mut plain) = (Vec::new(), Vec::new());
    while session.wants_send() {
        let before = bytes.len();
        let sent = session.send(&mut bytes).unwrap();
        assert!(sent > 0 && bytes.len() == before + sent, "{sent}");
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        client.read_tls(&mut rest).unwrap();
        let len = client.process_new_packets().unwrap().plaintext_bytes_to_read();
        let before = plain.len();
        plain.resize(before + len, 0);
        client.reader().read_exact(&mut plain[before..]).unwrap();
    }
    (bytes.len(), plain)
}

/// Takes what the client has to send to the server, `step` bytes at a time; the plain bytes in it, and whether that
/// was the end.
fn to_server(
    session: &mut TlsSession,
    client: &mut ClientConnection,
    step: usize,
) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    let mut parts = bytes.chunks(step);
    let (mut plain, mut target) = (Vec::new(), vec![0; step]);
    loop {
        match session.pull(&mut target).unwrap() {
            Pulled::Bytes(len) => plain.extend_from_slice(&target[..len]),
            Pulled::End => return (plain, true),
            Pulled::Starved => match parts.next() {
                Some(part) => session.take_encrypted(part),
                None => return (plain, false),
            },
        }
    }
}

fn shake_hands(session: &mut TlsSession, client: &mut ClientConnection, step: usize) {
    for _ in 0..5 {
        to_server(session, client, step);
        to_client(session, client);
    }
    assert!(!client.is_handshaking() && !session.wants_send());
}

#[test]
fn bytes_go_both_ways_in_pieces_of_every_size() {
    let plain: Vec<u8> = (0..300_000_u32).map(|at| (at % 253) as u8).collect();
    for step in [1, 77, 4096, 100_000] {
        let (mut session, mut client) = pair();
        shake_hands(&mut session, &mut client, step);
        let (mut sent, mut found) = (0, Vec::new());
        let last = if step == 1 { 2000 } else { plain.len() };
        while sent < last {
            sent += client.writer().write(&plain[sent..last]).unwrap();
            let (more, is_end) = to_server(&mut session, &mut client, step);
            assert!(!is_end);
            found.extend(more);
        }
        assert!(found == plain[..last], "to the server in steps of {step}");
        assert_eq!(session.pull(&mut []).unwrap(), Pulled::Bytes(0), "no room is no end");
        assert_eq!(session.pull(&mut [0; 9]).unwrap(), Pulled::Starved);

        let (mut taken, mut found) = (0, Vec::new());
        while found.len() < plain.len() {
            let rest = &plain[taken..];
            let (one, other) = rest.split_at(rest.len() / 2);
            let now = session.push(&[IoSlice::new(one), IoSlice::new(other)]).unwrap();
            assert_eq!(session.wants_send(), now > 0);
            taken += now;
            let (encrypted, more) = to_client(&mut session, &mut client);
            assert!((now..=UNSENT_BYTES_MAX + 32 * 1024).contains(&encrypted), "{encrypted}");
            found.extend(more);
        }
        assert!(found == plain, "to the client");
    }
}

#[test]
fn each_side_hears_the_others_goodbye() {
    let (mut session, mut client) = pair();
    shake_hands(&mut session, &mut client, 1000);
    assert!(!session.wants_send());
    session.close();
    assert!(session.wants_send());
    to_client(&mut session, &mut client);
    assert_eq!(client.reader().read(&mut [0; 9]).unwrap(), 0, "an end that was announced");
    client.send_close_notify();
    assert_eq!(to_server(&mut session, &mut client, 1000), (Vec::new(), true));
}

#[test]
fn bytes_that_are_no_tls_end_the_session_with_words() {
    let (mut session, _) = pair();
    assert_eq!(session.pull(&mut [0; 9]).unwrap(), Pulled::Starved);
    session.take_encrypted(&[0xff; 100]);
    assert!(session.pull(&mut [0; 9]).is_err());
}

#[test]
fn a_file_without_certificates_is_named_and_causes_have_no_names_of_types() {
    let empty = Scratch::new("nothing that is one\n");
    let error = certificates(&empty.0).unwrap_err().to_string();
    assert!(error.contains("expected certificates, found none"), "{error}");
    assert!(error.contains(&empty.0.display().to_string()), "{error}");
    let plain = rustls::Error::DecryptError;
    assert_eq!(in_words(&plain), plain.to_string());
    let other = rustls::Error::General("a: Other(OtherError(b c))".to_owned());
    assert!(in_words(&other).ends_with("a: b c"), "{}", in_words(&other));
    let old = rustls::Error::General("UnsupportedCertVersion".to_owned());
    assert!(in_words(&old).contains("version 3"), "{}", in_words(&old));
}
