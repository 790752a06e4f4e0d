"""A model beside its measured drive, and the papers' figures."""

import os
from pathlib import Path

import nearhead
import pytest

#: Measured drives lie beside the project, and are no part of it.
SHARED = Path(os.environ.get("NEARHEAD_SHARED", Path(__file__).resolve().parents[4] / "shared"))


def test_the_package_of_a_measured_drive_is_a_disk():
    package = SHARED / "disks/disksim-valid/atlas10k"
    if not package.with_suffix(".parv").exists():
        pytest.skip(f"no measured drives in {SHARED}, nor another $NEARHEAD_SHARED")
    disk = nearhead.Disk(package, depth=4)
    assert (disk.kind, disk.queue_depth) == ("hdd", 4) and disk.rpm > 10_000
    assert nearhead.Experiment(disk, "mlb", nearhead.RandomMix(requests_max=100)).run().workloads[0].requests == 100
    found = nearhead.validate(str(package), package.with_suffix(".trace.zst"))
    assert found.all["requests"] > 1000 and found.all["demerit_percent"] < 10


def test_a_model_is_compared_with_what_was_measured(tmp_path):
    path = tmp_path / "measured.trace"
    lines = [f"{'RW'[place % 2]} Miss {place * 7919 * 64 % 280_000_000} 8 {5000 + place}.0 20000.0" for place in range(200)]
    path.write_text("\n".join(lines) + "\n")
    found = nearhead.validate("st3146855fc", path)
    assert found.profile == "st3146855fc" and found.all["requests"] == 200
    assert found.reads["requests"] + found.writes["requests"] == 200
    assert len(found.modelled_ms) == len(found.measured_ms) == 200 and found.measured_ms[7] == 5.007
    assert found.all["demerit_percent"] > 0


def test_what_cannot_be_compared_is_refused(tmp_path):
    with pytest.raises(nearhead.Error, match="validate: .*cheetah"):
        nearhead.validate("cheetah", tmp_path / "none")
    with pytest.raises(nearhead.Error, match="past_end"):
        nearhead.validate("st3146855fc", tmp_path / "none", past_end="cut")


def test_figures_are_data(tmp_path):
    assert "fig2a" in nearhead.figure_names()
    (figure,) = nearhead.figures("fig2a", effort="tiny", out=tmp_path / "report")
    assert figure.name == "fig2a" and figure.rows and figure.data
    assert all(drawing.startswith("<svg") for drawing in figure.drawings.values())
    assert (tmp_path / "report" / "report.html").exists()
    for wrong in (lambda: nearhead.figures("fig99"), lambda: nearhead.figures("fig2a", effort="great")):
        with pytest.raises(nearhead.Error, match="figures: "):
            wrong()


def test_a_table_of_a_figure_is_a_frame_of_numbers():
    pytest.importorskip("pandas")
    (figure,) = nearhead.figures("fig2a", effort="tiny")
    points = figure.to_pandas("points")
    assert list(points.columns) == figure.data["points"]["columns"] and len(points) == len(figure.data["points"]["rows"])
    assert points["bandwidth_pct"].between(0, 100).all() and points["writes_per_s_per_disk"].dtype == "int64"
    assert "mlb" in set(points["method"])
    with pytest.raises(nearhead.Error, match="expected a table of losses, points, found 'mixes'"):
        figure.to_pandas("mixes")
