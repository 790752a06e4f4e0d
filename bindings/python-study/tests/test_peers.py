"""What Nearhead is compared with simulates the same disk, and the comparison runs, at a size that says nothing but that."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import nearhead
import pytest

PEERS = Path(__file__).resolve().parents[1] / "peers"
PROFILES = Path(__file__).resolve().parents[3] / "crates/models/profiles"


@pytest.fixture
def simpy_disk(monkeypatch):
    pytest.importorskip("simpy")
    pytest.importorskip("tomllib")
    monkeypatch.syspath_prepend(PEERS)
    import simpy_disk

    return simpy_disk


@pytest.mark.parametrize("name", ["st3146855fc", "constellation-es3-1tb", "exos-x20-20tb"])
def test_the_disk_in_simpy_answers_as_the_model_does_but_for_some_microseconds(name, simpy_disk, tmp_path):
    """Nobody settles late here, as that is drawn by lot. The model has skews in 2^-32 of a revolution, which add up over millions of tracks; and its head reads on
    after a read, which now and then costs or saves a revolution."""
    path = tmp_path / "drive.toml"
    lines = (PROFILES / f"{name}.toml").read_text().splitlines()
    path.write_text("\n".join(line for line in lines if not line.startswith("late_share")))
    profile = simpy_disk.read_profile(path)
    draw = random.Random(7)
    blocks = profile["blocks"] * profile["sector_bytes"] // 4096
    places, writes = [draw.randrange(blocks) for _ in range(2000)], [draw.random() < 0.5 for _ in range(2000)]
    columns = {"at_ns": [0] * 2000, "offset_bytes": [place * 4096 for place in places], "len_bytes": [4096] * 2000, "write": writes}
    trace = nearhead.Trace.from_columns(columns, tempo="bursts", outstanding_max=1)
    found = nearhead.Experiment(nearhead.Disk(path, cache="off", ncq="fifo"), None, trace, record=True).run().requests()
    sectors = 4096 // profile["sector_bytes"]
    requests = [(place * sectors, sectors, write) for place, write in zip(places, writes)]
    theirs = simpy_disk.closed_loop(simpy_disk.Disk(profile), requests, 1)
    alike = sum(abs(ours - other) < 10_000 for ours, other in zip(found["latency_ns"].tolist(), theirs))
    assert alike >= 1980, f"expected at least 1980 of 2000 alike, found {alike}"


@pytest.mark.parametrize("name", ["flash-8ch-550gb", "st8000as0002", "st41601n"])
def test_a_profile_that_the_disk_in_simpy_cannot_be_is_refused(name, simpy_disk):
    with pytest.raises(simpy_disk.ProfileError, match=f"{name}.*expected a hard disk"):
        simpy_disk.read_profile(PROFILES / f"{name}.toml")


def test_the_comparison_says_what_it_compared_and_what_it_left_out_and_why():
    command = [sys.executable, PEERS / "compare.py", "--requests", "300", "--turns", "1", "--replayed", "12", "--json"]
    ran = subprocess.run(command, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    if "simpy_skipped" not in told:
        assert len(told["virtual"]) == 8 and all(row["mean_ms"] > 1 and row["processor"]["median"] > 0 for row in told["virtual"])
        assert all(ratio["times_as_fast"] > 0 for ratio in told["ratios"].values())
    if "fio_skipped" in told:
        print(f"skipped: fio: {told['fio_skipped']}")
    else:
        assert told["fio"]["requests"] == 12 and told["fio"]["fio"]["mean_ms"] > 0 and told["fio"]["nearhead"]["mean_ms"] > 0
