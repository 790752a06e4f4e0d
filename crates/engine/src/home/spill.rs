//! When no log has room: staged blocks go to their homes after all.
//!
//! The paper's last resort (law 6: log-full is back-pressure, then in place). The blocks leave the
//! stage as a batch, are written home sorted and merged, and count as committed once the transfers
//! are durable and every logged copy they made stale is invalidated. An atomic group is never
//! spilled, since homes cannot be written all-or-nothing; it waits for room.
//!
//! A home that cannot be written costs only those who wait for that block: after some attempts, alone, it is put
//! off ([`PutOff`]), and whoever stands behind it goes on. It rests then: it is passed over until it is tried
//! again by itself, ever more rarely. Who comes meanwhile and needs it is refused only after it was tried for him, since
//! the disk may work again.

use super::Home;
use super::commands::{home_commands, touches_home};
use crate::blanks::Blanks;
use crate::commit::Commit;
use crate::commit::InvalidationCount;
use crate::core::{Core, told};
use crate::disk::dispatch::Purpose;
use crate::disk::flusher::FlushTicket;
use crate::stage::StagePosition;
use crate::stage::{Forms, Stage, StagedBlock};
use crate::state::sectors::{BLOCK_SECTORS, SECTOR};
use nearhead_disk::{Class, Command, DiskError, DiskErrorKind, Payload, RangeSet};
use nearhead_format::record::WRITES_MAX;
use nearhead_service::RequestError;
use std::ops::Range;

/// Most bytes spilled at once.
const SPILL_BYTES_MAX: u64 = 1 << 20;
/// How often a block is written home before those who wait for it are told that it cannot be: together with
/// others, then alone.
const ATTEMPTS_MAX: u32 = 3;

/// A batch on its way home.
#[derive(Debug)]
pub(super) struct Spill {
    /// It went home for being alone, not for want of room (`home/alone_home.rs`).
    is_alone: bool,
    /// Transfers still under way.
    remaining: usize,
    /// Whether a flush must follow them.
    volatile: bool,
    /// Stage position of its first block.
    front: StagePosition,
    /// Stage position committed when all is done.
    stage_end: StagePosition,
    /// How often what failed was tried.
    attempts: u32,
    /// Device bytes that could not be written in this attempt.
    failed: Vec<Range<u64>>,
    /// The last reason.
    problem: Option<(DiskErrorKind, RequestError)>,
    /// Set when transfers are done: what must follow.
    follows: Option<Follows>,
}

/// What follows from the end of a transfer.
#[derive(Debug)]
pub(crate) enum SpillEnd {
    /// Others are under way.
    NotYet,
    /// What went home alone goes into a log after all: those who wait for what stood behind `front` wait for where it
    /// stands now, and then everything before `committed` is as good as done.
    Logged { front: StagePosition, committed: StagePosition },
    /// All transfers are done; some blocks could not be written, if any.
    Done(Option<PutOff>),
}

/// Blocks that could not be written home, with their positions in the stage, and why.
#[derive(Debug)]
pub(crate) struct PutOff {
    blocks: Vec<(StagePosition, StagedBlock)>,
    error: RequestError,
}

impl PutOff {
    pub(crate) fn into_parts(self) -> (Vec<(StagePosition, StagedBlock)>, RequestError) {
        (self.blocks, self.error)
    }
}

/// What makes a spill whole once its transfers are done.
#[derive(Clone, Copy, Debug)]
struct Follows {
    flush_ticket: FlushTicket,
    invalid_target: InvalidationCount,
}

impl Spill {
    /// One of so many `transfers`, of what stood at the front of the stage up to `stage_end`.
    fn new(
        transfers: usize,
        is_flusher_needed: bool,
        front: StagePosition,
        stage_end: StagePosition,
    ) -> Self {
        Self {
            is_alone: false,
            remaining: transfers,
            volatile: is_flusher_needed && transfers > 1,
            front,
            stage_end,
            attempts: 0,
            failed: Vec::new(),
            problem: None,
            follows: None,
        }
    }

    /// The same, for what waited alone.
    pub(super) fn alone(
        transfers: usize,
        is_flusher_needed: bool,
        front: StagePosition,
        stage_end: StagePosition,
    ) -> Self {
        Self { is_alone: true, ..Self::new(transfers, is_flusher_needed, front, stage_end) }
    }

    /// Whether the transfers are done, and what follows them is not.
    pub(super) fn is_written(&self) -> bool {
        self.follows.is_some()
    }
}

impl Home {
    /// What is at the front of the stage goes home, as far as it can: not what a checkpoint batch is writing (`busy`), which
    /// is older, and of the blocks that rest only so many at the front as are `needed`.
    pub(crate) fn spill(
        &mut self,
        core: &mut Core,
        stage: &mut Stage,
        commit: &mut Commit,
        blanks: &mut Blanks,
        busy: &RangeSet,
        needed: usize,
    ) {
        let blocks = self.blocks_to_spill(core, stage, busy, needed);
        if blocks == 0 {
            return;
        }
        let first: Vec<u64> = stage.blocks().take(blocks).collect();
        let range = |block: u64| block * BLOCK_SECTORS..(block + 1) * BLOCK_SECTORS;
        if !blanks.may_spill(first.into_iter().map(range)) {
            return;
        }
        let front = stage.front();
        let commands = home_commands(core, &self.failed, stage.send_front(blocks), false);
        commit.note_stage_taken(stage, core.now());
        core.stats_mut().spills += 1;
        let is_needed = core.flusher().is_needed();
        self.spill = Some(Spill::new(commands.len(), is_needed, front, stage.front()));
        issue(core, commands);
    }

    fn blocks_to_spill(&self, core: &Core, stage: &Stage, busy: &RangeSet, needed: usize) -> usize {
        let front = {
            let sectors_max = SPILL_BYTES_MAX / SECTOR as u64;
            stage.measure_front(WRITES_MAX, sectors_max, Forms::WHOLE)
        };
        let blocks = front.blocks().min(stage.singles_at_front());
        let stays = |(at, block): (usize, u64)| {
            let start = block * BLOCK_SECTORS;
            let sectors = start..start + BLOCK_SECTORS;
            // What records hold of a sector in bytes would come over what is newer at home, should the power go before they are taken back.
            let touches = !busy.is_empty() && busy.overlaps(sectors.clone())
                || core.recorded().fragments().touches(sectors);
            touches || (at >= needed && self.failed.rests(block, core.now()))
        };
        stage.blocks().take(blocks).enumerate().position(stays).unwrap_or(blocks)
    }

    /// A transfer of it ended.
    pub(crate) fn on_spill(
        &mut self,
        core: &mut Core,
        stage: &mut Stage,
        commit: &mut Commit,
        extent: Option<(u64, u64)>,
        result: Result<Payload, DiskError>,
    ) -> SpillEnd {
        let Some(spill) = self.spill.as_mut() else { return SpillEnd::NotYet };
        if let (Err(error), Some((offset, len))) = (result, extent) {
            spill.failed.push(offset..offset + len);
            spill.problem = Some((error.kind, told(&error)));
        }
        spill.remaining -= 1;
        if spill.remaining > 0 {
            return SpillEnd::NotYet;
        }
        if spill.volatile {
            core.flusher_mut().note_volatile_write();
        }
        if spill.failed.is_empty() {
            return SpillEnd::Done(None);
        }
        if spill.is_alone {
            return self.alone_failed(core, stage, commit);
        }
        self.again(core, stage)
    }

    /// What went home alone goes into a log: nothing of it counts as written.
    fn alone_failed(&mut self, core: &Core, stage: &mut Stage, commit: &mut Commit) -> SpillEnd {
        let Some(spill) = self.spill.take() else { return SpillEnd::NotYet };
        let kind = spill.problem.map_or(DiskErrorKind::Io, |(kind, _)| kind);
        self.log_after_all(core, stage, commit, kind);
        SpillEnd::Logged { front: spill.front, committed: spill.stage_end }
    }

    /// Blocks of which a transfer failed are written once more, each alone; those for which that was no use are put off.
    fn again(&mut self, core: &mut Core, stage: &mut Stage) -> SpillEnd {
        let Some(spill) = self.spill.as_mut() else { return SpillEnd::NotYet };
        let failed = std::mem::take(&mut spill.failed);
        spill.attempts += 1;
        let Some((kind, error)) = spill.problem.clone() else { return SpillEnd::Done(None) };
        let layout = core.setup().layout;
        let is_missed = |staged: &StagedBlock| touches_home(&layout, staged, &failed);
        // Where there is no space, another attempt a moment later finds none either.
        let is_short = kind == DiskErrorKind::OutOfSpace;
        if spill.attempts < ATTEMPTS_MAX && !is_short {
            let blocks = stage.taken().blocks().iter();
            let missed: Vec<StagedBlock> =
                blocks.filter(|staged| is_missed(staged)).cloned().collect();
            let mut commands = home_commands(core, &self.failed, &missed, true);
            // Some were written before: only a flush makes all of them durable.
            for command in &mut commands {
                if let Command::Write { durable, .. } = command {
                    *durable = false;
                }
            }
            spill.remaining = commands.len();
            spill.volatile = core.flusher().is_needed();
            issue(core, commands);
            return SpillEnd::NotYet;
        }
        let positions = spill.front.onward();
        let (missed, written): (Vec<_>, Vec<_>) =
            positions.zip(stage.end_taken()).partition(|(_, staged)| is_missed(staged));
        stage.keep_taken(written.into_iter().map(|(_, staged)| staged).collect());
        for (_, staged) in &missed {
            self.note_missed(core, staged.block(), is_short);
        }
        let told = format!("no log has room and writing in place failed: {}", error.detail);
        let error = RequestError::new(error.kind, told);
        SpillEnd::Done(Some(PutOff { blocks: missed, error }))
    }

    /// The transfers are done, and whoever is put off knows it: what is at home now is newer than what the logs hold.
    pub(crate) fn spilled(&mut self, core: &mut Core, stage: &mut Stage, commit: &mut Commit) {
        let Some(spill) = self.spill.as_mut() else { return };
        let volatile = spill.volatile;
        let blocks = stage.end_taken();
        if !blocks.is_empty() {
            commit.note_written();
        }
        for staged in &blocks {
            self.failed.note_written(staged.block());
            for (sector, piece) in staged.homes() {
                commit.displace(core, sector, u64::from(piece.len()), volatile);
            }
        }
        let flush_ticket = if volatile { core.flusher_mut().want() } else { FlushTicket::NONE };
        let invalid_target = commit.want_invalidations(core);
        spill.follows = Some(Follows { flush_ticket, invalid_target });
    }

    /// Ends the spill if all that must follow it is durable; says up to where the stage is committed by that, and whether
    /// it went home for being alone.
    pub(crate) fn end_spill(
        &mut self,
        core: &Core,
        commit: &Commit,
    ) -> Option<(StagePosition, bool)> {
        let spill = self.spill.as_ref()?;
        let follows = spill.follows?;
        let is_flushed = core.flusher().is_done(follows.flush_ticket);
        let is_settled = commit.invalidations().committed() >= follows.invalid_target;
        if !is_flushed || !is_settled {
            return None;
        }
        let spill = self.spill.take()?;
        Some((spill.stage_end, spill.is_alone))
    }
}

fn issue(core: &mut Core, commands: Vec<Command>) {
    for command in commands {
        core.issue(Class::Foreground, Purpose::Spill, command);
    }
}
