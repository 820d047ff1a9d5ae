"""Answers that tests ask for again and again, worked out once in each process.

What Beam has found out of the steps of one job, it need not of those of the next. The caches that
the planner and the ledger have hold a plan; tests come in any order, and read hundreds. What tests
of planners and accountants themselves ask is not kept: they see them as they are.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import lru_cache

_FOR_EVER = ExitStack()


def remember() -> None:
    """Keep answers from here on."""
    from mechanisms.heavy_hitters import crowds
    from mechanisms.planner import search
    from pipelines import signatures
    from pipelines.ledger import accounting

    _FOR_EVER.enter_context(signatures.kept())
    for module, name in (
        (search, "_search"), (accounting, "_joint"), (crowds, "_least_threshold"),
    ):  # fmt: skip
        setattr(module, name, lru_cache(maxsize=4096)(getattr(module, name).__wrapped__))
