//! States of nodes that a kill of the daemon or a power cut may leave.
//!
//! A sync gives its node exactly one state: content and attributes, apart from the time of access. A
//! replacement without a sync (a rename over the name, or `O_TRUNC`, write and close) adds the new state
//! to the old one. Any other act takes its nodes out, so the model knows less than ext4 guarantees. The
//! model may not claim more than ext4 keeps: a crash image of the oracle is checked as well.

use super::call::Call;
use super::view::{Content, Found, Node, attributes, content, join};
use crate::content::describe;
use rustix::fs::FileType;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

/// Verbs that change neither content nor attributes, apart from the time of access.
const READING: [&str; 17] = [
    "read",
    "pread",
    "map-read",
    "seek-data",
    "seek-hole",
    "seek-end",
    "fstat",
    "flock",
    "lock",
    "getxattr",
    "listxattr",
    "access",
    "list",
    "readlink",
    "cat",
    "syncfs",
    "close",
];
/// Flags of `open` that make each write durable.
const DURABLE_WRITES: [&str; 2] = ["sync", "dsync"];

/// A state that a node may have after a crash.
#[derive(Clone, Debug)]
struct State {
    /// None after a sync of data alone.
    node: Option<Node>,
    content: Content,
}

/// An open file of one process.
#[derive(Clone, Debug)]
struct Handle {
    /// Inodes on oracle and subject.
    inodes: [u64; 2],
    has_durable_writes: bool,
}

/// Nodes whose states are known, by path, and the open files.
#[derive(Debug, Default)]
pub struct Synced {
    nodes: BTreeMap<String, Vec<State>>,
    handles: HashMap<(usize, String), Handle>,
    /// Directories that were renamed since all was durable: a sync below them need not bring their names.
    moved: BTreeSet<String>,
}

/// A successful call, and what both sides look like after it.
#[derive(Debug)]
pub struct Noted<'a> {
    /// Process that made the call.
    pub by: usize,
    /// The call.
    pub call: &'a Call,
    /// Attributes by path, of oracle and subject.
    pub now: [&'a BTreeMap<String, Found>; 2],
    /// Root of the oracle.
    pub oracle: &'a Path,
}

impl Noted<'_> {
    fn argument(&self, index: usize) -> &str {
        self.call.arguments.get(index).map_or("", String::as_str)
    }

    fn node(&self, path: &str) -> Option<&Node> {
        self.now[1].get(path).and_then(|found| found.as_ref().ok())
    }

    fn state(&self, path: &str) -> Option<State> {
        let node = self.node(path)?.clone();
        Some(State { node: Some(node), content: content(&join(self.oracle, path)) })
    }

    /// Inodes of a path on both sides.
    fn inodes(&self, path: &str) -> Option<[u64; 2]> {
        let of = |side: usize| Some(self.now[side].get(path)?.as_ref().ok()?.ino);
        Some([of(0)?, of(1)?])
    }

    /// Whether the path leads through a symbolic link or ends at one. Reads no link: that would move its time of access.
    fn is_through_link(&self, path: &str) -> bool {
        let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        Path::new(path).ancestors().any(|part| is_link(&self.oracle.join(part)))
    }
}

impl Synced {
    /// Everything is durable, and no file is open: each path has its state of now.
    pub fn all(now: [&BTreeMap<String, Found>; 2], oracle: &Path) -> Self {
        let call = Call::new("syncfs", &["."]);
        let noted = Noted { by: 0, call: &call, now, oracle };
        let states =
            now[1].keys().filter_map(|path| Some((path.clone(), vec![noted.state(path)?])));
        Self { nodes: states.collect(), ..Self::default() }
    }

    /// Notes a successful call.
    pub fn note(&mut self, noted: &Noted<'_>) {
        let verb = noted.call.verb;
        if noted.call.paths().iter().any(|path| noted.is_through_link(path)) {
            self.nodes.clear();
        }
        match verb {
            "fsync-path" => self.sync_path(noted),
            "fsync" | "fdatasync" => self.sync_handle(noted, verb == "fsync"),
            "close" => drop(self.handles.remove(&(noted.by, noted.argument(0).to_owned()))),
            "open" => self.open(noted),
            "fill" => self.replace(noted, noted.argument(0), None),
            "rename" => self.rename(noted),
            _ if READING.contains(&verb) => {}
            _ => {
                noted.call.paths().iter().for_each(|path| self.touch(noted, path));
                self.touch_handles(noted);
            }
        }
    }

    fn sync_path(&mut self, noted: &Noted<'_>) {
        let path = noted.argument(0);
        if let Some(ino) = noted.inodes(path).filter(|_| !noted.is_through_link(path)) {
            self.sync(noted, ino[1], true);
        }
    }

    fn sync_handle(&mut self, noted: &Noted<'_>, is_whole: bool) {
        let handle = self.handles.get(&(noted.by, noted.argument(0).to_owned()));
        if let Some(handle) = handle.cloned() {
            self.sync(noted, handle.inodes[1], is_whole);
        }
    }

    /// Every name of the subject's inode `ino` has its state of now.
    fn sync(&mut self, noted: &Noted<'_>, ino: u64, is_whole: bool) {
        for (path, found) in noted.now[1] {
            let is_below_moved = self.moved.iter().any(|moved| path.starts_with(moved.as_str()));
            if is_below_moved || !found.as_ref().is_ok_and(|node| node.ino == ino) {
                continue;
            }
            let Some(mut state) = noted.state(path) else { continue };
            // Times and mode may be those of a later sync.
            if !is_whole {
                state.node = None;
            }
            self.nodes.insert(path.clone(), vec![state]);
        }
    }

    fn open(&mut self, noted: &Noted<'_>) {
        let (path, flags) = (noted.argument(1), noted.argument(2));
        let has = |word: &str| flags.split(',').any(|own| own == word);
        let key = (noted.by, noted.argument(0).to_owned());
        if has("creat") || has("trunc") {
            self.touch(noted, path);
        }
        self.handles.remove(&key);
        let has_durable_writes = DURABLE_WRITES.iter().any(|word| has(word));
        if let Some(inodes) = noted.inodes(path).filter(|_| !has("tmpfile"))
            && !noted.is_through_link(path)
        {
            self.handles.insert(key, Handle { inodes, has_durable_writes });
        } else {
            // An inode that no path of now shows: writes to it may reach any node later.
            self.nodes.clear();
        }
    }

    /// A path has new content, whole or not at all.
    fn replace(&mut self, noted: &Noted<'_>, path: &str, earlier: Option<Vec<State>>) {
        let known = earlier.or_else(|| self.nodes.get(path).cloned());
        let names = noted.node(path).map_or(1, |node| node.links);
        self.touch(noted, path);
        let is_file = |state: &State| matches!(state.content, Content::File(..));
        if let (Some(mut states), Some(new), 1) = (known, noted.state(path), names)
            && states.iter().chain([&new]).all(is_file)
        {
            states.push(new);
            self.nodes.insert(path.to_owned(), states);
        }
    }

    fn rename(&mut self, noted: &Noted<'_>) {
        let (path, new) = (noted.argument(0), noted.argument(1));
        let over = self.nodes.get(new).cloned();
        let both = [path, new];
        let moves_directory = both
            .iter()
            .any(|path| noted.node(path).is_some_and(|node| node.kind() == FileType::Directory));
        for path in both {
            self.touch(noted, path);
        }
        if moves_directory {
            self.moved.extend(both.map(|path| format!("{path}/")));
        }
        if noted.argument(2) == "none"
            && noted.node(path).is_none()
            && let Some(over) = over
        {
            self.replace(noted, new, Some(over));
        }
    }

    /// An act changed the node at a path, or the path itself.
    fn touch(&mut self, noted: &Noted<'_>, path: &str) {
        let gone = self.nodes.remove(path).unwrap_or_default();
        let inodes: Vec<u64> =
            gone.iter().filter_map(|state| Some(state.node.as_ref()?.ino)).collect();
        for ino in &inodes {
            self.forget_inode(*ino);
        }
        if inodes.is_empty() {
            // It may be another name of any node with several.
            let has_one_name = |state: &State| {
                let is_one = |node: &Node| node.links == 1 || node.kind() == FileType::Directory;
                state.node.as_ref().is_some_and(is_one)
            };
            self.nodes.retain(|_, states| states.iter().all(has_one_name));
        }
        self.nodes.retain(|own, _| !own.starts_with(&format!("{path}/")));
        if let Some(node) = noted.node(path) {
            self.forget_inode(node.ino);
        }
        let folder = path.rsplit_once('/').map_or(".", |(folder, _)| folder);
        self.nodes.remove(folder);
    }

    /// Takes out every name of the subject's inode, by its states.
    fn forget_inode(&mut self, ino: u64) {
        let has = |state: &State| state.node.as_ref().is_none_or(|node| node.ino == ino);
        self.nodes.retain(|_, states| !states.iter().any(has));
    }

    fn touch_handles(&mut self, noted: &Noted<'_>) {
        let of = |index| (noted.by, noted.argument(index).to_owned());
        let target = match noted.call.verb {
            "write" | "pwrite" | "ftruncate" | "fallocate" | "fchmod" | "fchown" | "futimes"
            | "fsetxattr" | "link-open" => of(0),
            "copy-range" => of(2),
            "sendfile" => of(1),
            _ => return,
        };
        let Some(handle) = self.handles.get(&target).cloned() else { return self.nodes.clear() };
        self.forget_inode(handle.inodes[1]);
        let writes = matches!(noted.call.verb, "write" | "pwrite");
        if writes && handle.has_durable_writes {
            self.sync(noted, handle.inodes[1], false);
        }
    }

    /// The first node of `root` that has none of its states; `is_oracle` compares no inode numbers.
    pub fn check(&self, root: &Path, is_oracle: bool) -> Result<(), String> {
        let paths: BTreeSet<String> = self.nodes.keys().cloned().collect();
        let found = attributes(root, &paths);
        for (path, states) in &self.nodes {
            let bytes = content(&join(root, path));
            let node = found.get(path).and_then(|found| found.as_ref().ok());
            let is_one = |state: &State| {
                let has_content = same_content(&state.content, &bytes);
                let has_node = match (&state.node, node) {
                    (None, found) => found.is_some(),
                    (Some(one), Some(other)) => {
                        durable(one, is_oracle) == durable(other, is_oracle)
                    }
                    _ => false,
                };
                has_content && has_node
            };
            if !states.iter().any(is_one) {
                let expected: Vec<String> = states
                    .iter()
                    .map(|state| format!("{:?} with {}", state.node, words_of(&state.content)))
                    .collect();
                let expected = expected.join(" or ");
                return Err(format!(
                    "{path}: expected {expected}, found {node:?} with {}",
                    words_of(&bytes)
                ));
            }
        }
        Ok(())
    }
}

fn same_content(one: &Content, other: &Content) -> bool {
    match (one, other) {
        // Data ranges differ by what was written out.
        (Content::File(old, _), Content::File(new, _)) => old == new,
        (old, new) => old == new,
    }
}

fn words_of(content: &Content) -> String {
    match content {
        Content::File(bytes, _) => {
            let first = bytes.get(..bytes.len().min(512)).unwrap_or_default();
            format!("{} bytes of {}", bytes.len(), describe(first))
        }
        other => format!("{other:?}"),
    }
}

/// The attributes of a node that a sync covers. Times and inodes of the oracle are its own.
fn durable(node: &Node, is_oracle: bool) -> Node {
    let mut node = node.clone();
    (node.times[0], node.blocks) = (None, 0);
    if is_oracle {
        (node.times, node.ino) = (Default::default(), 0);
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// One side's folder and the paths of a script.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("twin-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn put(&self, name: &str, text: &str) {
            std::fs::write(self.0.join(name), text).unwrap();
        }

        /// Notes `line` after it was carried out.
        fn note(&self, synced: &mut Synced, line: &str) {
            let now = attributes(&self.0, &["a", "b", "."].map(str::to_owned).into());
            let call = line.parse().unwrap();
            synced.note(&Noted { by: 0, call: &call, now: [&now, &now], oracle: &self.0 });
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_sync_of_a_handle_covers_its_file() {
        let (folder, mut synced) = (Folder::new("handle"), Synced::default());
        folder.put("a", "one");
        folder.note(&mut synced, "open 1 a rdwr 0");
        folder.note(&mut synced, "fsync 1");
        assert_eq!(synced.check(&folder.0, false), Ok(()));
        folder.put("a", "");
        assert!(synced.check(&folder.0, false).is_err());
        folder.note(&mut synced, "pwrite 1 7 0 3");
        assert_eq!(synced.check(&folder.0, false), Ok(()), "no claim after a write");
    }

    #[test]
    fn a_replaced_file_is_old_or_new_and_never_empty() {
        let (folder, mut synced) = (Folder::new("replaced"), Synced::default());
        folder.put("a", "old");
        folder.note(&mut synced, "fsync-path a");
        folder.put("b", "new and longer");
        std::fs::rename(folder.0.join("b"), folder.0.join("a")).unwrap();
        folder.note(&mut synced, "rename b a none");
        assert_eq!(synced.check(&folder.0, false), Ok(()));
        for prefix in ["", "new"] {
            folder.put("a", prefix);
            assert!(synced.check(&folder.0, false).is_err(), "{prefix:?}");
        }
    }
}
