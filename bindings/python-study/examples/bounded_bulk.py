"""An admission: bulk has so many bytes on the disk at most, and nothing of it leaves beside a durable write.

    python examples/bounded_bulk.py
"""

import nearhead
from nearhead.policies import Admission


class BoundedBulk(Admission):
    def __init__(self, bulk_bytes_max=256 << 10, waited_ms_max=50):
        self.bulk_bytes_max, self.waited_ns_max = bulk_bytes_max, waited_ms_max * 1_000_000

    def admits(self, command, outstanding):
        if command.priority in ("durable", "foreground") or outstanding.commands() == 0:
            return True
        in_flight = outstanding.len_bytes("bulk") + outstanding.len_bytes("background")
        fits = in_flight == 0 or in_flight + command.len_bytes <= self.bulk_bytes_max
        gives_way = outstanding.record_waits or outstanding.commands("durable") > 0
        return fits and (not gives_way or command.waited_ns >= self.waited_ns_max)


def main():
    disk = nearhead.Disk("st3146855fc", cache="off")
    backup = nearhead.Bulk(span=(0, 1 << 30), outstanding_max=8)
    commits = nearhead.DurablePoints(8, span=(1 << 30, None))
    for bulk_kib in (128, 256, 1024, 8192):
        admission = BoundedBulk(bulk_kib << 10)
        result = nearhead.Experiment(disk, "mlb", [backup, commits], warm_up_s=2, duration_s=10, admission=admission).run()
        read, durable = result.workloads
        print(f"{bulk_kib:>5} KiB: {read.bytes_per_s / 1e6:6.1f} MB/s {durable.latency.mean_ms:8.2f} ms")


if __name__ == "__main__":
    main()
