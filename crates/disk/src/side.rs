//! What a disk of several parts with the same bytes tells of one that it could do without.

use crate::Nanos;

/// A part that may rest: the disk lives without asking it anything as long as nothing is written ([`crate::Disk::let_rest`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    /// As errors name it.
    pub name: String,
    /// It has had nothing to do for as long as was asked for, so its drive may sleep.
    pub is_resting: bool,
    /// For how long it has had nothing to do.
    pub idle: Nanos,
    /// How often it was asked something after it had rested.
    pub woken: u64,
}
