//! When a volume wants to be driven, and which bands its clients have.

use super::*;
use crate::create::{CreateOptions, create};
use crate::opening::bands_of;
use nearhead_disk::{Region, RegionKind, Zones};
use nearhead_models::{CrashDisk, InstantDisk};
use nearhead_service::{Operation, RequestId};

const STALL_AFTER: Nanos = Nanos::from_secs(30);

fn opened(latency: Nanos) -> (Volume<CrashDisk>, Nanos) {
    let mut disk = CrashDisk::new(64 << 20, 512);
    let options = CreateOptions::new([7; 16], NamedPreset::by_name("mlb").unwrap());
    create(&mut SyncIo::in_virtual_time(&mut disk, Nanos::ZERO), &options).unwrap();
    let (mut volume, now) =
        Volume::open_in_virtual_time(disk.with_latency(latency), Nanos::ZERO, |_, _| ()).unwrap();
    let now = volume.run_until_open(now).unwrap();
    (volume, now)
}

fn read(volume: &mut Volume<CrashDisk>, now: Nanos) {
    let operation = Operation::Read { offset: 0, len: 4096 };
    volume.submit(Request { id: RequestId(1), operation }, now);
    volume.drive(now);
}

#[test]
fn a_wake_up_is_precise_where_the_disk_is_what_has_something_next() {
    let (mut volume, now) = opened(Nanos::from_millis(5));
    assert!(!volume.wake().is_precise, "the disk has nothing: {:?}", volume.wake());
    read(&mut volume, now);
    let wake = volume.wake();
    assert_eq!((wake.at, wake.is_precise), (Some(now + Nanos::from_millis(5)), true));
    // A disk that takes longer than anybody waits without saying so.
    let (mut volume, now) = opened(Nanos::from_secs(100));
    read(&mut volume, now);
    let wake = volume.wake();
    assert_eq!((wake.at, wake.is_precise), (Some(now + STALL_AFTER), false));
}

/// It counts how often it is asked to leave, and has left when a test says so.
struct Leaver {
    disk: CrashDisk,
    asked: u32,
    left: bool,
}

impl Disk for Leaver {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }

    fn properties(&self) -> &nearhead_disk::Properties {
        self.disk.properties()
    }

    fn submit(&mut self, submission: nearhead_disk::Submission, now: Nanos) {
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<nearhead_disk::Completion> {
        self.disk.poll(now)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.disk.wake_at()
    }

    fn leave(&mut self) {
        self.asked += 1;
    }

    fn has_left(&self) -> bool {
        self.left
    }
}

#[test]
fn a_stop_asks_the_disk_to_leave_once_and_is_over_when_it_has() {
    let (volume, now) = opened(Nanos::ZERO);
    let disk = Leaver { disk: volume.into_disk(), asked: 0, left: false };
    let (mut volume, now) = Volume::open_in_virtual_time(disk, now, |_, _| ()).unwrap();
    let mut now = volume.run_until_open(now).unwrap();
    assert_eq!((volume.losses(), volume.disk().asked), (0, 0));
    volume.begin_shutdown(now);
    volume.drive(now);
    while let Some(at) = volume.wake_at() {
        now = at.max(now);
        volume.drive(now);
    }
    assert!(volume.engine().is_stopped());
    for _ in 0..3 {
        volume.drive(now);
        assert_eq!((volume.disk().asked, volume.is_shut_down()), (1, false));
    }
    volume.disk_mut().left = true;
    assert!(volume.is_shut_down());
}

fn settle(volume: &mut Volume<CrashDisk>, mut now: Nanos) -> Nanos {
    volume.drive(now);
    while !volume.is_quiet() {
        now = volume.wake_at().unwrap().max(now);
        volume.drive(now);
    }
    now
}

#[test]
fn a_snapshot_and_a_checkpoint_come_when_they_are_asked_for() {
    let (mut volume, now) = opened(Nanos::ZERO);
    let data = nearhead_disk::Payload::Bytes(nearhead_disk::BufferMut::zeroed(4096).freeze());
    let operation = Operation::Write { offset: 8192, data, fua: true };
    volume.submit(Request { id: RequestId(1), operation }, now);
    let now = settle(&mut volume, now);
    assert_eq!((volume.engine().map().len(), volume.status().snapshot_number), (1, 0));
    volume.start_snapshot(now);
    let now = settle(&mut volume, now);
    assert_eq!((volume.engine().map().len(), volume.status().snapshot_number), (1, 1));
    volume.start_checkpoint(true, now);
    settle(&mut volume, now);
    assert_eq!(volume.engine().map().len(), 0, "all of it is home");
}

#[test]
fn a_volume_that_was_given_up_says_why_and_is_open_all_the_same() {
    let (mut volume, now) = opened(Nanos::ZERO);
    volume.give_up("writes were lost", now);
    let now = volume.run_until_open(now).unwrap();
    assert!(
        volume.engine().failure().is_some_and(|why| why.to_string().contains("writes were lost"))
    );
    read(&mut volume, now);
    settle(&mut volume, now);
    assert!(volume.poll_reply().unwrap().result.is_ok(), "reads go on");
}

#[test]
fn the_bands_of_clients_are_those_of_the_data_where_logs_are_apart() {
    const BAND: u64 = 1 << 20;
    let (free, bytes) = (12 << 20, 64 << 20);
    let region = |offset, len, kind| Region { offset, len, kind };
    let zones = Zones::new(
        vec![
            region(0, free, RegionKind::NonShingled),
            region(free, bytes - free, RegionKind::Bands { band_bytes: BAND }),
        ],
        bytes,
    )
    .unwrap();
    let layout = |preset, zones: Option<&Zones>| {
        let options = CreateOptions::new([7; 16], NamedPreset::by_name(preset).unwrap());
        let properties = nearhead_models::plain_properties(bytes, 512);
        crate::create::describe(&properties, zones, &options).unwrap().layout
    };
    let apart = layout("slsmr", Some(&zones));
    let bands = bands_of(&apart, Some(&zones)).unwrap();
    let sizes: Vec<u64> = bands.bands().map(|band| band.end - band.start).collect();
    assert_eq!(sizes.iter().sum::<u64>(), apart.client_bytes());
    assert!(sizes[..sizes.len() - 1].iter().all(|size| *size == BAND), "{sizes:?}");
    assert!(bands_of(&apart, None).is_none());
    assert!(bands_of(&layout("mlb", None), Some(&zones)).is_none());
}

/// It counts what it is asked for by kind, and passes everything on.
struct Counting {
    disk: InstantDisk,
    trimmed_bytes: u64,
    zeroed_bytes: u64,
}

impl Disk for Counting {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.disk)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.disk)
    }

    fn properties(&self) -> &nearhead_disk::Properties {
        self.disk.properties()
    }

    fn submit(&mut self, submission: nearhead_disk::Submission, now: Nanos) {
        match &submission.command {
            nearhead_disk::Command::Trim { len, .. } => self.trimmed_bytes += len,
            nearhead_disk::Command::WriteZeroes { len, .. } => self.zeroed_bytes += len,
            _ => {}
        }
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<nearhead_disk::Completion> {
        self.disk.poll(now)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.disk.wake_at()
    }
}

/// Runs one request to its reply.
fn asked<D: Disk>(volume: &mut Volume<D>, now: &mut Nanos, operation: Operation) -> Vec<u8> {
    volume.submit(Request { id: RequestId(1), operation }, *now);
    loop {
        volume.drive(*now);
        if let Some(reply) = volume.poll_reply() {
            return nearhead_disk::bytes_of(&reply.result.unwrap());
        }
        *now = volume.wake_at().expect("it has something to do").max(*now);
    }
}

#[test]
fn zeros_that_may_be_unmapped_free_their_homes_and_stay_zeros() {
    const LEN: u64 = 1 << 20;
    for preset in ["nearhead", "mlb-32", "singlelog", "nolog"] {
        let properties = nearhead_disk::Properties {
            trim_reads_zero: true,
            ..nearhead_models::plain_properties(96 << 20, 512)
        };
        let store = Box::new(nearhead_models::MemoryStore::new());
        let disk = InstantDisk::new(properties, store, Nanos::from_micros(1));
        let mut disk = Counting { disk, trimmed_bytes: 0, zeroed_bytes: 0 };
        let options = CreateOptions::new([7; 16], NamedPreset::by_name(preset).unwrap());
        create(&mut SyncIo::in_virtual_time(&mut disk, Nanos::ZERO), &options).unwrap();
        let (mut volume, now) = Volume::open_in_virtual_time(disk, Nanos::ZERO, |_, _| ()).unwrap();
        let mut now = volume.run_until_open(now).unwrap();
        let mut ask = |volume: &mut Volume<Counting>, operation| asked(volume, &mut now, operation);
        let write = |offset, len| Operation::Write {
            offset,
            data: nearhead_disk::Payload::Bytes(
                nearhead_disk::BufferMut::copy_of(&vec![7; len]).freeze(),
            ),
            fua: true,
        };
        let zeroes = |offset, len, may_unmap| Operation::WriteZeroes {
            offset,
            len,
            fua: false,
            fast_only: false,
            may_unmap,
        };
        // In place, and a newer copy of some of it in a log.
        ask(&mut volume, write(0, LEN as usize));
        ask(&mut volume, write(8192, 4096));
        let before = (volume.disk().trimmed_bytes, volume.disk().zeroed_bytes);
        ask(&mut volume, zeroes(0, 16 << 10, true));
        ask(&mut volume, zeroes(16 << 10, LEN - (16 << 10), true));
        ask(&mut volume, Operation::Flush);
        let after = (volume.disk().trimmed_bytes, volume.disk().zeroed_bytes);
        assert_eq!((after.0 - before.0, after.1 - before.1), (LEN, 0), "{preset}");
        ask(&mut volume, zeroes(LEN, LEN, false));
        ask(&mut volume, Operation::Flush);
        assert_eq!(volume.disk().trimmed_bytes, after.0, "{preset}: what is to stay allocated");
        // The power goes: what was flushed is there, and nothing older.
        let (mut volume, again) =
            Volume::open_in_virtual_time(volume.into_disk(), now, |_, _| ()).unwrap();
        now = volume.run_until_open(again).unwrap();
        let read = Operation::Read { offset: 0, len: LEN as u32 };
        let found = asked(&mut volume, &mut now, read);
        assert!(found.iter().all(|byte| *byte == 0), "{preset}");
    }
}
