//! The journal of a map device goes round while no snapshot is written: no entry that a recovery needs is overwritten,
//! also not by what comes after a recovery that found it gone round.

use crate::support::disk::{Fault, FaultKind};
use crate::support::options::Options;
use crate::support::seen::{Seen, Subject, Used, run_on};
use nearhead_format::{AckMode, MapDevice};
use nearhead_models::{MemoryStore, Store};
use nearhead_volume::create;
use std::collections::BTreeMap;

/// Each has a block of its own, so that every record that is lost shows.
const BLOCKS: u64 = 1200;
/// Entries of the journal: a megabyte of blocks of 4 KiB.
const JOURNAL_BLOCKS: u64 = 256;

fn subject() -> Subject {
    let mut options = Options::new("mlb", AckMode::Durable);
    options.swap_above_pct = None;
    options.snapshot_after_bytes = 64 << 20;
    Subject::new(options, true, Vec::new())
}

/// From now on no snapshot can be written.
fn fail_snapshots(subject: &Subject, used: &mut Used) {
    let base = subject.device_bytes;
    let mut bytes = [0; 4096];
    used.image().read(base, &mut bytes).unwrap();
    let map = MapDevice::decode(&bytes, 4 << 20).unwrap();
    assert_eq!(map.journal_bytes, JOURNAL_BLOCKS * 4096);
    let slots = base + map.slot_offsets[0]..base + map.journal_offset;
    let (kind, range) = (FaultKind::Writes, Some(slots));
    let fault = Fault { kind, range, after: 0, sticky: true, has_effect: false };
    used.volume.disk_mut().add_fault(fault);
}

/// Writes blocks from `first` on, one record each, until one is refused or there were `count`; the next block.
fn write_until_refused(used: &mut Used, first: u64, count: u64) -> u64 {
    for block in first..first + count {
        let id = used.write(block, 1, 1, true);
        if used.wait(id).is_err() {
            return block;
        }
    }
    first + count
}

#[test]
fn no_entry_is_overwritten_that_a_recovery_needs_however_often_the_journal_goes_round() {
    let subject = subject();
    let mut device = subject.device(MemoryStore::new());
    run_on(&mut device, |io| create(io, &subject.options.create_options())).unwrap();
    // With room for all of it, for some of it, and for none before the journal's end.
    for before in [60, 200, 250] {
        let mut used = subject.open(device.disk().image()).unwrap();
        let mut next = write_until_refused(&mut used, 0, before);
        fail_snapshots(&subject, &mut used);
        next = write_until_refused(&mut used, next, JOURNAL_BLOCKS / 2 - 20);
        for crash in 0..3 {
            let image = used.image();
            used = subject.open(image).unwrap_or_else(|error| panic!("{before}, {crash}: {error}"));
            fail_snapshots(&subject, &mut used);
            next = write_until_refused(&mut used, next, JOURNAL_BLOCKS);
            assert!(next < BLOCKS);
        }
        let blocks: Vec<u64> = (0..next).collect();
        let look = Subject { blocks, ..subject.clone() };
        let live: BTreeMap<u64, Option<u64>> = used.view(&look.blocks).blocks;
        let seen = look.look(used.image());
        let Seen::Open(view) = seen else { panic!("{before} records before: {seen:?}") };
        assert!(view.damage.is_empty(), "{:?}", view.damage);
        assert!(view.blocks == live, "{before} records before: something older came back");
    }
}
