//! Keys shared beforehand: who comes in, who does not and what is said of that, by real clients (GnuTLS in libnbd).

#![cfg(feature = "psk")]
#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use nearhead_disk::Nanos;
use nearhead_nbd::protocol::constants::{option, option_reply};
use nearhead_nbd::{Limits, TlsKeys, TlsMode};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use support::{DISK_BYTES, Directory, TestServer, pattern, run, run_failing, tool, write_file};

const ALICE: &str = "alice:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";
const OTHER_ALICE: &str =
    "alice:ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";
const BOB: &str = "bob:0123456789abcdef0123456789abcdef\n";

/// A file of keys that nobody else can read.
fn keys(directory: &Directory, name: &str, text: &str) -> PathBuf {
    let path = directory.path(name);
    write_file(&path, text.as_bytes());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// A server that knows alice and bob, and what it told people.
fn server(mode: TlsMode, limits: Limits) -> (TestServer, Directory, Receiver<String>) {
    let directory = Directory::new();
    let path = keys(&directory, "server.psk", &format!("{ALICE}\n{BOB}"));
    let (sender, notices) = channel();
    let set_up = move |builder: support::Builder| {
        let builder = builder.listen_tcp("127.0.0.1:0").unwrap().limits(limits);
        // A test that failed does not listen any more.
        let told = move |line: &str| drop(sender.send(line.to_owned()));
        builder.tls(mode, TlsKeys::Shared(path)).notices(told)
    };
    (TestServer::start_with(set_up, |bare| bare), directory, notices)
}

fn uri(server: &TestServer, user: &str, keys: &Path) -> String {
    let socket = server.socket();
    format!("nbds+unix://{user}@/?socket={}&tls-psk-file={}", socket.display(), keys.display())
}

fn tcp_uri(server: &TestServer, user: &str, keys: &Path) -> String {
    format!("nbds://{user}@{}/?tls-psk-file={}", server.addresses[0], keys.display())
}

/// A tool whose GnuTLS speaks TLS 1.2 at most.
fn with_tls_12(command: &mut Command, directory: &Directory) {
    let path = directory.path("tls12");
    write_file(&path, b"[overrides]\ndisabled-version = tls1.3\n");
    command.env("GNUTLS_SYSTEM_PRIORITY_FILE", path);
}

#[test]
fn a_client_with_the_key_copies_everything_both_ways_in_both_versions_of_tls() {
    let Some(_) = tool("nbdcopy", "libnbd-bin") else { return };
    let (server, directory, _notices) = server(TlsMode::Required, Limits::default());
    let alice = keys(&directory, "alice.psk", ALICE);
    let bob = keys(&directory, "bob.psk", BOB);
    let (there, back) = (directory.path("there"), directory.path("back"));
    for (seed, old, uri) in [
        (1, false, uri(&server, "alice", &alice)),
        (2, true, uri(&server, "alice", &alice)),
        (3, false, tcp_uri(&server, "bob", &bob)),
        (4, true, tcp_uri(&server, "bob", &bob)),
    ] {
        let bytes = pattern(seed, DISK_BYTES as usize);
        write_file(&there, &bytes);
        for (from, to) in [(there.as_os_str(), uri.as_ref()), (uri.as_ref(), back.as_os_str())] {
            let mut nbdcopy = Command::new("nbdcopy");
            if old {
                with_tls_12(&mut nbdcopy, &directory);
            }
            run(nbdcopy.arg(from).arg(to));
        }
        assert!(std::fs::read(&back).unwrap() == bytes, "the copy of {uri} differs");
    }
}

#[test]
fn a_file_that_psktool_made_serves_both_sides() {
    let Some(mut psktool) = tool("psktool", "gnutls-bin") else { return };
    let Some(mut nbdinfo) = tool("nbdinfo", "libnbd-bin") else { return };
    let directory = Directory::new();
    let path = directory.path("keys.psk");
    for user in ["carol", "dave"] {
        run(tool("psktool", "").unwrap().args(["-u", user, "-p"]).arg(&path));
    }
    run(psktool.args(["-u", "carol", "-s", "64", "-p"]).arg(&path));
    let shared = TlsKeys::Shared(path.clone());
    let server =
        TestServer::start_with(|builder| builder.tls(TlsMode::Required, shared), |bare| bare);
    for user in ["carol", "dave"] {
        let info = run(Command::new("nbdinfo").arg(uri(&server, user, &path)));
        assert!(info.contains("newstyle-fixed with TLS"), "{info}");
    }
    run_failing(nbdinfo.arg(uri(&server, "erin", &path)));
}

#[test]
fn a_wrong_key_and_an_unknown_user_look_alike_to_clients_and_are_told_apart_to_people() {
    let Some(_) = tool("nbdinfo", "libnbd-bin") else { return };
    let (server, directory, notices) = server(TlsMode::Required, Limits::default());
    let other = keys(&directory, "other.psk", &format!("{OTHER_ALICE}mallory:{}", &ALICE[6..]));
    for old in [false, true] {
        let mut said = Vec::new();
        for (user, expected) in [
            ("alice", "user \"alice\": expected the key in "),
            ("mallory", "server.psk, found \"mallory\""),
        ] {
            let mut nbdinfo = Command::new("nbdinfo");
            if old {
                with_tls_12(&mut nbdinfo, &directory);
            }
            said.push(run_failing(nbdinfo.arg(uri(&server, user, &other))).replace(user, "USER"));
            let notice = notices.recv().unwrap();
            assert!(notice.contains(expected), "{notice}");
            let is_safe = |line: &String| !line.contains("223344") && !line.contains('\n');
            assert!(is_safe(&notice), "{notice}");
        }
        assert_eq!(said[0], said[1]);
    }
    server.await_count("open", 0);
}

#[test]
fn only_who_must_not_encrypt_comes_without() {
    let Some(_) = tool("nbdinfo", "libnbd-bin") else { return };
    let (strict, directory, _notices) = server(TlsMode::Required, Limits::default());
    let said = run_failing(Command::new("nbdinfo").arg(strict.uri("")));
    assert!(said.contains("TLS"), "{said}");
    let (lenient, _keys, notices) = server(TlsMode::Optional, Limits::default());
    run(Command::new("nbdinfo").arg(lenient.uri("")));
    let alice = keys(&directory, "alice.psk", ALICE);
    let info = run(Command::new("nbdinfo").arg(uri(&lenient, "alice", &alice)));
    assert!(info.contains("newstyle-fixed with TLS"), "{info}");
    // A client that trusts certificates has no key to show.
    let port = lenient.addresses[0].port();
    run_failing(Command::new("nbdinfo").arg(format!("nbds://localhost:{port}/")));
    let notice = notices.recv().unwrap();
    assert!(notice.contains("expected a client with a user and key of"), "{notice}");
}

#[test]
fn a_handshake_that_stalls_ends_in_its_time_whatever_was_sent_of_it() {
    let limits = Limits { handshake_max: Nanos::from_millis(200), ..Limits::default() };
    let (server, _directory, notices) = server(TlsMode::Required, limits);
    for bytes in [&[][..], &[22, 3, 1, 0, 200, 1, 0], &[22, 3, 1]] {
        let mut client = server.connect();
        client.greet();
        client.option(option::STARTTLS, &[]);
        assert_eq!(client.option_reply().0, option_reply::ACK);
        client.send(bytes);
        assert!(client.is_closed());
        let notice = notices.recv().unwrap();
        assert!(notice.contains("handshake did not end within 0.2 s"), "{notice}");
    }
    // What is no TLS at all is not waited for.
    let mut client = server.connect();
    client.greet();
    client.option(option::STARTTLS, &[]);
    assert_eq!(client.option_reply().0, option_reply::ACK);
    client.send(&[b'x'; 100]);
    assert!(client.is_closed());
    assert!(notices.recv().unwrap().contains("TLS: expected a client with a user and key"));
    server.await_count("open", 0);
}

/// Connects again and again; every third time as somebody who is not let in.
const RECONNECTS: &str = "
import nbd, sys
uri, bad, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
refused = 0
for turn in range(count):
    client = nbd.NBD()
    client.set_uri_allow_local_file(True)
    try:
        client.connect_uri(bad if turn % 3 == 2 else uri)
    except nbd.Error:
        refused += 1
        continue
    assert client.get_tls_negotiated()
    client.pwrite(bytes([turn % 256]) * 4096, 4096 * turn)
    assert client.pread(4096, 4096 * turn) == bytes([turn % 256]) * 4096
    if turn % 2:
        client.shutdown()
print(refused)
";

#[test]
fn clients_come_and_go_many_times_and_leave_nothing_behind() {
    let python = Path::new("/usr/bin/python3");
    let has_module = Command::new(python).args(["-c", "import nbd"]).output();
    if !has_module.is_ok_and(|output| output.status.success()) {
        println!("skipped: Python's module nbd is not installed (apt-get install python3-libnbd)");
        return;
    }
    let (server, directory, notices) = server(TlsMode::Required, Limits::default());
    let alice = keys(&directory, "alice.psk", ALICE);
    let other = keys(&directory, "other.psk", OTHER_ALICE);
    let uris = [uri(&server, "alice", &alice), uri(&server, "alice", &other)];
    let said = run(Command::new(python).args(["-c", RECONNECTS]).args(uris).arg("150"));
    assert_eq!(said.trim(), "50");
    server.await_count("open", 0);
    assert_eq!(notices.try_iter().count(), 50);
    assert_eq!(server.count("unfinished"), 0);
}

#[test]
fn a_file_of_keys_that_cannot_be_used_is_named_and_none_of_its_keys() {
    let directory = Directory::new();
    let builder = || support::Builder::default().listen_unix(directory.path("socket")).unwrap();
    let refusal = |path: &Path| {
        let built = builder().tls(TlsMode::Required, TlsKeys::Shared(path.to_owned())).build();
        built.err().unwrap().to_string()
    };
    let broken = keys(&directory, "broken.psk", &format!("{BOB}{}", &ALICE[6..]));
    let error = refusal(&broken);
    assert!(error.contains("broken.psk: line 2: expected USER:HEXKEY, found no colon"), "{error}");
    assert!(!error.contains("2233"), "{error}");
    let error = refusal(&directory.path("missing.psk"));
    assert!(error.contains("missing.psk: expected a file of users and keys: No such"), "{error}");
    std::fs::set_permissions(directory.path("."), std::fs::Permissions::from_mode(0o700)).unwrap();
    let error = refusal(&directory.path("."));
    assert!(
        error.contains("expected a file of users and keys") && error.contains("directory"),
        "{error}"
    );
    let large = keys(&directory, "large.psk", &"\n".repeat((1 << 20) + 1));
    assert!(refusal(&large).contains("at most 1048576 bytes of keys, found more"));
    let open = keys(&directory, "open.psk", BOB);
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = refusal(&open);
    assert!(error.contains("open.psk: ") && error.contains("found mode 0644"), "{error}");
    assert!(error.contains("chmod o= ") && !error.contains("0123"), "{error}");
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o640)).unwrap();
    builder().tls(TlsMode::Required, TlsKeys::Shared(open)).build().map(drop).unwrap();
}
