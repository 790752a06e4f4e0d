//! Postmark's load with synchronous writes: small files of a mail or news server that are made, grow, are read and go, by many threads.
//!
//! Written from what Postmark says of itself. A pool of files is made first. A transaction is one of read and append, then one of create and
//! delete, each with the same chance; it takes a file that nobody else uses, chosen at random. New files have between 500 and 10,000 bytes, an
//! append takes a file to at most 10,000. Files are opened by name, read whole, and read and written in requests of one size, each write
//! durable before the next. The same seed gives the same choices as long as threads come in the same order.

use super::{Act, Bench, Counted, Script, filler};
use nearhead_basics::Random;
use nearhead_disk::{Buffer, Nanos};
use nearhead_ext4::{FileKind, Ino, NewNode};
use nearhead_fs::{Answer, FsOperation};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Sizes of files, Postmark's default.
const FILE_BYTES: (u64, u64) = (500, 10_000);

/// What is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostmarkOptions {
    /// Where the files are.
    pub(crate) folder: Ino,
    /// Files of the pool.
    pub(crate) files: u64,
    /// Threads.
    pub(crate) threads: u32,
    /// Transactions of all threads together.
    pub(crate) transactions: u64,
    /// Most bytes of a read or a write.
    pub(crate) request_bytes: u32,
    /// Whether reads reach the file system, and no cache in front of it answers them.
    pub(crate) reads: bool,
    /// Of all that is chosen.
    pub(crate) seed: u64,
}

/// The load.
pub(crate) struct Postmark {
    pool: Rc<RefCell<Pool>>,
    threads: u32,
    /// Latencies of writes.
    counted: Counted,
    done: Rc<Cell<(u64, Nanos)>>,
}

impl Postmark {
    /// One that has not begun.
    pub(crate) fn new(options: PostmarkOptions) -> Self {
        let pool = Pool {
            folder: options.folder,
            free: Vec::new(),
            names: 0,
            to_create: options.files,
            to_begin: options.transactions,
            request_bytes: u64::from(options.request_bytes),
            reads: options.reads,
            random: Random::new(options.seed),
            data: filler(FILE_BYTES.1.min(u64::from(options.request_bytes)) as usize),
        };
        Self {
            pool: Rc::new(RefCell::new(pool)),
            threads: options.threads,
            counted: Counted::default(),
            done: Rc::default(),
        }
    }

    /// Starts threads that make the pool and end.
    pub(crate) fn start_creating(&self, bench: &mut Bench) {
        self.start(bench, Half::Pool);
    }

    /// Starts those that run the transactions, once the pool is there; what is counted begins now.
    pub(crate) fn start_transactions(&self, bench: &mut Bench) {
        self.counted.borrow_mut().restart(bench.now());
        self.start(bench, Half::First);
    }

    fn start(&self, bench: &mut Bench, half: Half) {
        for _ in 0..self.threads {
            bench.add(Thread {
                pool: Rc::clone(&self.pool),
                half,
                is_at_it: false,
                job: None,
                issued: Nanos::ZERO,
                counted: Rc::clone(&self.counted),
                done: Rc::clone(&self.done),
            });
        }
    }

    /// Transactions that were done, and when the last one was.
    pub(crate) fn done(&self) -> (u64, Nanos) {
        self.done.get()
    }

    /// Writes so far, and their mean latency in ms.
    pub(crate) fn writes(&self, now: Nanos) -> (u64, f64) {
        let summary = self.counted.borrow().summary(now);
        (summary.requests, summary.latency.mean_ms)
    }
}

/// A file of the pool.
#[derive(Clone, Debug)]
struct Known {
    name: Vec<u8>,
    bytes: u64,
}

/// What all threads share.
struct Pool {
    folder: Ino,
    /// Files that nobody uses.
    free: Vec<Known>,
    names: u64,
    to_create: u64,
    to_begin: u64,
    request_bytes: u64,
    reads: bool,
    random: Random,
    data: Buffer,
}

impl Pool {
    fn take(&mut self) -> Option<Known> {
        let count = self.free.len() as u64;
        (count > 0).then(|| self.free.swap_remove(self.random.below(count) as usize))
    }

    fn create(&mut self) -> Job {
        self.names += 1;
        let (least, most) = FILE_BYTES;
        let bytes = least + self.random.below(most - least + 1);
        Job::new(What::Create, Known { name: format!("{}", self.names).into_bytes(), bytes }, 0)
    }

    /// The next of these; none if it finds nothing to do.
    fn job(&mut self, half: Half) -> Option<Job> {
        let is_first = self.random.below(2) == 0;
        match half {
            Half::Pool => Some(self.create()),
            Half::First if is_first => {
                let file = self.take()?;
                Some(Job::new(What::Read, file, 0))
            }
            Half::First => self.append(),
            Half::Second if is_first => Some(self.create()),
            Half::Second => self.take().map(|file| Job::new(What::Delete, file, 0)),
        }
    }

    /// Nothing of a file that is as long as files get.
    fn append(&mut self) -> Option<Job> {
        let mut file = self.take()?;
        let (from, room) = (file.bytes, FILE_BYTES.1 - file.bytes);
        if room == 0 {
            self.free.push(file);
            return None;
        }
        file.bytes += 1 + self.random.below(room);
        Some(Job::new(What::Append, file, from))
    }
}

/// Which jobs a thread takes: those that make the pool, or one half of a transaction after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Pool,
    First,
    Second,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Create,
    Delete,
    Read,
    Append,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begins,
    Opens,
    /// So many bytes are being read or written.
    Moves(u64),
    Closes,
}

/// What is done with one file.
struct Job {
    what: What,
    file: Known,
    ino: Ino,
    /// Next byte of the file.
    at: u64,
    stage: Stage,
}

impl Job {
    fn new(what: What, file: Known, at: u64) -> Self {
        Self { what, file, ino: Ino(0), at, stage: Stage::Begins }
    }

    fn open(&mut self, parent: Ino) -> FsOperation {
        self.stage = Stage::Opens;
        let name = self.file.name.clone();
        match self.what {
            What::Create => {
                let kind = FileKind::Regular;
                let new = NewNode { kind, mode: 0o644, umask: 0, device: 0, target: None };
                FsOperation::Make { parent, name, new }
            }
            What::Delete => {
                self.stage = Stage::Closes;
                FsOperation::Unlink { parent, name }
            }
            What::Read | What::Append => FsOperation::Lookup { parent, name },
        }
    }

    /// The next request, or the end.
    fn go_on(&mut self, pool: &Pool) -> FsOperation {
        let (ino, offset) = (self.ino, self.at);
        let len = pool.request_bytes.min(self.file.bytes - offset);
        if len == 0 || (self.what == What::Read && !pool.reads) {
            self.stage = Stage::Closes;
            return FsOperation::Forget { ino, count: 1 };
        }
        self.stage = Stage::Moves(len);
        if self.what == What::Read {
            return FsOperation::Read { ino, offset, len: len as u32 };
        }
        let data = pool.data.slice(0..len as usize);
        FsOperation::Write { ino, offset, data, is_durable: true }
    }
}

struct Thread {
    pool: Rc<RefCell<Pool>>,
    half: Half,
    /// It began that, even if it found nothing to do.
    is_at_it: bool,
    job: Option<Job>,
    issued: Nanos,
    counted: Counted,
    done: Rc<Cell<(u64, Nanos)>>,
}

impl Thread {
    /// The next call for the file in hand; none once it is done with.
    fn next_call(&mut self, now: Nanos, answer: Option<&Answer>) -> Option<FsOperation> {
        let mut job = self.job.take()?;
        let mut pool = self.pool.borrow_mut();
        let next = match job.stage {
            Stage::Begins => job.open(pool.folder),
            Stage::Opens => {
                if let Some(Answer::Node(node)) = answer {
                    job.ino = node.ino;
                }
                job.go_on(&pool)
            }
            Stage::Moves(len) => {
                job.at += len;
                if job.what != What::Read {
                    self.counted.borrow_mut().book(&Ok(Vec::new()), len, self.issued, now);
                }
                job.go_on(&pool)
            }
            Stage::Closes => {
                if job.what != What::Delete {
                    pool.free.push(job.file);
                }
                return None;
            }
        };
        drop(pool);
        self.job = Some(job);
        Some(next)
    }

    /// Whether there is more to be done; takes it in hand.
    fn begin(&mut self) -> bool {
        let mut pool = self.pool.borrow_mut();
        let left = match self.half {
            Half::Pool => Some(&mut pool.to_create),
            Half::First => Some(&mut pool.to_begin),
            Half::Second => None,
        };
        if let Some(left) = left {
            if *left == 0 {
                return false;
            }
            *left -= 1;
        }
        self.job = pool.job(self.half);
        self.is_at_it = true;
        true
    }

    /// What comes after the one in hand.
    fn end(&mut self, now: Nanos) {
        self.is_at_it = false;
        self.half = match self.half {
            Half::Pool => Half::Pool,
            Half::First => Half::Second,
            Half::Second => {
                self.done.set((self.done.get().0 + 1, now));
                Half::First
            }
        };
    }
}

impl Script for Thread {
    fn act(&mut self, now: Nanos, answer: Option<Answer>) -> Act {
        let mut answer = answer;
        loop {
            if self.is_at_it {
                if let Some(operation) = self.next_call(now, answer.take().as_ref()) {
                    self.issued = now;
                    return Act::Do(operation);
                }
                self.end(now);
            }
            if !self.begin() {
                return Act::End;
            }
        }
    }
}
