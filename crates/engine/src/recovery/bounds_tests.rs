//! The edge of what a volume can hold: the last sector, the last log and the last number are taken, the one
//! behind is refused and named.

use super::bounds::{check_header, check_item, record_past_volume, sequence_fits};
use nearhead_format::record::{Claim, RecordHeader, SectorRange, WriteItem};
use nearhead_format::snapshot::{BodyItem, BodySummary, HintRange, LogState, SnapshotHeader};
use nearhead_format::{Entry, Layout, LayoutKind, LayoutOptions, Place};

fn layout(kind: LayoutKind) -> Layout {
    Layout::plan(1 << 30, &LayoutOptions::new(kind)).unwrap()
}

fn home_sectors(layout: &Layout) -> u64 {
    layout.client_bytes() / 512
}

fn entry(home_sector: u64, place: Place) -> BodyItem {
    BodyItem::Entry(Entry { home_sector, len_sectors: 2, place, crc: 0 })
}

fn logged(chunk_sector: u64) -> BodyItem {
    entry(0, Place::Log { chunk_sector, chunk_len: 2, offset: 0 })
}

fn assert_taken_up_to(layout: &Layout, last: BodyItem, beyond: BodyItem) {
    assert_eq!(check_item(&last, layout), Ok(()));
    let problem = check_item(&beyond, layout).unwrap_err();
    let expected = format!("expected only what lies on the volume, found {beyond:?}");
    assert_eq!(problem, expected);
}

#[test]
fn what_a_snapshot_lists_ends_with_the_volume() {
    let layout = layout(LayoutKind::ManyLogs);
    let (sectors, logs) = (home_sectors(&layout), layout.log_count());
    for place in [Place::Zero, Place::Poisoned] {
        assert_taken_up_to(&layout, entry(sectors - 2, place), entry(sectors - 1, place));
    }
    assert_taken_up_to(&layout, BodyItem::Claim(logs - 1), BodyItem::Claim(logs));
    let hint = |start_sector, len_sectors| BodyItem::Hint(HintRange { start_sector, len_sectors });
    assert_taken_up_to(&layout, hint(sectors - 9, 9), hint(sectors - 9, 10));
    assert_taken_up_to(&layout, hint(0, sectors), hint(u64::MAX, 1));
    let end = layout.log_blocks();
    let state = |log_index, position| BodyItem::Log(LogState { log_index, position });
    let last = state(logs - 1, end);
    for beyond in [state(logs, end), state(logs - 1, end + 1)] {
        assert_taken_up_to(&layout, last, beyond);
    }
}

#[test]
fn a_logged_copy_lies_inside_one_log() {
    let layout = layout(LayoutKind::ManyLogs);
    for log_index in [0, layout.log_count() - 1] {
        let start = layout.log_offset(log_index).unwrap() / 512;
        let end = start + layout.log_bytes / 512;
        assert_taken_up_to(&layout, logged(start), logged(start - 1));
        assert_taken_up_to(&layout, logged(end - 2), logged(end - 1));
        assert_taken_up_to(&layout, logged(start + 1), logged(end));
        let whole = |chunk_sector| {
            let place = Place::Log { chunk_sector, chunk_len: 8, offset: 0 };
            BodyItem::Entry(Entry { home_sector: 0, len_sectors: 8, place, crc: 0 })
        };
        assert_taken_up_to(&layout, whole(end - 8), whole(end - 7));
    }
    let home_is_past_it =
        Place::Log { chunk_sector: layout.log_offset(0).unwrap() / 512, chunk_len: 2, offset: 0 };
    assert!(check_item(&entry(home_sectors(&layout), home_is_past_it), &layout).is_err());
    // Without logs nothing is logged.
    let without = Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::NoLogs)).unwrap();
    assert!(check_item(&logged(without.groups_offset / 512), &without).is_err());
}

#[test]
fn counters_near_the_end_of_their_range_are_refused() {
    let header = |snapshot_number, record_sequence| SnapshotHeader {
        volume_id: [0; 16],
        snapshot_number,
        record_sequence,
        flags: 0,
        body: BodySummary::default(),
    };
    let max = 1 << 62;
    assert_eq!(check_header(&header(max - 1, max - 1)), Ok(()));
    for refused in [header(max, 0), header(0, max)] {
        let problem = check_header(&refused).unwrap_err();
        assert!(problem.contains(&format!("expected below {max}, found {max}")), "{problem}");
    }
    let record = |sequence| RecordHeader { sequence, ..RecordHeader::default() };
    assert!(sequence_fits(&record(max - 1)) && !sequence_fits(&record(max)));
}

#[test]
fn a_record_that_names_what_the_volume_does_not_have_is_named() {
    let layout = layout(LayoutKind::ManyLogs);
    let (sectors, logs) = (home_sectors(&layout), layout.log_count());
    let claim = Claim { log_index: logs - 1, position: layout.log_blocks() };
    let range = SectorRange { start_sector: sectors - 3, len_sectors: 3 };
    let write = WriteItem::Zeros { home_sector: sectors - 3, run_sectors: 3 };
    let sound = RecordHeader {
        sequence: 77,
        log_index: logs - 1,
        claims: vec![claim],
        invalidations: vec![range],
        echo: vec![range],
        writes: vec![write],
        ..RecordHeader::default()
    };
    assert_eq!(record_past_volume(&sound, &layout), None);
    let longer = SectorRange { len_sectors: 4, ..range };
    let claims = |claim| RecordHeader { claims: vec![claim], ..sound.clone() };
    let cases = [
        (RecordHeader { log_index: logs, ..sound.clone() }, format!("found log {logs} in use")),
        (claims(Claim { log_index: logs + 5, ..claim }), format!("found log {} in use", logs + 5)),
        (
            claims(Claim { position: layout.log_blocks() + 1, ..claim }),
            format!("found Claim {{ log_index: {}", logs - 1),
        ),
        (
            RecordHeader { invalidations: vec![longer], ..sound.clone() },
            format!("found {longer:?}"),
        ),
        (RecordHeader { echo: vec![longer], ..sound.clone() }, format!("found {longer:?}")),
        (
            RecordHeader {
                writes: vec![WriteItem::Zeros { home_sector: sectors - 3, run_sectors: 4 }],
                ..sound.clone()
            },
            format!("found {longer:?}"),
        ),
    ];
    for (record, words) in cases {
        let problem = record_past_volume(&record, &layout).expect("it lies outside");
        assert!(problem.contains(&words), "expected `{words}` in: {problem}");
        assert!(problem.contains("older than the map"), "what to do is missing: {problem}");
    }
}
