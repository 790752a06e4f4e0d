"""Policies in Python: that they are as good as those in Rust, whom they belong to, and what they are shown."""

import ast
import copy
import operator
import pickle
import random
import subprocess
import sys
import threading
from pathlib import Path

import nearhead
import pytest
from at_rest import AtRest
from bounded_bulk import BoundedBulk
from near_head import NearHead
from nearhead import policies
from nearhead.policies import Cleaner, Move, Need, Placement, Spot

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
BESIDE = [nearhead.Bulk(span=(0, 1 << 30)), nearhead.DurablePoints(8, span=(1 << 30, None))]


def beside(disk, **policy):
    return nearhead.Experiment(disk, "mlb", BESIDE, warm_up_s=1, duration_s=4, **policy).run()


# As good as Rust


def test_a_placement_in_python_that_does_as_mlb_has_the_digest_of_mlb(disk):
    preset, ours = beside(disk), beside(disk, placement=NearHead)
    assert ours.counters["records"] > 30
    assert ours.digest == preset.digest


def test_where_the_preset_knows_rotation_as_well_it_is_a_few_percent_better_at_most(disk, mix):
    preset, ours = (nearhead.Experiment(disk, "mlb", mix, placement=placement).run() for placement in (None, NearHead))
    assert ours.digest != preset.digest
    assert ours.workloads[0].latency.mean_ms < 1.05 * preset.workloads[0].latency.mean_ms


def test_an_admission_in_python_that_does_as_the_preset_has_its_digest(disk):
    assert beside(disk, admission=BoundedBulk).digest == beside(disk).digest
    assert beside(disk, admission=BoundedBulk(128 << 10)).digest != beside(disk).digest


def test_a_cleaner_in_python_empties_logs_when_nobody_is_there(disk):
    late = [nearhead.Request(at_s=start + place * 0.02, offset_bytes=place << 20, len_bytes=4096) for start in (0, 20) for place in range(50)]
    trace = nearhead.Trace.from_requests(late)
    went = {}
    for after_s in (1, 100):
        result = nearhead.Experiment(disk, "mlb", trace, cleaner=AtRest(after_s)).run()
        went[after_s] = result.counters["checkpointed_bytes"]
    assert went == {1: 50 * 4096, 100: 0}


def test_a_cleaner_moves_the_content_of_a_log(disk):
    class Moving(Cleaner):
        moved = None

        def relocate(self, view):
            log = view.last_log
            if self.moved or view.fill_pct(log) < 2 or not view.is_needed(log):
                return None
            self.moved = Move(log, view.log_count - 1)
            assert log in view.logs_touched() and view.is_touched(log) and not view.rests(log) and not view.is_full(log)
            return self.moved

    result = nearhead.Experiment(disk, "mlb", BESIDE[1], duration_s=10, cleaner=Moving).run()
    assert result.policies["cleaner"].moved.to_log > 1000
    assert result.counters["swaps"] == 1


# Who is asked, and what it is shown


def test_each_run_has_an_object_of_its_own(disk, mix):
    class Counting(NearHead):
        def __init__(self):
            self.asked = 0

        def place(self, view, need):
            self.asked += 1
            return super().place(view, need)

    given = Counting()
    runs = [nearhead.Experiment(disk, "mlb", mix, placement=placement).run() for placement in (Counting, given, given)]
    counts = [run.policies["placement"].asked for run in runs]
    assert counts[0] >= runs[0].counters["records"] > 50
    assert counts == [counts[0]] * 3 and given.asked == 0
    assert len({run.digest for run in runs}) == 1


def test_what_a_policy_keeps_is_copied_with_it():
    for kept in (Spot(1, 2, 3), Need(4, 5), Move(6, 7)):
        assert copy.deepcopy(kept) == kept == pickle.loads(pickle.dumps(kept)) and repr(kept) == repr(copy.copy(kept))


def test_chance_from_a_seed_can_be_repeated(disk, mix):
    class Anywhere(Placement):
        def __init__(self, seed):
            self.random = random.Random(seed)

        def place(self, view, need):
            log = view.nearest_claimed(need, self.random.randrange(1 << 36))
            wanted = self.random.randrange(view.log_count)
            return None if log is None else Spot(log, view.next_place(log, need), wanted)

    run = [nearhead.Experiment(disk, "mlb", mix, placement=Anywhere(seed)).run().digest for seed in (1, 1, 2)]
    assert run[0] == run[1] != run[2]


def test_a_placement_is_shown_what_a_host_can_know(disk, mix):
    class Looking(NearHead):
        def __init__(self):
            self.left, self.done, self.waited, self.predicted = [], [], 0, 0

        def place(self, view, need):
            assert need.blocks > 0 and need.reserve_blocks >= 0
            assert view.log_count > 1000 and view.block_bytes == 512 and view.log_blocks > 1000
            assert not view.takes_records_anywhere and view.commands_on_disk >= 0 and isinstance(view.is_idle, bool)
            spot = super().place(view, need)
            assert view.accepts(spot.log, spot.block, need) and view.has_room(spot.log, need)
            assert view.place_from(spot.log, spot.block, need) == spot.block
            assert 0 <= view.fill_pct(spot.log) <= 100 and not view.is_full(spot.log)
            assert 0 < view.block_offset_bytes(spot.log, spot.block) < disk.capacity_bytes
            assert view.block_offset_bytes(view.log_count, 0) is None
            assert len(view.logs_near(0, 5)) == 5 and view.logs_near(0, 1) == [0]
            assert view.begins_in_ns(spot.log, spot.block) is None, "nobody found out where tracks are"
            return spot

        def waits(self, view):
            self.waited += 1
            return False

        def record_leaves(self, view, spot):
            self.left.append((view.now_ns, spot))

        def completed(self, view, command):
            if command.record_end:
                assert command.is_ok and command.len_bytes > 0 and 0 < command.took_ns <= view.now_ns
                assert command.has_moved and command.offset_bytes < disk.capacity_bytes
                self.done.append(command.record_end)

    result = nearhead.Experiment(disk, "mlb", mix, placement=Looking).run()
    saw = result.policies["placement"]
    assert len(saw.left) == len(saw.done) == result.counters["records"] and saw.waited > 0
    assert [spot.log for _, spot in saw.left] == [log for log, _ in saw.done]
    assert sorted(at for at, _ in saw.left) == [at for at, _ in saw.left]


def test_where_tracks_are_known_a_placement_is_told_when_a_record_would_begin(disk):
    class Soonest(Placement):
        known = 0

        def place(self, view, need):
            usable = [log for log in view.logs_near(count=8) if view.is_claimed(log) and view.has_room(log, need)]
            begins = [(view.begins_in_ns(log, view.next_place(log, need)), log) for log in usable]
            known = [begin for begin in begins if begin[0] is not None]
            self.known += bool(known)
            log = min(known)[1] if known else view.nearest_claimed(need)
            return None if log is None else Spot(log, view.next_place(log, need))

    result = nearhead.Experiment(disk, "nearhead", nearhead.RandomMix(requests_max=300, reads=0, fua=True), placement=Soonest).run()
    assert result.policies["placement"].known > 100


def test_an_admission_is_shown_who_waits_and_what_is_on_the_disk(disk):
    class Looking(BoundedBulk):
        def __init__(self):
            super().__init__()
            self.seen, self.sizes = set(), set()

        def admits(self, command, outstanding):
            self.seen.add(command.priority)
            if command.priority == "bulk":
                self.sizes.add(command.len_bytes)
            parts = [outstanding.commands(priority) for priority in ("durable", "foreground", "bulk", "background")]
            assert sum(parts) == outstanding.commands() and outstanding.len_bytes() >= outstanding.len_bytes("bulk")
            assert outstanding.pace in ("polite", "steady", "alone", "urgent") and 0 <= command.waited_ns <= outstanding.issued_ago_ns
            assert outstanding.foreground_waiting >= 0 and outstanding.foreground_waited_ns >= 0 and outstanding.beside_durable_bytes >= 0
            return super().admits(command, outstanding)

    class Smaller(Looking):
        piece_bytes = 64 << 10

    for admission, largest in ((Looking, 128 << 10), (Smaller, 64 << 10)):
        saw = beside(disk, admission=admission).policies["admission"]
        assert {"durable", "bulk"} <= saw.seen and max(saw.sizes) == largest


def test_a_cleaner_is_shown_times_and_what_its_owner_asked_for(disk, mix):
    class Looking(Cleaner):
        asked = begun = 0

        def home(self, view):
            self.asked += 1
            assert view.asked()["swap_above_pct"] == 80 and set(view.asked()) == set(policies.Asked.__annotations__)
            assert view.idle_for_ns == view.now_ns - view.last_request_at_ns and 0 <= view.second_of_day < 86_400
            assert 0 <= view.fill_pct() <= 100 and view.fragment_fill_pct == 0 and view.snapshot_number >= 0
            assert view.last_pass_ended_at_ns <= view.now_ns and isinstance(view.is_quiet, bool)
            return "room" if self.asked == 40 else None

        def home_begins(self, view):
            self.begun += 1

    saw = nearhead.Experiment(disk, "mlb", mix, cleaner=Looking).run().policies["cleaner"]
    assert saw.asked > 40 and saw.begun == 1


def test_a_view_answers_only_while_its_policy_is_asked(disk, mix):
    told = []

    class Keeping(NearHead):
        kept = None

        def place(self, view, need):
            if type(self).kept is None:
                type(self).kept = view

                def elsewhere():
                    with pytest.raises(nearhead.Error, match="its own policy and thread"):
                        view.now_ns
                    told.append("another thread")

                thread = threading.Thread(target=elsewhere)
                thread.start()
                thread.join()
            return super().place(view, need)

    class Nesting(NearHead):
        is_done = False

        def place(self, view, need):
            if not self.is_done:
                self.is_done = True
                outer = view

                class Inner(NearHead):
                    def place(self, view, need):
                        with pytest.raises(nearhead.Error, match="found that over"):
                            outer.now_ns
                        told.append("another policy")
                        return super().place(view, need)

                nearhead.Experiment("st3146855fc", "mlb", nearhead.RandomMix(requests_max=1, reads=0, fua=True), placement=Inner).run()
            return super().place(view, need)

    for placement in (Keeping, Nesting):
        nearhead.Experiment(disk, "mlb", mix, placement=placement).run()
    with pytest.raises(nearhead.Error, match="keep numbers, not the view"):
        Keeping.kept.is_claimed(0)
    assert told == ["another thread", "another policy"]


def test_every_number_is_answered(disk, mix):
    words, longs = (0, 1, 1398, 1 << 31, (1 << 32) - 1), (0, 1 << 40, (1 << 64) - 1)

    class Curious(NearHead):
        asked = 0

        def place(self, view, need):
            self.asked += 1
            for odd in [need, *(Need(blocks, reserve) for blocks in words for reserve in words)] if self.asked in (1, 40) else []:
                for offset in longs:
                    assert view.nearest_claimed(odd, offset) is None or odd.blocks < 1 << 31
                    assert view.logs_near(offset, 0) == [] and len(view.logs_near(offset, 1 << 60)) == view.log_count
                for log in words:
                    view.is_claimed(log), view.is_full(log), view.fill_pct(log), view.has_room(log, odd), view.next_place(log, odd)
                    for block in words:
                        view.place_from(log, block, odd), view.accepts(log, block, odd), view.block_offset_bytes(log, block), view.begins_in_ns(log, block)
            return super().place(view, need)

    class Waking(Cleaner):
        asked = 0

        def home(self, view):
            self.asked += 1
            for log in words:
                view.is_touched(log), view.is_needed(log), view.is_full(log), view.rests(log), view.fill_pct(log)

        def home_wake_ns(self, view):
            return longs[self.asked % 3]

    for preset in ("singlelog", "mlb", "nearhead"):
        result = nearhead.Experiment(disk, preset, mix, placement=Curious, cleaner=Waking).run()
        assert result.policies["placement"].asked > 40 and result.policies["cleaner"].asked > 40


def test_what_a_policy_is_shown_has_the_words_of_its_stub():
    stub = ast.parse((Path(nearhead.__file__).parent / "_native.pyi").read_text())
    words = {}
    for kind in (node for node in stub.body if isinstance(node, ast.ClassDef) and node.name in policies.__all__):
        words[kind.name] = ast.get_docstring(kind)
        questions = (node for node in kind.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("__"))
        words.update({f"{kind.name}.{question.name}": ast.get_docstring(question) for question in questions})
        shown = {name for name in vars(getattr(policies, kind.name)) if not name.startswith("__")}
        assert shown == {name.split(".")[1] for name in words if name.startswith(f"{kind.name}.")}
    assert len(words) > 60
    for name, text in words.items():
        found = operator.attrgetter(name)(policies).__doc__
        assert found and text and found.split() == text.split(), name


# Examples


def test_the_placement_of_the_tutorial_is_the_example_and_does_as_mlb(capsys, disk):
    tutorial = (Path(__file__).resolve().parents[3] / "docs" / "python.md").read_text()
    block = tutorial.split("### A placement policy in 30 lines")[1].split("```python\n")[1].split("```")[0]
    assert len(block.splitlines()) <= 30 and 'conformance(NearHead, "mlb")' in block
    shorter = block.replace('conformance(NearHead, "mlb")', 'conformance(NearHead, "mlb", range(1), every_cut=None)')
    stream, commits = BESIDE
    exec(shorter, {"nearhead": nearhead, "disk": disk, "stream": stream, "commits": commits})
    preset = nearhead.Experiment(disk, "mlb", BESIDE, warm_up_s=2, duration_s=10).run()
    digest, tried = capsys.readouterr().out.splitlines()
    assert digest == preset.digest and tried.startswith("Conformance(images=0, random_lives=3, lives=1,")


@pytest.mark.parametrize("name", ["at_rest", "bounded_bulk", "near_head"])
def test_each_example_runs_to_its_end(name):
    said = subprocess.run([sys.executable, EXAMPLES / f"{name}.py"], capture_output=True, check=True, text=True).stdout
    assert len(said.splitlines()) > 2
