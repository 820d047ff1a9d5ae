"""`hushbeam evaluate mean`: errors of means, and what mechanisms guarantee in truth."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Annotated, cast

import numpy as np
import pyarrow as pa
from rich.console import Console

from hushbeam.studies.engine.cells import Cell, Simulation
from hushbeam.studies.engine.command import ERRORS, StudyCommand
from hushbeam.studies.engine.figures import Along, Sheet, write_figures
from hushbeam.studies.engine.measure import Measure
from hushbeam.studies.engine.options import Deltas, EpsilonOptions, Ns, Once
from hushbeam.studies.engine.results import Results, say, write_table
from hushbeam.studies.engine.study import Study
from hushbeam.studies.papers import dct, im
from hushbeam.studies.populations.numbers import NumberPopulation, read_numbers
from hushbeam.studies.studies.sum import simulated
from hushbeam.studies.systems.attacks import attacked, audit
from hushbeam.studies.systems.means import (
    ITERATED,
    MEANS,
    PUBLISHED,
    SUMMED,
    MeanSystem,
    SummedMean,
    lines,
)
from mechanisms.channel import Counts
from mechanisms.mean.scalar import ScalarMean
from mechanisms.randomness import SeededRandom
from pipelines.request import answers
from pipelines.request.options import option

COLUMNS = pa.schema(
    [
        ("data", pa.string()),  # as --data has it, without a folder and the number of users
        ("low", pa.float64()),  # what -1 stands for
        ("high", pa.float64()),  # what 1 stands for
        ("n", pa.int64()),  # users
        ("system", pa.string()),
        ("model", pa.string()),  # local: one report is private; shuffle, central: a release is
        ("epsilon", pa.float64()),  # wanted of one report, or of the release
        ("delta", pa.float64()),  # wanted of the same; some systems spend none
        ("alpha", pa.float64()),  # of DCT; null where there is none, or the best was taken
        ("repetition", pa.int64()),
        ("truth", pa.float64()),  # the mean of the values, on [-1, 1] like all that follows
        ("estimate", pa.float64()),
        ("error", pa.float64()),  # estimate - truth
        ("absolute_error", pa.float64()),
        ("squared_error", pa.float64()),
        ("predicted_variance", pa.float64()),  # of the estimate; null for EM, which is biased
        ("iterations", pa.int64()),  # of EM
        # What follows is null where a release is private and not a report.
        ("claimed_delta", pa.float64()),  # what the system says that it spends at epsilon
        ("true_delta", pa.float64()),  # what it spends at epsilon, by enumeration
        ("true_epsilon", pa.float64()),  # what it spends without a delta; null if nothing bounds it
        ("guarantee_holds", pa.bool_()),  # true_delta is at most claimed_delta
        ("seconds", pa.float64()),  # CPU time of the simulated release
    ]
)


class MeanStudyOptions(EpsilonOptions):
    """What a person wants compared."""

    deltas: Deltas = option(
        "of one report, or of the release; for systems that spend any", (1e-6,), metavar="D"
    )
    ns: Ns = ()
    alphas: Annotated[tuple[str, ...], Once] = option(
        "DCT's parameter; best is the one of least worst-case variance, for dct alone",
        (dct.ALPHA,), metavar="A", min_length=1,
    )  # fmt: skip
    attack: bool = option(
        "also guess users' values from single simulated reports, and measure delta",
        False,
        exclude=True,
    )


def fit(options: MeanStudyOptions, cell: Cell, population: NumberPopulation) -> Simulation:
    """The mechanism of a cell."""
    if isinstance(cell.line, SummedMean):
        return _summed(cell, population)
    system = cast(MeanSystem, cell.line)
    mechanism = system.build(cell.epsilon, cell.delta)

    def release(rng: SeededRandom) -> dict[str, float]:
        columns = system.estimate(mechanism, _counts(mechanism, population, rng), population.n)
        error = columns["estimate"] - population.mean
        return {**columns, "error": error, "absolute_error": abs(error), "squared_error": error**2}

    loss, claimed = audit(mechanism, cell.epsilon), system.claimed_delta(cell.delta)
    known = {
        "predicted_variance": _variance(mechanism, population) if system.unbiased else None,
        "claimed_delta": claimed,
        "true_delta": loss.delta,
        "true_epsilon": loss.epsilon if loss.epsilon < math.inf else None,
        "guarantee_holds": loss.delta <= claimed,
    }
    return Simulation(known, release)


def _summed(cell: Cell, population: NumberPopulation) -> Simulation:
    """A sum over the public number of users."""
    of_sum, scale = simulated(cell, population), 2 / population.n  # of ranges

    def release(rng: SeededRandom) -> dict[str, float]:
        error = of_sum.release(rng)["error"] * scale
        return {
            "estimate": population.mean + error, "error": error, "absolute_error": abs(error),
            "squared_error": error**2,
        }  # fmt: skip

    return Simulation(
        {"predicted_variance": of_sum.known["predicted_variance"] * scale**2}, release
    )


def _counts(mechanism: ScalarMean, population: NumberPopulation, rng: SeededRandom) -> Counts:
    """Let everybody report, some at a time, and count the reports."""
    counts = np.zeros(mechanism.codes, np.int64)
    for values in population.blocks():
        counts += mechanism.count(mechanism.perturb(mechanism.encode(values, rng), rng))
    return counts


def _variance(mechanism: ScalarMean, population: NumberPopulation) -> float:
    """Of the unbiased mean, relative to the population's."""
    return float(mechanism.variance(population.values) @ population.histogram) / population.n**2


def attack(options: MeanStudyOptions, results: Results) -> None:
    """Show what single reports give away, and what the published claims are worth."""
    if not options.attack:
        return
    systems = [line for line in results.lines if isinstance(line, MeanSystem)]
    mechanisms = list(attacked(systems, options.epsilons, options.deltas))
    data = cast(Sequence[NumberPopulation], results.data)
    guesses = list(dct.attack(data, mechanisms, options.seed))
    deltas = list(im.attack(mechanisms, options.seed))
    write_figures(options.output, [*dct.figures(guesses, systems), *im.figures(deltas, systems)])
    write_table(options.output, dct.TABLE, [guess.row for guess in guesses], dct.COLUMNS)
    write_table(options.output, im.TABLE, [delta.row for delta in deltas], im.COLUMNS)
    near: list[dct.Guesses | im.MeasuredDelta] = [one for one in guesses if one.radius < 1]
    for shown in [*near, *deltas]:
        if shown.attacked.system.published:
            answers.add("attacks", shown.row)
            say(Console(), str(shown))


SETS = {
    "all": (*MEANS, *ITERATED),
    "summed": tuple(SUMMED),
    "dct-paper": dct.SYSTEMS,
    "im-paper": im.SYSTEMS,
}

_BOTH = "epsilon = {epsilon:g}, delta = {delta:g}"
_FIXED = "-epsilon-{epsilon:g}-delta-{delta:g}"

STUDY = Study(
    options=MeanStudyOptions,
    lines=lambda options: lines(options.systems, options.alphas, SETS),
    data=lambda options: read_numbers(options.data, options.ns),
    fit=fit,
    columns=COLUMNS,
    measures=[
        Measure("absolute_error", "absolute error of the mean, on [-1, 1]", errors=True),
        Measure("squared_error", "squared error of the mean, on [-1, 1]", errors=True),
    ],
    along=[
        Along(
            name="-by-epsilon-delta-{delta:g}{size}",
            title="delta = {delta:g}",
            axis="epsilon of one report, or of a release (nats)",
        ),
        Along(
            name="-by-delta-epsilon-{epsilon:g}{size}",
            title="epsilon = {epsilon:g}",
            x="delta",
            axis="delta of one report, or of a release (a probability)",
        ),
        Along(name="-by-n" + _FIXED, title=_BOTH, panel="{data}", x="n", axis="users"),
        Along(
            name="-by-alpha" + _FIXED + "{size}",
            title=_BOTH,
            curve="{family}",
            x="alpha",
            axis="alpha of DCT",
        ),
    ],
    alone=Sheet(name=_FIXED, title=_BOTH),
    sequel=attack,
)

_NAMES, _SUMMED = (textwrap.fill(", ".join(names), 90) for names in (MEANS, SUMMED))

COMMAND = StudyCommand(
    description="""\
Errors of estimated means, mechanism by mechanism, over repeated simulated releases, beside what one
report guarantees in truth: a tidy table, figures, and what could not be served and why.
""",
    about=f"""\
systems:
  {textwrap.indent(_NAMES, "  ").strip()}
  {", ".join(ITERATED)}: expectation maximisation over nm's reports, the second smoothed; biased
  {", ".join(PUBLISHED)}: as their papers have them, whose claims do not hold
  all: all but these two
  {textwrap.indent(_SUMMED, "  ").strip()}
  of these a release is private as a whole, and not a report: sums over the public number of users,
  as `hushbeam evaluate sum` has them
  summed: all of these
  dct-paper: {", ".join(dct.SYSTEMS)}, as the paper of DCT compares them
  im-paper: {", ".join(im.SYSTEMS)}, as that of IM does

data, clipped to [-1, 1]:
  gauss:N,MEAN,SD   exponential:N,RATE   uniform:N   beta:N,A,B   spike:N,X
                   N users who hold the quantiles of a law; beta is stretched to [-1, 1], in a spike
                   all hold X
  FILE.parquet:COLUMN,L,U   a row a user, clipped to [L, U], which is taken to [-1, 1]

examples:
  hushbeam evaluate mean --systems dct-paper optimal --epsilons 0.5 1 2 4 \\
      --data gauss:100000,0,0.25 examples/flights.parquet:distance,0,5000 --output dct
  hushbeam evaluate mean --systems optimal summed --epsilons 0.5 1 2 --data beta:1000000,2,5 \\
      --output summed
  hushbeam evaluate mean --systems im-paper --epsilons 1 --deltas 1e-8 1e-6 1e-4 1e-2 \\
      --data beta:100000,2,5 --ns 1000 10000 100000 --output im
  hushbeam evaluate mean --systems dct_published dct duchi --epsilons 1 --data uniform:10000 \\
      --alphas 2 5 10 --attack --output attack
""",
    figures=ERRORS,
    more="and with --attack attack-*.png, attack-guesses.parquet and attack-delta.parquet",
    studies={"": STUDY},
)
