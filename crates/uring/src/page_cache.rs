//! What has to be kept in mind where writes go through the page cache.
//!
//! The kernel writes dirty pages at times of its own, and from that come two rules that past the page cache nobody
//! needs:
//!
//! - **A failed sync is the last word.** If a page could not be written, the next sync says so, once, and the page
//!   counts as clean, with bytes that are not on the disk. So syncs go one at a time, never beside each other: none
//!   can succeed while another takes the error that concerns it. After one that failed nothing is accepted that changes
//!   the file, until it is opened again or has left the cache (`past_cache.rs`); then what is read is what the disk has.
//! - **A page is not changed while it may be on its way.** The device reads it from the very memory that a write would
//!   change, so a sector could arrive that is neither old nor new. Whatever was written since the last sync may be on
//!   its way; a write to it is made after the next.

use crate::job::Operation;
use nearhead_disk::DiskErrorKind;
use rustix::io::Errno;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const PAGE_BYTES: u64 = 4096;
/// Pages written since a sync began, 4 MiB, at which the next write waits for another sync. A sync brings everything to
/// the disk that was written before it, so this is what a small durable write may have to wait behind, as with
/// bulk past the page cache; and as much again, for the sync that is under way.
const UNSYNCED_PAGES_MAX: usize = 1024;

/// Pages written since a sync began, 128 KiB, up to which the next one is over soon.
const SOON_SYNCED_PAGES_MAX: usize = 32;

/// The state of a file that is written through the page cache.
#[derive(Debug, Default)]
pub(crate) struct PageCache {
    /// Why nothing may be changed any more, and what the kernel said.
    lost: OnceLock<(String, Errno)>,
    pages: Mutex<Pages>,
    /// Held while one of several threads syncs.
    turn: Mutex<()>,
    /// Whether a durable write is known to be one here.
    honours_dsync: bool,
}

#[derive(Debug, Default)]
struct Pages {
    /// Written since the last sync began.
    unsynced: HashSet<u64>,
    /// Written before the one that is under way began.
    syncing: HashSet<u64>,
    /// Syncs that began, and how many of them have ended well.
    begun: u64,
    done: u64,
}

/// A panic while a lock is held leaves plain sets, of which at worst some say too much.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which bytes an operation may change in memory, as offsets and lengths: of a range that is zeroed or deallocated the
/// parts of pages at its ends.
pub(crate) fn changed_in_memory(operation: Operation, left_bytes: u64) -> [(u64, u64); 2] {
    match operation {
        Operation::Write { offset, .. } => [(offset, left_bytes), (0, 0)],
        Operation::ZeroRange { offset, len } | Operation::Punch { offset, len } => {
            [(offset, 1), (offset + len.saturating_sub(1), 1)]
        }
        Operation::Read { .. } | Operation::Discard { .. } | Operation::Sync => [(0, 0); 2],
    }
}

fn pages_of(offset: u64, len: u64) -> std::ops::Range<u64> {
    if len == 0 {
        return 0..0;
    }
    offset / PAGE_BYTES..(offset + len).div_ceil(PAGE_BYTES)
}

impl PageCache {
    pub(crate) fn new(honours_dsync: bool) -> Self {
        Self { honours_dsync, ..Self::default() }
    }

    /// Makes `len` bytes durable by a durable write of what is there already, and nothing else. None if that is not known
    /// to be enough. What it fails with concerns any page, like the failure of a sync.
    pub(crate) fn sync_range(
        &self,
        (offset, len): (u64, usize),
        name: &str,
        write: impl FnOnce() -> Result<usize, Errno>,
    ) -> Option<Result<(), Errno>> {
        if !self.honours_dsync {
            return None;
        }
        let _turn = lock(&self.turn);
        if self.lost().is_some() {
            return Some(Err(Errno::IO));
        }
        match write() {
            Ok(written) if written == len => {
                let mut pages = lock(&self.pages);
                for page in offset.div_ceil(PAGE_BYTES)..(offset + len as u64) / PAGE_BYTES {
                    pages.unsynced.remove(&page);
                }
                Some(Ok(()))
            }
            Ok(_) => None,
            Err(errno) => {
                self.sync_ended(Err(errno), name);
                Some(Err(errno))
            }
        }
    }

    /// Why nothing may be changed any more, if that is so.
    pub(crate) fn lost(&self) -> Option<&str> {
        self.lost.get().map(|(why, _)| why.as_str())
    }

    /// The same, if it was the medium or its space, so that another write elsewhere may well succeed: not a disk that
    /// left or takes no writes at all.
    pub(crate) fn lost_to_medium(&self) -> Option<&str> {
        let (why, errno) = self.lost.get()?;
        let kind = crate::error::kind_of(*errno);
        matches!(kind, DiskErrorKind::Io | DiskErrorKind::OutOfSpace).then_some(why)
    }

    /// Whether a write there has to wait for a sync.
    pub(crate) fn syncs_first(&self, offset: u64, len: u64) -> bool {
        if len == 0 {
            return false;
        }
        let pages = lock(&self.pages);
        pages.unsynced.len() >= UNSYNCED_PAGES_MAX
            || pages_of(offset, len)
                .any(|page| pages.unsynced.contains(&page) || pages.syncing.contains(&page))
    }

    /// Whether a sync has little to bring to the disk now.
    pub(crate) fn is_soon_synced(&self) -> bool {
        lock(&self.pages).unsynced.len() <= SOON_SYNCED_PAGES_MAX
    }

    /// A write there was made, or a part of it.
    pub(crate) fn note_written(&self, offset: u64, len: u64) {
        if len > 0 {
            lock(&self.pages).unsynced.extend(pages_of(offset, len));
        }
    }

    /// A sync begins; no other is under way.
    pub(crate) fn sync_begins(&self) {
        let mut pages = lock(&self.pages);
        pages.begun += 1;
        let Pages { unsynced, syncing, .. } = &mut *pages;
        if syncing.is_empty() {
            // Both sets keep their room.
            std::mem::swap(unsynced, syncing);
        } else {
            // What an earlier one did not bring to its end is still to come.
            syncing.extend(unsynced.drain());
        }
    }

    /// It ended. A failed one is the last.
    pub(crate) fn sync_ended(&self, outcome: Result<(), Errno>, name: &str) {
        match outcome {
            Ok(()) => {
                let mut pages = lock(&self.pages);
                pages.done = pages.begun;
                pages.syncing.clear();
            }
            // It says nothing of any page, and is asked again.
            Err(Errno::INTR | Errno::AGAIN | Errno::CANCELED) => {}
            Err(errno) => {
                let found = crate::error::name_of(errno);
                self.lost.get_or_init(|| {
                    let why = format!(
                        "{name}: expected its written pages to become durable, found {found}: the kernel may have \
                         dropped some of them, so nothing is written any more until it is opened again; what was \
                         acknowledged as durable before is durable; see the kernel log, and serve it with \
                         --page-cache=false if it comes back"
                    );
                    (why, errno)
                });
            }
        }
    }

    /// Syncs, as one of several threads: one sync serves all who asked before it began.
    pub(crate) fn sync(
        &self,
        name: &str,
        call: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let needed = lock(&self.pages).begun + 1;
        let _turn = lock(&self.turn);
        if self.lost().is_some() {
            return Err(Errno::IO);
        }
        if lock(&self.pages).done >= needed {
            return Ok(());
        }
        self.sync_begins();
        let outcome = call();
        self.sync_ended(outcome, name);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_written_again_only_after_a_sync_that_covers_it() {
        let cache = PageCache::default();
        cache.note_written(8192, 512);
        assert!(cache.syncs_first(8192 + 1024, 512), "another sector of the same page");
        assert!(!cache.syncs_first(4096, 4096) && !cache.syncs_first(12_288, 4096));
        cache.sync_begins();
        cache.note_written(4096, 1);
        assert!(cache.syncs_first(8192, 512), "it is on its way");
        cache.sync_ended(Ok(()), "a.img");
        assert!(!cache.syncs_first(8192, 512));
        assert!(cache.syncs_first(4096, 512), "written after the sync had begun");
    }

    #[test]
    fn an_interrupted_sync_covers_nothing_and_loses_nothing() {
        let cache = PageCache::default();
        cache.note_written(0, 4096);
        assert_eq!(cache.sync("a.img", || Err(Errno::INTR)), Err(Errno::INTR));
        assert!(cache.syncs_first(0, 512) && cache.lost().is_none());
        assert_eq!(cache.sync("a.img", || Ok(())), Ok(()));
        assert!(!cache.syncs_first(0, 512));
    }

    #[test]
    fn after_a_failed_sync_none_is_asked_for_again() {
        let cache = PageCache::default();
        assert_eq!(cache.sync("a.img", || Err(Errno::IO)), Err(Errno::IO));
        assert!(
            cache.lost().is_some_and(|why| why.contains("a.img") && why.contains("opened again"))
        );
        let never = || panic!("the kernel would say that all is well");
        assert_eq!(cache.sync("a.img", never), Err(Errno::IO));
    }

    #[test]
    fn a_range_that_is_synced_by_itself_leaves_the_rest_unsynced() {
        let cache = PageCache::new(true);
        cache.note_written(0, 16_384);
        assert_eq!(cache.sync_range((4096, 4608), "a.img", || Ok(4608)), Some(Ok(())));
        assert!(!cache.syncs_first(4096, 4096), "the whole page of it");
        assert!(cache.syncs_first(0, 512) && cache.syncs_first(8192, 512), "the others");
        assert_eq!(cache.sync_range((0, 4096), "a.img", || Ok(512)), None, "only a part of it");
        assert_eq!(
            cache.sync_range((0, 4096), "a.img", || Err(Errno::NOSPC)),
            Some(Err(Errno::NOSPC))
        );
        assert!(cache.lost().is_some(), "whatever it fails with");
        let never = || panic!("the kernel would say that all is well");
        assert_eq!(cache.sync_range((0, 4096), "a.img", never), Some(Err(Errno::IO)));
        let unknown = PageCache::default();
        assert_eq!(
            unknown.sync_range((0, 4096), "a.img", || panic!("not known to be durable")),
            None
        );
    }

    /// Of a hole only the pages at its ends are changed in memory: what is between is dropped.
    #[test]
    fn whatever_changes_pages_in_memory_says_which() {
        let (offset, len) = (8192 + 512, 1 << 20);
        let ends = [(offset, 1), (offset + len - 1, 1)];
        for (operation, expected) in [
            (Operation::Write { offset, through: false }, [(offset, 3072), (0, 0)]),
            (Operation::ZeroRange { offset, len }, ends),
            (Operation::Punch { offset, len }, ends),
            (Operation::Read { offset }, [(0, 0); 2]),
            (Operation::Discard { offset, len }, [(0, 0); 2]),
            (Operation::Sync, [(0, 0); 2]),
        ] {
            assert_eq!(changed_in_memory(operation, 3072), expected, "{operation:?}");
        }
    }

    #[test]
    fn only_what_the_medium_or_its_space_lost_may_be_done_without() {
        for (errno, is_of_medium) in
            [(Errno::IO, true), (Errno::NOSPC, true), (Errno::NODEV, false), (Errno::ROFS, false)]
        {
            let cache = PageCache::default();
            assert_eq!(cache.lost_to_medium(), None, "nothing is lost yet");
            cache.sync_ended(Err(errno), "a.img");
            assert!(cache.lost().is_some_and(|why| why.starts_with("a.img: expected")));
            let found = cache.lost_to_medium();
            assert_eq!(found, cache.lost().filter(|_| is_of_medium), "{errno:?}");
        }
    }

    #[test]
    fn a_sync_of_much_is_not_one_that_is_over_soon() {
        let cache = PageCache::default();
        assert!(cache.is_soon_synced());
        cache.note_written(0, SOON_SYNCED_PAGES_MAX as u64 * PAGE_BYTES);
        assert!(cache.is_soon_synced());
        cache.note_written(1 << 30, 1);
        assert!(!cache.is_soon_synced());
        cache.sync_begins();
        assert!(cache.is_soon_synced(), "the rest is for the one that is under way");
    }

    #[test]
    fn what_is_not_synced_is_bounded() {
        let cache = PageCache::default();
        cache.note_written(0, UNSYNCED_PAGES_MAX as u64 * PAGE_BYTES - 1);
        assert!(cache.syncs_first(1 << 40, 512));
    }

    #[test]
    fn threads_that_ask_together_are_served_by_few_syncs_and_none_by_an_earlier_one() {
        let cache = PageCache::default();
        let began = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let order = std::sync::atomic::Ordering::SeqCst;
                        let before = began.load(order);
                        cache
                            .sync("a.img", || {
                                began.fetch_add(1, order);
                                Ok(())
                            })
                            .unwrap();
                        assert!(began.load(order) > before, "none began after it was asked for");
                    }
                });
            }
        });
    }
}
