//! All logs of a volume: which exist in memory, which are claimed, where live data is.
//!
//! Only logs that hold something, protect something or are claimed have a `Ring`; an idle volume
//! of 20 TB costs one pointer per log. The set of claimed logs is what recovery will scan, so it is
//! kept small: a snapshot starts it anew.

mod bad_places;
pub(crate) mod chain;
mod live;
mod lost;
mod offered;
mod places;
mod reach;
mod recount;
mod ring;
mod scatter;

pub(crate) use reach::{GAP_BYTES_MAX, REACH_BYTES};
pub use recount::{LogCounts, Occupancy};
pub use ring::Need;
pub(crate) use ring::{NO_PREVIOUS, Ring, SLICES};

use chain::{Run, Use};
use nearhead_disk::Nanos;
use nearhead_format::Layout;
use nearhead_format::record::Claim;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::ops::Range;

/// A log this full is passed over while others have room.
const FULL_PCT: u32 = 97;
/// How long a log that could not be written rests at first; at most 64 times as long.
const REST_FIRST: Nanos = Nanos::from_secs(1);

/// The logs.
#[derive(Debug)]
pub struct Logs {
    layout: Layout,
    /// Where each of several devices has its logs, so that nobody works that out for each block.
    runs: Vec<Run>,
    /// Of each log of a chain whether it may be begun anew, kept as that changes; how many may only once there is a snapshot; and those
    /// that take copies.
    uses: Vec<Use>,
    spent: u32,
    held: BTreeSet<u32>,
    capacity_blocks: Option<NonZeroU32>,
    rings: Vec<Option<Box<Ring>>>,
    claimed: BTreeSet<u32>,
    claim_all: bool,
    /// Logs of which a claim is on its way, in a record or a snapshot: nothing else may begin them.
    promised: BTreeSet<u32>,
    /// Logs without room for a record worth its seek: what lets placement pass over a full neighbourhood quickly.
    full: Vec<bool>,
    /// Blocks in use of each log with a ring, and their sum.
    used_blocks: Vec<u32>,
    used_blocks_total: u64,
    /// Those of devices that take nothing any more.
    lost: Vec<Range<u32>>,
    /// Logs that could not be written, and until when they rest.
    resting: Vec<(u32, Nanos)>,
    /// Logs with places that did not take a record.
    with_bad_places: BTreeSet<u32>,
    /// Of which it is known what they hold, where the map is paged: no other can be cleaned.
    offered: Option<BTreeSet<u32>>,
    /// How many pieces of records each is needed for.
    pieces: BTreeMap<u32, u32>,
    /// Indices with a ring, so that nothing walks over 200,000 empty places.
    present: BTreeSet<u32>,
}

impl Logs {
    /// No log holds anything.
    /// With `claim_all` recovery finds every record elsewhere, and no log needs a claim.
    pub(crate) fn new(layout: &Layout, claim_all: bool) -> Self {
        let mut rings = Vec::new();
        rings.resize_with(layout.log_count() as usize, || None);
        let full = vec![false; rings.len()];
        let used_blocks = vec![0; rings.len()];
        Self {
            layout: *layout,
            runs: chain::runs(layout),
            uses: if layout.is_chain() { vec![Use::Free; rings.len()] } else { Vec::new() },
            spent: 0,
            held: BTreeSet::new(),
            capacity_blocks: NonZeroU32::new(layout.log_blocks()),
            rings,
            full,
            used_blocks,
            used_blocks_total: 0,
            claimed: BTreeSet::new(),
            claim_all,
            promised: BTreeSet::new(),
            lost: Vec::new(),
            resting: Vec::new(),
            with_bad_places: BTreeSet::new(),
            offered: None,
            pieces: BTreeMap::new(),
            present: BTreeSet::new(),
        }
    }

    /// Number of logs, used or not.
    pub fn count(&self) -> u32 {
        self.rings.len() as u32
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Ring> {
        self.rings.get(index as usize)?.as_deref()
    }

    pub(crate) fn get_or_create(&mut self, index: u32) -> Option<&mut Ring> {
        if self.rings.get(index as usize)?.is_none() {
            self.present.insert(index);
            self.rings[index as usize] = Some(Box::new(self.unused()?));
        }
        self.rings.get_mut(index as usize)?.as_deref_mut()
    }

    /// Logs by increasing distance from a device byte.
    pub fn near(&self, device_offset: u64) -> impl Iterator<Item = u32> + '_ {
        self.layout.logs_near(device_offset)
    }

    /// Whether the log can take the record.
    pub fn has_room(&self, index: u32, need: Need) -> bool {
        self.next_place(index, need).is_some()
    }

    /// The first block from its write position on where the log can take the record, if anywhere.
    pub fn next_place(&self, index: u32, need: Need) -> Option<u32> {
        match self.get(index) {
            _ if self.is_lost(index) => None,
            Some(ring) => ring.place(need).filter(|_| !ring.is_shut()),
            None => self.accepts(index, 0, need).then_some(0),
        }
    }

    /// The first block from `block` on where the log can take the record: of one in which records stand in order that block alone.
    pub fn place_from(&self, index: u32, block: u32, need: Need) -> Option<u32> {
        if self.layout.records_anywhere
            && !self.is_lost(index)
            && let Some(ring) = self.get(index)
        {
            return ring.place_from(block, need).filter(|_| !ring.is_shut());
        }
        self.accepts(index, block, need).then_some(block)
    }

    /// Whether a record may begin anywhere in a log.
    pub fn take_records_anywhere(&self) -> bool {
        self.layout.records_anywhere
    }

    /// Blocks of a log.
    pub fn blocks(&self) -> u32 {
        self.layout.log_blocks()
    }

    /// Whether the log can take the record at this block: blocks before it may be left out, as far as a recovery looks.
    pub fn accepts(&self, index: u32, block: u32, need: Need) -> bool {
        match self.get(index) {
            _ if self.is_lost(index) => false,
            Some(ring) => !ring.is_shut() && ring.accepts(block, need),
            None => {
                index < self.count() && self.unused().is_some_and(|ring| ring.accepts(block, need))
            }
        }
    }

    /// Size of a block of a log, in bytes.
    pub fn block_bytes(&self) -> usize {
        self.layout.log_block_bytes as usize
    }

    /// Device byte of a block of a log.
    pub fn block_offset(&self, index: u32, block: u32) -> Option<u64> {
        self.layout.log_block_offset(index, block)
    }

    /// A log that holds nothing.
    fn unused(&self) -> Option<Ring> {
        let gap_blocks_max = GAP_BYTES_MAX as u32 / self.layout.log_block_bytes;
        let ring = Ring::new(self.capacity_blocks?).with_gaps(gap_blocks_max);
        Some(if self.layout.records_anywhere { ring.scattered() } else { ring })
    }

    /// Whether the log did not take the last record that was meant for it.
    pub(crate) fn has_failed(&self, index: u32) -> bool {
        self.get(index).is_some_and(|ring| ring.failures > 0)
    }

    /// Whether the log had no room worth looking for when it was last written.
    pub fn is_full(&self, index: u32) -> bool {
        self.full.get(index as usize).copied().unwrap_or(true)
    }

    /// A record of `blocks` now stands at `position` of the log.
    pub(crate) fn advance(&mut self, index: u32, position: u32, blocks: u32) {
        if let Some(ring) = self.get_or_create(index) {
            ring.advance(position, blocks);
            self.measure(index);
        }
    }

    /// The log took a record.
    pub(crate) fn note_well(&mut self, index: u32) {
        if let Some(ring) = self.get_or_create(index) {
            ring.failures = 0;
        }
    }

    /// A record could not be written to the log: it is left alone for a while, longer each time in a row.
    pub(crate) fn rest(&mut self, index: u32, now: Nanos) {
        let Some(ring) = self.get_or_create(index) else { return };
        ring.quarantined = true;
        let until = now + Nanos(REST_FIRST.0 << ring.failures.min(6));
        ring.failures += 1;
        self.resting.retain(|(resting, _)| *resting != index);
        self.resting.push((index, until));
        self.note_use(index);
    }

    /// A record of `blocks` could not be written at `position` of the log: the next one there goes behind that place.
    pub(crate) fn note_bad(&mut self, index: u32, position: u32, blocks: u32, now: Nanos) {
        if let Some(ring) = self.get_or_create(index) {
            ring.note_bad(position, blocks, now);
            self.with_bad_places.insert(index);
            self.note_use(index);
        }
    }

    /// A record of `blocks` that is newer than the snapshot now beginning may stand at `position` of the log, which did not take it.
    pub(crate) fn note_twin(&mut self, index: u32, position: u32, blocks: u32) {
        if let Some(ring) = self.get_or_create(index) {
            ring.note_twin(position, blocks);
            self.note_use(index);
        }
    }

    /// Nothing of the log took a record, so it was not the place: all of it is tried again.
    pub(crate) fn forget_bad_places(&mut self, index: u32) {
        if let Some(ring) = self.rings.get_mut(index as usize).and_then(Option::as_mut) {
            ring.forget_bad_places();
            self.note_use(index);
        }
    }

    /// The log may be written again.
    pub(crate) fn end_rest(&mut self, index: u32) {
        self.resting.retain(|(resting, _)| *resting != index);
        if let Some(ring) = self.rings.get_mut(index as usize).and_then(Option::as_mut) {
            ring.quarantined = false;
            self.note_use(index);
        }
    }

    /// Logs, and places in them, that have rested long enough may be written again.
    pub(crate) fn end_rests(&mut self, now: Nanos) {
        let due: Vec<u32> =
            self.resting.iter().filter(|(_, until)| *until <= now).map(|(log, _)| *log).collect();
        for index in due {
            self.end_rest(index);
        }
        let rings = &mut self.rings;
        self.with_bad_places.retain(|index| {
            let ring = rings[*index as usize].as_mut();
            ring.is_some_and(|ring| ring.end_rests_of_places(now))
        });
    }

    /// When the next one has.
    pub(crate) fn rest_ends_at(&self) -> Option<Nanos> {
        self.resting.iter().map(|(_, until)| *until).min()
    }

    /// Takes note of how full every log is, after a recovery.
    pub(crate) fn measure_all(&mut self) {
        let present: Vec<u32> = self.present.iter().copied().collect();
        for index in present {
            self.measure(index);
        }
    }

    /// Takes note of how full the log is now.
    fn measure(&mut self, index: u32) {
        let (used, full) = self
            .get(index)
            .map_or((0, false), |ring| (ring.used_blocks(), ring.fill_pct() >= FULL_PCT));
        let known = &mut self.used_blocks[index as usize];
        self.used_blocks_total = self.used_blocks_total + u64::from(used) - u64::from(*known);
        *known = used;
        self.full[index as usize] = full;
        self.note_use(index);
    }

    /// Whether recovery is certain to scan the log.
    pub fn is_claimed(&self, index: u32) -> bool {
        self.claim_all || self.claimed.contains(&index)
    }

    /// The log with room that may be written, because it is claimed or no log needs a claim, whose group is nearest
    /// `device_offset`.
    pub fn nearest_claimed(&self, device_offset: u64, need: Need) -> Option<u32> {
        let here = self.layout.group_of(device_offset);
        let has_room = |index: &u32| self.has_room(*index, need);
        if self.claim_all {
            return self.near(device_offset).find(has_room);
        }
        let ahead = self.claimed.range(here..).copied().find(has_room);
        let behind = self.claimed.range(..here).rev().copied().find(has_room);
        [ahead, behind].into_iter().flatten().min_by_key(|index| index.abs_diff(here))
    }

    /// The claim with which `index` may be used from its present position on.
    pub(crate) fn claim_for(&self, index: u32) -> Claim {
        // Nor does one that takes copies go on behind them once it takes records.
        let begins_anew = self.has_no_homes() && (self.is_free(index) || self.is_held(index));
        let ring = self.get(index).filter(|_| !begins_anew);
        Claim { log_index: index, position: ring.map_or(0, |ring| ring.position) }
    }

    /// A claim of `index` is durable.
    pub(crate) fn note_claimed(&mut self, index: u32) {
        if self.claim_all {
            return;
        }
        if let Some(ring) = self.get_or_create(index) {
            ring.note_claimed();
            self.claimed.insert(index);
            self.note_use(index);
        }
    }

    /// A claim is durable: the log may be used, from where the claim says; one that was unused when it was
    /// claimed began anew, whatever a snapshot says.
    pub(crate) fn adopt_claim(&mut self, claim: Claim) {
        if self.is_claimed(claim.log_index) || claim.log_index >= self.count() {
            return;
        }
        let begins_anew = self.has_no_homes() && self.is_free(claim.log_index);
        self.note_claimed(claim.log_index);
        if let Some(ring) = self.get_or_create(claim.log_index) {
            if begins_anew {
                ring.begin_anew();
            }
            if !ring.is_held {
                ring.position = claim.position;
            }
            self.note_use(claim.log_index);
        }
    }

    pub(crate) fn claimed(&self) -> impl Iterator<Item = u32> + '_ {
        self.claimed.iter().copied()
    }

    pub(crate) fn claimed_len(&self) -> usize {
        self.claimed.len()
    }

    /// Logs that have a ring.
    pub(crate) fn present(&self) -> impl Iterator<Item = (u32, &Ring)> {
        self.present.iter().filter_map(|index| Some((*index, self.get(*index)?)))
    }

    /// A snapshot begins: only `keep` (all of them claimed now) stay claimed.
    pub(crate) fn snapshot_begins(&mut self, keep: &[u32]) {
        for index in std::mem::take(&mut self.claimed) {
            if let Some(ring) = self.rings[index as usize].as_mut() {
                ring.claimed = false;
            }
            self.note_use(index);
        }
        for index in keep {
            self.note_claimed(*index);
        }
        for index in &self.present {
            if let Some(ring) = self.rings[*index as usize].as_mut() {
                ring.snapshot_begins();
            }
        }
    }

    /// It is committed: unneeded rings leave memory.
    pub(crate) fn snapshot_committed(&mut self) {
        for index in std::mem::take(&mut self.present) {
            let place = &mut self.rings[index as usize];
            if let Some(ring) = place.as_mut() {
                ring.snapshot_committed();
                if ring.claimed || !ring.is_unused() {
                    self.present.insert(index);
                } else {
                    *place = None;
                }
            }
            self.measure(index);
        }
    }

    /// It failed: what was protected stays so.
    pub(crate) fn snapshot_failed(&mut self) {
        for index in &self.present {
            if let Some(ring) = self.rings[*index as usize].as_mut() {
                ring.snapshot_failed();
            }
        }
    }

    /// Logs that hold something, protect something or are claimed.
    pub fn touched(&self) -> impl Iterator<Item = u32> + '_ {
        self.present.iter().copied()
    }

    /// Whether this is one of them.
    pub fn is_touched(&self, index: u32) -> bool {
        self.get(index).is_some()
    }

    /// Share of the log that cannot be written now, 0 to 100.
    pub fn fill_pct_of(&self, index: u32) -> u32 {
        self.get(index).map_or(0, Ring::fill_pct)
    }

    /// Whether the map points into the log.
    pub fn is_needed(&self, index: u32) -> bool {
        self.get(index).is_some_and(|ring| ring.live_sectors() > 0)
    }

    /// Whether it is left alone for a while, since it did not take a record.
    pub fn rests(&self, index: u32) -> bool {
        self.get(index).is_some_and(|ring| ring.quarantined)
    }

    /// Share of all log space that cannot be written now, 0 to 100.
    pub fn fill_pct(&self) -> u32 {
        let capacity = self.capacity_blocks.map_or(0, NonZeroU32::get);
        let total = u64::from(self.count()) * u64::from(capacity);
        (self.used_blocks_total * 100).checked_div(total).unwrap_or(0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearhead_format::layout::{LayoutKind, LayoutOptions};
    use nearhead_format::{Entry, Place};

    #[test]
    fn where_no_log_needs_a_claim_the_nearest_with_room_may_be_written_as_if_it_were_claimed() {
        let layout = Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap();
        let (mut logs, mut claimed) = (Logs::new(&layout, true), Logs::new(&layout, false));
        let need = Need { blocks: 1, reserve: 0 };
        assert_eq!(claimed.nearest_claimed(0, need), None);
        for nearest in 0..layout.log_count() {
            claimed.note_claimed(nearest);
            assert_eq!(logs.nearest_claimed(0, need), Some(nearest));
            assert_eq!(claimed.nearest_claimed(0, need), Some(nearest));
            claimed.advance(nearest, 0, layout.log_blocks());
            logs.advance(nearest, 0, layout.log_blocks());
            assert_eq!(claimed.nearest_claimed(0, need), None, "full");
        }
        assert_eq!(logs.nearest_claimed(0, need), None, "none has room");
    }

    #[test]
    fn a_log_is_full_no_longer_once_what_filled_it_is_let_go() {
        let layout = Layout::plan(1 << 30, &LayoutOptions::new(LayoutKind::ManyLogs)).unwrap();
        let mut logs = Logs::new(&layout, true);
        let start = layout.log_offset(0).unwrap();
        let entries: Vec<Entry> = (0..layout.log_blocks())
            .map(|block| {
                let offset = start + u64::from(block) * u64::from(layout.log_block_bytes);
                let chunk_sector = offset / nearhead_disk::SECTOR_BYTES;
                let place = Place::Log { chunk_sector, chunk_len: 8, offset: 0 };
                Entry { home_sector: u64::from(block) * 8, len_sectors: 8, place, crc: 0 }
            })
            .collect();
        for entry in &entries {
            let Place::Log { chunk_sector, .. } = entry.place else { unreachable!() };
            logs.add_live(chunk_sector, 8, 8);
        }
        logs.advance(0, 0, layout.log_blocks());
        logs.snapshot_begins(&[]);
        logs.snapshot_committed();
        let need = Need { blocks: 1, reserve: 0 };
        assert!(logs.is_full(0) && !logs.has_room(0, need));
        for entry in &entries {
            logs.drop_live(entry);
        }
        assert!(!logs.is_full(0) && logs.has_room(0, need));
    }
}
