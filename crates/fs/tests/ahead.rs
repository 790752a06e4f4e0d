//! Reads of pages that a write in part needs, and those ahead of it: never older than what was written since, and no more than a bound.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_basics::Random;
use nearhead_disk::Nanos;
use nearhead_ext4::{AttributeChange, Ino, ROOT};
use nearhead_fs::{Answer, FsOperation};
use support::{Client, Ram, SIZE, assert_clean, buffer, pattern};

const PAGE: u64 = 4096;

/// A mount of a file system with a file of these bytes, nothing of which is in memory.
fn with_file(mode: &str, bytes: &[u8]) -> Option<(Client, Ino)> {
    let mut client = Client::fresh(mode)?;
    let file = client.create(ROOT, "a");
    for (at, part) in (0_u64..).zip(bytes.chunks(1 << 20)) {
        client.write(file, at << 20, part);
    }
    client.sync(file);
    let mut client = Client::of(Ram::of(SIZE, client.unmount()), mode);
    let file = client.find("a")?;
    // What is known of free blocks is in memory then: tests hold back reads.
    let other = client.create(ROOT, "b");
    client.write(other, 0, b"b");
    client.sync(other);
    client.cut(other, 0);
    client.sync(other);
    Some((client, file))
}

fn write(ino: Ino, offset: u64, bytes: &[u8]) -> FsOperation {
    FsOperation::Write { ino, offset, data: buffer(bytes), is_durable: false }
}

fn cut(ino: Ino, size: u64) -> FsOperation {
    FsOperation::SetAttributes { ino, change: AttributeChange::default(), size: Some(size) }
}

/// Parts of the first three pages are written in order; what is read ahead of them is on its way and not answered.
fn with_reads_ahead_held(mode: &str, bytes: &[u8]) -> Option<(Client, Ino)> {
    let (mut client, file) = with_file(mode, bytes)?;
    for page in 0..2 {
        client.write(file, page * PAGE, &[1; 100]);
    }
    client.mounted.service_mut().holds_reads = true;
    assert!(client.try_ask(write(file, 2 * PAGE, &[1; 100])).is_none(), "it waits for the page");
    // The page that it waits for; what is read ahead is asked for then.
    client.mounted.service_mut().let_one_go();
    client.drive();
    assert!(matches!(client.mounted.poll_reply().unwrap().result, Ok(Answer::Written(100))));
    assert!(client.mounted.report().ahead_bytes > 4 * PAGE);
    Some((client, file))
}

/// What the three pages are then.
fn with_parts_written(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.chunks_mut(PAGE as usize).take(3).for_each(|page| page[..100].fill(1));
    bytes
}

fn read_ahead_bytes(client: &Client) -> u64 {
    client.mounted.report().counts.read_ahead_bytes
}

#[test]
fn a_page_that_is_cut_away_while_it_is_read_does_not_come_back() {
    let Some((mut client, file)) = with_file("manylogs", &pattern(1, 4096)) else { return };
    client.mounted.service_mut().holds_reads = true;
    assert!(client.try_ask(write(file, 100, b"part")).is_none(), "it waits for the page");
    assert!(matches!(client.try_ask(cut(file, 0)), Some(Ok(_))));
    client.mounted.service_mut().let_go();
    client.drive();
    let mut expected = vec![0; 104];
    expected[100..].copy_from_slice(b"part");
    assert_eq!(client.read(file, 0, 4096), expected);
    client.sync(file);
    assert_clean(SIZE, &client.unmount(), "cut while it was read");
}

#[test]
fn parts_that_are_written_in_order_wait_for_few_reads_and_all_of_the_file_is_as_written() {
    for (mode, part) in [("nearhead", 512), ("wasteless", 700), ("ordered", 3000), ("data", 9000)] {
        let mut bytes = pattern(2, 1 << 20);
        let Some((mut client, file)) = with_file(mode, &bytes) else { return };
        let before = client.mounted.service().reads;
        let new = pattern(3, (1 << 20) - 77);
        for (nth, bytes) in (0_u64..).zip(new.chunks(part)) {
            client.write(file, nth * part as u64, bytes);
            if nth % 16 == 15 {
                client.sync(file);
            }
        }
        let reads = client.mounted.service().reads - before;
        // Of 256 pages, each of which would be one.
        assert!(reads <= 16, "{mode}: {reads} reads for parts of {part} bytes");
        assert!(read_ahead_bytes(&client) <= 1 << 20, "nothing is read twice");
        bytes[..new.len()].copy_from_slice(&new);
        assert!(client.read(file, 0, 1 << 20) == bytes, "{mode}");
        let blocks = client.unmount();
        assert_clean(SIZE, &blocks, mode);
        let mut client = Client::of(Ram::of(SIZE, blocks), mode);
        let file = client.find("a").unwrap();
        assert!(client.read(file, 0, 1 << 20) == bytes, "{mode}, after a mount");
    }
}

#[test]
fn nothing_is_read_ahead_of_parts_anywhere_of_whole_blocks_of_one_block_or_of_a_file_that_grows() {
    let Some((mut client, file)) = with_file("nearhead", &pattern(4, 2 << 20)) else { return };
    let mut random = Random::new(1);
    for _ in 0..500 {
        // Two of the places are never neighbours.
        client.write(file, random.below(128) * 4 * PAGE + random.below(3000), &[1; 300]);
    }
    for page in 0..64 {
        client.write(file, page * PAGE, &[2; PAGE as usize]);
    }
    for at in 0..100 {
        client.write(file, 100 * PAGE + at * 7 % 3000, &[3; 9]);
    }
    let new = client.create(ROOT, "new");
    for at in 0..500 {
        client.write(new, at * 300, &[4; 300]);
    }
    assert_eq!(read_ahead_bytes(&client), 0);
}

#[test]
fn what_is_read_ahead_replaces_nothing_that_was_written_cut_or_grown_meanwhile() {
    let mut bytes = pattern(5, 80 * PAGE as usize);
    let Some((mut client, file)) = with_reads_ahead_held("nearhead", &bytes) else { return };
    bytes = with_parts_written(bytes);
    // Whole pages, for which nothing has to be read; then the file ends before others, and is longer again.
    client.write(file, 5 * PAGE, &[9; 2 * PAGE as usize]);
    bytes[5 * PAGE as usize..7 * PAGE as usize].fill(9);
    for size in [20 * PAGE, 40 * PAGE] {
        assert!(matches!(client.try_ask(cut(file, size)), Some(Ok(_))));
    }
    bytes.truncate(20 * PAGE as usize);
    bytes.resize(40 * PAGE as usize, 0);
    client.mounted.service_mut().let_go();
    client.drive();
    assert!(client.read(file, 0, 1 << 20) == bytes);
    client.write(file, 30 * PAGE + 5, &[6; 5]);
    bytes[30 * PAGE as usize + 5..][..5].fill(6);
    assert!(client.read(file, 0, 1 << 20) == bytes, "around a part of a page that was cut");
    let blocks = client.unmount();
    assert_clean(SIZE, &blocks, "read ahead");
    let mut client = Client::of(Ram::of(SIZE, blocks), "nearhead");
    let file = client.find("a").unwrap();
    assert!(client.read(file, 0, 1 << 20) == bytes, "after a mount");
}

#[test]
fn who_waits_for_a_page_of_a_read_ahead_that_fails_gets_it_by_a_read_of_its_own() {
    let bytes = pattern(6, 80 * PAGE as usize);
    let Some((mut client, file)) = with_file("nearhead", &bytes) else { return };
    for page in 0..2 {
        client.write(file, page * PAGE, &[1; 100]);
    }
    client.mounted.service_mut().holds_reads = true;
    assert!(client.try_ask(write(file, 2 * PAGE, &[1; 100])).is_none());
    client.mounted.service_mut().is_broken = true;
    client.mounted.service_mut().let_one_go();
    client.drive();
    assert!(client.mounted.poll_reply().is_some_and(|reply| reply.result.is_ok()));
    let waits = client.send(write(file, 3 * PAGE, &[1; 100]));
    client.mounted.service_mut().is_broken = false;
    assert!(client.mounted.poll_reply().is_none(), "it waits for what is read ahead");
    client.mounted.service_mut().let_go();
    client.drive();
    let reply = client.mounted.poll_reply().unwrap();
    assert!(reply.id == waits && reply.result.is_ok(), "{:?}", reply.result);
    let mut expected = with_parts_written(bytes);
    expected[3 * PAGE as usize..][..100].fill(1);
    assert!(client.read(file, 0, 1 << 20) == expected);
}

#[test]
fn all_that_is_ahead_of_all_writers_is_no_more_than_16_mib_and_who_left_gives_it_to_others() {
    let Some(mut client) = Client::fresh("nearhead") else { return };
    let files: Vec<Ino> = (0..150).map(|nth| client.create(ROOT, &format!("{nth}"))).collect();
    for file in &files {
        client.write(*file, 0, &pattern(7, 70 * PAGE as usize));
        client.sync(*file);
    }
    let mut client = Client::of(Ram::of(SIZE, client.unmount()), "nearhead");
    let files: Vec<Ino> = (0..150).map(|nth| client.find(&format!("{nth}")).unwrap()).collect();
    let mut most = 0;
    let mut write_three = |client: &mut Client, file: Ino, from: u64| {
        for page in from..from + 3 {
            client.write(file, page * PAGE, &[1; 100]);
            most = most.max(client.mounted.report().ahead_bytes);
        }
    };
    for file in &files {
        write_three(&mut client, *file, 0);
    }
    let before = read_ahead_bytes(&client);
    client.now = Nanos(client.now.0 + 11_000_000_000);
    write_three(&mut client, files[149], 3);
    assert!(read_ahead_bytes(&client) > before, "nothing for the last one");
    assert!((12 << 20..=16 << 20).contains(&most), "{most} bytes");
    for file in &files {
        client.try_ask(FsOperation::Forget { ino: *file, count: u64::MAX });
    }
    assert_eq!(client.mounted.report().ahead_bytes, 0, "nobody can write any of them");
}
