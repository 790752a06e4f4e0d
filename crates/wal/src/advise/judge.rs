//! From facts to advice. The same facts give the same advice; nothing is looked at here.
//!
//! The figures in the texts were measured on Linux 6.18 (docs/wal.md): a scheduler that honours priority, a log thread
//! that has it, bulk that is bounded, and appends into extents that are written already. What helps most comes first.

use super::facts::{Facts, Thread};
use super::log_names::{pattern_of, skips_zeros};
use std::fmt;
use std::path::Path;

/// Something that can be done at once, and undone as easily.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A thread gets the real-time I/O class.
    Priority {
        /// Its number.
        thread: u32,
        /// Its name.
        name: String,
    },
    /// A device gets another scheduler.
    Scheduler {
        /// Its numbers.
        device: (u32, u32),
        /// The scheduler.
        name: String,
    },
}

impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Priority { thread, name } => {
                write!(formatter, "real-time I/O class for thread {thread} ({name})")
            }
            Self::Scheduler { device: (major, minor), name } => {
                write!(formatter, "scheduler {name} for device {major}:{minor}")
            }
        }
    }
}

/// What would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What to do, and why, in one line.
    pub text: String,
    /// The same as something that can be done now.
    pub action: Option<Action>,
}

/// What would help, most first.
pub fn judge(facts: &Facts) -> Vec<Advice> {
    let mut advice = Vec::new();
    advice.extend(about_place(facts));
    advice.extend(about_scheduler(facts));
    advice.extend(about_threads(facts));
    advice.extend(about_writes(facts));
    advice.extend(about_processors(facts));
    advice
}

fn say(text: String) -> Advice {
    Advice { text, action: None }
}

/// What makes every other advice worthless comes first.
fn about_place(facts: &Facts) -> Option<Advice> {
    let place = facts.directory.display();
    let (kind, options) = facts.file_system.as_ref()?;
    let has = |option: &str| options.split(',').any(|it| it == option);
    let text = match kind.as_str() {
        "tmpfs" | "ramfs" => format!(
            "{place} is memory ({kind}): nothing there survives a power cut; move the log to a disk"
        ),
        "overlay" => format!(
            "{place} is a container's overlay: each first write copies a file up; give the log a volume of its own"
        ),
        "nfs" | "nfs4" | "cifs" | "9p" => format!(
            "{place} is on a network ({kind}): each sync is a round trip, and nothing here can shorten it; use a local disk"
        ),
        _ if has("sync") || has("dirsync") => format!(
            "{place} is mounted with sync: bulk writes are synchronous, too; mount it without, the log syncs by itself"
        ),
        _ if has("data=journal") => format!(
            "{place} is mounted with data=journal: bulk is written twice; mount it with data=ordered"
        ),
        _ => return None,
    };
    Some(say(text))
}

fn about_scheduler(facts: &Facts) -> Option<Advice> {
    let device = facts.device?;
    let scheduler = facts.scheduler.as_deref()?;
    let can_have = |name: &str| facts.schedulers_other.iter().any(|other| other == name);
    match scheduler {
        "none" | "kyber" if can_have("mq-deadline") => {
            let text = format!(
                "scheduler {scheduler} honours no priority: with mq-deadline, writes of threads in the real-time class go first (not for a log that is written all the time: nothing else begins while one such write is under way)"
            );
            let name = "mq-deadline".to_owned();
            Some(Advice { text, action: Some(Action::Scheduler { device, name }) })
        }
        "none" | "kyber" => Some(say(format!(
            "scheduler {scheduler} honours no priority, and there is no other: pace bulk (below)"
        ))),
        "bfq" => Some(say(
            "scheduler bfq honours priorities by idling the device, which costs bulk most of its bandwidth: mq-deadline with paced bulk (docs/wal-performance.md) costs little".to_owned(),
        )),
        _ => None,
    }
}

/// Whether a thread writes a log, by the names that services give theirs: ZooKeeper, Cassandra, `InnoDB`, Kafka's
/// controller, and ours. Names are cut to 15 bytes; a JVM keeps their beginning and their end.
fn writes_a_log(thread: &Thread) -> bool {
    [
        "SyncThread:",
        "COMMIT-L",
        "ib_log_writer",
        "ib_log_flush",
        "log_writer",
        "wal",
        "nearhead-wal",
    ]
    .iter()
    .any(|start| thread.name.starts_with(start))
}

fn about_threads(facts: &Facts) -> Vec<Advice> {
    let late = |thread: &&Thread| writes_a_log(thread) && thread.is_real_time == Some(false);
    let advice = |thread: &Thread| Advice {
        text: format!(
            "thread {} ({}) writes the log with the priority of all others: give it the real-time I/O class (needs CAP_SYS_NICE)",
            thread.number, thread.name
        ),
        action: Some(Action::Priority { thread: thread.number, name: thread.name.clone() }),
    };
    let is_worth_it = !matches!(facts.scheduler.as_deref(), Some("none" | "kyber"))
        || facts.schedulers_other.iter().any(|other| other == "mq-deadline");
    let threads = facts.threads.iter().filter(|_| is_worth_it);
    threads.filter(late).map(advice).collect()
}

fn about_writes(facts: &Facts) -> Vec<Advice> {
    let mut advice = Vec::new();
    let slow = facts.files.iter().find(|file| file.is_log && !file.is_direct);
    if let Some(file) = slow {
        advice.push(say(about_log(&file.path)));
    }
    let is_known_idle = facts.process.is_some() && facts.files.iter().all(|file| file.is_log);
    if !is_known_idle {
        advice.push(say(
            "bulk on the same disk (snapshots, compactions): `nearhead run --bulk 'PATTERN'` bounds what is in flight, which a write of the log waits behind; needs no scheduler and no privilege".to_owned(),
        ));
    }
    advice
}

/// Advice about `nearhead run` for a log, with the cost of its exact size.
fn about_log(path: &Path) -> String {
    let pattern = pattern_of(path).unwrap_or_else(|| path.display().to_string());
    let shown = path.display();
    if skips_zeros(path) {
        return format!(
            "{shown} goes through the page cache: `nearhead run --ahead --wal '{pattern}' -- COMMAND` appends past it into extents written already, with zeros behind the content, which its program skips (3.5 times as fast as write and fdatasync on a growing file)"
        );
    }
    format!(
        "{shown} goes through the page cache: `nearhead run --wal '{pattern}' -- COMMAND` gives its syncs a priority of their own and paces bulk by them. Its size stays exact, so a sync that grows it still waits for the file system's journal; `--ahead` avoids that, for a program that skips zeros behind its log"
    )
}

/// Last, since it costs power: whoever does not count microseconds does without.
fn about_processors(facts: &Facts) -> Option<Advice> {
    let can_sleep = facts.wake_up_limit_us.is_some_and(|limit| limit > 0);
    can_sleep.then(|| {
        say("processors sleep while a write is under way, and it waits for them to wake up (in a virtual machine a third of a write of 0.13 ms): `nearhead run --awake`, or tuned's profile latency-performance, keeps them awake; costs power".to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::OpenFile;

    fn facts(scheduler: &str, others: &[&str], kind: &str) -> Facts {
        Facts {
            process: Some(1),
            process_name: "java".to_owned(),
            threads: vec![
                Thread { number: 11, name: "main".to_owned(), is_real_time: Some(false) },
                Thread { number: 12, name: "SyncThread:1".to_owned(), is_real_time: Some(false) },
                Thread { number: 13, name: "SyncThread:2".to_owned(), is_real_time: Some(true) },
            ],
            files: vec![OpenFile {
                path: "/zk/log.1".into(),
                is_log: true,
                writes_through: false,
                is_direct: false,
            }],
            directory: "/zk".into(),
            file_system: Some((kind.to_owned(), "rw".to_owned())),
            device: Some((8, 0)),
            scheduler: Some(scheduler.to_owned()),
            schedulers_other: others.iter().map(|name| (*name).to_owned()).collect(),
            wake_up_limit_us: Some(2_000_000_000),
        }
    }

    fn actions(facts: &Facts) -> Vec<String> {
        let actions = judge(facts).into_iter().filter_map(|advice| advice.action);
        actions.map(|action| action.to_string()).collect()
    }

    #[test]
    fn the_log_thread_goes_first_where_the_scheduler_looks() {
        let priority = "real-time I/O class for thread 12 (SyncThread:1)";
        assert_eq!(actions(&facts("mq-deadline", &["none"], "ext4")), [priority]);
        let both = ["scheduler mq-deadline for device 8:0", priority];
        assert_eq!(actions(&facts("none", &["mq-deadline"], "ext4")), both);
        assert_eq!(actions(&facts("none", &[], "ext4")), [""; 0]);
    }

    #[test]
    fn a_place_that_makes_the_rest_worthless_is_told_first() {
        for (kind, word) in [("tmpfs", "memory"), ("overlay", "overlay"), ("nfs4", "network")] {
            let advice = judge(&facts("mq-deadline", &[], kind));
            assert!(advice[0].text.contains(word), "{advice:?}");
        }
    }

    #[test]
    fn processors_that_sleep_are_told_of_last_and_those_kept_awake_not_at_all() {
        let mut facts = facts("mq-deadline", &[], "ext4");
        assert!(judge(&facts).last().unwrap().text.contains("--awake"));
        for unknown_or_awake in [Some(0), None] {
            facts.wake_up_limit_us = unknown_or_awake;
            assert!(judge(&facts).iter().all(|advice| !advice.text.contains("--awake")));
        }
    }

    #[test]
    fn every_advice_is_one_line() {
        for scheduler in ["none", "bfq", "mq-deadline", "kyber"] {
            let advice = judge(&facts(scheduler, &["mq-deadline"], "xfs"));
            assert!(advice.iter().all(|advice| advice.text.lines().count() == 1));
            assert!(
                advice.iter().any(|advice| advice.text.contains("nearhead run --wal '/zk/log.*'"))
            );
        }
        assert_eq!(judge(&Facts::default()).len(), 1, "nothing known: only what always helps");
    }
}
