"""Experiments: what they come to, that they can be repeated, recorded and stopped."""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import nearhead
import pytest

BESIDE = [nearhead.Bulk(span=(0, 1 << 30)), nearhead.DurablePoints(8, span=(1 << 30, None))]


def test_the_same_experiment_has_the_same_digest_and_another_seed_another(disk, mix):
    run = nearhead.Experiment(disk, "nearhead", mix).run
    assert run().digest == run().digest
    other = nearhead.Experiment(disk, "nearhead", nearhead.RandomMix(requests_max=500, outstanding_max=4, fua=True, seed=2))
    assert other.run().digest != run().digest


def test_recording_changes_nothing(disk, mix):
    plain, recorded = (nearhead.Experiment(disk, "mlb", mix, record=record).run() for record in (False, True))
    assert plain.digest == recorded.digest
    with pytest.raises(nearhead.Error, match="record=True"):
        plain.requests()


def test_manylogs_beats_the_plain_disk(disk):
    bandwidth = {}
    for preset in (None, "mlb"):
        result = nearhead.Experiment(disk, preset, BESIDE, warm_up_s=1, duration_s=5).run()
        bandwidth[preset] = result.workloads[0].bytes_per_s
        points = result.workloads[1]["points"]
        assert points.requests > 30 and points.failed == 0
    assert bandwidth["mlb"] > 1.5 * bandwidth[None]


def test_a_result_says_what_there_is(disk, trace):
    result = nearhead.Experiment(disk, "mlb", trace).run()
    assert result.workloads[0]["all"].requests == 300
    assert result.workloads[0]["writes"].requests == 200
    latency = result.workloads[0].latency
    assert latency.min_ms <= latency.p50_ms <= latency.p99_ms <= latency.max_ms
    every = result.workloads[0]["all"]
    assert every.percentiles_ms([50, 99]) == [latency.p50_ms, latency.p99_ms]
    assert sum(count for _, _, count in every.histogram()) == 300
    assert result.counters["records"] > 0 and result.ack == "durable"
    parts = result.ablation
    together = parts["seek_s"] + parts["rotation_s"] + parts["transfer_s"] + parts["queueing_s"]
    assert abs(together - parts["response_s"]) < 1e-9
    assert json.loads(json.dumps(result.to_dict()))["digest"] == result.digest
    assert result.workloads[0].facts["kept_up"] is True


def test_every_kind_of_disk_carries_an_experiment(mix):
    for name in nearhead.Disk.names():
        assert nearhead.Experiment(name, "nolog", mix).run().workloads[0].requests == 500
    pair = nearhead.Disk.raid0(["st3146855fc", nearhead.Disk("st3146855fc", cache="off")], chunk="128k")
    assert (pair.kind, pair.drives) == ("array", 2)
    assert nearhead.Experiment(pair, "mlb", mix).run().workloads[0].requests == 500
    assert nearhead.Experiment(nearhead.Disk.mirror(["st3146855fc"] * 2), "mlb", mix).run().workloads[0].failed == 0


def test_a_disk_says_what_it_is(disk):
    assert (disk.rpm, disk.kind, disk.write_cache) == (15017, "hdd", False)
    assert disk.capacity_bytes > 140e9 and disk.seek_ms_max > 5
    assert nearhead.Disk("flash-8ch-550gb").rpm is None
    assert "mlb" in nearhead.presets() and "blktrace" in nearhead.formats()


def test_a_volume_on_several_devices_is_an_experiment_like_any_other():
    np = pytest.importorskip("numpy")
    behind = nearhead.Disk.devices("st41601n", data=["st3146855fc", nearhead.Disk("st3146855fc", cache="off")], logs=["st41601n"])
    assert (behind.kind, behind.drives) == ("devices", 4)
    assert pickle.loads(pickle.dumps(behind)).to_dict() == behind.to_dict()
    points = nearhead.DurablePoints(8)
    result = nearhead.Experiment(behind, "trail", points, duration_s=5, record=True).run()
    assert result.workloads[0].failed == 0
    assert set(np.unique(result.head_path()["device"])) >= {0, 1, 2}
    assert "device" not in nearhead.Experiment("st3146855fc", "mlb", points, duration_s=1, record=True).run().head_path()
    chain = nearhead.Disk.devices("st3146855fc", data=["st3146855fc"] * 2)
    assert nearhead.Experiment(chain, "gecko", points, duration_s=5).run().ablation["response_s"] > 0
    with pytest.raises(nearhead.Error, match="name them one by one"):
        nearhead.Disk.devices("st41601n", data=[chain])
    for disk, preset, expected in [
        (behind, None, "expected one disk"),
        (behind, "mlb", "expected no data devices"),
        ("st41601n", "trail", "name the data devices"),
        ("st41601n;st3146855fc", "trail", "expected data=DISK or log=DISK"),
    ]:
        with pytest.raises(nearhead.Error, match=expected):
            nearhead.Experiment(disk, preset, points, duration_s=1).run()


def test_a_configuration_departs_from_its_preset(disk):
    def logged(**config):
        result = nearhead.Experiment(disk, "mlb", BESIDE, config=config, duration_s=2).run()
        return result.volume["logged_write_bytes_max"], result.counters["logged_bytes"]

    assert logged()[0] == 32768 and logged()[1] > 0
    assert logged(logged_write_bytes_max=2048) == (2048, 0)
    assert logged(log_bytes=4 << 20)[1] > 0


def test_errors_say_what_was_expected_and_found(disk, mix):
    run = nearhead.Experiment
    for wrong, expected in [
        (lambda: nearhead.Disk("cheetah"), "st3146855fc"),
        (lambda: nearhead.Disk("st3146855fc", cache="perhaps"), "on|off"),
        (lambda: nearhead.Disk("st3146855fc", depth=0), "1..1024"),
        (lambda: run(disk, "best", mix).run(), "nearhead"),
        (lambda: run(disk, "mlb", []).run(), "expected 1 to 64 workloads, found 0"),
        (lambda: run(disk, "mlb", "trace").run(), "found str"),
        (lambda: run(disk, "mlb", BESIDE).run(), "expected a duration"),
        (lambda: run(disk, "mlb", mix, warm_up_s=1).run(), "expected a duration"),
        (lambda: run(disk, "mlb", mix, duration_s=-1).run(), "found -1"),
        (lambda: run(disk, "mlb", mix, duration_s=float("nan")).run(), "found NaN"),
        (lambda: run(disk, "mlb", mix, ack="soon").run(), 'found "soon"'),
        (lambda: run(disk, "mlb", mix, config={"logs": 3}).run(), "found 'logs'"),
        (lambda: run(disk, "mlb", mix, config={"log_bytes": -3}).run(), "found -3"),
        (lambda: run(disk, None, mix, config={"log_bytes": 1 << 20}).run(), "name a preset"),
        (lambda: run(disk, "mlb", nearhead.RandomMix(request_bytes=777, requests_max=1)).run(), "found 777"),
        (lambda: run(disk, "mlb", nearhead.RandomMix(reads=2, requests_max=1)).run(), "found 2"),
        (lambda: run(disk, "mlb", nearhead.DurablePoints("often"), duration_s=1).run(), "found 'often'"),
        (lambda: run(disk, "mlb", nearhead.DurablePoints(0), duration_s=1).run(), "found 0"),
        (lambda: run(disk, "mlb", nearhead.Bulk(span=(5,)), duration_s=1).run(), "a pair of bytes"),
        (lambda: run(disk, "mlb", nearhead.Bulk(span=(0, 1 << 60)), duration_s=1).run(), "expected a span"),
    ]:
        with pytest.raises(nearhead.Error) as raised:
            wrong()
        assert expected in str(raised.value), raised.value


def test_numbers_of_numpy_are_numbers(disk):
    np = pytest.importorskip("numpy")
    mix = nearhead.RandomMix(request_bytes=np.int64(4096), reads=np.float32(0.5), requests_max=np.uint32(10))
    assert nearhead.Experiment(disk, "mlb", mix, config={"log_bytes": np.int64(4 << 20)}).run().workloads[0].requests == 10


def test_every_request_and_every_transfer_can_be_had(disk):
    np = pytest.importorskip("numpy")
    result = nearhead.Experiment(disk, "mlb", BESIDE, duration_s=2, record=True).run()
    requests = result.requests()
    assert set(np.unique(requests["workload"])) == {0, 1}
    assert (requests["due_ns"] <= requests["issued_ns"]).all()
    assert (requests["latency_ns"] >= 0).all()
    answered = requests["answered_ns"].count()
    assert 0 < len(requests["workload"]) - answered < 100
    path = result.head_path()
    assert (np.diff(path["completed_ns"].astype(np.int64)) >= 0).all()
    assert path["offset_bytes"].max() < disk.capacity_bytes
    assert result.left_out() == (0, 0)


def test_recorded_requests_go_into_every_kind_of_table(disk, mix):
    pytest.importorskip("numpy")
    result = nearhead.Experiment(disk, "mlb", mix, record=True).run()
    for package, table in [("pyarrow", "requests_arrow"), ("pandas", "requests_pandas"), ("polars", "requests_polars")]:
        pytest.importorskip(package)
        assert len(getattr(result, table)()) == 500


def test_other_threads_run_meanwhile(disk):
    ticks = []
    over = threading.Event()

    def tick():
        while not over.is_set():
            ticks.append(None)
            time.sleep(0.001)

    ticking = threading.Thread(target=tick)
    ticking.start()
    before = len(ticks)
    nearhead.Experiment(disk, "mlb", nearhead.RandomMix(requests_max=100_000, fua=True)).run()
    during = len(ticks) - before
    over.set()
    ticking.join()
    assert during > 2


@pytest.mark.skipif(os.name != "posix", reason="signals of other systems come otherwise")
def test_ctrl_c_ends_a_run():
    endless = (
        "import nearhead; print('running', flush=True); "
        "nearhead.Experiment('st3146855fc', 'mlb', nearhead.RandomMix(), duration_s=4e9).run()"
    )
    with subprocess.Popen([sys.executable, "-c", endless], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"running\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert b"KeyboardInterrupt" in said and process.returncode != 0


def test_the_example_of_the_readme_runs():
    readme = (Path(__file__).resolve().parents[1] / "README.md").read_text()
    example = readme.split("```python\n")[1].split("```")[0]
    said = subprocess.run([sys.executable, "-c", example], capture_output=True, check=True, text=True).stdout
    assert [line.split()[0] for line in said.splitlines()] == ["None", "mlb", "nearhead"]


def test_nothing_but_the_standard_library_is_imported():
    code = "import nearhead, sys; print([name for name in ('numpy', 'pandas', 'polars', 'pyarrow') if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert said.strip() == b"[]"
