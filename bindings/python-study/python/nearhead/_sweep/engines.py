"""Whose processes work: what the three ways have in common.

An engine is given messages and hands back what workers told of them, in any order. It survives the death of a worker by giving its task to another, and
gives a task up after `TRIES_MAX` workers died with it. It never holds more than `slots` tasks.
"""

from __future__ import annotations

import importlib
import os
import re
import socket
from typing import Any, Protocol, Union

from .._columns import missing
from .._native import Error
from .parcels import Parcels

#: Workers that may die with one task.
TRIES_MAX = 3
#: How long it is waited for a worker where there is none.
NOBODY_S = 60.0
#: How long it is waited for an answer to the first word.
ANSWER_S = 10.0

#: What came of a task: its number, and what the worker told, or why no worker could do it.
Outcome = tuple[int, Union[dict[str, Any], str]]


class Engine(Protocol):
    """Workers."""

    def slots(self) -> int:
        """How many tasks it takes at once."""
        ...

    def submit(self, number: int, message: dict[str, Any], resend: bool = False) -> None:
        """Takes a task; `resend` if a worker said that it lacks its traces."""
        ...

    def wait(self, timeout_s: float) -> list[Outcome]:
        """What came of tasks, as soon as there is anything."""
        ...

    def close(self) -> None:
        """Ends what is under way."""
        ...


def engine_of(workers: Union[str, int], parcels: Parcels, ours: tuple[str, str]) -> Engine:
    """The engine that `workers` names, asked whether its nearhead is ours."""
    if isinstance(workers, int) and not isinstance(workers, bool):
        workers = f"local:{workers}"
    found = re.fullmatch(r"local(?::(\d{1,4}))?", workers) if isinstance(workers, str) else None
    if found:
        from .on_local import OnLocal

        count = int(found[1]) if found[1] else cores()
        if count == 0:
            raise Error("sweep: expected at least one worker, found 0")
        return OnLocal(count, parcels)
    found = re.fullmatch(r"(dask|ray)://(\[[0-9a-fA-F:]+\]|[^:/\[\]]+):(\d{1,5})", workers) if isinstance(workers, str) else None
    if not found:
        raise Error(f'sweep: expected workers of "local", "local:COUNT", "dask://HOST:PORT" or "ray://HOST:PORT", found {workers!r}')
    kind, host, port = found[1], found[2], int(found[3])
    check_answers(kind, host, port)
    if kind == "dask":
        from .on_dask import OnDask

        return OnDask(f"{host}:{port}", parcels, ours)
    from .on_ray import OnRay

    return OnRay(f"{host}:{port}", parcels, ours)


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_answers(kind: str, host: str, port: int) -> None:
    """Refuses an address that nobody listens at: the engines themselves would try for a minute."""
    try:
        socket.create_connection((host.strip("[]"), port), timeout=ANSWER_S).close()
    except (OSError, OverflowError) as error:
        what = {"dask": "a scheduler of Dask", "ray": "a server for clients of Ray"}[kind]
        raise Error(f"workers {kind}://{host}:{port}: expected {what} there, found nobody: {error}") from None


def imported(module: str, package: str) -> Any:
    """A package that workers need."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise missing(package, "sweep") from None
