"""Sweeps: which experiments they are, that they depend on nobody's worker, can be stopped and gone on with, and what is refused."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import nearhead
import pytest

import clusters
import sweep_scenarios as scenarios

pytest.importorskip("pyarrow")
from nearhead._sweep import drive, worker  # noqa: E402

MIX = nearhead.RandomMix(requests_max=50, outstanding_max=4, fua=True)


class InProcess:
    """Workers that are no processes, and are stopped after so many tasks."""

    def __init__(self, stops_after=None):
        self.done, self.left = [], stops_after

    def slots(self):
        return 2

    def submit(self, number, message, resend=False):
        if self.left == 0:
            raise KeyboardInterrupt
        self.left = None if self.left is None else self.left - 1
        self.done.append((number, worker.run(message)))

    def wait(self, timeout_s):
        done, self.done = self.done, []
        return done

    def close(self):
        pass


@pytest.fixture
def here(monkeypatch):
    """Sweeps of this test run in its process."""
    monkeypatch.setattr(drive, "engine_of", lambda *_: InProcess())


def grid(**more):
    return {"disk": ["st3146855fc"], "preset": [None, "mlb"], "workload": {"mix": MIX}, "logged_write_bytes_max": [None], **more}


def test_every_combination_is_run_and_the_last_key_changes_fastest(tmp_path, here):
    asked = {"preset": ["mlb", "singlelog"], "disk": "st3146855fc", "logged_write_bytes_max": [4096, 32768], "workload": {"mix": MIX}}
    swept = nearhead.sweep(asked, out=tmp_path / "out")
    rows = swept.to_arrow().to_pylist()
    found = [(row["task"], row["preset"], row["logged_write_bytes_max"]) for row in rows]
    assert found == [(0, "mlb", 4096), (1, "mlb", 32768), (2, "singlelog", 4096), (3, "singlelog", 32768)]
    assert {row["workload"] for row in rows} == {"mix"} and swept.ran == swept.tasks == 4
    alone = nearhead.Experiment("st3146855fc", "mlb", MIX, {"logged_write_bytes_max": 4096}).run()
    assert (rows[0]["digest"], rows[0]["load0_requests"]) == (alone.digest, 50)
    told = alone.to_dict()
    del told["wall_s"]
    assert json.loads(rows[0]["result"]) == told


def test_a_list_of_points_may_have_different_keys(tmp_path, here):
    points = [{"disk": "st3146855fc", "workload": MIX}, {"disk": "st3146855fc", "workload": [MIX, MIX], "preset": "mlb"}]
    rows = nearhead.sweep(points, out=tmp_path / "out").to_arrow().to_pylist()
    assert [row["preset"] for row in rows] == [None, "mlb"]
    assert [row["load1_requests"] for row in rows] == [None, 50]


def test_keys_may_be_those_of_a_function(tmp_path, here):
    def experiment(seed, reads=0.5):
        return nearhead.Experiment("st3146855fc", "mlb", nearhead.RandomMix(requests_max=50, seed=seed, reads=reads))

    np = pytest.importorskip("numpy")
    rows = nearhead.sweep({"seed": range(3), "reads": np.array([0.5, 1.0])}, out=tmp_path / "out", experiment=experiment).to_arrow().to_pylist()
    assert [(row["seed"], row["reads"]) for row in rows] == [(seed, reads) for seed in range(3) for reads in (0.5, 1.0)]
    assert len({row["digest"] for row in rows}) == 6
    with pytest.raises(nearhead.Error, match="found 'sed'; did you mean 'seed'"):
        nearhead.sweep({"sed": [1]}, out=tmp_path / "other", experiment=experiment)
    with pytest.raises(nearhead.Error, match="expected a nearhead.Experiment of each point, found int"):
        nearhead.sweep({"seed": [1]}, out=tmp_path / "other", experiment=lambda seed: seed)


def test_the_data_set_is_one_that_others_read(tmp_path, here):
    out = tmp_path / "out"
    swept = nearhead.sweep(grid(), out=out)
    dataset = pytest.importorskip("pyarrow.dataset")
    assert dataset.dataset(out, partitioning="hive").to_table().num_rows == 2
    assert len(swept.to_pandas()) == 2 if pytest.importorskip("pandas") else True
    assert len(swept.to_polars()) == 2 if pytest.importorskip("polars") else True


def test_a_sweep_that_was_stopped_goes_on_with_what_is_left(tmp_path, monkeypatch):
    out, asked = tmp_path / "out", grid(warm_up_s=[0.0], duration_s=[0.1 * tenths for tenths in range(1, 6)])
    monkeypatch.setattr(drive, "engine_of", lambda *_: InProcess(stops_after=7))
    with pytest.raises(KeyboardInterrupt):
        nearhead.sweep(asked, out=out)
    monkeypatch.setattr(drive, "engine_of", lambda *_: InProcess())
    swept = nearhead.sweep(asked, out=out)
    assert (swept.tasks, swept.ran) == (10, 4)
    rows = swept.to_arrow()
    assert rows.column("task").to_pylist() == list(range(10))
    monkeypatch.setattr(drive, "engine_of", None)
    again = nearhead.sweep(asked, out=out)
    assert again.ran == 0 and again.to_arrow().equals(rows)


def test_the_rows_of_a_full_partition_come_into_one_file(tmp_path, monkeypatch):
    monkeypatch.setattr("nearhead._sweep.data_set.PARTITION_TASKS", 4)
    monkeypatch.setattr("nearhead._sweep.data_set.WAITING_ROWS", 1)
    monkeypatch.setattr(drive, "engine_of", lambda *_: InProcess())
    swept = nearhead.sweep(grid(duration_s=[0.1 * tenths for tenths in range(1, 6)]), out=tmp_path / "out")
    files = {str(path.relative_to(tmp_path / "out").parent): path.name for path in sorted((tmp_path / "out").glob("part=*/*"))}
    assert len(list((tmp_path / "out").glob("part=*/*"))) == 3 and files["part=00000"] == files["part=00002"] == "rows.parquet"
    assert swept.to_arrow().num_rows == 10


def test_an_experiment_that_fails_is_a_row_and_others_go_on(tmp_path, here):
    asked = {"disk": "st3146855fc", "preset": ["mlb"], "workload": {"wrong": nearhead.RandomMix(request_bytes=777, requests_max=1), "right": MIX}}
    with pytest.raises(nearhead.Error, match="1 of 2 experiments failed; experiment 0: .*found 777"):
        nearhead.sweep(asked, out=tmp_path / "out")
    swept = nearhead.sweep(asked, out=tmp_path / "out", failures="keep")
    assert (swept.ran, swept.failed, list(swept.failures)) == (0, 1, [0])
    assert [row["status"] for row in swept.to_arrow().to_pylist()] == ["failed", "ok"]
    assert nearhead.sweep(asked, out=tmp_path / "out", failures="keep", retry_failed=True).ran == 1


def test_a_bar_says_how_far_it_is(tmp_path, here, capsys):
    pytest.importorskip("tqdm")
    nearhead.sweep(grid(), out=tmp_path / "out", progress=True)
    assert "2/2" in capsys.readouterr().err


def test_grids_that_cannot_be_meant_are_refused_before_anything_runs(tmp_path):
    np = pytest.importorskip("numpy")
    for wrong, expected in [
        ({}, "at least one experiment, found none"),
        ([], "at least one experiment, found none"),
        ("disk", "found str"),
        (3, "found int"),
        ([3], "experiment 0: expected a mapping"),
        (grid(logged_bytes_max=[1]), "did you mean 'logged_write_bytes_max'?"),
        ({3: [1]}, "found 3"),
        (grid(duration_s=[]), "at least one value for 'duration_s'"),
        (grid(duration_s=np.array([])), "at least one value for 'duration_s'"),
        (grid(duration_s=[1.0, 1.0]), "found 1.0 twice"),
        (grid(duration_s=[float("nan")]), "that are numbers"),
        (grid(preset=["mbl"]), "did you mean 'mlb'?"),
        (grid(disk=["cheetah"]), "st3146855fc"),
        (grid(workload=["mix"]), "experiment 0: experiment: expected a Trace"),
        (grid(log_bytes=["big"]), "found 'big'"),
        (grid(duration_s=["long"]), "experiment 0: could not convert"),
        ({"preset": ["mlb"], "workload": [MIX]}, "expected the grid to have 'disk'"),
        (grid(duration_s=list(range(1000)), warm_up_s=list(range(1000))), "at most 1000000 experiments, found 2000000"),
        (grid(workload={"none": nearhead.Trace(tmp_path / "none")}), "cannot read it"),
    ]:
        with pytest.raises(nearhead.Error) as raised:
            nearhead.sweep(wrong, "local:1", out=tmp_path / "out")
        assert expected in str(raised.value), raised.value
    assert not (tmp_path / "out").exists()


def test_workers_that_nobody_has_are_refused(tmp_path):
    port = clusters.free_port()
    for workers, expected in [
        ("cloud", "dask://HOST:PORT"),
        (0, "at least one worker"),
        (True, "found True"),
        ("dask://127.0.0.1", "dask://HOST:PORT"),
        (f"dask://127.0.0.1:{port}", "a scheduler of Dask there, found nobody"),
        (f"ray://127.0.0.1:{port}", "a server for clients of Ray there, found nobody"),
        ("dask://127.0.0.1:99999", "found nobody"),
    ]:
        with pytest.raises(nearhead.Error) as raised:
            nearhead.sweep(grid(), workers, out=tmp_path / "out")
        assert expected in str(raised.value), raised.value
    with pytest.raises(nearhead.Error, match='"raise" or "keep"'):
        nearhead.sweep(grid(), out=tmp_path / "out", failures="ignore")


def test_folders_of_others_are_left_alone(tmp_path, here):
    out = tmp_path / "out"
    nearhead.sweep(grid(), out=out)
    for other in (grid(preset=[None]), grid(ack=["flush"]), grid(workload={"mix": nearhead.RandomMix(requests_max=51)})):
        with pytest.raises(nearhead.Error, match="expected rows of this grid .* take another folder"):
            nearhead.sweep(other, out=out)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(nearhead.Error, match="found thesis.tex"):
        nearhead.sweep(grid(), out=tmp_path / "full")
    note = out / "_sweep.json"
    for text, expected in [('{"version": "0.0.1"}', "this version of nearhead|in this form"), ("[]", "say whose it is"), ("", "say whose it is")]:
        note.write_text(text)
        with pytest.raises(nearhead.Error, match=expected):
            nearhead.sweep(grid(), out=out)
    (tmp_path / "file").touch()
    with pytest.raises(nearhead.Error, match="cannot make or open it"):
        nearhead.sweep(grid(), out=tmp_path / "file")


def test_two_sweeps_do_not_write_to_one_folder(tmp_path, monkeypatch):
    class Meanwhile(InProcess):
        def submit(self, *message):
            monkeypatch.setattr(drive, "engine_of", lambda *_: InProcess())
            with pytest.raises(nearhead.Error, match="expected to be alone"):
                nearhead.sweep(grid(), out=tmp_path / "out")
            super().submit(*message)

    monkeypatch.setattr(drive, "engine_of", lambda *_: Meanwhile())
    assert nearhead.sweep(grid(), out=tmp_path / "out").ran == 2


def test_a_file_that_cannot_be_read_is_named_and_its_rows_are_made_again_without_it(tmp_path, here):
    out = tmp_path / "out"
    nearhead.sweep(grid(), out=out)
    (path,) = out.glob("part=*/*.parquet")
    whole = path.read_bytes()
    for broken in (b"", b"PAR1", whole[: len(whole) // 2], whole[:-200] + bytes(200)):
        path.write_bytes(broken)
        with pytest.raises(nearhead.Error, match=f"{path.name}: cannot read it"):
            nearhead.sweep(grid(), out=out)
    path.unlink()
    (path.parent / f".{path.name}").write_bytes(b"half")
    assert nearhead.sweep(grid(), out=out).ran == 2
    assert not list(out.glob("part=*/.*"))


def test_a_row_that_two_files_tell_otherwise_is_found(tmp_path, here):
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "out"
    nearhead.sweep(grid(), out=out)
    (path,) = out.glob("part=*/*.parquet")
    table = parquet.read_table(path, partitioning=None)
    place = table.column_names.index("digest")
    other = table.set_column(place, "digest", [["0" * 16] * 2])
    parquet.write_table(other, path.with_name("rows-other.parquet"))
    with pytest.raises(nearhead.Error, match="expected the digest .* of task 0, found"):
        nearhead.sweep(grid(), out=out)


def test_a_program_must_sweep_below_its_guard(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import nearhead\nmix = nearhead.RandomMix(requests_max=10)\n"
        "nearhead.sweep({'disk': 'st3146855fc', 'workload': [mix]}, 'local:1', out='out')\n"
    )
    ran = subprocess.run([sys.executable, program], cwd=tmp_path, env=clusters.environment(), capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0 and '__name__ == "__main__"' in ran.stderr.splitlines()[-1]


def test_a_trace_that_changed_on_its_way_is_refused(tmp_path):
    path = tmp_path / "web_0.csv"
    path.write_text("128166372003061629,web,0,Read,1048576,8192,100\n" * 10)
    asked = grid(workload={"file": nearhead.Trace(path)})
    begun = drive._kinds

    def meanwhile(points):
        path.write_text("128166372003061629,web,0,Write,0,8192,100\n" * 10)
        return begun(points)

    try:
        drive._kinds = meanwhile
        with pytest.raises(nearhead.Error, match="expected it as it was when the sweep began"):
            nearhead.sweep(asked, "local:1", out=tmp_path / "out")
    finally:
        drive._kinds = begun


def told(workers, folder):
    return json.loads(json.dumps(scenarios.run(workers, folder)))


@pytest.fixture(scope="module")
def by_processes(tmp_path_factory):
    """What sweeps come to with two processes."""
    folder = tmp_path_factory.mktemp("local")
    return folder, told("local:2", folder)


def holds(found, folder, by_processes):
    """What is asserted of sweeps, whoever worked."""
    other, ours = by_processes
    assert found["digests"] == ours["digests"]
    assert [text.replace(str(folder), str(other)) for text in found["results"]] == ours["results"]
    assert found["workers"] == 2 and 2 <= found["traces_sent"] <= 4
    first, second, *others = found["deaths"]
    assert (first["status"], first["deaths"]) == ("ok", 1)
    assert second["status"] == "failed" and "died with it" in second["error"]
    assert all(row["status"] == "ok" for row in others)
    assert found["policies"] == ours["policies"]
    assert "expected nearhead 0.0.9" in found["refusal"] and f"found {nearhead.__version__}" in found["refusal"]


def test_sweeps_by_processes_are_those_of_this_process(by_processes):
    folder, found = by_processes
    holds(found, folder, by_processes)
    loads = scenarios.grid(folder)["workload"].values()
    digests = [nearhead.Experiment("st3146855fc", preset, load, ack="durable").run().digest for preset in scenarios.PRESETS for load in loads]
    assert found["digests"] == digests


def test_sweeps_on_dask_are_the_same(by_processes, tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="no dask[distributed]")
    with clusters.dask(tmp_path) as address:
        holds(told(address, tmp_path), tmp_path, by_processes)


def test_a_scheduler_of_dask_without_workers_is_said_to_have_none(tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="no dask[distributed]")
    monkeypatch.setattr("nearhead._sweep.on_dask.NOBODY_S", 0.0)
    with clusters.dask(tmp_path, workers=0) as address, pytest.raises(nearhead.Error, match="expected a worker within 0 s, found none"):
        nearhead.sweep(grid(), address, out=tmp_path / "out")


def test_whoever_is_no_scheduler_of_dask_is_refused_soon(tmp_path, monkeypatch):
    pytest.importorskip("distributed", reason="no dask[distributed]")
    monkeypatch.setattr("nearhead._sweep.on_dask.ANSWER_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"dask://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(nearhead.Error, match="expected a scheduler of Dask there, found something else"):
            nearhead.sweep(grid(), address, out=tmp_path / "out")


def test_sweeps_on_ray_are_the_same(by_processes):
    pytest.importorskip("ray", reason="no ray[client]")
    pytest.importorskip("grpc", reason="no ray[client]")
    if why := clusters.why_no_ray():
        pytest.skip(why)
    # Ray's sockets have names that must be short.
    with tempfile.TemporaryDirectory(prefix="ray") as name:
        ran = clusters.on_ray(Path(scenarios.__file__), Path(name))
        assert ran.returncode == 0, ran.stderr[-4000:]
        holds(json.loads((Path(name) / "told.json").read_text()), name, by_processes)


def test_an_import_does_without_what_sweeps_need():
    heavy = ("dask", "distributed", "ray", "matplotlib", "tqdm", "pyarrow", "cloudpickle", "multiprocessing")
    code = f"import nearhead, sys; print([name for name in {heavy} if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=os.environ).stdout
    assert said.strip() == b"[]"
