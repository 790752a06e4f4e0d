//! Pieces against a model that has every byte, with the record that brought it.

use super::*;
use nearhead_basics::SplitMix;

const BYTES: usize = 3 * BLOCK_BYTES;

/// Every byte as a piece has it, and the record that brought it.
struct Model {
    bytes: Vec<Option<(u8, u64)>>,
    needed: BTreeMap<u64, i64>,
}

impl Model {
    fn check(&self, fragments: &Fragments) {
        let patches = fragments.patches(0..(BYTES / SECTOR) as u64);
        let mut found = vec![None; BYTES];
        for Patch { offset, bytes } in &patches {
            for (at, byte) in (*offset as usize..).zip(bytes) {
                assert_eq!(found[at], None, "pieces never overlap");
                found[at] = Some(*byte);
            }
        }
        let expected: Vec<Option<u8>> = self.bytes.iter().map(|it| it.map(|it| it.0)).collect();
        assert_eq!(found, expected);
        let cells: Vec<FragmentCell> = fragments.cells().collect();
        let mut behind = 0;
        for cell in &cells {
            assert!(cell.home_byte >= behind, "in order");
            behind = cell.home_byte + u64::from(cell.len);
            for (at, byte) in cell.bytes[..usize::from(cell.len)].iter().enumerate() {
                let expected = self.bytes[cell.home_byte as usize + at];
                assert_eq!(expected, Some((*byte, cell.record_sector)));
            }
        }
        assert_eq!(fragments.cost_bytes(), (cells.len() * FRAGMENT_CELL_BYTES) as u64);
        let mut counted: BTreeMap<u64, i64> = BTreeMap::new();
        for entry in fragments.needed() {
            let Place::Log { chunk_sector, .. } = entry.place else { panic!("in a log") };
            *counted.entry(chunk_sector).or_default() += 1;
        }
        let needed = self.needed.iter().filter(|(_, count)| **count != 0);
        assert_eq!(counted, needed.map(|(record, count)| (*record, *count)).collect());
    }
}

#[test]
fn a_newer_piece_cuts_older_ones_and_what_is_counted_is_what_is_there() {
    let mut random = SplitMix::new(1);
    for _ in 0..30 {
        let mut fragments = Fragments::default();
        let mut model = Model { bytes: vec![None; BYTES], needed: BTreeMap::new() };
        for record in 1..120 {
            let mut count = |needed: Needed| match needed {
                Needed::More { record_sector } => {
                    *model.needed.entry(record_sector).or_default() += 1;
                }
                Needed::Less { record_sector } => {
                    *model.needed.entry(record_sector).or_default() -= 1;
                }
            };
            if random.below(3) == 0 {
                let start = random.below((BYTES / SECTOR) as u64);
                let sectors = 1 + random.below(10);
                fragments.drop_sectors(start, sectors, &mut count);
                let from = start as usize * SECTOR;
                let to = (from + sectors as usize * SECTOR).min(BYTES);
                model.bytes[from..to].fill(None);
            } else {
                let start = random.below(BYTES as u64) as usize;
                let block_end = (start / BLOCK_BYTES + 1) * BLOCK_BYTES;
                let longest = [3, 60, 1500][random.below(3) as usize];
                let end = (start + 1 + random.below(longest) as usize).min(block_end);
                let bytes: Vec<u8> = (start..end).map(|_| random.below(256) as u8).collect();
                let before = fragments.cost_bytes();
                fragments.add(start as u64, &bytes, record, &mut count);
                let most = before + cells_max(bytes.len()) * FRAGMENT_CELL_BYTES as u64;
                assert!(fragments.cost_bytes() <= most, "no more than was said before");
                for (at, byte) in (start..).zip(bytes) {
                    model.bytes[at] = Some((byte, record));
                }
            }
            model.check(&fragments);
        }
    }
}

#[test]
fn whoever_read_what_lies_under_a_piece_learns_that_it_is_another_by_now() {
    let (mut fragments, mut none) = (Fragments::default(), |_| ());
    let entry = needed_for(0, 1);
    fragments.add(100, &[1; 10], 1, &mut none);
    let read_at = fragments.clock();
    let since = fragments.base_since(0);
    fragments.add(300, &[2; 10], 2, &mut none);
    assert!(fragments.has_base_of(&entry, read_at) && fragments.base_since(0) == since);
    assert!(fragments.changed_since(&entry, read_at));
    fragments.add(2000, &[2; 10], 2, &mut none);
    fragments.drop_sectors(0, 1, &mut none);
    assert!(!fragments.has_base_of(&entry, read_at) && fragments.base_since(0) != since);
    let read_at = fragments.clock();
    assert!(fragments.has_base_of(&entry, read_at));
    fragments.drop_sectors(0, 8, &mut none);
    fragments.add(100, &[3; 10], 3, &mut none);
    assert!(!fragments.has_base_of(&entry, read_at), "all were gone in between");
}

#[test]
fn patches_lie_over_parts_wherever_those_begin_and_touch_nothing_else() {
    let (mut fragments, mut none) = (Fragments::default(), |_| ());
    fragments.add(1000, &[7; 100], 1, &mut none);
    let parts = vec![
        Payload::Zeros(512),
        Payload::Bytes(BufferMut::copy_of(&[1; 512]).freeze()),
        Payload::Phantom(512),
    ];
    let over = patched(parts, 512, &fragments.patches(1..4));
    let mut bytes = vec![9; 512];
    over[0].copy_to(&mut bytes);
    assert!(bytes[..488].iter().all(|byte| *byte == 0));
    assert!(bytes[488..].iter().all(|byte| *byte == 7));
    over[1].copy_to(&mut bytes);
    assert!(bytes[..76].iter().all(|byte| *byte == 7));
    assert!(bytes[76..].iter().all(|byte| *byte == 1));
    assert!(matches!(over[2], Payload::Phantom(512)));
}

/// So a volume counts the same before a stop and after it.
#[test]
fn cells_become_the_pieces_again_that_they_were() {
    let mut fragments = Fragments::default();
    let mut needed = 0_i64;
    let count = |needed: &mut i64, change| match change {
        Needed::More { .. } => *needed += 1,
        Needed::Less { .. } => *needed -= 1,
    };
    for (at, len, record) in [(100, 900, 7), (5000, 40, 7), (300, 50, 8), (1000, 30, 7)] {
        fragments.add(at, &vec![len as u8; len], record, &mut |change| count(&mut needed, change));
    }
    assert_eq!(
        needed, 4,
        "one piece cut in two, another in it and one elsewhere; what follows on is part of the one before"
    );
    let cells: Vec<FragmentCell> = fragments.cells().collect();
    let (mut again, mut needed_again) = (Fragments::default(), 0_i64);
    for cell in &cells {
        let mut counted = |change| count(&mut needed_again, change);
        again.add(cell.home_byte, cell.content(), cell.record_sector, &mut counted);
    }
    assert_eq!((needed_again, again.cost_bytes()), (needed, fragments.cost_bytes()));
    assert_eq!(again.cells().collect::<Vec<_>>(), cells);
}

/// What was read below a block's pieces says nothing of what is there once another brought some and they are gone as well.
#[test]
fn what_was_read_under_pieces_that_are_all_gone_may_be_older_than_what_is_there() {
    let mut fragments = Fragments::default();
    let entry = Entry { home_sector: 4, len_sectors: 2, place: Place::Home, crc: 0 };
    fragments.add(100, &[1, 2], 800, &mut |_| {});
    let read_at = fragments.clock();
    assert!(fragments.has_base_of(&entry, read_at));
    fragments.drop_sectors(0, BLOCK_SECTORS, &mut |_| {});
    fragments.add(100, &[3], 808, &mut |_| {});
    fragments.drop_sectors(0, 1, &mut |_| {});
    assert!(!fragments.has_base_of(&entry, read_at));
    assert!(fragments.has_base_of(&entry, fragments.clock()), "it may be read again");
}
