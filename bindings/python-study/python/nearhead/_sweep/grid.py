"""Which experiments a grid is: points, each a value for each key.

A grid is a mapping from keys to the values that they take, of which every combination is a point (the last key changes fastest), or a list of points. It is
looked through as a whole before anything runs: a key that nobody knows ends a sweep at its beginning, not after an hour.
"""

from __future__ import annotations

import difflib
import inspect
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Optional

from .._disk import Disk, presets
from .._experiment import CONFIG, Experiment
from .._native import Error
from .._policies import QUESTIONS, AnyAdmission, AnyCleaner, AnyPlacement, is_one
from .._policies import called as called_policy

#: Points that one grid may have.
POINTS_MAX = 1_000_000
#: Keys of a grid whose experiments nobody else makes.
KEYS = ("disk", "preset", "workload", "ack", "warm_up_s", "duration_s", *QUESTIONS, *CONFIG)

#: A value of a key, and what it is called in the data set.
Named = tuple[Any, Any]
#: What makes an experiment of a point.
Maker = Callable[..., Experiment]


class Grid:
    """Points of named values, by keys, and what makes experiments of them."""

    def __init__(self, given: Any, maker: Optional[Maker]) -> None:
        #: Makes an experiment of a point's values.
        self.make: Maker = plain if maker is None else maker
        known, needed = _parameters(maker)
        if isinstance(given, Mapping):
            #: What points have values for.
            self.keys = [_checked_key(key, known) for key in given]
            self.points = _combinations({key: _values(key, values) for key, values in given.items()})
        else:
            self.keys, self.points = _listed(given, known)
        if not self.points:
            raise Error("sweep: expected a grid of at least one experiment, found none")
        missing = [key for key in needed if key not in self.keys]
        if missing:
            raise Error(f"sweep: expected the grid to have {missing[0]!r}, found {', '.join(self.keys) or 'no key'}")

    def columns(self, point: Mapping[str, Named]) -> dict[str, Any]:
        """What the point's values are called."""
        return {key: point[key][0] if key in point else None for key in self.keys}

    def experiment(self, point: Mapping[str, Named]) -> Experiment:
        """The point's experiment."""
        made = self.make(**{key: value for key, (_, value) in point.items()})
        if not isinstance(made, Experiment):
            raise Error(f"sweep: expected a nearhead.Experiment of each point, found {type(made).__name__}")
        if made.record:
            raise Error("sweep: expected experiments without record=True, as what they write down is not kept, found one with it")
        return made


def plain(
    *,
    disk: Any,
    preset: Optional[str] = None,
    workload: Any = (),
    ack: Optional[str] = None,
    warm_up_s: float = 0.0,
    duration_s: Optional[float] = None,
    placement: Optional[AnyPlacement] = None,
    admission: Optional[AnyAdmission] = None,
    cleaner: Optional[AnyCleaner] = None,
    **config: Any,
) -> Experiment:
    """The experiment of a point whose keys are an experiment's own, and those of its config."""
    config = {key: value for key, value in config.items() if value is not None}
    return Experiment(disk, preset, workload, config, ack, warm_up_s, duration_s, placement=placement, admission=admission, cleaner=cleaner)


def _parameters(maker: Optional[Maker]) -> tuple[Optional[Sequence[str]], list[str]]:
    """The keys that are known, if not all are, and those that must be there."""
    if maker is None:
        return KEYS, ["disk", "workload"]
    parameters = inspect.signature(maker).parameters.values()
    needed = [one.name for one in parameters if one.default is one.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    if any(one.kind == one.VAR_KEYWORD for one in parameters):
        return None, needed
    return [one.name for one in parameters], needed


def _checked_key(key: Any, known: Optional[Sequence[str]]) -> str:
    if not isinstance(key, str) or not key.isidentifier():
        raise Error(f"sweep: expected keys of a grid to be names, found {key!r}")
    if known is not None and key not in known:
        raise Error(f"sweep: expected a key of {', '.join(known)}, found {key!r}{nearest(key, known)}")
    return key


def nearest(found: str, known: Iterable[str]) -> str:
    """What may have been meant."""
    close = difflib.get_close_matches(found, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _values(key: str, values: Any) -> list[Named]:
    """The values of a key: of a mapping with their names, of a list without, and a single one of itself."""
    if isinstance(values, Mapping):
        named = [(name, value) for name, value in values.items()]
    elif isinstance(values, (list, range)):
        named = [(called(value), value) for value in values]
    elif hasattr(values, "tolist") and hasattr(values, "ndim"):
        return _values(key, values.tolist() if values.ndim else [values.item()])
    else:
        named = [(called(values), values)]
    if not named:
        raise Error(f"sweep: expected at least one value for {key!r}, found none")
    names = [repr(name) for name, _ in named]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise Error(f"sweep: expected values of {key!r} that differ in their names, found {twice} twice; give a mapping from names to values")
    return [_checked(key, name, value) for name, value in named]


def called(value: Any) -> Any:
    """What a value is called in a data set: numbers and texts are themselves."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Disk):
        return value.name
    if any(is_one(value, base) for base in QUESTIONS.values()):
        return called_policy(value)
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    if isinstance(value, (list, tuple)):
        return " + ".join(str(called(one)) for one in value)
    return getattr(value, "name", None) or repr(value)


def _checked(key: str, name: Any, value: Any) -> Named:
    if not (name is None or isinstance(name, (bool, int, float, str))):
        raise Error(f"sweep: expected names of values of {key!r} to be texts or numbers, found {name!r}")
    if isinstance(name, float) and not math.isfinite(name):
        raise Error(f"sweep: expected values of {key!r} that are numbers, found {name!r}")
    if key == "preset" and isinstance(value, str) and value not in presets():
        raise Error(f"sweep: expected a preset of {', '.join(presets())}, found {value!r}{nearest(value, presets())}")
    # The same disk is made once, not once for each point that has it.
    return name, Disk(value) if key == "disk" and isinstance(value, str) else value


def _combinations(values: Mapping[str, list[Named]]) -> Sequence[dict[str, Named]]:
    if not values:
        return []
    count = math.prod(len(one) for one in values.values())
    _check_count(count)
    return [dict(zip(values, combination)) for combination in itertools.product(*values.values())]


def _listed(given: Any, known: Optional[Sequence[str]]) -> tuple[list[str], list[dict[str, Named]]]:
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise Error(f"sweep: expected a grid as a mapping from keys to values, or a list of such mappings, found {type(given).__name__}")
    keys: dict[str, None] = {}
    points: list[dict[str, Named]] = []
    for point in given:
        if not isinstance(point, Mapping):
            raise Error(f"sweep, experiment {len(points)}: expected a mapping from keys to values, found {type(point).__name__}")
        named: dict[str, Named] = {}
        for key, value in point.items():
            keys[_checked_key(key, known)] = None
            named[key] = _checked(key, called(value), value)
        points.append(named)
        _check_count(len(points))
    return list(keys), points


def _check_count(count: int) -> None:
    if count > POINTS_MAX:
        raise Error(f"sweep: expected a grid of at most {POINTS_MAX} experiments, found {count}; divide it")
