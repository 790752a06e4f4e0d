//! The law of block status: what is called zeros without reading reads as zeros.

use nearhead_service::Extent;
use nearhead_swarm::content::SECTOR;

/// What is called zeros without reading reads as zeros. `found` are the versions of the sectors from `start` on.
pub fn only_zeros_are_called_zeros(
    start: u64,
    extents: &[Extent],
    found: &[u64],
) -> Result<(), String> {
    let mut at = 0;
    for extent in extents {
        let end = at + (extent.len / SECTOR) as usize;
        let wrong = (at..end).find(|index| extent.zero && found[*index] != 0);
        if let Some(index) = wrong {
            let (sector, version) = (start + index as u64, found[index]);
            return Err(format!("sector {sector} is called zeros and reads as version {version}"));
        }
        at = end;
    }
    if at == found.len() {
        return Ok(());
    }
    Err(format!("the status of {} sectors from {start} on ends after {at}", found.len()))
}
