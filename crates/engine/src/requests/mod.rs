//! What clients ask for, from the gate to the reply.
//!
//! Every request passes the gate, takes the locks of its range, and ends in one of three ways: staged for a record, written
//! in place, or read. Who waits for durability waits here, and is told here when it does not come.

pub(crate) mod allocation;
pub(crate) mod barrier;
pub(crate) mod gate;
pub(crate) mod in_place;
pub mod range_lock;
pub(crate) mod read;
pub(crate) mod refusals;
pub(crate) mod small_write;
pub(crate) mod stage;
