//! Rot, sector by sector, of everything on a device but what is at home: superblocks, both slots, records with their
//! payload, the journal, the map device, the blank map. Whichever sector it is, and whatever the checksum in question is
//! said to cover: the damage is told, or what it hits cannot be read, or it changes nothing. Never is anything read that
//! nobody wrote there.
//!
//! What is at home has no checksum (SAFETY.md), and the newest record cannot be told from one that a cut tore: its block
//! is not looked at.

use crate::support::options::Options;
use crate::support::seen::{Seen, Subject, Used, View, run_on};
use nearhead_disk::{BufferMut, Payload};
use nearhead_format::AckMode;
use nearhead_models::{MemoryStore, Store};
use nearhead_service::{Operation, Service};
use nearhead_volume::create;

const SECTOR: usize = 512;
/// More than one block of a snapshot's body: 204 entries of 20 bytes are the first.
const SHORT: u64 = 216;
/// Blocks that are logged whole, after a snapshot.
const WHOLE: std::ops::Range<u64> = 500..516;
/// Behind everything: the newest record is its.
const LAST: u64 = 600;
/// Written at home, in bytes.
const HOME: std::ops::Range<u64> = 16 << 20..17 << 20;

fn subject(has_map: bool) -> Subject {
    let options = Options {
        swap_above_pct: None,
        snapshot_after_bytes: 64 << 20,
        ..Options::new("mlb", AckMode::Flush)
    };
    let blocks = (0..SHORT).map(|number| 2 * number).chain(WHOLE).collect();
    Subject::new(options, has_map, blocks)
}

fn snapshot(used: &mut Used) {
    let number = used.volume.status().snapshot_number;
    used.volume.start_snapshot(used.now);
    while used.volume.status().snapshot_number == number {
        used.volume.drive(used.now);
        if used.volume.status().snapshot_number == number {
            used.now = used.volume.wake_at().expect("a snapshot comes").max(used.now);
        }
    }
}

/// A sector of a block, so that many are in one record and none is long.
fn write_short(used: &mut Used, block: u64) {
    let bytes: Vec<u8> = (0..SECTOR as u64).map(|at| (1 + block + at / 3) as u8).collect();
    let data = Payload::Bytes(BufferMut::copy_of(&bytes).freeze());
    used.send(Operation::Write { offset: block * 4096, data, fua: false });
}

/// A volume in use: both slots whole, and behind the newer one records of one block, of many, and of whole blocks.
fn in_use(subject: &Subject) -> Used {
    let mut device = subject.device(MemoryStore::new());
    run_on(&mut device, |io| create(io, &subject.options.create_options())).unwrap();
    let mut used = subject.open(device.disk().image()).unwrap();
    let data = Payload::Bytes(BufferMut::copy_of(&vec![7; 1 << 20]).freeze());
    used.ask(Operation::Write { offset: HOME.start, data, fua: true }).unwrap();
    used.hint(2000, 30);
    for part in 0..3 {
        let from = part * SHORT / 3;
        (from..from + SHORT / 3).for_each(|number| write_short(&mut used, 2 * number));
        used.ask(Operation::Flush).unwrap();
        if part > 0 {
            snapshot(&mut used);
        }
    }
    for block in WHOLE {
        let id = used.write(block, 1, 1, block % 4 == 0);
        used.wait(id).unwrap();
    }
    used.ask(Operation::Flush).unwrap();
    // Again, so that they are the newest in a record of many.
    (0..100).for_each(|number| write_short(&mut used, 2 * number));
    used.ask(Operation::Flush).unwrap();
    for version in 0..2 {
        let id = used.write(LAST, 1, version, true);
        used.wait(id).unwrap();
    }
    used
}

fn sector(image: &MemoryStore, offset: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    image.read(offset, &mut bytes).unwrap();
    bytes
}

/// What is there of the device and of the map device behind it, but for what is at home.
fn written_sectors(subject: &Subject, image: &MemoryStore) -> Vec<u64> {
    let end = subject.device_bytes + if subject.has_map { 4 << 20 } else { 0 };
    let is_home = |offset: &u64| {
        // The volume begins behind what stands in front of it: a little further than the client's offset.
        sector(image, *offset) == [7; SECTOR]
    };
    (0..end)
        .step_by(SECTOR)
        .filter(|offset| sector(image, *offset) != [0; SECTOR] && !is_home(offset))
        .collect()
}

/// Nothing that is read is what nobody wrote; and no data is called zeros.
fn judge(sound: &View, subject: &Subject, image: MemoryStore) -> Result<(), String> {
    let Ok(mut used) = subject.open(image) else { return Ok(()) };
    let view = used.view(&subject.blocks);
    for (block, content) in &view.blocks {
        if content.is_some() && sound.blocks.get(block) != Some(content) {
            return Err(format!(
                "block {block} reads as what nobody wrote there: {:?}",
                view.damage
            ));
        }
    }
    if view.hints != sound.hints && !view.is_told {
        return Err(format!("hints {:?} became {:?} in silence", sound.hints, view.hints));
    }
    let (offset, len) = (HOME.start, HOME.end - HOME.start);
    let extents = used.volume.block_status(offset, len, usize::MAX);
    if extents.iter().any(|extent| extent.zero) {
        return Err("what was written at home is called zeros".to_owned());
    }
    Ok(())
}

#[test]
fn whatever_sector_rots_nothing_is_read_that_nobody_wrote_there() {
    for has_map in [false, true] {
        let subject = subject(has_map);
        let mut used = in_use(&subject);
        let (image, sound) = (used.image(), used.view(&subject.blocks));
        let Seen::Open(opened) = subject.look(image.clone()) else { panic!("it does not open") };
        assert_eq!(opened, sound, "nothing has rotten yet");
        let mut sectors = written_sectors(&subject, &image);
        // Of a volume with a map device what is there: of the rest nothing is different.
        sectors.retain(|offset| !has_map || *offset >= subject.device_bytes);
        let least = if has_map { 30 } else { 400 };
        assert!(sectors.len() > least, "only {} sectors are there to rot", sectors.len());
        for (number, offset) in sectors.into_iter().enumerate() {
            let mut rotten = image.clone();
            let mut bytes = sector(&image, offset);
            // Another byte and another bit in each.
            bytes[number * 37 % SECTOR] ^= 1 << (number % 8);
            rotten.write(offset, &bytes).unwrap();
            if let Err(problem) = judge(&sound, &subject, rotten) {
                panic!(
                    "map device: {has_map}, a bit of the sector at device byte {offset}: {problem}"
                );
            }
        }
    }
}
