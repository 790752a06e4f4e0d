"""What a worker does: makes the row of one task, and says who it is.

A worker whose nearhead is another than that of who began the sweep makes no row: results of two versions must not lie in one data set. Versions are
compared, and the digest of a small experiment, as two builds may have one version. Nothing that a task does ends a worker but the end of its process.
"""

from __future__ import annotations

import os
import socket
import time
from functools import lru_cache
from typing import Any

from .._experiment import Experiment
from .._native import Error
from .._workloads import RandomMix
from .carried import Refused, place_of
from .parcels import Kept

_KEPT = Kept()


@lru_cache(maxsize=1)
def identity() -> tuple[str, str]:
    """The version of nearhead here, and the digest of a small experiment."""
    import nearhead

    mix = RandomMix(requests_max=64, outstanding_max=4, fua=True, seed=7)
    return nearhead.__version__, Experiment("st3146855fc", "mlb", mix).run().digest


def name() -> str:
    """Where this is."""
    return f"{socket.gethostname()}:{os.getpid()}"


def refusal(worker: str, ours: tuple[str, str], found: tuple[Any, Any]) -> str:
    """What is said of a worker with another nearhead."""
    if found[0] is None:
        return f"worker {worker}: expected nearhead {ours[0]} there, found none; install it, or take the worker out"
    if found[0] != ours[0]:
        return f"worker {worker}: expected nearhead {ours[0]}, as where the sweep was begun, found {found[0]}; install the same, or take the worker out"
    return (
        f"worker {worker}: expected a small experiment to have the digest {ours[1]}, as where the sweep was begun, found {found[1]}: "
        f"it is another build of nearhead {ours[0]}; install the same, or take the worker out"
    )


def failure(error: BaseException) -> str:
    """What is said of an experiment that failed: what a policy raised, and where."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an exception of the user's own
        text = "it cannot say why"
    return (text if isinstance(error, Error) else f"{type(error).__name__}: {text}") + place_of(error)


def run(message: dict[str, Any], *carried: Any) -> dict[str, Any]:
    """Makes the row of a task. Of its traces those come along that this worker may not have."""
    told: dict[str, Any] = {"worker": name()}
    ours = identity()
    if ours != message["identity"]:
        return {**told, "refused": refusal(told["worker"], message["identity"], ours)}
    task = message["task"]
    try:
        traces = _KEPT.find(task.parcels, carried)
        if traces is None:
            return {**told, "missing": True}
        row = {"status": "ok", "error": None, **task.run(traces)}
    except (KeyboardInterrupt, SystemExit):
        raise
    except Refused as error:
        return {**told, "refused": f"worker {told['worker']}: {error}"}
    except BaseException as error:  # noqa: BLE001 - a panic of the compiled half is no Exception
        row = {"status": "failed", "error": failure(error)}
    return {**told, "row": {**row, "worker": told["worker"]}, "unpacked": _KEPT.unpacked, "processor_s": time.process_time()}
