"""What scripts share that run real programs on emulated disks: commands whose failure is told, waiting for a daemon, such a disk as a block device."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

# Any that is always the same.
HASH_SEED = "6e656172-6865-6164-6e65-617268656164"


def name():
    """The script that runs."""
    return Path(sys.argv[0]).name


def take_down_on_signals():
    """From here on a signal ends the script as an error does, so that what it made is taken down; and only the first one."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def interrupted(*_):
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise SystemExit(f"{name()}: interrupted; everything was taken down")

    for number in numbers:
        signal.signal(number, interrupted)


def run(*command, **more):
    """Runs a command; what it said if it fails."""
    more = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": 600, **more}
    done = subprocess.run([str(word) for word in command], **more)
    if done.returncode != 0:
        raise SystemExit(f"{name()}: {' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def report_of(*command):
    """What a command reports as JSON; what it notes beside it is dropped."""
    return json.loads(run(*command, "--json", stderr=subprocess.DEVNULL))


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


def ext4_on(device, folder, *size):
    """Makes the kernel's ext4 on a device and mounts it."""
    # Nothing is zeroed beforehand or in the background: that would take an hour of such a disk. And the kernel has a folder in the root
    # begin in a group that follows from its name, the number of groups and this seed: left to chance, what is compared would lie in different zones.
    more = f"nodiscard,lazy_itable_init=1,lazy_journal_init=1,hash_seed={HASH_SEED}"
    run("mkfs.ext4", "-q", "-F", "-b", "4096", "-E", more, device, *size)
    run("mount", "-o", "noinit_itable", device, folder)


class LoopDisk:
    """An emulated disk as a block device of the kernel's: one file by FUSE, and a loop device on it."""

    def __init__(self, program, model, place, *flags, nice=0):
        self.command = ["nice", "-n", str(nice), program, "disk", "serve", model, *flags]
        self.folder = os.path.join(place, "served")
        self.daemon = self.device = None

    def begin(self):
        os.makedirs(self.folder, exist_ok=True)
        # In a session of its own: Ctrl-C is for the script, which takes everything down in order.
        self.daemon = subprocess.Popen([*self.command, "--file", self.folder], start_new_session=True, stdout=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists(f"{self.folder}/disk"), "disk serve", self.daemon)
        self.device = run("losetup", "--direct-io=on", "--show", "-f", f"{self.folder}/disk").strip()

    def end(self):
        if self.device:
            subprocess.run(["losetup", "-d", self.device], timeout=60)
        if self.daemon:
            subprocess.run(["umount", self.folder], stderr=subprocess.DEVNULL, timeout=60)
        end(self.daemon, 60)
        self.daemon = self.device = None
