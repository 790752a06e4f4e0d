//! An older copy of a device is never served with the others, whatever the volume lies on; and a power cut between any two writes of
//! the generations leaves a volume that opens, in which an older copy is still refused.

use nearhead_disk::{
    BufferMut, Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Payload, Properties,
    Submission, Ticket,
};
use nearhead_models::{CrashDisk, MemoryStore, plain_properties};
use nearhead_service::{Operation, Reply, Request, RequestId, Service};
use nearhead_volume::{CreateOptions, Lanes, NamedPreset, Volume, create};
use std::cell::Cell;
use std::rc::Rc;

const MIB: u64 = 1 << 20;
const NO_CUT: u32 = u32::MAX;

/// A disk that loses its power, with all others, after so many writes and flushes of all of them.
struct Cut {
    disk: CrashDisk,
    left: Rc<Cell<u32>>,
    gone: Vec<Ticket>,
}

impl Disk for Cut {
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
        if !matches!(submission.command, Command::Read { .. }) {
            match self.left.get().checked_sub(1) {
                None => return self.gone.push(submission.ticket),
                Some(left) => self.left.set(left),
            }
        }
        self.disk.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        let Some(ticket) = self.gone.pop() else { return self.disk.poll(now) };
        let detail = "the power is gone".to_owned();
        Some(ticket.complete(Err(DiskError { kind: DiskErrorKind::Gone, detail })))
    }

    fn wake_at(&self) -> Option<Nanos> {
        if self.gone.is_empty() { self.disk.wake_at() } else { Some(Nanos::ZERO) }
    }
}

/// The devices of a volume: its own, a map device, data devices or links, and further log devices.
#[derive(Clone)]
struct Devices {
    has_map: bool,
    for_logs: usize,
    images: Vec<MemoryStore>,
}

const SHAPES: [(&str, bool, usize, usize); 5] = [
    ("trail", false, 1, 0),
    ("trail", false, 2, 1),
    ("trail", true, 2, 0),
    ("gecko", false, 2, 0),
    ("mlb", true, 0, 0),
];

impl Devices {
    fn made((preset, has_map, data, for_logs): (&'static str, bool, usize, usize)) -> Self {
        let count = 1 + usize::from(has_map) + data + for_logs;
        let images = vec![MemoryStore::new(); count];
        let mut made = Self { has_map, for_logs, images };
        let options = CreateOptions::new([7; 16], NamedPreset::by_name(preset).unwrap());
        let mut lanes = made.lanes(&Rc::new(Cell::new(NO_CUT)));
        create(&mut lanes.in_virtual_time(Nanos::ZERO), &options).unwrap();
        made.keep(&lanes, true);
        made
    }

    fn disk(&self, number: usize, left: &Rc<Cell<u32>>) -> Cut {
        let bytes = if number == 1 && self.has_map { 4 * MIB } else { 64 * MIB };
        let name = format!("disk {number}");
        let properties = Properties { name, volatile_cache: true, ..plain_properties(bytes, 512) };
        let disk = CrashDisk::with_image(properties, self.images[number].clone());
        Cut { disk, left: Rc::clone(left), gone: Vec::new() }
    }

    fn lanes(&self, left: &Rc<Cell<u32>>) -> Lanes<Cut> {
        let mut others =
            (1..self.images.len()).map(|number| self.disk(number, left)).collect::<Vec<_>>();
        let main = self.disk(0, left);
        let lanes = if self.has_map {
            Lanes::with_map(main, others.remove(0)).unwrap()
        } else {
            main.into()
        };
        let logs = others.split_off(others.len() - self.for_logs);
        lanes.with_data(others).unwrap().with_log_devices(logs).unwrap()
    }

    /// What is on the media: with all that was not flushed, or without it.
    fn keep(&mut self, lanes: &Lanes<Cut>, all: bool) {
        let disks = std::iter::once(lanes.main()).chain(lanes.map()).chain(lanes.data());
        self.images = disks.map(|cut| cut.disk.image_after(&|_, _| all)).collect();
    }

    fn open(&self, left: &Rc<Cell<u32>>) -> Result<(Volume<Cut>, Nanos), String> {
        let lanes = self.lanes(left);
        let (mut volume, now) = Volume::open_in_virtual_time(lanes, Nanos::ZERO, |_, config| {
            config.cleaning.idle_after = None;
            config.cleaning.swap_above_pct = None;
        })
        .map_err(|error| error.to_string())?;
        let now = volume.run_until_open(now).map_err(|error| error.to_string())?;
        Ok((volume, now))
    }

    /// The volume used: this is written, and it is stopped in order or not.
    fn used(&self, fill: u8, in_order: bool) -> Self {
        let (mut volume, mut now) = self.open(&Rc::new(Cell::new(NO_CUT))).unwrap();
        ask(&mut volume, &mut now, write_of(fill));
        if in_order {
            stop(&mut volume, now);
        }
        let mut used = self.clone();
        used.keep(&volume.into_lanes(), in_order);
        used
    }

    fn read(&self) -> Result<u8, String> {
        let (mut volume, mut now) = self.open(&Rc::new(Cell::new(NO_CUT)))?;
        let parts = ask(&mut volume, &mut now, Operation::Read { offset: 0, len: 4096 });
        Ok(nearhead_disk::bytes_of(&parts)[0])
    }

    /// The same with one device as another one has it.
    fn with(&self, number: usize, other: &Self) -> Self {
        let mut mixed = self.clone();
        mixed.images[number] = other.images[number].clone();
        mixed
    }
}

/// The answer; none if the devices are gone and nothing comes any more.
fn answer(volume: &mut Volume<Cut>, now: &mut Nanos, operation: Operation) -> Option<Reply> {
    volume.submit(Request { id: RequestId(1), operation }, *now);
    loop {
        volume.drive(*now);
        if let Some(reply) = volume.poll_reply() {
            return Some(reply);
        }
        *now = volume.wake_at()?.max(*now);
    }
}

fn ask(volume: &mut Volume<Cut>, now: &mut Nanos, operation: Operation) -> Vec<Payload> {
    answer(volume, now, operation).unwrap().result.unwrap()
}

fn write_of(fill: u8) -> Operation {
    let data = Payload::Bytes(BufferMut::copy_of(&[fill; 4096]).freeze());
    Operation::Write { offset: 0, data, fua: true }
}

/// Stops it in order, or until its devices are gone.
fn stop(volume: &mut Volume<Cut>, mut now: Nanos) {
    volume.begin_shutdown(now);
    loop {
        volume.drive(now);
        if volume.is_shut_down() {
            return;
        }
        let Some(wake) = volume.wake_at() else { return };
        now = wake.max(now);
    }
}

#[test]
fn an_older_copy_of_any_device_is_refused() {
    for shape in SHAPES {
        let stopped = Devices::made(shape).used(1, true);
        let killed = stopped.used(2, false);
        let newest = killed.used(3, true);
        assert_eq!(
            (stopped.read(), killed.read(), newest.read()),
            (Ok(1), Ok(2), Ok(3)),
            "{shape:?}"
        );
        let after_kill = newest.used(4, false);
        for number in 0..stopped.images.len() {
            for (now, before) in [
                (&newest, &killed),
                (&newest, &stopped),
                (&killed, &stopped),
                (&after_kill, &newest),
                (&after_kill, &killed),
            ] {
                let told = now.with(number, before).read().unwrap_err();
                let names_it = told.contains(&format!("disk {number}: expected generation"));
                assert!(names_it, "{shape:?}, disk {number}: {told}");
                assert!(told.contains("attach the newest copy"), "{told}");
            }
        }
    }
}

/// Everything that is left of a cut opens, and reads what was acknowledged; an older copy of a device is refused in it still.
fn check_cuts(shape: (&'static str, bool, usize, usize), at_stop: bool) -> u32 {
    let older = Devices::made(shape).used(1, true).used(2, true);
    let newest = older.used(3, true);
    for writes in 0..200 {
        let left = Rc::new(Cell::new(NO_CUT));
        let (mut volume, mut now) = newest.open(&left).unwrap();
        if !at_stop {
            left.set(writes);
        }
        let reply = answer(&mut volume, &mut now, write_of(4));
        let is_acknowledged = reply.is_some_and(|reply| reply.result.is_ok());
        if at_stop {
            left.set(writes);
            stop(&mut volume, now);
        }
        let is_over = left.get() > 0;
        let lanes = volume.into_lanes();
        for all in [false, true] {
            let mut cut = newest.clone();
            cut.keep(&lanes, all);
            let read = cut.read();
            let is_sound = read == Ok(4) || read == Ok(3) && !is_acknowledged;
            assert!(is_sound, "{shape:?}: cut after {writes} writes, all: {all}: {read:?}");
            for number in 0..cut.images.len() {
                let told = cut.with(number, &older).read();
                // Before the first of these writes nothing has changed.
                let is_refused = told.is_err_and(|told| told.contains("expected generation"));
                assert!(is_refused, "{shape:?}: cut after {writes}, disk {number}");
            }
        }
        if is_over {
            return writes;
        }
    }
    panic!("{shape:?}: no end of writes");
}

#[test]
fn a_power_cut_between_any_two_generations_leaves_a_volume_that_opens() {
    for shape in SHAPES {
        for at_stop in [false, true] {
            let writes = check_cuts(shape, at_stop);
            assert!(writes >= 5, "{shape:?}: {writes} writes");
        }
    }
}

#[test]
fn a_volume_that_changes_nothing_keeps_its_generation() {
    for shape in SHAPES {
        let stopped = Devices::made(shape).used(1, true);
        let generation = |devices: &Devices| {
            let mut lanes = devices.lanes(&Rc::new(Cell::new(NO_CUT)));
            nearhead_volume::generations::generation(&mut lanes.in_virtual_time(Nanos::ZERO))
                .unwrap()
        };
        let before = generation(&stopped);
        let (mut volume, now) = stopped.open(&Rc::new(Cell::new(NO_CUT))).unwrap();
        stop(&mut volume, now);
        assert_eq!(before, ([7; 16], volume.generation()), "{shape:?}");
        let mut closed = stopped.clone();
        closed.keep(&volume.into_lanes(), true);
        assert_eq!(before, generation(&closed), "{shape:?}");
        let used = generation(&stopped.used(2, true));
        assert_eq!(used.1, before.1 + 2, "{shape:?}: one for the change, one for the stop");
    }
}
