//! The servers compared: each a program of its own, as a user starts it, on an image of its own.
//!
//! All images lie in one folder and are equally long, and every byte of each was written through its
//! server beforehand. A server whose turn it is not is stopped (SIGSTOP), so that it neither uses the
//! processors and the disk of the others nor gets its cleaning done for nothing. All are ended when
//! dropped, without any ceremony: nothing here is worth saving.

use crate::demo::client::Client;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// Who is measured, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// `nearhead serve` as it is.
    Ours,
    /// With `--rotational false`: told that no head moves.
    OursNoHead,
    /// Past the page cache, reads as well.
    OursDirect,
    /// `nbdkit file`, which uses the page cache and several threads.
    Nbdkit,
    /// `qemu-nbd` past the page cache.
    QemuDirect,
    /// `qemu-nbd` through it.
    QemuCached,
}

impl Who {
    pub(super) const ALL: [Self; 6] = [
        Self::Ours,
        Self::OursNoHead,
        Self::OursDirect,
        Self::Nbdkit,
        Self::QemuDirect,
        Self::QemuCached,
    ];

    /// As it is called in rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::OursNoHead => "ours, not rotational",
            Self::OursDirect => "ours, direct",
            Self::Nbdkit => "nbdkit file",
            Self::QemuDirect => "qemu-nbd none",
            Self::QemuCached => "qemu-nbd writeback",
        }
    }

    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Ours | Self::OursNoHead | Self::OursDirect)
    }

    /// What of `nearhead serve` is not its default; `None` if this build cannot.
    fn flags(self, help: &str) -> Option<&'static [&'static str]> {
        match self {
            Self::OursNoHead => Some(&["--rotational", "false"]),
            Self::OursDirect => {
                help.contains("--page-cache").then_some(&["--page-cache=false", "--direct-reads"])
            }
            _ => Some(&[]),
        }
    }
}

/// A running server, with its image.
pub(super) struct Server {
    pub(super) who: Who,
    socket: PathBuf,
    image: PathBuf,
    child: Child,
}

impl Server {
    /// Starts one on a new image of `bytes` in `folder`. The error says why it cannot be compared.
    pub(super) fn start(who: Who, folder: &Path, bytes: u64) -> Result<Self, String> {
        // qemu-nbd takes no other path for its socket.
        let folder = std::path::absolute(folder).map_err(|error| error.to_string())?;
        let (image, socket) = names(who, &folder);
        for path in [&image, &socket] {
            // Of a run that was killed.
            let _ = fs::remove_file(path);
        }
        let command = if who.is_ours() {
            ours(who, &image, &socket, bytes)?
        } else {
            let file = fs::File::create(&image).and_then(|file| file.set_len(bytes));
            file.map_err(|error| format!("{}: {error}", image.display()))?;
            peer(who, &image, &socket)
        };
        let mut server = Self { who, child: spawn(command)?, socket, image };
        // Its socket is there once it serves; a peer that ends before says why on standard error.
        if let Err(error) = Client::connect(&server.socket, PATIENCE) {
            let ended = server.child.try_wait().ok().flatten();
            let how = ended.map_or_else(String::new, |status| format!(" (it ended: {status})"));
            return Err(format!("{}: {error}{how}", who.name()));
        }
        Ok(server)
    }

    /// Reads its image past the server, through the page cache.
    pub(super) fn read_image(&self) -> std::io::Result<()> {
        std::io::copy(&mut fs::File::open(&self.image)?, &mut std::io::sink()).map(|_| ())
    }

    pub(super) fn connect(&self) -> std::io::Result<Client> {
        Client::connect(&self.socket, PATIENCE)
    }

    /// Lets it run, or stops it where it is.
    pub(super) fn run(&self, runs: bool) {
        let signal = if runs { Signal::CONT } else { Signal::STOP };
        // It can only fail for a process that has ended, which the next request finds out.
        let _ = Pid::from_raw(self.child.id() as i32).map(|pid| kill_process(pid, signal));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for path in [&self.image, &self.socket] {
            let _ = fs::remove_file(path);
        }
    }
}

fn names(who: Who, folder: &Path) -> (PathBuf, PathBuf) {
    let stem: String = who.name().chars().filter(char::is_ascii_alphanumeric).collect();
    (folder.join(format!("served-{stem}.img")), folder.join(format!("served-{stem}.sock")))
}

/// `nearhead serve` of a volume just created, by this very program.
fn ours(who: Who, image: &Path, socket: &Path, bytes: u64) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let told = |output: std::process::Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let run = |args: &[&str], path: Option<&Path>| {
        let mut command = Command::new(&program);
        command.args(&args[..1]).args(path).args(&args[1..]).stdin(Stdio::null());
        command.output().map_err(|error| format!("{}: {error}", who.name()))
    };
    let help = run(&["serve", "--help"], None)?.stdout;
    let Some(flags) = who.flags(&String::from_utf8_lossy(&help)) else {
        return Err(format!("{}: this build has no flag for it", who.name()));
    };
    let size = bytes.to_string();
    let created = run(&["create", "--size", &size], Some(image))?;
    if !created.status.success() {
        return Err(format!("{}: create: {}", who.name(), told(created)));
    }
    let mut command = Command::new(program);
    command.arg("serve").arg(image).arg("--socket").arg(socket).args(flags);
    Ok(command)
}

/// Another's server, in the way that is fastest and still honest: every reply to FUA and flush means
/// that the bytes are on the disk.
fn peer(who: Who, image: &Path, socket: &Path) -> Command {
    if who == Who::Nbdkit {
        let mut command = Command::new("nbdkit");
        command.args(["--foreground", "--exit-with-parent", "--unix"]);
        command.arg(socket).arg("file").arg(image);
        return command;
    }
    // Direct I/O has io_uring; what goes through the page cache is carried out by threads.
    let how = if who == Who::QemuDirect {
        ["--cache=none", "--aio=io_uring"]
    } else {
        ["--cache=writeback", "--aio=threads"]
    };
    let mut command = Command::new("qemu-nbd");
    command.args(["--persistent", "--shared=16", "--format=raw", "--discard=unmap"]).args(how);
    command.arg("--socket").arg(socket).arg(image);
    command
}

fn spawn(mut command: Command) -> Result<Child, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map_err(|error| {
        format!("cannot start {program} ({error}); on Debian: apt-get install nbdkit qemu-utils")
    })
}
