//! What a power cut leaves of a write that was not safe: per physical sector old or new.

use crate::store::Store;
use nearhead_basics::SplitMix;
use nearhead_disk::{DiskError, Payload};

/// Sectors up to which a torn write is torn in arbitrary places, not only in one.
const SCATTERED_SECTORS_MAX: u64 = 1 << 16;

/// Sizes of a disk's sectors in bytes.
#[derive(Clone, Copy)]
pub(crate) struct SectorSizes {
    pub(crate) logical: u64,
    pub(crate) physical: u64,
}

/// Lets `random` decide which physical sectors of a write at logical sector `lbn` reach `store`.
pub(crate) fn tear(
    store: &mut dyn Store,
    sizes: SectorSizes,
    lbn: u64,
    payload: &Payload,
    random: &mut SplitMix,
) -> Result<(), DiskError> {
    let sector = sizes.logical;
    let physical = sizes.physical / sector;
    let sectors = payload.len() as u64 / sector;
    // All, nothing, up to some place, or each one by itself.
    let fate = random.below(4);
    let prefix = random.below(sectors + 1);
    let mut done = 0;
    while done < sectors {
        let unit = physical - (lbn + done) % physical;
        let unit = if sectors > SCATTERED_SECTORS_MAX { sectors } else { unit };
        let unit = unit.min(sectors - done);
        let kept = match fate {
            0 => unit,
            1 => 0,
            2 => prefix.saturating_sub(done).min(unit),
            _ if random.coin() => unit,
            _ => 0,
        };
        // Within a physical sector it is all or nothing.
        let kept = if kept == unit || unit > physical { kept } else { 0 };
        if kept > 0 {
            let range = (done * sector) as usize..((done + kept) * sector) as usize;
            store.write_payload((lbn + done) * sector, &payload.slice(range))?;
        }
        done += unit;
    }
    Ok(())
}
