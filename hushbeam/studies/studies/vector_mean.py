"""`hushbeam evaluate vector-mean`: errors of many means at once, predicted and measured."""

from __future__ import annotations

from typing import ClassVar, cast

import numpy as np
import pyarrow as pa

from hushbeam.studies.engine.cells import Cell, Simulation
from hushbeam.studies.engine.command import ERRORS, StudyCommand
from hushbeam.studies.engine.figures import Along, Sheet
from hushbeam.studies.engine.measure import Measure
from hushbeam.studies.engine.options import EpsilonOptions, Ns, Sizes
from hushbeam.studies.engine.study import Study
from hushbeam.studies.papers import rphm
from hushbeam.studies.populations.rows import RowPopulation, read_rows
from hushbeam.studies.systems.rows import VECTORS, RowSystem, lines
from mechanisms.randomness import SeededRandom
from pipelines.request.options import option

COLUMNS = pa.schema(
    [
        ("data", pa.string()),  # as --data has it, without a folder and the number of users
        ("n", pa.int64()),  # users
        ("d", pa.int64()),  # numbers of each
        ("mean_square_of_means", pa.float64()),  # mu2, which publishing zeros errs by
        ("mean_square", pa.float64()),  # e2, of all numbers
        ("system", pa.string()),
        ("epsilon", pa.float64()),  # wanted of one user's report
        ("epsilon_spent", pa.float64()),  # null where no mechanism is at work
        ("repetition", pa.int64()),
        ("squared_error", pa.float64()),  # against the users' own mean, average of coordinates
        ("predicted_error", pa.float64()),  # of the same; null where nothing predicts it
        ("factor", pa.float64()),  # by which the estimate was multiplied or moved
        ("shortened", pa.int64()),  # rows longer than PrivUnit's radius, which it cuts off
        ("seconds", pa.float64()),  # CPU time of the simulated release
    ]
)


class VectorMeanStudyOptions(EpsilonOptions):
    """What a person wants compared."""

    deltas: ClassVar[tuple[float, ...]] = (0.0,)  # no mechanism for rows makes use of any

    ns: Ns = ()
    dimensions: Sizes = option(
        "numbers of each user, in place of those of made rows in --data", (), metavar="D"
    )


def fit(options: VectorMeanStudyOptions, cell: Cell, population: RowPopulation) -> Simulation:
    """The mechanism of a cell, and what is expected of it."""
    system = cast(RowSystem, cell.line)
    mechanism = system.build(population, cell.epsilon)

    def release(rng: SeededRandom) -> dict[str, float]:
        published = system.release(mechanism, population, rng)
        return {
            "squared_error": float(np.mean((published.estimate - population.mean) ** 2)),
            "factor": published.factor,
            "shortened": published.shortened,
        }

    known = {
        "epsilon_spent": mechanism.guarantee.epsilon if system.private else None,
        "predicted_error": system.predicted(population, cell.epsilon),
    }
    return Simulation(known, release)


SETS = {
    "paper": rphm.SYSTEMS,
    "shrinkage": ("multi_hm-share", "multi_hm-zero", "multi_hm-mean", "multi_optimal",
                  "multi_optimal-zero", "multi_optimal-mean", "zeros"),
}  # fmt: skip

_PREDICTED = "predicted_error"

STUDY = Study(
    options=VectorMeanStudyOptions,
    lines=lambda options: lines(options.systems, SETS),
    data=lambda options: read_rows(options.data, options.ns, options.dimensions),
    fit=fit,
    columns=COLUMNS,
    measures=[
        Measure("squared_error", "mean squared error of a coordinate, on [-1, 1]", errors=True)
    ],
    along=[
        Along(
            name="-by-epsilon{size}",
            title="dotted: predicted",
            axis="epsilon of one report (nats)",
            predicted=_PREDICTED,
        ),
        Along(
            name="-by-dimension-epsilon-{epsilon:g}",
            title="epsilon = {epsilon:g} (dotted: predicted)",
            panel="{label} (n = {n:,})",
            x="d",
            axis="numbers of a user (d)",
            predicted=_PREDICTED,
        ),
        Along(
            name="-by-n-epsilon-{epsilon:g}",
            title="epsilon = {epsilon:g} (dotted: predicted; upright: predicted crossing)",
            panel="{label} (d = {d:,})",
            x="n",
            axis="users",
            predicted=_PREDICTED,
            marked=rphm.marked,
        ),
    ],
    alone=Sheet(name="-epsilon-{epsilon:g}", title="epsilon = {epsilon:g}"),
    sequel=lambda options, results: rphm.write_crossings(options.output, results),
)

COMMAND = StudyCommand(
    description="""\
Errors of estimated rows of means, mechanism by mechanism, over repeated simulated releases in the
local model, each under a public seed of its own, beside what is predicted: a tidy table, figures,
and what could not be served and why.
""",
    about=f"""\
systems:
  {", ".join(VECTORS)}
  NAME-zero, NAME-mean   the same, moved by James and Stein's estimator towards 0, or towards the
                   mean of all coordinates
  NAME-share       the same times q/d, the share that a projection on q = 0.3 d dimensions keeps
  multi_rphm-debiased   multi_rphm divided by q/d
  projection       multi_rphm without noise: no privacy
  zeros            zeros for everybody: no data
  paper: {", ".join(rphm.SYSTEMS)}
  shrinkage: multi_hm-share, -zero and -mean, multi_optimal, -zero and -mean, and zeros

  privunit takes rows of length 1.1 sqrt(d e2), e2 being the mean square of the data, as if that
  were public; longer ones are cut off and counted. It simulates some 1,000 to 3,000 rows a second.

data:
  gauss:N,D,MEAN,SD        N rows of D normal numbers, clipped to [-1, 1]
  gauss:N,D,MEAN,SD,APART  their means differ by a standard deviation of APART
  FILE.parquet:COLUMN=L,U:COLUMN=L,U...   a row a user; each column is clipped to [L, U], which is
                   taken to [-1, 1], and may hold lists of numbers or bytes of one length

examples:
  hushbeam evaluate vector-mean --systems paper shrinkage --epsilons 1 \\
      --data gauss:10000,400,0.33333333,0.25 --dimensions 200 300 400 500 600 --output dimensions
  hushbeam evaluate vector-mean --systems multi_hm multi_rphm multi_hm-zero --epsilons 1 \\
      --data gauss:10000,200,0.33333333,0.25 --ns 5000 10000 20000 --output crossing
  hushbeam evaluate vector-mean --systems multi_hm multi_optimal meanest privunit --epsilons 1 2 \\
      --data examples/flights.parquet:distance=0,5000:departure_delay=-60,180 --output flights
""",
    figures=f"{ERRORS}, dotted is what was predicted",
    more=f"and, if multi_hm and multi_rphm were measured for several --ns, {rphm.CROSSINGS}: from "
    "how many users on the first is better, as predicted and as measured",
    studies={"": STUDY},
)
