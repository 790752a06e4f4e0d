//! A volume with several log devices: made, found again in any order, recovered from all of them, and what happens when one fails or is not
//! there.

#![allow(clippy::unwrap_used)]

mod failing_link;

use failing_link::{Fault, Link};
use nearhead_disk::{AbsentDisk, BufferMut, Disk, Nanos, Payload, Properties, SECTOR_BYTES};
use nearhead_engine::Config;
use nearhead_format::Place;
use nearhead_models::{CrashDisk, MemoryStore, plain_properties};
use nearhead_service::{ErrorKind, Operation, Reply, Request, RequestId, Service};
use nearhead_volume::{CreateOptions, Lanes, NamedPreset, Volume, create};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

const MIB: u64 = 1 << 20;
const BLOCK: u64 = 4096;
const OWN_BYTES: u64 = 64 * MIB;
const DATA_BYTES: [u64; 2] = [60 * MIB, 50 * MIB];
const LOG_BYTES: [u64; 2] = [20 * MIB, 9 * MIB];
/// Numbers of the log devices beside the own one among the others.
const LOGS_FROM: usize = DATA_BYTES.len();

fn disk(name: &str, bytes: u64) -> Link {
    let properties =
        Properties { name: name.to_owned(), volatile_cache: true, ..plain_properties(bytes, 512) };
    Link::of(CrashDisk::with_image(properties, MemoryStore::new()))
}

fn options(id: u8) -> CreateOptions {
    CreateOptions::new([id; 16], NamedPreset::by_name("trail").unwrap())
}

/// What fails of a new volume, and its disks: the own one, and the others by position.
struct Made {
    own: Link,
    data: Vec<Link>,
    logs: Vec<Link>,
}

fn named(kind: &str, sizes: &[u64]) -> Vec<Link> {
    let sizes = sizes.iter().enumerate();
    sizes.map(|(at, bytes)| disk(&format!("{kind} {at}"), *bytes)).collect()
}

impl Made {
    fn new() -> Self {
        Self {
            own: disk("own", OWN_BYTES),
            data: named("data", &DATA_BYTES),
            logs: named("log", &LOG_BYTES),
        }
    }

    fn lanes(self) -> Lanes<Box<dyn Disk>> {
        let boxed = |links: Vec<Link>| {
            links.into_iter().map(|link| Box::new(link) as Box<dyn Disk>).collect()
        };
        let own: Box<dyn Disk> = Box::new(self.own);
        Lanes::from(own)
            .with_data(boxed(self.data))
            .unwrap()
            .with_log_devices(boxed(self.logs))
            .unwrap()
    }
}

/// A volume, what its clients know, and the time.
struct Rig {
    volume: Volume<Box<dyn Disk>>,
    /// Of the further log devices.
    faults: Vec<Rc<Cell<Fault>>>,
    now: Nanos,
    newest: BTreeMap<u64, u8>,
    seed: u64,
    /// A device that is not there, and its number among the others.
    away: Option<(usize, Box<dyn Disk>)>,
    configure: fn(&mut Config),
}

fn opened(
    lanes: Lanes<Box<dyn Disk>>,
    now: Nanos,
    configure: impl FnOnce(&mut Config),
) -> Result<(Volume<Box<dyn Disk>>, Nanos), String> {
    let (mut volume, now) = Volume::open_in_virtual_time(lanes, now, |_, config| configure(config))
        .map_err(|error| error.to_string())?;
    let now = volume.run_until_open(now).map_err(|error| error.to_string())?;
    Ok((volume, now))
}

impl Rig {
    fn new(configure: fn(&mut Config)) -> Self {
        let made = Made::new();
        let faults = made.logs.iter().map(|link| Rc::clone(&link.fault)).collect();
        let mut lanes = made.lanes();
        create(&mut lanes.in_virtual_time(Nanos::ZERO), &options(7)).unwrap();
        let (volume, now) = opened(lanes, Nanos::ZERO, configure).unwrap();
        Self { volume, configure, faults, now, newest: BTreeMap::new(), seed: 1, away: None }
    }

    /// With something that counts on each log device.
    fn written(configure: fn(&mut Config)) -> Self {
        let mut rig = Self::new(configure);
        rig.write_some(60);
        let on: Vec<usize> = rig.devices_of().into_values().collect();
        assert!((0..=LOG_BYTES.len()).all(|device| on.contains(&device)), "{on:?}");
        rig
    }

    fn ask(&mut self, operation: Operation) -> Reply {
        self.volume.submit(Request { id: RequestId(1), operation }, self.now);
        loop {
            self.volume.drive(self.now);
            if let Some(reply) = self.volume.poll_reply() {
                return reply;
            }
            self.now = self.volume.wake_at().expect("nobody waits for ever").max(self.now);
        }
    }

    fn write(&mut self, block: u64, fill: u8) {
        let data = Payload::Bytes(BufferMut::copy_of(&[fill; BLOCK as usize]).freeze());
        self.ask(Operation::Write { offset: block * BLOCK, data, fua: true }).result.unwrap();
        self.newest.insert(block, fill);
    }

    /// Writes so many blocks anywhere, each durable.
    fn write_some(&mut self, count: u64) {
        for _ in 0..count {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let block = (self.seed >> 33) % (self.volume.info().size_bytes / BLOCK);
            self.write(block, (self.seed >> 56) as u8 | 1);
        }
    }

    fn read(&mut self, block: u64) -> Result<u8, ErrorKind> {
        let operation = Operation::Read { offset: block * BLOCK, len: BLOCK as u32 };
        let parts = self.ask(operation).result.map_err(|error| error.kind)?;
        let bytes = nearhead_disk::bytes_of(&parts);
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "of one write");
        Ok(bytes[0])
    }

    /// Which log device has each block that is logged, the volume's own first.
    fn devices_of(&self) -> BTreeMap<u64, usize> {
        let layout = &self.volume.superblock().layout;
        let of = |byte: u64| layout.log_devices().position(|device| device.contains(&byte));
        let entries = self.volume.engine().map().iter();
        let places = entries.filter_map(|entry| match entry.place {
            Place::Log { chunk_sector, .. } => Some((entry.home_sector / 8, chunk_sector)),
            _ => None,
        });
        places.map(|(block, at)| (block, of(at * SECTOR_BYTES).map_or(0, |at| at + 1))).collect()
    }

    /// Reads everything: what lies on `lost` is an error and nothing older, all else the newest. Says how much was an error.
    fn expect_all_but(&mut self, lost: Option<usize>) -> usize {
        let (mut refused, devices) = (0, self.devices_of());
        for (block, fill) in self.newest.clone() {
            match self.read(block) {
                Err(kind) if lost.is_some() && devices.get(&block).copied() == lost => {
                    assert_eq!(kind, ErrorKind::Io);
                    refused += 1;
                }
                found => assert_eq!(found, Ok(fill), "block {block} on {:?}", devices.get(&block)),
            }
        }
        refused
    }

    /// Brings home what can be.
    fn drain(&mut self) {
        self.volume.start_checkpoint(true, self.now);
        while {
            self.volume.drive(self.now);
            self.volume.status().checkpointing
        } {
            self.now = self.volume.wake_at().unwrap().max(self.now);
        }
    }

    /// Stops it in order, or not, changes the order of its other devices, and opens it without one of them, or with all.
    fn reopened(mut self, without: Option<usize>, in_order: bool) -> Result<Self, String> {
        if in_order {
            self.volume.begin_shutdown(self.now);
        }
        while in_order && !self.volume.is_shut_down() || !self.volume.is_quiet() {
            self.volume.drive(self.now);
            self.now = self.volume.wake_at().map_or(self.now, |at| at.max(self.now));
        }
        let (first, _, mut others) = self.volume.into_lanes().into_all();
        if let Some((number, disk)) = self.away.take() {
            others[number] = disk;
        }
        if let Some(number) = without {
            let absent = Box::new(AbsentDisk::new("missing")) as Box<dyn Disk>;
            self.away = Some((number, std::mem::replace(&mut others[number], absent)));
        }
        others.rotate_left(1);
        let lanes = Lanes::from(first).with_data(others).unwrap();
        let (volume, now) = opened(lanes, self.now, self.configure)?;
        Ok(Self { volume, now, ..self })
    }

    fn damage(&self) -> Vec<String> {
        self.volume.status().damage.iter().map(|damage| damage.text.clone()).collect()
    }
}

/// Nothing goes home by itself, so that what counts stays on the log devices.
fn stay_logged(config: &mut Config) {
    config.cleaner = Box::new(nearhead_engine::cleaner::AsNeeded);
}

/// Nor is it in memory.
fn forgetful(config: &mut Config) {
    stay_logged(config);
    config.cleaning.memory_bytes = 0;
}

#[test]
fn records_go_to_every_log_device_and_all_is_there_again_after_a_kill_in_whatever_order_they_are_named()
 {
    for in_order in [false, true] {
        let mut rig = Rig::written(forgetful);
        assert_eq!(rig.expect_all_but(None), 0);
        for _ in 0..3 {
            rig = rig.reopened(None, in_order).unwrap();
            let names = rig.volume.lanes().data().iter().map(|disk| disk.properties().name.clone());
            assert_eq!(names.collect::<Vec<_>>(), ["data 0", "data 1", "log 0", "log 1"]);
            rig.expect_all_but(None);
            rig.write_some(20);
        }
        rig.drain();
        assert_eq!(rig.volume.status().map_entries, 0, "all of it is at home");
        let mut rig = rig.reopened(None, in_order).unwrap();
        rig.expect_all_but(None);
        assert!(rig.damage().is_empty(), "{:?}", rig.damage());
    }
}

#[test]
fn no_home_and_no_snapshot_is_on_a_log_device() {
    let mut rig = Rig::written(forgetful);
    rig.drain();
    let layout = rig.volume.superblock().layout;
    for device in layout.log_devices() {
        assert!(layout.slot_offsets.iter().all(|slot| !device.contains(slot)));
        let on_it =
            |piece: nearhead_format::layout::HomePiece| device.contains(&piece.device_offset);
        assert!(!layout.home_pieces(0, u64::MAX).any(on_it));
    }
}

#[test]
fn a_log_device_that_fails_costs_what_it_holds_until_it_is_back_and_nobody_waits_for_it() {
    for fault in [Fault::Gone, Fault::Dead, Fault::TakesNothing, Fault::CacheLost] {
        for device in [1, 2] {
            println!("{fault:?} of log device {device}");
            let mut rig = Rig::written(forgetful);
            rig.faults[device - 1].set(fault);
            let until = rig.now + Nanos::from_secs(60);
            while rig.now < until && rig.damage().is_empty() {
                rig.write_some(1);
                rig.now += Nanos::from_millis(20);
            }
            assert_eq!(rig.volume.status().failure, None);
            let says = format!("log device {device}");
            assert!(rig.damage().iter().any(|told| told.starts_with(&says)), "{:?}", rig.damage());
            let before = rig.volume.status().disk_errors;
            rig.write_some(100);
            assert_eq!(rig.volume.status().disk_errors, before, "nothing more is asked of it");
            let can_be_read = matches!(fault, Fault::TakesNothing | Fault::CacheLost);
            let refused = rig.expect_all_but((!can_be_read).then_some(device));
            assert_eq!(refused > 0, !can_be_read, "{refused}");
            assert!(rig.ask(Operation::Flush).result.is_ok());
            // A snapshot followed, so that a kill is no reason to need it. One that is only closed holds what may be read still.
            let mut rig = rig.reopened(Some(LOGS_FROM + device - 1), false).unwrap();
            assert!(rig.expect_all_but(Some(device)) > 0);
            rig.write_some(50);
            rig.faults[device - 1].set(Fault::None);
            let mut rig = rig.reopened(None, false).unwrap();
            assert!(rig.damage().is_empty(), "{:?}", rig.damage());
            rig.expect_all_but(None);
            rig.write_some(100);
            assert!(rig.devices_of().into_values().any(|on| on == device), "it is used again");
        }
    }
}

#[test]
fn what_is_in_memory_of_a_log_device_that_is_gone_goes_home_all_the_same() {
    let mut rig = Rig::written(stay_logged);
    rig.faults[0].set(Fault::Gone);
    rig.write_some(60);
    rig.drain();
    assert_eq!(rig.volume.status().map_entries, 0, "{:?}", rig.damage());
    assert_eq!(rig.expect_all_but(None), 0);
    let mut rig = rig.reopened(Some(LOGS_FROM), false).unwrap();
    assert_eq!(rig.expect_all_but(None), 0, "nothing is missed without it");
}

#[test]
fn after_an_orderly_stop_one_may_be_missing_and_after_a_kill_nothing_is_served_without_it() {
    let rig = Rig::written(forgetful);
    let newest = rig
        .volume
        .superblock()
        .layout
        .logs_by_device()
        .position(|logs| logs.contains(&rig.volume.engine().newest_log()));
    let without = if newest == Some(1) { 2 } else { 1 };
    let mut rig = rig.reopened(Some(LOGS_FROM + without - 1), true).unwrap();
    assert!(rig.expect_all_but(Some(without)) > 0);
    rig.write_some(40);
    let mut rig = rig.reopened(None, true).unwrap();
    rig.expect_all_but(None);
    rig.write_some(40);
    let told = rig.reopened(Some(LOGS_FROM), false).err().unwrap();
    assert!(told.contains("it may hold writes newer than everything else"), "{told}");
}

#[test]
fn with_the_loss_accepted_it_is_served_without_one_that_may_have_the_newest_records_and_what_is_written_then_stays_newest()
 {
    let mut rig = Rig::written(forgetful);
    rig.configure = |config| {
        forgetful(config);
        config.accept_loss = true;
    };
    // As `repair` does it: opened and stopped in order.
    let mut rig = rig.reopened(Some(LOGS_FROM), false).unwrap();
    rig.newest.clear();
    rig.configure = forgetful;
    let mut rig = rig.reopened(Some(LOGS_FROM), true).unwrap();
    rig.write_some(60);
    assert_eq!(rig.expect_all_but(None), 0);
    let mut rig = rig.reopened(None, false).unwrap();
    assert_eq!(rig.expect_all_but(None), 0, "whatever stands on the one that is back");
}

#[test]
fn devices_that_are_not_named_are_named_in_the_error() {
    let rig = Rig::written(forgetful);
    let (first, _, mut others) = rig.volume.into_lanes().into_all();
    let last = others.pop().unwrap();
    let lanes = Lanes::from(first).with_data(others).unwrap();
    let told = opened(lanes, Nanos::ZERO, |_| ()).err().unwrap();
    assert!(
        told.contains("log device 2 was not named") && told.contains("--log-devices"),
        "{told}"
    );
    drop(last);
}

#[test]
fn a_log_device_needs_data_devices_room_for_logs_and_sectors_as_small() {
    let refused = |made: Made| {
        let mut lanes = made.lanes();
        create(&mut lanes.in_virtual_time(Nanos::ZERO), &options(7)).unwrap_err().to_string()
    };
    let told = refused(Made { data: Vec::new(), ..Made::new() });
    assert!(told.contains("log devices: expected a data device"), "{told}");
    let told = refused(Made { logs: vec![disk("small", 2 * MIB)], ..Made::new() });
    assert!(told.contains("logs") && told.contains("on each log device"), "{told}");
    let large = Properties {
        name: "large".to_owned(),
        physical_sector_bytes: 4096,
        ..plain_properties(20 * MIB, 512)
    };
    let large = Link::of(CrashDisk::with_image(large, MemoryStore::new()));
    let told = refused(Made { logs: vec![large], ..Made::new() });
    assert!(told.contains("log device large: expected physical sectors of at most 512"), "{told}");
}
