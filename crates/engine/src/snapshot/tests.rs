//! A snapshot by itself: its transfers and their order, what a failure costs, what it frees.

use super::*;
use crate::core::tests::{commands, core, core_of, core_with, failure};
use crate::packing::Everything;
use crate::placement::SingleLog;
use nearhead_disk::{Command, DiskErrorKind};
use nearhead_format::snapshot::FragmentCell;
use nearhead_format::{Entry, LayoutKind, Place};

const IDLE: SnapshotContext = SnapshotContext { cold_log: None, idle_for: Nanos::from_secs(1) };

fn commit() -> Commit {
    Commit::new(Box::new(SingleLog), Box::new(Everything))
}

/// A core whose map has something to say.
fn written() -> Core {
    let mut core = core();
    core.recorded_mut().fill(0, 8, Place::Zero);
    core
}

/// Each command that leaves, in one word.
fn sent(core: &mut Core) -> Vec<&'static str> {
    let slots = core.setup().map.slots;
    let words = commands(core).into_iter().map(|command| match command {
        Command::Write { offset, durable, .. } => match durable {
            false => "body",
            true if (0..2).any(|slot| slots.header_offset(slot) == offset) => "header",
            true if (0..2).any(|slot| slots.copy_offset(slot) == offset) => "copy",
            true => "elsewhere",
        },
        Command::Flush => "flush",
        _ => "other",
    });
    words.collect()
}

/// What became of the first piece of the body that is on its way.
fn answer(
    snapshotter: &mut Snapshotter,
    core: &mut Core,
    commit: &Commit,
    result: Result<Payload, DiskError>,
) {
    let offset = under_way(snapshotter)[0];
    snapshotter.on_body(core, commit, offset, result);
}

/// Where the pieces go that are on their way, or are to be sent again.
fn under_way(snapshotter: &Snapshotter) -> Vec<u64> {
    let purposes = snapshotter.in_progress.iter().flat_map(|work| work.transfers.purposes());
    purposes
        .filter_map(|purpose| match purpose {
            Purpose::SnapshotBody { offset } => Some(offset),
            _ => None,
        })
        .collect()
}

/// A core whose snapshot is several pieces.
fn of_pieces() -> Core {
    let mut core = core();
    let record_sector = core.logs().block_offset(0, 0).unwrap() / 512;
    for block in 0..4000 {
        let cell = FragmentCell { home_byte: block * 4096, record_sector, len: 1, bytes: [0; 40] };
        core.recorded_mut().adopt_cell(&cell);
    }
    core
}

/// Goes on until the header has left.
fn up_to_header(snapshotter: &mut Snapshotter, core: &mut Core, commit: &Commit) {
    snapshotter.demand();
    snapshotter.advance(core, commit, IDLE);
    assert_eq!(sent(core), ["body"]);
    answer(snapshotter, core, commit, Ok(Payload::EMPTY));
    snapshotter.advance(core, commit, IDLE);
    core.start_flushes();
    assert_eq!(sent(core), ["flush"], "the body is durable before the header says so");
    core.on_flush(nearhead_disk::Lane::MAIN, Ok(Payload::EMPTY));
    snapshotter.advance(core, commit, IDLE);
    assert_eq!(sent(core), ["header"]);
}

#[test]
fn the_header_follows_the_flush_of_the_body_and_the_copy_the_header() {
    let (mut snapshotter, mut core, mut commit) = (Snapshotter::default(), written(), commit());
    for number in 1..=3 {
        up_to_header(&mut snapshotter, &mut core, &commit);
        assert_eq!(snapshotter.number(), number - 1, "not before both headers are durable");
        snapshotter.on_header(&mut core, &mut commit, Ok(Payload::EMPTY));
        assert_eq!(sent(&mut core), ["copy"]);
        assert_eq!(snapshotter.number(), number - 1, "nor with one of them");
        snapshotter.on_copy(&mut core, &mut commit, Ok(Payload::EMPTY));
        assert_eq!((snapshotter.number(), snapshotter.is_busy()), (number, false));
    }
    assert_eq!(core.stats().snapshots, 3);
}

#[test]
fn a_transfer_that_fails_is_sent_again_a_few_times_and_then_the_attempt_has_failed() {
    let (mut snapshotter, mut core, commit) = (Snapshotter::default(), written(), commit());
    for attempt in 1..=3_u64 {
        snapshotter.demand();
        snapshotter.advance(&mut core, &commit, IDLE);
        let mut tries = 0;
        while !sent(&mut core).is_empty() {
            tries += 1;
            answer(&mut snapshotter, &mut core, &commit, Err(failure(DiskErrorKind::Io)));
            let Some(at) =
                snapshotter.wake(&core, Some(core.now())).filter(|_| snapshotter.is_busy())
            else {
                break;
            };
            core.set_now(at);
            snapshotter.advance(&mut core, &commit, IDLE);
        }
        assert_eq!((tries, snapshotter.has_failed()), (5, true), "attempt {attempt}");
        assert_eq!(snapshotter.lasting_problem().is_some(), attempt == 3);
    }
    assert!(!core.has_failed(), "the older snapshot and every record since stand");
    assert_eq!(core.findings().damage().len(), 1, "{:?}", core.findings().damage());
}

#[test]
fn a_snapshot_without_space_waits_for_it_however_long_that_is() {
    let (mut snapshotter, mut core, commit) = (Snapshotter::default(), written(), commit());
    snapshotter.demand();
    snapshotter.advance(&mut core, &commit, IDLE);
    for _ in 0..100 {
        assert_eq!(sent(&mut core), ["body"]);
        answer(&mut snapshotter, &mut core, &commit, Err(failure(DiskErrorKind::OutOfSpace)));
        assert!(snapshotter.is_short_of_space() && !snapshotter.has_failed());
        core.set_now(snapshotter.wake(&core, Some(core.now())).unwrap());
        snapshotter.advance(&mut core, &commit, IDLE);
    }
    assert!(core.watch().shortage().is_some());
    answer(&mut snapshotter, &mut core, &commit, Ok(Payload::EMPTY));
    assert!(!snapshotter.is_short_of_space() && core.watch().shortage().is_none());
}

#[test]
fn a_stop_that_cannot_write_its_snapshot_fails_the_volume() {
    let (mut snapshotter, mut core, commit) = (Snapshotter::default(), written(), commit());
    core.drain();
    assert!(!snapshotter.advance_final(&mut core, &commit, IDLE));
    answer(&mut snapshotter, &mut core, &commit, Err(failure(DiskErrorKind::Gone)));
    assert_eq!(core.failure().map(crate::Failure::name), Some("snapshot"));
    commands(&mut core);
}

#[test]
fn one_is_due_by_bytes_by_time_or_by_a_wish_that_nobody_minds() {
    let due = |snapshotter: &Snapshotter, core: &Core, idle_for| {
        snapshotter.is_due(core, SnapshotContext { cold_log: None, idle_for })
    };
    let (mut snapshotter, mut core) = (Snapshotter::default(), core());
    assert!(!due(&snapshotter, &core, Nanos::from_secs(9)), "nothing changed");
    snapshotter.wish();
    assert!(due(&snapshotter, &core, Nanos::from_secs(9)), "nobody minds");
    let mut snapshotter = Snapshotter::default();
    core.recorded_mut().note_logged((1 << 20) - 1);
    assert!(!due(&snapshotter, &core, Nanos::ZERO));
    core.set_now(Nanos::from_secs(600));
    assert!(due(&snapshotter, &core, Nanos::ZERO), "the period is over");
    core.set_now(Nanos::ZERO);
    core.recorded_mut().note_logged(1);
    assert!(due(&snapshotter, &core, Nanos::ZERO), "a recovery would read too much");
    snapshotter.demand();
    let mut read_only = core_with(|config| config.read_only = true);
    snapshotter.advance(&mut read_only, &commit(), IDLE);
    assert!(
        commands(&mut read_only).is_empty(),
        "nothing is written on a volume that is only read"
    );
}

#[test]
fn what_is_mapped_while_lists_behind_the_map_are_written_waits_for_the_next_one() {
    let (mut snapshotter, mut core, commit) = (Snapshotter::default(), of_pieces(), commit());
    snapshotter.demand();
    snapshotter.advance(&mut core, &commit, IDLE);
    let (mut pieces, mut written) = (0, 0);
    pieces += sent(&mut core).len();
    while !under_way(&snapshotter).is_empty() {
        written += 1;
        core.recorded_mut().fill(40_000 + written * 8, 8, Place::Zero);
        answer(&mut snapshotter, &mut core, &commit, Ok(Payload::EMPTY));
        snapshotter.advance(&mut core, &commit, IDLE);
        pieces += sent(&mut core).len();
    }
    assert!(pieces > 2, "{pieces}");
    assert!(!core.has_failed(), "{:?}", core.failure());
}

#[test]
fn a_piece_waits_at_the_disk_while_one_is_written_and_the_flush_waits_for_all() {
    let (mut snapshotter, mut core, commit) = (Snapshotter::default(), of_pieces(), commit());
    snapshotter.demand();
    snapshotter.advance(&mut core, &commit, IDLE);
    let mut pieces = sent(&mut core).len();
    assert_eq!(pieces, 2);
    loop {
        // The second is done first.
        let on_their_way = under_way(&snapshotter);
        let Some(offset) = on_their_way.last() else { break };
        snapshotter.on_body(&mut core, &commit, *offset, Ok(Payload::EMPTY));
        snapshotter.advance(&mut core, &commit, IDLE);
        core.start_flushes();
        let more = sent(&mut core);
        if on_their_way.len() > 1 {
            assert!(more.iter().all(|command| *command == "body"), "{more:?}");
            pieces += more.len();
        } else {
            assert_eq!(more, ["flush"], "after {pieces} pieces");
        }
    }
    assert!(pieces > 2, "{pieces}");
}

#[test]
fn an_attempt_has_failed_when_the_disk_is_done_with_its_other_piece_and_not_before() {
    let (mut snapshotter, mut core, commit) = (Snapshotter::default(), of_pieces(), commit());
    snapshotter.demand();
    snapshotter.advance(&mut core, &commit, IDLE);
    let on_their_way = under_way(&snapshotter);
    assert_eq!((sent(&mut core).len(), on_their_way.len()), (2, 2));
    snapshotter.on_body(&mut core, &commit, on_their_way[0], Err(failure(DiskErrorKind::Gone)));
    for _ in 0..3 {
        core.set_now(core.now() + Nanos::from_secs(5));
        snapshotter.demand();
        snapshotter.advance(&mut core, &commit, IDLE);
        assert_eq!(sent(&mut core), [""; 0], "it would come under what is on its way");
        assert!(snapshotter.is_busy() && !snapshotter.has_failed());
    }
    snapshotter.on_body(&mut core, &commit, on_their_way[1], Ok(Payload::EMPTY));
    assert!(snapshotter.has_failed());
    snapshotter.advance(&mut core, &commit, IDLE);
    assert_eq!(under_way(&snapshotter), on_their_way, "the next attempt goes to the same slot");
}

#[test]
fn space_lacks_as_long_as_one_piece_finds_none() {
    let (mut snapshotter, mut core, commit) = (Snapshotter::default(), of_pieces(), commit());
    snapshotter.demand();
    snapshotter.advance(&mut core, &commit, IDLE);
    let [first, second] = under_way(&snapshotter)[..] else { panic!() };
    for offset in [first, second] {
        let result = Err(failure(DiskErrorKind::OutOfSpace));
        snapshotter.on_body(&mut core, &commit, offset, result);
    }
    core.set_now(snapshotter.wake(&core, Some(core.now())).unwrap());
    snapshotter.advance(&mut core, &commit, IDLE);
    snapshotter.on_body(&mut core, &commit, first, Ok(Payload::EMPTY));
    assert!(snapshotter.is_short_of_space() && core.watch().shortage().is_some());
    snapshotter.on_body(&mut core, &commit, second, Ok(Payload::EMPTY));
    assert!(!snapshotter.is_short_of_space() && core.watch().shortage().is_none());
}

/// A chain whose log 5 took a record that nobody needs any more: it is free, and its last record ended at block 10.
fn a_chain_with_a_free_log() -> Core {
    let mut core = core_of(LayoutKind::Chain, |_| {});
    let chunk_sector = core.logs().sectors_of(5).unwrap().start + 8;
    let place = Place::Log { chunk_sector, chunk_len: 8, offset: 0 };
    let entry = Entry { home_sector: 0, len_sectors: 8, place, crc: 0 };
    core.logs_mut().note_claimed(5);
    core.logs_mut().advance(5, 0, 10);
    core.logs_mut().add_entry(&entry);
    for _ in 0..2 {
        core.logs_mut().snapshot_begins(&[]);
        core.logs_mut().snapshot_committed();
    }
    core.logs_mut().drop_live(&entry);
    core
}

#[test]
fn a_free_log_of_a_chain_is_told_to_begin_at_its_start() {
    let core = a_chain_with_a_free_log();
    assert_eq!(core.logs().present().map(|(_, ring)| ring.position()).collect::<Vec<_>>(), [10]);
    let items = body::what_follows_the_map(&core, &[], &[5]);
    let states = items.into_iter().filter_map(|item| match item {
        BodyItem::Log(state) => Some((state.log_index, state.position)),
        _ => None,
    });
    assert_eq!(
        states.collect::<Vec<_>>(),
        [(5, 0)],
        "as a record's claim says, whichever comes first"
    );
}
