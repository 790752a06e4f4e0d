//! One log: where records go, what is protected, what is left out.

use super::*;

fn place(ring: &Ring, blocks: u32, reserve: u32) -> Option<u32> {
    let need = Need { blocks, reserve };
    let found = ring.place(need);
    assert!(found.is_none_or(|block| ring.accepts(block, need)), "block {found:?}");
    found
}

fn ring(blocks: u32) -> Ring {
    Ring::new(NonZeroU32::new(blocks).unwrap())
}

/// One that may leave out 100 blocks, with its position there and all of it free.
fn written_and_free(position: u32) -> Ring {
    let mut ring = ring(640).with_gaps(100);
    ring.advance(0, position - 1);
    ring.advance(position - 1, 1);
    ring.snapshot_begins();
    ring.snapshot_committed();
    ring
}

#[test]
fn an_empty_ring_takes_records_up_to_its_end_and_not_beyond() {
    let ring = ring(640);
    assert_eq!(place(&ring, 640, 0), Some(0));
    assert_eq!(place(&ring, 641, 0), None);
    assert_eq!(place(&ring, 600, 41), None);
}

#[test]
fn space_written_since_the_snapshot_is_not_used_again_before_the_next_one() {
    let mut ring = ring(640);
    ring.advance(0, 600);
    assert_eq!(place(&ring, 41, 0), None, "wrapping would overwrite unsnapshotted records");
    ring.snapshot_begins();
    assert_eq!(place(&ring, 41, 0), None, "the snapshot is not committed yet");
    ring.snapshot_committed();
    assert_eq!(place(&ring, 41, 0), Some(0));
}

#[test]
fn the_place_that_a_record_did_not_fit_into_is_not_used_before_the_next_snapshot() {
    let mut ring = ring(640);
    ring.advance(0, 600);
    ring.snapshot_begins();
    ring.snapshot_committed();
    assert_eq!(place(&ring, 100, 0), Some(0), "40 blocks are left before the end");
    ring.advance(0, 100);
    assert_eq!(ring.free_run_blocks(), 500, "a recovery begins at block 600");
    ring.advance(100, 500);
    assert_eq!(place(&ring, 1, 0), None);
}

#[test]
fn records_written_while_a_snapshot_is_taken_stay_protected_after_it() {
    let mut ring = ring(640);
    ring.advance(0, 100);
    ring.snapshot_begins();
    ring.advance(100, 100);
    ring.snapshot_committed();
    assert_eq!(ring.free_run_blocks(), 540);
    ring.snapshot_begins();
    ring.snapshot_committed();
    assert_eq!(ring.free_run_blocks(), 640);
}

#[test]
fn live_sectors_block_the_ring_until_they_are_dropped() {
    let mut ring = ring(640);
    ring.advance(0, 320);
    ring.add_live(100, 8);
    ring.snapshot_begins();
    ring.snapshot_committed();
    let free = ring.free_run_blocks();
    assert!((320..=320 + 100).contains(&free), "found {free}");
    ring.drop_live(100, 8);
    assert_eq!(ring.free_run_blocks(), 640);
}

#[test]
fn live_sectors_in_the_slice_at_whose_start_the_position_stands_are_not_overwritten() {
    let mut ring = ring(640);
    ring.advance(0, 640);
    ring.add_live(320, 8);
    ring.add_live(500, 8);
    ring.snapshot_begins();
    ring.snapshot_committed();
    assert_eq!(place(&ring, 320, 0), Some(0));
    ring.advance(0, 320);
    assert_eq!(ring.free_run_blocks(), 0, "block 320 is needed");
}

#[test]
fn a_full_ring_has_no_place_even_for_one_block() {
    let mut ring = ring(64);
    ring.advance(0, 64);
    assert_eq!((ring.position, place(&ring, 1, 0)), (0, None));
}

#[test]
fn a_record_goes_behind_a_bad_place_and_what_is_left_out_stays_protected_with_it() {
    let mut ring = written_and_free(10);
    ring.note_bad(10, 5, Nanos::ZERO);
    assert_eq!((place(&ring, 5, 0), place(&ring, 5, 630)), (Some(15), Some(15)));
    assert_eq!(place(&ring, 5, 631), None, "five blocks more are gone then");
    ring.advance(15, 5);
    assert_eq!((ring.free_run_blocks(), place(&ring, 1, 0)), (630, Some(20)));
}

#[test]
fn a_gap_is_no_longer_than_a_recovery_looks() {
    let mut ring = written_and_free(10);
    ring.bad.note(20, 85, 640, Nanos::ZERO);
    assert_eq!(place(&ring, 11, 0), Some(105), "10 blocks before it and 85 of its own");
    ring.bad.note(105, 6, 640, Nanos::ZERO);
    assert_eq!(place(&ring, 11, 0), None, "it would go to the start, where there is no room");
    assert_eq!(place(&ring, 10, 0), Some(10));
    assert_eq!(place(&ring, 1, 0), Some(10));
}

#[test]
fn a_bad_end_of_the_log_and_a_bad_start_are_left_out_together() {
    let mut ring = written_and_free(630);
    ring.note_bad(630, 10, Nanos::ZERO);
    ring.note_bad(0, 3, Nanos::ZERO);
    assert_eq!(place(&ring, 4, 0), Some(3));
    assert_eq!((place(&ring, 4, 623), place(&ring, 4, 624)), (Some(3), None));
    ring.forget_bad_places();
    assert_eq!(place(&ring, 4, 0), Some(630), "it is tried again");
}

#[test]
fn blocks_may_be_left_out_as_far_as_a_recovery_looks_and_count_as_used() {
    let mut ring = written_and_free(10);
    let need = |blocks, reserve| Need { blocks, reserve };
    assert!(ring.accepts(10, need(5, 0)) && ring.accepts(110, need(5, 0)));
    assert!(!ring.accepts(9, need(5, 0)), "that is a lap further on, and would be used twice");
    assert!(!ring.accepts(111, need(5, 0)));
    // At the start, a lap further on.
    assert!(ring.accepts(0, need(5, 5)) && !ring.accepts(0, need(5, 6)));
    ring.advance(60, 5);
    assert_eq!(ring.free_run_blocks(), 640 - 55, "50 were left out");
    ring.advance(165, 475);
    assert!(
        ring.accepts(0, need(10, 0)) && !ring.accepts(1, need(10, 0)),
        "what was left out is protected"
    );
}

/// A recovery that begins at block 600 and goes round could not tell the record at 500 from one of the new lap.
#[test]
fn a_record_goes_round_no_further_than_to_where_the_one_before_it_stands() {
    let mut ring = ring(640).with_gaps(640);
    ring.advance(500, 100);
    ring.snapshot_begins();
    ring.snapshot_committed();
    let need = Need { blocks: 5, reserve: 0 };
    assert!(ring.accepts(600, need) && ring.accepts(0, need) && ring.accepts(500, need));
    assert!(!ring.accepts(501, need) && !ring.accepts(590, need));
}

#[test]
fn where_a_record_failed_behind_blocks_left_out_it_does_not_go_back_to_those() {
    let mut ring = written_and_free(10);
    ring.note_bad(40, 5, Nanos::ZERO);
    assert_eq!(place(&ring, 5, 0), Some(45));
    assert!(!ring.accepts(20, Need { blocks: 5, reserve: 0 }));
    // At the start of the log, with room before its end.
    let mut ring = written_and_free(600);
    ring.note_bad(3, 5, Nanos::ZERO);
    assert_eq!(place(&ring, 5, 0), Some(8));
}

#[test]
fn what_is_needed_is_not_left_out_either() {
    let mut ring = ring(640).with_gaps(100);
    ring.add_live(20, 8);
    assert!(ring.accepts(0, Need { blocks: 20, reserve: 0 }));
    assert!(!ring.accepts(30, Need { blocks: 1, reserve: 0 }), "block 20 is before it");
}
