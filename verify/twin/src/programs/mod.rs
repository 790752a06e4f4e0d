//! Real programs on both sides: each has its own verdict, and may lose processes below it.
//!
//! The oracle's run comes first and without faults: a program that fails there says nothing about the
//! subject. A kill of both ends what the program has under way; then the volume is attached again.

mod dd;
mod fio;
mod fsx;
mod postgres;

use crate::act::Who;
use crate::faults;
use crate::file_systems::Mounted;
use crate::run::{Settings, Twin};
use crate::side::Side;
use crate::{Difference, Failed, Step, differs, tools};
use rustix::process::Pid;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Folder of `PostgreSQL`'s programs, if it is installed.
pub fn postgres_programs() -> Option<PathBuf> {
    postgres::programs()
}

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Random operations on one file of ext4, against a model in memory.
    Fsx,
    /// `PostgreSQL` under pgbench.
    Postgres,
    /// fio with its own verification, on the device.
    Fio,
    /// A copy of a file to the device and back.
    Dd,
}

impl Program {
    /// Every value with its word.
    pub const ALL: [(&'static str, Self); 4] =
        [("fsx", Self::Fsx), ("postgres", Self::Postgres), ("fio", Self::Fio), ("dd", Self::Dd)];

    /// Tools that the machine needs for it.
    fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Fsx => &["mkfs.ext4", "mount", "umount"],
            Self::Postgres => &["mkfs.ext4", "mount", "umount", "runuser", "pgbench"],
            Self::Fio => &["fio"],
            Self::Dd => &["dd", "cmp"],
        }
    }
}

/// How a program is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The program.
    pub program: Program,
    /// What its operations follow from.
    pub seed: u64,
    /// Operations of the program, or transactions.
    pub acts: u64,
    /// Processes that are killed below it.
    pub kill: Option<Who>,
    /// How often.
    pub kills: u32,
}

/// Why the machine cannot run it.
pub fn why_not(program: Program) -> Option<String> {
    if program == Program::Postgres && postgres::programs().is_none() {
        return Some("PostgreSQL is not installed".to_owned());
    }
    tools::need(program.tools()).err()
}

/// Runs the program on the oracle and on the subject.
pub fn run(settings: &Settings, plan: Plan) -> Result<Option<Difference>, String> {
    if let Some(why) = why_not(plan.program) {
        return Err(why);
    }
    let mut twin = Twin::new(settings)?;
    twin.close_both();
    let oracle = Place { device: twin.oracle.device(), folder: twin.scratch.0.join("oracle") };
    let subject = Place { device: twin.subject.device(), folder: twin.scratch.0.join("subject") };
    for place in [&oracle, &subject] {
        let made = std::fs::create_dir_all(&place.folder);
        made.map_err(|error| format!("{}: {error}", place.folder.display()))?;
    }
    let quiet = Plan { kill: None, kills: 0, ..plan };
    let on = |place: &Place, twin: &mut Twin, plan: Plan| match plan.program {
        Program::Fsx => fsx::run(place, twin, plan),
        Program::Postgres => postgres::run(place, twin, plan),
        Program::Fio => fio::run(place, twin, plan),
        Program::Dd => dd::run(place, twin, plan),
    };
    match on(&oracle, &mut twin, quiet) {
        Ok(()) => {}
        Err(Failed::Differs(_, why) | Failed::Cannot(why)) => {
            return Err(format!("on the oracle: {why}"));
        }
    }
    match on(&subject, &mut twin, plan) {
        Ok(()) => Ok(None),
        Err(Failed::Differs(law, detail)) => Ok(Some(Difference { act: 0, law, detail })),
        // The same step worked on the oracle.
        Err(Failed::Cannot(detail)) => {
            Ok(Some(Difference { act: 0, law: "a program ends alike on both sides", detail }))
        }
    }
}

/// A side, for a program.
#[derive(Debug)]
struct Place {
    device: PathBuf,
    /// Where its file system is mounted.
    folder: PathBuf,
}

impl Place {
    fn make_ext4(&self) -> Result<(), String> {
        let args = ["-q".as_ref(), "-F".as_ref(), self.device.as_os_str()];
        tools::ok("mkfs.ext4", &args).map(drop)
    }

    fn mount(&self) -> Result<Mounted, String> {
        Mounted::new(&self.device, &self.folder, "rw")
    }
}

/// Attaches again after a kill of supervisor or of both; nothing uses the device.
fn bring_back(twin: &mut Twin, killed: Who) -> Step {
    if killed == Who::Both {
        faults::bring_back(twin)?;
    } else if killed == Who::Supervisor {
        faults::reattach_subject(twin)?;
    }
    twin.close_both();
    Ok(())
}

/// Kills workers while `work` runs, `kills` times at most; the pause gives the next one something to do.
fn with_kills<T>(
    twin: &Twin,
    kills: u32,
    work: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let killer = scope.spawn(|| -> Result<(), String> {
            let mut last: Option<Pid> = None;
            for _ in 0..kills {
                std::thread::sleep(Duration::from_millis(200));
                let worker = twin.subject.worker()?;
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
                if last != Some(worker) {
                    twin.subject.kill_found(Who::Worker, worker)?;
                }
                last = Some(worker);
            }
            Ok(())
        });
        let done = work();
        is_over.store(true, Ordering::SeqCst);
        killer.join().unwrap_or_else(|_| Err("the killer panicked".to_owned()))?;
        done
    })
}

/// Runs `sh -c script` to its end.
fn shell(script: &str) -> Result<String, String> {
    tools::ok("sh", &["-c", script])
}

/// The path in single quotes, as a shell takes it.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}

/// Fails with `law` if a step that worked on the oracle fails.
fn must<T>(law: &'static str, done: Result<T, String>) -> Step<T> {
    done.or_else(|why| differs(law, why))
}
