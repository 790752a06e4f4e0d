//! What a cleaner that is written in Python is shown, and a move as its answer. Every number that it may ask with has an answer.

use super::LISTED_MAX;
use super::lent::{self, Owner};
use nearhead_disk::Nanos;
use nearhead_engine::cleaner;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The content of a log that goes to another one.
#[pyclass(frozen, eq, hash, get_all, module = "nearhead._native")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Move {
    /// The log that is emptied.
    pub(super) from_log: u32,
    /// The log that takes what it holds.
    pub(super) to_log: u32,
}

#[pymethods]
impl Move {
    #[new]
    fn new(from_log: u32, to_log: u32) -> Self {
        Self { from_log, to_log }
    }

    /// So that an object that keeps one can be copied.
    fn __getnewargs__(&self) -> (u32, u32) {
        (self.from_log, self.to_log)
    }

    fn __repr__(&self) -> String {
        format!("Move(from_log={}, to_log={})", self.from_log, self.to_log)
    }
}

/// What a cleaner may look at, while it is asked.
#[pyclass(frozen, module = "nearhead._native")]
pub(crate) struct CleaningView {
    pub(super) owner: Owner,
}

impl CleaningView {
    fn look<T>(&self, look: impl FnOnce(&cleaner::CleaningView<'_>) -> T) -> PyResult<T> {
        lent::look_cleaning(&self.owner, look)
    }
}

#[pymethods]
impl CleaningView {
    /// The time.
    #[getter]
    fn now_ns(&self) -> PyResult<u64> {
        self.look(|view| view.now.0)
    }

    /// Seconds since midnight.
    #[getter]
    fn second_of_day(&self) -> PyResult<u64> {
        self.look(|view| {
            (u64::from(view.second_of_day_at_zero) + view.now.0 / 1_000_000_000) % 86_400
        })
    }

    /// When a client asked for anything the last time.
    #[getter]
    fn last_request_at_ns(&self) -> PyResult<u64> {
        self.look(|view| view.last_request_at.0)
    }

    /// How long ago that was.
    #[getter]
    fn idle_for_ns(&self) -> PyResult<u64> {
        self.look(|view| view.idle_for().0)
    }

    /// No request is under way.
    #[getter]
    fn is_quiet(&self) -> PyResult<bool> {
        self.look(|view| view.is_quiet)
    }

    /// When the last pass home ended.
    #[getter]
    fn last_pass_ended_at_ns(&self) -> PyResult<u64> {
        self.look(|view| view.last_pass_ended_at.0)
    }

    /// The log of the newest record.
    #[getter]
    fn last_log(&self) -> PyResult<u32> {
        self.look(|view| view.last_log)
    }

    /// Number of the newest snapshot: what a move freed can be written after the next one.
    #[getter]
    fn snapshot_number(&self) -> PyResult<u64> {
        self.look(|view| view.snapshot_number)
    }

    /// How much of the room for writes smaller than a sector is taken.
    #[getter]
    fn fragment_fill_pct(&self) -> PyResult<u32> {
        self.look(|view| view.fragment_fill_pct)
    }

    /// How many logs the volume has; their numbers begin at 0.
    #[getter]
    fn log_count(&self) -> PyResult<u32> {
        self.look(|view| view.logs.count())
    }

    /// Share that cannot be written now, 0 to 100, of a log or of all.
    #[pyo3(signature = (log=None))]
    fn fill_pct(&self, log: Option<u32>) -> PyResult<u32> {
        self.look(|view| match log {
            None => view.logs.fill_pct(),
            Some(log) => view.logs.fill_pct_of(log),
        })
    }

    /// Logs that hold something, protect something or are claimed, in their order: `count` of them, at most 65,536.
    #[pyo3(signature = (count=LISTED_MAX))]
    fn logs_touched(&self, count: usize) -> PyResult<Vec<u32>> {
        self.look(|view| view.logs.touched().take(count.min(LISTED_MAX)).collect())
    }

    /// Whether it is one of those.
    fn is_touched(&self, log: u32) -> PyResult<bool> {
        self.look(|view| view.logs.is_touched(log))
    }

    /// Whether it holds the newest copy of anything.
    fn is_needed(&self, log: u32) -> PyResult<bool> {
        self.look(|view| view.logs.is_needed(log))
    }

    /// Whether it had no room worth looking for when it was last written.
    fn is_full(&self, log: u32) -> PyResult<bool> {
        self.look(|view| view.logs.is_full(log))
    }

    /// Whether it is left alone for a while, since it did not take a record.
    fn rests(&self, log: u32) -> PyResult<bool> {
        self.look(|view| view.logs.rests(log))
    }

    /// What the owner of the volume asked for.
    fn asked<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let asked = self.look(|view| view.asked.clone())?;
        let nanos = |time: Option<Nanos>| time.map(|time| time.0);
        let dict = PyDict::new(py);
        dict.set_item("period_ns", nanos(asked.period))?;
        dict.set_item("idle_after_ns", nanos(asked.idle_after))?;
        dict.set_item("window_s", asked.window)?;
        dict.set_item("watermark_pct", asked.watermark_pct)?;
        dict.set_item("swap_above_pct", asked.swap_above_pct)?;
        dict.set_item("swap_idle_after_ns", asked.swap_idle_after.0)?;
        Ok(dict)
    }
}
