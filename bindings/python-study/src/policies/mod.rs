//! Policies written in Python, as the engine has them.
//!
//! What comes in is a maker for each: something to be called that gives the object of a policy, with what it is called, its numbers and those of
//! its methods that answer anything. It is called when an engine starts, so that what a policy remembers ends with its engine. Three things
//! hold. A question takes the interpreter's lock and gives it back; between two of them it is free. The first failure of any of them, an exception
//! or an answer that nothing can be done with, is kept as it is, and from then on nobody in Python is asked: the preset's own policies answer until
//! whoever drives the engine sees that it is over. And no borrow of the engine's leaves a question ([`lent`]).

mod admission;
mod cleaner;
mod cleaning_view;
mod lent;
mod placement;
mod placement_view;
pub(crate) mod suite;

pub(crate) use admission::{Command, Outstanding};
pub(crate) use cleaning_view::{CleaningView, Move};
pub(crate) use placement_view::{Completed, Need, PlacementView, Spot};

use lent::Owner;
use nearhead_engine::{Config, Policies};
use pyo3::prelude::*;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Most logs that a view lists at once.
const LISTED_MAX: usize = 1 << 16;

/// A policy that is shown a view, as the engine has it.
pub(crate) struct Asked<M, V, P: ?Sized> {
    /// What its maker gave.
    made: Arc<M>,
    owner: Owner,
    view: Arc<Py<V>>,
    book: Arc<Book>,
    /// Answers where this one failed.
    preset: Box<P>,
}

impl<M, V, P: ?Sized> Asked<M, V, P> {
    /// With a view of its own.
    fn new(
        made: M,
        book: &Arc<Book>,
        preset: Box<P>,
        view: impl FnOnce(Owner) -> PyResult<Py<V>>,
    ) -> PyResult<Self> {
        let owner = Owner::default();
        let view = Arc::new(view(Arc::clone(&owner))?);
        Ok(Self { made: Arc::new(made), owner, view, book: Arc::clone(book), preset })
    }

    /// The same object: the configuration and the engine that it is for have one, which was made for that engine.
    fn same(&self, preset: Box<P>) -> Self {
        let (made, owner) = (Arc::clone(&self.made), Arc::clone(&self.owner));
        Self { made, owner, view: Arc::clone(&self.view), book: Arc::clone(&self.book), preset }
    }
}

/// A question failed, and the book has why; or one before it did.
struct Failed;

/// What failed first, and how often was asked.
#[derive(Default)]
struct Book {
    has_failed: AtomicBool,
    failure: Mutex<Option<PyErr>>,
    /// How often the engine asked: where a record goes, who leaves, and what of it is emptied.
    records: AtomicU64,
    commands: AtomicU64,
    cleanings: AtomicU64,
    /// How often a placement named a place.
    placed: AtomicU64,
}

impl Book {
    /// The answer, unless this question fails or one before it did.
    fn ask<T>(&self, question: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T, Failed> {
        if self.has_failed() {
            return Err(Failed);
        }
        Python::attach(question).map_err(|failure| {
            self.fail(failure);
            Failed
        })
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    fn fail(&self, failure: PyErr) {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(failure);
        self.has_failed.store(true, Ordering::Relaxed);
    }
}

/// The makers of policies that take the place of a preset's.
pub(crate) struct Brought {
    placement: Option<Py<PyAny>>,
    admission: Option<Py<PyAny>>,
    cleaner: Option<Py<PyAny>>,
    book: Arc<Book>,
}

impl Brought {
    /// `None` if there are none.
    pub(crate) fn new(
        placement: Option<Py<PyAny>>,
        admission: Option<Py<PyAny>>,
        cleaner: Option<Py<PyAny>>,
    ) -> Option<Arc<Self>> {
        let is_any = placement.is_some() || admission.is_some() || cleaner.is_some();
        let brought = Self { placement, admission, cleaner, book: Arc::default() };
        is_any.then(|| Arc::new(brought))
    }

    /// What failed first, if anything did.
    pub(crate) fn take_failure(&self) -> Option<PyErr> {
        self.book.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Which of them never had a say, if one had none: what never ran proves nothing.
    pub(crate) fn unheard(&self) -> Option<String> {
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let asked = [
            ("placement", &self.placement, &self.book.records),
            ("admission", &self.admission, &self.book.commands),
            ("cleaner", &self.cleaner, &self.book.cleanings),
        ];
        let never = asked.iter().find(|(_, maker, asked)| maker.is_some() && count(asked) == 0);
        if let Some((question, ..)) = never {
            return Some(format!("the {question} was never asked"));
        }
        let records = count(&self.book.records);
        (records > 0 && count(&self.book.placed) == 0).then(|| {
            format!("the placement was asked {records} times where a record goes, and never named a place")
        })
    }
}

impl fmt::Debug for Brought {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let brought = [
            ("a placement", &self.placement),
            ("an admission", &self.admission),
            ("a cleaner", &self.cleaner),
        ];
        let names: Vec<_> =
            brought.iter().filter(|(_, maker)| maker.is_some()).map(|(name, _)| *name).collect();
        write!(formatter, "{} in Python", names.join(", "))
    }
}

impl Policies for Brought {
    fn configure(&self, config: &mut Config) {
        let book = &self.book;
        if let Some(maker) = &self.placement {
            let preset = config.placement.boxed();
            if let Ok(made) = book.ask(|py| placement::Asked::made(py, maker, book, preset)) {
                config.placement = Box::new(made);
            }
        }
        if let Some(maker) = &self.admission {
            let preset = config.admission.boxed();
            if let Ok(made) = book.ask(|py| admission::Asked::made(py, maker, book, preset)) {
                config.admission = Box::new(made);
            }
        }
        if let Some(maker) = &self.cleaner {
            let preset = config.cleaner.boxed();
            if let Ok(made) = book.ask(|py| cleaner::Asked::made(py, maker, book, preset)) {
                config.cleaner = Box::new(made);
            }
        }
    }

    fn go_on(&self) -> bool {
        !self.book.has_failed()
    }
}

/// What was answered, for people.
fn shown(answer: &Bound<'_, PyAny>) -> String {
    /// Longest text that is shown of it, in characters.
    const SHOWN_MAX: usize = 200;
    let kind = answer.get_type().name().map(|name| name.to_string());
    let kind = kind.unwrap_or_else(|_| "an object".to_owned());
    let text = answer
        .repr()
        .map(|text| text.to_string_lossy().chars().take(SHOWN_MAX).collect::<String>());
    match text {
        Ok(text) if text.starts_with(&kind) || answer.is_none() => text,
        Ok(text) => format!("{kind} {text}"),
        Err(_) => kind,
    }
}
