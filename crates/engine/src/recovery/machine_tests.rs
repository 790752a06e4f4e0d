//! A recovery by itself: what it asks for, in which order, and how it ends, without an engine or a disk.

use super::careful::FAILURES_MAX;
use super::find::ScanContext;
use super::{Next, Recovered, Recovery, Refusal, Terms};
use crate::config::MapPlace;
use nearhead_disk::{At, BufferMut, DiskError, DiskErrorKind, Lane, Payload};
use nearhead_format::snapshot::{
    BodySummary, FLAG_CLEAN_SHUTDOWN, SNAPSHOT_HEADER_BYTES, SnapshotHeader,
};
use nearhead_format::{Layout, LayoutKind, LayoutOptions};

const VOLUME_ID: [u8; 16] = [7; 16];

fn layout() -> Layout {
    Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap()
}

/// What was asked for, as offsets of reads and flushes, and how it ended.
struct Ended {
    reads: Vec<u64>,
    flushes: Vec<Lane>,
    outcome: Result<Box<Recovered>, Refusal>,
}

fn place() -> ScanContext {
    ScanContext { layout: layout(), volume_id: VOLUME_ID, floor_sequence: 0, gap_bytes_max: 0 }
}

fn on_disk() -> MapPlace {
    MapPlace::of_layout(&layout())
}

/// Answers everything that a recovery asks for: reads by `content`, which has none of what cannot be read.
fn ended(terms: Terms, content: impl Fn(u64) -> Option<Vec<u8>>, flushes_well: bool) -> Ended {
    let mut recovery = Recovery::new(place(), on_disk(), terms);
    let (mut reads, mut flushes, mut done) = (Vec::new(), Vec::new(), None);
    loop {
        assert_eq!(recovery.has_begun(), done.is_some(), "nothing is asked for before it begins");
        done = Some(match recovery.next(done) {
            Next::Read { at: At { lane, offset }, len } => {
                assert_eq!(lane, Lane::MAIN);
                reads.push(offset);
                content(offset).ok_or_else(broken).map(|mut bytes| {
                    bytes.resize(len as usize, 0);
                    Payload::Bytes(BufferMut::copy_of(&bytes).freeze())
                })
            }
            Next::Flush { lane } => {
                flushes.push(lane);
                if flushes_well { Ok(Payload::Zeros(0)) } else { Err(broken()) }
            }
            Next::Open(recovered) => return Ended { reads, flushes, outcome: Ok(recovered) },
            Next::Refuse(refusal) => return Ended { reads, flushes, outcome: Err(refusal) },
        });
    }
}

/// Where the headers of both slots and their copies stand.
fn places() -> [u64; 4] {
    let layout = layout();
    let [first, second] = layout.slot_offsets;
    [first, layout.snapshot_copy_offset(0), second, layout.snapshot_copy_offset(1)]
}

/// The header of an empty snapshot with that number.
fn header(snapshot_number: u64) -> Vec<u8> {
    let body = BodySummary::default();
    let (record_sequence, flags) = (5, FLAG_CLEAN_SHUTDOWN);
    let header =
        SnapshotHeader { volume_id: VOLUME_ID, snapshot_number, record_sequence, flags, body };
    header.encode().to_vec()
}

/// A volume that was stopped with an empty map: snapshots 4 and 3.
fn stopped(offset: u64) -> Vec<u8> {
    let at = places().iter().position(|place| *place == offset);
    at.map_or_else(Vec::new, |place| header(if place < 2 { 4 } else { 3 }))
}

fn broken() -> DiskError {
    DiskError { kind: DiskErrorKind::Io, detail: "broken".to_owned() }
}

#[test]
fn a_device_that_goes_away_ends_recovery_also_by_consent() {
    let kinds =
        [(DiskErrorKind::Gone, false), (DiskErrorKind::Gone, true), (DiskErrorKind::Io, false)];
    for (kind, accept_loss) in kinds {
        let terms = Terms { accept_loss, rebuild: true, ..Terms::default() };
        let mut recovery = Recovery::new(place(), on_disk(), terms);
        let (mut next, mut reads) = (recovery.next(None), 0);
        let problem = loop {
            match next {
                Next::Read { .. } => {
                    reads += 1;
                    next = recovery.next(Some(Err(DiskError { kind, ..broken() })));
                }
                Next::Refuse(refusal) => break refusal.problem,
                Next::Flush { .. } | Next::Open(_) => panic!("{kind:?}: it goes on"),
            }
        };
        assert!(problem.contains("nothing was changed"), "{kind:?}: {problem}");
        let reads_max = if kind == DiskErrorKind::Gone { 1 } else { FAILURES_MAX };
        assert!(reads <= reads_max, "{kind:?}: {reads} reads");
    }
}

#[test]
fn an_empty_volume_opens_with_what_four_headers_say() {
    let ended = ended(Terms::default(), |offset| Some(stopped(offset)), true);
    assert_eq!((ended.reads.as_slice(), ended.flushes.len()), (&places()[..], 0));
    let recovered = ended.outcome.ok().unwrap();
    assert_eq!((recovered.snapshot_number, recovered.snapshot_sequence), (4, 5));
    assert!(recovered.is_clean);
    assert_eq!((recovered.recorded.sequence_done(), recovered.recorded.map().len()), (5, 0));
    assert_eq!(recovered.found.read_bytes(), 4 * SNAPSHOT_HEADER_BYTES);
    assert!(
        recovered.torn.offsets.is_empty()
            && recovered.lone.is_none()
            && recovered.rebuilt.is_none()
    );
}

#[test]
fn what_was_read_is_flushed_before_anything_is_served_and_only_if_it_may_be_lost() {
    let both = [Lane::MAIN, Lane(1)];
    let terms = || Terms { flushes: both.to_vec(), ..Terms::default() };
    let flushed = ended(terms(), |offset| Some(stopped(offset)), true);
    assert!(both.iter().all(|lane| flushed.flushes.contains(lane)) && flushed.outcome.is_ok());
    let failed = ended(terms(), |offset| Some(stopped(offset)), false);
    let refusal = failed.outcome.err().unwrap();
    assert!(refusal.problem.contains("could not be flushed: broken"), "{}", refusal.problem);
}

#[test]
fn without_a_snapshot_nothing_is_served_unless_a_rebuild_was_asked_for() {
    let nothing = |_| Some(Vec::new());
    let refusal = ended(Terms::default(), nothing, true).outcome.err().unwrap();
    assert!(refusal.problem.contains("no sound snapshot"), "{}", refusal.problem);
    let terms = Terms { rebuild: true, flushes: vec![Lane::MAIN], ..Terms::default() };
    let rebuilt = ended(terms, nothing, true);
    let log_count = u64::from(layout().log_count());
    assert!(rebuilt.reads.len() as u64 >= 4 + log_count, "every log is read");
    assert_eq!(rebuilt.flushes, [], "nothing is written before the owner has decided");
    assert!(rebuilt.outcome.ok().unwrap().rebuilt.is_some());
}

#[test]
fn a_header_that_cannot_be_read_and_may_be_the_newest_is_no_header_that_is_not_there() {
    let [.., second, copy] = places();
    // Any of its sectors.
    let is_of = |place: u64, offset| (place..place + SNAPSHOT_HEADER_BYTES).contains(&offset);
    let partly = |offset| {
        let is_bad = is_of(second, offset) || is_of(copy, offset);
        (!is_bad).then(|| stopped(offset))
    };
    let refusal = ended(Terms::default(), partly, true).outcome.err().unwrap();
    assert!(refusal.problem.contains("could not be read: broken"), "{}", refusal.problem);
    let accepted = ended(Terms { accept_loss: true, ..Terms::default() }, partly, true);
    assert_eq!(accepted.outcome.ok().unwrap().snapshot_number, 4);
}

#[test]
fn an_answer_after_the_end_opens_nothing() {
    let mut recovery = Recovery::new(place(), on_disk(), Terms::default());
    for _ in 0..2 {
        let next = recovery.next(Some(Err(broken())));
        assert!(matches!(next, Next::Refuse(_)));
    }
}
