"""Fleets: what a set of replicas comes to, which sets are simulated, and what is said of the others."""

import json
from dataclasses import replace

import nearhead
import pytest
from bounded_bulk import BoundedBulk
from near_head import NearHead
from nearhead import fleet
from nearhead.policies import Cleaner

import sweep_policies

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

POINTS = nearhead.DurablePoints(4, writes_per_point=8)
WAYS = {
    "at one time": fleet.Checkpoints(period_s=60),
    "coordinated": fleet.Checkpoints(period_s=60, permits=1),
}


def group(**more):
    return fleet.Group(**{"name": "messages", "sets": 5, "disk": "st3146855fc", "workload": POINTS, **more})


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """Three of five sets, for six minutes."""
    out = tmp_path_factory.mktemp("fleet") / "out"
    return out, fleet.plan([group()], WAYS, 1, out=out, sample=3, hours=0.1)


def test_a_fleet_has_a_row_for_each_group_and_way(planned):
    _, plan = planned
    assert plan.drives == 15 and plan.sweep.tasks == 6
    together, apart = plan.rows
    assert [row.way for row in plan.rows] == ["at one time", "coordinated"]
    for row in plan.rows:
        assert (row.sets, row.simulated, row.measured_s) == (5, 3, 360.0)
        assert abs(row.durable - 3 * 4 * 360) < 20 and row.passes > 3 * 3
        for value, low, high in row.percentiles_ms.values():
            assert low <= value <= high <= row.max_ms
    assert apart.quorum_busy_s == 0.0 < together.quorum_busy_s
    assert "15 drives in 5 sets" in plan.text() and json.dumps(plan.to_dict())


def test_the_same_plan_is_there_already_and_a_larger_sample_holds_the_same_sets(planned):
    out, plan = planned
    again = fleet.plan([group()], WAYS, 1, out=out, sample=3, hours=0.1)
    assert again.sweep.ran == 0 and again.to_dict() == plan.to_dict()
    from nearhead.fleet._plan import drawn

    assert set(drawn(group(), 3, 1)) < set(drawn(group(), 4, 1)) < set(drawn(group(), None, 1)) == set(range(5))
    with pytest.raises(nearhead.Error, match="take another folder"):
        fleet.plan([group()], WAYS, 1, out=out, sample=4, hours=0.1)


def test_sets_differ_by_chance_and_a_set_is_the_same_whoever_is_beside_it(planned, tmp_path):
    _, plan = planned
    rows = [row for row in plan.sweep.to_arrow().to_pylist() if row["way"] == "coordinated"]
    assert len({row["digest"] for row in rows}) == 3
    alone = fleet.plan([group()], {"coordinated": WAYS["coordinated"]}, 1, out=tmp_path / "out", sample=1, hours=0.1).sweep.to_arrow().to_pylist()
    assert alone[0]["digest"] == next(row["digest"] for row in rows if row["set"] == alone[0]["set"])


def test_of_all_sets_nothing_is_left_to_chance(tmp_path):
    plan = fleet.plan([group(sets=2)], {"apart": fleet.Checkpoints(period_s=60, spread_s=30)}, 1, out=tmp_path / "out", hours=0.05)
    assert all(low == value == high for value, low, high in plan.rows[0].percentiles_ms.values())


@pytest.mark.parametrize("question, policy, hours", [("placement", NearHead, 0.02), ("admission", BoundedBulk, 0.01)])
def test_a_policy_in_python_that_does_as_the_preset_leaves_a_fleet_as_it_is(question, policy, hours, tmp_path):
    """Where it does: beside a stream that goes to all replicas rotation is not predicted; bulk of a checkpoint, after a minute, is no matter of this admission."""
    beside = [nearhead.Bulk(write=True, span=(0, 1 << 30)), nearhead.DurablePoints(8, span=(1 << 30, None))]
    alike = group(sets=1, disk=nearhead.Disk("st3146855fc", cache="off"), workload=beside)
    with_it = replace(alike, **{question: policy})
    preset, ours = (fleet.plan([one], WAYS, 1, out=tmp_path / str(one is alike), hours=hours, warm_up_s=1) for one in (alike, with_it))
    assert ours.sweep.to_arrow().column("digest") == preset.sweep.to_arrow().column("digest")
    assert ours.to_dict() == preset.to_dict()
    assert ours.sweep.to_arrow().column(question).to_pylist() == [policy.__name__] * 2


def test_a_cleaner_in_python_says_when_a_fleet_makes_checkpoints(tmp_path):
    class Rarely(Cleaner):
        """And each volume asks its own: one that all had would begin a third of them."""

        def __init__(self):
            self.begun_ns = 0

        def home(self, view):
            return "time" if view.now_ns - self.begun_ns >= 20_000_000_000 else None

        def home_wake_ns(self, view):
            return self.begun_ns + 20_000_000_000

        def home_begins(self, view):
            self.begun_ns = view.now_ns

    plan = fleet.plan([group(sets=1, cleaner=Rarely)], WAYS, 1, out=tmp_path / "out", hours=0.05, warm_up_s=1)
    together, apart = plan.rows
    for row in plan.rows:
        assert 3 * 7 <= row.passes <= 3 * 10, row
    assert apart.quorum_busy_s == 0.0 < together.quorum_busy_s


def test_a_policy_of_a_fleet_that_fails_is_told_of(tmp_path):
    with pytest.raises(nearhead.Error, match=r"2 of 2 experiments failed; experiment 0: ZeroDivisionError: .*\(line \d+ of sweep_policies, in place\)"):
        fleet.plan([group(sets=1, placement=sweep_policies.Raises)], WAYS, 1, out=tmp_path / "out", hours=0.02)


def test_a_fleet_is_drawn(planned, tmp_path):
    pytest.importorskip("matplotlib")
    _, plan = planned
    plan.draw(tmp_path / "fleet.svg")
    assert (tmp_path / "fleet.svg").read_text().startswith("<?xml")


def test_fleets_that_cannot_be_meant_are_refused(tmp_path):
    def planned(groups=None, ways=WAYS, **more):
        return lambda: fleet.plan([group()] if groups is None else groups, ways, 1, out=tmp_path / "out", **more)

    for wrong, expected in [
        (lambda: group(sets=0), "found 0"),
        (lambda: group(replicas=1.5), "found 1.5"),
        (lambda: fleet.Checkpoints(), "found none"),
        (lambda: fleet.Checkpoints(period_s=1, window=("02:00", "03:00")), "found both"),
        (lambda: fleet.Checkpoints(window=("2", "3:00")), "found '2'"),
        (lambda: fleet.Checkpoints(window="02:00"), "a pair of times"),
        (lambda: fleet.Checkpoints(period_s=-1), "found -1"),
        (lambda: fleet.Checkpoints(period_s=1, permits=0), "found 0"),
        (planned([]), "at least one group"),
        (planned([group(), group()]), "names that differ"),
        (planned(ways={}), "a mapping from names"),
        (planned(ways={"now": 3}), "a mapping from names"),
        (planned(sample=0), "found 0"),
        (planned(hours=0), "found 0"),
        (planned(seed="x"), "found 'x'"),
        (planned(begins_at="noon"), "found 'noon'"),
        (planned([group(preset="mbl")], sample=1, hours=0.01), "mbl"),
        (planned([group(workload=[])], sample=1, hours=0.01), "expected 1 to 64 workloads"),
        (planned([group(replicas=99)], sample=1, hours=0.01), "found 99"),
    ]:
        with pytest.raises(nearhead.Error) as raised:
            wrong()
        assert expected in str(raised.value), raised.value
        for path in sorted((tmp_path / "out").glob("**/*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
