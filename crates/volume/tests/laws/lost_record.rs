//! A record that is gone, its successor sound: the volume opens, what the record changed cannot be read until it is
//! written again, and everything else is as it was. Nothing older comes back, neither over what it wrote nor over what
//! it took back, and it does not matter whether the process was killed between the two records.
//!
//! Every record of a life is lost in turn. Not asked of the newest one, which cannot be told from one that a cut tore, and
//! of those that claim a log: without the claim recovery may not know what is in there (SAFETY.md). The first record
//! behind a snapshot need not know of the one before.

use crate::support::options::Options;
use crate::support::seen::{Seen, Subject, Used, View, run_on};
use nearhead_disk::Nanos;
use nearhead_format::record::{RecordHeader, WriteItem, peek};
use nearhead_format::{AckMode, Layout};
use nearhead_models::{MemoryStore, Store};
use nearhead_service::{Operation, Service};
use nearhead_volume::create;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks that are looked at.
const BLOCKS: u64 = 200;
/// Of one write that goes home.
const LARGE: u64 = 16;

fn subject(preset: &'static str, ack: AckMode) -> Subject {
    let options = Options {
        snapshot_after_bytes: 64 << 20,
        logged_write_bytes_max: Some(32 << 10),
        swap_above_pct: None,
        watermark_pct: None,
        ..Options::new(preset, ack)
    };
    Subject::new(options, false, (0..BLOCKS).collect())
}

/// What a checkpoint needs, and far less than until the next snapshot.
fn rest(used: &mut Used) {
    let until = used.now + Nanos::from_secs(1);
    used.volume.drive(used.now);
    while let Some(at) = used.volume.wake_at().filter(|at| *at < until) {
        used.now = at.max(used.now);
        used.volume.drive(used.now);
    }
}

fn write(used: &mut Used, block: u64, count: u64, version: u64, fua: bool) {
    let id = used.write(block, count, version, fua);
    used.wait(id).unwrap();
}

/// One life of what records tell: writes, zeros, what was taken back by writes in place and by a checkpoint. `lives`
/// times, with a kill between; gives the newest record before each.
fn lived(subject: &Subject, lives: u64) -> (Used, BTreeSet<u64>) {
    let mut device = subject.device(MemoryStore::new());
    run_on(&mut device, |io| create(io, &subject.options.create_options())).unwrap();
    let mut used = subject.open(device.disk().image()).unwrap();
    let mut ends = BTreeSet::new();
    // Nothing of it is blank any more.
    write(&mut used, 0, BLOCKS, 1, true);
    for life in 0..lives {
        if life > 0 {
            ends.insert(used.volume.status().record_sequence);
            used = subject.open(used.image()).unwrap();
        }
        let base = 64 * life;
        for number in 0..8 {
            write(&mut used, base + 2 * number, 1, 100 * (1 + life) + number, true);
        }
        let (offset, len) = ((base + 2) * 4096, 3 * 4096);
        used.ask(Operation::WriteZeroes {
            offset,
            len,
            fua: true,
            fast_only: false,
            may_unmap: false,
        })
        .unwrap();
        // Over logged blocks: what it takes back goes into a record of its own, or into that of the next write.
        write(&mut used, base + 8, LARGE, 7, true);
        write(&mut used, base + 4, LARGE, 8, false);
        used.ask(Operation::Flush).unwrap();
        rest(&mut used);
        write(&mut used, base + 50, 1, 9, true);
        if life == 1 {
            used.volume.start_checkpoint(false, used.now);
            rest(&mut used);
        }
        write(&mut used, base + 51, 1, 10, true);
        if life == 0 {
            // The last record of this life takes something back and writes nothing.
            write(&mut used, base + 48, LARGE, 11, true);
        }
    }
    // Behind everything: the newest record is its.
    (0..2).for_each(|version| write(&mut used, BLOCKS + 8, 1, version, true));
    (used, ends)
}

/// Where records are: device byte by sequence.
fn records(image: &MemoryStore, layout: &Layout) -> BTreeMap<u64, (u64, RecordHeader)> {
    let places = (0..layout.log_count())
        .flat_map(|log| (0..layout.log_blocks()).map(move |position| (log, position)));
    let found = places.filter_map(|(log, position)| {
        let offset = layout.log_block_offset(log, position)?;
        let mut bytes = [0; 4096];
        image.read(offset, &mut bytes).unwrap();
        let bytes = &bytes[..peek(&bytes).ok()?.header_bytes as usize];
        let header = RecordHeader::decode(bytes).ok()?;
        Some((header.sequence, (offset, header)))
    });
    found.collect()
}

/// Blocks whose homes it changes.
fn changed(header: &RecordHeader) -> BTreeSet<u64> {
    let written = header.writes.iter().map(WriteItem::range);
    let ranges = written.chain(header.invalidations.iter().copied());
    ranges.flat_map(|range| range.start_sector / 8..range.end_sector().div_ceil(8)).collect()
}

/// Says whether the loss is told. If it is not, all must be as it was.
fn judge(seen: Seen, sound: &View, header: &RecordHeader) -> Result<bool, String> {
    let Seen::Open(view) = seen else { return Err(format!("{seen:?}")) };
    let is_told = !view.damage.is_empty();
    let changed = changed(header);
    for (block, content) in &view.blocks {
        if content.is_none() && !(is_told && changed.contains(block)) {
            return Err(format!("block {block} cannot be read, which the record did not change"));
        }
        if content.is_some() && sound.blocks.get(block) != Some(content) {
            return Err(format!("block {block} reads as something older"));
        }
    }
    Ok(is_told)
}

/// Records that were lost, of each kind.
#[derive(Debug, Default)]
struct Asked {
    writes: u64,
    zeros: u64,
    takes_back_alone: u64,
    before_a_kill: u64,
}

impl Asked {
    fn note(&mut self, header: &RecordHeader, is_last_of_its_run: bool) {
        let is_zero = |item: &WriteItem| matches!(item, WriteItem::Zeros { .. });
        self.writes += u64::from(header.payload_sectors() > 0);
        self.zeros += u64::from(header.writes.iter().any(is_zero));
        self.takes_back_alone += u64::from(header.writes.is_empty());
        self.before_a_kill += u64::from(is_last_of_its_run);
    }

    fn is_of_everything(&self) -> bool {
        let Self { writes, zeros, takes_back_alone, before_a_kill } = self;
        [writes, zeros, takes_back_alone, before_a_kill].iter().all(|count| **count > 0)
    }
}

#[test]
fn whichever_record_is_gone_what_it_changed_is_unreadable_and_nothing_older_comes_back() {
    let mut asked = Asked::default();
    let presets = ["singlelog", "mlb"];
    let modes = [AckMode::Durable, AckMode::Flush];
    for (preset, ack) in presets.iter().flat_map(|preset| modes.map(|ack| (*preset, ack))) {
        let subject = subject(preset, ack);
        let (mut used, ends) = lived(&subject, 3);
        let layout = used.volume.superblock().layout;
        let (image, sound) = (used.image(), used.view(&subject.blocks));
        let Seen::Open(opened) = subject.look(image.clone()) else { panic!("it does not open") };
        assert_eq!(opened.blocks, sound.blocks, "nothing is lost yet");
        let records = records(&image, &layout);
        let newest = *records.keys().max().expect("records were written");
        for (sequence, (offset, header)) in &records {
            if *sequence == newest || !header.claims.is_empty() {
                continue;
            }
            let mut lost = image.clone();
            lost.write(offset + 24, &[0xa5; 8]).unwrap();
            let is_told = judge(subject.look(lost), &sound, header).unwrap_or_else(|problem| {
                panic!("{preset}, {ack:?}, without record {sequence} of {newest}: {problem}")
            });
            // Of others a snapshot knows all that they said.
            if is_told {
                asked.note(header, ends.contains(sequence));
            }
        }
    }
    assert!(asked.is_of_everything(), "{asked:?}");
}
