//! A server's own life: what it refuses to start with and in which words, sockets that it is handed, ticks,
//! how it is told to stop, and what it does when descriptors run out.
//!
//! Descriptors handed over and limits of a process need a process of their own: those tests run this program
//! once more, with [`CHILD`] set.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use nearhead_disk::Nanos;
use nearhead_nbd::protocol::ExportError;
use nearhead_nbd::protocol::constants::command;
use nearhead_nbd::{
    Clock, Ending, Limits, Report, Server, ServerError, ShutdownHandle, Statistics,
};
use nearhead_volume::BareDisk;
use std::error::Error as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use support::client::Client;
use support::memory_disk::MemoryDisk;
use support::{Bare, Builder, DISK_BYTES, Directory, TestServer};

/// Set to the control socket's path where this program runs as the child of a test.
const CHILD: &str = "NEARHEAD_TEST_CHILD";

fn io_error() -> std::io::Error {
    std::io::Error::other("no luck")
}

#[test]
fn a_server_that_cannot_start_says_where_why_and_what_to_do() {
    let path = Path::new("/some/socket").to_owned();
    let export = ExportError { problem: "smallest block: expected a power of two".to_owned() };
    let cases = [
        (ServerError::SocketInUse { path: path.clone() }, "/some/socket: another server answers"),
        (
            ServerError::NotASocket { path: path.clone() },
            "/some/socket: expected nothing or an old",
        ),
        (
            ServerError::Listen { address: "[::]:1".to_owned(), source: io_error() },
            "listen on [::]:1: no luck",
        ),
        (
            ServerError::Activation { problem: "found none".to_owned() },
            "socket activation: found none",
        ),
        (ServerError::NothingToListenOn, "give a Unix path or a TCP address"),
        (
            ServerError::Tls { path, problem: "expected a certificate".to_owned() },
            "TLS: /some/socket: expected a certificate",
        ),
        (ServerError::from(export), "export: smallest block: expected a power of two"),
        (
            ServerError::EventLoop { step: "epoll_ctl", source: io_error() },
            "event loop: epoll_ctl: no luck",
        ),
    ];
    for (error, words) in cases {
        assert!(error.to_string().contains(words), "expected `{words}` in: {error}");
        let source = error.source().map(ToString::to_string);
        if let Some(source) = &source {
            assert!(error.to_string().ends_with(source), "{error} hides {source}");
        }
        let has_cause = matches!(
            error,
            ServerError::Listen { .. } | ServerError::EventLoop { .. } | ServerError::Export(_)
        );
        assert_eq!(source.is_some(), has_cause, "{error}");
    }
}

fn refused(builder: Result<Builder, ServerError>) -> ServerError {
    builder.and_then(nearhead_nbd::ServerBuilder::build).err().expect("nothing to serve on")
}

#[test]
fn without_a_socket_no_server_starts() {
    assert!(matches!(refused(Ok(Server::builder())), ServerError::NothingToListenOn));
    let error = refused(Server::builder().listen_tcp("127.0.0.1:x"));
    assert!(error.to_string().starts_with("listen on 127.0.0.1:x: "), "{error}");
    let missing = Directory::new().path("no/such/directory/socket");
    let error = refused(Server::builder().listen_unix(&missing));
    assert!(error.to_string().contains("no/such/directory/socket"), "{error}");
    // Nobody hands anything to the program that runs the tests.
    let error = refused(Server::builder().listen_activated());
    assert!(error.to_string().contains("found none for this process"), "{error}");
}

#[test]
fn requests_are_the_sum_of_their_kinds() {
    let counted = Statistics {
        reads: 1,
        writes: 20,
        flushes: 300,
        trims: 4_000,
        write_zeroes: 50_000,
        other_requests: 600_000,
        errors: 9_000_000,
        connections_open: 9_000_000,
        ..Statistics::default()
    };
    assert_eq!(counted.requests(), 654_321);
}

#[test]
fn a_clock_can_have_started_before_the_server() {
    let before = Instant::now();
    let (late, early) = (Clock::start(), Clock::since(before));
    // Asked for in this order the early one is ahead, however long anything takes.
    let behind = late.now();
    assert!(early.now() >= behind);
}

/// Serves what `set_up` makes of a builder until somebody asks the control socket to `stop`; it answers
/// `notices` with how many there were.
fn serve_until_told(control: &Path, set_up: impl FnOnce(Builder) -> Builder) -> Report {
    let (handle, notices) = (Arc::new(OnceLock::<ShutdownHandle>::new()), Arc::default());
    let (stop, heard): (_, Arc<Mutex<Vec<String>>>) = (handle.clone(), notices);
    let written = heard.clone();
    let builder = Server::builder()
        .notices(move |notice| written.lock().unwrap().push(notice.to_owned()))
        .control(control, move |line, _| match line {
            "stop" => {
                stop.get().unwrap().request();
                "ok".to_owned()
            }
            _ => heard.lock().unwrap().join("; "),
        })
        .unwrap();
    let server = set_up(builder).build().unwrap();
    assert!(handle.set(server.shutdown_handle()).is_ok());
    server.run(&mut BareDisk::new(MemoryDisk::new(DISK_BYTES)), &Clock::start()).unwrap()
}

/// This program once more, running only the test `name`, with `socket` as descriptor 3 and after `prepare` in
/// a shell.
fn child(name: &str, control: &Path, socket: impl Into<OwnedFd>, prepare: &str) -> Child {
    let script = format!("{prepare}; exec 3<&0 0</dev/null; LISTEN_PID=$$ exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(script).arg(std::env::current_exe().unwrap());
    shell.args([name, "--exact", "--ignored", "--test-threads", "1"]);
    shell.env(CHILD, control).env("LISTEN_FDS", "1").stdin(socket.into()).stdout(Stdio::null());
    shell.spawn().unwrap()
}

fn tell(control: &Path, line: &str) -> String {
    let mut stream = await_socket(control);
    writeln!(stream, "{line}").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer.trim().to_owned()
}

/// Connects as soon as the child listens there.
fn await_socket(path: &Path) -> UnixStream {
    let given_up = Instant::now() + Duration::from_secs(60);
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return stream,
            Err(error) => assert!(Instant::now() < given_up, "{}: {error}", path.display()),
        }
        std::thread::yield_now();
    }
}

/// What the child of [`a_socket_that_was_handed_over_is_served`] does.
#[test]
#[ignore = "runs as the child of other tests"]
fn child_that_serves_what_it_was_handed() {
    let Some(control) = std::env::var_os(CHILD) else { return };
    let report =
        serve_until_told(Path::new(&control), |builder| builder.listen_activated().unwrap());
    assert_eq!(report.ending, Ending::Graceful);
}

#[test]
fn a_socket_that_was_handed_over_is_served() {
    let directory = Directory::new();
    let (control, socket) = (directory.path("control"), directory.path("socket"));
    let name = "child_that_serves_what_it_was_handed";

    let mut serving = child(name, &control, UnixListener::bind(&socket).unwrap(), ":");
    let mut client = Client::new(UnixStream::connect(&socket).unwrap()).go();
    client.request(command::READ, 5, 0, 512);
    assert_eq!((client.reply(), client.read(512)), ((0, 5), vec![0; 512]));
    drop(client);
    tell(&control, "stop");
    assert!(serving.wait().unwrap().success());

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut serving = child(name, &control, listener, ":");
    let mut greeting = [0; 8];
    std::io::Read::read_exact(&mut TcpStream::connect(address).unwrap(), &mut greeting).unwrap();
    assert_eq!(&greeting, b"NBDMAGIC");
    tell(&control, "stop");
    assert!(serving.wait().unwrap().success());
}

/// What the child of [`a_descriptor_that_is_no_listening_socket_is_refused`] does.
#[test]
#[ignore = "runs as the child of other tests"]
fn child_that_refuses_what_it_was_handed() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let error = refused(Server::builder().listen_activated());
    assert!(matches!(error, ServerError::Activation { .. }), "{error}");
    assert!(error.to_string().contains("descriptor 3: expected a listening socket"), "{error}");
}

#[test]
fn a_descriptor_that_is_no_listening_socket_is_refused() {
    let directory = Directory::new();
    let file = std::fs::File::create_new(directory.path("file")).unwrap();
    let name = "child_that_refuses_what_it_was_handed";
    let mut refusing = child(name, &directory.path("control"), file, ":");
    assert!(refusing.wait().unwrap().success());
}

#[test]
fn when_descriptors_run_out_clients_wait_and_are_served_later() {
    let directory = Directory::new();
    let (control, socket) = (directory.path("control"), directory.path("socket"));
    let listener = UnixListener::bind(&socket).unwrap();
    let name = "child_that_serves_what_it_was_handed";
    let start = Instant::now();
    let mut serving = child(name, &control, listener, "ulimit -n 40");
    // More than the child can open; the kernel's queue holds those who wait.
    let mut waiting: Vec<_> = (0..60).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    let mut greeting = [0; 18];
    for client in &mut waiting[..10] {
        std::io::Read::read_exact(client, &mut greeting).unwrap();
    }
    // Each that leaves makes room for one who waits, in the order in which they came.
    while let Some(mut client) = (!waiting.is_empty()).then(|| waiting.remove(0)) {
        if waiting.len() < 50 {
            std::io::Read::read_exact(&mut client, &mut greeting).unwrap();
            assert_eq!(&greeting[..8], b"NBDMAGIC", "{} still wait", waiting.len());
        }
    }
    let notices = tell(&control, "notices");
    assert!(notices.contains("clients cannot be accepted now: "), "{notices}");
    // Half a second of rest follows each.
    let most = 1 + start.elapsed().as_millis() / 500;
    let count = notices.split("; ").count() as u128;
    assert!(count <= most, "{count} notices, {most} at most: {notices:.200}");
    tell(&control, "stop");
    assert!(serving.wait().unwrap().success());
}

#[test]
fn the_limit_of_descriptors_is_raised_as_far_as_the_clients_need_and_may() {
    let directory = Directory::new();
    let (control, socket) = (directory.path("control"), directory.path("socket"));
    let listener = UnixListener::bind(&socket).unwrap();
    let name = "child_that_serves_what_it_was_handed";
    let mut serving = child(name, &control, listener, "ulimit -S -n 40");
    let mut clients: Vec<_> = (0..60).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    for client in &mut clients {
        std::io::Read::read_exact(client, &mut [0; 18]).unwrap();
    }
    assert_eq!(tell(&control, "notices"), "");
    drop(clients);
    tell(&control, "stop");
    assert!(serving.wait().unwrap().success());
}

#[test]
fn a_tick_never_comes_before_its_time() {
    let handle = Arc::new(OnceLock::<ShutdownHandle>::new());
    let (stop, directory) = (handle.clone(), Directory::new());
    let (period, times) = (Nanos::from_millis(20), Arc::new(Mutex::new(Vec::new())));
    let (clock, seen) = (Clock::start(), times.clone());
    let builder: Builder = Server::builder().listen_unix(directory.path("socket")).unwrap();
    let server = builder
        .every(period, move |context| {
            let mut times = seen.lock().unwrap();
            times.push(context.now);
            if times.len() == 3 {
                stop.get().unwrap().request();
            }
        })
        .build()
        .unwrap();
    assert!(handle.set(server.shutdown_handle()).is_ok());
    let start = clock.now();
    server.run(&mut BareDisk::new(MemoryDisk::new(DISK_BYTES)), &clock).unwrap();
    let mut due = start;
    for time in times.lock().unwrap().iter() {
        due += period;
        assert!(*time >= due, "a tick at {time:?}, due at {due:?}");
    }
}

#[test]
fn each_control_socket_answers_for_itself() {
    let directory = Directory::new();
    let second = directory.path("second");
    let other = second.clone();
    let server = TestServer::start_with(
        |builder| builder.control(other, |line, _| format!("second: {line}")).unwrap(),
        |bare| bare,
    );
    assert_eq!(tell(&second, "open"), "second: open");
    assert_eq!(server.command("open"), "0");
    assert_eq!(tell(&second, "nonsense"), "second: nonsense");
}

#[test]
fn a_tick_comes_again_and_again_until_the_server_stops() {
    let handle = Arc::new(OnceLock::<ShutdownHandle>::new());
    let (ticks, stop) = (Arc::new(AtomicU32::new(0)), handle.clone());
    let directory = Directory::new();
    let counted = ticks.clone();
    let builder: Builder = Server::builder().listen_unix(directory.path("socket")).unwrap();
    let server = builder
        .every(Nanos::ZERO, move |context| {
            assert_eq!(context.statistics.connections_open, 0);
            if counted.fetch_add(1, Ordering::Relaxed) == 2 {
                stop.get().unwrap().request();
            }
        })
        .build()
        .unwrap();
    assert!(handle.set(server.shutdown_handle()).is_ok());
    let mut bare: Bare = BareDisk::new(MemoryDisk::new(DISK_BYTES));
    let report = server.run(&mut bare, &Clock::start()).unwrap();
    assert_eq!(report.ending, Ending::Graceful);
    assert!(ticks.load(Ordering::Relaxed) >= 3);
}

#[test]
fn a_byte_to_the_descriptor_asks_for_a_stop_and_a_second_one_for_an_end() {
    let server = TestServer::start();
    let signal = server.shutdown.descriptor().unwrap();
    rustix::io::write(&signal, &[1]).unwrap();
    assert_eq!(server.join().ending, Ending::Graceful);

    let patient = Limits { shutdown_max: Nanos::from_secs(3600), ..Limits::default() };
    let server = TestServer::start_with(|builder| builder.limits(patient), |bare| bare);
    server.command("hold");
    let mut client = server.connect().go();
    client.request(command::READ, 1, 0, 512);
    server.await_count("reads", 1);
    let signal = server.shutdown.descriptor().unwrap();
    rustix::io::write(&signal, &[1, 1]).unwrap();
    assert_eq!(server.join().ending, Ending::Forced);
}
