"""Rows of a sweep in a folder: one partitioned Parquet data set, and a note of which grid it belongs to.

    FOLDER/_sweep.json                   whose rows these are
    FOLDER/part=00000/rows-...parquet    rows of tasks 0 to 255, in one or more files

A file appears whole or not at all, so that a sweep that is killed leaves rows that are right, and the next one goes on behind them; at most `WAITING_S`
seconds of rows are in memory only. A partition whose rows are all there is brought into one file. One sweep at a time writes to a folder.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from .._columns import missing
from .._native import Error
from .task import Columns

#: Tasks whose rows lie in one partition.
PARTITION_TASKS = 256
#: Rows that are in memory at most before they are written.
WAITING_ROWS = 256
#: Longest time that a row is in memory only.
WAITING_S = 10.0
NOTE = "_sweep.json"
_FORM = 1
_WHOLE = "rows.parquet"


def parquet(what: str) -> tuple[Any, Any]:
    """PyArrow and its Parquet half, which `what` needs."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise missing("pyarrow", what) from None
    return pyarrow, pyarrow.parquet


class DataSet:
    """The rows that are there, and a way to add others."""

    def __init__(self, folder: Path, note: Mapping[str, Any], columns: Columns) -> None:
        self._pa, self._parquet = parquet("sweep")
        self.folder = folder
        types = {"int": self._pa.int64(), "float": self._pa.float64(), "text": self._pa.string(), "bool": self._pa.bool_()}
        self._schema = self._pa.schema([(name, types[kind]) for name, kind in columns.items()])
        self._tasks = int(note["tasks"])
        self._waiting: list[dict[str, Any]] = []
        self._waiting_since = 0.0
        self._lock = _open(folder, {"form": _FORM, **note})
        #: Which tasks have a row, and whether it says that they failed.
        self.failed: dict[int, bool] = {}
        try:
            self._read_done()
        except BaseException:
            self._lock.close()
            raise

    def _read_done(self) -> None:
        for temporary in self.folder.glob("part=*/.*"):
            temporary.unlink()
        digests: dict[int, str] = {}
        for path in sorted(self.folder.glob("part=*/*.parquet")):
            table = self._read(path, ["task", "status", "digest"])
            for row in table.to_pylist():
                task, digest = row["task"], row["digest"]
                if not 0 <= task < self._tasks or path.parent != self._part(task // PARTITION_TASKS):
                    raise Error(f"data set {path}: expected rows of its partition, found one of task {task}; move the file away, and its rows are made again")
                if digest and digests.setdefault(task, digest) != digest:
                    raise Error(f"data set {self.folder}: expected the digest {digests[task]} of task {task}, found {digest} in another file")
                self.failed[task] = row["status"] == "failed" and self.failed.get(task, True)

    def _part(self, partition: int) -> Path:
        return self.folder / f"part={partition:05}"

    def _read(self, path: Path, names: Optional[Sequence[str]] = None) -> Any:
        try:
            # The folder's name is no column here.
            return self._parquet.ParquetFile(path).read(columns=names)
        except (OSError, ValueError) as error:
            raise Error(f"data set {path}: cannot read it: {error}; move the file away, and its rows are made again") from None

    def add(self, row: dict[str, Any]) -> None:
        """Takes a row, to be written soon."""
        if not self._waiting:
            self._waiting_since = time.monotonic()
        self._waiting.append(row)
        self.failed[row["task"]] = row["status"] == "failed"
        if len(self._waiting) >= WAITING_ROWS:
            self.write()

    def write_if_due(self) -> None:
        """Writes what has waited long enough. To be called every few seconds."""
        if self._waiting and time.monotonic() - self._waiting_since >= WAITING_S:
            self.write()

    def write(self) -> None:
        """Writes what waits."""
        partitions: dict[int, list[dict[str, Any]]] = {}
        for row in self._waiting:
            partitions.setdefault(row["task"] // PARTITION_TASKS, []).append(row)
        for partition, rows in partitions.items():
            rows.sort(key=lambda row: int(row["task"]))
            table = self._pa.Table.from_pylist(rows, self._schema)
            name = f"rows-{rows[0]['task']:06}-{os.getpid()}-{time.time_ns():x}.parquet"
            self._write(self._part(partition) / name, table)
            first, end = partition * PARTITION_TASKS, min((partition + 1) * PARTITION_TASKS, self._tasks)
            if all(task in self.failed for task in range(first, end)):
                self._gather(partition)
        self._waiting = []

    def _write(self, path: Path, table: Any) -> None:
        temporary = path.with_name(f".{path.name}")
        try:
            path.parent.mkdir(exist_ok=True)
            with open(temporary, "wb") as file:
                self._parquet.write_table(table, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            raise Error(f"data set {path}: cannot write it: {error}") from None

    def _gather(self, partition: int) -> None:
        """Brings the rows of a partition into one file."""
        paths = sorted(self._part(partition).glob("*.parquet"))
        if len(paths) > 1:
            self._write(self._part(partition) / _WHOLE, self._rows(paths))
            for path in paths:
                if path.name != _WHOLE:
                    path.unlink()

    def _rows(self, paths: Sequence[Path]) -> Any:
        """The rows of these files, in the order of tasks and each once: of a task that failed and was made again, the one that did not fail."""
        tables = [self._read(path) for path in paths]
        table = self._pa.concat_tables(tables) if tables else self._schema.empty_table()
        best: dict[int, int] = {}
        statuses = table.column("status").to_pylist()
        for place, task in enumerate(table.column("task").to_pylist()):
            if task not in best or statuses[place] == "ok":
                best[task] = place
        return table.take([best[task] for task in sorted(best)])

    def table(self) -> Any:
        """All rows as an Arrow table, in the order of tasks."""
        self.write()
        parts = sorted({path.parent for path in self.folder.glob("part=*/*.parquet")})
        tables = [self._rows(sorted(part.glob("*.parquet"))) for part in parts]
        return self._pa.concat_tables(tables) if tables else self._schema.empty_table()

    def close(self) -> None:
        """Writes what waits, and lets others write."""
        try:
            self.write()
        finally:
            self._lock.close()


def _open(folder: Path, note: dict[str, Any]) -> Any:
    """Makes or opens the folder for this sweep alone; a file that holds it."""
    path = folder / NOTE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            strange = next(folder.iterdir(), None)
            if strange is not None:
                raise Error(f"data set {folder}: expected an empty folder or one of this grid, found {strange.name} and no {NOTE}; take another folder")
            temporary = folder / f".{NOTE}"
            temporary.write_text(json.dumps(note, indent=1) + "\n")
            os.replace(temporary, path)
        lock = open(path)
    except OSError as error:
        raise Error(f"data set {folder}: cannot make or open it: {error}") from None
    try:
        _hold(lock, folder)
        _compare(folder, note, lock.read())
    except BaseException:
        lock.close()
        raise
    return lock


def _hold(lock: Any, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise Error(f"data set {folder}: expected to be alone, found another sweep that writes to it; wait for it, or take another folder") from None


def _compare(folder: Path, note: Mapping[str, Any], text: str) -> None:
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise ValueError
    except ValueError:
        raise Error(f"data set {folder}: expected {NOTE} to say whose it is, found something else there; take another folder") from None
    for name, expected in note.items():
        if found.get(name) != expected:
            what = {"version": "of this version of nearhead", "python": "of this version of Python", "form": "in this form"}.get(name, "of this grid")
            raise Error(
                f"data set {folder}: expected rows {what} ({name} {_short(expected)}), found those of another ({name} {_short(found.get(name))}); "
                "take another folder"
            )


def _short(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
