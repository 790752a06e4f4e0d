//! What lives by chance seldom or never come to: each test a way that the bytes of a record could come over what is newer, or be lost.

use super::client::{Client, Life};
use super::{lives, options};
use nearhead_disk::Nanos;
use nearhead_format::AckMode;
use nearhead_laws::options::Options;

/// Sectors of a home block.
const BLOCK: u64 = 8;
/// One in another group, which has another log.
const FAR: u64 = 40_000;

fn steered(cuts: bool) -> Life {
    Life { cuts, large: true, ..Life::default() }
}

/// A cleaning reads the home of a part of a block that has no bytes over it, and then that part is written in place and comes to be at home
/// again, because bytes come over another part.
#[test]
fn what_is_at_home_again_is_read_again_before_it_goes_home() {
    let options = Options { swap_above_pct: None, ..options("mlb", 512) };
    for seed in 0..4 * lives() {
        let life = Life { reads_late: true, ..steered(false) };
        let mut client = Client::new(&options, life, seed);
        let home = 20..40;
        for _ in 0..2 {
            client.write_in_place(home.clone(), true);
            client.until_answered();
            client.fragments([16]);
            client.until_answered();
        }
        // Others of the window, one of which is late.
        for block in 10..30 {
            client.fragments([block * BLOCK]);
            client.until_answered();
        }
        client.begin_checkpoint();
        client.rest(Nanos::from_millis(20));
        client.write_in_place(home, true);
        client.until_answered();
        client.fragments([16]);
        client.until_answered();
        client.rest(Nanos::from_millis(300));
        client.compare();
    }
}

/// Bytes over zeros go home with them, and zeros are logged once more before those are let go: the map says the same of them as before.
#[test]
fn zeros_that_take_bytes_away_while_those_go_home_are_not_let_go_with_them() {
    let options = Options { swap_above_pct: None, ..options("mlb", 512) };
    for delay in 0..40 {
        let mut client = Client::new(&options, steered(false), delay);
        for block in 0..20 {
            client.zeros(block * BLOCK..(block + 1) * BLOCK);
            client.until_answered();
            client.fragments([block * BLOCK]);
            client.until_answered();
        }
        client.begin_checkpoint();
        client.rest(Nanos::from_micros(delay * 250));
        for block in 0..20 {
            client.zeros(block * BLOCK..(block + 1) * BLOCK);
        }
        client.until_answered();
        client.rest(Nanos::from_millis(500));
        client.compare();
        client.cut_now();
    }
}

/// Snapshots alone say that many blocks are at home, of which a record tells a few at a time; bytes come over all of them in one record.
#[test]
fn what_only_snapshots_took_back_takes_no_bytes_that_came_later() {
    let options =
        Options { snapshot_after_bytes: 8 << 20, ack: AckMode::Flush, ..options("mlb", 512) };
    for seed in 0..lives() {
        let mut client = Client::new(&options, steered(false), seed);
        let blocks: Vec<u64> = (0..110).map(|at| at * 2 * BLOCK).collect();
        for block in &blocks {
            client.write(*block..block + BLOCK);
            client.until_answered();
        }
        for block in &blocks {
            client.write_in_place(*block..block + BLOCK, false);
            client.until_answered();
        }
        client.snapshot();
        client.snapshot();
        // Now that the first records tell of them.
        client.fragments(blocks[60..].iter().copied());
        client.until_answered();
        for _ in 0..4 {
            client.write(2000..2001);
            client.until_answered();
        }
        client.compare();
        client.cut_now();
    }
}

/// The content of a log goes to another while bytes of a third lie over it: the head was elsewhere when they came, and then comes back.
#[test]
fn what_lies_over_a_block_stays_when_that_moves() {
    let still = Options { swap_above_pct: None, ..options("mlb", 512) };
    let options = Options { swap_above_pct: Some(10), ..still.clone() };
    let mut moved = 0;
    for seed in 0..lives() {
        let mut client = Client::new(&still, steered(false), seed);
        for block in 0..30 {
            client.write(block * BLOCK..(block + 1) * BLOCK);
            client.until_answered();
        }
        for block in 0..30 {
            client.read(FAR..FAR + 1);
            client.until_answered();
            client.fragments([block * BLOCK + 3]);
            client.until_answered();
        }
        client.open_as(&options);
        client.read(4000..4001);
        client.until_answered();
        client.write(4000..4001);
        client.until_answered();
        client.rest(Nanos::from_secs(1));
        client.compare();
        moved += client.spills_and_swaps().1;
        client.cut_now();
    }
    assert!(moved > 0, "nothing moved: the test says nothing");
}

/// No log has room, so staged blocks go home; those with bytes over them wait, or a cut would leave those bytes over newer ones.
#[test]
fn where_no_log_has_room_what_lies_under_bytes_waits() {
    let options = Options { logs_are_scarce: true, watermark_pct: None, ..options("mlb", 512) };
    let mut spilled = 0;
    for seed in 0..2 * lives() {
        let mut client = Client::new(&options, steered(true), seed);
        for _ in 0..6 {
            let hot: Vec<u64> = (0..20).map(|at| at * 9 * BLOCK + client.below(8)).collect();
            client.fragments(hot.iter().copied());
            client.until_answered();
            for at in 0..400 {
                let block = 200 + at;
                client.write(block * BLOCK..(block + 1) * BLOCK);
                if at % 20 == 19 {
                    let sector = hot[at as usize / 20];
                    client.write(sector..sector + 1);
                }
            }
            client.until_answered();
            spilled += client.spills_and_swaps().0;
        }
        client.compare();
    }
    assert!(spilled > 0, "every log had room: the test says nothing");
}

/// A snapshot has its cells from when it began, and the map piece by piece: before it comes to a block that has bytes over a copy in a log,
/// that block is written in place. Nothing but the snapshot says then that the copy counts no more.
#[test]
fn bytes_of_a_snapshot_come_over_nothing_that_was_written_in_place_since_it_began() {
    let still = Options { swap_above_pct: None, watermark_pct: None, ..options("mlb", 512) };
    let options = Options { snapshot_after_bytes: 64 << 20, ack: AckMode::Flush, ..still };
    let mut client = Client::new(&options, steered(false), 1);
    // More of the map than a piece of a snapshot holds.
    for at in 0..14_000 {
        client.write(at * 4..at * 4 + 1);
        if at % 400 == 399 {
            client.until_answered();
        }
    }
    client.until_answered();
    let last = 14_000 * 4 + 8;
    // Its home is not blank any more.
    client.write_in_place(last..last + BLOCK, true);
    client.until_answered();
    client.write(last..last + BLOCK);
    client.until_answered();
    client.fragments([last + 3]);
    client.until_answered();
    // It ends before the first piece.
    client.write_in_place_for_now(last..last + BLOCK);
    client.rest(Nanos::from_millis(1));
    let before = client.begin_snapshot();
    client.until_answered();
    client.until_snapshot_after(before);
    client.cut_now();
}
