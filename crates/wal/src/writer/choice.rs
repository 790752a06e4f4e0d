//! Which writer is taken, and the one line that says so and what would be better.
//!
//! The facts behind it, measured on Linux 6.18: I/O priority belongs to a thread. BFQ honours
//! threads' classes and levels and ignores those of requests, and pays for it by idling the device
//! (bulk fell from 237 to 54 MiB/s). mq-deadline honours the class, of threads and of requests, and
//! knows no levels; while a real-time request is under way it begins none of another class, so a log that always
//! has one starves bulk (docs/wal-performance.md). `none` and kyber honour neither. The real-time class needs a privilege. Flushes
//! carry no priority. Bounding bulk bytes in flight ([`crate::bulk`]) needs none of this.

use super::{Permitted, Place};
use nearhead_uring::IoPriority;
use std::fmt;

/// Who writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// A thread of the log's own, real-time if permitted, else the first of best effort.
    #[default]
    Thread,
    /// Whoever waits for durability, each request with a priority of its own.
    Request,
    /// Whoever waits for durability: the least overhead of all. Where the scheduler looks at the
    /// class, the thread is lent the real-time class for the time of the write, if permitted.
    Caller,
    /// A helper process of the log's own ([`crate::process`]), real-time if permitted, else the
    /// first of best effort: what the paper did. Takes two more changes of processes for each
    /// write, and survives what a thread does not: a program that is stopped or swapped out.
    Process,
}

/// What was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Who writes; not always who was wished for.
    pub mode: Mode,
    /// With what priority; `None` leaves it alone.
    pub priority: Option<IoPriority>,
    /// What was picked, and why.
    pub picked: String,
    /// What would be better, if anything would.
    pub better: Option<String>,
}

impl fmt::Display for Choice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.picked)?;
        self.better.as_ref().map_or(Ok(()), |better| write!(formatter, "; better: {better}"))
    }
}

/// What a scheduler does about priorities.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Honours {
    Nothing,
    /// Classes, of threads and requests.
    Classes,
    /// Classes and levels, of threads.
    Threads,
    Unknown,
}

fn honours(scheduler: Option<&str>) -> Honours {
    match scheduler {
        Some("mq-deadline") => Honours::Classes,
        Some("bfq") => Honours::Threads,
        Some("none" | "kyber") => Honours::Nothing,
        _ => Honours::Unknown,
    }
}

impl Choice {
    /// Adds what became known when it was carried out.
    pub(crate) fn add(&mut self, fact: &str) {
        self.picked.push_str("; ");
        self.picked.push_str(fact);
    }

    /// Decides; the same for the same facts.
    pub fn make(wished: Mode, place: &Place, permitted: Permitted) -> Self {
        let honours = honours(place.scheduler.as_deref());
        let mode = match wished {
            Mode::Request if !permitted.uring => Mode::Thread,
            wished => wished,
        };
        let strongest =
            if permitted.real_time { IoPriority::REAL_TIME } else { IoPriority::BEST_EFFORT_FIRST };
        // A level lent for a moment gains nothing under bfq, which plans by thread.
        let is_worth_lending = honours == Honours::Classes && permitted.real_time;
        let priority = (mode != Mode::Caller || is_worth_lending).then_some(strongest);
        let scheduler = place.scheduler.as_deref().unwrap_or("unknown");
        let who = match (wished, mode) {
            (Mode::Request, Mode::Thread) => {
                "a dedicated thread, as there is no io_uring for requests"
            }
            (_, Mode::Thread) => "a dedicated thread",
            (_, Mode::Process) => "a helper process",
            (_, Mode::Request) => "requests of their own priority, made by whoever waits",
            (_, Mode::Caller) => "whoever waits",
        };
        let class = match priority {
            None => "with the priority it has",
            Some(_) if mode == Mode::Caller => "lent the real-time class for each write",
            Some(_) if permitted.real_time => "in the real-time class",
            Some(_) => "first of best effort (real-time is not permitted)",
        };
        let effect = match (honours, mode, permitted.real_time) {
            _ if priority.is_none() => "no priority is asked for",
            (Honours::Nothing, ..) => "it honours no priority",
            (Honours::Unknown, ..) => "whether priority has an effect is unknown",
            (Honours::Classes, _, true) => {
                "it honours the class, and begins nothing of another while one such write is under way"
            }
            (Honours::Classes, _, false) => "it honours classes only, so this has no effect",
            (Honours::Threads, Mode::Request, _) => "it ignores the priority of requests",
            (Honours::Threads, ..) => "it honours the thread's priority",
        };
        let path = match (place.is_direct, place.writes_through) {
            (true, true) => "O_DIRECT with RWF_DSYNC",
            (true, false) => "O_DIRECT and fdatasync",
            (false, true) => "page cache with RWF_DSYNC",
            (false, false) => "page cache and fdatasync",
        };
        Self {
            mode,
            priority,
            picked: format!("writes by {who}, {class}; {path}; scheduler {scheduler}: {effect}"),
            better: better(honours, mode, place, permitted),
        }
    }
}

fn better(honours: Honours, mode: Mode, place: &Place, permitted: Permitted) -> Option<String> {
    let mut advice = Vec::new();
    let remedy = "pace bulk I/O, which needs no scheduler and no privilege";
    match (honours, mode) {
        (Honours::Threads, Mode::Request) => advice.push("a dedicated thread under bfq".to_owned()),
        (Honours::Classes, _) if !permitted.real_time && mode != Mode::Caller => {
            advice.push(format!("CAP_SYS_NICE for the real-time class, or {remedy}"));
        }
        (Honours::Nothing, _) => {
            let other = place.schedulers_other.iter().find(|name| *name == "mq-deadline");
            let switch = other.filter(|_| permitted.real_time && mode != Mode::Caller);
            let but = "which leaves bulk next to nothing if the log is written all the time";
            advice.push(
                switch
                    .map_or(remedy.to_owned(), |_| format!("{remedy}, or set mq-deadline, {but}")),
            );
        }
        (Honours::Unknown, _) => advice.push(remedy.to_owned()),
        _ => {}
    }
    if !place.is_direct {
        advice.push(
            "a file system with direct I/O: through the page cache writes wait behind writeback"
                .to_owned(),
        );
    }
    (!advice.is_empty()).then(|| advice.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(scheduler: Option<&str>) -> Place {
        Place {
            device: Some((8, 0)),
            scheduler: scheduler.map(str::to_owned),
            schedulers_other: vec!["mq-deadline".into(), "bfq".into()],
            is_direct: true,
            align_bytes: 512,
            writes_through: true,
        }
    }

    const ALL: Permitted = Permitted { real_time: true, uring: true };
    const NOTHING: Permitted = Permitted { real_time: false, uring: false };

    #[test]
    fn the_best_that_is_permitted_is_picked() {
        let choice = Choice::make(Mode::Thread, &place(Some("mq-deadline")), ALL);
        assert_eq!(choice.priority, Some(IoPriority::REAL_TIME));
        assert_eq!(choice.better, None);
        let choice = Choice::make(Mode::Thread, &place(Some("bfq")), NOTHING);
        assert_eq!(choice.priority, Some(IoPriority::BEST_EFFORT_FIRST));
        assert_eq!(choice.better, None);
        assert_eq!(Choice::make(Mode::Caller, &place(None), ALL).priority, None);
        assert_eq!(Choice::make(Mode::Caller, &place(Some("bfq")), ALL).priority, None);
        let lent = Choice::make(Mode::Caller, &place(Some("mq-deadline")), ALL);
        assert_eq!(lent.priority, Some(IoPriority::REAL_TIME));
        assert!(lent.picked.contains("lent the real-time class"), "{lent}");
    }

    #[test]
    fn without_io_uring_requests_become_a_thread_and_the_line_says_so() {
        let choice = Choice::make(Mode::Request, &place(Some("mq-deadline")), NOTHING);
        assert_eq!(choice.mode, Mode::Thread);
        assert!(choice.to_string().contains("no io_uring"), "{choice}");
    }

    #[test]
    fn what_has_no_effect_is_said_with_what_would_be_better() {
        let cases = [
            (Mode::Thread, Some("none"), ALL, "honours no priority", "pace bulk"),
            (Mode::Thread, Some("mq-deadline"), NOTHING, "no effect", "CAP_SYS_NICE"),
            (Mode::Request, Some("bfq"), ALL, "ignores", "dedicated thread under bfq"),
            (Mode::Thread, None, ALL, "unknown", "pace bulk"),
        ];
        for (mode, scheduler, permitted, effect, better) in cases {
            let choice = Choice::make(mode, &place(scheduler), permitted);
            assert!(choice.picked.contains(effect), "{choice}");
            assert!(choice.better.as_ref().is_some_and(|it| it.contains(better)), "{choice}");
            assert_eq!(choice.to_string().lines().count(), 1);
        }
    }
}
