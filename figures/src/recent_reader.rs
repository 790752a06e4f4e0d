//! Clients of a log who write one block after the other and read what was written lately.
//!
//! How long ago is drawn evenly on a logarithmic scale, from [`AGE_BYTES_MIN`] to as much as a tail holds: as many reads go to what is
//! one to two mebibytes old as to what is one to two gibibytes old. Only what was answered as durable is read.

use nearhead_basics::{Random, Slab};
use nearhead_disk::{Nanos, Payload};
use nearhead_service::{Operation, RequestError};
use nearhead_sim::workload::{Issue, Tally, Workload};

/// Bytes of every request.
pub(crate) const REQUEST_BYTES: u64 = 4096;
/// What is younger is in memory anyway.
const AGE_BYTES_MIN: u64 = 1 << 20;
/// Reads outstanding at most: of more the newest are left out, and whoever is so slow shows it.
const READS_MAX: u32 = 64;

/// How many requests of each kind are outstanding, and how old what is read may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecentOptions {
    /// Bytes that are written over again and again.
    pub size_bytes: u64,
    /// The oldest that is read, in bytes written since.
    pub age_bytes_max: u64,
    /// Writes outstanding.
    pub writes: u32,
    /// Time from one read to the next, whatever becomes of them; none are made if there is none.
    pub read_every: Option<Nanos>,
    /// Of ages.
    pub seed: u64,
}

/// Both together.
pub(crate) struct RecentReader {
    options: RecentOptions,
    random: Random,
    /// Writes issued, and those of them answered.
    issued: u64,
    answered: u64,
    under_way: [u32; 2],
    /// When the next read is due, once there is enough to read.
    read_at: Nanos,
    stopped: bool,
    requests: Slab<(Nanos, bool)>,
    writes: Tally,
    reads: Tally,
}

impl RecentReader {
    pub(crate) fn new(options: RecentOptions) -> Self {
        Self {
            options,
            random: Random::new(options.seed),
            issued: 0,
            answered: 0,
            under_way: [0; 2],
            read_at: Nanos::ZERO,
            stopped: false,
            requests: Slab::with_room(options.writes + READS_MAX),
            writes: Tally::default(),
            reads: Tally::default(),
        }
    }

    /// What was written.
    pub(crate) fn writes(&self) -> &Tally {
        &self.writes
    }

    /// What was read.
    pub(crate) fn reads(&self) -> &Tally {
        &self.reads
    }

    /// Bytes answered.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.answered * REQUEST_BYTES
    }

    /// When the next read is to be made, if any is.
    fn next_read_at(&self) -> Option<Nanos> {
        let is_old_enough = self.written_bytes() > self.options.age_bytes_max;
        let reads = self.options.read_every.is_some() && !self.stopped && is_old_enough;
        (reads && self.under_way[1] < READS_MAX).then_some(self.read_at)
    }

    fn may_write(&self) -> bool {
        !self.stopped && self.under_way[0] < self.options.writes
    }

    fn offset_of(&self, write: u64) -> u64 {
        write * REQUEST_BYTES % self.options.size_bytes
    }

    fn age(&mut self) -> u64 {
        let (least, most) = (AGE_BYTES_MIN as f64, self.options.age_bytes_max as f64);
        let bytes = least * (most / least).powf(self.random.unit_f64());
        (bytes as u64 / REQUEST_BYTES).max(1)
    }
}

impl Workload for RecentReader {
    fn next_at(&self) -> Option<Nanos> {
        if self.may_write() { Some(Nanos::ZERO) } else { self.next_read_at() }
    }

    fn poll_issue(&mut self, now: Nanos) -> Option<Issue> {
        let reads = self.next_read_at().is_some_and(|at| at <= now);
        if !reads && !self.may_write() {
            return None;
        }
        let tag = self.requests.try_insert_tagged((now, reads)).ok()?;
        self.under_way[usize::from(reads)] += 1;
        let operation = if reads {
            // As if one had been due now, if there was nothing to read so far.
            let due =
                if now.since(self.read_at) > Nanos::from_secs(1) { now } else { self.read_at };
            self.read_at = due + self.options.read_every.unwrap_or_default();
            let write = self.answered.saturating_sub(self.age());
            Operation::Read { offset: self.offset_of(write), len: REQUEST_BYTES as u32 }
        } else {
            let offset = self.offset_of(self.issued);
            self.issued += 1;
            Operation::Write { offset, data: Payload::Phantom(REQUEST_BYTES as usize), fua: true }
        };
        Some(Issue { tag, due_at: now, operation })
    }

    fn on_reply(
        &mut self,
        tag: u64,
        result: Result<Vec<Payload>, RequestError>,
        now: Nanos,
    ) -> bool {
        let Some((issued, reads)) = self.requests.remove_tagged(tag) else { return false };
        self.under_way[usize::from(reads)] -= 1;
        self.answered += u64::from(!reads);
        let tally = if reads { &mut self.reads } else { &mut self.writes };
        tally.book(&result, REQUEST_BYTES, issued, now);
        true
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn is_finished(&self) -> bool {
        self.stopped && self.requests.is_empty()
    }

    fn start_measuring(&mut self, now: Nanos) {
        self.writes.restart(now);
        self.reads.restart(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_sim::VirtualTime;
    use nearhead_sim::fixed_latency::FixedLatency;

    #[test]
    fn nothing_is_read_before_enough_was_written_and_ages_are_within_their_bounds() {
        let options = RecentOptions {
            size_bytes: 1 << 30,
            age_bytes_max: 8 << 20,
            writes: 8,
            read_every: Some(Nanos::from_millis(1)),
            seed: 1,
        };
        let mut clients = RecentReader::new(options);
        let mut service = FixedLatency::parallel(Nanos::from_micros(100));
        let mut time = VirtualTime::default();
        time.run(&mut service, &mut [&mut clients], Nanos::from_millis(20)).unwrap();
        assert!(clients.written_bytes() < 8 << 20 && clients.reads().requests == 0);
        time.run(&mut service, &mut [&mut clients], Nanos::from_millis(100)).unwrap();
        assert!(clients.reads().requests > 0);
        let ages: Vec<u64> = (0..10_000).map(|_| clients.age() * REQUEST_BYTES).collect();
        assert!(ages.iter().all(|age| (AGE_BYTES_MIN..=8 << 20).contains(age)));
        let young = ages.iter().filter(|age| **age < 2 << 20).count();
        assert!((3_000..3_700).contains(&young), "a third of three doublings, found {young}");
    }
}
