"""The compiled half. Not to be used by itself: `nearhead` has what it offers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ._policies import Asked

Priority = Literal["durable", "foreground", "bulk", "background"]

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
    def unheard(self) -> str | None: ...

class Spot:
    """Where a record goes: the log, the block of it where the record begins, and the log that would have been best, which the record claims for the
    next ones; the same if it is not given."""

    def __new__(cls, log: int, block: int, wanted: int | None = None) -> Spot: ...
    @property
    def log(self) -> int:
        """The log."""
    @property
    def block(self) -> int:
        """The block of it where the record begins."""
    @property
    def wanted(self) -> int:
        """The log that would have been best."""

class Need:
    """What a record needs: its length in blocks, and how many more have to be free behind it."""

    def __new__(cls, blocks: int, reserve_blocks: int = 0) -> Need: ...
    @property
    def blocks(self) -> int:
        """Length of the record."""
    @property
    def reserve_blocks(self) -> int:
        """How many more have to be free behind it."""

class Completed:
    """A command that completed."""

    @property
    def record_end(self) -> tuple[int, int] | None:
        """Log and block behind the record, if it is one."""
    @property
    def offset_bytes(self) -> int:
        """First byte of the disk."""
    @property
    def len_bytes(self) -> int:
        """0 of what transfers nothing."""
    @property
    def took_ns(self) -> int:
        """From leaving to completion."""
    @property
    def has_moved(self) -> bool:
        """Whether it moved the arm, as far as one can tell."""
    @property
    def is_ok(self) -> bool:
        """Whether it did what was asked."""

class PlacementView:
    """What a placement may look at, while it is asked: what a host can know."""

    @property
    def now_ns(self) -> int:
        """The time."""
    @property
    def head_offset_bytes(self) -> int:
        """Byte of the disk where the head will be for a command that leaves now, as far as one can know."""
    @property
    def is_idle(self) -> bool:
        """Nothing is on the disk or on its way there."""
    @property
    def commands_on_disk(self) -> int:
        """Commands that left and are not completed."""
    @property
    def log_count(self) -> int:
        """How many logs the volume has; their numbers begin at 0."""
    @property
    def log_blocks(self) -> int:
        """Blocks of a log."""
    @property
    def block_bytes(self) -> int:
        """Size of a block of a log."""
    @property
    def takes_records_anywhere(self) -> bool:
        """Whether a record may begin at any free place of a log; else records stand in order."""
    def logs_near(self, offset_bytes: int | None = None, count: int = 64) -> list[int]:
        """Logs by their distance from a byte of the disk, the head's if none is given: `count` of them, at most 65,536."""
    def is_claimed(self, log: int) -> bool:
        """Whether a recovery would read the log; no record goes to another one."""
    def is_full(self, log: int) -> bool:
        """Whether it had no room worth looking for when it was last written."""
    def fill_pct(self, log: int) -> int:
        """Share of it that cannot be written now, 0 to 100."""
    def has_room(self, log: int, need: Need) -> bool:
        """Whether it can take the record."""
    def next_place(self, log: int, need: Need) -> int | None:
        """The first block from its write position on where it can take the record."""
    def place_from(self, log: int, block: int, need: Need) -> int | None:
        """The first block from `block` on where it can take the record; where records stand in order `block` or none."""
    def accepts(self, log: int, block: int, need: Need) -> bool:
        """Whether it can take the record at this block."""
    def nearest_claimed(self, need: Need, offset_bytes: int | None = None) -> int | None:
        """The claimed log with room that is nearest a byte of the disk, the head's if none is given."""
    def block_offset_bytes(self, log: int, block: int) -> int | None:
        """Byte of the disk where a block of a log is."""
    def begins_in_ns(self, log: int, block: int) -> int | None:
        """How long until a record that leaves now would begin there, on an idle disk; none where nobody found out where tracks are (presets whose records
        go anywhere do), or predictions do not hold."""

class Command:
    """A command that waits for its turn."""

    @property
    def priority(self) -> Priority:
        """"durable", "foreground", "bulk" or "background"."""
    @property
    def len_bytes(self) -> int:
        """Its length; of several that leave together that of a piece."""
    @property
    def waited_ns(self) -> int:
        """Time for which it has given way: since it was issued, with a durable command on the disk or a record waiting."""

class Outstanding:
    """What is on the disk."""

    def commands(self, priority: Priority | None = None) -> int:
        """Commands of this priority, or of all."""
    def len_bytes(self, priority: Priority | None = None) -> int:
        """Their bytes."""
    @property
    def pace(self) -> Literal["polite", "steady", "alone", "urgent"]:
        """How much background work matters now: it can wait, it is asked for, nobody else is there, clients wait for it."""
    @property
    def record_waits(self) -> bool:
        """A record waits until nothing is on the disk."""
    @property
    def beside_durable_bytes(self) -> int:
        """Bytes that left since a durable command did that is still there, other such commands left out."""
    @property
    def foreground_waiting(self) -> int:
        """Foreground commands that wait for their turn."""
    @property
    def foreground_waited_ns(self) -> int:
        """Time for which the first of them has waited."""
    @property
    def issued_ago_ns(self) -> int:
        """Time since the command that asks was issued."""

class Move:
    """The content of a log that goes to another one."""

    def __new__(cls, from_log: int, to_log: int) -> Move: ...
    @property
    def from_log(self) -> int:
        """The log that is emptied."""
    @property
    def to_log(self) -> int:
        """The log that takes what it holds."""

class CleaningView:
    """What a cleaner may look at, while it is asked."""

    @property
    def now_ns(self) -> int:
        """The time."""
    @property
    def second_of_day(self) -> int:
        """Seconds since midnight."""
    @property
    def last_request_at_ns(self) -> int:
        """When a client asked for anything the last time."""
    @property
    def idle_for_ns(self) -> int:
        """How long ago that was."""
    @property
    def is_quiet(self) -> bool:
        """No request is under way."""
    @property
    def last_pass_ended_at_ns(self) -> int:
        """When the last pass home ended."""
    @property
    def last_log(self) -> int:
        """The log of the newest record."""
    @property
    def snapshot_number(self) -> int:
        """Number of the newest snapshot: what a move freed can be written after the next one."""
    @property
    def fragment_fill_pct(self) -> int:
        """How much of the room for writes smaller than a sector is taken."""
    @property
    def log_count(self) -> int:
        """How many logs the volume has; their numbers begin at 0."""
    def fill_pct(self, log: int | None = None) -> int:
        """Share that cannot be written now, 0 to 100, of a log or of all."""
    def logs_touched(self, count: int = 65536) -> list[int]:
        """Logs that hold something, protect something or are claimed, in their order: `count` of them, at most 65,536."""
    def is_touched(self, log: int) -> bool:
        """Whether it is one of those."""
    def is_needed(self, log: int) -> bool:
        """Whether it holds the newest copy of anything."""
    def is_full(self, log: int) -> bool:
        """Whether it had no room worth looking for when it was last written."""
    def rests(self, log: int) -> bool:
        """Whether it is left alone for a while, since it did not take a record."""
    def asked(self) -> Asked:
        """What the owner of the volume asked for."""

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
    placement: Callable[[], dict[str, Any]] | None = None,
    admission: Callable[[], dict[str, Any]] | None = None,
    cleaner: Callable[[], dict[str, Any]] | None = None,
) -> Outcome: ...
def conformance(
    preset: str,
    placement: Callable[[], dict[str, Any]] | None,
    admission: Callable[[], dict[str, Any]] | None,
    cleaner: Callable[[], dict[str, Any]] | None,
    seeds: Sequence[int],
    one_in: int | None,
) -> str: ...
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
    placement: Callable[[], dict[str, Any]] | None = None,
    admission: Callable[[], dict[str, Any]] | None = None,
    cleaner: Callable[[], dict[str, Any]] | None = None,
) -> str: ...
def presets() -> list[tuple[str, str]]: ...
def formats() -> list[str]:
    """The forms of traces that files are read in: what `Trace` takes as `format`."""

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
