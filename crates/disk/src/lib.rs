//! What an engine says to a disk and what the disk says back.
//!
//! Everything above this crate speaks bytes-and-offsets commands; everything below it (a real
//! device through `io_uring`, a model in real or virtual time) carries them out. The crate keeps
//! three things true:
//!
//! - every submitted command gets exactly one completion ([`Ticket`] cannot be lost silently);
//! - payloads are reference counted and sector-aligned, so that nothing on the write path copies;
//! - a disk tells a host only what a host can know ([`Properties`]), never where its head is.
//!
//! It performs no I/O and reads no clock: times are [`Nanos`] given by the caller.

mod absent;
mod buffer;
mod command;
mod desk;
mod disk;
mod lane;
mod limits;
mod payload;
mod pool;
mod properties;
mod range_set;
mod resilver;
mod side;
mod striping;
mod ticket;
mod time;
mod tracks;
mod zones;

pub use absent::AbsentDisk;
pub use buffer::{ALIGN_BYTES, Buffer, BufferMut};
pub use command::{Class, Command, Completion, DiskError, DiskErrorKind, PartDone, Submission};
pub use desk::{Booked, Desk};
pub use disk::{Disk, Run};
pub use lane::{At, Lane};
pub use limits::check_command;
pub use payload::{Payload, bytes_of, copy_parts, range_of, total_len};
pub use pool::BufferPool;
pub use properties::{Properties, PropertiesError};
pub use range_set::RangeSet;
pub use resilver::{Replacing, Resilver};
pub use side::{Side, Woken, WokenBy};
pub use striping::{Striping, WholeRuns};
pub use ticket::{CommandId, Ticket};
pub use time::Nanos;
pub use tracks::{TrackZone, Tracks, TracksError, Turn};
pub use zones::{Region, RegionKind, Zones, ZonesError};

/// The unit in which addresses are tracked everywhere: the smallest sector any disk has.
pub const SECTOR_BYTES: u64 = 512;
