//! The NBD protocol as a state machine: bytes in, requests out, replies in, bytes out.
//!
//! No socket, no clock, no thread. One file per phase: `options` for the handshake (with `meta`
//! for its metadata contexts), `request` with the one gate for hostile input, `reply`, and the
//! [`Machine`] that leads from one to the next.

pub mod constants;
mod export;
mod inbox;
mod machine;
mod meta;
mod options;
mod outbox;
mod reply;
mod request;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod wire;

pub use export::{Export, ExportError, REQUEST_BYTES_MAX};
pub use inbox::STAGING_BYTES;
pub use machine::{Event, Intake, Machine, OPTION_BYTES_MAX, SKIP_BYTES_MAX};
pub use options::TlsMode;
pub use outbox::{Outbox, SLICES_MAX};
pub(crate) use reply::{Form, Replies, errno_of, tidy_extents};
pub use reply::{Handle, ReadAsked};
pub(crate) use request::{Agreed, Header, validate_request};
pub use request::{ClientCommand, ClientRequest};
