"""What a policy in Python depends on, as a hash: its compiled code, and every value that this reaches.

Two policies with the same fingerprint answer alike, whatever process they are in. It is of what runs, not of a text: a comment changes nothing, and a file
that was edited since it was imported does not speak for what was imported. Compiled code differs from one version of Python to the next, so fingerprints
are compared within one (`python_version`) only.

What Python and nearhead bring is told by its name, what an installed package brings by its name and the package's version. All else is the user's own:
it is looked through, and `own` says in which modules it is. What cannot be looked through is refused: an open file, a lock, a compiled module of one's own.
"""

from __future__ import annotations

import copyreg
import dis
import hashlib
import importlib.metadata
import sys
import sysconfig
import types
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional

from .._native import Error

#: Attributes of a class that say nothing about what it does, or are made anew with it.
_BESIDE = {
    "__abstractmethods__",
    "__annotate__",
    "__annotate_func__",
    "__annotations__",
    "__annotations_cache__",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__slotnames__",
    "__static_attributes__",
    "__weakref__",
    "_abc_impl",
}
#: What a code object does; what it is called and where it stands is left out.
_OF_CODE = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags")
_PLAIN = (bool, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
#: Parts of the path of what is installed.
_INSTALLED = {"site-packages", "dist-packages"}
#: Where Python's own modules lie: it has no list of them before 3.10.
_STANDARD = Path(sysconfig.get_paths()["stdlib"])


def python_version() -> str:
    """The version of Python within which fingerprints can be compared, and compiled code can be sent."""
    return f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]}"


def package_version(package: str) -> Optional[str]:
    """The version of an installed package that is imported as this; none if it does not tell."""
    told = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(told, str):
        return told
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def is_own(module: str) -> bool:
    """Whether a module is the user's own: no part of Python, of nearhead or of an installed package."""
    top = module.partition(".")[0]
    if top in ("nearhead", "builtins") or top in sys.builtin_module_names or top in getattr(sys, "stdlib_module_names", ()):
        return False
    return not any(_lies_where(module))


def _lies_where(module: str) -> tuple[bool, bool]:
    """Whether a module that was imported, or the package that it is in, is installed, and whether it is a part of Python."""
    found = [getattr(sys.modules.get(name), "__file__", None) for name in (module, module.partition(".")[0])]
    return _is_where(next((file for file in found if file is not None and module != "__main__"), ""))


@lru_cache(maxsize=4096)
def _is_where(file: str) -> tuple[bool, bool]:
    path = Path(file)
    return bool(_INSTALLED.intersection(path.parts)), _STANDARD in path.parents


class Fingerprint:
    """Looks through a policy. `what` is what messages call it."""

    def __init__(self, what: str, policy: Any) -> None:
        #: Modules of the user's that it has anything of.
        self.own: set[str] = set()
        #: Installed packages that it has anything of, and their versions.
        self.packages: dict[str, str] = {}
        self._what = what
        #: Where it is being looked, for messages.
        self._path: list[str] = []
        self._hash = hashlib.blake2b(digest_size=16)
        #: What was looked at, by its address, and its number; it is held, so that no other gets that address.
        self._seen: dict[int, tuple[Any, int]] = {}
        try:
            self._look(policy)
        except RecursionError:
            self._path = []
            raise self._refused("values that lie too deep in each other") from None
        self.key = self._hash.hexdigest()

    def _refused(self, found: str) -> Error:
        place = f" at {'.'.join(self._path)}" if self._path else ""
        return Error(f"sweep: expected the {self._what} to be of code and values that can go to workers, found {found}{place}")

    def _tell(self, kind: str, text: str = "") -> None:
        said = f"{kind} {text}".encode("utf-8", "surrogatepass")
        self._hash.update(b"%d %b" % (len(said), said))

    def _look(self, value: Any, name: Optional[str] = None) -> None:
        if name is not None:
            self._path.append(name)
            self._tell("at", name)
        kind = type(value)
        if kind in _PLAIN:
            self._tell(kind.__name__, repr(value))
        elif kind is int:
            self._tell("int", hex(value))
        elif kind is tuple:
            self._each("tuple", value)
        elif kind is frozenset:
            self._unordered(value)
        elif id(value) in self._seen:
            self._tell("again", str(self._seen[id(value)][1]))
        else:
            self._seen[id(value)] = (value, len(self._seen))
            self._look_into(value)
        if name is not None:
            self._path.pop()

    def _look_into(self, value: Any) -> None:
        """Looks at what may hold itself."""
        if isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.CodeType):
            self._code(value)
        elif isinstance(value, types.ModuleType):
            self._module(value)
        elif isinstance(value, (staticmethod, classmethod)):
            self._each(type(value).__name__, (value.__func__,))
        elif isinstance(value, property):
            self._each("property", (value.fget, value.fset, value.fdel))
        elif type(value) is list:
            self._each("list", value)
        elif type(value) is dict or isinstance(value, types.MappingProxyType):
            self._each("dict", [part for item in value.items() for part in item])
        elif type(value) is set:
            self._unordered(value)
        else:
            self._object(value)

    def _each(self, kind: str, values: Any) -> None:
        self._tell(kind, str(len(values)))
        for value in values:
            self._look(value)

    def _unordered(self, values: Any) -> None:
        """Of a set the order says nothing, and is another one in another process."""
        parts = [Fingerprint(self._what, value) for value in values]
        for part in parts:
            self.own |= part.own
            self.packages.update(part.packages)
        self._tell("set", " ".join(sorted(part.key for part in parts)))

    def _is_named(self, module: str, name: str) -> bool:
        """Tells of what is another's by its name; of the user's own nothing."""
        if is_own(module):
            self.own.add(module)
            return False
        if "<locals>" in name:
            # Made by a function of theirs, perhaps of what is the user's.
            return False
        self._tell("named", f"{module}.{name}")
        self._note_package(module)
        return True

    def _note_package(self, module: str) -> None:
        top = module.partition(".")[0]
        if top == "nearhead" or not _lies_where(module)[0]:
            return
        version = package_version(top)
        if version is None:
            raise self._refused(f"the package {top}, which does not tell its version,")
        self.packages[top] = version
        self._tell("version", version)

    def _class(self, value: type) -> None:
        if self._is_named(value.__module__, value.__qualname__):
            return
        # Where a class of a function was defined does not arrive.
        self._tell("class", f"{value.__module__}.{value.__name__}")
        self._each("bases", (type(value), *value.__bases__))
        for name, attribute in _sorted(vars(value)):
            # A slot is told of by `__slots__`.
            if name not in _BESIDE and not isinstance(attribute, types.MemberDescriptorType):
                self._look(attribute, f"{value.__name__}.{name}" if not self._path else name)

    def _function(self, value: types.FunctionType) -> None:
        module = value.__module__ or ""
        if self._is_named(module, value.__qualname__):
            return
        self._tell("function", f"{module}.{value.__qualname__}")
        self._look(value.__code__)
        self._each("defaults", value.__defaults__ or ())
        self._each("keywords", _sorted(value.__kwdefaults__ or {}))
        self._each("attributes", _sorted(vars(value)))
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            try:
                self._look(cell.cell_contents, name)
            except ValueError:
                self._tell("empty", name)
        for name in sorted(_outside(value.__code__)[0]):
            if name in value.__globals__:
                self._look(value.__globals__[name], name)
            else:
                self._tell("builtin", name)

    def _code(self, value: types.CodeType) -> None:
        self._each("code", [getattr(value, name) for name in _OF_CODE] + [getattr(value, "co_exceptiontable", b"")])
        self._each("constants", value.co_consts)
        for module in sorted(_outside(value)[1]):
            if is_own(module):
                raise self._refused(f"an import of {module!r} inside a function; import it at the top of the file, so that it goes along,")
            self._note_package(module)

    def _module(self, value: types.ModuleType) -> None:
        if self._is_named(value.__name__, ""):
            return
        self._tell("module", value.__name__)
        for name, attribute in _sorted(vars(value)):
            if not (name.startswith("__") and name.endswith("__")):
                self._look(attribute, name)

    def _object(self, value: Any) -> None:
        """As pickle takes it apart."""
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            told: Any = reduce(value) if reduce else value.__reduce_ex__(4)
            if isinstance(told, str):
                module = getattr(value, "__module__", None) or type(value).__module__
                if not self._is_named(module, told):
                    raise TypeError
                return
            function, arguments, state, listed, mapped = (*told, None, None, None)[:5]
            items, pairs = list(listed or ()), [part for pair in mapped or () for part in pair]
        except Error:
            raise
        except Exception:  # noqa: BLE001 - an object's own reason not to be taken apart
            raise self._refused(f"an object of {type(value).__module__}.{type(value).__qualname__}") from None
        self._look(function)
        self._each("arguments", arguments)
        # Attributes, some of them perhaps in slots.
        parts: Any = state if isinstance(state, tuple) and len(state) == 2 else (state,)
        if all(part is None or isinstance(part, dict) and all(isinstance(name, str) for name in part) for part in parts):
            for name, attribute in _sorted({name: attribute for part in parts for name, attribute in (part or {}).items()}):
                self._look(attribute, name)
        else:
            self._look(state)
        self._each("items", items)
        self._each("pairs", pairs)


def _sorted(attributes: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """By their names, as their order says nothing."""
    return sorted(attributes.items(), key=lambda attribute: attribute[0])


@lru_cache(maxsize=4096)
def _outside(code: types.CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The names that code looks for outside of itself, and the modules that it imports itself."""
    names, modules = set(), set()
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            modules.add(str(instruction.argval))
        elif "GLOBAL" in instruction.opname or instruction.opname == "LOAD_NAME":
            names.add(str(instruction.argval))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _outside(constant)[0]
    return frozenset(names), frozenset(modules)
