//! The compiled half of the Python package `nearhead`: disks, traces, experiments and figures, as the crates below have them.
//!
//! It hands over, and decides nothing: described workloads come in as JSON, figures go out as JSON, and what has a row for each request goes as the bytes
//! of columns, which arrays of Python take without a copy of their own. Three things hold: the interpreter is free for others while a simulation runs;
//! a signal ends a run within a moment; every failure is a `nearhead.Error` with the sentence that the crates below say.
//!
//! The other half, in `python/nearhead`, is what people see.

#![forbid(unsafe_code)]

mod disk;
mod experiment;
mod figures;
mod loads;
mod outcome;
mod policies;
mod replicas;
mod requests;
mod signals;
mod validate;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    nearhead,
    Error,
    PyException,
    "What went wrong: what, where, what was expected and found, and what to do."
);

/// An error of ours as one of Python's.
fn told(error: impl std::fmt::Display) -> PyErr {
    Error::new_err(error.to_string())
}

/// Not to be used by itself: `nearhead` has what it offers.
#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use super::Error;
    #[pymodule_export]
    use super::disk::{Disk, presets};
    #[pymodule_export]
    use super::experiment::run;
    #[pymodule_export]
    use super::figures::{figure_names, figures};
    #[pymodule_export]
    use super::outcome::Outcome;
    #[pymodule_export]
    use super::policies::suite::conformance;
    #[pymodule_export]
    use super::policies::{
        CleaningView, Command, Completed, Move, Need, Outstanding, PlacementView, Spot,
    };
    #[pymodule_export]
    use super::replicas::run_replicas;
    #[pymodule_export]
    use super::requests::{Requests, formats};
    #[pymodule_export]
    use super::validate::validate;
}
