//! What is at home leaves the map: by a record, or where no log takes one, by snapshots.

use super::{Checkpoint, News, Step};
use crate::commit::{Commit, Releases, Stale};
use crate::core::Core;
use crate::disk::flusher::FlushTicket;
use crate::state::sectors::SECTOR;
use nearhead_disk::Nanos;
use nearhead_format::Entry;

/// With so much of the logs in use nothing waits with giving room back.
const SCARCE_FILL_PCT: u32 = 50;

impl Checkpoint {
    pub(super) fn release_batch(&mut self, core: &mut Core) {
        let Some(window) = self.window.as_mut() else { return };
        // What went to a device that was given up before it was flushed stays in the logs.
        let bytes = |entry: &Entry| u64::from(entry.len_sectors) * SECTOR as u64;
        window.batch.retain(|entry| {
            let offset = entry.home_sector * SECTOR as u64;
            !core.is_given_up_under(offset, bytes(entry))
        });
        let bytes: u64 =
            window.batch.iter().map(|entry| u64::from(entry.len_sectors) * SECTOR as u64).sum();
        window.to_release = std::mem::take(&mut window.batch).into();
        window.step = Step::Releasing;
        let is_scarce = core.logs().fill_pct() >= SCARCE_FILL_PCT;
        let wait = core.setup().config.cleaning.releases_wait;
        let waits = !is_scarce && !core.is_draining();
        self.releases_due_at = core.now() + if waits { wait } else { Nanos::ZERO };
        self.copied_this_pass += bytes;
        core.stats_mut().checkpointed_bytes += bytes;
        if !self.has_releases() {
            self.released();
        }
    }

    /// No log takes a record that lets these entries of the batch go: snapshots will, and all the
    /// others.
    pub(crate) fn release_by_snapshot(
        &mut self,
        core: &mut Core,
        commit: &mut Commit,
        entries: &[Entry],
    ) {
        if entries.is_empty() {
            return;
        }
        let mut gone = Vec::with_capacity(entries.len());
        let others = self.take_all_releases();
        for entry in entries.iter().chain(&others) {
            let window = self.window.as_ref();
            if !window.is_some_and(|window| window.is_newest(core.recorded(), entry)) {
                continue;
            }
            let len = u64::from(entry.len_sectors);
            gone.extend(core.recorded_mut().displace(entry.home_sector, len).0);
        }
        // The homes were flushed already.
        commit.invalidations_mut().push(gone.into_iter().map(Stale::Copy), FlushTicket::NONE);
        let target = commit.want_invalidations(core);
        if let Some(window) = self.window.as_mut() {
            window.step = Step::Settling { target };
        }
    }

    /// A record that lets entries go is durable: the batch is done if it was the last.
    pub(crate) fn note_released(&mut self) {
        if !self.has_releases() {
            self.released();
        }
    }

    /// Everything of the batch is let go.
    pub(super) fn released(&mut self) {
        let window = self.window.take();
        self.window = window.filter(|window| !window.entries.is_empty());
        if let Some(window) = self.window.as_mut() {
            window.step = Step::Read;
        }
        self.homes.clear();
        self.news = Some(News::Freed);
    }
}
