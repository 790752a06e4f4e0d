"""Traces: of files in the published forms, of columns, of requests that a program makes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Optional, Union

from . import _columns, _frames
from ._native import Error, Requests
from ._workloads import checked


class Request(NamedTuple):
    """A request of a trace."""

    #: When it arrives, in seconds.
    at_s: float
    #: First byte.
    offset_bytes: int
    #: Number of bytes; 0 of a flush alone.
    len_bytes: int
    #: Write or read.
    write: bool = True
    #: A flush goes before it; of no length it is that flush alone.
    flush: bool = False
    #: It is to be durable when it is answered.
    fua: bool = False
    #: Nobody waits for it.
    background: bool = False
    #: Which disk of the traced system.
    device: int = 0
    #: Process that asked for it; 0 if nobody knows.
    process: int = 0
    #: How long the traced system took.
    response_s: Optional[float] = None
    #: From its completion to the issue of the next one, where it was measured with one request at a time.
    think_s: Optional[float] = None


#: Columns that `Trace.from_columns` knows, as they stand in what a trace gives out.
COLUMNS = (
    "at_ns",
    "offset_bytes",
    "len_bytes",
    "write",
    "flush",
    "fua",
    "background",
    "device",
    "process",
    "response_ns",
    "think_ns",
)

#: The same times in seconds.
_IN_SECONDS = {"at_s": "at_ns", "response_s": "response_ns", "think_s": "think_ns"}
_FLAGS = ("write", "flush", "fua", "background")


@dataclass(frozen=True, eq=False)
class Trace:
    """A trace, and how it is played.

    `Trace(path)` reads a file in any of the forms that `nearhead replay` reads (`nearhead.formats()`), compressed or not, anew for each run and in
    constant memory. `Trace.from_columns`, `from_requests`, `from_parquet` and their like keep requests in memory, 64 bytes each.
    """

    #: The file; a trace in memory has none.
    path: Optional[Union[str, os.PathLike[str]]] = None
    #: The file's form; none to find it out.
    format: Optional[str] = None
    #: Whether the first line that does not parse is an error; else such lines are skipped and counted.
    strict: bool = False
    #: Only requests to this device of the trace.
    device: Optional[int] = None
    #: Only so many requests.
    limit: Optional[int] = None
    #: Times are multiplied by this: 0.5 plays twice as fast.
    time_scale: float = 1.0
    #: Requests past the end of the disk are an "error", "wrap" around, or "scale" the whole trace.
    fit: str = "error"
    #: When requests are issued: "open" at their arrival, "chained" after what their process waited for, "closed" one at a time, "bursts" as fast as
    #: they get through; none as the form suggests.
    tempo: Optional[str] = None
    #: Most requests under way at once.
    outstanding_max: int = 1024
    _requests: Optional[Requests] = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self._requests is None:
            if self.path is None:
                raise Error("trace: expected the path of a file, found none; requests in memory come by Trace.from_columns and its like")
            object.__setattr__(self, "_requests", Requests.file(self.path))

    @property
    def name(self) -> str:
        """What it is called in results and messages."""
        return self._native().name()

    def but(self, **options: Any) -> "Trace":
        """The same requests, played otherwise: `trace.but(time_scale=0.5)`."""
        return replace(self, **options)

    @staticmethod
    def from_requests(requests: Iterable[Any], *, name: str = "requests", **options: Any) -> "Trace":
        """Of `Request`s, or tuples in the order of its fields, or mappings with them: a list, or a generator, which is read to its end."""
        rows = [_request(row, place) for place, row in enumerate(requests)]
        columns = {key: [row[index] for row in rows] for index, key in enumerate(Request._fields)}
        return Trace.from_columns(columns, name=name, **options)

    @staticmethod
    def from_columns(columns: Any, *, name: str = "columns", **options: Any) -> "Trace":
        """Of a mapping from names to arrays or sequences, an Arrow table, a pandas or a polars frame.

        There must be `offset_bytes`, `len_bytes` and either `at_ns` or `at_s`; other columns of `nearhead.Request` may be there, times in `_ns` or
        `_s`. Without `write` all are writes.
        """
        given = _frames.columns_of(columns)
        known = set(COLUMNS) | set(_IN_SECONDS)
        unknown = [column for column in given if column not in known]
        if unknown:
            raise Error(f"trace {name}: expected columns of {', '.join(sorted(known))}, found {unknown[0]!r}")
        times = {}
        for in_seconds, in_ns in _IN_SECONDS.items():
            if in_seconds in given and in_ns in given:
                raise Error(f"trace {name}: expected {in_seconds} or {in_ns}, found both")
            if in_seconds in given:
                times[in_ns] = _columns.unsigned(given[in_seconds], in_seconds, 1e9, may_be_unknown=in_ns != "at_ns")
            elif in_ns in given:
                times[in_ns] = _columns.unsigned(given[in_ns], in_ns, may_be_unknown=in_ns != "at_ns")
        for needed in ("offset_bytes", "len_bytes"):
            if needed not in given:
                raise Error(f"trace {name}: expected a column {needed}, found {', '.join(map(str, given)) or 'none'}")
        if "at_ns" not in times:
            raise Error(f"trace {name}: expected a column at_ns or at_s, found {', '.join(map(str, given))}")
        offset = _columns.unsigned(given["offset_bytes"], "offset_bytes")
        count = len(offset) // 8
        zeros, unknown_times = bytes(8 * count), b"\xff" * (8 * count)
        flags = [(flag, given.get(flag)) for flag in _FLAGS]
        if "write" not in given:
            flags[0] = ("write", bytes([1]) * count)
        requests = Requests.columns(
            name,
            times["at_ns"],
            offset,
            _columns.unsigned(given["len_bytes"], "len_bytes"),
            _columns.flags(flags, count),
            _columns.unsigned(given["device"], "device") if "device" in given else zeros,
            _columns.unsigned(given["process"], "process") if "process" in given else zeros,
            times.get("response_ns", unknown_times),
            times.get("think_ns", unknown_times),
        )
        return Trace(_requests=requests, **options)

    #: Arrays by the names of columns.
    from_numpy = from_columns
    #: An Arrow table.
    from_arrow = from_columns
    #: A pandas frame.
    from_pandas = from_columns
    #: A polars frame.
    from_polars = from_columns

    @staticmethod
    def from_parquet(path: Union[str, os.PathLike[str]], **options: Any) -> "Trace":
        """Of a Parquet file with the columns of `Trace.from_columns`; other columns are left where they are."""
        what = f"trace {os.fspath(path)}"
        _frames.arrow(what)
        from pyarrow import parquet

        try:
            names = parquet.read_schema(path).names
            known = [name for name in names if name in COLUMNS or name in _IN_SECONDS]
            table = parquet.read_table(path, columns=known)
        except (OSError, ValueError) as error:
            raise Error(f"{what}: cannot read it: {error}") from None
        return Trace.from_columns(table, name=os.fspath(path), **options)

    def summary(self) -> dict[str, Any]:
        """What is in it: requests, writes, flushes, bytes, devices, its span and duration. Reads it once."""
        summary: dict[str, Any] = json.loads(self._native().summary(self._reading()))
        return summary

    def to_numpy(self) -> dict[str, Any]:
        """All its requests as arrays: `at_ns`, `offset_bytes`, `len_bytes`, `write`, `flush`, `fua`, `background`, `device`, `process`, and
        `response_ns` and `think_ns`, which are masked where they are not known."""
        columns = _columns.as_numpy(self._native().to_columns(self._reading()), f"trace {self.name}")
        np = _columns.numpy(f"trace {self.name}")
        bits = columns.pop("flags")
        for bit, flag in enumerate(_FLAGS):
            columns[flag] = (bits >> bit & 1).astype(np.bool_)
        for time in ("response_ns", "think_ns"):
            columns[time] = np.ma.masked_equal(columns[time], _columns.UNKNOWN_NS)
        return {name: columns[name] for name in COLUMNS}

    def to_arrow(self) -> Any:
        """All its requests as an Arrow table; times that are not known are null."""
        return _frames.to_arrow(self.to_numpy(), f"trace {self.name}")

    def to_pandas(self) -> Any:
        """All its requests as a pandas frame; times that are not known are missing."""
        return _frames.to_pandas(self.to_numpy(), f"trace {self.name}")

    def to_polars(self) -> Any:
        """All its requests as a polars frame; times that are not known are null."""
        return _frames.to_polars(self.to_numpy(), f"trace {self.name}")

    def to_parquet(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes all its requests to a Parquet file."""
        table = self.to_arrow()
        from pyarrow import parquet

        parquet.write_table(table, path)

    def __reduce__(self) -> tuple[Any, ...]:
        options = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("path", "_requests")}
        columns = self._native().in_memory()
        if columns is None:
            return (_of_file, (os.fspath(self.path or self.name), options))
        return (_of_memory, (self.name, columns, options))

    def _native(self) -> Requests:
        assert self._requests is not None
        return self._requests

    def _reading(self) -> str:
        return json.dumps(self._options())

    def _options(self) -> dict[str, Any]:
        names = ("format", "strict", "device", "limit", "time_scale", "fit")
        return {name: self._checked(name) for name in names}

    def _checked(self, name: str) -> Any:
        return checked("Trace", name, str(self.__dataclass_fields__[name].type), getattr(self, name))

    def _described(self, traces: list["Trace"]) -> dict[str, Any]:
        traces.append(self)
        return {
            "kind": "trace",
            "trace": len(traces) - 1,
            "reading": self._options(),
            "tempo": self._checked("tempo"),
            "outstanding_max": self._checked("outstanding_max"),
        }


def _of_file(path: Union[str, os.PathLike[str]], options: dict[str, Any]) -> Trace:
    return Trace(path, **options)


def _of_memory(name: str, columns: dict[str, bytes], options: dict[str, Any]) -> Trace:
    return Trace(_requests=Requests.columns(name, **columns), **options)


def _request(row: Any, place: int) -> Request:
    try:
        return Request(**row) if isinstance(row, Mapping) else Request(*row)
    except TypeError as error:
        raise Error(f"request {place + 1}: expected the fields of nearhead.Request, found {row!r}: {error}") from None
