"""`hushbeam evaluate distribution`: how near estimated distributions of a number come."""

from __future__ import annotations

import textwrap

import pyarrow as pa

from hushbeam.studies.engine.cells import Cell, Simulation
from hushbeam.studies.engine.command import ERRORS, StudyCommand
from hushbeam.studies.engine.figures import Along, Sheet
from hushbeam.studies.engine.measure import Measure
from hushbeam.studies.engine.options import Deltas, EpsilonOptions, Ns
from hushbeam.studies.engine.study import Study
from hushbeam.studies.populations.numbers import NumberPopulation, read_numbers
from hushbeam.studies.systems.distributions import SETS, SYSTEMS, lines
from mechanisms.randomness import SeededRandom
from pipelines.request.options import option

COLUMNS = pa.schema(
    [
        ("data", pa.string()),  # as --data has it, without a folder and the number of users
        ("low", pa.float64()),  # what -1 stands for
        ("high", pa.float64()),  # what 1 stands for
        ("n", pa.int64()),  # users
        ("system", pa.string()),
        ("model", pa.string()),  # local: a report is private; shuffle, central: a release is
        ("epsilon", pa.float64()),  # wanted of one report, or of the release
        ("delta", pa.float64()),  # wanted of the release; local reports spend none
        ("epsilon_report", pa.float64()),  # of one report, by enumeration; null where it is not
        ("bins", pa.int64()),  # of the estimate
        ("repetition", pa.int64()),
        # Lengths are in ranges, of which the bounds of a number are one apart.
        ("wasserstein", pa.float64()),  # the area between the two distribution functions
        ("ks", pa.float64()),  # their largest distance, a share
        ("quantile_error", pa.float64()),  # the mean distance at 5, 25, 50, 75 and 95 %
        ("mean_error", pa.float64()),  # the distance of the means
        ("seconds", pa.float64()),  # CPU time of the simulated release
    ]
)


class DistributionStudyOptions(EpsilonOptions):
    """What a person wants compared."""

    deltas: Deltas = option("of the release; local reports spend none", (1e-6,), metavar="D")
    ns: Ns = ()


def fit(options: DistributionStudyOptions, cell: Cell, population: NumberPopulation) -> Simulation:
    """A system at the target of a cell."""
    line = cell.line
    build = SYSTEMS[line.system].build
    fitted = build(line.model, population.n, cell.epsilon, cell.delta)

    def release(rng: SeededRandom) -> dict[str, float]:
        return fitted.draw(population, rng).errors(population)

    return Simulation({"epsilon_report": fitted.spent, "bins": fitted.bins}, release)


_FIXED = "-epsilon-{epsilon:g}-delta-{delta:g}"
_BOTH = "epsilon = {epsilon:g}, delta = {delta:g}"

STUDY = Study(
    options=DistributionStudyOptions,
    lines=lambda options: lines(options.systems),
    data=lambda options: read_numbers(options.data, options.ns),
    fit=fit,
    columns=COLUMNS,
    measures=[
        Measure("wasserstein", "Wasserstein distance, in ranges", errors=True),
        Measure("ks", "Kolmogorov-Smirnov distance", errors=True),
        Measure("quantile_error", "error of quantiles, in ranges", errors=True),
        Measure("mean_error", "error of the mean, in ranges", errors=True),
    ],
    along=[
        Along(
            name="-by-epsilon-delta-{delta:g}{size}",
            title="delta = {delta:g}",
            axis="epsilon of one report, or of a release (nats)",
        ),
        Along(name="-by-n" + _FIXED, title=_BOTH, panel="{data}", x="n", axis="users"),
    ],
    alone=Sheet(name=_FIXED, title=_BOTH),
)

_SETS = "\n".join(
    textwrap.fill(f"{name}: {', '.join(members)}", 96, initial_indent="  ", subsequent_indent="  ")
    for name, members in SETS.items()
)

COMMAND = StudyCommand(
    description="""\
Errors of estimated distributions of one number a user, system by system, over repeated simulated
releases: of the whole distribution, of its quantiles and of its mean.
""",
    about=f"""\
systems; the first ones send one report a user, private by itself, or NAME@shuffle in a batch:
  nm-em, nm-ems    the square wave with expectation maximisation; the second smoothed
  ogpm             of the numbers of a grid the nearest are likelier, by the optimal share; as
                   published, the reports' own shares
  ogpm-em, ogpm-ems   expectation maximisation over the same reports
  brr, brr-em      the same with as many values as the estimate has bins, and the best number
  status           a threshold of each user's own and a noisy bit; isotonic regression
  report-nm, report-grr, report-projective   what `hushbeam distribution` makes of such reports
  shuffler, devices   a tree of counters among dummies
  job              the same with the job's noise
{_SETS}

Neighbours differ in one user's number; how many users there are is public. In the shuffle and the
central model a release is private at epsilon and delta, everybody following the protocol.

data, clipped to [-1, 1]:
  gauss:N,MEAN,SD   exponential:N,RATE   uniform:N   beta:N,A,B   spike:N,X
                   N users who hold the quantiles of a law; beta is stretched to [-1, 1], in a spike
                   all hold X
  FILE.parquet:COLUMN,L,U   a row a user, clipped to [L, U], which is taken to [-1, 1]

examples:
  hushbeam evaluate distribution --systems published report-nm --epsilons 0.5 1 2 4 \\
      --data beta:100000,2,5 examples/flights.parquet:distance,0,5000 --output local
  hushbeam evaluate distribution --systems published@shuffle product --epsilons 1 \\
      --data beta:100000,2,5 --ns 1000 10000 100000 --output shuffled
""",
    figures=ERRORS,
    studies={"": STUDY},
)
