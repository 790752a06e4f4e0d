"""Modelled disks."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, Optional, Union

from . import _native


class Disk:
    """A modelled disk, or several as one.

    `name_or_path` is the name of a profile (`Disk.names()`), the path of a profile's `.toml` file, the package `FOLDER/NAME` of a measured drive in
    DiskSim's formats, or a text as `nearhead replay --disk` takes it (`"st3146855fc,cache=off"`, `"raid0:model:A,model:B?chunk=64k"`).

    `cache` ("on" or "off") is the drive's write cache, `ncq` ("fifo", "clook", "sptf") how it orders commands, `depth` (1 to 1024) how many it takes;
    what is not given is as in the profile. A write cache of which nothing is said is on where an experiment answers early, and else off.
    """

    def __init__(
        self,
        name_or_path: Union[str, os.PathLike[str]],
        *,
        cache: Optional[str] = None,
        ncq: Optional[str] = None,
        depth: Optional[int] = None,
    ) -> None:
        options = {"cache": cache, "ncq": ncq, "depth": depth}
        text = os.fspath(name_or_path)
        given = "".join(f",{key}={value}" for key, value in options.items() if value is not None)
        if given and ";" in text:
            raise _native.Error(f"disk {text!r}: expected the options of each device behind its name, found {given[1:]!r}")
        if given and text.startswith(("raid0:", "mirror:")):
            raise _native.Error(f"disk {text!r}: expected the options of an array's members behind each of them, found {given[1:]!r}")
        self._disk = _native.Disk(text + given)
        self._facts: dict[str, Any] = json.loads(self._disk.facts())

    @staticmethod
    def names() -> list[str]:
        """Names of the profiles that come along."""
        return _native.Disk.names()

    @staticmethod
    def raid0(members: Sequence[Union[str, "Disk"]], *, chunk: str = "64k") -> "Disk":
        """The members as a RAID-0 in chunks of this size, a power of two from "4k" to "16m"."""
        return Disk(f"raid0:{_members(members)}?chunk={chunk}")

    @staticmethod
    def mirror(members: Sequence[Union[str, "Disk"]], *, read: str = "first") -> "Disk":
        """The members as a mirror; `read` says who serves reads, "first" or "balanced"."""
        return Disk(f"mirror:{_members(members)}?read={read}")

    @staticmethod
    def devices(own: Union[str, "Disk"], *, data: Sequence[Union[str, "Disk"]] = (), logs: Sequence[Union[str, "Disk"]] = ()) -> "Disk":
        """What a volume on several devices lies on: its own, which has the logs, those that hold the data, and those of further logs. For `trail`, and for `gecko`
        as a chain: `Disk.devices(first, data=[second, third])`. Each may be an array."""
        parts = [_name(own), *(f"data={_name(disk)}" for disk in data), *(f"log={_name(disk)}" for disk in logs)]
        return Disk(";".join(parts))

    @property
    def name(self) -> str:
        """As it was asked for, with its options."""
        return str(self._facts["name"])

    @property
    def description(self) -> str:
        """What it models."""
        return str(self._facts["description"])

    @property
    def kind(self) -> str:
        """"hdd", "smr", "flash", "array", or "devices", which a volume spreads over by itself."""
        return str(self._facts["kind"])

    @property
    def drives(self) -> int:
        """How many drives it is."""
        return int(self._facts["drives"])

    @property
    def capacity_bytes(self) -> int:
        """Bytes that a host can address."""
        return int(self._facts["capacity_bytes"])

    @property
    def sector_bytes(self) -> int:
        """Bytes of a sector, as a host addresses it."""
        return int(self._facts["sector_bytes"])

    @property
    def physical_sector_bytes(self) -> int:
        """Bytes of a sector on the medium."""
        return int(self._facts["physical_sector_bytes"])

    @property
    def rpm(self) -> Optional[int]:
        """Revolutions a minute; none of a disk that does not turn."""
        found = self._facts["revolutions_per_minute"]
        return None if found is None else int(found)

    @property
    def seek_ms_max(self) -> Optional[float]:
        """The longest seek of its profile, for a read; none of a disk without an arm."""
        found = self._facts["seek_ms_max"]
        return None if found is None else float(found)

    @property
    def queue_depth(self) -> int:
        """How many commands it takes at once."""
        return int(self._facts["queue_depth"])

    @property
    def write_cache(self) -> bool:
        """Whether its write cache is on where nobody says otherwise."""
        return bool(self._facts["write_cache"])

    @property
    def warnings(self) -> list[str]:
        """What the import of a measured drive's package found to be doubtful."""
        return [str(warning) for warning in self._facts["warnings"]]

    def to_dict(self) -> dict[str, Any]:
        """All of this."""
        return dict(self._facts)

    def __repr__(self) -> str:
        return f"Disk({self.name!r})"

    def __reduce__(self) -> tuple[type["Disk"], tuple[str]]:
        return (Disk, (self.name,))


def _name(disk: Union[str, Disk]) -> str:
    name = disk.name if isinstance(disk, Disk) else disk
    if ";" in name:
        raise _native.Error(f"disk {name!r}: expected one disk or an array as a part of others, found several devices; name them one by one")
    return name


def _members(members: Sequence[Union[str, Disk]]) -> str:
    names = [_name(member) for member in members]
    return ",".join(name if name.startswith(("model:", "[")) else f"model:{name}" for name in names)


def presets() -> dict[str, str]:
    """What a volume may be created as: names, and a line about each."""
    return dict(_native.presets())
