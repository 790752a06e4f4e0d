//! Operations on names and what is known of nodes: each is one operation of the metadata, with what follows from it for the files in use.

use crate::core::Core;
use crate::error::{FsError, Halt};
use crate::request::{Answer, FsOperation};
use nearhead_ext4::{AttributeChange, Attributes, Caller, Ino, Removed, Rename};

/// Setuid and setgid of a mode.
const PRIVILEGES: u16 = 0o6000;

impl Core {
    /// What has no file of its own.
    pub(crate) fn try_name(
        &mut self,
        operation: &FsOperation,
        caller: &Caller,
    ) -> Result<Answer, Halt> {
        use FsOperation as Op;
        match operation {
            Op::Lookup { parent, name } => {
                let found = self.ext4()?.lookup(*parent, name)?;
                Ok(self.referred(found))
            }
            Op::Forget { ino, count } => {
                self.drop_references(*ino, *count)?;
                Ok(Answer::Nothing)
            }
            Op::Attributes { ino } => self.try_attributes(*ino).map(Answer::Node),
            Op::ReadLink { ino } => {
                let target = self.ext4()?.read_link(*ino)?;
                self.note_read(*ino)?;
                Ok(Answer::Value(target))
            }
            Op::ReadDirectory { ino, after, entries_max } => {
                let entries = self.ext4()?.read_directory(*ino, *after, *entries_max)?;
                self.note_read(*ino)?;
                Ok(Answer::Entries(entries))
            }
            Op::Statistics => {
                let mut statistics = self.ext4()?.statistics();
                statistics.free = statistics.free.saturating_sub(self.kept_blocks);
                statistics.available = statistics.available.saturating_sub(self.kept_blocks);
                Ok(Answer::Statistics(statistics))
            }
            Op::Flags { ino } => self.try_flags(*ino),
            Op::GetXattr { ino, name } => Ok(Answer::Value(self.ext4()?.get_xattr(*ino, name)?)),
            Op::ListXattrs { ino } => {
                let mut names = self.ext4()?.list_xattrs(*ino)?;
                // As on ext4 (xattr(7)).
                names.retain(|name| caller.uid == 0 || !name.starts_with(b"trusted."));
                Ok(Answer::Names(names))
            }
            _ => self.try_change(operation, caller),
        }
    }

    fn try_change(&mut self, operation: &FsOperation, caller: &Caller) -> Result<Answer, Halt> {
        use FsOperation as Op;
        match operation {
            Op::Make { parent, name, new } => {
                let is_durable = self.makes_durability_only(*parent, name, new.kind)?;
                let made = self.ext4()?.make(*parent, name, new, caller)?;
                // Its number may have been another's.
                self.forget_file(made.ino);
                if is_durable {
                    self.make_durability_only(made.ino, caller);
                }
                self.note_acted(&[*parent, made.ino], caller);
                Ok(self.referred(made))
            }
            Op::MakeNameless { parent, new } => {
                let made = self.ext4()?.make_nameless(*parent, new, caller)?;
                self.forget_file(made.ino);
                self.file(made.ino).is_nameless = true;
                self.note_acted(&[made.ino], caller);
                Ok(self.referred(made))
            }
            Op::Link { ino, parent, name } => {
                let linked = self.ext4()?.link(*ino, *parent, name, caller)?;
                self.file(*ino).is_nameless = false;
                self.note_acted(&[*parent, *ino], caller);
                Ok(self.referred(linked))
            }
            Op::Unlink { parent, name } => {
                let ino = self.ext4()?.lookup(*parent, name)?.ino;
                self.note_durability_only_cut(ino)?;
                let removed = self.ext4()?.unlink(*parent, name, caller)?;
                self.note_acted(&[*parent, removed.ino], caller);
                self.note_removed(removed);
                Ok(Answer::Nothing)
            }
            Op::RemoveDirectory { parent, name } => {
                let removed = self.ext4()?.remove_directory(*parent, name, caller)?;
                self.note_acted(&[*parent, removed.ino], caller);
                self.note_removed(removed);
                Ok(Answer::Nothing)
            }
            Op::Rename { from, name, to, new_name, how } => {
                let mut moved = vec![self.ext4()?.lookup(*from, name)?.ino];
                if *how == Rename::Exchange {
                    moved.push(self.ext4()?.lookup(*to, new_name)?.ino);
                }
                self.bind_moved(moved[0], *to, new_name, *how)?;
                let renamed = self.ext4()?.rename(*from, name, *to, new_name, *how, caller)?;
                self.note_acted(&[*from, *to], caller);
                self.note_acted(&moved, caller);
                if let Some(whiteout) = renamed.whiteout {
                    // Its number may have been another's.
                    self.forget_file(whiteout);
                    self.note_acted(&[whiteout], caller);
                }
                if let Some(removed) = renamed.removed {
                    self.bind(moved[0]);
                    self.note_acted(&[removed.ino], caller);
                    self.note_removed(removed);
                }
                Ok(Answer::Nothing)
            }
            Op::SetXattr { ino, name, value, how } => {
                self.ext4()?.set_xattr(*ino, name, value, *how, caller)?;
                self.note_acted(&[*ino], caller);
                self.file(*ino).durability_only = None;
                Ok(Answer::Nothing)
            }
            Op::SetFlags { ino, flags, mask } => self.try_set_flags(*ino, *flags, *mask, caller),
            Op::RemoveXattr { ino, name } => {
                self.ext4()?.remove_xattr(*ino, name, caller)?;
                self.note_acted(&[*ino], caller);
                self.file(*ino).durability_only = None;
                Ok(Answer::Nothing)
            }
            _ => {
                let detail = "a request that has no way to be carried out (internal error)";
                Err(Halt::Fails(FsError::new(crate::error::EINVAL, detail)))
            }
        }
    }

    pub(crate) fn try_attributes(&mut self, ino: Ino) -> Result<Attributes, Halt> {
        let attributes = self.ext4()?.attributes(ino)?;
        let attributes = self.with_access_time(attributes);
        Ok(self.files.get(&ino).map_or(attributes, |file| file.told(attributes)))
    }

    pub(crate) fn try_set_attributes(
        &mut self,
        ino: Ino,
        change: &AttributeChange,
        size: Option<u64>,
        caller: &Caller,
    ) -> Result<Answer, Halt> {
        if size.is_none() && self.is_nothing(ino, change)? {
            return self.try_attributes(ino).map(Answer::Node);
        }
        if let Some(size) = size {
            self.try_cut(ino, size, caller)?;
        }
        if *change != AttributeChange::default() {
            self.ext4()?.set_attributes(ino, change, caller)?;
            if change.accessed.is_some() {
                self.accessed.remove(&ino);
            }
            let file = self.file(ino);
            if change.modified.is_some() {
                file.times.modified = None;
            }
        }
        self.note_acted(&[ino], caller);
        self.try_attributes(ino).map(Answer::Node)
    }

    /// Whether all that is to be changed are privileges that there are none of: nearly every write of a user says so.
    fn is_nothing(&mut self, ino: Ino, change: &AttributeChange) -> Result<bool, Halt> {
        let clears = AttributeChange { clears_privileges: true, ..AttributeChange::default() };
        if *change != clears {
            return Ok(false);
        }
        Ok(self.ext4()?.attributes(ino)?.mode & PRIVILEGES == 0)
    }

    /// A client knows the node now.
    fn referred(&mut self, attributes: Attributes) -> Answer {
        let attributes = self.with_access_time(attributes);
        let ino = attributes.ino;
        let file = self.file(ino);
        file.references += 1;
        let (is_first, told) = (file.references == 1, file.told(attributes));
        if let (true, Some(ext4)) = (is_first, &mut self.ext4) {
            ext4.hold(ino);
        }
        Answer::Node(told)
    }

    fn drop_references(&mut self, ino: Ino, count: u64) -> Result<(), Halt> {
        self.touch(ino);
        let Some(file) = self.files.get_mut(&ino) else { return Ok(()) };
        let before = file.references;
        let is_gone = file.is_gone || file.is_nameless;
        if is_gone && before <= count && file.writing > 0 {
            // Its blocks are anybody's then.
            return Err(Halt::Quiet(ino));
        }
        file.references = before.saturating_sub(count);
        let is_last = before > 0 && file.references == 0;
        if is_last {
            self.give_up_ahead(ino);
            self.commit.bounds.note_released(ino);
            self.ext4()?.release(ino);
        }
        if is_last && is_gone {
            let is_durable = self.files.get(&ino).and_then(|file| file.durability_only);
            self.commit.drops_freed |= is_durable == Some(true);
            self.forget_file(ino);
        }
        self.tidy(ino);
        Ok(())
    }

    /// A node lost a name.
    fn note_removed(&mut self, removed: Removed) {
        if !removed.is_gone {
            return;
        }
        let file = self.file(removed.ino);
        file.is_gone = true;
        if file.references == 0 {
            self.forget_file(removed.ino);
        }
    }
}
