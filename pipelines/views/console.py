"""What a person sees while a job runs, and when it has finished."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from pipelines.errors import Notice
from transforms.elements.progress import (
    CHANGED,
    DIVERGED,
    LOST,
    NAMESPACE,
    REPORTS,
    ROWS,
    SETTLED,
    WITHHELD,
    live,
)

_NO_REJECTS = (ROWS, REPORTS, WITHHELD, CHANGED, DIVERGED, SETTLED, LOST)
_EVERY, _EVERY_REMOTE = 0.2, 5.0  # seconds between two looks at the counters
_BEAT = 60.0  # seconds between two lines where no terminal is


class Screen(Console):
    """A console that does not mind when its reader has seen enough, as in `hushbeam ... | head`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(emoji=False, **options)  # a value may be called :boom:

    def on_broken_pipe(self) -> None:
        """Say no more; the exit code is that of the job."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def print(self, *objects: Any, **options: Any) -> None:
        """Show what can be shown: a full disk behind stdout denies no release."""
        try:
            super().print(*objects, **options)
        except OSError:
            self.on_broken_pipe()

    def say(self, line: str) -> None:
        """Show a line as it is: nothing in it is markup, and no screen breaks it."""
        self.print(line, highlight=False, markup=False, soft_wrap=True)


def counted_of(number: int, what: str) -> str:
    """A number of something, whose plural ends with an s.

    >>> counted_of(1, "report"), counted_of(2000, "report")
    ('1 report', '2,000 reports')
    """
    return f"{number:,} {what}{'s' * (number != 1)}"


def counters(result: Any) -> dict[str, int]:
    """hushbeam's counters of a Beam result, as far as its runner has reported them."""
    # Beam takes a second to import: who shows a ledger need not wait.
    from apache_beam.metrics import MetricsFilter

    counted = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    totals: Counter[str] = Counter()  # a name is counted by every step that has it
    for entry in counted:
        totals[entry.key.metric.name] += int(entry.result or 0)
    return dict(totals)


def rejects(counted: Mapping[str, int]) -> dict[str, int]:
    """Among the counters, how many rows could not be used, by reason."""
    return {name: n for name, n in counted.items() if name not in _NO_REJECTS}


@contextmanager
def progress(console: Console, rows: int | None) -> Iterator[Callable[[Any], None]]:
    """A line that follows a job: rows read, reports, rejects.

    Where noise hides who takes part it shows no number: terminals are recorded, and read by others.

    Args:
        console: where to draw; unless it is a terminal, there is a line a minute on stderr, by
            which a log shows that the job is alive.
        rows: how many rows will be read; None where nobody is to learn that.

    Yields:
        A function that takes the job's Beam result once there is one, to be polled for counters.
    """
    hidden = rows is None
    numbers = () if hidden else (MofNCompleteColumn(), TextColumn("{task.fields[said]}"))
    columns = TextColumn("rows"), BarColumn(), *numbers, TimeElapsedColumn()
    results: list[Any] = []
    if not console.is_terminal:
        with _meanwhile(_BEAT, lambda seconds: _beat(seconds, rows, results)):
            yield results.append
        return
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("rows", total=rows, said="starting")
        if hidden:
            yield results.append
            return

        def look(_: float) -> None:
            counted = _counted(results)
            said = f"{counted.get(REPORTS, 0):,} reports"
            said += "".join(f", {n:,} {name}" for name, n in rejects(counted).items())
            bar.update(task, completed=counted.get(ROWS, 0), said=said if counted else "starting")

        with _meanwhile(lambda: _EVERY if live() or not results else _EVERY_REMOTE, look):
            yield results.append


def _counted(results: Sequence[Any]) -> dict[str, int]:
    return live() or (counters(results[0]) if results else {})


def _beat(seconds: float, rows: int | None, results: Sequence[Any]) -> None:
    """A line of a job that nobody watches."""
    line = f"at work for {seconds / 60:.0f} min"
    if rows is not None and (counted := _counted(results)):
        line += f": {counted.get(ROWS, 0):,} of {rows:,} rows, {counted.get(REPORTS, 0):,} reports"
    warnings.warn(line, Notice, stacklevel=1)


@contextmanager
def _meanwhile(every: float | Callable[[], float], look: Callable[[float], None]) -> Iterator[None]:
    """Look at a job again and again, from a thread beside it."""
    stop, begun = threading.Event(), time.monotonic()

    def watch() -> None:
        while not stop.wait(every() if callable(every) else every):
            # What a remote runner cannot say now it may say at the next look.
            with suppress(Exception):
                look(time.monotonic() - begun)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        stop.set()
        watcher.join()


def numbers_table(names: Sequence[str], numbers: Sequence[str], title: str | None = None) -> Table:
    """An empty table; where a screen is narrow its cells take more lines, and lose nothing.

    Args:
        names: headings of the columns to the left.
        numbers: headings of the columns after them.
        title: above it.
    """
    table = Table(title=title)
    for heading in names:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right", overflow="fold")
    return table
