//! A disk that books what passes through it: for how long reads, and writes, were outstanding.
//!
//! It changes nothing and delays nothing. Only reports look at its counts; nothing that decides
//! anything may.

use nearhead_disk::{Command, CommandId, Completion, Disk, Nanos, Properties, Submission};
use std::collections::BTreeMap;

/// What passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes of completed reads.
    pub read_bytes: u64,
    /// Bytes of completed writes.
    pub write_bytes: u64,
    /// Time during which at least one read and no write was outstanding.
    pub reading: Nanos,
    /// Time during which at least one write was outstanding.
    pub writing: Nanos,
}

impl Passed {
    /// What passed since `earlier`.
    #[must_use]
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            read_bytes: self.read_bytes - earlier.read_bytes,
            write_bytes: self.write_bytes - earlier.write_bytes,
            reading: self.reading - earlier.reading,
            writing: self.writing - earlier.writing,
        }
    }
}

/// A disk with its books.
pub(crate) struct Metered<D> {
    disk: D,
    passed: Passed,
    /// Whether each outstanding transfer writes, and its bytes; as many as the disk takes.
    outstanding: BTreeMap<CommandId, (bool, u64)>,
    writes_outstanding: usize,
    changed_at: Nanos,
}

impl<D: Disk> Metered<D> {
    /// Books what passes through `disk` from now on.
    pub(crate) fn new(disk: D) -> Self {
        Self {
            disk,
            passed: Passed::default(),
            outstanding: BTreeMap::new(),
            writes_outstanding: 0,
            changed_at: Nanos::ZERO,
        }
    }

    /// The disk itself.
    pub(crate) fn disk(&self) -> &D {
        &self.disk
    }

    /// What passed so far.
    pub(crate) fn passed(&self) -> Passed {
        self.passed
    }

    /// Does `with` the disk what leaves nothing outstanding: it is never answered.
    pub(crate) fn interrupt<T>(&mut self, now: Nanos, with: impl FnOnce(&mut D) -> T) -> T {
        self.book_time(now);
        self.outstanding.clear();
        self.writes_outstanding = 0;
        with(&mut self.disk)
    }

    fn book_time(&mut self, now: Nanos) {
        let span = now.since(self.changed_at);
        self.changed_at = now.max(self.changed_at);
        if self.writes_outstanding > 0 {
            self.passed.writing += span;
        } else if !self.outstanding.is_empty() {
            self.passed.reading += span;
        }
    }
}

fn transfer(command: &Command) -> Option<(bool, u64)> {
    match command {
        Command::Read { len, .. } => Some((false, u64::from(*len))),
        Command::Write { parts, .. } => Some((true, nearhead_disk::total_len(parts) as u64)),
        Command::WriteZeroes { len, .. } => Some((true, *len)),
        Command::Trim { .. } | Command::Flush => None,
    }
}

impl<D: Disk> Disk for Metered<D> {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }

    fn properties(&self) -> &Properties {
        self.disk.properties()
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        if let Some((write, bytes)) = transfer(&submission.command) {
            self.book_time(now);
            self.outstanding.insert(submission.ticket.id(), (write, bytes));
            self.writes_outstanding += usize::from(write);
        }
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        let completion = self.disk.poll(now)?;
        if self.outstanding.contains_key(&completion.id) {
            self.book_time(now);
        }
        if let Some((write, bytes)) = self.outstanding.remove(&completion.id) {
            let passed = &mut self.passed;
            if write {
                self.writes_outstanding -= 1;
                passed.writes += 1;
                passed.write_bytes += bytes;
            } else {
                passed.reads += 1;
                passed.read_bytes += bytes;
            }
        }
        Some(completion)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.disk.wake_at()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_models::ModelSpec;

    #[test]
    fn whoever_asks_a_disk_with_books_hears_what_the_disk_says() {
        let plain = ModelSpec::parse("st8000as0002-slsmr").unwrap().build_any().unwrap();
        let (known, zones) = (plain.run_at(0), plain.zones().unwrap().clone());
        assert!(known.zero, "nothing was ever written");
        let metered = Metered::new(plain);
        assert_eq!((metered.run_at(0), metered.zones()), (known, Some(&zones)));
    }
}
