//! Building the map from a snapshot: entries arrive in order, and leaves are filled one by one.
//!
//! What arrives was read from a disk, so it is checked here once more: a map with overlapping
//! entries would serve the wrong copy.

use super::Map;
use super::leaf::{Leaf, REACH_SECTORS};
use super::spread::FILL;
use super::tree::At;
use nearhead_format::{BLOCK_SECTORS, Entry, FieldError};
use std::fmt;

/// Why entries are not a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// An entry is not what the format allows.
    Invalid {
        /// How many entries came before it.
        index: usize,
        /// What is wrong with it.
        source: FieldError,
    },
    /// An entry starts before the one before it ends.
    OutOfOrder {
        /// How many entries came before it.
        index: usize,
        /// Where the one before it ends.
        previous_end_sector: u64,
        /// Where it starts.
        home_sector: u64,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { index, source } => write!(formatter, "map entry {index}: {source}"),
            Self::OutOfOrder { index, previous_end_sector, home_sector } => write!(
                formatter,
                "map entry {index}: expected a home sector of at least {previous_end_sector}, \
                 where the entry before it ends, found {home_sector}"
            ),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Invalid { source, .. } => Some(source),
            Self::OutOfOrder { .. } => None,
        }
    }
}

/// Takes entries in ascending order and gives a [`Map`].
#[derive(Default)]
pub struct Loader {
    map: Map,
    end_sector: u64,
}

impl Loader {
    /// Nothing loaded yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next entry, which must start where the last one ends or later. After an error the
    /// map holds what came before.
    pub fn push(&mut self, entry: Entry) -> Result<(), LoadError> {
        let index = self.map.len;
        entry.validate().map_err(|source| LoadError::Invalid { index, source })?;
        let home_sector = entry.home_sector;
        if home_sector < self.end_sector {
            let previous_end_sector = self.end_sector;
            return Err(LoadError::OutOfOrder { index, previous_end_sector, home_sector });
        }
        let tree = &mut self.map.tree;
        let node = tree.nodes.len() - 1;
        let mut at = At { node, leaf: tree.nodes[node].leaves.len() - 1 };
        let block = home_sector - home_sector % BLOCK_SECTORS;
        let full = tree.leaf(at).len() >= FILL && block >= self.end_sector;
        if full || home_sector - tree.base(at) >= REACH_SECTORS {
            tree.add_leaf(at, block);
            tree.pack(at);
            at = tree.locate(home_sector);
        }
        let row = Leaf::row(&entry, tree.base(at));
        let len = tree.leaf(at).len();
        tree.splice(at, len..len, &[row]);
        self.end_sector = entry.end_sector();
        self.map.len += 1;
        Ok(())
    }

    /// The map of everything that was added.
    pub fn finish(self) -> Map {
        self.map
    }
}
