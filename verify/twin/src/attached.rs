//! The subject: a volume of ours, attached as a block device by the program `nearhead`.
//!
//! Everything is done by the program's own commands, and by signals to its processes. Whatever a run
//! leaves is taken away by force when this is dropped.

use crate::act::Who;
use crate::side::Side;
use crate::tools;
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

/// Longest wait for a worker to answer `status`.
const WORKER_WAIT_MAX: Duration = Duration::from_secs(60);
/// Pause between two questions for it.
const PAUSE: Duration = Duration::from_millis(10);

/// An attached volume.
#[derive(Debug)]
pub struct Attached {
    nearhead: PathBuf,
    /// Name of the device.
    pub name: String,
    /// As commands take it.
    pub target: String,
    below: Vec<PathBuf>,
    block_bytes: u32,
    /// Further words of `attach`.
    more: Vec<String>,
    /// Bytes of all logs, for the allowance of space.
    pub logs_bytes: u64,
    /// What `attach` and `detach` printed last.
    pub last_words: String,
}

impl Attached {
    /// Creates a volume on `target` and attaches it.
    pub fn new(
        nearhead: &Path,
        name: &str,
        target: &str,
        below: Vec<PathBuf>,
        block_bytes: u32,
        create: &[&str],
    ) -> Result<Self, String> {
        let program = nearhead.to_str().ok_or("the program's path is no UTF-8")?;
        let args = [&["create", target, "--json"], create].concat();
        let text = tools::ok(program, &args)?;
        let made: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| format!("create --json: {error}"))?;
        let number = |key: &str| made[key].as_u64().unwrap_or(0);
        let attached = Self {
            nearhead: nearhead.to_owned(),
            name: name.to_owned(),
            target: target.to_owned(),
            below,
            block_bytes,
            more: Vec::new(),
            logs_bytes: number("groups") * number("log_bytes"),
            last_words: String::new(),
        };
        Ok(attached)
    }

    /// Further words of every later `attach`.
    pub fn attach_with(&mut self, words: &[&str]) {
        self.more = words.iter().map(|word| (*word).to_owned()).collect();
    }

    /// Runs the program to its end.
    pub fn nearhead(&self, args: &[&str]) -> Result<Output, String> {
        tools::run(self.nearhead.to_str().unwrap_or_default(), args)
    }

    /// Attaches the volume.
    pub fn attach(&mut self) -> Result<(), String> {
        let size = self.block_bytes.to_string();
        let mut args = vec!["attach", &self.target, "--as", &self.name, "--block-size", &size];
        let by = std::env::var("NEARHEAD_ATTACH_BY").ok();
        args.extend(by.iter().flat_map(|by| ["--by", by.as_str()]));
        args.extend(self.more.iter().map(String::as_str));
        self.last_words = run_ok(&self.nearhead, &args)?;
        Ok(())
    }

    /// Detaches it in order.
    pub fn detach(&mut self) -> Result<(), String> {
        self.last_words = run_ok(&self.nearhead, &["detach", &self.name])?;
        Ok(())
    }

    /// Takes it away by force, with everything that the machine's memory has of it.
    pub fn forget(&self) {
        for who in self.processes() {
            let _ = kill_process(who, Signal::KILL);
        }
        let _ = self.nearhead(&["detach", &self.name, "--force"]);
        let folder = self.folder();
        let _ = tools::run("umount", &["--lazy".as_ref(), folder.join("file").as_os_str()]);
        let _ = std::fs::remove_dir_all(&folder);
        let _ = std::fs::remove_file(Path::new("/dev/nearhead").join(&self.name));
    }

    /// Where the machine's memory has what belongs to the attached volume.
    pub fn folder(&self) -> PathBuf {
        Path::new("/run/nearhead/attached").join(&self.name)
    }

    /// The worker, once it answers.
    pub fn worker(&self) -> Result<Pid, String> {
        let begun = Instant::now();
        loop {
            if let Some(pid) = self.worker_now()? {
                return Ok(pid);
            }
            if begun.elapsed() > WORKER_WAIT_MAX {
                return Err(format!("{}: no worker answers for {WORKER_WAIT_MAX:?}", self.name));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn worker_now(&self) -> Result<Option<Pid>, String> {
        let output = self.nearhead(&["status", &self.name, "--json"])?;
        let status: Option<serde_json::Value> = serde_json::from_slice(&output.stdout).ok();
        let pid = status.and_then(|status| status["served"]["pid"].as_i64());
        Ok(pid.and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)))
    }

    /// Its supervisor, if the worker still has one.
    pub fn supervisor(worker: Pid) -> Option<Pid> {
        let parent = parent_of(worker)?;
        // Not by its file: after an upgrade the worker's is another one.
        let words = std::fs::read(format!("/proc/{}/cmdline", parent.as_raw_pid())).ok()?;
        words.split(|byte| *byte == 0).any(|word| word == b"attach").then_some(parent)
    }

    fn processes(&self) -> Vec<Pid> {
        let worker = self.worker_now().ok().flatten();
        let supervisor = worker.and_then(Self::supervisor);
        supervisor.into_iter().chain(worker).collect()
    }

    /// `kill -9` of processes; returns when they are gone.
    pub fn kill(&self, who: Who) -> Result<(), String> {
        let worker = self.worker()?;
        self.kill_found(who, worker)
    }

    /// The same for a worker that is known.
    pub fn kill_found(&self, who: Who, worker: Pid) -> Result<(), String> {
        let supervisor = Self::supervisor(worker);
        let killed = match who {
            Who::Worker => vec![worker],
            Who::Supervisor => supervisor.into_iter().collect(),
            Who::Both => supervisor.into_iter().chain([worker]).collect(),
        };
        for pid in &killed {
            // Gone already is as good.
            let _ = kill_process(*pid, Signal::KILL);
        }
        for pid in killed {
            while is_alive(pid) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }
}

impl Side for Attached {
    fn name(&self) -> &'static str {
        "subject"
    }

    fn device(&self) -> PathBuf {
        Path::new("/dev/nearhead").join(&self.name)
    }

    fn below(&self) -> Vec<PathBuf> {
        self.below.clone()
    }

    fn reattach(&mut self) -> Result<(), String> {
        self.detach()?;
        self.attach()
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.folder().exists() || self.device().is_symlink() {
            self.forget();
        }
    }
}

fn run_ok(nearhead: &Path, args: &[&str]) -> Result<String, String> {
    tools::ok(nearhead.to_str().unwrap_or_default(), args)
}

/// Fields of `/proc/PID/stat` behind the name: state, parent.
fn stat_of(pid: Pid) -> Option<(String, i32)> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    let mut fields = text.rsplit(')').next()?.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

fn parent_of(pid: Pid) -> Option<Pid> {
    stat_of(pid).and_then(|(_, parent)| Pid::from_raw(parent)).filter(|pid| *pid != Pid::INIT)
}

/// Also while threads of it end: they hold its files and locks.
fn is_alive(pid: Pid) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_pid()));
    let threads = threads.map_or(0, Iterator::count);
    stat_of(pid).is_some_and(|(state, _)| (state != "Z" && state != "X") || threads > 1)
}
