"""How charts about Nearhead look in matplotlib and in Plotly: one thing has one colour in both.

    from nearhead import theme

    theme.use()
    colours = theme.colours(["bare disk", "mlb", "nearhead"])
    axes.plot(at_s, latency_ms, color=colours["mlb"])

`import nearhead` leaves this module alone, and it imports either library no earlier than in `use`; `pip install nearhead[notebooks]` gets both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._columns import missing
from ._native import Error

__all__ = ["COLOURS", "colours", "settings", "use"]

#: Told apart in any kind of colour vision (Okabe and Ito's palette). Those come first that are least taken for a preset's, and neighbours are unlike each
#: other as dots, too.
COLOURS = ("#009E73", "#CC79A7", "#0072B2", "#E69F00", "#56B4E9", "#5A5A5A", "#D55E00", "#F0E442")

#: What has its colour wherever it is drawn.
_FIXED = {
    "nearhead": "#D55E00",
    "singlelog": "#E69F00",
    "mlb": "#0072B2",
    "mlb-256": "#56B4E9",
    "bare disk": "#5A5A5A",
    "nolog": "#CC79A7",
}

_GREY, _INK = "#D9D9D9", "#262626"


def colours(names: Iterable[str]) -> dict[str, str]:
    """The colour of each name: of presets and of "bare disk" always the same, of others what the names at hand leave, in order. Eight names at most."""
    if isinstance(names, str):
        raise Error(f"theme: expected several names, found the text {names!r}")
    wanted = list(dict.fromkeys(names))
    if len(wanted) > len(COLOURS):
        raise Error(f"theme: expected at most {len(COLOURS)} names to tell apart by colour, found {len(wanted)}; draw several charts")
    taken = {_FIXED[name] for name in wanted if name in _FIXED}
    left = iter([colour for colour in COLOURS if colour not in taken])
    return {name: _FIXED[name] if name in _FIXED else next(left) for name in wanted}


def use() -> None:
    """Makes matplotlib and Plotly draw so from here on, whichever of them is installed. Charts of Plotly are handed to whoever shows the notebook as data,
    so that nothing is loaded from elsewhere."""
    if not any([_matplotlib(), _plotly()]):
        raise missing("matplotlib or plotly", "theme")


def settings() -> Any:
    """What `use` sets in matplotlib, by the names of its matplotlibrc; for one chart alone: `with matplotlib.rc_context(theme.settings()):`."""
    try:
        from cycler import cycler
    except ImportError:
        raise missing("matplotlib", "theme") from None
    return {
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.edgecolor": _INK,
        "axes.labelcolor": _INK,
        "axes.titlelocation": "left",
        "axes.titlesize": 11,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": _GREY,
        "grid.linewidth": 0.6,
        "lines.linewidth": 1.8,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "figure.figsize": (9.0, 3.6),
        "figure.constrained_layout.use": True,
        "figure.dpi": 100,
        "font.size": 10,
    }


def _matplotlib() -> bool:
    try:
        from matplotlib import rcParams
    except ImportError:
        return False
    rcParams.update(settings())
    return True


def _plotly() -> bool:
    try:
        from plotly import graph_objects, io
    except ImportError:
        return False
    axis = {"gridcolor": _GREY, "linecolor": _INK, "showline": True, "ticks": "outside", "zeroline": False, "automargin": True, "title": {"standoff": 8}}
    io.templates["nearhead"] = graph_objects.layout.Template(
        layout={
            "colorway": COLOURS,
            "font": {"color": _INK, "size": 13},
            "title": {"x": 0, "xref": "paper"},
            "paper_bgcolor": "#FFFFFF",
            "plot_bgcolor": "#FFFFFF",
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"title": {"text": ""}},
            "margin": {"l": 60, "r": 20, "t": 50, "b": 50},
            "height": 380,
        }
    )
    io.templates.default = "nearhead"
    io.renderers.default = "plotly_mimetype"
    return True
