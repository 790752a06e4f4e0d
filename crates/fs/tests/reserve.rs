//! The reserve of a file system: its last blocks are root's, as on ext4, and what was promised to one file no other one gets.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_ext4::{Ino, ROOT, XattrSet};
use nearhead_fs::{Answer, FsOperation, RoomChange};
use support::{Client, Ram, SIZE, assert_clean, buffer, empty_with_reserve, pattern};

const ENOSPC: i32 = 28;
const EOPNOTSUPP: i32 = 95;
const MIB: u64 = 1 << 20;

/// Writes to `ino` until there is no room; gives the bytes that found some.
fn fill(client: &mut Client, ino: Ino, from: u64) -> u64 {
    let data = buffer(&pattern(1, MIB as usize));
    for offset in (from..).step_by(MIB as usize) {
        let data = data.clone();
        let write = FsOperation::Write { ino, offset, data, is_durable: false };
        if let Err(error) = client.ask(write) {
            assert_eq!(error.errno, ENOSPC, "{error}");
            return offset - from;
        }
    }
    unreachable!("the volume is bounded")
}

#[test]
fn the_last_blocks_are_for_root_alone() {
    let Some(blocks) = empty_with_reserve(SIZE, 20) else { return };
    let mut client = Client::of(Ram::of(SIZE, blocks), "nearhead");
    let ino = client.create(ROOT, "a");
    client.uid = 1000;
    let of_user = fill(&mut client, ino, 0);
    let reserve = FsOperation::ChangeRoom {
        ino,
        offset: 1 << 30,
        len: 4 * MIB,
        change: RoomChange::ReserveBeyond,
    };
    assert_eq!(client.ask(reserve.clone()).unwrap_err().errno, ENOSPC);
    client.uid = 0;
    client.ask(reserve).unwrap();
    let of_root = fill(&mut client, ino, of_user);
    assert!(of_root >= 6 * MIB, "{of_root} bytes more for root");
    client.sync(ino);
    assert_clean(SIZE, &client.unmount(), "full");
}

#[test]
fn room_that_is_reserved_takes_no_block_that_a_write_was_promised() {
    let Some(blocks) = empty_with_reserve(SIZE, 0) else { return };
    // In `data` all of it waits in memory for a record.
    let mut client = Client::of(Ram::of(SIZE, blocks), "data");
    let (written, other) = (client.create(ROOT, "written"), client.create(ROOT, "other"));
    for at in 0..20 {
        client.write(written, at * MIB, &pattern(at, MIB as usize));
    }
    let mut reserved = 0;
    let change = RoomChange::Reserve;
    while client
        .ask(FsOperation::ChangeRoom { ino: other, offset: reserved, len: MIB, change })
        .is_ok()
    {
        reserved += MIB;
        assert!(reserved < SIZE);
    }
    client.sync(written);
    for at in 0..20 {
        assert!(client.read(written, at * MIB, MIB as u32) == pattern(at, MIB as usize));
    }
    assert_clean(SIZE, &client.unmount(), "full");
}

#[test]
fn system_attributes_are_refused_but_for_access_lists() {
    let Some(mut client) = Client::fresh("nearhead") else { return };
    let ino = client.create(ROOT, "a");
    for name in ["system.a", "system.data", "other.a", "a"] {
        let (name, value) = (name.as_bytes().to_vec(), vec![1; 4]);
        let set = FsOperation::SetXattr { ino, name: name.clone(), value, how: XattrSet::Any };
        assert_eq!(client.ask(set).unwrap_err().errno, EOPNOTSUPP);
        assert_eq!(client.ask(FsOperation::GetXattr { ino, name }).unwrap_err().errno, EOPNOTSUPP);
    }
}

/// Blocks behind the end of a file, which only `fallocate` makes, end with a cut of any kind, as on ext4.
#[test]
fn a_cut_frees_reserved_blocks_behind_it() {
    for (change, size) in
        [(RoomChange::Reserve, 3), (RoomChange::ReserveBeyond, 100), (RoomChange::Reserve, 0)]
    {
        let Some(mut client) = Client::fresh("nearhead") else { return };
        let ino = client.create(ROOT, "a");
        client.write(ino, 0, &[1; 100]);
        client.ask(FsOperation::SyncAll).unwrap();
        let blocks = |client: &mut Client| match client.ask(FsOperation::Attributes { ino }) {
            Ok(Answer::Node(node)) => node.blocks_512,
            other => panic!("{other:?}"),
        };
        let before = blocks(&mut client);
        client.ask(FsOperation::ChangeRoom { ino, offset: MIB, len: 8 * MIB, change }).unwrap();
        assert!(blocks(&mut client) >= before + (8 * MIB / 512));
        client.cut(ino, size);
        let expected = if size == 0 { 0 } else { before };
        assert_eq!(blocks(&mut client), expected, "{change:?}, cut to {size}");
        client.ask(FsOperation::SyncAll).unwrap();
        assert_clean(SIZE, &client.unmount(), "cut");
    }
}

/// The same while the new length is in memory alone.
#[test]
fn a_cut_frees_blocks_reserved_since_the_last_commit() {
    let Some(mut client) = Client::fresh("nearhead") else { return };
    let ino = client.create(ROOT, "a");
    let change = RoomChange::Reserve;
    client.ask(FsOperation::ChangeRoom { ino, offset: 200_000, len: 10_001, change }).unwrap();
    client.cut(ino, 3);
    match client.ask(FsOperation::Attributes { ino }) {
        Ok(Answer::Node(node)) => assert_eq!((node.size, node.blocks_512), (3, 0)),
        other => panic!("{other:?}"),
    }
    assert_clean(SIZE, &client.unmount(), "cut");
}
