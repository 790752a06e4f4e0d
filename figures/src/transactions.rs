//! A database that runs TPC-C's transactions on a volume: pages that are not in memory, a processor, and a log that is forced.
//!
//! Each of so many terminals runs one transaction after the other. A page that is missing takes the place of a changed one, so it costs a write
//! and a read of the tables, one after the other; then the transaction computes, on one processor for all; then its log records are durable
//! or wait for those of others. At most one write of the log is under way, and takes all that was appended before it. Nothing is decided here by
//! what the volume is; the same seed gives the same transactions on all of them.

use crate::log_traffic::Kind;
use nearhead_basics::{Random, Slab};
use nearhead_disk::{Nanos, Payload};
use nearhead_service::{Operation, RequestError};
use nearhead_sim::workload::{Issue, Workload};
use std::collections::VecDeque;
use std::ops::Range;

/// A page of the tables, and the least that a file is written by.
const PAGE_BYTES: u64 = 4096;

/// What runs.
#[derive(Clone, Debug)]
pub(crate) struct TransactionsOptions {
    /// Transactions under way at once.
    pub(crate) terminals: u32,
    /// In all.
    pub(crate) transactions: u64,
    /// Pages that a transaction misses in memory.
    pub(crate) misses: u32,
    /// What it computes.
    pub(crate) compute: Nanos,
    /// Group commit: the log is written once it has more than so many bytes that are not durable, and nobody but those who answer wait for
    /// it. Without, each transaction waits until what it logged is durable.
    pub(crate) log_buffer_bytes: Option<u64>,
    /// Where the tables are.
    pub(crate) tables: Vec<Range<u64>>,
    /// Where the log is: a ring.
    pub(crate) log: Range<u64>,
    /// Of the kinds of transactions, and where their pages are.
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) done: u64,
    /// From their begin until what they logged was durable, of all together.
    pub(crate) responses: Nanos,
    pub(crate) log_bytes: u64,
    pub(crate) log_writes: u64,
    /// While a write of the log was under way.
    pub(crate) log_time: Nanos,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Evict,
    Read,
    Compute,
}

#[derive(Clone, Copy, Debug)]
struct Terminal {
    begun: Nanos,
    kind: Kind,
    misses: u32,
    step: Step,
}

#[derive(Clone, Copy, Debug)]
enum Owner {
    Terminal(usize),
    Log,
}

/// Whose records are durable with what was appended up to a place.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    end: u64,
    begun: Nanos,
    /// Who goes on only then.
    terminal: Option<usize>,
}

#[derive(Debug, Default)]
struct Log {
    appended: u64,
    durable: u64,
    /// The end of the write that is under way, and since when it is.
    writing: Option<(u64, Nanos)>,
    waiting: VecDeque<Waiting>,
}

/// Running transactions.
pub(crate) struct Transactions {
    options: TransactionsOptions,
    random: Random,
    terminals: Vec<Terminal>,
    begun: u64,
    stopped: bool,
    /// Who has computed, by when; one processor, so in order.
    computing: VecDeque<(Nanos, usize)>,
    processor_free_at: Nanos,
    log: Log,
    ready: VecDeque<(Owner, Operation)>,
    requests: Slab<Owner>,
    outcome: Outcome,
    pub(crate) failure: Option<RequestError>,
}

impl Transactions {
    pub(crate) fn new(options: TransactionsOptions, now: Nanos) -> Self {
        let idle = Terminal { begun: now, kind: Kind::StockLevel, misses: 0, step: Step::Evict };
        let mut all = Self {
            random: Random::new(options.seed),
            terminals: vec![idle; options.terminals as usize],
            begun: 0,
            stopped: false,
            computing: VecDeque::new(),
            processor_free_at: now,
            log: Log::default(),
            ready: VecDeque::new(),
            requests: Slab::with_room(options.terminals + 1),
            outcome: Outcome::default(),
            failure: None,
            options,
        };
        for terminal in 0..all.terminals.len() {
            all.begin(terminal, now);
        }
        all
    }

    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome
    }

    fn begin(&mut self, index: usize, now: Nanos) {
        if self.stopped || self.begun == self.options.transactions {
            return self.force_what_is_left(now);
        }
        self.begun += 1;
        let kind = Kind::next(&mut self.random);
        let misses = self.options.misses;
        self.terminals[index] = Terminal { begun: now, kind, misses, step: Step::Compute };
        self.next_step(index, now);
    }

    fn page(&mut self) -> u64 {
        let table = self.random.below(self.options.tables.len() as u64) as usize;
        let Range { start, end } = self.options.tables[table];
        start + self.random.below((end - start) / PAGE_BYTES) * PAGE_BYTES
    }

    fn next_step(&mut self, index: usize, now: Nanos) {
        let Terminal { misses, step, .. } = self.terminals[index];
        let next = match step {
            Step::Evict => Step::Read,
            Step::Read | Step::Compute if misses > 0 => Step::Evict,
            Step::Read | Step::Compute => {
                self.processor_free_at = self.processor_free_at.max(now) + self.options.compute;
                self.computing.push_back((self.processor_free_at, index));
                return;
            }
        };
        let offset = self.page();
        let operation = if matches!(next, Step::Read) {
            self.terminals[index].misses -= 1;
            Operation::Read { offset, len: PAGE_BYTES as u32 }
        } else {
            Operation::Write { offset, data: Payload::Phantom(PAGE_BYTES as usize), fua: true }
        };
        self.terminals[index].step = next;
        self.ready.push_back((Owner::Terminal(index), operation));
    }

    fn commit(&mut self, index: usize, now: Nanos) {
        let Terminal { begun, kind, .. } = self.terminals[index];
        let bytes = kind.log_bytes(&mut self.random);
        self.outcome.log_bytes += bytes;
        self.log.appended += bytes;
        if bytes == 0 {
            self.outcome.done += 1;
            self.outcome.responses += now.since(begun);
            return self.begin(index, now);
        }
        let waits = self.options.log_buffer_bytes.is_none();
        let terminal = waits.then_some(index);
        self.log.waiting.push_back(Waiting { end: self.log.appended, begun, terminal });
        self.force(now, self.options.log_buffer_bytes.unwrap_or(0));
        if !waits {
            self.begin(index, now);
        }
    }

    /// Writes the log if more than so many of its bytes are not durable.
    fn force(&mut self, now: Nanos, more_than_bytes: u64) {
        let Log { appended, durable, writing, .. } = self.log;
        if writing.is_some() || appended - durable <= more_than_bytes {
            return;
        }
        // A buffer holds no more.
        let full = self.options.log_buffer_bytes.map_or(u64::MAX, |bytes| durable + bytes);
        let end_of_write = appended.min(full);
        self.log.writing = Some((end_of_write, now));
        self.outcome.log_writes += 1;
        // A file is written by pages, the first of which may hold what is durable already.
        let Range { start, end } = self.options.log;
        let first = durable / PAGE_BYTES * PAGE_BYTES;
        let len = end_of_write.next_multiple_of(PAGE_BYTES) - first;
        let last_start = (end - start).saturating_sub(len).max(1);
        let offset = start + first % last_start / PAGE_BYTES * PAGE_BYTES;
        let data = Payload::Phantom(len as usize);
        self.ready.push_back((Owner::Log, Operation::Write { offset, data, fua: true }));
    }

    /// Nothing more is begun: nobody fills the buffer.
    fn force_what_is_left(&mut self, now: Nanos) {
        let waits = |waiting: &Waiting| waiting.terminal.is_none();
        if self.log.waiting.iter().any(waits) {
            self.force(now, 0);
        }
    }

    fn log_is_durable(&mut self, now: Nanos) {
        let Some((end, since)) = self.log.writing.take() else { return };
        self.log.durable = end;
        self.outcome.log_time += now.since(since);
        while let Some(waiting) = self.log.waiting.front().copied().filter(|next| next.end <= end) {
            self.log.waiting.pop_front();
            self.outcome.done += 1;
            self.outcome.responses += now.since(waiting.begun);
            if let Some(terminal) = waiting.terminal {
                self.begin(terminal, now);
            }
        }
        self.force(now, self.options.log_buffer_bytes.unwrap_or(0));
        if self.begun == self.options.transactions {
            self.force_what_is_left(now);
        }
    }
}

impl Workload for Transactions {
    fn next_at(&self) -> Option<Nanos> {
        if self.ready.is_empty() {
            return self.computing.front().map(|(at, _)| *at);
        }
        Some(Nanos::ZERO)
    }

    fn poll_issue(&mut self, now: Nanos) -> Option<Issue> {
        while let Some((_, index)) = self.computing.front().copied().filter(|(at, _)| *at <= now) {
            self.computing.pop_front();
            self.commit(index, now);
        }
        let (owner, operation) = self.ready.pop_front()?;
        let tag = self.requests.try_insert_tagged(owner).ok()?;
        Some(Issue { tag, due_at: now, operation })
    }

    fn on_reply(
        &mut self,
        tag: u64,
        result: Result<Vec<Payload>, RequestError>,
        now: Nanos,
    ) -> bool {
        let Some(owner) = self.requests.remove_tagged(tag) else { return false };
        if let Err(error) = result {
            self.failure.get_or_insert(error);
        }
        match owner {
            Owner::Terminal(index) => self.next_step(index, now),
            Owner::Log => self.log_is_durable(now),
        }
        true
    }

    fn stop(&mut self) {
        self.stopped = true;
    }

    fn is_finished(&self) -> bool {
        let none_is_left = self.stopped || self.begun == self.options.transactions;
        let nobody_waits = self.computing.is_empty() && self.log.waiting.is_empty();
        none_is_left && nobody_waits && self.ready.is_empty() && self.requests.is_empty()
    }

    fn start_measuring(&mut self, _: Nanos) {
        self.outcome = Outcome::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_sim::VirtualTime;
    use nearhead_sim::fixed_latency::FixedLatency;

    const LATENCY: Nanos = Nanos::from_millis(5);

    fn run(terminals: u32, log_buffer_bytes: Option<u64>) -> (Outcome, Nanos) {
        let mut service = FixedLatency::parallel(LATENCY);
        let options = TransactionsOptions {
            terminals,
            transactions: 200,
            misses: 2,
            compute: Nanos::from_millis(1),
            log_buffer_bytes,
            tables: vec![1 << 20..2 << 20, 2 << 20..3 << 20],
            log: 0..1 << 20,
            seed: 1,
        };
        let (mut all, mut time) = (Transactions::new(options, Nanos::ZERO), VirtualTime::default());
        time.run(&mut service, &mut [&mut all], Nanos::from_secs(100)).unwrap();
        assert!(all.is_finished() && all.failure.is_none());
        (all.outcome(), time.now())
    }

    #[test]
    fn one_at_a_time_each_takes_its_pages_its_computing_and_one_write_of_the_log() {
        let (outcome, elapsed) = run(1, None);
        assert_eq!((outcome.done, elapsed), (200, outcome.responses));
        // Two misses of a write and a read, and a millisecond of computing; those that changed nothing write no log.
        let expected = Nanos::from_millis(200 * (4 * 5 + 1) + 5 * outcome.log_writes);
        assert_eq!(elapsed, expected);
        assert!((150..200).contains(&outcome.log_writes), "{outcome:?}");
    }

    #[test]
    fn a_buffer_is_written_once_it_is_full_and_everybody_is_answered_in_the_end() {
        let (single, _) = run(1, None);
        for terminals in [1, 4] {
            let (outcome, _) = run(terminals, Some(50 << 10));
            assert_eq!(outcome.done, 200);
            let buffers = outcome.log_bytes.div_ceil(50 << 10);
            assert!((buffers..buffers + 4).contains(&outcome.log_writes), "{outcome:?}");
            assert!(outcome.log_writes < single.log_writes / 5);
        }
    }

    #[test]
    fn many_at_a_time_share_writes_of_the_log_and_one_processor() {
        let (alone, long) = run(1, None);
        let (many, short) = run(8, None);
        assert!(many.log_writes < alone.log_writes, "{many:?}");
        assert!(short < long && short >= Nanos::from_millis(200), "{short:?}");
    }
}
