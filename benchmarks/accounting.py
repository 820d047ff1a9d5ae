"""The shuffle accountant: seconds per question, width of its bracket, and error at a target."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.measure import DATA, seconds
from mechanisms.counters.design import Counters
from mechanisms.counters.levels import Level
from mechanisms.frequency.hash_budget import best_histogram
from mechanisms.frequency.linear_hash import LinearHash
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.task import FrequencyTask
from mechanisms.papers.basic_rappor import symmetric
from mechanisms.planner.search import designs, least_epsilon, least_reports, search
from mechanisms.privacy.accountant import compose
from mechanisms.privacy.amplification import shuffled_delta, shuffled_epsilon
from mechanisms.privacy.loss import PrivacyLoss
from mechanisms.targets.rules import Target

CASES = [
    (10**6, 4.0, 100),
    (10**6, 8.0, 1000),
    (10**9, 8.0, 1000),
    (10**9, 12.0, 42_178),
    (10**12, 8.0, 1000),
]

_RELEASE = PrivacyLoss.from_channel(LinearHash(1.0, 20, 20))


def main() -> None:
    """Print the three tables."""
    screen = Console(width=150)
    screen.print(_queries())
    screen.print(_commands())
    anchors = DATA.parent / "anchors.json"
    if anchors.exists():
        screen.print(_anchors(json.loads(anchors.read_text())))


def _queries() -> Table:
    table = Table(title="one question on one core, CPU seconds (delta 1e-6)")
    for heading in ("n", "mechanism", "epsilon", "width %", "epsilon s", "delta s", "inverse s"):
        table.add_column(heading, justify="right")
    for n, local, d in CASES:
        for p in (d, 2 if d < 1000 else 31):
            mechanism = LinearHash(local, d, p)
            lower, upper = shuffled_epsilon(mechanism, n, 1e-6)
            table.add_row(
                f"{n:.0e}", f"p = {p}, d = {d}, local {local:g}", f"{upper:.5f}",
                f"{100 * (upper / lower - 1):.3f}",
                f"{seconds(partial(shuffled_epsilon, mechanism, n, 1e-6), 3):.3f}",
                f"{seconds(partial(shuffled_delta, mechanism, n, upper), 3):.3f}",
                f"{seconds(partial(best_histogram, 0.5, 1e-6, n, d), 3):.3f}",
            )  # fmt: skip
    return table


def _commands() -> Table:
    table = Table(title="planner and composition, wall seconds")
    table.add_column("question")
    table.add_column("s", justify="right")
    target = Target("shuffle", 0.5, 1e-6, 1_000_000, FrequencyTask(42_178))
    questions: dict[str, Callable[[], object]] = {
        "compare all mechanisms": lambda: [d.release for d in designs(target)],
        "least epsilon for an error": lambda: least_epsilon(target, 1e-4).release,
        "fewest reports for an error": lambda: least_reports(target, 1e-4).release,
        "sue, 10^10 users": lambda: shuffled_epsilon(symmetric(1.0, 1000), 10**10, 1e-6),
        "count, epsilon 30": lambda: Counters.meeting([Level(1, 1)], "replace", 30.0, 1e-6),
        "compose 1,000 releases": lambda: compose({_RELEASE: 1000}).epsilon(1e-6),
    }
    for name, ask in questions.items():
        started = time.perf_counter()
        ask()
        table.add_row(name, f"{time.perf_counter() - started:.2f}")
    return table


def _anchors(anchors: dict[str, list[dict[str, Any]]]) -> Table:
    """Every reference row: the best published single-message error at the same guarantee."""
    table = Table(title="predicted error over reference error, and the bracket's width")
    for heading in ("data", "epsilon", "delta", "ours", "reference", "ratio", "width %"):
        table.add_column(heading, justify="right")
    hashed = {
        (row["data"], row["eps_c"], row["delta"]): row["mse"]
        for row in anchors["solh_blanket_best_g"]
    }
    for row in anchors["shuffle_histogram"]:
        n, d, delta, epsilon = row["n"], row["d"], row["delta"], row["eps_c"]
        design = search(Target("shuffle", epsilon, delta, n, FrequencyTask(d)))
        options = (row["SH_tight"], hashed.get((row["data"], epsilon, delta)))
        reference = min(option for option in options if option is not None)
        if not isinstance(design.mechanism, FrequencyOracle):
            raise SystemExit(f"{design.name} sends no reports")
        lower, upper = shuffled_epsilon(design.mechanism, n, delta)
        table.add_row(
            str(row["data"]), f"{epsilon:g}", f"{delta:g}", f"{design.error:.3g}",
            f"{reference:.3g}", f"{design.error / reference:.4f}",
            f"{100 * (upper / lower - 1):.3f}",
        )  # fmt: skip
    return table
