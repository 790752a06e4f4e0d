"""What the library for Python costs beside the same from Rust, in one run: prints a table, and JSON with --json.

    cargo build --release --package nearhead-study --example experiment_speed
    make wheel
    target/python-venv/bin/python bindings/python-study/bench.py

Each experiment is run by turns from Rust (the example `experiment_speed`) and from Python, and medians are shown; the digests must be the same. Ratios are of
processor time, which a busy machine leaves alone. Besides: how long an import takes beyond the interpreter's own start, what writing down every request
costs, and how large the wheel is.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import nearhead

ROOT = Path(__file__).resolve().parents[2]


def arguments():
    parser = argparse.ArgumentParser(description="The library for Python beside the same from Rust")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--speed", type=Path, default=target / "release/examples/experiment_speed", help="the example of Rust")
    parser.add_argument("--wheels", type=Path, default=ROOT / "target/wheel", help="folder of the wheel")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def columns(requests):
    """The trace of the example, as columns."""
    places = range(requests)
    return {
        "at_ns": [place * 20_000_000 for place in places],
        "offset_bytes": [place * 7919 % (1 << 20) * 65536 for place in places],
        "len_bytes": [4096] * requests,
        "write": [place % 3 > 0 for place in places],
    }


def from_rust(speed, requests):
    said = subprocess.run([speed, str(requests)], check=True, capture_output=True, text=True).stdout
    return {told["case"]: told for told in map(json.loads, said.splitlines())}


def from_python(workload, record=False):
    experiment = nearhead.Experiment("st3146855fc", "mlb", workload, record=record)
    begun, used = time.perf_counter(), time.thread_time()
    result = experiment.run()
    return {"seconds": time.perf_counter() - begun, "processor_s": time.thread_time() - used, "digest": result.digest}


def import_ms():
    """An import beyond the interpreter's start: of ten each the median."""

    def median_ms(code):
        times = []
        for _ in range(10):
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            times.append(time.perf_counter() - begun)
        return 1e3 * statistics.median(times)

    return median_ms("import nearhead") - median_ms("pass")


def main():
    asked = arguments()
    workloads = {
        "random_mix": nearhead.RandomMix(reads=0.5, fua=True, outstanding_max=4, requests_max=asked.requests, seed=1),
        "trace": nearhead.Trace.from_columns(columns(asked.requests), name="made-up"),
    }
    rust, python, recorded = ({name: [] for name in workloads} for _ in range(3))
    for _ in range(asked.turns):
        told = from_rust(asked.speed, asked.requests)
        for name, workload in workloads.items():
            ours = from_python(workload)
            assert ours["digest"] == told[name]["digest"], f"{name}: expected the digest {told[name]['digest']}, found {ours['digest']}"
            rust[name].append(told[name])
            python[name].append(ours)
            recorded[name].append(from_python(workload, record=True))
    rows = []
    for name in workloads:
        row = {"case": name}
        for who, turns in (("rust", rust), ("python", python), ("recorded", recorded)):
            for what in ("seconds", "processor_s"):
                row[f"{who}_{what}"] = statistics.median(turn[what] for turn in turns[name])
        row["ratio"] = row["rust_processor_s"] / row["python_processor_s"]
        row["recorded_ratio"] = row["rust_processor_s"] / row["recorded_processor_s"]
        rows.append(row)
    wheels = sorted(asked.wheels.glob("nearhead-*.whl"))
    wheel_mb = wheels[-1].stat().st_size / 1e6 if wheels else None
    told = {"requests": asked.requests, "turns": asked.turns, "rows": rows, "import_ms": import_ms(), "wheel_mb": wheel_mb}
    if asked.json:
        print(json.dumps(told))
        return
    print(f"{'':<12}{'seconds':^26}{'of the processor':^26}")
    print(f"{'case':<12}{'Rust':>13}{'Python':>13}{'Rust':>13}{'Python':>13}{'ratio':>8}{'recorded':>10}")
    for row in rows:
        times = "".join(f"{row[key]:>13.2f}" for key in ("rust_seconds", "python_seconds", "rust_processor_s", "python_processor_s"))
        print(f"{row['case']:<12}{times}{row['ratio']:>8.3f}{row['recorded_ratio']:>10.3f}")
    print(f"import: {told['import_ms']:.0f} ms; wheel: {'none' if wheel_mb is None else f'{wheel_mb:.1f} MB'}")


if __name__ == "__main__":
    main()
