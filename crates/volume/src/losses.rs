//! What people are told of writes that a disk lost, and of the volume that was opened again for it. It decides nothing.

use nearhead_disk::Nanos;
use std::fmt;

/// What people are to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LossEvent {
    /// Writes were lost, and the volume is being opened again.
    Lost {
        /// What the disk said.
        why: String,
    },
    /// It is open.
    Opened {
        /// Requests that were answered with an error.
        refused: u64,
        /// Records that recovery replayed.
        records: u64,
        /// How long nobody was served.
        took: Nanos,
    },
    /// It is not opened again, and failed.
    NotOpened {
        /// Why.
        problem: String,
    },
}

impl fmt::Display for LossEvent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { why } => write!(
                formatter,
                "writes were lost: {why}; the volume is opened again now, past the page cache. Requests under way get an \
                 error, and so does the next flush of each client: what was not flushed may be old"
            ),
            Self::Opened { refused, records, took } => write!(
                formatter,
                "the volume is open again after {:.0} ms, recovered {records} records, answered {refused} requests with an \
                 error; what was acknowledged as durable is there. It is slower until `serve` is started again, and a bad \
                 sector costs what touches it",
                took.as_secs_f64() * 1e3
            ),
            Self::NotOpened { problem } => {
                write!(formatter, "the volume is not opened again: {problem}")
            }
        }
    }
}

/// What was lost so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LossReport {
    /// How often.
    pub count: u64,
    /// What the disk said the last time, and when.
    pub last: Option<(String, Nanos)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_told_what_happened_and_what_it_cost() {
        let lost = LossEvent::Lost { why: "a sector was bad".to_owned() }.to_string();
        assert!(lost.starts_with("writes were lost: a sector was bad; the volume is opened again"));
        let took = Nanos::from_micros(1_234_567);
        let opened = LossEvent::Opened { refused: 3, records: 17, took }.to_string();
        let words =
            "open again after 1235 ms, recovered 17 records, answered 3 requests with an error";
        assert!(opened.contains(words), "{opened}");
        let problem = "it was so often".to_owned();
        let not = LossEvent::NotOpened { problem }.to_string();
        assert_eq!(not, "the volume is not opened again: it was so often");
    }
}
