//! From the kernel's pipe to the file, until the time is over or somebody ends it.
//!
//! Events of whole devices become events of what is traced: a partition's have its own number and its own sectors. A flush has no place, so it is one of
//! each part of its device. Memory is a read and a line.

use super::devices::Traced;
use super::event::{self, Event, Line};
use super::instance::Instance;
use super::output::Output;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The kernel tells of events only when many are there, so it is asked so often.
const TICK: Duration = Duration::from_millis(250);
const READ_BYTES: usize = 64 << 10;
/// A longer line is none of the kernel's.
const LINE_BYTES_MAX: usize = 4096;
/// Processes of which it is known whether they belong to the one that is traced.
const KNOWN_MAX: usize = 1 << 16;
/// Parents that are asked, from a thread up.
const PARENTS_MAX: usize = 32;

/// What is traced.
pub(super) struct Plan {
    pub(super) devices: Vec<Traced>,
    pub(super) process: Option<u32>,
    pub(super) span: Duration,
}

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub(super) struct Recorded {
    /// Events in the file.
    pub(super) events: u64,
    /// Requests that somebody asked for.
    pub(super) requests: u64,
    /// Flushes and writes with FUA among them.
    pub(super) durable_requests: u64,
    /// Requests that the traced process asked for itself.
    pub(super) marked_requests: u64,
    /// Events that found no room in the kernel's memory.
    pub(super) lost_events: u64,
    /// Lines that look like an event and are none.
    pub(super) strange_lines: u64,
    /// The first of them.
    pub(super) first_strange_line: Option<String>,
    pub(super) seconds: f64,
}

/// Records until the time is over, `ended` becomes readable, or the pipe ends; says when it has `begun`. Whatever goes wrong, what was recorded is in the file.
pub(super) fn record(
    instance: &Instance,
    plan: &Plan,
    output: &mut Output,
    ended: &impl AsFd,
    begun: impl FnOnce(),
) -> Result<Recorded, String> {
    let mut recorder = Recorder::new(plan);
    let mut pipe = instance.pipe()?;
    let started = Instant::now();
    instance.start()?;
    begun();
    loop {
        let left = plan.span.saturating_sub(started.elapsed());
        if left.is_zero() || has_ended(&pipe, ended, left.min(TICK))? {
            break;
        }
        let is_over = recorder.read(&mut pipe, output)?;
        output.write_due()?;
        if is_over {
            break;
        }
    }
    instance.stop()?;
    recorder.recorded.seconds = started.elapsed().as_secs_f64();
    recorder.read(&mut pipe, output)?;
    let Recorder { recorded: mut outcome, .. } = recorder;
    // The kernel counts them in the buffer, and says so in the pipe where they are missing.
    outcome.lost_events = outcome.lost_events.max(instance.lost().unwrap_or(0));
    Ok(outcome)
}

/// Waits for events; whether somebody wants an end instead.
fn has_ended(pipe: &File, ended: &impl AsFd, wait: Duration) -> Result<bool, String> {
    let mut asked = [PollFd::new(ended, PollFlags::IN), PollFd::new(pipe, PollFlags::IN)];
    let wait = Timespec::try_from(wait).map_err(|error| format!("trace: {error}"))?;
    match poll(&mut asked, Some(&wait)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!asked[0].revents().is_empty()),
        Err(error) => Err(format!("trace: cannot wait for events: {error}")),
    }
}

struct Recorder<'a> {
    plan: &'a Plan,
    recorded: Recorded,
    since_ns: Option<u64>,
    /// The beginning of a line.
    part: Vec<u8>,
    /// Whether a thread belongs to the process that is traced.
    known: HashMap<u32, bool>,
}

impl<'a> Recorder<'a> {
    fn new(plan: &'a Plan) -> Self {
        let recorded = Recorded::default();
        Self { plan, recorded, since_ns: None, part: Vec::new(), known: HashMap::new() }
    }

    /// Takes in all that is there; whether the pipe has ended.
    fn read(&mut self, pipe: &mut File, output: &mut Output) -> Result<bool, String> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match pipe.read(&mut buffer) {
                Ok(0) => return Ok(true),
                Ok(read) => self.take(&buffer[..read], output)?,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(format!("trace: cannot read on from the kernel: {error}"));
                }
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8], output: &mut Output) -> Result<(), String> {
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            let mut line = std::mem::take(&mut self.part);
            line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            self.line(&String::from_utf8_lossy(&line), output.text());
            output.write_due()?;
        }
        if self.part.len() + bytes.len() <= LINE_BYTES_MAX {
            self.part.extend_from_slice(bytes);
        } else {
            self.part.clear();
        }
        Ok(())
    }

    fn line(&mut self, line: &str, text: &mut String) {
        match event::parse(line) {
            Some(Line::Event(event)) => self.event(&event, text),
            Some(Line::Lost(events)) => self.recorded.lost_events += events,
            Some(Line::Other) => {}
            None => {
                self.recorded.strange_lines += 1;
                self.recorded.first_strange_line.get_or_insert_with(|| line.to_owned());
            }
        }
    }

    fn event(&mut self, event: &Event, text: &mut String) {
        let since_ns = *self.since_ns.get_or_insert(event.at_ns);
        let plan = self.plan;
        for traced in &plan.devices {
            let Some(mut own) = seen_from(traced, event) else { continue };
            let is_asked = event.action == 'Q';
            let is_marked = is_asked && self.is_marked(event.process);
            self.recorded.events += 1;
            if is_asked {
                self.recorded.requests += 1;
                self.recorded.durable_requests += u64::from(event.kind.contains('F'));
                self.recorded.marked_requests += u64::from(is_marked);
            }
            own.device = traced.number;
            own.write(text, self.recorded.events, since_ns, is_marked);
        }
    }

    /// Whether the process that is traced, or one that it started, asked for it.
    fn is_marked(&mut self, thread: u32) -> bool {
        let Some(process) = self.plan.process else { return false };
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        *self.known.entry(thread).or_insert_with(|| belongs_to(thread, process))
    }
}

/// An event of the whole device as one of `traced`; `None` of what lies elsewhere.
fn seen_from(traced: &Traced, event: &Event) -> Option<Event> {
    if event.device != traced.whole {
        return None;
    }
    let is_flush_alone = event.sectors == 0 && event.sector == 0;
    let end = traced.first_sector.saturating_add(traced.sectors);
    let lies_there = event.sector >= traced.first_sector
        && event.sector.checked_add(event.sectors).is_some_and(|last| last <= end);
    let sector = if is_flush_alone { 0 } else { event.sector.checked_sub(traced.first_sector)? };
    (is_flush_alone || lies_there).then(|| Event { sector, ..event.clone() })
}

/// Whether a thread is one of the process, or of one that it started, by `/proc`. A thread that is gone is none.
fn belongs_to(thread: u32, process: u32) -> bool {
    let mut number = thread;
    for _ in 0..PARENTS_MAX {
        let Ok(status) = std::fs::read_to_string(format!("/proc/{number}/status")) else {
            return false;
        };
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse::<u32>().ok()
        };
        let (Some(group), Some(parent)) = (field("Tgid:"), field("PPid:")) else { return false };
        if group == process {
            return true;
        }
        if parent == 0 {
            return false;
        }
        number = parent;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::event::EVENTS;
    use super::super::instance::tests::{MADE_UP, tree};
    use super::*;
    use nearhead_sim::trace::{Input, TraceOptions, TraceReader, TraceRequest};
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    fn device(number: (u32, u32), whole: (u32, u32), first_sector: u64, sectors: u64) -> Traced {
        let (name, facts) = ("disk".to_owned(), String::new());
        Traced { number, name, whole, first_sector, sectors, facts }
    }

    fn plan(devices: Vec<Traced>, process: Option<u32>) -> Plan {
        Plan { devices, process, span: Duration::from_secs(3600) }
    }

    /// What is recorded of a pipe that gives these bytes and ends, and the file's text.
    fn recorded(name: &str, plan: &Plan, pipe: &[u8]) -> (Recorded, String) {
        let root = tree(name);
        let names = EVENTS.iter().map(|(name, _)| *name);
        let instance = Instance::make(&root, MADE_UP, names, &[(7, 0)]).unwrap();
        let folder = root.join("instances").join(format!("nearhead-{}", std::process::id()));
        let path = root.join("a.trace");
        let mut output = Output::create(&path).unwrap();
        let (ended, _end) = UnixStream::pair().unwrap();
        let bytes = pipe.to_vec();
        let writer = std::thread::spawn(move || {
            File::options().write(true).open(folder.join("trace_pipe")).unwrap().write_all(&bytes)
        });
        let found = record(&instance, plan, &mut output, &ended, || ()).unwrap();
        writer.join().unwrap().unwrap();
        output.write().unwrap();
        drop(instance);
        let text = std::fs::read_to_string(&path).unwrap();
        check_that_replay_reads(&path, &text);
        std::fs::remove_dir_all(root).unwrap();
        (found, text)
    }

    fn check_that_replay_reads(path: &Path, text: &str) {
        if !text.is_empty() {
            let strict = TraceOptions { strict: true, ..TraceOptions::default() };
            assert!(TraceReader::open(path, strict).unwrap().all(|request| request.is_ok()));
        }
    }

    /// As Linux 6.18 printed it: a write of a journal's commit, between two flushes.
    const COMMIT: &str = "\
    jbd2/loop0p1-8-29672   [000] .....   711.892328: block_bio_queue: 7,0 FWFSM 182294 + 2 [jbd2/loop0p1-8]
    kworker/1:1H-54      [001] .....   711.892370: block_rq_issue: 7,0 FF 0 () 0 + 0 none,0,0 [kworker/1:1H]
     ksoftirqd/1-22      [001] ..s..   711.892605: block_rq_complete: 7,0 FF () 18446744073709551615 + 0 none,0,0 [0]
    kworker/1:1H-54      [001] .....   711.892620: block_rq_issue: 7,0 WSM 1024 () 182294 + 2 be,0,3 [kworker/1:1H]
     ksoftirqd/1-22      [001] ..s..   711.892698: block_rq_complete: 7,0 WSM () 182294 + 2 be,0,3 [0]
     ksoftirqd/1-22      [001] d.s1.   711.892850: block_rq_complete: 7,0 WSM () 182294 + 0 be,0,3 [0]
";

    #[test]
    fn a_partition_has_its_own_number_and_its_own_sectors_and_nothing_from_elsewhere() {
        let elsewhere = "dd-1 [000] ..... 711.9: block_bio_queue: 7,0 WS 512 + 8 [dd]\n\
                         dd-1 [000] ..... 711.9: block_bio_queue: 7,16 WS 182294 + 8 [dd]\n\
                         dd-1 [000] ..... 711.9: block_bio_queue: 7,0 WS 402047 + 8 [dd]\n";
        let plan = plan(vec![device((259, 0), (7, 0), 2048, 400_000)], None);
        let (found, text) = recorded("part", &plan, format!("{COMMIT}{elsewhere}").as_bytes());
        assert_eq!((found.events, found.requests, found.durable_requests), (6, 1, 1));
        let first = text.lines().next().unwrap();
        assert_eq!(
            first,
            "259,0    0        1     0.000000000 29672  Q FWFSM 180246 + 2 [jbd2/loop0p1-8]"
        );
        assert!(text.lines().all(|line| line.starts_with("259,0 ")), "{text}");
    }

    /// A run under Linux 6.1 that `blktrace` recorded, too (crates/sim/tests/blktrace.rs says what it was).
    #[test]
    fn the_kernel_s_events_come_to_the_same_requests_as_blktrace_s() {
        let recorded_there = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/tests/recorded");
        let pipe = std::fs::read(recorded_there.join("linux-6.1.trace_pipe.txt")).unwrap();
        let plan = plan(vec![device((254, 0), (254, 0), 0, 1 << 19)], None);
        let (found, text) = recorded("real", &plan, &pipe);
        assert_eq!(
            (found.strange_lines, found.lost_events),
            (0, 10),
            "as the made-up statistics have it"
        );
        let read = |input| -> Vec<_> {
            let reader = TraceReader::new(input, TraceOptions::default()).unwrap();
            reader.map(Result::unwrap).collect()
        };
        let own = read(Input::from_reader("own", std::io::Cursor::new(text.into_bytes())).unwrap());
        let theirs = read(Input::open(recorded_there.join("linux-6.1")).unwrap());
        // It was begun a moment before: one more at the start.
        let own = &own[1..];
        let (begun, their_begun) = (own[0].at, theirs[0].at);
        assert_eq!(own.len(), theirs.len());
        let us = |span: nearhead_disk::Nanos| span.0 as f64 / 1000.0;
        for (own, theirs) in own.iter().zip(&theirs) {
            let off_us = us(own.at.since(begun)) - us(theirs.at.since(their_begun));
            // The two look at their clocks one after the other, in a guest that was interrupted between.
            assert!(off_us.abs() < 50_000.0, "{own:?} {theirs:?}");
            assert!(own.response.is_some() && theirs.response.is_some(), "{own:?} {theirs:?}");
            let same = TraceRequest { at: theirs.at, response: theirs.response, ..*own };
            assert_eq!(same, *theirs);
        }
    }

    #[test]
    fn what_was_lost_is_counted_by_whoever_knows_of_more() {
        let plan = plan(vec![device((7, 0), (7, 0), 0, 1 << 20)], None);
        let by_buffer = recorded("lost-a", &plan, b"CPU:0 [LOST 3 EVENTS]\n").0;
        assert_eq!(by_buffer.lost_events, 10, "as the made-up statistics have it");
        let by_pipe = recorded("lost-b", &plan, b"CPU:0 [LOST 300 EVENTS]\n").0;
        assert_eq!(by_pipe.lost_events, 300);
    }

    #[test]
    fn lines_that_mean_nothing_are_counted_and_do_no_harm() {
        let mut pipe =
            format!("a-1 [0] ..... x: block_bio_queue: 7,0 W 8 + 8 [a]\n{COMMIT}").into_bytes();
        pipe.extend(vec![b'x'; 3 * READ_BYTES]);
        pipe.extend(b"\n\xff\xfe\n");
        pipe.extend(COMMIT.as_bytes());
        pipe.extend(b"a-1 [000] ..... 9.0: block_bio_queue: 7,0 W 8 + 8 [a");
        let plan = plan(vec![device((7, 0), (7, 0), 0, 1 << 20)], None);
        let (found, text) = recorded("strange", &plan, &pipe);
        assert_eq!((found.events, found.strange_lines), (12, 1));
        assert!(found.first_strange_line.unwrap().contains("[0] ..... x"));
        assert_eq!(text.lines().count(), 12);
    }

    #[test]
    fn what_the_process_and_those_that_it_started_ask_for_is_marked() {
        let own = std::process::id();
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let lines: String = [own, child.id(), 1]
            .map(|process| {
                format!("x-{process} [000] ..... 1.5: block_bio_queue: 7,0 WS 8 + 8 [x]\n")
            })
            .concat();
        let plan = plan(vec![device((7, 0), (7, 0), 0, 1 << 20)], Some(own));
        let (found, text) = recorded("marked", &plan, lines.as_bytes());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!((found.requests, found.marked_requests), (3, 2));
        let marks: Vec<bool> = text.lines().map(|line| line.ends_with("] *")).collect();
        assert_eq!(marks, [true, true, false]);
    }

    #[test]
    fn whoever_ends_it_keeps_what_is_there() {
        let root = tree("ended");
        let names = EVENTS.iter().map(|(name, _)| *name);
        let instance = Instance::make(&root, MADE_UP, names, &[(7, 0)]).unwrap();
        let mut output = Output::create(&root.join("a.trace")).unwrap();
        let (ended, mut end) = UnixStream::pair().unwrap();
        end.write_all(b"x").unwrap();
        let plan = plan(vec![device((7, 0), (7, 0), 0, 1 << 20)], None);
        let found = record(&instance, &plan, &mut output, &ended, || ()).unwrap();
        assert_eq!(found.events, 0);
        drop(instance);
        std::fs::remove_dir_all(root).unwrap();
    }
}
