"""What sets that were simulated say of all sets of a fleet.

Latencies of sets are put together as histograms, exact within 1/256 of a value. Sets were drawn by chance, requests of one set are alike, so how far a
percentile may be off is found by drawing sets again and again from those that were simulated (a bootstrap over sets). Where all sets of a group were
simulated nothing is left to chance, and both bounds are the value.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._columns import numpy
from ._describe import Group

#: Percentiles that are told of.
PERCENTS = (50.0, 90.0, 99.0, 99.9, 99.99)
_DRAWS = 400
_BOUNDS = (2.5, 97.5)


class Latencies:
    """A histogram: by the largest value of each bucket, in ns, how many."""

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.max_ms = 0.0

    @staticmethod
    def of(parts: Iterable[dict[str, Any]]) -> "Latencies":
        """Of parts as a row has them."""
        merged = Latencies()
        for part in parts:
            merged.add(part)
        return merged

    def add(self, part: dict[str, Any]) -> None:
        """Puts another one to it."""
        for _, high, count in part["buckets"]:
            self.buckets[high] = self.buckets.get(high, 0) + count
        if part["buckets"]:
            self.max_ms = max(self.max_ms, float(part["latency"]["max_ms"]))

    @property
    def count(self) -> int:
        """How many."""
        return sum(self.buckets.values())

    def percentile_ms(self, percent: float) -> float:
        """The latency that so many of a hundred do not exceed."""
        count = self.count
        left = count * percent / 100.0
        for high in sorted(self.buckets):
            left -= self.buckets[high]
            if left <= count * 1e-12:
                return min(high / 1e6, self.max_ms)
        return self.max_ms


@dataclass(frozen=True)
class Row:
    """A group under one way to make checkpoints."""

    group: str
    way: str
    #: Sets that there are, and that were simulated.
    sets: int
    simulated: int
    #: Durable requests that a quorum answered in the simulated sets.
    durable: int
    #: Of them, by percent: the value, and two bounds.
    percentiles_ms: dict[float, tuple[float, float, float]]
    max_ms: float
    #: How long, of the time measured and as a mean of sets, a replica at a checkpoint was in every quorum.
    quorum_busy_s: float
    measured_s: float
    #: The 99th percentile of a quorum by how many replicas were at a checkpoint; 0 where that never was.
    quorum_p99_ms: list[float]
    #: The 99th percentile of each replica by itself: at no checkpoint, and at one.
    replica_p99_ms: tuple[float, float]
    #: Checkpoints of a set, as a mean.
    passes: float
    latencies: Latencies = field(repr=False)


def rows_of(groups: Sequence[Group], ways: Sequence[str], table: Any, seed: int) -> list[Row]:
    """What the rows of all sets come to, in the order of groups and ways."""
    found = table.select(["group", "way", "status", "quorum_busy_s", "passes", "result"]).to_pylist()
    rows = []
    for group in groups:
        for way in ways:
            ours = [row for row in found if row["group"] == group.name and row["way"] == way and row["status"] == "ok"]
            rows.append(_row(group, way, ours, seed))
    return rows


def _row(group: Group, way: str, found: Sequence[dict[str, Any]], seed: int) -> Row:
    told = [json.loads(row["result"]) for row in found]
    of_sets = [Latencies.of(one["quorum"]) for one in told]
    every, by_busy, by_each = Latencies(), [Latencies() for _ in range(group.replicas + 1)], [Latencies(), Latencies()]
    for one in told:
        for part, merged in zip(one["quorum"], by_busy):
            merged.add(part)
            every.add(part)
        for part, merged in zip(one["replica"], by_each):
            merged.add(part)
    values = {percent: every.percentile_ms(percent) for percent in PERCENTS}
    bounds = {percent: (value, value) for percent, value in values.items()} if len(found) == group.sets else _bounds(of_sets, seed)
    return Row(
        group.name,
        way,
        group.sets,
        len(found),
        every.count,
        {percent: (value, *bounds[percent]) for percent, value in values.items()},
        every.max_ms,
        sum(row["quorum_busy_s"] for row in found) / max(1, len(found)),
        sum(one["measured_s"] for one in told) / max(1, len(told)),
        [merged.percentile_ms(99.0) for merged in by_busy],
        (by_each[0].percentile_ms(99.0), by_each[1].percentile_ms(99.0)),
        sum(row["passes"] for row in found) / max(1, len(found)),
        every,
    )


def _bounds(sets: Sequence[Latencies], seed: int) -> dict[float, tuple[float, float]]:
    """Between which values each percentile is in 95 of 100 draws of as many sets from these."""
    np = numpy("fleet")
    edges = sorted({high for one in sets for high in one.buckets})
    place = {high: column for column, high in enumerate(edges)}
    counts = np.zeros((len(sets), len(edges)))
    for line, one in enumerate(sets):
        for high, count in one.buckets.items():
            counts[line, place[high]] = count
    draws = np.random.default_rng(seed).multinomial(len(sets), [1 / len(sets)] * len(sets), size=_DRAWS)
    sums = np.cumsum(draws @ counts, axis=1)
    slowest = max(one.max_ms for one in sets)
    bounds = {}
    for percent in PERCENTS:
        ranks = sums[:, -1:] * percent / 100.0
        columns = np.minimum((sums < ranks * (1 - 1e-12)).sum(axis=1), len(edges) - 1)
        low, high = np.percentile(np.minimum(np.array(edges)[columns] / 1e6, slowest), _BOUNDS)
        bounds[percent] = (float(low), float(high))
    return bounds
