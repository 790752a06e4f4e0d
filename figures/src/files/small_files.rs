//! The random writer of Manylogs' figures 2 and 3 on a real file system: it changes a block of each of 20 small files, then makes them durable.
//!
//! A round begins at its instant or when the one before is durable, whichever is later. It ends with a `sync()`, or with an `fsync` of each
//! file, all at once.

use super::{Act, Bench, Counted, Image, Script, filler};
use crate::error::FigureError;
use nearhead_basics::Random;
use nearhead_disk::{Buffer, Nanos};
use nearhead_ext4::{BLOCK_BYTES, Ino};
use nearhead_fs::{Answer, FsOperation};
use nearhead_sim::workload::TallySummary;
use std::cell::Cell;
use std::rc::Rc;

/// Size of a small file in blocks, as at block level.
const FILE_BLOCKS: u64 = 16;

/// What it does.
#[derive(Clone, Debug)]
pub(crate) struct SmallFilesOptions {
    /// The files.
    pub(crate) files: Vec<Ino>,
    /// Rounds a second.
    pub(crate) syncs_per_s: f64,
    /// How a round is made durable.
    pub(crate) ends_with: Durable,
    /// Of which block of each file is changed.
    pub(crate) seed: u64,
}

/// How changes are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durable {
    /// All that anybody wrote, by one call.
    Sync,
    /// Each file, by a call for each.
    Fsyncs,
}

/// A writer that is running.
pub(crate) struct SmallFiles {
    counted: Counted,
    late: Rc<Cell<u64>>,
}

impl SmallFiles {
    /// So many files, each in a folder of its own in the root, which puts them all over the disk.
    pub(crate) fn scattered(image: &mut Image, count: u32) -> Result<Vec<Ino>, FigureError> {
        let one = |nth: u32| {
            let folder = image.folder(&format!("tenant{nth}"))?;
            image.file(folder, "small", FILE_BLOCKS * BLOCK_BYTES as u64)
        };
        (0..count).map(one).collect()
    }

    /// Starts it.
    pub(crate) fn start(bench: &mut Bench, options: SmallFilesOptions) -> Self {
        let (counted, late) = (Counted::default(), Rc::new(Cell::new(0)));
        bench.add(Thread {
            random: Random::new(options.seed),
            data: filler(BLOCK_BYTES),
            begun: 0,
            started: bench.now(),
            sync_begun: Nanos::ZERO,
            state: State::Waits,
            counted: Rc::clone(&counted),
            late: Rc::clone(&late),
            options,
        });
        Self { counted, late }
    }

    /// Its syncs until `now`.
    pub(crate) fn syncs(&self, now: Nanos) -> TallySummary {
        self.counted.borrow().summary(now)
    }

    /// Rounds that began later than due.
    pub(crate) fn late(&self) -> u64 {
        self.late.get()
    }
}

/// How far a round is.
#[derive(Clone, Copy, Debug)]
enum State {
    Waits,
    /// The file that is changed next.
    Changes(usize),
    Syncs,
}

struct Thread {
    options: SmallFilesOptions,
    random: Random,
    data: Buffer,
    begun: u64,
    started: Nanos,
    sync_begun: Nanos,
    state: State,
    counted: Counted,
    late: Rc<Cell<u64>>,
}

impl Thread {
    fn due_at(&self) -> Nanos {
        self.started + Nanos((self.begun as f64 * 1e9 / self.options.syncs_per_s) as u64)
    }

    /// The change of the next file, or the sync behind the last.
    fn change(&mut self, file: usize, now: Nanos) -> Act {
        let files = &self.options.files;
        let Some(ino) = files.get(file) else {
            self.state = State::Syncs;
            self.sync_begun = now;
            let fsync = |ino: &Ino| FsOperation::Sync { ino: *ino, data_only: false };
            return match self.options.ends_with {
                Durable::Sync => Act::Do(FsOperation::SyncAll),
                Durable::Fsyncs => Act::DoAll(files.iter().map(fsync).collect()),
            };
        };
        self.state = State::Changes(file + 1);
        let offset = self.random.below(FILE_BLOCKS) * BLOCK_BYTES as u64;
        let data = self.data.clone();
        Act::Do(FsOperation::Write { ino: *ino, offset, data, is_durable: false })
    }
}

impl Script for Thread {
    fn act(&mut self, now: Nanos, _: Option<Answer>) -> Act {
        match self.state {
            State::Changes(file) => return self.change(file, now),
            State::Syncs => {
                let bytes = (self.options.files.len() * BLOCK_BYTES) as u64;
                self.counted.borrow_mut().book(&Ok(Vec::new()), bytes, self.sync_begun, now);
                self.state = State::Waits;
            }
            State::Waits => {}
        }
        if now < self.due_at() {
            return Act::Wait(self.due_at());
        }
        self.late.set(self.late.get() + u64::from(now > self.due_at()));
        self.begun += 1;
        self.change(0, now)
    }

    fn start_measuring(&mut self, now: Nanos) {
        self.counted.borrow_mut().restart(now);
        self.late.set(0);
    }
}
