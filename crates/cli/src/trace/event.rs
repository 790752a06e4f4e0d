//! A line of a `trace_pipe` with a block event, and the same as `blkparse` would print it.
//!
//! ```text
//!       dd-29688   [000] .....   711.890391: block_bio_queue: 7,0 RM 17632 + 2 [dd]
//!       |  |        |            |           |                |   |  |       |  |
//!       |  |        |            |           |                |   |  |       |  process that asked; of a completion its error
//!       |  |        |            |           |                |   |  |       sectors of 512 bytes
//!       |  |        |            |           |                |   |  sector of the whole disk
//!       |  |        |            |           |                |   what it is
//!       |  |        |            |           |                device
//!       |  |        |            |           what happened
//!       |  |        |            seconds
//!       |  |        processor
//!       |  process
//!       its name, any 15 bytes
//! ```
//!
//! Requests of the device (`block_rq_...`) have their bytes and a passed-through command in brackets before the sector. The name may hold anything, so a line is taken apart
//! from the event's name in both directions. What cannot be understood is no event; nothing is guessed.

use std::fmt::Write as _;

/// The events that are recorded, and what `blkparse` calls them.
pub(super) const EVENTS: [(&str, char); 4] = [
    ("block_bio_queue", 'Q'),
    ("block_rq_issue", 'D'),
    ("block_rq_complete", 'C'),
    ("block_bio_complete", 'C'),
];

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Event(Event),
    /// The kernel had no room for so many.
    Lost(u64),
    /// Nothing that has to do with us.
    Other,
}

/// Something that happened to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) process: u32,
    pub(super) processor: u32,
    pub(super) at_ns: u64,
    /// As `blkparse` calls it.
    pub(super) action: char,
    pub(super) device: (u32, u32),
    pub(super) kind: String,
    pub(super) sector: u64,
    pub(super) sectors: u64,
    /// Who asked, or the error of a completion.
    pub(super) by: String,
}

/// Takes a line apart; `None` if it looks like an event and is none.
pub(super) fn parse(line: &str) -> Option<Line> {
    if let Some(lost) = lost(line) {
        return Some(Line::Lost(lost));
    }
    let found = EVENTS.iter().find_map(|(name, action)| {
        let (before, after) = line.split_once(&format!(": {name}: "))?;
        Some((before, after, *action))
    });
    let Some((before, after, action)) = found else {
        let is_ours = line.contains(": block_");
        return (!is_ours).then_some(Line::Other);
    };
    event(before, after, action).map(Line::Event)
}

/// `CPU:1 [LOST 27 EVENTS]`.
fn lost(line: &str) -> Option<u64> {
    let (cpu, rest) = line.trim().strip_prefix("CPU:")?.split_once(" [LOST ")?;
    cpu.parse::<u32>().ok()?;
    rest.strip_suffix(" EVENTS]")?.parse().ok()
}

fn event(before: &str, after: &str, action: char) -> Option<Event> {
    let (before, time) = before.rsplit_once(' ')?;
    let (process, processor) = who(before)?;
    let (device, rest) = after.split_once(' ')?;
    let (major, minor) = device.split_once(',')?;
    let (kind, rest) = rest.split_once(' ')?;
    // Bytes of a request and a passed-through command.
    let rest = match rest.split_once('(') {
        Some((bytes, rest)) if bytes.bytes().all(|byte| byte.is_ascii_digit() || byte == b' ') => {
            rest.split_once(") ")?.1
        }
        _ => rest,
    };
    let (sector, rest) = rest.split_once(" + ")?;
    let (sectors, rest) = rest.split_once(' ')?;
    let by = rest.split_once('[')?.1.strip_suffix(']')?;
    let (sectors, sector) = (sectors.parse().ok()?, sector.parse().ok()?);
    Some(Event {
        process,
        processor,
        at_ns: nanoseconds(time)?,
        action,
        device: (major.parse().ok()?, minor.parse().ok()?),
        kind: is_kind(kind).then(|| kind.to_owned())?,
        // A flush of the kernel's own has no place: all ones.
        sector: if sectors == 0 && sector == u64::MAX { 0 } else { sector },
        sectors,
        by: by.to_owned(),
    })
}

/// Process and processor: `NAME-NUMBER [CPU] FLAGS`, perhaps with the number of the whole process in brackets between.
fn who(before: &str) -> Option<(u32, u32)> {
    let end = before.rfind(']')?;
    let start = before[..end].rfind('[')?;
    let processor = before[start + 1..end].parse().ok()?;
    let name = before[..start].trim_end();
    let name = match name.rsplit_once('(') {
        Some((name, group)) if group.ends_with(')') => name.trim_end(),
        _ => name,
    };
    Some((name.rsplit_once('-')?.1.parse().ok()?, processor))
}

/// `711.890391`, of however many digits.
fn nanoseconds(time: &str) -> Option<u64> {
    let (seconds, parts) = time.split_once('.')?;
    if parts.is_empty() || parts.len() > 9 || !parts.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let parts: u64 = format!("{parts:0<9}").parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(parts)
}

fn is_kind(kind: &str) -> bool {
    !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_uppercase())
}

impl Event {
    /// The event as a line of `blkparse`, the `number`-th, of a trace that began at `since_ns`; a star behind it if it was issued by whom the trace is about.
    pub(super) fn write(&self, text: &mut String, number: u64, since_ns: u64, is_marked: bool) {
        let (major, minor) = self.device;
        let at_ns = self.at_ns.saturating_sub(since_ns);
        let (s, ns) = (at_ns / 1_000_000_000, at_ns % 1_000_000_000);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{major:3},{minor:<3} {:2} {number:8} {s:5}.{ns:09} {:5}  {} {:>3}",
            self.processor, self.process, self.action, self.kind
        );
        if self.sectors > 0 {
            let _ = write!(text, " {} + {}", self.sector, self.sectors);
        } else if self.action == 'C' {
            let _ = write!(text, " {}", self.sector);
        }
        let is_plain = |c: char| c.is_ascii_graphic() || c == ' ';
        let by = self.by.chars().map(|c| if is_plain(c) { c } else { '?' });
        text.push_str(" [");
        text.extend(by);
        text.push_str(if is_marked { "] *\n" } else { "]\n" });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(line: &str) -> Event {
        match parse(line) {
            Some(Line::Event(event)) => event,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// Seen of Linux 6.18 and 6.1.
    #[test]
    fn lines_of_the_kernel_are_taken_apart() {
        let queued = event(
            "              dd-29688   [000] .....   711.890391: block_bio_queue: 7,0 RM 17632 + 2 [dd]",
        );
        let expected = Event {
            process: 29688,
            processor: 0,
            at_ns: 711_890_391_000,
            action: 'Q',
            device: (7, 0),
            kind: "RM".to_owned(),
            sector: 17632,
            sectors: 2,
            by: "dd".to_owned(),
        };
        assert_eq!(queued, expected);
        let issued = event(
            " kworker/1:1H-54      [001] .....   711.892620: block_rq_issue: 7,0 WSM 1024 () 182294 + 2 be,0,3 [kworker/1:1H]",
        );
        assert_eq!((issued.action, issued.sector, issued.sectors), ('D', 182_294, 2));
        assert_eq!((issued.process, issued.by.as_str()), (54, "kworker/1:1H"));
        let older = event(
            "  jbd2/vda1-8-110     [000] .....    11.130843: block_rq_issue: 254,0 WSM 4096 () 27344 + 8 [jbd2/vda1-8]",
        );
        assert_eq!(
            (older.process, older.device, older.by.as_str()),
            (110, (254, 0), "jbd2/vda1-8")
        );
        let done = event(
            "     ksoftirqd/1-22      [001] ..s..   711.892698: block_rq_complete: 7,0 WSM () 182294 + 2 be,0,3 [0]",
        );
        assert_eq!((done.action, done.sectors, done.by.as_str()), ('C', 2, "0"));
        let flushed = event(
            "     ksoftirqd/1-22      [001] ..s..   711.892605: block_rq_complete: 7,0 FF () 18446744073709551615 + 0 none,0,0 [0]",
        );
        assert_eq!((flushed.sector, flushed.sectors), (0, 0));
    }

    #[test]
    fn a_name_may_be_anything() {
        for (line, process) in [
            (
                "my - [001] thing-77  [003] d..1. 5.5: block_bio_queue: 8,16 WS 8 + 8 [my - [001] thing]",
                77,
            ),
            (
                "         <...>-12      (     12) [003] d..1. 5.5: block_bio_queue: 8,16 WS 8 + 8 [a]",
                12,
            ),
            ("  (sd-pam)-9   [003] d..1. 5.5: block_bio_queue: 8,16 WS 8 + 8 [(sd-pam)]", 9),
        ] {
            let found = event(line);
            assert_eq!((found.process, found.processor, found.sector), (process, 3, 8), "{line}");
        }
    }

    #[test]
    fn what_is_lost_is_told_and_what_is_none_of_ours_is_passed_over() {
        assert_eq!(parse("CPU:1 [LOST 27 EVENTS]"), Some(Line::Lost(27)));
        for other in [
            "# tracer: nop",
            "",
            "a-1 [000] ..... 1.0: sched_switch: prev",
            "CPU:x [LOST 1 EVENTS]",
        ] {
            assert_eq!(parse(other), Some(Line::Other), "{other}");
        }
        for bad in [
            "a-1 [000] ..... 1.0: block_plug: [a]",
            "a-1 [000] ..... 1.0: block_bio_queue: 7,0 WS 8 + 8",
            "a-1 [000] ..... 1: block_bio_queue: 7,0 WS 8 + 8 [a]",
            "a-1 [000] ..... 1.0: block_bio_queue: 7 WS 8 + 8 [a]",
            "a-1 [000] ..... 1.0: block_bio_queue: 7,0 WS -8 + 8 [a]",
            "a-x [000] ..... 1.0: block_bio_queue: 7,0 WS 8 + 8 [a]",
            "a-1 ..... 1.0: block_bio_queue: 7,0 WS 8 + 8 [a]",
            ": block_bio_queue: ",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_event_is_written_as_blkparse_does_on_one_line_whatever_the_name() {
        let written = |line: &str, is_marked| {
            let mut text = String::new();
            event(line).write(&mut text, 3, 1_000_000_000, is_marked);
            text
        };
        assert_eq!(
            written("dd-7 [002] ..... 1.5: block_bio_queue: 8,0 FWFSM 8 + 8 [a\u{1b}b]", true),
            "  8,0    2        3     0.500000000     7  Q FWFSM 8 + 8 [a?b] *\n"
        );
        assert_eq!(
            written("dd-7 [002] ..... 1.5: block_bio_queue: 8,0 FWS 0 + 0 [a]", false),
            "  8,0    2        3     0.500000000     7  Q FWS [a]\n"
        );
        assert_eq!(
            written(
                "dd-7 [002] ..... 1.5: block_rq_complete: 8,0 WSM () 392 + 0 be,0,3 [0]",
                false
            ),
            "  8,0    2        3     0.500000000     7  C WSM 392 [0]\n"
        );
    }
}
