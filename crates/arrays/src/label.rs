//! What an array writes at the end of each of its members, so that it is told from any other disk.
//!
//! ```text
//! 0        8     12   14 15 16          32          40            48           56
//! +--------+-----+----+--+--+-----------+-----------+-------------+------------+
//! | magic  | crc |ver |kd|us| array id  | sequence  | generation  |member_bytes|
//! +--------+-----+----+--+--+-----+-----+-----------+-------------+------------+
//! | chunk_bytes | synced_bytes |cnt |idx | in_sync| whole runs, or zeros       |
//! +-------------+--------------+----+----+--------+-----------------------------+
//! 56            64             72   74   76       80
//! +-------------+-------------+-------------+-------------------------------+
//! | first_byte  | every_bytes | run_bytes   |take| zeros up to 512, then notes |
//! +-------------+-------------+-------------+----+-----------------------------+
//! 80            88            96            104  106
//! ```
//!
//! - `magic`, `version`: other content, and labels of later versions. A label that says `in use` is of
//!   version 2, one with whole runs of version 3 and one that records a `take` of version 4, so that a program that does
//!   not know what that means refuses it; any other is of version 1.
//! - `in use` (us): the mirror was not left in order since it was opened, so its members may differ where
//!   changes were under way. On the first member of a stripe: the generations are being raised, and nothing was changed since.
//! - `crc`: CRC32C of the first 512 bytes without itself, against rot and torn writes. Everything
//!   lies in one sector, which a disk writes whole or not at all.
//! - `array id`, `count`, `index`: members of another array, or in another order.
//! - `sequence`: which of the two slots is newer. They are written in turn, so that a damaged one
//!   leaves the label before it: such a member looks older than it is, never newer.
//! - `generation`: grows at every opening for writing, at every orderly stop of a mirror and whenever a member falls behind or
//!   comes back. A member that was away has a smaller one than the others.
//! - `in_sync`: bit `i` is set if member `i` has all that was acknowledged at this generation. A member that replaces another one has its
//!   number (`index`); its own label lacks that bit until it has everything itself, and the label of one that was replaced lacks it as well.
//! - `synced_bytes`: of a member that is being copied to, how far it has all.
//! - `member_bytes`, `chunk_bytes`: a member cut short, another chunk.
//! - `take`: of a mirror, the number in the last `?take=N` that was carried out or had nothing to do; 0 if there was none. The
//!   same word never acts again.
//! - whole runs: where runs of the array's addresses begin that each lie on one member, how far they are apart and how long
//!   they are ([`WholeRuns`]); zeros of an array without any.
//!
//! - notes: of a mirror, what members missed that are away (`noted`), or zeros. Nothing above depends on them.
//!
//! Nothing here reads or writes a disk.

use nearhead_basics::little_endian::{array_at, put, u16_at, u32_at, u64_at};
use nearhead_disk::{Striping, WholeRuns};

/// Bytes of one slot.
pub(super) const SLOT_BYTES: u64 = 4096;

/// Bytes at the end of a member that hold its label: two slots.
pub const LABEL_BYTES: u64 = 2 * SLOT_BYTES;

const MAGIC: &[u8; 8] = b"NHMEMBER";
/// Version of a label that says `in use`.
const VERSION_IN_USE: u16 = 2;
/// Version of a label with whole runs.
const VERSION_WHOLE_RUNS: u16 = 3;
/// Version of a label that records a `take`.
const VERSION_TAKEN: u16 = 4;
/// Newest version there is.
const VERSION_NEWEST: u16 = VERSION_TAKEN;
const VERSION: u16 = 1;
/// What the checksum covers: the smallest sector.
const COVERED_BYTES: usize = 512;

/// What a member is a member of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Identity of the array.
    pub array_id: [u8; 16],
    /// Counts the labels written to this member.
    pub sequence: u64,
    /// Counts changes of who has what.
    pub generation: u64,
    /// Bytes of each member that the array uses.
    pub member_bytes: u64,
    /// Chunk of a stripe; 0 for a mirror.
    pub chunk_bytes: u64,
    /// How far a member that is copied to has all; `member_bytes` for one in sync.
    pub synced_bytes: u64,
    /// Members of the array.
    pub count: u16,
    /// Which of them this is.
    pub index: u16,
    /// Members that have everything, by bit.
    pub in_sync: u32,
    /// The mirror is in use, or was when the power or the program went away.
    pub in_use: bool,
    /// Runs of a stripe that each lie on one member, if there are any.
    pub whole_runs: Option<WholeRuns>,
    /// Member named by the last `?take=N` of a mirror, counted from 1 in the order of the names; 0 if there was none.
    pub taken: u16,
}

impl Label {
    /// Whether the array is a mirror.
    pub fn is_mirror(&self) -> bool {
        self.chunk_bytes == 0
    }

    /// Whether member `index` had everything when this was written.
    pub fn counts(&self, index: u16) -> bool {
        self.in_sync >> index.min(31) & 1 == 1
    }

    /// The array's identity, for people.
    pub fn array_name(&self) -> String {
        self.array_id[..4].iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }

    /// Where in a member of `capacity_bytes` its label begins; none if it has no room for one.
    pub fn offset(capacity_bytes: u64) -> Option<u64> {
        (capacity_bytes / SLOT_BYTES * SLOT_BYTES).checked_sub(LABEL_BYTES).filter(|at| *at > 0)
    }

    /// Which slot this label goes into, in bytes from the beginning of the label.
    pub(super) fn slot_offset(&self) -> u64 {
        self.sequence % 2 * SLOT_BYTES
    }

    fn version(&self) -> u16 {
        match (self.whole_runs, self.in_use) {
            _ if self.taken > 0 => VERSION_TAKEN,
            (Some(_), _) => VERSION_WHOLE_RUNS,
            (None, true) => VERSION_IN_USE,
            (None, false) => VERSION,
        }
    }

    /// How its addresses go round the members, if it is a stripe that makes sense.
    pub fn striping(&self) -> Option<Striping> {
        let plain = Striping::new(u32::from(self.count), self.chunk_bytes)?;
        self.whole_runs.map_or(Some(plain), |runs| plain.with_whole_runs(runs))
    }

    /// The bytes of a slot.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; SLOT_BYTES as usize];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 12, &self.version().to_le_bytes());
        bytes[14] = u8::from(self.is_mirror());
        bytes[15] = u8::from(self.in_use);
        put(&mut bytes, 16, &self.array_id);
        let words = [
            self.sequence,
            self.generation,
            self.member_bytes,
            self.chunk_bytes,
            self.synced_bytes,
        ];
        for (word, at) in words.iter().zip((32..).step_by(8)) {
            put(&mut bytes, at, &word.to_le_bytes());
        }
        put(&mut bytes, 72, &self.count.to_le_bytes());
        put(&mut bytes, 74, &self.index.to_le_bytes());
        put(&mut bytes, 76, &self.in_sync.to_le_bytes());
        if let Some(runs) = self.whole_runs {
            put(&mut bytes, 80, &runs.first_byte.to_le_bytes());
            put(&mut bytes, 88, &runs.every_bytes.to_le_bytes());
            put(&mut bytes, 96, &runs.bytes.to_le_bytes());
        }
        put(&mut bytes, 104, &self.taken.to_le_bytes());
        let crc = checksum(&bytes);
        put(&mut bytes, 8, &crc.to_le_bytes());
        bytes
    }

    /// The newer sound label of a member's two slots; none if neither is one, or an error if a later
    /// version of the program wrote it.
    pub fn decode(slots: &[u8]) -> Result<Option<Self>, String> {
        let mut newest: Option<Self> = None;
        for slot in slots.chunks_exact(SLOT_BYTES as usize) {
            let Some(label) = decode_slot(slot)? else { continue };
            if newest.is_none_or(|newest| newest.sequence < label.sequence) {
                newest = Some(label);
            }
        }
        Ok(newest)
    }
}

fn checksum(slot: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&slot[..8]), &slot[12..COVERED_BYTES])
}

fn decode_slot(slot: &[u8]) -> Result<Option<Label>, String> {
    if &slot[..8] != MAGIC || u32_at(slot, 8) != checksum(slot) {
        return Ok(None);
    }
    let version = u16_at(slot, 12);
    if version > VERSION_NEWEST {
        return Err(format!(
            "expected the label of an array member in version {VERSION} to {VERSION_NEWEST}, found \
             version {version}; use the program that made it"
        ));
    }
    let whole_runs = (version == VERSION_WHOLE_RUNS).then(|| WholeRuns {
        first_byte: u64_at(slot, 80),
        every_bytes: u64_at(slot, 88),
        bytes: u64_at(slot, 96),
    });
    let label = Label {
        array_id: array_at(slot, 16),
        sequence: u64_at(slot, 32),
        generation: u64_at(slot, 40),
        member_bytes: u64_at(slot, 48),
        chunk_bytes: u64_at(slot, 56),
        synced_bytes: u64_at(slot, 64),
        count: u16_at(slot, 72),
        index: u16_at(slot, 74),
        in_sync: u32_at(slot, 76),
        in_use: slot[15] == 1,
        whole_runs,
        taken: if version == VERSION_TAKEN { u16_at(slot, 104) } else { 0 },
    };
    let count_fits = (2..=super::MEMBERS_MAX).contains(&usize::from(label.count));
    let runs_fit = label.is_mirror() == label.striping().is_none()
        && !(label.is_mirror() && whole_runs.is_some())
        && (label.is_mirror() || label.taken == 0);
    let sound = count_fits && label.index < label.count && label.member_bytes > 0 && runs_fit;
    // Nothing is said that this version does not read, and the kind is the one that the chunk tells.
    let is_all = label.encode()[..COVERED_BYTES] == slot[..COVERED_BYTES];
    Ok((sound && is_all).then_some(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(sequence: u64) -> Label {
        Label {
            array_id: *b"0123456789abcdef",
            sequence,
            generation: 7,
            member_bytes: 1 << 20,
            chunk_bytes: 0,
            synced_bytes: 4096,
            count: 3,
            index: 2,
            in_sync: 0x8000_0003,
            in_use: false,
            whole_runs: None,
            taken: 0,
        }
    }

    fn both(first: &[u8], second: &[u8]) -> Vec<u8> {
        [first, second].concat()
    }

    #[test]
    fn the_bytes_are_as_the_ruler_says() {
        let bytes = label(0x0102).encode();
        assert_eq!(&bytes[..8], b"NHMEMBER");
        assert_eq!(bytes[12..16], [1, 0, 1, 0]);
        assert_eq!(&bytes[16..32], b"0123456789abcdef");
        assert_eq!(bytes[32..40], [2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[48..56], [0, 0, 16, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[64..80], [0, 16, 0, 0, 0, 0, 0, 0, 3, 0, 2, 0, 3, 0, 0, 0x80]);
        assert!(bytes[80..].iter().all(|byte| *byte == 0) && bytes.len() == 4096);
        assert_eq!(bytes[8..12], 0xd742_18a9_u32.to_le_bytes(), "{:02x?}", &bytes[8..12]);
    }

    #[test]
    fn a_label_of_a_mirror_in_use_says_so_in_a_version_that_older_programs_refuse() {
        let used = Label { in_use: true, ..label(5) };
        let bytes = used.encode();
        assert_eq!(bytes[12..16], [2, 0, 1, 1]);
        assert_eq!(Label::decode(&both(&bytes, &label(4).encode())), Ok(Some(used)));
    }

    #[test]
    fn the_newer_of_two_slots_counts_and_a_damaged_one_leaves_the_older() {
        let (old, new) = (label(4).encode(), label(5).encode());
        assert_eq!(Label::decode(&both(&old, &new)), Ok(Some(label(5))));
        assert_eq!(Label::decode(&both(&new, &old)), Ok(Some(label(5))));
        for bit in 0..8 * COVERED_BYTES {
            let mut torn = new.clone();
            torn[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Label::decode(&both(&old, &torn)), Ok(Some(label(4))), "bit {bit}");
        }
        let zeros = vec![0; 4096];
        assert_eq!(Label::decode(&both(&zeros, &zeros)), Ok(None));
    }

    #[test]
    fn bytes_that_mean_nothing_must_be_zeros() {
        // Byte 12 is the version: 1 does not know of a use.
        for (at, value) in [(15, 1), (15, 2), (12, 2), (12, 0), (80, 1), (COVERED_BYTES - 1, 1)] {
            let mut bytes = label(1).encode();
            bytes[at] = value;
            let crc = checksum(&bytes);
            bytes[8..12].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(Label::decode(&bytes), Ok(None), "byte {at}");
        }
    }

    #[test]
    fn a_label_that_no_array_can_have_written_is_none() {
        let one = label(1);
        for sound in
            [one, Label { count: 32, index: 31, ..one }, Label { count: 2, index: 0, ..one }]
        {
            assert_eq!(Label::decode(&sound.encode()), Ok(Some(sound)));
        }
        for wrong in [
            Label { count: 1, index: 0, ..one },
            Label { count: 33, ..one },
            Label { index: 3, ..one },
            Label { index: 4, ..one },
            Label { member_bytes: 0, ..one },
        ] {
            assert_eq!(Label::decode(&wrong.encode()), Ok(None), "{wrong:?}");
        }
    }

    #[test]
    fn a_label_says_of_which_kind_the_array_is() {
        let stripe = Label { chunk_bytes: 1 << 16, ..label(1) };
        let mut bytes = stripe.encode();
        assert_eq!((bytes[14], stripe.is_mirror()), (0, false));
        assert_eq!(bytes[56..64], [0, 0, 1, 0, 0, 0, 0, 0]);
        assert_eq!(Label::decode(&bytes), Ok(Some(stripe)));
        bytes[14] = 1;
        let crc = checksum(&bytes);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Label::decode(&bytes), Ok(None), "a mirror has no chunks");
    }

    #[test]
    fn a_stripe_with_whole_runs_says_so_in_a_version_that_older_programs_refuse() {
        let runs = WholeRuns { first_byte: 1 << 20, every_bytes: 1 << 24, bytes: 1 << 18 };
        let stripe = Label { chunk_bytes: 1 << 16, whole_runs: Some(runs), ..label(1) };
        let bytes = stripe.encode();
        assert_eq!(bytes[12..16], [3, 0, 0, 0]);
        assert_eq!(bytes[80..88], [0, 0, 16, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[88..104], [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0]);
        assert!(bytes[104..].iter().all(|byte| *byte == 0));
        assert_eq!(Label::decode(&bytes), Ok(Some(stripe)));
        let between = WholeRuns { first_byte: 4096, ..runs };
        for wrong in
            [Label { whole_runs: Some(between), ..stripe }, Label { chunk_bytes: 0, ..stripe }]
        {
            assert_eq!(Label::decode(&wrong.encode()), Ok(None), "{wrong:?}");
        }
    }

    #[test]
    fn a_label_records_a_take_in_a_version_of_its_own() {
        for in_use in [false, true] {
            let taken = Label { taken: 2, in_use, ..label(1) };
            let bytes = taken.encode();
            assert_eq!(bytes[12..16], [4, 0, 1, u8::from(in_use)]);
            assert_eq!(bytes[104..108], [2, 0, 0, 0]);
            assert_eq!(Label::decode(&bytes), Ok(Some(taken)));
        }
        let stripe = Label { taken: 1, chunk_bytes: 1 << 16, ..label(1) };
        assert_eq!(Label::decode(&stripe.encode()), Ok(None), "a stripe has none");
    }

    #[test]
    fn a_label_lies_in_the_last_two_slots_behind_at_least_one_for_content() {
        let cases = [(0, None), (8191, None), (8192, None), (12287, None), (12288, Some(4096))];
        for (capacity_bytes, expected) in cases.into_iter().chain([(20479, Some(8192))]) {
            assert_eq!(Label::offset(capacity_bytes), expected, "{capacity_bytes} bytes");
        }
        assert_eq!([2, 3].map(|sequence| label(sequence).slot_offset()), [0, 4096]);
    }

    #[test]
    fn a_later_version_is_refused() {
        let mut bytes = label(1).encode();
        bytes[12] = 5;
        let crc = checksum(&bytes);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        let told = Label::decode(&both(&bytes, &label(0).encode())).unwrap_err();
        assert!(told.contains("version 1 to 4, found version 5"), "{told}");
    }
}
