//! Durability-only files: what is written to them is needed only after a crash, and soon removed (`O_DUR`, Manylogs IV-D).
//!
//! A file is one if its extended attribute says so; what is made in a directory that has it gets it as well, and what has a name that the
//! mount was told of. All that is written to it goes into records, whatever its size; the volume is told of its blocks, brings them
//! home only when all logs are full, and drops what its logs hold of them when the file is removed or cut.

use crate::core::{BLOCK, Core};
use crate::error::Halt;
use crate::io::Purpose;
use nearhead_basics::pattern;
use nearhead_ext4::{Caller, Errno, FileKind, Ino, NewRun, Stop, Was, XattrSet};
use nearhead_service::{Hint, Operation};

/// The attribute, and its value.
pub(crate) const ATTRIBUTE: &[u8] = b"user.nearhead.durability";
pub(crate) const ONLY: &[u8] = b"only";

/// Names of files, or of directories with all that is made in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableName {
    name: Vec<u8>,
    is_directory: bool,
}

impl DurableName {
    /// `*.wal` and the like for files (`*` and `?` stand for anything), `pg_wal/**` for a directory. `None` for what is neither.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, is_directory) = match text.strip_suffix("/**") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let is_one = !name.is_empty() && !name.contains('/');
        is_one.then(|| Self { name: name.as_bytes().to_vec(), is_directory })
    }

    fn is_for(&self, kind: FileKind, name: &[u8]) -> bool {
        let is_kind = match kind {
            FileKind::Regular => !self.is_directory,
            FileKind::Directory => self.is_directory,
            _ => false,
        };
        is_kind && pattern::matches(&self.name, name)
    }
}

impl Core {
    /// Whether the node is one; asked once for each that is in use.
    pub(crate) fn is_durability_only(&mut self, ino: Ino) -> Result<bool, Halt> {
        if let Some(known) = self.files.get(&ino).and_then(|file| file.durability_only) {
            return Ok(known);
        }
        let found = match self.ext4()?.get_xattr(ino, ATTRIBUTE) {
            Ok(value) => value == ONLY,
            Err(Stop::Fails(error)) if error.errno == Errno::NoData => false,
            Err(stop) => return Err(stop.into()),
        };
        self.file(ino).durability_only = Some(found);
        Ok(found)
    }

    /// Whether what is made under this name becomes one.
    pub(crate) fn makes_durability_only(
        &mut self,
        parent: Ino,
        name: &[u8],
        kind: FileKind,
    ) -> Result<bool, Halt> {
        if !matches!(kind, FileKind::Regular | FileKind::Directory) {
            return Ok(false);
        }
        let is_named = self.options.durable.iter().any(|durable| durable.is_for(kind, name));
        Ok(is_named || self.is_durability_only(parent)?)
    }

    /// A node that was just made is one. Its inode has room for the attribute; where access lists took that, it stays as any other.
    pub(crate) fn make_durability_only(&mut self, ino: Ino, caller: &Caller) {
        let Ok(ext4) = self.ext4() else { return };
        let set = ext4.set_xattr(ino, ATTRIBUTE, ONLY, XattrSet::Any, caller);
        self.file(ino).durability_only = Some(set.is_ok());
    }

    /// The volume is told of blocks that such a file got.
    pub(crate) fn tell_durability_only(&mut self, ino: Ino, blocks: &[NewRun]) {
        if self.files.get(&ino).and_then(|file| file.durability_only) != Some(true) {
            return;
        }
        for run in blocks.iter().filter(|run| run.was != Was::Written) {
            let (offset, len) = (run.physical * BLOCK, run.len * BLOCK);
            // Advice: where it is not taken the file is as safe, and goes home earlier.
            let hint = Operation::Hint { offset, len, hint: Hint::DurabilityOnly };
            self.io.ask(Purpose::Advice, hint);
        }
    }

    /// Such a file loses blocks in the running transaction, as far as that is known.
    pub(crate) fn note_durability_only_cut(&mut self, ino: Ino) -> Result<(), Halt> {
        if self.is_durability_only(ino)? {
            self.commit.drops_freed = true;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_for_files_or_for_a_directory() {
        let file = DurableName::parse("*.wal").unwrap();
        assert!(file.is_for(FileKind::Regular, b"x.wal"));
        assert!(!file.is_for(FileKind::Directory, b"x.wal"));
        let folder = DurableName::parse("pg_wal/**").unwrap();
        assert!(folder.is_for(FileKind::Directory, b"pg_wal"));
        assert!(!folder.is_for(FileKind::Regular, b"pg_wal"));
        for wrong in ["", "/**", "a/b", "a/b/**"] {
            assert_eq!(DurableName::parse(wrong), None, "{wrong}");
        }
    }
}
