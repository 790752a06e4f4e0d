//! What may be there after a crash, from what was done and what was answered: nothing else is known here.
//!
//! Names, links, targets and extended attributes are those after one of the first so many operations, all of one moment, and after no
//! fewer than what was synced needs. The bytes of a file are, sector by sector, those of a moment since it was synced last.

use super::tree::{Kind, Tree};
use std::collections::BTreeMap;
use std::rc::Rc;

const SECTOR: usize = 512;
/// A file may have grown over a part of a write so long: a commit of it takes several records.
const LONG_BYTES: usize = 300_000;

/// What is known.
#[derive(Clone, Debug)]
pub struct Known {
    /// The tree after each operation, the first one before any.
    history: Vec<Tree>,
    /// No fewer operations are there.
    floor: usize,
    synced_at: BTreeMap<u32, usize>,
    touched_at: BTreeMap<u32, usize>,
}

impl Known {
    /// All of it is durable.
    pub fn of(tree: Tree) -> Self {
        let (synced_at, touched_at) = Default::default();
        Self { history: vec![tree], floor: 0, synced_at, touched_at }
    }

    pub fn tree(&self) -> &Tree {
        &self.history[self.history.len() - 1]
    }

    /// An operation is about to be asked for that has this effect.
    pub fn asked(&mut self, tree: Tree, touched: &[u32]) {
        self.history.push(tree);
        let now = self.history.len() - 1;
        self.touched_at.extend(touched.iter().map(|id| (*id, now)));
    }

    /// An answer said that the node is durable.
    pub fn synced(&mut self, id: u32) {
        self.wrote_durably(id);
        self.floor = self.floor.max(self.touched_at.get(&id).copied().unwrap_or(0));
    }

    /// An answer said that its bytes are.
    pub fn wrote_durably(&mut self, id: u32) {
        self.synced_at.insert(id, self.history.len() - 1);
    }

    pub fn synced_all(&mut self) {
        let all: Vec<u32> = self.tree().nodes.keys().copied().collect();
        for id in all {
            self.wrote_durably(id);
        }
        self.floor = self.history.len() - 1;
    }

    /// Whether a crash may leave this.
    pub fn check(&self, found: &Tree) -> Result<(), String> {
        let told = found.told();
        let mut wrong = None;
        // Two moments may have the same names.
        for at in
            (self.floor..self.history.len()).rev().filter(|at| self.history[*at].told() == told)
        {
            match self.check_files(&self.history[at], found) {
                Ok(()) => return Ok(()),
                Err(what) => wrong = Some(what),
            }
        }
        Err(wrong.unwrap_or_else(|| self.name_differences(found)))
    }

    fn check_files(&self, expected: &Tree, found: &Tree) -> Result<(), String> {
        let there = found.paths();
        for (path, id) in &expected.paths() {
            if expected.nodes[id].kind == Kind::File {
                let bytes = &found.nodes[&there[path]].bytes;
                self.check_bytes(*id, bytes).map_err(|what| format!("{path}: {what}"))?;
            }
        }
        Ok(())
    }

    fn name_differences(&self, found: &Tree) -> String {
        let list = |tree: &Tree| tree.told().into_iter().collect::<Vec<_>>().join("\n    ");
        let expected: Vec<String> = (self.floor..self.history.len())
            .map(|at| format!("after {at} operations\n    {}", list(&self.history[at])))
            .collect();
        format!("found\n    {}\nexpected one of\n{}", list(found), expected.join("\n"))
    }

    fn check_bytes(&self, id: u32, found: &[u8]) -> Result<(), String> {
        let since = self.synced_at.get(&id).copied().unwrap_or(0);
        let mut versions: Vec<Rc<Vec<u8>>> = Vec::new();
        for tree in &self.history[since..] {
            if let Some(node) = tree.nodes.get(&id) {
                versions.push(Rc::clone(&node.bytes));
            }
        }
        let lens: Vec<usize> = versions.iter().map(|bytes| bytes.len()).collect();
        let (min, max) = (lens.iter().min().unwrap(), lens.iter().max().unwrap());
        let is_between = max - min > LONG_BYTES && (min..max).contains(&&found.len());
        if !lens.contains(&found.len()) && !is_between {
            return Err(format!("{} bytes long, expected one of {lens:?}", found.len()));
        }
        for (at, sector) in found.chunks(SECTOR).enumerate() {
            let from = at * SECTOR;
            let is_there = versions.iter().any(|bytes| is_sector_of(bytes, from, sector));
            if !is_there {
                let all: Vec<&[u8]> = versions
                    .iter()
                    .map(|bytes| &bytes[from.min(bytes.len())..(from + 8).min(bytes.len())])
                    .collect();
                return Err(format!(
                    "byte {from} of {}: {:?}, which nobody wrote there; expected one of {all:?}",
                    found.len(),
                    &sector[..sector.len().min(8)]
                ));
            }
        }
        Ok(())
    }
}

/// Whether the bytes have this sector, with zeros behind their end.
fn is_sector_of(bytes: &[u8], from: usize, sector: &[u8]) -> bool {
    let here = &bytes[from.min(bytes.len())..(from + sector.len()).min(bytes.len())];
    sector.starts_with(here) && sector[here.len()..].iter().all(|byte| *byte == 0)
}
