//! Which way bytes go to the disk, and how a file leaves the page cache for good.
//!
//! A file is written through the page cache until a sync fails there. The kernel told of that once, of no page, and counts
//! as clean what it could not write: the bytes in the cache are not those on the disk, and nobody knows where. From
//! [`Target::leave_cache`] on nothing is read from the cache any more, and each write says by itself how it went. It
//! keeps true:
//!
//! - no call that was begun on the old way is still under way;
//! - what the kernel has still to tell of the past is told to nobody: both descriptors are synced until both have nothing
//!   more to tell, which also brings to the disk, or gives up, what is still dirty, so that nothing of it lands later;
//! - a file for which there is only the cache (no direct I/O, or asked for so) never goes past it.

use crate::error::disk_error;
use crate::job::{Job, Operation};
use crate::page_cache::{PageCache, changed_in_memory};
use crate::target::Target;
use nearhead_disk::{DiskError, DiskErrorKind};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Advice, fadvise, fdatasync};
use rustix::io::Errno;
use std::sync::atomic::Ordering;

/// Syncs of both descriptors until neither tells of the past. Each tells once of what failed before, so the second pair
/// succeeds unless the disk fails now.
const SYNCS_MAX: u32 = 3;

/// How bytes go between memory and the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) direct: bool,
    /// Memory of a direct transfer starts at a multiple of this.
    pub(crate) memory_align_bytes: usize,
    /// Whether a durable write can be one command (FUA) rather than write and sync.
    pub(crate) write_through: bool,
}

impl Way {
    pub(crate) const THROUGH_CACHE: Self = Self {
        direct: false,
        memory_align_bytes: 1,
        // A write that syncs by itself would take the error that concerns another.
        write_through: false,
    };
}

impl Target {
    /// The way that bytes go now.
    pub(crate) fn way(&self) -> &Way {
        let left = self.way_past_cache.as_ref().filter(|_| self.has_left_cache());
        left.unwrap_or(&self.way)
    }

    fn has_left_cache(&self) -> bool {
        self.is_past_cache.load(Ordering::Acquire)
    }

    /// What is to be kept in mind where writes go through the page cache, if they do.
    pub(crate) fn page_cache(&self) -> Option<&PageCache> {
        self.page_cache.as_ref().filter(|_| !self.has_left_cache())
    }

    /// The descriptor for everything that changes the file.
    pub(crate) fn write_fd(&self) -> BorrowedFd<'_> {
        let cached = self.cached.as_ref().filter(|_| self.page_cache().is_some());
        cached.unwrap_or(&self.fd).as_fd()
    }

    /// The descriptor for reads. Where writes go past the page cache each takes the pages that it makes stale out
    /// of the cache; a cache that has lied is read no more.
    pub(crate) fn read_fd(&self) -> BorrowedFd<'_> {
        let cached = self.cached.as_ref().filter(|_| !self.has_left_cache());
        cached.unwrap_or(&self.fd).as_fd()
    }

    /// Whether writes go through the page cache.
    pub(crate) fn caches_writes(&self) -> bool {
        self.page_cache().is_some()
    }

    /// Why nothing may be changed any more, if written pages were lost.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.page_cache()?.lost()
    }

    /// The same, if the file can go past the cache and it is the disk that failed, not the way to it.
    pub(crate) fn lost_what_it_can_do_without(&self) -> Option<&str> {
        self.way_past_cache?;
        self.page_cache()?.lost_to_medium()
    }

    /// Before [`Target::leave_cache`], with so many commands outstanding, of which there may be none: whatever the
    /// kernel has still to write or to tell is behind us. Nothing was changed if it fails.
    pub(crate) fn settle_cache(&self, outstanding: usize) -> Result<(), DiskError> {
        let name = &self.properties.name;
        let way = self.way_past_cache.and(self.cached.as_ref());
        let Some(cached) = way.filter(|_| outstanding == 0) else {
            let detail = format!(
                "{name}: expected a file that can be written past the page cache and nothing under way, found {outstanding} \
                 commands; serve it again"
            );
            return Err(DiskError { kind: DiskErrorKind::Invalid, detail });
        };
        let mut outcome = Ok(());
        for _ in 0..SYNCS_MAX {
            outcome = fdatasync(cached).and(fdatasync(&self.fd));
            if outcome.is_ok() {
                break;
            }
        }
        outcome.map_err(|errno| {
            disk_error(&format!("last sync of {name}"), "nothing more to be lost", errno)
        })?;
        // For others who read the file. What cannot be dropped is not believed by us either.
        let _ = fadvise(cached, 0, None, Advice::DontNeed);
        Ok(())
    }

    /// Leaves the page cache for good.
    pub(crate) fn leave_cache(&self) {
        self.is_past_cache.store(true, Ordering::Release);
    }

    /// Whether this has to wait for a sync.
    pub(crate) fn syncs_first(&self, job: &Job, operation: Operation) -> bool {
        self.page_cache().is_some_and(|cache| {
            let ranges = changed_in_memory(operation, job.left_bytes());
            ranges.into_iter().any(|(offset, len)| cache.syncs_first(offset, len))
        })
    }

    /// It was carried out, or a part of it.
    pub(crate) fn note_written(&self, job: &Job, operation: Operation) {
        if let Some(cache) = self.page_cache() {
            for (offset, len) in changed_in_memory(operation, job.left_bytes()) {
                cache.note_written(offset, len);
            }
        }
    }

    /// A sync is about to be handed to the kernel; none is under way.
    pub(crate) fn sync_begins(&self) {
        if let Some(cache) = self.page_cache() {
            cache.sync_begins();
        }
    }

    /// It ended.
    pub(crate) fn sync_ended(&self, outcome: Result<(), Errno>) {
        if let Some(cache) = self.page_cache() {
            cache.sync_ended(outcome, &self.properties.name);
        }
    }

    /// What [`PageCache::sync_range`] does, where writes go through the page cache.
    pub(crate) fn sync_range(
        &self,
        offset: u64,
        len: usize,
        write: impl FnOnce() -> Result<usize, Errno>,
    ) -> Option<Result<(), Errno>> {
        self.page_cache()?.sync_range((offset, len), &self.properties.name, write)
    }

    /// Makes all completed writes durable, here and now.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        let call = || fdatasync(self.write_fd());
        match self.page_cache() {
            Some(cache) => cache.sync(&self.properties.name, call),
            None => call(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::tests::{begun, target, write};
    use nearhead_disk::Command;

    /// Whether `command`, as it would be carried out next, has to wait for a sync.
    fn waits(target: &Target, command: Command) -> bool {
        let job = begun(command, target);
        let waits = target.syncs_first(&job, job.operation(target));
        job.abandon();
        waits
    }

    #[test]
    fn what_was_written_through_the_page_cache_is_changed_again_only_after_a_sync() {
        let mut target = target("noted");
        target.page_cache = Some(PageCache::new(false));
        assert!(target.caches_writes() && !waits(&target, write(4096, false)));
        let job = begun(write(4096, false), &target);
        target.note_written(&job, job.operation(&target));
        job.abandon();
        assert!(waits(&target, write(4096, false)));
        assert!(waits(&target, Command::WriteZeroes { offset: 8192, len: 1 << 20, durable: true }));
        assert!(!waits(&target, Command::Trim { offset: 12_288, len: 1 << 20 }), "another page");
        assert!(!waits(&target, Command::Read { offset: 8192, len: 4096 }), "nothing is changed");
        target.sync_begins();
        assert!(waits(&target, write(4096, false)), "it may be on its way");
        target.sync_ended(Ok(()));
        assert!(!waits(&target, write(4096, false)));
    }

    #[test]
    fn past_the_page_cache_nothing_waits_for_a_sync() {
        let target = target("past");
        let job = begun(write(4096, false), &target);
        target.note_written(&job, job.operation(&target));
        job.abandon();
        assert!(!target.caches_writes() && !waits(&target, write(4096, false)));
        assert_eq!((target.lost(), target.lost_what_it_can_do_without()), (None, None));
    }
}
