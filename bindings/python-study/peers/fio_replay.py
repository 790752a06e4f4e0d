"""The same trace by fio in real time on an emulated disk, and by Nearhead in virtual time on its model: a check of both, and what real time costs.

fio measures devices, so the disk is served over NBD (`nearhead disk serve`) and takes the time that the real one would; fio replays an I/O log of its own, whose
third form Nearhead reads as it is. Both take the next request as soon as one of four is answered: at the times of a trace fio 3.33 looks for answers of an
asynchronous engine only when a request is due, and counts the wait. Must not be run beside other work: a real-time disk that gets no processor answers late.
"""

import json
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import nearhead

OUTSTANDING = 4


def missing(program):
    """What keeps this from running, or nothing."""
    if not shutil.which("fio"):
        return "fio is not installed"
    if subprocess.run(["fio", "--enghelp=nbd"], capture_output=True).returncode != 0:
        return "this fio has no nbd engine"
    if not Path(program).exists():
        return f"no program at {program}; cargo build --release --package nearhead-cli"
    return None


def write_log(path, disk, requests):
    """An I/O log of fio's third form: 4 KiB requests at random places, half of them writes."""
    draw, lines = random.Random(1), ["fio version 3 iolog", "0 disk add", "0 disk open"]
    for place in range(1, requests + 1):
        action = "write" if draw.random() < 0.5 else "read"
        lines.append(f"{place} disk {action} {draw.randrange(disk.capacity_bytes // 4096) * 4096} 4096")
    path.write_text("\n".join([*lines, f"{requests} disk close"]) + "\n")


def by_fio(program, model, log, folder):
    """How many requests fio replayed, their mean response time in ms, and how long it took."""
    socket, report = folder / "disk.sock", folder / "fio.json"
    with subprocess.Popen([program, "disk", "serve", model, "--socket", socket, "--json"], stdout=subprocess.PIPE, text=True) as disk:
        try:
            if not disk.stdout.readline():
                raise RuntimeError(f"{program} disk serve {model}: expected a line that it is ready, found the end; what it said stands above")
            job = ["fio", "--name=replay", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={socket}", f"--iodepth={OUTSTANDING}", "--replay_no_stall=1"]
            job += [f"--read_iolog={log}", "--output-format=json", f"--output={report}"]
            begun = time.perf_counter()
            ran = subprocess.run(job, capture_output=True, text=True, cwd=folder)
            seconds = time.perf_counter() - begun
            if ran.returncode != 0:
                raise RuntimeError(f"fio: expected the exit code 0, found {ran.returncode}: {ran.stderr.strip()}")
        finally:
            disk.terminate()
    [told] = json.loads(report.read_text())["jobs"]
    requests = sum(told[way]["total_ios"] for way in ("read", "write"))
    return requests, sum(told[way]["total_ios"] * told[way]["lat_ns"]["mean"] for way in ("read", "write")) / requests / 1e6, seconds


def compare(program, profile, requests):
    """Mean response times of both, in ms, and how long each took on the clock."""
    model = f"{profile},cache=off"
    disk = nearhead.Disk(model)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "trace.fio"
        write_log(log, disk, requests)
        replayed, fio_ms, fio_s = by_fio(program, f"model:{model}", log, Path(folder))
        begun = time.perf_counter()
        result = nearhead.Experiment(disk, None, nearhead.Trace(log, tempo="bursts", outstanding_max=OUTSTANDING)).run()
        nearhead_s = time.perf_counter() - begun
    if replayed != requests:
        raise RuntimeError(f"fio: expected {requests} requests replayed, found {replayed}")
    ours_ms = result.workloads[0].latency.mean_ms
    return {"requests": requests, "fio": {"seconds": fio_s, "mean_ms": fio_ms}, "nearhead": {"seconds": nearhead_s, "mean_ms": ours_ms}}


def show(told):
    print(f"{told['requests']} requests of an I/O log, {OUTSTANDING} at once")
    for name, key in (("fio on the emulated disk", "fio"), ("Nearhead, virtual time", "nearhead")):
        print(f"  {name:<26}{told[key]['mean_ms']:>10.3f} ms{told[key]['seconds']:>12.3f} s on the clock")
