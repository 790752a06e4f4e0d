//! What is free is told to the volume: what a commit freed once that is durable, and all of it when somebody asks (`fstrim`).
//!
//! A trim never reaches a block that a state after a crash still uses: what was freed is trimmed after the record that freed it, and what
//! is looked for is free in every state that may come back. Blocks are given to nobody before their trim is answered.

use crate::core::{BLOCK, Core};
use crate::error::{EPERM, EROFS, FsError, Halt};
use crate::io::Purpose;
use crate::jobs::Tried;
use crate::mounted::Phase;
use crate::request::Answer;
use crate::waiting::Waiter;
use nearhead_ext4::Caller;
use nearhead_service::{Hint, Operation};
use std::ops::Range;

/// Runs that a commit freed of which the volume is told, the longest ones; the others are found by `fstrim`.
const RUNS_MAX: usize = 64;
/// Blocks that are told at once where all that is free is: for so long nobody is given them.
const BLOCKS_AT_ONCE: u64 = (32 << 20) / BLOCK;
/// Where fewer may be told at once than this, it ends.
const BLOCKS_MIN: u64 = 16;

/// How far telling of all that is free has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trimming {
    next: u64,
    /// What is under way.
    held: Option<Range<u64>>,
    bytes: u64,
}

/// The part of a file system that is meant, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) run_bytes_min: u64,
}

impl Core {
    /// The record that freed these is durable. `forgets`: durability-only files had some, so nothing of them has to be kept or brought home.
    pub(crate) fn drop_freed(&mut self, mut freed: Vec<Range<u64>>, forgets: bool) {
        if !forgets {
            freed.sort_by_key(|run| std::cmp::Reverse(run.end - run.start));
            freed.truncate(if self.trims_freed { RUNS_MAX } else { 0 });
        }
        for run in freed {
            let (offset, len) = (run.start * BLOCK, (run.end - run.start) * BLOCK);
            if forgets {
                self.io.ask(Purpose::Advice, Operation::Hint { offset, len, hint: Hint::Normal });
            }
            self.counts.trimmed_bytes += len;
            self.io.ask(Purpose::Advice, Operation::Trim { offset, len, fua: false });
        }
    }

    /// Tells the volume of the next free blocks, until it was told of all.
    pub(crate) fn try_trim(
        &mut self,
        slot: u32,
        part: Part,
        caller: &Caller,
    ) -> Result<Tried, Halt> {
        if self.options.ext4.read_only {
            return Err(FsError::new(EROFS, "mounted read-only").into());
        }
        if caller.uid != 0 {
            return Err(FsError::new(EPERM, "fstrim: only root may ask for it").into());
        }
        let first = part.offset.div_ceil(BLOCK);
        let end = part.offset.saturating_add(part.len) / BLOCK;
        let Some(job) = self.jobs.get(slot) else { return Ok(Tried::Done(Answer::Nothing)) };
        let (next, bytes) = (job.trimming.next.max(first), job.trimming.bytes);
        // A quarter of what nobody was promised: who writes meanwhile finds room.
        let available = self.ext4()?.statistics().available.saturating_sub(self.kept_blocks);
        let most = (available / 4).min(BLOCKS_AT_ONCE);
        let is_over = self.phase != Phase::Serving || most < BLOCKS_MIN;
        let found = if is_over {
            None
        } else {
            let min = part.run_bytes_min.div_ceil(BLOCK).max(1);
            self.ext4()?.begin_trim(next..end, min, most)?
        };
        let Some(run) = found else { return Ok(Tried::Done(Answer::Trimmed(bytes))) };
        self.kept_blocks += run.end - run.start;
        let (offset, len) = (run.start * BLOCK, (run.end - run.start) * BLOCK);
        if let Some(job) = self.jobs.get_mut(slot) {
            job.trimming.held = Some(run);
        }
        let trim = Operation::Trim { offset, len, fua: false };
        Ok(Tried::Asked(vec![trim], Answer::Trimmed(bytes)))
    }

    /// The volume was told of a part. Says whether the job goes on.
    pub(crate) fn on_trimmed(&mut self, slot: u32) -> bool {
        let Some(job) = self.jobs.get_mut(slot) else { return false };
        let Some(run) = job.trimming.held.take() else { return false };
        let (len, has_failed) = (run.end - run.start, job.error.is_some());
        job.trimming.next = run.end;
        job.trimming.bytes += len * BLOCK;
        self.kept_blocks -= len;
        self.counts.trimmed_bytes += len * BLOCK;
        if let Some(ext4) = &mut self.ext4 {
            ext4.end_trim(&run);
        }
        if !has_failed {
            self.runnable.push_back(Waiter::Job(slot));
        }
        !has_failed
    }
}
