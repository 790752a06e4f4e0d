//! What a drive may answer from its memory: it reads on behind what it is asked for, in as many places as it has segments.
//!
//! How far, and for how long, it does not tell. So reads are told apart by how far behind the end of an earlier one they begin, and
//! for each such class it is counted how often the answer came from memory; where it does more often than not, it is expected.

use std::collections::VecDeque;

/// Reads remembered: as many as drives have segments, about.
const PLACES_MAX: usize = 64;
/// Farther behind a read than this no drive is taken to go on.
pub(super) const AHEAD_BYTES_MAX: u64 = 4 << 20;
/// Classes of distance: none, up to 32 KiB, and doubled from there.
const FIRST_SHIFT: u32 = 15;
const CLASSES: usize = 9;
/// One answer counts for this share.
const ANSWER_SHARE: i32 = 16;
/// Always from memory, in the units of the counts.
const ALWAYS: i32 = 1 << 16;

/// The last reads.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    /// Begin and end of each, the newest last.
    places: VecDeque<(u64, u64)>,
    /// How often the answer came from memory, by class of distance.
    often: [i32; CLASSES],
}

impl Default for Memory {
    fn default() -> Self {
        let mut often = [ALWAYS / 4; CLASSES];
        often[0] = ALWAYS;
        Self { places: VecDeque::new(), often }
    }
}

fn class_of(distance: u64) -> usize {
    let units = distance >> FIRST_SHIFT;
    if distance == 0 { 0 } else { (u64::BITS - units.leading_zeros()) as usize + 1 }
}

impl Memory {
    /// The read behind which one at `offset` begins: its place here, and the class of the distance.
    fn behind(&self, offset: u64) -> Option<(usize, usize)> {
        let near = |(start, end): &(u64, u64)| {
            (*start..*end + AHEAD_BYTES_MAX).contains(&offset).then(|| offset.saturating_sub(*end))
        };
        let found =
            self.places.iter().enumerate().filter_map(|(at, place)| Some((near(place)?, at)));
        let (distance, at) = found.min()?;
        Some((at, class_of(distance).min(CLASSES - 1)))
    }

    /// Something was read, from memory or not.
    pub(super) fn note_read(&mut self, offset: u64, bytes: u64, is_from_memory: bool) {
        let end = offset + bytes;
        let mut start = offset;
        if let Some((at, class)) = self.behind(offset) {
            let seen = if is_from_memory { ALWAYS } else { 0 };
            self.often[class] += (seen - self.often[class]) / ANSWER_SHARE;
            let known = self.places.remove(at).unwrap_or((offset, end));
            start = known.0.max(end.saturating_sub(AHEAD_BYTES_MAX));
        }
        self.places.push_back((start, end));
        if self.places.len() > PLACES_MAX {
            self.places.pop_front();
        }
    }

    /// Whether a read is expected to be answered without the arm.
    pub(super) fn has(&self, offset: u64) -> bool {
        self.behind(offset).is_some_and(|(_, class)| self.often[class] > ALWAYS / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn what_goes_on_where_a_read_ended_is_expected_from_memory_until_it_is_not() {
        let mut memory = Memory::default();
        assert!(!memory.has(0), "nothing was read");
        memory.note_read(1 << 30, 64 * KIB, false);
        let next = (1 << 30) + 64 * KIB;
        assert!(memory.has(next) && !memory.has(next + 40 * KIB) && !memory.has(1 << 20));
        // A drive that reads nothing ahead.
        for step in 0..20 {
            memory.note_read(next + step * 64 * KIB, 64 * KIB, false);
        }
        assert!(!memory.has(next + 20 * 64 * KIB));
    }

    #[test]
    fn how_far_a_drive_reads_ahead_is_learned_by_distance() {
        let mut memory = Memory::default();
        let mut at = 1 << 30;
        for _ in 0..40 {
            memory.note_read(at, 4 * KIB, false);
            // A gap of 100 KiB comes from memory, one of 1 MiB does not.
            memory.note_read(at + 104 * KIB, 4 * KIB, true);
            memory.note_read(at + 108 * KIB + 1024 * KIB, 4 * KIB, false);
            at += 1 << 30;
        }
        memory.note_read(at, 4 * KIB, false);
        assert!(memory.has(at + 104 * KIB) && !memory.has(at + 1028 * KIB));
    }

    #[test]
    fn of_many_places_the_newest_are_remembered() {
        let mut memory = Memory::default();
        for place in 0..100 {
            memory.note_read(place << 30, 4 * KIB, false);
        }
        let has = |place: u64| memory.has((place << 30) + 4 * KIB);
        assert!(!has(35) && has(36) && has(99));
    }
}
