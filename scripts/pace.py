"""Whether the machine kept the times of its emulated disks while something was measured on them.

An emulated disk answers when its model says, if a processor is there for it at that moment. Whoever measures in real time says so beside the numbers if
it was not. Three signs, with the bounds of `make demo` (docs/performance.md, "Is the machine busy?"): a program that sleeps beside the measurement wakes
as late as the disk does; processor time that a hypervisor took; and a stream of the bare disk, against what its model gives in virtual time.
"""

import mmap
import os
import statistics
import subprocess
import sys
import time

from emulated import report_of

SLEEP_S = 0.002
SLEEP_LATE_US_MAX = 1000
STEAL_PCT_MAX = 2
OF_MODEL_MIN = 0.97
PIECE_BYTES = 4 << 20
PIECES = 16
STREAMS = 5

SLEEPER = f"""
import select, sys, time
late = []
while not select.select([sys.stdin], [], [], 0)[0]:
    began = time.monotonic()
    time.sleep({SLEEP_S})
    late.append(time.monotonic() - began - {SLEEP_S})
late.sort()
print(late[len(late) * 99 // 100] * 1e6 if late else 0)
"""


class Watch:
    """Looks at the machine as long as it is entered; then `late_us` and `steal_pct` say what was."""

    def __enter__(self):
        self.before = ticks()
        self.sleeper = subprocess.Popen([sys.executable, "-S", "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        return self

    def __exit__(self, *_):
        said, _ = self.sleeper.communicate("end\n", timeout=60)
        (steal_before, all_before), (steal, all_ticks) = self.before, ticks()
        self.late_us = float(said or 0)
        self.steal_pct = 100 * (steal - steal_before) / max(1, all_ticks - all_before)

    def reasons(self):
        reasons = []
        if self.late_us > SLEEP_LATE_US_MAX:
            reasons.append(f"one sleep in a hundred ended {self.late_us:.0f} us late or later (quiet: at most {SLEEP_LATE_US_MAX})")
        if self.steal_pct > STEAL_PCT_MAX:
            reasons.append(f"the hypervisor took {self.steal_pct:.1f} % of the processor time (quiet: at most {STEAL_PCT_MAX} %)")
        return reasons


def ticks():
    """Of all processors since the machine started: stolen, and all (proc_stat(5))."""
    with open("/proc/stat") as stat:
        counts = [int(word) for word in stat.readline().split()[1:9]]
    return counts[7], sum(counts)


def stream_mb_per_s(device):
    """What the first bytes of a block device are read with, one piece after the other, past the page cache: the median of some streams."""
    piece = mmap.mmap(-1, PIECE_BYTES)
    descriptor = os.open(device, os.O_RDONLY | os.O_DIRECT)
    rates = []
    try:
        for _ in range(STREAMS):
            began = time.monotonic()
            for number in range(PIECES):
                os.preadv(descriptor, [piece], number * PIECE_BYTES)
            rates.append(PIECES * PIECE_BYTES / 1e6 / (time.monotonic() - began))
    finally:
        os.close(descriptor)
    return statistics.median(rates)


def stream_in_virtual_time(program, disk, place):
    """The same of the disk's model in virtual time, which no other program can change."""
    trace = os.path.join(place, "stream.trace")
    with open(trace, "w") as file:
        # The form of measured traces of one request at a time; what was measured, 1 us, is not looked at.
        file.writelines(f"R Miss {number * PIECE_BYTES // 512} {PIECE_BYTES // 512} 1 0\n" for number in range(PIECES))
    lines = report_of(program, "disk", "validate", disk, trace)["lines"]
    return PIECE_BYTES / 1e3 / next(line["modelled_ms_mean"] for line in lines if line["chosen"] == "reads")
