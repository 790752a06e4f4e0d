//! What a snapshot and the records behind it say together: the map, the logs and the journal as they were, and where
//! the next record goes on.
//!
//! Every recovery goes through here, one record at a time and in their order, also a rebuild; each is applied as it was
//! when it was written ([`Core::apply`]). Nothing is read and nothing written.

use super::chain::Link;
use super::find::Found;
use crate::config::JournalPlace;
use crate::state::map::Map;
use crate::state::{Core, Fate};
use nearhead_format::Layout;
use nearhead_format::snapshot::HintRange;

/// Begins with the map of a snapshot that includes all records up to `sequence`.
pub(super) fn begin(
    layout: &Layout,
    journal: Option<JournalPlace>,
    map: Map,
    hints: Vec<HintRange>,
    sequence: u64,
) -> Core {
    let mut core = Core::with_map(map, layout, journal);
    core.begin_after(sequence);
    for hint in hints {
        core.hints_mut().insert(hint.start_sector..hint.start_sector + hint.len_sectors);
    }
    core
}

/// Applies one step.
pub(super) fn replay(core: &mut Core, link: &Link) {
    match link {
        Link::Lost { last, ranges } => core.lose(*last, ranges),
        Link::Unknown { last } => core.pass_over(*last),
        Link::Record(found) => replay_record(core, found),
    }
}

fn replay_record(core: &mut Core, found: &Found) {
    let is_sound = |chunk| found.chunks_sound.get(chunk).copied().unwrap_or(false);
    let fate = |chunk| if is_sound(chunk) { Fate::Counts } else { Fate::Damaged };
    core.apply(&found.header, found.blocks, fate);
    if let (Some(journal), Some((position, blocks))) = (core.journal.as_mut(), found.journal) {
        journal.replay(position, blocks);
    }
    core.note_logged(u64::from(found.blocks) * core.logs.block_bytes() as u64);
}
