//! What a cleaner that is written in Python is shown, and a move as its answer. Every number that it may ask with has an answer.

use super::lent::{self, Owner};
use nearhead_disk::Nanos;
use nearhead_engine::cleaner;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Most logs that are listed at once.
const LISTED_MAX: usize = 1 << 16;

/// The content of a log that goes to another one.
#[pyclass(frozen, eq, hash, get_all, module = "nearhead._native")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Move {
    pub(super) from_log: u32,
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

/// What is shown of the volume.
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
    #[getter]
    fn now_ns(&self) -> PyResult<u64> {
        self.look(|view| view.now.0)
    }

    #[getter]
    fn second_of_day(&self) -> PyResult<u64> {
        self.look(|view| {
            (u64::from(view.second_of_day_at_zero) + view.now.0 / 1_000_000_000) % 86_400
        })
    }

    #[getter]
    fn last_request_at_ns(&self) -> PyResult<u64> {
        self.look(|view| view.last_request_at.0)
    }

    #[getter]
    fn idle_for_ns(&self) -> PyResult<u64> {
        self.look(|view| view.idle_for().0)
    }

    #[getter]
    fn is_quiet(&self) -> PyResult<bool> {
        self.look(|view| view.is_quiet)
    }

    #[getter]
    fn last_pass_ended_at_ns(&self) -> PyResult<u64> {
        self.look(|view| view.last_pass_ended_at.0)
    }

    #[getter]
    fn last_log(&self) -> PyResult<u32> {
        self.look(|view| view.last_log)
    }

    #[getter]
    fn snapshot_number(&self) -> PyResult<u64> {
        self.look(|view| view.snapshot_number)
    }

    #[getter]
    fn fragment_fill_pct(&self) -> PyResult<u32> {
        self.look(|view| view.fragment_fill_pct)
    }

    #[getter]
    fn log_count(&self) -> PyResult<u32> {
        self.look(|view| view.logs.count())
    }

    #[pyo3(signature = (log=None))]
    fn fill_pct(&self, log: Option<u32>) -> PyResult<u32> {
        self.look(|view| match log {
            None => view.logs.fill_pct(),
            Some(log) => view.logs.fill_pct_of(log),
        })
    }

    #[pyo3(signature = (count=LISTED_MAX))]
    fn logs_touched(&self, count: usize) -> PyResult<Vec<u32>> {
        self.look(|view| view.logs.touched().take(count.min(LISTED_MAX)).collect())
    }

    fn is_touched(&self, log: u32) -> PyResult<bool> {
        self.look(|view| view.logs.is_touched(log))
    }

    fn is_needed(&self, log: u32) -> PyResult<bool> {
        self.look(|view| view.logs.is_needed(log))
    }

    fn is_full(&self, log: u32) -> PyResult<bool> {
        self.look(|view| view.logs.is_full(log))
    }

    fn rests(&self, log: u32) -> PyResult<bool> {
        self.look(|view| view.logs.rests(log))
    }

    /// What its owner asked for.
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
