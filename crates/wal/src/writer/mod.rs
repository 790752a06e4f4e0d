//! Who writes: how a durable write reaches the kernel, and with what priority.

mod durable;

pub use durable::{DurableWriter, PlainWriter};
