"""Mistakes of policies in Python: that each is told, by an experiment and by the suite of the laws, and that without one no law is broken."""

import os
import random
import signal
import subprocess
import sys
import traceback

import nearhead
import pytest
from at_rest import AtRest
from bounded_bulk import BoundedBulk
from near_head import NearHead
from nearhead.policies import Admission, Cleaner, Move, Need, Placement, Spot, conformance


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
        ("placement", "place", lambda view, need: Spot(0, 10**6), "log 0 takes no such record at block 1000000; the next that it does is at block 0"),
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
    with pytest.raises(nearhead.Error, match="takes no such record at block [0-9]+; the next that it does is at block"):
        nearhead.Experiment(disk, "mlb", mix, placement=Again).run()


def test_a_log_without_room_is_refused(disk):
    writes = nearhead.RandomMix(requests_max=3000, reads=0, request_bytes=32768, outstanding_max=16, fua=True)
    config = {"log_bytes": 1 << 20}
    with pytest.raises(nearhead.Error, match="log 0 has no room"):
        nearhead.Experiment(disk, "mlb", writes, config=config, placement=Full, cleaner=Cleaner).run()


def test_a_placement_that_never_names_a_place_is_told_of(disk, mix):
    with pytest.warns(RuntimeWarning, match="the placement was asked [0-9]+ times where a record goes, and never named a place"):
        result = nearhead.Experiment(disk, "mlb", mix, placement=Never).run()
    assert result.counters["records"] == 0 and result.workloads[0].requests == 500


def test_a_policy_that_never_has_a_say_is_told_of(disk, mix):
    with pytest.warns(RuntimeWarning, match="the placement was never asked"):
        nearhead.Experiment(disk, "nolog", mix, placement=NearHead).run()
    with pytest.raises(nearhead.Error, match="conformance on nolog: .*what never ran proves nothing; found that the placement was never asked"):
        conformance(NearHead, "nolog", seeds=[1], every_cut=None)
    with pytest.raises(nearhead.Error, match="found that the cleaner was never asked"):
        conformance(AtRest, seeds=[], every_cut=None)


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


SUITE = """
class Near(Placement):
    def place(self, view, need):
        log = view.nearest_claimed(need)
        return None if log is None else Spot(log, view.next_place(log, need))
print("running", flush=True)
conformance(Near, seeds=range(1_000_000), every_cut=None)
"""
LOOP = """
class Loop(Placement):
    def place(self, view, need):
        print("running", flush=True)
        while True:
            pass
nearhead.Experiment("st3146855fc", "mlb", nearhead.RandomMix(), duration_s=4e9, placement=Loop).run()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of other systems come otherwise")
@pytest.mark.parametrize("code", [SUITE, LOOP])
def test_ctrl_c_ends_the_suite_and_a_policy_that_never_answers(code):
    code = "import nearhead; from nearhead.policies import *\n" + code
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"running\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert b"KeyboardInterrupt" in said and process.returncode != 0
