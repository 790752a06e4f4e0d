//! The part of the mapping table that a flash disk has in memory.
//!
//! The table itself lies in flash, in translation pages; a page of it that is needed is read first,
//! and the one used longest ago makes room, programmed again if it was changed (Gupta, Kim and
//! Urgaonkar, "DFTL", ASPLOS 2009).

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
struct Held {
    last_use: u64,
    changed: bool,
}

/// Translation pages in memory.
#[derive(Debug)]
pub(super) struct MappingCache {
    held: BTreeMap<u64, Held>,
    by_use: BTreeMap<u64, u64>,
    pages_max: usize,
    uses: u64,
}

impl MappingCache {
    pub(super) fn new(pages_max: usize) -> Self {
        let pages_max = pages_max.max(1);
        Self { held: BTreeMap::new(), by_use: BTreeMap::new(), pages_max, uses: 0 }
    }

    /// Uses the translation page; whether it is in memory.
    pub(super) fn touch(&mut self, page: u64, changes: bool) -> bool {
        let Some(held) = self.held.get_mut(&page) else { return false };
        self.by_use.remove(&held.last_use);
        self.uses += 1;
        *held = Held { last_use: self.uses, changed: held.changed || changes };
        self.by_use.insert(self.uses, page);
        true
    }

    /// The translation page was read. Gives the changed one, if any, that had to make room.
    pub(super) fn insert(&mut self, page: u64) -> Option<u64> {
        if self.touch(page, false) {
            return None;
        }
        let mut written = None;
        if self.held.len() >= self.pages_max
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            let gone = self.held.remove(&oldest);
            written = gone.filter(|held| held.changed).map(|_| oldest);
        }
        self.uses += 1;
        self.held.insert(page, Held { last_use: self.uses, changed: false });
        self.by_use.insert(self.uses, page);
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_used_longest_ago_goes_and_is_written_only_if_it_was_changed() {
        let mut cache = MappingCache::new(2);
        assert!(!cache.touch(1, true));
        assert_eq!(cache.insert(1), None);
        assert!(cache.touch(1, true));
        assert_eq!(cache.insert(2), None);
        assert!(cache.touch(1, false), "used again, so 2 is the oldest");
        assert_eq!(cache.insert(3), None, "2 was not changed");
        assert!(!cache.touch(2, false));
        assert_eq!(cache.insert(4), Some(1), "1 was changed");
    }
}
