"""What the program reports, as data: a model beside its measured drive, and the papers' figures."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Optional, Union

from . import _frames, _native
from ._native import Error


@dataclass(frozen=True)
class Validation:
    """How near a model comes to its drive: of "all", "reads" and "writes" the number of `requests`, `measured_ms_mean`, `modelled_ms_mean`,
    `mean_error_percent`, `demerit_ms`, `demerit_percent`, and the shares `within_300_us` and `within_500_us`."""

    profile: str
    warnings: list[str]
    all: dict[str, float]
    reads: dict[str, float]
    writes: dict[str, float]
    #: Response time of each request on the drive.
    measured_ms: list[float]
    #: Response time of each request on the model.
    modelled_ms: list[float]


def validate(
    profile: str,
    trace: Union[str, os.PathLike[str]],
    *,
    past_end: str = "error",
    write_cache: Optional[bool] = None,
    read_cache: Optional[bool] = None,
) -> Validation:
    """Replays a trace that was measured on a drive, one request at a time, on its model: a profile by name, a `.toml` file, or a package FOLDER/NAME.

    `write_cache` and `read_cache` say how they were set when it was measured, if not as in the profile; `past_end` what happens to requests past the end
    of the disk.
    """
    return Validation(**json.loads(_native.validate(profile, trace, past_end, write_cache, read_cache)))


@dataclass(frozen=True)
class Figure:
    """A figure or table of a paper, reproduced on modelled disks."""

    name: str
    title: str
    #: What was run, on which model.
    ran: str
    #: What differs from the paper's set-up, and why.
    differs: list[str]
    #: What came out.
    findings: list[str]
    #: The comparison: `case`, `unit`, `paper`, `goal`, `baseline`, `ours`, `limit`.
    rows: list[dict[str, Any]]
    #: The numbers behind it: by name `columns` and `rows`, whose cells are texts.
    data: dict[str, dict[str, Any]]
    #: Charts as SVG, by name.
    drawings: dict[str, str]

    def to_pandas(self, table: str) -> Any:
        """One table of `data` as a pandas frame. A column of nothing but numbers has them as such, and what is empty in it is missing."""
        if table not in self.data:
            raise Error(f"figure {self.name}: expected a table of {', '.join(self.data) or 'none'}, found {table!r}")
        names, rows = self.data[table]["columns"], self.data[table]["rows"]
        cells = {name: _numbers([row[place] for row in rows]) for place, name in enumerate(names)}
        return _frames.to_pandas(cells, f"figure {self.name}")


def _numbers(cells: list[str]) -> list[Any]:
    """As numbers, where all are some or empty."""
    for kind in (int, float):
        try:
            return [kind(cell) if cell else None for cell in cells]
        except ValueError:
            pass
    return cells


def figure_names() -> dict[str, str]:
    """The figures there are, and a line about each."""
    return dict(_native.figure_names())


def figures(
    *names: str,
    effort: str = "full",
    traces: Optional[Union[str, os.PathLike[str]]] = None,
    out: Optional[Union[str, os.PathLike[str]]] = None,
) -> list[Figure]:
    """Makes figures; without names all of them, which takes many minutes.

    `effort` is "full", "quick" or "tiny" (which shows that everything runs; its numbers mean little). `traces` is the folder of real traces. With `out`
    the report, CSV and SVG files are written to that folder. Ctrl-C is heard between two figures.
    """
    made: Iterable[str] = _native.figures(list(names), effort, traces, out)
    return [Figure(**json.loads(one)) for one in made]
