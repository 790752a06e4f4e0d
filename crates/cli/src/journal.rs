//! What the journal of a daemon says of passes home: a line when one has run for a while, and one when it ended.
//!
//! Short passes that nobody asked for are part of every day, some presets make several a second; they are counted, not told.

use crate::units::ByteSize;
use nearhead_disk::Nanos;
use nearhead_engine::{Pass, PassReason};
use nearhead_output::inform;

/// A pass that takes less is not told by itself.
const WORTH_A_LINE: Nanos = Nanos::from_secs(1);

/// What was told so far.
#[derive(Debug, Default)]
pub struct ToldPasses {
    /// Number of the newest pass whose beginning was told.
    begun: u64,
    /// Number of the newest one that ended.
    ended: u64,
}

impl ToldPasses {
    /// Says what is new of the pass that runs, and of the last one that ended.
    pub fn tell(&mut self, (running, last): (Option<Pass>, Option<Pass>), now: Nanos) {
        self.lines((running, last), now).iter().for_each(|line| inform(line));
    }

    fn lines(&mut self, (running, last): (Option<Pass>, Option<Pass>), now: Nanos) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(pass) = last.filter(|pass| pass.number > self.ended) {
            self.ended = pass.number;
            let took = pass.ended_at.unwrap_or(now).since(pass.begun_at);
            if self.begun == pass.number || is_worth(&pass, took) {
                lines.push(format!(
                    "pass {} ended after {:.1} s: {} went home (it began as {})",
                    pass.number,
                    took.as_secs_f64(),
                    ByteSize(pass.copied_bytes),
                    pass.reason.in_words()
                ));
            }
        }
        if let Some(pass) = running.filter(|pass| pass.number > self.begun)
            && is_worth(&pass, now.since(pass.begun_at))
        {
            self.begun = pass.number;
            lines.push(format!("pass {} began, as {}", pass.number, pass.reason.in_words()));
        }
        lines
    }
}

fn is_worth(pass: &Pass, took: Nanos) -> bool {
    took >= WORTH_A_LINE || pass.reason == PassReason::Command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(number: u64, reason: PassReason, begun_s: u64, ended_s: Option<u64>) -> Pass {
        Pass {
            number,
            reason,
            begun_at: Nanos::from_secs(begun_s),
            ended_at: ended_s.map(Nanos::from_secs),
            copied_bytes: 4096,
        }
    }

    #[test]
    fn a_pass_that_lasts_is_told_at_both_ends_once_and_a_short_one_only_if_it_was_asked_for() {
        let mut told = ToldPasses::default();
        let long = pass(1, PassReason::Filling, 10, None);
        assert!(told.lines((Some(long), None), Nanos::from_secs(10)).is_empty());
        let began = ["pass 1 began, as the logs fill"];
        assert_eq!(told.lines((Some(long), None), Nanos::from_secs(11)), began);
        assert!(told.lines((Some(long), None), Nanos::from_secs(12)).is_empty());
        let ended = pass(1, PassReason::Filling, 10, Some(14));
        let words = ["pass 1 ended after 4.0 s: 4 KiB went home (it began as the logs fill)"];
        assert_eq!(told.lines((None, Some(ended)), Nanos::from_secs(14)), words);
        assert!(told.lines((None, Some(ended)), Nanos::from_secs(15)).is_empty());

        let short = pass(2, PassReason::Idle, 20, Some(20));
        assert!(told.lines((None, Some(short)), Nanos::from_secs(21)).is_empty());
        let asked = pass(3, PassReason::Command, 22, Some(22));
        assert_eq!(told.lines((None, Some(asked)), Nanos::from_secs(22)).len(), 1);
    }
}
