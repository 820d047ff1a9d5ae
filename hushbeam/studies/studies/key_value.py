"""`hushbeam evaluate key-value`: frequencies of keys, and means of their numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from hushbeam.studies.engine.cells import Cell, FigureLine, Simulation
from hushbeam.studies.engine.command import ERRORS, StudyCommand
from hushbeam.studies.engine.figures import ALONE, BY_EPSILON
from hushbeam.studies.engine.measure import Measure
from hushbeam.studies.engine.options import EpsilonOptions
from hushbeam.studies.engine.study import Study
from hushbeam.studies.papers.privkv import PrivKvRounds
from hushbeam.studies.populations.keys import FORMS, KeyValuePopulation, read_keys
from mechanisms.channel import Floats
from mechanisms.papers.harmony import harmony
from mechanisms.papers.privkv import privkv
from mechanisms.randomness import SeededRandom
from mechanisms.vector.limits import UsableCoordinates
from mechanisms.vector.multi import multi_optimal
from pipelines.errors import RequestError

COLUMNS = pa.schema(
    [
        ("data", pa.string()),
        ("n", pa.int64()),  # users
        ("d", pa.int64()),  # keys
        ("system", pa.string()),
        ("epsilon", pa.float64()),  # wanted of all that a user reports, as the system prices it
        ("epsilon_lost", pa.float64()),  # what a user loses by the exact channel
        ("repetition", pa.int64()),
        ("squared_error", pa.float64()),  # of a key's mean, on average over the keys
        ("frequency_error", pa.float64()),  # squared, of a key's share
        ("seconds", pa.float64()),  # CPU time of the simulated release
    ]
)

MECHANISMS: dict[str, Callable[[float, int], Any]] = {
    "privkv": privkv,
    "harmony": lambda epsilon, d: harmony(epsilon, d, hides=True),
    "multi_optimal": lambda epsilon, d: multi_optimal(epsilon, d, hides=True),
}
"""Name -> (epsilon, keys) -> coordinates that may be missing; means are quotients."""

_PUBLISHED = re.compile(r"privkv_published|privkvm-([1-9]\d?)")


@dataclass(frozen=True)
class _Quotients:
    """One round of a mechanism of ours."""

    mechanism: UsableCoordinates

    @property
    def lost(self) -> float:
        return self.mechanism.guarantee.epsilon

    def estimates(self, keys: KeyValuePopulation, rng: SeededRandom) -> tuple[Floats, Floats]:
        counts = self.mechanism.count(np.empty(0, np.uint64))
        for rows in keys.blocks():
            counts = counts + self.mechanism.count(self.mechanism.report(rows, rng))
        quotients = self.mechanism.quotients(counts)
        return quotients.presence, np.nan_to_num(np.clip(quotients.means, -1, 1))


class KeyValueStudyOptions(EpsilonOptions):
    """What a person wants compared."""

    deltas: ClassVar[tuple[float, ...]] = (0.0,)  # none spends any


def lines(names: Sequence[str]) -> tuple[FigureLine, ...]:
    """The lines of a request.

    Raises:
        RequestError: a name is unknown.

    >>> [str(line) for line in lines(["privkv", "privkvm-4"])]
    ['privkv', 'privkvm-4']
    """
    for name in names:
        if name not in MECHANISMS and not _PUBLISHED.fullmatch(name):
            raise RequestError(
                f"--systems: unknown system {name!r}; there are: {', '.join(MECHANISMS)}, "
                "privkv_published, and privkvm-C of C rounds"
            )
    return tuple(
        FigureLine(name, bound="exact" if name in MECHANISMS else "published")
        for name in dict.fromkeys(names)
    )


def fit(options: KeyValueStudyOptions, cell: Cell, population: KeyValuePopulation) -> Simulation:
    """What a cell's users report, and what is made of it."""
    name = cell.line.system
    system: _Quotients | PrivKvRounds
    if (published := _PUBLISHED.fullmatch(name)) is not None:
        system = PrivKvRounds(cell.epsilon, int(published[1] or 1))
    else:
        system = _Quotients(MECHANISMS[name](cell.epsilon, population.d))

    def release(rng: SeededRandom) -> dict[str, float]:
        frequencies, means = system.estimates(population, rng)
        return {
            "squared_error": float(np.mean((means - population.mean) ** 2)),
            "frequency_error": float(np.mean((frequencies - population.shares) ** 2)),
        }

    return Simulation({"epsilon_lost": system.lost}, release)


STUDY = Study(
    options=KeyValueStudyOptions,
    lines=lambda options: lines(options.systems),
    data=lambda options: read_keys(options.data),
    fit=fit,
    columns=COLUMNS,
    measures=[Measure("squared_error", "squared error of a key's mean", errors=True)],
    along=[BY_EPSILON],
    alone=ALONE,
)

COMMAND = StudyCommand(
    description="""\
Frequencies of keys and means of their numbers, of users who hold some of the keys each, in the
local model: errors over repeated simulated releases, and what a user loses in truth.
""",
    about=f"""\
systems:
  privkv             one key of d: whether it is there, and a noisy sign; all of epsilon is spent,
                     and means are quotients without a bias from numbers that were made up
  harmony, multi_optimal   one or more coordinates through Duchi's bit, or the optimal mechanism,
                     that a key is missing hidden with its number
  privkv_published   as published: epsilon / 2 for the key and for the number each, means as they
                     come
  privkvm-C          as published: C rounds, C up to 99, of which the same users report in each

data:
  {FORMS}         N users and D keys, the k-th of which a share 1/k^S of them holds

examples:
  hushbeam evaluate key-value --systems privkv privkv_published privkvm-2 privkvm-8 \\
      --epsilons 1 2 4 --data keys:200000,10,0.7 --output keys
  hushbeam evaluate key-value --systems privkv harmony multi_optimal --epsilons 1 \\
      --data keys:200000,10,0.7 --output quotients
""",
    figures=ERRORS,
    studies={"": STUDY},
)
