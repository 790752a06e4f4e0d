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

use super::Home;
use super::commands::home_commands;
use super::spill::Spill;
use crate::blanks::Blanks;
use crate::commit::Commit;
use crate::core::Core;
use crate::disk::dispatch::Purpose;
use crate::stage::Stage;
use crate::state::sectors::block_span;
use nearhead_disk::{Class, DiskErrorKind, RangeSet};

/// Longest run, in sectors: 64 KiB, twice the largest write that the paper's system logs. Not measured; more is worth a record.
const RUN_SECTORS_MAX: u64 = 128;

impl Home {
    /// What is staged goes home by itself, if it is to; whether it does. `busy` are homes that a checkpoint is writing.
    pub(crate) fn sends_alone(
        &mut self,
        core: &mut Core,
        stage: &mut Stage,
        commit: &mut Commit,
        blanks: &Blanks,
        busy: &RangeSet,
    ) -> bool {
        if !core.setup().config.lone_writes_go_home || !core.setup().has_homes() {
            return false;
        }
        let Some(run) = stage.lone_run(RUN_SECTORS_MAX) else { return false };
        let (start, sectors) = (run.start, run.end - run.start);
        let (first_block, blocks) = block_span(start, sectors);
        let hints = core.recorded().hints();
        let stays = core.map().overlaps(start, sectors)
            || !commit.invalidations().is_empty()
            || self.failed.any_suspect(first_block..blocks)
            || busy.overlaps(run.clone())
            || (!hints.is_empty() && hints.overlaps(run.clone()))
            || blanks.touch_blank(&run);
        if stays {
            return false;
        }
        let front = stage.front();
        let count = stage.end().since(front);
        let commands = home_commands(core, &self.failed, stage.send_front(count), false);
        commit.note_stage_taken(stage, core.now());
        core.stats_mut().alone_home += 1;
        let is_needed = core.flusher().is_needed();
        self.spill = Some(Spill::alone(commands.len(), is_needed, front, stage.front()));
        for command in commands {
            core.issue(Class::Durable, Purpose::Spill, command);
        }
        true
    }

    /// Home did not take what went there alone: it is staged again, behind all others, and the next record takes it.
    /// Those who wait for it wait for where it stands now.
    pub(super) fn log_after_all(
        &mut self,
        core: &Core,
        stage: &mut Stage,
        commit: &mut Commit,
        kind: DiskErrorKind,
    ) {
        let was_alone = matches!(kind, DiskErrorKind::Io | DiskErrorKind::Gone);
        for staged in stage.end_taken() {
            self.failed.note_failed(staged.block(), was_alone, core.now());
            stage.put_back(staged);
        }
        commit.note_staged(core.now());
    }
}
