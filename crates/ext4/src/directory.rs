//! Names in directories: finding, listing, adding and removing them.
//!
//! Entries never move, so a cookie, which has the position of an entry plus one, stays good while others come and go. Directories
//! grow by a block when no block has room for a name, and never shrink.

use crate::Ext4;
use crate::cache::Kind;
use crate::dirent;
use crate::error::{Errno, Outcome, Stop, corrupt, fail};
use crate::extent_node::Extent;
use crate::index::{DIRECTORY_BYTES_MAX, EntryPlace, IndexChange};
use crate::inode::Inode;
use crate::transaction::Transaction;
use crate::types::{
    Attributes, BLOCK_BYTES, DirectoryEntry, FileKind, Ino, NAME_BYTES_MAX, Timestamp,
};

/// Blocks of a directory that are wanted at once when it is listed.
const BLOCKS_AHEAD: u64 = 16;

/// An entry that was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) ino: Ino,
    pub(crate) place: EntryPlace,
    physical: u64,
}

/// A cookie's lower bits are a position in the directory plus one, its upper ones the directory's blocks at the start of the listing.
const END_SHIFT: u32 = 32;
const POSITION_MASK: u64 = (1 << END_SHIFT) - 1;

impl Ext4 {
    /// The inode that a name leads to; `.` and `..` are names.
    pub fn lookup(&mut self, parent: Ino, name: &[u8]) -> Outcome<Attributes> {
        self.run(|transaction| {
            let directory = transaction.directory_inode(parent)?;
            let found = transaction.must_find(&directory, name)?;
            let inode = transaction.inode_of_entry(parent, found.ino)?;
            transaction.attributes_of(&inode)
        })
    }

    /// Entries after the one that `after` is the cookie of (0: from the start), at most `entries_max`; none at the end.
    ///
    /// Cookies also say where the directory ended at the start of the listing. What is added behind that place is not listed, so that a
    /// loop which makes files while it lists them comes to an end.
    pub fn read_directory(
        &mut self,
        ino: Ino,
        after: u64,
        entries_max: usize,
    ) -> Outcome<Vec<DirectoryEntry>> {
        self.run(|transaction| {
            let directory = transaction.directory_inode(ino)?;
            if directory.is_in_memory {
                return Ok(Vec::new());
            }
            let (end, after) = match (after >> END_SHIFT, after & POSITION_MASK) {
                (0, after) => (directory.size().div_ceil(BLOCK_BYTES as u64), after),
                (end, after) => (end, after),
            };
            let mut listed = transaction.list_visible(&directory, after, entries_max)?;
            listed.retain(|entry| entry.cookie <= end * BLOCK_BYTES as u64);
            for entry in &mut listed {
                entry.cookie |= end << END_SHIFT;
            }
            Ok(listed)
        })
    }
}

/// Whether a name can be one of an entry.
pub(crate) fn check_name(name: &[u8]) -> Outcome<()> {
    if name.len() > NAME_BYTES_MAX {
        let text =
            format!("names have at most {NAME_BYTES_MAX} bytes, this one has {}", name.len());
        return Err(fail(Errno::NameTooLong, text));
    }
    if name.is_empty() || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
        return Err(fail(Errno::Invalid, "a name is not empty and has neither / nor NUL"));
    }
    Ok(())
}

/// The same for a name that is to be made, moved or removed.
pub(crate) fn check_own_name(name: &[u8], errno: Errno) -> Outcome<()> {
    check_name(name)?;
    if matches!(name, b"." | b"..") {
        return Err(fail(errno, "a directory's own names . and .. stay"));
    }
    Ok(())
}

impl Transaction<'_> {
    pub(crate) fn find(&mut self, directory: &Inode, name: &[u8]) -> Outcome<Option<Found>> {
        check_name(name)?;
        if directory.is_in_memory {
            return Ok(None);
        }
        self.index_directory(directory)?;
        let hash = self.fs.indexes.hash(name);
        let end = dirent::end(&self.fs.geometry);
        let index = self.fs.indexes.get(directory.ino.0);
        let places: Vec<(EntryPlace, u64)> = index.map_or_else(Vec::new, |index| {
            let physical = |place: EntryPlace| index.blocks.get(place.block as usize).copied();
            let places = index.places_of(hash);
            places.filter_map(|place| Some((place, physical(place)?))).collect()
        });
        for (place, physical) in places {
            let bytes = self.read(physical, Self::directory_kind(directory))?;
            let entry = dirent::used_at(&*bytes, end, usize::from(place.at));
            if let Some(entry) = entry.filter(|entry| entry.name == name) {
                return Ok(Some(Found { ino: Ino(entry.ino), place, physical }));
            }
        }
        Ok(None)
    }

    pub(crate) fn must_find(&mut self, directory: &Inode, name: &[u8]) -> Outcome<Found> {
        let found = self.find(directory, name)?;
        found.filter(|found| !self.is_hidden(directory.ino, name, found.ino)).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            fail(Errno::NoEntry, format!("directory {} has no entry {name:?}", directory.ino.0))
        })
    }

    /// Adds a name that is not there; the directory was modified.
    pub(crate) fn add_name(
        &mut self,
        directory: &mut Inode,
        name: &[u8],
        ino: Ino,
        kind: FileKind,
        now: Timestamp,
    ) -> Outcome<()> {
        self.index_directory(directory)?;
        let needed = dirent::bytes_for(name.len());
        let end = dirent::end(&self.fs.geometry);
        let index = self.fs.indexes.get(directory.ino.0);
        let with_room = index.and_then(|index| {
            let block = index.block_with_room(needed)?;
            Some((block, *index.blocks.get(block as usize)?))
        });
        let (block, physical) = match with_room {
            Some(place) => place,
            None => self.extend(directory)?,
        };
        let bytes = self.change(physical, Self::directory_kind(directory))?;
        let at = dirent::insert(bytes.as_mut_slice(), end, ino.0, kind, name);
        let room = dirent::room(bytes.as_slice(), end) as u16;
        let Some(at) = at else {
            return Err(corrupt(format!("block {physical}: expected room for {needed} bytes")));
        };
        let hash = self.fs.indexes.hash(name);
        let place = EntryPlace { block, at: at as u16 };
        let number = directory.ino.0;
        self.index_changes.push(IndexChange::Add { directory: number, hash, place });
        self.index_changes.push(IndexChange::Room { directory: number, block, room });
        directory.touch(now);
        Ok(())
    }

    /// One more block for a directory: which one of it, and where.
    fn extend(&mut self, directory: &mut Inode) -> Outcome<(u32, u64)> {
        let size = directory.size();
        if size >= DIRECTORY_BYTES_MAX {
            let text = format!("directory {} has 2 GiB and cannot grow", directory.ino.0);
            return Err(fail(Errno::NoSpace, text));
        }
        let logical = (size / BLOCK_BYTES as u64) as u32;
        let last = self.fs.indexes.get(directory.ino.0).and_then(|index| index.blocks.last());
        let goal = last.map_or(0, |last| last + 1);
        let physical = self.new_directory_block(directory, logical, goal)?;
        let geometry = self.fs.geometry.clone();
        let block = self.fresh(physical, Self::directory_kind(directory))?;
        dirent::format(block.as_mut_slice(), &geometry);
        self.index_changes.push(IndexChange::Block { directory: directory.ino.0, physical });
        Ok((logical, physical))
    }

    /// A block for a directory, not yet formatted.
    pub(crate) fn new_directory_block(
        &mut self,
        directory: &mut Inode,
        logical: u32,
        goal: u64,
    ) -> Outcome<u64> {
        let physical = self.take_blocks(goal, 1, false)?.start;
        let extent = Extent { logical, len: 1, physical, is_unwritten: false };
        self.add_extent(directory, extent)?;
        directory.add_blocks(1);
        directory.set_size((u64::from(logical) + 1) * BLOCK_BYTES as u64);
        Ok(physical)
    }

    /// Removes a name that was found; the directory was modified.
    pub(crate) fn remove_name(
        &mut self,
        directory: &mut Inode,
        name: &[u8],
        found: &Found,
        now: Timestamp,
    ) -> Outcome<()> {
        let end = dirent::end(&self.fs.geometry);
        let bytes = self.change(found.physical, Self::directory_kind(directory))?;
        dirent::remove(bytes.as_mut_slice(), end, usize::from(found.place.at));
        let room = dirent::room(bytes.as_slice(), end) as u16;
        let hash = self.fs.indexes.hash(name);
        let (number, place) = (directory.ino.0, found.place);
        self.index_changes.push(IndexChange::Remove { directory: number, hash, place });
        self.index_changes.push(IndexChange::Room { directory: number, block: place.block, room });
        directory.touch(now);
        Ok(())
    }

    /// Lets a name that was found lead to another inode.
    pub(crate) fn redirect_name(
        &mut self,
        directory: &Inode,
        found: &Found,
        ino: Ino,
        kind: FileKind,
    ) -> Outcome<()> {
        let bytes = self.change(found.physical, Self::directory_kind(directory))?;
        dirent::redirect(bytes.as_mut_slice(), usize::from(found.place.at), ino.0, kind);
        Ok(())
    }

    /// Whether a directory has no names but its own two and hidden ones.
    pub(crate) fn is_empty_directory(&mut self, directory: &Inode) -> Outcome<bool> {
        let listed = self.list_visible(directory, 0, 3)?;
        Ok(listed.iter().all(|entry| matches!(entry.name.as_slice(), b"." | b"..")))
    }

    /// The next entries that clients see; none at the end.
    fn list_visible(
        &mut self,
        directory: &Inode,
        mut after: u64,
        entries_max: usize,
    ) -> Outcome<Vec<DirectoryEntry>> {
        loop {
            let mut listed = self.list(directory, after, entries_max)?;
            let Some(last) = listed.last() else { return Ok(listed) };
            after = last.cookie;
            listed.retain(|entry| !self.is_hidden(directory.ino, &entry.name, entry.ino));
            if !listed.is_empty() {
                return Ok(listed);
            }
        }
    }

    /// Entries after the position `after`, hidden ones as well.
    pub(crate) fn list(
        &mut self,
        directory: &Inode,
        after: u64,
        entries_max: usize,
    ) -> Outcome<Vec<DirectoryEntry>> {
        let size = directory.size().min(DIRECTORY_BYTES_MAX);
        let end = dirent::end(&self.fs.geometry);
        let mut listed = Vec::new();
        let mut at = after;
        while at < size && listed.len() < entries_max {
            let logical = at / BLOCK_BYTES as u64;
            let bytes = self.listed_block(directory, logical, size / BLOCK_BYTES as u64)?;
            let start = logical * BLOCK_BYTES as u64;
            for entry in dirent::entries(&*bytes, end) {
                let position = start + entry.at as u64;
                if entry.ino == 0 || position < after || listed.len() >= entries_max {
                    continue;
                }
                let ino = Ino(entry.ino);
                let kind = match FileKind::from_entry_byte(entry.kind) {
                    Some(kind) => kind,
                    None => self.kind_of(directory.ino, ino)?,
                };
                let name = entry.name.to_vec();
                listed.push(DirectoryEntry { ino, kind, name, cookie: position + 1 });
            }
            at = start + BLOCK_BYTES as u64;
        }
        Ok(listed)
    }

    fn kind_of(&mut self, directory: Ino, ino: Ino) -> Outcome<FileKind> {
        let inode = self.inode_of_entry(directory, ino)?;
        inode.kind().ok_or_else(|| corrupt(format!("inode {} has no kind", ino.0)))
    }

    fn listed_block(
        &mut self,
        directory: &Inode,
        logical: u64,
        end: u64,
    ) -> Outcome<crate::types::BlockBytes> {
        let kind: Kind = Self::directory_kind(directory);
        let end = end.min(logical + BLOCKS_AHEAD);
        let extents = self.extents_in(directory, logical, end, BLOCKS_AHEAD as usize)?;
        let parts = extents.iter().filter_map(|extent| extent.part(logical, end));
        let blocks: Vec<u64> =
            parts.flat_map(|part| part.physical..part.physical + u64::from(part.len)).collect();
        let starts_here =
            extents.first().is_some_and(|extent| extent.part(logical, logical + 1).is_some());
        let Some(first) = blocks.first().filter(|_| starts_here) else {
            let text = format!("directory {}: block {logical} is missing", directory.ino.0);
            return Err(corrupt(text));
        };
        if !self.has(*first) {
            let missing = blocks.iter().copied().filter(|block| !self.has(*block));
            return Err(Stop::Wants(missing.collect()));
        }
        self.read(*first, kind)
    }
}
