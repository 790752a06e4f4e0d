//! Changes that a disk has taken and not brought to the medium: what they mean for reads, flushes
//! and power cuts, the same for flash and for shingled disks.
//!
//! They are kept by their number, older before newer. One is *volatile* if the host may take it for
//! done: then reads see it, a flush waits for it, and a power cut may lose it. One that is not
//! volatile is seen by nobody before it is on the medium, but a power cut may leave some of it.

use crate::overlay::overlay;
use crate::store::Store;
use crate::tear::{SectorSizes, tear};
use nearhead_basics::SplitMix;
use nearhead_disk::{BufferMut, DiskError, Payload};
use std::collections::BTreeMap;
use std::ops::Range;

/// A change on its way to the medium.
pub(crate) trait Pending {
    /// Sectors of the host.
    fn range(&self) -> &Range<u64>;
    /// Its bytes.
    fn parts(&self) -> &[Payload];
    /// Whether the host may take it for done before it is.
    fn is_volatile(&self) -> bool;
}

/// Whether the disk's memory has all of `range`, from changes that were answered early.
pub(crate) fn holds_all<P: Pending>(pending: &BTreeMap<u64, P>, range: &Range<u64>) -> bool {
    let mut at = range.start;
    while at < range.end {
        let holds = |change: &&P| change.is_volatile() && change.range().contains(&at);
        let Some(change) = pending.values().find(holds) else { return false };
        at = change.range().end;
    }
    true
}

/// The bytes a host sees: what is stored, and over it what was answered and is not stored yet.
pub(crate) fn content<P: Pending>(
    pending: &BTreeMap<u64, P>,
    store: &dyn Store,
    sector_bytes: u64,
    range: &Range<u64>,
) -> Result<Payload, DiskError> {
    let (start, end) = (range.start * sector_bytes, range.end * sector_bytes);
    if !store.keeps_content() {
        return Ok(Payload::Phantom((end - start) as usize));
    }
    let mut bytes = BufferMut::zeroed((end - start) as usize);
    store.read(start, &mut bytes)?;
    for change in pending.values().filter(|change| change.is_volatile()) {
        overlay(&mut bytes, start, change.range().start * sector_bytes, change.parts());
    }
    Ok(Payload::Bytes(bytes.freeze()))
}

/// Lets `random` decide which physical sectors of a change reach the medium in a power cut.
pub(crate) fn tear_parts(
    store: &mut dyn Store,
    sizes: SectorSizes,
    first_sector: u64,
    parts: &[Payload],
    random: &mut SplitMix,
) -> Result<(), DiskError> {
    let mut at = first_sector;
    let mut result = Ok(());
    for part in parts {
        result = result.and(tear(store, sizes, at, part, random));
        at += part.len() as u64 / sizes.logical;
    }
    result
}

/// Flushes that wait. One covers every volatile change with a number below its own.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    waiting: Vec<u64>,
}

impl Flushes {
    /// Books the flush with this number; whether it has to wait.
    pub(crate) fn begin<P: Pending>(&mut self, id: u64, pending: &BTreeMap<u64, P>) -> bool {
        let waits = pending.values().any(Pending::is_volatile);
        if waits {
            self.waiting.push(id);
        }
        waits
    }

    /// Takes those that wait for nothing any more.
    pub(crate) fn take_ready<P: Pending>(&mut self, pending: &BTreeMap<u64, P>) -> Vec<u64> {
        let oldest = pending.iter().find(|(_, change)| change.is_volatile()).map(|(id, _)| *id);
        let waits = |id: &u64| oldest.is_some_and(|oldest| oldest < *id);
        let (waiting, ready) = std::mem::take(&mut self.waiting).into_iter().partition(waits);
        self.waiting = waiting;
        ready
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }
}
