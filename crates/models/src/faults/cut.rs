//! What a power cut leaves of the writes that were not safe.
//!
//! Each write survives whole, not at all, up to some sector, or page by page: a 4 KiB page is kept,
//! dropped or mixed, and each sector of a mixed page is kept, dropped or, where checksums cover it,
//! garbled: its left part new and its right part old, the other way round, or neither anywhere. So
//! anything between two flushes may be there without what came before it.

use super::kinds::{FaultCounts, FaultKind};
use super::plan::FaultPlan;
use crate::crash::{UnflushedWrite, VolatileCache};
use crate::store::{MemoryStore, Store};
use nearhead_basics::SplitMix;
use nearhead_disk::{Payload, SECTOR_BYTES};

const PAGE_BYTES: u64 = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    Drop,
    Garble,
}

/// The content after a cut now.
pub(super) fn outcome(
    cache: &VolatileCache,
    sector_bytes: u32,
    plan: &FaultPlan,
    random: &mut SplitMix,
    counts: &mut FaultCounts,
) -> MemoryStore {
    let mut image = cache.safe().clone();
    for write in cache.unflushed() {
        let fates = fates(write, sector_bytes, plan, random);
        note(&fates, counts);
        cache.apply(&mut image, write, &|sector| fates[sector] == Fate::Keep);
        if fates.contains(&Fate::Garble) {
            counts.note(FaultKind::CutGarbled);
            garble(&mut image, write, &fates, sector_bytes, random);
        }
    }
    image
}

fn note(fates: &[Fate], counts: &mut FaultCounts) {
    if fates.iter().all(|fate| *fate == Fate::Drop) {
        counts.note(FaultKind::CutLost);
    } else if fates.contains(&Fate::Drop) {
        counts.note(FaultKind::CutTorn);
    }
}

/// The fate of each sector.
fn fates(
    write: &UnflushedWrite,
    sector_bytes: u32,
    plan: &FaultPlan,
    random: &mut SplitMix,
) -> Vec<Fate> {
    let sectors = write.sectors(sector_bytes);
    let garbles = plan.has(FaultKind::CutGarbled) && plan.is_verified(write.offset, write.len());
    match random.below(4) {
        0 => vec![Fate::Keep; sectors],
        1 => vec![Fate::Drop; sectors],
        2 => {
            let kept = random.below(sectors as u64 + 1) as usize;
            let mut fates = vec![Fate::Drop; sectors];
            fates[..kept].fill(Fate::Keep);
            if garbles && kept < sectors {
                fates[kept] = Fate::Garble;
            }
            fates
        }
        _ => {
            let (mut fates, mut page, mut page_fate) = (Vec::with_capacity(sectors), u64::MAX, 0);
            for sector in 0..sectors as u64 {
                let at = (write.offset + sector * u64::from(sector_bytes)) / PAGE_BYTES;
                if at != page {
                    (page, page_fate) = (at, random.below(3));
                }
                fates.push(match page_fate {
                    0 => Fate::Keep,
                    1 => Fate::Drop,
                    _ if garbles && random.below(4) == 0 => Fate::Garble,
                    _ if random.coin() => Fate::Keep,
                    _ => Fate::Drop,
                });
            }
            fates
        }
    }
}

fn garble(
    image: &mut MemoryStore,
    write: &UnflushedWrite,
    fates: &[Fate],
    sector_bytes: u32,
    random: &mut SplitMix,
) {
    let size = sector_bytes as usize;
    let new = content_of(write);
    for (sector, _) in fates.iter().enumerate().filter(|(_, fate)| **fate == Fate::Garble) {
        if write.is_superseded(sector) {
            continue;
        }
        let at = write.offset + (sector * size) as u64;
        let mut bytes = vec![0; size];
        // A store in memory cannot fail.
        let _ = image.read(at, &mut bytes);
        let new = &new[sector * size..(sector + 1) * size];
        let split = 1 + random.below(size as u64 - 1) as usize;
        match random.below(3) {
            0 => bytes[..split].copy_from_slice(&new[..split]),
            1 => bytes[split..].copy_from_slice(&new[split..]),
            _ => fill(&mut bytes, random),
        }
        let _ = image.write(at, &bytes);
    }
}

/// Random bytes.
pub(super) fn fill(bytes: &mut [u8], random: &mut SplitMix) {
    for chunk in bytes.chunks_mut(8) {
        let word = random.next_u64().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

fn content_of(write: &UnflushedWrite) -> Vec<u8> {
    debug_assert!(write.len().is_multiple_of(SECTOR_BYTES));
    let mut content = vec![0; write.len() as usize];
    let mut at = 0;
    for part in &write.parts {
        Payload::copy_to(part, &mut content[at..at + part.len()]);
        at += part.len();
    }
    content
}
