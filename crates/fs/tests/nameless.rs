//! Files that never had a name, and whiteouts: what an overlay and `O_TMPFILE` need, clean for e2fsck whenever the machine stops.

#![allow(clippy::unwrap_used)]

mod support;

use nearhead_basics::Random;
use nearhead_ext4::{FileKind, Ino, NewNode, ROOT, Rename};
use nearhead_fs::{Answer, FsOperation};
use support::{Client, Ram, SIZE, assert_clean, make, pattern};

fn nameless<S: support::Timed>(client: &mut Client<S>) -> Ino {
    let new = NewNode { kind: FileKind::Regular, mode: 0o600, umask: 0, device: 0, target: None };
    client.node(FsOperation::MakeNameless { parent: ROOT, new })
}

fn link<S: support::Timed>(client: &mut Client<S>, ino: Ino, name: &str) -> Result<Answer, i32> {
    let name = name.as_bytes().to_vec();
    let linked = client.ask(FsOperation::Link { ino, parent: ROOT, name });
    linked.map_err(|error| error.errno)
}

fn links<S: support::Timed>(client: &mut Client<S>, ino: Ino) -> u32 {
    match client.ask(FsOperation::Attributes { ino }) {
        Ok(Answer::Node(node)) => node.links,
        other => panic!("expected a node, found {other:?}"),
    }
}

#[test]
fn a_nameless_file_is_gone_after_a_crash_even_if_synced() {
    let Some(mut client) = Client::fresh("nearhead") else { return };
    let file = nameless(&mut client);
    client.write(file, 0, &pattern(1, 300_000));
    client.sync(file);
    assert_eq!(links(&mut client, file), 0);
    assert_eq!(client.read(file, 0, 300_000), pattern(1, 300_000));
    let blocks = client.mounted.service().after_crash(&mut Random::new(1));
    assert_clean(SIZE, &blocks, "while it is held");
    let mut client = Client::of(Ram::of(SIZE, blocks), "nearhead");
    client.end();
    let mut client = Client::of(Ram::of(SIZE, client.mounted.into_service().durable), "nearhead");
    let lost = client.find("lost+found").unwrap();
    let listed = FsOperation::ReadDirectory { ino: lost, after: 0, entries_max: 10 };
    let Ok(Answer::Entries(entries)) = client.ask(listed) else { panic!("no listing") };
    assert_eq!(entries.len(), 2, "{entries:?}");
}

#[test]
fn a_nameless_file_needs_no_lost_and_found() {
    let Some(mut client) = Client::fresh("nearhead") else { return };
    let name = b"lost+found".to_vec();
    client.ask(FsOperation::RemoveDirectory { parent: ROOT, name }).unwrap();
    let root = |client: &mut Client<Ram>| {
        let attributes = client.ask(FsOperation::Attributes { ino: ROOT });
        let listed = FsOperation::ReadDirectory { ino: ROOT, after: 0, entries_max: 10 };
        (attributes.unwrap(), client.ask(listed).unwrap())
    };
    let before = root(&mut client);
    let file = nameless(&mut client);
    client.write(file, 0, &pattern(1, 300_000));
    client.sync(file);
    let (Answer::Node(old), Answer::Node(new)) = (&before.0, root(&mut client).0) else { panic!() };
    assert_eq!((old.links, old.modified, old.changed), (new.links, new.modified, new.changed));
    assert_eq!(format!("{:?}", root(&mut client).1), format!("{:?}", before.1));
    let blocks = client.mounted.service().after_crash(&mut Random::new(1));
    assert_clean(SIZE, &blocks, "without lost+found");
    link(&mut client, file, "a").unwrap();
    assert_eq!(client.read(file, 0, 300_000), pattern(1, 300_000));
    assert_clean(SIZE, &client.unmount(), "after it was linked");
}

#[test]
fn a_nameless_file_is_freed_with_its_last_reference() {
    let Some(mut client) = Client::fresh("nearhead") else { return };
    let free = |client: &mut Client<Ram>| match client.ask(FsOperation::Statistics) {
        Ok(Answer::Statistics(of)) => (of.free, of.free_inodes),
        other => panic!("expected statistics, found {other:?}"),
    };
    let before = free(&mut client);
    let file = nameless(&mut client);
    client.write(file, 0, &pattern(1, 300_000));
    client.ask(FsOperation::SyncAll).unwrap();
    assert_ne!(free(&mut client), before);
    client.ask(FsOperation::Forget { ino: file, count: 1 }).unwrap();
    client.ask(FsOperation::SyncAll).unwrap();
    assert_eq!(free(&mut client), before);
    assert_clean(SIZE, &client.unmount(), "after it was forgotten");
}

#[test]
fn a_nameless_file_that_was_linked_is_as_any_other() {
    for mode in ["nearhead", "ordered"] {
        let Some(mut client) = Client::fresh(mode) else { return };
        let file = nameless(&mut client);
        let bytes = pattern(2, 5 << 20);
        client.write(file, 0, &bytes);
        client.sync(file);
        client.write(file, 0, b"later");
        link(&mut client, file, "a").unwrap();
        link(&mut client, file, "b").unwrap();
        assert_eq!((links(&mut client, file), link(&mut client, file, "a").err()), (2, Some(17)));
        client.write(file, 5, b" still");
        client.ask(FsOperation::SyncAll).unwrap();
        client.ask(FsOperation::Forget { ino: file, count: 3 }).unwrap();
        let blocks = client.mounted.service().after_crash(&mut Random::new(2));
        assert_clean(SIZE, &blocks, mode);
        let mut client = Client::of(Ram::of(SIZE, blocks), mode);
        let found = client.find("b").unwrap();
        assert_eq!((found, links(&mut client, found)), (client.find("a").unwrap(), 2));
        let read = client.read(found, 0, bytes.len() as u32);
        assert!(read[..11] == *b"later still" && read[11..] == bytes[11..], "{mode}");
    }
}

#[test]
fn a_removed_file_cannot_be_linked_again() {
    let Some(mut client) = Client::fresh("nearhead") else { return };
    let file = nameless(&mut client);
    link(&mut client, file, "a").unwrap();
    client.ask(FsOperation::Unlink { parent: ROOT, name: b"a".to_vec() }).unwrap();
    assert_eq!(link(&mut client, file, "b").unwrap_err(), 2);
}

fn move_away<S: support::Timed>(client: &mut Client<S>, name: &str, to: &str, how: Rename) {
    let (name, new_name) = (name.as_bytes().to_vec(), to.as_bytes().to_vec());
    client.ask(FsOperation::Rename { from: ROOT, name, to: ROOT, new_name, how }).unwrap();
}

#[test]
fn a_whiteout_and_the_moved_name_come_in_one_moment() {
    let Some(mut client) = Client::fresh("nearhead") else { return };
    for (number, (kind, is_replacing)) in
        [(FileKind::Regular, false), (FileKind::Directory, false), (FileKind::Regular, true)]
            .into_iter()
            .enumerate()
    {
        let (old, new) = (format!("old-{number}"), format!("new-{number}"));
        let moved = client.node(make(ROOT, &old, kind));
        let how = if is_replacing { Rename::Whiteout } else { Rename::WhiteoutNoReplace };
        if is_replacing {
            client.create(ROOT, &new);
        }
        move_away(&mut client, &old, &new, how);
        client.sync(ROOT);
        let blocks = client.mounted.service().after_crash(&mut Random::new(3));
        assert_clean(SIZE, &blocks, &old);
        let mut after = Client::of(Ram::of(SIZE, blocks), "nearhead");
        assert_eq!(after.find(&new), Some(moved));
        let lookup = FsOperation::Lookup { parent: ROOT, name: old.clone().into_bytes() };
        let Ok(Answer::Node(node)) = after.ask(lookup) else { panic!("no whiteout") };
        assert_eq!((node.kind, node.device, node.mode), (FileKind::CharDevice, 0, 0));
    }
}
