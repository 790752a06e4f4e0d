//! The blank map as it lies on a disk: a region is promised to be blank if and only if the disk knows every byte of its
//! home to be zero, also after growing; and what cannot be read promises nothing.

#![allow(clippy::unwrap_used)]

use nearhead_basics::SplitMix;
use nearhead_disk::Nanos;
use nearhead_format::blank_map::{
    BLANK_MAP_END, BLANK_MAP_OFFSET, BLANK_UNIT_BYTES, BLANK_UNIT_WORDS, BLANK_UNITS_OFFSET,
};
use nearhead_format::{Layout, Superblock};
use nearhead_models::{CrashDisk, MemoryStore, Store, plain_properties};
use nearhead_volume::blanks::{Loaded, has_room, load};
use nearhead_volume::create::create_with_regions;
use nearhead_volume::{CreateOptions, NamedPreset, SyncIo, grow};

const REGION_BYTES: u64 = 8192;
const REGION_BLOCKS: u64 = REGION_BYTES / 4096;
/// More than one block of units is needed for it.
const DEVICE_BYTES: u64 = 300 << 20;

struct Image {
    bytes: u64,
    store: MemoryStore,
}

impl Image {
    /// Every other run of blocks of the device holds data.
    fn scattered(seed: u64) -> Self {
        let (mut store, mut random) = (MemoryStore::new(), SplitMix::new(seed));
        let mut block = random.below(16);
        while block < DEVICE_BYTES / 4096 {
            for _ in 0..=random.below(40) {
                store.write(block * 4096, &[7; 4096]).unwrap();
                block += 1;
            }
            block += 1 + random.below(4000);
        }
        Self { bytes: DEVICE_BYTES, store }
    }

    /// Asks a disk that holds this, which holds what was written then.
    fn with<T>(&mut self, ask: impl FnOnce(&mut SyncIo<'_>) -> T) -> T {
        let mut disk = CrashDisk::with_image(plain_properties(self.bytes, 512), self.store.clone());
        let answer = ask(&mut SyncIo::in_virtual_time(&mut disk, Nanos::ZERO));
        self.store = disk.image_after(&|_, _| true);
        answer
    }

    fn made(&mut self, preset: &str) -> Superblock {
        let named = NamedPreset::by_name(preset).unwrap();
        let options = CreateOptions {
            force: true,
            group_bytes: named.layout.has_groups_of_any_size().then_some(3 << 20),
            log_bytes: named.layout.has_logs().then_some(512 << 10),
            ..CreateOptions::new([3; 16], named)
        };
        self.with(|io| create_with_regions(io, &options, REGION_BYTES).unwrap())
    }

    /// For each region whether every block of its home is a hole of the image, or zeros where growing has cleared one.
    fn blank_regions(&mut self, superblock: &Superblock) -> Vec<bool> {
        let layout = superblock.layout;
        let blocks = layout.client_bytes() / 4096;
        self.with(|io| {
            let mut is_blank = |block: u64| {
                let home = layout.home(block * 4096).unwrap();
                assert!(home.len >= 4096);
                io.disk().run_at(home.device_offset).zero
                    || io.read(home.device_offset, 4096).unwrap().iter().all(|byte| *byte == 0)
            };
            let regions = (0..blocks.div_ceil(REGION_BLOCKS)).map(|region| {
                (region * REGION_BLOCKS..((region + 1) * REGION_BLOCKS).min(blocks))
                    .all(&mut is_blank)
            });
            regions.collect()
        })
    }
}

fn bit(words: &[u64], region: usize) -> bool {
    words[region / 64] >> (region % 64) & 1 == 1
}

fn assert_promises(loaded: &Loaded, expected: &[bool], what: &str) {
    assert_eq!(loaded.findings, [""; 0], "{what}");
    let found = loaded.found.as_ref().unwrap();
    assert_eq!((found.region_bytes, found.is_header_doubtful), (REGION_BYTES, false), "{what}");
    assert_eq!(found.words, found.promised, "{what}");
    for (region, is_blank) in expected.iter().enumerate() {
        assert_eq!(bit(&found.words, region), *is_blank, "{what}: region {region}");
    }
    let promised: u32 = found.words.iter().map(|word| word.count_ones()).sum();
    assert_eq!(promised as usize, expected.iter().filter(|blank| **blank).count(), "{what}");
}

#[test]
fn a_new_volume_promises_exactly_what_the_disk_knows_to_be_zero() {
    for (seed, preset) in ["nolog", "mlb", "singlelog"].into_iter().enumerate() {
        let mut image = Image::scattered(seed as u64);
        let superblock = image.made(preset);
        assert!(has_room(&superblock.layout));
        let expected = image.blank_regions(&superblock);
        assert!(expected.contains(&true) && expected.contains(&false));
        let loaded = image.with(|io| load(io, &superblock));
        assert_promises(&loaded, &expected, preset);
    }
}

#[test]
fn a_volume_that_grows_promises_what_the_disk_knows_of_the_new_part_too() {
    for preset in ["mlb", "nolog"] {
        let mut image = Image::scattered(5);
        let before = image.made(preset);
        let of_old = image.blank_regions(&before);
        image.bytes += 150 << 20;
        for block in (DEVICE_BYTES / 4096..image.bytes / 4096).step_by(977) {
            image.store.write(block * 4096, &[9; 4096]).unwrap();
        }
        let after = image.with(|io| {
            let growth = grow::plan(io).unwrap();
            grow::grow(io, &growth).unwrap();
            growth.after.clone()
        });
        assert!(after.layout.client_bytes() > before.layout.client_bytes());
        let expected = image.blank_regions(&after);
        assert_eq!(expected[..of_old.len() - 1], of_old[..of_old.len() - 1]);
        let loaded = image.with(|io| load(io, &after));
        let words = &loaded.found.as_ref().unwrap().words;
        // A snapshot's slot and a superblock stood there; they were cleared when the disk had been asked: either is true.
        let slot = before.layout.slot_offsets[1]..before.layout.device_bytes;
        let expected: Vec<bool> = (0..)
            .zip(expected)
            .map(|(region, is_blank)| {
                let home = after.layout.home_pieces(region as u64 * REGION_BYTES, REGION_BYTES);
                let mut pieces =
                    home.map(|piece| piece.device_offset..piece.device_offset + piece.len);
                let was_slot = pieces.any(|piece| piece.start < slot.end && slot.start < piece.end);
                is_blank && (!was_slot || bit(words, region))
            })
            .collect();
        assert_promises(&loaded, &expected, preset);
    }
}

#[test]
fn a_unit_that_is_not_sound_promises_nothing_and_is_written_over_first() {
    let mut image = Image::scattered(9);
    let superblock = image.made("mlb");
    let expected = image.blank_regions(&superblock);
    let units = expected.len().div_ceil(BLANK_UNIT_WORDS * 64);
    for unit in [0, 1, units - 1] {
        let mut image = Image { bytes: image.bytes, store: image.store.clone() };
        let at = BLANK_UNITS_OFFSET + (unit * BLANK_UNIT_BYTES) as u64;
        let loaded = image.with(|io| {
            let mut sector = io.read(at, 512).unwrap().to_vec();
            sector[100] ^= 4;
            io.write(at, &sector).unwrap();
            load(io, &superblock)
        });
        let finding = loaded.findings.join("\n");
        let place = format!("unit {unit} at device byte {at}");
        assert!(finding.contains(&place) && finding.contains("1 of 16 units"), "{finding}");
        let found = loaded.found.unwrap();
        let of_unit = unit * BLANK_UNIT_WORDS * 64..(unit + 1) * BLANK_UNIT_WORDS * 64;
        for (region, is_blank) in expected.iter().enumerate() {
            let is_lost = of_unit.contains(&region);
            assert_eq!(bit(&found.words, region), *is_blank && !is_lost, "region {region}");
            assert_eq!(bit(&found.promised, region), *is_blank || is_lost, "region {region}");
        }
    }
}

#[test]
fn a_header_that_is_not_sound_promises_nothing_and_may_have_promised_everything() {
    let mut image = Image::scattered(11);
    let superblock = image.made("mlb");
    let regions = image.blank_regions(&superblock).len();
    let loaded = image.with(|io| {
        let mut header = io.read(BLANK_MAP_OFFSET, 4096).unwrap().to_vec();
        header[20] ^= 1;
        io.write(BLANK_MAP_OFFSET, &header).unwrap();
        load(io, &superblock)
    });
    assert_eq!(loaded.findings.len(), 1, "{:?}", loaded.findings);
    let found = loaded.found.unwrap();
    assert!(found.is_header_doubtful && found.words.is_empty());
    assert!(found.promised.iter().all(|word| *word == u64::MAX));
    let covered = found.promised.len() as u64 * 64 * found.region_bytes;
    assert!(covered >= regions as u64 * REGION_BYTES);
    // A map that was given up: zeros, and nothing is wrong with that.
    let loaded = image.with(|io| {
        io.write(BLANK_MAP_OFFSET, &[0; 4096]).unwrap();
        load(io, &superblock)
    });
    assert!(loaded.found.is_none() && loaded.findings.is_empty());
}

#[test]
fn a_layout_that_has_something_in_its_place_has_no_blank_map() {
    let mut image = Image::scattered(1);
    let superblock = image.made("mlb");
    let layout = superblock.layout;
    let end = BLANK_MAP_END;
    let [near, far] = layout.slot_offsets;
    for (slots, groups, expected) in [
        ([end, far], end, true),
        ([end - 512, far], near, false),
        ([near, end - 512], near, false),
        ([near, far], end - 512, false),
    ] {
        let layout = Layout { slot_offsets: slots, groups_offset: groups, ..layout };
        assert_eq!(has_room(&layout), expected, "{layout:?}");
        let superblock = Superblock { layout, ..superblock.clone() };
        assert_eq!(image.with(|io| load(io, &superblock)).found.is_some(), expected);
    }
}
