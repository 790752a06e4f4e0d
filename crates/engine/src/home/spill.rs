//! When no log has room: staged blocks go to their homes after all.
//!
//! The paper's last resort (law 6: log-full is back-pressure, then in place). The blocks leave the
//! stage as a batch, are written home sorted and merged, and count as committed once the transfers
//! are durable and every logged copy they made stale is invalidated. An atomic group is never
//! spilled, since homes cannot be written all-or-nothing; it waits for room.
//!
//! A home that cannot be written costs only those who wait for that block: after some attempts, alone, it is put
//! off ([`Engine::put_off`]), and whoever stands behind it goes on. It rests then: it is passed over until it is tried
//! again by itself, ever more rarely. Who comes meanwhile and needs it is refused only after it was tried for him, since
//! the disk may work again.

use crate::cleaning::WhenFull;
use crate::disk::dispatch::Purpose;
use crate::engine::{Engine, Phase};
use crate::requests::stage::{Front, StagedBlock, Taken};
use crate::requests::told;
use crate::state::sectors::{BLOCK_SECTORS, SECTOR};
use nearhead_disk::{Class, Command, DiskError, DiskErrorKind, Payload};
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
pub(crate) struct Spill {
    /// It went home for being alone, not for want of room (`home/alone_home.rs`).
    is_alone: bool,
    /// Transfers still under way.
    remaining: usize,
    /// Whether a flush must follow them.
    volatile: bool,
    /// Stage position of its first block.
    front: u64,
    /// Stage position committed when all is done.
    stage_end: u64,
    /// How often what failed was tried.
    attempts: u32,
    /// Device bytes that could not be written in this attempt.
    failed: Vec<Range<u64>>,
    /// The last reason.
    problem: Option<(DiskErrorKind, RequestError)>,
    /// Set when transfers are done: what must follow.
    follows: Option<Follows>,
}

/// What makes a spill whole once its transfers are done.
#[derive(Clone, Copy, Debug)]
struct Follows {
    flush_ticket: u64,
    invalid_target: u64,
}

impl Spill {
    /// One of so many `transfers`, of what stood at the front of the stage up to `stage_end`.
    fn new(transfers: usize, is_flusher_needed: bool, front: u64, stage_end: u64) -> Self {
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
    pub(crate) fn alone(
        transfers: usize,
        is_flusher_needed: bool,
        front: u64,
        stage_end: u64,
    ) -> Self {
        Self { is_alone: true, ..Self::new(transfers, is_flusher_needed, front, stage_end) }
    }

    /// Whether the transfers are done, and what follows them is not.
    pub(crate) fn is_written(&self) -> bool {
        self.follows.is_some()
    }
}

impl Engine {
    /// No log takes what is at the front of the stage: it goes home, or waits for room if it must or the policy says so.
    pub(crate) fn go_without_log(&mut self) {
        if self.spill.is_some() {
            return;
        }
        if self.stage.is_empty() || self.failure.is_some() {
            return;
        }
        let Some(needed) = self.pass_over_what_rests() else { return };
        if self.waits_at_front() > 0 {
            return self.find_room_for_front();
        }
        let blocks = self.blocks_to_spill(needed);
        if blocks == 0 {
            return;
        }
        let first: Vec<u64> = self.stage.blocks().take(blocks).collect();
        let range = |block: u64| block * BLOCK_SECTORS..(block + 1) * BLOCK_SECTORS;
        if !self.may_spill(first.into_iter().map(range)) {
            return;
        }
        let front = self.stage.front();
        self.taken = Taken::new(self.stage.take_front(blocks));
        self.note_stage_taken();
        self.stats.spills += 1;
        let commands = self.spill_commands(&self.taken.blocks, false);
        let is_needed = self.lanes.main.flusher.is_needed();
        self.spill = Some(Spill::new(commands.len(), is_needed, front, self.stage.front()));
        self.issue_spill(commands);
    }

    fn issue_spill(&mut self, commands: Vec<Command>) {
        for command in commands {
            self.issue(Class::Foreground, Purpose::Spill, command);
        }
    }

    /// Blocks left the stage from the front: how long others wait is counted anew.
    fn note_stage_taken(&mut self) {
        self.commit.note_taken();
        if !self.stage.is_empty() {
            self.commit.note_staged(self.now);
        }
    }

    /// Blocks at the front whose homes failed a moment ago let the others pass, unless somebody needs them. Says how many
    /// at the front are to be tried although they rest, or nothing if all that is staged rests.
    fn pass_over_what_rests(&mut self) -> Option<usize> {
        if self.cleaner.when_full() == WhenFull::Wait {
            return Some(0);
        }
        let resting = self.resting_at_front();
        if resting == 0 || self.is_needed(resting) {
            return Some(resting);
        }
        let blocks = self.take_off_front(resting);
        for (_, staged) in blocks {
            self.stage.put_back(staged);
        }
        self.commit.note_staged(self.now);
        (self.resting_at_front() == 0).then_some(0)
    }

    /// How many blocks at the front rest, none of which belongs to an atomic write.
    fn resting_at_front(&self) -> usize {
        if self.failed_homes.is_empty() {
            return 0;
        }
        let singles = self.stage.blocks().take(self.stage.singles_at_front());
        singles.take_while(|block| self.failed_homes.rests(*block, self.now)).count()
    }

    /// Whether somebody is refused if so many blocks at the front, which rest, are not tried.
    fn is_needed(&self, resting: usize) -> bool {
        let blocks: Vec<u64> = self.stage.blocks().take(resting).collect();
        matches!(self.phase, Phase::Draining)
            || self.somebody_waits_for(&blocks, self.stage.front())
            || (self.requests.anybody_waits_for_room() && self.nobody_passes())
    }

    /// Puts off so many blocks at the front of the stage.
    pub(crate) fn put_off_front(&mut self, count: usize, error: &RequestError) {
        let blocks = self.take_off_front(count);
        self.put_off(blocks, error);
    }

    /// So many blocks, which go neither into a record nor home, with their positions.
    fn take_off_front(&mut self, count: usize) -> Vec<(u64, StagedBlock)> {
        let front = self.stage.front();
        let blocks = (front..).zip(self.stage.take_front(count)).collect();
        // Nothing of the stage is on its way: what stands before the front now is durable, or put off.
        self.commit.note_committed(self.stage.front());
        self.note_stage_taken();
        blocks
    }

    /// How many blocks at the front of the stage can go home now: not those that a checkpoint batch is
    /// writing, which are older, and of those that rest only so many at the front as are `needed`.
    fn blocks_to_spill(&self, needed: usize) -> usize {
        let Front { blocks, .. } =
            self.stage.measure_front(WRITES_MAX, SPILL_BYTES_MAX / SECTOR as u64);
        let blocks = blocks.min(self.stage.singles_at_front());
        let stays = |(at, block): (usize, u64)| {
            let start = block * BLOCK_SECTORS;
            let is_older_underway = self.checkpoint.touches(start, start + BLOCK_SECTORS);
            is_older_underway || (at >= needed && self.failed_homes.rests(block, self.now))
        };
        self.stage.blocks().take(blocks).enumerate().position(stays).unwrap_or(blocks)
    }

    /// The writes that bring blocks home, neighbours merged unless each is to be written `alone`.
    pub(super) fn spill_commands(&self, blocks: &[StagedBlock], alone: bool) -> Vec<Command> {
        let mut pieces: Vec<(u64, Payload, bool)> = Vec::new();
        for staged in blocks {
            let alone = alone || self.failed_homes.is_suspect(staged.block);
            for piece in &staged.pieces {
                let sector = staged.block * BLOCK_SECTORS + u64::from(piece.first);
                pieces.push((sector * SECTOR as u64, piece.data.clone(), alone));
            }
        }
        pieces.sort_by_key(|(offset, ..)| *offset);
        let mut commands: Vec<Command> = Vec::new();
        let mut end = u64::MAX;
        for (offset, data, alone) in pieces {
            let Some(home) = self.setup.layout.home(offset) else { continue };
            let start = home.device_offset;
            let len = data.len() as u64;
            match commands.last_mut() {
                Some(Command::Write { parts, .. }) if end == start && !alone => parts.push(data),
                _ => {
                    commands.push(Command::Write {
                        offset: start,
                        parts: vec![data],
                        durable: false,
                    });
                }
            }
            end = if alone { u64::MAX } else { start + len };
        }
        // One durable transfer, or many and one flush at the end.
        if let [Command::Write { durable, .. }] = commands.as_mut_slice() {
            *durable = self.lanes.main.flusher.is_needed();
        }
        commands
    }

    pub(crate) fn on_spill(
        &mut self,
        extent: Option<(u64, u64)>,
        result: Result<Payload, DiskError>,
    ) {
        let Some(spill) = self.spill.as_mut() else { return };
        if let (Err(error), Some((offset, len))) = (result, extent) {
            spill.failed.push(offset..offset + len);
            spill.problem = Some((error.kind, told(&error)));
        }
        spill.remaining -= 1;
        if spill.remaining > 0 {
            return;
        }
        if spill.volatile {
            self.lanes.main.flusher.note_volatile_write();
        }
        if self.spill_again() {
            return;
        }
        let Some(spill) = self.spill.as_mut() else { return };
        let volatile = spill.volatile;
        let blocks = std::mem::take(&mut self.taken).blocks;
        if !blocks.is_empty() {
            self.commit.note_written();
        }
        for staged in &blocks {
            self.failed_homes.note_written(staged.block);
            for piece in &staged.pieces {
                let sector = staged.block * BLOCK_SECTORS + u64::from(piece.first);
                self.displace(sector, u64::from(piece.len), volatile);
            }
        }
        let flush_ticket = if volatile { self.lanes.main.flusher.want() } else { 0 };
        let invalid_target = self.want_invalidations();
        if let Some(spill) = self.spill.as_mut() {
            spill.follows = Some(Follows { flush_ticket, invalid_target });
        }
        self.retry_blocked();
    }

    /// Blocks of which a transfer failed are written once more, each alone; those for which that was no use are
    /// put off. Says whether transfers are under way again.
    fn spill_again(&mut self) -> bool {
        let Some(spill) = self.spill.as_mut().filter(|spill| !spill.failed.is_empty()) else {
            return false;
        };
        if spill.is_alone {
            return self.spill_alone_failed();
        }
        let failed = std::mem::take(&mut spill.failed);
        spill.attempts += 1;
        let (attempts, front) = (spill.attempts, spill.front);
        let problem = spill.problem.clone();
        let layout = self.setup.layout;
        let is_missed = |staged: &StagedBlock| {
            staged.pieces.iter().any(|piece| {
                let sector = staged.block * BLOCK_SECTORS + u64::from(piece.first);
                let home = layout.home(sector * SECTOR as u64).map_or(0, |home| home.device_offset);
                let end = home + piece.data.len() as u64;
                failed.iter().any(|range| range.start < end && home < range.end)
            })
        };
        // Where there is no space, another attempt a moment later finds none either.
        let is_short = problem.as_ref().is_some_and(|(kind, _)| *kind == DiskErrorKind::OutOfSpace);
        if attempts < ATTEMPTS_MAX && !is_short {
            let missed: Vec<StagedBlock> =
                self.taken.blocks.iter().filter(|staged| is_missed(staged)).cloned().collect();
            let mut commands = self.spill_commands(&missed, true);
            // Some were written before: only a flush makes all of them durable.
            for command in &mut commands {
                if let Command::Write { durable, .. } = command {
                    *durable = false;
                }
            }
            if let Some(spill) = self.spill.as_mut() {
                spill.remaining = commands.len();
                spill.volatile = self.lanes.main.flusher.is_needed();
            }
            self.issue_spill(commands);
            return true;
        }
        let Some((_, error)) = problem else { return false };
        let taken = std::mem::take(&mut self.taken).blocks;
        let (missed, written): (Vec<_>, Vec<_>) =
            (front..).zip(taken).partition(|(_, staged)| is_missed(staged));
        self.taken = Taken::new(written.into_iter().map(|(_, staged)| staged).collect());
        for (_, staged) in &missed {
            if is_short {
                self.failed_homes.note_short_of_space(staged.block, self.now);
            } else {
                self.failed_homes.note_failed(staged.block, true, self.now);
            }
        }
        let told = format!("no log has room and writing in place failed: {}", error.detail);
        let error = RequestError::new(error.kind, told);
        self.put_off(missed, &error);
        if self.taken.is_empty() && self.nobody_passes() {
            self.refuse_who_waits_for_room(&error);
        }
        false
    }

    /// What went home alone goes into a log: nothing of it counts as written.
    fn spill_alone_failed(&mut self) -> bool {
        let Some(spill) = self.spill.take() else { return true };
        let kind = spill.problem.map_or(DiskErrorKind::Io, |(kind, _)| kind);
        self.log_after_all(spill.front, kind);
        self.commit.note_committed(spill.stage_end);
        self.retry_blocked();
        true
    }

    /// Ends the spill if it is done. True while records that carry staged blocks must wait.
    pub(crate) fn continue_spill(&mut self) -> bool {
        let Some(spill) = &self.spill else { return false };
        let Some(follows) = spill.follows else { return true };
        let is_flushed = self.lanes.main.flusher.is_done(follows.flush_ticket);
        if !is_flushed || self.invalidations.committed() < follows.invalid_target {
            return false;
        }
        let (stage_end, is_alone) = (spill.stage_end, spill.is_alone);
        self.commit.note_committed(stage_end);
        self.spill = None;
        if is_alone {
            self.answer_who_went_home(stage_end);
        }
        self.retry_waiting_for_room();
        // It waits for a spill to end, and there may be no other event.
        self.advance_checkpoint();
        false
    }
}
