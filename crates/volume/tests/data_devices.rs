//! A volume whose own disk has the logs and whose data lies on other devices: made, found again in any order, and refused where a
//! device is missing, foreign or too small; and what happens to it when one of them fails.

#![allow(clippy::unwrap_used)]

use nearhead_disk::{
    AbsentDisk, BufferMut, Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Payload,
    Properties, Submission, Ticket,
};
use nearhead_engine::Config;
use nearhead_format::Superblock;
use nearhead_format::superblock::FEATURE_LOGS_TELL_ALL;
use nearhead_models::{CrashDisk, MemoryStore, Store, plain_properties};
use nearhead_service::{ErrorKind, Operation, Reply, Request, RequestId, Service};
use nearhead_volume::forget::give_up;
use nearhead_volume::repair::{slots_to_repair, weigh};
use nearhead_volume::{CreateOptions, Lanes, NamedPreset, Volume, create};
use std::cell::Cell;
use std::rc::Rc;

const MIB: u64 = 1 << 20;
const LOG_BYTES: u64 = 64 * MIB;
const DATA_BYTES: [u64; 2] = [40 * MIB, 30 * MIB];

fn disk(name: &str, bytes: u64) -> CrashDisk {
    let properties =
        Properties { name: name.to_owned(), volatile_cache: true, ..plain_properties(bytes, 512) };
    CrashDisk::with_image(properties, MemoryStore::new())
}

fn options(id: u8) -> CreateOptions {
    CreateOptions::new([id; 16], NamedPreset::by_name("trail").unwrap())
}

/// The disks of a new volume: the log device, and the data devices by position.
fn made(id: u8) -> (CrashDisk, Vec<CrashDisk>) {
    let data = DATA_BYTES.iter().enumerate();
    let data = data.map(|(position, bytes)| disk(&format!("data {position}"), *bytes)).collect();
    let mut lanes = Lanes::from(disk("log", LOG_BYTES)).with_data(data).unwrap();
    create(&mut lanes.in_virtual_time(Nanos::ZERO), &options(id)).unwrap();
    let (log, _, data) = lanes.into_all();
    (log, data)
}

fn open_with(
    log: CrashDisk,
    data: Vec<CrashDisk>,
    configure: impl FnOnce(&mut Config),
) -> Result<(Volume<CrashDisk>, Nanos), String> {
    let lanes = Lanes::from(log).with_data(data).unwrap();
    let configured = |_: &_, config: &mut Config| configure(config);
    let (mut volume, now) = Volume::open_in_virtual_time(lanes, Nanos::ZERO, configured)
        .map_err(|error| error.to_string())?;
    let now = volume.run_until_open(now).map_err(|error| error.to_string())?;
    Ok((volume, now))
}

fn open(log: CrashDisk, data: Vec<CrashDisk>) -> Result<(Volume<CrashDisk>, Nanos), String> {
    open_with(log, data, |_| ())
}

fn ask(volume: &mut Volume<impl Disk>, now: &mut Nanos, operation: Operation) -> Reply {
    volume.submit(Request { id: RequestId(1), operation }, *now);
    loop {
        volume.drive(*now);
        if let Some(reply) = volume.poll_reply() {
            return reply;
        }
        *now = volume.wake_at().unwrap().max(*now);
    }
}

fn write(volume: &mut Volume<impl Disk>, now: &mut Nanos, offset: u64, fill: u8) {
    let data = Payload::Bytes(BufferMut::copy_of(&[fill; 4096]).freeze());
    let operation = Operation::Write { offset, data, fua: true };
    ask(volume, now, operation).result.unwrap();
}

fn read(volume: &mut Volume<impl Disk>, now: &mut Nanos, offset: u64) -> Result<u8, ErrorKind> {
    let reply = ask(volume, now, Operation::Read { offset, len: 4096 });
    let parts = reply.result.map_err(|error| error.kind)?;
    let bytes = nearhead_disk::bytes_of(&parts);
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "one write, or none");
    Ok(bytes[0])
}

fn drain(volume: &mut Volume<impl Disk>, now: &mut Nanos) {
    volume.start_checkpoint(true, *now);
    while {
        volume.drive(*now);
        volume.status().checkpointing || volume.status().map_entries > 0
    } {
        *now = volume.wake_at().unwrap().max(*now);
    }
}

/// Client bytes on the first device, on the second, and on both sides of where they meet.
fn places(volume: &Volume<CrashDisk>) -> Vec<u64> {
    let layout = volume.superblock().layout;
    let pieces: Vec<_> = layout.home_pieces(0, u64::MAX).collect();
    assert_eq!(pieces.len(), 2, "{pieces:?}");
    let border = pieces[1].client_offset;
    vec![0, 8192, border - 4096, border, border + 4096, layout.client_bytes() - 4096]
}

#[test]
fn what_was_written_is_there_again_whatever_the_order_in_which_the_devices_are_named() {
    let (log, data) = made(1);
    let (mut volume, mut now) = open(log, data).unwrap();
    let places = places(&volume);
    for (fill, place) in (1..).zip(&places) {
        write(&mut volume, &mut now, *place, fill);
    }
    for is_home in [false, true] {
        if is_home {
            drain(&mut volume, &mut now);
            assert_eq!(volume.status().map_entries, 0, "all of it is at home");
        }
        let (log, _, mut data) = volume.into_lanes().into_all();
        data.reverse();
        (volume, now) = open(log, data).unwrap();
        let names = volume.lanes().data().iter().map(|disk| disk.properties().name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["data 0", "data 1"], "by position again");
        for (fill, place) in (1..).zip(&places) {
            assert_eq!(read(&mut volume, &mut now, *place), Ok(fill), "{place}, home {is_home}");
        }
    }
}

#[test]
fn homes_and_snapshots_are_written_to_the_data_devices() {
    let (log, data) = made(1);
    let (mut volume, mut now) = open(log, data).unwrap();
    for place in places(&volume) {
        write(&mut volume, &mut now, place, 7);
    }
    let written = |volume: &Volume<CrashDisk>| {
        let data = volume.lanes().data();
        [data[0].changes(), data[1].changes()]
    };
    let before = written(&volume);
    drain(&mut volume, &mut now);
    let after = written(&volume);
    assert!(after[0] > before[0] && after[1] > before[1], "{before:?}, {after:?}");
    let layout = volume.superblock().layout;
    assert!(layout.slot_offsets.iter().all(|slot| *slot >= layout.device_bytes), "{layout:?}");
}

#[test]
fn a_volume_does_not_open_without_one_of_its_devices_or_with_another_s() {
    let problem = |log: CrashDisk, data: Vec<CrashDisk>| open(log, data).err().unwrap();
    let (log, mut data) = made(1);
    data.remove(0);
    let told = problem(log, data);
    assert!(
        told.contains("found 1; data device 0 was not named: name all of them with --data-devices"),
        "{told}"
    );
    let (log, _) = made(1);
    let told = problem(log, Vec::new());
    assert!(told.contains("data device 0 and 1 was not named"), "{told}");

    let (log, mut data) = made(1);
    data[1] = made(2).1.remove(1);
    let told = problem(log, data);
    assert!(told.contains("data 1: expected a data device of volume 0101"), "{told}");

    let (log, mut data) = made(1);
    data[1] = disk("blank", DATA_BYTES[1]);
    let told = problem(log, data);
    assert!(told.contains("blank: expected a data device of the volume, found none"), "{told}");

    let (log, mut data) = made(1);
    let image = data[0].image_after(&|_, _| true);
    let properties = Properties { name: "copy".to_owned(), ..data[0].properties().clone() };
    data[1] = CrashDisk::with_image(properties, image);
    let told = problem(log, data);
    assert!(told.contains("data device 0: found twice, as data 0 and as copy"), "{told}");

    let (log, mut data) = made(1);
    let image = data[1].image_after(&|_, _| true);
    data[1] = CrashDisk::with_image(plain_properties(DATA_BYTES[1] - MIB, 512), image);
    let told = problem(log, data);
    assert!(told.contains("data device 1") && told.contains("restore its full size"), "{told}");
}

#[test]
fn a_volume_on_one_disk_takes_no_data_devices() {
    let mut lanes = Lanes::from(disk("alone", LOG_BYTES));
    let mlb = CreateOptions::new([1; 16], NamedPreset::by_name("mlb").unwrap());
    create(&mut lanes.in_virtual_time(Nanos::ZERO), &mlb).unwrap();
    let told = open(lanes.into_all().0, made(1).1).err().unwrap();
    assert!(told.contains("lies on one device; leave --data-devices out"), "{told}");
    for (preset, data, expected) in [
        ("mlb", made(2).1, "data devices"),
        ("trail", Vec::new(), "expected data devices behind the one that has the logs, found 0"),
    ] {
        let mut lanes = Lanes::from(disk("log", LOG_BYTES)).with_data(data).unwrap();
        let options = CreateOptions::new([1; 16], NamedPreset::by_name(preset).unwrap());
        let options = CreateOptions { force: true, ..options };
        let told = create(&mut lanes.in_virtual_time(Nanos::ZERO), &options).unwrap_err();
        assert!(told.to_string().contains(expected), "{told}");
    }
}

#[test]
fn a_device_on_which_there_is_something_is_not_taken_as_a_data_device() {
    let (_, used) = made(1);
    let mut lanes = Lanes::from(disk("log", LOG_BYTES)).with_data(used).unwrap();
    let told = create(&mut lanes.in_virtual_time(Nanos::ZERO), &options(2)).unwrap_err();
    assert!(told.to_string().contains("data device of a Nearhead volume"), "{told}");
}

#[test]
fn who_is_told_the_superblock_finds_the_snapshots_on_the_data_devices() {
    let (log, data) = made(1);
    let (mut volume, mut now) = open(log, data).unwrap();
    write(&mut volume, &mut now, 4096, 7);
    now = nearhead_laws::stop(&mut volume, now);
    let superblock = volume.superblock().clone();
    let (log, _, mut data) = volume.into_lanes().into_all();
    data.reverse();
    let mut lanes = Lanes::from(log).with_data(data).unwrap();
    let found = slots_to_repair(&mut lanes.in_virtual_time(now), &superblock);
    assert_eq!(found, Vec::<String>::new());
    give_up(&mut lanes.in_virtual_time(now), &superblock, &[]).unwrap();
    let (log, _, data) = lanes.into_all();
    let (mut volume, mut now) = open(log, data).unwrap();
    assert_eq!(volume.status().damage, []);
    assert_eq!(read(&mut volume, &mut now, 4096), Ok(7));
}

#[test]
fn either_copy_of_a_data_device_s_header_is_enough() {
    for lost in [0, 64 << 10] {
        let (log, mut data) = made(1);
        let mut image = data[1].image_after(&|_, _| true);
        image.write(lost, &[0; 4096]).unwrap();
        data[1] = CrashDisk::with_image(data[1].properties().clone(), image);
        assert!(open(log, data).is_ok(), "without the copy at {lost}");
    }
}

/// A disk whose flushes fail while it is told so.
struct Failing {
    disk: CrashDisk,
    fails: Rc<Cell<bool>>,
    failed: Vec<Ticket>,
}

impl Disk for Failing {
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
        if self.fails.get() && matches!(submission.command, Command::Flush) {
            return self.failed.push(submission.ticket);
        }
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        let Some(ticket) = self.failed.pop() else { return self.disk.poll(now) };
        let detail = "the cache is gone".to_owned();
        Some(ticket.complete(Err(DiskError { kind: DiskErrorKind::Io, detail })))
    }

    fn wake_at(&self) -> Option<Nanos> {
        if self.failed.is_empty() { self.disk.wake_at() } else { Some(Nanos::ZERO) }
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        self.failed.drain(..).for_each(Ticket::abandon);
    }
}

#[test]
fn a_data_device_that_cannot_be_flushed_costs_what_lies_on_it_and_nothing_else() {
    let (log, data) = made(1);
    let fails = Rc::new(Cell::new(false));
    let failing = |disk, is_it: bool| {
        let fails = if is_it { Rc::clone(&fails) } else { Rc::default() };
        Failing { disk, fails, failed: Vec::new() }
    };
    let data = data.into_iter().enumerate().map(|(at, disk)| failing(disk, at == 1)).collect();
    let lanes = Lanes::from(failing(log, false)).with_data(data).unwrap();
    let (mut volume, now) = Volume::open_in_virtual_time(lanes, Nanos::ZERO, |_, _| ()).unwrap();
    let mut now = volume.run_until_open(now).unwrap();
    let border = volume.superblock().layout.home_pieces(0, u64::MAX).nth(1).unwrap().client_offset;
    for (place, fill) in [(0, 1), (border, 2), (border + 4096, 3)] {
        write(&mut volume, &mut now, place, fill);
    }
    fails.set(true);
    volume.start_checkpoint(true, now);
    while volume.status().stats.devices_given_up == 0 || volume.status().checkpointing {
        volume.drive(now);
        now = volume.wake_at().unwrap().max(now);
    }
    let status = volume.status();
    assert!(status.failure.is_none(), "{:?}", status.failure);
    assert!(status.damage.iter().any(|damage| damage.text.contains("data device 1 was given up")));
    // What was logged is still there, and stays in the logs.
    let expected = [(0, Ok(1)), (border, Ok(2)), (border + 4096, Ok(3))];
    for (place, expected) in expected {
        assert_eq!(read(&mut volume, &mut now, place), expected, "{place}");
    }
    assert_eq!(status.map_entries, 2, "of the other device all is at home");
    // Nothing more goes there, and nothing else is in the way of the other.
    let data = Payload::Bytes(BufferMut::copy_of(&[9; 4096]).freeze());
    let refused = Operation::Write { offset: border, data, fua: true };
    let told = ask(&mut volume, &mut now, refused).result.unwrap_err().detail;
    assert!(told.contains("data device 1 was given up: its cache could not be flushed"), "{told}");
    assert_eq!(read(&mut volume, &mut now, border + (1 << 20)), Err(ErrorKind::Io));
    write(&mut volume, &mut now, 8192, 4);
    assert!(ask(&mut volume, &mut now, Operation::Flush).result.is_ok());
    // Once it is mended everything is as it was.
    fails.set(false);
    while !volume.is_quiet() {
        volume.drive(now);
        now = volume.wake_at().unwrap().max(now);
    }
    let (volume, now) = Volume::open_in_virtual_time(volume.into_lanes(), now, |_, _| ()).unwrap();
    let mut volume = volume;
    let mut now = volume.run_until_open(now).unwrap();
    for (place, expected) in expected.into_iter().chain([(8192, Ok(4))]) {
        assert_eq!(read(&mut volume, &mut now, place), expected, "{place}");
    }
    write(&mut volume, &mut now, border, 5);
    drain(&mut volume, &mut now);
    assert_eq!(read(&mut volume, &mut now, border), Ok(5));
}

/// The same disk after `change` of its image.
fn changed(disk: &CrashDisk, change: impl FnOnce(&mut MemoryStore)) -> CrashDisk {
    let mut image = disk.image_after(&|_, _| true);
    change(&mut image);
    CrashDisk::with_image(disk.properties().clone(), image)
}

#[test]
fn a_rebuilt_map_is_weighed_against_the_homes_on_the_data_devices() {
    let (log, data) = made(1);
    let (mut volume, mut now) = open(log, data).unwrap();
    let places = places(&volume);
    for place in &places {
        write(&mut volume, &mut now, *place, 7);
    }
    // Its logs do not tell all, and both snapshots are lost: everything that is not at home is in doubt.
    let superblock = volume.superblock().clone();
    let layout = superblock.layout;
    let feature_ro_compat = superblock.feature_ro_compat & !FEATURE_LOGS_TELL_ALL;
    let older = Superblock { feature_ro_compat, ..superblock };
    let (log, _, data) = volume.into_lanes().into_all();
    let log = changed(&log, |image| {
        for (copy, offset) in (0..).zip(layout.superblock_offsets()) {
            image.write(offset, &older.encode(copy)).unwrap();
        }
    });
    let devices: Vec<_> = layout.data_devices().collect();
    let changed_data = devices.iter().zip(&data).map(|(addresses, disk)| {
        changed(disk, |image| {
            for slot in layout.slot_offsets.iter().filter(|slot| addresses.contains(slot)) {
                image.zero(slot - addresses.start, layout.slot_bytes).unwrap();
            }
            for home in [places[0], places[4]].map(|place| layout.home(place).unwrap()) {
                if addresses.contains(&home.device_offset) {
                    image.write(home.device_offset - addresses.start, &[7; 4096]).unwrap();
                }
            }
        })
    });
    let mut data: Vec<_> = changed_data.collect();
    data.reverse();
    let (mut volume, now) = open_with(log, data, |config| config.rebuild = true).unwrap();
    let found = weigh(&mut volume, |lanes| lanes.in_virtual_time(now)).unwrap();
    let (homes, entries) = (found.agreeing_bytes, found.map_entries);
    assert_eq!((homes, entries), (2 * 4096, 6), "one on each device: {:?}", found.doubtful);
}

#[test]
fn without_one_data_device_the_others_are_served_and_nothing_is_lost_that_it_had() {
    let (log, data) = made(1);
    let (mut volume, mut now) = open(log, data).unwrap();
    let places = places(&volume);
    for place in &places {
        write(&mut volume, &mut now, *place, 7);
    }
    drain(&mut volume, &mut now);
    // At home is what lies on the missing device but for one place, which is still logged.
    write(&mut volume, &mut now, places[4], 8);
    let (log, _, data) = volume.into_lanes().into_all();
    let image = |disk: &CrashDisk| {
        CrashDisk::with_image(disk.properties().clone(), disk.image_after(&|_, _| true))
    };
    let open_boxed = |log: &CrashDisk, data: Vec<Box<dyn Disk>>| {
        let lanes = Lanes::from(Box::new(image(log)) as Box<dyn Disk>).with_data(data).unwrap();
        Volume::open_in_virtual_time(lanes, Nanos::ZERO, |_, _| ())
            .map_err(|error| error.to_string())
    };
    let there = |at: usize| Box::new(image(&data[at])) as Box<dyn Disk>;
    let away = || Box::new(AbsentDisk::new("missing")) as Box<dyn Disk>;
    for (named, part) in [
        (vec![away(), there(1)], "data device 0 is missing, which has the snapshots"),
        (vec![there(1), away(), there(0)], "found 2 and 1 said to be missing"),
        (vec![there(1)], "found 1; data device 0 was not named"),
    ] {
        let told = open_boxed(&log, named).err().unwrap();
        assert!(told.contains(part), "{told}");
    }

    // The word may stand anywhere.
    let (mut volume, opened) = open_boxed(&log, vec![away(), there(0)]).unwrap();
    let mut now = volume.run_until_open(opened).unwrap();
    let damage = volume.status().damage;
    let is_told = |found: &str| damage.iter().any(|damage| damage.text.contains(found));
    assert!(
        is_told("data device 1 was given up: it was missing when the volume was opened"),
        "{damage:?}"
    );
    for (place, expected) in [
        (places[0], Ok(7)),
        (places[2], Ok(7)),
        (places[4], Ok(8)),
        (places[5], Err(ErrorKind::Io)),
    ] {
        assert_eq!(read(&mut volume, &mut now, place), expected, "{place}");
    }
    write(&mut volume, &mut now, places[1], 9);
    let block = Payload::Bytes(BufferMut::copy_of(&[9; 4096]).freeze());
    let refused = Operation::Write { offset: places[3], data: block, fua: true };
    let told = ask(&mut volume, &mut now, refused).result.unwrap_err().detail;
    assert!(told.contains("data device 1 was given up: it was missing"), "{told}");
    volume.start_checkpoint(true, now);
    while volume.status().checkpointing {
        volume.drive(now);
        now = volume.wake_at().unwrap().max(now);
    }
    assert!(ask(&mut volume, &mut now, Operation::Flush).result.is_ok());
    assert!(volume.status().failure.is_none());

    // It is there again, with what it had and what was logged for it.
    let (log, _, mut others) = volume.into_lanes().into_all();
    let lanes = Lanes::from(log).with_data(vec![there(1), others.remove(0)]).unwrap();
    let (mut volume, opened) = Volume::open_in_virtual_time(lanes, Nanos::ZERO, |_, _| ()).unwrap();
    let mut now = volume.run_until_open(opened).unwrap();
    assert!(volume.status().damage.is_empty());
    for (place, expected) in places.iter().zip([7, 9, 7, 7, 8, 7]) {
        assert_eq!(read(&mut volume, &mut now, *place), Ok(expected), "{place}");
    }
}
