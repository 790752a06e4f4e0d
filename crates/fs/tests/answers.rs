//! Every request gets an answer: each operation on each state of a node and of the volume, in bounded virtual time.
//!
//! A request that waits for an end that never comes leaves its caller in an uninterruptible sleep. The laws ask only that
//! each request is answered, with anything, and that the file system can be unmounted afterwards.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_disk::Nanos;
use nearhead_ext4::{
    APPEND_FLAG, AttributeChange, FileKind, IMMUTABLE_FLAG, Ino, ROOT, Rename, XattrSet,
};
use nearhead_fs::{FsOperation, RoomChange, Sought};
use support::{Blocks, Client, Ram, SIZE, buffer, make, mode_of, pattern};

/// Time in which a request has to be answered.
const ANSWERED_WITHIN: Nanos = Nanos::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Dirty,
    DirtyBulk,
    Clean,
    Unlinked,
    UnlinkedBulk,
    Immutable,
    AppendOnly,
    CutToNothing,
    Folder,
    Symlink,
}

const NODES: [Node; 10] = [
    Node::Dirty,
    Node::DirtyBulk,
    Node::Clean,
    Node::Unlinked,
    Node::UnlinkedBulk,
    Node::Immutable,
    Node::AppendOnly,
    Node::CutToNothing,
    Node::Folder,
    Node::Symlink,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Volume {
    Sound,
    Full,
    ReadOnly,
    /// It answers everything with an error from now on.
    Broken,
    /// The same, and the file system met that before.
    Failed,
}

const VOLUMES: [Volume; 5] =
    [Volume::Sound, Volume::Full, Volume::ReadOnly, Volume::Broken, Volume::Failed];

/// A node of this state, under the name `a` if it has one.
fn node(client: &mut Client, state: Node) -> Ino {
    let kind = match state {
        Node::Folder => FileKind::Directory,
        _ => FileKind::Regular,
    };
    if state == Node::Symlink {
        let mut link = make(ROOT, "a", FileKind::Symlink);
        if let FsOperation::Make { new, .. } = &mut link {
            new.target = Some(b"b".to_vec());
        }
        return client.node(link);
    }
    let ino = client.node(make(ROOT, "a", kind));
    if state == Node::Folder {
        return ino;
    }
    let is_bulk = matches!(state, Node::DirtyBulk | Node::UnlinkedBulk);
    let len = if is_bulk { 2_500_000 } else { 10_000 };
    for (at, part) in (0_u64..).zip(pattern(1, len).chunks(128 << 10)) {
        client.write(ino, at * (128 << 10), part);
    }
    let set = |flag| FsOperation::SetFlags { ino, flags: flag, mask: flag };
    match state {
        Node::Clean => client.sync(ino),
        Node::Unlinked | Node::UnlinkedBulk => unlink(client),
        Node::Immutable => drop(client.ask(set(IMMUTABLE_FLAG)).unwrap()),
        Node::AppendOnly => drop(client.ask(set(APPEND_FLAG)).unwrap()),
        Node::CutToNothing => {
            client.sync(ino);
            client.cut(ino, 0);
            client.write(ino, 0, &pattern(2, 400_000));
        }
        _ => {}
    }
    ino
}

fn unlink(client: &mut Client) {
    client.ask(FsOperation::Unlink { parent: ROOT, name: b"a".to_vec() }).unwrap();
}

/// Fills the volume until a write finds no room.
fn fill(client: &mut Client) {
    let ino = client.create(ROOT, "filler");
    let data = buffer(&pattern(3, 1 << 20));
    for at in 0.. {
        let data = data.clone();
        let write = FsOperation::Write { ino, offset: at << 20, data, is_durable: false };
        if client.ask(write).is_err() {
            break;
        }
    }
    client.ask(FsOperation::SyncAll).unwrap();
}

/// Every operation on a node.
fn operations(ino: Ino) -> Vec<FsOperation> {
    let name = || b"a".to_vec();
    let other = || b"b".to_vec();
    let parent = ROOT;
    let change = AttributeChange { mode: Some(0o600), ..AttributeChange::default() };
    let nothing = AttributeChange::default();
    let write = |offset, len: usize, is_durable| {
        let data = buffer(&pattern(4, len));
        FsOperation::Write { ino, offset, data, is_durable }
    };
    let rename =
        |name, new_name, how| FsOperation::Rename { from: ROOT, name, to: ROOT, new_name, how };
    let room = |change| FsOperation::ChangeRoom { ino, offset: 5000, len: 300_000, change };
    let flags = |flag| FsOperation::SetFlags { ino, flags: flag, mask: flag };
    vec![
        FsOperation::Attributes { ino },
        FsOperation::Read { ino, offset: 0, len: 100_000 },
        FsOperation::Flags { ino },
        FsOperation::ReadLink { ino },
        FsOperation::ReadDirectory { ino, after: 0, entries_max: 10 },
        FsOperation::GetXattr { ino, name: b"user.a".to_vec() },
        FsOperation::ListXattrs { ino },
        FsOperation::Seek { ino, offset: 0, sought: Sought::Hole },
        FsOperation::Lookup { parent, name: name() },
        FsOperation::Statistics,
        FsOperation::SetAttributes { ino, change, size: None },
        write(0, 100, false),
        write(20_000, 1 << 20, false),
        write(0, 5000, true),
        FsOperation::SetAttributes { ino, change: nothing, size: Some(3000) },
        FsOperation::SetAttributes { ino, change: nothing, size: Some(1 << 20) },
        room(RoomChange::Reserve),
        room(RoomChange::Punch),
        room(RoomChange::Zero),
        FsOperation::SetXattr {
            ino,
            name: b"user.a".to_vec(),
            value: vec![1; 90],
            how: XattrSet::Any,
        },
        FsOperation::RemoveXattr { ino, name: b"user.a".to_vec() },
        flags(nearhead_fs::DURABILITY_ONLY_FLAG),
        flags(APPEND_FLAG),
        flags(IMMUTABLE_FLAG),
        FsOperation::SetFlags { ino, flags: 0, mask: IMMUTABLE_FLAG | APPEND_FLAG },
        FsOperation::Link { ino, parent, name: b"second".to_vec() },
        rename(name(), other(), Rename::Replace),
        rename(other(), name(), Rename::Replace),
        rename(name(), b"second".to_vec(), Rename::Exchange),
        FsOperation::Closed { ino },
        FsOperation::Sync { ino, data_only: true },
        FsOperation::Sync { ino, data_only: false },
        FsOperation::SyncAll,
        FsOperation::Trim { offset: 0, len: u64::MAX, run_bytes_min: 0 },
        make(ino, "below", FileKind::Regular),
        FsOperation::Unlink { parent, name: name() },
        FsOperation::RemoveDirectory { parent, name: name() },
        FsOperation::Forget { ino, count: u64::MAX },
    ]
}

/// Sends it and lets time pass until it is answered.
fn is_answered(client: &mut Client, operation: FsOperation) -> bool {
    let id = client.send(operation);
    let end = Nanos(client.now.0 + ANSWERED_WITHIN.0);
    loop {
        while let Some(reply) = client.mounted.poll_reply() {
            if reply.id == id {
                return true;
            }
        }
        match client.mounted.wake().at {
            Some(at) if at <= end => client.now = at.max(client.now),
            _ => return false,
        }
        client.drive();
    }
}

fn base() -> Option<Blocks> {
    let mut client = Client::fresh("nearhead")?;
    let other = client.create(ROOT, "b");
    client.write(other, 0, b"other");
    Some(client.unmount())
}

/// A file system in these states with the node.
fn client_of(base: &Blocks, mode: &str, volume: Volume, state: Node) -> (Client, Ino) {
    let mut client = Client::of(Ram::of(SIZE, base.clone()), mode);
    let ino = node(&mut client, state);
    match volume {
        Volume::Sound => {}
        Volume::Full => fill(&mut client),
        Volume::ReadOnly => {
            let mut ram = Ram::of(SIZE, client.unmount());
            ram.read_only = true;
            client = Client::of(ram, mode);
        }
        Volume::Broken => client.mounted.service_mut().is_broken = true,
        Volume::Failed => {
            client.mounted.service_mut().is_broken = true;
            let _ = client.try_ask(FsOperation::SyncAll);
        }
    }
    (client, ino)
}

#[test]
fn every_request_is_answered_in_every_state() {
    let Some(base) = base() else { return };
    let mut number = 0;
    for volume in VOLUMES {
        for state in NODES {
            number += 1;
            let mode = mode_of(number);
            // All after each other, and each alone where that costs little.
            let (mut client, ino) = client_of(&base, mode, volume, state);
            for operation in operations(ino) {
                let case_name = format!("{mode}, {volume:?}, {state:?}: {operation:.80?}");
                assert!(is_answered(&mut client, operation), "no answer: {case_name}");
            }
            client.end();
            if volume == Volume::Full {
                continue;
            }
            for at in 0..operations(ino).len() {
                let (mut client, ino) = client_of(&base, mode, volume, state);
                let operation = operations(ino).swap_remove(at);
                let case_name = format!("{mode}, {volume:?}, {state:?}: {operation:.80?} alone");
                assert!(is_answered(&mut client, operation), "no answer: {case_name}");
                client.end();
            }
        }
    }
}

#[test]
fn a_cut_is_answered_although_the_file_is_written_all_the_time() {
    for mode in nearhead_journal::MODES {
        let Some(mut client) = Client::fresh(mode.name()) else { return };
        let ino = client.create(ROOT, "a");
        client.mounted.service_mut().holds_bulk = true;
        client.write(ino, 0, &pattern(1, 1 << 20));
        let change = AttributeChange::default();
        let cut = client.send(FsOperation::SetAttributes { ino, change, size: Some(100) });
        let mut is_answered = false;
        // Each time a part of it is in its place another one is written.
        for at in 1..20 {
            let data = buffer(&pattern(at, 1 << 20));
            client.send(FsOperation::Write { ino, offset: at << 20, data, is_durable: false });
            if client.mounted.service().held() > 0 {
                client.mounted.service_mut().let_one_go();
            }
            client.drive();
            while let Some(reply) = client.mounted.poll_reply() {
                is_answered |= reply.id == cut;
            }
        }
        assert!(is_answered, "{}", mode.name());
    }
}
