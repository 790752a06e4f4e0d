//! A user who does operations on a small tree and knows what may be there after a crash.

use super::known::Known;
use super::tree::{Done, Kind, Node, Op, Room, TOP, Tree, split, written};
use super::{BLOCK, Blocks, Client, Ram, Timed, buffer, empty};
use nearhead_ext4::{AttributeChange, FileKind, Ino, NewNode, ROOT, Rename, XattrSet};
use nearhead_fs::{Answer, FsOperation, RoomChange};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Of the file systems of these lives.
pub const SMALL_BYTES: u64 = 16 << 20;
/// What free blocks hold: nobody may ever read it.
const REMAINS_BYTES: usize = 3 << 20;

/// Somebody who uses a file system.
pub struct User<S> {
    pub client: Client<S>,
    pub known: Known,
    inos: BTreeMap<u32, Ino>,
    number: u64,
}

impl<S: Timed> User<S> {
    /// Of a file system that holds `tree`, durable.
    pub fn of(mut client: Client<S>, tree: &Tree) -> Self {
        let mut inos = BTreeMap::from([(TOP, ROOT)]);
        for (path, id) in tree.paths() {
            inos.entry(id).or_insert_with(|| client.find(&path).unwrap());
        }
        Self { client, known: Known::of(tree.clone()), inos, number: 1 }
    }

    /// Nothing if the operation would be refused; false if it is not answered.
    pub fn step(&mut self, op: Op) -> Option<bool> {
        let is_answered = self.ask(op)?;
        if is_answered {
            self.learn(op);
        }
        Some(is_answered)
    }

    /// The same; what the answer promises is not known yet.
    pub fn ask(&mut self, op: Op) -> Option<bool> {
        self.number += 1;
        let Done { tree, touched, gone, made } = self.known.tree().after(op, self.number)?;
        let request = self.request(op, &tree, made);
        self.known.asked(tree, &touched);
        if op == Op::SyncSoon {
            self.client.send(request);
            return Some(true);
        }
        let Some(answer) = self.client.try_ask(request) else { return Some(false) };
        let answer = answer.unwrap_or_else(|error| panic!("{op:?}: {error}"));
        if let (Some(id), Answer::Node(node)) = (made, answer) {
            self.inos.insert(id, node.ino);
        }
        let Some(ino) = gone.map(|id| self.inos[&id]) else { return Some(true) };
        let forget = FsOperation::Forget { ino, count: u64::MAX };
        Some(self.client.try_ask(forget).is_some())
    }

    /// What its answer promises.
    pub fn learn(&mut self, op: Op) {
        match op {
            Op::Sync(path) => self.known.synced(self.known.tree().find(path).unwrap()),
            Op::WriteDurable(path, ..) => {
                self.known.wrote_durably(self.known.tree().find(path).unwrap());
            }
            Op::SyncAll => self.known.synced_all(),
            _ => {}
        }
    }

    fn request(&self, op: Op, after: &Tree, made: Option<u32>) -> FsOperation {
        let before = self.known.tree();
        let ino = |path: &str| self.inos[&before.find(path).unwrap()];
        let place = |path: &str| {
            let (folder, name) = split(path);
            (ino(folder), name.as_bytes().to_vec())
        };
        match op {
            Op::Create(path) | Op::Mkdir(path) | Op::Symlink(path) => {
                let (parent, name) = place(path);
                let node = &after.nodes[&made.unwrap()];
                FsOperation::Make { parent, name, new: new_node(node) }
            }
            Op::Link(from, to) => {
                let (parent, name) = place(to);
                FsOperation::Link { ino: ino(from), parent, name }
            }
            Op::Rename(from, to) | Op::Exchange(from, to) => {
                let how =
                    if matches!(op, Op::Rename(..)) { Rename::Replace } else { Rename::Exchange };
                let ((from, name), (to, new_name)) = (place(from), place(to));
                FsOperation::Rename { from, name, to, new_name, how }
            }
            Op::Unlink(path) => {
                let (parent, name) = place(path);
                FsOperation::Unlink { parent, name }
            }
            Op::Rmdir(path) => {
                let (parent, name) = place(path);
                FsOperation::RemoveDirectory { parent, name }
            }
            Op::Write(path, at, len) | Op::WriteDurable(path, at, len) => {
                let is_durable = matches!(op, Op::WriteDurable(..));
                let data = buffer(&written(self.number, len));
                FsOperation::Write { ino: ino(path), offset: at as u64, data, is_durable }
            }
            Op::Append(path, len) => {
                let offset = before.nodes[&before.find(path).unwrap()].bytes.len() as u64;
                let data = buffer(&written(self.number, len));
                FsOperation::Write { ino: ino(path), offset, data, is_durable: false }
            }
            Op::Truncate(path, size) => {
                let change = AttributeChange::default();
                FsOperation::SetAttributes { ino: ino(path), change, size: Some(size as u64) }
            }
            Op::Room(path, room, at, len) => {
                let change = match room {
                    Room::Reserve => RoomChange::Reserve,
                    Room::Punch => RoomChange::Punch,
                    Room::Zero => RoomChange::Zero,
                };
                let (offset, len) = (at as u64, len as u64);
                FsOperation::ChangeRoom { ino: ino(path), offset, len, change }
            }
            Op::SetXattr(path, name, _) => {
                let id = after.find(path).unwrap();
                let value = after.nodes[&id].attributes[name].clone();
                let (name, how) = (name.as_bytes().to_vec(), XattrSet::Any);
                FsOperation::SetXattr { ino: self.inos[&id], name, value, how }
            }
            Op::RemoveXattr(path, name) => {
                FsOperation::RemoveXattr { ino: ino(path), name: name.as_bytes().to_vec() }
            }
            Op::Sync(path) => FsOperation::Sync { ino: ino(path), data_only: false },
            Op::SyncAll | Op::SyncSoon => FsOperation::SyncAll,
            Op::Trim => FsOperation::Trim { offset: 0, len: u64::MAX, run_bytes_min: 0 },
        }
    }
}

fn new_node(node: &Node) -> NewNode {
    let (kind, mode) = match node.kind {
        Kind::File => (FileKind::Regular, 0o644),
        Kind::Folder => (FileKind::Directory, 0o755),
        Kind::Link => (FileKind::Symlink, 0o777),
    };
    let target = (node.kind == Kind::Link).then(|| node.target.clone().into_bytes());
    NewNode { kind, mode, umask: 0, device: 0, target }
}

/// A small file system with a small tree, whose free blocks hold what was there before; `None` where no program makes one.
pub fn small_base() -> Option<(Blocks, Tree)> {
    let mut client = Client::of(Ram::of(SMALL_BYTES, empty(SMALL_BYTES)?), "manylogs");
    let remains = client.create(ROOT, "remains");
    for at in (0..REMAINS_BYTES).step_by(BLOCK * 32) {
        client.write(remains, at as u64, &vec![0xee; BLOCK * 32]);
    }
    client.sync(remains);
    let mut user = User::of(client, &Tree::new());
    let client = &mut user.client;
    client.ask(FsOperation::Unlink { parent: ROOT, name: b"remains".to_vec() }).unwrap();
    client.ask(FsOperation::Forget { ino: remains, count: u64::MAX }).unwrap();
    let all = [
        Op::SyncAll,
        Op::Create("a"),
        Op::Write("a", 0, 10_000),
        Op::Mkdir("d"),
        Op::Create("d/b"),
        Op::Write("d/b", 0, 5000),
        Op::SetXattr("d/b", "user.old", 20),
        Op::Mkdir("e"),
        Op::SyncAll,
    ];
    for op in all {
        assert_eq!(user.step(op), Some(true), "{op:?}");
    }
    let tree = user.known.tree().clone();
    Some((user.client.unmount(), tree))
}

/// What there is, read as any program would.
pub fn tree_of(client: &mut Client) -> Tree {
    let mut tree = Tree::new();
    read_folder(client, ROOT, TOP, &mut tree);
    tree
}

fn read_folder(client: &mut Client, ino: Ino, id: u32, tree: &mut Tree) {
    let list = FsOperation::ReadDirectory { ino, after: 0, entries_max: 1000 };
    let Ok(Answer::Entries(entries)) = client.ask(list) else { panic!("no entries") };
    for entry in entries {
        let name = String::from_utf8(entry.name.clone()).unwrap();
        if [".", "..", "lost+found"].contains(&name.as_str()) {
            continue;
        }
        let found = client.ask(FsOperation::Lookup { parent: ino, name: entry.name });
        let Ok(Answer::Node(found)) = found else { panic!("{name} is listed, and: {found:?}") };
        let child = found.ino.0;
        let is_new = !tree.nodes.contains_key(&child);
        tree.names.insert((id, name), child);
        if !is_new {
            continue;
        }
        let node = read_node(client, &found);
        let is_folder = node.kind == Kind::Folder;
        let links = found.links;
        tree.nodes.insert(child, node);
        if is_folder {
            read_folder(client, found.ino, child, tree);
        } else {
            // That its links are counted right is e2fsck's to say.
            assert!(links > 0);
        }
    }
}

fn read_node(client: &mut Client, found: &nearhead_ext4::Attributes) -> Node {
    let ino = found.ino;
    let mut node = Node::new(match found.kind {
        FileKind::Directory => Kind::Folder,
        FileKind::Symlink => Kind::Link,
        _ => Kind::File,
    });
    if node.kind == Kind::Link {
        let Ok(Answer::Value(target)) = client.ask(FsOperation::ReadLink { ino }) else {
            panic!("no target")
        };
        node.target = String::from_utf8(target).unwrap();
    }
    if node.kind == Kind::File {
        node.bytes = Rc::new(client.read(ino, 0, 1 << 23));
    }
    let Ok(Answer::Names(names)) = client.ask(FsOperation::ListXattrs { ino }) else {
        panic!("no list of attributes")
    };
    for name in names {
        let text = String::from_utf8(name.clone()).unwrap();
        if text == "user.nearhead.durability" {
            continue;
        }
        let Ok(Answer::Value(value)) = client.ask(FsOperation::GetXattr { ino, name }) else {
            panic!("{text} is listed and not there")
        };
        node.attributes.insert(text, value);
    }
    node
}
