//! Where remains are looked for, to the byte, and what is taken for one.

use super::*;
use nearhead_disk::Nanos;
use nearhead_format::RecordHeader;
use nearhead_models::{CrashDisk, MemoryStore, Store, plain_properties};
use std::ops::Range;

const GIB: u64 = 1 << 30;
const OWN: VolumeId = [7; 16];

/// Sizes that are whole blocks, whole sectors, neither, and so small that it is all samples.
const SIZES: [u64; 5] = [GIB, 3 * GIB + 512, GIB + 4095, 64 * MIB, 100 * MIB + 8192];

fn covered(bytes: u64) -> Vec<Range<u64>> {
    places(bytes, 512, None).into_iter().map(|(at, len)| at..at + len).collect()
}

fn assert_looked_at(bytes: u64, wanted: Range<u64>, what: &str) {
    let is_covered =
        covered(bytes).iter().any(|range| range.start <= wanted.start && wanted.end <= range.end);
    assert!(is_covered, "{what} at {wanted:?} of {bytes} bytes");
}

#[test]
fn slots_of_every_size_are_looked_at_from_both_ends() {
    for bytes in SIZES {
        let end = bytes / 4096 * 4096 - 4096;
        for size in 0..24 {
            // The header of a slot, and before it the end of the slot before, with its copy.
            let front = MIB * (1 + size);
            assert_looked_at(bytes, front - 4096..front + 4096, "a slot in front");
            let back = end - MIB * size;
            assert_looked_at(bytes, back - 4096..back + 4096, "a slot at the end");
        }
    }
}

#[test]
fn slots_and_logs_of_every_default_layout_are_looked_at() {
    for bytes in SIZES {
        for kind in [LayoutKind::NoLogs, LayoutKind::OneLog, LayoutKind::ManyLogs] {
            let far = Layout::plan(bytes / 4096 * 4096, &LayoutOptions::new(kind)).unwrap();
            for layout in [far, far.with_near_slot()] {
                for slot in 0..2 {
                    let (header, copy) =
                        (layout.slot_offsets[slot], layout.snapshot_copy_offset(slot));
                    assert_looked_at(bytes, header..header + 4096, "a slot");
                    assert_looked_at(bytes, copy..copy + 4096, "a copy");
                }
                // Six of them or a few less, evenly from the first on.
                let logs = layout.log_count();
                let step = logs.div_ceil(6).max(1);
                for log in (0..logs).step_by(step as usize) {
                    let start = layout.log_offset(log).unwrap();
                    assert_looked_at(bytes, start..start + 4096, "a log");
                }
            }
        }
    }
}

#[test]
fn sixty_four_samples_of_a_mib_are_looked_at_all_over_the_device() {
    for bytes in SIZES {
        let step = (bytes / 64 / 4096 * 4096).max(MIB);
        for sample in 0..64 {
            let end = (sample * step + MIB).min(bytes / 4096 * 4096);
            assert_looked_at(bytes, sample * step..end, "a sample");
        }
    }
}

#[test]
fn the_look_is_bounded_and_stays_on_the_device() {
    for bytes in SIZES.into_iter().chain([0, 4095, 4096, 8192, MIB, 64 << 40]) {
        let places = places(bytes, 512, None);
        assert!(places.len() < 250, "{} places on {bytes} bytes", places.len());
        let total: u64 = places.values().sum();
        assert!(total <= 70 * MIB, "{total} of {bytes} bytes");
        let is_inside = |(at, len): (&u64, &u64)| at + len <= bytes / 4096 * 4096;
        assert!(places.iter().all(is_inside), "{bytes}: {places:?}");
    }
    // What is looked at beside samples and layouts is nothing but slots of whole MiB at either end.
    assert_eq!(places(8192, 512, None), BTreeMap::from([(0, 8192)]));
}

/// Not all are there; neither is anything else.
#[test]
fn nothing_but_these_places_is_looked_at() {
    let bytes = 100 * GIB;
    let device = bytes - 4096;
    let mut expected = Vec::new();
    for size in 0..24 {
        expected.push(MIB * (1 + size) - 4096..MIB * (1 + size) + 4096);
        expected.push(device - MIB * size - 4096..device - MIB * size + 4096);
    }
    let step = bytes / 64 / 4096 * 4096;
    expected.extend((0..64).map(|sample| sample * step..sample * step + MIB));
    let kinds = LayoutKind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]);
    for (kind, fragments) in kinds {
        let options = LayoutOptions { fragments, ..LayoutOptions::new(kind) };
        let Ok(far) = Layout::plan(bytes, &options) else { continue };
        for layout in [far, far.with_near_slot()] {
            for slot in 0..2 {
                let starts = [layout.slot_offsets[slot], layout.snapshot_copy_offset(slot)];
                expected.extend(starts.map(|at| at..at + 4096));
            }
            let step = layout.log_count().div_ceil(6).max(1) as usize;
            let logs = (0..layout.log_count()).step_by(step);
            expected
                .extend(logs.map(|log| layout.log_offset(log).unwrap()).map(|at| at..at + 4096));
        }
    }
    for range in covered(bytes) {
        let is_expected =
            expected.iter().any(|one| one.start <= range.start && range.end <= one.end);
        assert!(is_expected, "{range:?}");
    }
}

/// The first sector of each kind of remains of a volume.
fn remains(id: VolumeId) -> [(&'static str, [u8; 512]); 4] {
    let marked = |magic: &[u8]| {
        let mut block = [0; 512];
        block[..magic.len()].copy_from_slice(magic);
        block[16..32].copy_from_slice(&id);
        block
    };
    let mut record = [0; 512];
    RecordHeader { volume_id: id, log_index: 3, position: 9, ..RecordHeader::default() }
        .encode_into(&mut record);
    [
        ("superblock of a Nearhead volume", marked(&SUPERBLOCK_MAGIC)),
        ("map device of a Nearhead volume", marked(&MAP_DEVICE_MAGIC)),
        ("snapshot of the map of a Nearhead volume", marked(&SNAPSHOT_MAGIC)),
        ("record in a log of a Nearhead volume", record),
    ]
}

fn disk(pieces: &[(u64, &[u8])]) -> CrashDisk {
    let mut image = MemoryStore::new();
    for (at, bytes) in pieces {
        image.write(*at, bytes).unwrap();
    }
    CrashDisk::with_image(plain_properties(GIB, 512), image)
}

fn look(pieces: &[(u64, &[u8])]) -> Vec<Finding> {
    let mut disk = disk(pieces);
    look_for_remains(&mut SyncIo::in_virtual_time(&mut disk, Nanos::ZERO)).unwrap()
}

#[test]
fn each_kind_of_remains_is_told_with_its_volume_and_its_place() {
    for (what, block) in remains(OWN) {
        // The first and the last sector of a sample.
        for at in [48 * MIB, 49 * MIB - 512] {
            let label = Some("07070707070707070707070707070707".to_owned());
            assert_eq!(look(&[(at, &block)]), [Finding { what, label, offset: at }]);
        }
        assert_eq!(look(&[(57 * MIB + 8192, &block)]), [], "where nobody looks");
        assert_eq!(look(&[(48 * MIB + 256, &block)]), [], "in the middle of a sector");
        let mut other = block;
        other[3] ^= 1;
        assert_eq!(look(&[(48 * MIB, &other)]), [], "{what} without its mark");
    }
    let mut torn = remains(OWN)[3].1;
    torn[52] ^= 0xff;
    assert_eq!(look(&[(48 * MIB, &torn)]), [], "the mark of a record before what is none");
}

#[test]
fn a_volume_is_told_once_and_of_many_the_first_four() {
    let ids: Vec<VolumeId> = (1..=6).map(|id| [id; 16]).collect();
    let blocks: Vec<[u8; 512]> = ids.iter().map(|id| remains(*id)[2].1).collect();
    let same: Vec<(u64, &[u8])> = (1..6).map(|at| (at * 16 * MIB, &blocks[0][..])).collect();
    assert_eq!(look(&same).iter().map(|found| found.offset).collect::<Vec<_>>(), [16 * MIB]);
    let many: Vec<(u64, &[u8])> =
        (1..=6).zip(&blocks).map(|(at, block)| (at * 16 * MIB, &block[..])).collect();
    let found = look(&many);
    assert_eq!(found.iter().map(|one| one.offset / (16 * MIB)).collect::<Vec<_>>(), [1, 2, 3, 4]);
    // What one place has is told whole.
    let near: Vec<(u64, &[u8])> =
        (0..6).zip(&blocks).map(|(at, block)| (48 * MIB + at * 512, &block[..])).collect();
    assert_eq!(look(&near).len(), 6);
}

#[test]
fn of_a_volume_just_its_own_snapshots_and_records_are_placed() {
    let (own, other) = (remains(OWN), remains([8; 16]));
    let mut pieces: Vec<(u64, &[u8])> = Vec::new();
    for (number, kinds) in [&own, &other].into_iter().enumerate() {
        for (kind, (_, block)) in kinds.iter().enumerate() {
            pieces.push((48 * MIB + (number * 8 + kind) as u64 * 512, block));
        }
    }
    let mut disk = disk(&pieces);
    let mut io = SyncIo::in_virtual_time(&mut disk, Nanos::ZERO);
    let snapshot = Remnant::Snapshot { at: 48 * MIB + 2 * 512 };
    let record = Remnant::Record { at: 48 * MIB + 3 * 512, log: 3, position: 9 };
    assert_eq!(places_of(&mut io, &OWN), [snapshot, record]);
}
