//! When no log has room: staged blocks go to their homes after all.
//!
//! The paper's last resort (law 6: log-full is back-pressure, then in place). The blocks leave the
//! stage as a batch, are written home sorted and merged, and count as committed once the transfers
//! are durable and every logged copy they made stale is invalidated. An atomic group is never
//! spilled, since homes cannot be written all-or-nothing; it waits for room.

use crate::dispatch::Purpose;
use crate::engine::Engine;
use crate::sectors::{BLOCK_SECTORS, SECTOR};
use crate::stage::{Front, Taken};
use nearhead_disk::{Class, Command, DiskError, Payload};
use nearhead_format::record::WRITES_MAX;

/// Most bytes spilled at once.
const SPILL_BYTES_MAX: u64 = 1 << 20;

/// A batch on its way home.
#[derive(Debug)]
pub(crate) struct Spill {
    /// Transfers still under way.
    remaining: usize,
    /// Whether a flush must follow them.
    volatile: bool,
    /// Stage position committed when all is done.
    stage_end: u64,
    /// Set when transfers are done: what must follow.
    follows: Option<Follows>,
}

/// What makes a spill whole once its transfers are done.
#[derive(Clone, Copy, Debug)]
struct Follows {
    flush_ticket: u64,
    invalid_target: u64,
}

impl Engine {
    pub(crate) fn start_spill(&mut self) {
        if self.spill.is_some() {
            return;
        }
        if self.stage.front_is_group() {
            if self.checkpoint.is_copying() {
                return;
            }
            // Waits for the checkpoint to make room, or for the snapshots that free what records
            // since the last one protect and settle what in-place writes made stale; if there is
            // nothing of all that, room will never come.
            let snapshots_free = self.snapshotter.is_busy()
                || self.commit.bytes_since_snapshot > 0
                || !self.invalidations.is_empty();
            // Where snapshots fail, only a checkpoint of everything that leaves nothing ends the wait.
            let is_no_use = if self.snapshotter.lasting_problem().is_some() {
                self.checkpoint.nothing_left()
            } else {
                self.checkpoint.found_nothing()
            };
            if is_no_use && snapshots_free {
                self.demand_snapshot_for_room();
            } else if self.checkpoint.nothing_left() && self.transferring.is_empty() {
                self.fail(
                    "no log has room for an atomic write and nothing can be checkpointed".into(),
                );
            }
            return;
        }
        let blocks = self.blocks_to_spill();
        if blocks == 0 {
            return;
        }
        self.taken = Taken::new(self.stage.take_front(blocks));
        self.stats.spills += 1;
        let commands = self.spill_commands();
        self.spill = Some(Spill {
            remaining: commands.len(),
            volatile: self.flusher.is_needed() && commands.len() > 1,
            stage_end: self.stage.front(),
            follows: None,
        });
        for command in commands {
            self.issue(Class::Foreground, Purpose::Spill, command);
        }
    }

    /// How many blocks at the front of the stage can go home now: not those that a checkpoint batch is
    /// writing, which are older.
    fn blocks_to_spill(&self) -> usize {
        let Front { blocks, .. } =
            self.stage.measure_front(WRITES_MAX, SPILL_BYTES_MAX / SECTOR as u64);
        let blocks = blocks.min(self.stage.singles_at_front());
        let is_older_underway = |block: u64| {
            let start = block * BLOCK_SECTORS;
            self.checkpoint.touches(start, start + BLOCK_SECTORS)
        };
        self.stage.blocks().take(blocks).position(is_older_underway).unwrap_or(blocks)
    }

    fn spill_commands(&self) -> Vec<Command> {
        let mut pieces: Vec<(u64, Payload)> = Vec::new();
        for staged in &self.taken.blocks {
            for piece in &staged.pieces {
                let sector = staged.block * BLOCK_SECTORS + u64::from(piece.first);
                pieces.push((sector * SECTOR as u64, piece.data.clone()));
            }
        }
        pieces.sort_by_key(|(offset, _)| *offset);
        let mut commands: Vec<Command> = Vec::new();
        let mut end = u64::MAX;
        for (offset, data) in pieces {
            let Some(home) = self.setup.layout.home(offset) else { continue };
            let start = home.device_offset;
            let len = data.len() as u64;
            match commands.last_mut() {
                Some(Command::Write { parts, .. }) if end == start => parts.push(data),
                _ => {
                    commands.push(Command::Write {
                        offset: start,
                        parts: vec![data],
                        durable: false,
                    });
                }
            }
            end = start + len;
        }
        // One durable transfer, or many and one flush at the end.
        if let [Command::Write { durable, .. }] = commands.as_mut_slice() {
            *durable = self.flusher.is_needed();
        }
        commands
    }

    pub(crate) fn on_spill(&mut self, result: Result<Payload, DiskError>) {
        if let Err(error) = result {
            return self.fail(format!("no log has room and writing in place failed: {error}"));
        }
        let Some(spill) = self.spill.as_mut() else { return };
        spill.remaining -= 1;
        if spill.remaining > 0 {
            return;
        }
        let volatile = spill.volatile;
        if volatile {
            self.flusher.note_volatile_write();
        }
        let blocks = std::mem::take(&mut self.taken).blocks;
        for staged in &blocks {
            for piece in &staged.pieces {
                let sector = staged.block * BLOCK_SECTORS + u64::from(piece.first);
                self.displace(sector, u64::from(piece.len), volatile);
            }
        }
        let flush_ticket = if volatile { self.flusher.want() } else { 0 };
        let invalid_target = self.want_invalidations();
        if let Some(spill) = self.spill.as_mut() {
            spill.follows = Some(Follows { flush_ticket, invalid_target });
        }
        self.retry_blocked();
    }

    /// Ends the spill if it is done. True while records that carry staged blocks must wait.
    pub(crate) fn continue_spill(&mut self) -> bool {
        let Some(spill) = &self.spill else { return false };
        let Some(follows) = spill.follows else { return true };
        let is_flushed = self.flusher.is_done(follows.flush_ticket);
        if !is_flushed || self.invalidations.committed() < follows.invalid_target {
            return false;
        }
        self.commit.committed = spill.stage_end;
        self.spill = None;
        self.retry_waiting_for_room();
        false
    }
}
