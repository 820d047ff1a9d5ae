"""`hushbeam evaluate heavy-hitters`: what searches for undeclared strings find."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from hushbeam.studies.engine.cells import Cell, FigureLine, Simulation
from hushbeam.studies.engine.command import QUANTILES, StudyCommand
from hushbeam.studies.engine.figures import ALONE, BY_DELTA, BY_EPSILON
from hushbeam.studies.engine.measure import Measure
from hushbeam.studies.engine.options import Deltas, EpsilonOptions, Names
from hushbeam.studies.engine.study import Study
from hushbeam.studies.populations.strings import StringPopulation, read_strings
from hushbeam.studies.systems.searches import quality, simulate
from mechanisms.frequency.task import FrequencyTask
from mechanisms.heavy_hitters import fitting
from mechanisms.heavy_hitters.fitting import SYSTEMS, FittedSearch
from mechanisms.heavy_hitters.prefix_code import PrefixCode, alphabet
from mechanisms.heavy_hitters.schedule import Search
from mechanisms.randomness import SeededRandom
from mechanisms.targets.rules import Target
from pipelines.errors import RequestError
from pipelines.request.options import option
from pipelines.request.requests import Whole

COLUMNS = pa.schema(
    [
        ("data", pa.string()),  # as --data has it, without a folder
        ("n", pa.int64()),  # users
        ("d", pa.int64()),  # strings
        ("system", pa.string()),  # pem or treehist
        ("bound", pa.string()),  # exact
        ("model", pa.string()),  # shuffle or local
        ("epsilon", pa.float64()),  # wanted of the release
        ("delta", pa.float64()),  # wanted of the release in the shuffle model
        ("design", pa.string()),  # the oracle of the buckets
        ("repetition", pa.int64()),
        ("precision", pa.float64()),  # of the first K strings listed, the share in the true top K
        ("recall", pa.float64()),  # of the true top K, the share among the first K listed
        ("found", pa.int64()),  # strings that stood out
        ("false_strings", pa.int64()),  # those of them that nobody has
        ("detection_limit", pa.float64()),  # share of users that is seen with probability 0.9
        ("bits", pa.float64()),  # of a user
        ("seconds", pa.float64()),  # CPU time of the simulated search
        ("true_epsilon", pa.float64()),  # of the release by the exact accountant
        ("local_epsilon", pa.float64()),  # of one report
    ]
)

_MODELS = ("shuffle", "local")


class HeavyHittersStudyOptions(EpsilonOptions):
    """What a person wants compared."""

    systems: Names = SYSTEMS
    deltas: Deltas = option("of the shuffle model", (1e-6,), metavar="D")
    top: Whole = option("how many strings are wanted", 20, metavar="K", ge=1, le=10_000)
    alphabet: tuple[str, ...] | None = option(
        "as for `hushbeam strings`; strings with other characters are left out (default: "
        "digits for integers, hexadecimal for made strings, else bytes)",
        None,
        metavar="SET",
    )
    max_length: Whole | None = option(
        "how many characters are looked at (default: 10 for integers, 12 for made strings, else "
        "32)",
        None, metavar="L", ge=1, le=256,
    )  # fmt: skip
    false_strings: float = option(
        "how many strings that nobody has may be listed on average", 0.01, metavar="F", gt=0,
        le=1000,
    )  # fmt: skip


def fit(options: HeavyHittersStudyOptions, cell: Cell, population: StringPopulation) -> Simulation:
    """The search that finds the rarest strings of a population within the target."""
    values, holders = population.values, population.histogram
    code = PrefixCode(population.characters, population.max_length)
    _, usable = code.encode(values)
    target = Target(
        model=cell.line.model,
        epsilon=cell.epsilon,
        delta=cell.shuffled_delta,
        n=int(holders[usable].sum()),
        task=FrequencyTask(2),  # some size: the number of buckets is the search's to choose
    )
    search = Search(false_strings=options.false_strings)
    plan = fitting.fit(target, code, search, seed=0, system=cell.line.system)

    def release(rng: SeededRandom) -> dict[str, float]:
        listed = simulate(plan, values, holders, rng)  # under a public hash of its own
        errors = quality(plan, listed, values, holders, options.top)
        return {**errors._asdict(), "found": len(listed.values)}

    return Simulation(_known(plan), release)


def _known(plan: FittedSearch) -> dict[str, Any]:
    """What a search costs, guarantees and promises to find."""
    limit = plan.detection_limit
    return {
        "design": plan.design.name,
        "bits": float((plan.protocol.levels.codes - 1).bit_length()),
        "true_epsilon": plan.design.release.epsilon,
        "local_epsilon": plan.design.local.epsilon,
        "detection_limit": limit if limit < math.inf else None,
    }


def lines(names: Sequence[str]) -> tuple[FigureLine, ...]:
    """The lines of a request: a search each, and perhaps a model.

    Raises:
        RequestError: a name or model is unknown.

    >>> [str(line) for line in lines(["pem", "treehist@local"])]
    ['pem', 'treehist@local']
    """
    chosen: dict[tuple[str, str], FigureLine] = {}
    for text in names:
        name, at, model = text.partition("@")
        if name not in SYSTEMS or (at and model not in _MODELS):
            raise RequestError(
                f"--systems: {text!r} is not of the form NAME or NAME@MODEL, with NAME one of "
                f"{', '.join(SYSTEMS)} and MODEL one of {', '.join(_MODELS)}"
            )
        model = model or _MODELS[0]
        label = name if model == _MODELS[0] else f"{name}@{model}"
        chosen[name, model] = FigureLine(name, model=model, label=label)
    return tuple(chosen.values())


def populations(options: HeavyHittersStudyOptions) -> list[StringPopulation]:
    """The populations, with the alphabet and the length that were declared."""
    declared: dict[str, Any] = {"max_length": options.max_length}
    if options.alphabet is not None:
        try:
            declared["characters"] = alphabet(options.alphabet)
        except ValueError as error:
            raise RequestError(f"--alphabet: {error}") from None
    known = {name: value for name, value in declared.items() if value is not None}
    return [replace(strings, **known) for strings in read_strings(options.data)]


_WANTED = "the {top} most frequent strings"

STUDY = Study(
    options=HeavyHittersStudyOptions,
    lines=lambda options: lines(options.systems),
    data=populations,
    fit=fit,
    columns=COLUMNS,
    measures=[
        Measure("recall", f"share of {_WANTED} that is found", log=False),
        Measure("precision", f"share of what is found among {_WANTED}", log=False),
    ],
    along=[BY_EPSILON, BY_DELTA],
    alone=ALONE,
)

COMMAND = StudyCommand(
    description="""\
Precision and recall of searches for frequent strings that nobody declared, over repeated simulated
searches, each under a public hash of its own.
""",
    about="""\
systems: pem and treehist, both unless named; NAME@local is in the local model, NAME in the shuffle
  model.

data:
  zipf:N,D,S       N users, D strings of 8 to 12 hexadecimal digits, the k-th most frequent one held
                   by a share in proportion to 1/k^S (S: 1.2)
  FILE.parquet:COLUMN   a row a user; text, or integers, which are taken as their digits

examples:
  hushbeam evaluate heavy-hitters --epsilons 1 2 4 --data zipf:1e6,1e5,1.1 --output strings
  hushbeam evaluate heavy-hitters --systems pem pem@local treehist@local --epsilons 2 4 8 \\
      --data examples/flights.parquet:destination --alphabet upper --max-length 3 --output airports
""",
    figures=QUANTILES,
    studies={"": STUDY},
)
