//! The medium below the subject: a plain file, or emulated disks with a volatile write cache.
//!
//! An emulated disk runs in a process of its own, so that its power can be cut while the volume uses
//! it. A single disk is served over NBD: its cache then loses, keeps or tears each write that no flush
//! covers. A member of a mirror must be a file: the disk is shown by FUSE, its cache is its process's
//! memory, and the cut is the end of that process. After a cut a disk answers nothing until the
//! volume's processes are gone.

use crate::tools;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const PROFILE: &str = include_str!("medium.toml");
/// Longest wait for a disk that nothing uses any more.
const UNUSED_WAIT_MAX: Duration = Duration::from_secs(60);

/// Which medium a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumKind {
    /// A sparse file.
    File,
    /// One emulated disk.
    Disk,
    /// A mirror of two.
    Mirror,
    /// A chain of two mirrors, for the preset `gecko`.
    Chain,
}

impl MediumKind {
    /// Every value with its word.
    pub const ALL: [(&'static str, Self); 4] = [
        ("file", Self::File),
        ("disk", Self::Disk),
        ("mirror", Self::Mirror),
        ("chain", Self::Chain),
    ];
}

/// What the subject lies on.
#[derive(Debug)]
pub struct Medium {
    /// As `create` and `attach` take it.
    pub target: String,
    /// Further words that commands take with it.
    pub words: Vec<String>,
    /// Files that take its space.
    pub files: Vec<PathBuf>,
    /// Emulated disks; none for a file.
    pub disks: Vec<Disk>,
}

impl Medium {
    /// Makes it in `folder`.
    pub fn new(kind: MediumKind, nearhead: &Path, folder: &Path) -> Result<Self, String> {
        let count = match kind {
            MediumKind::File => {
                let file = folder.join("subject.img");
                let target = file.to_str().ok_or("the folder's name is no UTF-8")?.to_owned();
                let (files, words, disks) = (vec![file], Vec::new(), Vec::new());
                return Ok(Self { target, words, files, disks });
            }
            MediumKind::Disk => 1,
            MediumKind::Mirror => 2,
            MediumKind::Chain => 4,
        };
        let is_mirror = kind != MediumKind::Disk;
        let start = |number| Disk::start(nearhead, folder, number, is_mirror);
        let disks: Vec<Disk> = (0..count).map(start).collect::<Result<_, _>>()?;
        let names: Vec<String> = disks.iter().map(|disk| disk.target.clone()).collect();
        let mirror = |names: &[String]| format!("mirror:{}", names.join(","));
        let target = if is_mirror { mirror(&names[..2]) } else { names.concat() };
        let words = match names.get(2..).filter(|links| !links.is_empty()) {
            Some(links) => vec!["--data-devices".to_owned(), mirror(links)],
            None => Vec::new(),
        };
        let files = disks.iter().map(|disk| disk.file.clone()).collect();
        Ok(Self { target, words, files, disks })
    }

    /// Cuts the power of every disk.
    pub fn power_off(&mut self, seed: u64) -> Result<(), String> {
        (0..).zip(&mut self.disks).try_for_each(|(number, disk)| disk.power_off(seed ^ number))
    }

    /// Waits until nothing uses the disks, and gives them power.
    pub fn power_on(&mut self) -> Result<(), String> {
        self.disks.iter_mut().try_for_each(Disk::power_on)
    }
}

/// An emulated disk in a process of its own.
#[derive(Debug)]
pub struct Disk {
    process: Child,
    front: Front,
    file: PathBuf,
    /// As commands take it.
    target: String,
    nearhead: PathBuf,
    /// The disk, as `disk serve` takes it.
    model: String,
}

/// How the volume reaches an emulated disk.
#[derive(Debug)]
enum Front {
    /// Over NBD, with a control socket.
    Nbd(BufReader<UnixStream>),
    /// As a file in this folder.
    File(PathBuf),
}

impl Disk {
    fn start(nearhead: &Path, folder: &Path, number: u64, is_file: bool) -> Result<Self, String> {
        let path = |what: &str| folder.join(format!("medium{number}.{what}"));
        let (profile, file, control) = (path("toml"), path("img"), path("ctl"));
        let failed = |error: std::io::Error| format!("emulated disk: {error}");
        std::fs::write(&profile, PROFILE).map_err(failed)?;
        let model = format!("model:{},cache=on,file={}", profile.display(), file.display());
        if is_file {
            let shown = path("shown");
            std::fs::create_dir(&shown).map_err(failed)?;
            let (process, _) = serve(nearhead, &model, &["--file".as_ref(), shown.as_os_str()])?;
            let target = shown.join("disk").to_string_lossy().into_owned();
            let (front, nearhead) = (Front::File(shown), nearhead.to_owned());
            return Ok(Self { process, front, file, target, nearhead, model });
        }
        let words = ["--tcp", "127.0.0.1:0", "--control"].map(OsStr::new);
        let words = [&words[..], &[control.as_os_str()]].concat();
        let (mut process, ready) = serve(nearhead, &model, &words)?;
        let control = UnixStream::connect(&control).map_err(|error| {
            let _ = process.kill();
            failed(error)
        })?;
        let target = ready["uris"][0].as_str().unwrap_or_default().to_owned();
        let (front, nearhead) = (Front::Nbd(BufReader::new(control)), nearhead.to_owned());
        Ok(Self { process, front, file, target, nearhead, model })
    }

    fn power_off(&mut self, seed: u64) -> Result<(), String> {
        match &self.front {
            Front::Nbd(_) => self.ask(&format!("power-off {seed}")).map(drop),
            Front::File(_) => {
                self.end();
                Ok(())
            }
        }
    }

    fn power_on(&mut self) -> Result<(), String> {
        let Front::File(shown) = &self.front else {
            self.wait_until_unused()?;
            return self.ask("power-on").map(drop);
        };
        let words = ["--file".as_ref(), shown.as_os_str()];
        self.process = serve(&self.nearhead, &self.model, &words)?.0;
        Ok(())
    }

    /// Ends the process, and with it what its cache has.
    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Front::File(shown) = &self.front {
            let _ = tools::run("umount", &["--lazy".as_ref(), shown.as_os_str()]);
        }
    }

    /// The answer to a command on the control socket.
    fn ask(&mut self, command: &str) -> Result<Value, String> {
        let failed = |error: &dyn std::fmt::Display| format!("emulated disk, {command}: {error}");
        let Front::Nbd(control) = &mut self.front else { return Err(failed(&"no control socket")) };
        writeln!(control.get_mut(), "{command}").map_err(|error| failed(&error))?;
        let mut line = String::new();
        control.read_line(&mut line).map_err(|error| failed(&error))?;
        let answer: Value = serde_json::from_str(&line).map_err(|error| failed(&error))?;
        if answer["error"].is_null() { Ok(answer["ok"].clone()) } else { Err(failed(&answer)) }
    }

    /// Waits until no client is connected.
    fn wait_until_unused(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let clients = self.ask("clients")?;
            if clients["connections_open"] == 0 && clients["requests_outstanding"] == 0 {
                return Ok(());
            }
            if begun.elapsed() > UNUSED_WAIT_MAX {
                return Err(format!("emulated disk: still used after a power cut: {clients}"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts `nearhead disk serve`; returns once it is ready, with the line that it printed.
fn serve(nearhead: &Path, model: &str, words: &[&OsStr]) -> Result<(Child, Value), String> {
    let mut command = tools::command(nearhead.to_str().unwrap_or_default(), &["disk", "serve"]);
    command.arg(model).args(["--sleep", "--json"]).args(words);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().map_err(|error| format!("emulated disk: {error}"))?;
    let mut line = String::new();
    let stdout = process.stdout.take().into_iter();
    let read = stdout.map(|stdout| BufReader::new(stdout).read_line(&mut line)).last();
    let ready = read.and_then(Result::ok).and_then(|_| serde_json::from_str(&line).ok());
    let Some(ready) = ready else {
        let _ = process.kill();
        return Err(format!("emulated disk: expected that it is ready, found {line:?}"));
    };
    Ok((process, ready))
}
