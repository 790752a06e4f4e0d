//! Volumes: presets, create, open and check, over any disk (under construction).

pub mod service;

pub use service::{Extent, Service, ServiceInfo};
