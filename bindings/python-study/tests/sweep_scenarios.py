"""What must hold of sweeps whoever works: run by tests with processes of this machine, with Dask and with Ray, and told as JSON.

    python sweep_scenarios.py WORKERS FOLDER        writes FOLDER/told.json
"""

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import clusters
import nearhead
import sweep_policies
from nearhead._sweep import drive, parcels, worker

#: What a grid's experiments come to, by their number.
PRESETS = (None, "singlelog", "mlb")


def trace():
    """A trace in memory."""
    return nearhead.Trace.from_requests(
        nearhead.Request(at_s=place * 0.01, offset_bytes=place * 7919 % 1000 * (1 << 20), len_bytes=4096, write=place % 3 > 0) for place in range(300)
    )


def grid(folder):
    """Traces in memory and in a file, and random requests, on three presets."""
    file = Path(folder) / "web_0.csv"
    file.write_text("128166372003061629,web,0,Read,1048576,8192,100\n128166372013061629,web,0,Write,4096,4096,200\n" * 50)
    mix = nearhead.RandomMix(requests_max=300, outstanding_max=4, fua=True, seed=3)
    loads = {"memory": trace(), "file": nearhead.Trace(file), "mix": mix, "both": [trace(), mix]}
    return {"disk": "st3146855fc", "preset": list(PRESETS), "workload": loads, "seed": [3]}


def experiment(disk, preset, workload, seed):
    """A maker with a key of its own."""
    return nearhead.Experiment(disk, preset, workload, ack="durable")


@dataclass(frozen=True)
class Dies:
    """A task that ends its worker, so many times."""

    marks: str
    times: int
    parcels: tuple = ()

    def words(self):
        return f"dies {self.times}"

    def run(self, traces):
        marks = list(Path(self.marks).iterdir())
        if len(marks) < self.times:
            (Path(self.marks) / str(len(marks))).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"deaths": len(marks)}


@dataclass(frozen=True)
class Lives:
    """A task beside it."""

    parcels: tuple = ()

    def words(self):
        return "lives"

    def run(self, traces):
        return {"deaths": 0}


def deaths(workers, folder):
    """Rows of a sweep in which a task ends its worker once, another always, and others do not."""
    tasks = []
    for times in (1, 100):
        marks = Path(folder) / f"marks-{times}"
        marks.mkdir()
        tasks.append(Dies(str(marks), times))
    tasks += [Lives()] * 6
    columns = {"digest": "text", "deaths": "int"}
    points = [{"place": place} for place in range(len(tasks))]
    ended = drive.run(tasks, points, columns, parcels.Parcels(), workers, Path(folder) / "deaths", failures="keep")
    return [{key: row[key] for key in ("status", "error", "deaths")} for row in ended.to_arrow().to_pylist()]


def policies(workers, folder):
    """Rows of a sweep with policies in Python, which workers do not have."""
    mix = nearhead.RandomMix(requests_max=300, outstanding_max=4, fua=True, seed=3)
    placements = {"the preset's": None, "near": sweep_policies.NearHead, "third": sweep_policies.Nth(2), "raises": sweep_policies.Raises}
    grid = {
        "disk": "st3146855fc",
        "preset": "mlb",
        "workload": mix,
        "placement": placements,
        "admission": [None, sweep_policies.Wrong],
        "cleaner": sweep_policies.Rests(0.001),
    }
    ended = nearhead.sweep(grid, workers, out=Path(folder) / "policies", failures="keep")
    return [{key: row[key] for key in ("placement", "admission", "cleaner", "status", "error", "digest")} for row in ended.to_arrow().to_pylist()]


def refusal(workers, folder):
    """What is said of a worker with another version."""
    ours = worker.identity
    worker.identity = lambda: ("0.0.9", "0" * 16)
    try:
        nearhead.sweep(grid(folder), workers, out=Path(folder) / "refused", experiment=experiment)
    except nearhead.Error as error:
        return str(error)
    finally:
        worker.identity = ours
    return None


def run(workers, folder):
    """All of it."""
    swept = nearhead.sweep(grid(folder), workers, out=Path(folder) / "swept", experiment=experiment)
    rows = swept.to_arrow().to_pylist()
    return {
        "digests": [row["digest"] for row in rows],
        "results": [row["result"] for row in rows],
        "workers": len({row["worker"] for row in rows}),
        "traces_sent": swept.traces_sent,
        "deaths": deaths(workers, folder),
        "policies": policies(workers, folder),
        "refusal": refusal(workers, folder),
    }


if __name__ == "__main__":
    clusters.answers(int(sys.argv[1].rpartition(":")[2]))
    (Path(sys.argv[2]) / "told.json").write_text(json.dumps(run(sys.argv[1], sys.argv[2])))
