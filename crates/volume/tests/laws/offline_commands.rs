//! Commands that work on a volume nobody serves, and the orderly stop: create, grow, repair, forget-log, rebuild of the map.
//!
//! The power goes at every command to the disk, and of what was not flushed anything may be there: every subset of
//! sectors, or of a longer row of writes every subset of writes and tears of each and of all. Whatever is left opens
//! as before or as after, with the same hints and nothing reported that is no damage; once the command has
//! returned, as after; and the command can be given again.

use crate::support::disk::CutPoint;
use crate::support::options::{DEVICE_BYTES, Options};
use crate::support::raw::bytes_of;
use crate::support::seen::{Device, Seen, Subject, Used, run_on};
use nearhead_disk::Nanos;
use nearhead_format::{AckMode, Place, SnapshotHeader, Superblock};
use nearhead_models::{MemoryStore, Store};
use nearhead_volume::forget::{LostBlock, give_up};
use nearhead_volume::repair::{clear_torn, repair_superblocks, weigh};
use nearhead_volume::{SyncIo, Volume, create, find_superblock, grow};

const SECTOR_BYTES: usize = 512;
/// Sectors of which every subset is tried.
const ALL_SUBSETS_OF: usize = 8;
/// Unflushed writes of which every subset is tried.
const WRITES_MAX: usize = 6;
/// Blocks that hold something, the last one far behind.
const BLOCKS: [u64; 6] = [0, 1, 40, 41, 900, 9000];
/// Blocks that are hinted durability-only: first and number.
const HINTED: (u64, u64) = (40, 4);

fn subject(preset: &'static str, has_map: bool) -> Subject {
    let mut options = Options::new(preset, AckMode::Durable);
    options.swap_above_pct = None;
    options.snapshot_after_bytes = 64 << 20;
    Subject::new(options, has_map, BLOCKS.to_vec())
}

/// Every image that a cut at this moment may leave.
fn outcomes(point: &CutPoint) -> Vec<MemoryStore> {
    let mut writes = Vec::new();
    for write in &point.unflushed {
        writes.push((write.offset, bytes_of(&write.parts)));
    }
    let sectors: Vec<usize> = writes.iter().map(|(_, bytes)| bytes.len() / SECTOR_BYTES).collect();
    let image = |keeps: &dyn Fn(usize, usize) -> bool| {
        let mut image = point.safe.clone();
        for (number, (offset, bytes)) in writes.iter().enumerate() {
            for (sector, bytes) in bytes.chunks(SECTOR_BYTES).enumerate() {
                let gone = point.unflushed[number].is_superseded(sector);
                if !gone && keeps(number, sector) {
                    image.write(offset + (sector * SECTOR_BYTES) as u64, bytes).unwrap();
                }
            }
        }
        image
    };
    let total: usize = sectors.iter().sum();
    if total <= ALL_SUBSETS_OF {
        let before = |number: usize| sectors[..number].iter().sum::<usize>();
        return (0..1_u32 << total)
            .map(|kept| image(&|write, sector| kept >> (before(write) + sector) & 1 == 1))
            .collect();
    }
    let mut images = Vec::new();
    for kept in 0..1_u32 << writes.len().min(WRITES_MAX) {
        images.push(image(&|write, _| kept >> write.min(31) & 1 == 1));
    }
    let longest = sectors.iter().copied().max().unwrap_or(0);
    for torn_at in (1..longest).step_by(longest.div_ceil(16)) {
        // All of them torn, then each alone among those that are there or not.
        images.push(image(&|_, sector| sector < torn_at));
        images.push(image(&|_, sector| sector >= torn_at));
        for (torn, others) in (0..writes.len()).flat_map(|torn| [(torn, true), (torn, false)]) {
            images.push(image(&|write, sector| {
                if write == torn { sector < torn_at } else { others }
            }));
            images.push(image(&|write, sector| {
                if write == torn { sector >= torn_at } else { others }
            }));
        }
    }
    images
}

/// What a command may leave.
struct Law<'a> {
    name: String,
    subject: &'a Subject,
    before: Seen,
    after: Seen,
}

impl Law<'_> {
    /// Looks at everything that cuts in the middle of `device`'s past may have left, and at what stays now.
    fn check(&self, device: &mut Device) -> Vec<MemoryStore> {
        let mut left = Vec::new();
        let points = device.disk_mut().take_cut_points();
        assert!(!points.is_empty(), "{}: the command changes nothing", self.name);
        let last = points.len() - 1;
        for (number, point) in points.iter().enumerate() {
            for (outcome, image) in outcomes(point).into_iter().enumerate() {
                let seen = self.subject.look(image.clone()).kind();
                let is_after = seen == self.after.kind();
                assert!(
                    is_after || (number < last && seen == self.before.kind()),
                    "{}, cut point {number} of {last}, outcome {outcome}: expected {:#?} or {:#?}, found {:#?}",
                    self.name,
                    self.before.kind(),
                    self.after.kind(),
                    self.subject.look(image)
                );
                left.push(image);
            }
        }
        println!("{}: {} cut points, {} images", self.name, points.len(), left.len());
        left
    }

    /// Cuts `command` on `image` everywhere, and gives it again on some of what is left.
    fn cut(&self, image: &MemoryStore, command: &dyn Fn(&mut SyncIo<'_>) -> Result<(), String>) {
        self.cut_all(image, &|mut device| {
            let result = run_on(&mut device, command);
            (device, result)
        });
    }

    /// The same for one that has the device to itself.
    fn cut_all(
        &self,
        image: &MemoryStore,
        command: &dyn Fn(Device) -> (Device, Result<(), String>),
    ) {
        let mut device = self.subject.device(image.clone());
        device.disk_mut().watch_cuts();
        device.disk_mut().note_cut_point();
        let (mut device, result) = command(device);
        result.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let left = self.check(&mut device);
        for image in left.iter().step_by(5) {
            let (again, result) = command(self.subject.device(image.clone()));
            let seen = self.subject.look(again.disk().image());
            assert_eq!(seen.kind(), self.after.kind(), "{}, again: {result:?}", self.name);
        }
    }
}

fn created(subject: &Subject) -> MemoryStore {
    let mut device = subject.device(MemoryStore::new());
    let options = subject.options.create_options();
    run_on(&mut device, |io| create(io, &options)).unwrap();
    device.disk().image()
}

/// A volume in use: things written, a snapshot of them, hints, then more written.
fn used(subject: &Subject) -> Used {
    let mut used = subject.open(created(subject)).unwrap();
    for (version, block) in BLOCKS.into_iter().enumerate() {
        let id = used.write(block, 1, version as u64, true);
        used.wait(id).unwrap();
    }
    let image = used.stop().disk().image();
    let mut used = subject.open(image).unwrap();
    used.hint(HINTED.0, HINTED.1);
    let id = used.write(BLOCKS[1], 1, 77, true);
    used.wait(id).unwrap();
    used
}

fn stopped(subject: &Subject) -> MemoryStore {
    used(subject).stop().disk().image()
}

#[test]
fn a_stop_that_is_cut_keeps_what_was_acknowledged_and_one_that_ended_the_hints_too() {
    for (preset, has_map) in [("nolog", false), ("singlelog", false), ("mlb", false), ("mlb", true)]
    {
        let subject = subject(preset, has_map);
        let mut used = used(&subject);
        let before = subject.look(used.image());
        let after = Seen::Open(used.view(&subject.blocks));
        let Seen::Open(view) = &after else { unreachable!() };
        let sectors = HINTED.0 * 8..(HINTED.0 + HINTED.1) * 8;
        assert_eq!(view.hints, [sectors], "{preset}");
        used.volume.disk_mut().watch_cuts();
        used.volume.disk_mut().note_cut_point();
        let mut device = used.stop();
        let law = Law { name: format!("stop of {preset}"), subject: &subject, before, after };
        law.check(&mut device);
    }
}

#[test]
fn creation_that_is_cut_leaves_no_volume_or_an_empty_one() {
    for (preset, has_map) in [("nolog", false), ("singlelog", false), ("mlb", false), ("mlb", true)]
    {
        let subject = subject(preset, has_map);
        let before = subject.look(MemoryStore::new());
        let after = subject.look(created(&subject));
        assert!(matches!(&before, Seen::Refused(kind, _) if kind == "NoVolume"), "{before:?}");
        let options = subject.options.create_options();
        let law = Law { name: format!("create {preset}"), subject: &subject, before, after };
        let command =
            |io: &mut SyncIo<'_>| create(io, &options).map(drop).map_err(|error| error.to_string());
        law.cut(&MemoryStore::new(), &command);
    }
}

fn grow_once(io: &mut SyncIo<'_>) -> Result<(), String> {
    match grow::plan(io) {
        // It had grown already when it was cut.
        Err(grow::GrowError::NothingToAdd { .. }) => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(growth) => grow::grow(io, &growth).map_err(|error| error.to_string()),
    }
}

#[test]
fn growing_that_is_cut_leaves_the_volume_as_it_was_or_as_it_will_be() {
    for preset in ["nolog", "mlb"] {
        let small = subject(preset, false);
        let large = Subject { device_bytes: DEVICE_BYTES + (24 << 20), ..small.clone() };
        // Also with each of the copies damaged that it can do without.
        for damaged in [None, Some(0), Some(1)] {
            let mut image = stopped(&small);
            if let Some(copy) = damaged {
                let offsets = superblock(&small, &image).layout.superblock_offsets();
                spoil(&mut image, offsets[copy]);
            }
            let before = large.look(image.clone());
            let mut device = large.device(image.clone());
            run_on(&mut device, grow_once).unwrap();
            let after = large.look(device.disk().image());
            assert_ne!(before.kind(), after.kind());
            let name = format!("grow {preset}, copy {damaged:?} damaged");
            Law { name, subject: &large, before, after }.cut(&image, &grow_once);
        }
    }
}

fn superblock(subject: &Subject, image: &MemoryStore) -> Superblock {
    let mut device = subject.device(image.clone());
    run_on(&mut device, find_superblock).unwrap().superblock
}

/// Bytes that no checksum covers by chance.
fn spoil(image: &mut MemoryStore, offset: u64) {
    image.write(offset + 40, &[0xa5; 16]).unwrap();
}

#[test]
fn a_repair_that_is_cut_never_spoils_the_last_sound_superblock() {
    let subject = subject("mlb", false);
    let sound = stopped(&subject);
    let seen = subject.look(sound.clone());
    let of_volume = superblock(&subject, &sound);
    let offsets = of_volume.layout.superblock_offsets();
    let older = Superblock { generation: of_volume.generation + 4, ..of_volume.clone() };
    let newer = Superblock { generation: older.generation + 1, ..older.clone() };
    // Each copy is damaged, older than others, or the newest of all.
    for states in (0..27).map(|number| [number % 3, number / 3 % 3, number / 9]) {
        let mut image = sound.clone();
        for (copy, state) in states.iter().enumerate() {
            let told = if *state == 2 { &newer } else { &older };
            image.write(offsets[copy], &told.encode(copy as u32)).unwrap();
            if *state == 0 {
                spoil(&mut image, offsets[copy]);
            }
        }
        let is_whole = states.iter().all(|state| *state == states[0]);
        if is_whole {
            continue;
        }
        let (before, after) = (seen.clone(), seen.clone());
        let law = Law { name: format!("repair {states:?}"), subject: &subject, before, after };
        law.cut(&image, &|io| repair_superblocks(io).map(drop).map_err(|error| error.to_string()));
        let mut device = subject.device(image);
        run_on(&mut device, repair_superblocks).unwrap();
        let found = superblock(&subject, &device.disk().image());
        let newest = if states.contains(&2) { &newer } else { &older };
        assert_eq!(found.generation, newest.generation + 1);
        let left = run_on(&mut device, find_superblock).unwrap().to_repair;
        assert_eq!(left, Vec::<String>::new());
    }
}

#[test]
fn giving_up_a_log_that_is_cut_keeps_everything_else_and_the_hints() {
    for (preset, has_map) in [("singlelog", false), ("mlb", false), ("mlb", true)] {
        let subject = subject(preset, has_map);
        let mut image = stopped(&subject);
        let used = subject.open(image.clone()).unwrap();
        // Two of the blocks are lost.
        let entries = used.volume.engine().map().iter();
        let rotten: Vec<_> = entries
            .filter(|entry| [BLOCKS[0], BLOCKS[3]].contains(&(entry.home_sector / 8)))
            .collect();
        drop(used);
        for entry in &rotten {
            let Place::Log { chunk_sector, .. } = entry.place else { panic!("{entry:?}") };
            spoil(&mut image, chunk_sector * 512);
        }
        let lost: Vec<_> = rotten
            .into_iter()
            .map(|entry| LostBlock { entry, problem: "rotten".to_owned() })
            .collect();
        let seen = subject.look(image.clone());
        let Seen::Open(view) = &seen else { panic!("{seen:?}") };
        assert_eq!(view.blocks.values().filter(|block| block.is_none()).count(), 2);
        assert!(!view.hints.is_empty());
        let of_volume = superblock(&subject, &image);
        let (before, after) = (seen.clone(), seen);
        let name = format!("forget-log on {preset}, map device {has_map}");
        let law = Law { name, subject: &subject, before, after };
        law.cut(&image, &|io| give_up(io, &of_volume, &lost).map_err(|error| error.to_string()));
    }
}

/// What `nearhead repair --accept-loss` does where no snapshot is left.
fn rebuild(subject: &Subject, device: Device) -> Device {
    let opened = Volume::open_in_virtual_time(device.into_lanes(), Nanos::ZERO, |_, config| {
        subject.options.configure(config);
        config.rebuild = true;
    });
    let (mut volume, now) = opened.unwrap_or_else(|error| panic!("{error}"));
    let now = volume.run_until_open(now).unwrap_or_else(|error| panic!("{error}"));
    if let Some(weighed) = weigh(&mut volume, |lanes| lanes.in_virtual_time(now)) {
        let superblock = volume.superblock().clone();
        let mut io = volume.lanes_mut().in_virtual_time(now);
        clear_torn(&mut io, &superblock, &weighed.found.torn).unwrap();
        volume.take_rebuilt(weighed.to_give_up(false));
        volume.start_snapshot(now);
    }
    nearhead_laws::stop(&mut volume, now);
    Device::of(volume)
}

#[test]
fn a_rebuild_of_the_map_that_is_cut_can_be_begun_again_and_brings_no_old_record_back() {
    for (preset, has_map) in [("singlelog", false), ("mlb", false)] {
        let subject = subject(preset, has_map);
        let mut image = used(&subject).image();
        let Seen::Open(whole) = subject.look(image.clone()) else { panic!("{preset}: not whole") };
        let layout = superblock(&subject, &image).layout;
        for slot in 0..2 {
            spoil(&mut image, layout.slot_offsets[slot]);
            spoil(&mut image, layout.snapshot_copy_offset(slot));
        }
        let before = subject.look(image.clone());
        assert!(matches!(before, Seen::Refused(..)), "{preset}: {before:?}");
        let device = rebuild(&subject, subject.device(image.clone()));
        let after = subject.look(device.disk().image());
        let Seen::Open(view) = &after else { panic!("{preset}: {after:?}") };
        assert_eq!((&view.damage, &view.blocks), (&Vec::new(), &whole.blocks), "{preset}");
        let name = format!("repair --accept-loss on {preset}");
        let law = Law { name, subject: &subject, before, after };
        law.cut_all(&image, &|device| (rebuild(&subject, device), Ok(())));
        keeps_what_is_written_next(&subject, device.disk().image());
    }
}

/// What is written after the map was rebuilt stays, and nothing older comes back with it.
fn keeps_what_is_written_next(subject: &Subject, image: MemoryStore) {
    let mut used = subject.open(image).unwrap();
    let mut image = used.image();
    for version in 100..110 {
        let id = used.write(BLOCKS[2], 1, version, true);
        used.wait(id).unwrap();
        image = used.image();
        let (live, opened) = (Seen::Open(used.view(&subject.blocks)), subject.look(image.clone()));
        assert_eq!(opened.kind(), live.kind(), "version {version}");
    }
    drop(image);
}

#[test]
fn every_snapshot_header_an_offline_command_writes_has_its_copy() {
    let subject = subject("mlb", false);
    let image = created(&subject);
    let of_volume = superblock(&subject, &image);
    let layout = of_volume.layout;
    let read = |offset| {
        let mut bytes = vec![0; 4096];
        image.read(offset, &mut bytes).unwrap();
        let most = layout.snapshot_body_bytes_max();
        SnapshotHeader::decode(&bytes, &of_volume.volume_id, 0, most)
    };
    let header = read(layout.slot_offsets[0]).unwrap();
    assert_eq!(read(layout.snapshot_copy_offset(0)).unwrap(), header);
}
