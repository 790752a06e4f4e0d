"""What an experiment came to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

from . import _columns, _frames
from ._native import Error, Outcome

#: What the column `operation` of `Result.requests()` counts.
OPERATIONS = ("read", "write", "flush", "trim", "other")
#: What the column `priority` of `Result.head_path()` counts: who goes first.
PRIORITIES = ("durable", "foreground", "bulk", "background")


@dataclass(frozen=True)
class Latency:
    """Mean and percentiles of latencies, in milliseconds; all zero where `count` is."""

    count: int
    mean_ms: float
    min_ms: float
    p50_ms: float
    p90_ms: float
    p95_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


class Class:
    """Requests of one kind: of a trace "all", "reads", "writes", "small_reads" and so on, and its durable "points"; of other workloads what they do."""

    def __init__(self, outcome: Outcome, load: int, name: str, told: dict[str, Any]) -> None:
        self._outcome, self._load, self._told = outcome, load, told
        #: What they are.
        self.name = name
        #: From when they were due to their replies.
        self.latency = Latency(**told["latency"])

    @property
    def requests(self) -> int:
        """Those that succeeded."""
        return int(self._told["requests"])

    @property
    def bytes(self) -> int:
        """Their bytes."""
        return int(self._told["bytes"])

    @property
    def failed(self) -> int:
        """Those that failed; they count nowhere else."""
        return int(self._told["failed"])

    @property
    def first_failure(self) -> Optional[str]:
        """What the first failure said."""
        found = self._told["first_failure"]
        return None if found is None else str(found)

    @property
    def requests_per_s(self) -> float:
        """Requests a second of measured virtual time."""
        return float(self._told["requests_per_s"])

    @property
    def bytes_per_s(self) -> float:
        """Bandwidth over measured virtual time."""
        return float(self._told["bytes_per_s"])

    def percentile_ms(self, percent: float) -> float:
        """The latency that so many of a hundred do not exceed; within 1/256 of it."""
        return self.percentiles_ms([percent])[0]

    def percentiles_ms(self, percents: Sequence[float]) -> list[float]:
        """Several of them."""
        return self._outcome.percentiles(self._load, self.name, [float(percent) for percent in percents])

    def histogram(self) -> list[tuple[int, int, int]]:
        """Buckets that hold anything: smallest and largest latency in ns, and how many requests."""
        return self._outcome.buckets(self._load, self.name)

    def __repr__(self) -> str:
        return f"<Class {self.name}: {self.requests} requests, mean {self.latency.mean_ms:.3f} ms, p99 {self.latency.p99_ms:.3f} ms>"


class Workload:
    """What one workload got."""

    def __init__(self, outcome: Outcome, load: int, told: dict[str, Any]) -> None:
        #: Which kind: "trace", "durable_points", "bulk" or "random_mix".
        self.kind: str = told["kind"]
        #: Its requests by classes.
        self.classes = {name: Class(outcome, load, name, one) for name, one in told["classes"].items()}
        #: What else is told of it, by name: of a trace whether the disk `kept_up`, of durable points how many were `late`.
        self.facts: dict[str, Any] = told["facts"]

    def __getitem__(self, name: str) -> Class:
        if name not in self.classes:
            raise Error(f"result: expected a class of {', '.join(self.classes)}, found {name!r}")
        return self.classes[name]

    @property
    def requests(self) -> int:
        """Requests that succeeded, of whichever class."""
        return sum(one.requests for one in self._parts())

    @property
    def failed(self) -> int:
        """Requests that failed."""
        return sum(one.failed for one in self._parts())

    @property
    def bytes_per_s(self) -> float:
        """Bandwidth over measured virtual time."""
        return sum(one.bytes_per_s for one in self._parts())

    @property
    def latency(self) -> Latency:
        """Of all requests of a trace; else of the first class."""
        return next(iter(self.classes.values())).latency

    def _parts(self) -> list[Class]:
        return [self.classes["all"]] if "all" in self.classes else list(self.classes.values())

    def __repr__(self) -> str:
        return f"<Workload {self.kind}: {', '.join(map(repr, self._parts()))}>"


class Result:
    """What an experiment came to."""

    def __init__(self, outcome: Outcome, policies: Optional[dict[str, Any]] = None) -> None:
        self._outcome = outcome
        #: The policies in Python that ran, as they were at the end: by "placement", "admission", "cleaner".
        self.policies: dict[str, Any] = policies or {}
        self._told: dict[str, Any] = json.loads(outcome.json())
        #: Each workload, in the experiment's order.
        self.workloads = [Workload(outcome, load, told) for load, told in enumerate(self._told["workloads"])]

    @property
    def digest(self) -> str:
        """A hash of every reply and its instant: the same for the same experiment, on every machine."""
        return str(self._told["digest"])

    @property
    def simulated_s(self) -> float:
        """Virtual time from the first request to the end."""
        return float(self._told["simulated_s"])

    @property
    def measured_s(self) -> float:
        """Virtual time that was counted."""
        return float(self._told["measured_s"])

    @property
    def wall_s(self) -> float:
        """Real time that it took."""
        return float(self._told["wall_s"])

    @property
    def ack(self) -> str:
        """When writes were answered: "durable" or "flush"."""
        return str(self._told["ack"])

    @property
    def counters(self) -> dict[str, int]:
        """All counters of the engine since the run began; none on the plain disk."""
        volume = self._told["volume"]
        return {} if volume is None else dict(volume["counters"])

    @property
    def volume(self) -> Optional[dict[str, Any]]:
        """What is told of the volume at the end: preset, threshold, counters, fill of the logs, size of the map; none of the plain disk."""
        volume = self._told["volume"]
        return None if volume is None else dict(volume)

    @property
    def disk_report(self) -> dict[str, Any]:
        """What the modelled disk counted since the run began."""
        return dict(self._told["disk_report"])

    @property
    def ablation(self) -> dict[str, float]:
        """Where the disk's time went since the run began, in seconds: `seek_s`, `rotation_s` and `transfer_s`; `response_s`, which is what all commands
        together took from submission to completion; and `queueing_s`, which is what of it was none of the three."""
        return dict(self._told["ablation"])

    def requests(self) -> dict[str, Any]:
        """Every request as NumPy arrays, in order of issue: `workload` (which one), `operation` (place in `OPERATIONS`), `fua`, `failed`, `offset_bytes`,
        `len_bytes`, `due_ns`, `issued_ns`, `answered_ns` (masked if it was not), `latency_ns`. Needs `record=True`."""
        found = self._outcome.requests()
        if found is None:
            raise Error("result: expected an experiment with record=True, found one that wrote no requests down")
        columns = _columns.as_numpy(found, "result")
        np = _columns.numpy("result")
        answered = np.ma.masked_equal(columns["answered_ns"], _columns.UNKNOWN_NS)
        columns["answered_ns"] = answered
        columns["latency_ns"] = answered - columns["due_ns"]
        return columns

    def requests_arrow(self) -> Any:
        """Every request as an Arrow table, with the columns of `requests()`."""
        return _frames.to_arrow(self.requests(), "result")

    def requests_pandas(self) -> Any:
        """Every request as a pandas frame."""
        return _frames.to_pandas(self.requests(), "result")

    def requests_polars(self) -> Any:
        """Every request as a polars frame."""
        return _frames.to_polars(self.requests(), "result")

    def head_path(self) -> dict[str, Any]:
        """Every transfer of the disk as NumPy arrays, in order of completion: `submitted_ns`, `completed_ns`, `offset_bytes`, `len_bytes`, `write`,
        `priority` (place in `PRIORITIES`). Address against time is the way of the head. Needs `record=True`."""
        found = self._outcome.head_path()
        if found is None:
            raise Error("result: expected an experiment with record=True, found one that wrote no transfers down")
        return _columns.as_numpy(found, "result")

    def left_out(self) -> tuple[int, int]:
        """Requests and transfers that were too many to be written down: beyond 33,554,432 of each."""
        return self._outcome.left_out()

    def to_dict(self) -> dict[str, Any]:
        """All figures, as JSON has them."""
        told: dict[str, Any] = json.loads(self._outcome.json())
        return told

    def __repr__(self) -> str:
        preset = self._told["volume"]["preset"] if self._told["volume"] else "plain disk"
        return f"<Result {self._told['disk']}, {preset}: {self.measured_s:.3f} s measured, digest {self.digest}>"
