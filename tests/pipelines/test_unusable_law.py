"""What is said, and withheld, for values that cannot be used follows the noisy share, and no count.

Frequencies are held to the exact law of the noise within 6.5 standard deviations and a count: a
false alarm in 1e-9 of runs of all of these tests together.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mechanisms.randomness import SeededRandom
from mechanisms.sampling.integer_noise import IntegerNoise
from pipelines.metrics import registry
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.resolving import resolve
from pipelines.metrics.unusable.share import ALL, MANY, Share
from pipelines.metrics.unusable.verdict import Verdict, verdict
from pipelines.request.requests import request
from tests.fakes.few import few
from tests.golden.fixed_randomness import fixed_randomness
from transforms.collector.collect_counts import Counted

RUNS = 600
FAR = 6.5


class Fixed:
    """A metric of which a share is known as far as it says, if it is sure enough."""

    unit = "row"

    def __init__(self, parts: Mapping[str, Share], where: tuple[str, ...] = ()) -> None:
        self._parts = {0.999: parts}
        asked = {"column": "x", "bounds": "0,1", "where": where, "drawn_by": "each-report"}
        self.options = request(MeanOptions, {"input": ("log.parquet",), "output": "out"} | asked)

    def unusable_parts(self, estimate: Any, confidence: float) -> Mapping[str, Share]:
        return self._parts[confidence]

    def unusable_cautions(self, estimate: Any, confidence: Any) -> list[str]:
        return []


def said(lower: float, narrows: bool = False) -> Verdict:
    """The verdict where the lower end is so."""
    metric: Any = Fixed({"": Share(1.0, lower, 1.0)}, ("y > 0",) * narrows)
    return verdict(metric, None)


def test_the_thresholds_are_those_that_are_documented() -> None:
    assert (MANY, ALL) == (0.05, 0.95)
    above, below = np.nextafter(0.95, 1), 0.95
    assert said(above).withheld is not None
    assert said(below).withheld is None
    assert said(below).cautions
    assert not said(0.05).cautions
    assert said(np.nextafter(0.05, 1)).cautions


def test_who_asks_of_a_few_is_cautioned_and_gets_it() -> None:
    assert said(0.96, narrows=True).withheld is None
    assert said(0.96, narrows=True).cautions
    assert not said(0.6, narrows=True).cautions


def test_a_row_of_which_one_part_can_be_used_is_published() -> None:
    none, some = Share(1.0, 0.99, 1.0), Share(0.5, 0.4, 0.6)
    metric: Any = Fixed({"a": none, "b": some})
    found = verdict(metric, None)
    assert found.withheld is None
    assert "a 100 %" in found.cautions[0]


def _law_of_mean(metric: Any, n: int, unusable: int) -> float:
    """The probability that `n` rows, of which some cannot be used, are withheld: by both laws."""
    side = metric.design.level_law(len(metric.reporting.levels) - 1)
    most = metric.reporting.amounts.most
    people = metric.design.error_law(2)
    none = np.arange(side.first, side.first + len(side.pmf))
    some = np.arange(people.first, people.first + len(people.pmf)) / most
    half = (1 + 0.999) / 2

    def far(law: IntegerNoise) -> float:
        return math.ceil(law.isf((1 - half) / 2))

    u = unusable + none - far(side)
    v = n - unusable + some + far(people) / most
    # A share above ALL is one of whose rest there is less than this; both ends rise.
    least = np.maximum(u, 0) * (1 - ALL) / ALL
    below = np.append(0.0, np.cumsum(people.pmf))
    return float(side.pmf @ below[np.searchsorted(np.maximum(v, 0), least)])


@pytest.mark.parametrize("kind", ["mean", "sum"])
def test_noise_alone_cautions_once_in_two_thousand_releases(kind: str, workspace: Path) -> None:
    """By the exact law of its counter, which has a hundredth of a small epsilon; of a log of 300.

    One row in a hundred cannot be used; who is cautioned is told of at least one in twenty.
    """
    pq.write_table(pa.table({"x": [1.0]}), "log.parquet")
    n, unusable = 300, 3
    asked = {"input": ["log.parquet"], "column": "x", "bounds": "0,1", "epsilon": 0.5,
             "output": "out", "expected": n}  # fmt: skip
    metric: Any = resolve(request(registry.options(kind), asked))
    numbers = np.where(np.arange(n) < unusable, np.nan, 1.0)
    raised = metric.reporting.totals(None, np.zeros(n, np.int64), numbers, n, SeededRandom(1))
    last, law = raised.size - 1, metric.design.level_law(len(metric.design.levels) - 1)
    assert raised[last] == unusable

    def warned(noise: int) -> str:
        counts = np.zeros(metric.mechanism.codes, np.int64)
        counts[: raised.size] = raised
        counts[last] += noise
        found = verdict(metric, Counted(counts, 0, 0))
        return " ".join((*found.cautions, found.withheld or ""))

    least = next(noise for noise in range(0, 40_000, 20) if "used" in warned(noise))
    assert 1e-5 < 1 - law.below(least - 1) <= 5e-4
    said = warned(least)
    assert "99.9 % confidence" in said
    assert "give or take" in said or re.search(r"\(\S+ to \S+ %\)", said)


@pytest.fixture
def mean(workspace: Path) -> Any:
    pq.write_table(pa.table({"x": [1.0]}), "log.parquet")
    kind = registry.options("mean")
    asked = {
        "input": ["log.parquet"], "column": "x", "bounds": "0,1", "epsilon": 2.0, "output": "out",
        "drawn_by": "shuffler", "expected": 4000,
    }  # fmt: skip
    options = request(kind, asked)
    return resolve(options)


def _raised(metric: Any, n: int, unusable: int) -> np.ndarray:
    """(codes,) what rows raise of which some have the number 1 and the others none."""
    numbers, codes = np.where(np.arange(n) < unusable, np.nan, 1.0), metric.design.codes
    words = metric.reporting.words(None, np.zeros(n, np.int64), numbers, n, SeededRandom(1))
    return sum((np.bincount(w.ravel(), minlength=codes) for w in words), np.zeros(codes, np.int64))


@pytest.mark.parametrize("unusable", few([1960, 0, 1900, 1990, 2000], lambda _: "a share"))
def test_how_often_a_mean_is_withheld_is_the_noises_law(mean: Any, unusable: int) -> None:
    n, rng = 2000, SeededRandom(7)
    raised = _raised(mean, n, unusable)
    expected = _law_of_mean(mean, n, unusable)
    batches = (Counted(mean.design.simulate(raised, rng), 0, 0) for _ in range(RUNS))
    found = sum(verdict(mean, batch).withheld is not None for batch in batches)
    spread = FAR * math.sqrt(RUNS * expected * (1 - expected)) + 1
    assert abs(found - RUNS * expected) <= spread
    # One row more or less changes how likely it is by what epsilon and delta allow, as all figures.
    near = _law_of_mean(mean, n, max(unusable - 1, 0))
    assert expected <= math.exp(mean.guarantees[0].epsilon) * near + 1e-6


def test_an_empty_log_and_one_that_is_just_usable_are_published(mean: Any) -> None:
    assert _law_of_mean(mean, 0, 0) <= 1e-3
    assert _law_of_mean(mean, 2000, 1900) <= 1e-3
    assert _law_of_mean(mean, 8000, 8000) > 1 - 1e-6


ONE = {
    "mean": ["--bounds", "0,9", "--min-reports", "500"],
    "distribution": ["--bounds", "0,9", "--drawn-by", "shuffler", "--expected", "3000"],
    "histogram": ["--domain", "domain.txt", "--min-reports", "500"],
}


@pytest.mark.parametrize("kind", [*ONE])
@pytest.mark.parametrize("some", [0, 1, 1500])
def test_one_row_more_changes_no_exit_code_message_or_file(
    workspace: Path, run, kind: str, some: int
) -> None:
    """Under the same noise, of neighbours: what nobody could use, and what somebody could."""
    Path("domain.txt").write_text("1\n2\n")
    ended = []
    for usable in (some, some + 1):
        cells = ["1"] * usable + ["1,5"] * (3000 - usable)
        Path("log.csv").write_text("x\n" + "".join(f'"{cell}"\n' for cell in cells))
        types = [] if kind == "histogram" else ["--types", "x=float"]
        words = [kind, "--input", "log.csv", "--column", "x", *types, *ONE[kind]]
        with fixed_randomness():
            outcome = run([*words, "--epsilon", "4", "--output", f"out{usable}"])
        files = sorted(path.name for path in Path(f"out{usable}").iterdir())
        statement = json.loads(Path(f"out{usable}/statement.json").read_text())
        err = re.sub(r"[0-9.]+", "#", outcome.err)
        ended.append((outcome.code, err, files, "withheld" in statement, [*statement]))
    assert ended[0] == ended[1]
    assert ended[0][0] == (1 if some < 100 else 0)
    assert ("unusable.parquet" in ended[0][2]) == (some < 100)
