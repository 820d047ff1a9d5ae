"""`hushbeam evaluate histogram`: the errors of histogram systems."""

from __future__ import annotations

import math
import textwrap
from typing import Annotated, Any, Literal, cast

import numpy as np
import pyarrow as pa

from hushbeam.studies.engine.cells import Cell, Simulation
from hushbeam.studies.engine.command import QUANTILES, StudyCommand
from hushbeam.studies.engine.figures import ALONE, BY_DELTA, BY_EPSILON, Along, Costs
from hushbeam.studies.engine.measure import Measure
from hushbeam.studies.engine.options import Ascending, Deltas, EpsilonOptions, Share
from hushbeam.studies.engine.study import Study
from hushbeam.studies.papers import hp_sdp
from hushbeam.studies.populations.histograms import read_histograms
from hushbeam.studies.populations.population import HistogramPopulation
from hushbeam.studies.systems.augmented import Augmented
from hushbeam.studies.systems.augmented_systems import best_design
from hushbeam.studies.systems.histograms import BEST, SYSTEMS
from hushbeam.studies.systems.liars import AttackedSystem, pushed
from hushbeam.studies.systems.simulation import collect, simulate
from mechanisms import planner
from mechanisms.channel import Floats
from mechanisms.frequency.oracle import FrequencyOracle
from mechanisms.frequency.task import FrequencyTask
from mechanisms.planner.search import Design
from mechanisms.privacy.amplification import shuffled_epsilon
from mechanisms.randomness import SeededRandom
from mechanisms.targets.rules import Target
from pipelines.request.options import option

COLUMNS = pa.schema(
    [
        ("data", pa.string()),  # as --data has it, without a folder
        ("n", pa.int64()),  # users
        ("d", pa.int64()),  # values
        ("system", pa.string()),
        ("bound", pa.string()),  # exact or published
        ("model", pa.string()),  # shuffle, central or local
        ("epsilon", pa.float64()),  # wanted of the release
        ("delta", pa.float64()),  # wanted of the release in the shuffle model
        ("design", pa.string()),  # the mechanism; another name than the system's for "best" only
        ("liars", pa.float64()),  # their share of the users, all of whom push one value up
        ("repetition", pa.int64()),
        ("mse", pa.float64()),  # mean squared error of a share as released
        ("mse_unbiased", pa.float64()),  # the same straight from the counts
        ("max_error", pa.float64()),  # of a share as released
        ("gain", pa.float64()),  # of that value's unbiased share; null without liars
        ("messages", pa.float64()),  # of a user, on average
        ("collected", pa.float64()),  # that reach the collector, a user: the shuffler's dummies too
        ("bits", pa.float64()),  # of a user, on average
        ("seconds", pa.float64()),  # CPU time of the simulated release
        ("true_epsilon", pa.float64()),  # of the release by the exact accountant
        ("local_epsilon", pa.float64()),  # of one report; null where nothing bounds it
        ("predicted_mse", pa.float64()),  # of mse_unbiased without liars; null without closed form
    ]
)


class HistogramStudyOptions(EpsilonOptions):
    """What a person wants compared."""

    deltas: Deltas = option("of the shuffle model", (1e-6,), metavar="D")
    bound: Literal["exact", "published", "both"] = option(
        "of systems that name none: the exact accountant; the closed form of their paper, if it "
        "has one; or both",
        "exact",
        exclude=True,
    )
    max_messages: float = option(
        "messages a user may send on average, for systems that can choose; 1 leaves it to them",
        1.0, metavar="M", ge=1,
    )  # fmt: skip
    liars: Annotated[tuple[Share, ...], Ascending] = option(
        "their shares of the users, who all push one value up as far as reports can", (0.0,),
        metavar="SHARE", min_length=1,
    )  # fmt: skip
    honest_share: float = option(
        "of the users, who follow the protocol: a guarantee in the shuffle model counts on no "
        "others; papers count on all",
        1.0,
        metavar="SHARE",
        gt=0,
        le=1,
    )


def fit(options: HistogramStudyOptions, cell: Cell, population: HistogramPopulation) -> Simulation:
    """The best parameters of a system for a population."""
    target = Target(
        model=cell.line.model,
        epsilon=cell.epsilon,
        delta=cell.shuffled_delta,
        n=population.n,
        task=FrequencyTask(population.d, options.max_messages),
        bound=cell.line.bound,
        honest_share=options.honest_share,
        # Public hashes are drawn anew for each collection; which one this is changes no law.
        seed=0,
    )
    line = cast(AttackedSystem, cell.line)
    design = best_design(target, planner.AUTO if line.name == BEST else line.name)
    truth, liars = population.histogram / population.n, round(line.share * population.n)

    def release(rng: SeededRandom) -> dict[str, float]:
        if not liars:
            return _errors(*simulate(design, population.histogram, rng))
        state = line.poisoned(design.mechanism, population.histogram, liars, 1, rng)
        unbiased, released = collect(design, state.counts, population.n, rng)
        gain = float((unbiased - truth)[state.targets[0]])
        return {**_errors(unbiased, released), "gain": gain}

    def _errors(unbiased: Floats, released: Floats) -> dict[str, float]:
        return {
            "mse": float(np.mean((released - truth) ** 2)),
            "mse_unbiased": float(np.mean((unbiased - truth) ** 2)),
            "max_error": float(np.abs(released - truth).max()),
        }

    return Simulation(_known(design), release)


def _known(design: Design[FrequencyOracle]) -> dict[str, Any]:
    """What a design costs and guarantees."""
    local = design.local.epsilon
    return {
        "design": design.name,
        "messages": float(design.messages),
        "collected": _collected(design.mechanism),
        "bits": float(design.messages * design.bits),
        "true_epsilon": _true_epsilon(design),
        "local_epsilon": local if local < math.inf else None,
        "predicted_mse": float(design.error) if design.error < math.inf else None,
    }


def _collected(mechanism: FrequencyOracle) -> float:
    """Messages a user that reach the collector."""
    if isinstance(mechanism, Augmented):
        return mechanism.kept + mechanism.dummies
    return float(mechanism.messages)


def _true_epsilon(design: Design[FrequencyOracle]) -> float:
    """What a release costs by the exact accountant, whatever a paper's bound says."""
    target = design.target
    if target.bound == "published":
        return shuffled_epsilon(design.mechanism, design.counted_on, target.delta)[1]
    return design.release.epsilon


STUDY = Study(
    options=HistogramStudyOptions,
    lines=lambda options: pushed(options.systems, options.bound, options.liars),
    data=lambda options: read_histograms(options.data),
    fit=fit,
    columns=COLUMNS,
    measures=[Measure("mse", "mean squared error of a share")],
    along=[
        BY_EPSILON,
        BY_DELTA,
        Along(
            name="-by-liars" + ALONE.name,
            title=ALONE.title,
            curve="{honest}",
            look="{honest}",
            x="liars",
            axis="share of the users who push one value up",
        ),
    ],
    alone=ALONE,
    costs=[
        Costs(
            name="-by-collected" + ALONE.name + "{lying}",
            title=ALONE.title,
            look="{honest}",
            x="collected",
            axis="messages that reach the collector, a user (shuffler's dummies included)",
        )
    ],
)


_NAMES = textwrap.fill(" ".join(SYSTEMS), 96, break_on_hyphens=False)

COMMAND = StudyCommand(
    description="""\
Mean squared error of histograms, system by system, over repeated simulated releases: a tidy table,
figures, and what could not be served and why.
""",
    about=f"""\
systems:
  {textwrap.indent(_NAMES, "  ").strip()}
  counters, sbin, sageo, s1geo: the shuffler draws the dummies, and may drop reports; s1geo has a
  pure epsilon; fme: the same, of values that pass a filter, for domains larger than the batch
  best: what `hushbeam size` would choose, among systems of at most --max-messages
  all: all but best
  paper: those of HP-SDP's figures: {", ".join(hp_sdp.SYSTEMS)}

  NAME:published or NAME:exact picks the bound; NAME@local, NAME@shuffle or NAME@central the model,
  which otherwise is the shuffle model where a system serves it, else the only one that it serves.

data:
  normal:N,D       N values of a normal law in D equal bins over four standard deviations either way
  zipf:N,D,S       N values, the k-th most frequent of D in proportion to 1/k^S (S: 1.2)
  FILE.parquet:COLUMN   a row a user, and every value that occurs a value of the domain

examples:
  hushbeam evaluate histogram --systems paper:published poisson correlated sh \\
      --epsilons 0.1 0.2 0.5 1 --data normal:600000,600 zipf:600000,600,1.2 --output figures
  hushbeam evaluate histogram --systems counters sbin sageo s1geo poisson correlated laplace \\
      --epsilons 1 --data zipf:600000,600,1.2 --liars 0 0.01 0.05 --output pushed
  hushbeam evaluate histogram --systems grr@local olh@local oue@local --epsilons 0.5 1 2 4 \\
      --data examples/flights.parquet:destination --output local
""",
    figures=QUANTILES,
    studies={"": STUDY},
)
