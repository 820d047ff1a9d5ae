"""Answers that tests ask for again and again, worked out once in each process.

What Beam has found out of the steps of one job, it need not of those of the next. The caches that
the planner and the ledger have hold a plan; tests come in any order, and read hundreds. What tests
of planners and accountants themselves ask is not kept: they see them as they are.
"""

from __future__ import annotations

import bz2
from contextlib import ExitStack
from functools import lru_cache
from types import SimpleNamespace

_FOR_EVER = ExitStack()


def remember() -> None:
    """Keep answers from here on."""
    from apache_beam.internal import cloudpickle_pickler
    from apache_beam.typehints import decorators

    from mechanisms.counters import devices
    from mechanisms.heavy_hitters import crowds
    from mechanisms.planner import search
    from mechanisms.privacy import accountant, amplification, budget, sampled_gaussian
    from pipelines.compat import signatures
    from pipelines.ledger import accounting
    from pipelines.metrics.counting import design as counting
    from pipelines.train import sums

    _FOR_EVER.enter_context(signatures.kept())
    # Where a type hint was written, and steps packed as small as can be: an eighth of a job.
    decorators.traceback = SimpleNamespace(format_stack=lambda limit: [])
    cloudpickle_pickler.bz2 = SimpleNamespace(
        compress=lambda text, compresslevel: bz2.compress(text, 1), decompress=bz2.decompress
    )
    # Functions of their arguments alone: a seventh of what tests of jobs take was asked again.
    for module, name, most in (
        (search, "_search", 4096), (accounting, "_joint", 4096), (crowds, "_least_threshold", 4096),
        (amplification, "shuffled_epsilon", 4096), (budget, "_most_delta", 4096),
        (devices, "_poisson", 4096), (sums, "_made", 256),
        (counting, "_least_error", 512),
        # Whole distributions, of a megabyte or two.
        (accountant, "_sum", 32), (sampled_gaussian, "_by_distribution", 32),
    ):  # fmt: skip
        asked = getattr(module, name)
        setattr(module, name, lru_cache(most)(getattr(asked, "__wrapped__", asked)))
