"""What an answer is drawn with is what it is paid for: of each kind, by what a unit really changes.

For every kind of question all units with up to one row more than is bounded are put through the
product's own contribution bounding, and what they change of the numbers that get noise is held
against the noise; of names that are chosen, the loss of each is enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

from mechanisms.central.exponential import ExponentialMechanism
from mechanisms.privacy.gaussian_filter import WHOLE, GaussianFilter, range_of_gaussian
from mechanisms.randomness import SecureRandom, SeededRandom
from mechanisms.sampling.rounded_normal import RoundedNormal
from pipelines.ask import questions, session
from pipelines.ask.questions import FiguresQuestion, Question, SelectionQuestion
from pipelines.ask.session import begun
from pipelines.journal.ask_session import AskSession
from pipelines.logs.inputs import UNREAD, Source
from pipelines.metrics.counting.options import CountOptions, SumOptions
from pipelines.metrics.mean.options import MeanOptions
from pipelines.metrics.resolving import resolve
from tests.oracles.contributions import levels_of, units

BUDGET = GaussianFilter(epsilon=1.0, delta=1e-6)
PARTS = WHOLE // 8
NAMED: Any = {"column": "n", "domain": "0..2"}
GROUPED: Any = {"group_by": "g", "groups": "0..1", "column": "n", "user_column": "u"}
USERS: Any = {**NAMED, "user_column": "u", "rows_per_user": 2, "per_value": 2}


class Case(NamedTuple):
    """A question, and the rows that a unit may have.

    Attributes:
        kind: of question.
        options: of its release.
        numbers: in a row; beyond the bounds, too.
        rows: how many a unit has, at the most.
    """

    kind: str
    options: Any
    numbers: tuple[float, ...] = (0.0,)
    rows: int = 3


CASES = {
    "count": Case("count", (CountOptions, {}), rows=1),
    "count-users": Case("count", (CountOptions, {"user_column": "u"})),
    "count-events": Case("count", (CountOptions, {"user_column": "u", "per_value": 2})),
    "counts": Case("count", (CountOptions, NAMED), rows=1),
    "counts-of-users": Case("count", (CountOptions, USERS), rows=5),
    "sum": Case(
        "sum",
        (SumOptions, {"column": "n", "bounds": "-2,3", "whole_numbers": True}),
        (-9.0, -2.0, 3.0, 9.0),
        1,
    ),
    "sums-of-users": Case(
        "sum",
        (SumOptions, {**GROUPED, "bounds": "-2,3", "whole_numbers": True, "rows_per_user": 2}),
        (-2.0, 1.0, 3.0),
        3,
    ),
    "mean": Case("mean", (MeanOptions, {"column": "n", "bounds": "-2,4"}), (-9.0, -2.0, 4.0), 1),
    "means-of-users": Case(
        "mean", (MeanOptions, {**GROUPED, "bounds": "-2,4", "rows_per_user": 2}), (-2.0, 4.0), 3
    ),
    "most-common": Case("most-common", (CountOptions, NAMED), rows=1),
    "most-common-of-users": Case("most-common", (CountOptions, USERS), rows=5),
    "first-above": Case("first-above", (CountOptions, NAMED), rows=1),
    "first-above-of-users": Case("first-above", (CountOptions, USERS), rows=5),
}


def asked(case: Case) -> Question:
    kind, words = case.options
    more: Any = {"drawn_by": "shuffler"}
    options = kind(input=("log.parquet",), output="out", epsilon=1.0, **words, **more)
    metric: Any = resolve(options, Source(telemetry=UNREAD))
    return questions.question(case.kind, metric, words, 5)


def kinds(of: type[Question] = Question) -> Iterator[type[Question]]:
    for kind in of.__subclasses__():
        yield from kinds(kind)
        if not kind.__abstractmethods__:
            yield kind


def test_every_kind_of_question_is_held_to_its_price() -> None:
    assert {type(asked(case)) for case in CASES.values()} == {*kinds()}


class Told(NamedTuple):
    """What a mechanism was handed, and which: before there is any noise."""

    exact: np.ndarray
    mechanism: Any


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What an answer to a log of one unit hands to its mechanism."""
    seen: list[Any] = []

    def drawn(self: RoundedNormal, size: int, rng: Any) -> np.ndarray:
        seen.append(self)
        return np.zeros(size, np.int64)

    def select(self: ExponentialMechanism, scores: Any, rng: Any, times: int = 1) -> np.ndarray:
        seen.append((self, np.asarray(scores)))
        return np.zeros(times, np.intp)

    def choose(self: Any, scores: Any, threshold: int, rng: Any) -> int:
        seen.append((self, np.asarray(scores)))
        return 0

    def handed(question: Question, rows: Any, seed: int) -> Told:
        levels = levels_of(question.metric, rows, seed)
        mechanism = question.mechanism(BUDGET.mu_of(PARTS))
        told = question.answer(levels, mechanism, SecureRandom())
        used = seen.pop()
        if "noisy" in told:
            return Told(np.array(told["noisy"], float), used)
        return Told(used[1].astype(float), used[0])

    monkeypatch.setattr(RoundedNormal, "draw", drawn)
    monkeypatch.setattr(ExponentialMechanism, "select", select)
    monkeypatch.setattr("mechanisms.central.exponential.FirstAbove.choose", choose)
    return handed


def changes(case: Case, question: Question, handed: Any) -> list[Told]:
    """What each unit adds to the numbers; the same changes are listed once."""
    found: dict[tuple[float, ...], Told] = {}
    for rows, seed in units(question.metric.reporting.amounts.groups, case.numbers, case.rows):
        told = handed(question, rows, seed)
        found.setdefault(tuple(told.exact), told)
    return [*found.values()]


@pytest.mark.parametrize("name", [name for name, case in CASES.items()])
def test_noise_is_what_a_unit_really_changes_over_the_mu_that_is_paid(
    name: str, handed: Any
) -> None:
    case = CASES[name]
    question = asked(case)
    each = changes(case, question, handed)
    mu = BUDGET.mu_of(PARTS)
    if isinstance(question, FiguresQuestion):
        norm = max(float(np.linalg.norm(told.exact)) for told in each)
        for told in each:
            assert told.mechanism.sigma * mu == pytest.approx(norm, rel=1e-9)
        # Of two logs in which a unit's rows are others: as if it was removed, and one added.
        apart = max(np.linalg.norm(a.exact - b.exact) for a, b in product(each, each))
        assert apart <= 2 * norm
        return
    assert isinstance(question, SelectionQuestion)
    assert min(told.exact.min() for told in each) >= 0, "a unit moves counts one way alone"
    (farthest,) = {max(told.exact.max() for told in each)}
    assert {told.mechanism.sensitivity for told in each} == {farthest}
    if name.startswith("most-common"):
        span = max(spans(told.mechanism, told.exact) for told in each)
        assert 0.9 * range_of_gaussian(mu) <= span <= range_of_gaussian(mu) * (1 + 1e-9)
    else:  # whose law at a span is enumerated in test_first_above.py
        assert {told.mechanism.span for told in each} == {range_of_gaussian(mu)}


def spans(mechanism: ExponentialMechanism, added: np.ndarray) -> float:
    """How far apart a unit's losses are, of any two names, over logs of few others."""
    worst = 0.0
    for others in product((0, 2, 40), repeat=added.size):
        before, after = (
            np.log(mechanism.probabilities(scores)) for scores in (others, others + added)
        )
        worst = max(worst, float(np.ptp(after - before)))
    return worst


@pytest.mark.parametrize("name", [name for name, case in CASES.items()])
def test_a_session_draws_from_the_mechanism_of_the_parts_that_it_keeps(
    name: str, handed: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was paid before: an eighth of the budget, and then a quarter."""
    case = CASES[name]
    question, used = asked(case), []
    answer = type(question).answer

    def spied(self: Question, levels: Any, mechanism: Any, rng: Any) -> Any:
        used.append(mechanism)
        return answer(self, levels, mechanism, rng)

    monkeypatch.setattr(type(question), "answer", spied)
    folder = str(tmp_path / "session")
    begun(folder, {"epsilon": 1.0, "delta": 1e-6, "unit": "row", "user_column": None}, None)
    levels = levels_of(question.metric, [(0, case.numbers[-1])], 1)
    for parts in (WHOLE // 8, WHOLE // 4):
        session.answered(
            folder, question, case.kind, parts, "files", f"{parts}", levels, SecureRandom()
        )
        kept = AskSession.read(folder).spent[-1].parts
        assert kept == parts
        assert question.mu(used[-1]) == pytest.approx(BUDGET.mu * math.sqrt(kept / WHOLE), rel=1e-9)


@pytest.mark.parametrize("off", [0.5, 0.99, 1.01, 2.0])
@pytest.mark.parametrize("name", ["means-of-users", "most-common-of-users", "first-above"])
def test_a_session_refuses_a_mechanism_that_is_not_paid_for(
    name: str, off: float, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The product holds sigma times mu to the norm by itself, and draws nothing where it is not."""
    case = CASES[name]
    question = asked(case)
    mechanism = type(question).mechanism
    monkeypatch.setattr(type(question), "mechanism", lambda self, mu: mechanism(self, off * mu))
    folder = str(tmp_path / "session")
    begun(folder, {"epsilon": 1.0, "delta": 1e-6, "unit": "row", "user_column": None}, None)
    levels = levels_of(question.metric, [(0, case.numbers[-1])], 1)
    rng, fresh = SeededRandom(1), SeededRandom(1)
    with pytest.raises(ArithmeticError, match="not what the answer is paid for"):
        session.answered(folder, question, case.kind, WHOLE // 8, "files", "id", levels, rng)
    assert rng.words(4).tolist() == fresh.words(4).tolist()
    assert AskSession.read(folder).answers == ()


def test_noise_has_the_deviation_of_its_mechanism() -> None:
    """Of 40,000 draws the deviation is off by 0.35 %: 2.5 % is passed with a probability below
    1e-11, and noise 5 % off is not told from it as seldom."""
    case = CASES["means-of-users"]
    question = asked(case)
    mechanism = question.mechanism(BUDGET.mu_of(PARTS))
    levels = [np.zeros(level.counters) for level in question.metric.reporting.amounts.levels]
    rng = SeededRandom(7)
    drawn = [question.answer(levels, mechanism, rng)["noisy"] for _ in range(10_000)]
    sigma = float(np.std(np.array(drawn).ravel()[:40_000]))
    assert sigma == pytest.approx(question.norm / BUDGET.mu_of(PARTS), rel=0.025)
    told = question.answer(levels, mechanism, rng)["variance"]
    assert told == pytest.approx(sigma**2, rel=0.05)
    assert replace(question).norm == question.norm
