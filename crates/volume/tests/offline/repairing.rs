//! What a repair finds and does: which copies it writes anew, what it weighs where the map was rebuilt, and that of what is
//! sound it writes nothing.

use crate::medium::{Medium, spoil};
use crate::support::options;
use nearhead_disk::Nanos;
use nearhead_engine::Doubt;
use nearhead_format::record::peek;
use nearhead_format::superblock::FEATURE_LOGS_TELL_ALL;
use nearhead_format::{Layout, Superblock};
use nearhead_models::{CrashDisk, MemoryStore, Store};
use nearhead_volume::repair::{
    Doubtful, Reason, Weighed, clear_torn, repair_superblocks, slots_to_repair,
    superblocks_to_repair, weigh,
};
use nearhead_volume::{Lanes, Volume, find_superblock};

fn written(blocks: &[u64]) -> Medium {
    Medium::made(&options("mlb", 7, 4 << 20)).used(|run| {
        for &block in blocks {
            let id = run.write(block..block + 1, 1);
            run.wait(id);
        }
    })
}

#[test]
fn the_copies_that_differ_are_named_and_written_anew_one_generation_later() {
    let sound = written(&[0]);
    let superblock = sound.superblock();
    let offsets = superblock.layout.superblock_offsets();
    let mut same = sound.clone();
    assert_eq!(same.with(superblocks_to_repair).unwrap(), Vec::<String>::new());
    assert_eq!(same.with(repair_superblocks).unwrap(), Vec::<String>::new());
    assert_eq!(same.superblock(), superblock, "nothing is written where nothing is wrong");
    for (copy, offset) in offsets.into_iter().enumerate() {
        let mut medium = sound.clone();
        spoil(&mut medium.main, offset + 40);
        let told = medium.with(superblocks_to_repair).unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains(&format!("superblock copy {copy}")), "{told:?}");
        assert_eq!(medium.superblock(), superblock, "to look changes nothing");
        assert_eq!(medium.with(repair_superblocks).unwrap(), told);
        let repaired = medium.with(find_superblock).unwrap();
        assert_eq!(repaired.to_repair, Vec::<String>::new());
        let generation = superblock.generation + 1;
        assert_eq!(repaired.superblock, Superblock { generation, ..superblock.clone() });
    }
}

#[test]
fn slots_without_a_sound_snapshot_are_named_with_what_is_wrong() {
    let made = Medium::made(&options("mlb", 7, 4 << 20));
    let used = written(&[0]).used(|run| {
        let id = run.write(1..2, 1);
        run.wait(id);
    });
    let superblock = made.superblock();
    let layout = superblock.layout;
    let to_repair = |medium: &Medium, places: &[u64]| {
        let mut medium = medium.clone();
        for at in places {
            spoil(&mut medium.main, at + 16);
        }
        medium.with(|io| slots_to_repair(io, &superblock))
    };
    assert_eq!(to_repair(&made, &[]), Vec::<String>::new(), "the other slot waits for its first");
    assert_eq!(to_repair(&used, &[]), Vec::<String>::new());
    for slot in 0..2 {
        let (header, copy) = (layout.slot_offsets[slot], layout.snapshot_copy_offset(slot));
        let name = format!("snapshot slot {slot} at device byte {header}: ");
        for (places, words) in [
            (&[header][..], "snapshot header crc: expected"),
            (&[header, copy], "snapshot header crc: expected"),
            (&[header + 4096], "its body is not sound: "),
        ] {
            let told = to_repair(&used, places);
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].starts_with(&name) && told[0].contains(words), "{words}: {told:?}");
        }
    }
    // With the snapshot of creation gone, nothing says that the other slot was never used.
    let first = [layout.slot_offsets[0], layout.snapshot_copy_offset(0)];
    assert_eq!(to_repair(&made, &first).len(), 2);
}

/// Device byte of each record, by sequence.
fn records(medium: &Medium, layout: &Layout) -> Vec<(u64, u64)> {
    let places = (0..layout.log_count())
        .flat_map(|log| (0..layout.log_blocks()).map(move |position| (log, position)));
    let offsets = places.map(|(log, position)| layout.log_block_offset(log, position).unwrap());
    let found = offsets.filter_map(|at| Some((peek(&medium.read(at, 512)).ok()?.sequence, at)));
    let mut found: Vec<_> = found.collect();
    found.sort_unstable();
    found
}

/// What is weighed where both snapshots are lost.
fn weighed(medium: &Medium) -> Weighed {
    let layout = medium.superblock().layout;
    let mut medium = medium.clone();
    for slot in layout.slot_offsets {
        medium.main.zero(slot, layout.slot_bytes).unwrap();
    }
    let opened = Volume::open_in_virtual_time(medium.lanes(), Nanos::ZERO, |_, config| {
        config.rebuild = true;
    });
    let (mut volume, now) = opened.unwrap();
    let now = volume.run_until_open(now).unwrap();
    weigh(&mut volume, |lanes: &mut Lanes<CrashDisk>| lanes.in_virtual_time(now)).unwrap()
}

/// Home holds what was written to `block`.
fn bring_home(medium: &mut Medium, layout: &Layout, block: u64) {
    let mut run = medium.open();
    run.version(block);
    let found = run.volume.engine().map().iter().find(|entry| entry.home_sector == block * 8);
    let copy = nearhead_engine::chunks::LoggedCopy::of(&found.unwrap()).unwrap();
    let bytes = medium.read(copy.device_offset, 4096);
    medium.main.write(layout.home(block * 4096).unwrap().device_offset, &bytes).unwrap();
}

fn doubtful(client_offset: u64, len_bytes: u64, reason: Reason) -> Doubtful {
    Doubtful { client_offset, len_bytes, reason }
}

#[test]
fn a_volume_whose_logs_do_not_tell_all_is_in_doubt_about_all_that_is_not_home() {
    let mut medium = written(&[0, 1, 2, 3, 90]);
    let superblock = medium.superblock();
    let layout = superblock.layout;
    bring_home(&mut medium, &layout, 1);
    let whole = weighed(&medium);
    assert_eq!((&*whole.doubtful, whole.agreeing_bytes, whole.map_entries), (&[][..], 0, 5));
    assert!(whole.is_certain() && !whole.outgrows_slot);
    let older = Superblock {
        feature_ro_compat: superblock.feature_ro_compat & !FEATURE_LOGS_TELL_ALL,
        ..superblock
    };
    for (copy, offset) in layout.superblock_offsets().into_iter().enumerate() {
        medium.main.write(offset, &older.encode(copy as u32)).unwrap();
    }
    let found = weighed(&medium);
    let of = |offset, len| doubtful(offset, len, Reason::Unvouched);
    assert_eq!(found.doubtful, [of(0, 4096), of(8192, 8192), of(90 * 4096, 4096)]);
    assert_eq!((found.agreeing_bytes, found.map_entries), (4096, 5));
    assert!(!found.is_certain());
}

#[test]
fn what_a_record_that_is_gone_may_have_written_is_in_doubt_unless_home_agrees() {
    let medium = written(&[0, 1, 2, 10, 20, 30, 31]);
    let layout = medium.superblock().layout;
    let places = records(&medium, &layout);
    assert_eq!(places.len(), 7);
    let destroy =
        |medium: &mut Medium, number: usize| spoil(&mut medium.main, places[number].1 + 24);
    // Of one the next says what it wrote.
    let mut one = medium.clone();
    destroy(&mut one, 3);
    let found = weighed(&one);
    let lost = doubtful(10 * 4096, 4096, Reason::Rebuild(Doubt::Lost));
    assert_eq!((&*found.doubtful, found.agreeing_bytes), (&[lost][..], 0));
    // Of two in a row nothing says what the first wrote: all before may be older.
    let mut two = medium.clone();
    destroy(&mut two, 3);
    destroy(&mut two, 4);
    bring_home(&mut two, &layout, 1);
    let found = weighed(&two);
    let outrun = |offset| doubtful(offset, 4096, Reason::Rebuild(Doubt::Outrun));
    let lost = doubtful(20 * 4096, 4096, Reason::Rebuild(Doubt::Lost));
    assert_eq!(found.doubtful, [outrun(0), outrun(8192), lost]);
    assert_eq!(found.agreeing_bytes, 4096);
    assert!(!found.is_certain());
}

#[test]
fn of_a_torn_record_its_first_block_is_cleared_and_nothing_else() {
    let medium = written(&[0, 1, 2]);
    let superblock = medium.superblock();
    let block = u64::from(superblock.layout.log_block_bytes);
    let places: Vec<u64> =
        records(&medium, &superblock.layout).into_iter().map(|(_, at)| at).collect();
    let mut same = medium.clone();
    same.with(|io| clear_torn(io, &superblock, &[])).unwrap();
    let mut cleared = medium.clone();
    cleared.with(|io| clear_torn(io, &superblock, &places[1..])).unwrap();
    for (number, &at) in places.iter().enumerate() {
        let before = medium.read(at, 8192);
        assert_eq!(same.read(at, 8192), before);
        let mut expected = before;
        if number > 0 {
            expected[..block as usize].fill(0);
        }
        let len = block as usize + 4096;
        assert_eq!(cleared.read(at, len), expected[..len], "record {number}");
    }
}

/// What was cleared stays so: the write is flushed before anything goes on.
#[test]
fn what_is_cleared_is_durable() {
    let medium = written(&[0]);
    let superblock = medium.superblock();
    let at = records(&medium, &superblock.layout)[0].1;
    let mut lanes = medium.lanes();
    clear_torn(&mut lanes.in_virtual_time(Nanos::ZERO), &superblock, &[at]).unwrap();
    let image: MemoryStore = lanes.main().image_after(&|_, _| false);
    let mut bytes = [1; 512];
    image.read(at, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 512]);
}
