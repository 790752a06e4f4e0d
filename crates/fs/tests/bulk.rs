//! Bulk beside commits: who waits for whom, what a commit brings, and what an `fsync` was answered for although others go on writing.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_disk::Nanos;
use nearhead_ext4::{FileKind, ROOT};
use nearhead_fs::{Answer, FsOperation, RoomChange, Sought};
use support::{Client, Ram, SIZE, assert_clean, buffer, empty_in_groups, make, pattern};

#[test]
fn data_journaling_writes_a_long_file_into_records_too() {
    let Some(mut client) = Client::fresh("data") else { return };
    let file = client.create(ROOT, "bulk");
    let bytes = pattern(3, 5 << 20);
    for (at, part) in (0_u64..).zip(bytes.chunks(128 << 10)) {
        client.write(file, at * (128 << 10), part);
    }
    client.sync(file);
    let ram = client.mounted.service();
    assert_eq!(ram.in_place_bytes, 0);
    assert!(ram.atomic_bytes >= 5 << 20, "{}", ram.atomic_bytes);
    let blocks = client.unmount();
    assert_clean(SIZE, &blocks, "bulk in records");
}

#[test]
fn an_fsync_waits_for_nobody_elses_bulk_even_if_that_is_old() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let (bulk, small) = (client.create(ROOT, "bulk"), client.create(ROOT, "small"));
    client.mounted.service_mut().holds_bulk = true;
    for at in 0..8 {
        client.write(bulk, at << 20, &pattern(at, 1 << 20));
    }
    // Six seconds later a commit for what became old is due, and the bulk is still under way.
    client.now = Nanos(client.now.0 + 6_000_000_000);
    client.drive();
    client.write(small, 0, b"committed");
    let synced = client.try_ask(FsOperation::Sync { ino: small, data_only: false });
    assert!(matches!(synced, Some(Ok(Answer::Nothing))), "{synced:?}");
    assert_eq!(client.mounted.service().in_place_bytes, 8 << 20);
    client.mounted.service_mut().let_go();
    client.sync(bulk);
    let blocks = client.unmount();
    assert_clean(SIZE, &blocks, "bulk beside a commit");
    let mut client = Client::of(Ram::of(SIZE, blocks), "manylogs");
    let bulk = client.find("bulk").unwrap();
    assert_eq!(client.size(bulk), 8 << 20);
    assert_eq!(client.read(bulk, 7 << 20, 1 << 20), pattern(7, 1 << 20));
}

#[test]
fn what_an_fsync_was_asked_for_is_durable_although_the_file_goes_on_as_bulk_meanwhile() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let file = client.create(ROOT, "log");
    client.mounted.service_mut().holds_bulk = true;
    client.write(file, 0, &pattern(1, 1 << 20));
    let tail = pattern(2, 20_000);
    client.write(file, 1 << 20, &tail);
    // The fsync waits for the first MiB; the tail becomes part of the next one, which goes in place as well.
    client.send(FsOperation::Sync { ino: file, data_only: false });
    client.write(file, (1 << 20) + 20_000, &pattern(3, 1 << 20));
    client.mounted.service_mut().let_one_go();
    client.drive();
    let mut answers = answers_to_sync(&mut client);
    if answers == 0 {
        client.mounted.service_mut().let_go();
        client.drive();
        answers = answers_to_sync(&mut client);
    }
    assert_eq!(answers, 1);
    let left = client.mounted.service().after_crash_that(&mut || false);
    let mut after = Client::of(Ram::of(SIZE, left), "manylogs");
    let file = after.find("log").unwrap();
    assert_eq!(after.read(file, 1 << 20, 20_000), tail);
}

#[test]
fn a_small_write_finds_room_in_memory_while_bulk_waits_for_it() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let (bulk, small) = (client.create(ROOT, "bulk"), client.create(ROOT, "small"));
    client.mounted.service_mut().holds_bulk = true;
    let mib = buffer(&pattern(1, 1 << 20));
    let mut offset = 0;
    loop {
        // Over and over the same: the disk of the test is small.
        let write = FsOperation::Write {
            ino: bulk,
            offset: offset % (16 << 20),
            data: mib.clone(),
            is_durable: false,
        };
        if client.try_ask(write).is_none() {
            break;
        }
        offset += 1 << 20;
        assert!(offset <= 64 << 20, "bulk never waits");
    }
    let write =
        FsOperation::Write { ino: small, offset: 0, data: buffer(b"little"), is_durable: false };
    let written = client.try_ask(write);
    assert!(matches!(written, Some(Ok(Answer::Written(6)))), "{written:?}");
}

#[test]
fn a_commit_comes_to_its_end_beside_somebody_who_goes_on_writing() {
    let Some(mut client) = Client::fresh("data") else { return };
    let (bulk, small) = (client.create(ROOT, "bulk"), client.create(ROOT, "small"));
    client.sync(bulk);
    for at in 0..4 {
        client.write(bulk, at << 20, &pattern(at, 1 << 20));
    }
    client.write(small, 0, b"committed");
    client.mounted.service_mut().holds_records = true;
    client.send(FsOperation::Sync { ino: bulk, data_only: false });
    client.send(FsOperation::Sync { ino: small, data_only: false });
    // Each time a record is durable, another MiB was written.
    let mut answers = 0;
    for at in 4..16 {
        client.write(bulk, at << 20, &pattern(at, 1 << 20));
        client.mounted.service_mut().let_one_go();
        client.drive();
        answers += answers_to_sync(&mut client);
        if answers == 2 {
            break;
        }
    }
    assert_eq!(answers, 2, "the commit never ends");
    client.mounted.service_mut().let_go();
    client.drive();
    let left = client.mounted.service().after_crash_that(&mut || false);
    assert_clean(SIZE, &left, "after commits in parts");
    let mut after = Client::of(Ram::of(SIZE, left), "data");
    let bulk = after.find("bulk").unwrap();
    assert!(after.size(bulk) >= 4 << 20);
    assert_eq!(after.read(bulk, 3 << 20, 1 << 20), pattern(3, 1 << 20));
}

#[test]
fn an_fsync_between_two_records_of_a_commit_is_answered_once_its_own_bytes_are_durable() {
    let Some(mut client) = Client::fresh("data") else { return };
    let (bulk, small) = (client.create(ROOT, "bulk"), client.create(ROOT, "small"));
    client.sync(bulk);
    for at in 0..4 {
        client.write(bulk, at << 20, &pattern(at, 1 << 20));
    }
    client.mounted.service_mut().holds_records = true;
    client.send(FsOperation::Sync { ino: bulk, data_only: false });
    // Its first record is under way.
    client.write(small, 0, b"committed");
    client.send(FsOperation::Sync { ino: small, data_only: false });
    let mut answers = 0;
    for _ in 0..20 {
        client.mounted.service_mut().let_one_go();
        client.drive();
        answers += answers_to_sync(&mut client);
        if answers == 2 {
            break;
        }
    }
    // Its own record is none that is still under way.
    assert_eq!((answers, client.mounted.service().held()), (2, 0));
    let left = client.mounted.service().after_crash_that(&mut || false);
    let mut after = Client::of(Ram::of(SIZE, left), "data");
    let small = after.find("small").unwrap();
    assert_eq!(after.read(small, 0, 9), b"committed");
}

#[test]
fn metadata_all_over_the_disk_that_changes_while_a_commit_waits_fits_its_records() {
    let blocks =
        nearhead_ext4::blank::image(600, 64, [3; 16], nearhead_ext4::Timestamp::default()).unwrap();
    let blocks: support::Blocks =
        blocks.into_iter().map(|(at, bytes)| (at, std::rc::Rc::new(bytes.to_vec()))).collect();
    let size = 600 * nearhead_ext4::blank::GROUP_BLOCKS * 4096;
    for mode in ["ordered", "manylogs"] {
        let ram = Ram::of(size, blocks.clone());
        let mut client = Client::of(ram, mode);
        let folders: Vec<_> =
            (0..150).map(|nth| client.directory(ROOT, &format!("folder{nth}"))).collect();
        client.mounted.service_mut().holds_bulk = true;
        let mut files = Vec::new();
        for (nth, folder) in folders.iter().enumerate() {
            let new = make(*folder, "file", FileKind::Regular);
            // Some wait until the commit that is under way takes what is changed.
            let Some(Ok(Answer::Node(node))) = client.try_ask(new) else {
                client.mounted.service_mut().let_go();
                client.drive();
                while client.mounted.poll_reply().is_some() {}
                files.push(client.find(&format!("folder{nth}/file")).unwrap());
                client.mounted.service_mut().holds_bulk = true;
                continue;
            };
            files.push(node.ino);
            client.write(node.ino, 0, &pattern(nth as u64, 100_000));
        }
        client.send(FsOperation::SyncAll);
        client.mounted.service_mut().let_go();
        client.drive();
        for file in files {
            client.sync(file);
        }
        client.end();
    }
}

/// Of replies that came, those that say no more than that all is well.
fn answers_to_sync(client: &mut Client) -> usize {
    let replies = std::iter::from_fn(|| client.mounted.poll_reply());
    replies.filter(|reply| matches!(reply.result, Ok(Answer::Nothing))).count()
}

/// Each block that is free is in a group of its own, so that a run takes more metadata than a record has room for.
#[test]
fn what_lies_in_more_groups_than_a_record_has_blocks_takes_several_records() {
    const GROUP_BLOCKS: u64 = 256;
    const GROUPS: u64 = 400;
    let size = GROUPS * GROUP_BLOCKS * 4096;
    let Some(blocks) = empty_in_groups(size, GROUP_BLOCKS as u32) else { return };
    for mode in ["data", "manylogs", "nearhead"] {
        let mut client = Client::of(Ram::of(size, blocks.clone()), mode);
        let change = |client: &mut Client, ino, offset: u64, len: u64, change| {
            let (offset, len) = (offset * 4096, len * 4096);
            let done = client.ask(FsOperation::ChangeRoom { ino, offset, len, change });
            assert!(done.is_ok(), "{mode}: {done:?}");
        };
        let (filler, bulk) = (client.create(ROOT, "filler"), client.create(ROOT, "bulk"));
        let len = free_blocks(&mut client) - 8;
        change(&mut client, filler, 0, len, RoomChange::Reserve);
        for group in 0..len / GROUP_BLOCKS {
            change(&mut client, filler, group * GROUP_BLOCKS, 1, RoomChange::Punch);
        }
        client.sync(filler);
        let bytes = pattern(6, 300 * 4096);
        client.write(bulk, 0, &bytes);
        client.sync(bulk);
        assert!(client.read(bulk, 0, bytes.len() as u32) == bytes, "{mode}");
        assert_clean(size, &client.mounted.service().durable, mode);
        // What is zeros already stays where it is, and so do bytes that nobody asked about.
        change(&mut client, bulk, 10, 290, RoomChange::Zero);
        let found = client.read(bulk, 0, bytes.len() as u32);
        let is_zeros = found[10 * 4096..].iter().all(|byte| *byte == 0);
        assert!(is_zeros && found[..10 * 4096] == bytes[..10 * 4096], "{mode}");
        change(&mut client, filler, 0, len, RoomChange::Punch);
        client.sync(filler);
        assert!(free_blocks(&mut client) > len - 360, "{mode}");
        assert_clean(size, &client.unmount(), mode);
    }
}

fn free_blocks(client: &mut Client) -> u64 {
    match client.ask(FsOperation::Statistics) {
        Ok(Answer::Statistics(statistics)) => statistics.free,
        other => panic!("{other:?}"),
    }
}

/// A copy that skips holes would lose what is on its way to the disk.
#[test]
fn seek_finds_data_while_its_write_is_in_flight() {
    for (mode, len) in [("manylogs", 3 << 20), ("ordered", 200_000), ("manylogs", 4096)] {
        let Some(mut client) = Client::fresh(mode) else { return };
        let file = client.create(ROOT, "file");
        client.mounted.service_mut().holds_bulk = true;
        client.mounted.service_mut().holds_records = true;
        client.write(file, 0, &pattern(9, len));
        client.send(FsOperation::Sync { ino: file, data_only: false });
        let mut seek = |sought| client.ask(FsOperation::Seek { ino: file, offset: 0, sought });
        let found = [seek(Sought::Data), seek(Sought::Hole)].map(Result::unwrap);
        let is_right =
            matches!(found, [Answer::Offset(0), Answer::Offset(end)] if end == len as u64);
        assert!(is_right, "{mode}, {len} bytes: {found:?}");
        client.mounted.service_mut().let_go();
        client.drive();
    }
}
