"""Policies written in Python, to try an idea: where a record goes, who goes first, how logs are emptied.

    from nearhead.policies import Placement, Spot

    class Nearest(Placement):
        def place(self, view, need):
            for log in view.logs_near():
                if view.is_claimed(log) and view.has_room(log, need):
                    return Spot(log, view.next_place(log, need))
            return None

    result = nearhead.Experiment(disk, "mlb", workload, placement=Nearest).run()
    print(nearhead.policies.conformance(Nearest, "mlb"))

A policy derives from `Placement`, `Admission` or `Cleaner`: so it is known which question it answers, and the engine asks only for methods that it has.
It is given as a class, which is called without arguments, or as an object, which is copied (`copy.deepcopy`): each engine that starts has one of its own,
so a run depends on nothing that happened before it, and after a power cut a policy has forgotten everything. A policy that draws chance does so from a seed.

An exception in a policy ends the experiment, and is what `run()` raises. So does an answer that nobody could follow, as a `nearhead.Error` that names policy
and answer: a log that does not exist, that is not claimed or has no room, a value of another kind. Laws never depend on an answer, and `conformance` tries
that: the suite that policies in Rust are tried with, in which disks fail and the power goes.

Sweeps and fleets take policies, too, and send them to workers by value (`nearhead.sweep`).

A view answers while its policy is asked, and with an error afterwards: keep numbers, not the view.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from . import _native
from ._native import CleaningView, Command, Completed, Error, Move, Need, Outstanding, PlacementView, Spot
from ._policies import QUESTIONS, Admission, AnyPolicy, Asked, Cleaner, Placement, Why, is_one, makers, number

__all__ = [
    "Admission",
    "Asked",
    "Cleaner",
    "CleaningView",
    "Command",
    "Completed",
    "Conformance",
    "Move",
    "Need",
    "Outstanding",
    "Placement",
    "PlacementView",
    "Spot",
    "Why",
    "conformance",
]


@dataclass(frozen=True)
class Conformance:
    """What was tried without a law being broken. What never ran proves nothing: look at the counts."""

    #: Different images that a cut may leave of short workloads, each recovered.
    images: int
    #: Long workloads with random cuts, kills and stops, on sound and on failing disks.
    random_lives: int
    #: Lives of volumes with several clients, on arrays, with growth and rot; what follows was counted in them.
    lives: int
    requests: int
    commands: int
    #: Power cuts, and of those the ones that hit a recovery.
    cuts: int
    cuts_in_recovery: int
    kills: int
    stops: int
    #: Sectors held against what may stand there.
    sectors_checked: int
    records: int
    #: Logs moved.
    swaps: int
    #: Bytes that went home from logs.
    checkpointed_bytes: int
    #: Small writes that found no room in a log.
    spills: int
    snapshots: int


def conformance(
    policies: Union[AnyPolicy, Sequence[AnyPolicy]],
    base: str = "mlb",
    seeds: Iterable[int] = range(20),
    *,
    every_cut: Optional[int] = 401,
) -> Conformance:
    """Tries whether a volume with this policy, or these, keeps every law: the suite that policies in Rust are tried with.

    All else is as in the preset `base`. For each seed three long workloads run with random power cuts, kills and stops, on sound disks, on failing ones
    and with few logs, and one life in which several clients, arrays, growth and rot come together. Before them short workloads run of which every outcome
    of a cut at every moment is recovered; `every_cut` says that of the longest of these one in so many is tried, None that none is.

    Raises what a policy raises, and `nearhead.Error` if a law is broken, an answer cannot be followed, two runs of one seed differ, or a policy never
    had a say. The message says which part repeats it; what the suite itself says about a broken law goes to standard output and standard error. It
    runs on another thread. Ctrl-C is heard at once and ends it after the part under way; a policy that never answers is never done, so run an experiment
    with it first.
    """
    given = list(policies) if isinstance(policies, (list, tuple)) else [policies]
    found: dict[str, Any] = {}
    for policy in given:
        questions = [question for question, kind in QUESTIONS.items() if is_one(policy, kind)]
        if len(questions) != 1 or questions[0] in found:
            what = policy.__name__ if isinstance(policy, type) else type(policy).__name__
            raise Error(f"conformance: expected a Placement, an Admission or a Cleaner, of each one at most, found {what}")
        found[questions[0]] = policy
    numbers = [number("conformance", "a seed", seed, 0, (1 << 63) - 1) for seed in seeds]
    one_in = None if every_cut is None else number("conformance", "every_cut", every_cut, 1, (1 << 63) - 1)
    made = makers(**found)
    tried = _native.conformance(base, made.get("placement"), made.get("admission"), made.get("cleaner"), numbers, one_in)
    return Conformance(**json.loads(tried))
