//! A cleaner that is written in Python: what the engine asks it, and which of its answers the engine can follow.

use super::cleaning_view::{CleaningView, Move};
use super::lent;
use super::{Book, Failed, shown};
use crate::told;
use nearhead_disk::Nanos;
use nearhead_engine::cleaner::{self, Cleaner, Goal, WhenFull, Why};
use pyo3::prelude::*;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Why a pass home is due, by its name.
const REASONS: [(&str, Why); 4] =
    [("idle", Why::Idle), ("room", Why::Room), ("time", Why::Time), ("need", Why::Need)];

/// What a maker gives.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct Made {
    name: String,
    waits_when_full: bool,
    home: Option<Py<PyAny>>,
    home_wake_ns: Option<Py<PyAny>>,
    home_begins: Option<Py<PyAny>>,
    relocate: Option<Py<PyAny>>,
    relocate_wake_ns: Option<Py<PyAny>>,
}

/// The cleaner, as the engine has it.
pub(super) type Asked = super::Asked<Made, CleaningView, dyn Cleaner>;

impl Asked {
    pub(super) fn made(
        py: Python<'_>,
        maker: &Py<PyAny>,
        book: &Arc<Book>,
        preset: Box<dyn Cleaner>,
    ) -> PyResult<Self> {
        let made = maker.call0(py)?.extract(py)?;
        Self::new(made, book, preset, |owner| Py::new(py, CleaningView { owner }))
    }

    /// The answer of a method, read by `read`: nothing if there is no such method.
    fn ask<T>(
        &self,
        view: &cleaner::CleaningView<'_>,
        method: Option<&Py<PyAny>>,
        read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<Option<T>, Failed> {
        self.book.cleanings.fetch_add(1, Ordering::Relaxed);
        let Some(method) = method else { return Ok(None) };
        lent::cleaning(&self.owner, view, || {
            self.book.ask(|py| {
                let answer = method.call1(py, (&*self.view,))?.into_bound(py);
                if answer.is_none() { Ok(None) } else { read(&answer).map(Some) }
            })
        })
    }

    fn refused(&self, method: &str, expected: &str, answer: &Bound<'_, PyAny>, why: &str) -> PyErr {
        let (name, found) = (&self.made.name, shown(answer));
        told(format!(
            "cleaner {name:?}: expected {method}() to answer with {expected}, found {found}{why}"
        ))
    }

    fn read_reason(&self, answer: &Bound<'_, PyAny>) -> PyResult<Why> {
        let known =
            |text: &str| REASONS.iter().find(|(name, _)| *name == text).map(|(_, why)| *why);
        let text = answer.extract::<String>().ok();
        text.as_deref().and_then(known).ok_or_else(|| {
            self.refused("home", "\"idle\", \"room\", \"time\", \"need\" or None", answer, "")
        })
    }

    fn read_move(
        &self,
        answer: &Bound<'_, PyAny>,
        view: &cleaner::CleaningView<'_>,
    ) -> PyResult<cleaner::Move> {
        let Ok(asked) = answer.cast::<Move>() else {
            return Err(self.refused("relocate", "a Move or None", answer, ""));
        };
        let &Move { from_log, to_log } = asked.get();
        let (logs, count) = (view.logs, view.logs.count());
        let why = if from_log >= count || to_log >= count {
            format!("there are {count} logs")
        } else if from_log == to_log {
            "that is one and the same log".to_owned()
        } else if !logs.is_needed(from_log) {
            format!("nothing of log {from_log} is needed")
        } else if logs.rests(to_log) {
            format!("log {to_log} rests, since it did not take a record")
        } else {
            return Ok(cleaner::Move { from: from_log, to: Goal::Log(to_log) });
        };
        Err(self.refused("relocate", "a move that can be made", answer, &format!(": {why}")))
    }

    fn read_time(&self, method: &str, answer: &Bound<'_, PyAny>) -> PyResult<Nanos> {
        let nanos = answer.extract::<u64>();
        nanos.map(Nanos).map_err(|_| self.refused(method, "a time in ns or None", answer, ""))
    }
}

impl Cleaner for Asked {
    fn home(&mut self, view: &cleaner::CleaningView<'_>) -> Option<Why> {
        let answer = self.ask(view, self.made.home.as_ref(), |answer| self.read_reason(answer));
        answer.unwrap_or_else(|Failed| self.preset.home(view))
    }

    fn home_begins(&mut self, view: &cleaner::CleaningView<'_>) {
        let _ = self.ask(view, self.made.home_begins.as_ref(), |_| Ok(()));
    }

    fn home_wake(&self, view: &cleaner::CleaningView<'_>) -> Option<Nanos> {
        let method = self.made.home_wake_ns.as_ref();
        let answer = self.ask(view, method, |answer| self.read_time("home_wake_ns", answer));
        answer.unwrap_or_else(|Failed| self.preset.home_wake(view))
    }

    fn relocate(&mut self, view: &cleaner::CleaningView<'_>) -> Option<cleaner::Move> {
        let method = self.made.relocate.as_ref();
        let answer = self.ask(view, method, |answer| self.read_move(answer, view));
        answer.unwrap_or_else(|Failed| self.preset.relocate(view))
    }

    fn relocate_wake(&self, view: &cleaner::CleaningView<'_>) -> Option<Nanos> {
        let method = self.made.relocate_wake_ns.as_ref();
        let answer = self.ask(view, method, |answer| self.read_time("relocate_wake_ns", answer));
        answer.unwrap_or_else(|Failed| self.preset.relocate_wake(view))
    }

    fn when_full(&self) -> WhenFull {
        if self.made.waits_when_full { WhenFull::Wait } else { WhenFull::InPlace }
    }

    fn boxed(&self) -> Box<dyn Cleaner> {
        Box::new(self.same(self.preset.boxed()))
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the cleaner {:?} in Python", self.made.name)
    }
}
