//! Scope of a commit: the files that clients asked for, the metadata that a record takes, and the rest, which may wait for the next one.
//!
//! Keeps true that an `fsync` waits for its own file, for content that replaces a name, and for nothing else of other files.

use crate::core::Core;
use nearhead_ext4::Ino;

/// Changed blocks of metadata beyond which a commit begins without a request. One operation changes so few that both fit a record.
pub(crate) const CHANGES_MAX: usize = 96;

/// Runs in their places that are not flushed, beyond which any commit flushes them.
const PLACED_MAX: usize = 64;

impl Core {
    /// The commit that makes durable what was done to a node until now; none if all of it is.
    pub(crate) fn durable_at(&mut self, ino: Ino, data_only: bool) -> Option<u64> {
        let file = self.files.get(&ino)?;
        let has_data = file.has_unsaved_data() || file.is_packed;
        let has_times = file.has_pending_times() && !data_only;
        if (has_data || has_times) && !file.is_gone {
            self.commit.want();
            self.commit.next_files.insert(ino);
            if !data_only {
                self.commit.next_times.insert(ino);
            }
            return Some(self.commit.next());
        }
        let changed_in = file.changed_in;
        if changed_in <= self.commit.committed {
            return None;
        }
        if changed_in == self.commit.running {
            self.commit.want();
        }
        Some(changed_in)
    }

    /// Changed blocks of metadata beyond which a commit begins: fewer where records are small.
    fn changes_max(&self) -> usize {
        CHANGES_MAX.min(self.record_blocks_max() * 3 / 8)
    }

    /// Whether half of that is changed.
    pub(crate) fn is_half_full(&self) -> bool {
        self.ext4.as_ref().is_none_or(|ext4| ext4.changes_len() >= self.changes_max() / 2)
    }

    /// Whether so much metadata is changed, together with what is packed, that nothing more may be changed.
    pub(crate) fn is_commit_due_by_size(&self) -> bool {
        self.record_len() + self.commit.bounds.pages() >= self.changes_max()
    }

    /// Whether something that was written in place has to be durable with this commit: bulk of files that no client asked for waits for
    /// the next one that is due, as a flush may take as long as all of it.
    pub(crate) fn needs_flush(&self) -> bool {
        let commit = &self.commit;
        let is_needed = |ino| commit.asked.contains(&ino) || commit.bounds.is_closed(ino);
        let is_due = commit.old_since.is_some() || self.waiting.awaits_quiet();
        !commit.placed.is_empty()
            && (is_due
                || commit.placed.len() >= PLACED_MAX
                || commit.placed.iter().any(|placed| is_needed(placed.ino)))
    }

    /// Whether what is left to be packed may wait for the next commit: no client asked for it, and one waits for a commit.
    pub(crate) fn may_end_here(&self) -> bool {
        let commit = &self.commit;
        let is_old = |ino: &Ino| !commit.asked.contains(ino) && !commit.bounds.is_closed(*ino);
        commit.flushed.is_empty()
            && commit.to_pack.iter().all(is_old)
            && self.waiting.wants_commit(commit.running)
    }

    /// It ends here.
    pub(crate) fn leave_rest(&mut self) {
        self.commit.to_pack.clear();
        let since = self.commit.old_since.unwrap_or(self.now);
        self.note_unsaved_since(since);
    }

    /// Whether a client asked for this file to be durable with the commit under way.
    pub(crate) fn is_asked_for(&self, ino: Ino) -> bool {
        self.commit.asked.contains(&ino)
    }
}
