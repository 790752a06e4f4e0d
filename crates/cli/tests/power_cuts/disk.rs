//! The disk below a daemon: an emulated one in a process of its own, whose power can be cut while the
//! daemon uses it, or one inside the daemon, whose cache goes with it.
//!
//! After a cut the power stays off until the daemon is gone: no host may take a disk that lost its
//! cache for the one it had.

use crate::common::{Daemon, Scratch};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

const PLAIN: &str = include_str!("disk.toml");
const SHINGLED: &str = include_str!("shingled.toml");

/// A disk and how a daemon names it.
pub(crate) struct TestDisk {
    /// For `nearhead serve`.
    pub(crate) target: String,
    /// None for a disk inside the daemon.
    server: Option<Server>,
}

struct Server {
    /// Ends with the test.
    _process: Daemon,
    control: Control,
}

/// A control socket.
pub(crate) struct Control(BufReader<UnixStream>);

impl Control {
    pub(crate) fn connect(path: &Path) -> Self {
        Self(BufReader::new(UnixStream::connect(path).unwrap()))
    }

    /// The answer to a command, or nothing if whoever should answer is gone.
    pub(crate) fn try_ask(&mut self, command: &str) -> Option<serde_json::Value> {
        writeln!(self.0.get_mut(), "{command}").ok()?;
        let mut line = String::new();
        self.0.read_line(&mut line).ok().filter(|len| *len > 0)?;
        Some(crate::common::json::parse(&line).unwrap())
    }

    fn ask(&mut self, command: &str) -> serde_json::Value {
        let answer = self.try_ask(command).unwrap();
        assert!(answer["error"].is_null(), "{command}: {answer}");
        answer["ok"].clone()
    }
}

impl TestDisk {
    /// A disk with a write cache, served by `nearhead disk serve`.
    pub(crate) fn served(scratch: &Scratch) -> Self {
        let (profile, control) = (scratch.path("disk.toml"), scratch.text("disk.control"));
        std::fs::write(&profile, PLAIN).unwrap();
        let disk = format!("model:{},file={}", profile.display(), scratch.text("disk.img"));
        let socket = scratch.text("disk.sock");
        let args = ["disk", "serve", &disk, "--socket", &socket, "--control", &control];
        let process = Daemon::spawn(scratch, &args);
        let control = Control::connect(Path::new(&control));
        let target = format!("nbd+unix:///?socket={socket}");
        Self { target, server: Some(Server { _process: process, control }) }
    }

    /// A shingled disk, which tells its host where it is not: only one inside the daemon does.
    pub(crate) fn shingled(scratch: &Scratch) -> Self {
        let profile = scratch.path("shingled.toml");
        std::fs::write(&profile, SHINGLED).unwrap();
        let image = scratch.text("shingled.img");
        let target = format!("model:{},cache=on,file={image}", profile.display());
        Self { target, server: None }
    }

    /// Whether the power can be cut.
    pub(crate) fn has_power_switch(&self) -> bool {
        self.server.is_some()
    }

    /// Cuts the power; nothing is answered with success from now on.
    pub(crate) fn power_off(&mut self, seed: u64) {
        if let Some(server) = &mut self.server {
            server.control.ask(&format!("power-off {seed}"));
        }
    }

    /// Waits until nothing is left of what the daemon that was killed sent.
    pub(crate) fn wait_until_unused(&mut self) {
        let Some(server) = &mut self.server else { return };
        loop {
            let clients = server.control.ask("clients");
            if clients["connections_open"] == 0 && clients["requests_outstanding"] == 0 {
                return;
            }
            std::thread::yield_now();
        }
    }

    /// The power comes back.
    pub(crate) fn power_on(&mut self) {
        if let Some(server) = &mut self.server {
            server.control.ask("power-on");
        }
    }
}
