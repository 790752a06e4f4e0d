//! Doubts weighed one by one: ranges that are merged, and whether a log and home hold the same.

use super::*;
use crate::create::{CreateOptions, describe};
use crate::presets::NamedPreset;
use crate::sync_io::SyncIo;
use nearhead_disk::{Nanos, RangeSet};
use nearhead_format::crc::chunk_crc;
use nearhead_models::{CrashDisk, MemoryStore, Store, plain_properties};

const LOST: Reason = Reason::Rebuild(Doubt::Lost);
const OUTRUN: Reason = Reason::Rebuild(Doubt::Outrun);

fn doubtful(ranges: &[(u64, u64, Reason)]) -> Vec<Doubtful> {
    let each =
        |&(client_offset, len_bytes, reason): &_| Doubtful { client_offset, len_bytes, reason };
    ranges.iter().map(each).collect()
}

#[test]
fn neighbours_are_merged_if_and_only_if_they_touch_and_have_one_reason() {
    let apart = [(0, 512, LOST), (1024, 512, LOST), (1536, 512, OUTRUN), (2048, 512, LOST)];
    assert_eq!(merged(doubtful(&apart)), doubtful(&apart));
    let touching = [(8192, 4096, LOST), (0, 4096, LOST), (12_288, 512, LOST), (4096, 4096, LOST)];
    assert_eq!(merged(doubtful(&touching)), doubtful(&[(0, 12_800, LOST)]));
    assert_eq!(merged(Vec::new()), []);
}

fn weighed(ranges: &[(u64, u64, Reason)], is_rest_unknown: bool) -> Weighed {
    Weighed {
        found: Rebuilt { is_rest_unknown, ..Rebuilt::default() },
        map_entries: 0,
        doubtful: doubtful(ranges),
        agreeing_bytes: 0,
        outgrows_slot: false,
    }
}

#[test]
fn a_map_is_certain_if_nothing_is_doubtful_and_nothing_unknown() {
    assert!(weighed(&[], false).is_certain());
    assert!(!weighed(&[], true).is_certain());
    assert!(!weighed(&[(0, 512, LOST)], false).is_certain());
    assert!(!weighed(&[(0, 512, LOST)], true).is_certain());
}

#[test]
fn what_is_given_up_is_all_that_is_doubtful_or_only_what_has_no_copy() {
    let each: Vec<_> =
        (0..).zip(Reason::ALL).map(|(number, reason)| (number * 8192, 1024, reason)).collect();
    let weighed = weighed(&each, false);
    assert_eq!(weighed.to_give_up(false), [0..2, 16..18, 32..34, 48..50]);
    assert_eq!(weighed.to_give_up(true), [0..2, 16..18], "damaged and lost ones have no copy");
}

#[test]
fn each_reason_has_a_name_and_a_sentence_of_its_own() {
    let names = Reason::ALL.map(Reason::name);
    assert_eq!(names, ["damaged", "lost", "outrun", "unvouched"]);
    let sentences = Reason::ALL.map(Reason::explain);
    for (number, sentence) in sentences.iter().enumerate() {
        assert!(sentence.contains(' ') && !sentences[..number].contains(sentence), "{sentence}");
    }
}

/// A home block, the sectors 1 to 5 of it in a log, and an entry of two in the middle of those.
struct Bench {
    image: MemoryStore,
    layout: Layout,
    entry: Entry,
    log_at: u64,
    home_at: u64,
}

fn bench() -> Bench {
    let options = CreateOptions::new([7; 16], NamedPreset::by_name("mlb").unwrap());
    let layout = describe(&plain_properties(1 << 30, 512), None, &options).unwrap().layout;
    let client_offset = layout.data_bytes() + 5 * 4096;
    let home_at = layout.home(client_offset).unwrap().device_offset;
    let log_at = layout.log_block_offset(1, 9).unwrap();
    let logged: Vec<u8> = (0..4 * 512).map(|at| (at / 3) as u8).collect();
    let home_sector = client_offset / 512;
    let mut image = MemoryStore::new();
    image.write(log_at, &logged).unwrap();
    image.write(home_at + 512, &logged).unwrap();
    let entry = Entry {
        home_sector: home_sector + 2,
        len_sectors: 2,
        place: Place::Log { chunk_sector: log_at / 512, chunk_len: 4, offset: 1 },
        crc: chunk_crc(home_sector + 1, &logged),
    };
    Bench { image, layout, entry, log_at, home_at }
}

impl Bench {
    fn flip(mut self, at: u64) -> Self {
        let mut byte = [0];
        self.image.read(at, &mut byte).unwrap();
        self.image.write(at, &[byte[0] ^ 1]).unwrap();
        self
    }

    fn agrees(&self, entry: &Entry) -> bool {
        self.agrees_below(entry, &[])
    }

    /// The same with bytes over it.
    fn agrees_below(&self, entry: &Entry, over: &[(u64, Vec<u8>)]) -> bool {
        let properties = plain_properties(1 << 30, 512);
        let mut disk = CrashDisk::with_image(properties, self.image.clone());
        let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
        log_and_home_agree(&mut io, &self.layout, entry, over)
    }
}

#[test]
fn a_log_agrees_with_home_if_every_byte_of_the_entry_does() {
    let Bench { entry, log_at, home_at, .. } = bench();
    assert!(bench().agrees(&entry));
    for at in [1024, 1024 + 511, 1024 + 512, 2047] {
        assert!(!bench().flip(home_at + at).agrees(&entry), "byte {at} of home");
    }
    for at in [0, 512, 1023, 2048, 4095] {
        assert!(bench().flip(home_at + at).agrees(&entry), "byte {at} of home is none of its own");
    }
    for at in [0, 512, 2047] {
        assert!(!bench().flip(log_at + at).agrees(&entry), "a copy that is not sound, byte {at}");
    }
}

#[test]
fn zeros_agree_with_a_home_of_zeros_and_nothing_agrees_with_what_was_lost() {
    let Bench { entry, home_at, layout, .. } = bench();
    let zeros = Entry { home_sector: entry.home_sector + 8, place: Place::Zero, crc: 0, ..entry };
    assert!(bench().agrees(&zeros));
    for at in [0, 1023] {
        assert!(!bench().flip(home_at + 4096 + 1024 + at).agrees(&zeros), "byte {at}");
    }
    assert!(bench().flip(home_at + 4096 + 1023).agrees(&zeros));
    assert!(bench().flip(home_at + 4096 + 2048).agrees(&zeros));
    assert!(!bench().agrees(&Entry { place: Place::Poisoned, ..zeros }));
    let behind = layout.client_bytes() / 512;
    assert!(!bench().agrees(&Entry { home_sector: behind, ..zeros }), "no client byte");
}

/// Home may be what a record said that is gone and was newer than those bytes.
#[test]
fn bytes_over_a_copy_agree_only_with_a_home_that_has_them() {
    let Bench { entry, home_at, .. } = bench();
    let at = entry.home_sector * 512 + 600;
    let mut old = vec![0; 3];
    bench().image.read(home_at + 1024 + 600, &mut old).unwrap();
    let new: Vec<u8> = old.iter().map(|byte| byte ^ 1).collect();
    let newer = || bench().flip(home_at + 1624).flip(home_at + 1625).flip(home_at + 1626);
    for place in [entry.place, Place::Home] {
        let entry = Entry { place, ..entry };
        assert!(bench().agrees_below(&entry, &[(at, old.clone())]), "{place:?}");
        assert!(!bench().agrees_below(&entry, &[(at, new.clone())]), "{place:?}");
        assert!(newer().agrees_below(&entry, &[(at, new.clone())]), "{place:?}");
    }
}

#[test]
fn sectors_are_those_of_the_bytes() {
    let mut ranges = RangeSet::default();
    ranges.insert(7..9);
    let of = of_sectors(ranges.iter().next().unwrap(), LOST);
    assert_eq!((of.client_offset, of.len_bytes, of.sectors()), (3584, 1024, 7..9));
}
