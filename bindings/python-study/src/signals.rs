//! Ctrl-C in a long run: the interpreter is asked now and then whether a signal came.

use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// It is asked so often.
const PERIOD: Duration = Duration::from_millis(50);

/// Lets a signal's handler run, if one came, and gives what it raised. To be called without the interpreter's lock.
#[expect(clippy::redundant_closure_for_method_calls, reason = "the method is not general enough")]
pub(crate) fn check() -> PyResult<()> {
    Python::attach(|py| py.check_signals())
}

/// Whether a run may go on.
pub(crate) struct Signals {
    asked: Instant,
    /// What a signal's handler raised.
    raised: Option<PyErr>,
}

impl Signals {
    pub(crate) fn new() -> Self {
        Self { asked: Instant::now(), raised: None }
    }

    /// False once a handler raised an exception. To be called without the interpreter's lock, as often as one likes.
    pub(crate) fn go_on(&mut self) -> bool {
        if self.raised.is_none() && self.asked.elapsed() >= PERIOD {
            self.raised = check().err();
            self.asked = Instant::now();
        }
        self.raised.is_none()
    }

    /// The exception.
    pub(crate) fn into_raised(self) -> Option<PyErr> {
        self.raised
    }
}
