//! What a report says of how logs are emptied: the pass home that runs, why, and how the last one ended.

use crate::units::ByteSize;
use nearhead_disk::Nanos;
use nearhead_engine::Pass;
use serde::{Deserialize, Serialize};

/// A pass that takes logged blocks home.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PassReport {
    /// The first one since the volume was opened is 1.
    pub number: u64,
    /// Why it began: `idle`, `filling`, `time`, `no-room`, `map-full` or `command`.
    pub reason: String,
    /// The same for people.
    pub reason_in_words: String,
    /// How long it has run, or took, in seconds.
    pub took_s: f64,
    /// How long ago it ended, in seconds, if it did.
    pub ended_age_s: Option<f64>,
    /// What it took home.
    pub copied_bytes: u64,
}

impl PassReport {
    /// Of a pass, at the time `now` of the volume's clock.
    pub fn of(pass: &Pass, now: Nanos) -> Self {
        let until = pass.ended_at.unwrap_or(now);
        Self {
            number: pass.number,
            reason: pass.reason.name().to_owned(),
            reason_in_words: pass.reason.in_words().to_owned(),
            took_s: until.since(pass.begun_at).as_secs_f64(),
            ended_age_s: pass.ended_at.map(|at| now.since(at).as_secs_f64()),
            copied_bytes: pass.copied_bytes,
        }
    }

    /// For people.
    pub fn in_words(&self) -> String {
        let Self { reason_in_words, took_s, .. } = self;
        let copied = ByteSize(self.copied_bytes);
        match self.ended_age_s {
            None => {
                format!("blocks go home for {took_s:.0} s, as {reason_in_words}: {copied} so far")
            }
            Some(age_s) => format!(
                "the last pass ended {age_s:.0} s ago: {copied} home in {took_s:.1} s, as {reason_in_words}"
            ),
        }
    }
}
