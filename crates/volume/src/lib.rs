//! Volumes: presets, create, open and check, over any disk (under construction).

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod bare;
pub mod service;

pub use bare::BareDisk;
pub use service::{Extent, Service, ServiceInfo};
