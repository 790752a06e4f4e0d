//! A tree of names as it should be, and what single operations make of it. It knows nothing of blocks.

use super::pattern;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub const TOP: u32 = 0;

/// What there is at a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    Link,
}

/// One node.
#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    pub target: String,
    pub attributes: BTreeMap<String, Vec<u8>>,
    pub bytes: Rc<Vec<u8>>,
}

/// How room of a file changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Reserve,
    Punch,
    Zero,
}

/// An operation on a small space of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Create(&'static str),
    Mkdir(&'static str),
    Symlink(&'static str),
    Link(&'static str, &'static str),
    Rename(&'static str, &'static str),
    Exchange(&'static str, &'static str),
    Unlink(&'static str),
    Rmdir(&'static str),
    Write(&'static str, usize, usize),
    /// The same, durable when it is answered.
    WriteDurable(&'static str, usize, usize),
    Append(&'static str, usize),
    Truncate(&'static str, usize),
    Room(&'static str, Room, usize, usize),
    SetXattr(&'static str, &'static str, usize),
    RemoveXattr(&'static str, &'static str),
    Sync(&'static str),
    SyncAll,
    /// The same, and nobody waits for the answer.
    SyncSoon,
    /// All that is free is told to the disk.
    Trim,
}

/// All nodes and names.
#[derive(Clone, Debug)]
pub struct Tree {
    pub nodes: BTreeMap<u32, Node>,
    pub names: BTreeMap<(u32, String), u32>,
    next: u32,
}

/// What an operation did.
#[derive(Debug)]
pub struct Done {
    pub tree: Tree,
    /// Nodes whose metadata changed: names, links, attributes.
    pub touched: Vec<u32>,
    /// A node that lost its last name.
    pub gone: Option<u32>,
    /// A node that is new.
    pub made: Option<u32>,
}

/// The folder of a path, and the last name.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl Tree {
    pub fn new() -> Self {
        let top = Node::new(Kind::Folder);
        Self { nodes: BTreeMap::from([(TOP, top)]), names: BTreeMap::new(), next: TOP + 1 }
    }

    pub fn find(&self, path: &str) -> Option<u32> {
        let mut at = TOP;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            at = *self.names.get(&(at, name.to_owned()))?;
        }
        Some(at)
    }

    fn of_kind(&self, path: &str, kind: Kind) -> Option<u32> {
        self.find(path).filter(|id| self.nodes[id].kind == kind)
    }

    fn place(&self, path: &str) -> Option<(u32, String)> {
        let (folder, name) = split(path);
        Some((self.of_kind(folder, Kind::Folder)?, name.to_owned()))
    }

    pub fn links(&self, id: u32) -> usize {
        self.names.values().filter(|other| **other == id).count()
    }

    /// Every path with what there is, all but the bytes.
    pub fn told(&self) -> BTreeSet<String> {
        let mut told = BTreeSet::new();
        let mut first = BTreeMap::new();
        self.tell(TOP, "", &mut first, &mut told);
        told
    }

    /// The node at every path.
    pub fn paths(&self) -> BTreeMap<String, u32> {
        let mut paths = BTreeMap::new();
        let mut first = BTreeMap::new();
        self.tell(TOP, "", &mut first, &mut BTreeSet::new());
        for ((folder, name), id) in &self.names {
            let before = if *folder == TOP { String::new() } else { first[folder].clone() };
            paths.insert(format!("{before}/{name}"), *id);
        }
        paths
    }

    fn tell(
        &self,
        folder: u32,
        before: &str,
        first: &mut BTreeMap<u32, String>,
        told: &mut BTreeSet<String>,
    ) {
        for ((of, name), id) in self.names.range((folder, String::new())..) {
            if *of != folder {
                break;
            }
            let path = format!("{before}/{name}");
            let same = first.entry(*id).or_insert_with(|| path.clone()).clone();
            let node = &self.nodes[id];
            told.insert(line(&path, &same, node, self.links(*id)));
            if node.kind == Kind::Folder {
                self.tell(*id, &path, first, told);
            }
        }
    }

    fn is_empty(&self, folder: u32) -> bool {
        !self.names.keys().any(|(of, _)| *of == folder)
    }

    /// What the operation makes of it; nothing if it would be refused. `number` makes its bytes differ from those of others.
    pub fn after(&self, op: Op, number: u64) -> Option<Done> {
        let mut tree = self.clone();
        let (mut touched, mut gone, mut made) = (Vec::new(), None, None);
        match op {
            Op::Create(path) | Op::Mkdir(path) | Op::Symlink(path) => {
                let place = self.place(path)?;
                let mut node = Node::new(match op {
                    Op::Create(_) => Kind::File,
                    Op::Mkdir(_) => Kind::Folder,
                    _ => Kind::Link,
                });
                if node.kind == Kind::Link {
                    // So long that it has a block of its own, or not.
                    node.target = "t".repeat(10 + number as usize % 2 * 190);
                }
                if self.names.contains_key(&place) {
                    return None;
                }
                touched.extend([place.0, self.next]);
                made = Some(self.next);
                tree.nodes.insert(self.next, node);
                tree.names.insert(place, self.next);
                tree.next += 1;
            }
            Op::Link(from, to) => {
                let (id, place) = (self.find(from)?, self.place(to)?);
                if self.nodes[&id].kind == Kind::Folder || self.names.contains_key(&place) {
                    return None;
                }
                touched.extend([place.0, id]);
                tree.names.insert(place, id);
            }
            Op::Rename(from, to) => {
                let (id, old, new) = (self.find(from)?, self.place(from)?, self.place(to)?);
                let replaced = self.names.get(&new).copied();
                if replaced == Some(id) || is_below(to, from) || is_below(from, to) {
                    return None;
                }
                touched.extend([old.0, new.0, id]);
                if let Some(other) = replaced {
                    let is_folder = self.nodes[&other].kind == Kind::Folder;
                    let fits = is_folder == (self.nodes[&id].kind == Kind::Folder);
                    if !fits || is_folder && !self.is_empty(other) {
                        return None;
                    }
                    touched.push(other);
                }
                tree.names.remove(&old);
                tree.names.insert(new, id);
                gone = replaced.filter(|other| tree.links(*other) == 0);
            }
            Op::Exchange(one, other) => {
                let (first, second) = (self.find(one)?, self.find(other)?);
                if first == second || is_below(one, other) || is_below(other, one) {
                    return None;
                }
                let (here, there) = (self.place(one)?, self.place(other)?);
                touched.extend([here.0, there.0, first, second]);
                tree.names.insert(here, second);
                tree.names.insert(there, first);
            }
            Op::Unlink(path) => {
                let (id, place) = (self.find(path)?, self.place(path)?);
                if self.nodes[&id].kind == Kind::Folder {
                    return None;
                }
                touched.extend([place.0, id]);
                tree.names.remove(&place);
                gone = Some(id).filter(|id| tree.links(*id) == 0);
            }
            Op::Rmdir(path) => {
                let id = self.of_kind(path, Kind::Folder).filter(|id| self.is_empty(*id))?;
                let place = self.place(path)?;
                touched.extend([place.0, id]);
                tree.names.remove(&place);
                gone = Some(id);
            }
            Op::SetXattr(path, name, len) => {
                let id = self.find(path).filter(|id| self.nodes[id].kind != Kind::Link)?;
                touched.push(id);
                let value = pattern(1000 + number, len);
                tree.node(id).attributes.insert(name.to_owned(), value);
            }
            Op::RemoveXattr(path, name) => {
                let id = self.find(path)?;
                touched.push(id);
                tree.node(id).attributes.remove(name)?;
            }
            Op::Sync(path) => drop(self.find(path).filter(|id| self.nodes[id].kind != Kind::Link)?),
            Op::SyncAll | Op::SyncSoon | Op::Trim => {}
            Op::Write(path, ..)
            | Op::WriteDurable(path, ..)
            | Op::Append(path, _)
            | Op::Truncate(path, _)
            | Op::Room(path, ..) => {
                let id = self.of_kind(path, Kind::File)?;
                let mut bytes = self.nodes[&id].bytes.to_vec();
                change(&mut bytes, op, number);
                tree.node(id).bytes = Rc::new(bytes);
            }
        }
        Some(Done { tree, touched, gone, made })
    }

    fn node(&mut self, id: u32) -> &mut Node {
        self.nodes.get_mut(&id).unwrap()
    }
}

fn is_below(path: &str, other: &str) -> bool {
    path == other || path.starts_with(&format!("{other}/"))
}

/// What an operation that changes bytes makes of them.
fn change(bytes: &mut Vec<u8>, op: Op, number: u64) {
    let (at, len) = match op {
        Op::Write(_, at, len) | Op::WriteDurable(_, at, len) | Op::Room(_, _, at, len) => (at, len),
        Op::Append(_, len) => (bytes.len(), len),
        Op::Truncate(_, size) => return bytes.resize(size, 0),
        _ => return,
    };
    let before = bytes.len();
    let grows = !matches!(op, Op::Room(_, Room::Punch, ..));
    if grows && before < at + len {
        bytes.resize(at + len, 0);
    }
    let end = (at + len).min(bytes.len());
    match op {
        Op::Room(_, Room::Reserve, ..) => {}
        Op::Room(..) => bytes[at.min(end)..end].fill(0),
        _ => bytes[at..end].copy_from_slice(&written(number, len)),
    }
}

/// The bytes that operation `number` writes.
pub fn written(number: u64, len: usize) -> Vec<u8> {
    pattern(number, len)
}

impl Node {
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            target: String::new(),
            attributes: BTreeMap::new(),
            bytes: Rc::new(Vec::new()),
        }
    }
}

/// One path in words.
pub fn line(path: &str, same: &str, node: &Node, links: usize) -> String {
    // A folder has links of others, which its names tell.
    let links = if node.kind == Kind::Folder { 0 } else { links };
    let sum = |value: &Vec<u8>| {
        value.iter().fold(7_u64, |sum, byte| sum.wrapping_mul(31) ^ u64::from(*byte))
    };
    let attributes: Vec<String> = node
        .attributes
        .iter()
        .map(|(name, value)| format!("{name}={}:{:x}", value.len(), sum(value)))
        .collect();
    format!(
        "{path} {:?} links {links} of {same} to {:?} {}",
        node.kind,
        node.target,
        attributes.join(" ")
    )
}
