//! Sizes that cannot be laid out.

use std::borrow::Cow;
use std::fmt;

/// Which size is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutField {
    /// The device as a whole.
    DeviceBytes,
    /// The device's sector.
    SectorBytes,
    /// The unit of the logs.
    LogBlockBytes,
    /// Size of a group.
    GroupBytes,
    /// Size of a group's log.
    LogBytes,
    /// Number of groups.
    GroupCount,
    /// Where a snapshot slot is.
    SlotOffset,
    /// Size of a snapshot slot.
    SlotBytes,
    /// Where the groups start.
    GroupsOffset,
    /// Where the data starts when the logs are apart from it.
    DataOffset,
    /// Size of the client's address space.
    ClientBytes,
    /// What each data device adds.
    DataParts,
    /// Whether records have fragments.
    Fragments,
}

impl LayoutField {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::DeviceBytes,
        Self::SectorBytes,
        Self::LogBlockBytes,
        Self::GroupBytes,
        Self::LogBytes,
        Self::GroupCount,
        Self::SlotOffset,
        Self::SlotBytes,
        Self::GroupsOffset,
        Self::DataOffset,
        Self::ClientBytes,
        Self::DataParts,
        Self::Fragments,
    ];

    /// Its name in docs/format.md.
    pub fn name(self) -> &'static str {
        match self {
            Self::DeviceBytes => "device_bytes",
            Self::SectorBytes => "sector_bytes",
            Self::LogBlockBytes => "log_block_bytes",
            Self::GroupBytes => "group_bytes",
            Self::LogBytes => "log_bytes",
            Self::GroupCount => "group_count",
            Self::SlotOffset => "slot_offset",
            Self::SlotBytes => "slot_bytes",
            Self::GroupsOffset => "groups_offset",
            Self::DataOffset => "data_offset",
            Self::ClientBytes => "client_bytes",
            Self::DataParts => "data_parts",
            Self::Fragments => "fragments",
        }
    }
}

/// A size that cannot be laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutError {
    /// Which one.
    pub field: LayoutField,
    /// What would be possible.
    pub expected: String,
    /// What was given, in the field's unit.
    pub found: u64,
    /// What to do about it.
    pub advice: Cow<'static, str>,
}

impl LayoutError {
    #[cold]
    pub(super) fn new(
        field: LayoutField,
        expected: impl fmt::Display,
        found: u64,
        advice: &'static str,
    ) -> Self {
        Self { field, expected: expected.to_string(), found, advice: advice.into() }
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, expected, found, advice } = self;
        write!(formatter, "{}: expected {expected}, found {found}; {advice}", field.name())
    }
}

impl std::error::Error for LayoutError {}
