//! The map, as reports tell of it.

use super::State;
use crate::units::ByteSize;
use nearhead_engine::PagedMap;
use serde::{Deserialize, Serialize};

/// What of a paged map is in memory beside its newest layer, and what is not.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct PagedMapReport {
    /// Entries in the newest snapshot, which is what the pages are of.
    pub paged_entries: u64,
    /// Memory of what is being written to the next one.
    pub frozen_bytes: u64,
    /// Memory of the index of its pages.
    pub index_bytes: u64,
    /// Memory of pages that are here.
    pub cached_bytes: u64,
    /// Memory that all but the index may take.
    pub memory_bytes_max: u64,
}

impl PagedMapReport {
    pub(super) fn of(paged: PagedMap) -> Self {
        let PagedMap { entries, frozen_bytes, index_bytes, cached_bytes, memory_bytes_max } = paged;
        Self { paged_entries: entries, frozen_bytes, index_bytes, cached_bytes, memory_bytes_max }
    }
}

/// How large it is, and where it is.
pub(super) fn in_words(state: &State) -> String {
    let Some(paged) = &state.paged_map else {
        let where_to = if state.links.is_empty() { " not home yet" } else { "" };
        return format!(
            "{} pieces{where_to}, {} of memory",
            state.map_entries,
            ByteSize(state.map_bytes)
        );
    };
    format!(
        "at most {} pieces, paged: {} in the newest snapshot, of which {} of pages are in memory; {} of changes since, {} of index",
        state.map_entries,
        paged.paged_entries,
        ByteSize(paged.cached_bytes),
        ByteSize(state.map_bytes + paged.frozen_bytes),
        ByteSize(paged.index_bytes)
    )
}
