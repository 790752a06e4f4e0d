//! Which byte of a striped array is where: the arithmetic of chunks that go round the members.
//!
//! Chunk `i` of the array is chunk `i / n` of member `i mod n`. An array may leave out runs of its addresses that come again and
//! again ([`WholeRuns`]): each of those lies on one member, and the next one on the next member. What lies on a member lies there in
//! the order of the array's addresses, so any run of the array's bytes is one run on each member that it touches. Whoever lays out
//! an array and whoever follows its members ask the same arithmetic.

use std::ops::Range;

/// How addresses go round the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Striping {
    members: u32,
    chunk_bytes: u64,
    whole: Option<WholeRuns>,
}

/// Runs of the array's addresses that each lie on one member, in turn: what is written in one go there keeps one arm busy and not all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholeRuns {
    /// Where the first one begins.
    pub first_byte: u64,
    /// How far it is from the begin of one to that of the next.
    pub every_bytes: u64,
    /// How long each of them is.
    pub bytes: u64,
}

impl WholeRuns {
    /// How many of them begin before the array's byte `at`, and how far `at` is behind the begin of the last one.
    fn before(self, at: u64) -> Option<(u64, u64)> {
        let behind = at.checked_sub(self.first_byte)?;
        Some((behind / self.every_bytes, behind % self.every_bytes))
    }
}

impl Striping {
    /// Chunks of `chunk_bytes` over so many members; none of no members or chunks.
    pub fn new(members: u32, chunk_bytes: u64) -> Option<Self> {
        let is_some = members > 0 && chunk_bytes > 0;
        is_some.then_some(Self { members, chunk_bytes, whole: None })
    }

    /// The same with runs that each lie on one member. None if they do not begin and end with chunks, so that members would not
    /// have the same share, or leave nothing between them.
    pub fn with_whole_runs(self, whole: WholeRuns) -> Option<Self> {
        let bounds = [whole.first_byte, whole.every_bytes, whole.bytes];
        let are_chunks = bounds.iter().all(|bytes| bytes.is_multiple_of(self.chunk_bytes));
        let is_some = are_chunks && whole.bytes > 0 && whole.bytes < whole.every_bytes;
        is_some.then_some(Self { whole: Some(whole), ..self })
    }

    /// Of a disk by itself: one member that has all.
    pub const ALONE: Self = Self { members: 1, chunk_bytes: u64::MAX, whole: None };

    /// How many members there are.
    pub fn members(self) -> u32 {
        self.members
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(self) -> u64 {
        self.chunk_bytes
    }

    /// The runs that each lie on one member, if there are any.
    pub fn whole_runs(self) -> Option<WholeRuns> {
        self.whole
    }

    fn row_bytes(self) -> u64 {
        self.chunk_bytes.saturating_mul(u64::from(self.members))
    }

    /// The whole run that the array's byte `at` is in: its number, and how far it is behind its begin.
    fn whole_at(self, at: u64) -> Option<(u64, u64)> {
        let whole = self.whole?;
        whole.before(at).filter(|(_, behind)| *behind < whole.bytes)
    }

    /// Bytes before the array's byte `at` that go round in chunks.
    fn chunked_before(self, at: u64) -> u64 {
        let Some((whole, (index, behind))) =
            self.whole.and_then(|whole| Some((whole, whole.before(at)?)))
        else {
            return at;
        };
        at - index * whole.bytes - behind.min(whole.bytes)
    }

    /// Bytes before the array's byte `at` that lie in whole runs of `member`.
    fn whole_before(self, at: u64, member: u32) -> u64 {
        let Some((whole, (index, behind))) =
            self.whole.and_then(|whole| Some((whole, whole.before(at)?)))
        else {
            return 0;
        };
        let (members, member) = (u64::from(self.members), u64::from(member));
        let complete = (index + members - 1 - member) / members;
        let begun = if index % members == member { behind.min(whole.bytes) } else { 0 };
        complete * whole.bytes + begun
    }

    /// The member that has the array's byte `at`.
    pub fn member_of(self, at: u64) -> u32 {
        let turn = match self.whole_at(at) {
            Some((index, _)) => index,
            None => self.chunked_before(at) / self.chunk_bytes,
        };
        (turn % u64::from(self.members)) as u32
    }

    /// Bytes of `member` that lie before the array's byte `at`.
    pub fn before(self, at: u64, member: u32) -> u64 {
        let chunked = self.chunked_before(at);
        let chunk_from = self.chunk_bytes.saturating_mul(u64::from(member));
        let in_row = (chunked % self.row_bytes()).saturating_sub(chunk_from);
        let of_chunks =
            chunked / self.row_bytes() * self.chunk_bytes + in_row.min(self.chunk_bytes);
        of_chunks + self.whole_before(at, member)
    }

    /// The run on `member` that holds its share of `bytes`.
    pub fn run(self, member: u32, bytes: &Range<u64>) -> Range<u64> {
        self.before(bytes.start, member)..self.before(bytes.end, member)
    }

    /// The members that `bytes` touch, each with its run there, that with the first byte first.
    pub fn runs(self, bytes: Range<u64>) -> impl Iterator<Item = (u32, Range<u64>)> {
        let first = self.member_of(bytes.start);
        let members = (0..self.members).map(move |step| (first + step) % self.members);
        let runs = members.map(move |member| (member, self.run(member, &bytes)));
        runs.filter(|(_, run)| !run.is_empty())
    }

    /// How much of the array's addresses from `at` on lies on one member without a break.
    fn unbroken(self, at: u64) -> u64 {
        let Some(whole) = self.whole else { return self.chunk_bytes - at % self.chunk_bytes };
        if let Some((_, behind)) = self.whole_at(at) {
            return whole.bytes - behind;
        }
        // Whole runs begin where chunks do.
        self.chunk_bytes - self.chunked_before(at) % self.chunk_bytes
    }

    /// The pieces of a run in the order of the array's bytes: member, and how many bytes.
    pub fn pieces(self, offset: u64, len: u64) -> impl Iterator<Item = (u32, usize)> {
        let (mut at, end) = (offset, offset + len);
        std::iter::from_fn(move || {
            let step = self.unbroken(at).min(end - at);
            let member = self.member_of(at);
            at += step;
            (step > 0).then_some((member, step as usize))
        })
    }

    /// Where in the array byte `at` of `member` is.
    pub fn place(self, member: u32, at: u64) -> u64 {
        let row = (at / self.chunk_bytes).saturating_mul(self.row_bytes());
        let chunk_from = self.chunk_bytes.saturating_mul(u64::from(member));
        let place = row.saturating_add(chunk_from).saturating_add(at % self.chunk_bytes);
        if self.whole.is_none() {
            return place;
        }
        // The first byte of the array behind that of the member is the one behind it.
        let (mut before, mut behind) =
            (0, place.saturating_add(self.row_bytes()).saturating_mul(2));
        while behind - before > 1 {
            let middle = before + (behind - before) / 2;
            if self.before(middle, member) > at { behind = middle } else { before = middle }
        }
        before
    }

    /// The first piece that begins at the array's byte `at` or behind it.
    pub fn piece_from(self, at: u64) -> u64 {
        match at.checked_sub(1) {
            Some(last) => last + self.unbroken(last),
            None => 0,
        }
    }

    /// How many bytes an array has whose members have `member_bytes` each: whole chunks.
    pub fn capacity(self, member_bytes: u64) -> u64 {
        let fits =
            |bytes: u64| (0..self.members).all(|member| self.before(bytes, member) <= member_bytes);
        let chunks = member_bytes / self.chunk_bytes * u64::from(self.members);
        let (mut fitting, mut behind) = (0, chunks + 1);
        while behind - fitting > 1 {
            let middle = fitting + (behind - fitting) / 2;
            if fits(middle * self.chunk_bytes) { fitting = middle } else { behind = middle }
        }
        fitting * self.chunk_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    fn stripings() -> [Striping; 3] {
        let plain = Striping::new(4, 64 * KIB).unwrap();
        let whole = |first_byte: u64, every_bytes, bytes| {
            let runs = WholeRuns { first_byte, every_bytes, bytes };
            plain.with_whole_runs(runs).unwrap()
        };
        [plain, whole(64 * KIB, 640 * KIB, 128 * KIB), whole(0, 1024 * KIB, 192 * KIB)]
    }

    /// Member and byte there of every KiB of the array, counted.
    fn counted(striping: Striping) -> Vec<(u32, u64)> {
        let (mut used, mut chunks) = ([0; 4], 0);
        let mut places = Vec::new();
        while places.len() < 8000 {
            let at = places.len() as u64 * KIB;
            let (member, bytes) = match striping.whole {
                Some(whole) if whole.before(at).is_some_and(|(_, behind)| behind == 0) => {
                    ((at - whole.first_byte) / whole.every_bytes % 4, whole.bytes)
                }
                _ => {
                    chunks += 1;
                    ((chunks - 1) % 4, 64 * KIB)
                }
            };
            for step in 0..bytes / KIB {
                places.push((member as u32, used[member as usize] + step * KIB));
            }
            used[member as usize] += bytes;
        }
        places
    }

    #[test]
    fn every_byte_is_where_counting_chunks_and_whole_runs_puts_it_and_is_found_again() {
        for striping in stripings() {
            for (index, (member, byte)) in counted(striping).into_iter().enumerate() {
                let at = index as u64 * KIB;
                assert_eq!(striping.member_of(at), member, "{striping:?}, {at}");
                assert_eq!(striping.before(at, member), byte, "{striping:?}, {at}");
                assert_eq!(striping.place(member, byte), at, "{striping:?}");
            }
        }
    }

    #[test]
    fn the_runs_of_a_range_are_its_pieces_put_together_and_come_back_to_where_they_were() {
        for striping in stripings() {
            for (start, len) in [
                (0, 1),
                (5, 64 * KIB),
                (63 * KIB, 2 * KIB),
                (100 * KIB, 700 * KIB),
                (3, 5000 * KIB),
            ] {
                let mut of_pieces = [0; 4];
                for (member, bytes) in striping.pieces(start, len) {
                    of_pieces[member as usize] += bytes as u64;
                }
                let mut of_runs = [0; 4];
                for (member, run) in striping.runs(start..start + len) {
                    of_runs[member as usize] = run.end - run.start;
                    let place = striping.place(member, run.start);
                    assert!((start..start + len).contains(&place), "{start} + {len}: {place}");
                    assert_eq!(striping.member_of(place), member);
                }
                assert_eq!(of_runs, of_pieces, "{striping:?}: {start} + {len}");
                assert_eq!(of_runs.iter().sum::<u64>(), len, "each byte once");
            }
            assert_eq!(striping.runs(7..7).count(), 0);
        }
    }

    #[test]
    fn an_array_is_as_large_as_the_member_allows_that_has_most_of_it() {
        for striping in stripings() {
            for (chunks, rest) in (0..200).flat_map(|chunks| [(chunks, 0), (chunks, KIB)]) {
                let capacity = striping.capacity(chunks * 64 * KIB + rest);
                let most = (0..4).map(|member| striping.before(capacity, member)).max().unwrap();
                assert!(most <= chunks * 64 * KIB, "{striping:?}, {chunks}");
                let next = capacity + 64 * KIB;
                let more = (0..4).map(|member| striping.before(next, member)).max().unwrap();
                assert!(more > chunks * 64 * KIB, "{striping:?}, {chunks}: {capacity}");
            }
        }
    }

    #[test]
    fn runs_that_no_chunk_begins_with_or_that_leave_nothing_between_them_are_none() {
        let plain = stripings()[0];
        for (first, every, bytes) in
            [(1, 1024, 128), (64, 1000, 128), (64, 1024, 100), (0, 64, 64), (0, 64, 0)]
        {
            let runs =
                WholeRuns { first_byte: first * KIB, every_bytes: every * KIB, bytes: bytes * KIB };
            assert_eq!(plain.with_whole_runs(runs), None, "{runs:?}");
        }
    }

    #[test]
    fn there_is_no_array_of_no_members_or_chunks() {
        for (members, chunk_bytes) in [(0, 4096), (2, 0), (0, 0)] {
            assert_eq!(Striping::new(members, chunk_bytes), None);
        }
    }

    #[test]
    fn a_disk_by_itself_has_every_byte_where_it_is() {
        let runs: Vec<_> = Striping::ALONE.runs(12_345..99_999).collect();
        assert_eq!(runs, [(0, 12_345..99_999)]);
        assert_eq!(Striping::ALONE.place(0, 12_345), 12_345);
    }

    #[test]
    fn pieces_begin_where_they_are_asked_for_or_behind() {
        let [plain, whole, _] = stripings();
        assert_eq!([0, 1, 64 * KIB].map(|at| plain.piece_from(at)), [0, 64 * KIB, 64 * KIB]);
        let found = [64 * KIB, 65 * KIB, 192 * KIB, 200 * KIB].map(|at| whole.piece_from(at));
        assert_eq!(found, [64 * KIB, 192 * KIB, 192 * KIB, 256 * KIB]);
    }
}
