//! What `dump` tells of bytes that records brought by themselves, with the real program.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Scratch, run_json, run_ok};
use nearhead_format::record::Fragment;
use nearhead_format::snapshot::{BodyItem, BodyWriter, FragmentCell};
use nearhead_format::{Entry, Place, RecordHeader, SnapshotHeader, Superblock};
use std::os::unix::fs::FileExt;

const SMALL: [&str; 6] = ["create", "a.img", "--size", "64MiB", "--group-size", "8MiB"];

/// A record and a snapshot as a volume with fragments has them, written where this one has others.
#[test]
fn dump_shows_fragments_and_counts_what_is_left_of_them() {
    let scratch = Scratch::new("dump-fragments");
    run_ok(&scratch, &SMALL);
    let image =
        std::fs::File::options().read(true).write(true).open(scratch.path("a.img")).unwrap();
    let mut bytes = [0; 4096];
    image.read_exact_at(&mut bytes, 0).unwrap();
    let superblock = Superblock::decode(&bytes, 0).unwrap();
    let (layout, volume_id) = (superblock.layout, superblock.volume_id);
    let fragment =
        |home_sector, offset, bytes: &[u8]| Fragment { home_sector, offset, bytes: bytes.into() };
    let fragments = vec![fragment(8, 100, b"a few bytes"), fragment(23, 511, b"!")];
    let header = RecordHeader { volume_id, sequence: 1, fragments, ..RecordHeader::default() };
    let mut record = vec![0; header.encoded_bytes(layout.log_block_bytes as usize)];
    header.encode_into(&mut record);
    image.write_all_at(&record, layout.log_offset(0).unwrap()).unwrap();
    let cell = FragmentCell { home_byte: 4196, record_sector: 8, len: 1, bytes: [0; 40] };
    let entry = Entry { home_sector: 8, len_sectors: 8, place: Place::Home, crc: 0 };
    let mut items = [BodyItem::Entry(entry), BodyItem::Fragment(cell)].into_iter();
    let (mut writer, mut body) = (BodyWriter::new(), vec![0; 8192]);
    let filled = writer.fill(&mut body, &mut items).unwrap();
    let snapshot = SnapshotHeader {
        volume_id,
        snapshot_number: 2,
        record_sequence: 1,
        flags: 0,
        body: writer.summary().unwrap(),
    };
    let slot = layout.slot_offsets[0];
    image.write_all_at(&body[..filled], slot + 4096).unwrap();
    image.write_all_at(&snapshot.encode(), slot).unwrap();
    let dump = run_json(&scratch, &["dump", "a.img", "--log", "0", "--map"]);
    assert_eq!(dump["records"][0]["fragments"], serde_json::json!([[4196, 11], [12287, 1]]));
    assert_eq!(dump["records"][0]["fragment_bytes"], 12);
    assert_eq!(
        (&dump["snapshots"][0]["fragments"], &dump["map"][0]["place"]),
        (&1.into(), &"home".into())
    );
    let text = run_ok(&scratch, &["dump", "a.img", "--log", "0"]);
    for line in [
        "0 hints, 1 cells of fragments",
        "0 writes, 2 fragments of 12 bytes, 0 invalidations",
        "    11 bytes at 4196, in the header",
        "    1 bytes at 12287, in the header",
    ] {
        assert!(text.contains(line), "`{line}` is missing in: {text}");
    }
}
