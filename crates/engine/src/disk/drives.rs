//! The drives behind a disk: one, or the members of a striped array, each of which turns and moves its arm on its own.
//!
//! Whoever asks names addresses of the volume, among which the disk's begin somewhere; here they become runs of members, and each member follows what was its own part of a
//! command. An array says when each of its members was done with its part.
//!
//! Members are followed only where logs lie on one member each ([`nearhead_disk::WholeRuns`]): a record that lies on several begins
//! when the last of them is there, and no place suits all.

use super::drive::{Drive, DriveStatus, Moved};
use nearhead_disk::{Nanos, PartDone, Striping, Tracks};
use std::sync::Arc;

/// Those behind one disk, and there is at least one.
#[derive(Clone, Debug)]
pub struct Drives {
    striping: Striping,
    members: Vec<Member>,
    /// The volume's address of the disk's first byte.
    start: u64,
    /// The member whose arm moved last.
    last: usize,
}

#[derive(Clone, Debug)]
struct Member {
    drive: Drive,
    /// Commands on it.
    commands: u32,
    /// When a write completed on it last.
    written_at: Nanos,
}

/// A command that completed, as far as it matters to drives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done<'a> {
    moved: Moved,
    left_at: Nanos,
    parts: &'a [PartDone],
    tells: bool,
    is_for_client: bool,
    /// A read that takes less is answered from a drive's memory.
    from_memory_below: Option<Nanos>,
}

impl<'a> Done<'a> {
    /// What left then; when each member was done with its part, if that was told.
    pub(crate) fn new(moved: Moved, left_at: Nanos, parts: &'a [PartDone]) -> Self {
        Self { moved, left_at, parts, tells: true, is_for_client: false, from_memory_below: None }
    }

    /// Whether it says something of the arm: of those that left together only the first does.
    pub(crate) fn telling(self, tells: bool) -> Self {
        Self { tells, ..self }
    }

    /// Whether a client wanted the arm there.
    pub(crate) fn for_client(self, is_for_client: bool) -> Self {
        Self { is_for_client, ..self }
    }

    /// A read that took less is answered from a drive's memory.
    pub(crate) fn remembered_below(self, took: Option<Nanos>) -> Self {
        Self { from_memory_below: took, ..self }
    }
}

impl Drives {
    /// Those with these tracks, in the order of the members; none if they are not as many, or no log lies on one of them alone.
    pub(crate) fn of(tracks: &[Arc<Tracks>], striping: Option<Striping>) -> Option<Self> {
        let has_whole_logs = striping.is_none_or(|striping| striping.whole_runs().is_some());
        let striping = striping.unwrap_or(Striping::ALONE);
        let is_each_known = tracks.len() == striping.members() as usize;
        let member =
            |tracks| Member { drive: Drive::of(tracks), commands: 0, written_at: Nanos::ZERO };
        let members: Vec<Member> = tracks.iter().map(member).collect();
        (is_each_known && has_whole_logs).then_some(Self { striping, members, start: 0, last: 0 })
    }

    /// The same of a disk whose first byte has this address of the volume.
    pub(crate) fn from(self, start: u64) -> Self {
        Self { start, ..self }
    }

    /// That address.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    fn drives(&self) -> impl Iterator<Item = &Drive> {
        self.members.iter().map(|member| &member.drive)
    }

    /// The only one, if it is no array.
    pub(crate) fn alone(&self) -> Option<&Drive> {
        self.drives().next().filter(|_| self.members.len() == 1)
    }

    /// Whether predictions hold, of all.
    pub fn is_trusted(&self) -> bool {
        self.drives().all(Drive::is_trusted)
    }

    /// Whether a record is to go where they predict.
    pub fn is_followed(&self) -> bool {
        self.drives().all(Drive::is_followed)
    }

    /// For people: of all together, turning as the first does.
    pub(crate) fn status(&self) -> DriveStatus {
        let mut all = self.members[0].drive.status();
        for other in self.drives().skip(1).map(Drive::status) {
            all.is_followed &= other.is_followed;
            all.predicted += other.predicted;
            all.held += other.held;
            all.missed += other.missed;
        }
        DriveStatus { drives: self.striping.members(), ..all }
    }

    /// Where the last transfer ended that moved an arm.
    pub fn arm_at(&self) -> u64 {
        let at = self.striping.place(self.last as u32, self.members[self.last].drive.arm_at());
        self.start + at
    }

    /// The drive that has `byte`, and which of its own that is.
    pub fn part(&self, byte: u64) -> (&Drive, u64) {
        let byte = byte.saturating_sub(self.start);
        let member = self.striping.member_of(byte);
        (&self.members[member as usize].drive, self.striping.before(byte, member))
    }

    /// How many members were written to longer ago than the one that has `byte`.
    pub fn longer_rested(&self, byte: u64) -> u32 {
        let byte = byte.saturating_sub(self.start);
        let last = self.members[self.striping.member_of(byte) as usize].written_at;
        self.members.iter().filter(|member| member.written_at < last).count() as u32
    }

    /// The members that a command is about, each with what it is about there: all of them, if it transfers nothing.
    fn members_of(striping: Striping, moved: Moved) -> impl Iterator<Item = (usize, Moved)> {
        let runs = striping.runs(moved.bytes());
        let transferring = runs.map(move |(member, run)| {
            (member as usize, Moved::new(run.start, run.end - run.start, moved.is_write()))
        });
        let all = if moved.bytes().is_empty() { striping.members() as usize } else { 0 };
        transferring.chain((0..all).map(move |member| (member, moved)))
    }

    /// A command leaves.
    pub(crate) fn leaves(&mut self, moved: Moved, now: Nanos) {
        for (member, moved) in Self::members_of(self.striping, moved) {
            let Member { drive, commands, .. } = &mut self.members[member];
            drive.leaves(&moved, *commands == 0, now);
            *commands += 1;
        }
    }

    /// A command completed.
    pub(crate) fn completed(&mut self, done: &Done<'_>, now: Nanos) {
        for (member, moved) in Self::members_of(self.striping, done.moved) {
            let part = done.parts.iter().find(|part| part.member as usize == member);
            let at = part.map_or(now, |part| part.at);
            let is_read = !moved.is_write() && !moved.bytes().is_empty();
            let is_soon =
                done.from_memory_below.is_some_and(|below| at.since(done.left_at) < below);
            let has_moved = done.tells && !(is_read && is_soon);
            let Member { drive, commands, written_at } = &mut self.members[member];
            *commands = commands.saturating_sub(1);
            if moved.is_write() && !moved.bytes().is_empty() {
                *written_at = at;
            }
            if is_read {
                drive.note_read(&moved, !has_moved);
            }
            if has_moved {
                drive.completed(&moved, done.left_at, at);
                if done.is_for_client {
                    drive.note_client(at);
                }
                self.last = member;
            } else {
                drive.forget_alone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::{TrackZone, Turn, WholeRuns};

    const MIB: u64 = 1 << 20;

    fn tracks() -> Arc<Tracks> {
        let (skew, group_skew) = (Turn(1 << 28), Turn(0));
        let zone = TrackZone {
            first_byte: 0,
            track_bytes: MIB,
            skew,
            group_tracks: 0,
            group_skew,
            group_bytes: 0,
        };
        Arc::new(Tracks::new(8_000_000.0, vec![zone]).unwrap())
    }

    /// Four members in chunks of 64 KiB, and from 8 MiB on a run of 1 MiB every 8 MiB on one of them.
    fn striping() -> Striping {
        let runs = WholeRuns { first_byte: 8 * MIB, every_bytes: 8 * MIB, bytes: MIB };
        Striping::new(4, 64 << 10).unwrap().with_whole_runs(runs).unwrap()
    }

    fn done(moved: Moved, left_at: Nanos, parts: &[PartDone]) -> Done<'_> {
        Done::new(moved, left_at, parts).remembered_below(Some(Nanos(500_000)))
    }

    #[test]
    fn members_are_followed_if_all_are_known_and_logs_lie_on_one_each() {
        let (one, four) = ([tracks()], [tracks(), tracks(), tracks(), tracks()]);
        assert!(Drives::of(&one, None).unwrap().alone().is_some());
        assert!(Drives::of(&four, Some(striping())).unwrap().alone().is_none());
        assert!(Drives::of(&four, Striping::new(4, 64 << 10)).is_none(), "logs lie on all");
        assert!(Drives::of(&one, Some(striping())).is_none(), "three are not known");
        assert!(Drives::of(&[], None).is_none());
    }

    #[test]
    fn each_member_learns_from_when_its_own_part_was_done() {
        let mut drives = four();
        let now = Nanos::from_millis(9);
        let moved = Moved::new(0, 128 << 10, false);
        let part = |member, at| PartDone { member, at };
        drives.leaves(moved, Nanos::from_millis(1));
        let parts = [part(1, now), part(0, Nanos::from_millis(7))];
        drives.completed(&done(moved, Nanos::from_millis(1), &parts), now);
        // The end of the first member's chunk passed when that one was done, two milliseconds earlier.
        let at = Nanos::from_millis(20);
        let wait = |byte| {
            let (drive, byte) = drives.part(byte);
            drive.wait(byte, at)
        };
        let (first, second) = (wait(256 << 10).unwrap(), wait(320 << 10).unwrap());
        assert_eq!((first + Nanos::from_millis(8)).since(second), Nanos::from_millis(6));
        assert_eq!(wait(128 << 10), None, "nothing was seen of the third");
        assert_eq!(drives.arm_at(), 4 * (64 << 10) + (64 << 10), "the second moved last");
    }

    #[test]
    fn a_command_on_one_member_is_alone_there_whatever_others_do() {
        let mut drives = four();
        let on_first = Moved::new(8 * MIB, 8192, true);
        let learn = Moved::new(8 * MIB + 8192, 4096, true);
        drives.leaves(learn, Nanos::from_millis(1));
        drives.completed(&done(learn, Nanos::from_millis(1), &[]), Nanos::from_millis(9));
        let bulk = Moved::new(64 << 10, 64 << 10, false);
        drives.leaves(bulk, Nanos::from_millis(10));
        drives.leaves(on_first, Nanos::from_millis(10));
        let told = done(on_first, Nanos::from_millis(10), &[]);
        drives.completed(&told, Nanos::from_millis(16));
        assert_eq!(drives.status().predicted, 1);
        // A flush is on all of them.
        let flush = Moved::new(0, 0, true);
        drives.leaves(flush, Nanos::from_millis(17));
        drives.leaves(on_first, Nanos::from_millis(17));
        let told = done(on_first, Nanos::from_millis(17), &[]);
        drives.completed(&told, Nanos::from_millis(23));
        assert_eq!(drives.status().predicted, 1, "not alone");
    }

    fn four() -> Drives {
        Drives::of(&[tracks(), tracks(), tracks(), tracks()], Some(striping())).unwrap()
    }

    /// A write alone at `at`, which begins by so much later than is expected; says when the next may leave.
    fn write(drives: &mut Drives, byte: u64, at: Nanos, late: Nanos) -> Nanos {
        let moved = Moved::new(byte, 4096, true);
        let (drive, own) = drives.part(byte);
        let access = drive.access(own);
        let wait = drive.wait(own, at + access).unwrap_or_default();
        let now = at + access + wait + drive.transfer(own, 4096) + late;
        drives.leaves(moved, at);
        drives.completed(&done(moved, at, &[]), now);
        now + Nanos::from_millis(3)
    }

    #[test]
    fn an_array_is_followed_while_predictions_hold_on_each_member_and_tells_of_all_together() {
        let mut drives = four();
        let mut at = Nanos::from_millis(1);
        for _ in 0..4 {
            at = write(&mut drives, 8 * MIB, at, Nanos::ZERO);
        }
        at = write(&mut drives, 16 * MIB, at, Nanos::ZERO);
        at = write(&mut drives, 16 * MIB, at, Nanos::from_millis(8));
        assert!(drives.is_trusted() && drives.is_followed() && drives.status().is_followed);
        write(&mut drives, 16 * MIB, at, Nanos(3_300_000));
        assert!(!drives.is_trusted() && !drives.is_followed(), "the second failed");
        let DriveStatus { drives: count, is_followed, predicted, held, missed, .. } =
            drives.status();
        assert_eq!((count, is_followed, predicted, held, missed), (4, false, 5, 4, 1));
    }

    #[test]
    fn who_was_written_to_last_rested_shortest_and_reads_and_flushes_are_no_writes() {
        let mut drives = four();
        let rested = |drives: &Drives| [8, 16, 24, 32].map(|mib| drives.longer_rested(mib * MIB));
        assert_eq!(rested(&drives), [0; 4]);
        let at = write(&mut drives, 16 * MIB, Nanos::from_millis(1), Nanos::ZERO);
        let at = write(&mut drives, 32 * MIB, at, Nanos::ZERO);
        assert_eq!(rested(&drives), [0, 2, 0, 3]);
        for other in [Moved::new(0, 0, true), Moved::new(8 * MIB, 4096, false)] {
            drives.leaves(other, at);
            drives.completed(&done(other, at, &[]), at + Nanos::from_millis(9));
        }
        assert_eq!(rested(&drives), [0, 2, 0, 3]);
    }

    #[test]
    fn a_read_that_comes_back_at_once_moved_no_arm_and_whatever_else_is_told_of_did() {
        // Farther away than a drive reads ahead, which takes its arm along.
        let (byte, left_at) = (40 * MIB, Nanos::from_millis(1));
        let moves = |is_write, took, tells| {
            let mut drives = four();
            let moved = Moved::new(byte, 4096, is_write);
            drives.leaves(moved, left_at);
            let told = done(moved, left_at, &[]).telling(tells);
            drives.completed(&told, left_at + Nanos(took));
            drives.arm_at() == byte + 4096
        };
        assert!(moves(false, 500_000, true), "it took long enough");
        assert!(!moves(false, 499_999, true), "from memory");
        assert!(moves(true, 100_000, true), "a write");
        assert!(
            !moves(false, 600_000, false) && !moves(true, 600_000, false),
            "it left with others"
        );
    }
}
