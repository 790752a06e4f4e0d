//! A sector that cannot be read: once, or for ever, at every place of logs, slots and superblocks, on every preset.
//!
//! The law: whatever is opened, repaired, accepted or forgotten, no block reads as older than what was acknowledged unless that was
//! named before. What failed once costs nothing. A sector that fails for ever costs the blocks of the one record that it lies in,
//! which read as errors, and nothing where nothing was ever written. The volume opens without consent, also for reading only, but
//! where the header of the newest record, or those of two records in a row, cannot be read. Then consent gives up what those records
//! wrote and nothing else, and the volume opens without consent afterwards, whether the sector can be read then or not.

mod places;

use crate::support::disk::{Devices, Fault, FaultKind, TestDisk};
use crate::support::options::{DEVICE_BYTES, Options};
use crate::support::raw::bytes_of;
use crate::support::seen::{Used, View, damage_of};
use nearhead_disk::{BufferMut, Nanos, Payload, Properties};
use nearhead_engine::Config;
use nearhead_format::record::{Fragment, RecordHeader, WriteItem};
use nearhead_format::{AckMode, Layout, MapDevice};
use nearhead_models::{MemoryStore, Store};
use nearhead_service::{Changed, Operation, Service};
use nearhead_volume::Lanes;
use nearhead_volume::check::check_with;
use nearhead_volume::create::create_with_regions;
use nearhead_volume::forget::{client_ranges, given_up_with_log};
use nearhead_volume::{Clock, Volume};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Instant;

/// Presets, and what else their volumes have.
const VOLUMES: [(&str, Has); 10] = [
    ("mlb-32", Has::Nothing),
    ("mlb-256", Has::Nothing),
    ("singlelog", Has::Nothing),
    ("slsmr", Has::Nothing),
    ("mlsmr", Has::Nothing),
    ("nearhead", Has::Nothing),
    ("trail", Has::Nothing),
    ("gecko", Has::Nothing),
    ("mlb-32", Has::Fragments),
    ("mlb-256", Has::MapDevice),
];
/// Blocks that are written and read.
const BLOCKS: u64 = 24;

/// Bytes of a map device.
const MAP_DEVICE_BYTES: u64 = 4 << 20;
/// Bytes of a block that a fragment brings.
const FRAGMENT: Range<u64> = 700..720;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Has {
    Nothing,
    /// Some of the newest writes are smaller than a sector.
    Fragments,
    MapDevice,
}

/// A volume that was killed: every block was written and is in the snapshot, and then once more by a record of its own.
struct Killed {
    options: Options,
    /// Header of its map device, if it has one.
    map: Option<MapDevice>,
    image: MemoryStore,
    layout: Layout,
    /// What the blocks hold, and held before.
    newest: View,
    older: View,
    /// Records behind the newest snapshot: place and header, by sequence.
    records: BTreeMap<u64, (u64, RecordHeader)>,
    newest_slot: usize,
}

/// What becomes of the disk before somebody opens it.
#[derive(Clone, Debug, Default)]
struct Damage {
    unreadable: Vec<Range<u64>>,
    is_once: bool,
    /// A place that is written as a whole before anything relies on it, after which a disk can read it.
    is_healed: bool,
}

/// What may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Allowed {
    /// Everything is there.
    Nothing,
    /// These sequences' blocks read as errors.
    Errors,
    /// It opens by consent alone, and these sequences' blocks may be older or errors then.
    Consent,
    /// Refused, and consent does not help.
    Refusal,
    /// As with consent, or it opens and all is there: whether a record is hidden there cannot be known.
    PerhapsConsent,
}

impl Killed {
    fn of(preset: &str, has: Has) -> Self {
        let options = Options {
            snapshot_after_bytes: 64 << 20,
            swap_above_pct: None,
            watermark_pct: None,
            ..Options::new(preset, AckMode::Durable)
        };
        let options = if has == Has::Fragments { options.with_fragments() } else { options };
        let has_map = has == Has::MapDevice;
        let blocks: Vec<u64> = (0..BLOCKS).collect();
        let mut used = opened(&options, fresh(&options, has_map), |_| {}).unwrap();
        for block in 0..BLOCKS {
            let id = used.write(block, 1, 1, true);
            used.wait(id).unwrap();
        }
        // A stop in order leaves a snapshot that includes all of it.
        let image = used.stop().disk().image();
        let mut used = opened(&options, devices(&options, has_map, image), |_| {}).unwrap();
        let older = used.view(&blocks);
        let floor = used.volume.status().record_sequence;
        let far = used.volume.info().size_bytes / 4096;
        for block in 0..BLOCKS {
            if has == Has::Fragments && block % 3 == 1 {
                bring(&mut used, block);
                continue;
            }
            let id = used.write(block, 1, 2, true);
            used.wait(id).unwrap();
            if block % 5 == 4 {
                // The head is elsewhere then, and so may the next record be.
                used.view(&[(block * 7 + 1) * far / 200]);
            }
        }
        let newest = used.view(&blocks);
        let image = used.image();
        let status = used.volume.status();
        let newest_slot = (status.snapshot_number % 2) as usize;
        let layout = used.volume.superblock().layout;
        let mut records = places::records(&image, &layout);
        records.retain(|sequence, _| *sequence > floor);
        assert_eq!(records.len() as u64, status.record_sequence - floor, "{preset}");
        let map = has_map.then(|| {
            let mut header = [0; 4096];
            image.read(DEVICE_BYTES, &mut header).unwrap();
            MapDevice::decode(&header, MAP_DEVICE_BYTES).unwrap()
        });
        Self { options, map, image, layout, newest, older, records, newest_slot }
    }

    fn sector_bytes(&self) -> u64 {
        u64::from(self.options.sector_bytes)
    }

    fn sector_at(&self, offset: u64) -> Range<u64> {
        let sector = self.sector_bytes();
        let start = offset / sector * sector;
        start..start + sector
    }

    fn disk(&self, image: MemoryStore, damage: &Damage) -> Devices {
        let mut disk = devices(&self.options, self.map.is_some(), image);
        for range in &damage.unreadable {
            disk.add_fault(Fault {
                kind: FaultKind::Reads,
                range: Some(range.clone()),
                after: 0,
                sticky: !damage.is_once,
                has_effect: false,
            });
        }
        disk
    }

    fn open(
        &self,
        image: MemoryStore,
        damage: &Damage,
        configure: impl FnOnce(&mut Config),
    ) -> Result<Used, String> {
        opened(&self.options, self.disk(image, damage), configure)
    }

    fn blocks_of(&self, sequences: &BTreeSet<u64>) -> BTreeSet<u64> {
        let headers = self.records.iter().filter(|(sequence, _)| sequences.contains(sequence));
        let ranges = headers.flat_map(|(_, (_, header))| {
            let writes = header.writes.iter().map(WriteItem::range);
            writes.chain(header.fragments.iter().map(Fragment::range))
        });
        ranges.flat_map(|range| range.start_sector / 8..range.end_sector().div_ceil(8)).collect()
    }

    /// Compares what is read with what was acknowledged.
    fn judge(
        &self,
        used: &mut Used,
        lost: &BTreeSet<u64>,
        may_be_older: bool,
    ) -> Result<(u64, bool), String> {
        let blocks: Vec<u64> = (0..BLOCKS).collect();
        let view = used.view(&blocks);
        // Every block has something else than zeros.
        let extents = used.volume.block_status(0, BLOCKS * 4096, usize::MAX);
        if extents.iter().any(|extent| extent.zero) {
            return Err("a block that was written is called zeros".to_owned());
        }
        let mut errors = 0;
        for (block, content) in &view.blocks {
            let is_lost = lost.contains(block);
            match content {
                None if is_lost => errors += 1,
                None => return Err(format!("block {block} cannot be read")),
                Some(_) if self.newest.blocks[block] == *content => {}
                Some(_) if is_lost && may_be_older && self.older.blocks[block] == *content => {}
                Some(_) => {
                    let told = &view.damage;
                    return Err(format!(
                        "block {block} reads as something older, and is said: {told:?}"
                    ));
                }
            }
        }
        Ok((errors, !view.damage.is_empty()))
    }

    /// Tries everything that a user can do about `damage`; `sequences` are the records that it lies in.
    fn try_all(
        &self,
        damage: &Damage,
        allowed: Allowed,
        sequences: &BTreeSet<u64>,
    ) -> Result<(), String> {
        let lost = self.blocks_of(sequences);
        let nothing = BTreeSet::new();
        for read_only in [false, true] {
            let opened =
                self.open(self.image.clone(), damage, |config| config.read_only = read_only);
            let needs_consent = match (opened, allowed) {
                (Ok(_), Allowed::Consent | Allowed::Refusal) => {
                    return Err("it opens without consent".to_owned());
                }
                (Ok(mut used), Allowed::Errors) => {
                    let (errors, is_told) = self.judge(&mut used, &lost, false)?;
                    if errors == 0 || !is_told {
                        return Err(format!("{errors} blocks are lost, said: {is_told}"));
                    }
                    Self::forget_names(&mut used, &lost)?;
                    false
                }
                (Ok(mut used), Allowed::Nothing | Allowed::PerhapsConsent) => {
                    self.judge(&mut used, &nothing, false)?;
                    false
                }
                (Err(_), Allowed::Consent | Allowed::PerhapsConsent) => true,
                (Err(_), Allowed::Refusal) => {
                    let accepts = |config: &mut Config| config.accept_loss = true;
                    if self.open(self.image.clone(), damage, accepts).is_ok() {
                        return Err("it opens as if nothing had been written".to_owned());
                    }
                    false
                }
                (Err(problem), Allowed::Nothing | Allowed::Errors) => {
                    return Err(format!("it does not open: {problem}"));
                }
            };
            if needs_consent {
                self.try_consent(damage, &lost)?;
            }
        }
        self.try_check(damage, allowed)?;
        if allowed == Allowed::Refusal {
            let mut used = self.open(self.image.clone(), &Damage::default(), |_| {})?;
            return self.judge(&mut used, &nothing, false).map(drop);
        }
        self.try_repair(damage, &lost, allowed)
    }

    /// `forget-log` lists every block that it makes unreadable for good, whichever log is given up.
    fn forget_names(used: &mut Used, lost: &BTreeSet<u64>) -> Result<(), String> {
        let unread: BTreeSet<u64> = {
            let blocks: Vec<u64> = lost.iter().copied().collect();
            let view = used.view(&blocks).blocks;
            view.iter().filter(|block| block.1.is_none()).map(|block| *block.0).collect()
        };
        let named = given_up_with_log(&mut used.volume, Instant::now(), 0);
        let named = client_ranges(&named);
        // A fragment is one sector of the block.
        let is_named = |block: &u64| {
            let at = block * 4096;
            named.iter().any(|(start, len)| *start < at + 4096 && at < start + len)
        };
        match unread.iter().find(|block| !is_named(block)) {
            Some(block) => Err(format!("forget-log gives up block {block} and names {named:?}")),
            None => Ok(()),
        }
    }

    /// `check` says whether it opens, and counts what reads as errors.
    fn try_check(&self, damage: &Damage, allowed: Allowed) -> Result<(), String> {
        let disk = self.disk(self.image.clone(), damage);
        let presets = self.options.presets;
        let report = check_with(presets, disk, Instant::now(), &mut |_| ());
        let report = report.map_err(|error| error.to_string())?;
        let is_right = match allowed {
            Allowed::Nothing => report.opens,
            Allowed::Errors => report.opens && report.damage_count() > 0,
            Allowed::Consent | Allowed::Refusal => !report.opens && report.damage_count() > 0,
            Allowed::PerhapsConsent => report.opens || report.damage_count() > 0,
        };
        if is_right { Ok(()) } else { Err(format!("check says {report:?}")) }
    }

    /// Consent gives up what the records wrote that cannot be read, after naming it.
    fn try_consent(&self, damage: &Damage, lost: &BTreeSet<u64>) -> Result<(), String> {
        let looks = |config: &mut Config| (config.read_only, config.accept_loss) = (true, true);
        let mut used = self.open(self.image.clone(), damage, looks)?;
        self.judge(&mut used, lost, true)?;
        if self.judge(&mut used, &BTreeSet::new(), false).is_ok() {
            // The logs have what a journal does not show.
            return Ok(());
        }
        let told = damage_of(&used.volume.status());
        if !told.contains("nothing says what it wrote") {
            return Err(format!("what consent gives up is not named: {told}"));
        }
        Ok(())
    }

    /// `repair`, with consent if it is needed, and what is left when the disk is as bad as before, and when it is mended.
    fn try_repair(
        &self,
        damage: &Damage,
        lost: &BTreeSet<u64>,
        allowed: Allowed,
    ) -> Result<(), String> {
        let accepts = matches!(allowed, Allowed::Consent | Allowed::PerhapsConsent);
        let mut used =
            self.open(self.image.clone(), damage, |config| config.accept_loss = accepts)?;
        used.volume.start_snapshot(used.now);
        let image = used.stop().disk().image();
        let as_bad = Some(damage.clone()).filter(|damage| !damage.is_once && !damage.is_healed);
        for damage in as_bad.into_iter().chain([Damage::default()]) {
            let what = if damage.unreadable.is_empty() { "mended" } else { "as bad" };
            let says = |problem| format!("repaired, the disk {what}: {problem}");
            let mut used = self.open(image.clone(), &damage, |_| {}).map_err(says)?;
            self.judge(&mut used, lost, accepts).map_err(says)?;
            // It goes on: what is written now is there after the next kill.
            let id = used.write(BLOCKS, 1, 3, true);
            used.wait(id).map_err(says)?;
            let written = used.view(&[BLOCKS]);
            let image = used.image();
            drop(used);
            // Nothing is said of a disk that takes a record where it cannot give it back.
            if damage.unreadable.is_empty() {
                let mut used = self.open(image, &damage, |_| {}).map_err(says)?;
                self.judge(&mut used, lost, accepts).map_err(says)?;
                if used.view(&[BLOCKS]).blocks != written.blocks {
                    return Err(says("the next record is gone".to_owned()));
                }
            }
        }
        Ok(())
    }
}

/// Writes a fragment of `block`: a sector of which only a few bytes are new.
fn bring(used: &mut Used, block: u64) {
    let offset = block * 4096 + FRAGMENT.start / 512 * 512;
    let mut sector = bytes_of(&used.ask(Operation::Read { offset, len: 512 }).unwrap());
    let new = block * 4096 + FRAGMENT.start..block * 4096 + FRAGMENT.end;
    sector[(new.start - offset) as usize..(new.end - offset) as usize].fill(0xa5);
    let extents = vec![(offset, Payload::Bytes(BufferMut::copy_of(&sector).freeze()))];
    used.ask(Operation::WriteAtomic { extents, changed: Changed::Only(vec![new]) }).unwrap();
}

/// The disks of a volume that hold `image`: a map device is behind the volume's own.
fn devices(options: &Options, has_map: bool, image: MemoryStore) -> Devices {
    if !has_map {
        return options.disk_with(image);
    }
    let main = options.disk_properties();
    let map = Properties { capacity_bytes: MAP_DEVICE_BYTES, ..main.clone() };
    let mut disks = TestDisk::side_by_side([main, map], image).into_iter();
    let (main, map) = (disks.next().unwrap(), disks.next().unwrap());
    Lanes::with_map(main, map).unwrap().into()
}

/// The same with a new volume.
fn fresh(options: &Options, has_map: bool) -> Devices {
    let mut disks = devices(options, has_map, MemoryStore::new());
    if !has_map {
        return options.disk();
    }
    let mut io = disks.lanes_mut().in_virtual_time(Nanos::ZERO);
    create_with_regions(&mut io, &options.create_options(), 4096).unwrap();
    disks.with_latency(Nanos::from_micros(100))
}

fn opened(
    options: &Options,
    disks: Devices,
    configure: impl FnOnce(&mut Config),
) -> Result<Used, String> {
    let clock = Clock::Virtual { now: Nanos::ZERO };
    let (mut volume, now) = Volume::open_with(options.presets, disks, clock, |_, config| {
        options.configure(config);
        configure(config);
    })
    .map_err(|error| error.to_string())?;
    let now = volume.run_until_open(now).map_err(|error| error.to_string())?;
    Ok(Used::of(volume, now))
}

#[test]
fn an_unreadable_sector_costs_what_it_held_and_nothing_older_is_read() {
    let only = std::env::var("PRESET").ok();
    let stride = std::env::var("NEARHEAD_STRIDE").ok().and_then(|stride| stride.parse().ok());
    let stride: usize = stride.unwrap_or(3).max(1);
    let mut wrong = Vec::new();
    let is_chosen = |preset: &str| only.as_ref().is_none_or(|only| only == preset);
    for (preset, has) in VOLUMES.into_iter().filter(|(preset, _)| is_chosen(preset)) {
        let killed = Killed::of(preset, has);
        let preset = format!("{preset} ({has:?})");
        for (number, (name, places, allowed, sequences)) in killed.cases().into_iter().enumerate() {
            // A sample, but for NEARHEAD_STRIDE=1: of places that fail for ever every third, and of those that fail once few,
            // as each is the same read tried again.
            for (is_once, stride) in [(false, stride), (true, 7 * stride)] {
                let is_record = name.contains(" of ");
                if is_record && !number.is_multiple_of(stride) {
                    continue;
                }
                let sectors: Vec<_> = places.iter().map(|at| killed.sector_at(*at)).collect();
                let claims = |sequence| !killed.records[sequence].1.claims.is_empty();
                let may_be_zeroed = name.starts_with("header") && !sequences.iter().any(claims);
                if !is_once && allowed == Allowed::Errors && may_be_zeroed {
                    // Zeros that can be read cost the same, unless nothing shows any more that a log was claimed.
                    let mut zeroed = killed.image.clone();
                    for sector in &sectors {
                        zeroed.zero(sector.start, sector.end - sector.start).unwrap();
                    }
                    let opened = killed.open(zeroed, &Damage::default(), |_| ());
                    let lost = killed.blocks_of(&sequences);
                    let judged = opened.and_then(|mut used| killed.judge(&mut used, &lost, false));
                    if !judged.as_ref().is_ok_and(|(errors, is_told)| *errors > 0 && *is_told) {
                        wrong.push(format!("{preset}, {name}, zeroed: {judged:?}"));
                    }
                }
                // Where records begin anywhere, of two logs that are left alone one may be claimed again, and needs consent once more.
                let is_claimed_again = sequences.len() > 1 && killed.layout.records_anywhere;
                let is_healed =
                    name.contains("slot") || killed.begins_a_journal(&places) || is_claimed_again;
                let damage = Damage { unreadable: sectors, is_once, is_healed };
                let (allowed, sequences) = if is_once {
                    (Allowed::Nothing, BTreeSet::new())
                } else {
                    (allowed, sequences.clone())
                };
                if let Err(problem) = killed.try_all(&damage, allowed, &sequences) {
                    wrong.push(format!("{preset}, {name}, {damage:?}: {problem}"));
                }
            }
        }
    }
    let repeat = "PRESET=name cargo test -p nearhead-volume --test laws unreadable";
    let count = wrong.len();
    assert!(
        wrong.is_empty(),
        "{count} cases are wrong, repeat with {repeat}:\n{}",
        wrong.join("\n")
    );
}
