"""How policies in Python reach workers: by value, as cloudpickle takes them, with the fingerprint that they have where the sweep began.

A worker needs no file of the user's. It makes the policy of what it was sent, and looks at its fingerprint before and after each experiment: so what ran is what
was meant, and a policy that remembers anything outside of itself, which the next experiment would find, fails instead of making rows that depend on
who ran before.
"""

from __future__ import annotations

import importlib
import pickle
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Optional

from .._columns import missing
from .._native import Error
from .._policies import Maker, called
from .fingerprint import Fingerprint, is_own, package_version, python_version

#: Largest policy that goes to workers: it goes with every experiment.
BYTES_MAX = 16 << 20


class Refused(Error):
    """A worker that cannot have what experiments of this sweep need."""


@dataclass(frozen=True)
class Carried:
    """A policy on its way."""

    question: str
    name: str
    #: Its fingerprint.
    key: str
    python: str
    #: Installed packages that it has anything of, and their versions.
    packages: tuple[tuple[str, str], ...]
    data: bytes = field(repr=False)

    @property
    def what(self) -> str:
        """What messages call it."""
        return f"{self.question} {self.name!r}"

    def unpacked(self) -> Any:
        """The policy, on a worker."""
        expected = {"Python": self.python, **dict(self.packages), "cloudpickle": None}
        for package, version in expected.items():
            found = python_version() if package == "Python" else _version_here(package)
            if found != version and (version is not None or found is None):
                raise Refused(
                    f"expected {package}{f' {version}' if version else ''} for the {self.what}, as where the sweep was begun, found {found or 'none'}; "
                    "install the same, or take the worker out"
                )
        try:
            policy = pickle.loads(self.data)
        except Exception as error:
            raise Error(f"sweep: expected the {self.what} to be made on a worker, found {type(error).__name__}: {error}") from None
        self.check(policy)
        return policy

    def check(self, policy: Any) -> None:
        """Compares it with what was sent."""
        if Fingerprint(self.what, policy).key != self.key:
            raise Error(
                f"sweep: expected the {self.what} to be what it is where the sweep was begun, found another one: it was changed on its way, or left something "
                "behind in its class or module; keep what a policy remembers in the object itself"
            )


def _version_here(package: str) -> Optional[str]:
    try:
        importlib.import_module(package)
    except ImportError:
        return None
    return package_version(package)


class Policies:
    """The policies of a sweep, where it was begun."""

    def __init__(self) -> None:
        self._carried: dict[tuple[str, str, str], Carried] = {}

    def __bool__(self) -> bool:
        return bool(self._carried)

    def add(self, question: str, policy: Any) -> Carried:
        """A policy that is to go to workers. It may be another one the next time, so it is looked at each time."""
        Maker(question, policy)
        name = called(policy)
        found = Fingerprint(f"{question} {name!r}", policy)
        identity = (question, name, found.key)
        if identity not in self._carried:
            data = _pickled(f"{question} {name!r}", policy, found.own)
            self._carried[identity] = Carried(question, name, found.key, python_version(), tuple(sorted(found.packages.items())), data)
        return self._carried[identity]


def _pickled(what: str, policy: Any, own: set[str]) -> bytes:
    """As bytes that need none of the user's own modules."""
    try:
        import cloudpickle
    except ImportError:
        raise missing("cloudpickle", "sweep") from None
    known = cloudpickle.list_registry_pickle_by_value()
    modules = [sys.modules[name] for name in own if name != "__main__" and name in sys.modules and name not in known]
    try:
        for module in modules:
            cloudpickle.register_pickle_by_value(module)
        data: bytes = cloudpickle.dumps(policy)
    except Exception as error:
        raise Error(f"sweep: expected the {what} to be of code and values that can go to workers, found {type(error).__name__}: {error}") from None
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)
    if len(data) > BYTES_MAX:
        raise Error(f"sweep: expected the {what} to take at most {BYTES_MAX} bytes on its way to workers, found {len(data)}")
    return data


@contextmanager
def arrived(policies: Sequence[Carried]) -> Iterator[dict[str, Maker]]:
    """On a worker: what makes these policies anew for each engine that starts, for one experiment."""
    made = {one.question: one.unpacked() for one in policies}
    try:
        yield {question: Maker(question, policy) for question, policy in made.items()}
    except SystemExit as error:
        if not policies:
            raise
        raise Error(f"SystemExit: {error}{place_of(error)}; a policy is no program that may end") from None
    for one in policies:
        one.check(made[one.question])


def place_of(error: BaseException) -> str:
    """Where the user's own code was when this was raised; the same on every worker."""
    frames = [frame for frame in traceback.walk_tb(error.__traceback__) if is_own(str(frame[0].f_globals.get("__name__", "builtins")))]
    if not frames:
        return ""
    frame, line = frames[-1]
    # Code that was sent does not know its file.
    return f" (line {line} of {frame.f_globals['__name__']}, in {frame.f_code.co_name})"
