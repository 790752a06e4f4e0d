//! Fragments over what a read finds: noted when it is planned, put over it when it is there.
//!
//! Between the two what lies under them may become something newer. Then those bytes must not come over it: the read begins anew.

use crate::state::fragments::{Fragments, Patch, patched};
use crate::state::sectors::BLOCK_SECTORS;
use nearhead_disk::Payload;
use nearhead_format::Entry;

/// What lies over a read.
#[derive(Debug, Default)]
pub(super) struct Patches {
    bytes: Vec<Patch>,
    /// Home blocks that have any, and since when what is under them is the same.
    blocks: Vec<(u64, u64)>,
}

impl Patches {
    /// The entry is read.
    pub(super) fn note(&mut self, fragments: &Fragments, entry: &Entry) {
        let block = entry.home_sector / BLOCK_SECTORS;
        let Some(since) = fragments.base_since(block) else { return };
        let bytes = fragments.patches(entry.home_sector..entry.end_sector());
        if bytes.is_empty() {
            return;
        }
        self.bytes.extend(bytes);
        self.blocks.push((block, since));
    }

    /// Whether what was read is what they lie over still.
    pub(super) fn hold(&self, fragments: &Fragments) -> bool {
        self.blocks.iter().all(|(block, since)| fragments.base_since(*block) == Some(*since))
    }

    /// Puts them over what was read from byte `offset` of the volume on.
    pub(super) fn over(&self, parts: Vec<Payload>, offset: u64) -> Vec<Payload> {
        if self.bytes.is_empty() { parts } else { patched(parts, offset, &self.bytes) }
    }
}
