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
    /// The member that is being replaced, if one is.
    pub replacing: Option<Replacing>,
}

/// Progress of a member that replaces another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacing {
    /// As errors name the member that is replaced; none if it is away.
    pub old: Option<String>,
    /// As errors name the new member.
    pub new: String,
    /// Bytes that the new member is to hold.
    pub size_bytes: u64,
    /// Bytes still to be copied to it.
    pub left_bytes: u64,
    /// The old member still takes every change and serves reads.
    pub old_counts: bool,
    /// The new member has everything, the labels say so, and the old one is used no more.
    pub is_done: bool,
    /// Error for which the new member was given up.
    pub failed: Option<String>,
}
