//! Everything that an observer sees of a file system, as values that can be compared.

use super::{Client, Ram};
use nearhead_ext4::{Attributes, FileKind, Ino, ROOT, Timestamp};
use nearhead_fs::{Answer, FsOperation};
use std::collections::BTreeMap;

/// Facts about a node that an observer sees.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub kind: FileKind,
    pub mode: u16,
    pub owner: (u32, u32),
    pub links: u32,
    pub size: u64,
    pub times: [Timestamp; 3],
    pub bytes: Vec<u8>,
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

pub fn same(plain: &BTreeMap<String, Seen>, killed: &BTreeMap<String, Seen>, context: &str) {
    let names = |tree: &BTreeMap<String, Seen>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(plain), names(killed), "{context}: names");
    for (path, one) in plain {
        let other = &killed[path];
        let differs = one.bytes.iter().zip(&other.bytes).position(|(one, other)| one != other);
        assert_eq!(differs, None, "{context}: {path}: first byte that differs");
        let facts = |seen: &Seen| Seen { bytes: Vec::new(), ..seen.clone() };
        assert_eq!(facts(one), facts(other), "{context}: {path}");
        assert_eq!(one.bytes.len(), other.bytes.len(), "{context}: {path}");
    }
}

pub fn attributes(client: &mut Client, ino: Ino) -> Attributes {
    match client.ask(FsOperation::Attributes { ino }) {
        Ok(Answer::Node(node)) => node,
        other => panic!("node {}: {other:?}", ino.0),
    }
}

pub fn see(client: &mut Client, ino: Ino) -> Seen {
    let found = attributes(client, ino);
    let bytes = match found.kind {
        FileKind::Regular => client.read(ino, 0, found.size as u32),
        FileKind::Symlink => match client.ask(FsOperation::ReadLink { ino }) {
            Ok(Answer::Value(bytes)) => bytes,
            other => panic!("link {}: {other:?}", ino.0),
        },
        _ => Vec::new(),
    };
    let names = match client.ask(FsOperation::ListXattrs { ino }) {
        Ok(Answer::Names(names)) => names,
        other => panic!("attributes of {}: {other:?}", ino.0),
    };
    let value = |name: &Vec<u8>| match client.ask(FsOperation::GetXattr { ino, name: name.clone() })
    {
        Ok(Answer::Value(value)) => (name.clone(), value),
        other => panic!("attribute of {}: {other:?}", ino.0),
    };
    let mut xattrs: Vec<_> = names.iter().map(value).collect();
    xattrs.sort();
    Seen {
        kind: found.kind,
        mode: found.mode,
        owner: (found.uid, found.gid),
        links: found.links,
        size: found.size,
        times: [found.modified, found.changed, found.created],
        bytes,
        xattrs,
    }
}

pub fn tree_of(client: &mut Client) -> BTreeMap<String, Seen> {
    let mut found = BTreeMap::new();
    let mut open = vec![(String::new(), ROOT)];
    while let Some((path, ino)) = open.pop() {
        let mut after = 0;
        loop {
            let listed = client.ask(FsOperation::ReadDirectory { ino, after, entries_max: 50 });
            let Ok(Answer::Entries(entries)) = listed else { panic!("{path}: {listed:?}") };
            let Some(last) = entries.last() else { break };
            after = last.cookie;
            for entry in entries {
                let name = String::from_utf8(entry.name).unwrap();
                if [".", "..", "lost+found"].contains(&name.as_str()) {
                    continue;
                }
                let path = format!("{path}/{name}");
                found.insert(path.clone(), see(client, entry.ino));
                if entry.kind == FileKind::Directory {
                    open.push((path, entry.ino));
                }
            }
        }
    }
    found
}
