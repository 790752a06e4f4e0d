//! What a label notes behind its first sector: what members that are away have missed, by regions.
//!
//! ```text
//! 512      520   524     528         536            544                            800               4096
//! +--------+-----+-------+-----------+--------------+------------------------------+-----------------+
//! | magic  | crc | copy  | own_since | region_bytes | since of member 0, 1, ... 31 | bits of regions |
//! +--------+-----+-------+-----------+--------------+------------------------------+-----------------+
//! 0        8     12      16          24             32                             288               3584
//! ```
//!
//! - `magic`: a label without notes, as programs before these write all of them; zeros follow its first sector.
//! - `crc`: CRC32C of the 512 bytes before and of the notes without itself: rot, a torn write, and notes that were not
//!   written with this label. Notes that are wrong are none, and the label counts as it is.
//! - `since`, of a member that has everything: the generation of the last label in which member `i` had everything,
//!   if the set regions are all in which its content may differ from this member's; 0 of every other.
//! - `own_since`, of a member that is being copied to: the generation of its last label in which it had everything,
//!   if it got no other bytes since then than those that it is copied, and changes. Else 0.
//! - `copy`: number of the copy to a disk that replaces a member, 0 without one. The content of the disk whose own notes have the
//!   same number differs from that of a member that has everything in set regions at most: what is not copied yet, and what
//!   changed since. A program that does not know of it finds no notes, and copies everything.
//! - `region_bytes`, bits: [`Regions`].
//!
//! A program that does not know of notes reads the label, leaves them out when it writes the next one, and copies
//! everything; so does this one where it finds none. Nothing here reads or writes a disk.

use super::MEMBERS_MAX;
use super::label::{Label, SLOT_BYTES};
use super::regions::{BITS_BYTES, Regions};
use nearhead_basics::little_endian::{put, u32_at, u64_at};

/// Where the notes begin in a slot.
const AT: usize = 512;
const MAGIC: &[u8; 8] = b"NHMISSED";
const SINCE_AT: usize = 32;
const BITS_AT: usize = SINCE_AT + 8 * MEMBERS_MAX;

const _: () = assert!(AT + BITS_AT + BITS_BYTES == SLOT_BYTES as usize, "the bits fill the slot");

/// Generations, by member.
pub(super) type Since = [u64; MEMBERS_MAX];

/// What a label notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) own_since: u64,
    pub(super) copy: u32,
    pub(super) since: Since,
    pub(super) regions: Regions,
}

/// The label of a member, with what it notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberLabel {
    pub(super) label: Label,
    /// The slot beside it is sound, too: no newer label can have been lost to rot.
    pub(super) is_newest: bool,
    pub(super) noted: Option<Noted>,
}

impl Noted {
    /// Whether it says nothing.
    fn is_empty(&self) -> bool {
        self.own_since == 0 && self.copy == 0 && self.since.iter().all(|since| *since == 0)
    }

    /// The bytes of a slot: the label, and the notes if they say anything.
    pub(super) fn encode(&self, label: &Label) -> Vec<u8> {
        let mut slot = label.encode();
        if self.is_empty() {
            return slot;
        }
        let notes = &mut slot[AT..];
        put(notes, 0, MAGIC);
        put(notes, 12, &self.copy.to_le_bytes());
        put(notes, 16, &self.own_since.to_le_bytes());
        put(notes, 24, &self.regions.region_bytes().to_le_bytes());
        for (since, at) in self.since.iter().zip((SINCE_AT..).step_by(8)) {
            put(notes, at, &since.to_le_bytes());
        }
        put(notes, BITS_AT, self.regions.bits());
        let crc = checksum(&slot);
        put(&mut slot, AT + 8, &crc.to_le_bytes());
        slot
    }

    /// The notes of a slot with this label; none if there are none, or none that a program can have written.
    fn decode(slot: &[u8], label: &Label) -> Option<Self> {
        let bytes = &slot[AT..];
        if &bytes[..8] != MAGIC || u32_at(bytes, 8) != checksum(slot) {
            return None;
        }
        let mut since = [0; MEMBERS_MAX];
        for (since, at) in since.iter_mut().zip((SINCE_AT..).step_by(8)) {
            *since = u64_at(bytes, at);
        }
        let regions = Regions::from_bits(label.member_bytes, u64_at(bytes, 24), &bytes[BITS_AT..])?;
        let noted = Self { own_since: u64_at(bytes, 16), copy: u32_at(bytes, 12), since, regions };
        let is_known = since[usize::from(label.count)..].iter().all(|since| *since == 0);
        let is_all = noted.encode(label)[AT..] == *bytes;
        (is_known && is_all && label.is_mirror()).then_some(noted)
    }
}

fn checksum(slot: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&slot[..AT + 8]);
    crc32c::crc32c_append(crc, &slot[AT + 12..SLOT_BYTES as usize])
}

impl MemberLabel {
    /// What a member's two slots say; none without a sound label, or an error if a later version of the program wrote it.
    pub fn decode(slots: &[u8]) -> Result<Option<Self>, String> {
        let Some(label) = Label::decode(slots)? else { return Ok(None) };
        let (mut noted, mut others) = (None, 0);
        for slot in slots.chunks_exact(SLOT_BYTES as usize) {
            match Label::decode(slot)? {
                Some(found) if found == label => noted = Noted::decode(slot, &label),
                Some(found) => others += u32::from(found.array_id == label.array_id),
                None => {}
            }
        }
        Ok(Some(Self { label, is_newest: others == 1, noted }))
    }

    /// The bytes of the slot that it was read from.
    pub fn encode(&self) -> Vec<u8> {
        self.noted.as_ref().map_or_else(|| self.label.encode(), |noted| noted.encode(&self.label))
    }

    /// Whether it notes what members missed.
    pub fn has_notes(&self) -> bool {
        self.noted.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::label_rig::WHOLE;
    use super::*;

    const MIB: u64 = 1 << 20;

    fn noted() -> Noted {
        let mut regions = Regions::new(MIB);
        regions.add(&(0..1));
        regions.add(&(9 << 16..(11 << 16)));
        let mut since = [0; MEMBERS_MAX];
        (since[1], since[2]) = (0x0102, 3);
        Noted { own_since: 0, copy: 0, since, regions }
    }

    fn before() -> Vec<u8> {
        Label { sequence: 4, ..WHOLE }.encode()
    }

    fn read(slots: [&[u8]; 2]) -> MemberLabel {
        MemberLabel::decode(&slots.concat()).unwrap().unwrap()
    }

    #[test]
    fn the_bytes_are_as_the_ruler_says_and_the_label_before_them_is_as_without() {
        let slot = noted().encode(&WHOLE);
        assert_eq!(slot[..512], WHOLE.encode()[..512]);
        assert_eq!(&slot[512..520], b"NHMISSED");
        assert_eq!(slot[524..536], [0; 12]);
        assert_eq!(slot[536..544], [0, 0, 1, 0, 0, 0, 0, 0]);
        assert_eq!(
            slot[544..576],
            [[0; 8], [2, 1, 0, 0, 0, 0, 0, 0], [3, 0, 0, 0, 0, 0, 0, 0], [0; 8]].concat()
        );
        assert_eq!(slot[800..803], [1, 0b110, 0]);
        assert!(slot[576..800].iter().chain(&slot[803..]).all(|byte| *byte == 0));
        assert_eq!(slot.len(), 4096);
        assert_eq!(slot[520..524], 0x756a_54b2_u32.to_le_bytes(), "{:02x?}", &slot[520..524]);
        let behind = Noted {
            own_since: 7,
            copy: 0x0908,
            since: [0; MEMBERS_MAX],
            regions: Regions::new(MIB),
        };
        assert_eq!(behind.encode(&WHOLE)[524..536], [8, 9, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read([&before(), &behind.encode(&WHOLE)]).noted, Some(behind));
    }

    #[test]
    fn notes_are_read_as_they_were_written_and_nothing_is_written_where_nothing_is_said() {
        let slot = noted().encode(&WHOLE);
        for slots in [[&before()[..], &slot], [&slot, &before()]] {
            let expected = MemberLabel { label: WHOLE, is_newest: true, noted: Some(noted()) };
            assert_eq!(read(slots), expected);
        }
        let empty = Noted { since: [0; MEMBERS_MAX], ..noted() };
        assert_eq!(empty.encode(&WHOLE), WHOLE.encode());
        assert_eq!(read([&before(), &WHOLE.encode()]).noted, None);
    }

    /// Either the notes or the label, or both: but what is read was written.
    #[test]
    fn whichever_bit_is_wrong_there_are_no_notes_and_a_label_is_left() {
        let slot = noted().encode(&WHOLE);
        for bit in 0..8 * slot.len() {
            let mut rotten = slot.clone();
            rotten[bit / 8] ^= 1 << (bit % 8);
            let found = read([&before(), &rotten]);
            let is_in_label = bit < 8 * 512;
            assert_eq!(found.label.sequence, if is_in_label { 4 } else { 5 }, "bit {bit}");
            assert_eq!((found.noted, found.is_newest), (None, !is_in_label), "bit {bit}");
        }
    }

    #[test]
    fn notes_of_another_label_are_none_and_a_slot_of_another_array_says_nothing_of_this_one() {
        let mut slot = WHOLE.encode();
        let other = Label { generation: 4, ..WHOLE };
        slot[512..].copy_from_slice(&noted().encode(&other)[512..]);
        assert_eq!(read([&before(), &slot]).noted, None);
        let slot = noted().encode(&WHOLE);
        let foreign = Label { sequence: 4, array_id: [9; 16], ..WHOLE }.encode();
        for beside in [foreign, vec![0; 4096]] {
            assert!(!read([&beside, &slot]).is_newest);
        }
    }

    #[test]
    fn notes_that_no_program_can_have_written_are_none() {
        let sealed = |at: usize, value: u8| {
            let mut slot = noted().encode(&WHOLE);
            slot[at] = value;
            let crc = checksum(&slot);
            slot[520..524].copy_from_slice(&crc.to_le_bytes());
            read([&before(), &slot]).noted
        };
        assert_eq!(sealed(800, 1), Some(noted()));
        // The size of a region, a member that the array does not have, a region that the member does not have.
        for (at, value) in [(538, 2), (568, 1), (802, 1), (4095, 1)] {
            assert_eq!(sealed(at, value), None, "byte {at}");
        }
    }
}
