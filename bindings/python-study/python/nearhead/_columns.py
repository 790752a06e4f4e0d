"""Columns of numbers between Python and the compiled half: bytes of this machine, 64 bits a number, 8 bits a flag.

What comes in is checked here: numbers that are none, or negative, are refused with their place.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable
from typing import Any, Optional

from ._native import Error

#: A time that is not known.
UNKNOWN_NS = (1 << 64) - 1


def missing(package: str, what: str) -> Error:
    """What is said where a package is needed and not there."""
    return Error(f"{what}: expected the package {package}, found none; get it with: pip install {package}")


def numpy(what: str) -> Any:
    """NumPy, which `what` needs."""
    try:
        import numpy as module
    except ImportError:
        raise missing("numpy", what) from None
    return module


def is_array(values: Any) -> bool:
    """Whether NumPy takes it without looking at each number, if NumPy is there at all."""
    return "numpy" in sys.modules and hasattr(values, "__array__")


def unsigned(values: Iterable[Any], name: str, scale: Optional[float] = None, *, may_be_unknown: bool = False) -> bytes:
    """Numbers of 0 or more, each times `scale` if there is one; nothing and NaN are what is not known, where that may be."""
    if is_array(values):
        return _unsigned_of_array(values, name, scale, may_be_unknown)
    column = array("Q")
    for place, value in enumerate(values):
        try:
            column.append(_unsigned_of(value, scale, may_be_unknown))
        except (TypeError, ValueError, OverflowError):
            raise Error(f"column {name}, request {place + 1}: expected a number from 0 to 2^64 - 1, found {value!r}") from None
    return column.tobytes()


def _unsigned_of(value: Any, scale: Optional[float], may_be_unknown: bool) -> int:
    if value is None or value != value:
        if not may_be_unknown:
            raise ValueError
        return UNKNOWN_NS
    if scale is not None:
        return int(round(value * scale))
    number = int(value)
    if number != value:
        raise ValueError
    return number


def _unsigned_of_array(values: Any, name: str, scale: Optional[float], may_be_unknown: bool) -> bytes:
    np = numpy(f"column {name}")
    column = np.asarray(values)
    if column.ndim != 1 or column.dtype.kind not in "biuf":
        raise Error(f"column {name}: expected numbers in one dimension, found {column.dtype} in {column.ndim}")
    if column.dtype.kind == "f" or scale is not None:
        scaled = column.astype(np.float64) * (1.0 if scale is None else scale)
        unknown = np.isnan(scaled)
        wrong = ~((scaled >= 0) & (scaled < 2.0**63))
        if scale is None:
            wrong |= scaled != np.round(scaled)
        if may_be_unknown:
            wrong &= ~unknown
        _refuse_first(np, wrong, column, name)
        numbers = np.round(np.where(unknown, 0.0, scaled)).astype(np.uint64)
        numbers[unknown] = UNKNOWN_NS
        return bytes(numbers.tobytes())
    if column.dtype.kind == "i":
        _refuse_first(np, column < 0, column, name)
    return bytes(column.astype(np.uint64).tobytes())


def _refuse_first(np: Any, wrong: Any, column: Any, name: str) -> None:
    if wrong.any():
        place = int(np.argmax(wrong))
        raise Error(f"column {name}, request {place + 1}: expected a number from 0 to 2^64 - 1, found {column[place]}")


def flags(columns: list[tuple[str, Optional[Iterable[Any]]]], count: int) -> bytes:
    """One byte for each request, of which the bits are these columns in order; one that is not there is 0."""
    found = bytearray(count)
    for bit, (name, values) in enumerate(columns):
        if values is None:
            continue
        column = numpy(f"column {name}").asarray(values) if is_array(values) else None
        if column is not None and column.dtype.kind in "biu":
            given = bytes(column.astype(bool).tobytes())
        else:
            given = bytes(_flag(value, name, place) for place, value in enumerate(values))
        if len(given) != count:
            raise Error(f"column {name}: expected {count} values, as many as requests, found {len(given)}")
        if column is not None:
            np = numpy(f"column {name}")
            merged = np.frombuffer(found, np.uint8) | (np.frombuffer(given, np.uint8) << bit)
            found = bytearray(merged.astype(np.uint8).tobytes())
        else:
            for place, value in enumerate(given):
                found[place] |= value << bit
    return bytes(found)


def _flag(value: Any, name: str, place: int) -> int:
    try:
        if value is not None and value == value:
            return 1 if value else 0
    except (TypeError, ValueError):
        pass
    raise Error(f"column {name}, request {place + 1}: expected true or false, found {value!r}")


def as_numpy(columns: dict[str, bytes], what: str) -> dict[str, Any]:
    """The columns as arrays over the very bytes: 64 bits a number, but 8 of what is as long as it has rows."""
    np = numpy(what)
    rows = min((len(column) for column in columns.values()), default=0)
    width = {name: np.uint8 if len(column) == rows else np.uint64 for name, column in columns.items()}
    return {name: np.frombuffer(column, width[name]) for name, column in columns.items()}
