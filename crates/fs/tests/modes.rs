//! What the journaling modes differ in: what of the bytes of files goes in place, what into records, and of which bytes a record says that
//! they are new. The service of these tests looks whether that is true.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_disk::{Nanos, Payload};
use nearhead_ext4::ROOT;
use nearhead_fs::FsOperation;
use nearhead_service::Operation;
use support::{Client, Ram, SIZE, assert_clean, pattern};

/// What the last sync brought: bytes in records, those of them that were new, bytes in place.
fn brought(client: &mut Client, work: impl FnOnce(&mut Client)) -> (u64, u64, u64) {
    let told = |ram: &Ram| (ram.atomic_bytes, ram.new_bytes, ram.in_place_bytes);
    let before = told(client.mounted.service());
    work(client);
    let after = told(client.mounted.service());
    (after.0 - before.0, after.1 - before.1, after.2 - before.2)
}

#[test]
fn a_few_bytes_appended_are_recorded_as_few_bytes_where_the_mode_packs_fragments() {
    for mode in nearhead_journal::MODES {
        let Some(mut client) = Client::fresh(mode.name()) else { return };
        let file = client.create(ROOT, "log");
        client.write(file, 0, &pattern(1, 1000));
        client.sync(file);
        let (given, new, _) = brought(&mut client, |client| {
            client.write(file, 1000, b"20 bytes of one line");
            client.sync(file);
        });
        if mode.packs_fragments() {
            // The line, and what an inode and the superblock say of it.
            assert!(new < 200 && given <= 6 * 512, "{}: {new} of {given} bytes", mode.name());
        } else {
            assert!(new == given && given.is_multiple_of(4096), "{}: {given}", mode.name());
        }
        assert_clean(SIZE, &client.mounted.service().durable, mode.name());
        assert_eq!(client.read(file, 1000, 100), b"20 bytes of one line");
    }
}

#[test]
fn modes_that_record_all_data_put_none_in_place_whatever_its_length() {
    for mode in ["data", "wasteless"] {
        let Some(mut client) = Client::fresh(mode) else { return };
        let file = client.create(ROOT, "bulk");
        let bytes = pattern(4, 3 << 20);
        let (_, _, in_place) = brought(&mut client, |client| {
            for (at, part) in (0_u64..).zip(bytes.chunks(256 << 10)) {
                client.write(file, at * (256 << 10), part);
            }
            client.sync(file);
        });
        assert_eq!(in_place, 0, "{mode}");
        assert!(client.read(file, 0, 4 << 20) == bytes, "{mode}");
        assert_clean(SIZE, &client.mounted.service().durable, mode);
    }
}

#[test]
fn selective_decides_by_the_first_update_of_a_block_until_it_is_written_in_place() {
    let Some(mut client) = Client::fresh("selective") else { return };
    let file = client.create(ROOT, "file");
    client.write(file, 0, &pattern(1, 4 * 4096));
    client.sync(file);
    let in_place = |client: &mut Client, updates: &[(u64, usize)]| {
        let (_, _, in_place) = brought(client, |client| {
            for (offset, len) in updates {
                client.write(file, *offset, &pattern(*offset + *len as u64, *len));
            }
            client.sync(file);
        });
        in_place
    };
    let (whole, part) = ((0, 4096), (100, 50));
    assert_eq!(in_place(&mut client, &[whole]), 4096, "it begins with all of the block");
    assert_eq!(in_place(&mut client, &[whole, part]), 4096, "so do all that follow");
    assert_eq!(in_place(&mut client, &[part]), 0, "the block was in place since");
    assert_eq!(in_place(&mut client, &[whole]), 0, "it was not since");
    assert_eq!(in_place(&mut client, &[(4000, 5000)]), 4096, "each block by its own");
    assert_eq!(client.read(file, 4000, 5000), pattern(9000, 5000));
    assert_clean(SIZE, &client.unmount(), "selective");
}

fn is_flush(operation: &Operation) -> bool {
    matches!(operation, Operation::Flush)
}

fn is_flush_or_in_place(operation: &Operation) -> bool {
    is_flush(operation) || matches!(operation, Operation::WriteInPlace { .. })
}

#[test]
fn a_page_is_recorded_as_a_whole_while_what_went_in_place_below_it_may_still_come_or_go() {
    const MIB: u64 = 1 << 20;
    for holds in [is_flush_or_in_place, is_flush] {
        let Some(mut client) = Client::fresh("nearhead") else { return };
        let (file, other) = (client.create(ROOT, "bulk"), client.create(ROOT, "other"));
        for at in 0..4 {
            client.write(file, at * MIB, &pattern(at, 1 << 20));
        }
        client.sync(file);
        // A commit that somebody waits for because of another file, and that waits for its flush. It brings what became old as well.
        client.mounted.service_mut().holds = is_flush;
        client.write(file, MIB + 10, &[6; 20]);
        client.write(other, 0, &pattern(11, 1 << 20));
        client.now += Nanos::from_secs(6);
        client.send(FsOperation::Sync { ino: other, data_only: false });
        // Meanwhile all around that goes in place, and a few bytes of it change.
        client.mounted.service_mut().holds = holds;
        client.write(file, MIB, &pattern(12, 1 << 20));
        client.write(file, MIB + 100, &[7; 50]);
        let before = client.mounted.service().new_bytes;
        client.mounted.service_mut().holds =
            |operation| matches!(operation, Operation::WriteInPlace { .. });
        client.drive();
        client.mounted.service_mut().holds = |_| false;
        client.drive();
        let new = client.mounted.service().new_bytes - before;
        // What is still on its way is left to the next commit, as older bytes must not come after those of the record.
        let is_on_its_way =
            holds(&Operation::WriteInPlace { offset: 0, data: Payload::EMPTY, fua: false });
        assert!(is_on_its_way || new >= 4096, "{new} bytes said to be new");
        client.sync(file);
        let mut expected = pattern(12, 1 << 20);
        expected[100..150].fill(7);
        assert!(client.read(file, MIB, 1 << 20) == expected);
        assert!(client.read(other, 0, 1 << 20) == pattern(11, 1 << 20));
        let blocks = client.unmount();
        assert_clean(SIZE, &blocks, "held");
        let mut client = Client::of(Ram::of(SIZE, blocks), "nearhead");
        let file = client.find("bulk").unwrap();
        assert!(client.read(file, MIB, 1 << 20) == expected);
    }
}

/// A page that went in place leaves memory at once. What is written to it before a flush is put over what was read again, and a crash may
/// take just that away.
#[test]
fn a_crash_leaves_no_bytes_of_a_record_over_a_page_that_is_older_than_what_they_were_written_to() {
    const RUN_BYTES: usize = 128 << 10;
    const CHANGED: std::ops::Range<usize> = 3 * 4096 + 100..3 * 4096 + 150;
    // Those that pack fragments and put anything in place.
    for told in ["selective", "nearhead"] {
        let Some(mut client) = Client::fresh(told) else { return };
        let (file, other) = (client.create(ROOT, "run"), client.create(ROOT, "other"));
        client.write(file, 0, &pattern(1, RUN_BYTES));
        client.sync(file);
        // A commit for another file flushes what that has in place, and takes along what became old. Of that a run goes in place after
        // the flush was asked for.
        client.write(file, 0, &pattern(2, RUN_BYTES));
        client.write(other, 0, &pattern(3, 1 << 20));
        client.now += Nanos::from_secs(6);
        client.mounted.service_mut().holds = is_flush;
        client.send(FsOperation::Sync { ino: other, data_only: false });
        client.write(file, CHANGED.start as u64, &[7; CHANGED.end - CHANGED.start]);
        client.mounted.service_mut().holds = |_| false;
        client.drive();
        let left = client.mounted.service().after_crash_that(&mut || false);
        let mut after = Client::of(Ram::of(SIZE, left), told);
        let file = after.find("run").unwrap();
        let found = after.read(file, 0, RUN_BYTES as u32);
        let mut expected = pattern(2, RUN_BYTES);
        expected[CHANGED].fill(7);
        let page = CHANGED.start / 4096 * 4096..CHANGED.end.next_multiple_of(4096);
        assert!(found[CHANGED] == expected[CHANGED], "{told}: the record did not bring them");
        assert!(found[page.clone()] == expected[page.clone()], "{told}: they lie over older bytes");
        assert!(found[..page.start] == pattern(1, page.start), "{told}: the crash took nothing");
    }
}

/// Metadata that many clients change while a commit that has much data already waits for a block: both go into one record only if they fit.
#[test]
fn what_changes_while_a_commit_waits_for_a_block_makes_its_record_no_larger_than_one_takes() {
    const BLOCK: u64 = 4096;
    const FILES: usize = 1800;
    // So many inodes share a block.
    const INODES_OF_BLOCK: usize = 16;
    for mode in nearhead_journal::MODES {
        let told = mode.name();
        let Some(mut client) = Client::fresh(told) else { return };
        let folder = client.directory(ROOT, "folder");
        let files: Vec<_> = (0..FILES).map(|at| client.create(folder, &format!("{at}"))).collect();
        // A commit packs those with the higher numbers first.
        let (new, old) = (client.create(ROOT, "new"), client.create(ROOT, "old"));
        client.write(old, 0, &pattern(1, 400 * BLOCK as usize));
        client.sync(old);
        // Nothing is known of what is free.
        let mut client = Client::of(Ram::of(SIZE, client.unmount()), told);
        for file in files.iter().step_by(INODES_OF_BLOCK) {
            client.size(*file);
        }
        // Runs that no mode writes in place.
        for at in 0..100 {
            client.write(old, at * 4 * BLOCK, &pattern(at + 2, 2 * BLOCK as usize));
        }
        client.write(new, 0, &pattern(3, BLOCK as usize));
        client.mounted.service_mut().holds =
            |operation| matches!(operation, Operation::Read { .. });
        client.send(FsOperation::SyncAll);
        for file in files.iter().step_by(INODES_OF_BLOCK) {
            let change = nearhead_ext4::AttributeChange { mode: Some(0o600), ..Default::default() };
            client.send(FsOperation::SetAttributes { ino: *file, change, size: None });
        }
        client.mounted.service_mut().holds = |_| false;
        client.drive();
        client.sync(new);
        for at in 0..100 {
            let found = client.read(old, at * 4 * BLOCK, 2 * BLOCK as u32);
            assert!(found == pattern(at + 2, 2 * BLOCK as usize), "{told}");
        }
        assert_clean(SIZE, &client.unmount(), told);
    }
}
