"""Two roads over a real log, and what each published beside the truth that it hides.

By default the job draws the noise. On the papers' road every report is randomised by itself, goes
through the shuffler, and the collector counts.

Run by `make demo`. Only a demonstration may look at the truth: it reads the log that the job
read, which no one who holds just the release can do.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from pipelines.views.headline import OTHER

HERE = Path(os.path.relpath(Path(__file__).parent))
LOG = HERE / "flights.parquet"
DOMAIN = HERE / "airports.txt"


def vacant() -> Path:
    """The first folder that holds no release yet: a release is never overwritten."""
    folders = (HERE / f"release-{number}" for number in range(1, 1 << 20))
    return next(folder for folder in folders if not folder.exists())


def truth() -> dict[str, float]:
    """The shares that the release estimates, counted from the raw log."""
    destinations = pq.ParquetFile(LOG).read(["destination"])["destination"].cast("string")
    declared = set(DOMAIN.read_text().split())
    shares: dict[str, float] = {}
    for entry in pc.value_counts(destinations).to_pylist():
        label = entry["values"] if entry["values"] in declared else OTHER
        shares[label] = shares.get(label, 0.0) + entry["counts"] / len(destinations)
    return shares


ROADS = {
    "the job": (),
    "each report": ("--drawn-by", "each-report"),
}
"""Who draws the noise -> what says so; the first is the default, the second the papers' road."""


def published(said: tuple[str, ...], screen: Console) -> Path:
    """A release of the log; its folder.

    Raises:
        CalledProcessError: the command failed, and has said why.
    """
    folder = vacant()
    arguments = [
        "histogram",
        *("--input", str(LOG), "--column", "destination", "--domain", str(DOMAIN)),
        *("--out-of-domain", "other", *said, "--epsilon", "1", "--delta", "1e-6"),
        *("--output", str(folder)),
    ]
    screen.print("$ hushbeam " + " ".join(arguments), highlight=False, soft_wrap=True)
    subprocess.run([sys.executable, "-m", "pipelines.cli.cli", *arguments], check=True)
    return folder


def demo() -> int:
    """Publish twice, then compare."""
    started, screen = time.perf_counter(), Console()
    folders = [published(said, screen) for said in ROADS.values()]
    tables = [pq.ParquetFile(folder / "histogram.parquet").read() for folder in folders]
    releases = [{row["value"]: row for row in table.to_pylist()} for table in tables]
    shares = truth()
    title = "per cent of the departures, published with noise of the job or of each report"
    table = Table(title=f"{title},\nbeside the truth that stays hidden")
    table.add_column("to")
    table.add_column("truth", justify="right")
    for road in ROADS:
        for heading in (road, "off by", "± s.e."):
            table.add_column(heading, justify="right")
    most = sorted(releases[0].values(), key=lambda row: -row["estimate"])
    for value in [row["value"] for row in most[:12]]:
        true = shares.get(OTHER if value is None else value, 0.0)
        cells = [f"{100 * true:.4f}"]
        for release in releases:
            found = release[value]
            cells.append(f"{100 * found['estimate']:.4f}")
            cells.append(f"{100 * (found['estimate'] - true):+.4f}")
            cells.append(f"{100 * found['standard_error']:.4f}")
        table.add_row(OTHER if value is None else value, *cells)
    screen.print(table)
    folder = folders[0]
    site = folder.with_name("site")
    words = ["site", *map(str, sorted(HERE.glob("release-*"))), "--output", str(site)]
    subprocess.run([sys.executable, "-m", "pipelines.cli.cli", *words], check=True)
    for what, place in (("the page to read", folder / "report.html"), ("all releases", site)):
        index = "/index.html" if place == site else ""
        screen.print(f"{what}: {place}{index}", highlight=False, soft_wrap=True)
    screen.print(f"start to finish: {time.perf_counter() - started:.1f} s", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(demo())
