//! What a mode answers: where the data of a transaction goes, and where its record.

use std::fmt;

/// Where some bytes of a transaction are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Where they belong, before the record.
    InPlace,
    /// Into the record of the transaction.
    Record,
}

/// What a mode decides for as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Neighbouring bytes of a file that are to become durable at once, by how many they are.
    Run,
    /// All updates of one block between two times that it is written where it belongs, by how many bytes the first of them has (an
    /// *update sequence*: Okeanos, section 3).
    UpdateSequence,
}

/// A journaling mode.
pub trait Mode: fmt::Debug + Send + Sync {
    /// As it is called in options and in tables.
    fn name(&self) -> &'static str;

    /// One line for people.
    fn about(&self) -> &'static str;

    /// What [`Mode::data`] is asked for.
    fn unit(&self) -> Unit {
        Unit::Run
    }

    /// Where data goes, by the bytes of its run, or of the first update of a block. Runs up to `small_bytes_max` are small, where a mode
    /// tells bulk from small writes: [`crate::small_run_bytes`].
    fn data(&self, bytes: u64, small_bytes_max: u64) -> Placement;

    /// Whether the record says which bytes of a block are new, so that those alone are logged, of many blocks together.
    fn packs_fragments(&self) -> bool {
        false
    }

    /// Whether the record goes to the log nearest the head; otherwise to one fixed log.
    fn is_near_head(&self) -> bool;
}

/// No mode has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMode {
    /// What was asked for.
    pub name: String,
    /// What there is.
    pub known: Vec<&'static str>,
}

impl fmt::Display for UnknownMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.known.join(", ");
        write!(formatter, "unknown journaling mode {:?}: expected one of {known}", self.name)
    }
}

impl std::error::Error for UnknownMode {}
