//! Where no head moves: a small write that waits alone goes home at once, instead of into a log and home later.
//!
//! A log makes one movement of a head out of many. Without a head it makes one transfer out of many, which is worth
//! the copying home afterwards only if there are many. So what waits for durability and is one run of sectors is
//! written home by one durable transfer, by the way of a spill (`home/spill.rs`), which keeps the order of what is
//! older and newer. It is logged all the same
//!
//! - if a log holds anything of it: home would be newer than the copy in the log, and a record would have to say so;
//! - if a record has to be written anyway, or its home is blank: that stays so until a checkpoint comes;
//! - if it is part of an atomic write, which homes cannot keep (law 3), or hinted durability-only, which no home needs;
//! - if its home has failed: a bad sector is no reason to refuse what a log can take (law 7).

use crate::disk::dispatch::Purpose;
use crate::engine::Engine;
use crate::home::spill::Spill;
use crate::requests::stage::Taken;
use nearhead_disk::{Class, DiskErrorKind};

/// Longest run, in sectors: 64 KiB, twice the largest write that the paper's system logs. Not measured; more is worth a record.
const RUN_SECTORS_MAX: u64 = 128;

impl Engine {
    /// What is staged goes home by itself, if it is to; whether it does.
    pub(crate) fn sends_home_alone(&mut self) -> bool {
        if !self.setup.config.lone_writes_go_home {
            return false;
        }
        let Some(run) = self.stage.lone_run(RUN_SECTORS_MAX) else { return false };
        let (start, sectors) = (run.start, run.end - run.start);
        let (first_block, blocks) = crate::state::sectors::block_span(start, sectors);
        let stays = self.core.map.overlaps(start, sectors)
            || !self.invalidations.is_empty()
            || self.failed_homes.any_suspect(first_block..blocks)
            || self.checkpoint.touches(start, run.end)
            || (!self.core.hints().is_empty() && self.core.hints().overlaps(run.clone()))
            || self.blanks.touch_blank(&run);
        if stays {
            return false;
        }
        let front = self.stage.front();
        let count = (self.stage.end() - front) as usize;
        self.taken = Taken::new(self.stage.take_front(count));
        self.commit.note_taken();
        self.stats.alone_home += 1;
        let commands = self.spill_commands(&self.taken.blocks, false);
        self.spill = Some(Spill::alone(
            commands.len(),
            self.lanes.main.flusher.is_needed(),
            front,
            self.stage.front(),
        ));
        for command in commands {
            self.issue(Class::Durable, Purpose::Spill, command);
        }
        true
    }

    /// Home did not take what went there alone: it is staged again, behind all others, and the next record takes it.
    /// Who waits for it waits for where it stands now.
    pub(super) fn log_after_all(&mut self, front: u64, kind: DiskErrorKind) {
        let was_alone = matches!(kind, DiskErrorKind::Io | DiskErrorKind::Gone);
        for staged in std::mem::take(&mut self.taken).blocks {
            self.failed_homes.note_failed(staged.block, was_alone, self.now);
            self.stage.put_back(staged);
        }
        self.commit.note_staged(self.now);
        self.wait_for_all_staged(front);
    }

    /// What stood behind `front` was staged again: who waits for any of it waits for all that is staged now.
    pub(crate) fn wait_for_all_staged(&mut self, front: u64) {
        let end = self.stage.end();
        self.commit.postpone(front, end);
        self.requests.postpone_barriers(front, end);
        self.commit.want(end);
    }
}
