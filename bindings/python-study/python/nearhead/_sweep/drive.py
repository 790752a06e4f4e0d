"""A sweep from its beginning to its end: tasks to workers, rows to the data set.

At most as many tasks are under way as the engine takes. A task that fails is a row that says why, and others go on; the sweep ends with all rows there, and
with an error if any failed. A sweep that is stopped, by Ctrl-C or because workers are gone, keeps what is done.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional, Union

from .._columns import missing
from .._native import Error
from .._policies import QUESTIONS
from . import worker
from .carried import Carried
from .data_set import DataSet
from .engines import Engine, engine_of
from .fingerprint import python_version
from .grid import Grid, Maker
from .parcels import Parcels
from .task import Columns, ExperimentTask, Task, columns_of

#: How long it is waited for workers before rows are looked at.
_WAIT_S = 1.0
#: What each row has, whatever its task is.
_OWN: Columns = {"task": "int", "status": "text", "error": "text", "worker": "text"}


@dataclass(frozen=True)
class Sweep:
    """A sweep at its end."""

    #: Where its rows are.
    out: Path
    #: Experiments of the grid.
    tasks: int
    #: How many of them were run by this call; the others were there.
    ran: int
    #: Those that failed, by their number, and what was said.
    failures: dict[int, str] = field(repr=False)
    #: Real time that it took.
    wall_s: float
    #: Times that a worker was given a trace.
    traces_sent: int
    #: Seconds of a processor that each worker took since it was started, by its name.
    processor_s: dict[str, float] = field(repr=False)
    _table: Any = field(repr=False)

    @property
    def failed(self) -> int:
        """How many failed, by this call or before."""
        return len(self.failures)

    def to_arrow(self) -> Any:
        """All rows as an Arrow table, in the order of the grid."""
        return self._table

    def to_pandas(self) -> Any:
        """All rows as a pandas frame."""
        return self._table.to_pandas()

    def to_polars(self) -> Any:
        """All rows as a polars frame."""
        try:
            import polars
        except ImportError:
            raise missing("polars", "sweep") from None
        return polars.from_arrow(self._table)

    def summary(self) -> str:
        """A sentence."""
        return f"{self.tasks} experiments in {self.out}: {self.ran} run in {self.wall_s:.1f} s, {self.tasks - self.ran} there before, {self.failed} failed"


def sweep(
    grid: Union[Mapping[str, Any], Iterable[Mapping[str, Any]]],
    workers: Union[str, int] = "local",
    *,
    out: Any,
    experiment: Optional[Maker] = None,
    retry_failed: bool = False,
    failures: str = "raise",
    progress: Optional[bool] = None,
) -> Sweep:
    """Runs every experiment of a grid, and keeps a row of each in the Parquet data set `out`, a folder. What is there is not run again.

    `grid` is a mapping from keys to values, of which every combination is run, or a list of mappings from keys to a value. Keys are those of an
    `Experiment` and of its config: `disk`, `preset`, `workload`, `ack`, `warm_up_s`, `duration_s`, `logged_write_bytes_max`, `log_bytes`, `group_bytes`,
    `fragments`, and the policies in Python `placement`, `admission`, `cleaner`, of which None is the preset's own. Values of a key come as a list, or as a
    mapping from what they are called in the data set. With `experiment`, a function that makes an `Experiment`, keys are its parameters and may mean
    anything; it is called here, not on a worker. Policies go to workers by value, and are part of what a row belongs to: with another one it is another grid.

    `workers` is "local" (one process for each processor), "local:2", a number, "dask://HOST:PORT" (a scheduler that runs) or "ray://HOST:PORT" (the server
    for clients of a Ray cluster that runs).

    Experiments that fail have a row with `status` "failed" and the `error`; others go on. At the end `failures` decides: "raise" an error, or "keep" them to
    be looked at. They are not run again, but with `retry_failed`. `progress` draws a bar with the time that is left; of itself where somebody looks at it.
    """
    asked = Grid(grid, experiment)
    parcels = Parcels()
    tasks = [_task(asked, place, parcels) for place in range(len(asked.points))]
    most = max(len(json.loads(task.described.loads)) for task in tasks)
    points = with_policies([asked.columns(point) for point in asked.points], [task.policies for task in tasks])
    return run(tasks, points, columns_of(most), parcels, workers, Path(out), retry_failed=retry_failed, failures=failures, progress=progress)


def with_policies(points: Sequence[dict[str, Any]], policies: Sequence[Sequence[Carried]]) -> list[dict[str, Any]]:
    """Points that also say what the policies in Python are called which no key names."""
    found = {policy.question for ones in policies for policy in ones}
    unnamed = [question for question in QUESTIONS if question in found and question not in points[0]]
    names = [{policy.question: policy.name for policy in ones} for ones in policies]
    return [{**point, **{question: known.get(question) for question in unnamed}} for point, known in zip(points, names)]


def _task(grid: Grid, place: int, parcels: Parcels) -> ExperimentTask:
    try:
        return ExperimentTask.of(grid.experiment(grid.points[place]), parcels)
    except (Error, TypeError, ValueError) as error:
        raise Error(f"sweep, experiment {place}: {error}") from None


def run(
    tasks: Sequence[Task],
    points: Sequence[Mapping[str, Any]],
    columns: Columns,
    parcels: Parcels,
    workers: Union[str, int],
    out: Path,
    *,
    retry_failed: bool = False,
    failures: str = "raise",
    progress: Optional[bool] = None,
) -> Sweep:
    """Runs tasks; what a point is called stands before the columns of what its task comes to."""
    if failures not in ("raise", "keep"):
        raise Error(f'sweep: expected failures "raise" or "keep", found {failures!r}')
    begun = time.monotonic()
    kinds = _kinds(points)
    twice = [name for name in kinds if name in _OWN or name in columns]
    if twice:
        raise Error(f"sweep: expected keys of a grid that no column of results has, found {twice[0]!r}")
    words = hashlib.blake2b(digest_size=16)
    for task, point in zip(tasks, points):
        words.update(f"{task.words()}\n{sorted(point.items())!r}\n".encode())
    ours = worker.identity()
    note = {"version": ours[0], "keys": list(kinds), "tasks": len(tasks), "grid": words.hexdigest()}
    if parcels.policies:
        # What they depend on is compared as compiled code.
        note = {"python": python_version(), **note}
    data_set = DataSet(out, note, {"task": "int", **kinds, "status": "text", "error": "text", **columns, "worker": "text"})
    try:
        left = [number for number in range(len(tasks)) if data_set.failed.get(number, True) and (retry_failed or number not in data_set.failed)]
        driver = _Driver(tasks, points, data_set, ours)
        if left:
            with _bar(progress, len(tasks), len(tasks) - len(left)) as bar:
                engine = engine_of(workers, parcels, ours)
                try:
                    driver.work(engine, left, bar.update)
                finally:
                    engine.close()
        table = data_set.table()
    finally:
        data_set.close()
    said = zip(table.column("task").to_pylist(), table.column("status").to_pylist(), table.column("error").to_pylist())
    failed = {task: error for task, status, error in said if status == "failed"}
    done = Sweep(out, len(tasks), len(left), failed, time.monotonic() - begun, driver.traces_sent, driver.processor_s, table)
    if failed and failures == "raise":
        first = min(failed)
        raise Error(
            f'sweep: {len(failed)} of {len(tasks)} experiments failed; experiment {first}: {failed[first]}. The rows of all are in {out}; failures="keep" '
            "gives them, retry_failed=True runs those that failed again"
        )
    return done


def _kinds(points: Sequence[Mapping[str, Any]]) -> Columns:
    """Of which type the columns of a grid are; numbers are put together, and all else is text."""
    kinds: Columns = {}
    for name in points[0]:
        found = {type(point[name]) for point in points} - {type(None)}
        if found == {bool}:
            kinds[name] = "bool"
        elif found == {int}:
            kinds[name] = "int"
        else:
            kinds[name] = "float" if found and found <= {int, float} else "text"
    return kinds


class _Driver:
    def __init__(self, tasks: Sequence[Task], points: Sequence[Mapping[str, Any]], data_set: DataSet, ours: tuple[str, str]) -> None:
        self._tasks, self._points, self._data_set, self._ours = tasks, points, data_set, ours
        self._kinds = _kinds(points)
        self._unpacked: dict[str, int] = {}
        self.processor_s: dict[str, float] = {}

    @property
    def traces_sent(self) -> int:
        """Times that a worker was given a trace."""
        return sum(self._unpacked.values())

    def work(self, engine: Engine, left: Sequence[int], count: Callable[[int], Any]) -> None:
        """Has the tasks that are left done."""
        waiting = iter(left)
        under_way: set[int] = set()
        while True:
            room = max(0, engine.slots() - len(under_way))
            for number in (number for _, number in zip(range(room), waiting)):
                under_way.add(number)
                engine.submit(number, self._message(number))
            if room and not under_way:
                return
            for number, told in engine.wait(_WAIT_S):
                if isinstance(told, dict) and told.get("missing"):
                    engine.submit(number, self._message(number), resend=True)
                    continue
                under_way.discard(number)
                self._take(number, told)
                count(1)
            self._data_set.write_if_due()

    def _message(self, number: int) -> dict[str, Any]:
        return {"identity": self._ours, "task": self._tasks[number]}

    def _take(self, number: int, told: Union[dict[str, Any], str]) -> None:
        if isinstance(told, str):
            told = {"row": {"status": "failed", "error": told}}
        if "refused" in told:
            raise Error(told["refused"])
        if "unpacked" in told:
            self._unpacked[told["worker"]] = told["unpacked"]
            self.processor_s[told["worker"]] = told["processor_s"]
        point = self._points[number].items()
        # What is called by a number in one point and by a text in another is text.
        named = {name: str(value) if self._kinds[name] == "text" and value is not None else value for name, value in point}
        self._data_set.add({"task": number, **named, **told["row"]})


class _Silent:
    def __enter__(self) -> "_Silent":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, _: int) -> None:
        """Says nothing."""


def _bar(progress: Optional[bool], total: int, done: int) -> Any:
    """A bar of tqdm, if it is wanted and there."""
    if progress is None:
        progress = sys.stderr.isatty()
        try:
            import tqdm
        except ImportError:
            progress = False
    elif progress:
        try:
            import tqdm
        except ImportError:
            raise missing("tqdm", "sweep") from None
    if not progress:
        return _Silent()
    return tqdm.tqdm(total=total, initial=done, unit="experiment", desc="sweep", smoothing=0.05)
