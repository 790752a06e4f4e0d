//! What happens inside the drive, event by event.
//!
//! There are two sources of events: commands that complete at a time already known (`finishing`),
//! and the arm, which ends a job or can take another. [`HddModel::advance`] runs them in order of
//! time up to `now`; each sees the model exactly as it is at its own time.

use super::exchange::Exchange;
use super::queue::{MediaOperation, Pending, Situation};
use super::stream::Stream;
use super::{Finish, FinishAction, HddModel, Job, Work};
use crate::profile_parts::ReadAhead;
use nearhead_disk::{BufferMut, DiskError, Nanos, Payload};
use std::cmp::Reverse;

impl HddModel {
    /// Does everything that happens until `now`. Time never goes back.
    pub(super) fn advance(&mut self, now: Nanos) {
        while let Some(at) = self.next_event().filter(|&at| at <= now) {
            self.time = self.time.max(at);
            let finish_first = self.finishing.peek().is_some_and(|Reverse(finish)| finish.at <= at);
            if finish_first {
                if let Some(Reverse(finish)) = self.finishing.pop() {
                    self.finish(finish);
                }
            } else {
                self.arm_event();
            }
        }
        self.time = self.time.max(now);
    }

    /// When something happens next, if nothing is submitted before.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        let finishing = self.finishing.peek().map(|Reverse(finish)| finish.at);
        match (finishing, self.next_arm_event()) {
            (Some(finish), Some(arm)) => Some(finish.min(arm)),
            (finish, arm) => finish.or(arm),
        }
    }

    fn next_arm_event(&self) -> Option<Nanos> {
        if let Work::Busy { ends_at, .. } = self.work {
            return Some(ends_at);
        }
        let ready = self.queue.iter().map(|pending| pending.ready_at).min();
        let next = match (ready, self.destage_at()) {
            (Some(ready), Some(destage)) => ready.min(destage),
            (ready, destage) => ready.or(destage)?,
        };
        Some(next.max(self.time))
    }

    fn arm_event(&mut self) {
        if matches!(self.work, Work::Busy { .. }) {
            let work = std::mem::replace(&mut self.work, Work::Idle);
            if let Work::Busy { job, started_at, .. } = work {
                self.stats.busy_ns += self.time.since(started_at).0;
                self.end_job(job);
            }
            self.last_activity = self.time;
            self.arm_rests_since = self.time;
        }
        self.decide();
    }

    /// Gives the arm something to do, if there is anything.
    fn decide(&mut self) {
        while !matches!(self.work, Work::Busy { .. }) {
            self.read_ahead_until_now();
            let destage = self.destage_at().is_some_and(|at| at <= self.time);
            let chosen = self.choose();
            let take_destage =
                destage && (chosen.is_none() || (self.destage_is_urgent() && self.destage_next));
            if take_destage {
                self.destage_next = false;
                self.start_destage();
            } else if let Some(index) = chosen {
                self.destage_next = true;
                let pending = self.queue.swap_remove(index);
                self.start(pending);
            } else {
                return;
            }
        }
    }

    fn choose(&self) -> Option<usize> {
        if self.queue.is_empty() {
            return None;
        }
        let stream = match &self.work {
            Work::Stream(stream) if !stream.is_over() => Some(stream),
            _ => None,
        };
        let situation = Situation {
            mechanics: &self.mechanics,
            arm: self.arm,
            now: self.time,
            cursor: stream.map_or(self.arm.next_lbn, |stream| stream.next_lbn),
            streaming: stream.map(|stream| self.segments.start(stream.segment)..=stream.next_lbn),
        };
        self.chooser.choose(&self.queue, &situation)
    }

    /// Brings the read-ahead, if any, up to date.
    pub(super) fn read_ahead_until_now(&mut self) {
        if let Work::Stream(stream) = &mut self.work {
            stream.advance(&self.mechanics, self.time);
            self.segments.grow(stream.segment, stream.next_lbn);
            self.arm = stream.arm;
        }
    }

    /// Whether a read of `lbn..end` needs no arm. Lets a sequential reader's stream go on.
    pub(super) fn read_hits(&mut self, lbn: u64, end: u64) -> bool {
        self.read_ahead_until_now();
        if self.dirty.covers(lbn, end) {
            return true;
        }
        if !self.caches_reads {
            return false;
        }
        if self.written.covering(lbn, end).is_some() {
            return true;
        }
        let Some(segment) = self.segments.covering(lbn, end) else { return false };
        let limit = self.read_ahead_limit(segment, lbn, end);
        match &mut self.work {
            Work::Stream(stream) if stream.segment == segment => {
                if stream.is_over() && stream.limit < limit {
                    // The head has rested at the end of the segment and sets out again.
                    self.resume_stream(segment, limit);
                } else {
                    stream.limit = stream.limit.max(limit);
                }
            }
            _ => {}
        }
        true
    }

    /// Reads on from the end of `segment`, as soon as the disk has turned there.
    fn resume_stream(&mut self, segment: usize, limit: u64) {
        let next_lbn = self.segments.end(segment);
        let way = self.mechanics.approach_read(self.arm, self.time, next_lbn);
        self.work = Work::Stream(Stream {
            segment,
            next_lbn,
            at: self.time + Nanos(way.seek_ns + way.rotation_ns),
            limit,
            settled_at: self.time + Nanos(way.seek_ns),
            arm: way.arm,
        });
    }

    /// Puts the arm on `pending`, or answers it from memory.
    fn start(&mut self, pending: Pending) {
        if pending.is_write() {
            self.segments.forget(pending.lbn, pending.end());
            self.written.forget(pending.lbn, pending.end());
            let (lbn, sectors) = (pending.lbn, pending.sectors);
            self.occupy(self.arm_free_at(), lbn, sectors, Job::Write(pending));
            return;
        }
        let bytes = pending.sectors * self.sector_bytes();
        if self.read_hits(pending.lbn, pending.end()) {
            self.stats.served.read_hits += 1;
            let at = self.use_bus(self.time, bytes);
            let action = FinishAction::Read { lbn: pending.lbn, sectors: pending.sectors };
            self.finish_at(at, pending.ticket, action);
            return;
        }
        let continued =
            self.segments.continued_by(pending.lbn, self.profile.cache.joins_read_ahead);
        let Some(segment) = continued.filter(|_| self.caches_reads) else {
            let segment = self.segments.begin(pending.lbn);
            let (lbn, sectors) = (pending.lbn, pending.sectors);
            let job = Job::Read { pending, segment, out_at: None };
            self.occupy(self.arm_free_at(), lbn, sectors, job);
            return;
        };
        // Only what the segment lacks is read; the head may be on its way through it already.
        let from = match &self.work {
            Work::Stream(stream) if stream.segment == segment && !stream.is_over() => {
                self.stats.read_streams += 1;
                stream.at
            }
            _ => self.arm_free_at(),
        };
        let lbn = self.segments.end(segment);
        let sectors = pending.end() - lbn;
        self.occupy(from, lbn, sectors, Job::Read { pending, segment, out_at: None });
    }

    /// Now, or when a movement that cannot be interrupted is over.
    pub(super) fn arm_free_at(&self) -> Nanos {
        match &self.work {
            Work::Stream(stream) => stream.settled_at.max(self.time),
            _ => self.time,
        }
    }

    pub(super) fn occupy(&mut self, from: Nanos, lbn: u64, sectors: u64, mut job: Job) {
        let write = !matches!(job, Job::Read { .. });
        let motion = if self.exchange.is_some() {
            self.exchange_motion(from, lbn, sectors, &mut job)
        } else {
            let least_ns = self.turning_to_read_ns(write);
            let extent = (lbn, sectors);
            self.mechanics.transfer_with(self.arm, from, extent, write, least_ns, |pass| pass.ns)
        };
        self.head_wrote = write;
        self.stats.seeks += u64::from(motion.moved);
        self.stats.seek_ns += motion.seek_ns;
        self.stats.rotation_ns += motion.rotation_ns;
        self.stats.transfer_ns += motion.transfer_ns;
        self.arm = motion.arm;
        let late = Nanos(self.late_settling_ns(motion.settled));
        self.stats.rotation_ns += late.0;
        // A stream may have read part of the request before this was decided.
        let ends_at = (motion.ends_at + late).max(self.time);
        self.work = Work::Busy { job, started_at: self.time, ends_at };
    }

    /// Least time until the head is ready: it may have written last and is to read.
    pub(super) fn turning_to_read_ns(&self, write: bool) -> u64 {
        if self.head_wrote && !write {
            Nanos::from_millis_f64(self.profile.seek.read_after_write_ms).0
        } else {
            0
        }
    }

    /// Now and then the head is not ready in time and the sector must come round again.
    fn late_settling_ns(&mut self, settled: bool) -> u64 {
        if !settled || self.late_share_billionths == 0 {
            return 0;
        }
        let late = self.lateness.below(1_000_000_000) < self.late_share_billionths;
        if late { self.mechanics.spindle().period().0 } else { 0 }
    }

    fn end_job(&mut self, job: Job) {
        match job {
            Job::Read { pending, segment, out_at } => self.end_read(pending, segment, out_at),
            Job::Write(pending) => self.end_write(pending),
            Job::Destage(run) => self.end_destage(run),
        }
    }

    fn end_read(&mut self, pending: Pending, segment: usize, out_at: Option<Nanos>) {
        let end = pending.end();
        self.segments.grow(segment, end);
        let limit = self.read_ahead_limit(segment, pending.lbn, end);
        if end < limit {
            self.resume_stream(segment, limit);
        }
        let action = FinishAction::Read { lbn: pending.lbn, sectors: pending.sectors };
        if let Some(out_at) = out_at {
            self.finish_at(out_at, pending.ticket, action);
            return;
        }
        // What was read goes out over the interface meanwhile; only its tail is left.
        let bytes = (pending.sectors * self.sector_bytes()).min(4096);
        let at = self.time + self.bus_time(bytes);
        self.finish_at(at, pending.ticket, action);
    }

    /// Block before which reading ahead after the read of `lbn..end` stops.
    fn read_ahead_limit(&mut self, segment: usize, lbn: u64, end: u64) -> u64 {
        let cache = &self.profile.cache;
        let is_sequential = lbn == self.last_read_end;
        self.last_read_end = end;
        let waits = cache.read_ahead_when_sequential && !is_sequential;
        if cache.read_ahead_sectors == 0 || !self.caches_reads || waits {
            return end;
        }
        let limit = self.read_ahead_end(segment, end);
        if self.profile.cache.read_ahead_keeps_requested {
            let full = lbn + u64::from(self.profile.cache.segment_sectors);
            return limit.min(full.max(end));
        }
        limit
    }

    /// The same by the drive's habit alone.
    fn read_ahead_end(&self, segment: usize, end: u64) -> u64 {
        let cache = &self.profile.cache;
        let most = (end + u64::from(cache.read_ahead_sectors)).min(self.profile.blocks);
        let geometry = self.mechanics.geometry();
        match cache.read_ahead_until {
            ReadAhead::Sectors => most,
            ReadAhead::Track => geometry.locate(end - 1).end_lbn().min(most),
            ReadAhead::Cylinder => {
                let first = geometry.locate(end - 1);
                let mut limit = first.end_lbn();
                while limit < most {
                    let next = geometry.locate(limit);
                    if next.cylinder != first.cylinder {
                        break;
                    }
                    limit = next.end_lbn();
                }
                limit.min(most)
            }
            ReadAhead::NextTrack => {
                let track = geometry.locate(end);
                let crossed = self.segments.start(segment) < track.first_lbn;
                let more = if crossed { u64::from(track.sectors_per_track) } else { 0 };
                (track.end_lbn() + more).min(self.profile.blocks)
            }
        }
    }

    fn end_write(&mut self, pending: Pending) {
        let bytes = pending.sectors * self.sector_bytes();
        let offset = pending.lbn * self.sector_bytes();
        let result = match &pending.operation {
            MediaOperation::Write { parts } => self.store_parts(offset, parts),
            _ => self.store.zero(offset, bytes),
        };
        let action = match result {
            Ok(()) => {
                // What the cache held before this write must not come back over it.
                let newest = pending.sequence;
                self.dirty.remove_where(pending.lbn, pending.end(), |version| version < newest);
                FinishAction::Written { bytes }
            }
            Err(error) => FinishAction::Failed(error),
        };
        self.keep_written(pending.lbn, pending.end());
        let told_after = self.exchange.as_ref().map_or(Nanos::ZERO, Exchange::write_end);
        self.finish_at(self.time + told_after, pending.ticket, action);
        self.after_cache_shrank();
    }

    pub(super) fn store_parts(&mut self, offset: u64, parts: &[Payload]) -> Result<(), DiskError> {
        let mut at = offset;
        for part in parts {
            self.store.write_payload(at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn finish(&mut self, finish: Finish) {
        let Finish { ticket, action, .. } = finish;
        self.outstanding -= 1;
        self.stats.served.commands += 1;
        self.last_was_write = match &action {
            FinishAction::Read { .. } => false,
            FinishAction::CachedWrite { .. } | FinishAction::Written { .. } => true,
            FinishAction::Plain { .. } | FinishAction::Failed(_) => self.last_was_write,
        };
        let result = match action {
            FinishAction::Read { lbn, sectors } => {
                self.stats.served.reads += 1;
                self.stats.served.read_bytes += sectors * self.sector_bytes();
                self.content(lbn, sectors)
            }
            FinishAction::CachedWrite { lbn, parts } => {
                self.hold(lbn, parts);
                Ok(Payload::EMPTY)
            }
            FinishAction::Written { bytes } => {
                self.stats.served.writes += 1;
                self.stats.served.write_bytes += bytes;
                Ok(Payload::EMPTY)
            }
            FinishAction::Plain { flush } => {
                self.stats.served.flushes += u64::from(flush);
                Ok(Payload::EMPTY)
            }
            FinishAction::Failed(error) => Err(error),
        };
        self.stats.served.errors += u64::from(result.is_err());
        self.done.push_back(ticket.complete(result));
    }

    /// The bytes a host sees: the medium, with the write cache over it.
    fn content(&self, lbn: u64, sectors: u64) -> Result<Payload, DiskError> {
        let len = (sectors * self.sector_bytes()) as usize;
        if !self.keeps_content {
            return Ok(Payload::Phantom(len));
        }
        let mut bytes = BufferMut::zeroed(len);
        self.store.read(lbn * self.sector_bytes(), &mut bytes)?;
        self.dirty.overlay(lbn, &mut bytes);
        Ok(Payload::Bytes(bytes.freeze()))
    }
}
