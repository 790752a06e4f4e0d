"""What scripts share that run real programs on emulated disks: commands whose failure is told, and waiting for a daemon."""

import subprocess
import sys
import time
from pathlib import Path


def name():
    """The script that runs."""
    return Path(sys.argv[0]).name


def run(*command, **more):
    """Runs a command; what it said if it fails."""
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": 600, **more}
    done = subprocess.run([str(word) for word in command], **more)
    if done.returncode != 0:
        raise SystemExit(f"{name()}: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def wait_until(holds, what, daemon):
    """Until `holds()`, as long as the daemon runs, and a minute at most."""
    for _ in range(600):
        if holds():
            return
        if daemon.poll() is not None:
            raise SystemExit(f"{name()}: {what}: the program ended with {daemon.returncode}")
        time.sleep(0.1)
    raise SystemExit(f"{name()}: {what}: not within a minute")


def end(daemon, seconds):
    """Waits until a daemon that was told to end has ended; kills it if it does not."""
    if daemon is None:
        return
    try:
        daemon.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()
