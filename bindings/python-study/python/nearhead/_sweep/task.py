"""What one experiment of a sweep is to a worker, and the row that it comes to.

A task is plain words and numbers, so that it is small on its way; traces go by themselves, once (`parcels`). Its words name everything that its row depends
on: two tasks with the same words have the same row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Optional, Protocol

from .. import _native
from .._disk import Disk
from .._experiment import Described, Experiment
from .._policies import QUESTIONS
from .._result import Latency, Result
from .carried import Carried, arrived
from .parcels import Parcels

#: Columns of a data set by their names: "int", "float", "text" or "bool".
Columns = dict[str, str]


class Task(Protocol):
    """One row of a data set, to be made."""

    #: The traces that it needs, by their keys.
    @property
    def parcels(self) -> Sequence[str]: ...

    def words(self) -> str:
        """Everything that its row depends on."""
        ...

    def run(self, traces: Sequence[_native.Requests]) -> dict[str, Any]:
        """Makes its row, on a worker."""
        ...


@dataclass(frozen=True)
class ExperimentTask:
    """An experiment."""

    disk: str
    #: A hash of every number of the disk: a profile may be a file, and another one on a worker.
    numbers: str
    described: Described
    #: Keys of its traces, in the order in which its workloads name them.
    parcels: tuple[str, ...]
    #: What its traces are called where the sweep began.
    names: tuple[str, ...]
    #: Its policies in Python.
    policies: tuple[Carried, ...] = ()

    @staticmethod
    def of(experiment: Experiment, parcels: Parcels) -> "ExperimentTask":
        """The task of this experiment, whose traces and policies are put to the others."""
        disk = experiment.disk if isinstance(experiment.disk, Disk) else Disk(experiment.disk)
        described, traces = experiment._described()
        keys = tuple(parcels.add(trace) for trace in traces)
        given = [(question, getattr(experiment, question)) for question in QUESTIONS]
        policies = tuple(parcels.policies.add(question, policy) for question, policy in given if policy is not None)
        return ExperimentTask(disk.name, numbers_of(disk), described, keys, tuple(trace.name for trace in traces), policies)

    def words(self) -> str:
        """Everything that its row depends on."""
        told = self.described
        words = json.dumps(
            [self.disk, self.numbers, told.preset, told.config, told.ack, told.loads, told.warm_up_s, told.duration_s, self.parcels],
        )
        return words + "".join(f"{policy.question} {policy.key} " for policy in self.policies)

    def run(self, traces: Sequence[_native.Requests]) -> dict[str, Any]:
        """Runs it, and gives what it came to."""
        with arrived(self.policies) as policies:
            outcome = self.described.outcome(made(self), traces, policies)
        return row_of(Result(outcome), self.names, outcome.unheard())


def made(task: ExperimentTask) -> Disk:
    """The disk of a task, on a worker."""
    disk = _disk(task.disk)
    if numbers_of(disk) != task.numbers:
        raise _native.Error(f"disk {task.disk}: expected the profile as it is where the sweep was begun, found one with other numbers")
    return disk


@lru_cache(maxsize=64)
def _disk(name: str) -> Disk:
    return Disk(name)


@lru_cache(maxsize=64)
def numbers_of(disk: Disk) -> str:
    """A hash of every number of a disk."""
    return hashlib.blake2b(disk._disk.numbers().encode(), digest_size=16).hexdigest()


#: What is told of each workload, beside its latencies.
_OF_WORKLOAD: Columns = {"kind": "text", "requests": "int", "failed": "int", "bytes_per_s": "float"}
_LATENCIES = [name for name in Latency.__dataclass_fields__ if name != "count"]
_ABLATION = ("seek_s", "rotation_s", "transfer_s", "queueing_s", "response_s")


def columns_of(workloads: int) -> Columns:
    """The columns of what experiments come to that have at most so many workloads: of each `load0_requests`, `load0_p99_ms` and so on."""
    columns: Columns = {"digest": "text", "simulated_s": "float", "measured_s": "float", "wall_s": "float"}
    columns.update({name: "float" for name in _ABLATION})
    for load in range(workloads):
        columns.update({f"load{load}_{name}": kind for name, kind in _OF_WORKLOAD.items()})
        columns.update({f"load{load}_{name}": "float" for name in _LATENCIES})
    return {**columns, "result": "text"}


def row_of(result: Result, names: Sequence[str], unheard: Optional[str]) -> dict[str, Any]:
    """What an experiment came to, as a row; `result` is everything, as JSON, and says if a policy in Python had no say."""
    told = result.to_dict()
    if unheard is not None:
        told["unheard"] = unheard
    row: dict[str, Any] = {name: told[name] for name in ("digest", "simulated_s", "measured_s", "wall_s")}
    row.update({name: told["ablation"][name] for name in _ABLATION})
    traces = iter(names)
    for load, workload in enumerate(result.workloads):
        row.update({f"load{load}_{name}": getattr(workload, name) for name in _OF_WORKLOAD})
        row.update({f"load{load}_{name}": getattr(workload.latency, name) for name in _LATENCIES})
        if "trace" in told["workloads"][load]["facts"]:
            # A worker may have it in a file of its own.
            told["workloads"][load]["facts"]["trace"] = next(traces, None)
    # How long it took is no part of what came out, and has a column.
    del told["wall_s"]
    row["result"] = json.dumps(told)
    return row
