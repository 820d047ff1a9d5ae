"""`hushbeam evaluate poisoning`: what liars do to histogram systems, and what can be done."""

from __future__ import annotations

import textwrap
from typing import Annotated, Literal, cast

import numpy as np
import pyarrow as pa

from hushbeam.studies.engine.cells import Cell, Simulation
from hushbeam.studies.engine.command import QUANTILES, StudyCommand
from hushbeam.studies.engine.figures import ALONE, BY_DELTA, BY_EPSILON
from hushbeam.studies.engine.measure import Measure
from hushbeam.studies.engine.options import Deltas, EpsilonOptions, Once
from hushbeam.studies.engine.study import Study
from hushbeam.studies.populations.histograms import read_histograms
from hushbeam.studies.populations.population import HistogramPopulation
from hushbeam.studies.systems.augmented_systems import best_design
from hushbeam.studies.systems.histograms import BEST, SYSTEMS
from hushbeam.studies.systems.liars import ATTACKS, AttackedSystem, Targets, lines
from hushbeam.studies.systems.recovery import ldp_recover
from hushbeam.studies.systems.whole_reports import sifted
from mechanisms import planner
from mechanisms.channel import Counts
from mechanisms.frequency.choice import publish
from mechanisms.frequency.task import FrequencyTask
from mechanisms.frequency.unary import Unary
from mechanisms.heavy_hitters.plausibility import chance
from mechanisms.randomness import SeededRandom
from mechanisms.targets.rules import Target
from pipelines.request.options import option
from pipelines.request.requests import Whole

DOUBTED = 1e-6  # the probability below which a collector warns

COLUMNS = pa.schema(
    [
        ("data", pa.string()),  # as --data has it, without a folder
        ("n", pa.int64()),  # users, liars among them
        ("d", pa.int64()),  # values
        ("system", pa.string()),
        ("bound", pa.string()),  # exact
        ("model", pa.string()),  # shuffle, central or local
        ("epsilon", pa.float64()),  # wanted of the release
        ("delta", pa.float64()),  # wanted of the release in the shuffle model
        ("attack", pa.string()),  # none, random, input or target
        ("design", pa.string()),  # the mechanism; another name than the system's for "best" only
        ("liars", pa.float64()),  # their share of the users
        ("targets", pa.int64()),  # how many values they push up
        ("repetition", pa.int64()),
        ("gain", pa.float64()),  # of a target's unbiased share, on average over them
        ("largest_gain", pa.float64()),  # of the target that gained most
        ("gain_released", pa.float64()),  # of a target's share as released, on average
        ("gain_recovered", pa.float64()),  # the same after LDPRecover, which supposes 0.2 liars
        ("gain_bound", pa.float64()),  # what a statement says of this share of liars
        ("mse", pa.float64()),  # mean squared error of a share as released
        ("mse_recovered", pa.float64()),  # the same after LDPRecover
        ("gain_sifted", pa.float64()),  # from whole reports of trusted sizes; null where none tells
        ("mse_sifted", pa.float64()),  # the same
        ("honest_left_out", pa.float64()),  # the share of honest reports that this costs
        ("warned", pa.bool_()),  # whether a collector's test of the counts would warn
        ("seconds", pa.float64()),  # CPU time of the simulated release
    ]
)


class PoisoningStudyOptions(EpsilonOptions):
    """What a person wants attacked."""

    deltas: Deltas = option("of the shuffle model", (1e-6,), metavar="D")
    attacks: Annotated[
        tuple[Literal["none", "random", "input", "target", "adaptive"], ...], Once
    ] = option("what malicious clients do; see below", ("target",), metavar="ATTACK", min_length=1)
    liars: float = option("their share of the users", 0.05, metavar="SHARE", gt=0, lt=1)
    targets: Whole = option("values that they push up, drawn at random", 1, metavar="K", ge=1)


def fit(options: PoisoningStudyOptions, cell: Cell, population: HistogramPopulation) -> Simulation:
    """A system, some of whose users lie."""
    line = cast(AttackedSystem, cell.line)
    if not options.targets < population.d:
        raise ValueError(f"--targets must be fewer than the {population.d:,} values")
    target = Target(
        model=line.model,
        epsilon=cell.epsilon,
        delta=cell.shuffled_delta,
        n=population.n,
        task=FrequencyTask(population.d),
        seed=0,  # public hashes are drawn anew for each collection; which one changes no law
    )
    design = best_design(target, planner.AUTO if line.name == BEST else line.name)
    mechanism, n = design.mechanism, population.n
    truth, liars = population.histogram / n, round(options.liars * n)

    def release(rng: SeededRandom) -> dict[str, float]:
        counts, targets, honest = line.poisoned(
            mechanism, population.histogram, liars, options.targets, rng
        )
        unbiased, own = mechanism.release(counts, rng, n)
        released = publish(design.postprocess, mechanism, unbiased, n, own).shares
        recovered = ldp_recover(mechanism, unbiased)
        gains = (unbiased - truth)[targets]
        return {
            "gain": float(gains.mean()),
            "largest_gain": float(gains.max()),
            "gain_released": float((released - truth)[targets].mean()),
            "gain_recovered": float((recovered - truth)[targets].mean()),
            "mse": float(np.mean((released - truth) ** 2)),
            "mse_recovered": float(np.mean((recovered - truth) ** 2)),
            "warned": chance(mechanism, counts) < DOUBTED,
            **_sifted(honest, targets, rng),
        }

    def _sifted(honest: Counts, targets: Targets, rng: SeededRandom) -> dict[str, float]:
        """What whoever sees reports whole makes of their sizes."""
        if not (isinstance(mechanism, Unary) and line.model == "local"):
            return {}
        try:
            shares, lost = sifted(mechanism, honest, line.attack, targets, liars, rng)
        except ValueError:
            return {}
        gain, error = (shares - truth)[targets].mean(), np.mean((shares - truth) ** 2)
        return {"gain_sifted": float(gain), "mse_sifted": float(error), "honest_left_out": lost}

    attacked = line.attack != "none"
    known = {
        "design": design.name,
        "liars": liars / n * attacked,
        "targets": options.targets,
        "gain_bound": float(mechanism.influence * liars / n * attacked),
    }
    return Simulation(known, release)


STUDY = Study(
    options=PoisoningStudyOptions,
    lines=lambda options: lines(options.systems, options.attacks),
    data=lambda options: read_histograms(options.data),
    fit=fit,
    columns=COLUMNS,
    measures=[
        Measure(
            "gain", "gain of a target's unbiased share ({liars:g} malicious clients)", log=False
        ),
        Measure("gain_released", "gain of a target's released share", log=False),
        Measure("gain_recovered", "gain of a target's share after LDPRecover", log=False),
    ],
    along=[BY_EPSILON, BY_DELTA],
    alone=ALONE,
)

_NAMES = textwrap.fill(" ".join(SYSTEMS), 96, break_on_hyphens=False)

COMMAND = StudyCommand(
    description="""\
How far malicious clients push up the shares of values that they choose, system by system, beside
the bound that statements give, what LDPRecover makes of it, and whether a collector would be
warned.
""",
    about=f"""\
systems, with their exact bounds:
  {textwrap.indent(_NAMES, "  ").strip()}
  counters, sbin, sageo, s1geo, fme, best, all, paper, NAME@local, ...: as for
  `hushbeam evaluate histogram`

attacks ({", ".join(ATTACKS)}), of Cao, Jia, Gong (USENIX Security 2021):
  none     nobody lies
  random   reports at random, of those that a mechanism knows (RPA)
  input    each malicious client states a target, and reports it as honest users do (RIA)
  target   each malicious client sends a report that supports as many targets as any does (MGA), of
           the usual size, or of the most messages that any client may send
  adaptive the same, of unary reports whose sizes are drawn as honest ones come

data:
  normal:N,D       N values of a normal law in D equal bins over four standard deviations either way
  zipf:N,D,S       N values, the k-th most frequent of D in proportion to 1/k^S (S: 1.2)
  FILE.parquet:COLUMN   a row a user, and every value that occurs a value of the domain

examples:
  hushbeam evaluate poisoning --systems grr@local olh@local oue@local --epsilons 0.5 1 2 4 \\
      --data zipf:100000,100,1.2 --attacks random input target --output attacked
  hushbeam evaluate poisoning --systems best subset@local projective@local --epsilons 1 \\
      --data zipf:100000,100 --targets 10 --liars 0.01 --output ten-targets
""",
    figures=QUANTILES,
    studies={"": STUDY},
)
