//! Disks that keep what is written to them, for file systems: their metadata is read back.

use super::{
    FigureDisk, HddOptions, Queue, System, hard_disk_with_content, made_for, member_on,
    striped_over,
};
use crate::error::FigureError;
use crate::metered::Metered;
use nearhead_models::{HddModel, MemoryStore};

/// One of the disk `name`, or several as one RAID-0 made for `system`, served in order, write caches off.
pub(crate) fn kept_disk_for(
    system: &System,
    name: &str,
    disks: u32,
) -> Result<FigureDisk, FigureError> {
    if disks == 1 {
        return hard_disk_with_content(name, Queue::InOrder);
    }
    let members = (0..disks).map(|index| kept_member(name, index));
    made_for(system, striped_over(name, members.collect::<Result<_, _>>()?)?)
}

/// So many of the disk `name`, no two of which turn alike.
pub(crate) fn kept_several(name: &str, count: u32) -> Result<Vec<FigureDisk>, FigureError> {
    let one = |index| Ok(Metered::new(Box::new(kept_member(name, index)?) as Box<_>));
    (0..count).map(one).collect()
}

fn kept_member(name: &str, index: u32) -> Result<HddModel, FigureError> {
    let options = HddOptions { write_cache: Some(false), ..Queue::InOrder.options() };
    member_on(name, index, options, Box::new(MemoryStore::new()))
}
