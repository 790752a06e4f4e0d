"""The two sides of `make demo-postgres`: an emulated disk with the kernel's ext4 on it, an archive and a database in that; plain, and with a volume between.

What is the same on both: size and options of the file system, read-ahead, scheduler, where archive and database lie, the nice value of whoever has the
disk. What was made is taken down in order by `Side.end`, also where only part of it came up.
"""

import contextlib
import os
import statistics
import subprocess
import sys
import time

from backup import Backup, make_archive
from emulated import LoopDisk, ext4_on, report_of, run
from postgresql import Server

PLAIN, NEARHEAD = "plain ext4", "Nearhead"
READ_AHEAD_SECTORS = 8192
# The kernel's usual one for loop devices.
SCHEDULER = "none"
# Of the file system, between the archive and the database.
REST_SHARE = 0.4


def told(*command):
    """Runs a command that a reader would type, and shows it."""
    print("$", *command, file=sys.stderr, flush=True)
    return run(*command)


def schedulers(device):
    return f"/sys/block/{os.path.basename(os.path.realpath(device))}/queue/scheduler"


def choose_scheduler(device, name):
    with open(schedulers(device), "w") as file:
        file.write(name)


class Plain:
    """The disk itself."""

    name = PLAIN

    def __init__(self, program, model, place):
        # As a daemon of volumes takes it by itself.
        self.disk = LoopDisk(program, model, place, nice=-10)

    def make(self):
        pass

    def up(self):
        self.disk.begin()

    def down(self):
        self.disk.end()

    def device(self):
        return self.disk.device

    def settle(self):
        pass

    def has_bfq(self):
        with open(schedulers(self.device())) as file:
            return "bfq" in file.read()

    @contextlib.contextmanager
    def with_bfq(self):
        choose_scheduler(self.device(), "bfq")
        yield
        choose_scheduler(self.device(), SCHEDULER)


class Nearhead:
    """An attached volume on such a disk."""

    name = NEARHEAD

    def __init__(self, program, model, place):
        self.program, self.model, self.as_name = program, model, f"demo-{os.getpid()}"
        self.is_up = False

    def make(self):
        told(self.program, "create", self.model)
        told(self.program, "calibrate", self.model, "--store")

    def up(self):
        # Also what is interrupted half-way up has to come down.
        self.is_up = True
        told(self.program, "attach", self.model, "--as", self.as_name)

    def down(self):
        if not self.is_up:
            return
        self.is_up = False
        done = subprocess.run([self.program, "detach", self.as_name, "--unmount"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=300)
        if done.returncode != 0:
            print(done.stderr.decode(), end="", file=sys.stderr)
            subprocess.run([self.program, "detach", self.as_name, "--force"], timeout=120)

    def device(self):
        return f"/dev/nearhead/{self.as_name}"

    def settle(self):
        # In a pause of half a minute it does so by itself.
        run(self.program, "checkpoint", self.model)

    @contextlib.contextmanager
    def with_share(self, percent):
        run(self.program, "set", self.model, f"bulk_share={percent}")
        yield
        run(self.program, "set", self.model, "bulk_share=0")

    def worker(self):
        return report_of(self.program, "status", self.model)["served"]["pid"]


class Side:
    """A disk, the file system on it, an archive and a database in that."""

    def __init__(self, disk, place, port):
        self.disk, self.name = disk, disk.name
        self.folder = os.path.join(place, "folder")
        self.server = Server(port, os.path.join(self.folder, "data"))
        self.archive, self.answered = [], 0

    def make(self):
        print(f"-- {self.name}: the device", file=sys.stderr)
        os.makedirs(self.folder)
        self.disk.make()
        self.disk.up()
        return int(run("blockdev", "--getsize64", self.disk.device()))

    def fill(self, size_bytes, args):
        print(f"-- {self.name}: file system, archive, database", file=sys.stderr)
        ext4_on(self.disk.device(), self.folder, f"{size_bytes >> 10}k")
        self.set_up_device()
        os.chmod(self.folder, 0o755)
        self.archive = make_archive(self.folder, args.archive_bytes, int(size_bytes * REST_SHARE))
        self.server.begin(args.scale)
        self.server.lay_out_log(args.segments)
        self.settle()

    def set_up_device(self):
        run("blockdev", "--setra", READ_AHEAD_SECTORS, self.disk.device())
        # A loop device keeps what somebody chose for it before.
        choose_scheduler(self.disk.device(), SCHEDULER)

    def settle(self):
        """Nothing that was done before is left to be written: by the database, the file system, the volume."""
        self.server.query("checkpoint")
        run("sync", "--file-system", self.folder)
        self.disk.settle()

    def take_down_and_up(self):
        self.server.end("immediate")
        run("umount", self.folder)
        self.disk.down()
        self.disk.up()
        run("mount", "-o", "noinit_itable", self.disk.device(), self.folder)
        self.server.start()

    def end(self):
        # Each step is for whatever came up; what did not come up has nothing to take down.
        with contextlib.ExitStack() as steps:
            steps.callback(self.disk.down)
            steps.callback(lambda: subprocess.run(["umount", self.folder], stderr=subprocess.DEVNULL, timeout=300))
            steps.callback(self.server.end, "immediate")

    def commits(self, clients, seconds, rate=None):
        began = time.monotonic()
        times = self.server.pgbench(clients, seconds, rate)
        took_s = time.monotonic() - began
        self.answered += len(times)
        return {
            "commits/s": len(times) / took_s,
            "a commit, ms": statistics.fmean(times),
            "a commit, p99 ms": times[len(times) * 99 // 100],
        }

    def backup(self, seconds):
        with Backup(self.archive) as backup:
            before = backup.moment()
            time.sleep(seconds)
            return {"backup, MB/s": backup.since(before)}

    def both(self, clients, seconds, rate=None, before=()):
        self.settle()
        with Backup(self.archive, before) as backup:
            began = backup.moment()
            found = self.commits(clients, seconds, rate)
            return {**found, "backup, MB/s": backup.since(began)}
