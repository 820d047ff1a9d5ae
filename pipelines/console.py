"""What a person sees while a job runs, and when it has finished."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from apache_beam.metrics import MetricsFilter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mechanisms.channel import Guarantee
from pipelines.report import OTHER_LABEL
from transforms.progress import NAMESPACE, REPORTS, ROWS, live

_EVERY = 0.2  # seconds between two looks at the counters


def counters(result: Any) -> dict[str, int]:
    """hushbeam's counters of a Beam result, as far as its runner has reported them."""
    found = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    return {entry.key.metric.name: int(entry.result or 0) for entry in found}


@contextmanager
def progress(console: Console, rows: int) -> Iterator[Callable[[Any], None]]:
    """A line that follows a job: rows read, reports, rejects.

    Args:
        console: where to draw; nothing is drawn unless it is a terminal.
        rows: how many rows will be read.

    Yields:
        A function that takes the job's Beam result once there is one, to be polled for counters.
    """
    columns = (
        TextColumn("rows"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[said]}"),
        TimeElapsedColumn(),
    )  # fmt: skip
    results: list[Any] = []
    stop = threading.Event()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("rows", total=rows, said="starting")

        def look() -> None:
            counted = live() or (counters(results[0]) if results else {})
            read, reports = counted.get(ROWS, 0), counted.get(REPORTS, 0)
            rejected = {k: v for k, v in counted.items() if k not in (ROWS, REPORTS)}
            said = f"{reports:,} reports" + "".join(f", {v:,} {k}" for k, v in rejected.items())
            bar.update(task, completed=read, said=said if counted else "starting")

        def watch() -> None:
            while not stop.wait(_EVERY):
                look()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield results.append
        finally:
            stop.set()
            watcher.join()


def show_top(console: Console, table: pa.Table, rows: int, confidence: float) -> None:
    """The largest estimates, as a table."""
    shown = Table(title=f"the {min(rows, len(table))} largest of {len(table):,} values")
    shown.add_column("value")
    for heading in ("share %", "± s.e.", f"{100 * confidence:.4g} % interval"):
        shown.add_column(heading, justify="right")
    order = table.sort_by([("estimate", "descending"), ("unbiased", "descending")])
    for row in order.slice(0, rows).to_pylist():
        shown.add_row(
            OTHER_LABEL if row["value"] is None else str(row["value"]),
            f"{100 * row['estimate']:.3f}",
            f"{100 * row['standard_error']:.3f}",
            f"{100 * row['lower']:.3f} to {100 * row['upper']:.3f}",
        )
    console.print(shown)


def one_line(guarantee: Guarantee) -> str:
    """A guarantee as people quote it.

    >>> one_line(Guarantee("local", 1.0, 0.0, "row", "enumeration"))
    'local: epsilon 1, delta 0, per row'
    """
    return (
        f"{guarantee.model}: epsilon {guarantee.epsilon:.4g}, delta {guarantee.delta:g}, "
        f"per {guarantee.unit}"
    )
