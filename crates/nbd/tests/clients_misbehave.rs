//! Clients that idle, stall, leave, lie and flood: others are served, memory stays bounded, and
//! whoever can be answered is answered.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use nearhead_disk::Nanos;
use nearhead_nbd::protocol::constants::{command, errno, option, option_reply};
use nearhead_nbd::{Ending, Limits, Server, ServerError, SocketAccess};
use std::io::{Read, Write};
use support::client::request;
use support::{Bare, Builder, Directory, TestServer, pattern};

/// A whole conversation: write, read back.
fn serves(server: &TestServer, seed: u64) {
    let mut client = server.connect().go();
    let data = pattern(seed, 8192);
    client.request(command::WRITE, 1, 4096 * seed, 8192);
    client.send(&data);
    assert_eq!(client.reply(), (0, 1));
    client.request(command::READ, 2, 4096 * seed, 8192);
    assert_eq!(client.reply(), (0, 2));
    assert!(client.read(8192) == data);
    client.request(command::DISC, 3, 0, 0);
    assert!(client.is_closed());
}

#[test]
fn a_thousand_idle_clients_do_not_keep_others_from_being_served() {
    let server = TestServer::start();
    let idle: Vec<_> = (0..1_000)
        .map(|at| if at % 2 == 0 { server.connect().go() } else { server.connect() })
        .collect();
    server.await_count("open", 1_000);
    serves(&server, 1);
    drop(idle);
    server.await_count("open", 0);
}

#[test]
fn a_client_that_never_reads_its_replies_is_not_listened_to_and_harms_nobody() {
    let limits = Limits { client_bytes_max: 4 << 20, ..Limits::default() };
    let server = TestServer::start_with(|builder| builder.limits(limits), |bare| bare);
    let mut greedy = server.connect().go();
    greedy.stream.set_nonblocking(true).unwrap();
    let batch = request(command::READ, 7, 0, 65_536).repeat(100);
    let mut sent = 0;
    // Ends because the server stops reading: the socket's buffers are the only room left.
    while let Ok(len) = greedy.stream.write(&batch) {
        sent += len;
        assert!(sent < 64 << 20, "the server takes any number of requests");
    }
    serves(&server, 2);
    assert!(server.count("reads") < 200, "as many replies as the limits allow, no more");
    // It gets everything once it reads.
    greedy.stream.set_nonblocking(false).unwrap();
    for _ in 0..sent / 28 {
        assert_eq!(greedy.reply(), (0, 7));
        greedy.read(65_536);
    }
}

#[test]
fn a_client_may_leave_while_its_replies_are_pending() {
    let server = TestServer::start();
    server.command("hold");
    let mut leaving = server.connect().go();
    for cookie in 0..50 {
        leaving.request(command::READ, cookie, 0, 65_536);
    }
    server.await_count("reads", 50);
    drop(leaving);
    server.await_count("open", 0);
    server.command("release");
    serves(&server, 3);
    let report = server.stop();
    assert_eq!((report.ending, report.unanswered), (Ending::Graceful, 0));
}

#[test]
fn a_half_sent_request_is_dropped_with_its_client() {
    let server = TestServer::start();
    for cut in [1, 27, 28, 29, 5000] {
        let mut client = server.connect().go();
        let whole = [request(command::WRITE, 1, 0, 8192), vec![0xee; 8192]].concat();
        client.send(&whole[..cut]);
        drop(client);
    }
    server.await_count("open", 0);
    assert_eq!(server.count("writes"), 0);
    serves(&server, 4);
}

#[test]
fn a_client_that_stops_sending_still_gets_its_replies() {
    let server = TestServer::start();
    server.command("hold");
    let mut client = server.connect().go();
    client.request(command::READ, 9, 0, 4096);
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    server.await_count("reads", 1);
    server.command("release");
    assert_eq!(client.reply(), (0, 9));
    assert_eq!(client.read(4096), vec![0; 4096]);
    assert!(client.is_closed());
}

#[test]
fn bad_requests_are_refused_one_by_one() {
    let server = TestServer::start();
    let mut client = server.connect().go();
    let size = support::DISK_BYTES;
    let cases = [
        (command::READ, size, 512, errno::INVAL),
        (command::READ, 0, u32::MAX, errno::INVAL),
        (command::READ, u64::MAX, 1, errno::INVAL),
        (command::TRIM, size - 512, 1024, errno::INVAL),
        (command::WRITE_ZEROES, size, 512, errno::NOSPC),
        (command::BLOCK_STATUS, 0, 512, errno::INVAL),
        (99, 0, 512, errno::INVAL),
        (command::READ, 0, 0, errno::INVAL),
    ];
    for (cookie, (kind, offset, len, expected)) in (0..).zip(cases) {
        client.request(kind, cookie, offset, len);
        assert_eq!(client.reply(), (expected, cookie), "type {kind} at {offset}+{len}");
    }
    client.request(command::WRITE, 50, size, 4096);
    client.send(&[1; 4096]);
    assert_eq!(client.reply(), (errno::NOSPC, 50));
    client.request(command::FLUSH, 51, 0, 0);
    assert_eq!(client.reply(), (0, 51));
    client.send(&[0; 28]);
    assert!(client.is_closed(), "a lost stream is the end");
    serves(&server, 5);
}

#[test]
fn a_large_write_that_is_refused_is_taken_in_first_and_its_client_lives_on() {
    let read_only = TestServer::start_with(|builder| builder, Bare::read_only);
    let whole = TestServer::start_with(Builder::whole_blocks, |bare| bare);
    let server = TestServer::start();
    let size = support::DISK_BYTES;
    // More than sockets hold, so that an answer ahead of it would be read in the middle of it.
    let (large, too_large) = (8 << 20, 40 << 20);
    let cases = [
        (&server, 0, size - 512, large, errno::NOSPC),
        (&server, 0, 0, too_large, errno::INVAL),
        (&server, 1 << 6, 0, large, errno::INVAL),
        (&read_only, 0, 0, large, errno::PERM),
        (&whole, 0, 1, large, errno::INVAL),
    ];
    for (cookie, (server, flags, offset, len, expected)) in (0..).zip(cases) {
        let mut client = server.connect().go();
        let mut header = request(command::WRITE, cookie, offset, len);
        header[4..6].copy_from_slice(&u16::to_be_bytes(flags));
        client.send(&header);
        let half = vec![7; len as usize / 2];
        client.send(&half);
        // Half a payload is there, and no answer.
        client.stream.set_nonblocking(true).unwrap();
        let early = client.stream.read(&mut [0; 16]).map_err(|error| error.kind());
        assert_eq!(early, Err(std::io::ErrorKind::WouldBlock), "an answer ahead of the payload");
        client.stream.set_nonblocking(false).unwrap();
        client.send(&half);
        assert_eq!(client.reply(), (expected, cookie), "{len} bytes at {offset}");
        client.request(command::READ, 99, 0, 512);
        assert_eq!(client.reply(), (0, 99));
        assert_eq!(client.read(512), [0; 512], "nothing of it was written");
    }
}

#[test]
fn a_refused_write_too_large_to_take_in_is_answered_before_the_end() {
    let server = TestServer::start();
    let mut client = server.connect().go();
    client.request(command::WRITE, 5, 0, (64 << 20) + 1);
    assert_eq!(client.reply(), (errno::INVAL, 5));
    assert!(client.is_closed());
    serves(&server, 10);
}

/// Waits until the server hangs up on a client, whatever it said before.
fn await_end(client: &mut support::client::Client) {
    // An error is an end too: of what the client sent, something was not read.
    let _ = client.stream.read_to_end(&mut Vec::new());
}

#[test]
fn handshakes_that_do_not_end_are_let_go_and_counted() {
    let limits = Limits { handshake_max: Nanos::from_millis(1), ..Limits::default() };
    let server = TestServer::start_with(|builder| builder.limits(limits), |bare| bare);
    let mut silent: Vec<_> = (0..3).map(|_| server.connect()).collect();
    let mut slow = server.connect();
    slow.greet();
    // An option that never ends.
    slow.send(b"IHAVEOPT\0\0\0\x07\0\0\0\x06half");
    for client in silent.iter_mut().chain([&mut slow]) {
        await_end(client);
    }
    server.await_count("unfinished", 4);
    server.await_count("open", 0);
}

#[test]
fn handshakes_that_do_not_end_make_room_for_those_that_do() {
    let limits = Limits { connections_max: 3, handshake_yields: Nanos::ZERO, ..Limits::default() };
    let server = TestServer::start_with(|builder| builder.limits(limits), |bare| bare);
    let mut first = server.connect().go();
    let mut loris: Vec<_> = (0..2).map(|_| server.connect()).collect();
    server.await_count("open", 3);
    let mut third = server.connect().go();
    // The oldest one goes.
    await_end(&mut loris[0]);
    let mut fourth = server.connect().go();
    await_end(&mut loris[1]);
    for client in [&mut first, &mut third, &mut fourth] {
        client.request(command::READ, 1, 0, 512);
        assert_eq!(client.reply(), (0, 1));
        client.read(512);
    }
    assert_eq!((server.count("unfinished"), server.count("refused")), (2, 0));
    // Nobody is left that could go.
    let mut fifth = server.connect();
    fifth.greet();
    fifth.option(option::GO, &[0; 6]);
    assert_eq!(fifth.option_reply().0, option_reply::ERR_POLICY);
}

#[test]
fn a_unix_socket_belongs_to_whom_it_is_given_from_its_first_moment() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let directory = Directory::new();
    let own = std::fs::metadata(directory.path(".")).unwrap().gid();
    // Only root may give a file to a group that it is not in.
    let group = if own == 0 { 12_345 } else { own };
    // What the umask leaves, if nothing is said.
    let usual = directory.path("usual");
    let _usual = std::os::unix::net::UnixListener::bind(&usual).unwrap();
    let usual = std::fs::metadata(&usual).unwrap().permissions().mode() & 0o777;
    let cases = [
        (None, None, usual),
        (Some(0o660), Some(group), 0o660),
        (None, Some(group), 0o660),
        (Some(0o600), None, 0o600),
        (Some(0o666), None, 0o666),
    ];
    for (mode, group, expected) in cases {
        let path = directory.path("socket");
        let access = SocketAccess { mode, group };
        let listening = Server::<Bare>::builder().listen_unix_for(&path, access).unwrap();
        let found = std::fs::metadata(&path).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, expected);
        assert_eq!(found.gid(), group.unwrap_or(own));
        drop(listening);
        assert!(!path.exists());
    }
}

#[test]
fn a_full_server_says_so_and_serves_again_when_somebody_leaves() {
    let limits = Limits { connections_max: 2, ..Limits::default() };
    let server = TestServer::start_with(|builder| builder.limits(limits), |bare| bare);
    let first = server.connect().go();
    let _second = server.connect().go();
    let mut third = server.connect();
    third.greet();
    third.option(option::GO, &[0; 6]);
    let (kind, words) = third.option_reply();
    assert_eq!(kind, option_reply::ERR_POLICY);
    assert!(String::from_utf8(words).unwrap().contains("all 2 connections"));
    assert!(third.is_closed());
    assert_eq!(server.count("refused"), 1);
    drop(first);
    server.await_count("open", 1);
    serves(&server, 6);
}

#[test]
fn clients_that_hold_memory_and_do_nothing_are_cut_off_when_others_need_it() {
    let limits = Limits {
        bytes_max: 0, // The least there is: three requests of the largest size.
        client_bytes_max: 64 << 20,
        stall_max: Nanos::ZERO,
        ..Limits::default()
    };
    let server = TestServer::start_with(|builder| builder.limits(limits), |bare| bare);
    let largest = 32 << 20;
    let mut hoarders: Vec<_> = (0..3).map(|_| server.connect().go()).collect();
    for hoarder in &mut hoarders {
        hoarder.request(command::WRITE, 1, 0, largest);
        hoarder.send(&[1; 100]);
    }
    let mut needy = server.connect().go();
    needy.request(command::READ, 2, 0, 1 << 20);
    assert_eq!(needy.reply(), (0, 2));
    assert!(server.count("stalled") >= 1);
}

#[test]
fn a_flood_of_options_does_not_pile_up_replies() {
    let server = TestServer::start();
    let mut flooding = server.connect();
    flooding.greet();
    flooding.stream.set_nonblocking(true).unwrap();
    let mut batch = Vec::new();
    for _ in 0..1000 {
        batch.extend_from_slice(b"IHAVEOPT");
        batch.extend_from_slice(&[0, 0, 0, 3, 0, 0, 0, 0]);
    }
    let mut sent = 0;
    while let Ok(len) = flooding.stream.write(&batch) {
        sent += len;
        assert!(sent < 16 << 20, "the server answers without being read");
    }
    serves(&server, 7);
}

#[test]
fn many_clients_at_once_are_all_answered() {
    let server = TestServer::start();
    std::thread::scope(|scope| {
        for client in 0..16 {
            let server = &server;
            scope.spawn(move || (0..20).for_each(|round| serves(server, client * 32 + round)));
        }
    });
    let report = server.stop();
    assert_eq!(report.statistics.writes, 320);
    assert_eq!(report.statistics.read_bytes, 320 * 8192);
}

#[test]
fn a_graceful_stop_answers_what_is_in_flight_first() {
    let server = TestServer::start();
    server.command("hold");
    let mut client = server.connect().go();
    client.request(command::WRITE, 1, 0, 4096);
    client.send(&[1; 4096]);
    server.await_count("writes", 1);
    server.shutdown.request();
    // New clients are refused from now on; the control socket still answers.
    while std::os::unix::net::UnixStream::connect(server.socket()).is_ok() {}
    client.request(command::READ, 2, 0, 4096);
    assert_eq!(client.reply(), (errno::SHUTDOWN, 2));
    server.command("release");
    assert_eq!(client.reply(), (0, 1));
    assert!(client.is_closed());
    assert!(!server.socket().exists());
    let report = server.join();
    assert_eq!((report.ending, report.unanswered), (Ending::Graceful, 0));
}

#[test]
fn a_stop_that_takes_too_long_or_is_asked_for_twice_ends_at_once() {
    for twice in [false, true] {
        let shutdown_max = if twice { Nanos::from_secs(3600) } else { Nanos::from_millis(1) };
        let limits = Limits { shutdown_max, ..Limits::default() };
        let server = TestServer::start_with(|builder| builder.limits(limits), |bare| bare);
        server.command("hold");
        let mut client = server.connect().go();
        client.request(command::READ, 1, 0, 4096);
        server.await_count("reads", 1);
        server.shutdown.request();
        if twice {
            server.shutdown.request();
        }
        let report = server.join();
        assert_eq!(report.ending, if twice { Ending::Forced } else { Ending::TimedOut });
        assert_eq!(report.unanswered, 1);
        assert!(client.is_closed());
    }
}

#[test]
fn a_socket_in_use_is_refused_and_a_stale_one_replaced() {
    let server = TestServer::start();
    let listen = |path| Server::<Bare>::builder().listen_unix(path).map(drop);
    let error = listen(server.socket()).unwrap_err();
    assert!(matches!(error, ServerError::SocketInUse { .. }), "{error}");
    serves(&server, 8);
    let directory = Directory::new();
    let stale = directory.path("stale");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    listen(stale.clone()).unwrap();
    assert!(!stale.exists(), "the path goes away with the listener");
    let file = directory.path("file");
    support::write_file(&file, b"precious");
    let error = listen(file.clone()).unwrap_err();
    assert!(matches!(error, ServerError::NotASocket { .. }), "{error}");
    assert_eq!(std::fs::read(file).unwrap(), b"precious");
    // Somebody listens there, though not to clients of this kind.
    let datagrams = directory.path("datagrams");
    let _listening = std::os::unix::net::UnixDatagram::bind(&datagrams).unwrap();
    let error = listen(datagrams.clone()).unwrap_err();
    assert!(matches!(error, ServerError::SocketInUse { .. }), "{error}");
    assert!(datagrams.exists());
}

#[test]
fn a_path_that_became_somebody_elses_is_left_alone() {
    let directory = Directory::new();
    let path = directory.path("socket");
    let listening = Server::<Bare>::builder().listen_unix(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _other = std::os::unix::net::UnixListener::bind(&path).unwrap();
    drop(listening);
    assert!(path.exists(), "another server's socket was removed");
}

#[test]
fn a_graceful_stop_sends_every_answer_before_it_ends() {
    let server = TestServer::start();
    let mut client = server.connect().go();
    // More than sockets hold.
    let (count, len) = (32, 256 << 10);
    for cookie in 0..count {
        client.request(command::READ, cookie, 0, len);
    }
    server.await_count("reads", count);
    server.shutdown.request();
    while std::os::unix::net::UnixStream::connect(server.socket()).is_ok() {}
    for cookie in 0..count {
        assert_eq!(client.reply(), (0, cookie));
        client.read(len as usize);
    }
    assert!(client.is_closed());
    let report = server.join();
    assert_eq!((report.ending, report.statistics.connections_open), (Ending::Graceful, 0));
}

#[test]
fn zeros_without_holes_are_written_whole() {
    let server = TestServer::start();
    let mut client = server.connect().go();
    client.request(command::WRITE, 1, 0, 1 << 20);
    client.send(&pattern(1, 1 << 20));
    assert_eq!(client.reply(), (0, 1));
    // NO_HOLE is flag 2, in the low byte of the flags.
    let mut zeros = request(command::WRITE_ZEROES, 2, 4096, 20 << 20);
    zeros[5] = 2;
    client.send(&zeros);
    assert_eq!(client.reply(), (0, 2));
    client.request(command::READ, 3, 0, 8192);
    assert_eq!(client.reply(), (0, 3));
    let read = client.read(8192);
    assert!(read[..4096] == pattern(1, 4096)[..]);
    assert!(read[4096..].iter().all(|byte| *byte == 0));
}

#[test]
fn control_commands_are_answered_line_by_line() {
    let server = TestServer::start();
    let path = server.directory.path("control");
    let mut stream = std::os::unix::net::UnixStream::connect(path).unwrap();
    stream.write_all(b"open\n\nnonsense\nrefused").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers, "0\nerror: unknown command nonsense\n0\n");
    let mut long = std::os::unix::net::UnixStream::connect(server.directory.path("control"));
    let long = long.as_mut().unwrap();
    // The server may hang up before it has taken everything.
    let _ = long.write_all(&vec![b'x'; 1 << 20]);
    let mut answer = String::new();
    let _ = long.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.contains("at most 65536 bytes"), "{answer}");
    serves(&server, 9);
}
