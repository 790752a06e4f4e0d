//! The helper over pipes, as a program in any language meets it: what is acknowledged is found,
//! nothing has gaps, and what is against the protocol is told and harms nobody.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is the test failing")]

#[path = "support/pipes.rs"]
mod pipes;

use nearhead_basics::SplitMix;
use nearhead_wal::read_log;
use pipes::*;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("helper-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir(&path).unwrap();
    path
}

fn content(random: &mut SplitMix, len: usize) -> Vec<u8> {
    (0..len).map(|_| (random.next_u64() as u8).max(1)).collect()
}

#[test]
fn a_stream_over_pipes_is_the_file_it_wrote() {
    let place = directory("stream");
    let path = place.join("log");
    let mut helper = Pipes::start();
    let opened = helper.open_stream(5, 3, 0, &path);
    assert_eq!((opened.number(0), opened.number(8)), (0, 0));
    let choice = String::from_utf8(opened.body[16..].to_vec()).unwrap();
    assert!(choice.contains("helper process") && choice.lines().count() == 1, "{choice}");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    let mut random = SplitMix::new(1);
    let mut all = Vec::new();
    for round in 0..40 {
        let len = random.below(30_000) as usize;
        let more = content(&mut random, len);
        assert!(helper.send(WRITE, 5, &more));
        all.extend(more);
        let position = helper.ask(POSITION, 5, &[]).unwrap();
        assert_eq!(position.number(0), all.len() as u64);
        if round % 3 == 0 {
            let synced = helper.ask(SYNC, 5, &[]).unwrap();
            assert_eq!((synced.number(0), synced.number(8)), (all.len() as u64, all.len() as u64));
            assert!(std::fs::read(&path).unwrap()[..all.len()] == all);
        }
    }
    let cut = (all.len() - 1234) as u64;
    assert_eq!(helper.ask(TRUNCATE, 5, &cut.to_le_bytes()).unwrap().number(8), cut);
    all.truncate(cut as usize);
    let asked = [&777_u64.to_le_bytes()[..], &5000_u32.to_le_bytes(), &[0; 4]].concat();
    assert!(helper.ask(READ, 5, &asked).unwrap().body == all[777..5777]);
    assert_eq!(helper.ask(CLOSE, 5, &[]).unwrap().number(0), cut);
    assert!(std::fs::read(&path).unwrap() == all);
    // The handle is free again, and `at` means what the page says.
    assert_eq!(helper.open_stream(5, 0, 0, &path).code(), 2);
    assert_eq!(helper.open_stream(5, 4, 0, &path).number(0), cut);
    assert_eq!(helper.open_stream(5, 1, 0, &path).code(), 9, "the handle is in use");
    assert_eq!(helper.ask(CLOSE, 5, &[]).unwrap().number(0), cut);
    assert_eq!(helper.open_stream(5, 2, 10, &path).number(0), 10);
    assert_eq!(helper.ask(CLOSE, 5, &[]).unwrap().number(0), 10);
    assert!(std::fs::read(&path).unwrap() == all[..10]);
    assert_eq!(helper.end().code(), Some(0));
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn a_log_over_pipes_has_no_gap_after_it_was_full() {
    let place = directory("log");
    let path = place.join("log");
    let mut helper = Pipes::start();
    let opened = helper.open_log(1, 3, &path);
    assert_eq!([0, 8, 16].map(|at| opened.number(at)), [1, 1, 1]);
    let record = |lsn: u64| vec![lsn as u8; 3000 + lsn as usize];
    // Sent without waiting for anything, until the log is full; what is behind that is dropped.
    for lsn in 1..=100 {
        assert!(helper.send(APPEND, 1, &record(lsn)));
    }
    assert!(helper.send(COMMIT, 1, &[]));
    let full = helper.receive().unwrap();
    assert_eq!(full.code(), 7, "{}", full.text());
    let next = u64::from_le_bytes(full.body[8..16].try_into().unwrap());
    assert_eq!(full.tag, 2 + next, "the first that failed is the one that was told");
    assert_eq!(helper.receive().unwrap().code(), 15, "nothing is committed over a gap");
    assert_eq!(helper.ask(COMMIT, 1, &[]).unwrap().code(), 15);
    let resumed = helper.ask(RESUME, 1, &[]).unwrap();
    assert_eq!(resumed.number(8), next);
    let committed = helper.ask(COMMIT, 1, &[]).unwrap();
    assert_eq!(committed.number(16), next);
    let truncated = helper.ask(TRUNCATE_PREFIX, 1, &(next - 5).to_le_bytes()).unwrap();
    assert!(truncated.number(0) > 1);
    for lsn in next..next + 6 {
        assert!(helper.send(APPEND, 1, &record(lsn)));
    }
    let committed = helper.ask(COMMIT, 1, &[]).unwrap();
    assert_eq!((committed.number(8), committed.number(16)), (next + 6, next + 6));
    let mut from = next - 5;
    while from < next + 6 {
        let asked = [from.to_le_bytes(), [0; 8]].concat();
        let found = helper.ask(RECORDS, 1, &asked).unwrap();
        let mut rest = &found.body[..];
        assert!(!rest.is_empty(), "records from {from}");
        while !rest.is_empty() {
            let lsn = u64::from_le_bytes(rest[..8].try_into().unwrap());
            let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
            assert_eq!((lsn, &rest[16..16 + len]), (from, &record(from)[..]));
            (rest, from) = (&rest[16 + len..], from + 1);
        }
    }
    assert_eq!(helper.ask(CLOSE, 1, &[]).unwrap().number(16), next + 6);
    assert_eq!(helper.end().code(), Some(0));
    let mut last = 0;
    read_log(&path, |lsn, bytes| {
        assert_eq!(bytes, record(lsn.0));
        last = lsn.0;
    })
    .unwrap();
    assert_eq!(last, next + 5);
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn killed_at_any_moment_it_leaves_everything_it_acknowledged() {
    let place = directory("killed");
    let mut acknowledged = 0;
    for seed in 0..12 {
        let mut random = SplitMix::new(seed);
        let path = place.join(format!("log-{seed}"));
        let mut helper = Pipes::start();
        helper.open_stream(0, 0, 0, &path);
        let (mut all, mut durable) = (Vec::new(), 0);
        let kill_after = random.below(60);
        for round in 0.. {
            let len = 1 + random.below(9000) as usize;
            let more = content(&mut random, len);
            helper.send(WRITE, 0, &more);
            all.extend(more);
            if round == kill_after {
                // Now it has one to two requests that it has not answered.
                helper.send(SYNC, 0, &[]);
                helper.child.kill().unwrap();
            } else if random.below(2) == 0 {
                match helper.ask(SYNC, 0, &[]) {
                    Some(synced) => durable = synced.number(8) as usize,
                    None => break,
                }
            }
            if round >= kill_after {
                break;
            }
        }
        while let Some(answer) = helper.receive() {
            durable = answer.number(8) as usize;
        }
        helper.child.wait().unwrap();
        acknowledged += durable;
        let found = std::fs::read(&path).unwrap();
        assert!(found[..durable] == all[..durable], "seed {seed}: {durable} bytes acknowledged");
        for (at, byte) in found.iter().enumerate().skip(durable) {
            let written = all.get(at).copied().unwrap_or(0);
            assert!(*byte == 0 || *byte == written, "seed {seed}, byte {at}");
        }
        // Another helper takes up where the first is known to have come.
        let mut helper = Pipes::start();
        let opened = helper.open_stream(0, 2, durable as u64, &path);
        assert_eq!(opened.number(0), durable as u64);
        helper.send(WRITE, 0, &all[durable..]);
        assert_eq!(helper.ask(CLOSE, 0, &[]).unwrap().number(0), all.len() as u64);
        assert!(std::fs::read(&path).unwrap() == all, "seed {seed}");
        helper.end();
    }
    assert!(acknowledged > 100_000, "{acknowledged}");
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn at_the_end_of_its_input_it_finishes_what_it_was_sent() {
    let place = directory("end");
    let path = place.join("log");
    let mut helper = Pipes::start();
    helper.open_stream(0, 0, 0, &path);
    for _ in 0..200 {
        helper.send(WRITE, 0, &[7; 10_000]);
    }
    helper.send(SYNC, 0, &[]);
    // Nobody waits for the answer: the file is opened while the helper may still be busy with it.
    helper.input = None;
    let mut next = Pipes::start();
    assert_eq!(next.open_stream(0, 2, 2_000_000, &path).number(0), 2_000_000);
    assert_eq!(next.ask(CLOSE, 0, &[]).unwrap().number(0), 2_000_000);
    assert!(std::fs::read(&path).unwrap() == vec![7; 2_000_000]);
    assert_eq!(helper.end().code(), Some(0));
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn many_syncs_that_arrive_together_are_each_answered_in_order() {
    let place = directory("many");
    let mut helper = Pipes::start();
    helper.open_stream(0, 0, 0, &place.join("log"));
    for _ in 0..200 {
        helper.send(WRITE, 0, b"0123456789");
        helper.send(SYNC, 0, &[]);
    }
    for index in 1..=200 {
        let answer = helper.receive().unwrap();
        assert_eq!(answer.tag, 2 + 2 * index);
        assert!(answer.number(8) >= 10 * index, "what came before it is durable");
    }
    assert_eq!(helper.end().code(), Some(0));
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn what_is_against_the_protocol_is_told_and_ends_it_where_it_must() {
    let wrong_header =
        [&9_u32.to_le_bytes()[..], &[1, 0, 1, 0], &[1; 8], &[0; 4], &[0; 9]].concat();
    let too_large = [&(1_u32 << 21).to_le_bytes()[..], &[3, 0, 0, 0], &[1; 8], &[0; 4]].concat();
    let half = [&9_u32.to_le_bytes()[..], &[3, 0, 0, 0], &[1; 8], &[0; 4], &[0; 2]].concat();
    for bytes in [wrong_header, too_large, half, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()] {
        let mut helper = Pipes::start();
        assert!(helper.raw(&bytes));
        helper.input = None;
        let answer = helper.receive().unwrap();
        assert_eq!((answer.code(), answer.tag), (9, 0), "{}", answer.text());
        assert_eq!(helper.receive(), None);
        assert_eq!(helper.child.wait().unwrap().code(), Some(2));
    }
    for first in [(SYNC, &b""[..]), (HELLO, b"NHWP\x02\0\0\0"), (HELLO, b"")] {
        let mut helper = Pipes::silent();
        assert_eq!(helper.ask(first.0, 0, first.1).unwrap().code(), 9);
        assert_eq!(helper.child.wait().unwrap().code(), Some(2));
    }
    let mut helper = Pipes::start();
    for kind in [HELLO, SYNC, COMMIT, CLOSE, POSITION, RESUME, OPEN_FILE, 99, 0x8004] {
        let answer = helper.ask(kind, 3, if kind == OPEN_FILE { &[0; 8] } else { b"" }).unwrap();
        assert_eq!(answer.code(), 9, "{kind}: {}", answer.text());
    }
    // Writes to nothing are told once, however many there are and though nobody reads.
    for _ in 0..20_000 {
        assert!(helper.send(WRITE, 3, b"x"));
    }
    assert!(helper.send(POSITION, 3, &[]));
    assert_eq!(helper.receive().unwrap().code(), 9);
    assert_eq!(helper.receive().unwrap().tag, 20_011);
    assert_eq!(helper.end().code(), Some(0));
}

#[test]
fn a_place_that_cannot_be_written_is_told_with_a_reason() {
    let place = directory("place");
    let mut helper = Pipes::start();
    let missing = helper.open_stream(0, 3, 0, &place.join("missing/log"));
    assert_eq!(missing.code(), 1);
    assert!(missing.text().contains("missing"), "{}", missing.text());
    assert_eq!(helper.open_stream(0, 1, 0, &place.join("log")).code(), 1);
    std::fs::write(place.join("short"), b"12345").unwrap();
    assert_eq!(helper.open_stream(0, 2, 6, &place.join("short")).code(), 9);
    assert_eq!(helper.open_log(0, 3, &place.join("short")).code(), 10);
    assert_eq!(helper.end().code(), Some(0));
    std::fs::remove_dir_all(&place).unwrap();
}
