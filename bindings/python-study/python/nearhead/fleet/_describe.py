"""What a fleet is, in words: groups of sets that are alike, and ways to make checkpoints."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from .._disk import Disk
from .._experiment import AnyWorkload
from .._native import Error
from .._policies import AnyAdmission, AnyCleaner, AnyPlacement

#: Sets of one group, at most.
SETS_MAX = 1_000_000


@dataclass(frozen=True)
class Group:
    """Sets of replicas that are alike but for chance: where clients write, where platters stand, when each replica's checkpoints begin.

    Clients of a set ask for what `workload` says; a workload with a seed has another one in each set. Every write goes to all `replicas`, and is answered when
    more than half of them have it; a read is served by one of them, in turn. Volumes are created with `preset` and `config`, as an `Experiment`'s.

    `placement`, `admission` and `cleaner` are policies in Python that take the place of the preset's (`nearhead.policies`); each volume has its own. A
    cleaner is what says that a checkpoint is due, so it decides whether `Checkpoints` are kept: those that it calls for as "idle" or "time" wait for a permit.
    """

    name: str
    #: How many.
    sets: int
    disk: Union[Disk, str, os.PathLike[str]]
    workload: Union[AnyWorkload, Sequence[AnyWorkload]]
    preset: str = "mlb"
    replicas: int = 3
    config: Mapping[str, Any] = field(default_factory=dict)
    ack: Optional[str] = None
    placement: Optional[AnyPlacement] = None
    admission: Optional[AnyAdmission] = None
    cleaner: Optional[AnyCleaner] = None

    def __post_init__(self) -> None:
        for name in ("sets", "replicas"):
            found = getattr(self, name)
            if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= SETS_MAX:
                raise Error(f"group {self.name!r}: expected {name} from 1 to {SETS_MAX}, found {found!r}")

    @property
    def drives(self) -> int:
        """Drives of all its sets."""
        disk = self.disk if isinstance(self.disk, Disk) else Disk(self.disk)
        return self.sets * self.replicas * disk.drives


@dataclass(frozen=True)
class Checkpoints:
    """A way to make checkpoints: once a day in a `window` between two times of day, or `period_s` after the last one.

    With `spread_s` each replica's window begins up to so much later, or its period is up to so much longer, by chance: replicas that know nothing of each
    other. With `permits` a checkpoint that can wait begins only while fewer replicas of its set make one, as with `nearhead serve`'s coordination. What is
    needed never waits: full logs are emptied at once.
    """

    window: Optional[tuple[str, str]] = None
    period_s: Optional[float] = None
    spread_s: float = 0.0
    permits: Optional[int] = None

    def __post_init__(self) -> None:
        if (self.window is None) == (self.period_s is None):
            raise Error("checkpoints: expected a window or a period, found " + ("none" if self.window is None else "both"))
        if self.window is not None:
            if not isinstance(self.window, (list, tuple)) or len(self.window) != 2:
                raise Error(f'checkpoints: expected a window as a pair of times of day, such as ("02:00", "05:00"), found {self.window!r}')
            for one in self.window:
                second_of_day(one)
        for name in ("period_s", "spread_s"):
            found = getattr(self, name)
            if found is not None and not (isinstance(found, (int, float)) and 0 <= found <= 86_400):
                raise Error(f"checkpoints: expected {name} from 0 to 86400, found {found!r}")
        if self.permits is not None and (not isinstance(self.permits, int) or isinstance(self.permits, bool) or self.permits < 1):
            raise Error(f"checkpoints: expected permits of 1 or more, or none, found {self.permits!r}")

    def described(self) -> dict[str, Any]:
        """As the compiled half reads it."""
        window = None if self.window is None else [second_of_day(one) for one in self.window]
        return {"window": window, "period_s": self.period_s, "spread_s": float(self.spread_s), "permits": self.permits}


def second_of_day(time: Any) -> int:
    """Seconds since midnight of a time such as "02:00"."""
    hours, colon, minutes = str(time).partition(":")
    if not (isinstance(time, str) and colon and hours.isdigit() and minutes.isdigit() and len(minutes) == 2 and int(hours) < 24 and int(minutes) < 60):
        raise Error(f'expected a time of day such as "02:00", found {time!r}')
    return int(hours) * 3600 + int(minutes) * 60
