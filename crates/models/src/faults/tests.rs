//! Laws of the fault layer: what each kind does, that it does nothing else, and that it repeats.

use super::{FaultBudget, FaultDisk, FaultKind, FaultPlan, NthFault};
use crate::{
    Dataless, HddModel, HddOptions, InstantDisk, MemoryStore, ModelSpec, Profile, Store,
    plain_properties,
};
use nearhead_basics::SplitMix;
use nearhead_disk::{
    BufferMut, Class, Command, CommandId, Disk, DiskErrorKind, Nanos, Payload, Properties,
    Submission, Ticket,
};

const CAPACITY: u64 = 1 << 20;

fn timing() -> InstantDisk {
    let properties = Properties { volatile_cache: true, ..plain_properties(CAPACITY, 512) };
    InstantDisk::new(properties, Box::new(Dataless), Nanos::from_micros(100))
}

struct Host {
    disk: FaultDisk<InstantDisk>,
    now: Nanos,
    next_id: u64,
}

impl Host {
    fn new(plan: &FaultPlan) -> Self {
        let mut disk = FaultDisk::new(timing(), MemoryStore::new());
        disk.set_plan(FaultPlan {
            verified: up_to(CAPACITY),
            damageable: up_to(CAPACITY),
            silent_max: 1 << 40,
            ..plan.clone()
        });
        disk.arm(true);
        Self { disk, now: Nanos::ZERO, next_id: 0 }
    }

    fn submit(&mut self, command: Command) -> u64 {
        self.next_id += 1;
        let ticket = Ticket::new(CommandId(self.next_id));
        self.disk.submit(Submission { ticket, class: Class::Durable, command }, self.now);
        self.next_id
    }

    fn run(&mut self, command: Command) -> Result<Payload, DiskErrorKind> {
        let id = self.submit(command);
        loop {
            if let Some(done) = self.disk.poll(self.now) {
                assert_eq!(done.id.0, id);
                return done.result.map_err(|error| error.kind);
            }
            let Some(wake) = self.disk.wake_at() else { return Err(DiskErrorKind::Invalid) };
            self.now = wake;
        }
    }

    fn write(&mut self, offset: u64, byte: u8, durable: bool) -> Result<Payload, DiskErrorKind> {
        self.run(Command::Write { offset, parts: vec![bytes(byte, 8)], durable })
    }

    fn read(&mut self, offset: u64) -> Result<Vec<u8>, DiskErrorKind> {
        let found = self.run(Command::Read { offset, len: 4096 })?;
        let mut content = vec![0; 4096];
        found.copy_to(&mut content);
        Ok(content)
    }
}

fn bytes(byte: u8, sectors: usize) -> Payload {
    Payload::Bytes(BufferMut::copy_of(&vec![byte; 512 * sectors]).freeze())
}

fn up_to(end: u64) -> Vec<std::ops::Range<u64>> {
    std::iter::once(0..end).collect()
}

fn only(kind: FaultKind) -> FaultPlan {
    FaultPlan::none(7).with(kind, 1)
}

#[test]
fn without_faults_it_is_a_disk() {
    let mut host = Host::new(&FaultPlan::none(1));
    host.write(4096, 3, false).unwrap();
    assert_eq!(host.read(4096).unwrap(), [3; 4096]);
    assert_eq!(host.now, Nanos::from_micros(200), "the time is that of the disk below");
    host.run(Command::WriteZeroes { offset: 4096, len: 512, durable: true }).unwrap();
    assert_eq!(host.read(4096).unwrap()[511..513], [0, 3]);
    let past_the_end = Command::Read { offset: CAPACITY, len: 512 };
    assert_eq!(host.run(past_the_end).unwrap_err(), DiskErrorKind::Invalid);
    assert_eq!(host.disk.counts().of_commands(), 0);
}

#[test]
fn reported_faults_say_what_they_are() {
    for (kind, expected) in [
        (FaultKind::WriteError, DiskErrorKind::Io),
        (FaultKind::ShortWrite, DiskErrorKind::Io),
        (FaultKind::StickyError, DiskErrorKind::Io),
        (FaultKind::Full, DiskErrorKind::OutOfSpace),
        (FaultKind::Gone, DiskErrorKind::Gone),
    ] {
        let mut host = Host::new(&only(kind));
        assert_eq!(host.write(0, 1, true).unwrap_err(), expected, "{kind:?}");
        assert_eq!(host.disk.counts().of(kind), 1, "{kind:?}");
    }
    assert!(Host::new(&only(FaultKind::ReadError)).read(0).is_err());
    assert!(Host::new(&only(FaultKind::FlushError)).run(Command::Flush).is_err());
}

#[test]
fn a_sticky_range_fails_until_it_is_mended_and_no_other_place_does() {
    let mut host = Host::new(&only(FaultKind::StickyError));
    host.write(0, 1, true).unwrap_err();
    host.disk.set_plan(FaultPlan::none(7));
    assert!(host.write(0, 1, true).is_err() && host.read(0).is_err());
    host.read(CAPACITY - 4096).unwrap();
    host.disk.arm(false);
    host.write(0, 1, true).unwrap();
}

#[test]
fn a_hung_command_is_never_answered_and_a_slow_one_takes_a_thousand_times_as_long() {
    let mut host = Host::new(&only(FaultKind::Hang));
    host.submit(Command::Flush);
    assert_eq!((host.disk.wake_at(), host.disk.hung()), (None, 1));
    host.disk.power_cut(timing());
    assert_eq!(host.disk.hung(), 0);
    let mut host = Host::new(&only(FaultKind::Slow));
    host.read(0).unwrap();
    assert_eq!(host.now, Nanos::from_micros(100 * 1001));
}

#[test]
fn silent_faults_succeed_and_leave_something_else() {
    for kind in [FaultKind::LostWrite, FaultKind::TornWrite, FaultKind::MisdirectedWrite] {
        let mut host = Host::new(&only(kind));
        host.write(8192, 5, true).unwrap();
        host.disk.arm(false);
        assert_ne!(host.read(8192).unwrap(), [5; 4096], "{kind:?}");
        assert_eq!(host.disk.counts().of(kind), 1);
    }
    for kind in [FaultKind::MisdirectedRead, FaultKind::TornRead] {
        let mut host = Host::new(&FaultPlan::none(7));
        host.write(8192, 5, true).unwrap();
        host.disk.set_plan(FaultPlan { verified: up_to(CAPACITY), silent_max: 1, ..only(kind) });
        assert_ne!(host.read(8192).unwrap(), [5; 4096], "{kind:?}");
        assert_eq!(host.read(8192).unwrap(), [5; 4096], "one silent fault was allowed: {kind:?}");
    }
    let mut host = Host::new(&only(FaultKind::BitRot));
    host.write(8192, 5, true).unwrap();
    assert_ne!(host.read(8192).unwrap(), [5; 4096]);
}

#[test]
fn nothing_is_silent_outside_the_verified_ranges() {
    let mut plan = FaultPlan::none(3);
    for kind in FaultKind::ALL.into_iter().filter(|kind| kind.is_silent()) {
        plan = plan.with(kind, 1);
    }
    let mut host = Host::new(&FaultPlan::none(0));
    let ranges = up_to(65536);
    host.disk.set_plan(FaultPlan {
        verified: ranges.clone(),
        damageable: ranges,
        silent_max: 99,
        ..plan
    });
    for offset in (65536..CAPACITY).step_by(4096) {
        host.write(offset, 9, true).unwrap();
        assert_eq!(host.read(offset).unwrap(), [9; 4096]);
    }
    assert_eq!(host.disk.counts().of_commands(), 0);
}

#[test]
fn a_cut_keeps_what_is_safe_and_leaves_each_other_sector_old_or_new() {
    let mut kinds = [0; 3];
    for seed in 0..300 {
        let mut host = Host::new(&FaultPlan::none(seed));
        host.write(0, 1, true).unwrap();
        host.write(4096, 1, false).unwrap();
        host.run(Command::Flush).unwrap();
        host.write(4096, 2, false).unwrap();
        host.submit(Command::Write { offset: 8192, parts: vec![bytes(2, 64)], durable: true });
        host.disk.power_cut(timing());
        assert_eq!(host.read(0).unwrap(), [1; 4096], "seed {seed}");
        for sector in host.read(4096).unwrap().chunks(512) {
            assert!(sector == [1; 512] || sector == [2; 512], "seed {seed}");
        }
        for sector in host.read(8192).unwrap().chunks(512) {
            assert!(sector == [0; 512] || sector == [2; 512], "seed {seed}");
        }
        let counts = *host.disk.counts();
        let found = [FaultKind::CutLost, FaultKind::CutTorn, FaultKind::CutGarbled];
        found.iter().zip(&mut kinds).for_each(|(kind, sum)| *sum += counts.of(*kind));
    }
    assert!(kinds[0] > 50 && kinds[1] > 50 && kinds[2] == 0, "{kinds:?}");
}

#[test]
fn garbled_sectors_are_neither_old_nor_new_and_only_in_verified_ranges() {
    let (mut garbled, mut outside) = (0, 0);
    for seed in 0..300 {
        let mut host = Host::new(&only(FaultKind::CutGarbled));
        let plan = FaultPlan { verified: up_to(65536), seed, ..only(FaultKind::CutGarbled) };
        host.disk.set_plan(plan);
        host.write(0, 2, false).unwrap();
        host.write(65536, 2, false).unwrap();
        host.disk.power_cut(timing());
        let count = |content: Vec<u8>| {
            let sound = |sector: &&[u8]| **sector == [0; 512] || **sector == [2; 512];
            8 - content.chunks(512).filter(sound).count()
        };
        garbled += count(host.read(0).unwrap());
        outside += count(host.read(65536).unwrap());
    }
    assert!(garbled > 50 && outside == 0, "{garbled} and {outside}");
}

#[test]
fn a_kill_loses_nothing() {
    let mut host = Host::new(&FaultPlan::none(1));
    host.submit(Command::Write { offset: 0, parts: vec![bytes(4, 8)], durable: false });
    host.disk.disown(timing());
    assert_eq!(host.read(0).unwrap(), [4; 4096]);
}

#[test]
fn the_nth_command_fails_and_only_it_unless_it_is_sticky() {
    for sticky in [false, true] {
        let kind = FaultKind::WriteError;
        let nth = Some(NthFault { nth: 3, sticky, kind });
        let mut host = Host::new(&FaultPlan { nth, ..FaultPlan::none(1) });
        let failed: Vec<bool> = (0..5).map(|_| host.run(Command::Flush).is_err()).collect();
        assert_eq!(failed, [false, false, true, sticky, sticky]);
    }
}

#[test]
fn seeds_differ_in_their_kinds_and_the_survivable_ones_are_never_silent() {
    let (mut none, mut one, mut many) = (0, 0, 0);
    for seed in 0..500 {
        let plan = FaultPlan::random(FaultBudget::Survive, &mut SplitMix::new(seed));
        assert!(plan.kinds().iter().all(|kind| !kind.is_silent()), "seed {seed}");
        match plan.kinds().iter().filter(|kind| !kind.is_of_a_cut()).count() {
            0 => none += 1,
            1 => one += 1,
            _ => many += 1,
        }
    }
    assert!(none > 50 && one > 50 && many > 50, "{none}, {one}, {many}");
}

#[test]
fn the_same_plan_gives_the_same_faults_and_a_kind_less_leaves_the_others() {
    let run = |plan: &FaultPlan| {
        let mut host = Host::new(plan);
        let mut said = Vec::new();
        for step in 0..300_u64 {
            said.push(host.write(step % 16 * 4096, step as u8, step % 3 == 0).is_ok());
            said.push(host.read(step % 16 * 4096).is_ok());
        }
        host.disk.power_cut(timing());
        let mut content = vec![0; 65536];
        host.disk.image().read(0, &mut content).unwrap();
        (said, content, *host.disk.counts())
    };
    let plan = FaultPlan::none(11).with(FaultKind::WriteError, 20).with(FaultKind::ReadError, 20);
    assert_eq!(run(&plan), run(&plan));
    let fewer = run(&plan.clone().without(FaultKind::ReadError)).2;
    assert_eq!(fewer.of(FaultKind::WriteError), run(&plan).2.of(FaultKind::WriteError));
    assert_ne!(run(&plan).1, run(&FaultPlan { seed: 12, ..plan }).1);
}

#[test]
fn a_modelled_hard_disk_below_gives_the_times_and_the_layer_the_bytes() {
    let profile = Profile::named("st3146855fc").unwrap();
    let model = HddModel::new(&profile, Box::new(Dataless), HddOptions::default()).unwrap();
    let mut disk = FaultDisk::new(model, MemoryStore::new());
    let (mut now, mut took) = (Nanos::ZERO, Vec::new());
    for (id, offset) in [(1, 0), (2, 1 << 36)] {
        for command in [
            Command::Write { offset, parts: vec![bytes(id as u8, 8)], durable: true },
            Command::Read { offset, len: 4096 },
        ] {
            let began = now;
            let ticket = Ticket::new(CommandId(id));
            disk.submit(Submission { ticket, class: Class::Durable, command }, now);
            disk.kick();
            let done = loop {
                if let Some(done) = disk.poll(now) {
                    break done.result.unwrap();
                }
                now = disk.wake_at().unwrap().max(now);
            };
            took.push(now.since(began));
            if let Payload::Bytes(found) = done {
                assert_eq!(found[..], [id as u8; 4096]);
            }
        }
    }
    // A write far away takes a seek: milliseconds, where reads of the same place need none.
    assert!(took[2] > Nanos::from_millis(2), "{took:?}");
}

#[test]
fn a_shingled_disk_with_faults_still_tells_its_zones() {
    let shingled = || ModelSpec::parse("st8000as0002-slsmr,content=none").unwrap();
    let model = shingled().build_any().unwrap();
    let zones = model.zones().unwrap().clone();
    let disk = FaultDisk::new(model, MemoryStore::new());
    assert_eq!(disk.zones(), Some(&zones));
}
