//! Track by track: where records go on a drive that is known, on one that is not, and when the arm is sent on.

use super::super::track_arm::LOOKED_UP_EVERY;
use super::*;
use crate::disk::drive::Moved;
use crate::disk::drives::Done;
use crate::placement::Completed;
use crate::state::logs::Logs;
use nearhead_disk::{TrackZone, Tracks, Turn};
use nearhead_format::Layout;
use nearhead_format::layout::{DataParts, LayoutKind, LayoutOptions};
use std::sync::Arc;

const PERIOD: Nanos = Nanos(8_000_000);
const TRACK_BYTES: u64 = 256 << 10;
const NEED: Need = Need { blocks: 2, reserve: 0 };

fn layout() -> Layout {
    let options = LayoutOptions {
        log_bytes: Some(1 << 20),
        data_parts: DataParts::of(&[1 << 30]).unwrap(),
        ..LayoutOptions::new(LayoutKind::LogDevice)
    };
    Layout::plan(1 << 30, &options).unwrap()
}

/// A log device, the drive under it, and the policy.
struct Bench {
    logs: Logs,
    drives: Option<Drives>,
    policy: TrackByTrack,
    now: Nanos,
}

impl Bench {
    /// With the first logs claimed; of a drive on which something was seen lately, if it is known.
    fn new(is_known: bool) -> Self {
        let mut logs = Logs::new(&layout(), false);
        logs.note_claimed(0);
        let zone = TrackZone {
            first_byte: 0,
            track_bytes: TRACK_BYTES,
            skew: Turn(1 << 28),
            group_tracks: 0,
            group_skew: Turn(0),
            group_bytes: 0,
        };
        let tracks = Arc::new(Tracks::new(PERIOD.0 as f64, vec![zone]).unwrap());
        let mut drives = Drives::of(&[tracks], None).filter(|_| is_known);
        if let Some(drives) = &mut drives {
            let seen = Moved::new(logs.block_offset(0, 0).unwrap(), 4096, true);
            drives.completed(&Done::new(seen, Nanos::ZERO, &[]), Nanos::from_millis(1));
        }
        let policy = TrackByTrack::default();
        Self { logs, drives, policy, now: Nanos::from_millis(20) }
    }

    fn view(&self) -> View<'_> {
        let (logs, drives, now) = (&self.logs, self.drives.as_ref(), self.now);
        View { logs, head_offset: 0, now, is_idle: true, on_disk: 0, drives, disks: None }
    }

    fn choose(&mut self, need: Need) -> Spot {
        let mut policy = self.policy.clone();
        let spot = policy.choose(need, &self.view()).unwrap();
        self.policy = policy;
        spot
    }

    /// A record goes where the policy puts it, a millisecond after it left, and claims what is wanted.
    fn write(&mut self, need: Need) -> Spot {
        let spot = self.choose(need);
        assert!(self.view().is_legal(spot, need), "{spot:?}");
        let mut policy = self.policy.clone();
        policy.seen(&Seen::RecordLeaves { spot }, &self.view());
        self.logs.advance(spot.log_index, spot.block, need.blocks);
        let offset = self.logs.block_offset(spot.log_index, spot.block).unwrap();
        let bytes = u64::from(need.blocks) * self.logs.block_bytes() as u64;
        if let Some(drives) = &mut self.drives {
            let left_at = self.now;
            self.now += Nanos::from_millis(1);
            drives.completed(&Done::new(Moved::new(offset, bytes, true), left_at, &[]), self.now);
        }
        let done = Completed {
            record_end: Some((spot.log_index, spot.block + need.blocks)),
            offset,
            bytes,
            took: Nanos::from_millis(1),
            has_moved: true,
            is_ok: true,
        };
        policy.seen(&Seen::Completed(done), &self.view());
        self.policy = policy;
        self.logs.note_claimed(spot.wanted_index);
        self.now += Nanos::from_millis(3);
        spot
    }

    /// That of its one disk.
    fn arm(&mut self) -> &mut TrackArm {
        let mut policy = self.policy.clone();
        policy.meet(&self.view());
        self.policy = policy;
        &mut self.policy.arms[0]
    }

    fn track_of(&self, spot: Spot) -> u64 {
        self.logs.block_offset(spot.log_index, spot.block).unwrap() / TRACK_BYTES
    }
}

#[test]
fn the_head_goes_on_once_a_third_of_its_track_is_used_and_never_goes_back() {
    let mut bench = Bench::new(true);
    let spots: Vec<Spot> = (0..400).map(|_| bench.write(NEED)).collect();
    let tracks: Vec<u64> = spots.iter().map(|spot| bench.track_of(*spot)).collect();
    assert!(tracks.is_sorted(), "{tracks:?}");
    // 64 blocks a track: it is left behind the record that takes the twentieth.
    let on_each: Vec<usize> = tracks.chunk_by(|one, next| one == next).map(<[u64]>::len).collect();
    let (last, all) = on_each.split_last().unwrap();
    assert!(all.iter().all(|records| *records == 10) && *last <= 10, "{on_each:?}");
    let passed = tracks[tracks.len() - 1] - tracks[0];
    assert_eq!(passed + 1, on_each.len() as u64, "no track is left out");
    assert!(spots.last().unwrap().log_index > 8, "logs follow each other");
}

#[test]
fn a_record_begins_soon_after_the_arm_is_there() {
    let mut bench = Bench::new(true);
    for _ in 0..60 {
        let spot = bench.write(NEED);
        let next = bench.choose(NEED);
        let byte = bench.logs.block_offset(next.log_index, next.block).unwrap();
        let (drive, byte) = bench.drives.as_ref().unwrap().part(byte);
        let wait = drive.wait(byte, bench.now + drive.access(byte)).unwrap();
        assert!(wait.0 < PERIOD.0 / 8, "{next:?} after {spot:?} waits for {wait}");
    }
}

#[test]
fn where_nobody_knows_the_drive_one_record_follows_the_other_through_all_logs() {
    let mut bench = Bench::new(false);
    let need = Need { blocks: 40, reserve: 0 };
    let mut before = bench.write(need);
    for _ in 0..100 {
        let spot = bench.write(need);
        let follows = spot.log_index == before.log_index && spot.block == before.block + 40;
        let begins = spot.log_index == before.log_index + 1 && spot.block == 0;
        assert!(follows || begins, "{spot:?} after {before:?}");
        before = spot;
    }
    assert!(before.log_index > 10);
}

#[test]
fn behind_the_last_log_the_first_one_is_filled_again_if_it_is_free() {
    let mut bench = Bench::new(false);
    let count = bench.logs.count();
    bench.logs.note_claimed(count - 1);
    let last_block = bench.logs.blocks() - 1;
    bench.arm().last = Some((count - 1, last_block));
    let spot = bench.write(NEED);
    assert_eq!((spot.log_index, spot.block), (0, 0));
    // The one behind it is full: it is passed over.
    bench.logs.advance(1, 0, bench.logs.blocks());
    let spot = bench.choose(NEED);
    assert_eq!((spot.log_index, spot.wanted_index), (0, 2));
}

#[test]
fn the_arm_is_sent_on_where_that_is_sooner_and_looked_up_while_records_come() {
    let mut bench = Bench::new(true);
    assert_eq!(bench.policy.repositions(&bench.view()), None, "no record was written yet");
    let first = bench.write(NEED);
    let look_up = bench.policy.repositions(&bench.view()).unwrap();
    assert_eq!(look_up.at, bench.arm().seen_at + LOOKED_UP_EVERY, "its track is in use");
    assert_eq!(look_up.offset / TRACK_BYTES, bench.track_of(first));
    while bench.arm().is_ready() {
        bench.write(NEED);
    }
    let sent_on = bench.policy.repositions(&bench.view()).unwrap();
    assert_eq!(sent_on.offset / TRACK_BYTES, bench.track_of(first) + 1, "the next track");
    let mut policy = bench.policy.clone();
    policy.repositioned(sent_on.offset, &bench.view());
    bench.policy = policy;
    let again = bench.policy.repositions(&bench.view()).unwrap();
    assert_eq!(again.at, bench.now + LOOKED_UP_EVERY, "it is there");
    bench.now = bench.arm().record_at + LOOKED_UP_FOR + Nanos(1);
    assert_eq!(bench.policy.repositions(&bench.view()), None, "nobody writes any more");
}

#[test]
fn without_tracks_no_arm_is_sent_anywhere() {
    let mut bench = Bench::new(false);
    bench.write(NEED);
    assert_eq!(bench.policy.repositions(&bench.view()), None);
    assert!(!bench.policy.waits(&View { on_disk: 1, ..bench.view() }));
    let known = Bench::new(true);
    assert!(known.policy.waits(&View { on_disk: 1, ..known.view() }));
    assert!(!known.policy.waits(&known.view()));
}

/// Two disks with logs behind each other among the volume's addresses.
mod several {
    use super::*;
    use crate::placement::{LogDisk, LogDisks};

    #[derive(Debug)]
    struct LogDevice {
        addresses: std::ops::Range<u64>,
        drives: Option<Drives>,
        on_disk: u32,
    }

    #[derive(Debug)]
    struct Disks(Vec<LogDevice>);

    impl LogDisks for Disks {
        fn disk_at(&self, address: u64) -> LogDisk<'_> {
            let disk = self.0.iter().find(|disk| disk.addresses.contains(&address)).unwrap();
            let (on_disk, drives) = (disk.on_disk, disk.drives.as_ref());
            LogDisk { head_offset: 0, is_idle: on_disk == 0, on_disk, drives }
        }
    }

    struct Bench {
        logs: Logs,
        disks: Disks,
        policy: TrackByTrack,
        now: Nanos,
    }

    impl Bench {
        fn new(is_known: bool) -> Self {
            let data_parts = DataParts::of(&[1 << 30, 64 << 20]).unwrap().with_log_devices(1);
            let options = LayoutOptions {
                log_bytes: Some(1 << 20),
                data_parts: data_parts.unwrap(),
                ..LayoutOptions::new(LayoutKind::LogDevice)
            };
            let layout = Layout::plan(64 << 20, &options).unwrap();
            let mut logs = Logs::new(&layout, false);
            logs.note_claimed(0);
            let devices = std::iter::once(0..layout.device_bytes).chain(layout.log_devices());
            let disk = |addresses: std::ops::Range<u64>| {
                let zone = TrackZone {
                    first_byte: 0,
                    track_bytes: TRACK_BYTES,
                    skew: Turn(1 << 28),
                    group_tracks: 0,
                    group_skew: Turn(0),
                    group_bytes: 0,
                };
                let tracks = Arc::new(Tracks::new(PERIOD.0 as f64, vec![zone]).unwrap());
                let drives = Drives::of(&[tracks], None).map(|drives| drives.from(addresses.start));
                let mut drives = drives.filter(|_| is_known);
                if let Some(drives) = &mut drives {
                    let seen = Moved::new(1 << 20, 4096, true);
                    drives.completed(&Done::new(seen, Nanos::ZERO, &[]), Nanos::from_millis(1));
                }
                LogDevice { addresses, drives, on_disk: 0 }
            };
            let disks = Disks(devices.map(disk).collect());
            Self { logs, disks, policy: TrackByTrack::default(), now: Nanos::from_millis(20) }
        }

        fn view(&self) -> View<'_> {
            let (logs, now, own) = (&self.logs, self.now, &self.disks.0[0]);
            let (on_disk, drives) = (own.on_disk, own.drives.as_ref());
            let disks = Some(&self.disks as &dyn LogDisks);
            View { logs, head_offset: 0, now, is_idle: on_disk == 0, on_disk, drives, disks }
        }

        fn disk_of(&self, log_index: u32) -> usize {
            self.logs.by_device().position(|logs| logs.contains(&log_index)).unwrap()
        }

        /// A record goes where the policy puts it, and claims what is wanted; says on which disk.
        fn write(&mut self, is_ok: bool) -> usize {
            let mut policy = self.policy.clone();
            let spot = policy.choose(NEED, &self.view()).unwrap();
            assert!(self.view().is_legal(spot, NEED), "{spot:?}");
            policy.seen(&Seen::RecordLeaves { spot }, &self.view());
            let (number, left_at) = (self.disk_of(spot.log_index), self.now);
            self.now += Nanos::from_millis(1);
            let offset = self.logs.block_offset(spot.log_index, spot.block).unwrap();
            let bytes = u64::from(NEED.blocks) * self.logs.block_bytes() as u64;
            if is_ok {
                self.logs.advance(spot.log_index, spot.block, NEED.blocks);
                self.logs.note_claimed(spot.wanted_index);
            } else {
                self.logs.rest(spot.log_index, self.now);
            }
            let disk = &mut self.disks.0[number];
            if let Some(drives) = &mut disk.drives {
                let moved = Moved::new(offset - disk.addresses.start, bytes, true);
                drives.completed(&Done::new(moved, left_at, &[]), self.now);
            }
            let done = Completed {
                record_end: Some((spot.log_index, spot.block + NEED.blocks)),
                offset,
                bytes,
                took: Nanos::from_millis(1),
                has_moved: true,
                is_ok,
            };
            policy.seen(&Seen::Completed(done), &self.view());
            self.policy = policy;
            number
        }
    }

    #[test]
    fn where_nobody_knows_tracks_the_disks_take_turns_once_each_has_a_log_for_records() {
        let mut bench = Bench::new(false);
        assert_eq!(bench.write(true), 0, "the only log that may be written");
        let on: Vec<usize> = (0..6).map(|_| bench.write(true)).collect();
        assert_eq!(on, [1, 0, 1, 0, 1, 0]);
    }

    #[test]
    fn a_record_goes_to_no_disk_that_has_something_to_do_while_another_has_not() {
        let mut bench = Bench::new(true);
        let _: Vec<usize> = (0..4).map(|_| bench.write(true)).collect();
        for busy in [0, 1] {
            bench.disks.0[busy].on_disk = 1;
            assert!(!bench.policy.waits(&bench.view()), "the other one is free");
            assert_eq!(bench.write(true), 1 - busy);
            bench.disks.0[busy].on_disk = 0;
        }
        bench.disks.0.iter_mut().for_each(|disk| disk.on_disk = 1);
        assert!(bench.policy.waits(&bench.view()), "none is");
    }

    #[test]
    fn a_disk_that_did_not_take_a_record_is_passed_over_for_a_while() {
        let mut bench = Bench::new(false);
        let _: Vec<usize> = (0..3).map(|_| bench.write(true)).collect();
        let failed = bench.write(false);
        let on: Vec<usize> = (0..5).map(|_| bench.write(true)).collect();
        assert_eq!(on, [1 - failed; 5]);
        bench.now += Nanos::from_millis(200);
        let on: Vec<usize> = (0..3).map(|_| bench.write(true)).collect();
        assert!(on.contains(&failed), "{on:?}");
    }

    #[test]
    fn each_disk_goes_on_in_its_own_logs_and_both_are_to_stay_claimed() {
        let mut bench = Bench::new(false);
        let _: Vec<usize> = (0..2000).map(|_| bench.write(true)).collect();
        let in_use = bench.policy.goes_on_in();
        let disks: Vec<usize> = in_use.iter().map(|log| bench.disk_of(*log)).collect();
        assert_eq!((disks, bench.policy.claims_kept()), (vec![0, 1], 4), "{in_use:?}");
        assert!(in_use.iter().all(|log| bench.logs.is_claimed(*log)));
        assert!(in_use[0] > 1 && in_use[1] > bench.logs.by_device().nth(1).unwrap().start + 1);
    }

    #[test]
    fn arms_are_looked_up_one_after_the_other_and_not_while_something_is_on_their_disk() {
        let mut bench = Bench::new(true);
        while bench.policy.goes_on_in().len() < 2 {
            bench.write(true);
        }
        let due = bench.policy.repositions(&bench.view()).unwrap();
        let number = usize::from(bench.disks.0[1].addresses.contains(&due.offset));
        bench.disks.0[number].on_disk = 1;
        let other = bench.policy.repositions(&bench.view()).unwrap();
        assert!(bench.disks.0[1 - number].addresses.contains(&other.offset), "{other:?}");
        bench.disks.0[1 - number].on_disk = 1;
        assert_eq!(bench.policy.repositions(&bench.view()), None);
    }
}
