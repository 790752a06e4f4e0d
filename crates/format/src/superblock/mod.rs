//! The superblock: what must be known before anything else on a device can be read.
//!
//! Three copies, far apart, each 4 KiB with its own checksum and its own number, so that one lost,
//! rotten or misdirected copy does not cost the volume. A copy is rewritten in place, one at a time
//! with a flush between, with a higher generation; [`choose`] says which copy counts.

mod choose;
mod error;
#[cfg(test)]
mod tests;

pub use choose::{Choice, choose};
pub use error::SuperblockError;

use crate::block::{SEALED_BYTES, check_rest_zero, check_zero, open, seal};
use crate::bytes::FieldError;
use crate::layout::{DATA_DEVICES_MAX, DataParts};
use crate::{Layout, VolumeId};
use nearhead_basics::little_endian::{array_at, put, u16_at, u32_at, u64_at};
use std::fmt;

/// The first eight bytes of every copy.
pub const SUPERBLOCK_MAGIC: [u8; 8] = *b"NEARHEAD";
/// Version of the format as a whole.
pub const FORMAT_VERSION: u32 = 1;
/// Number of copies.
pub const COPIES: u32 = 3;
/// Longest label, in bytes of UTF-8.
pub const LABEL_BYTES_MAX: usize = 64;
/// Features without which the volume must not be opened, that this program knows.
pub const FEATURES_INCOMPAT_KNOWN: u64 = FEATURE_FAR_SLOT
    | FEATURE_RECORDS_ANYWHERE
    | FEATURE_DATA_DEVICES
    | FEATURE_CHAIN
    | FEATURE_LOG_DEVICES
    | FEATURE_FRAGMENTS;
/// Features without which it must not be written, that this program knows.
pub const FEATURES_RO_COMPAT_KNOWN: u64 =
    FEATURE_BLANK_MAP | FEATURE_LOGS_TELL_ALL | FEATURE_GENERATIONS;
/// A feature to open a volume: the second snapshot slot lies behind the groups ([`Layout::slot_is_far`]).
pub const FEATURE_FAR_SLOT: u64 = 1 << 8;
/// A feature to open a volume: a record may begin anywhere in its log ([`Layout::records_anywhere`]). Whoever follows a log from
/// record to record would not find all.
pub const FEATURE_RECORDS_ANYWHERE: u64 = 1 << 9;
/// A feature to open a volume: its data lies on [other devices](crate::data_device), its own has the logs.
pub const FEATURE_DATA_DEVICES: u64 = 1 << 10;
/// A feature to open a volume: it has no homes, its logs are on all its devices ([`Layout::is_chain`]), and records say what was moved within them.
pub const FEATURE_CHAIN: u64 = 1 << 11;
/// A feature to open a volume: the last of its other devices have logs, as its own has ([`DataParts::log_devices`]).
pub const FEATURE_LOG_DEVICES: u64 = 1 << 12;
/// A feature to open a volume: its records may have [fragments](crate::record::Fragment), and its snapshots what is left of them
/// ([`Layout::fragments`]). Whoever passes them over serves what they lie over.
pub const FEATURE_FRAGMENTS: u64 = 1 << 13;
/// A feature to write to a volume: it has a [blank map](crate::blank_map). Whoever writes home without knowing it
/// would leave promises behind that are not true.
pub const FEATURE_BLANK_MAP: u64 = 1;
/// A feature to write to a volume: what snapshots alone took back is taken back by a record soon after, so that the map
/// can be rebuilt from the logs. It was so from the volume's first record on.
pub const FEATURE_LOGS_TELL_ALL: u64 = 1 << 8;
/// A feature to write to a volume: each of its devices has a [generation](crate::generation). A program that does not raise them
/// would let an older copy of a device pass for the newest.
pub const FEATURE_GENERATIONS: u64 = 1 << 9;

/// A feature to write to a volume, of a disk in memory alone: it is in the place of a lost device, so nothing may be written.
pub const FEATURE_STAND_IN: u64 = 1 << 62;

const LABEL_AT: usize = 152;
const MAP_DEVICE_AT: usize = 216;
const DATA_OFFSET_AT: usize = 232;
/// End of what every superblock says; that of a volume with data devices goes on.
const USED_BYTES: usize = 240;
const DATA_COUNT_AT: usize = USED_BYTES;
const LOG_DEVICES_AT: usize = 244;
const DATA_BYTES_AT: usize = 248;

const _: () = assert!(LABEL_AT + LABEL_BYTES_MAX == MAP_DEVICE_AT, "the label fills its field");
const _: () = assert!(MAP_DEVICE_AT + size_of::<VolumeId>() == DATA_OFFSET_AT, "no gap");
const _: () = assert!(DATA_OFFSET_AT + size_of::<u64>() == USED_BYTES, "no gap before the end");

/// The features without which nobody can open a volume of this layout.
pub fn features_of(layout: &Layout) -> u64 {
    let far_slot = if layout.slot_is_far() { FEATURE_FAR_SLOT } else { 0 };
    let anywhere = if layout.records_anywhere { FEATURE_RECORDS_ANYWHERE } else { 0 };
    let data = if layout.data_parts.is_empty() { 0 } else { FEATURE_DATA_DEVICES };
    let chain = if layout.is_chain() { FEATURE_CHAIN } else { 0 };
    let logs = if layout.data_parts.log_devices() == 0 { 0 } else { FEATURE_LOG_DEVICES };
    let fragments = if layout.fragments { FEATURE_FRAGMENTS } else { 0 };
    far_slot | anywhere | data | chain | logs | fragments
}

/// Which policies a volume was created with: a number that whoever opens the volume has to know. To the format it is nothing
/// more; where everything is, the layout says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PresetNumber(pub u16);

impl fmt::Display for PresetNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// When a write without FUA is replied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AckMode {
    /// Once it is durable (the papers' set-up with the disk's cache off).
    Durable = 0,
    /// Early; the client's FLUSH or FUA makes it durable.
    Flush = 1,
}

/// A volume's name for people: at most 64 bytes of UTF-8 without NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Label(String);

impl Label {
    /// Takes `text` as a label.
    pub fn new(text: impl Into<String>) -> Result<Self, FieldError> {
        let text = text.into();
        if text.len() > LABEL_BYTES_MAX {
            let expected = format_args!("at most {LABEL_BYTES_MAX} bytes").to_string();
            return Err(FieldError::new("label", expected, format_args!("{} bytes", text.len())));
        }
        if text.contains('\0') {
            return Err(FieldError::new("label", "no NUL characters", format_args!("{text:?}")));
        }
        Ok(Self(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Everything a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Names the volume.
    pub volume_id: VolumeId,
    /// Counts rewrites of the superblock.
    pub generation: u64,
    /// When the volume was created, in seconds since 1970 UTC.
    pub created_unix_s: u64,
    /// Where everything is.
    pub layout: Layout,
    /// The policies in force.
    pub preset: PresetNumber,
    /// When writes are replied to.
    pub ack: AckMode,
    /// Writes up to this many bytes are logged.
    pub logged_write_bytes_max: u32,
    /// Features a program must know to open the volume.
    pub feature_incompat: u64,
    /// Features a program must know to write to the volume.
    pub feature_ro_compat: u64,
    /// For people.
    pub label: Label,
    /// The device that holds the map's journal, if there is one.
    pub map_device_id: Option<VolumeId>,
}

impl Superblock {
    /// The 4096 bytes of copy `copy_index`.
    pub fn encode(&self, copy_index: u32) -> [u8; SEALED_BYTES] {
        let layout = &self.layout;
        let mut block = [0; SEALED_BYTES];
        put(&mut block, 0, &SUPERBLOCK_MAGIC);
        put(&mut block, 8, &FORMAT_VERSION.to_le_bytes());
        put(&mut block, 12, &copy_index.to_le_bytes());
        put(&mut block, 16, &self.volume_id);
        put(&mut block, 32, &self.generation.to_le_bytes());
        put(&mut block, 40, &self.created_unix_s.to_le_bytes());
        put(&mut block, 48, &layout.device_bytes.to_le_bytes());
        put(&mut block, 56, &layout.sector_bytes.to_le_bytes());
        put(&mut block, 60, &layout.log_block_bytes.to_le_bytes());
        put(&mut block, 64, &layout.slot_offsets[0].to_le_bytes());
        put(&mut block, 72, &layout.slot_offsets[1].to_le_bytes());
        put(&mut block, 80, &layout.slot_bytes.to_le_bytes());
        put(&mut block, 88, &layout.groups_offset.to_le_bytes());
        put(&mut block, 96, &layout.group_bytes.to_le_bytes());
        put(&mut block, 104, &layout.log_bytes.to_le_bytes());
        put(&mut block, 112, &layout.group_count.to_le_bytes());
        put(&mut block, 116, &self.preset.0.to_le_bytes());
        put(&mut block, 118, &[self.ack as u8]);
        put(&mut block, 120, &self.logged_write_bytes_max.to_le_bytes());
        put(&mut block, 128, &self.feature_incompat.to_le_bytes());
        put(&mut block, 136, &self.feature_ro_compat.to_le_bytes());
        put(&mut block, 144, &layout.client_bytes().to_le_bytes());
        put(&mut block, LABEL_AT, self.label.as_str().as_bytes());
        put(&mut block, MAP_DEVICE_AT, &self.map_device_id.unwrap_or_default());
        put(&mut block, DATA_OFFSET_AT, &layout.data_offset.to_le_bytes());
        put(&mut block, DATA_COUNT_AT, &layout.data_parts.count().to_le_bytes());
        put(&mut block, LOG_DEVICES_AT, &layout.data_parts.log_devices().to_le_bytes());
        for (position, bytes) in layout.data_parts.bytes().iter().enumerate() {
            put(&mut block, DATA_BYTES_AT + 8 * position, &bytes.to_le_bytes());
        }
        seal(&mut block);
        block
    }

    /// Reads copy `copy_index`, trusting nothing. Whether anybody knows the preset, and whether its logs are those of the
    /// layout, is not asked here: see [`crate::LayoutKind::fits`].
    pub fn decode(bytes: &[u8], copy_index: u32) -> Result<Self, SuperblockError> {
        let block = open(bytes, SUPERBLOCK_MAGIC)?;
        let version = u32_at(block, 8);
        if version != FORMAT_VERSION {
            return Err(SuperblockError::Version { expected: FORMAT_VERSION, found: version });
        }
        let found = u32_at(block, 12);
        if found != copy_index {
            return Err(SuperblockError::Misdirected { expected: copy_index, found });
        }
        let feature_incompat = u64_at(block, 128);
        let unknown = feature_incompat & !FEATURES_INCOMPAT_KNOWN;
        if unknown != 0 {
            return Err(SuperblockError::Features { unknown });
        }
        let superblock = Self {
            volume_id: array_at(block, 16),
            generation: u64_at(block, 32),
            created_unix_s: u64_at(block, 40),
            layout: decode_layout(block, feature_incompat)?,
            preset: PresetNumber(u16_at(block, 116)),
            ack: decode_ack(block[118])?,
            logged_write_bytes_max: u32_at(block, 120),
            feature_incompat,
            feature_ro_compat: u64_at(block, 136),
            label: decode_label(&block[LABEL_AT..MAP_DEVICE_AT])?,
            map_device_id: Some(array_at(block, MAP_DEVICE_AT)).filter(|id| *id != [0; 16]),
        };
        superblock.check_agreement(block)?;
        Ok(superblock)
    }

    /// Whether the volume has a blank map.
    pub fn has_blank_map(&self) -> bool {
        self.feature_ro_compat & FEATURE_BLANK_MAP != 0
    }

    /// Whether every record of the volume was written by a program whose logs tell all that was taken back.
    pub fn logs_tell_all(&self) -> bool {
        self.feature_ro_compat & FEATURE_LOGS_TELL_ALL != 0
    }

    /// Whether the volume lies on several devices: its own, and others or a map device.
    pub fn has_several_devices(&self) -> bool {
        !self.layout.data_parts.is_empty() || self.map_device_id.is_some()
    }

    /// Whether each of its devices has a generation.
    pub fn has_generations(&self) -> bool {
        self.feature_ro_compat & FEATURE_GENERATIONS != 0
    }

    /// Whether the volume uses features that this program can read but must not write.
    pub fn must_be_read_only(&self) -> bool {
        self.feature_ro_compat & !FEATURES_RO_COMPAT_KNOWN != 0
    }

    fn check_agreement(&self, block: &[u8]) -> Result<(), FieldError> {
        let layout = &self.layout;
        let stored = u64_at(block, 144);
        if stored != layout.client_bytes() {
            return Err(FieldError::new("client_bytes", layout.client_bytes(), stored));
        }
        if self.feature_incompat & FEATURE_FAR_SLOT != features_of(layout) & FEATURE_FAR_SLOT {
            let expected = format_args!(
                "bit {FEATURE_FAR_SLOT:#x} if and only if slot 1 is behind the groups"
            )
            .to_string();
            let found = format_args!("{:#x}", self.feature_incompat).to_string();
            return Err(FieldError::new("feature_incompat", expected, found));
        }
        if self.feature_incompat & FEATURE_DATA_DEVICES
            != features_of(layout) & FEATURE_DATA_DEVICES
        {
            let expected = format_args!(
                "bit {FEATURE_DATA_DEVICES:#x} if and only if there are other devices"
            );
            let found = format_args!("{:#x}", self.feature_incompat).to_string();
            return Err(FieldError::new("feature_incompat", expected.to_string(), found));
        }
        if self.must_be_read_only() {
            // A newer program may keep more in the reserved bytes; they may be ignored when reading.
            return Ok(());
        }
        check_zero("reserved", &[block[119]])?;
        check_zero("reserved", &block[124..128])?;
        let devices = layout.data_parts.bytes().len();
        if devices == 0 {
            return check_rest_zero(block, USED_BYTES);
        }
        if layout.data_parts.log_devices() == 0 {
            check_zero("reserved", &block[LOG_DEVICES_AT..DATA_BYTES_AT])?;
        }
        check_rest_zero(block, DATA_BYTES_AT + 8 * devices)
    }
}

fn decode_layout(block: &[u8], feature_incompat: u64) -> Result<Layout, SuperblockError> {
    let layout = Layout {
        device_bytes: u64_at(block, 48),
        sector_bytes: u32_at(block, 56),
        log_block_bytes: u32_at(block, 60),
        slot_offsets: [u64_at(block, 64), u64_at(block, 72)],
        slot_bytes: u64_at(block, 80),
        groups_offset: u64_at(block, 88),
        group_bytes: u64_at(block, 96),
        log_bytes: u64_at(block, 104),
        group_count: u32_at(block, 112),
        data_offset: u64_at(block, DATA_OFFSET_AT),
        records_anywhere: feature_incompat & FEATURE_RECORDS_ANYWHERE != 0,
        data_parts: decode_data_parts(block, feature_incompat)?,
        fragments: feature_incompat & FEATURE_FRAGMENTS != 0,
    };
    layout.validate()?;
    Ok(layout)
}

fn decode_data_parts(block: &[u8], feature_incompat: u64) -> Result<DataParts, FieldError> {
    let has_log_devices = feature_incompat & FEATURE_LOG_DEVICES != 0;
    if feature_incompat & FEATURE_DATA_DEVICES == 0 && !has_log_devices {
        return Ok(DataParts::NONE);
    }
    let count = u32_at(block, DATA_COUNT_AT);
    let bytes: [u64; DATA_DEVICES_MAX] =
        std::array::from_fn(|position| u64_at(block, DATA_BYTES_AT + 8 * position));
    let devices = bytes.get(..count as usize).filter(|devices| !devices.is_empty());
    let parts = devices.and_then(DataParts::of).ok_or_else(|| {
        let expected = format_args!("1 to {DATA_DEVICES_MAX}").to_string();
        FieldError::new("data_count", expected, count)
    })?;
    if !has_log_devices {
        return Ok(parts);
    }
    let found = u32_at(block, LOG_DEVICES_AT);
    let with_logs = parts.with_log_devices(found).filter(|_| found > 0);
    with_logs.ok_or_else(|| {
        let expected =
            format_args!("1 to {}, so that data devices are left", count.saturating_sub(1));
        FieldError::new("log_count", expected.to_string(), found)
    })
}

fn decode_ack(number: u8) -> Result<AckMode, FieldError> {
    match number {
        0 => Ok(AckMode::Durable),
        1 => Ok(AckMode::Flush),
        other => Err(FieldError::new("ack", "0 or 1", other)),
    }
}

fn decode_label(bytes: &[u8]) -> Result<Label, FieldError> {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let (text, padding) = bytes.split_at(end);
    check_zero("label padding", padding)?;
    let text = str::from_utf8(text).map_err(|error| FieldError::new("label", "UTF-8", error))?;
    Label::new(text)
}
