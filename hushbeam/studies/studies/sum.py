"""`hushbeam evaluate sum`: errors of the sum of one number a user, and what liars do to it."""

from __future__ import annotations

import math
from typing import Annotated, Literal, cast

import numpy as np
import pyarrow as pa

from hushbeam.studies.engine.cells import Cell, Simulation
from hushbeam.studies.engine.command import ERRORS, StudyCommand
from hushbeam.studies.engine.figures import Along, Costs, Sheet
from hushbeam.studies.engine.measure import Measure
from hushbeam.studies.engine.options import Ascending, Deltas, EpsilonOptions, Ns, Share, Sizes
from hushbeam.studies.engine.study import Study
from hushbeam.studies.populations import numbers
from hushbeam.studies.systems.number_sums import SYSTEMS, SumSetting, SumSystem, fitted, lines
from mechanisms.channel import Neighbours
from mechanisms.randomness import SeededRandom
from pipelines.request.options import option

COLUMNS = pa.schema(
    [
        ("data", pa.string()),  # as --data has it, without a folder and the number of users
        ("low", pa.float64()),  # the bounds; a range is what lies between them
        ("high", pa.float64()),
        ("n", pa.int64()),  # users, liars among them
        ("system", pa.string()),
        ("model", pa.string()),  # shuffle or central
        ("drawn_by", pa.string()),  # who draws the noise: shuffler, devices, users or curator
        ("neighbours", pa.string()),  # replace or add or remove
        ("epsilon", pa.float64()),  # wanted of the release
        ("delta", pa.float64()),  # wanted of the release
        ("most_messages", pa.int64()),  # that a user may send; null for any number
        ("messages", pa.float64()),  # that a user sends on average
        ("collected", pa.float64()),  # that reach the collector, a user: the shuffler's dummies too
        ("units", pa.int64()),  # to which numbers are rounded, in the largest absolute value
        ("liars", pa.float64()),  # their share of the users
        ("repetition", pa.int64()),
        ("truth", pa.float64()),  # the sum of what users have, in ranges, like all that follows
        ("estimate", pa.float64()),
        ("error", pa.float64()),  # estimate - truth
        ("absolute_error", pa.float64()),
        ("squared_error", pa.float64()),
        ("predicted_variance", pa.float64()),  # of the estimate, rounding included
        ("shift", pa.float64()),  # error / n: of the mean, as a share of the range
        ("distance", pa.float64()),  # its absolute value
        ("shift_bound", pa.float64()),  # what these liars can move; null if nothing bounds it
        ("seconds", pa.float64()),  # CPU time of the simulated release
    ]
)


class SumStudyOptions(EpsilonOptions):
    """What a person wants compared."""

    deltas: Deltas = option("of the release", (1e-6,), metavar="D")
    ns: Ns = ()
    neighbours: Literal["replace", "add-or-remove"] = option(
        "what looks alike: a user's number may be any other, or the user may not be there",
        "replace",
    )
    messages: Sizes = option(
        "how many a user may send on average, for systems that can do with fewer (default: any)",
        (), metavar="M",
    )  # fmt: skip
    liars: Annotated[tuple[Share, ...], Ascending] = option(
        "their shares of the users; each moves the sum as far as a report can", (0.0,),
        metavar="SHARE", min_length=1,
    )  # fmt: skip
    honest_share: float = option(
        "of the users, who follow the protocol: devices' dummies and shares count on no others",
        0.9,
        metavar="SHARE",
        gt=0,
        le=1,
    )


def fit(options: SumStudyOptions, cell: Cell, population: numbers.NumberPopulation) -> Simulation:
    """A system with as many units as are of use."""
    return simulated(cell, population, options.neighbours == "replace", options.honest_share)


def simulated(
    cell: Cell,
    population: numbers.NumberPopulation,
    replaced: bool = True,
    honest_share: float = 0.9,
) -> Simulation:
    """The same, of what it needs to know.

    Args:
        cell: of a `SumSystem`.
        population: what users have.
        replaced: whether how many they are is public.
        honest_share: of the users.
    """
    line = cast(SumSystem, cell.line)
    low, high, n = population.low, population.high, population.n
    # Where the number of users is public numbers may begin at 0.
    base, bound = (low, high - low) if replaced else (0.0, max(high, -low))
    neighbours: Neighbours = "replace" if replaced else "add or remove"
    users = SumSetting(n, not replaced and low < 0, neighbours, honest_share)
    design = fitted(line.name, line.most_messages, users, cell.epsilon, cell.delta)
    unit = bound / design.most / (high - low)  # in ranges
    numbers = low + (population.values + 1) / 2 * (high - low)
    cells = (numbers - base) / bound * design.most
    floor = np.minimum(np.floor(cells), design.most - 1).astype(np.int64)
    up, whole = cells - floor, np.concatenate([floor, floor + 1])
    truth = float(numbers @ population.histogram) / (high - low)
    liars = round(line.liars * n)

    def release(rng: SeededRandom) -> dict[str, float]:
        source, histogram = rng.generator(), population.histogram
        if liars:
            histogram = histogram - source.multivariate_hypergeometric(
                histogram, liars, method="marginals"
            )
        raised = source.binomial(histogram, np.clip(up, 0, 1))
        counts = np.concatenate([histogram - raised, raised])
        total = design.release(whole, counts, liars, rng)
        estimate = total * unit + base * n / (high - low)
        error = estimate - truth
        return {
            "estimate": estimate, "error": error, "absolute_error": abs(error),
            "squared_error": error**2, "shift": error / n, "distance": abs(error) / n,
        }  # fmt: skip

    coins = float((up * (1 - up)) @ population.histogram)
    shares = np.concatenate([1 - up, up]) * np.tile(population.histogram, 2)
    noise = design.variance(whole, shares)
    most = line.liars * design.lie * unit
    known = {
        "truth": truth,
        "drawn_by": design.drawn_by,
        "neighbours": neighbours,
        "messages": float(design.messages),
        "collected": design.messages + design.dummies / n,
        "units": design.most,
        "predicted_variance": (noise + coins) * unit**2,
        "shift_bound": (0.0 if not liars else most if most < math.inf else None),
    }
    return Simulation(known, release)


_FIXED = "-epsilon-{epsilon:g}-delta-{delta:g}"
_BOTH = "epsilon = {epsilon:g}, delta = {delta:g}"

STUDY = Study(
    options=SumStudyOptions,
    lines=lambda options: lines(options.systems, options.messages, options.liars),
    data=lambda options: numbers.read_numbers(options.data, options.ns),
    fit=fit,
    columns=COLUMNS,
    measures=[
        Measure("squared_error", "squared error of the sum, in squared ranges", errors=True),
        Measure("distance", "how far off the mean is, as a share of the range", errors=True),
    ],
    along=[
        Along(
            name="-by-epsilon-delta-{delta:g}{size}",
            title="delta = {delta:g}",
            axis="epsilon of the release (nats)",
        ),
        Along(name="-by-n" + _FIXED, title=_BOTH, panel="{data}", x="n", axis="users"),
        Along(
            name="-by-messages" + _FIXED + "{size}",
            title=_BOTH,
            curve="{by_messages}",
            look="{by_messages}",
            x="most_messages",
            axis="messages that a user may send",
        ),
        Along(
            name="-by-liars" + _FIXED + "{size}",
            title=_BOTH,
            curve="{by_liars}",
            look="{by_liars}",
            x="liars",
            axis="share of the users who lie",
        ),
    ],
    alone=Sheet(name=_FIXED, title=_BOTH),
    costs=[
        Costs(
            name="-by-collected" + _FIXED + "{size}",
            title=_BOTH,
            curve="{by_messages}",
            look="{by_messages}",
            x="collected",
            axis="messages that reach the collector, a user (shuffler's dummies included)",
        )
    ],
)

COMMAND = StudyCommand(
    description="""\
Errors of the sum of one number a user, system by system, over repeated simulated releases, beside
how many messages that takes and how far malicious clients move it: a tidy table, figures, and what
could not be served and why. Errors are in ranges, of which the bounds of a number are one apart.
""",
    about=f"""\
systems:
  {" ".join(SYSTEMS)}
  counters: a user raises a counter for each digit of its number, the shuffler draws dummies;
  counters-correlated: whose dummies add up to little
  devices-poisson, devices-masked: the same, and every device sends its share of the dummies
  split-mix: shares that add up to the number, among those of the shuffler's noise (what HP-SDP's
  paper calls DPSMS and CESS)
  ddps: unary codes whose bits are flipped (Cheu et al., EUROCRYPT 2019), exactly accounted for;
  ddps:published: by the paper's own bound
  one-report: one randomised report, of the mechanism for means that errs least
  laplace, gaussian: of a curator who sees everything; discrete, the second with the analytic sigma
  all: all of them

--liars, malicious clients, each as far as its report goes: the largest number with counters (whose
slots allow no more) or with a curator; as many messages as a device ever sends with
devices' dummies; the report that counts for most; and with split-mix the largest sum that a
collector believes, of one alone.

data, clipped to [-1, 1]:
  gauss:N,MEAN,SD   exponential:N,RATE   uniform:N   beta:N,A,B   spike:N,X
                   N users who hold the quantiles of a law; beta is stretched to [-1, 1], in a spike
                   all hold X
  FILE.parquet:COLUMN,L,U   a row a user, clipped to [L, U]

examples:
  hushbeam evaluate sum --systems all --epsilons 0.5 1 2 --data beta:1e6,2,5 --output sums
  hushbeam evaluate sum --systems counters counters-correlated split-mix one-report --epsilons 1 \\
      --data beta:1e6,2,5 --messages 2 4 6 8 10 12 --output messages
  hushbeam evaluate sum --systems all --epsilons 1 --data beta:1e6,2,5 --liars 0 0.01 0.05 \\
      --output poisoned
""",
    figures=ERRORS,
    studies={"": STUDY},
)
