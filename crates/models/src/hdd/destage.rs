//! Emptying the write cache: when, what, and who waited for it.
//!
//! Acknowledged bytes go to the medium while nobody else wants the arm, or in turn with the queue
//! once somebody waits for them (a flush, a write without room) or the cache is half full.

use super::dirty::{Extent, WriteCache};
use super::{FinishAction, HddModel, Job, WaitingWrite};
use crate::profile_parts::QueuePolicy;
use nearhead_disk::{Nanos, Payload};

/// Most sectors written from the cache in one go, so that a command never waits long.
const DESTAGE_RUN_SECTORS: u64 = 2048;
/// Most extents compared when choosing what to write from the cache.
const DESTAGE_CHOICES: usize = 32;

impl HddModel {
    /// When the write cache wants the arm, if it does.
    pub(super) fn destage_at(&self) -> Option<Nanos> {
        if self.dirty.is_empty() {
            return None;
        }
        if self.destage_is_urgent() {
            return Some(Nanos::ZERO);
        }
        Some(self.last_activity + self.overheads.destage_idle)
    }

    /// Somebody waits for the write cache, or it is half full.
    pub(super) fn destage_is_urgent(&self) -> bool {
        !self.waiting_flushes.is_empty()
            || !self.waiting_writes.is_empty()
            || self.dirty.bytes() * 2 > self.profile.cache.dirty_bytes_max
    }

    pub(super) fn start_destage(&mut self) {
        let Some(first) = self.choose_destage() else { return };
        let run = self.dirty.run_from(first, DESTAGE_RUN_SECTORS);
        let sectors = run.iter().map(|extent| extent.sectors).sum();
        self.destage_cursor = first + sectors;
        self.segments.forget(first, first + sectors);
        self.stats.destages += 1;
        self.stats.destage_bytes += sectors * self.sector_bytes();
        let from = self.destage_from();
        self.occupy(from, first, sectors, Job::Destage(run));
    }

    /// First block of the run to write from the cache next.
    fn choose_destage(&self) -> Option<u64> {
        let oldest = self.dirty.oldest()?;
        let needed = self.waiting_flushes.iter().map(|flush| flush.covers).max();
        let wanted =
            |extent: &&Extent| needed.is_none_or(|version| WriteCache::owes(extent, version));
        let chosen = match self.chooser.policy {
            QueuePolicy::Fifo => None,
            QueuePolicy::Clook => {
                let upwards = self.dirty.starting_at(self.destage_cursor);
                upwards.take(DESTAGE_CHOICES).find(wanted)
            }
            QueuePolicy::Sptf => {
                let near = self.dirty.around(self.arm.next_lbn, DESTAGE_CHOICES / 2);
                near.filter(wanted).min_by_key(|extent| {
                    self.mechanics.positioning_ns(self.arm, self.time, extent.lbn, true)
                })
            }
        };
        Some(chosen.unwrap_or(oldest).lbn)
    }

    pub(super) fn end_destage(&mut self, run: Vec<Extent>) {
        for extent in run {
            let offset = extent.lbn * self.sector_bytes();
            if let Err(error) = self.store.write_payload(offset, &extent.payload) {
                // Nobody waits for this write any more: the next flush tells (law of fsync).
                self.destage_error.get_or_insert(error);
            }
            let written = extent.version;
            self.dirty.remove_where(extent.lbn, extent.end(), |version| version == written);
        }
        self.after_cache_shrank();
    }

    pub(super) fn after_cache_shrank(&mut self) {
        self.admit_cached_writes(self.time);
        let oldest = self.dirty.oldest_debt().unwrap_or(u64::MAX);
        while let Some(index) = self.waiting_flushes.iter().position(|flush| flush.covers < oldest)
        {
            let flush = self.waiting_flushes.swap_remove(index);
            self.finish_flush(self.time, flush.ticket);
        }
    }

    /// Lets waiting cached writes in, in order, while there is room.
    pub(super) fn admit_cached_writes(&mut self, from: Nanos) {
        let room_max = self.profile.cache.dirty_bytes_max;
        while let Some(first) = self.waiting_writes.front() {
            if self.dirty.bytes() + self.reserved_bytes + first.bytes > room_max {
                return;
            }
            let Some(WaitingWrite { ticket, lbn, parts, bytes }) = self.waiting_writes.pop_front()
            else {
                return;
            };
            self.reserved_bytes += bytes;
            let at = self.use_write_bus(from, bytes);
            self.finish_at(at, ticket, FinishAction::CachedWrite { lbn, parts });
        }
    }

    /// Takes an acknowledged write into the write cache.
    pub(super) fn hold(&mut self, lbn: u64, parts: Vec<Payload>) {
        let version = self.next_sequence();
        let mut at = lbn;
        for part in parts {
            let (bytes, sectors) = (part.len() as u64, part.len() as u64 / self.sector_bytes());
            self.reserved_bytes -= bytes;
            self.stats.served.write_bytes += bytes;
            self.dirty.insert(at, part, version);
            at += sectors;
        }
        self.keep_written(lbn, at);
        self.stats.served.writes += 1;
        self.stats.writes_cached += 1;
        self.last_activity = self.time;
    }
}
