//! A bit for each region of a member: which parts of its address space something is said of.
//!
//! A region is a power of two of bytes, the smallest of at least 64 KiB with which all bits of a member fit into
//! the room that a label has for them: it doubles with the member, and the bits do not grow. What stays true:
//! - nothing outside the member is ever set, and what is kept is bounded by the room for the bits;
//! - a byte that was added is in a set region until all are cleared.
//!
//! It knows no disk, no member and no label.

use std::ops::Range;

/// Bytes of bits: what is left of a label's slot (`noted`).
pub(super) const BITS_BYTES: usize = 3296;

/// The smallest region: less would cost a label for too few bytes.
const REGION_BYTES_MIN: u64 = 64 << 10;

/// Regions of a member, of which some are set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Regions {
    member_bytes: u64,
    region_bytes: u64,
    /// As they lie on a disk: region `i` is bit `i % 8` of byte `i / 8`.
    bits: Vec<u8>,
}

impl Regions {
    /// None set, of a member of so many bytes.
    pub(super) fn new(member_bytes: u64) -> Self {
        let most = 8 * BITS_BYTES as u64;
        let mut region_bytes = REGION_BYTES_MIN;
        while member_bytes.div_ceil(region_bytes) > most {
            region_bytes *= 2;
        }
        let count = member_bytes.div_ceil(region_bytes);
        Self { member_bytes, region_bytes, bits: vec![0; count.div_ceil(8) as usize] }
    }

    /// Those that `bits` sets, of a member of so many bytes and regions of this size; none if there can be no such ones.
    pub(super) fn from_bits(member_bytes: u64, region_bytes: u64, bits: &[u8]) -> Option<Self> {
        let mut regions = Self::new(member_bytes);
        let count = regions.bits.len();
        let (known, rest) = bits.split_at_checked(count)?;
        regions.bits.copy_from_slice(known);
        let spare = (8 * count as u64).saturating_sub(regions.count());
        let last = known.last().copied().unwrap_or(0);
        let is_inside = u64::from(last.leading_zeros()) >= spare;
        let is_sound = is_inside && rest.iter().all(|byte| *byte == 0);
        (is_sound && regions.region_bytes == region_bytes).then_some(regions)
    }

    pub(super) fn bits(&self) -> &[u8] {
        &self.bits
    }

    pub(super) fn region_bytes(&self) -> u64 {
        self.region_bytes
    }

    fn count(&self) -> u64 {
        self.member_bytes.div_ceil(self.region_bytes)
    }

    /// The regions that hold any of these bytes.
    fn of(&self, bytes: &Range<u64>) -> Range<u64> {
        let end = bytes.end.min(self.member_bytes);
        bytes.start.min(end) / self.region_bytes..end.div_ceil(self.region_bytes)
    }

    fn has(&self, region: u64) -> bool {
        let byte = self.bits.get((region / 8) as usize);
        byte.is_some_and(|byte| byte >> (region % 8) & 1 == 1)
    }

    /// Sets the regions of these bytes.
    pub(super) fn add(&mut self, bytes: &Range<u64>) {
        if bytes.is_empty() {
            return;
        }
        for region in self.of(bytes) {
            if let Some(byte) = self.bits.get_mut((region / 8) as usize) {
                *byte |= 1 << (region % 8);
            }
        }
    }

    /// Whether all regions of these bytes are set.
    pub(super) fn has_all(&self, bytes: &Range<u64>) -> bool {
        bytes.is_empty() || self.of(bytes).all(|region| self.has(region))
    }

    /// Sets what another one of the same member sets.
    pub(super) fn merge(&mut self, other: &Self) {
        for (byte, more) in self.bits.iter_mut().zip(&other.bits) {
            *byte |= more;
        }
    }

    /// Clears what another one of the same member does not set.
    pub(super) fn intersect(&mut self, other: &Self) {
        for (byte, kept) in self.bits.iter_mut().zip(&other.bits) {
            *byte &= kept;
        }
    }

    pub(super) fn clear(&mut self) {
        self.bits.fill(0);
    }

    /// Clears the regions that end at or before `at`.
    pub(super) fn clear_below(&mut self, at: u64) {
        let whole = if at >= self.member_bytes { self.count() } else { at / self.region_bytes };
        let bytes = (whole / 8) as usize;
        self.bits.iter_mut().take(bytes).for_each(|byte| *byte = 0);
        if let Some(byte) = self.bits.get_mut(bytes) {
            *byte &= u8::MAX << (whole % 8);
        }
    }

    /// The next bytes from `at` on that lie in set regions, as far as these follow each other.
    pub(super) fn run_from(&self, at: u64) -> Option<Range<u64>> {
        let count = self.count();
        let first = (at / self.region_bytes..count).find(|region| self.has(*region))?;
        let last = (first..count).take_while(|region| self.has(*region)).last()?;
        let end = (last + 1).saturating_mul(self.region_bytes).min(self.member_bytes);
        let start = (first * self.region_bytes).max(at);
        (start < end).then_some(start..end)
    }

    /// Bytes from `at` on that lie in set regions.
    pub(super) fn bytes_from(&self, at: u64) -> u64 {
        let mut sum = 0;
        let mut next = at;
        while let Some(run) = self.run_from(next) {
            sum += run.end - run.start;
            next = run.end;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn a_region_doubles_with_the_member_and_the_bits_stay_in_their_room() {
        let most = 8 * BITS_BYTES as u64;
        let cases = [
            (1, 64 * KIB, 1),
            (64 * KIB, 64 * KIB, 1),
            (64 * KIB + 1, 64 * KIB, 2),
            (most * 64 * KIB, 64 * KIB, most),
            (most * 64 * KIB + 1, 128 * KIB, most / 2 + 1),
            (4_000_787_030_016, 256 << 20, 14_905),
        ];
        for (member_bytes, region_bytes, count) in cases {
            let regions = Regions::new(member_bytes);
            assert_eq!((regions.region_bytes, regions.count()), (region_bytes, count));
            assert!(regions.bits.len() <= BITS_BYTES && regions.bytes_from(0) == 0);
        }
        assert!(Regions::new(u64::MAX).bits.len() <= BITS_BYTES);
    }

    #[test]
    fn bytes_set_every_region_that_holds_one_of_them_and_no_other() {
        let member_bytes = 20 * 64 * KIB + 512;
        for (start, end, expected) in [
            (0, 0, 0..0),
            (0, 1, 0..1),
            (64 * KIB - 1, 64 * KIB + 1, 0..2),
            (64 * KIB, 128 * KIB, 1..2),
            (20 * 64 * KIB, u64::MAX, 20..21),
            (19 * 64 * KIB + 7, member_bytes, 19..21),
        ] {
            let mut regions = Regions::new(member_bytes);
            regions.add(&(start..end));
            let set: Vec<u64> = (0..30).filter(|region| regions.has(*region)).collect();
            assert_eq!(set, expected.clone().collect::<Vec<_>>(), "{start}..{end}");
            assert!(regions.has_all(&(start..end)));
            let far = expected.start * 64 * KIB..(expected.end + 1) * 64 * KIB;
            assert_eq!(regions.has_all(&far), far.end > member_bytes && expected.end == 21);
        }
    }

    #[test]
    fn runs_give_all_set_bytes_in_order_cut_at_the_end_of_the_member() {
        let mut regions = Regions::new(10 * 64 * KIB + 512);
        assert_eq!(regions.run_from(0), None);
        for region in [2, 3, 6, 10] {
            regions.add(&(region * 64 * KIB..region * 64 * KIB + 1));
        }
        assert_eq!(regions.run_from(0), Some(128 * KIB..256 * KIB));
        assert_eq!(regions.run_from(130 * KIB), Some(130 * KIB..256 * KIB));
        assert_eq!(regions.run_from(256 * KIB), Some(384 * KIB..448 * KIB));
        assert_eq!(regions.run_from(448 * KIB), Some(640 * KIB..640 * KIB + 512));
        assert_eq!(regions.run_from(640 * KIB + 512), None);
        assert_eq!(regions.bytes_from(0), 192 * KIB + 512);
        assert_eq!(regions.bytes_from(192 * KIB), 128 * KIB + 512);
        regions.clear();
        assert_eq!(regions.bytes_from(0), 0);
    }

    #[test]
    fn regions_below_an_address_are_cleared_up_to_the_one_that_holds_it() {
        let member_bytes = 20 * 64 * KIB + 512;
        for (at, first) in [
            (0, 0),
            (64 * KIB - 1, 0),
            (64 * KIB, 1),
            (9 * 64 * KIB + 1, 9),
            (16 * 64 * KIB, 16),
            (member_bytes - 1, 20),
            (member_bytes, 21),
            (u64::MAX, 21),
        ] {
            let mut regions = Regions::new(member_bytes);
            regions.add(&(0..member_bytes));
            regions.clear_below(at);
            let set: Vec<u64> = (0..30).filter(|region| regions.has(*region)).collect();
            assert_eq!(set, (first..21).collect::<Vec<_>>(), "below {at}");
        }
        let mut one = Regions::new(member_bytes);
        let mut other = one.clone();
        one.add(&(0..3 * 64 * KIB));
        other.add(&(2 * 64 * KIB..9 * 64 * KIB));
        one.intersect(&other);
        assert_eq!(one.run_from(0), Some(2 * 64 * KIB..3 * 64 * KIB));
        assert_eq!(one.bytes_from(0), 64 * KIB);
    }

    #[test]
    fn bits_that_no_member_of_that_size_has_are_none() {
        let mut regions = Regions::new(10 * 64 * KIB);
        regions.add(&(9 * 64 * KIB..10 * 64 * KIB));
        let mut room = vec![0; BITS_BYTES];
        room[..2].copy_from_slice(regions.bits());
        let read = |bits: &[u8], region_bytes| {
            Regions::from_bits(regions.member_bytes, region_bytes, bits)
        };
        assert_eq!(read(&room, 64 * KIB), Some(regions.clone()));
        assert_eq!(read(&room, 128 * KIB), None);
        assert_eq!(read(&room[..1], 64 * KIB), None);
        for (at, bits) in [(1, 0b110), (2, 1), (BITS_BYTES - 1, 0x80)] {
            let mut wrong = room.clone();
            wrong[at] |= bits;
            assert_eq!(read(&wrong, 64 * KIB), None, "byte {at}");
        }
        let mut other = Regions::new(10 * 64 * KIB);
        other.add(&(0..1));
        other.merge(&regions);
        assert_eq!(other.bits(), [1, 2]);
    }
}
