//! The writes that bring staged blocks home, sorted and merged.

use super::FailedHomes;
use crate::core::Core;
use crate::stage::StagedBlock;
use crate::state::sectors::SECTOR;
use nearhead_disk::{Command, Payload};
use nearhead_format::Layout;
use std::ops::Range;

/// The writes that bring blocks home, neighbours merged unless each is to be written `alone`.
pub(super) fn home_commands(
    core: &Core,
    failed: &FailedHomes,
    blocks: &[StagedBlock],
    alone: bool,
) -> Vec<Command> {
    let mut pieces: Vec<(u64, Payload, bool)> = Vec::new();
    for staged in blocks {
        let alone = alone || failed.is_suspect(staged.block());
        for (sector, piece) in staged.homes() {
            pieces.push((sector * SECTOR as u64, piece.data().clone(), alone));
        }
    }
    pieces.sort_by_key(|(offset, ..)| *offset);
    let mut commands: Vec<Command> = Vec::new();
    let mut end = u64::MAX;
    for (offset, data, alone) in pieces {
        let Some(home) = core.setup().layout.home(offset) else { continue };
        let start = home.device_offset;
        let len = data.len() as u64;
        match commands.last_mut() {
            Some(Command::Write { parts, .. }) if end == start && !alone => parts.push(data),
            _ => {
                let parts = vec![data];
                commands.push(Command::Write { offset: start, parts, durable: false });
            }
        }
        end = if alone { u64::MAX } else { start + len };
    }
    // One durable transfer, or many and one flush at the end.
    if let [Command::Write { durable, .. }] = commands.as_mut_slice() {
        *durable = core.flusher().is_needed();
    }
    commands
}

/// Whether any piece of the block shares a device byte with one of these ranges.
pub(super) fn touches_home(layout: &Layout, staged: &StagedBlock, ranges: &[Range<u64>]) -> bool {
    staged.homes().any(|(sector, piece)| {
        let home = layout.home(sector * SECTOR as u64).map_or(0, |home| home.device_offset);
        let end = home + piece.data().len() as u64;
        ranges.iter().any(|range| range.start < end && home < range.end)
    })
}
