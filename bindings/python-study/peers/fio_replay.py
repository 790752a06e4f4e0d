"""The same trace by fio in real time on an emulated disk, and by Nearhead in virtual time on its model: a check of both, and what real time costs.

fio measures devices, so the disk is served over NBD (`nearhead disk serve`) and takes the time that the real one would; fio replays an I/O log of its own, whose
third form Nearhead reads as it is. Requests come at random times at two fifths of what the disk can do. Must not be run beside other work: a real-time disk that
gets no processor answers late.
"""

import json
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import nearhead

REQUESTS_PER_S = 60
#: Microseconds from the start of the trace until its first request: fio has to open the disk.
FIRST_US = 500_000


def missing(program):
    """What keeps this from running, or nothing."""
    if not shutil.which("fio"):
        return "fio is not installed"
    if subprocess.run(["fio", "--enghelp=nbd"], capture_output=True).returncode != 0:
        return "this fio has no nbd engine"
    if not Path(program).exists():
        return f"no program at {program}; cargo build --release --package nearhead-cli"
    return None


def write_log(path, disk, seconds):
    """An I/O log of fio's third form: 4 KiB requests at random places and times, half of them writes; how many."""
    draw, at_us, lines = random.Random(1), 1, ["fio version 3 iolog", "0 disk add", "0 disk open"]
    requests = max(1, round(REQUESTS_PER_S * seconds))
    for _ in range(requests):
        action = "write" if draw.random() < 0.5 else "read"
        lines.append(f"{at_us} disk {action} {draw.randrange(disk.capacity_bytes // 4096) * 4096} 4096")
        at_us += round(draw.expovariate(REQUESTS_PER_S) * 1e6)
    path.write_text("\n".join([*lines, f"{at_us} disk close"]) + "\n")
    return requests


def by_fio(program, model, log, folder):
    """Response times that fio measured, in ms."""
    socket = folder / "disk.sock"
    with subprocess.Popen([program, "disk", "serve", model, "--socket", socket, "--json"], stdout=subprocess.PIPE, text=True) as disk:
        try:
            if not disk.stdout.readline():
                raise RuntimeError(f"{program} disk serve {model}: expected a line that it is ready, found the end; what it said stands above")
            job = ["fio", "--name=replay", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={socket}", "--iodepth=128", f"--read_iolog={log}"]
            job += [f"--write_lat_log={folder / 'took'}", "--log_offset=1", "--output-format=json", f"--output={folder / 'fio.json'}"]
            ran = subprocess.run(job, capture_output=True, text=True, cwd=folder)
            if ran.returncode != 0:
                raise RuntimeError(f"fio: expected the exit code 0, found {ran.returncode}: {ran.stderr.strip()}")
        finally:
            disk.terminate()
    [told] = json.loads((folder / "fio.json").read_text())["jobs"]
    lines = (folder / "took_lat.1.log").read_text().splitlines()
    return [int(line.split(",")[1]) / 1e6 for line in lines], told


def compare(program, profile, seconds):
    """Figures of both, in ms, and how long each took on the clock."""
    model = f"{profile},cache=off"
    disk = nearhead.Disk(model)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        log = folder / "trace.fio"
        requests = write_log(log, disk, seconds)
        begun = time.perf_counter()
        took, _ = by_fio(program, f"model:{model}", log, folder)
        fio_s = time.perf_counter() - begun
        begun = time.perf_counter()
        result = nearhead.Experiment(disk, None, nearhead.Trace(log)).run()
        nearhead_s = time.perf_counter() - begun
    if len(took) != requests:
        raise RuntimeError(f"fio: expected {requests} latencies in its log, found {len(took)}")
    centiles = statistics.quantiles(took, n=100, method="inclusive")
    latency = result.workloads[0].latency
    return {
        "requests": requests,
        "fio": {"seconds": fio_s, "mean_ms": statistics.fmean(took), "p50_ms": centiles[49], "p99_ms": centiles[98]},
        "nearhead": {"seconds": nearhead_s, "mean_ms": latency.mean_ms, "p50_ms": latency.p50_ms, "p99_ms": latency.p99_ms},
    }


def show(told):
    print(f"{told['requests']} requests of a trace, {REQUESTS_PER_S} a second; response times in ms")
    print(f"  {'':<32}{'mean':>9}{'p50':>9}{'p99':>9}{'took':>12}")
    for name, key in (("fio on the emulated disk", "fio"), ("Nearhead, virtual time", "nearhead")):
        one = told[key]
        print(f"  {name:<32}{one['mean_ms']:>9.3f}{one['p50_ms']:>9.3f}{one['p99_ms']:>9.3f}{one['seconds']:>10.3f} s")
