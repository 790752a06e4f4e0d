//! Durability without a request: soon where the disk has nothing else to do, and after a second at the latest.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_disk::Nanos;
use nearhead_ext4::{AttributeChange, IMMUTABLE_FLAG, Ino, ROOT};
use nearhead_fs::{Answer, FsOperation};
use nearhead_service::Operation;
use support::{Client, Ram, SIZE, buffer, pattern};

const LENS: [usize; 3] = [100, 300_000, 5_000_000];

/// Lets time pass to each moment at which there is something to do, but for those after `end`.
fn pass(client: &mut Client, end: Nanos) {
    while let Some(at) = client.mounted.wake().at.filter(|at| *at <= end) {
        client.now = at.max(client.now);
        client.drive();
    }
    client.now = end;
}

fn write_file(client: &mut Client, name: &str, bytes: &[u8]) -> Ino {
    let ino = client.create(ROOT, name);
    for (at, part) in (0_u64..).zip(bytes.chunks(128 << 10)) {
        client.write(ino, at * (128 << 10), part);
    }
    ino
}

/// Content of a file after a crash that loses all unflushed blocks.
fn left_of(client: &Client, mode: &str, name: &str) -> Vec<u8> {
    let left = client.mounted.service().after_crash_that(&mut || false);
    let mut after = Client::of(Ram::of(SIZE, left), mode);
    let ino = after.find(name);
    ino.map(|ino| after.read(ino, 0, 1 << 24)).unwrap_or_default()
}

#[test]
fn an_idle_disk_has_each_change_durable_in_a_tenth_of_a_second() {
    for mode in nearhead_journal::MODES {
        for len in LENS {
            let Some(mut client) = Client::fresh(mode.name()) else { return };
            let bytes = pattern(1, len);
            write_file(&mut client, "a", &bytes);
            let end = Nanos(client.now.0 + 100_000_000);
            pass(&mut client, end);
            let left = left_of(&client, mode.name(), "a");
            assert!(left == bytes, "{}: {} of {len} bytes", mode.name(), left.len());
            assert_eq!(client.mounted.wake().at, None, "{}: nothing is left to do", mode.name());
        }
    }
}

#[test]
fn a_busy_disk_has_each_change_durable_in_a_second() {
    for mode in nearhead_journal::MODES {
        for len in LENS {
            let Some(mut client) = Client::fresh(mode.name()) else { return };
            let busy = write_file(&mut client, "busy", &pattern(2, 2 << 20));
            client.sync(busy);
            let mut client = Client::of(Ram::of(SIZE, client.unmount()), mode.name());
            // Its metadata is in memory after that. Reads keep it busy all the time.
            write_file(&mut client, "other", &pattern(3, len));
            client.ask(FsOperation::SyncAll).unwrap();
            let busy = client.find("busy").unwrap();
            client.mounted.service_mut().holds_reads = true;
            client.send(FsOperation::Read { ino: busy, offset: 0, len: 1 << 20 });
            let bytes = pattern(1, len);
            write_file(&mut client, "a", &bytes);
            let written = client.now;
            pass(&mut client, Nanos(written.0 + 200_000_000));
            assert!(left_of(&client, mode.name(), "a") != bytes, "{}: early", mode.name());
            pass(&mut client, Nanos(written.0 + 1_000_000_000));
            let left = left_of(&client, mode.name(), "a");
            assert!(left == bytes, "{}: {} of {len} bytes", mode.name(), left.len());
        }
    }
}

#[test]
fn no_commit_comes_between_a_cut_to_nothing_and_its_close() {
    let Some(mut client) = Client::fresh("nearhead") else { return };
    let ino = write_file(&mut client, "a", b"old");
    client.sync(ino);
    client.cut(ino, 0);
    let end = Nanos(client.now.0 + 900_000_000);
    pass(&mut client, end);
    assert!(left_of(&client, "nearhead", "a") == b"old");
    client.write(ino, 0, b"new");
    client.ask(FsOperation::Closed { ino }).unwrap();
    let end = Nanos(client.now.0 + 200_000_000);
    pass(&mut client, end);
    assert!(left_of(&client, "nearhead", "a") == b"new");
}

#[test]
fn an_fsync_waits_for_a_record_of_older_pages_and_not_for_all() {
    let Some(mut client) = Client::fresh("data") else { return };
    let small = client.create(ROOT, "small");
    client.sync(small);
    write_file(&mut client, "bulk", &pattern(1, 16 << 20));
    client.mounted.service_mut().holds_records = true;
    client.now = Nanos(client.now.0 + 1_000_000_000);
    client.drive();
    client.write(small, 0, b"small");
    client.send(FsOperation::Sync { ino: small, data_only: false });
    let mut records = 0;
    while !is_answered(&mut client) {
        client.mounted.service_mut().let_one_go();
        client.drive();
        records += 1;
    }
    assert!(records <= 3, "{records} records before the answer");
    client.mounted.service_mut().let_go();
    client.drive();
    let end = Nanos(client.now.0 + 1_000_000_000);
    pass(&mut client, end);
    assert_eq!(left_of(&client, "data", "bulk").len(), 16 << 20);
}

fn is_answered(client: &mut Client) -> bool {
    let mut is_answered = false;
    while let Some(reply) = client.mounted.poll_reply() {
        is_answered |= matches!(reply.result, Ok(Answer::Nothing));
    }
    is_answered
}

#[test]
fn an_fsync_does_not_flush_bulk_of_other_files() {
    let Some(mut client) = Client::fresh("nearhead") else { return };
    let small = client.create(ROOT, "small");
    client.ask(FsOperation::SyncAll).unwrap();
    write_file(&mut client, "bulk", &pattern(1, 8 << 20));
    let flushes = client.mounted.service().flushes;
    client.mounted.service_mut().holds = |operation| matches!(operation, Operation::Flush);
    let data = buffer(b"small");
    client.ask(FsOperation::Write { ino: small, offset: 0, data, is_durable: true }).unwrap();
    assert_eq!(client.mounted.service().flushes, flushes);
    assert!(left_of(&client, "nearhead", "small") == b"small");
}

/// A cut waits until the writes under way have ended. One that is refused by then holds back no later bulk.
#[test]
fn bulk_goes_in_place_after_a_refused_cut() {
    let Some(mut client) = Client::fresh("nearhead") else { return };
    client.mounted.service_mut().holds_bulk = true;
    let ino = write_file(&mut client, "a", &pattern(1, 2 << 20));
    assert!(client.mounted.service().held() > 0);
    let change = AttributeChange::default();
    client.send(FsOperation::SetAttributes { ino, change, size: Some(100) });
    let set_flags = |flags| FsOperation::SetFlags { ino, flags, mask: IMMUTABLE_FLAG };
    client.ask(set_flags(IMMUTABLE_FLAG)).unwrap();
    client.mounted.service_mut().let_go();
    client.drive();
    let end = Nanos(client.now.0 + 2_000_000_000);
    pass(&mut client, end);
    client.ask(set_flags(0)).unwrap();
    assert_eq!(client.size(ino), 2 << 20, "the cut is refused");
    let before = client.mounted.report().counts.in_place_bytes;
    for at in 0..16 {
        client.write(ino, (2 << 20) + at * (128 << 10), &pattern(2, 128 << 10));
    }
    let end = Nanos(client.now.0 + 2_000_000_000);
    pass(&mut client, end);
    assert_eq!(client.mounted.report().counts.in_place_bytes - before, 2 << 20);
}
