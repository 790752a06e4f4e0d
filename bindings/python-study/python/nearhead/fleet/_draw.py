"""A fleet's latencies as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .. import theme
from .._columns import missing
from ._statistics import Row


def draw(rows: Sequence[Row], path: Path) -> None:
    """Writes the chart to a file whose ending says which form it has."""
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise missing("matplotlib", "fleet") from None
    groups = list(dict.fromkeys(row.group for row in rows))
    colours = theme.colours(row.way for row in rows)
    # What else the program draws keeps its looks.
    with rc_context(theme.settings()):
        figure = Figure(figsize=(6 * len(groups), 4.2))
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, len(groups), squeeze=False)[0]
        for panel, group in zip(panels, groups):
            for row in rows:
                if row.group == group:
                    label = f"{row.way} ({row.simulated} of {row.sets} sets)"
                    panel.plot(*_slower(row), label=label, color=colours[row.way], drawstyle="steps-post")
            panel.set(xscale="log", yscale="log", xlabel="durable on a quorum after ms", ylabel="requests in a million that take longer", title=group)
            panel.legend()
        figure.savefig(path, dpi=150)


def _slower(row: Row) -> tuple[list[float], list[float]]:
    """Latencies, and how many in a million are larger."""
    left, count = row.durable, max(1, row.durable)
    places, above = [], []
    for high in sorted(row.latencies.buckets):
        left -= row.latencies.buckets[high]
        if left:
            places.append(high / 1e6)
            above.append(1e6 * left / count)
    return places, above
