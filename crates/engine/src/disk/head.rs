//! Where a host may take a disk's head to be, from what a host sees: the addresses of its commands, when they
//! left and when they completed. Near-head placement aims at that.
//!
//! Two things make the end of the last in-place transfer a bad estimate, and both can be seen from outside:
//!
//! - **A read answered from the drive's memory moves no head.** One that comes back within a sixteenth of a
//!   revolution did not wait for the medium (a random access does so one time in sixteen), so it is passed over;
//!   unless it goes on where the head is taken to be, because there the drive reads ahead and the head with it.
//! - **What is outstanding comes first.** A record that leaves now finds the head where the drive goes next, not
//!   where it was. In order that is the end of the newest command; a drive that chooses serves what lies
//!   together in one go.
//!
//! It never delays anything and is never told where the head really is. A disk without a head needs none of it.

use nearhead_disk::{Nanos, Properties};

/// Share of a revolution within which an answer cannot have waited for the medium.
const FROM_MEMORY_SHARE: u64 = 16;
/// A revolution of a drive that does not tell: 7,200 a minute.
const ROTATION_DEFAULT: Nanos = Nanos(8_333_333);
/// How far ahead of the last transfer a drive reads: a segment of its cache (2 to 4 MiB in drives with 64 MiB
/// and more; assumed, not published).
const READ_AHEAD_BYTES_MAX: u64 = 4 << 20;

/// An in-place transfer on its way.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    id: u32,
    end: u64,
    writes: bool,
    left_at: Nanos,
}

/// The estimate.
#[derive(Debug)]
pub(crate) struct Head {
    /// Answered sooner: from memory. `None` on a disk without a head.
    from_memory_below: Option<Nanos>,
    /// Where the last completed transfer ended that moved the head.
    last_end: u64,
    /// In-place transfers that left and have not completed, oldest first; as many as the disk takes.
    under_way: Vec<UnderWay>,
}

impl Head {
    pub(crate) fn new(properties: &Properties) -> Self {
        let rotation = properties.rotation_period.unwrap_or(ROTATION_DEFAULT);
        let from_memory_below =
            properties.rotational.then_some(Nanos(rotation.0 / FROM_MEMORY_SHARE));
        Self { from_memory_below, last_end: 0, under_way: Vec::new() }
    }

    /// A transfer of a client's command leaves for the disk; `end` is the first byte after it.
    pub(crate) fn left(&mut self, id: u32, end: u64, writes: bool, now: Nanos) {
        if self.from_memory_below.is_some() {
            self.under_way.push(UnderWay { id, end, writes, left_at: now });
        }
    }

    /// A transfer of `bytes` that ends at `end` completed.
    pub(crate) fn completed(&mut self, id: u32, end: u64, bytes: u64, now: Nanos) {
        if self.from_memory_below.is_none() {
            self.last_end = end;
            return;
        }
        let Some(index) = self.under_way.iter().position(|command| command.id == id) else {
            return;
        };
        let command = self.under_way.remove(index);
        let from_memory = !command.writes && self.is_from_memory(now.since(command.left_at));
        if !from_memory || self.is_read_ahead(end.saturating_sub(bytes)) {
            self.last_end = end;
        }
    }

    /// What a read takes less than was answered from the drive's memory.
    pub(super) fn memory_answers_below(&self) -> Option<Nanos> {
        self.from_memory_below
    }

    /// Whether a read that took so long was answered from the drive's memory.
    pub(super) fn is_from_memory(&self, took: Nanos) -> bool {
        self.from_memory_below.is_some_and(|below| took < below)
    }

    /// Whether a drive that reads ahead passes `start` next.
    fn is_read_ahead(&self, start: u64) -> bool {
        (self.last_end..self.last_end.saturating_add(READ_AHEAD_BYTES_MAX)).contains(&start)
    }

    /// Where the head will be when a command that leaves now has its turn, as far as a host can know.
    pub(crate) fn position(&self, now: Nanos) -> u64 {
        let below = self.from_memory_below.unwrap_or_default();
        // A read that left just now may yet be answered from memory.
        let moves = |command: &&UnderWay| command.writes || now.since(command.left_at) >= below;
        self.under_way.iter().rev().find(moves).map_or(self.last_end, |command| command.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;
    const GB: u64 = 1 << 30;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn head() -> Head {
        Head { from_memory_below: Some(Nanos(500_000)), last_end: 0, under_way: Vec::new() }
    }

    fn read(head: &mut Head, end: u64, at: Nanos, took: Nanos) {
        head.left(1, end, false, at);
        head.completed(1, end, 4096, at + took);
    }

    #[test]
    fn a_read_answered_from_the_drives_memory_does_not_move_the_estimate() {
        let mut head = head();
        read(&mut head, 5 * GB, ms(0), ms(8));
        read(&mut head, 90 * GB, ms(20), Nanos(200_000));
        assert_eq!(head.position(ms(30)), 5 * GB);
        read(&mut head, 90 * GB, ms(30), ms(8));
        assert_eq!(head.position(ms(40)), 90 * GB);
    }

    #[test]
    fn a_stream_answered_by_read_ahead_takes_the_estimate_along() {
        let mut head = head();
        read(&mut head, GB, ms(0), ms(8));
        for step in 1..1000 {
            read(&mut head, GB + step * MB, ms(20 + step), Nanos(200_000));
        }
        assert_eq!(head.position(ms(2000)), GB + 999 * MB);
    }

    #[test]
    fn a_record_is_aimed_at_the_newest_command_that_the_drive_still_has_to_move_for() {
        let mut head = head();
        read(&mut head, 5 * GB, ms(0), ms(8));
        head.left(2, 70 * GB, false, ms(20));
        head.left(3, 80 * GB, true, ms(21));
        assert_eq!(head.position(ms(22)), 80 * GB, "a write always moves it");
        head.left(4, 90 * GB, false, ms(22));
        assert_eq!(head.position(ms(22)), 80 * GB, "4 may come from memory");
        assert_eq!(head.position(ms(24)), 90 * GB, "it did not");
        head.completed(4, 90 * GB, 4096, ms(30));
        head.completed(3, 80 * GB, 4096, ms(31));
        assert_eq!(head.position(ms(31)), 70 * GB, "2 is still to come");
        head.completed(2, 70 * GB, 4096, ms(40));
        assert_eq!(head.position(ms(41)), 70 * GB);
    }

    #[test]
    fn a_disk_without_a_head_costs_nothing_to_follow() {
        let mut head = Head { from_memory_below: None, last_end: 0, under_way: Vec::new() };
        for id in 0..1000 {
            head.left(id, u64::from(id), false, ms(0));
        }
        assert!(head.under_way.is_empty());
        head.completed(7, 7, 1, ms(1));
        assert_eq!(head.position(ms(1)), 7);
    }
}
