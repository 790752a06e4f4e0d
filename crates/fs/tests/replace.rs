//! Replaced content without `fsync`: after a crash at any request a name has the old content or the whole new one.
//!
//! In every mode, for sizes that fit a record and for bulk, by rename over the name and by `O_TRUNC`, write and close.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_basics::Random;
use nearhead_disk::Nanos;
use nearhead_ext4::{AttributeChange, Ino, ROOT, Rename};
use nearhead_fs::{Answer, FsOperation};
use support::{Blocks, Client, Ram, SIZE, assert_clean, buffer, empty, pattern};

const OLD_BYTES: usize = 3000;
/// Length of one write of the program.
const PIECE_BYTES: usize = 128 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Rename,
    Truncate,
}

/// Trigger of the commit.
#[derive(Clone, Copy, Debug)]
enum Commit {
    FsyncOfAnother,
    Time,
    Sync,
}

/// A replacement of `target`; false once nothing is answered any more.
fn replace(client: &mut Client, how: How, new: &[u8]) -> bool {
    let parent = ROOT;
    let ino = match how {
        How::Rename => {
            let made =
                client.try_ask(support::make(ROOT, "target.tmp", nearhead_ext4::FileKind::Regular));
            let Some(Ok(Answer::Node(node))) = made else { return false };
            node.ino
        }
        How::Truncate => {
            let name = b"target".to_vec();
            let Some(Ok(Answer::Node(node))) = client.try_ask(FsOperation::Lookup { parent, name })
            else {
                return false;
            };
            let change = AttributeChange::default();
            let cut = FsOperation::SetAttributes { ino: node.ino, change, size: Some(0) };
            if client.try_ask(cut).is_none() {
                return false;
            }
            node.ino
        }
    };
    for (at, part) in (0_u64..).zip(new.chunks(PIECE_BYTES)) {
        let (offset, data) = (at * PIECE_BYTES as u64, buffer(part));
        let write = FsOperation::Write { ino, offset, data, is_durable: false };
        if client.try_ask(write).is_none() {
            return false;
        }
    }
    let last = match how {
        How::Truncate => FsOperation::Closed { ino },
        How::Rename => FsOperation::Rename {
            from: ROOT,
            name: b"target.tmp".to_vec(),
            to: ROOT,
            new_name: b"target".to_vec(),
            how: Rename::Replace,
        },
    };
    client.try_ask(last).is_some()
}

fn commit(client: &mut Client, other: Ino, by: Commit) {
    match by {
        Commit::FsyncOfAnother => {
            let data = buffer(b"other");
            let is_durable = false;
            client.try_ask(FsOperation::Write { ino: other, offset: 0, data, is_durable });
            client.try_ask(FsOperation::Sync { ino: other, data_only: false });
        }
        Commit::Time => {
            for _ in 0..4 {
                client.now = Nanos(client.now.0 + 1_100_000_000);
                client.drive();
            }
        }
        Commit::Sync => drop(client.try_ask(FsOperation::SyncAll)),
    }
}

/// The same file system each time, with the old content durable.
fn base() -> Option<Blocks> {
    let mut client = Client::of(Ram::of(SIZE, empty(SIZE)?), "nearhead");
    for name in ["target", "other"] {
        let ino = client.create(ROOT, name);
        client.write(ino, 0, &vec![b'o'; OLD_BYTES]);
        client.sync(ino);
    }
    Some(client.unmount())
}

struct Case {
    mode: &'static str,
    how: How,
    len: usize,
    by: Commit,
}

/// Stops after so many requests that change anything; says whether it came to the end before.
fn stop_at(case: &Case, base: &Blocks, requests: u64, random: &mut Random) -> bool {
    let case_name = format!(
        "mode {}, {:?} of {} bytes, {:?}, stop after {requests} requests",
        case.mode, case.how, case.len, case.by
    );
    let mut ram = Ram::of(SIZE, base.clone());
    ram.requests_left = requests;
    let mut client = Client::of(ram, case.mode);
    let other = client.find("other").unwrap();
    let new = pattern(7, case.len);
    let is_closed = replace(&mut client, case.how, &new);
    if is_closed {
        commit(&mut client, other, case.by);
    }
    let is_over = client.mounted.service().requests_left > 0;
    for keeps in [false, true] {
        let left = client.mounted.service().after_crash_that(&mut || keeps || random.below(2) == 0);
        let mut after = Client::of(Ram::of(SIZE, left), case.mode);
        let ino = after.find("target").unwrap_or_else(|| panic!("{case_name}: it is gone"));
        let found = after.read(ino, 0, 1 << 24);
        let is_old = found == vec![b'o'; OLD_BYTES];
        // Cut, and not closed before the commit: as ext4, anything that was written.
        let may_be_cut = case.how == How::Truncate && !is_closed;
        assert!(is_old || found == new || may_be_cut, "{case_name}: {} bytes", found.len());
        assert!(
            !is_over || matches!(case.by, Commit::Time) || found == new,
            "{case_name}: not durable"
        );
        if requests.is_multiple_of(6) {
            assert_clean(SIZE, &after.unmount(), &case_name);
        }
    }
    is_over
}

#[test]
fn a_replaced_name_has_the_old_or_the_whole_new_content() {
    let Some(base) = base() else { return };
    let mut random = Random::new(3);
    for mode in nearhead_journal::MODES {
        for how in [How::Rename, How::Truncate] {
            for len in [3001, 300_000, 2_500_000] {
                for by in [Commit::FsyncOfAnother, Commit::Time, Commit::Sync] {
                    let case = Case { mode: mode.name(), how, len, by };
                    let mut requests = 0;
                    while !stop_at(&case, &base, requests, &mut random) {
                        requests += 1 + requests / 4;
                    }
                }
            }
        }
    }
}

#[test]
fn many_replacements_in_one_transaction_are_each_whole() {
    let Some(mut client) = Client::fresh("nearhead") else { return };
    let content = |number: u64| pattern(number, 20_000);
    for number in 0..60 {
        let ino = client.create(ROOT, &format!("f{number}"));
        client.write(ino, 0, b"old");
    }
    client.ask(FsOperation::SyncAll).unwrap();
    for number in 0..60 {
        let ino = client.create(ROOT, "tmp");
        client.write(ino, 0, &content(number));
        let new_name = format!("f{number}").into_bytes();
        let (from, to, name, how) = (ROOT, ROOT, b"tmp".to_vec(), Rename::Replace);
        client.ask(FsOperation::Rename { from, name, to, new_name, how }).unwrap();
        let left = client.mounted.service().after_crash_that(&mut || false);
        let mut after = Client::of(Ram::of(SIZE, left), "nearhead");
        for before in 0..60 {
            let ino = after.find(&format!("f{before}")).unwrap();
            let found = after.read(ino, 0, 1 << 20);
            assert!(found == b"old" || found == content(before), "f{before}: {}", found.len());
        }
    }
}

#[test]
fn a_replacing_file_that_is_written_on_has_all_of_its_moment() {
    for mode in nearhead_journal::MODES {
        let Some(mut client) = Client::fresh(mode.name()) else { return };
        let (target, other) = (client.create(ROOT, "target"), client.create(ROOT, "other"));
        client.write(target, 0, b"old");
        client.ask(FsOperation::SyncAll).unwrap();
        let moved = client.create(ROOT, "tmp");
        let bytes = pattern(5, 50_000);
        client.write(moved, 0, &bytes);
        let (name, new_name) = (b"tmp".to_vec(), b"target".to_vec());
        let (from, to, how) = (ROOT, ROOT, Rename::Replace);
        client.ask(FsOperation::Rename { from, name, to, new_name, how }).unwrap();
        client.write(moved, 2 << 20, &pattern(6, 1 << 20));
        client.sync(other);
        let left = client.mounted.service().after_crash_that(&mut || false);
        let mut after = Client::of(Ram::of(SIZE, left), mode.name());
        let ino = after.find("target").unwrap();
        let found = after.read(ino, 0, 50_000);
        assert!(found == b"old" || found == bytes, "{}: {} bytes", mode.name(), found.len());
    }
}
