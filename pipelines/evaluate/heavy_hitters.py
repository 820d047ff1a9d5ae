"""`hushbeam evaluate heavy-hitters`: what searches for undeclared strings find."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pydantic import Field

from mechanisms.heavy_hitters import fitting
from mechanisms.heavy_hitters.fitting import Plan
from mechanisms.heavy_hitters.prefix_code import PrefixCode, alphabet
from mechanisms.heavy_hitters.schedule import Search
from mechanisms.heavy_hitters.simulation import quality, simulate
from mechanisms.randomness import SeededRandom
from mechanisms.target import Target
from pipelines.errors import RequestError
from pipelines.evaluate.cells import Cell, Line
from pipelines.evaluate.comparison import Evaluation, Study, evaluate
from pipelines.evaluate.results import Measure
from pipelines.evaluate.strings import Strings, read_all_strings
from pipelines.requests import Whole, request

COLUMNS = pa.schema(
    [
        ("data", pa.string()),  # as --data has it, without a folder
        ("n", pa.int64()),  # users
        ("d", pa.int64()),  # strings
        ("system", pa.string()),  # pem or treehist
        ("bound", pa.string()),  # exact
        ("model", pa.string()),  # shuffle or local
        ("epsilon", pa.float64()),  # asked of the release
        ("delta", pa.float64()),  # asked of the release in the shuffle model
        ("design", pa.string()),  # the oracle of the buckets
        ("repetition", pa.int64()),
        ("precision", pa.float64()),  # of the first K found, the share among the true top K
        ("recall", pa.float64()),  # of the true top K, the share among the first K found
        ("found", pa.int64()),  # strings that stood out
        ("false_strings", pa.int64()),  # those of them that nobody holds
        ("detection_limit", pa.float64()),  # share of users that is found with probability 0.9
        ("bits", pa.float64()),  # of a user
        ("seconds", pa.float64()),  # CPU time of the simulated search
        ("true_epsilon", pa.float64()),  # of the release by the exact accountant
        ("local_epsilon", pa.float64()),  # of one report
    ]
)

_MODELS = ("shuffle", "local")


class HeavyHittersEvaluation(Evaluation):
    """What a person wants compared."""

    systems: tuple[str, ...] = Field(fitting.SYSTEMS, min_length=1)
    data: tuple[str, ...] = Field(min_length=1)
    alphabet: tuple[str, ...] | None = None
    max_length: Whole | None = Field(None, ge=1, le=256)
    top: Whole = Field(20, ge=1, le=10_000)
    false_strings: float = Field(0.01, gt=0, le=1000)


@dataclass(frozen=True)
class HeavyHittersExperiment:
    """Simulated searches of known populations.

    Attributes:
        populations: data set -> its strings.
        characters: the alphabet that was declared; None takes that of each population.
        max_length: how many characters are looked at; None takes that of each population.
        top: how many strings are wanted.
        search: what may be wrong.
    """

    populations: Mapping[str, Strings]
    characters: str | None
    max_length: int | None
    top: int
    search: Search

    def fit(self, cell: Cell) -> Plan:
        """The search that finds the rarest strings within the target."""
        strings = self.populations[cell.data]
        characters = strings.characters if self.characters is None else self.characters
        code = PrefixCode(characters, self.max_length or strings.max_length)
        _, usable = code.encode(strings.values)
        target = Target(
            model=cell.line.model,
            epsilon=cell.epsilon,
            delta=cell.delta if cell.line.model == "shuffle" else 0.0,
            n=int(strings.histogram[usable].sum()),
            domain_size=2,  # a stand-in: the search chooses its number of buckets
        )
        return fitting.fit(target, code, self.search, seed=0, system=cell.line.system)

    def known(self, fitted: Plan) -> dict[str, Any]:
        """What a search costs, guarantees and promises to find."""
        limit = fitted.detection_limit
        return {
            "design": fitted.design.name,
            "bits": float((fitted.protocol.levels.codes - 1).bit_length()),
            "true_epsilon": fitted.design.release.epsilon,
            "local_epsilon": fitted.design.local.epsilon,
            "detection_limit": limit if limit < math.inf else None,
        }

    def measure(self, cell: Cell, fitted: Plan, rng: SeededRandom) -> dict[str, float]:
        """What one search finds, under a public hash of its own."""
        strings = self.populations[cell.data]
        found = simulate(fitted, strings.values, strings.histogram, rng)
        right = quality(fitted, found, strings.values, strings.histogram, self.top)
        return {**right._asdict(), "found": len(found.values)}


def run(asked: Mapping[str, Any]) -> int:
    """Compare searches, and leave a folder with the results.

    Args:
        asked: option -> what was typed.

    Returns:
        The exit code.

    Raises:
        RequestError: the request or its data are wrong, or no system can serve any of it.
        FailedError: it was interrupted, or a part of it failed; the same command goes on.
    """
    options = request(HeavyHittersEvaluation, asked)
    chosen, data = lines(options.systems), read_all_strings(options.data)
    try:
        characters = None if options.alphabet is None else alphabet(options.alphabet)
    except ValueError as error:
        raise RequestError(f"--alphabet: {error}") from None
    experiment = HeavyHittersExperiment(
        {each.name: each for each in data},
        characters,
        options.max_length,
        options.top,
        Search(false_strings=options.false_strings),
    )
    identity = {
        "--alphabet": characters,
        "--max-length": options.max_length,
        "--top": options.top,
        "--false-strings": options.false_strings,
    }
    wanted = f"the {options.top} most frequent strings"
    measures = (
        Measure("recall", f"share of {wanted} that is found", log=False),
        Measure("precision", f"share of what is found among {wanted}", log=False),
    )
    return evaluate(options, Study(experiment, data, chosen, COLUMNS, measures, identity))


def lines(names: Sequence[str]) -> tuple[Line, ...]:
    """The lines that a person asked for: pem or treehist each, and perhaps a model.

    Raises:
        RequestError: a name or model is unknown.

    >>> [str(line) for line in lines(["pem", "treehist@local"])]
    ['pem', 'treehist@local']
    """
    found = {}
    for text in names:
        name, at, model = text.partition("@")
        if name not in fitting.SYSTEMS or (at and model not in _MODELS):
            raise RequestError(
                f"--systems: {text!r} is not of the form NAME or NAME@MODEL, with NAME one of "
                f"{', '.join(fitting.SYSTEMS)} and MODEL one of {', '.join(_MODELS)}"
            )
        model = model or _MODELS[0]
        label = name if model == _MODELS[0] else f"{name}@{model}"
        found[name, model] = Line(name, "exact", model, label)
    return tuple(found.values())
