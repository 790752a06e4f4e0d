//! What the engine lends a policy while it asks one thing of it: the state of the logs, by reference.
//!
//! A view in Python holds nothing but the name of its policy. What it is asked it looks up in the thread's own slot, which is filled for just as long as
//! the question is under way. So nothing of the engine is copied that a policy does not ask for (a disk has up to 200,000 logs, and a question is to take some
//! microseconds), and yet no reference outlives the engine's call: a view that is kept, or taken to another thread, answers with an error. It is
//! also an error to ask the view of another policy, whose question has another one inside it.

use crate::told;
use nearhead_engine::cleaner::CleaningView;
use nearhead_engine::placement::View;
use pyo3::prelude::*;
use scoped_tls_hkt::scoped_thread_local;
use std::sync::Arc;

/// Names a policy; nothing else has this one.
pub(super) type Owner = Arc<()>;

#[derive(Clone, Copy)]
struct Placing<'a> {
    owner: &'a Owner,
    view: &'a View<'a>,
}

#[derive(Clone, Copy)]
struct Cleaning<'a> {
    owner: &'a Owner,
    view: &'a CleaningView<'a>,
}

scoped_thread_local!(static PLACING: for<'a> Placing<'a>);
scoped_thread_local!(static CLEANING: for<'a> Cleaning<'a>);

/// Asks a placement something.
pub(super) fn placing<T>(owner: &Owner, view: &View<'_>, question: impl FnOnce() -> T) -> T {
    PLACING.set(Placing { owner, view }, question)
}

/// Asks a cleaner something.
pub(super) fn cleaning<T>(
    owner: &Owner,
    view: &CleaningView<'_>,
    question: impl FnOnce() -> T,
) -> T {
    CLEANING.set(Cleaning { owner, view }, question)
}

/// Looks at what this placement was lent.
pub(super) fn look_placing<T>(owner: &Owner, look: impl FnOnce(&View<'_>) -> T) -> PyResult<T> {
    if !PLACING.is_set() {
        return Err(over());
    }
    PLACING.with(
        |lent| {
            if Arc::ptr_eq(lent.owner, owner) { Ok(look(lent.view)) } else { Err(over()) }
        },
    )
}

/// The same of a cleaner.
pub(super) fn look_cleaning<T>(
    owner: &Owner,
    look: impl FnOnce(&CleaningView<'_>) -> T,
) -> PyResult<T> {
    if !CLEANING.is_set() {
        return Err(over());
    }
    CLEANING.with(
        |lent| {
            if Arc::ptr_eq(lent.owner, owner) { Ok(look(lent.view)) } else { Err(over()) }
        },
    )
}

fn over() -> PyErr {
    told(
        "view: expected to be asked by its own policy and thread while the engine waits for an answer, found that over; \
         keep numbers, not the view",
    )
}
