//! The copy of a record's header in the map's own journal, if there is a map device.

use super::Commit;
use crate::core::Core;
use crate::disk::dispatch::Purpose;
use crate::failure::Failure;
use crate::placement::Need;
use crate::state::journal::{MapJournal, entry_blocks};
use nearhead_disk::{Buffer, Class, Command, Payload};
use nearhead_format::map_device::JOURNAL_BLOCK_BYTES;

impl Commit {
    /// Writes the copy of a record's header; says where, if there is a journal.
    pub(super) fn journal_header(&mut self, core: &mut Core, header: &Buffer) -> Option<u32> {
        let journal = core.journal_mut()?;
        let blocks = entry_blocks(header.len());
        let Some(position) = journal.ring().place(Need { blocks, reserve: 0 }) else {
            let problem = "no place in the map's journal".to_owned();
            core.fail(Failure::Internal { problem });
            return None;
        };
        journal.ring_mut().advance(position, blocks);
        self.journal_from.get_or_insert(position);
        let command = journal_command(core, position, header)?;
        core.issue_on(core.setup().map.lane, Class::Durable, Purpose::Journal, command);
        Some(position)
    }

    /// Journal block of the record in flight, if there is one and a journal.
    pub(crate) fn journal_from(&self) -> Option<u32> {
        self.journal_from
    }
}

/// Device byte of a block.
pub(super) fn journal_offset(core: &Core, position: u32) -> Option<u64> {
    Some(core.journal()?.bytes_of(position, position).start)
}

/// The write of that copy.
pub(super) fn journal_command(core: &Core, position: u32, header: &Buffer) -> Option<Command> {
    let offset = journal_offset(core, position)?;
    let blocks = entry_blocks(header.len());
    let padding = blocks as usize * JOURNAL_BLOCK_BYTES as usize - header.len();
    let mut parts = vec![Payload::Bytes(header.clone())];
    if padding > 0 {
        parts.push(Payload::Zeros(padding));
    }
    Some(Command::Write { offset, parts, durable: core.map_is_volatile() })
}

/// Wherever else a record goes, its header is copied to the journal once more.
pub(super) fn journal_has_place(core: &Core) -> bool {
    core.journal().is_none_or(MapJournal::has_room)
}
