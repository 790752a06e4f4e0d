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
    /// Stage position committed when all is done.
    stage_end: u64,
    /// Set when transfers are done: the invalidations that must follow.
    invalid_target: Option<u64>,
}

impl Engine {
    pub(crate) fn start_spill(&mut self) {
        if self.spill.is_some() || self.checkpoint.is_copying() {
            return;
        }
        if self.stage.front_is_group() {
            // Waits for the checkpoint to make room, or for the snapshot that frees what records
            // since the last one protect; if there is nothing of either, room will never come.
            if self.checkpoint.found_nothing() && self.commit.bytes_since_snapshot > 0 {
                self.demand_snapshot_for_room();
            } else if self.checkpoint.nothing_left() && self.transferring.is_empty() {
                self.fail(
                    "no log has room for an atomic write and nothing can be checkpointed".into(),
                );
            }
            return;
        }
        let Front { blocks, .. } =
            self.stage.measure_front(WRITES_MAX, SPILL_BYTES_MAX / SECTOR as u64);
        self.taken = Taken::new(self.stage.take_front(blocks.min(self.stage.singles_at_front())));
        self.stats.spills += 1;
        let commands = self.spill_commands();
        self.spill = Some(Spill {
            remaining: commands.len(),
            stage_end: self.stage.front(),
            invalid_target: None,
        });
        for command in commands {
            self.issue(Class::Foreground, Purpose::Spill, command);
        }
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
        let durable = self.flusher.is_needed();
        for (offset, data) in pieces {
            let Some(home) = self.setup.layout.home(offset) else { continue };
            let start = home.device_offset;
            let len = data.len() as u64;
            match commands.last_mut() {
                Some(Command::Write { parts, .. }) if end == start => parts.push(data),
                _ => commands.push(Command::Write { offset: start, parts: vec![data], durable }),
            }
            end = start + len;
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
        let blocks = std::mem::take(&mut self.taken).blocks;
        for staged in &blocks {
            for piece in &staged.pieces {
                let sector = staged.block * BLOCK_SECTORS + u64::from(piece.first);
                self.displace(sector, u64::from(piece.len), false);
            }
        }
        let invalid_target = self.want_invalidations();
        if let Some(spill) = self.spill.as_mut() {
            spill.invalid_target = Some(invalid_target);
        }
        self.retry_blocked();
    }

    /// Ends the spill if it is done. True while records that carry staged blocks must wait.
    pub(crate) fn continue_spill(&mut self) -> bool {
        let Some(spill) = &self.spill else { return false };
        let Some(invalid_target) = spill.invalid_target else { return true };
        if self.invalidations.committed() < invalid_target {
            return false;
        }
        self.commit.committed = spill.stage_end;
        self.spill = None;
        self.retry_waiting_for_room();
        false
    }
}
