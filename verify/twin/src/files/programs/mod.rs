//! Real programs on both file systems: the same shell script on each, compared at each point of a life.
//!
//! A script has the steps `run`, `check` (the program's own checker) and `again` (what a user does after
//! a crash in the middle of a run: at least what was answered as durable must be there). What they print
//! is compared, and for programs that leave the same files also whole trees. A program that fails on the
//! oracle says nothing about the subject.

use super::compare;
use super::run::FilesSettings;
use super::sides::{Ext4, Ours};
use super::view::{Found, Time, attributes, contents};
use crate::run::Scratch;
use crate::{Difference, Failed, Step, differs, tools};
use nearhead_basics::SplitMix;
use rustix::fs::FileType;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Image of the volume: a database takes most of it.
const IMAGE_BYTES: u64 = 512 << 20;
/// The tree that programs copy, and the same after some changes.
const SOURCE: &str = include_str!("source.sh");

/// A program.
#[derive(Clone, Copy, Debug)]
pub struct FilesProgram {
    /// Word for `--program`.
    pub name: &'static str,
    tools: &'static [&'static str],
    script: &'static str,
    /// Two runs leave the same files.
    has_same_files: bool,
}

const fn program(
    name: &'static str,
    tools: &'static [&'static str],
    script: &'static str,
    has_same_files: bool,
) -> FilesProgram {
    FilesProgram { name, tools, script, has_same_files }
}

/// Every program.
pub const PROGRAMS: [FilesProgram; 12] = [
    program("rsync", &["rsync"], include_str!("rsync.sh"), true),
    program("tar", &["tar"], include_str!("tar.sh"), false),
    program("cp", &["cp", "diff"], include_str!("cp.sh"), true),
    program("git", &["git"], include_str!("git.sh"), false),
    program("sqlite", &["sqlite3"], include_str!("sqlite.sh"), false),
    program("postmark", &["postmark"], include_str!("postmark.sh"), false),
    program("postgres", &["pg_createcluster", "runuser"], include_str!("postgres.sh"), false),
    program("mariadb", &["mariadbd", "mariadb-binlog"], include_str!("mariadb.sh"), false),
    program("redis", &["redis-server", "redis-cli"], include_str!("redis.sh"), false),
    program("rocksdb", &["db_bench", "ldb"], include_str!("rocksdb.sh"), false),
    program("etcd", &["etcd", "etcdctl"], include_str!("etcd.sh"), false),
    program("stress", &["stress-ng"], include_str!("stress.sh"), false),
];

/// The program that is called `name`.
pub fn named(name: &str) -> Result<FilesProgram, String> {
    let found = PROGRAMS.iter().find(|program| program.name == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
        format!("expected one of {}, found {name:?}", names.join(", "))
    })
}

/// Why this machine cannot run a program.
pub fn why_not(program: &FilesProgram) -> Option<String> {
    tools::need(program.tools).err()
}

/// Exit code and standard output of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Printed(Option<i32>, String);

/// Both sides of a program.
struct Life {
    program: FilesProgram,
    oracle: Ext4,
    subject: Ours,
    scratch: Scratch,
    /// Clock before the first step: older times are those that the program set.
    begun_s: i64,
}

/// Runs a program on both sides; the first difference, if there is one.
pub fn run(
    settings: &FilesSettings,
    program: FilesProgram,
    seed: u64,
    kills: u32,
) -> Result<Option<Difference>, String> {
    settings.check_machine()?;
    if let Some(why) = why_not(&program) {
        return Err(why);
    }
    let scratch = Scratch::new(&settings.folder)?;
    tools::ok("chmod", &["711".as_ref(), scratch.0.as_os_str()])?;
    let mut source = tools::command("sh", &["-c", SOURCE]);
    let output = source.current_dir(&scratch.0).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("source tree: {}", tools::words_of(&output)));
    }
    let (medium, mode) = (settings.medium, &settings.mode);
    let subject = Ours::new(&settings.nearhead, &scratch.0, IMAGE_BYTES, medium, mode)?;
    let oracle = Ext4::new(&scratch.0, subject.size_bytes)?;
    for root in [&oracle.root, &subject.root] {
        let _ = std::fs::remove_dir(root.join("lost+found"));
    }
    let begun_s = super::actor::clock().0;
    let mut life = Life { program, oracle, subject, scratch, begun_s };
    let done = life.live(seed, kills);
    life.end_servers();
    match done {
        Ok(()) => Ok(None),
        Err(Failed::Differs(law, detail)) => Ok(Some(Difference { act: 0, law, detail })),
        Err(Failed::Cannot(why)) => Err(why),
    }
}

impl Life {
    fn live(&mut self, seed: u64, kills: u32) -> Step {
        let begun = Instant::now();
        let found = self.step("run", false)?;
        let took = begun.elapsed();
        let expected = self.step("run", true)?;
        self.same("a program ends alike on both sides", &expected, &found)?;
        let checked = self.observe("live", None)?;
        write("/proc/sys/vm/drop_caches", "3")?;
        let checked = self.observe("after the caches were dropped", Some(checked))?;
        self.remount()?;
        let checked = self.observe("after a remount", Some(checked))?;
        self.subject.sync()?;
        self.subject.kill();
        self.mount_after_crash()?;
        let checked = self.observe("after sync and a kill of the daemon", Some(checked))?;
        let mut random = SplitMix::new(seed);
        for _ in 0..kills {
            let after = took.mul_f64(random.below(1000) as f64 / 1000.0);
            self.kill_in_a_run(after, random.below(1 << 20), &checked)?;
        }
        self.end_servers();
        let done = self.subject.unmount().and_then(|()| self.subject.check());
        done.or_else(|why| differs("the volume is clean for e2fsck at the end", why))
    }

    /// Compares what the program's checker prints, and the trees; returns what the oracle's printed.
    fn observe(&self, when: &'static str, expected: Option<Printed>) -> Step<Printed> {
        let expected = expected.map_or_else(|| self.step("check", true), Ok)?;
        let found = self.step("check", false)?;
        if expected != found {
            let detail = format!("{when}: expected {expected:?}, found {found:?}");
            return differs("the program's own checker finds the same", detail);
        }
        if self.program.has_same_files {
            self.compare_trees(when)?;
        }
        Ok(expected)
    }

    fn compare_trees(&self, when: &'static str) -> Step {
        let [oracle, subject] = [&self.oracle.root, &self.subject.root].map(|root| contents(root));
        compare::trees(&oracle, &subject)?;
        let paths: BTreeSet<String> = oracle.into_keys().filter(|path| path != ".").collect();
        let [expected, found] =
            [&self.oracle.root, &self.subject.root].map(|root| attributes(root, &paths));
        self.compare_attributes(when, &expected, &found)
    }

    /// Times that the program set must be the same; those of its acts are later on both sides.
    fn compare_attributes(
        &self,
        when: &'static str,
        oracle: &BTreeMap<String, Found>,
        subject: &BTreeMap<String, Found>,
    ) -> Step {
        for (path, expected) in oracle {
            let (Ok(expected), Some(Ok(found))) = (expected, subject.get(path)) else { continue };
            compare::node(path, expected, found)?;
            let is_set = |time: Option<Time>| time.filter(|time| time.0 < self.begun_s);
            let (one, other) = (is_set(expected.times[1]), is_set(found.times[1]));
            if one != other && expected.kind() != FileType::Directory {
                let detail = format!("{when}: {path}: expected mtime {one:?}, found {other:?}");
                return differs("a program's time stays", detail);
            }
        }
        Ok(())
    }

    fn remount(&mut self) -> Step {
        if let Err(why) = self.subject.unmount().and_then(|()| self.subject.mount()) {
            return differs("it can be mounted again", why);
        }
        self.oracle.unmount()?;
        Ok(self.oracle.mount()?)
    }

    fn mount_after_crash(&mut self) -> Step {
        let done = self.subject.check().and_then(|()| self.subject.mount());
        done.or_else(|why| differs("it can be mounted after a crash", why))
    }

    /// Runs the program on an empty subject, lets a crash hit it, and goes on as a user does.
    fn kill_in_a_run(&mut self, after: Duration, seed: u64, checked: &Printed) -> Step {
        let root = self.subject.root.clone();
        tools::ok(
            "find",
            &[root.as_os_str(), "-mindepth".as_ref(), "1".as_ref(), "-delete".as_ref()],
        )?;
        let state = self.state(false);
        let _ = std::fs::remove_dir_all(&state);
        let mut command = self.command("run", false)?;
        command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut running = command.spawn().map_err(|error| format!("sh: {error}"))?;
        // No event says where the program is: the crash comes at a moment that the seed chose.
        std::thread::sleep(after);
        if self.subject.can_lose_power() {
            self.subject.cut_power(seed)?;
        } else {
            self.subject.kill();
        }
        if let Some(group) = Pid::from_raw(running.id() as i32) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = running.wait();
        self.end_servers();
        self.mount_after_crash()?;
        let found = self.step("again", false)?;
        if found.0 != Some(0) {
            let detail = format!("a crash after {after:?}: found {found:?}");
            return differs("a program goes on after a crash", detail);
        }
        if self.program.has_same_files {
            self.observe("after a crash in a run, and another run", Some(checked.clone()))?;
        }
        Ok(())
    }

    fn same(&self, law: &'static str, expected: &Printed, found: &Printed) -> Step {
        if expected == found {
            return Ok(());
        }
        let detail = format!("{}: expected {expected:?}, found {found:?}", self.program.name);
        differs(law, detail)
    }

    /// Folder of a side for sockets, logs and what was answered as durable.
    fn state(&self, is_oracle: bool) -> PathBuf {
        self.scratch.0.join(if is_oracle { "oracle-state" } else { "subject-state" })
    }

    fn command(&self, step: &str, is_oracle: bool) -> Result<Command, String> {
        let state = self.state(is_oracle);
        std::fs::create_dir_all(&state).map_err(|error| format!("{}: {error}", state.display()))?;
        tools::ok("chmod", &["711".as_ref(), state.as_os_str()])?;
        let root = if is_oracle { &self.oracle.root } else { &self.subject.root };
        let mut command =
            tools::command("sh", &["-c", self.program.script, self.program.name, step]);
        command.current_dir(root).env("STATE", state).env("SOURCE", self.scratch.0.join("source"));
        Ok(command)
    }

    fn step(&self, step: &str, is_oracle: bool) -> Result<Printed, String> {
        let mut command = self.command(step, is_oracle)?;
        let output = command.output().map_err(|error| format!("sh: {error}"))?;
        let code = output.status.code();
        if is_oracle && code != Some(0) {
            let words = tools::words_of(&output);
            return Err(format!(
                "{} {step} on ext4: {}: {words}",
                self.program.name, output.status
            ));
        }
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        if code != Some(0) {
            text.push_str(&String::from_utf8_lossy(&output.stderr));
        }
        Ok(Printed(code, text))
    }

    /// Ends the servers that a step left behind.
    fn end_servers(&self) {
        for is_oracle in [true, false] {
            for entry in std::fs::read_dir(self.state(is_oracle)).into_iter().flatten().flatten() {
                let path = entry.path();
                let is_pid = path.extension().is_some_and(|end| end == "pid");
                let text = std::fs::read_to_string(&path).ok().filter(|_| is_pid);
                if let Some(server) =
                    text.and_then(|text| text.trim().parse().ok()).and_then(Pid::from_raw)
                {
                    let _ = kill_process(server, Signal::KILL);
                }
            }
        }
    }
}

fn write(path: &str, text: &str) -> Result<(), String> {
    std::fs::write(Path::new(path), text).map_err(|error| format!("{path}: {error}"))
}
