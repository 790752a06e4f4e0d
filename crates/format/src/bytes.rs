//! What every codec says of a field that is wrong.
//!
//! It keeps the name that docs/format.md uses, so that whoever reads the error finds the field. Nothing is decoded here.

use std::fmt;

/// A field whose value the format does not allow: the common part of every codec's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field, as docs/format.md calls it.
    pub name: &'static str,
    /// What the format allows there.
    pub expected: String,
    /// What was there.
    pub found: String,
}

impl FieldError {
    /// `name` should have been `expected` but was `found`.
    #[cold]
    pub(crate) fn new(
        name: &'static str,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Self {
        Self { name, expected: expected.to_string(), found: found.to_string() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: expected {}, found {}", self.name, self.expected, self.found)
    }
}

impl std::error::Error for FieldError {}
