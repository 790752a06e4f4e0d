"""Policies in Python on workers: that they arrive as they were meant, that rows belong to their code and values, and what becomes of those that fail."""

import importlib
import json
import os
import pickle
import re
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import nearhead
import pytest
from bounded_bulk import BoundedBulk
from near_head import NearHead
from nearhead.policies import Cleaner, Placement

import clusters
import sweep_policies

pytest.importorskip("pyarrow")
pytest.importorskip("cloudpickle")
from nearhead._policies import is_one  # noqa: E402
from nearhead._sweep import carried, drive, worker  # noqa: E402
from test_sweeps import MIX, InProcess  # noqa: E402


@pytest.fixture
def here(monkeypatch):
    """Sweeps of this test run in its process."""
    monkeypatch.setattr(drive, "engine_of", lambda *_: InProcess())


def grid(**more):
    return {"disk": "st3146855fc", "preset": "mlb", "workload": {"mix": MIX}, **more}


def key(policy, question="placement"):
    """The fingerprint of a policy."""
    return carried.Policies().add(question, policy).key


def written(folder, text, name="ours"):
    """A module of the user's with this text, imported."""
    (folder / f"{name}.py").write_text("from nearhead.policies import Placement, Spot\n" + text)
    sys.path.insert(0, str(folder))
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))


# Rows


def test_policies_are_keys_and_rows_are_those_of_their_experiments(tmp_path, here):
    bounds = {"128 KiB": BoundedBulk(128 << 10), "1 MiB": BoundedBulk(1 << 20)}
    rows = nearhead.sweep(grid(placement=[None, NearHead], admission=bounds), out=tmp_path / "out").to_arrow().to_pylist()
    assert [(row["placement"], row["admission"]) for row in rows] == [(name, bound) for name in (None, "NearHead") for bound in bounds]
    for row, (placement, admission) in zip(rows, [(placement, admission) for placement in (None, NearHead) for admission in bounds.values()]):
        assert row["digest"] == nearhead.Experiment("st3146855fc", "mlb", MIX, placement=placement, admission=admission).run().digest


def test_a_policy_is_called_by_its_name_its_own_words_or_its_class(tmp_path, here):
    class Named(NearHead):
        name = "the nearest"

    cleaners = [None, sweep_policies.Rests(1.0), sweep_policies.Rests]
    rows = nearhead.sweep(grid(placement=Named, cleaner=cleaners), out=tmp_path / "out").to_arrow().to_pylist()
    assert [row["cleaner"] for row in rows] == [None, "Rests(after_s=1.0, whys=['idle'])", "Rests"]
    assert {row["placement"] for row in rows} == {"the nearest"}
    with pytest.raises(nearhead.Error, match="found 'BoundedBulk' twice; give a mapping from names"):
        nearhead.sweep(grid(admission=[BoundedBulk(1 << 20), BoundedBulk]), out=tmp_path / "other")


def test_policies_of_a_function_have_columns_of_their_own(tmp_path, here):
    def experiment(far):
        policies = {"placement": sweep_policies.Nth(far)} if far else {"cleaner": sweep_policies.Rests}
        return nearhead.Experiment("st3146855fc", "mlb", MIX, **policies)

    rows = nearhead.sweep({"far": [0, 1, 2]}, out=tmp_path / "out", experiment=experiment).to_arrow().to_pylist()
    assert [(row["far"], row["placement"], row["cleaner"]) for row in rows] == [(0, None, "Rests"), (1, "Nth", None), (2, "Nth", None)]
    assert [row["digest"] for row in rows] == [experiment(far).run().digest for far in (0, 1, 2)]


def test_a_policy_that_fails_is_a_row_that_says_where_and_others_go_on(tmp_path, here):
    class Ends(Placement):
        def place(self, view, need):
            sys.exit(3)

    class Needs(Placement):
        def __init__(self, more):
            pass

    class Speechless(Placement):
        def place(self, view, need):
            class Never(Exception):
                def __str__(self):
                    raise ValueError

            raise Never

    expected = {
        sweep_policies.Raises: r"ZeroDivisionError: integer division or modulo by zero \(line \d+ of sweep_policies, in place\)",
        Ends: "SystemExit: 3",
        Needs: "TypeError: ",
        Speechless: r"Never: it cannot say why \(line ",
        NearHead: None,
    }
    swept = nearhead.sweep(grid(placement=list(expected), admission=[None, sweep_policies.Wrong]), out=tmp_path / "out", failures="keep")
    rows = swept.to_arrow().to_pylist()
    for (policy, error), row in zip(expected.items(), rows[::2]):
        assert row["status"] == "ok" if error is None else re.match(error, row["error"]), (policy, row["error"])
    assert swept.failed == 9 and "'perhaps'" in rows[-1]["error"]


def test_a_policy_that_had_no_say_is_told_of(tmp_path, here):
    rows = nearhead.sweep(grid(workload={"reads": nearhead.RandomMix(requests_max=9, reads=1.0)}, placement=[None, NearHead]), out=tmp_path / "out")
    told = [json.loads(text) for text in rows.to_arrow().column("result").to_pylist()]
    assert [one.get("unheard") for one in told] == [None, "the placement was never asked"]


def test_what_is_no_policy_is_refused_at_once(tmp_path, here):
    for wrong, expected in [(3, "found int"), (sweep_policies.Rests, "found Rests"), ("NearHead", "found str")]:
        with pytest.raises(nearhead.Error, match=f"experiment 0: placement: expected a class .*{expected}"):
            nearhead.sweep(grid(placement=[wrong]), out=tmp_path / "out")


# Whose rows they are


BEFORE = """
import math
LOOK = 3
def least(number):
    return min(number, LOOK)
class Base(Placement):
    def __init__(self, look=2):
        self.look = look
    def waits(self, view):
        return False
class Ours(Base):
    TABLE = {"a": 1}
    def place(self, view, need):
        '''Says.'''
        log = view.nearest_claimed(need)
        if log is None or least(self.look) < 0 or need.blocks in {500, "x"}:
            return None
        return Spot(log, view.next_place(log, need))
"""


def test_a_comment_changes_nothing_and_all_else_does(tmp_path):
    ours = key(written(tmp_path, BEFORE).Ours)
    assert key(written(tmp_path, "# It is ours.\n\n" + BEFORE.replace("waits(self, view):", "waits(self, view):  # never\n")).Ours) == ours
    for old, new in [
        ("LOOK = 3", "LOOK = 4"),
        ("min(number", "max(number"),
        ("look=2", "look=1"),
        ("return False", "return True"),
        ('{"a": 1}', '{"a": 2}'),
        ("return None", "return self.look"),
        ('"x"}', '"y"}'),
        ("def waits", "def waiting"),
        ("class Ours(Base):", "class Ours(Base):\n    claims_ahead = 2"),
        ("min(", "math.pow("),
    ]:
        assert old in BEFORE and key(written(tmp_path, BEFORE.replace(old, new)).Ours) != ours, new
    changed = written(tmp_path, BEFORE)
    assert key(changed.Ours) == ours != key(changed.Ours()) != key(changed.Ours(5))
    changed.math = changed.least
    assert key(changed.Ours) == ours, "it does not say math"
    changed.Base.waits = lambda self, view: False
    assert key(changed.Ours) != ours


def test_what_an_installed_package_brings_counts_by_its_version_and_what_it_made_by_its_values(tmp_path):
    packages = tmp_path / "site-packages"
    packages.mkdir()
    library = "def made(number):\n    def least(self):\n        return number\n    return least\ndef known(self):\n    return 3\n"

    def keys(version, more=""):
        written(packages, f"__version__ = {version!r}\n" + library + more, "installed")
        classes = "import installed\nclass Knows(Placement):\n    least = installed.known\nclass Made(Placement):\n    least = installed.made(NUMBER)\n"
        ours = [written(tmp_path, classes.replace("NUMBER", number)) for number in ("3", "4")]
        return [key(ours[0].Knows), key(ours[0].Made), key(ours[1].Made)]

    knows, three, four = keys("1.0")
    assert three != four
    assert keys("1.0", "MORE = 1\n") == [knows, three, four]
    assert keys("1.1")[0] != knows
    assert carried.Policies().add("placement", sys.modules["ours"].Knows).packages == (("installed", "1.1"),)
    sys.modules["installed"].__version__ = None
    with pytest.raises(nearhead.Error, match="the package installed, which does not tell its version, at Knows.least"):
        key(sys.modules["ours"].Knows)


def test_a_changed_policy_is_another_grid(tmp_path, here):
    out = tmp_path / "out"
    asked = {"placement": {"ours": written(tmp_path, BEFORE).Ours}}
    assert nearhead.sweep(grid(**asked), out=out).ran == 1
    assert nearhead.sweep(grid(placement={"ours": written(tmp_path, BEFORE + "# More.\n").Ours}), out=out).ran == 0
    for other in (written(tmp_path, BEFORE.replace("LOOK = 3", "LOOK = 4")).Ours, asked["placement"]["ours"](), None):
        with pytest.raises(nearhead.Error, match="expected rows of this grid .* take another folder"):
            nearhead.sweep(grid(placement={"ours": other}), out=out)
    note = json.loads((out / "_sweep.json").read_text())
    (out / "_sweep.json").write_text(json.dumps({**note, "python": "cpython 3.8"}))
    with pytest.raises(nearhead.Error, match="expected rows of this version of Python .*found those of another .python cpython 3.8"):
        nearhead.sweep(grid(**asked), out=out)


def test_a_fingerprint_is_the_same_in_every_process(tmp_path):
    code = (
        "import sweep_policies as ours; from nearhead._sweep.carried import Policies; policies = Policies()\n"
        "for policy in (ours.Nth, ours.Nth(3), ours.Raises): print(policies.add('placement', policy).key)\n"
        "for policy in (ours.Rests, ours.Rests(0.1)): print(policies.add('cleaner', policy).key)"
    )
    said = set()
    for seed in ("1", "2", "77"):
        env = clusters.environment(PYTHONHASHSEED=seed)
        said.add(subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout)
    ours = [key(policy) for policy in (sweep_policies.Nth, sweep_policies.Nth(3), sweep_policies.Raises)]
    ours += [key(policy, "cleaner") for policy in (sweep_policies.Rests, sweep_policies.Rests(0.1))]
    assert said == {"".join(f"{one}\n" for one in ours)} and len(set(ours)) == 5


@pytest.mark.parametrize("policy", [sweep_policies.Nth, sweep_policies.Nth(3), sweep_policies.Rests, sweep_policies.Rests(0.1), NearHead])
def test_a_policy_is_on_a_worker_what_it_was(policy, tmp_path):
    """In a process that has none of its modules."""
    question = "cleaner" if is_one(policy, Cleaner) else "placement"
    (tmp_path / "carried").write_bytes(pickle.dumps(carried.Policies().add(question, policy)))
    code = "import pickle; print(pickle.load(open('carried', 'rb')).unpacked())"
    package = str(Path(nearhead.__file__).parents[1])
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, "PYTHONPATH": package}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_what_cannot_go_to_workers_is_refused(tmp_path, here):
    module = written(tmp_path, "import functools\n@functools.lru_cache\ndef known(): return 1\nclass Asks(Placement):\n    def waits(self, view): return known()\n")

    class Locks(NearHead):
        def __init__(self):
            self.lock = threading.Lock()

    class Reads(NearHead):
        file = open(os.devnull)

    class Imports(NearHead):
        def waits(self, view):
            import sweep_policies

            return sweep_policies.BLOCKS > 1

    deep = []
    for _ in range(3000):
        deep = [deep]
    nested = sweep_policies.Nth()
    nested.seen = deep
    for wrong, expected in [
        (module.Asks, "an object of functools._lru_cache_wrapper at Asks.waits.known"),
        (Locks(), "an object of _thread.lock at lock"),
        (Reads, "an object of _io.TextIOWrapper at Reads.file"),
        (Imports, "import it at the top of the file, so that it goes along, at Imports.waits"),
        (nested, "values that lie too deep in each other"),
    ]:
        with pytest.raises(nearhead.Error) as raised:
            nearhead.sweep(grid(placement={"wrong": wrong}), out=tmp_path / "out")
        assert "experiment 0: " in str(raised.value) and expected in str(raised.value), raised.value
    Reads.file.close()


# On workers


def test_a_policy_arrives_whose_file_no_worker_has(tmp_path):
    module = written(tmp_path, BEFORE, "away")
    (tmp_path / "away.py").unlink()
    (row,) = nearhead.sweep(grid(placement={"ours": module.Ours}), "local:1", out=tmp_path / "out").to_arrow().to_pylist()
    assert row["digest"] == nearhead.Experiment("st3146855fc", "mlb", MIX, placement=module.Ours).run().digest


def test_a_policy_of_a_program_arrives(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import nearhead\nfrom near_head import NearHead\nAWAY = 0\nclass Ours(NearHead):\n"
        "    def place(self, view, need):\n        return super().place(view, need) if AWAY == 0 else None\n"
        "if __name__ == '__main__':\n    mix = nearhead.RandomMix(requests_max=50, outstanding_max=4, fua=True)\n"
        "    grid = {'disk': 'st3146855fc', 'preset': 'mlb', 'workload': {'mix': mix}, 'placement': Ours}\n"
        "    print(nearhead.sweep(grid, 'local:1', out='out').to_arrow().column('digest')[0])\n"
    )
    ran = subprocess.run([sys.executable, program], cwd=tmp_path, env=clusters.environment(), capture_output=True, text=True, timeout=60)
    assert ran.stdout.strip() == nearhead.Experiment("st3146855fc", "mlb", MIX, placement=NearHead).run().digest, ran.stderr


def test_a_policy_that_leaves_something_behind_has_no_row(tmp_path, here):
    class Leaves(NearHead):
        asked = []

        def waits(self, view):
            self.asked.append(1)
            return False

    out = tmp_path / "out"
    swept = nearhead.sweep(grid(placement=[Leaves, NearHead], warm_up_s=[0.0], duration_s=[0.1, 0.2]), out=out, failures="keep")
    assert [row["status"] for row in swept.to_arrow().to_pylist()] == ["failed", "failed", "ok", "ok"]
    assert set(swept.failures.values()) == {swept.failures[0]} and "keep what a policy remembers in the object itself" in swept.failures[0]


def test_a_worker_that_cannot_have_a_policy_ends_the_sweep(tmp_path, monkeypatch):
    needed = {"python": "cpython 2.7"}, {"packages": (("numpy", "0.1"),)}, {"packages": (("nobody_has_it", "1.0"),)}
    expected = "expected Python cpython 2.7 for the placement 'NearHead'", "expected numpy 0.1 for", "expected nobody_has_it 1.0 .* found none"
    for change, refusal in zip(needed, expected):

        class Elsewhere(InProcess):
            def submit(self, number, message, resend=False):
                policies = tuple(replace(one, **change) for one in message["task"].policies)  # noqa: B023
                super().submit(number, {**message, "task": replace(message["task"], policies=policies)})

        monkeypatch.setattr(drive, "engine_of", lambda *_: Elsewhere())  # noqa: B023
        with pytest.raises(nearhead.Error, match=f"worker {worker.name()}: {refusal}"):
            nearhead.sweep(grid(placement=NearHead), out=tmp_path / "out")
