//! Measured drives: their packages become profiles, and their traces are replayed on models.

pub mod import;
mod learned;
pub mod validate;
mod validate_plot;
