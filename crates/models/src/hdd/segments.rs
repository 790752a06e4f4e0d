//! The read cache of a drive: a few sequential streams, each one contiguous range of blocks.
//!
//! Only *which* blocks are in the drive's memory is kept here; the bytes themselves always come
//! from the store, so a stale segment can make a read too fast but never wrong.

/// One remembered stream.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    end: u64,
    last_use: u64,
}

/// A bounded set of segments, replaced least recently used first.
#[derive(Debug)]
pub(super) struct Segments {
    list: Vec<Segment>,
    sectors_max: u64,
    uses: u64,
}

impl Segments {
    pub(super) fn new(count: u16, sectors_max: u32) -> Self {
        let empty = Segment { start: 0, end: 0, last_use: 0 };
        let list = vec![empty; usize::from(count)];
        Self { list, sectors_max: u64::from(sectors_max), uses: 0 }
    }

    /// The segment that holds all of `lbn..end`, marked as used.
    pub(super) fn covering(&mut self, lbn: u64, end: u64) -> Option<usize> {
        let found = self.list.iter().position(|held| held.start <= lbn && end <= held.end)?;
        self.touch(found);
        Some(found)
    }

    /// The segment that a read from `lbn` on would continue, marked as used. With `joins` that may
    /// be one which ends just before `lbn`.
    pub(super) fn continued_by(&mut self, lbn: u64, joins: bool) -> Option<usize> {
        let holds = |held: &Segment| held.start <= lbn && lbn < held.end + u64::from(joins);
        let holds = |held: &Segment| held.start < held.end && holds(held);
        let found = self.list.iter().position(holds)?;
        self.touch(found);
        Some(found)
    }

    /// First block of a segment.
    pub(super) fn start(&self, index: usize) -> u64 {
        self.list[index].start
    }

    /// Block after the last one of a segment.
    pub(super) fn end(&self, index: usize) -> u64 {
        self.list[index].end
    }

    /// How many there can be.
    pub(super) fn capacity(&self) -> usize {
        self.list.len()
    }

    /// Starts a new, empty segment at `lbn` in place of the least recently used one.
    pub(super) fn begin(&mut self, lbn: u64) -> usize {
        let oldest = (0..self.list.len()).min_by_key(|&index| self.list[index].last_use);
        let index = oldest.unwrap_or(0);
        self.list[index] = Segment { start: lbn, end: lbn, last_use: 0 };
        self.touch(index);
        index
    }

    /// Blocks from `start` on were read on the way to a segment's first one.
    pub(super) fn begin_earlier(&mut self, index: usize, start: u64) {
        let segment = &mut self.list[index];
        let earliest = segment.end.saturating_sub(self.sectors_max);
        segment.start = segment.start.min(start.max(earliest));
    }

    /// Blocks up to `end` have arrived; the oldest ones make room.
    pub(super) fn grow(&mut self, index: usize, end: u64) {
        let segment = &mut self.list[index];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.sectors_max));
    }

    /// Forgets what was read of `lbn..end`, because it is being written.
    pub(super) fn forget(&mut self, lbn: u64, end: u64) {
        for segment in &mut self.list {
            if segment.start < end && lbn < segment.end {
                if segment.start < lbn {
                    segment.end = lbn;
                } else {
                    segment.start = segment.end.min(end);
                }
            }
        }
    }

    /// Forgets everything, as without power.
    pub(super) fn clear(&mut self) {
        self.list.fill(Segment { start: 0, end: 0, last_use: 0 });
    }

    fn touch(&mut self, index: usize) {
        self.uses += 1;
        self.list[index].last_use = self.uses;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_covers_what_was_read_and_not_what_was_written() {
        let mut segments = Segments::new(2, 100);
        let index = segments.begin(1000);
        segments.grow(index, 1050);
        assert_eq!(segments.covering(1000, 1050), Some(index));
        assert_eq!(segments.covering(1000, 1051), None);
        segments.forget(1020, 1030);
        assert_eq!(segments.covering(1000, 1020), Some(index));
        assert_eq!(segments.covering(1000, 1021), None);
    }

    #[test]
    fn a_full_segment_keeps_the_newest_blocks() {
        let mut segments = Segments::new(2, 100);
        let index = segments.begin(1000);
        segments.grow(index, 1150);
        assert_eq!(segments.start(index), 1050);
        assert_eq!(segments.covering(1049, 1060), None);
    }

    #[test]
    fn the_least_recently_used_segment_makes_room() {
        let mut segments = Segments::new(2, 100);
        for lbn in [0, 1000] {
            let index = segments.begin(lbn);
            segments.grow(index, lbn + 10);
        }
        assert!(segments.covering(0, 10).is_some());
        segments.begin(2000);
        assert!(segments.covering(0, 10).is_some() && segments.covering(1000, 1010).is_none());
    }
}
