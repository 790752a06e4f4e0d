"""The compiled half. Not to be used by itself: `nearhead` has what it offers."""

from __future__ import annotations

import os
from collections.abc import Sequence

class Error(Exception):
    """What went wrong: what, where, what was expected and found, and what to do."""

class Disk:
    def __new__(cls, text: str) -> Disk: ...
    @staticmethod
    def names() -> list[str]: ...
    def facts(self) -> str: ...
    def numbers(self) -> str: ...

class Requests:
    @staticmethod
    def file(path: str | os.PathLike[str]) -> Requests: ...
    @staticmethod
    def columns(
        name: str,
        at_ns: bytes,
        offset_bytes: bytes,
        len_bytes: bytes,
        flags: bytes,
        device: bytes,
        process: bytes,
        response_ns: bytes,
        think_ns: bytes,
    ) -> Requests: ...
    def name(self) -> str: ...
    def summary(self, reading: str) -> str: ...
    def to_columns(self, reading: str) -> dict[str, bytes]: ...
    def in_memory(self) -> dict[str, bytes] | None: ...

class Outcome:
    def json(self) -> str: ...
    def percentiles(self, load: int, class_: str, percents: Sequence[float]) -> list[float]: ...
    def buckets(self, load: int, class_: str) -> list[tuple[int, int, int]]: ...
    def requests(self) -> dict[str, bytes] | None: ...
    def head_path(self) -> dict[str, bytes] | None: ...
    def left_out(self) -> tuple[int, int]: ...

def run(
    disk: Disk,
    preset: str | None,
    choices: str,
    answers: str | None,
    loads: str,
    traces: Sequence[Requests],
    warm_up_s: float,
    duration_s: float | None,
    record: bool,
) -> Outcome: ...
def run_replicas(
    disk: Disk,
    preset: str,
    choices: str,
    answers: str | None,
    loads: str,
    traces: Sequence[Requests],
    warm_up_s: float,
    duration_s: float,
    replicas: str,
) -> str: ...
def presets() -> list[tuple[str, str]]: ...
def formats() -> list[str]: ...
def figure_names() -> list[tuple[str, str]]: ...
def figures(
    names: Sequence[str],
    effort: str,
    traces: str | os.PathLike[str] | None,
    out: str | os.PathLike[str] | None,
) -> list[str]: ...
def validate(
    profile: str,
    trace: str | os.PathLike[str],
    past_end: str,
    write_cache: bool | None,
    read_cache: bool | None,
) -> str: ...
