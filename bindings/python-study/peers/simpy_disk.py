"""A hard disk in SimPy, of a profile of Nearhead's: what `compare.py` runs Nearhead's own model beside.

It is what somebody writes who has SimPy and wants such a disk: one `simpy.Resource` for the arm, first come first served, and a function that says how long the arm
takes: seek curve, head switch, settling, zones, skews, rotation by absolute phase, accesses that settle late. All times are whole nanoseconds. It has no cache, no
read-ahead and no content, so it is the same disk only for requests that a cache is no help with. What can be worked out before is (a table has the seek of every
distance), because the comparison is to be fair to SimPy.
"""

import random
from bisect import bisect_left, bisect_right
from pathlib import Path

import simpy

#: What a host hears of a read after its last sector is there: the tail that has not crossed the interface yet.
TAIL_BYTES = 4096


class ProfileError(ValueError):
    """The profile has something that this disk has not."""


def read_profile(path):
    """The profile in a `.toml` file, if this disk can be it; `ImportError` before Python 3.11."""
    import tomllib

    profile = tomllib.loads(Path(path).read_text())
    kind = profile.get("layout", {}).get("kind")
    if kind not in ("serpentine", "cylinder") or not profile.get("zones"):
        raise ProfileError(f"{path}: expected a hard disk with zones in a serpentine or cylinder layout, found the layout {kind!r}")
    for part, key in (("command", "exchange"), ("seek", "write_points_ms")):
        if key in profile[part]:
            raise ProfileError(f"{path}: expected no {part}.{key}, which the disk in SimPy has not, found one")
    return profile


class Disk:
    """The moving parts: where each block is, and how long the arm takes to it."""

    def __init__(self, profile):
        self.sector_bytes = profile["sector_bytes"]
        self.blocks = profile["blocks"]
        self._heads = profile["heads"]
        self._period_ns = profile["period_ns"]
        layout, skew, seek = profile["layout"], profile["skew"], profile["seek"]
        self._serpentine = layout["kind"] == "serpentine"
        self._run = layout.get("run_cylinders", 1)
        self._skews = skew["next_cylinder"], skew["next_head"], skew.get("next_group", 0.0)
        self._zones = self._zones_of(profile)
        self._first_lbns = [zone[0] for zone in self._zones]
        self._seek_ns = _seek_table(seek["points_ms"], profile["cylinders"])
        self._switch_ns = round(seek["head_switch_ms"] * 1e6)
        self._settle_ns = round(seek["write_settle_ms"] * 1e6)
        self._settles_between_tracks = seek.get("settles_between_tracks", False)
        self._late_share = seek.get("late_share", 0.0)
        # Of its own: drawn like the arrivals of a trace it would make bursts late.
        self._lateness = random.Random("settles late")
        self.read_ns, self.write_ns = (round(profile["command"][key] * 1e6) for key in ("read_ms", "write_ms"))
        self.byte_ns = 1e3 / profile["interface"]["megabytes_per_s"]
        self._cylinder, self._head, self._next_lbn = 0, 0, self._locate(0)[3]

    def _zones_of(self, profile):
        """First block, first cylinder, cylinders, sectors per track, turn of the first sector."""
        starts, zones, first_lbn, turn = profile["zones"], [], 0, 0.0
        for place, start in enumerate(starts):
            following = starts[place + 1] if place + 1 < len(starts) else {"first_cylinder": profile["cylinders"]}
            cylinders, sectors = following["first_cylinder"] - start["first_cylinder"], start["sectors_per_track"]
            zone = (first_lbn, start["first_cylinder"], cylinders, sectors, turn)
            zones.append(zone)
            tracks = cylinders * self._heads
            turn = self._turn(zone, tracks)
            first_lbn = following.get("first_lbn", first_lbn + tracks * sectors)
        return zones

    def _turn(self, zone, track):
        """How far the first sector of a zone's track is turned, in revolutions."""
        next_cylinder, next_head, next_group = self._skews
        if not self._serpentine:
            cylinder, head = divmod(track, self._heads)
            return (zone[4] + cylinder * ((self._heads - 1) * next_head + next_cylinder) + head * next_head) % 1.0
        group, inside = divmod(track, self._run * self._heads)
        length = max(1, min(self._run, zone[2] - group * self._run))
        passed, step = divmod(inside, length)
        whole = self._heads * ((self._run - 1) * next_cylinder + next_head) - next_head + next_group
        return (zone[4] + group * whole + passed * ((length - 1) * next_cylinder + next_head) + step * next_cylinder) % 1.0

    def _locate(self, lbn):
        """Cylinder, head, first block and the one after the last of the track, sectors on it, turn of `lbn`."""
        place = bisect_right(self._first_lbns, lbn) - 1
        zone = self._zones[place]
        first_lbn, first_cylinder, cylinders, sectors, _ = zone
        track, sector = divmod(lbn - first_lbn, sectors)
        track_lbn = lbn - sector
        ends = self._first_lbns[place + 1] if place + 1 < len(self._zones) else self.blocks
        if self._serpentine:
            group, inside = divmod(track, self._run * self._heads)
            length = min(self._run, cylinders - group * self._run)
            passed, step = divmod(inside, length)
            head = self._heads - 1 - passed if group & 1 else passed
            cylinder = first_cylinder + group * self._run + (length - 1 - step if passed & 1 else step)
        else:
            cylinder, head = divmod(track, self._heads)
            cylinder += first_cylinder
        return cylinder, head, track_lbn, min(track_lbn + sectors, ends), sectors, self._turn(zone, track) + sector / sectors

    def moves_ns(self, now_ns, lbn, sectors, write):
        """Moves the arm to `lbn` at `now_ns` and lets the sectors pass; how long that takes."""
        period, at, end, late = self._period_ns, now_ns, lbn + sectors, 0
        while lbn < end:
            cylinder, head, track_lbn, track_end, per_track, turn = self._locate(lbn)
            seek = self._seek_ns[abs(cylinder - self._cylinder)]
            if head != self._head and seek < self._switch_ns:
                seek = self._switch_ns
            elsewhere = self._next_lbn != track_lbn
            if seek:
                if write and (elsewhere or self._settles_between_tracks):
                    seek += self._settle_ns
                if at == now_ns and elsewhere and self._late_share and self._lateness.random() < self._late_share:
                    late = period
            passes = min(end, track_end) - lbn
            waits = int((turn % 1.0) * period - (at + seek)) % period
            # A sector missed by less than a few nanoseconds is missed by rounding.
            # Missed by no more than what whole nanoseconds add up to is not missed.
            if period - waits <= period >> 19:
                waits = 0
            at += seek + waits + passes * period // per_track
            self._cylinder, self._head, self._next_lbn = cylinder, head, track_end
            lbn += passes
        return at + late - now_ns


def _seek_table(points_ms, cylinders):
    """The seek over every distance, in ns: the points, and straight lines between."""
    distances, times = [distance for distance, _ in points_ms], [ms * 1e6 for _, ms in points_ms]
    table = [0]
    for distance in range(1, cylinders):
        after = bisect_left(distances, distance)
        if after == 0 or after == len(distances):
            table.append(round(times[min(after, len(times) - 1)]))
            continue
        share = (distance - distances[after - 1]) / (distances[after] - distances[after - 1])
        table.append(round(times[after - 1] + share * (times[after] - times[after - 1])))
    return table


class NoDisk:
    """Every request takes the arm equally long: what SimPy itself costs."""

    read_ns, write_ns, byte_ns = 50_000, 50_000, 2.5

    def moves_ns(self, now_ns, lbn, sectors, write):
        return 6_000_000


def _request(env, arm, disk, lbn, sectors, write, responses):
    arrived = env.now
    yield env.timeout(disk.write_ns if write else disk.read_ns)
    with arm.request() as turn:
        yield turn
        yield env.timeout(disk.moves_ns(env.now, lbn, sectors, write))
    if not write:
        yield env.timeout(int(TAIL_BYTES * disk.byte_ns))
    responses.append(env.now - arrived)


def closed_loop(disk, requests, outstanding):
    """Plays `(lbn, sectors, write)` with so many under way at once; response times in ns."""
    env = simpy.Environment()
    arm, left, responses = simpy.Resource(env), iter(requests), []

    def client():
        for lbn, sectors, write in left:
            yield from _request(env, arm, disk, lbn, sectors, write, responses)

    for _ in range(outstanding):
        env.process(client())
    env.run()
    return responses


def open_loop(disk, arrivals_ns, requests):
    """Plays them at these times, whatever is under way; response times in ns."""
    env = simpy.Environment()
    arm, responses = simpy.Resource(env), []

    def source():
        for at, (lbn, sectors, write) in zip(arrivals_ns, requests):
            yield env.timeout(at - env.now)
            env.process(_request(env, arm, disk, lbn, sectors, write, responses))

    env.process(source())
    env.run()
    return responses
