//! The FUSE protocol without any I/O: bytes of the kernel's requests to values, and answers to bytes.
//!
//! It knows neither a file system nor a descriptor. Bytes from the kernel are checked as those of any other source.

pub mod answer;
pub mod request;
pub mod wire;

#[cfg(test)]
mod tests;

pub use request::{Operation, Request, decode};
