//! What is known of a drive whose tracks somebody found out: when a place will be under the head, and how long the arm takes to it.
//!
//! It is told of every command that leaves and completes, predicts each that leaves with nothing else on the disk, and compares with
//! what happens: misses teach it the arm, angles that differ teach it the spindle. While too many predictions fail (a wrong
//! calibration, a late host, no disk that turns) it is not to be followed but now and then, to see whether they hold again. It never
//! sees where the head is.

mod angles;
mod arm;
mod arms;
mod memory;

use angles::Angles;
use arm::Way;
use arms::{Arms, Sort};
use memory::Memory;
use nearhead_disk::{Nanos, Tracks};
use std::ops::Range;
use std::sync::Arc;

/// What a failed prediction takes away of the trust that one that held adds; so four in five must hold.
const MISTRUST: i32 = 4;
/// Most trust; as much mistrust.
const TRUST_MAX: i32 = 64;
/// Writes without a prediction after which one is tried, while it is not followed.
const TRIED_AFTER: u32 = 64;
/// Off by less than this share of a revolution, a prediction held.
const HELD_SHARE: u64 = 8;
/// Of so many places that pass just when the arm should be there one is taken to be missed before more is known.
const ASSUMED_MISSES_ONE_IN: u64 = 10;
/// A client that asked for nothing for so long wants the arm nowhere.
const CLIENT_LEFT_AFTER: Nanos = Nanos::from_secs(1);
/// Longer transfers say little about positioning.
const BYTES_MAX: u64 = 256 << 10;

/// A command on the disk with nothing else there.
#[derive(Clone, Copy, Debug)]
struct Alone {
    sort: Sort,
    way: Way,
    /// How long until its first sector passes, if that was known; and of that the wait behind the arm.
    begins: Option<(Nanos, Nanos)>,
    /// Nothing was seen near it before, so that a prediction that fails says nothing of others.
    is_guess: bool,
    transfer: Nanos,
    left_at: Nanos,
}

/// A command as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved {
    offset: u64,
    bytes: u64,
    is_write: bool,
}

impl Moved {
    /// A transfer of `bytes` from device byte `offset` on; of none, something else.
    pub(crate) fn new(offset: u64, bytes: u64, is_write: bool) -> Self {
        Self { offset, bytes, is_write }
    }

    /// What it transfers.
    pub(crate) fn bytes(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes
    }

    /// Whether it writes.
    pub(crate) fn is_write(&self) -> bool {
        self.is_write
    }
}

/// What is known of a drive, or of the members of an array, and how well it holds, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveStatus {
    /// How many there are.
    pub drives: u32,
    /// Length of a revolution.
    pub period: Nanos,
    /// Zones known.
    pub zones: u32,
    /// Whether it is followed.
    pub is_followed: bool,
    /// Writes of which it was predicted when they begin.
    pub predicted: u64,
    /// Those of them that began at the place of the revolution where they were expected.
    pub held: u64,
    /// Those of these that came a revolution late.
    pub missed: u64,
}

/// One drive.
#[derive(Clone, Debug)]
pub struct Drive {
    status: DriveStatus,
    angles: Angles,
    arms: Arms,
    trust: i32,
    /// Writes since the last prediction of one.
    unpredicted: u32,
    alone: Option<Alone>,
    last_end: u64,
    /// When a client's last transfer ended that moved the arm.
    client_at: Option<Nanos>,
    memory: Memory,
}

impl Drive {
    pub(crate) fn of(tracks: &Arc<Tracks>) -> Self {
        let period = tracks.period();
        Self {
            status: DriveStatus {
                drives: 1,
                period,
                zones: tracks.zones().len() as u32,
                is_followed: true,
                predicted: 0,
                held: 0,
                missed: 0,
            },
            angles: Angles::of(Arc::clone(tracks)),
            arms: Arms::of(period),
            trust: 0,
            unpredicted: 0,
            alone: None,
            last_end: 0,
            client_at: None,
            memory: Memory::default(),
        }
    }

    /// Whether predictions hold.
    pub fn is_trusted(&self) -> bool {
        self.trust >= 0
    }

    /// Whether a record is to go where it predicts: while predictions hold, and else now and then, since only so is it seen that
    /// they hold again.
    pub fn is_followed(&self) -> bool {
        self.is_trusted() || self.unpredicted >= TRIED_AFTER
    }

    /// For people.
    pub(crate) fn status(&self) -> DriveStatus {
        DriveStatus { is_followed: self.is_trusted(), ..self.status }
    }

    /// Length of a revolution.
    pub fn period(&self) -> Nanos {
        self.angles.tracks().period()
    }

    /// Bytes of a track where `byte` is.
    pub fn track_bytes(&self, byte: u64) -> u64 {
        self.angles.tracks().zone_of(byte).track_bytes
    }

    /// The bytes of the track that holds `byte`.
    pub fn track_of(&self, byte: u64) -> Range<u64> {
        self.angles.tracks().track_of(byte)
    }

    /// Where the last transfer ended.
    pub fn arm_at(&self) -> u64 {
        self.last_end
    }

    fn way_to(&self, byte: u64) -> Way {
        let (tracks, from) = (self.angles.tracks(), self.last_end.saturating_sub(1));
        if tracks.is_one_track(from, byte) {
            Way::OneTrack
        } else if tracks.is_one_group(from, byte) {
            Way::OneGroup
        } else {
            Way::Over(self.last_end.abs_diff(byte))
        }
    }

    /// How long from `byte` back to here, if a client is to be expected to want the arm here.
    pub fn way_back(&self, byte: u64, now: Nanos) -> Nanos {
        let is_there = self.client_at.is_some_and(|at| now.since(at) < CLIENT_LEFT_AFTER);
        if is_there { self.access(byte) } else { Nanos::ZERO }
    }

    /// What completed last was for a client.
    pub(crate) fn note_client(&mut self, now: Nanos) {
        self.client_at = Some(now);
    }

    /// How long until the drive can write at `byte`, if it begins now.
    pub fn access(&self, byte: u64) -> Nanos {
        self.arms.access(self.arms.next(true), self.way_to(byte))
    }

    /// How long until it can read there.
    pub fn read_access(&self, byte: u64) -> Nanos {
        self.arms.access(Sort::Read, self.way_to(byte))
    }

    /// Whether a write on the track of `byte` begins sooner if something was read there before it than if the arm has to go there first: as
    /// far as one can tell.
    pub fn is_sooner_behind_read(&self, byte: u64) -> bool {
        let behind_read = self.arms.access(Sort::WriteBehindRead, Way::OneTrack);
        behind_read < self.arms.access(Sort::Write, self.way_to(byte))
    }

    /// What it costs on the average to go to a place that passes just when the arm should be there: a revolution each time it is missed,
    /// as often as it was so far, and once in ten as long as little is known.
    pub fn cost_of_missing(&self) -> Nanos {
        let (missed, held) = (self.status.missed + 1, self.status.held + ASSUMED_MISSES_ONE_IN);
        Nanos((u128::from(self.period().0) * u128::from(missed) / u128::from(held)) as u64)
    }

    /// How long `bytes` from `byte` on take to pass, with what the head needs from one track to the next.
    pub fn transfer(&self, byte: u64, bytes: u64) -> Nanos {
        self.angles.transfer(byte..byte + bytes)
    }

    /// Whether `wait` is a guess there, as nothing was seen near it before.
    pub fn is_guess(&self, byte: u64) -> bool {
        !self.angles.is_region_known(byte)
    }

    /// How long after `at` the sector at `byte` begins to pass, if that is known.
    pub fn wait(&self, byte: u64, at: Nanos) -> Option<Nanos> {
        self.angles.wait(byte, at)
    }

    /// How long until the drive begins to transfer there, if it is told now; half a revolution where nobody knows.
    pub(crate) fn positioning(&self, moved: &Moved, now: Nanos) -> Nanos {
        let access = self.arms.access(self.arms.next(moved.is_write), self.way_to(moved.offset));
        let wait = self.angles.wait(moved.offset, now + access);
        access + wait.unwrap_or(Nanos(self.period().0 / 2))
    }

    /// A command leaves; whether nothing else is on the disk.
    pub(crate) fn leaves(&mut self, moved: &Moved, is_alone: bool, now: Nanos) {
        if !is_alone {
            // Two that left at once: nobody knows which is first.
            self.alone.take_if(|alone| alone.left_at == now);
            return;
        }
        let Moved { offset, bytes, is_write } = *moved;
        let sort = self.arms.next(is_write);
        let way = self.way_to(offset);
        let access = self.arms.access(sort, way);
        let wait = self.angles.wait(offset, now + access);
        let begins = wait.map(|wait| (access + wait, wait));
        let is_guess = !self.angles.is_region_known(offset);
        let transfer = self.angles.transfer(offset..offset + bytes);
        self.alone = Some(Alone { sort, way, begins, is_guess, transfer, left_at: now });
        self.alone.take_if(|_| bytes == 0 || bytes > BYTES_MAX);
    }

    /// A transfer completed that moved the arm, `left_at` when it left.
    pub(crate) fn completed(&mut self, moved: &Moved, left_at: Nanos, now: Nanos) {
        let end = moved.offset + moved.bytes;
        self.angles.completed(end, moved.is_write, now);
        self.arms.done(moved.is_write);
        self.last_end = end;
        self.unpredicted = self.unpredicted.saturating_add(u32::from(moved.is_write));
        let alone = self.alone.take_if(|alone| alone.left_at == left_at);
        if let Some(alone) = alone {
            self.compare(&alone, now.since(left_at) - alone.transfer);
        }
    }

    fn compare(&mut self, alone: &Alone, began: Nanos) {
        let period = self.period();
        let arm = self.arms.of_mut(alone.sort);
        let Some((expected, wait)) = alone.begins else {
            return arm.began(alone.way, began);
        };
        let near = Nanos(period.0 / HELD_SHARE);
        let off = (began + period + near).since(expected).0 % period.0;
        let held = off <= 2 * near.0;
        let has_missed = held && began > expected + near;
        if alone.sort != Sort::Read {
            self.status.predicted += 1;
            self.status.held += u64::from(held);
            self.status.missed += u64::from(has_missed);
            self.unpredicted = 0;
            let lost = if alone.is_guess { 0 } else { MISTRUST };
            let trust = if held { self.trust + 1 } else { self.trust - lost };
            self.trust = trust.clamp(-TRUST_MAX, TRUST_MAX);
        }
        if has_missed {
            arm.missed(alone.way, expected);
        } else if held {
            arm.was_in_time(alone.way, began, wait);
        }
    }

    /// Whether a command may be answered without the arm.
    pub(crate) fn may_remember(&self, moved: &Moved) -> bool {
        !moved.is_write && self.memory.has(moved.offset)
    }

    /// Something was read, from the medium or not.
    pub(crate) fn note_read(&mut self, moved: &Moved, is_from_memory: bool) {
        self.memory.note_read(moved.offset, moved.bytes, is_from_memory);
        // A drive that reads ahead takes its arm along.
        let ahead = self.last_end..self.last_end.saturating_add(memory::AHEAD_BYTES_MAX);
        if is_from_memory && ahead.contains(&moved.offset) {
            self.last_end = moved.offset + moved.bytes;
        }
    }

    /// Something was answered without the arm.
    pub(crate) fn forget_alone(&mut self) {
        self.alone = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_disk::{TrackZone, Turn};

    const PERIOD: Nanos = Nanos(8_000_000);
    const MIB: u64 = 1 << 20;

    fn tracks(track_bytes: u64) -> Arc<Tracks> {
        let zone = TrackZone {
            first_byte: 0,
            track_bytes,
            skew: Turn(1 << 28),
            group_tracks: 0,
            group_skew: Turn(0),
            group_bytes: 0,
        };
        Arc::new(Tracks::new(PERIOD.0 as f64, vec![zone]).unwrap())
    }

    /// A drive whose arm takes 1.5 ms wherever it goes, and what a host that was told of `told` makes of it.
    struct Bench {
        drive: Drive,
        real: Angles,
        now: Nanos,
    }

    impl Bench {
        fn new(told: &Arc<Tracks>) -> Self {
            let mut real = Angles::of(tracks(MIB));
            // All of it, one region after the other.
            for region in 0..64 {
                real.completed((region << 24) + 512, true, Nanos(1));
            }
            Self { drive: Drive::of(told), real, now: Nanos::from_secs(1) }
        }

        fn write(&mut self, offset: u64) {
            self.write_beside(offset, true);
        }

        fn write_beside(&mut self, offset: u64, is_alone: bool) {
            let moved = Moved::new(offset, 8192, true);
            self.drive.leaves(&moved, is_alone, self.now);
            let arm = Nanos(1_500_000);
            let wait = self.real.wait(offset, self.now + arm).unwrap();
            let left_at = self.now;
            self.now = self.now + arm + wait + self.real.transfer(offset..offset + 8192);
            self.drive.completed(&moved, left_at, self.now);
            self.now += Nanos(1_234_567);
        }

        /// Where the head will be when the arm is there, in blocks of the MiB at `from`.
        fn write_under_head(&mut self, from: u64) {
            let wait = |block: u64| {
                self.drive.wait(from + block * 4096, self.now + self.drive.access(from))
            };
            let best = (0..256).min_by_key(|block| wait(*block).unwrap_or(Nanos::ZERO));
            self.write(from + best.unwrap() * 4096);
        }
    }

    #[test]
    fn a_drive_whose_tracks_are_known_is_followed_and_its_arm_is_learned() {
        let mut bench = Bench::new(&tracks(MIB));
        for step in 0..600 {
            bench.write_under_head((step % 40) * 3 * MIB);
        }
        let status = bench.drive.status();
        assert!(status.is_followed && status.held * 100 >= status.predicted * 98, "{status:?}");
        let before = status.missed;
        for step in 0..600 {
            bench.write_under_head((step % 40) * 3 * MIB);
        }
        let status = bench.drive.status();
        assert!(status.missed - before < 60, "{status:?}, {before} of them at first");
        let access = bench.drive.access(bench.drive.arm_at() + 3 * MIB).0;
        assert!((1_400_000..1_800_000).contains(&access), "{access} ns");
        // Once in ten at first; then as often as it happened.
        assert_eq!(Drive::of(&tracks(MIB)).cost_of_missing(), Nanos(PERIOD.0 / 10));
        let (cost, share) = (bench.drive.cost_of_missing().0, PERIOD.0 / status.held);
        assert!(cost.abs_diff(status.missed * share) < 2 * share, "{cost} ns, {status:?}");
    }

    #[test]
    fn a_change_of_heads_takes_no_time_of_an_arm_that_moves() {
        let grouped = TrackZone { group_tracks: 8, ..tracks(MIB).zones()[0] };
        let told = Arc::new(Tracks::new(PERIOD.0 as f64, vec![grouped]).unwrap());
        let mut bench = Bench::new(&told);
        bench.drive.last_end = MIB;
        assert_eq!(bench.drive.way_to(512), Way::OneTrack);
        assert_eq!(bench.drive.way_to(7 * MIB), Way::OneGroup);
        assert_eq!(bench.drive.way_to(8 * MIB), Way::Over(7 * MIB));
        bench.drive.arms.of_mut(Sort::Write).missed(Way::Over(7 * MIB), Nanos(6_000_000));
        assert!(bench.drive.access(7 * MIB) < Nanos(2_000_000), "that says nothing of it");
    }

    #[test]
    fn a_drive_that_is_not_like_that_is_soon_followed_no_more() {
        // A track is a ninth shorter than was found out, and zones begin elsewhere.
        let mut bench = Bench::new(&tracks(MIB * 9 / 8));
        let mut random = 12_345_u64;
        for _ in 0..60 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bench.write((random >> 40) % 60 * 16 * MIB + (random >> 20) % 2000 * 4096);
        }
        assert!(!bench.drive.status().is_followed, "{:?}", bench.drive.status());
    }

    #[test]
    fn a_drive_that_is_followed_no_more_is_tried_now_and_then_until_predictions_hold_again() {
        let mut bench = Bench::new(&tracks(MIB));
        bench.drive.trust = -8;
        let mut tried = 0;
        for step in 0..TRIED_AFTER * 16 {
            if bench.drive.is_followed() {
                tried += 1;
                bench.write_under_head(u64::from(step % 40) * 3 * MIB);
            } else {
                bench.write_beside(u64::from(step % 40) * 3 * MIB, false);
            }
            if bench.drive.is_trusted() {
                break;
            }
        }
        assert!(bench.drive.is_trusted() && (8..=16).contains(&tried), "tried {tried} times");
    }

    #[test]
    fn what_fails_where_nothing_was_seen_before_takes_no_trust_away() {
        let mut bench = Bench::new(&tracks(MIB));
        let far = Nanos::from_millis(3);
        for region in 0..20 {
            let moved = Moved::new(region << 26, 8192, true);
            bench.drive.leaves(&moved, true, bench.now);
            let left_at = bench.now;
            bench.now = bench.now + far + Nanos(region * 777_777);
            bench.drive.completed(&moved, left_at, bench.now);
        }
        assert!(bench.drive.is_trusted(), "{:?}", bench.drive.status());
    }

    #[test]
    fn a_command_beside_which_another_left_at_once_is_no_prediction() {
        let mut bench = Bench::new(&tracks(MIB));
        bench.write(MIB);
        let before = bench.drive.status();
        let (moved, now) = (Moved::new(2 * MIB, 4096, true), bench.now);
        bench.drive.leaves(&moved, true, now);
        bench.drive.leaves(&Moved::new(9 * MIB, 4096, false), false, now);
        bench.drive.completed(&moved, now, now + Nanos::from_millis(30));
        assert_eq!(bench.drive.status(), before);
        assert_eq!(bench.drive.arm_at(), 2 * MIB + 4096, "it moved the arm all the same");
    }
}
