"""The examples run, at a size that says nothing but that."""

import subprocess
import sys
from pathlib import Path

import pytest

import clusters

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SMALL = {
    "bulk_beside_durable": (["--size", "small", "--seconds", "0.5"], ["bulk.png"]),
    "advantage_of_mlb": (["--size", "small", "--seconds", "0.5"], ["advantage.csv", "bandwidth.png", "latency.png"]),
    "fleet_of_10000": (["--sets", "3", "--sample", "2", "--hours", "0.02"], ["fleet.json", "fleet.png"]),
}


@pytest.mark.parametrize("name", SMALL)
def test_an_example_leaves_what_it_says(name, tmp_path):
    for package in ("numpy", "pyarrow", "matplotlib"):
        pytest.importorskip(package)
    options, files = SMALL[name]
    command = [sys.executable, EXAMPLES / f"{name}.py", "--out", tmp_path / "out", "--workers", "local:1", *options]
    ran = subprocess.run(command, env=clusters.environment(MPLCONFIGDIR=str(tmp_path)), capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    assert "0 failed" in ran.stdout
    assert all((tmp_path / "out" / file).stat().st_size > 100 for file in files)


def test_every_example_is_tried():
    """Those that take arguments; policies are imported by their own tests."""
    programs = {path.stem for path in EXAMPLES.glob("*.py") if "argparse" in path.read_text()}
    assert programs == set(SMALL)
