"""How what experiments need reaches workers: traces each once, by the hash of its content (policies: `carried`).

A trace in memory goes as its columns, one in a file as the file's bytes, so that a worker on another machine reads what was read here. A worker on this
machine is told the file's path instead. What a worker has is kept while it lives, up to `KEPT_MAX` traces.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from .._native import Error, Requests
from .._trace import Trace
from .carried import Policies

#: Traces that a worker keeps.
KEPT_MAX = 16
#: Traces that the experiments of one sweep may have in all.
TRACES_MAX = 4096
#: Largest file that goes to another machine.
FILE_BYTES_MAX = 4 << 30
_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Parcel:
    """A trace on its way."""

    key: str
    name: str
    #: Of a trace in memory.
    columns: Optional[dict[str, bytes]] = None
    #: The bytes of a file.
    data: Optional[bytes] = None
    #: A file of this machine.
    path: Optional[str] = None

    def get(self) -> "Parcel":
        """Itself: what is fetched first is unpacked the same way."""
        return self


class Parcels:
    """The traces of a sweep, and its policies, where it was begun."""

    def __init__(self) -> None:
        self.policies = Policies()
        self._traces: dict[str, Trace] = {}
        #: Keys of traces that were looked at, by the object whose address they have; it is held, so that no other gets it.
        self._known: dict[int, tuple[Any, str]] = {}

    def add(self, trace: Trace) -> str:
        """The key of a trace, which is put to the others if it is a new one."""
        native = trace._native()
        if id(native) in self._known:
            return self._known[id(native)][1]
        columns = native.in_memory()
        key = _key_of_columns(columns) if columns is not None else _key_of_file(str(native.name()))
        if len(self._traces) >= TRACES_MAX and key not in self._traces:
            raise Error(f"sweep: expected at most {TRACES_MAX} traces in one grid, found more; divide it")
        self._known[id(native)] = (native, key)
        self._traces.setdefault(key, trace)
        return key

    def pack(self, key: str, is_here: bool) -> Parcel:
        """A trace for a worker, which may be on this machine."""
        trace = self._traces[key]
        name = trace.name
        columns = trace._native().in_memory()
        if columns is not None:
            return Parcel(key, name, columns=columns)
        if is_here:
            return Parcel(key, name, path=os.path.abspath(name))
        try:
            bytes_found = os.stat(name).st_size
            if bytes_found > FILE_BYTES_MAX:
                raise Error(f"trace {name}: expected at most {FILE_BYTES_MAX} bytes to send to workers, found {bytes_found}; compress or divide it")
            data = Path(name).read_bytes()
        except OSError as error:
            raise Error(f"trace {name}: cannot read it: {error}") from None
        if _key_of_bytes(data) != key:
            raise Error(f"trace {name}: expected it as it was when the sweep began, found other content")
        return Parcel(key, name, data=data)


def _key_of_columns(columns: dict[str, bytes]) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for name in sorted(columns):
        hashed.update(f"{name} {len(columns[name])} ".encode())
        hashed.update(columns[name])
    return hashed.hexdigest()


def _key_of_bytes(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _key_of_file(path: str) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    try:
        with open(path, "rb") as file:
            while part := file.read(_READ_BYTES):
                hashed.update(part)
    except OSError as error:
        raise Error(f"trace {path}: cannot read it: {error}") from None
    return hashed.hexdigest()


class Kept:
    """The traces that a worker has."""

    def __init__(self) -> None:
        self._requests: OrderedDict[str, Requests] = OrderedDict()
        self._lock = threading.Lock()
        self._folder: Optional[tempfile.TemporaryDirectory[str]] = None
        #: How many were unpacked since the worker began.
        self.unpacked = 0

    def find(self, keys: Sequence[str], carried: Sequence[Any]) -> Optional[list[Requests]]:
        """The traces with these keys, of which some came along; none if one is missing."""
        with self._lock:
            found: list[Requests] = []
            for key, parcel in zip(keys, carried):
                if key not in self._requests:
                    if parcel is None:
                        return None
                    self._requests[key] = self._unpacked(parcel.get())
                    self.unpacked += 1
                self._requests.move_to_end(key)
                found.append(self._requests[key])
            while len(self._requests) > max(KEPT_MAX, len(keys)):
                self._requests.popitem(last=False)
            return found

    def _unpacked(self, parcel: Parcel) -> Requests:
        if parcel.columns is not None:
            return Requests.columns(parcel.name, **parcel.columns)
        if parcel.path is not None:
            if _key_of_file(parcel.path) != parcel.key:
                raise Error(f"trace {parcel.path}: expected it as it was when the sweep began, found other content")
            return Requests.file(parcel.path)
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="nearhead-")
        # The name's ending may say which form it has.
        folder = Path(self._folder.name) / parcel.key
        folder.mkdir(exist_ok=True)
        path = folder / Path(parcel.name).name
        path.write_bytes(parcel.data or b"")
        return Requests.file(path)
