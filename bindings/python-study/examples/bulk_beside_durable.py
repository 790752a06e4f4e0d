"""How much bulk may be on the disk beside durable writes? An admission in Python with two parameters, swept on two drives.

    python bulk_beside_durable.py --out bulk                                # on this machine's processors
    python bulk_beside_durable.py --out bulk --workers dask://HOST:PORT

The policy is `bounded_bulk.py`: so many bytes of bulk on the disk at most, and bulk gives way to durable writes for so long. A stream of large writes shares the
disk with durable points. Policies go to workers by value, so those of a cluster need neither file. It leaves in the folder the data set `rows` and
`bulk.png`; a sweep that was stopped goes on when it is called again.
"""

import argparse
from pathlib import Path

import nearhead
from bounded_bulk import BoundedBulk
from nearhead import theme

DRIVES = {"15,000 rpm, 146 GB": "st3146855fc", "7,200 rpm, 1 TB": "constellation-es3-1tb"}
BULK_KIB = (128, 256, 512, 1024, 2048, 4096)
WAITS_MS = (0, 50, 200)


def points(bulk_kib, waits_ms):
    """The list of the sweep; of each drive the first is as the preset has it."""
    for drive in DRIVES:
        yield {"drive": drive, "bulk_kib": None, "waits_ms": None}
        for waits in waits_ms:
            for kib in bulk_kib:
                yield {"drive": drive, "bulk_kib": kib, "waits_ms": waits}


def maker(duration_s):
    """What makes an experiment of a point."""
    disks = {name: nearhead.Disk(profile) for name, profile in DRIVES.items()}
    stream = nearhead.Bulk(write=True, span=(0, 1 << 30), outstanding_max=8)
    commits = nearhead.DurablePoints(8, writes_per_point=4, span=(1 << 30, None))

    def experiment(drive, bulk_kib, waits_ms):
        admission = None if bulk_kib is None else BoundedBulk(bulk_kib << 10, waits_ms)
        return nearhead.Experiment(disks[drive], "mlb", [stream, commits], ack="durable", warm_up_s=2, duration_s=duration_s, admission=admission)

    return experiment


def draw(rows, path):
    """A column for each drive: what the stream gets and what points wait for, over the bound."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    theme.use()
    waits = list(dict.fromkeys(row["waits_ms"] for row in rows if row["waits_ms"] is not None))
    names = {wait: f"gives way for {wait} ms" if wait else "never gives way" for wait in waits}
    colours = theme.colours(["mlb", *names.values()])
    shown = [("load0_bytes_per_s", 1e6, "stream, MB/s"), ("load1_p99_ms", 1, "durable points, p99 in ms")]
    figure, panels = pyplot.subplots(len(shown), len(DRIVES), figsize=(9, 5.4), sharex=True)
    for column, drive in zip(panels.T, DRIVES):
        ours = [row for row in rows if row["drive"] == drive]
        preset = next(row for row in ours if row["bulk_kib"] is None)
        for panel, (what, unit, label) in zip(column, shown):
            panel.axhline(preset[what] / unit, color=colours["mlb"], linestyle="--", label="mlb by itself")
            for wait, name in names.items():
                line = [row for row in ours if row["waits_ms"] == wait]
                panel.plot([row["bulk_kib"] for row in line], [row[what] / unit for row in line], marker="o", color=colours[name], label=name)
            panel.set(xscale="log", ylim=(0, None), ylabel=label)
        column[0].set_title(drive)
        column[-1].set_xlabel("bulk on the disk at most, KiB")
        column[-1].set_xticks(sorted({row["bulk_kib"] for row in ours} - {None}), minor=False)
        column[-1].xaxis.set_major_formatter("{x:g}")
        column[-1].minorticks_off()
    figure.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(names) + 1)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def main():
    parser = argparse.ArgumentParser(description="durable writes beside bulk, over two bounds of an admission in Python")
    parser.add_argument("--out", type=Path, default=Path("bulk"), help="folder of the data set and the drawing")
    parser.add_argument("--workers", default="local", help='"local", "local:COUNT", "dask://HOST:PORT" or "ray://HOST:PORT"')
    parser.add_argument("--size", choices=("full", "small"), default="full", help="38 experiments, or 6 that show that it runs")
    parser.add_argument("--seconds", type=float, default=30, help="measured virtual time of each")
    asked = parser.parse_args()
    few = asked.size == "small"
    grid = points(BULK_KIB[::5] if few else BULK_KIB, WAITS_MS[1:2] if few else WAITS_MS)
    swept = nearhead.sweep(grid, asked.workers, out=asked.out / "rows", experiment=maker(asked.seconds))
    print(swept.summary())
    rows = swept.to_arrow().to_pylist()
    draw(rows, asked.out / "bulk.png")
    for row in rows:
        bound = "mlb by itself" if row["bulk_kib"] is None else f"{row['bulk_kib']} KiB, {row['waits_ms']} ms"
        print(f"{row['drive']}, {bound}: {row['load0_bytes_per_s'] / 1e6:.1f} MB/s, p99 {row['load1_p99_ms']:.1f} ms")


if __name__ == "__main__":
    main()
