//! What a server said of the bytes after one place: runs that certainly read as zero, and others.
//!
//! Only the flag that says "reads as zero" counts, never the one that says "a hole": what was never
//! stored may read as anything ("Metadata querying" in the NBD project's `doc/proto.md`).

use crate::protocol::constants::allocation;
use nearhead_disk::Run;

/// Most runs kept of one answer; the rest is asked for again.
const RUNS_MAX: usize = 4096;

/// The answer to one request.
#[derive(Debug)]
pub(super) struct Status {
    from: u64,
    /// What was asked for ends here.
    end: u64,
    /// Where each run ends, and whether it reads as zero; neighbours differ.
    runs: Vec<(u64, bool)>,
    /// As far as the server told.
    told: u64,
    is_full: bool,
}

impl Status {
    /// Before anything was said of `from..end`.
    pub(super) fn of(from: u64, end: u64) -> Self {
        Self { from, end, runs: Vec::new(), told: from, is_full: false }
    }

    /// The server says what the next `len` bytes are. What lies past the end is not taken.
    pub(super) fn add(&mut self, len: u64, flags: u64) {
        self.told = self.told.saturating_add(len).min(self.end);
        let zero = flags & u64::from(allocation::ZERO) != 0;
        let count = self.runs.len();
        match self.runs.last_mut() {
            _ if self.is_full => {}
            Some((end, kind)) if *kind == zero => *end = self.told,
            _ if count == RUNS_MAX => self.is_full = true,
            _ => self.runs.push((self.told, zero)),
        }
    }

    /// Whether the server said anything.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// What is known from `offset` on.
    pub(super) fn run_at(&self, offset: u64) -> Option<Run> {
        if offset < self.from {
            return None;
        }
        let next = self.runs.partition_point(|(end, _)| *end <= offset);
        let (end, zero) = self.runs.get(next)?;
        Some(Run { len: end - offset, zero: *zero })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_reads_as_zero_is_blank_and_nothing_past_what_was_asked_for() {
        let mut status = Status::of(100, 1000);
        let hole = u64::from(allocation::HOLE);
        let zero = u64::from(allocation::ZERO);
        for (len, flags) in
            [(50, zero), (50, zero | hole), (100, hole), (10, 0), (u64::MAX, zero | 1 << 40)]
        {
            status.add(len, flags);
        }
        assert_eq!(status.run_at(99), None);
        assert_eq!(status.run_at(100), Some(Run { len: 100, zero: true }));
        assert_eq!(status.run_at(199), Some(Run { len: 1, zero: true }));
        assert_eq!(status.run_at(200), Some(Run { len: 110, zero: false }));
        assert_eq!(status.run_at(310), Some(Run { len: 690, zero: true }));
        assert_eq!(status.run_at(1000), None);
    }

    #[test]
    fn an_answer_in_countless_pieces_takes_bounded_memory_and_its_beginning_holds() {
        let mut status = Status::of(0, 1 << 40);
        (0..1 << 20).for_each(|at| status.add(512, if at % 2 == 0 { 2 } else { 0 }));
        assert_eq!(status.runs.len(), RUNS_MAX);
        assert_eq!(status.run_at(512 * 10), Some(Run { len: 512, zero: true }));
        assert_eq!(status.run_at(512 * RUNS_MAX as u64), None);
    }
}
