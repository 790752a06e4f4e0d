//! A placement that is written in Python: what the engine asks it, and which of its answers the engine can follow.

use super::lent;
use super::placement_view::{Completed, Need, PlacementView, Spot};
use super::{Book, Failed, shown};
use crate::told;
use nearhead_engine::placement::{self, Placement, Seen, View};
use pyo3::prelude::*;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a maker gives.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct Made {
    name: String,
    claims_ahead: u32,
    claims_kept: usize,
    place: Py<PyAny>,
    waits: Option<Py<PyAny>>,
    record_leaves: Option<Py<PyAny>>,
    completed: Option<Py<PyAny>>,
}

/// The placement, as the engine has it.
pub(super) type Asked = super::Asked<Made, PlacementView, dyn Placement>;

impl Asked {
    pub(super) fn made(
        py: Python<'_>,
        maker: &Py<PyAny>,
        book: &Arc<Book>,
        preset: Box<dyn Placement>,
    ) -> PyResult<Self> {
        let made = maker.call0(py)?.extract(py)?;
        Self::new(made, book, preset, |owner| Py::new(py, PlacementView { owner }))
    }

    /// Asks for the answer of a method.
    fn ask<T>(
        &self,
        view: &View<'_>,
        question: impl FnOnce(Python<'_>, &Py<PlacementView>) -> PyResult<T>,
    ) -> Result<T, Failed> {
        lent::placing(&self.owner, view, || self.book.ask(|py| question(py, &self.view)))
    }

    /// The answer to `place`, if the engine can follow it.
    fn read(
        &self,
        answer: &Bound<'_, PyAny>,
        need: placement::Need,
        view: &View<'_>,
    ) -> PyResult<Option<placement::Spot>> {
        if answer.is_none() {
            return Ok(None);
        }
        let refused = |expected: &str, why: &str| {
            let (name, found) = (&self.made.name, shown(answer));
            told(format!(
                "placement {name:?}: expected place() to answer with {expected}, found {found}{why}"
            ))
        };
        let Ok(spot) = answer.cast::<Spot>() else {
            return Err(refused("a Spot or None", ""));
        };
        let Spot { log, block, wanted } = *spot.get();
        let spot = placement::Spot { log_index: log, block, wanted_index: wanted };
        if view.is_legal(spot, need) && wanted < view.logs.count() {
            return Ok(Some(spot));
        }
        let blocks = need.blocks;
        Err(refused(
            "a spot that may be written",
            &format!(": {} (a record of {blocks} blocks)", why_not(spot, need, view)),
        ))
    }
}

/// What is wrong with a spot.
fn why_not(spot: placement::Spot, need: placement::Need, view: &View<'_>) -> String {
    let (logs, log) = (view.logs, spot.log_index);
    let count = logs.count();
    if log >= count || spot.wanted_index >= count {
        return format!("there are {count} logs");
    }
    if !logs.is_claimed(log) {
        return format!("log {log} is not claimed, so that a recovery would not read it");
    }
    match logs.next_place(log, need) {
        None => format!("log {log} has no room"),
        Some(next) => {
            let block = spot.block;
            format!(
                "log {log} takes no such record at block {block}; the next that it does is at block {next}"
            )
        }
    }
}

impl Placement for Asked {
    fn seen(&mut self, seen: &Seen, view: &View<'_>) {
        match (seen, &self.made.record_leaves, &self.made.completed) {
            (Seen::RecordLeaves { spot }, Some(method), _) => {
                let spot =
                    Spot { log: spot.log_index, block: spot.block, wanted: spot.wanted_index };
                let _ = self.ask(view, |py, shown| method.call1(py, (shown, spot)));
            }
            (Seen::Completed(done), _, Some(method)) => {
                let done = Completed {
                    record_end: done.record_end,
                    offset_bytes: done.offset,
                    len_bytes: done.bytes,
                    took_ns: done.took.0,
                    has_moved: done.has_moved,
                    is_ok: done.is_ok,
                };
                let _ = self.ask(view, |py, shown| method.call1(py, (shown, done)));
            }
            _ => {}
        }
    }

    fn waits(&self, view: &View<'_>) -> bool {
        let Some(method) = &self.made.waits else { return false };
        let answer = self.ask(view, |py, seen| {
            let answer = method.call1(py, (seen,))?.into_bound(py);
            answer.extract::<bool>().map_err(|_| {
                let (name, found) = (&self.made.name, shown(&answer));
                told(format!(
                    "placement {name:?}: expected waits() to answer True or False, found {found}"
                ))
            })
        });
        answer.unwrap_or(false)
    }

    fn choose(&mut self, need: placement::Need, view: &View<'_>) -> Option<placement::Spot> {
        self.book.records.fetch_add(1, Ordering::Relaxed);
        let answer = self.ask(view, |py, seen| {
            let asked = Need { blocks: need.blocks, reserve_blocks: need.reserve };
            let answer = self.made.place.call1(py, (seen, asked))?;
            self.read(answer.bind(py), need, view)
        });
        let Ok(spot) = answer else { return self.preset.choose(need, view) };
        self.book.placed.fetch_add(u64::from(spot.is_some()), Ordering::Relaxed);
        spot
    }

    fn claims_ahead(&self) -> u32 {
        self.made.claims_ahead
    }

    fn claims_kept(&self) -> usize {
        self.made.claims_kept
    }

    fn boxed(&self) -> Box<dyn Placement> {
        Box::new(self.same(self.preset.boxed()))
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the placement {:?} in Python", self.made.name)
    }
}
