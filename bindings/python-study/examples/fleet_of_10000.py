"""10,000 drives over a day: what checkpoints do to quorums when all begin at one time, each by itself, or one after the other.

    python fleet_of_10000.py --out fleet --sample 100                       # 100 of the 3,334 sets, on this machine's processors
    python fleet_of_10000.py --out fleet --workers dask://HOST:PORT         # all of them

Every set is three volumes on 1 TB drives, and commits four scattered 4 KiB writes once a second; blocks go home at night. It prints a table, and leaves in
the folder the data set `rows`, `fleet.json` and `fleet.png`. A plan that was stopped goes on when it is called again.
"""

import argparse
import json
from pathlib import Path

import nearhead
from nearhead import fleet

NIGHT = ("02:00", "05:00")
WAYS = {
    "all at 02:00": fleet.Checkpoints(window=NIGHT),
    "each within an hour, by itself": fleet.Checkpoints(window=NIGHT, spread_s=3600),
    "coordinated, one at a time": fleet.Checkpoints(window=NIGHT, permits=1),
}


def main():
    parser = argparse.ArgumentParser(description="10,000 drives over a day, with checkpoints coordinated and not")
    parser.add_argument("--out", type=Path, default=Path("fleet"), help="folder of the data set, the table and the drawing")
    parser.add_argument("--workers", default="local", help='"local", "local:COUNT", "dask://HOST:PORT" or "ray://HOST:PORT"')
    parser.add_argument("--sets", type=int, default=3334, help="sets of three drives")
    parser.add_argument("--sample", type=int, help="how many of them are simulated; all without it")
    parser.add_argument("--hours", type=float, default=24, help="virtual time, from noon on")
    asked = parser.parse_args()
    commits = nearhead.DurablePoints(1, writes_per_point=4)
    group = fleet.Group("1 TB, 7,200 rpm", sets=asked.sets, disk="constellation-es3-1tb", workload=commits)
    plan = fleet.plan([group], WAYS, asked.workers, out=asked.out / "rows", sample=asked.sample, hours=asked.hours, begins_at="12:00")
    print(plan.sweep.summary())
    print(plan.text())
    (asked.out / "fleet.json").write_text(json.dumps(plan.to_dict(), indent=1) + "\n")
    plan.draw(asked.out / "fleet.png")


if __name__ == "__main__":
    main()
