"""The base classes of policies, and what makes one anew for each engine that starts: `nearhead.policies` is what people see."""

from __future__ import annotations

import copy
import operator
from typing import Any, Literal, Optional, TypedDict, Union

from ._native import CleaningView, Command, Completed, Error, Move, Need, Outstanding, PlacementView, Spot

#: Why blocks go home: nobody is there, and it ends when a request comes; there may soon be too little room; its time has come; it is needed now.
Why = Literal["idle", "room", "time", "need"]


class Asked(TypedDict):
    """What the owner of a volume asked of its cleaner, as its preset has it."""

    period_ns: Optional[int]
    idle_after_ns: Optional[int]
    #: Seconds of the day, start and end.
    window_s: Optional[tuple[int, int]]
    watermark_pct: Optional[int]
    swap_above_pct: Optional[int]
    swap_idle_after_ns: int


class Placement:
    """Where does a record go? Derive from it and say it in `place`; the rest may stay."""

    #: What messages call it; its class's name if that is empty.
    name: str = ""
    #: Logs that each record claims for the next ones, from the wanted one on, 0 to 3; 0 of a policy that stays in the first log.
    claims_ahead: int = 3
    #: Logs around the newest record that stay claimed when a snapshot is written, 1 to 64: a recovery reads each of them.
    claims_kept: int = 8

    def place(self, view: PlacementView, need: Need) -> Optional[Spot]:
        """Where a record that needs `need` goes now. None if there is no place: less is asked for then, and at last the writes go to their homes."""
        raise NotImplementedError(f"{type(self).__name__}: expected a method place(view, need), found none")

    def waits(self, view: PlacementView) -> bool:
        """Whether it would rather be asked once nothing is on the disk, for 50 ms at most."""
        return False

    def record_leaves(self, view: PlacementView, spot: Spot) -> None:
        """A record leaves for this spot."""

    def completed(self, view: PlacementView, command: Completed) -> None:
        """A command completed, of whomever."""


class Admission:
    """Who goes first? Derive from it and say it in `admits`."""

    #: What messages call it; its class's name if that is empty.
    name: str = ""
    #: Largest piece into which bulk is cut, a multiple of 4096 up to 1 MiB; none is as the preset has it.
    piece_bytes: Optional[int] = None

    def admits(self, command: Command, outstanding: Outstanding) -> bool:
        """Whether a command may go to the disk now. It is asked again after each completion, so while nothing is on the disk it must say True."""
        raise NotImplementedError(f"{type(self).__name__}: expected a method admits(command, outstanding), found none")


class Cleaner:
    """How are logs emptied of the engine's own accord? What is needed is done without asking."""

    #: What messages call it; its class's name if that is empty.
    name: str = ""
    #: Whether small writes wait for room while no log has any; else they go to their homes.
    waits_when_full: bool = False

    def home(self, view: CleaningView) -> Optional[Why]:
        """Whether a pass that takes logged blocks home is due, and why. Asked whenever anything happened and none is under way."""
        return None

    def home_wake_ns(self, view: CleaningView) -> Optional[int]:
        """When `home` is to be asked if nothing happens before."""
        return None

    def home_begins(self, view: CleaningView) -> None:
        """A pass begins that was asked for."""

    def relocate(self, view: CleaningView) -> Optional[Move]:
        """A log whose content is to go to another one now. Asked whenever anything happened and none is under way."""
        return None

    def relocate_wake_ns(self, view: CleaningView) -> Optional[int]:
        """When `relocate` is to be asked if nothing happens before."""
        return None


AnyPlacement = Union[Placement, type[Placement]]
AnyAdmission = Union[Admission, type[Admission]]
AnyCleaner = Union[Cleaner, type[Cleaner]]
AnyPolicy = Union[AnyPlacement, AnyAdmission, AnyCleaner]

QUESTIONS: dict[str, type] = {"placement": Placement, "admission": Admission, "cleaner": Cleaner}


def is_one(given: Any, base: type) -> bool:
    """Whether it is a class or an object of this kind."""
    return issubclass(given, base) if isinstance(given, type) else isinstance(given, base)


def called(policy: Any) -> str:
    """What a policy is called: by its `name`, as it shows itself if it does so in its own way, or by its class."""
    kind = policy if isinstance(policy, type) else type(policy)
    if isinstance(policy.name, str) and policy.name:
        return policy.name
    shows_itself = policy is not kind and "__repr__" in {name for base in kind.__mro__[:-1] for name in vars(base)}
    return repr(policy) if shows_itself else kind.__name__


class Maker:
    """Makes a policy anew for each engine that starts, as the compiled half wants to have it."""

    def __init__(self, question: str, given: Any) -> None:
        base = QUESTIONS[question]
        if not is_one(given, base):
            found = given.__name__ if isinstance(given, type) else type(given).__name__
            raise Error(f"{question}: expected a class or an object that derives from nearhead.policies.{base.__name__}, found {found}")
        self._question, self._base, self._given = question, base, given
        #: The newest one.
        self.policy: Any = None

    def __call__(self) -> dict[str, Any]:
        policy = self._given() if isinstance(self._given, type) else copy.deepcopy(self._given)
        self.policy = policy
        made = self._constants(policy)
        for name, method in vars(self._base).items():
            if callable(method) and not name.startswith("_"):
                is_own = getattr(type(policy), name) is not method
                required = name in ("place", "admits")
                made[name] = getattr(policy, name) if is_own or required else None
        return made

    def _constants(self, policy: Any) -> dict[str, Any]:
        name = str(policy.name or type(policy).__name__)
        constants: dict[str, Any] = {"name": name}
        where = f"{self._question} {name!r}"
        if self._question == "placement":
            constants["claims_ahead"] = number(where, "claims_ahead", policy.claims_ahead, 0, 3)
            constants["claims_kept"] = number(where, "claims_kept", policy.claims_kept, 1, 64)
        elif self._question == "admission":
            pieces = policy.piece_bytes
            constants["piece_bytes"] = None if pieces is None else number(where, "piece_bytes", pieces, 4096, 1 << 20, 4096)
        else:
            if not isinstance(policy.waits_when_full, bool):
                raise Error(f"{where}: expected waits_when_full to be True or False, found {policy.waits_when_full!r}")
            constants["waits_when_full"] = policy.waits_when_full
        return constants


def number(where: str, name: str, value: Any, least: int, most: int, unit: int = 1) -> int:
    """A whole number in these bounds."""
    try:
        found = operator.index(value)
    except TypeError:
        found = -1
    if not least <= found <= most or found % unit:
        multiple = f", a multiple of {unit}" if unit > 1 else ""
        raise Error(f"{where}: expected {name} from {least} to {most}{multiple}, found {value!r}")
    return found


def makers(**given: Any) -> dict[str, Maker]:
    """A maker for each policy that there is, by its question."""
    return {question: Maker(question, policy) for question, policy in given.items() if policy is not None}
