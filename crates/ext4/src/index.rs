//! Where each name of a directory is: in memory alone, built on first use, of the directories that were used last.
//!
//! On disk directories are lists. An index leads from the hash of a name to the block and offset of its entry, and knows how
//! much room each block has. It may lead to a wrong entry (two names with one hash), so whoever uses it compares names; it
//! never misses one. It follows operations that count and no others. Its hash is seeded, so that nobody who chooses names
//! can make them collide.

use crate::cache::Kind;
use crate::dirent;
use crate::error::{Outcome, Stop, corrupt};
use crate::inode::Inode;
use crate::transaction::Transaction;
use crate::types::{BLOCK_BYTES, FileKind};
use nearhead_basics::NumberHash;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

/// Names in all indexes beyond which those of directories used least recently are dropped; one is kept in any case.
const NAMES_MAX: usize = 2_000_000;
/// Blocks of a directory that are wanted at once.
const BLOCKS_AT_ONCE: usize = 64;
/// No directory is larger without the feature `large_dir`.
pub(crate) const DIRECTORY_BYTES_MAX: u64 = 1 << 31;

/// Where an entry is: block of the directory and offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryPlace {
    pub(crate) block: u32,
    pub(crate) at: u16,
}

#[derive(Debug, Default)]
pub(crate) struct DirectoryIndex {
    generation: u32,
    /// Of the directory, on the volume.
    pub(crate) blocks: Vec<u64>,
    /// The largest entry that each has room for; as many as were looked at.
    rooms: Vec<u16>,
    places: HashMap<u64, EntryPlace, NumberHash>,
    /// Of names whose hash another name has.
    more: Vec<(u64, EntryPlace)>,
    /// Entries that lead to directories, its own two left out.
    directories: i64,
    used: u64,
}

/// What an operation did to a directory.
#[derive(Debug)]
pub(crate) enum IndexChange {
    Add {
        directory: u32,
        hash: u64,
        place: EntryPlace,
    },
    Remove {
        directory: u32,
        hash: u64,
        place: EntryPlace,
    },
    Room {
        directory: u32,
        block: u32,
        room: u16,
    },
    Block {
        directory: u32,
        physical: u64,
    },
    /// More or fewer directories in it.
    Directories {
        directory: u32,
        more: i64,
    },
    Drop {
        directory: u32,
    },
}

#[derive(Debug)]
pub(crate) struct Indexes {
    seed: u64,
    known: HashMap<u32, DirectoryIndex, NumberHash>,
    tick: u64,
}

impl Indexes {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, known: HashMap::default(), tick: 0 }
    }

    pub(crate) fn hash(&self, name: &[u8]) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.seed);
        hasher.write(name);
        hasher.finish()
    }

    pub(crate) fn get(&self, directory: u32) -> Option<&DirectoryIndex> {
        self.known.get(&directory)
    }

    pub(crate) fn apply(&mut self, changes: Vec<IndexChange>) {
        for change in changes {
            match change {
                IndexChange::Add { directory, hash, place } => {
                    self.with(directory, |index| index.add(hash, place));
                }
                IndexChange::Remove { directory, hash, place } => {
                    self.with(directory, |index| index.remove(hash, place));
                }
                IndexChange::Room { directory, block, room } => self.with(directory, |index| {
                    if let Some(known) = index.rooms.get_mut(block as usize) {
                        *known = room;
                    }
                }),
                IndexChange::Block { directory, physical } => self.with(directory, |index| {
                    index.blocks.push(physical);
                    index.rooms.push(0);
                }),
                IndexChange::Directories { directory, more } => {
                    self.with(directory, |index| index.directories += more);
                }
                IndexChange::Drop { directory } => {
                    self.known.remove(&directory);
                }
            }
        }
    }

    fn with(&mut self, directory: u32, change: impl FnOnce(&mut DirectoryIndex)) {
        if let Some(index) = self.known.get_mut(&directory) {
            change(index);
        }
    }

    /// Keeps the total within its bound.
    fn bound(&mut self, keep: u32) {
        let names = |index: &DirectoryIndex| index.places.len() + index.blocks.len();
        let mut all: usize = self.known.values().map(names).sum();
        while all > NAMES_MAX && self.known.len() > 1 {
            let others = self.known.iter().filter(|(directory, _)| **directory != keep);
            let Some(oldest) = others.min_by_key(|(_, index)| index.used) else { return };
            let oldest = *oldest.0;
            all -= self.known.remove(&oldest).as_ref().map_or(0, names);
        }
    }
}

impl DirectoryIndex {
    fn add(&mut self, hash: u64, place: EntryPlace) {
        if *self.places.entry(hash).or_insert(place) != place {
            self.more.push((hash, place));
        }
    }

    fn remove(&mut self, hash: u64, place: EntryPlace) {
        if self.places.get(&hash) == Some(&place) {
            self.places.remove(&hash);
            if let Some(nth) = self.more.iter().position(|(other, _)| *other == hash) {
                let (_, next) = self.more.swap_remove(nth);
                self.places.insert(hash, next);
            }
        } else {
            self.more.retain(|entry| *entry != (hash, place));
        }
    }

    /// Where entries with this hash are.
    pub(crate) fn places_of(&self, hash: u64) -> impl Iterator<Item = EntryPlace> + '_ {
        let more = self.more.iter().filter(move |(other, _)| *other == hash);
        self.places.get(&hash).copied().into_iter().chain(more.map(|(_, place)| *place))
    }

    /// How many directories are in it.
    pub(crate) fn directories(&self) -> u32 {
        u32::try_from(self.directories).unwrap_or(0)
    }

    /// The first block with room for an entry of this size.
    pub(crate) fn block_with_room(&self, bytes: usize) -> Option<u32> {
        let found = self.rooms.iter().position(|room| usize::from(*room) >= bytes);
        found.map(|block| block as u32)
    }
}

impl Transaction<'_> {
    pub(crate) fn directory_kind(inode: &Inode) -> Kind {
        Kind::Directory(inode.ino.0, inode.generation())
    }

    /// Builds the index of a directory if there is none. The operation must not have changed the directory before.
    pub(crate) fn index_directory(&mut self, inode: &Inode) -> Outcome<()> {
        let key = inode.ino.0;
        let known = self.fs.indexes.known.remove(&key);
        let known = known.filter(|index| index.generation == inode.generation());
        let mut index = match known {
            Some(index) => index,
            None => DirectoryIndex {
                generation: inode.generation(),
                blocks: self.blocks_of_directory(inode)?,
                ..DirectoryIndex::default()
            },
        };
        let was_complete = index.rooms.len() == index.blocks.len();
        let built = self.build(inode, &mut index);
        self.fs.indexes.tick += 1;
        index.used = self.fs.indexes.tick;
        self.fs.indexes.known.insert(key, index);
        if !was_complete {
            self.fs.indexes.bound(key);
        }
        built
    }

    fn build(&mut self, inode: &Inode, index: &mut DirectoryIndex) -> Outcome<()> {
        let end = dirent::end(&self.fs.geometry);
        while index.rooms.len() < index.blocks.len() {
            let nth = index.rooms.len();
            let ahead = &index.blocks[nth..index.blocks.len().min(nth + BLOCKS_AT_ONCE)];
            if !self.has(ahead[0]) {
                let missing = ahead.iter().copied().filter(|block| !self.has(*block));
                return Err(Stop::Wants(missing.collect()));
            }
            let block = ahead[0];
            let bytes = self.read(block, Self::directory_kind(inode))?;
            for entry in dirent::entries(&*bytes, end).filter(|entry| entry.ino != 0) {
                let hash = self.fs.indexes.hash(entry.name);
                index.add(hash, EntryPlace { block: nth as u32, at: entry.at as u16 });
                let is_own = matches!(entry.name, b"." | b"..");
                let is_directory = entry.kind == FileKind::Directory.entry_byte() && !is_own;
                index.directories += i64::from(is_directory);
            }
            index.rooms.push(dirent::room(&*bytes, end) as u16);
            self.fs.cache.is_seen(block);
        }
        Ok(())
    }

    /// All blocks of a directory in order.
    fn blocks_of_directory(&mut self, inode: &Inode) -> Outcome<Vec<u64>> {
        let size = inode.size();
        let wrong = |text: String| corrupt(format!("directory {}: {text}", inode.ino.0));
        if size == 0 || !size.is_multiple_of(BLOCK_BYTES as u64) || size > DIRECTORY_BYTES_MAX {
            return Err(wrong(format!("expected whole blocks, at most 2 GiB, found {size} bytes")));
        }
        let count = size / BLOCK_BYTES as u64;
        let mut blocks = Vec::new();
        for extent in self.extents_in(inode, 0, count, usize::MAX)? {
            if u64::from(extent.logical) != blocks.len() as u64 || extent.is_unwritten {
                return Err(wrong(format!("expected block {}, found {extent:?}", blocks.len())));
            }
            let part = extent.part(0, count).map_or(0, |part| u64::from(part.len));
            blocks.extend(extent.physical..extent.physical + part);
        }
        if blocks.len() as u64 != count {
            return Err(wrong(format!("expected {count} blocks, found {}", blocks.len())));
        }
        Ok(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_basics::SplitMix;
    use std::collections::BTreeSet;

    #[test]
    fn an_index_leads_to_every_place_that_was_added_and_not_removed_and_keeps_no_other() {
        let mut index = DirectoryIndex::default();
        let mut model = BTreeSet::new();
        let mut random = SplitMix::new(4);
        for _ in 0..20_000 {
            // Few hashes, so that names share them.
            let (hash, at) = (random.below(8), random.below(64) as u16);
            let place = EntryPlace { block: 0, at };
            if model.remove(&(hash, at)) {
                index.remove(hash, place);
            } else if !model.iter().any(|(_, known)| *known == at) {
                index.add(hash, place);
                model.insert((hash, at));
            }
            let found: BTreeSet<u16> = index.places_of(hash).map(|place| place.at).collect();
            let expected = model.iter().filter(|(known, _)| *known == hash).map(|(_, at)| *at);
            assert_eq!(found, expected.collect());
            assert_eq!(index.places.len() + index.more.len(), model.len());
        }
    }
}
