"""Workloads that are described: small durable writes at a rate, a sequential stream, random requests."""

from __future__ import annotations

import operator
from dataclasses import dataclass, fields
from typing import Any, Optional

from ._native import Error

#: From which byte to which, or to the end.
Span = Optional[tuple[int, Optional[int]]]


class _Described:
    _kind = ""

    def _described(self, traces: list[Any]) -> dict[str, Any]:
        described: dict[str, Any] = {"kind": self._kind}
        for one in fields(self):  # type: ignore[arg-type]
            described[one.name] = checked(type(self).__name__, one.name, str(one.type), getattr(self, one.name))
        return described


def checked(where: str, name: str, kind: str, value: Any) -> Any:
    """A value of the kind that a field is annotated with, as JSON has it; a number may be one of NumPy."""
    if value is None and kind.startswith(("Optional", "Span")):
        return None
    try:
        if kind == "Span":
            start, end = value
            return [_whole(start), None if end is None else _whole(end)]
        if kind == "bool":
            return bool(operator.index(value))
        if kind == "float":
            return float(value)
        if "int" in kind:
            return _whole(value)
        if not isinstance(value, str):
            raise TypeError
        return value
    except (TypeError, ValueError):
        wanted = {"bool": "True or False", "float": "a number", "Span": "a pair of bytes, from and to"}
        expected = wanted.get(kind, "a whole number of 0 or more" if "int" in kind else "a text")
        raise Error(f"{where}: expected {name} to be {expected}, found {value!r}") from None


def _whole(value: Any) -> int:
    number = operator.index(value)
    if number < 0:
        raise ValueError
    return number


@dataclass(frozen=True)
class DurablePoints(_Described):
    """Small scattered writes made durable at a rate: what a database or a mail server does at every commit.

    A point is a set of writes that count only when all are durable: issued together and followed by one flush, or each with FUA. Points are due at
    fixed instants whether or not earlier ones are durable. Latency runs from the issue of a point's first write until all are durable.
    """

    _kind = "durable_points"

    #: Points a second.
    points_per_s: float
    #: Writes of a point.
    writes_per_point: int = 20
    #: Size of a write.
    write_bytes: int = 4096
    #: Most points under way at once.
    outstanding_points_max: int = 4
    #: Whether each write carries FUA; else a flush follows them.
    fua: bool = False
    #: Stop after that many points.
    points_max: Optional[int] = None
    #: Where writes go, at random; none is everywhere.
    span: Span = None
    #: Of the addresses.
    seed: int = 1


@dataclass(frozen=True)
class Bulk(_Described):
    """A sequential reader or writer with a number of requests under way: a backup, a scan, a big copy. It goes over its span again and again."""

    _kind = "bulk"

    #: Write or read.
    write: bool = False
    #: Whether each write must be durable before its reply.
    fua: bool = False
    #: Size of a request.
    request_bytes: int = 1 << 20
    #: Requests under way.
    outstanding_max: int = 2
    #: Stop after that many bytes.
    bytes_max: Optional[int] = None
    #: Bytes it goes over; none is everything.
    span: Span = None


@dataclass(frozen=True)
class RandomMix(_Described):
    """Random reads and writes with a number of requests under way."""

    _kind = "random_mix"

    #: Size of a request.
    request_bytes: int = 4096
    #: Share of reads, 0 to 1.
    reads: float = 0.5
    #: Whether each write must be durable before its reply.
    fua: bool = False
    #: Requests under way.
    outstanding_max: int = 1
    #: Stop after that many.
    requests_max: Optional[int] = None
    #: Where requests go; none is everywhere.
    span: Span = None
    #: Of the addresses, and of which are reads.
    seed: int = 1
