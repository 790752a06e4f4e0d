//! What a placement that is written in Python is shown, and the words of its answer. Every number that it may ask with has an answer.

use super::LISTED_MAX;
use super::lent::{self, Owner};
use nearhead_engine::placement::{self, View};
use pyo3::prelude::*;

/// Where a record goes: the log, the block of it where the record begins, and the log that would have been best, which the record claims for the next
/// ones; the same if it is not given.
#[pyclass(frozen, eq, hash, get_all, module = "nearhead._native")]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Spot {
    /// The log.
    pub(super) log: u32,
    /// The block of it where the record begins.
    pub(super) block: u32,
    /// The log that would have been best.
    pub(super) wanted: u32,
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

/// What a record needs: its length in blocks, and how many more have to be free behind it.
#[pyclass(frozen, eq, hash, get_all, module = "nearhead._native")]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct Need {
    /// Length of the record.
    pub(super) blocks: u32,
    /// How many more have to be free behind it.
    pub(super) reserve_blocks: u32,
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
    pub(super) record_end: Option<(u32, u32)>,
    /// First byte of the disk.
    pub(super) offset_bytes: u64,
    /// 0 of what transfers nothing.
    pub(super) len_bytes: u64,
    /// From leaving to completion.
    pub(super) took_ns: u64,
    /// Whether it moved the arm, as far as one can tell.
    pub(super) has_moved: bool,
    /// Whether it did what was asked.
    pub(super) is_ok: bool,
}

/// What a placement may look at, while it is asked: what a host can know.
#[pyclass(frozen, module = "nearhead._native")]
pub(crate) struct PlacementView {
    pub(super) owner: Owner,
}

impl PlacementView {
    fn look<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> PyResult<T> {
        lent::look_placing(&self.owner, look)
    }
}

#[pymethods]
impl PlacementView {
    /// The time.
    #[getter]
    fn now_ns(&self) -> PyResult<u64> {
        self.look(|view| view.now.0)
    }

    /// Byte of the disk where the head will be for a command that leaves now, as far as one can know.
    #[getter]
    fn head_offset_bytes(&self) -> PyResult<u64> {
        self.look(|view| view.head_offset)
    }

    /// Nothing is on the disk or on its way there.
    #[getter]
    fn is_idle(&self) -> PyResult<bool> {
        self.look(|view| view.is_idle)
    }

    /// Commands that left and are not completed.
    #[getter]
    fn commands_on_disk(&self) -> PyResult<u32> {
        self.look(|view| view.on_disk)
    }

    /// How many logs the volume has; their numbers begin at 0.
    #[getter]
    fn log_count(&self) -> PyResult<u32> {
        self.look(|view| view.logs.count())
    }

    /// Blocks of a log.
    #[getter]
    fn log_blocks(&self) -> PyResult<u32> {
        self.look(|view| view.logs.blocks())
    }

    /// Size of a block of a log.
    #[getter]
    fn block_bytes(&self) -> PyResult<usize> {
        self.look(|view| view.logs.block_bytes())
    }

    /// Whether a record may begin at any free place of a log; else records stand in order.
    #[getter]
    fn takes_records_anywhere(&self) -> PyResult<bool> {
        self.look(|view| view.logs.take_records_anywhere())
    }

    /// Logs by their distance from a byte of the disk, the head's if none is given: `count` of them, at most 65,536.
    #[pyo3(signature = (offset_bytes=None, count=64))]
    fn logs_near(&self, offset_bytes: Option<u64>, count: usize) -> PyResult<Vec<u32>> {
        self.look(|view| {
            let near = view.logs.near(offset_bytes.unwrap_or(view.head_offset));
            near.take(count.min(LISTED_MAX)).collect()
        })
    }

    /// Whether a recovery would read the log; no record goes to another one.
    fn is_claimed(&self, log: u32) -> PyResult<bool> {
        self.look(|view| view.logs.is_claimed(log))
    }

    /// Whether it had no room worth looking for when it was last written.
    fn is_full(&self, log: u32) -> PyResult<bool> {
        self.look(|view| view.logs.is_full(log))
    }

    /// Share of it that cannot be written now, 0 to 100.
    fn fill_pct(&self, log: u32) -> PyResult<u32> {
        self.look(|view| view.logs.fill_pct_of(log))
    }

    /// Whether it can take the record.
    fn has_room(&self, log: u32, need: &Need) -> PyResult<bool> {
        self.look(|view| view.logs.has_room(log, need.told()))
    }

    /// The first block from its write position on where it can take the record.
    fn next_place(&self, log: u32, need: &Need) -> PyResult<Option<u32>> {
        self.look(|view| view.logs.next_place(log, need.told()))
    }

    /// The first block from `block` on where it can take the record; where records stand in order `block` or none.
    fn place_from(&self, log: u32, block: u32, need: &Need) -> PyResult<Option<u32>> {
        self.look(|view| view.logs.place_from(log, block, need.told()))
    }

    /// Whether it can take the record at this block.
    fn accepts(&self, log: u32, block: u32, need: &Need) -> PyResult<bool> {
        self.look(|view| view.logs.accepts(log, block, need.told()))
    }

    /// The claimed log with room that is nearest a byte of the disk, the head's if none is given.
    #[pyo3(signature = (need, offset_bytes=None))]
    fn nearest_claimed(&self, need: &Need, offset_bytes: Option<u64>) -> PyResult<Option<u32>> {
        self.look(|view| {
            view.logs.nearest_claimed(offset_bytes.unwrap_or(view.head_offset), need.told())
        })
    }

    /// Byte of the disk where a block of a log is.
    fn block_offset_bytes(&self, log: u32, block: u32) -> PyResult<Option<u64>> {
        self.look(|view| view.logs.block_offset(log, block))
    }

    /// How long until a record that leaves now would begin there, on an idle disk; none where nobody found out where tracks are (presets whose records go
    /// anywhere do), or predictions do not hold.
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
