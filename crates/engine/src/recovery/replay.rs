//! What a snapshot and the records behind it say together: the map, the logs and the journal as they were, and where
//! the next record goes on.
//!
//! Every recovery goes through here, one record at a time and in their order, also a rebuild; each is applied as it was
//! when it was written ([`Recorded::apply`]). Nothing is read and nothing written.

use super::chain::Link;
use super::find::Found;
use super::load::LoadedMap;
use crate::state::journal::JournalPlace;
use crate::state::{CopyNumber, Fate, Recorded};
use nearhead_format::Layout;
use nearhead_format::snapshot::{FragmentCell, HintRange};

/// Begins with the map of a snapshot that includes all records up to `sequence`.
pub(super) fn begin(
    layout: &Layout,
    journal: Option<JournalPlace>,
    map: LoadedMap,
    (hints, fragments): (Vec<HintRange>, Vec<FragmentCell>),
    sequence: u64,
) -> Recorded {
    let mut recorded = match map {
        LoadedMap::Whole(map) => Recorded::with_map(map, layout, journal),
        LoadedMap::Paged(paged, logs) => Recorded::with_pages(*paged, *logs, journal),
    };
    recorded.begin_after(sequence);
    for cell in &fragments {
        recorded.adopt_cell(cell);
    }
    for hint in hints {
        recorded.hints_mut().insert(hint.start_sector..hint.start_sector + hint.len_sectors);
    }
    recorded
}

/// Applies one step.
pub(super) fn replay(recorded: &mut Recorded, link: &Link) {
    match link {
        Link::Lost { last, ranges } => recorded.lose(*last, ranges),
        Link::Unknown { last } => recorded.pass_over(*last),
        Link::Record(found) => replay_record(recorded, found),
    }
}

fn replay_record(recorded: &mut Recorded, found: &Found) {
    let is_sound = |chunk| found.chunks_sound.get(chunk).copied().unwrap_or(false);
    let fate = |copy| match copy {
        CopyNumber::Chunk(chunk) if !is_sound(chunk) => Fate::Damaged,
        // What was moved is verified when it is read, as all that a snapshot names.
        CopyNumber::Chunk(_) | CopyNumber::Move(_) => Fate::Counts,
    };
    recorded.apply(&found.header, found.blocks, fate);
    if let (Some(journal), Some((position, blocks))) = (recorded.journal_mut(), found.journal) {
        journal.replay(position, blocks);
    }
    recorded.note_logged(u64::from(found.blocks) * recorded.logs().block_bytes() as u64);
}
