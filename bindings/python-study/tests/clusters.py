"""Clusters of two worker processes on the loopback, for tests of sweeps."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent
#: Begins a Ray cluster and the scenarios where there is no other address than the loopback's, as Ray listens on all of them. With the last process of that
#: name space all others end.
_RAY = """
set -e
ip link set lo up
"$1" -m ray.scripts.scripts start --head --node-ip-address=127.0.0.1 --port=6379 --include-dashboard=false --include-log-monitor=false --num-cpus=2 \\
    --object-store-memory=80000000 --temp-dir="$2/r" >"$2/cluster.log" 2>&1
"$1" -m ray.util.client.server --mode legacy --host 127.0.0.1 --port 10002 --address 127.0.0.1:6379 >"$2/server.log" 2>&1 &
exec "$1" "$3" ray://127.0.0.1:10002 "$2"
"""


def environment(**more):
    """What worker processes need to find the package, as this process does, and what tests have for them."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *filter(None, sys.path)]), **more}


def free_port():
    """A port that nobody has at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def answers(port, within_s=60):
    """Waits until somebody listens."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.05)
    raise AssertionError(f"nobody listens on port {port} after {within_s} s")


@contextlib.contextmanager
def dask(folder, workers=2):
    """The address of a scheduler of Dask, with workers."""
    port = free_port()
    env = environment(DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0")
    common = {"env": env, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", "--host", "127.0.0.1", "--no-dashboard", "--nthreads", "1"]
    begun = [subprocess.Popen(scheduler, **common)]
    try:
        answers(port)
        begun += [subprocess.Popen([*worker, "--local-directory", str(folder / f"worker-{number}")], **common) for number in range(workers)]
        yield f"dask://127.0.0.1:{port}"
    finally:
        for process in reversed(begun):
            process.terminate()
            process.wait(30)


def why_no_ray():
    """Why there can be no Ray cluster here; nothing if there can."""
    for program in ("unshare", "ip"):
        if shutil.which(program) is None:
            return f"no program {program}, with which Ray is kept to the loopback"
    tried = subprocess.run(["unshare", "-rn", "--pid", "--fork", "--kill-child", "--mount-proc", "ip", "link", "set", "lo", "up"], capture_output=True)
    return f"no name space for Ray's sockets: {tried.stderr.decode().strip()}" if tried.returncode else None


def on_ray(program, folder):
    """Runs a program with the address of a Ray cluster and a folder."""
    isolated = ["unshare", "-rn", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", _RAY, "sh", sys.executable, str(folder), str(program)]
    env = environment(HOME=str(folder), RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled")
    return subprocess.run(isolated, env=env, capture_output=True, text=True, timeout=240)
