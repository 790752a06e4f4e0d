//! Fragments: bytes smaller than a sector in records, over what the map says.
//!
//! A client that knows every byte writes some of them, atomically, beside small and large writes, zeroes and trims of the same few blocks, so
//! that a sector is at home, logged, zeros or under fragments in turn, and goes from each to each. The power goes at random commands of the
//! disk, and the recovered volume goes on; each sector then reads as before or after what was not acknowledged, never as a mixture.

mod client;
mod steered;

use client::{Client, Life};
use nearhead_format::AckMode;
use nearhead_laws::options::Options;

/// Lives of each kind; more with `NEARHEAD_FRAGMENT_LIVES`.
const LIVES: u64 = 12;

pub(crate) fn lives() -> u64 {
    std::env::var("NEARHEAD_FRAGMENT_LIVES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(LIVES)
}

pub(crate) fn options(preset: &str, sector_bytes: u32) -> Options {
    Options { fragments: true, sector_bytes, ..Options::new(preset, AckMode::Durable) }
}

/// Every kind of life on these, each from a seed of its own.
fn live(options: &Options, life: Life) {
    let mut brought = 0;
    for seed in 0..lives() {
        brought += Client::new(options, life, seed).live();
    }
    assert!(brought > 0, "no record brought a fragment: the test says nothing");
}

#[test]
fn what_is_read_is_what_was_written_byte_for_byte_however_it_is_logged() {
    live(&options("mlb", 512), Life { cuts: false, ..Life::default() });
}

#[test]
fn after_a_power_cut_each_sector_is_old_or_new_and_acknowledged_bytes_are_there() {
    for preset in ["mlb", "singlelog", "nearhead"] {
        live(&options(preset, 512), Life::default());
    }
}

#[test]
fn the_same_where_the_logs_are_full_time_and_again() {
    let scarce = Options { logs_are_scarce: true, ..options("mlb", 512) };
    live(&scarce, Life { requests: 1500, ..Life::default() });
}

#[test]
fn the_same_where_cleaning_and_swaps_never_stop() {
    let busy = Options {
        idle_checkpoints: true,
        swap_above_pct: Some(10),
        snapshot_after_bytes: 60 << 10,
        ..options("mlb", 512)
    };
    live(&busy, Life { pauses: true, ..Life::default() });
}

#[test]
fn the_same_on_sectors_of_four_kibibytes_and_in_front_of_shingles() {
    live(&options("mlb", 4096), Life::default());
    live(&options("slsmr", 512), Life::default());
}

#[test]
fn the_same_where_a_snapshot_has_room_for_few_of_them() {
    live(&options("singlelog", 512), Life { blocks: 600, large: false, ..Life::default() });
}

/// Blocks of which something is written in place while they go home, and while others read them from a disk that comes to reads late.
#[test]
fn the_same_where_reads_and_cleaning_meet_what_is_written_in_place() {
    let busy = Options {
        idle_checkpoints: true,
        snapshot_after_bytes: 60 << 10,
        watermark_pct: Some(1),
        ..options("mlb", 512)
    };
    let life = Life { blocks: 9, reads_late: true, pauses: true, ..Life::default() };
    live(&busy, life);
    live(&busy, Life { cuts: false, fragments_of_20: 6, ..life });
}

/// Few fragments among many writes, so that what goes home for want of room is something else, but for a little.
#[test]
fn the_same_where_logs_are_full_of_what_is_no_fragment() {
    let scarce = Options { logs_are_scarce: true, watermark_pct: None, ..options("mlb", 512) };
    let life = Life { requests: 2500, blocks: 300, fragments_of_20: 4, ..Life::default() };
    live(&scarce, life);
}

/// What snapshots alone took back is told by records, a few of it at a time.
#[test]
fn the_same_where_most_writes_wait_for_no_flush() {
    let lazy = Options {
        snapshot_after_bytes: 20 << 10,
        ..Options { ack: AckMode::Flush, ..options("mlb", 512) }
    };
    let life = Life { blocks: 200, cuts: false, volatile: true, ..Life::default() };
    live(&lazy, Life { requests: 1500, fragments_of_20: 5, ..life });
}
