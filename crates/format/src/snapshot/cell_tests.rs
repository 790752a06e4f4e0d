//! Tests of the cells of fragments in snapshots: their bytes, their order, and what is refused.

use super::tests::{VOLUME, check_edited, decode, header, read, written};
use super::*;
use crate::damage::{assert_same_bytes, edits, for_every_bit_flip, golden};
use crate::{Entry, Place, SECTOR_BYTES, SECTORS_MAX};
use nearhead_basics::little_endian::put;
use proptest::prelude::*;

fn cell(home_byte: u64, record_sector: u64, content: &[u8]) -> FragmentCell {
    let mut bytes = [0; CELL_CONTENT_BYTES];
    bytes[..content.len()].copy_from_slice(content);
    FragmentCell { home_byte, record_sector, len: content.len() as u8, bytes }
}

/// Cells over a logged block and over one at home.
fn items() -> Vec<BodyItem> {
    let place = Place::Log { chunk_sector: 1 << 40, chunk_len: 8, offset: 0 };
    let counting: [u8; 40] = std::array::from_fn(|at| at as u8);
    vec![
        BodyItem::Entry(Entry { home_sector: 8, len_sectors: 8, place, crc: 0x0102_0304 }),
        BodyItem::Entry(Entry { home_sector: 16, len_sectors: 8, place: Place::Home, crc: 0 }),
        BodyItem::Log(LogState { log_index: 3, position: 40 }),
        BodyItem::Hint(HintRange { start_sector: 1 << 20, len_sectors: 1 << 33 }),
        BodyItem::Fragment(cell(8 * 512 + 100, 1 << 40, b"over a chunk")),
        BodyItem::Fragment(cell(16 * 512, 4096, b"a")),
        BodyItem::Fragment(cell(16 * 512 + 4056, 4104, &counting)),
    ]
}

/// Cells of any length in home blocks of their own.
pub(super) fn cells() -> impl Strategy<Value = Vec<FragmentCell>> {
    let one = (0_u64..4096, 1_u64..=40, 0..SECTORS_MAX, any::<[u8; CELL_CONTENT_BYTES]>());
    prop::collection::btree_map(0..SECTORS_MAX / 8, one, 0..100).prop_map(|cells| {
        let cell =
            |(block, (start, len, record_sector, content)): (u64, (u64, u64, u64, [u8; 40]))| {
                let len = len.min(4096 - start) as usize;
                cell(block * 4096 + start, record_sector, &content[..len])
            };
        cells.into_iter().map(cell).collect()
    })
}

#[test]
fn header_and_body_have_the_bytes_that_an_independent_writer_gives_them() {
    let body = golden(include_str!("../../golden/snapshot_fragments_body.hex"));
    let (found, summary) = written(&items(), 4096);
    assert_same_bytes(&found, &body);
    assert_eq!(read(&body, summary, 4096), Ok(items()));
    let header = SnapshotHeader { flags: 0, body: summary, ..header() };
    let expected = golden(include_str!("../../golden/snapshot_fragments_header.hex"));
    assert_same_bytes(&header.encode(), &expected);
    assert_eq!(decode(&expected), Ok(header));
    assert_eq!(header.body.fragment_count, 3);
}

#[test]
fn every_flipped_bit_is_detected_of_a_header_that_counts_cells_and_of_a_body_that_has_them() {
    let (body, summary) = written(&items(), 4096);
    for_every_bit_flip(&body, |mutant, bit| {
        assert!(read(mutant, summary, 4096).is_err(), "bit {bit}");
    });
    let header = SnapshotHeader { body: summary, ..header() };
    for_every_bit_flip(&header.encode(), |mutant, bit| {
        let found = SnapshotHeader::decode(mutant, &VOLUME, 1, 1 << 20);
        assert!(found.is_err(), "bit {bit}");
    });
}

#[test]
fn a_cell_that_the_format_does_not_allow_is_neither_written_nor_read() {
    let sound = cell(4096 + 7, 88, b"piece");
    assert_eq!(FragmentCell::decode(&sound.encode()), Ok(sound));
    assert_eq!((sound.end_byte(), sound.content()), (4096 + 12, &b"piece"[..]));
    let last = SECTORS_MAX * SECTOR_BYTES - 1;
    assert_eq!(cell(last, SECTORS_MAX - 1, b"!").validate(), Ok(()));
    assert_eq!(cell(8192 - 40, 0, &[9; 40]).validate(), Ok(()));
    let mut behind_len = sound;
    behind_len.bytes[5] = 1;
    let bad = [
        (FragmentCell { len: 0, bytes: [0; 40], ..sound }, "home_byte and len"),
        (FragmentCell { len: 41, ..sound }, "home_byte and len"),
        (FragmentCell { len: 255, ..sound }, "home_byte and len"),
        (cell(8192 - 39, 0, &[9; 40]), "home_byte and len"),
        (cell(last, 0, &[1; 2]), "home_byte and len"),
        (cell(last + 1, 0, b"!"), "home_byte and len"),
        (cell(u64::MAX, 0, b"!"), "home_byte and len"),
        (FragmentCell { record_sector: SECTORS_MAX, ..sound }, "record_sector"),
        (FragmentCell { record_sector: u64::MAX, ..sound }, "record_sector"),
        (behind_len, "content"),
    ];
    for (cell, name) in bad {
        let told = cell.validate().unwrap_err().to_string();
        assert!(told.starts_with(&format!("cell {name}: expected")), "{told}");
        assert!(FragmentCell::decode(&cell.encode()).is_err(), "{cell:?}");
        let item = BodyItem::Fragment(cell);
        assert!(BodyWriter::new().fill(&mut [0; 4096], &mut [item].into_iter()).is_err());
    }
    for at in 17..24 {
        let mut bytes = sound.encode();
        bytes[at] = 1;
        let told = FragmentCell::decode(&bytes).unwrap_err().to_string();
        assert!(told.starts_with("reserved"), "byte {at}: {told}");
    }
}

#[test]
fn cells_come_last_in_the_order_of_their_bytes_and_share_none() {
    let fill = |items: &[BodyItem]| {
        BodyWriter::new()
            .fill(&mut [0; 4096], &mut items.iter().copied())
            .map_err(|field| field.name)
    };
    let at = |home_byte| BodyItem::Fragment(cell(home_byte, 7, &[1; 8]));
    assert_eq!(fill(&[at(100), at(108), at(4096)]), Ok(4096), "neighbours");
    for pair in [[at(100), at(107)], [at(100), at(100)], [at(100), at(99)], [at(4096), at(100)]] {
        assert_eq!(fill(&pair), Err("cell"), "{pair:?}");
    }
    for item in items().into_iter().take(4) {
        assert!(fill(&[at(0), item]).is_err(), "{item:?} behind a cell");
        assert_eq!(fill(&[item, at(0)]), Ok(4096));
    }
    // The same in bytes, as only a bug could write them.
    let (mut body, mut summary) = written(&[at(100), at(108)], 4096);
    put(&mut body, 64, &107_u64.to_le_bytes());
    summary.body_crc = crate::crc::crc32c(&body);
    match read(&body, summary, 4096) {
        Err(SnapshotError::Field(field)) => assert_eq!(field.name, "cell"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cell_that_two_pieces_share_is_read_whole_wherever_it_is_cut() {
    let cells: Vec<BodyItem> = (0..130_u8)
        .map(|number| {
            let content = vec![number; 1 + usize::from(number % 40)];
            BodyItem::Fragment(cell(u64::from(number) * 4096 + 5, 9, &content))
        })
        .collect();
    // An entry before them, so that no cell ends with a block.
    let zero = Entry { home_sector: 0, len_sectors: 8, place: Place::Zero, crc: 0 };
    let items: Vec<_> = std::iter::once(BodyItem::Entry(zero)).chain(cells).collect();
    let (body, summary) = written(&items, 4096);
    assert_eq!(body.len(), 12288);
    assert!((body.clone(), summary) == written(&items, 1 << 20), "pieces change the body");
    for piece_bytes in 1..130 {
        assert_eq!(read(&body, summary, piece_bytes).as_ref(), Ok(&items), "{piece_bytes}");
    }
}

proptest! {
    #[test]
    fn edited_bodies_with_a_fitting_checksum_are_refused_or_canonical(
        edits in edits(),
        piece_bytes in 1_usize..5000,
    ) {
        check_edited(&items(), &edits, piece_bytes);
    }

    #[test]
    fn any_bytes_of_a_cell_are_refused_or_are_those_of_what_they_decode_to(
        mut bytes in any::<[u8; FRAGMENT_CELL_BYTES]>(),
        len in 0_u8..44,
    ) {
        // Random ones hardly ever have zeros where they must be.
        put(&mut bytes, 6, &[0; 2]);
        put(&mut bytes, 14, &[0; 2]);
        put(&mut bytes, 16, &[len, 0, 0, 0, 0, 0, 0, 0]);
        bytes[24 + usize::from(len).min(40)..].fill(0);
        if let Ok(cell) = FragmentCell::decode(&bytes) {
            prop_assert_eq!(cell.encode(), bytes);
        }
    }
}
