"""How much MLB gains, over log size, threshold, load and drive: a sweep of 1,000 experiments, drawn as small multiples.

    python advantage_of_mlb.py --out advantage                              # on this machine's processors
    python advantage_of_mlb.py --out advantage --workers dask://HOST:PORT

A sequential stream shares the disk with small durable points (16 writes of 4 KiB) and larger ones (4 writes of 48 KiB). Each experiment is compared with
the preset `nolog` of the same drive under the same load, and with the stream alone on the plain disk, which are run beside them. It leaves in the folder
the data set `rows`, a table `advantage.csv`, and `bandwidth.png` and `latency.png`; a sweep that was stopped goes on when it is called again.
"""

import argparse
import csv
import math
from pathlib import Path

import nearhead
from nearhead import theme

KIB, MIB = 1 << 10, 1 << 20
DRIVES = {"15,000 rpm, 146 GB": "st3146855fc", "7,200 rpm, 1 TB": "constellation-es3-1tb", "7,200 rpm, 20 TB": "exos-x20-20tb", "5,400 rpm, 1.4 GB": "st41601n"}
RATES = (1, 2, 4, 8, 16)
LOG_MIB = (0.5, 1.0, 2.0, 5.0, 10.0)
THRESHOLD_KIB = (4, 16, 32, 64, 256)
#: Bytes that the stream goes over; points are behind them.
STREAM_BYTES = 512 * MIB


def load(rate, write):
    """A stream, and so many points of either size a second."""
    behind = (STREAM_BYTES, None)
    return [
        nearhead.Bulk(write=write, span=(0, STREAM_BYTES)),
        nearhead.DurablePoints(rate, writes_per_point=16, write_bytes=4 * KIB, span=behind, seed=1),
        nearhead.DurablePoints(rate, writes_per_point=4, write_bytes=48 * KIB, span=behind, seed=2),
    ]


def loads(rates):
    """By what they are called."""
    return {f"{rate}/s, {'writes' if write else 'reads'}": load(rate, write) for write in (False, True) for rate in rates}


def points(size):
    """The list of the sweep: every combination, and what each is compared with."""
    few = size == "small"
    drives = dict(list(DRIVES.items())[: 2 if few else None])
    asked = loads(RATES[1::2] if few else RATES)
    logs, thresholds = (LOG_MIB[::4], THRESHOLD_KIB[::3]) if few else (LOG_MIB, THRESHOLD_KIB)
    for drive in drives:
        for way in ("reads", "writes"):
            yield {"drive": drive, "load": way, "preset": None, "log_mib": None, "threshold_kib": None}
        for name in asked:
            yield {"drive": drive, "load": name, "preset": "nolog", "log_mib": None, "threshold_kib": None}
            for log_mib in logs:
                for threshold_kib in thresholds:
                    yield {"drive": drive, "load": name, "preset": "mlb", "log_mib": log_mib, "threshold_kib": threshold_kib}


def maker(duration_s):
    """What makes an experiment of a point."""
    disks = {name: nearhead.Disk(profile) for name, profile in DRIVES.items()}
    known = {**loads(RATES), "reads": load(1, False)[:1], "writes": load(1, True)[:1]}

    def experiment(drive, load, preset, log_mib, threshold_kib):
        config = {} if log_mib is None else {"log_bytes": int(log_mib * MIB), "logged_write_bytes_max": threshold_kib * KIB}
        return nearhead.Experiment(disks[drive], preset, known[load], config, ack="durable", warm_up_s=2, duration_s=duration_s)

    return experiment


def advantages(table):
    """Rows of MLB, each with what it keeps more of the disk's bandwidth than the disk without logs, in percent of it, and how many times faster a durable
    point is, if any was durable in the time measured."""
    rows = table.to_pylist()
    others = {(row["drive"], row["load"], row["preset"]): row for row in rows if row["preset"] != "mlb"}

    def waited_ms(row):
        return row["load1_mean_ms"] + row["load2_mean_ms"] if row["load1_requests"] and row["load2_requests"] else None

    for row in rows:
        if row["preset"] != "mlb":
            continue
        without = others[row["drive"], row["load"], "nolog"]
        alone = others[row["drive"], row["load"].split(", ")[1], None]
        more = row["load0_bytes_per_s"] - without["load0_bytes_per_s"]
        waited = waited_ms(row), waited_ms(without)
        yield {
            **{key: row[key] for key in ("drive", "load", "log_mib", "threshold_kib")},
            "bandwidth": 100 * more / alone["load0_bytes_per_s"],
            "latency": waited[1] / waited[0] if all(waited) else None,
        }


def draw(found, what, title, path, is_ratio):
    """Small multiples: a panel for each drive and load, log size against threshold."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.colors import LogNorm, Normalize

    theme.use()
    names = {key: list(dict.fromkeys(row[key] for row in found)) for key in ("drive", "load", "log_mib", "threshold_kib")}
    values = [row[what] for row in found if row[what] is not None]
    norm = (LogNorm if is_ratio else Normalize)(min(values), max(values))
    across, down = len(names["load"]), len(names["drive"])
    figure, panels = pyplot.subplots(down, across, figsize=(1.5 * across + 2.5, 1.7 * down + 1.3), squeeze=False)
    image = None
    for panel_row, drive in zip(panels, names["drive"]):
        for panel, load_name in zip(panel_row, names["load"]):
            place = {(row["log_mib"], row["threshold_kib"]): row[what] for row in found if (row["drive"], row["load"]) == (drive, load_name)}
            place = {key: math.nan if value is None else value for key, value in place.items()}
            cells = [[place[log_mib, threshold] for threshold in names["threshold_kib"]] for log_mib in names["log_mib"]]
            image = panel.imshow(cells, norm=norm, cmap="viridis", origin="lower", aspect="auto")
            panel.set_xticks(range(len(names["threshold_kib"])), names["threshold_kib"], fontsize=6)
            panel.set_yticks(range(len(names["log_mib"])), [f"{log_mib:g}" for log_mib in names["log_mib"]], fontsize=6)
            panel.label_outer()
            panel.grid(False)
            for y, line in enumerate(cells):
                for x, value in enumerate(line):
                    if not math.isnan(value):
                        panel.text(x, y, f"{value:.3g}", ha="center", va="center", fontsize=4.5, color="white" if norm(value) < 0.6 else "black")
        panel_row[0].set_ylabel(f"{drive}\nlog in MiB", fontsize=7)
    for panel, load_name in zip(panels[0], names["load"]):
        panel.set_title(load_name, fontsize=7)
    figure.supxlabel("threshold in KiB, for each number of durable points a second beside a stream", fontsize=8)
    figure.suptitle(title, fontsize=9)
    bar = figure.colorbar(image, ax=panels, shrink=0.6)
    bar.ax.tick_params(which="both", labelsize=7)
    for set_formatter in (bar.ax.yaxis.set_major_formatter, bar.ax.yaxis.set_minor_formatter):
        set_formatter("{x:g}")
    figure.savefig(path, dpi=170)
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description="MLB's advantage over log size, threshold, load and drive")
    parser.add_argument("--out", type=Path, default=Path("advantage"), help="folder of the data set and the drawings")
    parser.add_argument("--workers", default="local", help='"local", "local:COUNT", "dask://HOST:PORT" or "ray://HOST:PORT"')
    parser.add_argument("--size", choices=("full", "small"), default="full", help="1,000 experiments, or 16 that show that it runs")
    parser.add_argument("--seconds", type=float, default=30, help="measured virtual time of each")
    asked = parser.parse_args()
    swept = nearhead.sweep(points(asked.size), asked.workers, out=asked.out / "rows", experiment=maker(asked.seconds))
    print(swept.summary())
    found = list(advantages(swept.to_arrow()))
    with open(asked.out / "advantage.csv", "w", newline="") as file:
        table = csv.DictWriter(file, found[0])
        table.writeheader()
        table.writerows(found)
    draw(found, "bandwidth", "What the stream keeps of the disk's bandwidth beyond what it keeps without logs, in percent of it", asked.out / "bandwidth.png", False)
    draw(found, "latency", "How many times faster points are durable than without logs", asked.out / "latency.png", True)
    for what, told in (("bandwidth", "% more of the disk's bandwidth"), ("latency", "times as fast")):
        values = sorted(row[what] for row in found if row[what] is not None)
        print(f"{what}: {values[0]:.2f} to {values[-1]:.2f} {told}, median {values[len(values) // 2]:.2f}, of {len(values)} experiments")


if __name__ == "__main__":
    main()
