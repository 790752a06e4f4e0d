//! What the end-to-end tests share: scratch folders, the real program, and a daemon whose readiness
//! is an event (the line it prints), never a guess.

#![allow(unreachable_pub, reason = "a module of several test binaries")]
#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "tests")]

pub mod attached;
pub mod blocks;
pub mod browser;
pub mod json;
pub mod mounts;
pub mod nbd;
pub mod terminal;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that goes away with the test.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub fn new(name: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Short: a socket's path ends at 107 bytes.
        let name = format!("nh-{name}-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The program with its control sockets inside `scratch`.
pub fn nearhead(scratch: &Scratch, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearhead"));
    command.args(args).current_dir(&scratch.path);
    command.env("RUNTIME_DIRECTORY", scratch.path("run")).env_remove("LISTEN_FDS");
    command
}

/// Runs the program to its end.
pub fn run(scratch: &Scratch, args: &[&str]) -> Output {
    nearhead(scratch, args).stdin(Stdio::null()).output().unwrap()
}

/// Runs it and expects success; what it printed.
pub fn run_ok(scratch: &Scratch, args: &[&str]) -> String {
    let output = run(scratch, args);
    assert!(output.status.success(), "nearhead {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs it with `--json` and expects success; of `status`, also that the volume is not well (2).
pub fn run_json(scratch: &Scratch, args: &[&str]) -> serde_json::Value {
    let mut args = args.to_vec();
    args.push("--json");
    let output = run(scratch, &args);
    let is_not_well = args[0] == "status" && output.status.code() == Some(2);
    assert!(output.status.success() || is_not_well, "nearhead {args:?}: {output:?}");
    json::parse(&output.stdout).unwrap()
}

/// Runs it and expects exit code 1 and a message with all of `parts`; the message.
pub fn run_fails(scratch: &Scratch, args: &[&str], parts: &[&str]) -> String {
    let output = run(scratch, args);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "nearhead {args:?}: {message}");
    for part in parts {
        assert!(message.contains(part), "nearhead {args:?}: {part:?} is missing in {message:?}");
    }
    assert!(!message.contains("panicked"), "nearhead {args:?}: {message}");
    message
}

/// Makes a script that can be run at once: another process writes it, as nobody may run what a process, or one that it begins just then, has
/// open to be written.
pub fn script(path: &Path, text: &str) {
    let mut writer = Command::new("sh")
        .args(["-c", "cat > \"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
}

/// What a daemon answers to a line on its control socket.
pub fn ask(control: impl AsRef<Path>, command: &str) -> serde_json::Value {
    let mut stream = UnixStream::connect(control).unwrap();
    writeln!(stream, "{command}").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    json::parse(&line).unwrap()
}

/// A running `nearhead serve`; killed when dropped.
pub struct Daemon {
    child: Child,
    stdout: BufReader<ChildStdout>,
    stderr_path: PathBuf,
    pub socket: PathBuf,
}

impl Daemon {
    /// Serves `target` on `nbd.sock` in `scratch`.
    pub fn serve(scratch: &Scratch, target: &str, more: &[&str]) -> Self {
        let socket = scratch.text("nbd.sock");
        let mut args = vec!["serve", target, "--socket", &socket];
        args.extend_from_slice(more);
        Self::spawn(scratch, &args)
    }

    /// Starts the program and waits until it says that it is ready.
    pub fn spawn(scratch: &Scratch, args: &[&str]) -> Self {
        let stderr_path = scratch.path("daemon.stderr");
        let stderr = File::create(&stderr_path).unwrap();
        let mut child = nearhead(scratch, args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .process_group(0)
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let told = std::fs::read_to_string(&stderr_path).unwrap();
        assert!(line.contains("serving"), "nearhead {args:?} said {line:?}, {told:?}");
        Self { child, stdout, stderr_path, socket: scratch.path("nbd.sock") }
    }

    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// `kill -9` of the process, and of those that it started.
    pub fn kill(mut self) {
        self.kill_group().unwrap();
        self.child.wait().unwrap();
    }

    fn kill_group(&self) -> rustix::io::Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process_group(pid, rustix::process::Signal::KILL)
    }

    /// SIGTERM, and what came of it: exit status, the rest of standard output, standard error.
    pub fn stop(self) -> (ExitStatus, String, String) {
        self.signal(rustix::process::Signal::TERM);
        self.wait()
    }

    pub fn stop_ok(self) {
        let (status, told, problems) = self.stop();
        assert!(status.success(), "{status}: {told} {problems}");
        assert!(told.contains("everything is durable"), "{told}");
    }

    pub fn wait(mut self) -> (ExitStatus, String, String) {
        let mut told = String::new();
        self.stdout.read_to_string(&mut told).unwrap();
        let status = self.child.wait().unwrap();
        (status, told, std::fs::read_to_string(&self.stderr_path).unwrap())
    }

    /// Waits until standard error holds `text`. A file cannot be waited for, so it is looked at.
    pub fn wait_for_notice(&mut self, text: &str) {
        loop {
            let told = std::fs::read_to_string(&self.stderr_path).unwrap();
            if told.contains(text) {
                return;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "ended without saying {text:?}: {told}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.kill_group();
        let _ = self.child.wait();
    }
}

/// Changes bytes of a file in place, as rot would.
pub fn corrupt(path: &Path, offset: u64, bytes: usize) {
    let mut file = File::options().read(true).write(true).open(path).unwrap();
    let mut old = vec![0; bytes];
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.read_exact(&mut old).unwrap();
    let new: Vec<u8> = old.iter().map(|byte| !byte).collect();
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(&new).unwrap();
    file.sync_all().unwrap();
}

/// Whether every one of these programs is installed; says which is not.
pub fn tools(names: &[&str]) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders: Vec<&str> = path.split(':').chain(["/usr/sbin", "/sbin"]).collect();
    for name in names {
        if !folders.iter().any(|folder| Path::new(folder).join(name).is_file()) {
            println!("skipped: {name} is not installed");
            return false;
        }
    }
    true
}

/// A tool from Debian, also those only root's PATH has.
pub fn tool(name: &str, args: &[&str]) -> Output {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    Command::new(name).args(args).env("PATH", path).stdin(Stdio::null()).output().unwrap()
}

/// Runs a tool and expects success.
pub fn tool_ok(name: &str, args: &[&str]) -> String {
    let output = tool(name, args);
    assert!(output.status.success(), "{name} {args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The library behind `nearhead run`, or a line that says why the test is skipped.
pub fn preload_library() -> Option<PathBuf> {
    let libraries = Path::new(env!("CARGO_BIN_EXE_nearhead")).parent()?;
    let candidates = ["libnearhead_preload.so", "deps/libnearhead_preload.so"];
    let library = candidates.map(|name| libraries.join(name)).into_iter().find(|it| it.is_file());
    if library.is_none() {
        println!("skipped: the library behind `nearhead run` is not built (make libraries)");
    }
    library
}
