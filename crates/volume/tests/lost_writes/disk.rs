//! A file written through a page cache, as far as a volume can tell: until a sync fails, nobody says where.
//!
//! In the cache every write is answered at once, and reads find it. A sync that fails, by order or because a sector was
//! written that is bad, is the last: no change is taken any more, and reads still show what is not on the medium. After
//! [`Disk::start_over`] a random part of what was not safe is gone for good, the rest is as volatile as before, and a bad
//! sector fails the write that touches it.

use nearhead_basics::SplitMix;
use nearhead_disk::{
    Command, Completion, Disk, DiskError, DiskErrorKind, Nanos, Properties, Submission, Ticket,
};
use nearhead_models::CrashDisk;
use std::collections::VecDeque;
use std::ops::Range;

#[expect(clippy::struct_excessive_bools, reason = "independent facts, not the states of a machine")]
pub(crate) struct CachedFile {
    inner: CrashDisk,
    latency: Nanos,
    random: SplitMix,
    is_past_cache: bool,
    /// It goes back to the cache when it starts over.
    pub(crate) stays_in_cache: bool,
    /// Why writes were lost, if any were; a test may say so whenever it likes.
    pub(crate) lost: Option<String>,
    /// Syncs that still succeed before one fails.
    pub(crate) syncs_left: Option<u64>,
    /// Sectors that cannot be written, in bytes.
    pub(crate) bad: Vec<Range<u64>>,
    /// One of them was, in the cache.
    is_spoiled: bool,
    /// All reads fail.
    pub(crate) reads_fail: bool,
    /// Nothing is answered.
    pub(crate) is_silent: bool,
    failing: Vec<u64>,
    failed: VecDeque<(Nanos, Ticket, DiskError)>,
    pub(crate) starts_over: u64,
    /// Commands so far.
    pub(crate) submitted: u64,
}

fn range_of(command: &Command) -> Option<Range<u64>> {
    match command {
        Command::Write { offset, parts, .. } => {
            Some(*offset..*offset + nearhead_disk::total_len(parts) as u64)
        }
        Command::WriteZeroes { offset, len, .. } | Command::Trim { offset, len } => {
            Some(*offset..*offset + *len)
        }
        Command::Read { .. } | Command::Flush => None,
    }
}

impl CachedFile {
    pub(crate) fn new(inner: CrashDisk, latency: Nanos, seed: u64) -> Self {
        Self {
            inner: inner.with_latency(latency),
            latency,
            random: SplitMix::new(seed),
            is_past_cache: false,
            stays_in_cache: false,
            lost: None,
            syncs_left: None,
            bad: Vec::new(),
            is_spoiled: false,
            reads_fail: false,
            is_silent: false,
            failing: Vec::new(),
            failed: VecDeque::new(),
            starts_over: 0,
            submitted: 0,
        }
    }

    /// The machine starts again after a power cut, and the file is opened as ever.
    pub(crate) fn power_cut(&mut self, random: &mut SplitMix) {
        self.inner.power_cut(random);
        self.failing.clear();
        self.failed.drain(..).for_each(|(_, ticket, _)| ticket.abandon());
        self.lost = None;
        self.is_spoiled = false;
        self.is_past_cache = false;
        self.syncs_left = None;
    }

    pub(crate) fn mend(&mut self) {
        self.bad.clear();
        self.reads_fail = false;
    }

    fn touches_bad(&self, command: &Command) -> bool {
        range_of(command).is_some_and(|range| {
            self.bad.iter().any(|bad| bad.start < range.end && range.start < bad.end)
        })
    }

    fn refuse(&mut self, ticket: Ticket, kind: DiskErrorKind, detail: &str, now: Nanos) {
        let error = DiskError { kind, detail: detail.to_owned() };
        self.failed.push_back((now + self.latency, ticket, error));
    }

    /// Whether a sync that begins now fails.
    fn sync_fails(&mut self) -> bool {
        let is_due = match &mut self.syncs_left {
            Some(0) => {
                self.syncs_left = None;
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
            None => false,
        };
        if is_due || self.is_spoiled {
            self.lost = Some("the file: a sync failed (test)".to_owned());
        }
        self.lost.is_some()
    }

    fn submit_to_cache(&mut self, mut submission: Submission, now: Nanos) {
        if matches!(submission.command, Command::Read { .. }) {
            return self.inner.submit(submission, now);
        }
        if self.lost.is_some() {
            return self.refuse(submission.ticket, DiskErrorKind::Gone, "lost writes", now);
        }
        self.is_spoiled |= self.touches_bad(&submission.command);
        let is_durable = match &submission.command {
            Command::Write { durable, .. } | Command::WriteZeroes { durable, .. } => *durable,
            _ => false,
        };
        let is_flush = matches!(submission.command, Command::Flush);
        if (is_flush || is_durable) && self.sync_fails() {
            if is_flush {
                return self.refuse(submission.ticket, DiskErrorKind::Gone, "lost writes", now);
            }
            if let Command::Write { durable, .. } | Command::WriteZeroes { durable, .. } =
                &mut submission.command
            {
                *durable = false;
            }
            self.failing.push(submission.ticket.id().0);
        }
        self.inner.submit(submission, now);
    }
}

impl Disk for CachedFile {
    fn below(&self) -> Option<&dyn Disk> {
        Some(&self.inner)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Disk> {
        Some(&mut self.inner)
    }

    fn properties(&self) -> &Properties {
        self.inner.properties()
    }

    fn submit(&mut self, submission: Submission, now: Nanos) {
        self.submitted += 1;
        if self.reads_fail && matches!(submission.command, Command::Read { .. }) {
            return self.refuse(submission.ticket, DiskErrorKind::Io, "cannot be read (test)", now);
        }
        if !self.is_past_cache {
            return self.submit_to_cache(submission, now);
        }
        if self.touches_bad(&submission.command) {
            return self.refuse(submission.ticket, DiskErrorKind::Io, "a bad sector (test)", now);
        }
        self.inner.submit(submission, now);
    }

    fn poll(&mut self, now: Nanos) -> Option<Completion> {
        if self.is_silent {
            return None;
        }
        if self.failed.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, ticket, error) = self.failed.pop_front()?;
            return Some(ticket.complete(Err(error)));
        }
        let mut done = self.inner.poll(now)?;
        if let Some(at) = self.failing.iter().position(|id| *id == done.id.0) {
            self.failing.swap_remove(at);
            let detail = "lost writes".to_owned();
            done.result = Err(DiskError { kind: DiskErrorKind::Gone, detail });
        }
        Some(done)
    }

    fn wake_at(&self) -> Option<Nanos> {
        let failed = self.failed.front().map(|(at, ..)| *at);
        [self.inner.wake_at(), failed].into_iter().flatten().min().filter(|_| !self.is_silent)
    }

    fn lost_writes(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    fn start_over(&mut self) -> Result<(), DiskError> {
        assert_eq!(self.inner.wake_at(), None, "a command is still on its way");
        assert!(self.lost.is_some() && self.failed.is_empty() && self.failing.is_empty());
        let bad = self.bad.clone();
        let never =
            |offset: u64| bad.iter().any(|bad| bad.start < offset + 512 && offset < bad.end);
        self.inner.lose(&mut self.random, &never);
        self.lost = None;
        self.is_spoiled = false;
        self.is_past_cache = !self.stays_in_cache;
        self.starts_over += 1;
        Ok(())
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        self.failed.drain(..).for_each(|(_, ticket, _)| ticket.abandon());
    }
}
