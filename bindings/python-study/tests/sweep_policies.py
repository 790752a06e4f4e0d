"""Policies that sweeps of the tests send to workers, with what they refer to: this module, others, and a value of their own."""

import enum
import functools
import math
from dataclasses import dataclass, field

from near_head import NearHead
from nearhead.policies import Admission, Cleaner, Placement, Spot

BLOCKS = 1


class Side(enum.Enum):
    BELOW = "below"
    ABOVE = "above"


def rounded(number):
    """What a policy calls."""
    return math.floor(number / BLOCKS) * BLOCKS


def remembered(method):
    """A decorator."""

    @functools.wraps(method)
    def wrapped(self, *arguments):
        self.seen.append(self.side)
        return method(self, *arguments)

    return wrapped


class Nth(NearHead):
    """The log that is so many away from the nearest."""

    __slots__ = ("far", "seen", "side", "weights")

    def __init__(self, far=1, side=Side.ABOVE):
        self.far, self.side, self.seen, self.weights = far, side, [], {"left": {1, 2, "x"}, "right": (0.5, None)}

    @property
    def logs(self):
        return rounded(self.far)

    @remembered
    def place(self, view, need):
        for log in list(view.logs_near())[self.logs :]:
            if view.is_claimed(log) and view.has_room(log, need):
                return Spot(log, view.next_place(log, need))
        return super().place(view, need)


@dataclass
class Rests(Cleaner):
    """Logged blocks go home after so long."""

    after_s: float = 0.5
    whys: list = field(default_factory=lambda: ["idle"])

    def home(self, view):
        return self.whys[0] if view.is_quiet and view.idle_for_ns >= self.after_ns() else None

    def after_ns(self):
        return int(self.after_s * 1e9)

    def home_wake_ns(self, view):
        return view.last_request_at_ns + self.after_ns()


class Raises(Placement):
    """After some records."""

    left = 20

    def place(self, view, need):
        self.left -= 1
        log = view.nearest_claimed(need)
        return Spot(log, view.next_place(log, need), 1 // self.left and log)


class Wrong(Admission):
    """It answers what nobody can follow."""

    def admits(self, command, outstanding):
        return "perhaps"
