"""What tests share: a small disk and small workloads, and the examples, which tests import."""

import sys
from pathlib import Path

import nearhead
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))


@pytest.fixture
def disk() -> nearhead.Disk:
    return nearhead.Disk("st3146855fc", cache="off")


@pytest.fixture
def mix() -> nearhead.RandomMix:
    return nearhead.RandomMix(requests_max=500, outstanding_max=4, fua=True)


@pytest.fixture
def trace() -> nearhead.Trace:
    return nearhead.Trace.from_requests(
        nearhead.Request(at_s=place * 0.01, offset_bytes=place * 7919 % 1000 * (1 << 20), len_bytes=4096, write=place % 3 > 0)
        for place in range(300)
    )
