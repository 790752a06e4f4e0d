"""Experiments."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from . import _native
from ._disk import Disk
from ._policies import AnyAdmission, AnyCleaner, AnyPlacement, makers
from ._result import Result
from ._trace import Trace
from ._workloads import Bulk, DurablePoints, RandomMix, checked

AnyWorkload = Union[Trace, DurablePoints, Bulk, RandomMix]

#: What a configuration may say.
CONFIG = ("logged_write_bytes_max", "log_bytes", "group_bytes", "fragments")


@dataclass(frozen=True)
class Experiment:
    """A disk, what runs on it, and who works on that.

    `preset` is a volume's (`nearhead.presets()`), none the plain disk. `workload` is a `Trace`, a `DurablePoints`, a `Bulk`, a `RandomMix`, or several
    of these beside each other. `config` departs from the preset: `logged_write_bytes_max` (the threshold up to which writes are logged), `log_bytes`,
    `group_bytes`, `fragments`.

    `ack` says when writes are answered: "durable" (every reply means durable) or "flush" (early; flush and FUA make durable); of itself it is "flush" if
    a trace asks for flushes or FUA, or durable points are made by flushes, and else "durable".

    `placement`, `admission` and `cleaner` are policies in Python that take the place of the preset's (`nearhead.policies`), each as a class or an object.

    With `duration_s` what happens after `warm_up_s` is counted for so long; without it everything, until all workloads are done.
    """

    disk: Union[Disk, str, os.PathLike[str]]
    preset: Optional[str] = None
    workload: Union[AnyWorkload, Sequence[AnyWorkload]] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    ack: Optional[str] = None
    warm_up_s: float = 0.0
    duration_s: Optional[float] = None
    #: Whether every request and every transfer of the disk is written down: `Result.requests()`, `Result.head_path()`. 44 and 34 bytes each.
    record: bool = False
    placement: Optional[AnyPlacement] = None
    admission: Optional[AnyAdmission] = None
    cleaner: Optional[AnyCleaner] = None

    def run(self) -> Result:
        """Runs it, in virtual time. The interpreter is free for other threads meanwhile, and Ctrl-C ends it."""
        disk = self.disk if isinstance(self.disk, Disk) else Disk(self.disk)
        described, traces = self._described()
        made = makers(placement=self.placement, admission=self.admission, cleaner=self.cleaner)
        outcome = described.outcome(disk, [trace._native() for trace in traces], made)
        unheard = outcome.unheard()
        if unheard is not None:
            warnings.warn(f"experiment: {unheard}", RuntimeWarning, stacklevel=2)
        return Result(outcome, {question: maker.policy for question, maker in made.items()})

    def _described(self) -> tuple["Described", list[Trace]]:
        """All of it but the disk, the traces and policies in Python, in words."""
        workloads: list[Any] = list(self.workload) if isinstance(self.workload, (list, tuple)) else [self.workload]
        traces: list[Trace] = []
        for workload in workloads:
            if not isinstance(workload, (Trace, DurablePoints, Bulk, RandomMix)):
                raise _native.Error(
                    f"experiment: expected a Trace, DurablePoints, Bulk or RandomMix as workload, found {type(workload).__name__}"
                )
        loads = [workload._described(traces) for workload in workloads]
        unknown = [key for key in self.config if key not in CONFIG]
        if unknown:
            raise _native.Error(f"experiment: expected a config of {', '.join(CONFIG)}, found {unknown[0]!r}")
        kinds = {"fragments": "bool"}
        config = {key: checked("config", key, kinds.get(key, "int"), value) for key, value in self.config.items()}
        described = Described(
            self.preset,
            json.dumps(config),
            self.ack,
            json.dumps(loads),
            float(self.warm_up_s),
            None if self.duration_s is None else float(self.duration_s),
            self.record,
        )
        return described, traces


@dataclass(frozen=True)
class Described:
    """An experiment without its disk and its traces, in words that the compiled half reads: what workloads say of traces are their places in a list."""

    preset: Optional[str]
    config: str
    ack: Optional[str]
    loads: str
    warm_up_s: float
    duration_s: Optional[float]
    record: bool

    def outcome(self, disk: Disk, traces: Sequence[_native.Requests], made: Mapping[str, Any]) -> _native.Outcome:
        """Runs it on this disk, with these traces and the policies that these make."""
        return _native.run(
            disk._disk,
            self.preset,
            self.config,
            self.ack,
            self.loads,
            traces,
            self.warm_up_s,
            self.duration_s,
            self.record,
            made.get("placement"),
            made.get("admission"),
            made.get("cleaner"),
        )
