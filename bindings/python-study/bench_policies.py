"""How many questions a second policies in Python answer, whole runs of the simulator and all: prints a table, and JSON with --json.

    make wheel
    target/python-venv/bin/python bindings/python-study/bench_policies.py

Each policy is one of the examples, and counts what it is asked. Small random requests go to an emulated disk without content, half of them writes that
must be durable. Beside it the same run with the preset's own policies, in turns; medians are shown. Times are of the processor, which others cannot take, and on the clock.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import nearhead

sys.path.insert(0, str(Path(__file__).resolve().parent / "examples"))

from at_rest import AtRest  # noqa: E402
from bounded_bulk import BoundedBulk  # noqa: E402
from near_head import NearHead  # noqa: E402


def counted(base, *questions):
    """The policy with what it is asked counted."""

    class Counted(base):
        asked = 0

    def counting(question):
        below = getattr(base, question)

        def ask(self, *arguments):
            self.asked += 1
            return below(self, *arguments)

        return ask

    for question in questions:
        setattr(Counted, question, counting(question))
    return Counted


POLICIES = {
    "placement": counted(NearHead, "place"),
    "admission": counted(BoundedBulk, "admits"),
    "cleaner": counted(AtRest, "home", "home_wake_ns"),
}


def run(requests, question=None):
    mix = nearhead.RandomMix(requests_max=requests, outstanding_max=4, fua=True, seed=1)
    policy = {} if question is None else {question: POLICIES[question]}
    experiment = nearhead.Experiment("st3146855fc", "mlb", mix, **policy)
    begun, used = time.perf_counter(), time.thread_time()
    result = experiment.run()
    used, took = time.thread_time() - used, time.perf_counter() - begun
    asked = result.policies[question].asked if question else 0
    return {"seconds": took, "processor_s": used, "asked": asked, "records": result.counters["records"]}


def main():
    parser = argparse.ArgumentParser(description="Questions a second that policies in Python answer")
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    turns = {question: [] for question in (None, *POLICIES)}
    for _ in range(asked.turns):
        for question, runs in turns.items():
            runs.append(run(asked.requests, question))
    rows = []
    for question, runs in turns.items():
        row = {"policy": question or "none in Python"}
        row.update({key: statistics.median(one[key] for one in runs) for key in runs[0]})
        row["asked_per_s"] = row["asked"] / row["seconds"]
        row["asked_per_processor_s"] = row["asked"] / row["processor_s"]
        rows.append(row)
    if asked.json:
        print(json.dumps({"requests": asked.requests, "turns": asked.turns, "rows": rows}))
        return
    print(f"{'policy':<16}{'questions':>12}{'seconds':>10}{'a second':>12}{'processor s':>14}{'a second of it':>16}")
    for row in rows:
        print(
            f"{row['policy']:<16}{row['asked']:>12}{row['seconds']:>10.2f}{row['asked_per_s']:>12.0f}"
            f"{row['processor_s']:>14.2f}{row['asked_per_processor_s']:>16.0f}"
        )


if __name__ == "__main__":
    main()
