"""The wire: how fast reports are read, sealed, opened, freed of duplicates, and memoised.

Opening has a target, 8,000 a second on a core, which is printed beside what was measured. Threads
and processes stand side by side because the library decides which of them help.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from rich.console import Console
from rich.table import Table

from benchmarks.measure import seconds
from mechanisms.catalog import build
from mechanisms.memoised import MemoisedClient
from mechanisms.randomness import SeededRandom
from mechanisms.wire import binary
from mechanisms.wire.report import Form, Reports
from mechanisms.wire.screening import Expected, merged
from mechanisms.wire.sealing import KeyRing, seal
from transforms.reports import report_tables
from transforms.reports.duplicates import distinct, drawn
from transforms.reports.reports import ParquetSink

PLAN = bytes(16)
OPENED_A_SECOND = 8000

_MANY, _SEALED, _WORKERS = 2_000_000, 8_000, 2
_KEY = X25519PrivateKey.from_private_bytes(bytes(range(32)))


def main() -> None:
    """One row for each step."""
    table = Table(title="the wire, reports a second")
    for heading in ("step", "of CPU time on one core", "wall, 2 threads", "wall, 2 processes"):
        table.add_column(heading, justify="left" if heading == "step" else "right")
    for name, size, step in _plain():
        table.add_row(name, f"{size / seconds(step, 3):,.0f}")
    reports, public = _reports(_SEALED), _KEY.public_key()
    table.add_row("seal", f"{_SEALED / seconds(lambda: seal(reports, public), 3):,.0f}")
    sealed = seal(reports, public)
    opened = _SEALED / seconds(lambda: _open(sealed), 3)
    processes = ProcessPoolExecutor(_WORKERS, get_context("spawn"))
    table.add_row(
        f"open (target {OPENED_A_SECOND:,})",
        f"{opened:,.0f}",
        f"{_together(ThreadPoolExecutor(_WORKERS), sealed):,.0f}",
        f"{_together(processes, sealed):,.0f}",
    )
    Console(width=120).print(table)


def _reports(size: int) -> Reports:
    """Submitted reports of one metric."""
    return Reports.submitted(PLAN, 0, SeededRandom(1).integers(1000, size), SeededRandom(2))


def _plain() -> list[tuple[str, int, Callable[[], object]]]:
    """The steps that no key is needed for: name, how many reports, what to time."""
    reports = _reports(_MANY)
    expected = Expected(PLAN, (build("grr", epsilon=1.0, domain_size=1000),), Form())
    data, parquet = binary.encode(reports), _written(reports)
    twice = Reports(PLAN, Form(), np.concatenate([reports.records[:500_000]] * 2))
    doubled = drawn(twice, SeededRandom(3))
    wide = build("olh", epsilon=1.0, domain_size=1 << 20)
    client = MemoisedClient(bytes(32), PLAN, 0, wide)
    few, many = np.arange(1_000_000) % 30, np.arange(20_000)
    return [
        ("write binary", _MANY, lambda: binary.encode(reports)),
        ("read binary", _MANY, lambda: binary.decode(data, expected)),
        ("write Parquet, in order", _MANY, lambda: _written(reports)),
        ("read Parquet", _MANY, lambda: merged(expected, report_tables.read(parquet, expected))),
        ("drop duplicates, half of all", doubled.size, lambda: distinct(doubled)),
        ("memoised, 30 distinct values", few.size, lambda: client.report(few)),
        ("memoised, all values distinct", many.size, lambda: client.report(many)),
    ]


def _written(reports: Reports) -> io.BytesIO:
    """A Parquet file."""
    file, sink = io.BytesIO(), ParquetSink(reports.form, PLAN)
    sink.open(file)
    sink.write(reports)
    sink.flush()
    return file


def _open(sealed: Reports) -> int:
    """How many seals open."""
    return len(KeyRing([_KEY]).open(sealed).reports)


def _together(workers: Executor, sealed: Reports) -> float:
    """Seals opened in a second of wall time by several workers."""
    with workers:
        list(workers.map(_open, [sealed] * _WORKERS))
        start = time.perf_counter()
        opened = sum(workers.map(_open, [sealed] * 2 * _WORKERS))
        return opened / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
