"""Policies in Python: that they are as good as those in Rust, that their mistakes are told, and that the laws hold with them."""

import copy
import importlib.util
import pickle
import random
import signal
import subprocess
import sys
import threading
import traceback
from pathlib import Path

import nearhead
import pytest
from nearhead import policies
from nearhead.policies import Admission, Cleaner, Move, Need, Placement, Spot, conformance

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
BESIDE = [nearhead.Bulk(span=(0, 1 << 30)), nearhead.DurablePoints(8, span=(1 << 30, None))]


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NearHead = example("near_head").NearHead
AtRest = example("at_rest").AtRest
BoundedBulk = example("bounded_bulk").BoundedBulk


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
            spots = [(view.begins_in_ns(log, block), log, block) for log in view.logs_near(count=8) if view.is_claimed(log) for block in [view.next_place(log, need)] if block is not None]
            known = [spot for spot in spots if spot[0] is not None]
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
            assert outstanding.pace in ("polite", "steady", "alone", "urgent") and command.waited_ns >= 0
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


# Mistakes


class Broken(Exception):
    pass


def test_an_exception_of_a_policy_ends_the_run_as_it_was_raised(disk, mix):
    class Placing(Placement):
        def place(self, view, need):
            raise Broken("in place")

    class Late(NearHead):
        def completed(self, view, command):
            raise Broken("in completed")

    class Unborn(Placement):
        def __init__(self):
            raise Broken("in __init__")

    class Admitting(Admission):
        def admits(self, command, outstanding):
            raise Broken("in admits")

    class Cleaning(Cleaner):
        def home(self, view):
            raise Broken("in home")

    for policy in ({"placement": Placing}, {"placement": Late}, {"placement": Unborn}, {"admission": Admitting}, {"cleaner": Cleaning}):
        for run in (nearhead.Experiment(disk, "mlb", mix, **policy).run, lambda: conformance(next(iter(policy.values())), seeds=[1], every_cut=None)):
            with pytest.raises(Broken, match="^in ") as raised:
                run()
            assert "raise Broken(" in "".join(traceback.format_exception(raised.type, raised.value, raised.tb))


def answering(base, method, answer):
    """A policy of which one method gives that answer, or what it makes of its arguments."""

    def asked(self, *arguments):
        return answer(*arguments) if callable(answer) else answer

    return type("Odd", (base,), {method: asked, "name": "odd one"})


@pytest.mark.parametrize(
    ("question", "method", "answer", "expected"),
    [
        ("placement", "place", Spot(10**6, 0), "found Spot(log=1000000, block=0, wanted=1000000): there are 1398 logs"),
        ("placement", "place", Spot(0, 0, 1398), "there are 1398 logs"),
        ("placement", "place", lambda view, need: Spot(view.log_count - 1, 0), "log 1397 is not claimed"),
        ("placement", "place", lambda view, need: Spot(0, 10**6), "log 0 takes the record at block 0, and not there"),
        ("placement", "place", (1, 2), "expected place() to answer with a Spot or None, found tuple (1, 2)"),
        ("placement", "place", 17, "found int 17"),
        ("placement", "waits", "perhaps", "expected waits() to answer True or False, found str 'perhaps'"),
        ("admission", "admits", None, "expected admits() to answer True or False, found None"),
        ("admission", "admits", False, "nothing is on the disk and nobody would ask again, found False"),
        ("cleaner", "home", "now", "\"idle\", \"room\", \"time\", \"need\" or None, found str 'now'"),
        ("cleaner", "home", True, "found bool True"),
        ("cleaner", "relocate", 3, "expected relocate() to answer with a Move or None, found int 3"),
        ("cleaner", "relocate", Move(5, 5), "found Move(from_log=5, to_log=5): that is one and the same log"),
        ("cleaner", "relocate", Move(5, 5000), "there are 1398 logs"),
        ("cleaner", "relocate", Move(1000, 5), "nothing of log 1000 is needed"),
        ("cleaner", "home_wake_ns", -1, "expected home_wake_ns() to answer with a time in ns or None, found int -1"),
        ("cleaner", "relocate_wake_ns", "soon", "found str 'soon'"),
    ],
)
def test_an_answer_that_nobody_can_follow_is_refused_with_who_gave_it(disk, mix, question, method, answer, expected):
    base = {"placement": NearHead, "admission": Admission, "cleaner": Cleaner}[question]
    with pytest.raises(nearhead.Error) as raised:
        nearhead.Experiment(disk, "mlb", mix, **{question: answering(base, method, answer)}).run()
    assert f'{question} "odd one"' in str(raised.value)
    assert expected in str(raised.value)


class Again(Placement):
    """Names the same spot twice."""

    spot = None

    def place(self, view, need):
        if self.spot is None:
            log = view.nearest_claimed(need)
            self.spot = Spot(log, view.next_place(log, need))
        return self.spot


class Full(Placement):
    """Stays in one log until it has no room, and then in it still."""

    def place(self, view, need):
        return Spot(0, view.next_place(0, need) or 0)


class Never(Placement):
    def place(self, view, need):
        return None


def test_a_spot_that_is_named_twice_is_refused(disk, mix):
    with pytest.raises(nearhead.Error, match="takes the record at block [0-9]+, and not there"):
        nearhead.Experiment(disk, "mlb", mix, placement=Again).run()


def test_a_log_without_room_is_refused(disk):
    writes = nearhead.RandomMix(requests_max=3000, reads=0, request_bytes=32768, outstanding_max=16, fua=True)
    config = {"log_bytes": 1 << 20}
    with pytest.raises(nearhead.Error, match="log 0 has no room"):
        nearhead.Experiment(disk, "mlb", writes, config=config, placement=Full, cleaner=Cleaner).run()


def test_a_placement_that_never_names_a_place_is_told_of(disk, mix):
    with pytest.warns(RuntimeWarning, match="placement Never: asked [0-9]+ times where a record goes, it never named a place"):
        result = nearhead.Experiment(disk, "mlb", mix, placement=Never).run()
    assert result.counters["records"] == 0 and result.workloads[0].requests == 500


def test_what_is_no_policy_is_refused_at_the_door(disk, mix):
    class Ahead(NearHead):
        claims_ahead = 9

    class Kept(NearHead):
        claims_kept = "many"

    class Pieces(BoundedBulk):
        piece_bytes = 5000

    class Waits(Cleaner):
        waits_when_full = 1

    run = nearhead.Experiment
    for wrong, expected in [
        (lambda: run(disk, "mlb", mix, placement=object()).run(), "derives from nearhead.policies.Placement, found object"),
        (lambda: run(disk, "mlb", mix, placement=AtRest).run(), "derives from nearhead.policies.Placement, found AtRest"),
        (lambda: run(disk, "mlb", mix, cleaner=lambda view: None).run(), "derives from nearhead.policies.Cleaner, found function"),
        (lambda: run(disk, None, mix, placement=NearHead).run(), "expected no policies on the plain disk"),
        (lambda: run(disk, "mlb", mix, placement=Ahead).run(), "placement 'Ahead': expected claims_ahead from 0 to 3, found 9"),
        (lambda: run(disk, "mlb", mix, placement=Kept).run(), "expected claims_kept from 1 to 64, found 'many'"),
        (lambda: run(disk, "mlb", mix, admission=Pieces).run(), "expected piece_bytes from 4096 to 1048576, a multiple of 4096, found 5000"),
        (lambda: run(disk, "mlb", mix, cleaner=Waits).run(), "expected waits_when_full to be True or False, found 1"),
        (lambda: conformance([NearHead, NearHead]), "of each one at most, found NearHead"),
        (lambda: conformance([]), "expected a policy, found none"),
        (lambda: conformance(3), "found int"),
        (lambda: conformance(NearHead, "best"), 'found "best"'),
        (lambda: conformance(NearHead, seeds=[-1]), "expected a seed from 0"),
        (lambda: conformance(NearHead, every_cut=0), "expected every_cut from 1"),
    ]:
        with pytest.raises(nearhead.Error) as raised:
            wrong()
        assert expected in str(raised.value), raised.value
    with pytest.raises(NotImplementedError, match="expected a method place"):
        run(disk, "mlb", mix, placement=Placement).run()
    with pytest.raises(OverflowError):
        Need(-1)


# Laws


def test_policies_in_python_break_no_law():
    tried = conformance([NearHead, AtRest, BoundedBulk], "mlb", seeds=range(3), every_cut=None)
    # What never ran proves nothing.
    assert tried.images == 0 and tried.random_lives == 9 and tried.lives == 3
    assert tried.records > 100 and tried.cuts > 10 and tried.cuts_in_recovery > 3 and tried.kills > 0 and tried.checkpointed_bytes > 0


def test_a_placement_in_python_breaks_no_law_under_every_cut():
    tried = conformance(NearHead, seeds=[], every_cut=40_001)
    assert tried.images > 1000 and tried.lives == 0


def test_a_placement_in_python_breaks_no_law_where_records_go_anywhere():
    tried = conformance(NearHead, "nearhead", seeds=range(2), every_cut=None)
    assert tried.records > 50 and tried.cuts > 5


def test_a_mistake_is_found_by_the_suite(capfd):
    class Unseeded(NearHead):
        def place(self, view, need):
            spot = super().place(view, need)
            return spot and Spot(spot.log, spot.block, random.randrange(view.log_count))

    for wrong, expected in [
        (Never, "no log has room for an atomic write"),
        (Again, 'placement "Again": expected place() to answer with a spot that may be written, found Spot('),
        (Full, "log 0 has no room"),
        (Unseeded, "two runs of the same seed differ"),
        (answering(Admission, "admits", lambda command, outstanding: command.priority != "bulk"), "expected admits() to let Command(priority="),
    ]:
        with pytest.raises(nearhead.Error) as raised:
            conformance(wrong, seeds=range(4), every_cut=None)
        assert expected in str(raised.value), raised.value
    assert "repeat with" in capfd.readouterr().out


def test_a_broken_law_is_told_with_what_repeats_it():
    with pytest.raises(nearhead.Error, match=r"a law is broken in random cuts of seed 3; repeat with seeds=\[3\], every_cut=None: .*atomic write"):
        conformance(Never, seeds=[3], every_cut=None)
    with pytest.raises(nearhead.Error, match=r"the short workloads with every cut; repeat with seeds=\[\], every_cut=40001"):
        conformance(Never, seeds=[], every_cut=40_001)


def test_ctrl_c_ends_the_suite():
    code = (
        "import nearhead; from nearhead.policies import *\n"
        "class Near(Placement):\n"
        "    def place(self, view, need):\n"
        "        log = view.nearest_claimed(need)\n"
        "        return None if log is None else Spot(log, view.next_place(log, need))\n"
        "print('running', flush=True)\n"
        "conformance(Near, seeds=range(1_000_000), every_cut=None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"running\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert b"KeyboardInterrupt" in said and process.returncode != 0


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
