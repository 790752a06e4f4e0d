//! Times of access: kept in memory, told to whoever asks, and written by commits that write everything anyway, or at the end.
//!
//! Reading makes nothing durable and no commit begin, so a crash may take times of access back. At most [`WAITING_MAX`] nodes wait; with
//! many the next commit that is due writes them.

use crate::core::Core;
use crate::error::Halt;
use nearhead_ext4::{Attributes, Ino, NOATIME_FLAG, Times};

/// When reading changes the time of access of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessTimes {
    /// Never.
    #[default]
    Never,
    /// Where it is not after the last change, or a day old (`relatime` of Linux).
    Relative,
    /// Always.
    Always,
}

/// Nodes whose times wait before a commit is due for them.
const WAITING_MANY: usize = 4096;
/// Nodes whose times wait, at most; those of others are not kept.
const WAITING_MAX: usize = 65536;
/// So old a time of access is renewed in any case, in seconds.
const DAY: i64 = 24 * 3600;

impl Core {
    /// A node was read.
    pub(crate) fn note_accessed(&mut self, attributes: &Attributes) {
        let (now, before) = (self.clock, attributes.accessed);
        let is_wanted = match self.access_times {
            AccessTimes::Never => false,
            AccessTimes::Always => now != before,
            AccessTimes::Relative => {
                let is_old = now.seconds - before.seconds >= DAY;
                now != before
                    && (before <= attributes.modified || before <= attributes.changed || is_old)
            }
        };
        let is_kept = !self.options.ext4.read_only && attributes.flags & NOATIME_FLAG == 0;
        if !is_wanted || !is_kept || self.accessed.len() >= WAITING_MAX {
            return;
        }
        self.touch(attributes.ino);
        self.accessed.insert(attributes.ino, now);
        if self.accessed.len() >= WAITING_MANY {
            self.note_unsaved();
        }
    }

    /// The same of what is no file.
    pub(crate) fn note_read(&mut self, ino: Ino) -> Result<(), Halt> {
        if self.access_times != AccessTimes::Never {
            let attributes = self.try_attributes(ino)?;
            self.note_accessed(&attributes);
        }
        Ok(())
    }

    /// What clients are told.
    pub(crate) fn with_access_time(&self, mut attributes: Attributes) -> Attributes {
        if let Some(at) = self.accessed.get(&attributes.ino) {
            attributes.accessed = *at;
        }
        attributes
    }

    /// The time of access of one node goes to its metadata, if that is in memory: no commit reads for it, or fails by it.
    pub(crate) fn pack_access_time(&mut self, ino: Ino) {
        let Some(at) = self.accessed.remove(&ino) else { return };
        self.touch(ino);
        let caller = self.by_itself();
        if let Some(ext4) = &mut self.ext4 {
            // Nobody misses it where it cannot be kept.
            let times = Times { accessed: Some(at), ..Times::default() };
            let _ = ext4.set_times(ino, &times, &caller);
        }
    }

    /// Those of as many nodes as the record has room for.
    pub(crate) fn pack_access_times(&mut self) {
        while !self.is_half_full() && self.room_in_record() > 0 {
            let Some(ino) = self.accessed.keys().next().copied() else { break };
            self.pack_access_time(ino);
        }
    }
}
