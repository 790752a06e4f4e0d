//! What files are for: what was written is read again, durable when it was said to be, and e2fsck finds nothing.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_disk::Nanos;
use nearhead_ext4::{FileKind, IMMUTABLE_FLAG, Ino, ROOT};
use nearhead_fs::{Answer, DURABILITY_ONLY_FLAG, FsOperation, RoomChange};
use support::{Client, Ram, SIZE, assert_clean, buffer, make, pattern};

#[test]
fn what_was_written_is_read_again_before_and_after_it_is_durable_and_after_a_mount() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let file = client.create(ROOT, "a");
    let bytes = pattern(1, 10_000);
    client.write(file, 3, &bytes);
    assert_eq!(client.read(file, 3, 10_000), bytes);
    assert_eq!(client.read(file, 0, 3), [0; 3]);
    client.sync(file);
    assert_eq!(client.read(file, 3, 20_000), bytes);
    let blocks = client.unmount();
    assert_clean(SIZE, &blocks, "after an orderly end");
    let mut client = Client::of(Ram::of(SIZE, blocks), "manylogs");
    let file = client.find("a").unwrap();
    assert_eq!((client.size(file), client.read(file, 3, 10_000)), (10_003, bytes));
}

#[test]
fn a_small_write_with_its_metadata_is_one_record_and_no_flush_near_the_head() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let file = client.create(ROOT, "log");
    client.sync(file);
    let before = client.mounted.service().atomic_writes;
    client.write(file, 0, b"committed");
    client.sync(file);
    let ram = client.mounted.service();
    assert_eq!((ram.atomic_writes - before, ram.flushes, ram.in_place_bytes), (1, 0, 0));
    // Nothing changed since: nothing is written.
    let before = ram.atomic_writes;
    client.sync(file);
    assert_eq!(client.mounted.service().atomic_writes, before);
}

#[test]
fn ordered_writes_data_in_place_before_the_record_that_names_it() {
    let Some(mut client) = Client::fresh("ordered") else { return };
    let file = client.create(ROOT, "log");
    client.write(file, 0, &pattern(2, 4096));
    client.sync(file);
    let ram = client.mounted.service();
    assert_eq!((ram.in_place_bytes, ram.flushes), (4096, 1));
}

#[test]
fn bulk_goes_in_place_as_it_comes_and_reads_as_written_all_the_time() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let file = client.create(ROOT, "bulk");
    let bytes = pattern(3, 9 << 20);
    for (at, part) in (0_u64..).zip(bytes.chunks(128 << 10)) {
        client.write(file, at * (128 << 10), part);
        assert_eq!(client.read(file, at * (128 << 10), part.len() as u32), part);
    }
    let in_place = client.mounted.service().in_place_bytes;
    assert!(in_place >= 8 << 20, "{in_place} bytes in place");
    for (at, part) in (0_u64..).zip(bytes.chunks(1 << 20)) {
        assert_eq!(client.read(file, at << 20, 1 << 20), part, "MiB {at}");
    }
    client.sync(file);
    let blocks = client.unmount();
    assert_clean(SIZE, &blocks, "bulk");
    let mut client = Client::of(Ram::of(SIZE, blocks), "manylogs");
    let file = client.find("bulk").unwrap();
    for (at, part) in (0_u64..).zip(bytes.chunks(1 << 20)) {
        assert_eq!(client.read(file, at << 20, 1 << 20), part, "MiB {at} after a mount");
    }
}

#[test]
fn a_file_that_is_cut_and_grows_again_reads_as_zeros_where_it_was_cut() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let file = client.create(ROOT, "cut");
    client.write(file, 0, &vec![7; 20_000]);
    client.sync(file);
    client.cut(file, 5000);
    client.cut(file, 12_000);
    let mut expected = vec![7; 5000];
    expected.resize(12_000, 0);
    assert_eq!(client.read(file, 0, 30_000), expected);
    client.sync(file);
    let blocks = client.unmount();
    assert_clean(SIZE, &blocks, "cut");
    let mut client = Client::of(Ram::of(SIZE, blocks), "manylogs");
    let file = client.find("cut").unwrap();
    assert_eq!(client.read(file, 0, 30_000), expected);
}

#[test]
fn a_hole_is_punched_into_the_middle_of_pages_and_reads_as_zeros() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let file = client.create(ROOT, "hole");
    let mut bytes = pattern(5, 40_000);
    client.write(file, 0, &bytes);
    client.sync(file);
    for (offset, len, change) in
        [(5000, 20_000, RoomChange::Punch), (30_000, 100, RoomChange::Zero)]
    {
        let done = client.ask(FsOperation::ChangeRoom { ino: file, offset, len, change });
        assert!(done.is_ok(), "{done:?}");
        bytes[offset as usize..(offset + len) as usize].fill(0);
        assert!(client.read(file, 0, 40_000) == bytes, "{change:?}");
    }
    client.sync(file);
    assert_clean(SIZE, &client.unmount(), "hole");
}

#[test]
fn a_file_without_a_name_lives_on_while_it_is_held_and_its_room_comes_back() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let free = free_blocks(&mut client);
    let file = client.create(ROOT, "gone");
    client.write(file, 0, &pattern(6, 3 << 20));
    client.sync(file);
    let name = b"gone".to_vec();
    assert!(client.ask(FsOperation::Unlink { parent: ROOT, name }).is_ok());
    assert_eq!(client.read(file, 0, 3 << 20), pattern(6, 3 << 20));
    client.write(file, 100, b"still here");
    assert_eq!(client.read(file, 100, 10), b"still here");
    assert!(client.ask(FsOperation::SyncAll).is_ok());
    let mut random = nearhead_basics::Random::new(2);
    assert_clean(SIZE, &client.mounted.service().after_crash(&mut random), "while it is held");
    client.try_ask(FsOperation::Forget { ino: file, count: 1 });
    assert!(client.ask(FsOperation::SyncAll).is_ok());
    assert_eq!(free_blocks(&mut client), free);
    assert_clean(SIZE, &client.unmount(), "after it is forgotten");
}

fn free_blocks(client: &mut Client) -> u64 {
    match client.ask(FsOperation::Statistics) {
        Ok(Answer::Statistics(of)) => of.free,
        other => panic!("expected statistics, found {other:?}"),
    }
}

#[test]
fn a_full_file_system_says_so_stays_whole_and_takes_writes_again_once_there_is_room() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let file = client.create(ROOT, "fills");
    let piece = pattern(8, 1 << 20);
    let mut written = 0;
    let error = loop {
        let (offset, data) = (written, buffer(&piece));
        match client.ask(FsOperation::Write { ino: file, offset, data, is_durable: false }) {
            Ok(_) => written += 1 << 20,
            Err(error) => break error,
        }
        assert!(written < SIZE);
    };
    assert_eq!(error.errno, 28, "{error}");
    client.sync(file);
    assert_eq!(client.read(file, written - (1 << 20), 1 << 20), piece);
    client.cut(file, 1 << 20);
    client.write(file, 1 << 20, &piece);
    client.sync(file);
    assert_clean(SIZE, &client.unmount(), "full");
}

#[test]
fn many_small_files_are_there_after_a_crash_if_their_directory_was_synced() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let folder = client.directory(ROOT, "many");
    for number in 0..300 {
        let file = client.create(folder, &format!("file {number}"));
        client.write(file, 0, format!("content of {number}").as_bytes());
        client.sync(file);
    }
    client.sync(folder);
    let mut random = nearhead_basics::Random::new(3);
    let blocks = client.mounted.service().after_crash(&mut random);
    assert_clean(SIZE, &blocks, "many files");
    let mut client = Client::of(Ram::of(SIZE, blocks), "manylogs");
    for number in 0..300 {
        let file = client.find(&format!("many/file {number}")).unwrap();
        assert_eq!(client.read(file, 0, 100), format!("content of {number}").as_bytes());
    }
}

#[test]
fn a_disk_that_fails_gives_errors_and_no_lies() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let file = client.create(ROOT, "a");
    client.mounted.service_mut().is_broken = true;
    client.write(file, 0, b"lost");
    let done = client.ask(FsOperation::Sync { ino: file, data_only: false });
    assert_eq!(done.unwrap_err().errno, 5);
    let done = client.ask(make(ROOT, "b", FileKind::Regular));
    assert!(done.is_err(), "{done:?}");
}

#[test]
fn a_durability_only_file_is_logged_whatever_its_size_and_dropped_when_it_is_removed() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let folder = client.directory(ROOT, "logs");
    let (name, value) = (b"user.nearhead.durability".to_vec(), b"only".to_vec());
    let how = nearhead_ext4::XattrSet::Any;
    let set = FsOperation::SetXattr { ino: folder, name, value, how };
    assert!(client.ask(set).is_ok());
    let bytes = pattern(11, 3 << 20);
    for (parent, name) in [(folder, "inherits"), (ROOT, "named.wal")] {
        let file = client.create(parent, name);
        let hinted = client.mounted.service().hinted.total();
        for (at, part) in (0_u64..).zip(bytes.chunks(1 << 20)) {
            client.write(file, at << 20, part);
        }
        client.sync(file);
        let ram = client.mounted.service();
        assert_eq!((ram.in_place_bytes, ram.flushes), (0, 0), "{name}");
        assert_eq!(ram.hinted.total() - hinted, 3 << 20, "{name}");
        let mut random = nearhead_basics::Random::new(4);
        let blocks = ram.after_crash(&mut random);
        assert_clean(SIZE, &blocks, name);
        assert!(client.read(file, 0, 4 << 20) == bytes, "{name}");
        let name = name.as_bytes().to_vec();
        assert!(client.ask(FsOperation::Unlink { parent, name }).is_ok());
        client.try_ask(FsOperation::Forget { ino: file, count: 1 });
        assert!(client.ask(FsOperation::SyncAll).is_ok());
        let ram = client.mounted.service();
        assert_eq!(ram.hinted.total(), 0);
        assert!(ram.trimmed.total() >= 3 << 20);
    }
    let other = client.create(ROOT, "other");
    client.write(other, 0, &bytes);
    client.sync(other);
    assert!(client.mounted.service().in_place_bytes > 0, "others are as before");
    assert_clean(SIZE, &client.unmount(), "at the end");
}

#[test]
fn a_durability_only_file_that_lost_its_name_keeps_its_bytes_while_somebody_holds_it() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let file = client.create(ROOT, "a.wal");
    let bytes = pattern(5, 300_000);
    client.write(file, 0, &bytes);
    client.sync(file);
    client.ask(FsOperation::Unlink { parent: ROOT, name: b"a.wal".to_vec() }).unwrap();
    client.ask(FsOperation::SyncAll).unwrap();
    assert!(client.mounted.service().trimmed.is_empty(), "its blocks are given to nobody yet");
    assert!(client.read(file, 8192, 50_000) == bytes[8192..][..50_000]);
}

#[test]
fn a_file_that_may_not_be_changed_refuses_writes_and_the_others_go_on() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let (fixed, other) = (client.create(ROOT, "fixed"), client.create(ROOT, "other"));
    client.write(fixed, 0, b"before");
    // FS_IMMUTABLE_FL, set while something is not durable yet.
    let change = nearhead_ext4::AttributeChange { flags: Some(0x10), ..Default::default() };
    let set = FsOperation::SetAttributes { ino: fixed, change, size: None };
    assert!(client.ask(set).is_ok());
    let (data, is_durable) = (buffer(b"after"), false);
    let refused = client.ask(FsOperation::Write { ino: fixed, offset: 0, data, is_durable });
    assert_eq!(refused.unwrap_err().errno, 1);
    client.write(other, 0, b"others go on");
    client.sync(other);
    let _ = client.ask(FsOperation::Sync { ino: fixed, data_only: false });
    client.sync(other);
    assert_eq!(client.read(other, 0, 100), b"others go on");
    assert_clean(SIZE, &client.unmount(), "with a file that may not be changed");
}

#[test]
fn what_was_cut_off_does_not_come_back_when_bulk_makes_the_file_longer_and_others_are_synced() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let (file, other) = (client.create(ROOT, "file"), client.create(ROOT, "other"));
    client.write(file, 0, &[7; 4096]);
    client.sync(file);
    client.cut(file, 100);
    // Commits of another file: they bring the metadata of this one, and what of it is in its place.
    client.sync(other);
    client.write(file, 1 << 20, &pattern(12, 3 << 20));
    client.write(other, 0, b"other");
    client.sync(other);
    for _ in 0..2 {
        client.now = Nanos(client.now.0 + 1_000_000_000);
        client.drive();
    }
    let mut random = nearhead_basics::Random::new(5);
    let blocks = client.mounted.service().after_crash(&mut random);
    assert_clean(SIZE, &blocks, "bulk behind a cut");
    let mut client = Client::of(Ram::of(SIZE, blocks), "manylogs");
    let file = client.find("file").unwrap();
    assert!(client.size(file) > 1 << 20, "the bulk is there");
    let mut expected = vec![7; 100];
    expected.resize(4096, 0);
    assert!(client.read(file, 0, 4096) == expected);
}

fn accessed_at(client: &mut Client, ino: Ino) -> i64 {
    match client.ask(FsOperation::Attributes { ino }) {
        Ok(Answer::Node(node)) => node.accessed.seconds,
        other => panic!("expected a node, found {other:?}"),
    }
}

#[test]
fn times_of_access_are_told_at_once_and_written_by_commits_that_others_need() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let ino = client.create(ROOT, "a");
    client.write(ino, 0, &[7; 5000]);
    client.ask(FsOperation::SyncAll).unwrap();
    let (written, records) =
        (accessed_at(&mut client, ino), client.mounted.report().counts.records);
    client.now = Nanos::from_secs(100);
    client.read(ino, 0, 10);
    assert_eq!(
        accessed_at(&mut client, ino),
        written + 100,
        "it was changed since it was read last"
    );
    client.now = Nanos::from_secs(200);
    client.read(ino, 0, 10);
    client.sync(ino);
    assert_eq!(accessed_at(&mut client, ino), written + 100, "and it was not");
    assert_eq!(client.mounted.report().counts.records, records, "reading makes no commit");
    client.now = Nanos::from_secs(200 + 24 * 3600);
    client.read(ino, 0, 10);
    assert_eq!(accessed_at(&mut client, ino), written + 200 + 24 * 3600, "a day later");
    client.create(ROOT, "b");
    assert!(client.ask(FsOperation::SyncAll).is_ok());
    let mut after = Client::of(Ram::of(SIZE, client.mounted.service().durable.clone()), "manylogs");
    let ino = after.find("a").unwrap();
    assert_eq!(accessed_at(&mut after, ino), written + 200 + 24 * 3600, "it went along");
    after.now = Nanos::from_secs(200_000);
    after.write(ino, 0, &[8; 100]);
    after.now = Nanos::from_secs(200_001);
    after.read(ino, 0, 10);
    let mut last = Client::of(Ram::of(SIZE, after.unmount()), "manylogs");
    let ino = last.find("a").unwrap();
    assert_eq!(accessed_at(&mut last, ino), written + 200_001, "at the end all are written");
}

#[test]
fn what_was_written_before_a_file_became_immutable_is_durable_then() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let file = client.create(ROOT, "a");
    client.write(file, 0, &pattern(3, 200_000));
    let flags = IMMUTABLE_FLAG;
    let set = FsOperation::SetFlags { ino: file, flags, mask: IMMUTABLE_FLAG };
    assert!(client.ask(set).is_ok());
    let answer = client.ask(FsOperation::Flags { ino: file });
    let Ok(Answer::Flags { flags, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!(flags & (IMMUTABLE_FLAG | DURABILITY_ONLY_FLAG), IMMUTABLE_FLAG);
    assert_eq!(client.read(file, 0, 200_000), pattern(3, 200_000));
    client.sync(file);
    let blocks = client.mounted.service().durable.clone();
    assert_clean(SIZE, &blocks, "with an immutable file");
    let mut client = Client::of(Ram::of(SIZE, blocks), "manylogs");
    let file = client.find("a").unwrap();
    assert_eq!(client.read(file, 0, 200_000), pattern(3, 200_000));
}

#[test]
fn a_file_that_becomes_durability_only_is_so_with_all_that_it_holds() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let file = client.create(ROOT, "a");
    client.write(file, 0, &pattern(4, 1 << 20));
    client.sync(file);
    let set = |flags| FsOperation::SetFlags { ino: file, flags, mask: DURABILITY_ONLY_FLAG };
    assert!(client.ask(set(DURABILITY_ONLY_FLAG)).is_ok());
    assert_eq!(client.mounted.service().hinted.total(), 1 << 20);
    let before = client.mounted.service().in_place_bytes;
    client.write(file, 0, &pattern(5, 1 << 20));
    client.sync(file);
    assert_eq!(client.mounted.service().in_place_bytes, before, "written over in records");
    assert!(client.ask(set(0)).is_ok());
    assert!(client.mounted.service().hinted.is_empty());
    // Removed while somebody holds it, it is dropped once nobody does.
    assert!(client.ask(set(DURABILITY_ONLY_FLAG)).is_ok());
    client.ask(FsOperation::Unlink { parent: ROOT, name: b"a".to_vec() }).unwrap();
    client.ask(FsOperation::SyncAll).unwrap();
    assert_eq!(client.mounted.service().hinted.total(), 1 << 20);
    client.try_ask(FsOperation::Forget { ino: file, count: 1 });
    client.create(ROOT, "b");
    client.ask(FsOperation::SyncAll).unwrap();
    assert!(client.mounted.service().hinted.is_empty());
}

#[test]
fn all_that_is_free_is_told_and_nothing_else() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    client.mounted.trim_freed(false);
    let (kept, removed) = (client.create(ROOT, "kept"), client.create(ROOT, "removed"));
    for file in [kept, removed] {
        client.write(file, 0, &pattern(6, 2 << 20));
        client.sync(file);
    }
    let trim = || FsOperation::Trim { offset: 0, len: u64::MAX, run_bytes_min: 0 };
    let told = |client: &mut Client| match client.ask(trim()) {
        Ok(Answer::Trimmed(bytes)) => bytes,
        other => panic!("expected a number of bytes, found {other:?}"),
    };
    let before = told(&mut client);
    client.ask(FsOperation::Unlink { parent: ROOT, name: b"removed".to_vec() }).unwrap();
    client.try_ask(FsOperation::Forget { ino: removed, count: 1 });
    assert_eq!(told(&mut client), before, "what is freed is not durably so yet");
    assert_eq!(client.mounted.report().counts.trimmed_bytes, 2 * before);
    client.ask(FsOperation::SyncAll).unwrap();
    assert_eq!(told(&mut client), before + (2 << 20));
    let answer = client.ask(FsOperation::Statistics);
    let Ok(Answer::Statistics(statistics)) = answer else { panic!("{answer:?}") };
    assert_eq!(statistics.free * 4096, before + (2 << 20), "all that is free");
    assert_eq!(client.read(kept, 0, 2 << 20), pattern(6, 2 << 20));
    assert_clean(SIZE, &client.unmount(), "after all that is free was trimmed");
}

#[test]
fn bytes_that_replace_others_are_made_durable_without_any_metadata() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let file = client.create(ROOT, "file");
    client.write(file, 0, &pattern(3, 100_000));
    client.sync(file);
    for (page, is_data_only, expected) in [(3, true, 4096), (9, true, 4096), (3, false, 3 * 4096)] {
        let before = client.mounted.service().atomic_bytes;
        client.write(file, page * 4096, &pattern(page, 4096));
        let sync = FsOperation::Sync { ino: file, data_only: is_data_only };
        client.ask(sync).unwrap();
        // With its times come the block of its inode and the superblock.
        let brought = client.mounted.service().atomic_bytes - before;
        assert_eq!(brought, expected, "page {page}, only data: {is_data_only}");
    }
    assert_clean(SIZE, &client.unmount(), "after bytes were replaced");
}

#[test]
fn who_takes_privileges_away_that_there_are_none_of_changes_nothing() {
    let Some(mut client) = Client::fresh("manylogs") else { return };
    let file = client.create(ROOT, "program");
    let mut set = |change| {
        let set = FsOperation::SetAttributes { ino: file, change, size: None };
        match client.ask(set).unwrap() {
            nearhead_fs::Answer::Node(node) => (node.mode & 0o7777, node.changed),
            other => panic!("expected attributes, found {other:?}"),
        }
    };
    let change = |mode| nearhead_ext4::AttributeChange { mode, ..Default::default() };
    let clears = nearhead_ext4::AttributeChange { clears_privileges: true, ..change(None) };
    assert_eq!(set(change(Some(0o6755))).0, 0o6755);
    let (mode, changed) = set(clears);
    assert_eq!(mode, 0o755);
    assert_eq!(set(clears), (0o755, changed), "the time of its change is as it was");
    assert_eq!(set(change(Some(0o6744))).0, 0o6744);
    assert_eq!(set(clears).0, 0o2744, "setgid is something else where no group may execute");
    let folder = client.directory(ROOT, "folder");
    let set = FsOperation::SetAttributes { ino: folder, change: change(Some(0o2777)), size: None };
    client.ask(set).unwrap();
    let clear = FsOperation::SetAttributes { ino: folder, change: clears, size: None };
    let node = client.ask(clear).unwrap();
    assert!(matches!(node, nearhead_fs::Answer::Node(node) if node.mode & 0o7777 == 0o2777));
}
