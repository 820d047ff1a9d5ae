"""Answers that tests ask for again and again, worked out once in each process.

What Beam has found out of the steps of one job, it need not of those of the next. The caches that
the planner and the ledger have hold a plan; tests come in any order, and read hundreds. What tests
of planners and accountants themselves ask is not kept: they see them as they are.
"""

from __future__ import annotations

import bz2
import gc
from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache
from inspect import ismethod
from itertools import count
from types import FunctionType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

_FOR_EVER = ExitStack()
_JOBS = 8
"""A job in so many looks for garbage: all that tests have loaded is looked through each time."""


def remember() -> None:
    """Keep answers from here on."""
    from apache_beam.internal import cloudpickle_pickler, pickler
    from apache_beam.options import pipeline_options
    from apache_beam.typehints import decorators

    from mechanisms.counters import devices
    from mechanisms.heavy_hitters import crowds
    from mechanisms.planner import search
    from mechanisms.privacy import accountant, amplification, budget, sampled_gaussian
    from pipelines.compat import signatures
    from pipelines.jobs import run
    from pipelines.ledger import accounting
    from pipelines.metrics.counting import design as counting
    from pipelines.train import sums

    _FOR_EVER.enter_context(signatures.kept())
    # Where a type hint was written, and steps packed as small as can be: an eighth of a job.
    decorators.traceback = SimpleNamespace(format_stack=lambda limit: [])
    cloudpickle_pickler.bz2 = SimpleNamespace(
        compress=lambda text, compresslevel: bz2.compress(text, 1), decompress=bz2.decompress
    )
    hints: Any = decorators.IOTypeHints
    hints.from_callable = _of_functions(hints.from_callable)
    # Beam makes a formatter of help for each of 500 options of a job, and packs what is empty.
    parser: Any = pipeline_options._BeamArgumentParser
    formatter, whole = parser._get_formatter, pickler.roundtrip
    parser._get_formatter = lambda own: own.__dict__.setdefault("_formatter", formatter(own))
    pickler.roundtrip = lambda step: step if step in ((), {}) else whole(step)
    jobs = count(1)
    run.gc = SimpleNamespace(collect=lambda: next(jobs) % _JOBS or gc.collect())
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


def _of_functions(find: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, found once of a function, and once of it as a method."""
    known: tuple[WeakKeyDictionary[Any, Any], ...] = WeakKeyDictionary(), WeakKeyDictionary()

    def of(called: Any) -> Any:
        bound = ismethod(called)
        function = called.__func__ if bound else called
        if not isinstance(function, FunctionType):
            return find(called)
        if function not in known[bound]:
            known[bound][function] = find(called)
        return known[bound][function]

    return of
