//! An admission that is written in Python, and what it is shown: a command, and what is on the disk, as numbers.

use super::{Book, Failed, shown};
use crate::told;
use nearhead_disk::{Class, Nanos};
use nearhead_engine::admission::{self, Admission, Pace};
use pyo3::prelude::*;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Names of the classes, in their order.
const PRIORITIES: [&str; 4] = ["durable", "foreground", "bulk", "background"];

/// A command that waits for its turn.
#[pyclass(frozen, get_all, module = "nearhead._native")]
pub(crate) struct Command {
    /// "durable", "foreground", "bulk" or "background".
    priority: &'static str,
    /// Its length; of several that leave together that of a piece.
    len_bytes: u64,
    /// Time for which it has given way: since it was issued, with a durable command on the disk or a record waiting.
    waited_ns: u64,
}

#[pymethods]
impl Command {
    fn __repr__(&self) -> String {
        let Self { priority, len_bytes, waited_ns } = self;
        format!("Command(priority={priority:?}, len_bytes={len_bytes}, waited_ns={waited_ns})")
    }
}

/// What is on the disk.
#[pyclass(frozen, module = "nearhead._native")]
pub(crate) struct Outstanding {
    of: admission::Outstanding,
}

#[pymethods]
impl Outstanding {
    /// Commands of this priority, or of all.
    #[pyo3(signature = (priority=None))]
    fn commands(&self, priority: Option<&str>) -> PyResult<u32> {
        match priority {
            None => Ok(self.of.commands_total()),
            Some(priority) => Ok(self.of.commands[place_of(priority)?]),
        }
    }

    /// Their bytes.
    #[pyo3(signature = (priority=None))]
    fn len_bytes(&self, priority: Option<&str>) -> PyResult<u64> {
        match priority {
            None => Ok(self.of.bytes.iter().sum()),
            Some(priority) => Ok(self.of.bytes[place_of(priority)?]),
        }
    }

    /// How much background work matters now: it can wait, it is asked for, nobody else is there, clients wait for it.
    #[getter]
    fn pace(&self) -> &'static str {
        match self.of.pace {
            Pace::Polite => "polite",
            Pace::Steady => "steady",
            Pace::Alone => "alone",
            Pace::Urgent => "urgent",
        }
    }

    /// A record waits until nothing is on the disk.
    #[getter]
    fn record_waits(&self) -> bool {
        self.of.record_waits
    }

    /// Bytes that left since a durable command did that is still there, other such commands left out.
    #[getter]
    fn beside_durable_bytes(&self) -> u64 {
        self.of.beside_durable_bytes
    }

    /// Foreground commands that wait for their turn.
    #[getter]
    fn foreground_waiting(&self) -> u32 {
        self.of.foreground_waiting
    }

    /// Time for which the first of them has waited.
    #[getter]
    fn foreground_waited_ns(&self) -> u64 {
        self.of.foreground_waited.0
    }

    /// Time since the command that asks was issued.
    #[getter]
    fn issued_ago_ns(&self) -> u64 {
        self.of.issued_ago.0
    }
}

fn place_of(priority: &str) -> PyResult<usize> {
    PRIORITIES.iter().position(|known| *known == priority).ok_or_else(|| {
        told(format!("outstanding: expected one of {}, found {priority:?}", PRIORITIES.join(", ")))
    })
}

/// What a maker gives.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Made {
    name: String,
    piece_bytes: Option<u32>,
    admits: Py<PyAny>,
}

/// The admission, as the engine has it.
pub(super) struct Asked {
    made: Arc<Made>,
    piece_bytes: u32,
    book: Arc<Book>,
    /// Answers where this one failed.
    preset: Box<dyn Admission>,
}

impl Asked {
    /// Pieces are as large as the preset has them, unless it says otherwise.
    pub(super) fn made(
        py: Python<'_>,
        maker: &Py<PyAny>,
        book: &Arc<Book>,
        preset: Box<dyn Admission>,
    ) -> PyResult<Self> {
        let made: Made = maker.call0(py)?.extract(py)?;
        let piece_bytes = made.piece_bytes.unwrap_or_else(|| preset.piece_bytes());
        let (made, book) = (Arc::new(made), Arc::clone(book));
        Ok(Self { made, piece_bytes, book, preset })
    }

    /// The answer, if the engine can follow it.
    fn read(&self, answer: &Bound<'_, PyAny>, asked: &str, is_alone: bool) -> PyResult<bool> {
        let name = &self.made.name;
        let admits = answer.extract::<bool>().map_err(|_| {
            let found = shown(answer);
            told(format!(
                "admission {name:?}: expected admits() to answer True or False, found {found}"
            ))
        })?;
        if !admits && is_alone {
            return Err(told(format!(
                "admission {name:?}: expected admits() to let {asked} pass, as nothing is on the disk and nobody would ask again, found False"
            )));
        }
        Ok(admits)
    }
}

impl Admission for Asked {
    fn admits(
        &self,
        class: Class,
        bytes: u64,
        waited: Nanos,
        outstanding: &admission::Outstanding,
    ) -> bool {
        self.book.commands.fetch_add(1, Ordering::Relaxed);
        let answer = self.book.ask(|py| {
            let priority = PRIORITIES[class as usize];
            let command = Command { priority, len_bytes: bytes, waited_ns: waited.0 };
            let asked = Bound::new(py, command)?;
            let answer = self.made.admits.call1(py, (&asked, Outstanding { of: *outstanding }))?;
            self.read(answer.bind(py), &asked.get().__repr__(), outstanding.commands_total() == 0)
        });
        answer.unwrap_or_else(|Failed| self.preset.admits(class, bytes, waited, outstanding))
    }

    fn piece_bytes(&self) -> u32 {
        self.piece_bytes
    }

    fn boxed(&self) -> Box<dyn Admission> {
        let (made, book) = (Arc::clone(&self.made), Arc::clone(&self.book));
        Box::new(Self { made, book, piece_bytes: self.piece_bytes, preset: self.preset.boxed() })
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the admission {:?} in Python", self.made.name)
    }
}
