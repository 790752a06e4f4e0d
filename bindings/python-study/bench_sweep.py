"""What a second worker is good for: the same sweep by one and by two processes, by turns in one run; prints a table, and JSON with --json.

    make wheel
    target/python-venv/bin/python bindings/python-study/bench_sweep.py

Times are whole sweeps on the clock, the start of workers and the data set included. They say something on an otherwise idle machine only, so the load of the
machine before the run is shown, and what the machine itself gives to two processes that only count, in each turn: a virtual one may give two processors the time of
one. Beside them stands what others cannot take: how much of a processor the busier of two workers took, against the one.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nearhead


def arguments():
    parser = argparse.ArgumentParser(description="A sweep by one and by two workers")
    parser.add_argument("--experiments", type=int, default=60)
    parser.add_argument("--requests", type=int, default=200_000, help="requests of each")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def experiment(seed, requests):
    """Random requests on MLB."""
    mix = nearhead.RandomMix(reads=0.5, fua=True, outstanding_max=4, requests_max=requests, seed=seed)
    return nearhead.Experiment("st3146855fc", "mlb", mix)


def swept(asked, workers):
    """How long it took, and what came out."""
    with tempfile.TemporaryDirectory() as folder:
        grid = {"seed": range(asked.experiments), "requests": [asked.requests]}
        done = nearhead.sweep(grid, workers, out=Path(folder) / "out", experiment=experiment, progress=False)
        return done.wall_s, max(done.processor_s.values()), done.to_arrow().column("digest").to_pylist()


def counted(processes):
    """How long it takes so many processes at once to count."""
    began = time.perf_counter()
    running = [subprocess.Popen([sys.executable, "-c", "for _ in range(40_000_000): pass"]) for _ in range(processes)]
    for one in running:
        one.wait()
    return time.perf_counter() - began


def main():
    asked = arguments()
    load = os.getloadavg()[0]
    times, processor = {1: [], 2: []}, {1: [], 2: []}
    digests = set()
    given = []
    for _ in range(asked.turns):
        given.append(2 * counted(1) / counted(2))
        for workers, found in times.items():
            seconds, processor_s, told = swept(asked, workers)
            found.append(seconds)
            processor[workers].append(processor_s)
            digests.add(tuple(told))
    assert len(digests) == 1, "expected the same digests in every turn"
    ratios = [one / two for one, two in zip(times[1], times[2])]
    told = {
        "experiments": asked.experiments,
        "requests": asked.requests,
        "processors": os.cpu_count(),
        "load_before": load,
        "one_s": statistics.median(times[1]),
        "two_s": statistics.median(times[2]),
        "ratio": statistics.median(ratios),
        "machine_ratio": statistics.median(given),
        "ratios": ratios,
        "processor_ratio": statistics.median(processor[1]) / statistics.median(processor[2]),
    }
    if asked.json:
        print(json.dumps(told))
        return
    print(f"{asked.experiments} experiments of {asked.requests} requests, {asked.turns} turns; {told['processors']} processors, load before: {load:.2f}")
    print(f"two processes that only count get {told['machine_ratio']:.2f} times what one gets ({', '.join(f'{ratio:.2f}' for ratio in given)})")
    print(f"of a processor the busier of two takes {told['processor_ratio']:.2f} times less than the one")
    print(f"one worker {told['one_s']:.2f} s, two {told['two_s']:.2f} s, ratio {told['ratio']:.2f} ({', '.join(f'{ratio:.2f}' for ratio in ratios)})")


if __name__ == "__main__":
    main()
