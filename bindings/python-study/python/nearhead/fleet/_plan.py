"""A fleet, simulated: which of its sets, what each came to, and what that says of all of them.

Each set is a task of a sweep (`nearhead._sweep`), so a plan can be stopped and gone on with, and run on a cluster. What a set is by chance follows from the
plan's seed and the set's number alone: a larger sample holds the same sets, and a set is the same under every way to make checkpoints.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Optional, Union

from .. import _native
from .._experiment import Experiment
from .._native import Error
from .._policies import QUESTIONS
from .._sweep.carried import arrived
from .._sweep.drive import Sweep, run, with_policies
from .._sweep.grid import POINTS_MAX
from .._sweep.parcels import Parcels
from .._sweep.task import Columns, ExperimentTask, made
from ._describe import Checkpoints, Group, second_of_day
from ._statistics import Latencies, Row, rows_of

#: What a row of a set has.
_COLUMNS: Columns = {
    "digest": "text",
    "wall_s": "float",
    "durable": "int",
    "p50_ms": "float",
    "p99_ms": "float",
    "p999_ms": "float",
    "max_ms": "float",
    "quorum_busy_s": "float",
    "passes": "int",
    "logged_bytes": "int",
    "checkpointed_bytes": "int",
    "result": "text",
}


@dataclass(frozen=True)
class SetTask:
    """A set of replicas."""

    experiment: ExperimentTask
    replicas: str

    @property
    def parcels(self) -> Sequence[str]:
        """The traces that it needs."""
        return self.experiment.parcels

    def words(self) -> str:
        """Everything that its row depends on."""
        return self.experiment.words() + self.replicas

    def run(self, traces: Sequence[_native.Requests]) -> dict[str, Any]:
        """Runs it, and gives what it came to."""
        disk, told = made(self.experiment), self.experiment.described
        assert told.preset is not None and told.duration_s is not None
        with arrived(self.experiment.policies) as policies:
            text = _native.run_replicas(
                disk._disk, told.preset, told.config, told.ack, told.loads, traces, told.warm_up_s, told.duration_s, self.replicas, **policies
            )
        return _row(json.loads(text), int(json.loads(self.replicas)["count"]))


def _row(told: dict[str, Any], count: int) -> dict[str, Any]:
    quorum = Latencies.of(told["quorum"])
    # With so many busy, one of them is in every quorum.
    busy = sum(told["at_once_s"][count - count // 2 :])
    wall_s = told.pop("wall_s")
    if told["unheard"] is None:
        del told["unheard"]
    row = {name: told[name] for name in ("digest", "passes", "logged_bytes", "checkpointed_bytes")}
    percentiles = {f"{name}_ms": quorum.percentile_ms(percent) for name, percent in (("p50", 50), ("p99", 99), ("p999", 99.9), ("max", 100))}
    return {**row, **percentiles, "wall_s": wall_s, "durable": quorum.count, "quorum_busy_s": busy, "result": json.dumps(told)}


@dataclass(frozen=True)
class Plan:
    """A fleet, simulated."""

    groups: Sequence[Group]
    #: Its sweep, a row for each set under each way.
    sweep: Sweep
    #: Of each group under each way, what came out.
    rows: Sequence[Row]

    @property
    def drives(self) -> int:
        """Drives of the fleet."""
        return sum(group.drives for group in self.groups)

    def text(self) -> str:
        """A table for people; a percentile stands with the bounds between which it is with 95 % confidence for want of the sets that were left out."""
        lines = [f"{self.drives} drives in {sum(group.sets for group in self.groups)} sets"]
        for row in self.rows:
            percentiles = ", ".join(f"p{percent:g} {value:.2f} ms ({low:.2f} to {high:.2f})" for percent, (value, low, high) in row.percentiles_ms.items())
            lines.append(
                f"{row.group}, {row.way}: {row.simulated} of {row.sets} sets simulated, {row.durable} durable requests: {percentiles}, "
                f"slowest {row.max_ms:.1f} ms; every quorum has a replica at a checkpoint for {row.quorum_busy_s:.0f} s of {row.measured_s:.0f}; "
                f"each replica by itself p99 {row.replica_p99_ms[0]:.2f} ms, and {row.replica_p99_ms[1]:.2f} at a checkpoint"
            )
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        rows = [{one.name: getattr(row, one.name) for one in fields(row) if one.name != "latencies"} for row in self.rows]
        return {"drives": self.drives, "rows": rows}

    def draw(self, path: Union[str, Path]) -> None:
        """How many durable requests in a million take longer, against how long; a line for each way, a panel for each group."""
        from ._draw import draw

        draw(self.rows, Path(path))


def plan(
    groups: Sequence[Group],
    ways: Mapping[str, Checkpoints],
    workers: Union[str, int] = "local",
    *,
    out: Any,
    sample: Optional[int] = None,
    hours: float = 24.0,
    begins_at: str = "00:00",
    warm_up_s: float = 60.0,
    seed: int = 1,
    progress: Optional[bool] = None,
) -> Plan:
    """Simulates a fleet under each way to make checkpoints, `hours` from a time of day on, and keeps a row for each set in the data set `out`.

    With `sample` so many sets of each group are simulated, drawn by chance; without it all. `workers`, `out` and `progress` are those of `nearhead.sweep`.
    """
    _check(groups, ways, sample, hours, seed)
    parcels = Parcels()
    tasks, points = [], []
    for way, checkpoints in ways.items():
        for group in groups:
            for number in drawn(group, sample, seed):
                tasks.append(_task(group, number, checkpoints, parcels, (hours, second_of_day(begins_at), warm_up_s, seed)))
                points.append({"way": way, "group": group.name, "set": number})
    if len(tasks) > POINTS_MAX:
        raise Error(f"fleet: expected at most {POINTS_MAX} sets and ways to simulate, found {len(tasks)}; take a sample")
    points = with_policies(points, [task.experiment.policies for task in tasks])
    swept = run(tasks, points, _COLUMNS, parcels, workers, Path(out), progress=progress)
    return Plan(tuple(groups), swept, rows_of(groups, list(ways), swept.to_arrow(), seed))


def drawn(group: Group, sample: Optional[int], seed: int) -> list[int]:
    """The numbers of the sets that are simulated, in order. A larger sample has those of a smaller one."""
    if sample is None or sample >= group.sets:
        return list(range(group.sets))
    order = list(range(group.sets))
    random.Random(_seed(seed, group.name, "sample")).shuffle(order)
    return sorted(order[:sample])


def _task(group: Group, number: int, checkpoints: Checkpoints, parcels: Parcels, asked: tuple[float, int, float, int]) -> SetTask:
    hours, second, warm_up_s, seed = asked
    given: list[Any] = list(group.workload) if isinstance(group.workload, (list, tuple)) else [group.workload]
    workload: list[Any] = [
        replace(one, seed=_seed(seed, group.name, f"set {number}, workload {place}")) if hasattr(one, "seed") else one for place, one in enumerate(given)
    ]
    policies: dict[str, Any] = {question: getattr(group, question) for question in QUESTIONS}
    experiment = Experiment(group.disk, group.preset, workload, group.config, group.ack, warm_up_s, hours * 3600.0, **policies)
    replicas = {**checkpoints.described(), "count": group.replicas, "second_of_day": second, "seed": _seed(seed, group.name, f"set {number}")}
    return SetTask(ExperimentTask.of(experiment, parcels), json.dumps(replicas))


def _seed(seed: int, group: str, what: str) -> int:
    """A number below 2^63 that follows from these."""
    return int.from_bytes(hashlib.blake2b(f"{seed} {group} {what}".encode(), digest_size=8).digest(), "big") >> 1


def _check(groups: Sequence[Group], ways: Mapping[str, Checkpoints], sample: Optional[int], hours: float, seed: int) -> None:
    names = [group.name for group in groups]
    if not groups or len(set(names)) < len(names):
        raise Error(f"fleet: expected at least one group, with names that differ, found {', '.join(names) or 'none'}")
    if not ways or not all(isinstance(name, str) and isinstance(way, Checkpoints) for name, way in ways.items()):
        raise Error("fleet: expected a mapping from names to nearhead.fleet.Checkpoints, found something else")
    if sample is not None and (not isinstance(sample, int) or sample < 1):
        raise Error(f"fleet: expected a sample of 1 set or more, or none, found {sample!r}")
    if not (isinstance(hours, (int, float)) and 0 < hours <= 24 * 366):
        raise Error(f"fleet: expected hours above 0, up to a year, found {hours!r}")
    if not isinstance(seed, int):
        raise Error(f"fleet: expected a seed that is a whole number, found {seed!r}")


