//! What a mirror tells of how far its members are apart, for people who wait until they are alike. Nothing decides by it.

/// A mirror whose members know each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resilver {
    /// As errors name the mirror.
    pub name: String,
    /// What the member that lacks most would be copied if it came back now: bytes of regions that changed while it is away, or all
    /// that it has where that is not known. 0 if no member is away.
    pub dirty_bytes: u64,
    /// Bytes still to be copied to members that came back, or to be compared after a crash.
    pub left_bytes: u64,
}
