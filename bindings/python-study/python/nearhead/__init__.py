"""Nearhead for people who study storage: modelled disks, traces, experiments.

    import nearhead

    disk = nearhead.Disk("st3146855fc", cache="off")
    beside = [nearhead.Bulk(span=(0, 1 << 30)), nearhead.DurablePoints(8, span=(1 << 30, None))]
    for preset in (None, "mlb", "nearhead"):
        result = nearhead.Experiment(disk, preset, beside, warm_up_s=2, duration_s=10).run()
        print(preset, result.workloads[0].bytes_per_s, result.workloads[1].latency.p99_ms)

Everything runs in virtual time and without content: the same experiment has the same digest on every machine. Failures are `nearhead.Error`, with a
sentence that says what, where, what was expected and found. NumPy, pandas, polars and PyArrow are imported where a call needs them, and not before.
"""

from typing import TYPE_CHECKING, Any

from . import policies
from ._disk import Disk, presets
from ._experiment import Experiment
from ._native import Error, formats
from ._reports import Figure, Validation, figure_names, figures, validate
from ._result import Class, Latency, Result, Workload
from ._trace import Request, Trace
from ._workloads import Bulk, DurablePoints, RandomMix

if TYPE_CHECKING:
    from . import fleet
    from ._sweep import Sweep, sweep

__version__ = "0.1.0"

__all__ = [
    "Bulk",
    "Class",
    "Disk",
    "DurablePoints",
    "Error",
    "Experiment",
    "Figure",
    "Latency",
    "RandomMix",
    "Request",
    "Result",
    "Sweep",
    "Trace",
    "Validation",
    "Workload",
    "figure_names",
    "figures",
    "fleet",
    "formats",
    "policies",
    "presets",
    "sweep",
    "validate",
]


def __getattr__(name: str) -> Any:
    """What few programs need is imported when it is asked for."""
    if name in ("Sweep", "sweep"):
        from . import _sweep

        return getattr(_sweep, name)
    if name == "fleet":
        import importlib

        return importlib.import_module(".fleet", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
