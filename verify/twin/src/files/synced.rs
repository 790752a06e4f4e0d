//! Nodes that a sync covers and that no later act touched.
//!
//! After the daemon was killed each of them must have its content and its attributes, apart from the
//! time of access. The model knows less than ext4 guarantees: an act that may touch a node takes it out.

use super::call::Call;
use super::view::{Content, Found, Node, attributes, content, join};
use crate::{Step, differs};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const LAW: &str = "what was synced is there after the daemon was killed";

/// Synced nodes by their paths.
#[derive(Debug, Default)]
pub struct Synced(BTreeMap<String, (Node, Content)>);

impl Synced {
    /// Notes a successful call. `current` are the subject's attributes, `oracle` is the other root.
    pub fn note(&mut self, call: &Call, current: &BTreeMap<String, Found>, oracle: &Path) {
        let paths = call.paths();
        // An open file may be any of them.
        if paths.is_empty() || call.verb == "rename" || call.verb == "rmdir" {
            self.0.clear();
        }
        for path in &paths {
            self.0.retain(|own, _| own != path && !own.starts_with(&format!("{path}/")));
            // Another name of the same node, and its folder.
            if let Some(Ok(node)) = current.get(*path) {
                self.0.retain(|_, (own, _)| own.ino != node.ino);
            }
            let folder = path.rsplit_once('/').map_or(".", |(folder, _)| folder);
            self.0.remove(folder);
        }
        if call.verb == "fsync-path"
            && let Some(Ok(node)) = paths.first().and_then(|path| current.get(*path))
        {
            let content = content(&join(oracle, paths[0]));
            self.0.insert(paths[0].to_owned(), (node.clone(), content));
        }
    }

    /// Compares what is at `root` after a kill.
    pub fn check(&self, root: &Path) -> Step {
        let paths: BTreeSet<String> = self.0.keys().cloned().collect();
        let found = attributes(root, &paths);
        for (path, (node, bytes)) in &self.0 {
            let expected = durable(node);
            match found.get(path) {
                Some(Ok(node)) if durable(node) == expected => {}
                other => {
                    return differs(LAW, format!("{path}: expected {node:?}, found {other:?}"));
                }
            }
            let is_same = match (bytes, content(&join(root, path))) {
                (Content::File(old, _), Content::File(new, _)) => *old == new,
                (old, new) => *old == new,
            };
            if !is_same {
                return differs(LAW, format!("{path}: other content"));
            }
        }
        Ok(())
    }
}

/// The attributes of a node that a sync covers.
fn durable(node: &Node) -> Node {
    let mut node = node.clone();
    (node.times[0], node.blocks) = (None, 0);
    node
}
