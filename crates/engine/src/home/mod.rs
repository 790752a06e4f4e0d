//! What goes home without a log: a lone write where no head moves, and staged blocks that no log has room for.
//!
//! A home that cannot be written costs that block alone a rest, never the volume.

pub(crate) mod alone_home;
pub(crate) mod failed_homes;
pub(crate) mod spill;
