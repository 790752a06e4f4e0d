//! The 4 KiB header at the start of a snapshot slot.

use super::error::SnapshotError;
use super::item::BodySummary;
use crate::block::{SEALED_BYTES, check_rest_zero, open, seal};
use crate::bytes::FieldError;
use crate::{Layout, VolumeId};
use nearhead_basics::little_endian::{array_at, put, u32_at, u64_at};

/// The first eight bytes of a slot that holds a snapshot.
pub const SNAPSHOT_MAGIC: [u8; 8] = *b"NHSNAPSH";
/// Version of the snapshot format.
pub const SNAPSHOT_VERSION: u32 = 1;
/// Flag: taken at an orderly stop, nothing was logged after it.
pub const FLAG_CLEAN_SHUTDOWN: u32 = 1;
/// Flag: records may begin anywhere in a log ([`Layout::records_anywhere`]). A superblock says so too, as all that a layout is;
/// this is for whoever has lost all its copies, since nothing else on the disk tells the two kinds of logs apart.
pub const FLAG_RECORDS_ANYWHERE: u32 = 2;
const KNOWN_FLAGS: u32 = FLAG_CLEAN_SHUTDOWN | FLAG_RECORDS_ANYWHERE;
const USED_BYTES: usize = 88;

/// What a snapshot says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The volume.
    pub volume_id: VolumeId,
    /// Counts snapshots; its parity is the slot.
    pub snapshot_number: u64,
    /// The last record whose effect the snapshot includes.
    pub record_sequence: u64,
    /// `FLAG_*` bits.
    pub flags: u32,
    /// What the body holds.
    pub body: BodySummary,
}

impl SnapshotHeader {
    /// The flags of a snapshot of a volume with `layout` that is taken while it is used.
    pub fn flags_of(layout: &Layout) -> u32 {
        if layout.records_anywhere { FLAG_RECORDS_ANYWHERE } else { 0 }
    }

    /// Whether it may be of a volume with `layout`, as far as it says.
    pub fn is_of(&self, layout: &Layout) -> bool {
        self.flags & FLAG_RECORDS_ANYWHERE == Self::flags_of(layout)
    }

    /// The slot a snapshot of that number goes to.
    pub fn slot(&self) -> u32 {
        (self.snapshot_number % 2) as u32
    }

    /// Which of a slot's two sound headers counts, the one in front or its copy at the end: the newer
    /// one; of two with the same number the one in front, which was written last.
    pub fn newer(front: Option<Self>, copy: Option<Self>) -> Option<Self> {
        match (front, copy) {
            (Some(front), Some(copy)) if copy.snapshot_number > front.snapshot_number => Some(copy),
            (front, copy) => front.or(copy),
        }
    }

    /// The header's 4096 bytes.
    pub fn encode(&self) -> [u8; SEALED_BYTES] {
        let mut block = [0; SEALED_BYTES];
        put(&mut block, 0, &SNAPSHOT_MAGIC);
        put(&mut block, 8, &SNAPSHOT_VERSION.to_le_bytes());
        put(&mut block, 12, &self.slot().to_le_bytes());
        put(&mut block, 16, &self.volume_id);
        put(&mut block, 32, &self.snapshot_number.to_le_bytes());
        put(&mut block, 40, &self.record_sequence.to_le_bytes());
        put(&mut block, 48, &self.body.entry_count.to_le_bytes());
        put(&mut block, 56, &self.body.body_bytes.to_le_bytes());
        put(&mut block, 64, &self.body.log_count.to_le_bytes());
        put(&mut block, 68, &self.body.claim_count.to_le_bytes());
        put(&mut block, 72, &self.body.hint_count.to_le_bytes());
        put(&mut block, 76, &self.flags.to_le_bytes());
        put(&mut block, 80, &self.body.body_crc.to_le_bytes());
        put(&mut block, 84, &self.body.fragment_count.to_le_bytes());
        seal(&mut block);
        block
    }

    /// Reads the header of slot `slot` of the volume `volume_id`, whose slots have room for bodies
    /// of `body_bytes_max`.
    pub fn decode(
        bytes: &[u8],
        volume_id: &VolumeId,
        slot: u32,
        body_bytes_max: u64,
    ) -> Result<Self, SnapshotError> {
        let block = open(bytes, SNAPSHOT_MAGIC)?;
        let version = u32_at(block, 8);
        if version != SNAPSHOT_VERSION {
            return Err(SnapshotError::Version { expected: SNAPSHOT_VERSION, found: version });
        }
        let header = Self {
            volume_id: array_at(block, 16),
            snapshot_number: u64_at(block, 32),
            record_sequence: u64_at(block, 40),
            flags: u32_at(block, 76),
            body: BodySummary {
                entry_count: u64_at(block, 48),
                log_count: u32_at(block, 64),
                claim_count: u32_at(block, 68),
                hint_count: u32_at(block, 72),
                fragment_count: u32_at(block, 84),
                body_bytes: u64_at(block, 56),
                body_crc: u32_at(block, 80),
            },
        };
        header.check_identity(u32_at(block, 12), volume_id, slot)?;
        header.check_body(body_bytes_max)?;
        check_rest_zero(block, USED_BYTES)?;
        Ok(header)
    }

    fn check_identity(
        &self,
        found_slot: u32,
        volume_id: &VolumeId,
        slot: u32,
    ) -> Result<(), FieldError> {
        if self.volume_id != *volume_id {
            let hex = |id: &VolumeId| format!("{:032x}", u128::from_be_bytes(*id));
            return Err(FieldError::new("volume_id", hex(volume_id), hex(&self.volume_id)));
        }
        if found_slot != slot {
            return Err(FieldError::new("slot", slot, found_slot));
        }
        if self.slot() != slot {
            let expected = format_args!("a number that goes to slot {slot}").to_string();
            return Err(FieldError::new("snapshot_number", expected, self.snapshot_number));
        }
        if self.flags & !KNOWN_FLAGS != 0 {
            let found = format_args!("{:#010x}", self.flags).to_string();
            return Err(FieldError::new("flags", format_args!("bits of {KNOWN_FLAGS:#x}"), found));
        }
        Ok(())
    }

    fn check_body(&self, body_bytes_max: u64) -> Result<(), FieldError> {
        let found = self.body.body_bytes;
        match self.body.expected_body_bytes() {
            Some(expected) if expected == found && found <= body_bytes_max => Ok(()),
            Some(expected) => Err(FieldError::new(
                "body_bytes",
                format_args!("{expected} for its counts, at most {body_bytes_max}"),
                found,
            )),
            None => Err(FieldError::new(
                "entry_count",
                format_args!("what fits {body_bytes_max} bytes"),
                self.body.entry_count,
            )),
        }
    }
}
