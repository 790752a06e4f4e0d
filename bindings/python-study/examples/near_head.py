"""A placement in 30 lines: Manylogs' rule, a record goes to the log nearest the head.

    python examples/near_head.py

A log may be written only once a recovery is certain to read it. So where the nearest log with room is not claimed yet, the record goes to the nearest one
that is, and claims the other for the next record.
"""

import nearhead
from nearhead.policies import Placement, Spot


class NearHead(Placement):
    def place(self, view, need):
        wanted = None
        for log in view.logs_near(view.head_offset_bytes):
            block = view.next_place(log, need)
            if block is None:
                continue
            if wanted is None:
                wanted = log
            if view.is_claimed(log):
                return Spot(log, block, wanted)
        log = view.nearest_claimed(need)
        if log is None:
            return None
        return Spot(log, view.next_place(log, need), log if wanted is None else wanted)


def main():
    disk = nearhead.Disk("st3146855fc", cache="off")
    backup = nearhead.Bulk(span=(0, 1 << 30))
    commits = nearhead.DurablePoints(8, span=(1 << 30, None))
    for preset, placement in [(None, None), ("singlelog", None), ("mlb", None), ("mlb", NearHead)]:
        result = nearhead.Experiment(disk, preset, [backup, commits], warm_up_s=2, duration_s=10, placement=placement).run()
        read, durable = result.workloads
        name = placement.__name__ if placement else preset
        print(f"{name!s:<10} {read.bytes_per_s / 1e6:6.1f} MB/s {durable.latency.mean_ms:8.2f} ms {result.digest}")
    print(nearhead.policies.conformance(NearHead, "mlb", seeds=range(5), every_cut=None))


if __name__ == "__main__":
    main()
