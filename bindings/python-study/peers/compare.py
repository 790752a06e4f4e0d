"""Nearhead beside what else simulates or replays disks, on the same requests, by turns in one run: prints tables, and JSON with --json.

    make wheel
    target/python-venv/bin/python bindings/python-study/peers/compare.py

First a disk in SimPy (`simpy_disk.py`) and Nearhead's model of the same profile, both first come first served and without a cache, so that both simulate the same:
how long each takes, of the processor and on the clock, and the mean response times that came out, which must agree. Then fio, which replays a trace in real time
on the same disk emulated (`fio_replay.py`, which needs `cargo build --release --package nearhead-cli`), and Nearhead in virtual time. What is not installed is
skipped, and why is said. docs/comparison.md has what came out.
"""

import argparse
import json
import os
import random
import statistics
import sys
import time
from pathlib import Path

import nearhead

sys.path.insert(0, str(Path(__file__).resolve().parent))

import fio_replay  # noqa: E402

try:
    import simpy_disk
except ImportError as missing:
    simpy_disk, NO_SIMPY = None, f"{missing}; pip install simpy==4.1.2"

ROOT = Path(__file__).resolve().parents[3]
OUTSTANDING, BYTES = 4, 4096


def arguments():
    parser = argparse.ArgumentParser(description="Nearhead beside other simulators and replayers")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--requests", type=int, default=100_000, help="of each workload in virtual time")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rate", type=float, default=100.0, help="requests a second of the trace in virtual time")
    parser.add_argument("--profile", type=Path, default=ROOT / "crates/models/profiles/st3146855fc.toml")
    parser.add_argument("--nearhead", type=Path, default=target / "release/nearhead", help="the program, which serves the disk that fio replays on")
    parser.add_argument("--replayed", type=int, default=6000, help="requests that fio replays in real time; 0 leaves that out")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def timed(run):
    """What `run` gives, seconds of the processor, and on the clock."""
    begun, used = time.perf_counter(), time.thread_time()
    given = run()
    return given, time.thread_time() - used, time.perf_counter() - begun


class Workload:
    """Random requests of 4 KiB, half of them writes: as fast as they get through with four under way at once, or at the times of a trace."""

    def __init__(self, disk, asked, closed):
        self.disk, self.closed = disk, closed
        self.name = f"closed loop, {OUTSTANDING} at once" if closed else f"trace, {asked.rate:g} requests a second"
        draw, at_s, self.arrivals_ns = random.Random(1), 0.0, []
        for _ in range(asked.requests):
            self.arrivals_ns.append(0 if closed else int(at_s * 1e9))
            at_s += draw.expovariate(asked.rate)
        # A volume keeps a tenth of the disk for its logs, and all are to get the same requests.
        blocks = disk.capacity_bytes * 17 // 20 // BYTES
        offsets = [draw.randrange(blocks) * BYTES for _ in range(asked.requests)]
        writes = [draw.random() < 0.5 for _ in range(asked.requests)]
        columns = {"at_ns": self.arrivals_ns, "offset_bytes": offsets, "len_bytes": [BYTES] * asked.requests, "write": writes}
        tempo = {"tempo": "bursts", "outstanding_max": OUTSTANDING} if closed else {"tempo": "open"}
        self.trace = nearhead.Trace.from_columns(columns, name="made-up", **tempo)
        self.requests = [(offset // disk.sector_bytes, BYTES // disk.sector_bytes, write) for offset, write in zip(offsets, writes)]

    def by_nearhead(self, preset):
        experiment = nearhead.Experiment(self.disk, preset, self.trace)
        result, processor_s, seconds = timed(experiment.run)
        return result.workloads[0].latency.mean_ms, processor_s, seconds

    def by_simpy(self, disk):
        def run():
            if self.closed:
                return simpy_disk.closed_loop(disk, self.requests, OUTSTANDING)
            return simpy_disk.open_loop(disk, self.arrivals_ns, self.requests)

        responses, processor_s, seconds = timed(run)
        return statistics.fmean(responses) / 1e6, processor_s, seconds


def in_virtual_time(asked):
    """A row for each simulator and workload: median, least and most requests a second."""
    disk = nearhead.Disk(asked.profile, cache="off", ncq="fifo")
    profile = simpy_disk.read_profile(asked.profile)
    rows = []
    for closed in (True, False):
        workload = Workload(disk, asked, closed)
        ways = {
            "Nearhead, the disk": lambda: workload.by_nearhead(None),
            "Nearhead, preset mlb on it": lambda: workload.by_nearhead("mlb"),
            "SimPy, the disk": lambda: workload.by_simpy(simpy_disk.Disk(profile)),
            "SimPy, one time for all": lambda: workload.by_simpy(simpy_disk.NoDisk()),
        }
        turns = {way: [] for way in ways}
        for _ in range(asked.turns):
            for way, run in ways.items():
                turns[way].append(run())
        for way, found in turns.items():
            row = {"workload": workload.name, "way": way, "mean_ms": found[0][0]}
            for what, place in (("processor", 1), ("clock", 2)):
                rates = sorted(asked.requests / one[place] for one in found)
                row[what] = {"median": statistics.median(rates), "least": rates[0], "most": rates[-1]}
            rows.append(row)
    return rows


def ratios(rows):
    """Of each workload how many times as many requests a second of the processor Nearhead does, and the difference of the means."""
    told = {}
    for workload in dict.fromkeys(row["workload"] for row in rows):
        ways = {row["way"]: row for row in rows if row["workload"] == workload}
        ours, theirs = ways["Nearhead, the disk"], ways["SimPy, the disk"]
        told[workload] = {
            "times_as_fast": ours["processor"]["median"] / theirs["processor"]["median"],
            "mean_differs_percent": 100 * (theirs["mean_ms"] / ours["mean_ms"] - 1),
        }
    return told


def show_virtual(asked, rows):
    print(f"{asked.requests} requests of 4 KiB, half of them writes, {asked.turns} turns; thousands of requests a second: median (least to most)")
    print(f"{'':<28}{'of the processor':>26}{'on the clock':>26}{'mean response':>16}")
    for workload, ratio in ratios(rows).items():
        print(workload)
        for row in rows:
            if row["workload"] == workload:
                rates = ("{median:.1f} ({least:.1f} to {most:.1f})".format(**{key: rate / 1e3 for key, rate in row[what].items()}) for what in ("processor", "clock"))
                print(f"  {row['way']:<26}{''.join(f'{rate:>26}' for rate in rates)}{row['mean_ms']:>13.3f} ms")
        print(f"  the disk: Nearhead {ratio['times_as_fast']:.0f} times as fast; SimPy's mean differs by {ratio['mean_differs_percent']:+.2f} %")


def main():
    asked = arguments()
    told = {"processors": os.cpu_count(), "load_before": os.getloadavg()[0], "python": sys.version.split()[0]}
    if not asked.json:
        print(f"{told['processors']} processors, load before: {told['load_before']:.2f}, Python {told['python']}")
    if simpy_disk is None:
        told["simpy_skipped"] = NO_SIMPY
    else:
        told["virtual"] = in_virtual_time(asked)
        told["ratios"] = ratios(told["virtual"])
    if asked.replayed <= 0:
        told["fio_skipped"] = "--replayed 0"
    else:
        why = fio_replay.missing(asked.nearhead)
        if why:
            told["fio_skipped"] = why
        else:
            told["fio"] = fio_replay.compare(asked.nearhead, asked.profile, asked.replayed)
    if asked.json:
        print(json.dumps(told))
        return
    if "virtual" in told:
        show_virtual(asked, told["virtual"])
    if "fio" in told:
        fio_replay.show(told["fio"])
    for peer in ("simpy", "fio"):
        if f"{peer}_skipped" in told:
            print(f"skipped: {peer}: {told[f'{peer}_skipped']}")


if __name__ == "__main__":
    main()
