"""Fleets: many sets of replicated volumes, over a day, with checkpoints that are coordinated or not.

    import nearhead
    from nearhead import fleet

    sets = fleet.Group("messages", sets=3334, disk="constellation-es3-1tb", workload=nearhead.DurablePoints(1, writes_per_point=4))
    ways = {"at one time": fleet.Checkpoints(window=("02:00", "05:00")), "coordinated": fleet.Checkpoints(window=("02:00", "05:00"), permits=1)}
    plan = fleet.plan([sets], ways, out="fleet", sample=100)
    print(plan.text())

A set is simulated as it is: volumes with the engine itself on modelled disks, each request sent to all of them and answered when a quorum has made it
durable, checkpoints made by the engine and permits given to it. No formula stands for a checkpoint. What may be sampled is which sets of a fleet are
simulated: `plan` says how many there are and how many were, and how far a percentile may be off for that.
"""

from ._describe import Checkpoints, Group
from ._plan import Plan, plan

__all__ = ["Checkpoints", "Group", "Plan", "plan"]
