//! A placement that is written in Python, and what it is shown: numbers and the state of the logs.

use super::lent::{self, Owner};
use super::{Book, Failed, shown};
use crate::told;
use nearhead_engine::placement::{self, Placement, Seen, View};
use pyo3::prelude::*;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most logs that are listed at once.
const LISTED_MAX: usize = 1 << 16;

/// Where a record goes: the log, the block of it where the record begins, and the log that would have been best, which the record claims.
#[pyclass(frozen, eq, hash, get_all, module = "nearhead._native")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Spot {
    log: u32,
    block: u32,
    wanted: u32,
}

#[pymethods]
impl Spot {
    #[new]
    #[pyo3(signature = (log, block, wanted=None))]
    fn new(log: u32, block: u32, wanted: Option<u32>) -> Self {
        Self { log, block, wanted: wanted.unwrap_or(log) }
    }

    /// So that an object that keeps one can be copied.
    fn __getnewargs__(&self) -> (u32, u32, u32) {
        (self.log, self.block, self.wanted)
    }

    fn __repr__(&self) -> String {
        let Self { log, block, wanted } = self;
        format!("Spot(log={log}, block={block}, wanted={wanted})")
    }
}

/// What a record needs.
#[pyclass(frozen, eq, hash, get_all, module = "nearhead._native")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Need {
    blocks: u32,
    reserve_blocks: u32,
}

#[pymethods]
impl Need {
    #[new]
    #[pyo3(signature = (blocks, reserve_blocks=0))]
    fn new(blocks: u32, reserve_blocks: u32) -> Self {
        Self { blocks, reserve_blocks }
    }

    fn __getnewargs__(&self) -> (u32, u32) {
        (self.blocks, self.reserve_blocks)
    }

    fn __repr__(&self) -> String {
        format!("Need(blocks={}, reserve_blocks={})", self.blocks, self.reserve_blocks)
    }
}

impl Need {
    fn told(&self) -> placement::Need {
        placement::Need { blocks: self.blocks, reserve: self.reserve_blocks }
    }
}

/// A command that completed.
#[pyclass(frozen, get_all, module = "nearhead._native")]
pub(crate) struct Completed {
    /// Log and block behind the record, if it is one.
    record_end: Option<(u32, u32)>,
    offset_bytes: u64,
    len_bytes: u64,
    took_ns: u64,
    has_moved: bool,
    is_ok: bool,
}

/// What is shown of the volume.
#[pyclass(frozen, module = "nearhead._native")]
pub(crate) struct PlacementView {
    owner: Owner,
}

impl PlacementView {
    fn look<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> PyResult<T> {
        lent::look_placing(&self.owner, look)
    }
}

#[pymethods]
impl PlacementView {
    #[getter]
    fn now_ns(&self) -> PyResult<u64> {
        self.look(|view| view.now.0)
    }

    #[getter]
    fn head_offset_bytes(&self) -> PyResult<u64> {
        self.look(|view| view.head_offset)
    }

    #[getter]
    fn is_idle(&self) -> PyResult<bool> {
        self.look(|view| view.is_idle)
    }

    #[getter]
    fn commands_on_disk(&self) -> PyResult<u32> {
        self.look(|view| view.on_disk)
    }

    #[getter]
    fn log_count(&self) -> PyResult<u32> {
        self.look(|view| view.logs.count())
    }

    #[getter]
    fn log_blocks(&self) -> PyResult<u32> {
        self.look(|view| view.logs.blocks())
    }

    #[getter]
    fn block_bytes(&self) -> PyResult<usize> {
        self.look(|view| view.logs.block_bytes())
    }

    #[getter]
    fn takes_records_anywhere(&self) -> PyResult<bool> {
        self.look(|view| view.logs.take_records_anywhere())
    }

    #[pyo3(signature = (offset_bytes=None, count=64))]
    fn logs_near(&self, offset_bytes: Option<u64>, count: usize) -> PyResult<Vec<u32>> {
        self.look(|view| {
            let near = view.logs.near(offset_bytes.unwrap_or(view.head_offset));
            near.take(count.min(LISTED_MAX)).collect()
        })
    }

    fn is_claimed(&self, log: u32) -> PyResult<bool> {
        self.look(|view| view.logs.is_claimed(log))
    }

    fn is_full(&self, log: u32) -> PyResult<bool> {
        self.look(|view| view.logs.is_full(log))
    }

    fn fill_pct(&self, log: u32) -> PyResult<u32> {
        self.look(|view| view.logs.fill_pct_of(log))
    }

    fn has_room(&self, log: u32, need: &Need) -> PyResult<bool> {
        self.look(|view| view.logs.has_room(log, need.told()))
    }

    fn next_place(&self, log: u32, need: &Need) -> PyResult<Option<u32>> {
        self.look(|view| view.logs.next_place(log, need.told()))
    }

    fn place_from(&self, log: u32, block: u32, need: &Need) -> PyResult<Option<u32>> {
        self.look(|view| view.logs.place_from(log, block, need.told()))
    }

    fn accepts(&self, log: u32, block: u32, need: &Need) -> PyResult<bool> {
        self.look(|view| view.logs.accepts(log, block, need.told()))
    }

    #[pyo3(signature = (need, offset_bytes=None))]
    fn nearest_claimed(&self, need: &Need, offset_bytes: Option<u64>) -> PyResult<Option<u32>> {
        self.look(|view| {
            view.logs.nearest_claimed(offset_bytes.unwrap_or(view.head_offset), need.told())
        })
    }

    fn block_offset_bytes(&self, log: u32, block: u32) -> PyResult<Option<u64>> {
        self.look(|view| view.logs.block_offset(log, block))
    }

    fn begins_in_ns(&self, log: u32, block: u32) -> PyResult<Option<u64>> {
        self.look(|view| begins_in_ns(view, log, block))
    }
}

/// How long until a record that leaves now would begin there, if it is known where tracks are and that holds.
fn begins_in_ns(view: &View<'_>, log: u32, block: u32) -> Option<u64> {
    let drives = view.drives.filter(|drives| drives.is_trusted())?;
    let (drive, byte) = drives.part(view.logs.block_offset(log, block)?);
    let access = drive.access(byte);
    Some((access + drive.wait(byte, view.now + access)?).0)
}

/// What a maker gives.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Made {
    name: String,
    claims_ahead: u32,
    claims_kept: usize,
    place: Py<PyAny>,
    waits: Option<Py<PyAny>>,
    record_leaves: Option<Py<PyAny>>,
    completed: Option<Py<PyAny>>,
}

/// The placement, as the engine has it.
pub(super) struct Asked {
    made: Arc<Made>,
    owner: Owner,
    view: Arc<Py<PlacementView>>,
    book: Arc<Book>,
    /// Answers where this one failed.
    preset: Box<dyn Placement>,
}

impl Asked {
    pub(super) fn made(
        py: Python<'_>,
        maker: &Py<PyAny>,
        book: &Arc<Book>,
        preset: Box<dyn Placement>,
    ) -> PyResult<Self> {
        let made = Arc::new(maker.call0(py)?.extract(py)?);
        let owner = Owner::default();
        let view = Arc::new(Py::new(py, PlacementView { owner: Arc::clone(&owner) })?);
        Ok(Self { made, owner, view, book: Arc::clone(book), preset })
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
        Some(next) => format!("log {log} takes the record at block {next}, and not there"),
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
        let answer = self.ask(view, |py, seen| {
            let asked = Need { blocks: need.blocks, reserve_blocks: need.reserve };
            let answer = self.made.place.call1(py, (seen, asked))?;
            self.read(answer.bind(py), need, view)
        });
        let Ok(spot) = answer else { return self.preset.choose(need, view) };
        self.book.records.fetch_add(1, Ordering::Relaxed);
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
        // The configuration and the engine that it is for have one and the same object: it was made for that engine.
        Box::new(Self {
            made: Arc::clone(&self.made),
            owner: Arc::clone(&self.owner),
            view: Arc::clone(&self.view),
            book: Arc::clone(&self.book),
            preset: self.preset.boxed(),
        })
    }
}

impl fmt::Debug for Asked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the placement {:?} in Python", self.made.name)
    }
}
