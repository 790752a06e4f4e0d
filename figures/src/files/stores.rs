//! Key-value stores that log each update before they answer it: what `MongoDB` does with durable writes (Manylogs V-A.4).
//!
//! Of a store only its commit log writes here. Clients send updates at a fixed rate; a thread flushes what has come every so often: it writes
//! the log's next part, whole sectors of 8 KiB, and calls `fdatasync`. An update is answered once the flush that has it is durable. The log
//! file has its blocks before, as `MongoDB` prepares its journal.

use super::{Act, Bench, Counted, Image, Script, filler};
use crate::error::FigureError;
use nearhead_disk::{Buffer, Nanos};
use nearhead_ext4::Ino;
use nearhead_fs::{Answer, FsOperation};
use std::rc::Rc;

/// An update of YCSB: ten fields of 100 bytes, and its key.
const UPDATE_BYTES: u64 = 1024;
/// A section of the journal is a multiple of this.
const SECTION_BYTES: u64 = 8192;
/// Of a log file; it starts again at its end.
pub(crate) const LOG_BYTES: u64 = 256 << 20;
/// Most that one flush writes.
const FLUSH_BYTES_MAX: u64 = 4 << 20;

/// A store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreOptions {
    /// Its log.
    pub(crate) log: Ino,
    /// Between two flushes.
    pub(crate) flush_every: Nanos,
    /// Updates that clients send a second.
    pub(crate) updates_per_s: f64,
    /// When its first flush is due, so that stores do not all flush together.
    pub(crate) first_after: Nanos,
}

/// The log of store `number`, in a folder of its own somewhere on the disk.
pub(crate) fn prepare_log(
    image: &mut Image,
    number: u32,
    is_durability_only: bool,
) -> Result<Ino, FigureError> {
    let folder = image.folder(&format!("store{number}"))?;
    let log = image.file(folder, "journal", LOG_BYTES)?;
    if is_durability_only {
        image.set_durability_only(log)?;
    }
    Ok(log)
}

/// Starts a store; the latency of each update goes to `counted`.
pub(crate) fn start_store(bench: &mut Bench, options: StoreOptions, counted: &Counted) {
    bench.add(Flusher {
        options,
        counted: Rc::clone(counted),
        data: filler(FLUSH_BYTES_MAX as usize),
        started: bench.now(),
        begun: bench.now() + options.first_after,
        answered: 0,
        taken: 0,
        offset: 0,
        state: State::Waits,
    });
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waits,
    Writes,
    Syncs,
}

struct Flusher {
    options: StoreOptions,
    counted: Counted,
    data: Buffer,
    started: Nanos,
    /// When the next flush is due.
    begun: Nanos,
    /// Updates that are durable, and that the flush under way has.
    answered: u64,
    taken: u64,
    offset: u64,
    state: State,
}

impl Flusher {
    /// When update number `nth` came.
    fn came_at(&self, nth: u64) -> Nanos {
        self.started + Nanos((nth as f64 * 1e9 / self.options.updates_per_s) as u64)
    }

    fn flush(&mut self, now: Nanos) -> Act {
        let come = (now.since(self.started).as_secs_f64() * self.options.updates_per_s) as u64;
        let most = FLUSH_BYTES_MAX / UPDATE_BYTES;
        self.taken = come.min(self.answered + most);
        if self.taken <= self.answered {
            self.begun = now + self.options.flush_every;
            return Act::Wait(self.begun);
        }
        let bytes = (self.taken - self.answered) * UPDATE_BYTES;
        let bytes = bytes.next_multiple_of(SECTION_BYTES).min(FLUSH_BYTES_MAX);
        if self.offset + bytes > LOG_BYTES {
            self.offset = 0;
        }
        let (ino, offset) = (self.options.log, self.offset);
        self.offset += bytes;
        self.begun = now + self.options.flush_every;
        self.state = State::Writes;
        let data = self.data.slice(0..bytes as usize);
        Act::Do(FsOperation::Write { ino, offset, data, is_durable: false })
    }
}

impl Script for Flusher {
    fn act(&mut self, now: Nanos, _: Option<Answer>) -> Act {
        match self.state {
            State::Writes => {
                self.state = State::Syncs;
                return Act::Do(FsOperation::Sync { ino: self.options.log, data_only: true });
            }
            State::Syncs => {
                let mut counted = self.counted.borrow_mut();
                for nth in self.answered..self.taken {
                    counted.book(&Ok(Vec::new()), UPDATE_BYTES, self.came_at(nth), now);
                }
                drop(counted);
                (self.answered, self.state) = (self.taken, State::Waits);
            }
            State::Waits => {}
        }
        if now < self.begun { Act::Wait(self.begun) } else { self.flush(now) }
    }
}
