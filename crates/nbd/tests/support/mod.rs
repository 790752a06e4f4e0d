//! A server on a thread, a small client of the tests' own, and the tools of other projects.

#![allow(dead_code, reason = "each test program uses its own part")]

pub(crate) mod client;
pub(crate) mod memory_disk;

use memory_disk::MemoryDisk;
use nearhead_basics::SplitMix;
use nearhead_nbd::{Clock, Context, Report, Server, ServerBuilder, ShutdownHandle};
use nearhead_volume::BareDisk;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

pub(crate) const DISK_BYTES: u64 = 64 << 20;

pub(crate) type Bare = BareDisk<MemoryDisk>;
pub(crate) type Builder = ServerBuilder<'static, Bare>;

/// A directory that goes away with the test.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("nearhead-nbd-{unique}"));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server of a memory disk, on a Unix socket, with a control socket.
pub(crate) struct TestServer {
    pub(crate) directory: Directory,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) shutdown: ShutdownHandle,
    thread: Option<JoinHandle<Report>>,
}

impl TestServer {
    pub(crate) fn start() -> Self {
        Self::start_with(|builder| builder, |bare| bare)
    }

    /// Starts a server after `set_up` had its say; `serve` may change what is served.
    pub(crate) fn start_with(
        set_up: impl FnOnce(Builder) -> Builder + Send + 'static,
        serve: impl FnOnce(Bare) -> Bare + Send + 'static,
    ) -> Self {
        let directory = Directory::new();
        let (socket, control) = (directory.path("socket"), directory.path("control"));
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let builder = Server::builder().listen_unix(socket).unwrap();
            let builder = builder.control(control, on_command).unwrap();
            let server = set_up(builder).build().unwrap();
            sender.send((server.shutdown_handle(), server.addresses().to_vec())).unwrap();
            let mut bare = serve(BareDisk::new(MemoryDisk::new(DISK_BYTES)));
            server.run(&mut bare, &Clock::start()).unwrap()
        });
        let (shutdown, addresses) = receiver.recv().unwrap();
        Self { directory, addresses, shutdown, thread: Some(thread) }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path("socket")
    }

    /// The URI by which libnbd and qemu find the export `name`.
    pub(crate) fn uri(&self, name: &str) -> String {
        format!("nbd+unix:///{name}?socket={}", self.socket().display())
    }

    pub(crate) fn connect(&self) -> client::Client {
        client::Client::new(UnixStream::connect(self.socket()).unwrap())
    }

    /// One command to the control socket.
    pub(crate) fn command(&self, line: &str) -> String {
        let mut stream = UnixStream::connect(self.directory.path("control")).unwrap();
        writeln!(stream, "{line}").unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        answer.trim().to_owned()
    }

    /// A number from the control socket's `stat`.
    pub(crate) fn count(&self, name: &str) -> u64 {
        self.command(name).parse().unwrap()
    }

    /// Waits until `name` counts `expected`.
    pub(crate) fn await_count(&self, name: &str, expected: u64) {
        while self.count(name) != expected {
            std::thread::yield_now();
        }
    }

    pub(crate) fn stop(mut self) -> Report {
        self.shutdown.request();
        self.thread.take().unwrap().join().unwrap()
    }

    /// Waits for a server that was told to stop.
    pub(crate) fn join(mut self) -> Report {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.shutdown.request();
        self.shutdown.request();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn on_command(line: &str, context: &mut Context<'_, Bare>) -> String {
    let statistics = context.statistics;
    match line {
        "hold" => context.service.disk_mut().held = true,
        "release" => context.service.disk_mut().held = false,
        "open" => return statistics.connections_open.to_string(),
        "refused" => return statistics.connections_refused.to_string(),
        "unfinished" => return statistics.connections_unfinished.to_string(),
        "stalled" => return statistics.connections_stalled.to_string(),
        "reads" => return statistics.reads.to_string(),
        "writes" => return statistics.writes.to_string(),
        "flushes" => return statistics.flushes.to_string(),
        _ => return format!("error: unknown command {line}"),
    }
    "ok".to_owned()
}

/// A tool of another project, or words that it is missing.
pub(crate) fn tool(name: &str, package: &str) -> Option<Command> {
    let found = std::env::var_os("PATH").is_some_and(|paths| {
        std::env::split_paths(&paths).any(|directory| directory.join(name).is_file())
    });
    if !found {
        println!("skipped: {name} is not installed (apt-get install {package})");
    }
    found.then(|| Command::new(name))
}

/// Runs a tool that must succeed; its standard output.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out
}

/// Runs a tool that must fail; what it says.
pub(crate) fn run_failing(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = texts(&output);
    assert!(!output.status.success(), "{command:?} succeeded\n{out}\n{err}");
    out + &err
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Bytes that no two places share, from a seed.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SplitMix::new(seed).fill(&mut bytes);
    bytes
}

pub(crate) fn write_file(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}
