"""Every kind by the job, beside a trusted collector with the same bounds and the same price.

The collector is this file's own: it adds discrete Laplace or analytic Gaussian noise, whichever
errs less, to totals that it knows exactly. Errors are exact standard deviations, and no run's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy
from rich.console import Console
from rich.table import Table

from mechanisms.channel import Floats
from mechanisms.counters.tree import Tree
from mechanisms.learning.features import Features
from mechanisms.learning.logistic_rounds import logistic_for
from mechanisms.learning.products import products_for
from mechanisms.privacy.search import gaussian_mu
from pipelines.logs.inputs import ALONE
from pipelines.metrics import registry
from pipelines.metrics.resolving import resolve
from pipelines.request.requests import request

EPSILON, DELTA, PEOPLE = 1.0, 1e-6, 1_000_000
MOST = 1.1
"""Times the collector's error, that a kind may err."""

_EXAMPLES = Path(__file__).parent.parent / "examples"
_FLIGHTS = str(_EXAMPLES / "flights.parquet")
_USERS = {"user_column": "tail_number"}
_CARRIERS = str(_EXAMPLES / "carriers.txt")
_FEATURES = Features((("a", -1.0, 1.0), ("b", 0.0, 2.0)), (("k", ("x", "y", "z")),))


class Kind(NamedTuple):
    """A figure of a kind.

    Attributes:
        figure: of what.
        error: of the job.
        collector: that of the collector.
    """

    figure: str
    error: float
    collector: float

    @property
    def ratio(self) -> float:
        """How many times the job errs."""
        return self.error / self.collector


# ---- the collector ---------------------------------------------------------------------------


def laplace(moves: float, epsilon: float = EPSILON) -> float:
    """The standard deviation of discrete Laplace noise on totals of integers, of an L1 move."""
    a = math.exp(-epsilon / moves)
    return math.sqrt(2 * a) / -math.expm1(-epsilon / moves)


def gaussian(move: float) -> float:
    """The standard deviation of the analytic Gaussian mechanism, of an L2 move."""
    return move / gaussian_mu(EPSILON, DELTA)


def best(groups: int, size: float = 1.0) -> float:
    """The better one, of a unit that moves so many totals by so much each."""
    return min(laplace(groups) * size, gaussian(math.sqrt(groups)) * size)


def quotient(total: Callable[[float], float], count: Callable[[float], float]) -> float:
    """A mean's error half way from the middle of its bounds, at the best share of the budget."""
    shares = np.linspace(0.01, 0.99, 99)
    return min(math.hypot(total(1 - s), 0.5 * count(s)) for s in shares.tolist()) / PEOPLE


def mean(groups: int) -> float:
    """Of means of so many groups of a unit: of sums in halves of the range, and counts."""

    def spent(share: float) -> float:
        return laplace(groups, share * EPSILON)

    def squared(share: float) -> float:
        return gaussian(math.sqrt(groups / share))

    return min(quotient(law, law) for law in (spent, squared))


def moments() -> float:
    """Of a standard deviation and a mean together, of numbers that are spread evenly.

    A number has three totals, by Bernstein's polynomials of degree 2: they add up to 1. Squares are
    the outer two less the middle one, and people are all three.
    """
    noise, even = math.sqrt(2) / EPSILON / PEOPLE, 1 / 3
    variance = math.sqrt(2 * (1 - even) ** 2 + (1 + even) ** 2)
    return noise * math.hypot(variance / (2 * math.sqrt(even)), math.sqrt(2))


def prefixes(bins: int) -> float:
    """Of shares below the ends of bins, on average: by the best of many trees, made consistent."""
    shares, errors = np.linspace(0, 1, bins + 1), []
    for fanout in (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64):
        for growth in (1.0, 1.1, 1.2, 1.4, 1.7, 2.0):
            tree = Tree.uniform(bins, fanout, growth)
            weights = np.array([level.weight for level in tree.levels])
            for variances in (
                [laplace(1, EPSILON * w / weights.sum()) ** 2 for w in weights],
                [gaussian(math.sqrt(weights.sum() / w)) ** 2 for w in weights],
            ):
                errors.append(float(tree.below_variances(shares, variances).mean()))
    return math.sqrt(min(errors))


def tables(sizes: Sequence[int]) -> float:
    """Of the cells of all tables of two columns: least squares at the best shares.

    Every table counts alike, in the root of the mean of its cells' variances.
    """
    first, second = sizes
    cells = np.array([*product(range(first), range(second))])
    rows = [cells[:, 0] == np.arange(first)[:, None], cells[:, 1] == np.arange(second)[:, None]]
    asked = [np.asarray(row, float) for row in (*rows, np.eye(len(cells)))]

    def error(variances: Sequence[float]) -> float:
        seen = sum(table.T @ table / v for table, v in zip(asked, variances, strict=True))
        inverse = np.linalg.inv(seen)
        return float(np.mean([np.trace(t @ inverse @ t.T) / len(t) for t in asked]))

    laws: tuple[Callable[[float], float], ...] = (
        lambda share: laplace(1, EPSILON * share) ** 2,
        lambda share: gaussian(math.sqrt(1 / share)) ** 2,
    )

    def least(law: Callable[[float], float]) -> float:
        def of(logits: Floats) -> float:
            shares = 1e-3 + 0.997 * scipy.special.softmax(logits)
            return error([law(share) for share in shares.tolist()])

        return float(scipy.optimize.minimize(of, np.zeros(3), method="Nelder-Mead").fun)

    return math.sqrt(min(map(least, laws)))


# ---- the job ---------------------------------------------------------------------------------


def asked(kind: str, **options: Any) -> Any:
    """A release by the job, before a row is read."""
    price = {"epsilon": EPSILON, "delta": DELTA, "drawn_by": "job"}
    typed = {"input": (_FLIGHTS,), "output": "out", **price, **options}
    return resolve(request(registry.options(kind), typed), ALONE)


def _total(release: Any) -> float:
    return float(release.accuracy.total.standard_error)


def _mean(release: Any) -> float:
    """Half way from the middle of the bounds, in halves of their distance."""
    known = release.accuracy
    return math.hypot(known.noise, known.rounding(PEOPLE), 0.5 * known.people) / PEOPLE


def kinds() -> Iterator[Kind]:
    """Every kind; of some that a unit has one group, and many."""
    by = {"column": "carrier", "domain": _CARRIERS}
    yield Kind("count", _total(asked("count")), best(1))
    yield Kind("count by carrier", _total(asked("count", **by)), best(1))
    many = by | _USERS | {"rows_per_user": 12}
    yield Kind("count, 12 groups of a user", _total(asked("count", **many)), best(12))
    yield Kind("events, 12 groups of 8", _total(asked("count", **many, per_value=8)), best(12, 8))
    yield Kind("histogram", _total(asked("histogram", **by)), best(1))
    yield Kind("histogram, 12 of a user", _total(asked("histogram", **many)), best(12))
    yield from _numbers()
    yield from _rows()
    origins = f"origin={_EXAMPLES / 'origins.txt'}", f"carrier={_CARRIERS}"
    crossed = asked("cross-tab", columns=("origin", "carrier"), domains=origins)
    sizes = [axis.sizes[-1] for axis in crossed.statistic.tabs.axes]
    tabs, variances = crossed.statistic.tabs, crossed.design.variances
    cells = [tabs.variances(table, variances).mean() for table in tabs.asked]
    yield Kind("cross-tab", math.sqrt(np.mean(cells)), tables(sizes))
    days = _USERS | {"time": "time_hour", "day": "2013-06-01"}
    alone = asked("active-users", **days, only_day=True)
    yield Kind("active users of a day alone", _total(alone), best(1))
    whole = asked("active-users", **days)
    columns = math.sqrt(len(whole.statistic.longest.cells))
    yield Kind("active users and retention", _total(whole), columns * best(2))
    steps = {"time": "time_hour", "steps": ("a=origin == 'EWR'", "b=origin == 'JFK'")}
    first = _total(asked("funnel", **_USERS, **steps))
    # A count of either furthest step, which add up to it: two counts of steps would cost more.
    yield Kind("funnel of two steps, the first", first, math.sqrt(2) * best(1))
    known = asked("experiment", arm="origin", arms="EWR,JFK", rate=("distance",)).accuracy
    own = math.hypot(known.noise, 0.5 * known.people)
    yield Kind("experiment, a rate of a half", own, math.hypot(1, 0.5) * best(2))
    yield from _strings()
    yield from _models()


def _numbers() -> Iterator[Kind]:
    numbers = {"column": "distance", "bounds": "0,5000"}
    groups = {"group_by": "carrier", "groups": _CARRIERS, **_USERS, "rows_per_user": 12}
    # A sum's noise is of reals: no grid is coarse enough to be of use.
    yield Kind("sum", _total(asked("sum", **numbers)), 5000 * math.sqrt(2) / EPSILON)
    many = min(12 * math.sqrt(2) / EPSILON, gaussian(math.sqrt(12)))
    yield Kind("sum, 12 groups of a user", _total(asked("sum", **numbers, **groups)), 5000 * many)
    yield Kind("mean", _mean(asked("mean", **numbers)), mean(1))
    yield Kind("mean, 12 groups of a user", _mean(asked("mean", **numbers, **groups)), mean(12))
    spread = asked("variance", **numbers)  # in halves of the range, as its mean in the middle
    both = math.hypot(spread.error / 2500, spread.accuracy.noise / PEOPLE)
    yield Kind("variance, and its mean", both, moments())
    # Two sums of which a row moves each as far as its bounds, at a ratio of their halves.
    yield Kind(
        "ratio, of sums", asked("ratio", **numbers).error * PEOPLE / 5000, math.sqrt(8) * best(2)
    )
    for bins in (64, 1024):
        release = asked("distribution", **numbers, bins=bins)
        tree, shares = release.reporting.tree, np.linspace(0, 1, bins + 1)
        variances = release.design.variances[: len(tree.levels)]
        error = math.sqrt(tree.below_variances(shares, variances).mean())
        yield Kind(f"distribution, {bins:,} bins", error, prefixes(bins))


def _rows() -> Iterator[Kind]:
    with TemporaryDirectory() as folder:
        for size in (2, 12, 300):
            path = f"{folder}/{size}.parquet"
            pq.write_table(pa.table({f"f{i}": [0.5] for i in range(size)}), path)
            for each in (False, True):
                release = asked("vector-mean", input=(path,), number=("f*=-1,1",), count_each=each)
                # All sums and one count; a count of each has as much noise as a sum.
                moves = 2 * size if each else size + 1
                whole = math.hypot(1, 0.5) * best(moves) / PEOPLE
                counts = ", counts" * each
                yield Kind(f"vector-mean of {size}{counts}", release.error, whole)


def _strings() -> Iterator[Kind]:
    column = {"column": "destination"}
    yield Kind("strings above a threshold", _total(asked("strings", **column)), best(1))
    alphabet = {"alphabet": ("upper",), "max_length": 3, "search": "levels"}
    levels = asked("strings", **column, **alphabet)
    yield Kind("strings by levels", _total(levels), best(len(levels.design.levels)))


def _models() -> Iterator[Kind]:
    products, design = products_for(_FEATURES, PEOPLE, "add or remove", EPSILON, DELTA)
    error = math.sqrt(products.variances(design, PEOPLE).max())
    yield Kind("linear regression, a sum", error, gaussian(math.sqrt(products.changes)))
    _, rounds, design = logistic_for(_FEATURES, PEOPLE, "add or remove", EPSILON, DELTA)
    whole = zip(rounds.sums, rounds.designs(design), rounds.shares, strict=True)
    for number, (sums, own, share) in enumerate(whole, 1):
        error = math.sqrt(sums.variances(own, PEOPLE).max())
        collector = gaussian(math.sqrt(sums.changes / share))
        yield Kind(f"logistic regression, round {number}", error, collector)


def main() -> None:
    """Print the table, and refuse a kind that errs more than it may."""
    table = Table("figure", "the job", "a collector", "ratio", title="by the job, epsilon 1")
    for kind in (found := [*kinds()]):
        table.add_row(
            kind.figure, f"{kind.error:.4g}", f"{kind.collector:.4g}", f"{kind.ratio:.3f}"
        )
    Console().print(table)
    if far := [kind.figure for kind in found if not kind.ratio <= MOST]:
        raise SystemExit(f"more than {MOST:g} times a trusted collector's error: {far}")
