"""The main job on a real log, and what it published beside the truth that it hides.

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


def demo() -> int:
    """Publish, then compare."""
    started, screen = time.perf_counter(), Console()
    folder = vacant()
    arguments = [
        "histogram",
        *("--input", str(LOG), "--column", "destination", "--domain", str(DOMAIN)),
        *("--out-of-domain", "other", "--epsilon", "1", "--delta", "1e-6"),
        *("--output", str(folder)),
    ]
    screen.print("$ hushbeam " + " ".join(arguments), highlight=False, soft_wrap=True)
    code = subprocess.run(
        [sys.executable, "-m", "pipelines.cli.cli", *arguments], check=False
    ).returncode
    if code:
        return code
    published = pq.ParquetFile(folder / "histogram.parquet").read()
    shares = truth()
    table = Table(title="what was published, beside the truth that stays hidden")
    table.add_column("destination")
    for heading in ("published %", "truth %", "off by", "± s.e."):
        table.add_column(heading, justify="right")
    for row in published.sort_by([("estimate", "descending")]).slice(0, 12).to_pylist():
        label = OTHER if row["value"] is None else row["value"]
        true = shares.get(label, 0.0)
        table.add_row(
            label,
            *(f"{100 * x:.3f}" for x in (row["estimate"], true)),
            f"{100 * (row['estimate'] - true):+.3f}",
            f"{100 * row['standard_error']:.3f}",
        )
    screen.print(table)
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
